"""Schedulers written in Python, beside those in Rust."""

from pathlib import Path
from typing import ClassVar

import pytest

import mpquic_lab as lab
from mpquic_lab.schedulers import MinRtt

NETWORKS = [
    "50Mbit 20ms | 10Mbit 30ms 1%",
    "2Mbit 100ms 1.5% | 50Mbit 20ms",
    "8Mbit 5ms | 8Mbit 40ms queue=10 | 20Mbit 15ms 0.5%",
]


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("congestion", ["olia", "bbr3"])
@pytest.mark.parametrize("config", [{}, {"wait_for_pacer": False}])
def test_minrtt_in_python_leaves_the_trace_of_minrtt_in_rust(network: str, congestion: str, config: dict) -> None:
    schedulers = [{"name": "minrtt", "config": config}, {"name": MinRtt, "config": config}]
    results = lab.compare(network, "file:500kB", schedulers, congestion=congestion, seeds=2)
    columns = results.columns()
    assert columns["scheduler"] == ["minrtt", "minrtt", "py_minrtt", "py_minrtt"]
    assert columns["trace_hash"][:2] == columns["trace_hash"][2:]
    assert columns["error"] == 4 * [None]


def test_one_takes_part_in_an_experiment_of_a_file(experiments: Path, tmp_path: Path) -> None:
    file = experiments / "quick.toml"
    results = lab.run(file, also=[MinRtt], seeds=1, only="/minrtt$|/py_minrtt$", out=tmp_path)
    columns = results.columns()
    assert columns["scheduler"] == 3 * ["minrtt", "py_minrtt"]
    assert columns["trace_hash"][0::2] == columns["trace_hash"][1::2]


