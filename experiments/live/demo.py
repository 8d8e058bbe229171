#!/usr/bin/env python3
"""The camera of examples/live over two emulated links in real time, one of which ends for 10 s: what the viewer sees.

Needs Linux, root, and the two programs:

    cargo build --release --example live && cargo build --release -p mpquic-lab
    experiments/live/demo.py --runs 10 --out target/live

Cases: (a) the interface goes down, (b) the link carries nothing and nobody is told, (c) it flaps, (d) a walk as the models draw it.
Beside mpquic-live: Wi-Fi alone, minRTT with nothing sent again, everything on both links. A CSV row for each frame, a table, and a picture
of delay over time of the first run. The first link ends 10 s after the start, in each further run 0.2 s later, so that ten runs go
through the two seconds from one key frame to the next.
"""

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
FRAMES, FPS = 675, 20
# A frame that is later than this, in ms, is not shown, and counts as lost.
DEADLINE = 400
# Name, network, what happens inside the namespace beside the camera.
DOWN = (
    "(sleep {at:.1f}; ip link set link0 down; sleep 10; ip link set link0 up; via=$(ip -4 -o address show dev link0 | awk '{{print $4}}'"
    " | sed 's/\\.[0-9]*\\/24$/.1/'); ip route add default via $via dev link0 metric 100;"
    " ip route add default via $via dev link0 table 100) & "
)
CASES = {
    "a": ("interface down", "steady", DOWN),
    "b": ("black hole", "hole", ""),
    "c": ("flapping", "flapping", ""),
    "d": ("walk", "mobile", ""),
}
VARIANTS = {
    "mpquic-live": ["--protection", "live"],
    "Wi-Fi alone": ["--protection", "none"],
    "minRTT, nothing again": ["--protection", "none", "--scheduler", "minrtt"],
    "everything twice": ["--protection", "twice"],
}


