"""Figures of the papers: what is run, and that the best fixed gap is chosen by network and not by run."""

import numpy as np
import pytest
from mpquic_training import evaluate, figures
from mpquic_training.networks import Network, Path


def test_networks_are_those_of_the_figures_ranges():
    for name, figure in figures.FIGURES.items():
        assert len(figure.networks) >= 6, name
        assert figure.base in [contender[0] for contender in figure.contenders], name
        assert len({network.name for network in figure.networks}) == len(figure.networks), name
    for network in figures.FIGURES["gaps-6"].networks:
        fast, slow = network.paths
        assert 10 <= fast.owd <= 25 <= slow.owd <= 50 and fast.loss == 0.01
    assert {len(network.paths) for network in figures.FIGURES["gaps-3"].networks} == {4, 5, 6, 7, 8}


def test_what_is_compared_is_paired_by_network_and_seed(monkeypatch):
    networks = tuple(Network(name, (Path(50, 10),)) for name in "ab")
    figure = figures.Figure(
        networks, "w", ("time",),
        (("base", "stms", {}), ("fixed 1", "gaps", {"fixed_gap": 1}), ("fixed 2", "gaps", {"fixed_gap": 2})), "base",
    )  # fmt: skip
    # By network: what fixed 1 and fixed 2 take.
    times = {"a": {1: (1.0, 3.0), 2: (2.5, 2.5)}, "b": {1: (8.0, 8.0), 2: (4.0, 4.0)}}

    def run(scheduler, config, network, workload, congestion, seed):
        gap = config.get("fixed_gap")
        return {"time": 4.0 if gap is None else times[network.name][gap][seed - evaluate.FIRST_SEED]}

    monkeypatch.setattr(evaluate, "run", run)
    report = figures.compare(figure)
    found = report["time"]
    assert found["runs"] == 4
    # On a, gap 1 has the smaller mean, also where gap 2 was better; on b, gap 2.
    assert found["medians"]["best fixed gap"] == pytest.approx(np.median([1.0, 3.0, 4.0, 4.0]))
    assert found["against"]["fixed 2"]["change"] == pytest.approx((2.5 / 4 * 1.0) ** 0.5 - 1)
    assert found["against"]["best fixed gap"]["below"] == 1
    assert "best fixed gap" in figures.table("x", figure, report)


def test_a_run_that_fails_for_one_counts_for_none(monkeypatch):
    figure = figures.Figure(
        (Network("a", (Path(50, 10),)),), "w", ("time",), (("base", "stms", {}), ("other", "gaps", {})), "base"
    )

    def run(scheduler, config, network, workload, congestion, seed):
        return None if scheduler == "gaps" and seed == evaluate.FIRST_SEED else {"time": 2.0}

    monkeypatch.setattr(evaluate, "run", run)
    assert figures.compare(figure)["time"]["runs"] == 1
