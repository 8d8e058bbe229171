"""GAPS' encoder, actor and critic over one token per subflow, in the compact size; learns nothing itself."""

import math

import torch
from torch import nn

TOKENS = 8


class Layer(nn.Module):
    """A Transformer encoder, normalised after each half, that looks at present tokens only."""

    def __init__(self, embedding, heads, forward):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(embedding, embedding) for _ in range(4))
        self.wide = nn.Linear(embedding, forward)
        self.narrow = nn.Linear(forward, embedding)
        self.after_attention = nn.LayerNorm(embedding)
        self.after_forward = nn.LayerNorm(embedding)

    def forward(self, x, absence):
        batch, tokens, embedding = x.shape
        per_head = embedding // self.heads

        def split(projected):
            return projected.reshape(batch, tokens, self.heads, per_head).transpose(1, 2)

        query, key, value = split(self.query(x)), split(self.key(x)), split(self.value(x))
        scores = query @ key.transpose(2, 3) * (1.0 / math.sqrt(per_head)) + absence
        mixed = torch.softmax(scores, dim=3) @ value
        x = self.after_attention(x + self.out(mixed.transpose(1, 2).reshape(batch, tokens, embedding)))
        return self.after_forward(x + self.narrow(torch.relu(self.wide(x))))


class Encoder(nn.Module):
    """Tokens of 7 features to embeddings; positions are learned, one for each slot."""

    def __init__(self, features, embedding, layers, heads, forward):
        super().__init__()
        self.embed = nn.Linear(features, embedding)
        self.position = nn.Parameter(0.02 * torch.randn(TOKENS, embedding))
        self.layers = nn.ModuleList(Layer(embedding, heads, forward) for _ in range(layers))

    def forward(self, states):
        absence = (states[:, :, 0:1].reshape(-1, 1, 1, states.shape[1]) - 1.0) * 1e4
        x = self.embed(states) + self.position[: states.shape[1]]
        for layer in self.layers:
            x = layer(x, absence)
        return x


class Head(nn.Module):
    """48-48 with ReLU per token, then 1: the paper's sizes, the same weights for each subflow (ours)."""

    def __init__(self, inputs, hidden=48):
        super().__init__()
        self.first = nn.Linear(inputs, hidden)
        self.second = nn.Linear(hidden, hidden)
        self.last = nn.Linear(hidden, 1)


class Actor(Head):
    """A change of the GAP per token, in [-1, 1]; 0 for the absent."""

    def __init__(self, embedding):
        super().__init__(embedding)
        # Starts near no change: STMS' own GAP is where exploration should begin.
        nn.init.uniform_(self.last.weight, -3e-3, 3e-3)
        nn.init.zeros_(self.last.bias)

    def forward(self, features, states):
        x = torch.relu(self.second(torch.relu(self.first(features))))
        return (torch.tanh(self.last(x)) * states[:, :, 0:1]).reshape(states.shape[0], states.shape[1])


class Critic(Head):
    """The value of a change in a state: what each token and its change come to, summed over those present."""

    def __init__(self, embedding):
        super().__init__(embedding + 1)

    def forward(self, features, states, actions):
        present = states[:, :, 0:1]
        x = torch.cat([features, actions[:, :, None] * present], dim=2)
        x = (torch.relu(self.first(x)) * present).sum(1)
        return self.last(torch.relu(self.second(x)))[:, 0]


class Steering(nn.Module):
    """Encoder, actor and critic together; called, it is what is exported: the actor over the encoder."""

    def __init__(self, embedding=32, layers=2, heads=4, forward=64, features=7):
        super().__init__()
        self.encoder = Encoder(features, embedding, layers, heads, forward)
        self.actor = Actor(embedding)
        self.critic = Critic(embedding)

    def forward(self, states):
        return self.actor(self.encoder(states), states)
