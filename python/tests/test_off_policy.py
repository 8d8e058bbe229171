"""Off-policy estimates: those of the crate on the same log, intervals that hold the truth, and what is refused."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from mpquic_lab import off_policy

REFERENCE = Path(__file__).parents[2] / "crates/bandit/tests/reference"
NAMES = ("ips", "snips", "doubly_robust", "direct")


def test_the_numbers_of_the_crate_on_the_log_that_it_wrote() -> None:
    log = off_policy.read(REFERENCE / "log.jsonl")
    theirs = json.loads((REFERENCE / "judged.json").read_text())
    other = json.loads((REFERENCE / "reference.json").read_text())
    assert (len(log), log.arm_count, log.contexts.shape) == (300, 3, (300, 4))
    model = off_policy.ridge(log, other["ridge"])
    judged = off_policy.evaluate(log, other["target"], model)
    for name in NAMES:
        ours = getattr(judged, name)
        assert (ours.value, ours.error) == pytest.approx(theirs[name], abs=1e-9)
    assert judged.effective_lines == pytest.approx(theirs["effective_lines"][0], rel=1e-9)
    assert judged.largest_weight == pytest.approx(theirs["largest_weight"][0], rel=1e-9)
    clipped = off_policy.evaluate(log, other["target"], model, clip=2.0)
    assert (clipped.ips.value, clipped.ips.error) == pytest.approx(theirs["ips_clipped_at_2"], abs=1e-9)
    # And of Vowpal Wabbit's estimators.
    assert judged.ips.value == pytest.approx(other["ips"], abs=1e-9)
    assert judged.snips.value == pytest.approx(other["snips"], abs=1e-9)
    assert off_policy.evaluate(log, other["target"]).doubly_robust == off_policy.evaluate(log, other["target"]).ips


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    rng = np.random.default_rng(7)
    means = np.array([[0.2, 0.5, 0.9], [0.7, 0.4, 0.1]])
    target = np.array([[0.05, 0.05, 0.9], [0.9, 0.05, 0.05]])
    truth = float((means * target).sum(axis=1).mean())
    logging = np.array([0.6, 0.2, 0.2])
    held, runs, lines = dict.fromkeys(NAMES[:3], 0), 400, 500
    for _ in range(runs):
        contexts = rng.integers(0, 2, lines)
        arms = rng.choice(3, lines, p=logging)
        log = off_policy.Log(
            contexts=contexts[:, None].astype(float),
            eligible=np.ones((lines, 3), dtype=bool),
            arms=arms,
            probabilities=logging[arms],
            rewards=(rng.random(lines) < means[contexts, arms]).astype(float),
        )
        judged = off_policy.evaluate(log, target[contexts], 0.7 * means[contexts])
        for name in held:
            low, high = getattr(judged, name).interval()
            held[name] += low <= truth <= high
    # 95 %, with five standard deviations of a binomial: 5.5 points.
    assert all(0.895 * runs <= count <= 1.0 * runs for count in held.values()), held


def test_what_is_refused_and_what_is_unknown() -> None:
    line = '{"context":[0.5],"eligible":3,"choice":{"arm":1,"probability":0.25},"reward":2.0}'
    log = off_policy.parse([line, ""])
    one = off_policy.evaluate(log, [[0.0, 0.5]])
    assert (one.ips.value, one.ips.error, one.snips.value) == (4.0, math.inf, 2.0)
    never = off_policy.evaluate(log, [[1.0, 0.0]])
    assert (never.snips.error, never.effective_lines) == (math.inf, 0.0)
    none = off_policy.evaluate(off_policy.parse([]), np.zeros((0, 0)))
    assert (none.lines, none.ips.value) == (0, 0.0)
    for wrong in ["{}", "not JSON", line.replace('"arm":1', '"arm":2'), line.replace("0.25", '"x"')]:
        with pytest.raises(ValueError, match="line 2"):
            off_policy.parse([line, wrong])
    for target, options in [([[0.5]], {}), ([[0.0, 1.5]], {}), ([[0.0, 0.5]], {"clip": 0.0})]:
        with pytest.raises(ValueError):
            off_policy.evaluate(log, target, **options)
    with pytest.raises(ValueError, match="logged"):
        off_policy.evaluate(off_policy.parse([line.replace("0.25", "0.0")]), [[0.0, 0.5]])
    with pytest.raises(ValueError, match="finite"):
        off_policy.evaluate(log, [[0.0, 0.5]], [[0.0, math.nan]])
