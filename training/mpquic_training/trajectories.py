"""Reads what the recorder of mpquic wrote (crates/sched/src/record) into arrays; trains nothing.

The file is untrusted input: lengths and checksums are checked, what a crash cut off is left out and told, and
anything that no recorder writes is an error that names its place.
"""

import json
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

MAGIC = b"MPQTRAJ\n"
CRATE = "mpquic-sched"
FORMAT = 1
MAX_BYTES = 1 << 30
"""The largest file that is read."""

_FRAME = struct.Struct("<HHI")
_DECIDED = struct.Struct("<QQQBHH")
_REWARDED = struct.Struct("<QQQBd")
_ENDED = struct.Struct("<QQB9Q")
_OPENED = struct.Struct("<QI")


class RecordingError(ValueError):
    """The file is no recording of this format."""


@dataclass(frozen=True)
class Schema:
    """What a scheduler's states and actions are made of."""

    scheduler: str
    config: Any
    features: tuple[tuple[str, str], ...]
    """Name and unit of each feature of a row."""
    rows: int
    actions: tuple[str, ...]

    @property
    def state_len(self) -> int:
        return self.rows * len(self.features)


@dataclass(frozen=True)
class Outcome:
    """How a connection went, as its scheduler was told."""

    us: int
    """From the first to the last that the scheduler was told, microseconds."""
    cut: bool
    """The recorder ended before the connection did."""
    sent_packets: int
    sent_bytes: int
    retransmissions: int
    acked_bytes: int
    contiguous_bytes: int
    """Stream bytes that became contiguous at the receiver."""
    lost_packets: int
    decisions: int
    rewards: int
    dropped: int
    """Decisions and rewards that are not in the file."""


@dataclass(frozen=True)
class Damage:
    """Where a segment can no longer be read; all before it was read."""

    segment: int
    offset: int
    left: int
    """Bytes from there on."""
    torn: bool
    """It looks as a crash leaves it. Else bytes have changed."""


