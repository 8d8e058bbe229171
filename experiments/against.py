"""Every scheduler of some results against one of them, as a table of ratios: schedulers in rows, networks in columns.

    python3 experiments/against.py target/lab/peekaboo/reward_readings ecf [PART OF A NETWORK'S NAME]

A ratio below 1 is a shorter time. It is the geometric mean over paired seeds, with a 95 % interval (Student's t on
logarithms). Bold: the interval excludes 1.
"""

import json
import math
import sys
from collections import defaultdict

T = {2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 10: 2.228, 11: 2.201, 19: 2.093, 29: 2.045}


def ratio(runs, reference):
    """The ratio with its interval, over the seeds that both have."""
    seeds = sorted(set(runs) & set(reference))
    if len(seeds) < 3:
        return "-"
    logarithms = [math.log(runs[seed] / reference[seed]) for seed in seeds]
    middle = sum(logarithms) / len(seeds)
    spread = math.sqrt(sum((x - middle) ** 2 for x in logarithms) / (len(seeds) - 1))
    reach = T.get(len(seeds) - 1, 2.0) * spread / math.sqrt(len(seeds))
    low, high = math.exp(middle - reach), math.exp(middle + reach)
    text = f"{math.exp(middle):.2f}"
    if low > 1 or high < 1:
        text = f"**{text}**"
    return f"{text} ({low:.2f} to {high:.2f})"


def main():
    folder, reference = sys.argv[1:3]
    part = sys.argv[3] if len(sys.argv) > 3 else ""
    cells = defaultdict(lambda: defaultdict(dict))
    with open(f"{folder}/results.jsonl") as file:
        for line in file:
            run = json.loads(line)
            if run.get("value") and part in run["network"]:
                cell = (run["network"], run["workload"], run["congestion"])
                cells[cell][run["scheduler"]][run["seed"]] = run["value"]
    columns = sorted(cells)
    print("| scheduler | " + " | ".join(f"{network}, {congestion}" for network, _, congestion in columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    names = dict.fromkeys(name for column in columns for name in cells[column])
    for name in names:
        row = [ratio(cells[column].get(name, {}), cells[column].get(reference, {})) for column in columns]
        print(f"| `{name}` | " + " | ".join(row) + " |")


main()
