#!/usr/bin/env python3
"""What a second connection can reach at most, beside what it reached: for each set of networks of `resume.toml`.

    mpquic-lab run experiments/resume.toml --only handshake=1 --seeds 2
    python3 experiments/resume_bound.py target/lab/resume

All of a path is known beforehand here, its rate and its losses, and the split over the paths is the best one. What is left is
what no memory and no scheduler takes away. Columns, parts of the fluid bound, medians over the networks of a set:

    opening   paths carry their full rate from their begin on, and nothing is lost. The path of the shortest round trip begins
              with the request; each other one when it is validated, 1.5 of its round trips after the request. Before that it
              carries one initial window, half a round trip after the request: the client has a token for its address.
    losses    the same, with losses by chance. The sender knows of a loss a round trip after the packet has left, and the next
              packet on any path repairs it.
    half      the same, with half of the rate for a round trip from the begin on: RFC 9959 section 3.3 allows no more.
    measured  the median of the seeds, of the best scheduler and of the worst.
"""

import heapq
import json
import random
import re
import statistics
import sys
from collections import defaultdict
from pathlib import Path

PAYLOAD = 1452  # bytes of UDP
QUIC = 28  # the smallest header of a bulk packet with its tag, as in the lab's fluid bound
BELOW = 28  # IPv4 and UDP
INITIAL_WINDOW = 32  # packets
SIZES = {"file:2MB": 2_000_000, "file:20MB": 20_000_000}
DRAWS = 40


def paths_of(network):
    """(seconds per packet, one-way delay in seconds, part lost) of each path."""
    drawn = {p["name"]: p["value"] for p in network["parameters"]}
    paths = []
    for number, text in enumerate(network["description"].split(", ")[0].split(" | "), 1):
        rate, delay, unit = re.search(r"([\d.]+) Mbit/s ([\d.]+) (ms|µs|us)", text).groups()
        loss = re.search(r"([\d.]+) % loss", text)
        delay = float(delay) / (1 if unit == "ms" else 1000)
        rate = float(drawn.get(f"rate{number}", rate))
        delay = float(drawn.get(f"owd{number}", delay))
        if f"rtt{number}" in drawn:
            delay = float(drawn[f"rtt{number}"]) / 2
        loss = float(drawn.get(f"loss{number}", loss.group(1) if loss else 0))
        paths.append(((PAYLOAD + BELOW) * 8 / (rate * 1e6), delay / 1e3, loss / 100))
    return paths


def slots(packet, delay, first, half):
    """When a path's packets leave, and when they have arrived."""
    if first:
        begin = delay
    else:
        begin, early = 3 * delay, delay
        for _ in range(INITIAL_WINDOW):
            early += packet
            if early > begin:
                break
            yield early - packet, early + delay
    at = begin
    while True:
        step = packet * 2 if half and at < begin + 2 * delay else packet
        at += step
        yield at - step, at + delay


def completion(paths, size, rng, lossy, half):
    """When the last byte has arrived, in seconds from the request on."""
    first = min(range(len(paths)), key=lambda number: paths[number][1])
    asked = paths[first][1]
    sources = []
    for number, (packet, delay, _) in enumerate(paths):
        source = slots(packet, delay, number == first, half)
        left, arrived = next(source)
        sources.append((arrived, number, left, source))
    heapq.heapify(sources)
    fresh, missing = -(-size // (PAYLOAD - QUIC)), -(-size // (PAYLOAD - QUIC))
    lost, last = [], 0.0
    while missing:
        arrived, number, left, source = heapq.heappop(sources)
        following = next(source)
        heapq.heappush(sources, (following[1], number, following[0], source))
        packet, delay, loss = paths[number]
        if left < asked:
            continue
        if lost and lost[0] <= left:
            heapq.heappop(lost)
        elif fresh:
            fresh -= 1
        else:
            continue
        if lossy and rng.random() < loss:
            heapq.heappush(lost, arrived + delay)
        else:
            missing -= 1
            last = arrived
    return last


def main():
    lines = (Path(sys.argv[1]) / "results.jsonl").read_text().splitlines()
    networks = {n["name"]: n for n in json.loads(lines[0])["networks"]}
    measured = defaultdict(lambda: defaultdict(list))
    fluid = {}
    for run in map(json.loads, lines[1:]):
        key = (run.get("network", ""), run.get("workload"))
        if "handshake=1,memory=true" in key[0] and not key[0].startswith(("shrunk", "longer")):
            measured[key][run["congestion"], run["scheduler"]].append(run["value"])
            fluid[key] = run["bounds"]["completion"]
    sets = defaultdict(list)
    rng = random.Random(1)
    for key, runs in measured.items():
        paths, size = paths_of(networks[key[0]]), SIZES[key[1]]
        draws = DRAWS if size < 10_000_000 else DRAWS // 4
        row = [completion(paths, size, rng, False, False)]
        for half in (False, True):
            row.append(statistics.median(completion(paths, size, rng, True, half) for _ in range(draws)))
        row = [value / fluid[key] for value in row]
        runs = {name: statistics.median(values) / fluid[key] for name, values in runs.items()}
        sets[networks[key[0]]["set"]].append((row, runs))
    print("| networks | opening | losses | half | controller | measured |\n|---|---|---|---|---|---|")
    for name, rows in sets.items():
        bounds = [f"{statistics.median(row[column] for row, _ in rows):.3f}" for column in range(3)]
        for controller in sorted({c for _, runs in rows for c, _ in runs}):
            schedulers = sorted({s for _, runs in rows for c, s in runs if c == controller})
            medians = [statistics.median(runs[controller, s] for _, runs in rows) for s in schedulers]
            values = f"{min(medians):.3f} to {max(medians):.3f}"
            print(f"| {name} ({len(rows)}) | {' | '.join(bounds)} | {controller} | {values} |")


if __name__ == "__main__":
    main()
