"""Writes reference.json: one log, and what other libraries make of it.

    pip install mabwiser==2.7.4 river==0.26.1 vw-estimators==0.2.2 scikit-learn
    python make.py > reference.json
"""

import json

import numpy as np
from estimators.bandits import ips, snips
from mabwiser.mab import MAB, LearningPolicy
from river import stats
from sklearn.linear_model import Ridge

LINES, FEATURES, ARMS = 300, 4, 3
RIDGE, ALPHA, STEP = 1.3, 0.7, 0.15

rng = np.random.default_rng(20261127)
contexts = np.round(rng.uniform(-1, 1, (LINES, FEATURES)), 3)
truth = rng.normal(size=(ARMS, FEATURES))
logits = contexts @ rng.normal(size=(FEATURES, ARMS))
logging = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
# Rounded, with a last one that makes the sum 1, as a log would have them.
logging = np.round(logging, 4)
logging[:, -1] = np.round(1 - logging[:, :-1].sum(axis=1), 4)
arms = np.array([rng.choice(ARMS, p=p / p.sum()) for p in logging])
rewards = np.round((contexts * truth[arms]).sum(axis=1) + 0.3 * rng.normal(size=LINES), 3)
# The policy that is judged: the best arm by weights of its own, and every other one with 0.1.
best = (contexts @ (truth.T + rng.normal(size=(FEATURES, ARMS)))).argmax(axis=1)
target = np.full((LINES, ARMS), 0.1)
target[np.arange(LINES), best] = 0.8

linucb = MAB(list(range(ARMS)), LearningPolicy.LinUCB(alpha=ALPHA, l2_lambda=RIDGE))
linucb.fit(arms, rewards, contexts)
scores = [linucb.predict_expectations(contexts[i : i + 1]) for i in range(20)]
greedy = MAB(list(range(ARMS)), LearningPolicy.EpsilonGreedy(epsilon=0.0))
greedy.fit(arms, rewards)
means = greedy.predict_expectations()
faded = []
for arm in range(ARMS):
    # Its first reward is the value to start from; ours starts from a value that is given.
    mean = stats.EWMean(fading_factor=STEP)
    for reward in rewards[arms == arm]:
        mean.update(reward)
    faded.append(mean.get())

by_ips, by_snips = ips.Estimator(), snips.Estimator()
taken = np.arange(LINES)
for p, r, t in zip(logging[taken, arms], rewards, target[taken, arms]):
    by_ips.add_example(p, r, t)
    by_snips.add_example(p, r, t)

model = np.stack(
    [
        Ridge(alpha=RIDGE, fit_intercept=False).fit(contexts[arms == a], rewards[arms == a]).predict(contexts)
        for a in range(ARMS)
    ],
    axis=1,
)
weights = target[taken, arms] / logging[taken, arms]
expected = (target * model).sum(axis=1)
robust = expected + weights * (rewards - model[taken, arms])


def error(samples):
    return float(np.std(samples, ddof=1) / np.sqrt(LINES))


print(
    json.dumps(
        {
            "contexts": contexts.tolist(),
            "logging": logging.tolist(),
            "target": target.tolist(),
            "arms": arms.tolist(),
            "rewards": rewards.tolist(),
            "ridge": RIDGE,
            "alpha": ALPHA,
            "step": STEP,
            "linucb_scores": [[float(s[a]) for a in range(ARMS)] for s in scores],
            "means": [float(means[a]) for a in range(ARMS)],
            "faded": [float(f) for f in faded],
            "ips": float(by_ips.get()),
            "ips_error": error(weights * rewards),
            "snips": float(by_snips.get()),
            "direct": float(expected.mean()),
            "doubly_robust": float(robust.mean()),
            "doubly_robust_error": error(robust),
        }
    )
)
