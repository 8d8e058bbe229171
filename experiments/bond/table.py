#!/usr/bin/env python3
"""What 1 to 16 TCP flows and a call beside them have through mpquic-bond, over two emulated links in real time, and what others have there.

Needs Linux, root, python3, and the two programs:

    cargo build --profile dist -p mpquic-bond -p mpquic-lab
    experiments/bond/table.py --out target/bond-table

Ours as a proxy (SOCKS5) and as a tunnel (--tun); beside them, TCP and MPTCP of the kernel with nothing between them, TCP by the better link alone. The call
is 50 packets of 200 bytes a second in the direction of the flows, by UDP (of MPTCP and TCP: by the better link). After the cells, four flows come down
while the second link is away for a third of the time. Writes flows.csv (a row for each flow and second), calls.csv (a row for each packet that
came, and one for each that did not) and table.md. The networks of others' published figures are 100 + 100 Mbit/s, as here by default.

TCP inside has CUBIC, as most machines do (--congestion bbr for another one that the kernel has): what a flow gets through a tunnel depends on it, as it does not
through a proxy.

It can be run in pieces: rows are appended, a cell that is there is not run again, and the table is of all rows. So the issue's load, three runs of
five numbers of flows, takes some 7 minutes of each variant a run:

    experiments/bond/table.py --runs 1 --variants tun --flows 1,2,4,8,16
"""

import argparse
import csv
import itertools
import json
import os
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET, PORT = "10.88.0.2", 8000
# Not counted: slow start, and what is still on its way at the end.
WARM = 2.0
CALL_EVERY, CALL_BYTES, CALL_LATE = 0.02, 200, 0.15
PIECE = bytes(256 * 1024)
VARIANTS = {
    "socks": "mpquic-bond, SOCKS",
    "tun": "mpquic-bond, TUN",
    "mptcp": "kernel MPTCP",
    "tcp": "kernel TCP, better link",
}
IPPROTO_MPTCP = getattr(socket, "IPPROTO_MPTCP", 262)


# The traffic: a request is a line of JSON; then bytes flow for so many seconds.


def counted(read, seconds):
    """Bytes in each second of what `read` gives, from the first on."""
    buckets, begun = [0] * (int(seconds) + 1), None
    while True:
        try:
            count = read()
        except OSError:
            break
        if not count:
            break
        now = time.monotonic()
        begun = begun or now
        index = int(now - begun)
        if index < len(buckets):
            buckets[index] += count
    return buckets


