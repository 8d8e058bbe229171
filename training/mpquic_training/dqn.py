"""Double deep Q-learning as the specification's section 15 has it; knows no network simulator.

Own code and not stable-baselines3's DQN: that one takes the maximum over the target network's own values, decays
epsilon linearly with time, and acts with the network that it learns; Lee & Yoo act with a copy that is refreshed
together with the target, and decay epsilon geometrically per action.
"""

import copy
from dataclasses import dataclass

import numpy as np
import torch

from .nets.chunk import Acting, Values
from .replay import Replay


@dataclass(frozen=True)
class Settings:
    """Defaults are the paper's, or where it is silent its code's. Ours: `floor`, `hold`, `average`, `huber`, `double`,
    `updates`, `decay_weights`, and all about a teacher."""

    hidden: tuple[int, ...] = (24, 24, 24)
    rate: float = 5e-4
    rate_end: float | None = None
    """Where Adam's step ends up, linearly over the run."""
    decay_weights: float = 0.0
    """How fast Adam lets weights fall, per step of size 1. Engines add in other orders: where large activations cancel,
    in states far from those of training, they differ."""
    batch: int = 20
    gamma: float = 0.5
    refresh: int = 50
    """Actions between refreshes of the target and of the network that acts."""
    decay: float = 0.997
    """Epsilon's factor per action; it starts at 1."""
    floor: float = 0.0
    """Epsilon's least value. The paper's 0 stops exploration after some 1500 actions."""
    hold: bool = False
    """Whether an action drawn by chance is kept to the episode's end: one of several decisions shows little."""
    memory: int = 100_000
    start: int = 20
    """Transitions before the first step of learning."""
    updates: float = 1.0
    """Steps of learning per action."""
    average: float = 0.0
    """What remains per step of learning in the average of the weights that is judged and kept; 0: the weights
    themselves. Actions differ by less in value than single steps move it."""
    huber: float | None = None
    """Errors above this count linearly; None: all count squared. A chunk on the wrong path takes ten times as long."""
    lessons: int = 0
    """Steps of learning at the start in which a teacher's actions are to be the best ones."""
    teach: tuple[float, float] = (0.0, 0.0)
    """The weight of that wish beside the error, at the start and at the end of the lessons' time (Hester et al. 2018)."""
    taught: float = 1.0
    """The part of the run after which the teacher's weight is what it is at the end."""
    margin: float = 0.1
    """By how much a teacher's action is to be better than each other one."""
    double: bool = True
    """The learned network picks the next action and the target network values it (van Hasselt 2016)."""


