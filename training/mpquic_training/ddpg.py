"""Deep deterministic policy gradient as the specification's section 17 has it; knows no simulator.

Own code and not stable-baselines3's DDPG: actor and critic sit on one encoder of tokens, absent paths are masked in
actions and noise, and the noise runs per path.
"""

import copy
from dataclasses import dataclass

import numpy as np
import torch

from .replay import Replay


@dataclass(frozen=True)
class Settings:
    """The specification's; `tau`, `start`, `delay`, `noise_end`, `clip` and all about a teacher are ours."""

    actor_rate: float = 1e-4
    critic_rate: float = 1e-3
    tau: float = 0.005
    """The targets' step towards the learned. The paper's 0.001 needs more decisions than an hour has."""
    gamma: float = 0.99
    batch: int = 64
    memory: int = 100_000
    start: int = 1000
    """Decisions before learning; actions are noise around 0 until then."""
    updates: float = 1.0
    """Steps of learning per decision."""
    delay: int = 1
    """Steps of the critic per step of the actor."""
    theta: float = 0.15
    sigma: float = 0.2
    noise_end: float = 0.25
    """The part of sigma that is left at the end, falling linearly."""
    clip: float | None = 1.0
    """Most that a gradient's norm may be."""
    lessons: int = 0
    """Steps in which the policy, its encoder with it, copies a teacher before it learns by itself."""
    lesson_rate: float = 1e-3
    teach: tuple[float, float] = (0.0, 0.0)
    """The weight of the distance to the teacher beside the value, at the start and at the end of the lessons' time (Fujimoto & Gu 2021)."""
    taught: float = 1.0
    """The part of the run after which the teacher's weight is what it is at the end."""


class Noise:
    """Ornstein-Uhlenbeck noise around 0."""

    def __init__(self, shape, theta, sigma, rng):
        self.theta, self.sigma, self.rng = theta, sigma, rng
        self.value = np.zeros(shape, np.float32)

    def reset(self):
        self.value[:] = 0.0

    def __call__(self, scale):
        push = self.sigma * scale * self.rng.standard_normal(self.value.shape)
        self.value += (-self.theta * self.value + push).astype(np.float32)
        return self.value


