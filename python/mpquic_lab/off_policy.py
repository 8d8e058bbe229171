"""What another policy would have earned on a log: the estimates of `mpquic_bandit::OffPolicy`, over lines of its `Logged`.

    from mpquic_lab import off_policy

    log = off_policy.read("log.jsonl")            # one JSON object a line, as serde writes `Logged`
    always = np.eye(3)[np.zeros(len(log), int)]   # the policy that is judged: arm 0, whatever the context
    judged = off_policy.evaluate(log, always, model=off_policy.ridge(log))
    judged.snips.value, judged.doubly_robust.interval()

A line has the context, the arms that could be chosen, the arm that was with its probability, and the reward; larger is
better. What makes a log fit to be judged by is in the crate's documentation, with the sources of the formulas.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Log:
    """The lines of a log, as arrays with a row each."""

    contexts: Floats
    """The features, as the policy saw them."""
    eligible: npt.NDArray[np.bool_]
    """For each arm whether it could be chosen; as many columns as there are arms."""
    arms: npt.NDArray[np.int64]
    """The arm that was chosen."""
    probabilities: Floats
    """With which probability it was."""
    rewards: Floats

    def __len__(self) -> int:
        return len(self.rewards)

    @property
    def arm_count(self) -> int:
        """How many arms there are: one more than the highest that could be chosen."""
        return int(self.eligible.shape[1])


@dataclass(frozen=True)
class Estimate:
    """The reward of a decision, in the mean, and its standard error, in the unit of the rewards."""

    value: float
    error: float

    def interval(self, z: float = 1.96) -> tuple[float, float]:
        """`value` less and plus `z` standard errors.

        The default is 95 %, where there are many lines and no weight is far above the others.
        """
        return self.value - z * self.error, self.value + z * self.error


@dataclass(frozen=True)
class Evaluation:
    """What a policy would have earned, by several estimators."""

    ips: Estimate
    """By inverse propensities: no bias, a large spread."""
    snips: Estimate
    """The same, self-normalised: a bias of order 1/n, a smaller spread."""
    doubly_robust: Estimate
    """With a model of the reward: no bias if the probabilities or the model are right. `ips` without a model."""
    direct: Estimate
    """What the model alone expects."""
    lines: int
    effective_lines: float
    """How many lines of equal weight would say as much (Kish). Few: the policies are too different."""
    largest_weight: float


def parse(lines: Iterable[str]) -> Log:
    """A log of its lines; empty ones are left out. Raises `ValueError` with the number of a line that is none."""
    contexts, eligible, arms, probabilities, rewards = [], [], [], [], []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            logged = json.loads(line)
            choice = logged["choice"]
            arm, bits = int(choice["arm"]), int(logged["eligible"])
            contexts.append([float(x) for x in logged["context"]])
            probabilities.append(float(choice["probability"]))
            rewards.append(float(logged["reward"]))
        except (KeyError, TypeError, ValueError) as why:
            raise ValueError(f"line {number} is not one of a log: {why!r}") from why
        if not bits >> arm & 1:
            raise ValueError(f"line {number}: arm {arm} was chosen and could not be")
        if len(contexts[-1]) != len(contexts[0]):
            raise ValueError(f"line {number} has {len(contexts[-1])} features, the first one {len(contexts[0])}")
        arms.append(arm)
        eligible.append(bits)
    count = max(eligible, default=0).bit_length()
    bits_of = np.array(eligible, dtype=np.int64)[:, None] >> np.arange(count)[None, :]
    return Log(
        contexts=np.array(contexts, dtype=np.float64),
        eligible=(bits_of & 1).astype(bool),
        arms=np.array(arms, dtype=np.int64),
        probabilities=np.array(probabilities, dtype=np.float64),
        rewards=np.array(rewards, dtype=np.float64),
    )


def read(path: str | os.PathLike[str]) -> Log:
    """The log in a file of JSON lines."""
    with open(path, encoding="utf-8") as file:
        return parse(file)


def ridge(log: Log, penalty: float = 1.0) -> Floats:
    """A model of the reward: of each line and arm, what a ridge regression of that arm's rewards on the contexts expects.

    That is `LinUcb::means` with this ridge, started from the log. It is fitted to the lines that it is then used on: with
    few lines and many features, fit it on other ones.
    """
    features = log.contexts.shape[1]
    means = np.zeros((len(log), log.arm_count))
    for arm in range(log.arm_count):
        own = log.contexts[log.arms == arm]
        square = own.T @ own + penalty * np.eye(features)
        means[:, arm] = log.contexts @ np.linalg.solve(square, own.T @ log.rewards[log.arms == arm])
    return means


def evaluate(log: Log, target: npt.ArrayLike, model: npt.ArrayLike | None = None, *, clip: float = math.inf) -> Evaluation:
    """What the policy would have earned that takes each arm with the probability `target[line, arm]`.

    `model[line, arm]` is what a model of the reward expects, for `doubly_robust` and `direct`. Weights above `clip` count as
    `clip`. Raises `ValueError` where shapes or probabilities are none, or where a reward is not finite.
    """
    lines = len(log)
    shape = (lines, log.arm_count)
    policy = np.asarray(target, dtype=np.float64)
    expects = np.zeros(shape) if model is None else np.asarray(model, dtype=np.float64)
    for name, array in (("target", policy), ("model", expects)):
        if array.shape != shape:
            raise ValueError(f"{name} has the shape {array.shape}, expected {shape}: a row a line, a column an arm")
    taken = np.arange(lines), log.arms
    if not (np.all((policy >= 0) & (policy <= 1)) and np.all((log.probabilities > 0) & (log.probabilities <= 1))):
        raise ValueError("a probability is not from 0 to 1, or a logged one not above 0")
    if not (np.all(np.isfinite(log.rewards)) and np.all(np.isfinite(expects))):
        raise ValueError("a reward is not finite")
    if not clip > 0:
        raise ValueError(f"clip is {clip}, expected a number above 0")
    weights = np.minimum(policy[taken] / log.probabilities, clip)
    expected = (policy * expects).sum(axis=1)
    total, squares = float(weights.sum()), float((weights**2).sum())
    if total > 0:
        value = float((weights * log.rewards).sum()) / total
        residuals = float((weights**2 * (log.rewards - value) ** 2).sum())
        snips = Estimate(value, math.sqrt(residuals) / total)
    else:
        snips = Estimate(0.0, math.inf)
    return Evaluation(
        ips=_mean(weights * log.rewards),
        snips=snips,
        doubly_robust=_mean(expected + weights * (log.rewards - expects[taken])),
        direct=_mean(expected),
        lines=lines,
        effective_lines=total * total / squares if squares > 0 else 0.0,
        largest_weight=float(weights.max(initial=0.0)),
    )


def _mean(samples: Floats) -> Estimate:
    if len(samples) == 0:
        return Estimate(0.0, math.inf)
    error = float(samples.std(ddof=1)) / math.sqrt(len(samples)) if len(samples) > 1 else math.inf
    return Estimate(float(samples.mean()), error)
