"""The mpquic lab: multipath QUIC schedulers on simulated networks.

    import mpquic_lab as lab

    results = lab.run("experiments/quick.toml", seeds=6)
    print(results.table())
    results.to_pandas().groupby("scheduler")["completion"].mean()

    run = lab.cell("50Mbit 20ms | 2Mbit 100ms", "file:2MB", "ecf", seed=1, timeline=0.01)
    run.values["completion"]                      # s
    run.timeline.server.paths[0].cwnd.last        # bytes

Simulated time and all randomness follow from the seed: the same call gives the same numbers on every machine. Times are
seconds and sizes bytes unless a metric's unit says otherwise.
"""

from ._native import NEURAL, ExperimentError, SimulationError
from .results import Results, Run
from .runs import cell, compare, load, look, run
from .schedulers import (
    Acked,
    Context,
    Lost,
    PathUpdate,
    PathView,
    QueueView,
    Scheduler,
    Send,
    Sent,
    StreamUpdate,
    StreamView,
    Wait,
)
from .timeline import PathLine, Series, Side, Timeline

__version__ = "0.1.0"

__all__ = [
    "NEURAL",
    "Acked",
    "Context",
    "ExperimentError",
    "Lost",
    "PathLine",
    "PathUpdate",
    "PathView",
    "QueueView",
    "Results",
    "Run",
    "Scheduler",
    "Send",
    "Sent",
    "Series",
    "Side",
    "SimulationError",
    "StreamUpdate",
    "StreamView",
    "Timeline",
    "Wait",
    "cell",
    "compare",
    "load",
    "look",
    "run",
]