class Dqn:
    """The learned network, its target, and the copy that acts."""

    def __init__(self, settings, states, actions, seed, teacher=None):
        torch.manual_seed(seed)
        self.settings = settings
        self.teacher = teacher
        self.teach = settings.teach[0]
        self.actions = actions
        self.rng = np.random.default_rng([seed, 1])
        self.values = Values(states, actions, settings.hidden)
        self.averaged = copy.deepcopy(self.values).requires_grad_(False)
        self.optimiser = torch.optim.AdamW(
            self.values.parameters(), lr=settings.rate, weight_decay=settings.decay_weights
        )
        self.memory = Replay(settings.memory, (states,), (), np.int64)
        self.epsilon = 1.0
        self.held = None
        self.lessons = settings.lessons if teacher is not None else 0
        self.taken = 0
        self.owed = 0.0
        self.loss = 0.0
        self._refresh()

    def _refresh(self):
        self.target = copy.deepcopy(self.values).requires_grad_(False)
        self.acting = Acting(self.values)

    def act(self, state):
        """An action for a normalised state, by chance with probability epsilon."""
        if self.held is not None:
            action = self.held
        elif self.rng.random() < self.epsilon:
            action = int(self.rng.integers(self.actions))
            self.held = action if self.settings.hold else None
        else:
            action = int(np.argmax(self.acting(state)))
        self.epsilon = max(self.epsilon * self.settings.decay, self.settings.floor)
        self.taken += 1
        if self.taken % self.settings.refresh == 0:
            self._refresh()
        return action

    def greedy(self, state):
        """The best action as learned so far; the lowest of equals."""
        return int(np.argmax(Acting(self.averaged)(state)))

    def learn(self, progress):
        """The steps of learning that one action is worth. `progress`: how much of the run is over, 0 to 1."""
        settings = self.settings
        if len(self.memory) < max(settings.start, settings.batch):
            return
        if settings.rate_end is not None:
            for group in self.optimiser.param_groups:
                group["lr"] = settings.rate + (settings.rate_end - settings.rate) * progress
        if self.lessons:
            for _ in range(self.lessons):
                self._step()
            self.lessons = 0
            self._refresh()
        self.weigh(progress)
        self.owed += settings.updates
        while self.owed >= 1.0:
            self.owed -= 1.0
            self._step()

    def weigh(self, progress):
        """Gives the teacher the weight that it has at this part of the run."""
        first, last = self.settings.teach
        self.teach = first + (last - first) * min(progress / self.settings.taught, 1.0)

    def _step(self):
        states, actions, rewards, nexts, ends = self.memory.sample(self.settings.batch, self.rng)
        with torch.no_grad():
            there = self.target(nexts)
            if self.settings.double:
                best = self.values(nexts).argmax(1, keepdim=True)
                worth = there.gather(1, best)[:, 0]
            else:
                worth = there.max(1).values
            wanted = rewards + self.settings.gamma * worth * (1.0 - ends)
        # The error of the taken action alone; the others' targets are their own predictions (section 15).
        values = self.values(states)
        found = values.gather(1, actions[:, None])[:, 0]
        if self.settings.huber is None:
            loss = torch.nn.functional.mse_loss(found, wanted)
        else:
            loss = torch.nn.functional.smooth_l1_loss(found, wanted, beta=self.settings.huber)
        if self.teacher is not None and self.teach > 0.0:
            loss = loss + self.teach * self._wish(values, self.teacher(states)[:, None])
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self.optimiser.step()
        with torch.no_grad():
            for old, new in zip(self.averaged.parameters(), self.values.parameters()):
                old.lerp_(new, 1.0 - self.settings.average)
        self.loss += 0.01 * (loss.item() - self.loss)

    def _wish(self, values, best):
        """How far the teacher's actions are from being better than all others by the margin."""
        others = torch.full_like(values, self.settings.margin).scatter(1, best, 0.0)
        return ((values + others).max(1).values - values.gather(1, best)[:, 0]).mean()


def train(
    env, normalise, settings, seed, actions, curve, every=1000, check=None, stop=lambda: False, teacher=None
):
    """Takes `actions` actions in `env` and returns the `Dqn`.

    `env` is a gymnasium environment of flat states and discrete actions. Where its `info` has `transitions`, raw
    ones, those are stored instead of the step's own: rewards may come late, or never (section 15: no partial reward once
    all of the chunk was sent). `check(values, taken)` is called every `every` actions; what it returns, a dict, becomes
    part of the curve. `teacher(states)`, if there is one: tensors of normalised states to the actions to start from.
    """
    agent = Dqn(settings, int(np.prod(env.observation_space.shape)), int(env.action_space.n), seed, teacher)
    raw, _ = env.reset(seed=seed)
    state = normalise(raw)
    earned, episodes, total = 0.0, [], 0
    for taken in range(1, actions + 1):
        action = agent.act(state)
        raw_before = raw
        raw, reward, terminated, truncated, info = env.step(action)
        earned += reward
        for was, did, earns, then, end in info.get("transitions", [(raw_before, action, reward, raw, terminated)]):
            agent.memory.store(normalise(was), did, earns, normalise(then), end)
        agent.learn(taken / actions)
        state = normalise(raw)
        if terminated or truncated:
            episodes.append(earned)
            total += 1
            earned = 0.0
            agent.held = None
            raw, _ = env.reset()
            state = normalise(raw)
        if taken % every == 0 or taken == actions:
            more = check(agent.averaged, taken) if check else {}
            mean = float(np.mean(episodes)) if episodes else float("nan")
            curve.add(
                actions=taken, episodes=total, reward=mean, loss=agent.loss, epsilon=agent.epsilon, **more
            )
            episodes.clear()
            if stop():
                break
    return agent