@dataclass(frozen=True)
class Trajectory:
    """What one connection's scheduler did and earned, in the order of time. Times are microseconds since the first that
    the scheduler was told."""

    connection: int
    schema: Schema
    number: np.ndarray
    """uint64 [decisions]"""
    us: np.ndarray
    """uint64 [decisions]"""
    state: np.ndarray
    """float32 [decisions, rows, features], in the scheduler's units"""
    action: np.ndarray
    """float32 [decisions, actions]"""
    fell_back: np.ndarray
    """bool [decisions]: what was done is not what the policy wanted"""
    reward_number: np.ndarray
    """uint64 [rewards]: the number of the decision that earned it"""
    reward_us: np.ndarray
    """uint64 [rewards]"""
    reward: np.ndarray
    """float64 [rewards]"""
    done: np.ndarray
    """bool [rewards]: an episode ends with it"""
    ended: Outcome | None
    """None if that is not there: the process crashed, or records still"""

    def rewards(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For each decision the sum of its rewards, their number, and whether an episode ends with one of them.

        Rewards of decisions that are not there (dropped, or in a segment that was let go) are left out.
        """
        order = np.argsort(self.number, kind="stable")
        number = self.number[order]
        at = np.searchsorted(number, self.reward_number)
        known = at < len(number)
        known[known] = number[at[known]] == self.reward_number[known]
        place = order[at[known]]
        total = np.zeros(len(number))
        count = np.zeros(len(number), dtype=np.int64)
        done = np.zeros(len(number), dtype=bool)
        np.add.at(total, place, self.reward[known])
        np.add.at(count, place, 1)
        np.logical_or.at(done, place, self.done[known])
        return total, count, done

    def transitions(self) -> dict[str, np.ndarray]:
        """State, action, reward, next state and done, for each decision that was rewarded and either ended its episode
        or has a successor: its number is the next one, so that nothing is missing between them."""
        total, count, done = self.rewards()
        followed = np.zeros(len(self.number), dtype=bool)
        followed[:-1] = self.number[1:] - self.number[:-1] == 1
        chosen = np.flatnonzero((count > 0) & (done | followed))
        # What comes after an end is of no account; that it is a state at all keeps the arrays simple.
        successor = np.where(followed[chosen], chosen + 1, chosen)
        return {
            "state": self.state[chosen],
            "action": self.action[chosen],
            "reward": total[chosen],
            "next_state": self.state[successor],
            "done": done[chosen],
        }


@dataclass(frozen=True)
class Recording:
    """What is left of a recording: its newest segments."""

    id: str
    segments: tuple[int, ...]
    trajectories: tuple[Trajectory, ...]
    damage: tuple[Damage, ...]


def read(path: str | Path) -> Recording:
    """Reads the recording in this file, together with the segment before it (`FILE.1`), if that is of the same one.

    OSError if there is none, RecordingError if a file is no recording of this format.
    """
    path = Path(path)
    before = path.with_name(path.name + ".1")
    if not path.exists() and before.exists():
        return from_segments(_file(before))
    newest = _file(path)
    if before.is_file():
        try:
            older = _file(before)
            first, second = _header(older)[0], _header(newest)[0]
            if (first["recording"], first["segment"] + 1) == (second["recording"], second["segment"]):
                return from_segments(older, newest)
        except RecordingError:
            # What cannot be read is not of the same recording, as far as can be told.
            _header(newest)
    return from_segments(newest)


def from_segments(*segments: bytes) -> Recording:
    """Reads the bytes of segments of one recording, the oldest first. RecordingError as `read`."""
    reading = _Reading()
    for segment in segments:
        reading.segment(segment)
    if not reading.segments:
        raise RecordingError("not a recording: no segments")
    return reading.recording()


def _file(path: Path) -> bytes:
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise RecordingError(f"{path} is larger than {MAX_BYTES} bytes, the most that is read")
    return content


def _unframe(content: bytes, at: int) -> tuple[memoryview, int] | None:
    """The payload of the record at this place, and the place behind it; None if none is whole there."""
    if len(content) - at < _FRAME.size:
        return None
    length, complement, checksum = _FRAME.unpack_from(content, at)
    begin = at + _FRAME.size
    payload = memoryview(content)[begin : begin + length]
    if length ^ complement != 0xFFFF or len(payload) != length or zlib.crc32(payload) != checksum:
        return None
    return payload, begin + length


def _is_torn(content: bytes, at: int) -> bool:
    """Whether what begins there, no whole record, is what a crash leaves behind: the beginning of one, or zeros."""
    left = len(content) - at
    if left < 4:
        return True
    length, complement = struct.unpack_from("<HH", content, at)
    cut_off = length ^ complement == 0xFFFF and left < _FRAME.size + length
    return cut_off or not any(memoryview(content)[at:])


def _header(content: bytes) -> tuple[dict, int]:
    if not content.startswith(MAGIC):
        raise RecordingError('not a recording: it does not begin with "MPQTRAJ"')
    framed = _unframe(content, len(MAGIC))
    if framed is None:
        raise RecordingError("not a recording: it has no whole header")
    payload, at = framed
    try:
        header = json.loads(bytes(payload[1:])) if payload[:1] == b"\0" else None
    except ValueError as error:
        raise RecordingError(f"not a recording: {error}") from None
    if not isinstance(header, dict) or header.get("crate") != CRATE:
        raise RecordingError(f"not a recording of {CRATE}")
    if header.get("format") != FORMAT:
        raise RecordingError(f"a recording of format {header.get('format')}, expected {FORMAT}")
    if not isinstance(header.get("recording"), str) or type(header.get("segment")) is not int:
        raise RecordingError("not a recording: its header is incomplete")
    return header, at


class _Tape:
    """What was read of one connection so far."""

    def __init__(self, schema: Schema):
        self.schema = schema
        self.decisions: list[tuple[int, int, int]] = []
        self.values: list[np.ndarray] = []
        self.rewards: list[tuple[int, int, int, float]] = []
        self.ended: Outcome | None = None

    def trajectory(self, connection: int) -> Trajectory:
        schema, state = self.schema, self.schema.state_len
        values = np.array(self.values, dtype=np.float32).reshape(len(self.values), state + len(schema.actions))

        def column(rows, place, dtype):
            return np.array([row[place] for row in rows], dtype=dtype)

        return Trajectory(
            connection=connection,
            schema=schema,
            number=column(self.decisions, 0, np.uint64),
            us=column(self.decisions, 1, np.uint64),
            state=values[:, :state].reshape(len(values), schema.rows, len(schema.features)),
            action=values[:, state:],
            fell_back=column(self.decisions, 2, bool),
            reward_number=column(self.rewards, 0, np.uint64),
            reward_us=column(self.rewards, 1, np.uint64),
            reward=column(self.rewards, 3, np.float64),
            done=column(self.rewards, 2, bool),
            ended=self.ended,
        )


class _Reading:
    """A recording while it is read."""

    def __init__(self):
        self.id = ""
        self.segments: list[int] = []
        self.tapes: dict[int, _Tape] = {}
        self.damage: list[Damage] = []

    def recording(self) -> Recording:
        trajectories = tuple(self.tapes[connection].trajectory(connection) for connection in sorted(self.tapes))
        return Recording(self.id, tuple(self.segments), trajectories, tuple(self.damage))

    def segment(self, content: bytes) -> None:
        header, at = _header(content)
        number = header["segment"]
        if self.segments and (header["recording"] != self.id or number <= self.segments[-1]):
            raise RecordingError(f"not a recording: segment {number} is of another recording")
        self.id = header["recording"]
        self.segments.append(number)
        # Of this segment: each introduces again whom it tells of.
        schemas: dict[int, Schema] = {}
        told: dict[int, _Tape] = {}
        while at < len(content):
            framed = _unframe(content, at)
            if framed is None:
                self.damage.append(Damage(number, at, len(content) - at, _is_torn(content, at)))
                break
            payload, behind = framed
            try:
                self._record(payload, schemas, told)
            except (struct.error, ValueError, KeyError, TypeError) as error:
                raise RecordingError(f"segment {number}, at byte {at}: {error}") from None
            at = behind

    def _record(self, payload: memoryview, schemas: dict[int, Schema], told: dict[int, _Tape]) -> None:
        if not payload:
            raise ValueError("an empty record")
        kind, body = payload[0], payload[1:]
        if kind == 1:
            (schema,) = struct.unpack_from("<I", body)
            if schema in schemas:
                raise ValueError(f"schema {schema} is there twice")
            schemas[schema] = _schema(json.loads(bytes(body[4:])))
        elif kind == 2:
            connection, schema = _OPENED.unpack(body)
            if connection in told or schema not in schemas:
                raise ValueError(f"connection {connection} is opened twice, or has no schema")
            tape = self.tapes.setdefault(connection, _Tape(schemas[schema]))
            if tape.schema != schemas[schema]:
                raise ValueError(f"connection {connection} changes its schema")
            told[connection] = tape
        elif kind == 3:
            connection, number, us, flags, state, action = _DECIDED.unpack_from(body)
            tape = _told(told, connection)
            if (state, action) != (tape.schema.state_len, len(tape.schema.actions)) or flags > 1:
                raise ValueError("a decision that is not as its schema has it")
            values = np.frombuffer(body[_DECIDED.size :], dtype="<f4")
            if len(values) != state + action:
                raise ValueError(f"expected {state + action} numbers, got {len(values)}")
            tape.decisions.append((number, us, flags))
            tape.values.append(values)
        elif kind == 4:
            connection, number, us, flags, reward = _REWARDED.unpack(body)
            if flags > 1:
                raise ValueError(f"expected flags of 0 or 1, got {flags}")
            _told(told, connection).rewards.append((number, us, flags, reward))
        elif kind == 5:
            connection, us, flags, *counts = _ENDED.unpack(body)
            if flags > 1:
                raise ValueError(f"expected flags of 0 or 1, got {flags}")
            _told(told, connection).ended = Outcome(us, bool(flags), *counts)
            del told[connection]
        else:
            raise ValueError(f"expected a record of kind 1 to 5, got {kind}")


def _told(told: dict[int, _Tape], connection: int) -> _Tape:
    if connection not in told:
        raise ValueError(f"connection {connection} is not open here")
    return told[connection]


def _schema(fields: Any) -> Schema:
    if not isinstance(fields, dict) or set(fields) != {"scheduler", "config", "features", "rows", "actions"}:
        raise ValueError("a schema with other fields than it should have")
    features = tuple((str(name), str(unit)) for name, unit in fields["features"])
    rows = fields["rows"]
    if type(rows) is not int or rows < 0:
        raise ValueError(f"expected a number of rows, got {rows!r}")
    actions = tuple(str(name) for name in fields["actions"])
    if rows * len(features) + len(actions) > 4096:
        raise ValueError("expected at most 4096 numbers a record")
    return Schema(str(fields["scheduler"]), fields["config"], features, rows, actions)