def poured(connection, seconds):
    until = time.monotonic() + seconds
    try:
        while time.monotonic() < until:
            connection.send(PIECE)
        connection.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def controlled(connection, name):
    """Which congestion controller of the kernel a socket has, and those that a listener accepts."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
    return connection


def line_of(connection):
    line = b""
    while not line.endswith(b"\n"):
        byte = connection.recv(1)
        if not byte:
            break
        line += byte
    return line


def serve(address, congestion):
    calls = {}

    def answer(connection):
        with connection:
            asked = json.loads(line_of(connection) or b"{}")
            buffer = memoryview(bytearray(len(PIECE)))
            if asked.get("what") == "down":
                poured(connection, asked["seconds"])
            elif asked.get("what") == "up":
                connection.settimeout(asked["seconds"] + 20)
                buckets = counted(lambda: connection.recv_into(buffer), asked["seconds"])
                connection.sendall(json.dumps(buckets).encode() + b"\n")
            elif asked.get("what") == "call":
                connection.sendall(json.dumps(calls.pop(asked["id"], [])).encode() + b"\n")

    def listen(protocol, port):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        controlled(listener, congestion).bind((address, port))
        listener.listen(64)
        while True:
            threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()

    def call(udp, peer, seconds):
        for number in range(int(seconds / CALL_EVERY)):
            udp.sendto(struct.pack("!Id", number, time.monotonic()).ljust(CALL_BYTES), peer)
            time.sleep(CALL_EVERY)

    threading.Thread(target=listen, args=(0, PORT), daemon=True).start()
    try:
        socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP).close()
        threading.Thread(target=listen, args=(IPPROTO_MPTCP, PORT + 1), daemon=True).start()
    except OSError:
        pass
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind((address, PORT))
    while True:
        packet, peer = udp.recvfrom(2048)
        now = time.monotonic()
        if packet.startswith(b"{"):
            asked = json.loads(packet)
            threading.Thread(target=call, args=(udp, peer, asked["seconds"]), daemon=True).start()
        else:
            name, number, sent = struct.unpack("!IId", packet[:16])
            calls.setdefault(name, []).append((number, now - sent))


# The client, inside of the namespace with the links.


class Way:
    """How a variant reaches the target."""

    def __init__(self, variant, congestion):
        self.variant, self.congestion = variant, congestion
        outside = os.environ.get("LAB_OUTSIDE")
        self.host = TARGET if variant in ("socks", "tun") else outside
        self.port = PORT + 1 if variant == "mptcp" else PORT

    def tcp(self):
        if self.variant == "socks":
            connection = socket.create_connection(("127.0.0.1", 1080), 20)
            connection.sendall(b"\x05\x01\x00")
            assert connection.recv(2) == b"\x05\x00"
            self.ask(connection, 1)
            return connection
        protocol = IPPROTO_MPTCP if self.variant == "mptcp" else 0
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol)
        controlled(connection, self.congestion).settimeout(20)
        connection.connect((self.host, self.port))
        return connection

    def ask(self, connection, command):
        address = socket.inet_aton(self.host) + struct.pack("!H", self.port)
        connection.sendall(b"\x05" + bytes([command]) + b"\x00\x01" + address)
        reply = connection.recv(10)
        assert reply[1] == 0, reply
        return socket.inet_ntoa(reply[4:8]), struct.unpack("!H", reply[8:10])[0]

    def udp(self):
        """A socket, what goes before each packet, where to, and what must stay open."""
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        if self.variant != "socks":
            udp.connect((self.host, PORT))
            return udp, b"", None
        control = socket.create_connection(("127.0.0.1", 1080), 20)
        control.sendall(b"\x05\x01\x00")
        assert control.recv(2) == b"\x05\x00"
        udp.connect(self.ask(control, 3))
        return udp, b"\x00\x00\x00\x01" + socket.inet_aton(TARGET) + struct.pack("!H", PORT), control


def flow(way, direction, seconds, results, index):
    try:
        with way.tcp() as connection:
            connection.sendall(json.dumps({"what": direction, "seconds": seconds}).encode() + b"\n")
            connection.settimeout(seconds + 20)
            if direction == "down":
                buffer = memoryview(bytearray(len(PIECE)))
                results[index] = counted(lambda: connection.recv_into(buffer), seconds)
            else:
                poured(connection, seconds)
                results[index] = json.loads(line_of(connection) or b"[]")
    except OSError as error:
        print(f"{way.variant}, {direction}: {error}", file=sys.stderr)


def call(way, direction, seconds, results):
    udp, head, control = way.udp()
    name, packets = int.from_bytes(os.urandom(4), "big"), int(seconds / CALL_EVERY)
    delays = {}
    if direction == "down":
        udp.send(head + json.dumps({"seconds": seconds}).encode())
        udp.settimeout(0.5)
        until = time.monotonic() + seconds + 3
        while time.monotonic() < until and len(delays) < packets:
            try:
                packet = udp.recv(2048)[len(head):]
            except OSError:
                continue
            number, sent = struct.unpack("!Id", packet[:12])
            delays.setdefault(number, time.monotonic() - sent)
    else:
        for number in range(packets):
            udp.send(head + struct.pack("!IId", name, number, time.monotonic()).ljust(CALL_BYTES))
            time.sleep(CALL_EVERY)
        time.sleep(1)
        with way.tcp() as connection:
            connection.sendall(json.dumps({"what": "call", "id": name}).encode() + b"\n")
            for number, delay in json.loads(line_of(connection) or b"[]"):
                delays.setdefault(number, delay)
    if control:
        control.close()
    results.extend(delays.get(number) for number in range(packets))


def cell(way, direction, flows, seconds, beside=None):
    results, packets = [[] for _ in range(flows)], []
    tasks = [threading.Thread(target=flow, args=(way, direction, seconds, results, index)) for index in range(flows)]
    tasks.append(threading.Thread(target=call, args=(way, direction, seconds, packets)))
    if beside:
        tasks.append(threading.Thread(target=beside))
    for task in tasks:
        task.start()
    for task in tasks:
        task.join()
    return {"flows": results, "call": packets}


def outage(seconds):
    """The second link is away for a third of the time."""
    time.sleep(seconds / 3)
    show = subprocess.run("ip -4 -o address show dev link1", shell=True, capture_output=True, text=True).stdout.split()[3]
    via = show.rsplit(".", 1)[0] + ".1"
    subprocess.run("ip link set link1 down", shell=True)
    time.sleep(seconds / 3)
    subprocess.run(f"ip link set link1 up; ip route add default via {via} dev link1 metric 101;"
                   f" ip route add default via {via} dev link1 table 101", shell=True, stderr=subprocess.DEVNULL)


def inside(options):
    client = None
    if options.variant in ("socks", "tun"):
        arguments = [options.bond, "connect", os.environ["LAB_OUTSIDE"], "--token-file", options.token, "--pin", options.pin]
        arguments += ["--tun", "--tun-no-dns"] if options.variant == "tun" else []
        with open(options.log, "w") as log:
            client = subprocess.Popen(arguments, stdout=log, stderr=log)
        ready, until = "tunnel" if options.variant == "tun" else "proxy on", time.monotonic() + 30
        while not any(line.startswith(ready) for line in open(options.log)):
            if client.poll() is not None or time.monotonic() > until:
                raise SystemExit(open(options.log).read())
            time.sleep(0.1)
        # Both links have their paths.
        time.sleep(1)
    way = Way(options.variant, options.congestion)
    for name, count in json.loads(options.cells):
        if name == "outage":
            found = cell(way, "down", count, 3 * options.seconds, lambda: outage(3 * options.seconds))
        else:
            found = cell(way, name, count, options.seconds)
        print(json.dumps({"cell": name, "count": count, **found}), flush=True)
    if client:
        client.send_signal(signal.SIGINT)
        client.wait(20)


# The run: namespaces, servers, and a shell with the links for each variant.


def run(*words, **more):
    return subprocess.run(words, check=True, **more)


def namespaces(outer, behind):
    for name in (outer, behind):
        run("ip", "netns", "add", name)
        run("ip", "-n", name, "link", "set", "lo", "up")
    run("ip", "-n", outer, "link", "add", "t0", "type", "veth", "peer", "name", "t1", "netns", behind)
    for name, device, address in ((outer, "t0", "10.88.0.1/24"), (behind, "t1", f"{TARGET}/24")):
        run("ip", "-n", name, "address", "add", address, "dev", device)
        run("ip", "-n", name, "link", "set", device, "up")
    run("ip", "-n", behind, "route", "add", "default", "via", "10.88.0.1")
    run("ip", "netns", "exec", outer, "sysctl", "-qw", "net.ipv4.ip_forward=1")


def missing():
    """What is left out, and why."""
    said = []
    try:
        socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP).close()
    except OSError:
        said.append("mptcp")
        print("left out: kernel MPTCP, which this kernel does not have", file=sys.stderr)
    made = subprocess.run("unshare -n ip link add w type wireguard", shell=True, capture_output=True).returncode == 0
    why = "it is not written: the kernel of the first run had none" if made else "this kernel has none"
    print(f"left out: WireGuard; {why}", file=sys.stderr)
    return said


FLOWS, CALLS = ("run", "variant", "cell", "flows", "flow", "second", "bytes"), ("run", "variant", "cell", "flows", "packet", "delay_ms")


def append(path, head, lines):
    is_new = not path.exists()
    with open(path, "a", newline="") as file:
        out = csv.writer(file)
        if is_new:
            out.writerow(head)
        out.writerows(lines)


def keep(out, row):
    """The raw rows of a cell."""
    head = [row["run"], row["variant"], row["cell"], row["count"]]
    append(out / "calls.csv", CALLS, [[*head, number, "" if delay is None else f"{1000 * delay:.2f}"] for number, delay in enumerate(row["call"])])
    # Last: by these, a cell is known to be there.
    append(out / "flows.csv", FLOWS, [[*head, index, second, count] for index, found in enumerate(row["flows"]) for second, count in enumerate(found)])


def kept(out):
    """The cells of which there are raw rows."""
    cells = {}
    for name, part in (("flows.csv", "flows"), ("calls.csv", "call")):
        if not (out / name).exists():
            continue
        with open(out / name, newline="") as file:
            for line in csv.DictReader(file):
                key = int(line["run"]), line["variant"], line["cell"], int(line["flows"])
                row = cells.setdefault(key, {**dict(zip(("run", "variant", "cell", "count"), key)), "flows": [], "call": []})
                if part == "call":
                    row["call"].append(float(line["delay_ms"]) / 1000 if line["delay_ms"] else None)
                else:
                    while len(row["flows"]) <= int(line["flow"]):
                        row["flows"].append([])
                    row["flows"][int(line["flow"])].append(int(line["bytes"]))
    return [row for row in cells.values() if row["flows"]]


def goodput(cell):
    """Mbit/s of all flows in each second, without the first ones; the last is not whole."""
    sums = [sum(second) for second in itertools.zip_longest(*(flow[:-1] for flow in cell["flows"]), fillvalue=0)]
    return [8e-6 * bytes_ for bytes_ in sums[int(WARM):]]


def shown(values, digits=0):
    return " / ".join(f"{value:.{digits}f}" for value in values)


def table(rows, network):
    """Mbit/s in the mean of the runs, and the call's 99th percentile in ms with what was late or lost."""
    lines = [f"# {network}", ""]
    counts = sorted({row["count"] for row in rows if row["cell"] != "outage"})
    variants = [variant for variant in VARIANTS if any(row["variant"] == variant for row in rows)]
    for direction in ("down", "up"):
        lines += [f"## {direction}", "", "Mbit/s of all flows in the mean of the runs; in brackets, the least and the most of several runs; the call: 99th percentile in ms,",
                  "late by 150 ms or lost in %", ""]
        lines += ["| flows | " + " | ".join(map(str, counts)) + " |", "|---" * (len(counts) + 1) + "|"]
        for variant in variants:
            texts = []
            for count in counts:
                found = [row for row in rows if (row["variant"], row["cell"], row["count"]) == (variant, direction, count)]
                if not found:
                    texts.append("-")
                    continue
                rates = [statistics.mean(goodput(row) or [0]) for row in found]
                packets = [delay for row in found for delay in row["call"]]
                came = sorted(delay for delay in packets if delay is not None)
                worst = 1000 * came[int(0.99 * (len(came) - 1))] if came else float("nan")
                bad = 100 * sum(delay is None or delay > CALL_LATE for delay in packets) / max(1, len(packets))
                between = f"{min(rates):.1f} to {max(rates):.1f}; " if len(rates) > 1 else ""
                texts.append(f"{statistics.mean(rates):.1f} ({between}{worst:.0f}, {bad:.1f})")
            lines.append(f"| {VARIANTS[variant]} | " + " | ".join(texts) + " |")
        lines.append("")
    outages = [row for row in rows if row["cell"] == "outage"]
    if outages:
        lines += ["## one link away for a third of the time, four flows down", "", "Mbit/s before, while it is away, and after it is back; seconds with less than 1 Mbit/s", ""]
        lines += ["| | rate | nothing came |", "|---|---|---|"]
        for variant in variants:
            found = [goodput(row) for row in outages if row["variant"] == variant]
            if found:
                third = (len(found[0]) + int(WARM)) // 3
                parts = [[part for row in found for part in row[a:b]] for a, b in ((0, third - 2), (third - 2, 2 * third - 2), (2 * third - 2, None))]
                dead = statistics.mean(sum(second < 1 for second in row) for row in found)
                lines.append(f"| {VARIANTS[variant]} | {shown([statistics.mean(part or [0]) for part in parts])} | {dead:.1f} s |")
        lines.append("")
    return "\n".join(lines)


