"""Figures of the papers whose schedulers are learned here: networks, contenders and what is compared; trains nothing.

The lab has these figures, too, with more networks and more seeds. What is here takes minutes, needs no other program,
and has intervals over networks, so that a claim about a range of networks is judged as one.
"""

import dataclasses
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from . import evaluate
from .compare import change
from .networks import DQN_HELD_BACK, Network, Path

BULK = "bulk:8s:2s"
"""Eight seconds, of which the last six count."""


@dataclass(frozen=True)
class Figure:
    """What is run, and the contender that all others are compared with."""

    networks: tuple[Network, ...]
    workload: str
    metrics: tuple[str, ...]
    contenders: tuple[tuple[str, str, dict], ...]
    """Name, scheduler, configuration."""
    base: str
    seeds: int = 2
    congestion: str = "balia"


def _gaps(name, rtts, count=12, subflows=2, loss=0.01, seed=1):
    """Networks like GA-0, subflows by turns like Wi-Fi and LTE, with RTTs from these ranges."""
    dice = random.Random(f"{name} {seed}")
    networks = []
    for number in range(count):
        paths = tuple(
            Path(50, round(dice.uniform(*rtts[path % 2]) / 2, 2), loss, queue=(100, 3000)[path % 2])
            for path in range(subflows)
        )
        networks.append(Network(f"{name}-{number}", paths))
    return tuple(networks)


USUAL = ((20, 50), (50, 100))
_GAPS = ("gaps", "gaps", {})
_STMS = ("stms", "stms", {})
_MINRTT = ("minrtt", "minrtt", {})
_CHANCE = ("gaps_random", "gaps", {"model": "random"})
_EACH_ACK = ("gaps_each_ack", "gaps", {"interval_ms": 0, "round_trips": 0})
_QUEUE = ("oqs_p99", "oqs_mean", "goodput")


def _fixed(*gaps):
    return tuple((f"fixed {gap}", "gaps", {"fixed_gap": gap}) for gap in gaps)


def _wild():
    """Ethernet, Wi-Fi and LTE with the paper's rates; the variation of delays and the losses of Wi-Fi and LTE are the
    medians that Wu et al. measured at four places (percent of the RTT, percent). Delays and queues are ours, three of
    each place."""
    places = {
        "residence": ((8.8, 0.02), (9.7, 0.03)),
        "library-1": ((15.8, 0.41), (11.2, 0.19)),
        "office-1": ((9.8, 0.21), (10.6, 0.02)),
        "library-2": ((14.7, 0.40), (11.7, 0.08)),
    }
    networks = []
    for place, (wifi, lte) in places.items():
        for number, (near, far) in enumerate(((10, 25), (15, 35), (20, 50))):
            # A standard deviation of the RTT, half of it each way.
            paths = (
                Path(80, 5, queue=300),
                Path(50, near, wifi[1], queue=100, delay_sd=round(wifi[0] / 100 * near, 2)),
                Path(30, far, lte[1], queue=1000, delay_sd=round(lte[0] / 100 * far, 2)),
            )
            networks.append(Network(f"{place}-{number}", paths))
    return tuple(networks)


