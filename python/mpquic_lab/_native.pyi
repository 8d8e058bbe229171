"""The part of `mpquic_lab` that is written in Rust."""

from collections.abc import Callable
from os import PathLike
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

NEURAL: bool
"""Whether schedulers that ask a trained network, and `mpquic_lab.gym`, are in this build."""
gym: ModuleType

class ExperimentError(ValueError):
    """An experiment, a network, a workload or a scheduler cannot be as described."""

class SimulationError(RuntimeError):
    """A simulation that was set up could not be run to its end."""

Named = tuple[str, str, str | None]
Made = tuple[list[tuple[str, Callable[..., Any], bool]], str]

class Experiment:
    """An experiment, or the part of it that a pattern chose: a numbered list of runs. See `mpquic_lab.run`."""

    @staticmethod
    def load(
        path: str | PathLike[str],
        made: Made,
        also: list[Named],
        seeds: tuple[int | None, int] | None,
        only: str | None,
    ) -> Experiment: ...
    @staticmethod
    def of_one_network(
        network: str,
        workload: str,
        schedulers: list[Named],
        congestion: list[str],
        made: Made,
        seeds: tuple[int, int],
    ) -> Experiment: ...
    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def build(self) -> str:
        """What two results must have in common to be put together."""
    def __len__(self) -> int:
        """The number of runs."""
    def id(self, run: int) -> tuple[str, str, str, str, int]:
        """Network, workload, congestion control, scheduler and seed of a run."""
    def run(
        self,
        jobs: int,
        out: str | PathLike[str] | None,
        fresh: bool,
        tell: Callable[[int, int], None] | None,
    ) -> Results: ...
    def run_some(self, runs: list[int], jobs: int) -> bytes:
        """Executes the runs with these numbers, from 0, and returns them as lines of a results file, in that order."""
    def gather(self, folder: str | PathLike[str], fresh: bool) -> Gathering:
        """Opens a folder for runs that are executed elsewhere."""
    def look(self, run: int, interval: float | None = None) -> dict[str, Any]: ...

class Gathering:
    """A folder of results that fills from elsewhere."""

    def missing(self, experiment: Experiment) -> list[int]:
        """The numbers of the runs that are not there."""
    def take(self, lines: bytes) -> None:
        """Takes lines as `Experiment.run_some` returned them."""
    def finish(self, experiment: Experiment) -> Results:
        """Sorts the runs, and writes tables and report."""

