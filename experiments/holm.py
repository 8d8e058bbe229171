"""Which differences of a results page stand after a correction for the number of them (Holm, 5 %).

    python3 experiments/holm.py docs/results/ours.md [HEADING]

Reads every change in a table that has its interval beside it, as "-2.3 % (-5.0 to -0.6)". All changes under one heading are
one family. The page has intervals and no p values, so that p is taken from the 95 % interval as of a normal distribution of
the logarithm of the ratio: an approximation, worst where the interval is lopsided.
"""

import math
import re
import sys

CHANGE = re.compile(r"([+-]?\d+(?:\.\d+)?) %\**\s*\(([+-]?\d+(?:\.\d+)?) to ([+-]?\d+(?:\.\d+)?)\)")


def p_value(change, low, high):
    """Two-sided, from a 95 % interval of a change in percent."""
    middle, low, high = (math.log1p(value / 100) for value in (change, low, high))
    error = abs(high - low) / (2 * 1.959964)
    return math.erfc(abs(middle) / error / math.sqrt(2)) if error else float(middle == 0)


def families(lines):
    """Of each heading: the changes in its tables, as (row, text, p)."""
    found, heading = {}, ""
    for line in lines:
        if line.startswith("#"):
            heading = line.lstrip("# ").strip()
        elif line.startswith("|"):
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            name = ", ".join(cell for cell in cells[:3] if cell and not CHANGE.search(cell))
            for match in CHANGE.finditer(line):
                row = (name, match.group(0), p_value(*(float(value) for value in match.groups())))
                found.setdefault(heading, []).append(row)
    return found


def holm(family, level=0.05):
    """Whether each difference stands: the k-th smallest of n p values must be below level / (n - k)."""
    stands = [False] * len(family)
    for place, index in enumerate(sorted(range(len(family)), key=lambda index: family[index][2])):
        if family[index][2] > level / (len(family) - place):
            break
        stands[index] = True
    return stands


def main():
    page, wanted = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
    with open(page) as file:
        found = families(file)
    for heading, family in found.items():
        if wanted not in heading:
            continue
        print(f"{heading}: {len(family)} differences")
        for (name, change, p), stands in zip(family, holm(family)):
            print(f"  {'stands' if stands else 'cannot tell':12} p = {p:.4f}  {change}  {name[:110]}")


main()
