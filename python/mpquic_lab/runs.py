"""Runs experiments, networks and single cells."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from . import _native
from .results import Results, Run
from .schedulers import Scheduler
from .timeline import Timeline

SchedulerLike = str | type[Scheduler] | Mapping[str, Any]
"""A name; a class in Python; or a mapping with `name` (either of them), and if need be `config` and `label`."""

Tell = Callable[[int, int], None]
"""Told from time to time how many runs are done, and how many there are."""


class _Bar:
    """A line on standard error that says how far the runs are."""

    def __init__(self) -> None:
        self.begun = time.monotonic()
        self.shown = False

    def __call__(self, done: int, every: int) -> None:
        gone = time.monotonic() - self.begun
        # What is over in a moment needs no bar.
        if gone < 1.0 and not self.shown:
            return
        self.shown = True
        full = 40 * done // max(every, 1)
        left = f", {gone / done * (every - done):.0f} s left" if done else ""
        print(f"\r[{'#' * full:<40}] {done}/{every} runs, {gone:.0f} s gone{left}   ", end="", file=sys.stderr)

    def end(self) -> None:
        if self.shown:
            print(file=sys.stderr)


def _with_progress(progress: bool | Tell | None, work: Callable[[Tell | None], _native.Results]) -> Results:
    if progress is None:
        progress = sys.stderr.isatty()
    if progress is False:
        return Results(work(None))
    if progress is not True:
        return Results(work(progress))
    bar = _Bar()
    try:
        return Results(work(bar))
    finally:
        bar.end()


Named = tuple[str, str, str | None]
Made = list[tuple[str, Callable[..., Any]]]


def _sorted_out(schedulers: Iterable[SchedulerLike]) -> tuple[list[Named], Made]:
    """Label, name and configuration of each scheduler; and what makes those that are written in Python."""
    named: list[Named] = []
    made: dict[str, Callable[..., Any]] = {}
    for scheduler in schedulers:
        entry = dict(scheduler) if isinstance(scheduler, Mapping) else {"name": scheduler}
        what = entry.pop("name", None)
        config, label = entry.pop("config", None), entry.pop("label", None)
        if entry:
            raise _native.ExperimentError(f"unknown key `{next(iter(entry))}`, expected name, config or label")
        name: str
        if isinstance(what, str):
            name = what
        elif callable(what):
            name = str(getattr(what, "name", None) or getattr(what, "__name__", type(what).__name__))
            if made.setdefault(name, what) is not what:
                raise _native.ExperimentError(f"two classes are called `{name}`, expected names that differ")
        else:
            raise _native.ExperimentError(f"a scheduler is {what!r}, expected a name or a class")
        named.append((str(label or name), name, None if config is None else json.dumps(config)))
    return named, list(made.items())


def _takes_seed(make: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(make).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(one.name == "seed" or one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters)


def _identified(made: Made) -> tuple[list[tuple[str, Callable[..., Any], bool]], str]:
    """With a hash of their code, as far as it can be seen: it is a part of the build that results name."""
    sources = hashlib.sha256()
    for name, make in made:
        sources.update(name.encode())
        for part in getattr(make, "__mro__", (make,)):
            try:
                sources.update(inspect.getsource(part).encode())
            except (OSError, TypeError):
                sources.update(repr(part).encode())
    identity = f"python-{sources.hexdigest()[:16]}" if made else ""
    return [(name, make, _takes_seed(make)) for name, make in made], identity


def _range(seeds: range) -> tuple[int, int]:
    if seeds.step != 1 or seeds.start < 0:
        raise _native.ExperimentError(f"seeds {seeds}, expected one after the other, from 0 up")
    return seeds.start, len(seeds)


def load(
    file: str | os.PathLike[str],
    *,
    seeds: int | range | None = None,
    only: str | None = None,
    also: Sequence[SchedulerLike] = (),
    register: Sequence[type[Scheduler]] = (),
) -> _native.Experiment:
    """Reads an experiment without running it: see `run`. Its `len` is the number of runs."""
    named, made = _sorted_out(also)
    _, registered = _sorted_out(register)
    made += [entry for entry in registered if entry not in made]
    wanted = _range(seeds) if isinstance(seeds, range) else None if seeds is None else (None, seeds)
    return _native.Experiment.load(file, _identified(made), named, wanted, only)


def run(
    file: str | os.PathLike[str],
    *,
    seeds: int | range | None = None,
    only: str | None = None,
    also: Sequence[SchedulerLike] = (),
    register: Sequence[type[Scheduler]] = (),
    jobs: int = 0,
    out: str | os.PathLike[str] | None = None,
    fresh: bool = False,
    progress: bool | Tell | None = None,
) -> Results:
    """Runs an experiment file, on all cores and without the interpreter's lock.

    `seeds` replaces the number in the file, or the seeds by a range. `only` is a part of, or a pattern for, the names
    NETWORK/WORKLOAD/CONGESTION/SCHEDULER to run. `also` adds schedulers to those of the file, in all of its networks;
    `register` makes classes known that the file names. `jobs` is the number of threads (0: one per core). In the folder
    `out`, runs that are there are not run again unless `fresh`, and CSV files and a report are written; with schedulers
    in Python, everything is run again. `progress` is a function that is told how far it is; True shows a bar on standard
    error; None does so on a terminal.

    Raises `ExperimentError` for what is wrong with the file or the arguments, `OSError` for `out`, what a scheduler in
    Python raises, and KeyboardInterrupt. A run that fails is a row with `error`.
    """
    experiment = load(file, seeds=seeds, only=only, also=also, register=register)
    return _with_progress(progress, lambda tell: experiment.run(jobs, out, fresh, tell))


def _one_network(
    network: str,
    workload: str,
    schedulers: Iterable[SchedulerLike],
    congestion: Sequence[str],
    seeds: int | range,
) -> _native.Experiment:
    named, made = _sorted_out(schedulers)
    wanted = _range(seeds) if isinstance(seeds, range) else (1, seeds)
    return _native.Experiment.of_one_network(network, workload, named, list(congestion), _identified(made), wanted)


def compare(
    network: str,
    workload: str,
    schedulers: Sequence[SchedulerLike],
    *,
    congestion: str | Sequence[str] = "olia",
    seeds: int | range = 20,
    jobs: int = 0,
    progress: bool | Tell | None = None,
) -> Results:
    """Runs schedulers over one network.

    `network` is RATE DELAY [LOSS] [key=value] per path with `|` between paths, as "50Mbit 20ms 0% | 2Mbit 100ms 1.5%";
    delays are one way. `workload` is as "file:2MB", "video:60" or "bulk:6s". Raises as `run` does.
    """
    controls = [congestion] if isinstance(congestion, str) else congestion
    experiment = _one_network(network, workload, schedulers, controls, seeds)
    return _with_progress(progress, lambda tell: experiment.run(jobs, None, False, tell))


def cell(
    network: str,
    workload: str,
    scheduler: SchedulerLike = "minrtt",
    congestion: str = "olia",
    seed: int = 1,
    *,
    timeline: float | None = None,
) -> Run:
    """One run over one network, described as for `compare`; with its time lines at this interval (s), if one is given.

    Raises `ExperimentError` for what is wrong with the arguments, `SimulationError` if the run fails, and what a
    scheduler in Python raises.
    """
    return look(_one_network(network, workload, [scheduler], [congestion], range(seed, seed + 1)), timeline=timeline)


def look(experiment: _native.Experiment, run: int = 0, *, timeline: float | None = None) -> Run:
    """One run of an experiment that `load` has read, by its number, from 0: see `cell`."""
    told = experiment.look(run, timeline)
    lines = told.pop("timeline", None)
    return Run(**told, timeline=None if lines is None else Timeline.of(lines))
