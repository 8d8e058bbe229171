"""The ratio of two schedulers over the rows of a table of medians in docs/results, for each congestion control.

    python3 experiments/table_ratio.py docs/results/tables/sailfish.md 'Chapter 6' sailfish stream_minrtt [PATTERN]

Takes the first table of the section that has both schedulers. PATTERN (a regular expression) selects rows by NETWORK/WORKLOAD.
Prints changes in percent of the ratio of medians: the geometric mean, the arithmetic mean, the median over rows. The tables have
no runs, so that there is no interval; what the lab says of single rows stands in the table.
"""

import math
import re
import statistics
import sys
from collections import defaultdict


def section(page, heading):
    with open(page) as file:
        text = file.read()
    start = text.index(f"\n## {heading}\n")
    end = text.find("\n## ", start + 1)
    return text[start : end if end > 0 else None].splitlines()


def rows(lines, wanted):
    """The rows of the first table whose head has all wanted columns, as dictionaries."""
    head, found = None, []
    for line in lines:
        if not line.startswith("|"):
            if found:
                return found
            head = None
            continue
        cells = [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        if head is None:
            head = cells
        elif not line.startswith("|-") and all(name in head for name in wanted):
            found.append(dict(zip(head, cells)))
    return found


def number(cell):
    return float(re.match(r"\**(-?[\d.]+)", cell).group(1))


def main():
    page, heading, one, other = sys.argv[1:5]
    pattern = re.compile(sys.argv[5] if len(sys.argv) > 5 else "")
    ratios = defaultdict(list)
    for row in rows(section(page, heading), ("network", one, other)):
        if pattern.search(f"{row['network']}/{row.get('workload', '')}"):
            ratios[row.get("controller", "all")].append(number(row[one]) / number(row[other]))
    if not ratios:
        sys.exit("no rows")
    print("| controller | rows | geometric mean | arithmetic mean | median | below |\n|---|---|---|---|---|---|")
    for controller, values in ratios.items():
        means = (statistics.geometric_mean(values), statistics.fmean(values), statistics.median(values))
        changes = " | ".join(f"{100 * (value - 1):+.1f} %" for value in means)
        print(f"| {controller} | {len(values)} | {changes} | {sum(value < 1 for value in values)} |")


main()
