"""By how much a scheduler differs from others over a set of networks, in both kinds of mean.

    python3 experiments/held_out.py target/lab/ours/held_out_dqn dqn dqn_random,minrtt,ecf [METRIC]
    python3 experiments/held_out.py target/lab/fig08_messages peekaboo ecf,minrtt --points 1Mbit/s:20MB/olia
    python3 experiments/held_out.py target/lab/peekaboo/both_orders peekaboo ecf,minrtt --only '^wsp/handshake=2.*bbr3$'

Of each network, the mean over its workloads and paired seeds of the logarithm of the ratio; over networks, the geometric mean
with a 95 % interval (bootstrap over networks) and the arithmetic mean of the networks' ratios. METRIC is the headline unless
named. With `--only`, of the runs whose NETWORK/WORKLOAD/CONTROLLER has this in it, a regular expression. With `--points`, the mean difference in the headline's own unit, of the runs whose WORKLOAD/CONTROLLER ends so: for shares,
which may be zero. `stands` is Holm's correction at 5 % for the number of rows, with p from a sign-flip test over networks.
"""

import argparse
import json
import math
import random
import re
import sys
from collections import defaultdict

DRAWS = 20_000


def read(folder, metric, points, only):
    """Values, or their logarithms, by network, scheduler, and what a pair has in common."""
    values = defaultdict(lambda: defaultdict(dict))
    with open(f"{folder}/results.jsonl") as file:
        for line in file:
            run = json.loads(line)
            value = run.get("values", {}).get(metric) if metric else run.get("value")
            if value is None or (not points and not value):
                continue
            pair = (run["workload"], run["congestion"], run["seed"])
            if not f"{pair[0]}/{pair[1]}".endswith(points):
                continue
            if not re.search(only, f"{run['network']}/{pair[0]}/{pair[1]}"):
                continue
            values[run["network"]][run["scheduler"]][pair] = value if points else math.log(value)
    return values


def mean(values):
    return sum(values) / len(values)


def percent(logarithm):
    return 100 * math.expm1(logarithm)


def differences(values, one, other):
    """One difference, of logarithms unless in points, per network that has both."""
    found = []
    for schedulers in values.values():
        pairs = schedulers[one].keys() & schedulers[other].keys()
        if pairs:
            found.append(mean([schedulers[one][pair] - schedulers[other][pair] for pair in sorted(pairs)]))
    return found


def interval(found, draw):
    means = sorted(mean(draw.choices(found, k=len(found))) for _ in range(DRAWS // 10))
    return means[len(means) // 40], means[-1 - len(means) // 40]


def p_value(found, draw):
    """How often random signs give a mean at least as far from zero."""
    far = abs(sum(found)) - 1e-12
    hits = sum(abs(sum(x if draw.random() < 0.5 else -x for x in found)) >= far for _ in range(DRAWS))
    return (hits + 1) / (DRAWS + 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="of the results")
    parser.add_argument("one", help="a scheduler")
    parser.add_argument("others", help="those it is compared with, separated by commas")
    parser.add_argument("metric", nargs="?", default="")
    parser.add_argument("--points", default="", metavar="WORKLOAD/CONTROLLER")
    parser.add_argument("--only", default="", metavar="PATTERN")
    given = parser.parse_args()
    points = given.points
    values, draw = read(given.folder, given.metric, points, given.only), random.Random(1)
    rows = []
    for other in given.others.split(","):
        found = differences(values, given.one, other)
        if not found:
            sys.exit(f"no network has {given.one} and {other}")
        rows.append((p_value(found, draw), other, found))
    order, standing = sorted(rows, key=lambda row: row[0]), set()
    for place, (p, other, _) in enumerate(order):
        if p > 0.05 / (len(order) - place):
            break
        standing.add(other)
    if points:
        print("| against | mean difference | lower on | p | |\n|---|---|---|---|---|")
        for p, other, found in rows:
            low, high = interval(found, draw)
            print(
                f"| `{other}` | {mean(found):+.2f} ({low:+.2f} to {high:+.2f}) | {sum(x < 0 for x in found)} of {len(found)} "
                f"| {p:.4f} | {'stands' if other in standing else 'cannot tell'} |"
            )
        return
    print("| against | geometric mean | arithmetic mean | lower on | p | |\n|---|---|---|---|---|---|")
    for p, other, found in rows:
        low, high = interval(found, draw)
        print(
            f"| `{other}` | {percent(mean(found)):+.1f} % ({percent(low):+.1f} to {percent(high):+.1f}) "
            f"| {100 * (mean([math.exp(x) for x in found]) - 1):+.1f} % | {sum(x < 0 for x in found)} of {len(found)} "
            f"| {p:.4f} | {'stands' if other in standing else 'cannot tell'} |"
        )


main()
