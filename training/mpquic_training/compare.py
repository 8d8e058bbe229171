"""Paired comparisons: the change from one scheduler to another over networks, with bootstrap intervals; runs nothing."""

import numpy as np

RESAMPLES = 10_000


def change(ours, theirs, networks, seed=0, resamples=RESAMPLES):
    """How much larger `ours` is than `theirs`, both by run, as a ratio of geometric means less 1.

    Runs on one network have much in common: each network counts once, with the mean over its runs of the logarithms'
    difference, and it is networks that the bootstrap draws. Gives `change`, `low`, `high` (95 %), and of how many
    networks the mean is below 0.
    """
    ours, theirs = np.asarray(ours, float), np.asarray(theirs, float)
    # Figures of 0, such as an empty queue, have no logarithm: a thousandth of the mean is as good as nothing.
    least = 1e-3 * max(theirs.mean(), ours.mean(), 1e-12)
    logs = np.log(np.maximum(ours, least)) - np.log(np.maximum(theirs, least))
    names = sorted(set(networks))
    which = np.asarray(networks)
    means = np.array([logs[which == name].mean() for name in names])
    rng = np.random.default_rng(seed)
    drawn = means[rng.integers(len(means), size=(resamples, len(means)))].mean(1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return {
        "change": float(np.expm1(means.mean())),
        "low": float(np.expm1(low)),
        "high": float(np.expm1(high)),
        "networks": len(names),
        "below": int((means < 0).sum()),
    }


def verdict(found, higher_is_better=False):
    """"better", "worse", or "open" where the interval holds 0."""
    if found["low"] <= 0.0 <= found["high"]:
        return "open"
    return "better" if (found["low"] > 0.0) == higher_is_better else "worse"
