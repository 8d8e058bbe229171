"""A replay memory of fixed size, sampled uniformly; learns nothing."""

import numpy as np
import torch


class Replay:
    """The last `size` transitions."""

    def __init__(self, size, state, action, action_type=np.float32):
        self.states = np.zeros((size, *state), np.float32)
        self.nexts = np.zeros((size, *state), np.float32)
        self.actions = np.zeros((size, *action), action_type)
        self.rewards = np.zeros(size, np.float32)
        self.ends = np.zeros(size, np.float32)
        self.stored = 0

    def __len__(self):
        return min(self.stored, len(self.rewards))

    def store(self, state, action, reward, after, end):
        """`end`: nothing is expected of `after`."""
        at = self.stored % len(self.rewards)
        self.states[at] = state
        self.actions[at] = action
        self.rewards[at] = reward
        self.nexts[at] = after
        self.ends[at] = end
        self.stored += 1

    def sample(self, count, rng):
        """Tensors: states, actions, rewards, next states, ends."""
        at = rng.integers(len(self), size=count)
        parts = (self.states, self.actions, self.rewards, self.nexts, self.ends)
        return tuple(torch.from_numpy(part[at]) for part in parts)