def test_a_file_may_name_one(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(
        'title = "own"\nworkloads = ["file:100kB"]\nseeds = 1\n'
        'schedulers = ["minrtt", { name = "py_minrtt", label = "mine", config = { wait_for_pacer = true } }]\n'
        '[[network]]\nname = "one"\npaths = "50Mbit 20ms | 10Mbit 30ms"\n'
    )
    with pytest.raises(lab.ExperimentError, match="unknown scheduler `py_minrtt`"):
        lab.run(file)
    columns = lab.run(file, register=[MinRtt]).columns()
    assert columns["scheduler"] == ["minrtt", "mine"]
    assert columns["trace_hash"][0] == columns["trace_hash"][1]


class Watching(lab.Scheduler):
    """Sends on the first path with room, and writes down what it is told."""

    wants_streams = True
    seen: ClassVar[dict[str, list]] = {}

    def note(self, kind: str, event: object) -> None:
        self.seen.setdefault(kind, []).append(event)

    def decide(self, cx: lab.Context) -> lab.schedulers.Answer:
        self.note("decide", cx)
        return cx.sendable[0].index if cx.sendable else None

    def on_sent(self, event: lab.Sent) -> None:
        self.note("sent", event)

    def on_acked(self, event: lab.Acked) -> None:
        self.note("acked", event)

    def on_lost(self, event: lab.Lost) -> None:
        self.note("lost", event)

    def on_path(self, event: lab.PathUpdate) -> None:
        self.note("path", event)

    def on_stream(self, event: lab.StreamUpdate) -> None:
        self.note("stream", event)


def test_all_that_the_contract_tells_is_told() -> None:
    Watching.seen.clear()
    run = lab.cell("20Mbit 20ms 2% | 10Mbit 30ms 2%", "file:300kB", Watching, timeline=0.01)
    seen = Watching.seen
    assert set(seen) == {"decide", "sent", "acked", "lost", "path", "stream"}
    assert sum(event.new_bytes for event in seen["sent"]) >= 300_000
    acked = [event for event in seen["acked"] if event.rtt is not None]
    assert all(0.03 < event.rtt < 1 and event.now > event.sent for event in acked if event.now > 0.1)
    assert {event.kind for event in seen["path"]} >= {"opened", "validated"}
    assert {event.kind for event in seen["stream"]} >= {"opened", "written", "finished"}
    assert max(cx.now for cx in seen["decide"]) <= run.timeline.end
    views = [cx.paths[0] for cx in seen["decide"]]
    assert max(view.cwnd for view in views) > 10_000 and views[0].index == 0
    assert any(cx.streams and cx.streams[0].unsent > 0 for cx in seen["decide"])
    assert max(cx.queue.unsent for cx in seen["decide"]) > 100_000
    # One object per side: both begin their decisions with number 0.
    assert [cx.decision for cx in seen["decide"]].count(0) == 2


class Seeded(MinRtt):
    """Writes down its seeds."""

    seeds: ClassVar[list[int]] = []

    def __init__(self, seed: int = -1) -> None:
        super().__init__()
        self.seeds.append(seed)


def test_one_that_takes_a_seed_gets_that_of_the_run() -> None:
    def seeds(**entry: object) -> set[int]:
        Seeded.seeds.clear()
        lab.compare(NETWORKS[0], "file:20kB", [{"name": Seeded, **entry}], seeds=2)
        return set(Seeded.seeds) - {-1}

    drawn = seeds()
    assert len(drawn) == 2 and drawn == seeds()
    assert seeds(config={"seed": 5}) == {5}
    with pytest.raises(lab.ExperimentError, match="field `seed`: it takes none"):
        lab.cell(NETWORKS[0], "file:20kB", {"name": MinRtt, "config": {"seed": 5}})


class Redundant(lab.Scheduler):
    """As `redundant` in Rust, but with copies of each packet."""

    def decide(self, cx: lab.Context) -> lab.schedulers.Answer:
        if not cx.sendable:
            return None
        first, *others = cx.sendable
        return lab.Send(first, copies=[path.index for path in others])


def test_copies_and_kinds_of_data() -> None:
    run = lab.cell("20Mbit 20ms | 20Mbit 20ms", "file:1MB", Redundant, timeline=0.01)
    sent = run.timeline.server.sent
    assert sent.bytes.sum() > 1_200_000
    with pytest.raises(ValueError, match='unknown data "new"'):
        lab.Send(0, "new")
    with pytest.raises(ValueError, match="goes with `gap`"):
        lab.Send(0, "ahead", stream=4)
    with pytest.raises(ValueError, match="no slot 16"):
        lab.Send(16)
    assert lab.Wait(1.5).until == 1.5


class Broken(lab.Scheduler):
    """Raises when told to."""

    def __init__(self, at: str) -> None:
        if at == "init":
            raise LookupError("in init")
        self.at = at

    def decide(self, cx: lab.Context) -> lab.schedulers.Answer:
        if self.at == "decide" and cx.decision == 5:
            raise LookupError("in decide")
        if self.at == "answer":
            return "the fast one"  # type: ignore[return-value]
        if self.at == "full" and any(not path.can_send for path in cx.paths):
            return next(path for path in cx.paths if not path.can_send)
        return cx.sendable[0] if cx.sendable else None

    def on_acked(self, event: lab.Acked) -> None:
        if self.at == "event":
            raise LookupError("in an event")


@pytest.mark.parametrize(
    ("at", "error", "message"),
    [
        ("init", LookupError, "in init"),
        ("decide", LookupError, "in decide"),
        ("event", LookupError, "in an event"),
        ("answer", TypeError, "expected a path, its slot, Send, Wait or None"),
        ("full", ValueError, "which cannot send now"),
    ],
)
def test_what_it_raises_is_raised(at: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        lab.compare(NETWORKS[0], "file:300kB", ["minrtt", {"name": Broken, "config": {"at": at}}], seeds=3)


def test_a_class_that_is_no_scheduler_is_refused() -> None:
    with pytest.raises(AttributeError, match="decide"):
        lab.cell(NETWORKS[0], "file:20kB", {"name": dict})
    with pytest.raises(TypeError, match="burst"):
        lab.cell(NETWORKS[0], "file:20kB", {"name": MinRtt, "config": {"burst": 2}})


def test_results_of_python_are_never_taken_for_others(experiments: Path, tmp_path: Path) -> None:
    """What a class does may have changed while its name has not."""

    class First(MinRtt):
        name = "own"

    class Second(Watching):
        name = "own"

    file = experiments / "quick.toml"
    hashes = [
        lab.run(file, also=[kind], seeds=1, only="lossy/.*/own$", out=tmp_path).columns()["trace_hash"]
        for kind in (First, Second)
    ]
    assert hashes[0] != hashes[1]
