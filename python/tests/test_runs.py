"""Experiments, single runs, results."""

import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import mpquic_lab as lab

NETWORK = "50Mbit 20ms | 10Mbit 30ms 1%"


def test_an_experiment_gives_a_row_per_run(experiments: Path) -> None:
    told: list[tuple[int, int]] = []
    results = lab.run(
        experiments / "quick.toml",
        seeds=2,
        only="clean/.*/minrtt$|clean/.*/ecf$|equal/.*/minrtt$|equal/.*/ecf$",
        progress=lambda done, every: told.append((done, every)),
    )
    columns = results.columns()
    assert len(results) == 8 == len(columns["network"])
    assert columns["network"] == 4 * ["clean"] + 4 * ["equal"]
    assert columns["scheduler"] == 2 * ["minrtt", "minrtt", "ecf", "ecf"]
    assert list(columns["seed"]) == 4 * [1, 2]
    assert np.array_equal(columns["value"], columns["completion"])
    assert np.all(columns["completion"] > columns["completion_bound"])
    assert columns["error"] == 8 * [None]
    assert told[-1] == (8, 8)
    summary = results.summary()
    assert [row["scheduler"] for row in summary] == ["minrtt", "ecf"] * 2
    assert summary[0]["mean"] == pytest.approx(np.mean(columns["completion"][:2]))
    assert "clean" in results.table()
    text, source, sentence = results.claims()[0]
    assert source == "Peekaboo, figure 2a" and text and sentence


def test_threads_change_nothing() -> None:
    def hashes(jobs: int) -> object:
        return lab.compare(NETWORK, "file:200kB", ["minrtt", "ecf"], seeds=3, jobs=jobs).columns()["trace_hash"]

    one = hashes(1)
    assert one == hashes(4)
    assert len(set(one)) >= 3


def test_seeds_may_be_a_range() -> None:
    results = lab.compare(NETWORK, "file:20kB", ["minrtt"], seeds=range(7, 9))
    assert list(results.columns()["seed"]) == [7, 8]
    with pytest.raises(lab.ExperimentError, match="one after the other"):
        lab.compare(NETWORK, "file:20kB", ["minrtt"], seeds=range(1, 9, 2))


def test_frames() -> None:
    results = lab.compare(NETWORK, "file:200kB", ["minrtt", "rr"], seeds=2)
    pandas = pytest.importorskip("pandas")
    frame = results.to_pandas()
    assert list(frame["scheduler"].unique()) == ["minrtt", "rr"]
    assert frame.groupby("scheduler")["completion"].mean()["rr"] > 0
    assert isinstance(results.frame(), pandas.DataFrame)
    polars = pytest.importorskip("polars")
    assert results.to_polars()["seed"].sum() == 6
    assert results.to_polars().schema["completion"] == polars.Float64


def test_a_folder_is_taken_up_again(experiments: Path, tmp_path: Path) -> None:
    def run(seeds: int) -> lab.Results:
        return lab.run(experiments / "quick.toml", seeds=seeds, only="clean/.*/minrtt$", out=tmp_path)

    first = run(2)
    assert (tmp_path / "report.html").exists() and (tmp_path / "timelines.jsonl").exists()
    written = (tmp_path / "results.jsonl").read_bytes()
    assert run(2).columns()["trace_hash"] == first.columns()["trace_hash"]
    assert (tmp_path / "results.jsonl").read_bytes() == written
    assert run(3).columns()["trace_hash"][:2] == first.columns()["trace_hash"]
    read = lab.Results.read(tmp_path)
    assert len(read) == 3 and read.build == first.build
    with pytest.raises(lab.ExperimentError, match="nothing"):
        lab.Results.read(tmp_path / "nothing")


def test_series_of_a_run() -> None:
    results = lab.compare(NETWORK, "video:3", ["minrtt"], seeds=2)
    first, second = results.series("chunk_time")
    assert len(first) == len(second) == 3
    with pytest.raises(lab.ExperimentError, match="no series `nothing`, there are: .*chunk_time"):
        results.series("nothing")


def test_a_cell_is_a_run_of_the_lab() -> None:
    run = lab.cell(NETWORK, "file:200kB", "ecf", seed=3)
    row = lab.compare(NETWORK, "file:200kB", ["ecf"], seeds=range(3, 4)).columns()
    assert run.trace_hash == row["trace_hash"][0]
    assert run.value == run.values["completion"] == row["completion"][0]
    assert run.timeline is None


