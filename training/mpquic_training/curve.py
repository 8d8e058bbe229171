"""Learning curves: rows to CSV, a line to the terminal, a picture at the end; judges nothing."""

import csv
import time
from pathlib import Path


class Curve:
    """Rows of named numbers. The clock is only printed, never saved: two runs with one seed give the same file."""

    def __init__(self, path=None, say=print):
        self.path = Path(path) if path else None
        self.say = say
        self.rows = []
        self.began = time.monotonic()

    def add(self, **row):
        self.rows.append(row)
        text = "  ".join(f"{key} {_short(value)}" for key, value in row.items())
        self.say(f"[{time.monotonic() - self.began:6.0f} s] {text}", flush=True)

    def save(self):
        """Writes the CSV, and a PNG beside it with a panel per column."""
        if not self.path or not self.rows:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        columns = list(dict.fromkeys(key for row in self.rows for key in row))
        with self.path.open("w", newline="") as file:
            writer = csv.DictWriter(file, columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows({key: _short(value) for key, value in row.items()} for row in self.rows)
        _draw(self.path.with_suffix(".png"), columns, self.rows)


# The column that trials of a policy make: its change of the metric against minRTT.
JUDGED = "against_minrtt"


def compare(paths, picture=None):
    """What runs came to, as a table: against minRTT at the first trial, at the best and at the last one."""
    runs = []
    lines = ["| run | trials | first | best | at | last |", "|---|---|---|---|---|---|"]
    for path in map(Path, paths):
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        amount = next(iter(rows[0]))
        points = [(int(row[amount]), float(row[JUDGED])) for row in rows if row.get(JUDGED)]
        best = min(points, key=lambda point: point[1])
        runs.append((path.stem, points))
        first, last = points[0][1], points[-1][1]
        lines.append(f"| {path.stem} | {len(points)} | {first:+.1%} | {best[1]:+.1%} | {best[0]} {amount} | {last:+.1%} |")
    if picture:
        _beside(picture, runs)
    return "\n".join(lines)


def _beside(path, runs):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(7, 3))
    for name, points in runs:
        axis.plot(*zip(*((at, 100 * value) for at, value in points)), linewidth=1, label=name)
    axis.axhline(0, color="black", linewidth=0.5)
    axis.set(xlabel="decisions, or pages", ylabel="against minRTT, %", xscale="log")
    axis.grid(alpha=0.3)
    axis.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=100, metadata={"Software": None})
    pyplot.close(figure)


def _short(value):
    return f"{value:.5g}" if isinstance(value, float) else value


def _draw(path, columns, rows):
    # Imported here: it takes a second, and tests train without pictures.
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    x, *panels = columns
    figure, axes = pyplot.subplots(len(panels), 1, sharex=True, figsize=(7, 1.8 * len(panels)), squeeze=False)
    for axis, column in zip(axes[:, 0], panels):
        points = [(row[x], row[column]) for row in rows if column in row]
        axis.plot(*zip(*points), linewidth=1)
        axis.set_ylabel(column, fontsize=8)
        axis.grid(alpha=0.3)
    axes[-1, 0].set_xlabel(x)
    figure.tight_layout()
    # No date and no version inside: the same curve gives the same picture.
    figure.savefig(path, dpi=100, metadata={"Software": None})
    pyplot.close(figure)
