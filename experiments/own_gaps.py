"""The receiver's out-of-order queue without what waits for a loss of its own path, as MPTCP counts it, from qlogs of a bulk download.

    mpquic-lab run experiments/gaps/fig06_distribution.toml --only '/stms$|/gaps$' --seeds 3 --qlog /tmp/qlogs
    python3 experiments/own_gaps.py /tmp/qlogs [STMS] [WARM-UP IN S]

In MPTCP, what comes after a lost segment of its subflow waits in that subflow's own queue until the segment has been sent again; only
what is in order on its subflow comes into the shared queue, which GAPS measures. QUIC has one queue. Here, a packet's data count from when
all data that its path carried before have arrived, on whatever path they came again. Both queues, sampled at each arrival of
stream data after the warm-up (2 s): their mean and 99th percentile in kB, medians over the seeds of a network; then, over networks, the geometric mean of the ratios of `gaps` and the like to STMS.
The names of folders are the lab's: NETWORK_WORKLOAD_CONTROLLER_SCHEDULER-SEED.
"""

import heapq
import json
import math
import os
import re
import sys
from collections import defaultdict


def events(file, name):
    """Time, path, number and the stream frames of a side's packets with stream data."""
    mark = f'"quic:{name}"'
    with open(file, errors="replace") as lines:
        for line in lines:
            if mark not in line or '"frame_type":"stream"' not in line:
                continue
            event = json.loads(line.lstrip("\x1e"))
            data = event["data"]
            if data["header"]["packet_type"] != "1RTT":
                continue
            frames = [frame for frame in data["frames"] if frame["frame_type"] == "stream"]
            spans = [(frame["stream_id"], frame.get("offset", 0), frame.get("raw", {}).get("length", 0)) for frame in frames]
            yield event["time"], (data["path_id"], data["header"]["packet_number"]), [span for span in spans if span[2]]


class Received:
    """What has arrived of a stream: all up to a point, and intervals beyond it."""

    def __init__(self):
        self.upto = 0
        self.beyond = {}  # start: end, disjoint
        self.starts = []  # sorted

    def covers(self, start, end):
        if end <= self.upto:
            return True
        from bisect import bisect_right

        at = bisect_right(self.starts, max(start, self.upto)) - 1
        return at >= 0 and self.beyond[self.starts[at]] >= end

    def add(self, start, end):
        """Takes it in; the parts that are new, as a list of intervals."""
        from bisect import bisect_left

        start = max(start, self.upto)
        if start >= end:
            return []
        new, cursor = [], start
        at = max(bisect_left(self.starts, start) - 1, 0)
        first = last = None
        low, high = start, end
        while at < len(self.starts) and self.starts[at] <= end:
            from_, to = self.starts[at], self.beyond[self.starts[at]]
            if to >= start:
                first = at if first is None else first
                last = at
                if cursor < from_:
                    new.append((cursor, from_))
                cursor = max(cursor, to)
                low, high = min(low, from_), max(high, to)
            at += 1
        if cursor < end:
            new.append((cursor, end))
        if first is not None:
            for gone in self.starts[first : last + 1]:
                del self.beyond[gone]
            self.starts[first : last + 1] = []
        self.beyond[low] = high
        self.starts.insert(bisect_left(self.starts, low), low)
        while self.starts and self.starts[0] <= self.upto:
            self.upto = max(self.upto, self.beyond.pop(self.starts.pop(0)))
        return new


def queues(folder, warm_up):
    """Both queues at each arrival, bytes."""
    (client,) = [name for name in os.listdir(folder) if name.endswith("_client.sqlog")]
    server = client.replace("_client", "_server")
    sent, order = {}, defaultdict(list)
    spans_of = defaultdict(int)
    for _, key, spans in events(f"{folder}/{server}", "packet_sent"):
        sent[key] = spans
        order[key[0]].append(key)
        for stream, _, length in spans:
            spans_of[stream] += length
    download = max(spans_of, key=spans_of.get)
    received, next_of = Received(), defaultdict(int)
    arrived, held = set(), {}  # held: parts that wait for a loss of their own path, by packet
    everything, shared, waiting = 0, 0, []
    both, start = [], None

    def release(parts):
        nonlocal shared
        for from_, to in parts:
            if to > received.upto:
                shared += to - max(from_, received.upto)
                heapq.heappush(waiting, (to, max(from_, received.upto)))

    for time, key, spans in events(f"{folder}/{client}", "packet_received"):
        if key in arrived:
            continue
        arrived.add(key)
        parts, before = [], received.upto
        for stream, offset, length in spans:
            if stream == download:
                parts += received.add(offset, offset + length)
        start = time if start is None else start
        everything += sum(to - from_ for from_, to in parts)
        held[key] = parts
        # What is in order on its path now; a packet whose data have come another way holds nothing up.
        for path, keys in order.items():
            at = next_of[path]
            while at < len(keys):
                one = keys[at]
                if one in arrived:
                    release(held.pop(one, []))
                elif not all(stream != download or received.covers(offset, offset + length) for stream, offset, length in sent[one]):
                    break
                at += 1
            next_of[path] = at
        if received.upto > before:
            while waiting and waiting[0][0] <= received.upto:
                to, from_ = heapq.heappop(waiting)
                shared -= to - from_
        # The front of what is left may be cut.
        if time >= start + 1e3 * warm_up:
            both.append((everything - received.upto, shared))
    return both


def figures(values):
    values = sorted(values)
    return sum(values) / len(values) / 1e3, values[min(len(values) - 1, math.ceil(0.99 * len(values)) - 1)] / 1e3


def median(values):
    values = sorted(values)
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def main():
    root = sys.argv[1]
    base = sys.argv[2] if len(sys.argv) > 2 else "stms"
    warm_up = float(sys.argv[3]) if len(sys.argv) > 3 else 2.0
    found = defaultdict(list)
    for name in sorted(os.listdir(root)):
        run = re.fullmatch(r"(.+)_bulk_[0-9a-z]+_[0-9a-z]+_[a-z0-9]+_(.+)-\d+", name)
        if run:
            both = queues(f"{root}/{name}", warm_up)
            whole, own = figures([one for one, _ in both]), figures([other for _, other in both])
            found[run[1], run[2]].append(whole + own)
    print("| network | scheduler | mean | 99th percentile | mean without own losses | 99th percentile without own losses |")
    print("|---|---|---|---|---|---|")
    medians = {key: [median(column) for column in zip(*runs)] for key, runs in found.items()}
    for (network, scheduler), values in sorted(medians.items()):
        print(f"| {network} | `{scheduler}` | " + " | ".join(f"{value:.4g}" for value in values) + " |")
    for scheduler in sorted({scheduler for _, scheduler in medians} - {base}):
        logs = [
            [math.log(one / other) for one, other in zip(values, medians[network, base]) if one > 0 and other > 0]
            for (network, name), values in medians.items()
            if name == scheduler and (network, base) in medians
        ]
        logs = [row for row in logs if len(row) == 4]
        changes = [100 * math.expm1(sum(column) / len(column)) for column in zip(*logs)]
        print(f"`{scheduler}` to `{base}`, {len(logs)} networks: " + ", ".join(f"{change:+.1f} %" for change in changes))


if __name__ == "__main__":
    main()
