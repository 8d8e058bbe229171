"""SAILfish's actor and critic with one encoder for all paths, so that their number may vary; learns nothing itself.

The thesis has a layer for each feature of each of two paths and one dense layer over all of them. Ours encodes every
path with the same layers, adds what the other paths look like (the sum over those present), and scores it.
"""

import torch
from torch import nn

HISTORY = 8
PATHS = 4


class Encoder(nn.Module):
    """Each path's features to `width` numbers that know of the other paths."""

    def __init__(self, filters, width):
        super().__init__()
        # The thesis: scalars through a dense layer each, the history of R through 128 filters of width 4. One layer
        # over all scalars holds those layers and what they can say together.
        self.scalars = nn.Linear(4, filters)
        self.history = nn.Conv1d(1, filters, 4)
        self.own = nn.Linear(filters * (HISTORY - 3) + filters, width)
        self.others = nn.Linear(width, width)
        # The sum over the other paths as a product: what bounds a file's cost before it is loaded knows a product's
        # shape, but not a sum's.
        self.register_buffer("rest", torch.ones(PATHS, PATHS) - torch.eye(PATHS), persistent=False)

    def forward(self, state):
        """`(batch, paths, 13)`, normalised, to `(batch, paths, width)`."""
        batch, paths, _ = state.shape
        present = state[:, :, 0:1]
        scalars = torch.cat([state[:, :, 1:3], state[:, :, 11:13]], dim=2)
        history = state[:, :, 3 : 3 + HISTORY].reshape(batch * paths, 1, HISTORY)
        history = torch.relu(self.history(history)).reshape(batch, paths, -1)
        x = torch.cat([torch.relu(self.scalars(scalars)), history], dim=2)
        own = torch.relu(self.own(x)) * present
        # A sum and not a mean over those present: 1 to 3 others differ by a factor that a layer copes with.
        return torch.relu(own + self.others(self.rest @ own))


class Actor(nn.Module):
    """A logit per path. Absent paths get one too: the scheduler masks them, as it masks the unusable."""

    def __init__(self, filters=32, width=64):
        super().__init__()
        self.encoder = Encoder(filters, width)
        self.logit = nn.Linear(width, 1)

    def forward(self, state):
        return self.logit(self.encoder(state)).reshape(state.shape[0], state.shape[1])


class Critic(nn.Module):
    """The value of a state."""

    def __init__(self, filters=32, width=64):
        super().__init__()
        self.encoder = Encoder(filters, width)
        self.value = nn.Linear(width, 1)

    def forward(self, state):
        present = state[:, :, 0:1]
        return self.value((self.encoder(state) * present).sum(dim=1)).reshape(-1)
