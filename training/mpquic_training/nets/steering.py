"""GAPS' policy with the critic that teaches it, both on one encoder; learns nothing itself."""

import torch
from torch import nn

from . import gaps


class Change(nn.Module):
    """What follows the encoder in the policy, by itself: a change of the GAP per token, in [-1, 1]."""

    def __init__(self, policy):
        super().__init__()
        self.first, self.second, self.last = policy.first, policy.second, policy.last

    def forward(self, features, states):
        x = torch.relu(self.second(torch.relu(self.first(features))))
        return (torch.tanh(self.last(x)) * states[:, :, 0:1]).squeeze(-1)


class Critic(nn.Module):
    """The value of a change in a state: what each token and its change come to, summed over those present; 48-48 as in
    the paper, ReLU, linear output."""

    def __init__(self, embedding, hidden=48):
        super().__init__()
        self.first = nn.Linear(embedding + 1, hidden)
        self.second = nn.Linear(hidden, hidden)
        self.last = nn.Linear(hidden, 1)

    def forward(self, features, states, actions):
        present = states[:, :, 0:1]
        x = torch.cat([features, actions[:, :, None] * present], dim=2)
        x = (torch.relu(self.first(x)) * present).sum(1)
        return self.last(torch.relu(self.second(x)))[:, 0]


class Steering(nn.Module):
    """Policy and critic; called, it is the policy, which is what is exported."""

    def __init__(self, size=gaps.SMALL, features=9):
        super().__init__()
        self.policy = gaps.Actor(size, features=features)
        self.encoder = self.policy.encoder
        self.actor = Change(self.policy)
        self.critic = Critic(size.embedding)

    def forward(self, states):
        return self.policy(states)