def test_time_lines_change_no_run_and_add_up() -> None:
    plain = lab.cell(NETWORK, "file:1MB", "minrtt", seed=2)
    run = lab.cell(NETWORK, "file:1MB", "minrtt", seed=2, timeline=0.005)
    assert run.trace_hash == plain.trace_hash
    lines = run.timeline
    assert lines is not None and lines.interval == 0.005
    assert lines.end >= run.value
    server = lines.server
    assert len(server.paths) == 2
    rtt = server.paths[0].smoothed_rtt
    assert 0.04 <= rtt.last[-1] < 0.2
    assert np.isnan(rtt.at(-1.0)) and rtt.at([lines.end])[0] == rtt.last[-1]
    assert np.all(server.paths[1].cwnd.min <= server.paths[1].cwnd.max)
    # The server's data, which the client has: all of it, and headers.
    assert 1_000_000 < server.sent.bytes.sum() < 1_300_000
    assert set(server.sent.path) == {0, 1}
    of_path = [server.sent.total(path)[1][-1] for path in (0, 1)]
    assert sum(of_path) == server.sent.bytes.sum()
    assert len(lines.client.received.t) <= len(server.sent.t)
    # Path 1 has losses, and the 1 % of path 1 alone.
    assert set(server.lost.path) <= {0, 1} and 1 in server.lost.path
    _, rate = lines.client.received.per_interval(0, 0.1, lines.end)
    assert 10e6 < rate.max() < 51e6
    sent = server.decisions.path[server.decisions.kind == 1]
    assert set(sent) == {0, 1}
    assert np.all(np.diff(server.decisions.t) >= 0)
    with pytest.raises(lab.ExperimentError, match="interval 0"):
        lab.cell(NETWORK, "file:1MB", timeline=0.0)


def test_paths_have_the_numbers_of_the_network_whatever_carries_the_handshake() -> None:
    swapped = "10Mbit 30ms 1% | 50Mbit 20ms"
    shares = []
    for network in (NETWORK, swapped):
        run = lab.cell(network, "file:1MB", "minrtt", timeline=0.01)
        received = run.timeline.client.received
        shares.append([received.bytes[received.path == path].sum() for path in (0, 1)])
    assert shares[0][0] > shares[0][1] and shares[1][0] < shares[1][1]


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (lambda: lab.cell("50Mbit 20ms", "file:1MB", "min-rtt"), "unknown scheduler `min-rtt`, did you mean `minrtt`?"),
        (lambda: lab.cell("50Mbit", "file:1MB"), "--network"),
        (lambda: lab.cell("50Mbit 20ms", "file"), "--workload"),
        (lambda: lab.cell("50Mbit 20ms", "file:1MB", congestion="vegas9"), "vegas9"),
        (lambda: lab.compare("50Mbit 20ms", "file:1MB", []), "at least one scheduler"),
        (lambda: lab.compare("50Mbit 20ms", "file:1MB", ["ecf", "ecf"]), "a second scheduler is called `ecf`"),
        (lambda: lab.compare("50Mbit 20ms", "file:1MB", ["ecf"], seeds=0), "at least one seed"),
        (lambda: lab.compare("50Mbit 20ms", "file:1MB", [{"name": "rr", "config": {"burst": 0}}]), "burst"),
        (lambda: lab.compare("50Mbit 20ms", "file:1MB", [{"nam": "rr"}]), "unknown key `nam`"),
        (lambda: lab.run("no-such.toml"), "no-such.toml: cannot be read"),
    ],
)
def test_what_cannot_be_is_said_in_the_words_of_the_lab(what, message: str) -> None:
    with pytest.raises(lab.ExperimentError) as raised:
        what()
    assert message in str(raised.value)
    assert isinstance(raised.value, ValueError)


def test_a_run_that_fails_is_a_row_or_an_exception() -> None:
    # Nothing gets through.
    dead = "1Mbit 20ms 100%"
    results = lab.compare(dead, "file:20kB", ["minrtt"], seeds=1)
    columns = results.columns()
    assert columns["trace_hash"] == [None] and np.isnan(columns["value"][0])
    with pytest.raises(lab.SimulationError) as raised:
        lab.cell(dead, "file:20kB")
    assert str(raised.value) == columns["error"][0]


def test_others_run_meanwhile() -> None:
    """The interpreter's lock is free during a run."""
    count, over = 0, threading.Event()

    def counting() -> None:
        nonlocal count
        while not over.is_set():
            count += 1

    thread = threading.Thread(target=counting)
    thread.start()
    try:
        before = count
        lab.cell(NETWORK, "file:20MB")
        assert count - before > 1000
    finally:
        over.set()
        thread.join()


def test_an_interrupt_ends_a_run_that_would_take_minutes() -> None:
    # A shell starts what runs in its background with the signal ignored, and then Python sets no handler.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    begun = threading.Event()

    def interrupt() -> None:
        begun.wait()
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    at = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        lab.compare(NETWORK, "file:20GB", ["minrtt"], seeds=100, progress=lambda done, every: begun.set())
    thread.join()
    assert time.monotonic() - at < 60
    signal.signal(signal.SIGINT, before)
    # And the next one runs.
    assert lab.cell(NETWORK, "file:20kB").value > 0


def test_an_exception_of_the_progress_ends_the_run() -> None:
    def tell(done: int, every: int) -> None:
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        lab.compare(NETWORK, "file:20GB", ["minrtt"], seeds=2, progress=tell)
