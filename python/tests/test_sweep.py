"""Experiments in parts: the same bytes as on one machine, also if workers die."""

import contextlib
import hashlib
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import mpquic_lab as lab
from mpquic_lab.sweep import SweepError, sweep

FILE = """
title = "many small ones"
workloads = ["file:20kB", "file:50kB"]
schedulers = ["minrtt", "ecf", "peekaboo"]
seeds = 20
timeline = { seed = 2, schedulers = ["ecf"] }
[[network]]
name = "near"
paths = "50Mbit 2ms | 20Mbit 5ms 1%"
[[network]]
name = "far"
paths = "50Mbit 2ms | 20Mbit 50ms 1%"
"""
RUNS = 2 * 2 * 3 * 20


def bytes_of(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    file = tmp_path / "small.toml"
    file.write_text(FILE)
    return file


@pytest.fixture
def alone(experiment: Path, tmp_path: Path) -> dict[str, str]:
    """What one machine writes."""
    lab.run(experiment, out=tmp_path / "alone")
    told = bytes_of(tmp_path / "alone")
    assert {"results.jsonl", "report.html", "timelines.jsonl"} <= set(told)
    return told


def test_processes_write_what_one_machine_writes(experiment: Path, tmp_path: Path, alone: dict[str, str]) -> None:
    told: list[tuple[int, int]] = []
    out = tmp_path / "swept"
    results = sweep(experiment, out, workers=2, shards=7, progress=lambda *far: told.append(far))
    assert bytes_of(out) == alone
    assert len(results) == RUNS and len(told) == 7 and told[-1] == (RUNS, RUNS)


def kill_once(find: Callable[[], list[int]]) -> tuple[Callable[[int, int], None], list[int]]:
    """Tells how far it is by killing a worker after the first part."""
    killed: list[int] = []

    def tell(done: int, every: int) -> None:
        if not killed and (found := find()):
            killed.append(found[0])
            os.kill(found[0], signal.SIGKILL)

    return tell, killed


def test_a_process_that_is_killed_is_replaced(experiment: Path, tmp_path: Path, alone: dict[str, str]) -> None:
    tell, killed = kill_once(lambda: [process.pid or 0 for process in multiprocessing.active_children()])
    sweep(experiment, tmp_path / "swept", workers=2, shards=12, progress=tell)
    assert killed
    assert bytes_of(tmp_path / "swept") == alone


def test_ray_replaces_a_worker_that_is_killed(experiment: Path, tmp_path: Path, alone: dict[str, str]) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install mpquic-lab[ray]")
    import psutil

    def workers() -> list[int]:
        found = []
        for process in psutil.Process().children(recursive=True):
            # Some end while they are looked at.
            with contextlib.suppress(psutil.Error):
                if process.cmdline()[:1] == ["ray::_work"]:
                    found.append(process.pid)
        return found

    tell, killed = kill_once(workers)
    sweep(experiment, tmp_path / "swept", address="local", workers=3, shards=30, progress=tell)
    assert killed
    assert bytes_of(tmp_path / "swept") == alone


@pytest.fixture
def cluster() -> Iterator[str]:
    """A cluster of Ray's in processes of their own, which is there before the sweep and after it; its address."""
    pytest.importorskip("ray", reason="Ray is not installed: pip install mpquic-lab[ray]")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # A short path: Ray puts its sockets there.
    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder:
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--num-cpus=2"]
        command += [f"--port={port}", f"--temp-dir={folder}", "--include-dashboard=false", "--disable-usage-stats"]
        with open(f"{folder}/said", "w+") as said:
            head = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, start_new_session=True)
            try:
                import ray

                address = f"127.0.0.1:{port}"
                for _ in range(60):
                    assert head.poll() is None, Path(said.name).read_text()
                    try:
                        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
                        break
                    except (ConnectionError, RuntimeError):
                        continue
                ray.shutdown()
                yield address
            finally:
                os.killpg(head.pid, signal.SIGTERM)
                head.wait()


def test_a_cluster_that_is_there_gets_the_folder(cluster: str, experiment: Path, tmp_path: Path, alone: dict[str, str]) -> None:
    """By the command. Workers are told the file's name within the folder, which they have from Ray."""
    shipped = tmp_path / "shipped"
    shipped.mkdir()
    file = shipped / experiment.name
    experiment.rename(file)
    out = tmp_path / "swept"
    command = [sys.executable, "-m", "mpquic_lab.sweep", str(file), "--address", "auto", "--ship", str(shipped)]
    environment = {**os.environ, "RAY_ADDRESS": cluster}
    swept = subprocess.run([*command, "--out", str(out), "--shards", "5"], capture_output=True, text=True, env=environment)
    assert swept.returncode == 0, swept.stderr
    assert bytes_of(out) == alone


class Deadly(lab.Scheduler):
    """Takes its process with it."""

    def decide(self, cx: lab.Context) -> lab.schedulers.Answer:
        if multiprocessing.parent_process() is not None:
            os.kill(os.getpid(), signal.SIGKILL)
        return cx.sendable[0] if cx.sendable else None


class Wrong(lab.Scheduler):
    def decide(self, cx: lab.Context) -> lab.schedulers.Answer:
        raise LookupError("not today")


def test_what_fails_for_good_is_said(experiment: Path, tmp_path: Path) -> None:
    with pytest.raises(SweepError, match="died 3 times"):
        sweep(experiment, tmp_path / "one", workers=1, retries=2, also=[Deadly], only="Deadly$")
    with pytest.raises(SweepError, match="LookupError: not today"):
        sweep(experiment, tmp_path / "two", workers=1, also=[Wrong], only="Wrong$")


def test_a_sweep_goes_on_where_it_stopped(experiment: Path, tmp_path: Path, alone: dict[str, str]) -> None:
    out = tmp_path / "swept"
    told: list[int] = []

    def stop(done: int, every: int) -> None:
        told.append(done)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(experiment, out, workers=2, shards=6, progress=stop)
    sweep(experiment, out, workers=2, shards=6, progress=lambda done, every: told.append(done))
    assert told[0] == RUNS // 6 and told[1] > told[0] and told[-1] == RUNS
    assert bytes_of(out) == alone


def test_the_command(experiment: Path, tmp_path: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "mpquic_lab.sweep", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    out = tmp_path / "swept"
    done = run(str(experiment), "--out", str(out), "--seeds", "1", "--workers", "2", "--shards", "3")
    assert done.returncode == 0 and "peekaboo" in done.stdout, done.stderr
    assert len(lab.Results.read(out)) == RUNS // 20
    wrong = run("no-such.toml", "--out", str(out))
    assert wrong.returncode == 2 and "no-such.toml: cannot be read" in wrong.stderr
