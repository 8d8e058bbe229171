"""The statistics of comparisons on figures whose answer is known."""

import numpy as np
import pytest
from mpquic_training import curve, evaluate
from mpquic_training.compare import change, verdict


def test_a_constant_ratio_is_found_exactly():
    theirs = np.array([1.0, 2.0, 5.0, 10.0])
    found = change(0.8 * theirs, theirs, ["a", "a", "b", "b"])
    assert found["change"] == pytest.approx(-0.2)
    assert found["low"] == pytest.approx(-0.2) and found["high"] == pytest.approx(-0.2)
    assert (found["networks"], found["below"]) == (2, 2)
    assert verdict(found) == "better"
    assert verdict(found, higher_is_better=True) == "worse"


def test_no_difference_is_left_open():
    rng = np.random.default_rng(0)
    found = change(rng.lognormal(size=200), rng.lognormal(size=200), [str(i // 4) for i in range(200)])
    assert verdict(found) == "open"


def test_each_network_counts_once():
    found = change([2.0] * 99 + [0.5], [1.0] * 100, ["many"] * 99 + ["one"])
    assert found["change"] == pytest.approx(0.0)


def test_interval_covers_what_it_should():
    rng = np.random.default_rng(1)
    covered = 0
    for trial in range(200):
        logs = rng.normal(0.1, 0.3, 40)
        found = change(np.exp(logs), np.ones(40), [str(i) for i in range(40)], trial, 1000)
        covered += found["low"] <= np.expm1(0.1) <= found["high"]
    assert 0.88 <= covered / 200 <= 0.99


class Net:
    def __init__(self, name):
        self.name = name


def test_what_one_contender_failed_in_counts_for_none():
    exam = evaluate.Exam("x", (("w", (evaluate.Metric("time", "s"),)),), rivals=("minrtt",))
    figures = {
        "w": {
            "learned": [{"time": 1.0}, {"time": 100.0}, {"time": 1.0}],
            "random": [{"time": 2.0}, None, {"time": 2.0}],
            "minrtt": [{"time": 4.0}, {"time": 1.0}, {"time": 4.0}],
        }
    }
    report = evaluate.judge(exam, figures, [Net("a"), Net("b"), Net("c")], 1)["time"]
    assert (report["runs"], report["failed"]) == (2, 1)
    assert report["means"] == {"learned": 1.0, "random": 2.0, "minrtt": 4.0}
    assert report["against"]["learned against minrtt"]["change"] == pytest.approx(-0.75)
    assert "learned against random" in evaluate.table({"time": report})


def test_other_models_are_judged_beside_the_first():
    exam = evaluate.Exam("x", (("w", (evaluate.Metric("time", "s"),)),), rivals=("minrtt",))
    also = [("other", {"model": "other.onnx", "rates": "oracle"})]
    told = evaluate.contenders(exam, "first.onnx", also)
    assert told["learned"] == ("x", {"model": "first.onnx"})
    assert told["other"] == ("x", {"model": "other.onnx", "rates": "oracle"})
    figures = {"w": {name: [{"time": time}] for name, time in zip(told, (2.0, 1.0, 4.0, 8.0))}}
    against = evaluate.judge(exam, figures, [Net("a")], 1, also)["time"]["against"]
    assert against["other against learned"]["change"] == pytest.approx(-0.5)
    assert against["other against minrtt"]["change"] == pytest.approx(-0.875)
    assert "learned against other" not in against


def test_runs_are_compared_by_their_trials_against_minrtt(tmp_path):
    for name, trials in (("ours", (0.1, -0.2, -0.1)), ("paper", (0.5, 0.25))):
        rows = "".join(f"{100 * (i + 1)},1,{value}\n" for i, value in enumerate(trials))
        (tmp_path / f"{name}.csv").write_text("actions,reward,against_minrtt\n" + rows)
    picture = tmp_path / "both.png"
    table = curve.compare([tmp_path / "ours.csv", tmp_path / "paper.csv"], picture).splitlines()
    assert table[2] == "| ours | 3 | +10.0% | -20.0% | 200 actions | -10.0% |"
    assert table[3] == "| paper | 2 | +50.0% | +25.0% | 200 actions | +25.0% |"
    assert picture.stat().st_size > 1000


def test_a_report_in_short_is_its_headline_against_minrtt():
    found = {"change": -0.015, "low": -0.036, "high": 0.003}
    report = {
        "metrics": {"chunk_time": {"against": {"learned against minrtt": found}}},
        "networks": ["a", "b"],
        "congestion": "olia",
    }
    assert evaluate.in_short(report, "x.json") == "chunk_time -1.5% (-3.6% to +0.3%) of minrtt's, 2 networks, olia: x.json"
