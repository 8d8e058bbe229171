"""GAPS' networks: a Transformer encoder over paths, and the actor on top of it; trains and exports nothing.

The encoder is the paper's (Liao et al. 2021, sections III to V): paths as tokens, a learned code for each place, so
that any number of paths up to 8 works. The paper leaves open the number of heads, the feed-forward layer's width, and
what an absent path looks like; these are ours, and so is the compact size. All is written in the operators that the
sender's compiled plan runs: products, sums, softmax, layer normalisation, ReLU, tanh.
"""

from dataclasses import dataclass

import torch
from torch import nn

# Added to the attention scores of absent paths: e to that power is 0 in f32, and no sum overflows.
MASK = 1e4
# The last layer's weights at the start, as in DDPG's paper (Lillicrap et al. 2016, section 7): changes near 0, so
# that an untrained policy leaves all gaps where STMS would start them.
LAST = 3e-3


@dataclass(frozen=True)
class Size:
    """How large an encoder is."""

    embedding: int
    layers: int
    heads: int
    forward: int


SMALL = Size(embedding=32, layers=2, heads=4, forward=64)
PAPER = Size(embedding=512, layers=6, heads=8, forward=2048)


class Attention(nn.Module):
    """Every path looks at every path that is there."""

    def __init__(self, size):
        super().__init__()
        self.heads = size.heads
        self.scale = (size.embedding // size.heads) ** -0.5
        self.query, self.key, self.value, self.merge = (nn.Linear(size.embedding, size.embedding) for _ in range(4))

    def forward(self, x, mask):
        batch, tokens, embedding = x.shape

        def heads(projected):
            return projected.reshape(batch, tokens, self.heads, embedding // self.heads)

        query = heads(self.query(x)).permute(0, 2, 1, 3)
        key = heads(self.key(x)).permute(0, 2, 3, 1)
        value = heads(self.value(x)).permute(0, 2, 1, 3)
        weights = torch.softmax(query @ key * self.scale + mask, dim=-1)
        return self.merge((weights @ value).permute(0, 2, 1, 3).reshape(batch, tokens, embedding))


class Layer(nn.Module):
    """One encoder, normalised after each sum as in the first Transformer."""

    def __init__(self, size):
        super().__init__()
        self.attention = Attention(size)
        self.after_attention = nn.LayerNorm(size.embedding)
        self.wide = nn.Linear(size.embedding, size.forward)
        self.narrow = nn.Linear(size.forward, size.embedding)
        self.after_forward = nn.LayerNorm(size.embedding)

    def forward(self, x, mask):
        x = self.after_attention(x + self.attention(x, mask))
        return self.after_forward(x + self.narrow(torch.relu(self.wide(x))))


class Encoder(nn.Module):
    """`(batch, tokens, features)`, normalised, to `(batch, tokens, embedding)`. Feature 0 is 1 for a path that is there."""

    def __init__(self, size=SMALL, tokens=8, features=9):
        super().__init__()
        self.embed = nn.Linear(features, size.embedding)
        self.place = nn.Parameter(torch.randn(tokens, size.embedding) * 0.02)
        self.layers = nn.ModuleList(Layer(size) for _ in range(size.layers))

    def forward(self, state):
        batch, tokens, _ = state.shape
        mask = (state[:, :, 0:1].reshape(batch, 1, 1, tokens) - 1.0) * MASK
        x = self.embed(state) + self.place
        for layer in self.layers:
            x = layer(x, mask)
        return x


class Actor(nn.Module):
    """The policy: `(batch, tokens, features)`, normalised, to `(batch, tokens)` in [-1, 1], 0 for absent paths."""

    def __init__(self, size=SMALL, tokens=8, features=9, hidden=48):
        super().__init__()
        self.encoder = Encoder(size, tokens, features)
        self.first = nn.Linear(size.embedding, hidden)
        self.second = nn.Linear(hidden, hidden)
        self.last = nn.Linear(hidden, 1)
        for parameter in (self.last.weight, self.last.bias):
            nn.init.uniform_(parameter, -LAST, LAST)

    def forward(self, state):
        batch, tokens, _ = state.shape
        x = torch.relu(self.first(self.encoder(state)))
        x = torch.relu(self.second(x))
        return (torch.tanh(self.last(x)) * state[:, :, 0:1]).reshape(batch, tokens)