FIGURES = {
    # Of no paper: what the policy that ships is worth beside others, on all networks held back.
    "dqn-chunks": Figure(
        DQN_HELD_BACK, "video:30:5Mbit/s", ("chunk_time", "chunk_time_p95"),
        (("dqn", "dqn", {}), ("minrtt", "minrtt", {})), "dqn", 1, "olia",
    ),
    "gaps-3": Figure(
        tuple(network for paths in range(4, 9) for network in _gaps(f"GA-3-{paths}", USUAL, 3, paths)),
        "bulk:5s:1s", ("oqs_mean",),
        (_MINRTT, _STMS, ("daps", "daps", {}), ("blest", "blest", {}), ("ecf", "ecf", {}), _GAPS), "minrtt", 1,
    ),
    "gaps-6": Figure(_gaps("GA-6", USUAL), BULK, _QUEUE, (_STMS, _MINRTT, _GAPS, _EACH_ACK, _CHANCE), "stms"),
    # RTTs for which STMS has the 99th percentile that the paper implies for it, found by search.
    "gaps-6-calibrated": Figure(
        _gaps("GA-6c", ((20, 30), (50, 52))), BULK, _QUEUE,
        (_STMS, _MINRTT, _GAPS, _EACH_ACK, _CHANCE, *_fixed(0, 4, 8, 16, 32)), "stms",
    ),
    # Longer gaps than any policy's, for the most that a gap can gain.
    "gaps-6-long-gaps": Figure(
        _gaps("GA-6c", ((20, 30), (50, 52))), BULK, _QUEUE, (_STMS, *_fixed(64, 128, 256)), "stms"
    ),
    "gaps-8": Figure(
        tuple(n for loss in (0.03, 0.1, 0.3, 1, 3) for n in _gaps(f"GA-8-{loss}", USUAL, 4, loss=loss)),
        BULK, ("oqs_mean",), (_STMS, _GAPS, *_fixed(0, 4, 8, 16)), "stms",
    ),
    "gaps-11": Figure(_wild(), BULK, ("goodput", "oqs_mean"), (_STMS, _MINRTT, _GAPS), "stms"),
    "gaps-12": Figure(_wild(), "file:32MB", ("completion",), (_STMS, _MINRTT, _GAPS), "stms"),
}  # fmt: skip


def compare(figure, also=(), threads=1, say=lambda *_: None):
    """The figure's medians by contender, the change from the base to each, and to the best of the fixed gaps on each
    network. `also`: more contenders."""
    contenders = (*figure.contenders, *also)
    jobs = [
        (name, (scheduler, config, network, figure.workload, figure.congestion, evaluate.FIRST_SEED + seed))
        for name, scheduler, config in contenders
        for network in figure.networks
        for seed in range(figure.seeds)
    ]
    runs = {name: [] for name, *_ in contenders}
    with ThreadPoolExecutor(threads) as pool:
        for done, ((name, _), values) in enumerate(zip(jobs, pool.map(lambda job: evaluate.run(*job[1]), jobs)), 1):
            runs[name].append(values)
            if done % 50 == 0:
                say(f"{done} of {len(jobs)} runs")
    names = np.array([network.name for network in figure.networks for _ in range(figure.seeds)])
    whole = [i for i in range(len(names)) if all(values[i] is not None for values in runs.values())]
    report = {}
    for metric in figure.metrics:
        columns = {name: np.array([values[i][metric] for i in whole]) for name, values in runs.items()}
        if best := _best_fixed(columns, names[whole]):
            columns["best fixed gap"] = best[0]
        report[metric] = {
            "runs": len(whole),
            "medians": {name: float(np.median(column)) for name, column in columns.items()},
            "against": {
                name: change(column, columns[figure.base], list(names[whole]))
                for name, column in columns.items()
                if name != figure.base
            },
        }
    return report


def _best_fixed(columns, names):
    """On each network, the figures of the fixed gap with the least mean over its seeds: the best in hindsight."""
    fixed = [column for name, column in columns.items() if name.startswith("fixed ")]
    if not fixed:
        return None
    best = np.empty_like(fixed[0])
    for name in set(names):
        here = names == name
        best[here] = min((column[here] for column in fixed), key=np.mean)
    return (best,)


def table(name, figure, report):
    """The report as text."""
    lines = [f"{name}: {len(figure.networks)} networks, {figure.seeds} seeds each, {figure.workload}, {figure.congestion}"]
    for metric, entry in report.items():
        lines.append(f"{metric}, {entry['runs']} runs; median, and change from {figure.base}")
        for who, median in entry["medians"].items():
            found = entry["against"].get(who)
            text = "" if found is None else (
                f"  {found['change']:+8.1%}  [{found['low']:+7.1%}, {found['high']:+7.1%}]"
                f"  lower on {found['below']:2} of {found['networks']} networks"
            )  # fmt: skip
            lines.append(f"  {who:16} {median:10.4g}{text}")
    return "\n".join(lines)


def as_json(figure, report):
    """All that is needed to know what was compared."""
    return {
        "workload": figure.workload,
        "congestion": figure.congestion,
        "seeds": figure.seeds,
        "base": figure.base,
        "networks": [dataclasses.asdict(network) for network in figure.networks],
        "interval": "95 %, bootstrap over networks",
        "metrics": report,
    }
