"""Advantage actor-critic as the specification's section 16 has it, defects of the code repaired; knows no simulator.

Own code and not stable-baselines3's A2C: rewards come per stream, out of order and long after their decision; an
update takes whole pages and not a fixed number of steps; actor and critic are apart, with a rate each; and which paths
may be chosen differs from state to state.
"""

from collections import deque
from dataclasses import dataclass

import numpy as np
import torch

FORBIDDEN = -1e9


@dataclass(frozen=True)
class Settings:
    """Defaults are the thesis code's; `group`, `normalise`, `clip` and the end of the entropy's fall are ours."""

    gamma: float = 0.99
    actor_rate: float = 1e-4
    critic_rate: float = 1e-3
    pages: int = 8
    """Pages per update."""
    entropy: tuple[float, float] = (2.0, 0.1)
    entropy_pages: int = 4000
    """Pages over which the entropy's weight falls from the first to the second."""
    group: int = 1
    """Pages in a row that are loads of the same page over the same network: what their returns at the same decision
    have in common is taken off the advantages. A divisor of `pages`."""
    normalise: bool = False
    """Whether advantages of a batch are given deviation 1."""
    clip: float | None = None
    """Most that the gradient's norm may be."""


def returns(rewards, gamma):
    """`G_t = r_t + gamma G_(t+1)` with `G_last = r_last`: the thesis' code sets the last to 0 and forgets its reward."""
    out = np.zeros(len(rewards), np.float32)
    following = 0.0
    for i in reversed(range(len(rewards))):
        following = rewards[i] + gamma * following
        out[i] = following
    return out


def without_common(advantages, lengths, group):
    """`advantages` of pages one after another, less the mean at the same decision over each `group` of pages."""
    ends = np.cumsum(lengths)
    pages = [advantages[end - length : end] for end, length in zip(ends, lengths)]
    out = []
    for first in range(0, len(pages), group):
        alike = pages[first : first + group]
        longest = max(len(page) for page in alike)
        table = np.full((len(alike), longest), np.nan, np.float32)
        for row, page in zip(table, alike):
            row[: len(page)] = page
        common = np.nanmean(table, axis=0)
        out += [page - common[: len(page)] for page in alike]
    return np.concatenate(out).astype(np.float32)


@dataclass
class Page:
    """The decisions of one episode in order. `rewards` by decision; a decision that never earned one is left out."""

    states: list
    actions: list
    rewards: dict

    def arrays(self, gamma):
        known = [i for i in range(len(self.actions)) if i in self.rewards]
        rewards = [self.rewards[i] for i in known]
        return (
            np.array([self.states[i] for i in known], np.float32).reshape(-1, *np.shape(self.states)[1:]),
            np.array([self.actions[i] for i in known], np.int64),
            returns(rewards, gamma),
        )


class A2c:
    """Actor and critic, and the pages that the next update takes."""

    def __init__(self, settings, actor, critic, seed):
        self.settings = settings
        self.actor = actor
        self.critic = critic
        self.rng = np.random.default_rng([seed, 2])
        # RMSProp as TensorFlow 1 had it: decay 0.9.
        self.actor_step = torch.optim.RMSprop(actor.parameters(), lr=settings.actor_rate, alpha=0.9)
        self.critic_step = torch.optim.RMSprop(critic.parameters(), lr=settings.critic_rate, alpha=0.9)
        self.batch = []
        self.pages = 0
        self.spread = 0.0
        self.loss = 0.0

    @torch.no_grad()
    def act(self, state, allowed):
        """A path by chance, by the softmax over those that may be chosen."""
        logits = self.actor(torch.from_numpy(state[None]))[0].numpy()
        logits = np.where(allowed, logits, FORBIDDEN)
        weights = np.exp(logits - logits.max())
        return int(self.rng.choice(len(weights), p=weights / weights.sum()))

    def page(self, page):
        """Takes a page in, and learns when enough are there."""
        self.pages += 1
        self.batch.append(page.arrays(self.settings.gamma))
        if len(self.batch) < self.settings.pages:
            return
        if any(len(part[1]) for part in self.batch):
            states, actions, gains = (np.concatenate(parts) for parts in zip(*self.batch))
            lengths = [len(page[1]) for page in self.batch]
            self._learn(torch.from_numpy(states), torch.from_numpy(actions), torch.from_numpy(gains), lengths)
        # The thesis' code never empties this list: each later page applies all old gradients once more.
        self.batch.clear()

    def entropy_weight(self):
        first, last = self.settings.entropy
        over = min(self.pages / self.settings.entropy_pages, 1.0)
        return first + (last - first) * over

    def _learn(self, states, actions, gains, lengths):
        value = self.critic(states)
        advantage = gains - value.detach()
        if self.settings.group > 1:
            advantage = torch.from_numpy(without_common(advantage.numpy(), lengths, self.settings.group))
        if self.settings.normalise:
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-6)
        absent = states[:, :, 0] < 0.5
        chances = torch.log_softmax(self.actor(states).masked_fill(absent, FORBIDDEN), dim=1)
        taken = chances.gather(1, actions[:, None])[:, 0]
        entropy = -(chances.exp() * chances.masked_fill(absent, 0.0)).sum(1).mean()
        actor_loss = -(taken * advantage).mean() - self.entropy_weight() * entropy
        critic_loss = torch.nn.functional.mse_loss(value, gains)
        for loss, step, network in (
            (actor_loss, self.actor_step, self.actor),
            (critic_loss, self.critic_step, self.critic),
        ):
            step.zero_grad(set_to_none=True)
            loss.backward()
            if self.settings.clip is not None:
                torch.nn.utils.clip_grad_norm_(network.parameters(), self.settings.clip)
            step.step()
        self.spread = entropy.item()
        self.loss = critic_loss.item()


def play(env, act, normalise):
    """One episode of `env` with `act(state, allowed)`; returns its `Page`.

    Where `info` has `rewards`, a list of `(decision, reward)` with decisions counted from 0 within the episode, those
    count; else a step's reward is its own decision's.
    """
    raw, _ = env.reset()
    page = Page([], [], {})
    done = False
    while not done:
        state = normalise(raw)
        action = act(state, state[:, 0] > 0.5)
        decision = len(page.actions)
        page.states.append(state)
        page.actions.append(action)
        raw, reward, terminated, truncated, info = env.step(action)
        for number, worth in info["rewards"] if "rewards" in info else [(decision, reward)]:
            page.rewards[number] = worth
        done = terminated or truncated
    return page


def train(env, normalise, settings, actor, critic, seed, pages, curve, every=100, check=None, stop=lambda: False):
    """Plays `pages` episodes of `env` and returns the `A2c`. `check(actor, pages)` as in `dqn.train`."""
    agent = A2c(settings, actor, critic, seed)
    env.reset(seed=seed)
    recent = deque(maxlen=every)
    for number in range(1, pages + 1):
        page = play(env, agent.act, normalise)
        agent.page(page)
        recent.append(float(np.mean(list(page.rewards.values()))) if page.rewards else np.nan)
        if number % every == 0 or number == pages:
            more = check(agent.actor, number) if check else {}
            curve.add(
                pages=number,
                reward=float(np.nanmean(recent)),
                critic_loss=agent.loss,
                entropy=agent.spread,
                entropy_weight=agent.entropy_weight(),
                **more,
            )
            if stop():
                break
    return agent
