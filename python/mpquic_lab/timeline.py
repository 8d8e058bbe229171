"""Time lines of one run as arrays; draws nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Series:
    """A value over time, a point for each interval in which it changed. It stays the same between points, and does not
    exist before the first."""

    t: Floats
    """The beginning of the interval, s."""
    last: Floats
    """The value at the interval's end."""
    min: Floats
    """The least value in the interval."""
    max: Floats
    """The greatest value in the interval."""

    def at(self, times: npt.ArrayLike) -> Floats:
        """The values at these times (s); NaN before the first point."""
        place = np.searchsorted(self.t, np.asarray(times, dtype=float), side="right") - 1
        padded = np.append(self.last, np.nan)
        found: Floats = padded[np.where(place < 0, len(self.last), place)]
        return found


@dataclass(frozen=True)
class PathLine:
    """One path as one side knows it, over time."""

    cwnd: Series
    """Congestion window, bytes."""
    smoothed_rtt: Series
    """Smoothed RTT, s; from the first sample on."""
    in_flight: Series
    """Bytes in flight."""
    queue: Series
    """Bytes that wait or are being serialised on the links in this side's sending direction, all traffic counted."""


@dataclass(frozen=True)
class Packets:
    """Packets in the order in which things happened to them."""

    t: Floats
    """When, s."""
    path: Ints
    """The path by its place in the network, from 0; -1 if there is none."""
    bytes: Ints
    """The size with header and AEAD tag, bytes."""

    def total(self, path: int) -> tuple[Floats, Ints]:
        """When (s) and how many bytes in sum on one path."""
        of = self.path == path
        return self.t[of], np.cumsum(self.bytes[of])

    def per_interval(self, path: int, interval: float, end: float) -> tuple[Floats, Floats]:
        """The middles of intervals of this length up to `end` (s), and the rate on one path in each, bit/s."""
        edges = np.arange(0.0, end + interval, interval)
        of = self.path == path
        sums, _ = np.histogram(self.t[of], edges, weights=self.bytes[of])
        return (edges[:-1] + edges[1:]) / 2, 8.0 * sums / interval


@dataclass(frozen=True)
class Decisions:
    """Answers of the scheduler, in order."""

    t: Floats
    """When, s."""
    path: Ints
    """The path by its place in the network, from 0; -1 for none."""
    kind: Ints
    """0: wait; 1: send; 2: it wanted to wait for too long, and the transport sent."""


@dataclass(frozen=True)
class Side:
    """What one side of the connection did."""

    paths: tuple[PathLine, ...]
    """In the order of the network."""
    out_of_order: Series
    """Bytes received beyond the first gap of their stream, over all streams."""
    sent: Packets
    received: Packets
    lost: Packets
    """Packets declared lost, when they were."""
    decisions: Decisions


@dataclass(frozen=True)
class Timeline:
    """Both sides of a run over time. In downloads, the server sends the data."""

    interval: float
    """To which `Series` are thinned, s."""
    end: float
    """When the run ended, s."""
    client: Side
    server: Side

    @classmethod
    def of(cls, told: dict[str, Any]) -> Timeline:
        """Of what the native module tells."""
        return cls(told["interval"], told["end"], _side(told["client"]), _side(told["server"]))


def _side(told: dict[str, Any]) -> Side:
    return Side(
        tuple(PathLine(**{name: Series(**series) for name, series in path.items()}) for path in told["paths"]),
        Series(**told["out_of_order"]),
        Packets(**told["sent"]),
        Packets(**told["received"]),
        Packets(**told["lost"]),
        Decisions(**told["decisions"]),
    )
