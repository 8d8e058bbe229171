"""Values of actions by rollouts: what is left of a chunk's time if one action is held to its end; knows no simulator.

Monte Carlo control with exploring starts over the network of section 15. Double Q-learning (`dqn`) learns from what
the next state is believed to be worth, and in chunks of a few decisions that belief is wrong by more than most actions
differ: its policies came out level with minRTT. Here nothing is bootstrapped. A chunk follows the policy for a few
decisions and then one action, drawn by chance, to the end; every decision of it is a sample of `what was left then`.
Choosing the best of such values is one step of policy improvement over all policies that hold an action (the rollout
algorithm of Bertsekas and Tsitsiklis), and the states it is learned in are those that the policy leads to.
"""

import copy
from dataclasses import dataclass

import numpy as np
import torch

from .nets.chunk import Acting, Values


@dataclass(frozen=True)
class Settings:
    """All ours, but for the network."""

    hidden: tuple[int, ...] = (24, 24, 24)
    rate: float = 2e-3
    rate_end: float = 2e-5
    batch: int = 256
    memory: int = 400_000
    start: int = 500
    """Samples before the first step of learning."""
    refresh: int = 200
    """Steps of learning between refreshes of the network that acts."""
    average: float = 0.999
    """What remains per step in the average of the weights, which is what is judged and kept."""
    first: float = 0.25
    """The share of the run in which chunks hold one action from their first decision on."""
    prefixes: tuple[int, ...] = (0, 0, 1, 2, 4)
    """From then on, for how many decisions a chunk follows the policy; one of these."""
    draw: tuple[float, ...] = (0.04, 0.06, 0.1, 0.2, 0.2, 0.2, 0.2)
    """How often each action is held. Those that are far off on most networks need fewer samples."""
    worst: float = -12.0
    """What a sample is worth at least. Beyond that it is only bad, and would drown the others."""


class Rollouts:
    """The samples, the network that learns from them, and its average."""

    def __init__(self, settings, states, seed):
        torch.manual_seed(seed)
        self.settings = settings
        self.rng = np.random.default_rng([seed, 2])
        self.values = Values(states, len(settings.draw), settings.hidden)
        self.averaged = copy.deepcopy(self.values).requires_grad_(False)
        self.optimiser = torch.optim.Adam(self.values.parameters(), lr=settings.rate)
        self.states = np.zeros((settings.memory, states), np.float32)
        self.actions = np.zeros(settings.memory, np.int64)
        self.worth = np.zeros(settings.memory, np.float32)
        self.samples = 0
        self.steps = 0
        self.loss = 0.0
        self.acting = Acting(self.values)

    def store(self, state, action, worth):
        """A decision and what its chunk was worth from then on."""
        at = self.samples % len(self.worth)
        self.states[at], self.actions[at] = state, action
        self.worth[at] = max(worth, self.settings.worst)
        self.samples += 1

    def learn(self, progress):
        """One step. `progress`: how much of the run is over, 0 to 1."""
        if self.samples < self.settings.start:
            return
        settings = self.settings
        for group in self.optimiser.param_groups:
            group["lr"] = settings.rate + (settings.rate_end - settings.rate) * progress
        some = self.rng.integers(0, min(self.samples, settings.memory), settings.batch)
        found = self.values(torch.from_numpy(self.states[some]))
        found = found.gather(1, torch.from_numpy(self.actions[some])[:, None])[:, 0]
        loss = torch.nn.functional.smooth_l1_loss(found, torch.from_numpy(self.worth[some]))
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self.optimiser.step()
        self.steps += 1
        # Until there is something to average, the average follows closely.
        follow = max(1.0 - settings.average, 0.02 if self.steps <= 2000 else 0.0)
        with torch.no_grad():
            for old, new in zip(self.averaged.parameters(), self.values.parameters()):
                old.lerp_(new, follow)
        self.loss += 0.01 * (loss.item() - self.loss)
        if self.steps % settings.refresh == 0:
            self.acting = Acting(self.values)


def preferring(values, action, margin):
    """A copy that takes another action than this one only where it is worth more by this margin."""
    copied = copy.deepcopy(values)
    with torch.no_grad():
        list(copied.parameters())[-1][action] += margin
    return copied


def train(env, normalise, settings, seed, chunks, curve, every=1000, check=None, stop=lambda: False):
    """Plays `chunks` chunks in `env`, an environment whose episodes are chunks, and returns the `Rollouts`.

    `info["transitions"]` has `(state, action, worth, next, done)`, raw; the worths of a chunk's transitions add up to
    what it is worth. Chunks may overlap: each transition continues the one that ended in its state.
    """
    agent = Rollouts(settings, int(np.prod(env.observation_space.shape)), seed)
    raw, _ = env.reset(seed=seed)
    chains, worths, played = {}, [], 0
    follows, decisions, held = 0, 0, int(agent.rng.choice(len(settings.draw), p=settings.draw))
    while played < chunks:
        action = int(np.argmax(agent.acting(normalise(raw)))) if decisions < follows else held
        raw, _, terminated, truncated, info = env.step(action)
        decisions += 1
        for was, did, earns, then, done in info["transitions"]:
            chain = chains.pop(was.tobytes(), [])
            chain.append((was, did, earns))
            if not done:
                chains[then.tobytes()] = chain
                continue
            worth = 0.0
            for state, taken, earned in reversed(chain):
                worth += earned
                agent.store(normalise(state), taken, worth)
            worths.append(worth)
        agent.learn(played / chunks)
        if not (terminated or truncated):
            continue
        played += 1
        decisions = 0
        held = int(agent.rng.choice(len(settings.draw), p=settings.draw))
        follows = int(agent.rng.choice(settings.prefixes)) if played > settings.first * chunks else 0
        raw, info = env.reset()
        if info.get("network") is not None:
            # Another connection: what was open on the last one ends nowhere.
            chains.clear()
        if played % every == 0 or played == chunks:
            more = check(agent.averaged, played) if check else {}
            mean = float(np.mean(worths)) if worths else float("nan")
            curve.add(chunks=played, samples=agent.samples, worth=mean, loss=agent.loss, **more)
            worths.clear()
            if stop():
                break
    return agent
