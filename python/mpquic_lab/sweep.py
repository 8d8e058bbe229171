"""An experiment on many machines: its runs as tasks of Ray, or of processes of this machine.

    python -m mpquic_lab.sweep experiments/quick.toml --address auto --shards 200 --out results/quick

The runs do not depend on each other, and a run is the same on every machine. So the folder gets what `mpquic-lab run` and
`mpquic_lab.run` write on one machine, byte for byte. A worker that dies costs the part that it was at: another worker does
it again. A sweep that was interrupted goes on where it stopped: what is in the folder is not run again.

All machines need this package, of the same build: other builds are refused. They also need the experiment file, with what
it includes, under the same path; or name a folder with `--ship`, and Ray brings it along.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import multiprocessing
import multiprocessing.connection
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import _native
from .results import Results
from .runs import SchedulerLike, Tell, _Bar, load
from .schedulers import Scheduler


class SweepError(RuntimeError):
    """A part of a sweep could not be executed, for another reason than a worker's death, or too often for that."""


@dataclass(frozen=True)
class _Task:
    """What every worker is told."""

    file: str
    options: tuple[tuple[str, Any], ...]
    build: str
    jobs: int


@functools.lru_cache(maxsize=1)
def _loaded(file: str, options: tuple[tuple[str, Any], ...]) -> _native.Experiment:
    return load(file, **dict(options))


def _work(task: _Task, runs: list[int]) -> bytes:
    """Executes a part: what a worker does."""
    experiment = _loaded(task.file, task.options)
    if experiment.build != task.build:
        raise SweepError(f"a worker has build {experiment.build}, expected {task.build}")
    return experiment.run_some(runs, task.jobs)


def sweep(
    file: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    address: str = "processes",
    shards: int | None = None,
    workers: int | None = None,
    jobs: int = 1,
    retries: int = 3,
    ship: str | os.PathLike[str] | None = None,
    seeds: int | range | None = None,
    only: str | None = None,
    also: Sequence[SchedulerLike] = (),
    register: Sequence[type[Scheduler]] = (),
    fresh: bool = False,
    progress: bool | Tell | None = None,
) -> Results:
    """Executes an experiment in parts, and puts their results into the folder `out`.

    `address` is "processes" for processes of this machine, "local" for a cluster of Ray's on this machine, and otherwise
    what Ray takes: "auto" for the cluster that this machine belongs to, or its address. `shards` is the number of parts
    (default: 4 per worker); a part is what is lost with a worker. `workers` is the number of processes, for "processes"
    and "local" (default: one per core); `jobs` the number of threads in each. A part is begun anew at most `retries` times
    after the death of its worker. `ship` is a folder with the experiment in it that Ray brings to its workers. For the rest
    see `mpquic_lab.run`.

    Raises `SweepError`, and as `mpquic_lab.run` does.
    """
    options = (("seeds", seeds), ("only", only), ("also", tuple(also)), ("register", tuple(register)))
    experiment = load(file, seeds=seeds, only=only, also=also, register=register)
    gathering = experiment.gather(out, fresh)
    missing = gathering.missing(experiment)
    path = Path(file)
    name = str(path.resolve().relative_to(Path(ship).resolve()) if ship is not None else path.resolve())
    task = _Task(name, options, experiment.build, jobs)
    workers = workers or os.cpu_count() or 1
    if progress is None:
        progress = sys.stderr.isatty()
    tell = _Bar() if progress is True else progress or None
    done = len(experiment) - len(missing)
    cut = functools.partial(_parts, missing)
    if address == "processes":
        results = _on_processes(task, cut(shards or 4 * workers), workers, retries)
    else:
        results = _on_ray(task, cut, shards, address, workers, retries, ship)
    with contextlib.closing(results):
        for part, lines in results:
            gathering.take(lines)
            done += len(part)
            if tell is not None:
                tell(done, len(experiment))
    if isinstance(tell, _Bar):
        tell.end()
    return Results(gathering.finish(experiment))


def _parts(runs: list[int], count: int) -> list[list[int]]:
    """Equal parts. Neighbours are seeds of one cell, which take about the same time, so parts do, too."""
    if count < 1:
        raise _native.ExperimentError(f"{count} shards, expected at least one")
    return [runs[first::count] for first in range(min(count, len(runs)))]


Finished = Iterator[tuple[list[int], bytes]]


