"""Schedulers written in Python, for exploration: slow, and asked like those in Rust."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ._native import (
    Acked,
    Context,
    Lost,
    PathUpdate,
    PathView,
    QueueView,
    Send,
    Sent,
    StreamUpdate,
    StreamView,
    Wait,
)

__all__ = [
    "Acked",
    "Answer",
    "Context",
    "Lost",
    "PathUpdate",
    "PathView",
    "QueueView",
    "Scheduler",
    "Send",
    "Sent",
    "StreamUpdate",
    "StreamView",
    "Wait",
]

Answer = PathView | int | Send | Wait | None
"""What `decide` returns: a path (its view, or its slot), `Send` for more than that, or `Wait`, for which None stands."""

Method = TypeVar("Method", bound=Callable[..., Any])


def _does_nothing(method: Method) -> Method:
    """The simulator does not call it: a call costs, also one that does nothing."""
    method._does_nothing = True  # type: ignore[attr-defined]
    return method


class Scheduler:
    """Decides, packet by packet, which path carries what; one object per side of each connection.

    A subclass has `decide`, and of the events those that it wants. What its `__init__` takes is its configuration; if it
    takes a `seed` that the configuration does not have, it gets that of the run.
    What is raised in it ends the experiment and is raised there.

        class LowestRtt(Scheduler):
            def decide(self, cx):
                return min(cx.sendable, key=lambda path: path.rtt_rank, default=None)

    It must follow from what it is told and from nothing else: not from the clock, and not from randomness without a
    seed. Otherwise, runs differ.
    """

    name: str | None = None
    """How results name it; the name of the class if there is none."""

    wants_streams: bool = False
    """Whether `Context.streams` is filled. Asked once."""

    def decide(self, cx: Context) -> Answer:
        """Where the next packet goes. The path must be one that `can_send`."""
        raise NotImplementedError

    @_does_nothing
    def on_sent(self, event: Sent) -> None:
        """A packet that `decide` asked for has left."""

    @_does_nothing
    def on_acked(self, event: Acked) -> None:
        """A packet was acknowledged for the first time."""

    @_does_nothing
    def on_lost(self, event: Lost) -> None:
        """A packet was declared lost."""

    @_does_nothing
    def on_path(self, event: PathUpdate) -> None:
        """A path was opened, validated, changed status, fell into trouble, recovered, or ended."""

    @_does_nothing
    def on_stream(self, event: StreamUpdate) -> None:
        """A stream was opened, written, finished, fully acknowledged, reset, or hinted at."""


class MinRtt(Scheduler):
    """What `minrtt` is in Rust, written in Python: the same decisions, and so the same trace.

    The path with room and the lowest smoothed RTT. If a faster one is held back by its pacer alone, and the windows of
    all such paths have room for all that is to be sent, it is waited for.
    """

    name = "py_minrtt"

    def __init__(self, wait_for_pacer: bool = True) -> None:
        self.wait_for_pacer = wait_for_pacer

    def decide(self, cx: Context) -> Answer:
        best = min(cx.sendable, key=lambda path: path.rtt_rank, default=None)
        if best is None:
            return None
        faster = [
            path
            for path in cx.paths
            if path.open
            and path.next_release is not None
            and not path.can_send
            and path.standing == best.standing
            and path.rtt_rank < best.rtt_rank
        ]
        if self.wait_for_pacer and faster:
            room = sum(path.window_left for path in faster)
            release = min(path.next_release for path in faster if path.next_release is not None)
            new = min(cx.queue.unsent, cx.queue.window_left)
            if release > cx.now and new + cx.queue.retransmittable <= room:
                return Wait(release)
        return best
