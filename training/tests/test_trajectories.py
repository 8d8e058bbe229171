"""The reader of recordings, held against a file that the Rust recorder wrote."""

from pathlib import Path

import numpy as np
import pytest

from mpquic_training import trajectories

FIXTURE = Path(__file__).parents[2] / "crates/sched/tests/record/fixture.traj"


def test_reads_what_the_recorder_wrote():
    recording = trajectories.read(FIXTURE)
    assert recording.segments == (0,)
    assert recording.damage == ()
    full, empty = recording.trajectories

    assert full.schema.scheduler == "fixture"
    assert full.schema.config == {"seed": 7, "alpha": 0.5}
    assert full.schema.features == (("rtt", "ms"), ("window", "bytes"), ("loss", ""))
    assert full.schema.actions == ("path_0", "path_1")
    assert full.number.tolist() == [0, 1, 2, 4]
    assert full.us.tolist() == [0, 1000, 2000, 4000]
    assert full.fell_back.tolist() == [False, False, True, False]
    assert full.state.shape == (4, 2, 3)
    assert full.state.dtype == np.float32
    first, second = full.state[3]
    assert first.tolist() == [4.0, float(np.float32(0.1)), float(np.float32(1e-40))]
    assert second.tolist() == [-4.0, np.inf, float(np.float32(3e38))]
    assert full.action.tolist() == [[0, -1], [0.25, -1], [0.5, -1], [1, -1]]
    assert full.reward_number.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert full.reward.tolist() == [0.1, 1, 0.1, 2, 0.1, 3, 0.1, 4]
    assert full.reward_us.tolist() == [1000, 1000, 2000, 2000, 3000, 3000, 4000, 4000]
    assert full.done.tolist() == [False] * 7 + [True]
    assert full.ended == trajectories.Outcome(
        us=6000,
        cut=False,
        sent_packets=1,
        sent_bytes=1400,
        retransmissions=0,
        acked_bytes=1400,
        contiguous_bytes=1300,
        lost_packets=1,
        decisions=4,
        rewards=8,
        dropped=0,
    )

    assert (empty.connection, empty.ended) == (1, None)
    assert empty.state.shape == (0, 1, 0)
    assert empty.action.shape == (0, 1)
    assert empty.reward.tolist() == [-2.5]


def test_transitions_have_nothing_missing_between_them():
    full, empty = trajectories.read(FIXTURE).trajectories
    total, count, done = full.rewards()
    assert total.tolist() == pytest.approx([1.1, 2.1, 3.1, 0])
    assert count.tolist() == [2, 2, 2, 0]
    # The last reward is of the decision that is missing.
    assert not done.any()
    transitions = full.transitions()
    # Decision 2 is followed by the missing one, and 4 earned nothing.
    assert transitions["reward"].tolist() == pytest.approx([1.1, 2.1])
    assert transitions["state"][:, 0, 0].tolist() == [0, 1]
    assert transitions["next_state"][:, 0, 0].tolist() == [1, 2]
    assert len(empty.transitions()["state"]) == 0


def _events(recording):
    return [
        (t.connection, t.number.tolist(), t.state.tolist(), t.action.tolist(), t.reward.tolist(), t.ended)
        for t in recording.trajectories
    ]


def test_torn_at_any_byte():
    content = FIXTURE.read_bytes()
    counts = [0]
    for length in range(len(content)):
        try:
            recording = trajectories.from_segments(content[:length])
        except trajectories.RecordingError:
            assert length < 200 and counts == [0]
            continue
        assert all(damage.torn and damage.offset + damage.left == length for damage in recording.damage)
        if not recording.damage:
            # The end of a file that the system had not written yet.
            padded = trajectories.from_segments(content[:length] + bytes(50))
            assert _events(padded) == _events(recording)
            assert [damage.torn for damage in padded.damage] == [True]
        counts.append(sum(len(t.number) + len(t.reward) for t in recording.trajectories))
    # One more at a time, up to the last but one.
    assert counts == sorted(counts)
    assert set(counts) == set(range(13))


def test_flipped_bits_give_nothing_wrong():
    content = FIXTURE.read_bytes()
    whole = trajectories.from_segments(content)
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1 << (place % 8)
        try:
            recording = trajectories.from_segments(bytes(changed))
        except trajectories.RecordingError:
            assert place < 200
            continue
        assert len(recording.damage) == 1
        for read, wrote in zip(recording.trajectories, whole.trajectories, strict=False):
            length = len(read.number)
            assert read.number.tolist() == wrote.number[:length].tolist()
            assert read.state.tolist() == wrote.state[:length].tolist()
            assert read.reward.tolist() == wrote.reward[: len(read.reward)].tolist()


def test_segments_of_one_recording_are_read_together(tmp_path):
    content = FIXTURE.read_bytes()
    file, before = tmp_path / "a.traj", tmp_path / "a.traj.1"
    with pytest.raises(FileNotFoundError):
        trajectories.read(file)
    # A crash between two segments leaves the older one.
    before.write_bytes(content)
    assert len(trajectories.read(file).trajectories) == 2
    # Twice the same segment is no sequence: the newest counts.
    file.write_bytes(content)
    assert trajectories.read(file).segments == (0,)
    file.write_bytes(b"something else")
    with pytest.raises(trajectories.RecordingError, match="MPQTRAJ"):
        trajectories.read(file)
    with pytest.raises(trajectories.RecordingError, match="another recording"):
        trajectories.from_segments(content, content)
