"""Results as frames: pandas or polars where they are installed, columns where not."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from . import _native
from .timeline import Timeline

if TYPE_CHECKING:
    import pandas
    import polars

Columns = dict[str, "list[str | None] | npt.NDArray[Any]"]


@dataclass(frozen=True)
class Run:
    """One run."""

    value: float
    """The workload's primary metric."""
    values: dict[str, float]
    """All metrics by name, in the units of the lab's tables (`completion` s, `oqs_mean` kB, `path1_share` %, ...)."""
    bounds: dict[str, float]
    """What the network could do at best, by metric."""
    series: dict[str, npt.NDArray[np.float64]]
    """The values behind the metrics: of every chunk, message or stream."""
    trace_hash: str
    """Of all that happened: equal runs have equal hashes."""
    timeline: Timeline | None = None
    """If it was asked for."""


class Results:
    """The results of an experiment: a row per run."""

    def __init__(self, native: _native.Results) -> None:
        self._native = native
        self._columns: Columns | None = None

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Results:
        """The results in a folder that `run(..., out=...)` or `mpquic-lab run` wrote.

        Raises `ExperimentError` if there are none.
        """
        return cls(_native.Results.read(path))

    @property
    def name(self) -> str:
        """The experiment's name."""
        return self._native.name

    @property
    def title(self) -> str:
        """The experiment's title."""
        return self._native.title

    @property
    def build(self) -> str:
        """The fingerprint of the program or library that made them."""
        return self._native.build

    def __len__(self) -> int:
        return len(self._native)

    def columns(self) -> Columns:
        """A column per name: lists of text, and arrays of numbers with NaN where a run has no value.

        `network`, `workload`, `congestion`, `scheduler` and `seed` name a run. `value` is the workload's primary metric,
        `error` why a run failed, `trace_hash` the hash of all that happened. Then each metric by name, in the units of
        the lab's tables, and the bounds of what the network could do as `..._bound`.
        """
        if self._columns is None:
            self._columns = self._native.columns()
        return dict(self._columns)

    def to_pandas(self) -> pandas.DataFrame:
        """The columns as a pandas frame. Needs pandas: `pip install mpquic-lab[pandas]`."""
        import pandas

        return pandas.DataFrame(self.columns())

    def to_polars(self) -> polars.DataFrame:
        """The columns as a polars frame. Needs polars: `pip install mpquic-lab[polars]`."""
        import polars

        return polars.DataFrame(self.columns())

    def frame(self) -> Any:
        """A pandas frame if pandas is installed, otherwise a polars frame, otherwise the columns."""
        for convert in (self.to_pandas, self.to_polars):
            try:
                return convert()
            except ModuleNotFoundError as missing:
                if missing.name not in ("pandas", "polars"):
                    raise
        return self.columns()

    def series(self, name: str) -> list[npt.NDArray[np.float64] | None]:
        """The values behind a metric (`chunk_time` of every chunk, ...), an array per run in the order of the rows.

        Raises `ExperimentError` if no run has them.
        """
        return self._native.series(name)

    def summary(self, headline_only: bool = True) -> list[dict[str, Any]]:
        """The figures of each cell over its seeds, with bootstrap intervals: what `mpquic-lab run --json` prints.

        `headline_only` leaves out all metrics but the experiment's first.
        """
        summed: list[dict[str, Any]] = json.loads(self._native.summaries(headline_only))
        return summed

    def table(self) -> str:
        """The table that `mpquic-lab run` prints."""
        return self._native.table()

    def claims(self) -> list[tuple[str, str, str]]:
        """The statements of the experiment's source: what it says, where, and what came out."""
        return self._native.claims()

    def __repr__(self) -> str:
        return f"<Results of {self.name}: {len(self)} runs>"
