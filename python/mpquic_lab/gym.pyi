"""The mpquic simulator: schedulers stepped one decision at a time, whole runs, and policies as the sender runs them."""

from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

KINDS: list[str]

class SimulationError(RuntimeError):
    """A simulation that was set up could not be run to its end."""

def describe(kind: str) -> dict[str, Any]:
    """What a kind of session hands over and takes back: `{"features": [(name, unit)], "state": n, "outputs": n}`."""

def run_episode(
    scheduler: str,
    network: dict[str, Any] | str,
    workload: str,
    congestion: str = "olia",
    seed: int = 0,
    config: dict[str, Any] | str | None = None,
    client: str | None = None,
) -> dict[str, Any]:
    """Runs a workload with a scheduler of the registry: `{"primary", "values", "series", "policy", "trace_hash"}`."""

class Session:
    """A simulated connection whose server asks Python for the decisions of its scheduler."""

    def __init__(
        self,
        kind: str,
        network: dict[str, Any] | str,
        workload: str,
        congestion: str = "olia",
        seed: int = 0,
        scheduler: dict[str, Any] | str | None = None,
        client: str = "minrtt",
    ) -> None: ...
    @property
    def kind(self) -> str: ...
    def next(self) -> tuple[npt.NDArray[np.float32] | None, list[tuple[int, float, bool]], dict[str, Any]]:
        """Runs on to the next decision, or to the end."""

    def answer(self, outputs: npt.ArrayLike) -> None:
        """Answers the last state."""

    def close(self) -> None:
        """Ends the simulation, wherever it is."""

class Policy:
    """A network and its card, loaded for one engine."""

    def __init__(self, path: str | PathLike[str], engine: str = "fastest") -> None: ...
    def run(self, state: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """The outputs for one state, both flat."""

    def run_batch(self, states: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """The outputs for many states, a row each."""

    @property
    def engine(self) -> str: ...
    @property
    def why_no_plan(self) -> str | None: ...
    @property
    def inputs(self) -> int: ...
    @property
    def outputs(self) -> int: ...
