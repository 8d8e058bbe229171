"""Rewards that recipes put in other units: what is left of them is the time, or the queue, that they are about."""

import gymnasium
import numpy as np
import pytest
import torch
from mpquic_training import recipes
from mpquic_training.networks import Network, Path

FAST = Network("fast", (Path(30, 5), Path(10, 50)))


class Scripted(gymnasium.Env):
    """Says what it is given."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (10,), np.float32)
    action_space = gymnasium.spaces.Discrete(7)
    networks = (FAST,)
    workloads = ("w",)

    def __init__(self, first, answers):
        self.first, self.answers, self.resets = first, iter(answers), []

    def reset(self, *, seed=None, options=None):
        self.resets.append(options)
        return self.first, {"network": "fast", "workload": "w", "seed": len(self.resets)}

    def step(self, action):
        return next(self.answers)


def chunk_state(waiting, elapsed):
    state = np.zeros(10, np.float32)
    state[8], state[9] = waiting, elapsed
    return state


def test_a_chunks_costs_are_its_time_however_chunks_overlap():
    size, other = 625_000, 300_000
    a0, a1 = chunk_state(size, 0.0), chunk_state(400_000, 0.05)
    b0, b1 = chunk_state(other, 0.01), chunk_state(100_000, 0.06)

    def end(time, size):
        return (100 + (1000 - 1000 * time) * size / 1e6) / 100

    none = np.zeros(10, np.float32)
    transitions = [
        (a0, 6, 1.6, a1, False),
        (b0, 6, 1.0, b1, False),
        (a1, 6, end(0.3, size), none, True),
        (b1, 6, end(0.2, other), none, True),
    ]
    env = recipes.Hurry(Scripted(a0, [(a1, 0.0, False, False, {"transitions": transitions})]))
    env.reset()
    *_, info = env.step(6)
    costs = [transition[2] for transition in info["transitions"]]
    best = [0.01 + 8e-6 * bytes_ / 40 for bytes_ in (size, other)]
    assert costs[0] == pytest.approx(-0.05 / best[0])
    assert costs[2] == pytest.approx(-0.25 / best[0], rel=1e-4)
    assert costs[1] == pytest.approx(-0.05 / best[1])
    assert costs[3] == pytest.approx(-0.14 / best[1], rel=1e-4)


def test_a_streams_reward_is_its_time_over_the_usual(monkeypatch):
    monkeypatch.setattr(recipes.evaluate, "run", lambda *_: {"stream_mean": 0.5})
    state = np.zeros((4, 13), np.float32)
    state[:2, 0] = 1
    state[:2, 1] = [80, 20]
    state[:2, 3] = [25, 61]
    took = 0.7
    merit = (20 - 1) / 99 - 0.8 * (24 / 120 + 60 / 120)
    answer = (state, 0.0, True, False, {"rewards": [(0, merit - took)]})
    env = recipes.Relative(Scripted(state, [answer]))
    env.reset()
    *_, info = env.step(1)
    assert info["rewards"] == [(0, pytest.approx(-0.7 / 0.5))]


def test_draws_come_again_and_then_others():
    env = recipes.Again(Scripted(np.zeros(1), []), 3)
    for _ in range(6):
        env.reset()
    options = env.env.resets
    assert options[0] is None and options[3] is None
    assert options[1] == options[2] == {"network": FAST, "workload": "w", "seed": 1}
    assert options[4]["seed"] == 4


def test_gaps_teacher_aims_at_the_start_of_stms():
    state = torch.zeros(1, 8, 9)
    # d 20 and 60 ms, c 50 packets, GAPs 0 and 46: wanted are 0 and 50 * (3 - 1) / 2 = 50.
    state[0, :2, 0] = 1
    state[0, :2, 1] = torch.tensor([0.2, 0.6])
    state[0, :2, 2] = torch.tensor([0.5, 0.3])
    state[0, :2, 7] = torch.tensor([0.0, 0.46])
    assert recipes.starting_gaps(state)[0].tolist() == pytest.approx([0, 0.5] + [0] * 6, abs=1e-5)
    state[0, 1, 7] = 3.0
    assert recipes.starting_gaps(state)[0, 1] == -1.0


def test_the_chunk_teacher_waits_for_the_fast_path_only_where_the_other_is_far():
    states = torch.zeros(2, 10)
    # R1 20 ms, W1 100 kB, 300 kB to be sent: 60 ms on path 1 alone. R2 100 and 200 ms.
    states[:, 0], states[:, 1], states[:, 7] = 0.2, 1.0, 3.0
    states[:, 3] = torch.tensor([1.0, 2.0])
    assert recipes.first_alone(states).tolist() == [6, 5]


class Failing(Scripted):
    def step(self, action):
        from mpquic_training.envs import SimulationError

        raise SimulationError("no end")

    def close(self):
        pass


def test_a_run_that_fails_ends_its_episode():
    pytest.importorskip("mpquic_lab.gym", reason="the simulator's module is not installed")
    env = recipes.Steady(Failing(np.ones(3), []))
    env.reset()
    state, reward, terminated, truncated, info = env.step(0)
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert state.tolist() == [1, 1, 1] and info["transitions"] == []
