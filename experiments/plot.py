"""The plots beside the tables of docs/results, from the tables that are checked in.

    python3 experiments/plot.py            # writes docs/results/*.svg
    python3 experiments/plot.py --check    # says which of them are not what the tables say, and fails if any is not

Each plot has lines of medians over what its paper varies, with 95 % intervals where the table has them.
"""

import html
import re
import sys

FOLDER = "docs/results/"
COLOURS = ("#333333", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
WIDTH, HEIGHT, LEFT, TOP, GAP = 300, 190, 46, 28, 66

# Name: title, label of x, label of y, schedulers, panels. A panel: title, page, section, caption of the table, pattern of
# "NETWORK CONTROLLER" whose group is x.
FIGURES = {
    "peekaboo-loss": (
        "Peekaboo, figure 5a: 2 MB while the loss of the fast path grows, handshake on the slow path",
        "loss [%]",
        "seconds",
        ("minrtt", "ecf", "linucb", "peekaboo_20", "peekaboo_goodput"),
        [
            ("OLIA", "tables/peekaboo.md", "Figure 5a", "completion [s]", r"^loss/loss2=([\d.]+) olia$"),
            ("BBRv3", "tables/peekaboo.md", "Figure 5a", "completion [s]", r"^loss/loss2=([\d.]+) bbr3$"),
        ],
    ),
    "peekaboo-jitter": (
        "Peekaboo, figure 5b: 2 MB while the delay variation of the fast path grows, order of packets kept, handshake on the slow path",
        "delay variation [%]",
        "seconds",
        ("minrtt", "ecf", "linucb", "peekaboo", "peekaboo_goodput"),
        [
            ("OLIA", "tables/peekaboo.md", "Figure 5b", "completion [s]", r"^jitter/jitter2=([\d.]+) olia$"),
            ("BBRv3", "tables/peekaboo.md", "Figure 5b", "completion [s]", r"^jitter/jitter2=([\d.]+) bbr3$"),
        ],
    ),
    "peekaboo-orders": (
        "Peekaboo, figure 5b: 2 MB while the delay variation of the fast path grows, order of packets kept, handshake on the fast path",
        "delay variation [%]",
        "seconds",
        ("minrtt", "blest", "ecf", "linucb", "peekaboo", "peekaboo_goodput"),
        [
            ("OLIA", "tables/peekaboo.md", "Both orders of the paths", "completion [s]", r"^jitter/handshake=2,jitter2=([\d.]+) olia$"),
            ("BBRv3", "tables/peekaboo.md", "Both orders of the paths", "completion [s]", r"^jitter/handshake=2,jitter2=([\d.]+) bbr3$"),
        ],
    ),
    "csc579-delay": (
        "CSC579, figures 6 and 7: 8 MB at growing delays, OLIA",
        "delay [ms]",
        "seconds",
        ("rr_ns3", "minrtt_ns3", "minrtt", "ucb", "ucb_block", "ucb_block_c1"),
        [
            ("equal paths", "tables/csc579.md", "Figures 6 and 7", "completion [s]", r"^equal/delay=(\d+) $"),
            ("unequal paths", "tables/csc579.md", "Figures 6 and 7", "completion [s]", r"^unequal/owd2=(\d+) $"),
        ],
    ),
    "gaps-fixed": (
        "GAPS, figure 7: mean out-of-order queue of a fixed gap on four poor networks, BALIA",
        "gap [packets]",
        "kB",
        None,
        [("", "tables/gaps.md", "Figure 7", "oqs mean [kB] of `fixed`", r"^(poor/\d+) $")],
    ),
}


def cells(line):
    return [cell.strip().strip("`") for cell in line.strip().strip("|").split("|")]


def table(page, heading, caption):
    """The rows of the table under a caption, as dictionaries."""
    with open(FOLDER + page) as file:
        text = file.read()
    text = text[text.index(f"\n## {heading}\n") :]
    text = text[text.index("\n" + caption) :]
    lines = text.splitlines()
    first = next(index for index, line in enumerate(lines) if line.startswith("|"))
    head, rows = cells(lines[first]), []
    for line in lines[first + 2 :]:
        if not line.startswith("|"):
            break
        rows.append(dict(zip(head, cells(line))))
    return rows


def value(cell):
    """A median with its interval, or with itself for one."""
    numbers = re.match(r"\**(-?[\d.]+)\**(?: \((-?[\d.]+) \.\. (-?[\d.]+)\))?", cell).groups()
    middle = float(numbers[0])
    return middle, float(numbers[1] or middle), float(numbers[2] or middle)


def series(panel, names):
    """Points (x, median, low, high) by name: a scheduler, or where the columns are x, a network."""
    _, page, heading, caption, pattern = panel
    found = {}
    for row in table(page, heading, caption):
        match = re.match(pattern, f"{row['network']} {row.get('controller', '')}")
        if match and names:
            for name in names:
                found.setdefault(name, []).append((float(match.group(1)), *value(row[name])))
        elif match:
            found[match.group(1)] = [(float(x), *value(cell)) for x, cell in row.items() if x != "network"]
    return found


def ticks(low, high):
    """Some five round numbers between two."""
    step = 10.0 ** len(str(int(high))) / 1000 or 0.001
    while (high - low) / step > 6:
        step *= 2.5 if str(step).strip("0.").startswith("2") else 2
    first = -(-low // step)
    return [step * (first + k) for k in range(int((high - step * first) / step) + 1)]


def draw_panel(lines, points, colours, offset, labels):
    title, x_label, y_label = labels
    everything = [point for line in points.values() for point in line]
    x_low, x_high = min(p[0] for p in everything), max(p[0] for p in everything)
    y_high = max(p[3] for p in everything) * 1.05

    def x(at):
        return offset + LEFT + (at - x_low) / (x_high - x_low) * WIDTH

    def y(at):
        return TOP + HEIGHT * (1 - at / y_high)

    title = f"{title}, {y_label}" if title else y_label
    lines.append(f'<text x="{x(x_low):.0f}" y="{TOP - 8}" font-weight="bold">{html.escape(title)}</text>')
    for tick in ticks(0, y_high):
        lines.append(f'<path d="M{x(x_low):.1f} {y(tick):.1f}H{x(x_high):.1f}" stroke="#ddd"/>')
        lines.append(f'<text x="{x(x_low) - 5:.1f}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>')
    for at in sorted({p[0] for p in everything} if len({p[0] for p in everything}) < 9 else ticks(x_low, x_high)):
        lines.append(f'<text x="{x(at):.1f}" y="{TOP + HEIGHT + 15}" text-anchor="middle">{at:g}</text>')
    lines.append(f'<text x="{offset + LEFT + WIDTH / 2:.0f}" y="{TOP + HEIGHT + 31}" text-anchor="middle">{x_label}</text>')
    for name, line in points.items():
        path = "L".join(f"{x(p[0]):.1f} {y(p[1]):.1f}" for p in line)
        bars = "".join(f"M{x(p[0]):.1f} {y(p[2]):.1f}V{y(p[3]):.1f}" for p in line if p[3] > p[2])
        lines.append(f'<path d="M{path}" fill="none" stroke="{colours[name]}" stroke-width="1.8"/>')
        if bars:
            lines.append(f'<path d="{bars}" stroke="{colours[name]}" stroke-opacity="0.5"/>')


def draw(title, x_label, y_label, names, panels):
    found = [series(panel, names) for panel in panels]
    colours = dict(zip(found[0], COLOURS))
    width = len(panels) * (WIDTH + GAP) + (0 if len(panels) > 1 else 140)
    height = TOP + HEIGHT + 40 + (22 if len(panels) > 1 else 0)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        f"<title>{html.escape(title)}</title>",
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for index, (panel, points) in enumerate(zip(panels, found)):
        draw_panel(lines, points, colours, index * (WIDTH + GAP), (panel[0], x_label, y_label))
    for index, (name, colour) in enumerate(colours.items()):
        if len(panels) > 1:
            x, y = LEFT + index * (width - LEFT) // len(colours), height - 8
        else:
            x, y = LEFT + WIDTH + 24, TOP + 14 + index * 18
        lines.append(f'<path d="M{x} {y - 4}h16" stroke="{colour}" stroke-width="3"/><text x="{x + 20}" y="{y}">{name}</text>')
    return "\n".join([*lines, "</svg>", ""])


def main():
    stale = []
    for name, figure in FIGURES.items():
        path, drawn = f"{FOLDER}{name}.svg", draw(*figure)
        if "--check" in sys.argv:
            with open(path) as file:
                if file.read() != drawn:
                    stale.append(path)
        else:
            with open(path, "w") as file:
                file.write(drawn)
    if stale:
        sys.exit("not what the tables say: " + ", ".join(stale))


main()
