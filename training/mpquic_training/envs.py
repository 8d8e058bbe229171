"""The neural schedulers as gymnasium environments over the simulator: what an episode is, and how actions become outputs; learns nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import gymnasium
import numpy as np
from mpquic_lab import gym

from . import networks as nets
from .networks import Network
from .session import News, Session

#: As many seeds are drawn from.
_SEEDS = 2**32
#: Connections that are tried for one in which something is to be decided.
_ATTEMPTS = 100
#: A decision that earned nothing in so many more earns nothing any more.
_LATE = 1000


class SchedulerEnv(gymnasium.Env):
    """What the environments share: a connection at a time, drawn from networks, workloads and seeds.

    States are in raw units, as the scheduler hands them over. `reset(options=...)` may set "network" (a `Network`),
    "workload" and "seed" of the connection; what is not set is drawn. A `reset(seed=...)` draws all over again, so that
    the same seed and the same actions give the same states.

    `info` of each step has "rewards", all `(number, reward)` that came in with it, by the number of the decision in its
    episode; "taken", the action as it was carried out (a tuple), and "fell_back", whether the scheduler could not follow
    the answer; and with the connection's last step "outcome", its figures.
    """

    metadata: dict[str, Any] = {"render_modes": []}

    #: The scheduler, as the registry calls it.
    kind: str
    #: Of an observation.
    shape: tuple[int, ...]
    #: What is drawn from unless told otherwise.
    default_networks: Sequence[Network]
    default_workloads: Sequence[str]

    def __init__(
        self,
        networks: Sequence[Network] | None = None,
        workloads: Sequence[str] | None = None,
        congestion: str | Sequence[str] = "olia",
        scheduler: dict | None = None,
    ) -> None:
        self.networks = tuple(self.default_networks if networks is None else networks)
        self.workloads = tuple(self.default_workloads if workloads is None else workloads)
        self.congestions = (congestion,) if isinstance(congestion, str) else tuple(congestion)
        if not (self.networks and self.workloads and self.congestions):
            raise ValueError("no network, workload or congestion controller to draw from")
        self.scheduler = dict(scheduler or {})
        self.observation_space = gymnasium.spaces.Box(0.0, np.inf, self.shape, np.float32)
        self._session: Session | None = None
        #: The state that waits for an answer.
        self._state: np.ndarray | None = None
        #: The number of the first decision of the episode, and of the one to be answered.
        self._first = self._number = 0

    def close(self) -> None:
        """Ends the connection that is under way."""
        if self._session is not None:
            self._session.close()
        self._session = self._state = None

    def _draw(self, options: dict | None) -> dict:
        """Begins another connection; what it is."""
        self.close()
        options = options or {}

        def drawn(name: str, among: Sequence) -> Any:
            # Drawn in any case: what is set does not change what the others are.
            number = int(self.np_random.integers(len(among)))
            return options[name] if name in options else among[number]

        network = drawn("network", self.networks)
        workload = drawn("workload", self.workloads)
        congestion = drawn("congestion", self.congestions)
        seed = drawn("seed", range(_SEEDS))
        self._session = Session(self.kind, network, workload, congestion, seed, self._config(network))
        self._first = self._number = 0
        return {"network": network.name, "workload": workload, "congestion": congestion, "seed": seed}

    def _config(self, network: Network) -> dict:
        """The scheduler's configuration on a network."""
        return self.scheduler

    def _outputs(self, action: Any) -> np.ndarray:
        """The outputs of a network that wants this action."""
        raise NotImplementedError

    def _observe(self, state: np.ndarray | None) -> np.ndarray:
        """A state as an observation; none is all zeros."""
        if state is None:
            return np.zeros(self.shape, np.float32)
        return state.reshape(self.shape)

    def _begin(self, options: dict | None) -> tuple[np.ndarray, dict]:
        """Begins connections until there is one in which something is to be decided: its first state, and what it is.

        There may be nothing, as where a small page is loaded before the second path is there.
        """
        for _ in range(_ATTEMPTS):
            told = self._draw(options)
            self._state = self._session.next().state
            if self._state is not None:
                return self._observe(self._state), told
        raise RuntimeError(f"nothing was to be decided in {_ATTEMPTS} connections, the last of them {told}")

    def _advance(self, action: Any) -> tuple[News, dict]:
        """Answers the state that waits, and runs on; what came, and the step's `info`."""
        if self._session is None or self._state is None:
            raise RuntimeError("the episode is over: call reset()")
        self._session.answer(self._outputs(action))
        number, self._number = self._number, self._number + 1
        news = self._session.next()
        self._state = news.state
        told = next((taken for taken in news.taken if taken.number == number), None)
        info: dict[str, Any] = {
            "rewards": [(reward.number - self._first, reward.reward) for reward in news.rewards],
            "taken": told and told.action,
            "fell_back": told is not None and told.fell_back,
        }
        if news.state is None:
            info["outcome"] = news.outcome
            self.close()
        return news, info


