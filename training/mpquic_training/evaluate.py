"""Runs a learned policy and its rivals on networks, each on the same networks and seeds, and tells them apart; trains
nothing.
"""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from .compare import change, verdict
from .networks import HELD_BACK_PAGES

# Seeds of training lie below 2^32 and are drawn; these are above all of them.
FIRST_SEED = 2**32 + 1000


@dataclass(frozen=True)
class Metric:
    """A figure of a run."""

    name: str
    unit: str
    higher_is_better: bool = False


@dataclass(frozen=True)
class Exam:
    """What a policy is judged by: workloads and their metrics, the first of the first the most."""

    scheduler: str
    workloads: tuple[tuple[str, tuple[Metric, ...]], ...]
    variants: tuple[tuple[str, dict], ...] = (("learned", {}),)
    rivals: tuple[str, ...] = ("minrtt", "ecf", "stms", "stream_minrtt")


EXAMS = {
    "dqn": Exam(
        "dqn",
        (
            ("video:60:5Mbit/s", (Metric("chunk_time", "s"), Metric("chunk_time_p95", "s"))),
            ("video:60", (Metric("bitrate", "Mbit/s", True),)),
        ),
    ),
    "sailfish": Exam(
        "sailfish",
        tuple(
            (f"page:{site}", (Metric("stream_mean", "s"), Metric("first_byte_mean", "s"), Metric("page_load", "s")))
            for site in HELD_BACK_PAGES
        ),
        (("learned", {}), ("learned, oracle", {"rates": "oracle"})),
    ),
    "gaps": Exam(
        "gaps",
        (("bulk:6s", (Metric("oqs_mean", "kB"), Metric("oqs_p99", "kB"), Metric("goodput", "Mbit/s", True))),),
    ),
}


def run(scheduler, config, network, workload, congestion, seed):
    """The figures of one run, or none where the simulator gave up. The client sends its few bytes by minRTT."""
    from mpquic_lab import gym

    try:
        outcome = gym.run_episode(
            scheduler, network.describe(), workload, congestion, seed, config, client="minrtt"
        )
    except gym.SimulationError:
        return None
    return outcome["values"]


def contenders(exam, model, also=()):
    """Names with scheduler and configuration; the learned first. `also`: pairs of a name and a configuration of more of
    them, which may name another model."""
    variants = [*exam.variants, *also]
    learned = {name: (exam.scheduler, {"model": str(model)} | more) for name, more in variants}
    return learned | {"random": (exam.scheduler, {"model": "random"})} | {name: (name, {}) for name in exam.rivals}


def gather(exam, model, networks, seeds, congestion="olia", threads=2, say=lambda *_: None, also=()):
    """Figures by workload and contender: a list with a dictionary per (network, seed), in the same order for all."""
    jobs = []
    for workload, _ in exam.workloads:
        for name, (scheduler, config) in contenders(exam, model, also).items():
            for network in networks:
                for seed in range(seeds):
                    jobs.append((workload, name, (scheduler, config, network, workload, congestion, FIRST_SEED + seed)))
    figures = {workload: {name: [] for name in contenders(exam, model, also)} for workload, _ in exam.workloads}
    with ThreadPoolExecutor(threads) as pool:
        for done, (job, values) in enumerate(zip(jobs, pool.map(lambda job: run(*job[2]), jobs)), 1):
            figures[job[0]][job[1]].append(values)
            if done % 500 == 0:
                say(f"{done} of {len(jobs)} runs")
    return figures


def judge(exam, figures, networks, seeds, also=()):
    """By metric: each contender's mean, and the change from each rival to each learned variant, and from the first of
    these to each other one.

    Workloads with the same metrics are thrown together. A (network, seed) that any contender failed in counts for
    none; how many there are is told.
    """
    names = [network.name for network in networks for _ in range(seeds)]
    learned = [name for name, _ in (*exam.variants, *also)]
    metrics = {}
    for workload, measured in exam.workloads:
        of = figures[workload]
        whole = [i for i in range(len(names)) if all(of[name][i] is not None for name in of)]
        for metric in measured:
            entry = metrics.setdefault(
                metric.name, {"metric": metric, "values": {name: [] for name in of}, "networks": [], "failed": 0}
            )
            entry["failed"] += len(names) - len(whole)
            entry["networks"] += [names[i] for i in whole]
            for name in of:
                entry["values"][name] += [of[name][i][metric.name] for i in whole]
    report = {}
    for key, entry in metrics.items():
        metric, values = entry["metric"], entry["values"]
        against = {}
        for ours in learned:
            for theirs in values:
                if theirs == ours or (theirs in learned and theirs != learned[0]):
                    continue
                found = change(values[ours], values[theirs], entry["networks"])
                against[f"{ours} against {theirs}"] = found | {"verdict": verdict(found, metric.higher_is_better)}
        report[key] = {
            "unit": metric.unit,
            "higher_is_better": metric.higher_is_better,
            "runs": len(entry["networks"]),
            "failed": entry["failed"],
            "means": {name: float(np.mean(column)) for name, column in values.items()},
            "against": against,
        }
    return report


def table(report):
    """The report as text."""
    lines = []
    for name, entry in report.items():
        better = "higher" if entry["higher_is_better"] else "lower"
        unit = f", {entry['unit']}" if entry["unit"] else ""
        lines.append(f"{name}{unit} ({better} is better), {entry['runs']} runs, {entry['failed']} left out")
        lines.append("  means: " + ", ".join(f"{who} {mean:.4g}" for who, mean in entry["means"].items()))
        for pair, found in entry["against"].items():
            lines.append(
                f"  {pair:34} {found['change']:+8.1%}  [{found['low']:+7.1%}, {found['high']:+7.1%}]"
                f"  lower on {found['below']:2} of {found['networks']} networks  {found['verdict']}"
            )
    return "\n".join(lines)


def evaluate(name, model, networks, seeds, congestion="olia", threads=2, say=lambda *_: None, also=(), only="", rivals=None):
    """The whole report on a model file; of the exam's workloads, those whose name has a match for `only`, and of its
    rivals those in `rivals`, if there are any."""
    import hashlib

    exam = EXAMS[name]
    exam = replace(exam, workloads=tuple(work for work in exam.workloads if re.search(only, work[0])))
    if rivals is not None:
        exam = replace(exam, rivals=tuple(rivals))
    figures = gather(exam, model, networks, seeds, congestion, threads, say, also)
    return {
        "model": name,
        "onnx_sha256": hashlib.sha256(Path(model).read_bytes()).hexdigest(),
        "congestion": congestion,
        "workloads": [workload for workload, _ in exam.workloads],
        "networks": [network.name for network in networks],
        "seeds": seeds,
        "interval": "95 %, bootstrap over networks",
        "also": dict(also),
        "metrics": judge(exam, figures, networks, seeds, also),
    }


def in_short(report, file):
    """The report's headline against minRTT, for a card. `file`: where the whole report is."""
    name, entry = next(iter(report["metrics"].items()))
    found = entry["against"]["learned against minrtt"]
    return (
        f"{name} {found['change']:+.1%} ({found['low']:+.1%} to {found['high']:+.1%}) of minrtt's, "
        f"{len(report['networks'])} networks, {report['congestion']}: {file}"
    )


def save(report, path):
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n")