def absent(options, number, variant, there):
    """The cells of a run and variant that are not there yet."""
    wanted = list(itertools.product(options.directions.split(","), map(int, options.flows.split(","))))
    wanted += [("outage", 4)] if options.outage else []
    return [cell for cell in wanted if (number, variant, *cell) not in there]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("role", nargs="?", choices=["serve", "inside"], help=argparse.SUPPRESS)
    parser.add_argument("--network", default="100Mbit 20ms | 100Mbit 40ms")
    parser.add_argument("--flows", default="1,2,4,8,16")
    parser.add_argument("--directions", default="down,up")
    parser.add_argument("--variants", default=",".join(VARIANTS))
    parser.add_argument("--congestion", default="cubic")
    parser.add_argument("--seconds", type=float, default=12, help="of a cell")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--no-outage", dest="outage", action="store_false")
    parser.add_argument("--out", type=Path, default=ROOT / "target/bond-table")
    built = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "dist"
    parser.add_argument("--bond", default=str(built / "mpquic-bond"))
    parser.add_argument("--lab", default=str(built / "mpquic-lab"))
    for name in ("address", "variant", "token", "pin", "log", "cells"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role == "serve":
        return serve(options.address, options.congestion)
    if options.role == "inside":
        return inside(options)
    for program in (options.bond, options.lab):
        if not shutil.which(program):
            raise SystemExit(f"there is no {program}: see --help")
    left_out = missing()
    options.variants = ",".join(variant for variant in options.variants.split(",") if variant not in left_out)
    options.out.mkdir(parents=True, exist_ok=True)
    outer, behind = f"bondout{os.getpid()}", f"bondtail{os.getpid()}"
    started = []
    there = {(row["run"], row["variant"], row["cell"], row["count"]) for row in kept(options.out)}
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        try:
            namespaces(outer, behind)
            (folder / "token").write_bytes(os.urandom(32).hex().encode())
            me = [sys.executable, str(Path(__file__).resolve())]
            for name, address in ((behind, TARGET), (outer, "0.0.0.0")):
                started.append(subprocess.Popen(["ip", "netns", "exec", name, *me, "serve", "--congestion", options.congestion, "--address", address]))
            with open(folder / "far.log", "w") as log:
                words = [options.bond, "serve", "--token-file", folder / "token", "--tun", "10.66.0.0/24", "--allow", f"{TARGET}/32:*"]
                started.append(subprocess.Popen(["ip", "netns", "exec", outer, *words], stdout=log, stderr=log,
                                                env={**os.environ, "XDG_DATA_HOME": str(folder / "far")}))
            while "sha256:" not in (text := (folder / "far.log").read_text()):
                if started[-1].poll() is not None:
                    raise SystemExit(text)
                time.sleep(0.1)
            pin = "sha256:" + text.split("sha256:")[1].split()[0]
            for number, variant in itertools.product(range(1, options.runs + 1), options.variants.split(",")):
                cells = absent(options, number, variant, there)
                if not cells:
                    continue
                words = [*me, "inside", "--congestion", options.congestion, "--variant", variant, "--token", folder / "token", "--pin", pin, "--log", folder / "near.log",
                         "--bond", options.bond, "--cells", json.dumps(cells), "--seconds", str(options.seconds)]
                shell = ["ip", "netns", "exec", outer, options.lab, "shell", "--network", options.network, "--", *words]
                # One after the other, each with a fresh connection.
                inner = subprocess.Popen(shell, stdout=subprocess.PIPE, text=True, env={**os.environ, "XDG_DATA_HOME": str(folder / "near")})
                for line in inner.stdout:
                    if line.startswith("{"):
                        row = {"run": number, "variant": variant, **json.loads(line)}
                        keep(options.out, row)
                        print(f"{number} {variant} {row['cell']} {row['count']}: {statistics.mean(goodput(row) or [0]):.1f} Mbit/s", flush=True)
                inner.wait()
        finally:
            for process in started:
                process.terminate()
            for process in started:
                process.wait()
            for name in (outer, behind):
                subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)
    text = table(kept(options.out), options.network)
    (options.out / "table.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
