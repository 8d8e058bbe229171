"""A connection of the simulator stepped one decision at a time, with what each decision earned; learns nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
from mpquic_lab import gym

from .networks import Network


@dataclasses.dataclass(frozen=True)
class Taken:
    """A decision as the scheduler carried it out."""

    number: int
    action: tuple[float, ...]
    fell_back: bool
    """The answer could not be followed: the scheduler did what minRTT does."""
    at: float
    """Virtual time, s."""


@dataclasses.dataclass(frozen=True)
class Reward:
    """What a decision earned."""

    number: int
    reward: float
    done: bool
    """Whether the scheduler's episode ends with it."""
    at: float
    """Virtual time, s."""
    queue: float
    """The receiver's own out-of-order queue since the reward before, on average over the arrivals, kB. No sender knows
    it in time."""


@dataclasses.dataclass(frozen=True)
class News:
    """What happened up to a state, or up to the end."""

    state: np.ndarray | None
    """Flat, in raw units; None at the end."""
    rewards: tuple[Reward, ...]
    taken: tuple[Taken, ...]
    outcome: dict | None
    """At the end: the workload's and the transport's figures, as `mpquic_lab.gym.run_episode` returns them."""


class Session:
    """A connection whose server asks us for the decisions of one of the neural schedulers."""

    def __init__(
        self,
        kind: str,
        network: Network,
        workload: str,
        congestion: str = "olia",
        seed: int = 0,
        scheduler: dict | None = None,
    ) -> None:
        self._session = gym.Session(kind, network.describe(), workload, congestion, seed, scheduler)

    def next(self) -> News:
        """Runs on to the next state or the end. Raises `mpquic_lab.SimulationError` if the run fails."""
        state, rewards, info = self._session.next()
        return News(
            state,
            tuple(
                Reward(*reward, at, 1e-3 * queue)
                for reward, at, queue in zip(rewards, info["earned_at"], info["queues"], strict=True)
            ),
            tuple(Taken(number, tuple(action), *rest) for number, action, *rest in info["taken"]),
            info.get("outcome"),
        )

    def answer(self, outputs: np.ndarray) -> None:
        """Answers the last state: as many outputs as the scheduler's network has."""
        self._session.answer(outputs)

    def close(self) -> None:
        """Ends the simulation, wherever it is."""
        self._session.close()


def play(
    policy: Callable[[np.ndarray], np.ndarray],
    kind: str,
    network: Network,
    workload: str,
    congestion: str = "olia",
    seed: int = 0,
    scheduler: dict | None = None,
) -> tuple[dict, list[Reward]]:
    """A whole run in which `policy` answers each flat state: what it came to, and all that was earned."""
    session = Session(kind, network, workload, congestion, seed, scheduler)
    rewards: list[Reward] = []
    try:
        while True:
            news = session.next()
            rewards += news.rewards
            if news.state is None:
                return news.outcome, rewards
            session.answer(policy(news.state))
    finally:
        session.close()


def evaluate(
    scheduler: str,
    network: Network,
    workload: str,
    congestion: str = "olia",
    seed: int = 0,
    config: dict | None = None,
    client: str | None = None,
) -> dict:
    """A whole run with a scheduler of the registry, without Python in between; may run in several threads at once.

    The client has the same scheduler, as in the lab, unless `client` names another one; that of `Session` has minRTT.
    """
    return gym.run_episode(scheduler, network.describe(), workload, congestion, seed, config, client)