class ChunkEnv(SchedulerEnv):
    """`dqn`: an episode is a chunk of a video, and a connection has many of them.

    A chunk is over when all of it is acknowledged, and often its last acknowledgements, which take the slow path, come
    later than the request for the next chunk, which takes the fast one: the first decision on the next chunk is then
    taken before the reward for the last one is there. A step's reward is what came in during it, whichever decision it
    is for, and it is terminated if a chunk's last reward was among that. The observation is always the state that
    waits; a `reset()` after such a step goes on with it over the same connection.

    A trainer that keeps transitions takes them from `info["transitions"]` instead, where they are exact: those that
    became complete in the step, each `(state, action, reward, next_state, done)`. A decision that the scheduler does
    not reward has none (nothing waited to be sent: nothing to learn from). `info["rewarded"]` is whether there are any.
    """

    kind = "dqn"
    shape = (10,)
    default_networks = nets.DQN_TRAINING
    default_workloads = ("video:60:5Mbit/s", "video:60")

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.action_space = gymnasium.spaces.Discrete(7)
        self._fresh = False
        #: States and actions of decisions that may still earn something, by number.
        self._open: dict[int, tuple[np.ndarray, int]] = {}

    def _outputs(self, action: Any) -> np.ndarray:
        outputs = np.zeros(7, np.float32)
        outputs[action] = 1.0
        return outputs

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        if seed is None and not options and self._fresh and self._state is not None:
            self._first, self._fresh = self._number, False
            return self._observe(self._state), {}
        self._fresh = False
        self._open.clear()
        return self._begin(options)

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        if self._state is not None:
            self._open[self._number] = (self._state, int(action))
        news, info = self._advance(action)
        info["transitions"] = list(self._complete(news))
        info["rewarded"] = bool(info["transitions"])
        done = any(reward.done for reward in news.rewards)
        self._fresh = done
        reward = sum(reward.reward for reward in news.rewards)
        return self._observe(news.state), reward, done, news.state is None and not done, info

    def _complete(self, news: News) -> Iterator[tuple[np.ndarray, int, float, np.ndarray, bool]]:
        """The transitions that news complete: a partial reward comes with the next decision on the same chunk."""
        for reward in news.rewards:
            state, action = self._open[reward.number]
            if reward.done:
                following = self._observe(None)
            elif reward.number + 1 in self._open:
                following = self._open[reward.number + 1][0]
            else:
                following = self._observe(news.state)
            yield state, action, reward.reward, following, reward.done
        for number in [number for number in self._open if number < self._number - _LATE]:
            del self._open[number]


class PageEnv(SchedulerEnv):
    """`sailfish`: an episode is a page, loaded over a connection of its own; a decision binds a stream.

    Rewards come late, when a stream is complete, and not in the order of the decisions: a step's reward is the sum of
    those that came in, `info["rewards"]` says whose they are. The last step's has all that were still missing. A path
    that cannot be used is not chosen, whatever the action: `info["taken"]` is the path that was.

    `rates`: "oracle" for the configured rates in the state, as in the thesis; "estimate" for the transport's estimate.
    """

    kind = "sailfish"
    shape = (4, 13)
    default_networks = nets.SAILFISH_TRAINING
    default_workloads = tuple(f"page:{site}" for site in nets.TRAINING_PAGES)

    def __init__(self, *args: Any, rates: str = "estimate", **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.action_space = gymnasium.spaces.Discrete(self.shape[0])
        self.rates = rates

    def _config(self, network: Network) -> dict:
        # What is chosen is done: chance is the trainer's.
        return {"sample": False, "rates": self.rates} | self.scheduler

    def _outputs(self, action: Any) -> np.ndarray:
        outputs = np.zeros(self.shape[0], np.float32)
        outputs[action] = 1.0
        return outputs

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        return self._begin(options)

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        news, info = self._advance(action)
        reward = sum(reward.reward for reward in news.rewards)
        return self._observe(news.state), reward, news.state is None, False, info


class GapEnv(SchedulerEnv):
    """`gaps`: an episode is a transfer that is looked at for a time; an action changes the GAP of every path.

    Nothing ends at the end of an episode, it is only looked at no longer: the last step is truncated, not terminated,
    its observation is the one before it, and as nothing came after its decision, `info["rewarded"]` is false.

    A step's reward is the scheduler's own, of the queue that the sender can know of. `info["queue"]` is the receiver's
    own queue over the same time, kB: what the paper's receiver reports.
    """

    kind = "gaps"
    shape = (8, 9)
    default_networks = nets.GAPS_TRAINING
    default_workloads = ("bulk:6s",)

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, self.shape[:1], np.float32)
        self._last = np.zeros(self.shape, np.float32)

    def _outputs(self, action: Any) -> np.ndarray:
        return np.asarray(action, np.float32)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self._last, told = self._begin(options)
        return self._last, told

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        news, info = self._advance(action)
        if news.state is not None:
            self._last = self._observe(news.state)
        info["rewarded"] = bool(news.rewards) and not info["fell_back"]
        info["queue"] = sum(reward.queue for reward in news.rewards)
        reward = sum(reward.reward for reward in news.rewards)
        return self._last, reward, False, news.state is None, info


ENVS: dict[str, type[SchedulerEnv]] = {env.kind: env for env in (ChunkEnv, PageEnv, GapEnv)}

SimulationError = gym.SimulationError
