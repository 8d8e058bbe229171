"""The simulator as an environment of gymnasium's: the agent chooses the path of each packet that the server sends."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from .results import Run
from .runs import cell
from .schedulers import Acked, Answer, Context, PathUpdate, Scheduler, StreamUpdate

Observation = dict[str, npt.NDArray[Any]]

FEATURES: tuple[str, ...] = ("smoothed_rtt", "rtt_var", "cwnd", "in_flight", "window_left", "can_send")
"""Of each path: s, s, and in units of 1500 bytes, packets."""
_PACKET = 1500.0


class _Over(Exception):
    """The episode was left."""


class _Exchange:
    """What passes between the simulation's thread and the one that steps."""

    def __init__(self) -> None:
        self.asked: queue.Queue[Context | Run | BaseException] = queue.Queue()
        self.answers: queue.Queue[int | None] = queue.Queue()
        self.sides: list[object] = []
        self.contiguous = 0

    def is_server(self, scheduler: object) -> bool:
        # The client is told of a path first.
        if not any(side is scheduler for side in self.sides):
            self.sides.append(scheduler)
        return len(self.sides) > 1 and self.sides[1] is scheduler


def _remote(exchange: _Exchange) -> type[Scheduler]:
    class Remote(Scheduler):
        name = "remote"

        def on_path(self, event: PathUpdate) -> None:
            exchange.is_server(self)

        def on_stream(self, event: StreamUpdate) -> None:
            exchange.is_server(self)

        def on_acked(self, event: Acked) -> None:
            if exchange.is_server(self):
                exchange.contiguous += event.contiguous

        def decide(self, cx: Context) -> Answer:
            if not cx.sendable:
                return None
            if not exchange.is_server(self) or sum(path.open for path in cx.paths) < 2:
                return min(cx.sendable, key=lambda path: path.rtt_rank)
            exchange.asked.put(cx)
            answer = exchange.answers.get()
            if answer is None:
                raise _Over
            chosen = cx.paths[answer] if answer < len(cx.paths) else None
            if chosen is not None and chosen.can_send:
                return chosen
            # Nothing in flight means that nothing would ask again.
            if any(path.in_flight for path in cx.paths):
                return None
            return cx.sendable[0]

    return Remote


class PathEnv(gymnasium.Env[Observation, int]):
    """A connection whose server asks the agent which path carries the next packet.

    An episode is a run of `workload` (short form, as "file:2MB") over one of `networks` (as for `mpquic_lab.compare`),
    drawn anew at each reset; all have the same number of paths. The action is a path's slot; a path without room means
    to wait until something changes. The agent is asked once all paths are there that will be, or at least two.

    The observation has `paths` (a row of `FEATURES` per slot, zeros without a path) and `queue` (bytes unsent, to be sent
    again and out of order at the receiver, in packets of 1500 bytes). The reward is minus the simulated time since the
    last decision (s), so that the return is minus the time from the first decision to the last. `info` has the time as
    "now" (s), the decision's number as "decision" and which slots have room as "action_mask"; at the end, the `Run` as "run".
    """

    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(self, networks: str | Sequence[str], workload: str = "file:2MB", congestion: str = "olia") -> None:
        self.networks = [networks] if isinstance(networks, str) else list(networks)
        counts = {len(network.split("|")) for network in self.networks}
        if len(counts) != 1:
            raise ValueError("expected networks of one number of paths")
        self.paths = counts.pop()
        self.workload, self.congestion = workload, congestion
        self.action_space = gymnasium.spaces.Discrete(self.paths)  # type: ignore[assignment]
        self.observation_space = gymnasium.spaces.Dict(
            {
                "paths": gymnasium.spaces.Box(0.0, np.inf, (self.paths, len(FEATURES)), np.float32),
                "queue": gymnasium.spaces.Box(0.0, np.inf, (3,), np.float32),
            }
        )  # type: ignore[assignment]
        self._exchange: _Exchange | None = None
        self._thread: threading.Thread | None = None
        self._last: tuple[Observation, float] | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, dict[str, Any]]:
        """Begins a run. Of `options`, "network" names the network, and "run_seed" the run's seed, instead of drawing them."""
        super().reset(seed=seed)
        self.close()
        options = options or {}
        network = options.get("network") or self.networks[int(self.np_random.integers(len(self.networks)))]
        run_seed = options.get("run_seed")
        if run_seed is None:
            run_seed = int(self.np_random.integers(1, 1 << 31))
        exchange = _Exchange()

        def simulate() -> None:
            try:
                exchange.asked.put(cell(network, self.workload, _remote(exchange), self.congestion, run_seed))
            except BaseException as error:  # it is raised where the simulation is stepped
                exchange.asked.put(error)

        self._exchange = exchange
        self._thread = threading.Thread(target=simulate, name="mpquic-env", daemon=True)
        self._thread.start()
        asked = exchange.asked.get()
        if isinstance(asked, BaseException):
            raise asked
        if isinstance(asked, Run):
            raise ValueError(f"the run over {network} ended before the agent was asked")
        observation, info = self._seen(asked)
        self._last = (observation, asked.now)
        return observation, info

    def step(self, action: int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Answers the decision, and runs on to the next one."""
        if self._exchange is None or self._last is None:
            raise RuntimeError("reset() comes first")
        observation, before = self._last
        self._exchange.answers.put(int(action))
        asked = self._exchange.asked.get()
        if isinstance(asked, BaseException):
            self._last = None
            raise asked
        if isinstance(asked, Run):
            self._last = None
            return observation, 0.0, True, False, {"run": asked}
        observation, info = self._seen(asked)
        self._last = (observation, asked.now)
        return observation, before - asked.now, False, False, info

    def close(self) -> None:
        """Ends the run that is under way."""
        if self._exchange is not None and self._thread is not None:
            self._exchange.answers.put(None)
            self._thread.join()
        self._exchange = self._thread = self._last = None

    def _seen(self, cx: Context) -> tuple[Observation, dict[str, Any]]:
        paths = np.zeros((self.paths, len(FEATURES)), np.float32)
        mask = np.zeros(self.paths, np.int8)
        for path in cx.paths[: self.paths]:
            if path.open:
                in_packets = (path.cwnd / _PACKET, path.in_flight / _PACKET, path.window_left / _PACKET)
                paths[path.index] = (path.smoothed_rtt, path.rtt_var, *in_packets, path.can_send)
                mask[path.index] = path.can_send
        waiting = (cx.queue.unsent, cx.queue.retransmittable, cx.queue.out_of_order)
        told: Observation = {"paths": paths, "queue": np.array(waiting, np.float32) / np.float32(_PACKET)}
        return told, {"now": cx.now, "decision": cx.decision, "action_mask": mask}