def _on_ray(
    task: _Task,
    cut: Callable[[int], list[list[int]]],
    shards: int | None,
    address: str,
    workers: int,
    retries: int,
    ship: str | os.PathLike[str] | None,
) -> Any:
    import ray

    ours = not ray.is_initialized()
    if ours:
        where: dict[str, Any] = {"num_cpus": workers} if address == "local" else {"address": address}
        if ship is not None:
            where["runtime_env"] = {"working_dir": os.fspath(ship)}
        ray.init(include_dashboard=False, log_to_driver=False, **where)
    try:
        cores = int(ray.cluster_resources().get("CPU", 1))
        # Ray begins a task anew whose worker died, and does not if the task itself raised.
        remote = ray.remote(num_cpus=task.jobs, max_retries=retries)(_work)
        told = ray.put(task)
        parts = {remote.remote(told, part): part for part in cut(shards or 4 * max(1, cores // task.jobs))}
        while parts:
            ready, _ = ray.wait(list(parts), num_returns=1)
            for one in ready:
                try:
                    yield parts.pop(one), ray.get(one)
                except ray.exceptions.RayTaskError as error:
                    raise SweepError(str(error.cause)) from error
                except ray.exceptions.WorkerCrashedError as error:
                    raise SweepError(f"a part's worker died {retries + 1} times") from error
    finally:
        if ours:
            ray.shutdown()


def _serve(pipe: multiprocessing.connection.Connection, task: _Task) -> None:
    """A process: executes the parts that come through the pipe."""
    with contextlib.suppress(KeyboardInterrupt, EOFError, BrokenPipeError):
        while True:
            part = pipe.recv()
            try:
                pipe.send((True, _work(task, part)))
            except Exception:
                pipe.send((False, traceback.format_exc(limit=-1)))


def _on_processes(task: _Task, parts: list[list[int]], workers: int, retries: int) -> Any:
    # Not forked: threads of the caller would leave locks behind.
    context = multiprocessing.get_context("spawn")
    waiting = [(part, 0) for part in reversed(parts)]
    at_work: dict[multiprocessing.connection.Connection, tuple[Any, list[int], int]] = {}
    idle: list[tuple[Any, Any]] = []
    try:
        while waiting or at_work:
            while waiting and len(at_work) < workers:
                if idle:
                    process, pipe = idle.pop()
                else:
                    pipe, its = context.Pipe()
                    process = context.Process(target=_serve, args=(its, task), daemon=True)
                    process.start()
                    its.close()
                part, deaths = waiting.pop()
                at_work[pipe] = (process, part, deaths)
                with contextlib.suppress(BrokenPipeError):
                    pipe.send(part)
            for ready in multiprocessing.connection.wait(list(at_work)):
                assert isinstance(ready, multiprocessing.connection.Connection)
                process, part, deaths = at_work.pop(ready)
                try:
                    worked, answer = ready.recv()
                except (EOFError, ConnectionResetError):
                    if deaths >= retries:
                        raise SweepError(f"a part's worker died {deaths + 1} times") from None
                    waiting.append((part, deaths + 1))
                    continue
                if not worked:
                    raise SweepError(answer)
                idle.append((process, ready))
                yield part, answer
    finally:
        for process in [process for process, *_ in at_work.values()] + [process for process, _ in idle]:
            process.terminate()
            process.join()


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status."""
    summary, _, details = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="python -m mpquic_lab.sweep",
        description=summary,
        epilog=details,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("experiment", help="the experiment file")
    parser.add_argument("--out", required=True, metavar="DIR", help="the folder for the results")
    parser.add_argument(
        "--address",
        default="processes",
        help="processes of this machine (default), local (Ray on this machine), auto, or the address of a cluster of Ray's",
    )
    parser.add_argument("--shards", type=int, metavar="N", help="how many parts [default: 4 per worker]")
    parser.add_argument("--workers", type=int, metavar="N", help="how many processes, for processes and local")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="threads of each worker [default: 1]")
    parser.add_argument("--retries", type=int, default=3, metavar="N", help="new attempts after a worker's death")
    parser.add_argument("--ship", metavar="DIR", help="a folder with the experiment that Ray brings to its workers")
    parser.add_argument("--seeds", type=int, metavar="N", help="the number of seeds; replaces the number in the file")
    parser.add_argument("--only", metavar="PATTERN", help="run only NETWORK/WORKLOAD/CONGESTION/SCHEDULER with this in it")
    parser.add_argument("--fresh", action="store_true", help="discard earlier results")
    given = vars(parser.parse_args(arguments))
    try:
        results = sweep(given.pop("experiment"), given.pop("out"), **given)
    except (_native.ExperimentError, SweepError, OSError) as error:
        print(error, file=sys.stderr)
        return 2 if isinstance(error, _native.ExperimentError) else 1
    except ModuleNotFoundError as missing:
        print(f"{missing}; for Ray: pip install mpquic-lab[ray]", file=sys.stderr)
        return 1
    print(results.table())
    failed = [error for error in results.columns()["error"] if error is not None]
    if failed:
        print(f"{len(failed)} runs failed, the first: {failed[0]}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    # By the module's own name: Ray's workers look there for what they are to do, and have another `__main__`.
    from mpquic_lab.sweep import main as command

    sys.exit(command())