class Results:
    @staticmethod
    def read(path: str | PathLike[str]) -> Results: ...
    def __len__(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def build(self) -> str: ...
    @property
    def baseline(self) -> str: ...
    def columns(self) -> dict[str, list[str | None] | npt.NDArray[Any]]: ...
    def series(self, name: str) -> list[npt.NDArray[np.float64] | None]: ...
    def summaries(self, headline_only: bool) -> str: ...
    def table(self) -> str: ...
    def claims(self) -> list[tuple[str, str, str]]: ...

class Send:
    """An answer: one packet.

    `path` is a slot or a `PathView`. `data` says what the packet carries: "next" (the transport's order), "retransmit"
    (nothing new), "control", "reinject" (a copy of what is in flight elsewhere), "redundant", "stream" (data of the stream
    `stream`), or "ahead" (new data beyond `gap` bytes). `copies` are further slots that carry a copy of it.
    """

    def __init__(
        self,
        path: PathView | int,
        data: str = "next",
        *,
        stream: int | None = None,
        gap: int | None = None,
        copies: list[int] = ...,
    ) -> None: ...

class Wait:
    """An answer: nothing now. Asked again at the next ack, loss, write or path event, or at `until` (s, as
    `Context.now`)."""

    def __init__(self, until: float | None = None) -> None: ...
    @property
    def until(self) -> float | None: ...

class Context:
    """All that a decision may rest on."""

    @property
    def now(self) -> float:
        """The time of the decision, s since the first that the scheduler was told."""
    @property
    def paths(self) -> tuple[PathView, ...]:
        """One view per slot; the place is the path's slot. A slot without a path is not `open` and cannot send."""
    @property
    def sendable(self) -> tuple[PathView, ...]:
        """The paths that can take a packet now and that the preferences allow: those with the best standing."""
    @property
    def queue(self) -> QueueView:
        """What there is to send."""
    @property
    def streams(self) -> tuple[StreamView, ...]:
        """The streams with data to send, the next first; empty unless the scheduler has `wants_streams`."""
    @property
    def decision(self) -> int:
        """The number of this decision, from 0; events name it."""

class PathView:
    """One path as the sender knows it."""

    @property
    def index(self) -> int:
        """The slot."""
    @property
    def id(self) -> int:
        """The path ID on the wire (RFC 10069)."""
    @property
    def open(self) -> bool:
        """Whether the slot holds a path that is validated and not abandoned."""
    @property
    def can_send(self) -> bool:
        """Whether congestion window, pacer and anti-amplification limit allow one full packet now."""
    @property
    def suspect(self) -> bool:
        """Whether the path is in trouble."""
    @property
    def backup(self) -> bool:
        """Whether it is to be used only if no available path is usable."""
    @property
    def next_release(self) -> float | None:
        """When the pacer lets the next packet go (s), if the pacer is what holds it back."""
    @property
    def smoothed_rtt(self) -> float:
        """s; 0 before the first sample."""
    @property
    def latest_rtt(self) -> float:
        """s."""
    @property
    def min_rtt(self) -> float:
        """s."""
    @property
    def rtt_var(self) -> float:
        """s."""
    @property
    def pto(self) -> float:
        """The probe timeout without back-off, s."""
    @property
    def pto_count(self) -> int:
        """Probe timeouts in a row without an acknowledgement."""
    @property
    def cwnd(self) -> int:
        """Congestion window, bytes."""
    @property
    def ssthresh(self) -> int | None:
        """Slow start threshold, bytes; None in the initial slow start."""
    @property
    def in_flight(self) -> int:
        """bytes."""
    @property
    def mtu(self) -> int:
        """The largest UDP payload that the path takes, bytes."""
    @property
    def sent_packets(self) -> int: ...
    @property
    def lost_packets(self) -> int: ...
    @property
    def retransmitted_packets(self) -> int: ...
    @property
    def delivered_bytes(self) -> int:
        """Bytes of acknowledged packets."""
    @property
    def delivery_rate(self) -> int:
        """The newest estimate, bytes per second; 0 before the first."""
    @property
    def pacing_rate(self) -> int:
        """The pace that the congestion controller sets by itself, bytes per second; 0 if it goes by the window."""
    @property
    def last_acked(self) -> float | None:
        """s."""
    @property
    def last_sent(self) -> float | None:
        """s."""
    @property
    def rtt_history(self) -> list[float]:
        """The newest RTT samples, newest first, s."""
    @property
    def standing(self) -> int:
        """Rank by preference, 0 is best: available and healthy, backup and healthy, suspect, backup and suspect."""
    @property
    def rtt_rank(self) -> int:
        """The order of minRTT: by the smoothed RTT, and paths without a sample behind, by the packets sent on them."""
    @property
    def has_rtt(self) -> bool:
        """Whether there has been an RTT sample."""
    @property
    def capacity(self) -> int:
        """What it carries in a smoothed RTT as the congestion controller sees it, bytes."""
    @property
    def window_left(self) -> int:
        """Room left in the congestion window, bytes."""

class QueueView:
    """What there is to send, over all streams."""

    @property
    def unsent(self) -> int:
        """Bytes written and not yet sent for the first time, within the stream windows."""
    @property
    def retransmittable(self) -> int:
        """Bytes waiting to be sent again."""
    @property
    def window_left(self) -> int:
        """What the peer's connection window still allows of new data, bytes."""
    @property
    def flow_control_window(self) -> int:
        """What the peer's windows, the connection's and the streams', still allow of new data, bytes."""
    @property
    def blocked_by(self) -> int | None:
        """The slot with the oldest packet in flight, while the peer's windows are all that keeps new data back."""
    @property
    def out_of_order(self) -> int:
        """Bytes acknowledged out of order."""
    @property
    def in_flight(self) -> int:
        """Stream bytes in flight, over all paths."""
    @property
    def control(self) -> bool:
        """Whether control frames or datagrams wait."""

class StreamView:
    """One stream that has data to send."""

    @property
    def id(self) -> int: ...
    @property
    def priority(self) -> int:
        """Higher goes first."""
    @property
    def unsent(self) -> int:
        """bytes."""
    @property
    def retransmittable(self) -> int:
        """bytes."""
    @property
    def sent(self) -> int:
        """The highest offset that was sent, bytes."""
    @property
    def size(self) -> int | None:
        """Bytes in all, if the application hinted it."""
    @property
    def deadline(self) -> float | None:
        """s, if the application hinted it."""
    @property
    def chunk(self) -> int | None:
        """The number of the chunk, if the application hinted it."""
    @property
    def tag(self) -> int | None: ...

class Sent:
    """A scheduled packet left."""

    @property
    def path(self) -> int:
        """The slot."""
    @property
    def now(self) -> float:
        """s."""
    @property
    def size(self) -> int:
        """bytes."""
    @property
    def decision(self) -> int:
        """The decision that asked for it."""
    @property
    def retransmission(self) -> bool:
        """Whether it carries data that was sent before."""
    @property
    def new_bytes(self) -> int:
        """Stream bytes in it that no packet carried before."""

class Acked:
    """A packet was acknowledged for the first time."""

    @property
    def path(self) -> int:
        """The slot."""
    @property
    def now(self) -> float:
        """s."""
    @property
    def sent(self) -> float:
        """When it left, s."""
    @property
    def size(self) -> int:
        """bytes."""
    @property
    def rtt(self) -> float | None:
        """The RTT sample that it gave, s."""
    @property
    def decision(self) -> int | None:
        """The decision that asked for it, if one did."""
    @property
    def contiguous(self) -> int:
        """Stream bytes that became contiguous at the receiver by it."""

class Lost:
    """A packet was declared lost."""

    @property
    def path(self) -> int:
        """The slot."""
    @property
    def now(self) -> float:
        """s."""
    @property
    def sent(self) -> float:
        """When it left, s."""
    @property
    def size(self) -> int:
        """bytes."""
    @property
    def decision(self) -> int | None:
        """The decision that asked for it, if one did."""

class PathUpdate:
    """Something happened to a path."""

    @property
    def path(self) -> int:
        """The slot."""
    @property
    def id(self) -> int:
        """The path ID."""
    @property
    def now(self) -> float:
        """s."""
    @property
    def kind(self) -> str:
        """opened, validated, moved, available, backup, suspect, recovered or abandoned."""

class StreamUpdate:
    """Something happened to a stream that is sent on."""

    @property
    def id(self) -> int: ...
    @property
    def kind(self) -> str:
        """opened, written, finished, fully_acked, reset or hint."""
    @property
    def written(self) -> int | None:
        """bytes, of "written"."""
    @property
    def size(self) -> int | None:
        """bytes, of "hint"."""
    @property
    def deadline(self) -> float | None:
        """s, of "hint"."""
    @property
    def chunk(self) -> int | None:
        """of "hint"."""
