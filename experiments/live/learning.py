#!/usr/bin/env python3
"""How soon the learned rate of repair is as good as the best fixed rate in hindsight, from the results of camera.toml or messages.toml:

    experiments/live/learning.py target/lab/live/camera

Of each network, the fixed rate with the fewest late frames over the whole run is the best one. The table has the share of late frames in
each part of the run, in % and over all networks, and then the second after which no span of five is more than 0.5 points behind.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path

SPAN, WITHIN = 5, 0.5
PARTS = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 10), (10, 20), (20, 60)]


def mean(values):
    return sum(values) / len(values)


def main():
    folder = Path(sys.argv[1])
    runs = defaultdict(lambda: defaultdict(list))
    for line in (folder / "results.jsonl").open():
        run = json.loads(line)
        seconds = run.get("series", {}).get("late_by_second")
        if seconds:
            policy = ":".join(part for part in run["workload"].split(":")[3:] if part != "messages")
            runs[run["network"]][policy].append(seconds)
    learned, best, alone = [], [], []
    for network, policies in sorted(runs.items()):
        by_second = {policy: [mean(values) for values in zip(*seeds)] for policy, seeds in policies.items()}
        fixed = {policy: values for policy, values in by_second.items() if policy.startswith("fixed")}
        if "" not in by_second or not fixed:
            continue
        name = min(fixed, key=lambda policy: mean(fixed[policy]))
        learned.append(by_second[""])
        best.append(fixed[name])
        alone.append((network, settled(by_second[""], fixed[name])))
    if not learned:
        sys.exit("no runs with seconds")
    rows = {"learned": average(learned), "best fixed rate in hindsight": average(best)}
    heads = [f"{first}" if last == first + 1 else f"{first} to {last - 1}" for first, last in PARTS]
    print(f"{len(learned)} networks\n\n| second | {' | '.join(heads)} |\n|---|{'--:|' * len(heads)}")
    for name, values in rows.items():
        print(f"| {name} | {' | '.join(f'{mean(values[first:last]):.2f}' for first, last in PARTS)} |")
    at = settled(rows["learned"], rows["best fixed rate in hindsight"])
    print(f"\nin the mean over networks within {WITHIN} points from second {at} on")
    for network, at in alone:
        if at is None or at > 0:
            print(f"{network}: {'not within the run' if at is None else f'from second {at} on'}")


def average(rows):
    return [mean(values) for values in zip(*rows)]


def settled(own, best):
    """The first second from which on no span is further behind than allowed."""
    behind = [mean(own[at : at + SPAN]) - mean(best[at : at + SPAN]) for at in range(len(own) - SPAN + 1)]
    late = [at for at, points in enumerate(behind) if points > WITHIN]
    if not late:
        return 0
    return late[-1] + 1 if late[-1] + 1 < len(behind) else None


if __name__ == "__main__":
    main()