def run(options, case, variant, number, port):
    """One run: (figures of the receiver, figures of the sender, rows of the CSV file)."""
    _, network, beside = CASES[case]
    at = 10 + 0.2 * (number - 1)
    slug = variant.lower().replace(" ", "-").replace(",", "")
    file = options.out / f"{case}-{slug}-{number}.csv"
    with tempfile.TemporaryDirectory() as folder:
        networks, pin = Path(folder) / "demo.toml", Path(folder) / "pin"
        networks.write_text((HERE / "demo.toml").read_text().replace('at = "10s", lasting = "10s"', f'at = "{at:.1f}s", lasting = "10s"'))
        receive = [options.live, "receive", "--listen", f"0.0.0.0:{port}", "--once", "--json", "--one-clock", "--csv", file, "--pin-out", pin]
        receiver = subprocess.Popen(receive, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for _ in range(200):
            if pin.exists() and pin.read_text().strip():
                break
            time.sleep(0.05)
        local = "for a in $(echo $LAB_ADDRESSES | tr , ' '); do local=\"$local --local $a\"; done; "
        if variant == "Wi-Fi alone":
            local = "local=\"--local $(echo $LAB_ADDRESSES | tr , ' ' | cut -d' ' -f1)\"; "
        camera = [options.live, "send", f"$LAB_OUTSIDE:{port}", "--pin", pin.read_text().strip(), "--json"]
        camera += ["--fps", FPS, "--frames", FRAMES, "--rate", 4, "--deadline", DEADLINE, *VARIANTS[variant], "$local"]
        script = local + beside.format(at=at) + " ".join(map(str, camera))
        shell = [options.lab, "shell", networks, "--only", f"^{network}$", "--seed", str(number), "--", "sh", "-c", script]
        sent = subprocess.run(shell, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            received, _ = receiver.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            receiver.kill()
            received, _ = receiver.communicate()
    lines = [line for line in sent.stdout.splitlines() if line.startswith("{")]
    if not lines or not received.strip():
        sys.exit(f"{case}, {variant}: {sent.stderr.strip() or received}")
    rows = list(csv.DictReader(file.open()))
    return json.loads(received), json.loads(lines[0]), rows


def picture(path, series, title):
    """Delay of each frame over time, one band for each variant; a mark at the top where a frame did not come."""
    width, band, left, top = 900, 110, 150, 30
    most, seconds = 400.0, FRAMES / FPS
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top + band * len(series) + 40}" font-family="sans-serif" font-size="12">']
    out.append(f'<rect width="100%" height="100%" fill="white"/><text x="{left}" y="18" font-size="14">{title}</text>')
    x = lambda at: left + (width - left - 20) * at / seconds
    for place, (name, rows) in enumerate(series):
        bottom = top + band * (place + 1) - 12
        y = lambda delay: bottom - (band - 30) * min(delay, most) / most
        out.append(f'<text x="8" y="{bottom - band / 2 + 18}">{name}</text>')
        for mark in (0, 200, 400):
            out.append(f'<line x1="{left}" x2="{width - 20}" y1="{y(mark):.1f}" y2="{y(mark):.1f}" stroke="#ddd"/>')
            out.append(f'<text x="{left - 6}" y="{y(mark) + 4:.1f}" text-anchor="end" fill="#777">{mark}</text>')
        dots = [f"M{x(n / FPS):.1f} {y(float(row['delay_ms'])):.1f}h0" for n, row in enumerate(rows) if row["delay_ms"]]
        gone = [f"M{x(n / FPS):.1f} {y(most) - 5:.1f}v8" for n, row in enumerate(rows) if not row["delay_ms"]]
        out.append(f'<path d="{"".join(dots)}" stroke="#1f77b4" stroke-width="3" stroke-linecap="round"/>')
        out.append(f'<path d="{"".join(gone)}" stroke="#d62728" stroke-width="2"/>')
    bottom = top + band * len(series) + 8
    for second in range(0, int(seconds) + 1, 5):
        out.append(f'<text x="{x(second):.1f}" y="{bottom + 10}" text-anchor="middle" fill="#777">{second}</text>')
    out.append(f'<text x="{left}" y="{bottom + 28}" fill="#777">delay in ms over seconds; red: did not come</text></svg>')
    path.write_text("\n".join(out) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    target = HERE.parents[1] / "target" / "release"
    parser.add_argument("--live", default=target / "examples" / "live", help="the example's program")
    parser.add_argument("--lab", default=target / "mpquic-lab", help="the lab's program")
    parser.add_argument("--runs", type=int, default=10, help="runs of mpquic-live in each case; the others have one")
    parser.add_argument("--port", type=int, default=4434, help="the first of the ports to listen on")
    parser.add_argument("--cases", default="abcd")
    parser.add_argument("--variants", default=",".join(name.replace(",", ";") for name in VARIANTS), help="`;` stands for a comma")
    parser.add_argument("--out", type=Path, default=HERE.parents[1] / "target" / "live")
    options = parser.parse_args()
    options.live, options.lab = Path(options.live).resolve(), Path(options.lab).resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    if os.geteuid() != 0:
        sys.exit("needs root, for network namespaces")
    port = options.port
    for case in options.cases:
        name = CASES[case][0]
        series = []
        for variant in options.variants.split(","):
            variant = variant.replace(";", ",")
            figures = []
            for number in range(1, (options.runs if variant == "mpquic-live" else 1) + 1):
                port += 1
                received, sent, rows = run(options, case, variant, number, port)
                figures.append((received, sent))
                if number == 1:
                    series.append((variant, rows))
            freezes = [received["longest_freeze_ms"] for received, _ in figures]
            print(
                f"({case}) {name}, {variant}: {len(figures)} runs, longest freeze {statistics.median(freezes):.0f} ms in the median,"
                f" {max(freezes):.0f} at most; missing {sum(received['missing'] for received, _ in figures)};"
                f" delay {statistics.median(received['delay_p50_ms'] for received, _ in figures):.0f} ms,"
                f" 99 % {statistics.median(received['delay_p99_ms'] for received, _ in figures):.0f};"
                f" bytes +{statistics.mean(sent['extra_percent'] for _, sent in figures):.1f} %",
                flush=True,
            )
        picture(options.out / f"demo-{case}.svg", series, f"({case}) {name}: the first link ends")


if __name__ == "__main__":
    main()