class Ddpg:
    """`network` has `encoder(states)`, `actor(features, states)` in [-1, 1] and `critic(features, states, actions)`.

    The encoder learns from the critic's error alone: what it is worth to know is what a state and a change are worth,
    and the actor's gradient would pull it towards states that look good.
    """

    def __init__(self, settings, network, state, action, seed, teacher=None):
        self.settings = settings
        self.teacher = teacher
        self.network = network
        self.target = copy.deepcopy(network).requires_grad_(False)
        self.rng = np.random.default_rng([seed, 3])
        self.noise = Noise(action, settings.theta, settings.sigma, np.random.default_rng([seed, 4]))
        self.memory = Replay(settings.memory, state, action)
        self.actor_step = torch.optim.Adam(network.actor.parameters(), lr=settings.actor_rate)
        self.valued = [*network.encoder.parameters(), *network.critic.parameters()]
        self.critic_step = torch.optim.Adam(self.valued, lr=settings.critic_rate)
        self.owed = 0.0
        self.teach = 0.0
        self.steps = 0
        self.loss = 0.0
        self.worth = 0.0

    @torch.no_grad()
    def wanted(self, state):
        """The actor's answer."""
        states = torch.from_numpy(state[None])
        return self.network.actor(self.network.encoder(states), states)[0].numpy()

    def act(self, state, scale):
        """With noise of `scale` times sigma."""
        if len(self.memory) >= self.settings.start:
            action = self.wanted(state)
        elif self.teacher is not None:
            action = self.teacher(torch.from_numpy(state[None]))[0].numpy()
        else:
            action = 0.0
        return np.clip(action + self.noise(scale), -1.0, 1.0).astype(np.float32)

    def learn(self, progress):
        """The steps of learning that one decision is worth. `progress`: how much of the run is over, 0 to 1."""
        if len(self.memory) < max(self.settings.start, self.settings.batch):
            return
        if self.steps == 0 and self.teacher is not None:
            self._copy_teacher()
        self.weigh(progress)
        self.owed += self.settings.updates
        while self.owed >= 1.0:
            self.owed -= 1.0
            self._step()

    def _copy_teacher(self):
        network = self.network
        parameters = [*network.encoder.parameters(), *network.actor.parameters()]
        step = torch.optim.Adam(parameters, lr=self.settings.lesson_rate)
        for _ in range(self.settings.lessons):
            states = self.memory.sample(self.settings.batch, self.rng)[0]
            loss = self._distance(network.actor(network.encoder(states), states), states)
            step.zero_grad(set_to_none=True)
            loss.backward()
            step.step()
        self.target = copy.deepcopy(network).requires_grad_(False)

    def _distance(self, actions, states):
        return torch.nn.functional.mse_loss(actions, self.teacher(states))

    def weigh(self, progress):
        """Gives the teacher the weight that it has at this part of the run."""
        first, last = self.settings.teach
        self.teach = first + (last - first) * min(progress / self.settings.taught, 1.0)

    def _step(self):
        settings, network, target = self.settings, self.network, self.target
        states, actions, rewards, nexts, ends = self.memory.sample(settings.batch, self.rng)
        with torch.no_grad():
            features = target.encoder(nexts)
            following = target.critic(features, nexts, target.actor(features, nexts))
            # Equation 6, with the primes that it lacks; Algorithm 2 line 11 takes Q(s, a) off twice.
            wanted = rewards + settings.gamma * following * (1.0 - ends)
        features = network.encoder(states)
        loss = torch.nn.functional.mse_loss(network.critic(features, states, actions), wanted)
        self.critic_step.zero_grad(set_to_none=True)
        loss.backward()
        self._bound(self.valued)
        self.critic_step.step()
        self.loss += 0.01 * (loss.item() - self.loss)
        self.steps += 1
        if self.steps % settings.delay == 0:
            features = features.detach()
            changes = network.actor(features, states)
            worths = network.critic(features, states, changes)
            worth = worths.mean()
            aim = -worth
            if self.teacher is not None and self.teach > 0.0:
                aim = -worth / worths.detach().abs().mean().clamp(min=1e-3)
                aim = aim + self.teach * self._distance(changes, states)
            self.actor_step.zero_grad(set_to_none=True)
            aim.backward()
            self._bound(list(network.actor.parameters()))
            self.actor_step.step()
            self.worth += 0.01 * (worth.item() - self.worth)
        with torch.no_grad():
            for old, new in zip(target.parameters(), network.parameters()):
                old.lerp_(new, settings.tau)

    def _bound(self, parameters):
        if self.settings.clip is not None:
            torch.nn.utils.clip_grad_norm_(parameters, self.settings.clip)


def train(
    env, normalise, settings, network, seed, actions, curve, every=1000, check=None, stop=lambda: False, teacher=None
):
    """Takes `actions` decisions in `env` and returns the `Ddpg`. `check(network, taken)` as in `dqn.train`.

    `teacher(states)`, if there is one, says what to start from: tensors of normalised states to actions.
    """
    agent = Ddpg(settings, network, env.observation_space.shape, env.action_space.shape, seed, teacher)
    raw, _ = env.reset(seed=seed)
    state = normalise(raw)
    rewards = []
    for taken in range(1, actions + 1):
        scale = 1.0 + (settings.noise_end - 1.0) * taken / actions
        action = agent.act(state, scale)
        raw, reward, terminated, truncated, info = env.step(action)
        after = normalise(raw)
        rewards.append(reward)
        if info.get("rewarded", True):
            # Equation 6 has no end of an episode: a connection that was cut off goes on in the critic's eyes.
            agent.memory.store(state, action, reward, after, terminated)
        agent.learn(taken / actions)
        state = after
        if terminated or truncated:
            agent.noise.reset()
            raw, _ = env.reset()
            state = normalise(raw)
        if taken % every == 0 or taken == actions:
            more = check(agent.target, taken) if check else {}
            curve.add(
                decisions=taken, reward=float(np.mean(rewards)), critic_loss=agent.loss, worth=agent.worth, **more
            )
            rewards.clear()
            if stop():
                break
    return agent
