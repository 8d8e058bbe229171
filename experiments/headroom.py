"""The most that a family of rules can gain with hindsight, from the results of one of experiments/headroom.

    python3 experiments/headroom.py target/lab/headroom/waiting

For each network, the best member of the family is chosen on all seeds but one and measured on that one, in turn
("chosen apart"), so that it is not the luckiest one. Choosing it on the seeds that it is measured on ("naive") errs to
the other side: the truth lies between. The gain is over the best of the heuristics, chosen apart in the same way, and
over minRTT: by how much the time is shorter, as the geometric mean over seeds, with a 95 % interval (Student's t on
logarithms for one network, a bootstrap over networks for a set).
"""

import json
import math
import random
import sys
from collections import defaultdict

# Two-sided 95 % quantiles of Student's t by degrees of freedom.
T = {1: 12.71, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 10: 2.228, 11: 2.201}


def family(label):
    """Whether a scheduler is a member of the family that is tuned."""
    return label.startswith(("rule,", "split,")) or label in ("never", "ecf", "minrtt")


def heuristic(label):
    """Whether a scheduler is a heuristic as published."""
    return label in ("minrtt", "ecf", "blest", "rr")


def read(folder):
    """Logarithms of the headline metric by cell, scheduler and seed."""
    cells = defaultdict(lambda: defaultdict(dict))
    with open(f"{folder}/results.jsonl") as file:
        for line in file:
            run = json.loads(line)
            if run.get("value"):
                cell = (run["network"], run["workload"], run["congestion"])
                cells[cell][run["scheduler"]][run["seed"]] = math.log(run["value"])
    return cells


def mean(values):
    return sum(values) / len(values)


def apart(runs, labels, seeds):
    """Of each seed, what the best on all other seeds costs; and the best on all seeds."""
    cost = []
    for seed in seeds:
        others = [other for other in seeds if other != seed]
        best = min(labels, key=lambda label: mean([runs[label][other] for other in others]))
        cost.append(runs[best][seed])
    best = min(labels, key=lambda label: mean([runs[label][seed] for seed in seeds]))
    return cost, best


def percent(logarithm):
    return 100 * (1 - math.exp(logarithm))


def interval(differences):
    """By how many percent it is shorter, with the interval."""
    middle = mean(differences)
    spread = math.sqrt(sum((d - middle) ** 2 for d in differences) / (len(differences) - 1))
    reach = T.get(len(differences) - 1, 2.0) * spread / math.sqrt(len(differences))
    return percent(middle), percent(middle + reach), percent(middle - reach)


def over_networks(gains):
    """The same over networks, by the bootstrap."""
    draw = random.Random(1)
    means = sorted(mean([draw.choice(gains) for _ in gains]) for _ in range(2000))
    return percent(mean(gains)), percent(means[1949]), percent(means[50])


def shown(figures):
    middle, low, high = figures
    return f"{middle:.1f} % ({low:.1f} to {high:.1f})"


def main():
    sets = defaultdict(list)
    print("| network | workload | controller | best with hindsight | over the best heuristic, chosen apart | naive | over minRTT, chosen apart |")
    print("|---|---|---|---|---|---|---|")
    for (network, workload, congestion), runs in sorted(read(sys.argv[1]).items()):
        seeds = sorted(set.intersection(*(set(of) for of in runs.values())))
        if len(seeds) < 3:
            sys.exit(f"{network}: {len(seeds)} seeds that all schedulers have, expected three at least")
        members = [label for label in runs if family(label)]
        known = [label for label in runs if heuristic(label)]
        cost, best = apart(runs, members, seeds)
        reference, published = apart(runs, known, seeds)
        gain = [a - b for a, b in zip(cost, reference)]
        naive = [runs[best][seed] - runs[published][seed] for seed in seeds]
        minrtt = [a - runs["minrtt"][seed] for a, seed in zip(cost, seeds)]
        sets[network.split("/")[0], workload, congestion].append((mean(gain), mean(naive), mean(minrtt)))
        row = [network, workload, congestion, f"`{best}`", shown(interval(gain)), shown(interval(naive)), shown(interval(minrtt))]
        print("| " + " | ".join(row) + " |")
    print()
    print("| networks | workload | controller | over the best heuristic, mean | largest | naive, mean | largest | over minRTT, mean | largest |")
    print("|---|---|---|---|---|---|---|---|---|")
    for (name, workload, congestion), gains in sorted(sets.items()):
        row = [f"{name} ({len(gains)})", workload, congestion]
        for column in zip(*gains):
            row += [shown(over_networks(list(column))), f"{percent(min(column)):.1f} %"]
        print("| " + " | ".join(row) + " |")


main()
