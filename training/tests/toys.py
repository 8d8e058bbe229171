"""Environments of the real ones' spaces, each with one thing to learn; simulate no network."""

import gymnasium
import numpy as np


class Chunk(gymnasium.Env):
    """Four decisions; the right one is 6 where path 2's R (feature 3) is below 100 ms, else 5. A miss earns less,
    now and at the end."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (10,), np.float32)
    action_space = gymnasium.spaces.Discrete(7)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.right = 0, 0
        return self._draw(), {}

    def _draw(self):
        self.state = self.np_random.uniform(0, 200, 10).astype(np.float32)
        return self.state

    def step(self, action):
        good = action == (6 if self.state[3] < 100 else 5)
        self.at += 1
        self.right += good
        done = self.at == 4
        return self._draw(), float(good) + done * self.right / 2, done, False, {}


class Page(gymnasium.Env):
    """Streams to up to 4 paths; a stream takes R (feature 3) of its path, the first two are always there. Rewards
    come late: all of a page at its end."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4, 13), np.float32)
    action_space = gymnasium.spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.late = []
        return self._draw(), {}

    def _draw(self):
        self.state = np.zeros((4, 13), np.float32)
        self.state[:, 0] = [1, 1, *self.np_random.integers(0, 2, 2)]
        self.state[:, 3:11] = self.np_random.uniform(10, 240, (4, 1)) * self.state[:, :1]
        return self.state

    def step(self, action):
        assert self.state[action, 0] == 1, "an absent path was chosen"
        self.late.append((len(self.late), -float(self.state[action, 3]) / 120))
        done = len(self.late) == 6
        return self._draw(), 0.0, done, False, {"rewards": self.late[::-1] if done else []}


class Gap(gymnasium.Env):
    """Each of the present paths has a GAP (feature 2, packets) to bring to 100 by changes of up to 40."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (8, 9), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (8,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        self.present = (np.arange(8) < self.np_random.integers(2, 5)).astype(np.float32)
        self.gap = self.np_random.uniform(0, 200, 8).astype(np.float32)
        return self._state(), {}

    def _state(self):
        state = np.zeros((8, 9), np.float32)
        state[:, 0] = self.present
        state[:, 2] = self.gap * self.present
        return state

    def step(self, action):
        self.gap = np.clip(self.gap + 40 * action, 0, 200).astype(np.float32)
        self.at += 1
        off = float((np.abs(self.gap - 100) * self.present).sum() / self.present.sum())
        return self._state(), -off / 100, False, self.at == 10, {}
