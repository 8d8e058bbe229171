#!/usr/bin/env python3
"""mpquic-bond over two links that go away and come back all the time: whether a flow gets stuck, whether memory or descriptors stay behind, and whether the rate is back.

Needs Linux, root, python3, and the two programs:

    cargo build --profile dist -p mpquic-bond -p mpquic-lab
    experiments/bond/flap.py --out target/bond-flap

A day of a link that is lost every four minutes has 360 losses. Here each link is lost every few seconds, so that half an hour, the default, has as many as a day and more of each of
two kinds: the interface goes down and its routes with it, or the link carries nothing and nobody is told. Both links may be away at once. One client serves as proxy (SOCKS5) and
tunnel (--tun). Through each, all the time: two workers copy files of 0.2 to 2 MB down and up, one after another, and compare what came; a session of one connection sends a line
each half second and waits for its echo; another worker begins an association of UDP, has some datagrams echoed and ends it (SOCKS) or a datagram echoed from a new port (tunnel).

It fails if a file takes longer than --bound seconds or is not the same, a session is silent for longer, or ends; if, when all is over, either program has more descriptors than before,
or its memory in the last quarter of the time is more than 15 % and 4 MB above that in the second; or if one flow of either way has less than 0.8 of the rate that it had before.
Writes samples.csv (memory, descriptors, threads of both programs, each 5 s), flows.csv (a row for each file), links.csv (what happened when) and summary.json.
"""

import argparse
import csv
import json
import os
import random
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from pathlib import Path

import table

PORT = table.PORT
BLOCK = random.Random(1).randbytes(64 * 1024)
# From the start of the shell to the first loss: the client connects, and its rates are measured.
QUIET = 25.0
RATE_SECONDS = 6.0
SAMPLE = 5.0


# What happens to the links, from a seed.


def losses(generator, seconds):
    """When a link is lost, and for how long: for 0.3 to 8 s, every 2 to 12 s."""
    now, found = generator.uniform(0, 5), []
    while now < seconds:
        lasting = min(8.0, max(0.3, generator.expovariate(1 / 2)))
        found.append((now, min(lasting, seconds - now)))
        now += lasting + min(12.0, max(2.0, generator.expovariate(1 / 5)))
    return found


def network(options):
    """The links, with the losses that nobody is told of."""
    paths = []
    for number, (rate, delay) in enumerate(((options.rate, 20), (options.rate, 40))):
        dark = losses(random.Random(f"{options.seed} silent {number}"), 60 * options.minutes)
        # Half of them: the other half is the interfaces'.
        listed = ", ".join(f'{{ at = "{QUIET + at:.2f}s", lasting = "{lasting:.2f}s" }}' for at, lasting in dark[::2])
        paths.append(f"{{ rate = {rate}, owd = {delay}, outages = [{listed}] }}")
    return (f'title = "Links that flap"\nworkloads = ["bulk:20s"]\nschedulers = ["arrival"]\n\n[[network]]\nname = "flap"\n'
            f'about = "Two links, each lost every few seconds."\npaths = [{", ".join(paths)}]\n')


# The far side: files, a session, datagrams.


def serve(address):
    def answer(connection):
        with connection:
            connection.settimeout(600)
            try:
                asked = json.loads(table.line_of(connection) or b"{}")
                if asked.get("what") == "down":
                    connection.sendall(bytes(whole(asked["bytes"])))
                elif asked.get("what") == "up":
                    crc, left = 0, asked["bytes"]
                    while left and (piece := connection.recv(min(left, 1 << 16))):
                        crc, left = zlib.crc32(piece, crc), left - len(piece)
                    connection.sendall(json.dumps(crc).encode() + b"\n")
                elif asked.get("what") == "echo":
                    while line := table.line_of(connection):
                        connection.sendall(line)
                elif asked.get("what") == "rate":
                    table.poured(connection, asked["seconds"])
            except OSError:
                pass

    def datagrams():
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind((address, PORT))
        while True:
            packet, peer = udp.recvfrom(2048)
            udp.sendto(packet, peer)

    threading.Thread(target=datagrams, daemon=True).start()
    listener = socket.create_server((address, PORT), backlog=128)
    while True:
        threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()


def whole(size):
    return (BLOCK * (size // len(BLOCK) + 1))[:size]


# The near side, inside of the namespace with the links.


class Run:
    def __init__(self, options, client):
        self.options, self.pids = options, {"connect": client.pid, "serve": options.far_pid}
        self.begun, self.lock = time.monotonic(), threading.Lock()
        self.over = threading.Event()

    def tell(self, what, **more):
        with self.lock:
            print(json.dumps({"what": what, "at": round(time.monotonic() - self.begun, 2), **more}), flush=True)

    def sample(self):
        for role, pid in self.pids.items():
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            self.tell("sample", role=role, rss_kb=pages * os.sysconf("SC_PAGE_SIZE") // 1024,
                      fds=len(os.listdir(f"/proc/{pid}/fd")), threads=len(os.listdir(f"/proc/{pid}/task")))

    def sampling(self):
        while not self.over.wait(SAMPLE):
            self.sample()

    def asked(self, way, **what):
        connection = way.tcp()
        connection.settimeout(self.options.bound)
        connection.sendall(json.dumps(what).encode() + b"\n")
        return connection

    def rate(self, way):
        """Mbit/s of one flow, without its first two seconds."""
        with self.asked(way, what="rate", seconds=RATE_SECONDS) as connection:
            buffer = memoryview(bytearray(1 << 18))
            found = table.counted(lambda: connection.recv_into(buffer), RATE_SECONDS)
        return round(statistics.mean(8e-6 * count for count in found[2:-1]), 1)

    def files(self, way, number):
        generator = random.Random(f"{self.options.seed} {way.variant} {number}")
        while not self.over.is_set():
            direction, size = generator.choice(("down", "up")), generator.randint(200_000, 2_000_000)
            begun, end = time.monotonic(), "same"
            try:
                with self.asked(way, what=direction, bytes=size) as connection:
                    if direction == "up":
                        connection.sendall(whole(size))
                        end = "same" if json.loads(table.line_of(connection) or b"-1") == zlib.crc32(whole(size)) else "cut"
                    else:
                        got = bytearray()
                        while len(got) < size and (piece := connection.recv(1 << 16)):
                            got += piece
                        end = "same" if got == whole(size) else "cut" if whole(size).startswith(bytes(got)) else "wrong"
            except (OSError, AssertionError) as error:
                end = f"{type(error).__name__}: {error}"
                # A proxy without a connection refuses at once.
                self.over.wait(0.2)
            took = time.monotonic() - begun
            self.tell("file", way=way.variant, direction=direction, bytes=size, seconds=round(took, 2), end=end)

    def session(self, way):
        """Lines and their echoes on one connection: how long it was silent, and why it ended if it did."""
        longest, lines, why = 0.0, 0, ""
        try:
            with self.asked(way, what="echo") as connection:
                while not self.over.is_set():
                    begun = time.monotonic()
                    connection.sendall(b"%d\n" % lines)
                    if table.line_of(connection) != b"%d\n" % lines:
                        raise OSError("the other end closed it")
                    longest, lines = max(longest, time.monotonic() - begun), lines + 1
                    self.over.wait(0.5)
        except (OSError, AssertionError) as error:
            why = f"{type(error).__name__}: {error}"
        self.tell("session", way=way.variant, lines=lines, longest=round(longest, 2), ended=why)

    def datagrams(self, way):
        sent = came = failed = 0
        while not self.over.is_set():
            try:
                udp, head, control = way.udp()
                with udp:
                    udp.settimeout(0.3)
                    for number in range(5):
                        sent += 1
                        udp.send(head + struct.pack("!I", number))
                        try:
                            came += bool(udp.recv(2048))
                        except OSError:
                            pass
                if control:
                    control.close()
            except (OSError, AssertionError):
                failed += 1
                self.over.wait(0.2)
        self.tell("datagrams", way=way.variant, sent=sent, came=came, refused=failed)

    def interface(self, number, plan):
        """An interface goes down and up again, with its routes."""
        link = f"link{number}"
        show = subprocess.run(f"ip -4 -o address show dev {link}", shell=True, capture_output=True, text=True).stdout.split()[3]
        via = show.rsplit(".", 1)[0] + ".1"
        for at, lasting in plan:
            if self.over.wait(max(0, self.begun + at - time.monotonic())):
                break
            subprocess.run(f"ip link set {link} down", shell=True)
            self.tell("interface", link=number, lasting=round(lasting, 2))
            self.over.wait(lasting)
            subprocess.run(f"ip link set {link} up; ip route add default via {via} dev {link} metric {100 + number};"
                           f" ip route add default via {via} dev {link} table {100 + number}", shell=True, stderr=subprocess.DEVNULL)


def inside(options):
    shell_begun = time.monotonic()
    arguments = [options.bond, "connect", os.environ["LAB_OUTSIDE"], "--token-file", options.token, "--pin", options.pin, "--tun", "--tun-no-dns"]
    with open(options.log, "w") as log:
        client = subprocess.Popen(arguments, stdout=log, stderr=log)

    def ended(*_):
        client.terminate()
        os._exit(143)

    signal.signal(signal.SIGTERM, ended)
    while not any(line.startswith("tunnel") for line in open(options.log)):
        if client.poll() is not None or time.monotonic() > shell_begun + 20:
            raise SystemExit(open(options.log).read())
        time.sleep(0.1)
    time.sleep(1)
    ways = [table.Way("socks", "cubic"), table.Way("tun", "cubic")]
    run = Run(options, client)
    for way in ways:
        run.tell("rate", way=way.variant, when="before", mbit=run.rate(way))
    time.sleep(1)
    run.sample()
    run.tell("begin")
    time.sleep(max(0, shell_begun + QUIET - time.monotonic()))
    run.begun = time.monotonic()
    seconds = 60 * options.minutes
    tasks = [threading.Thread(target=run.sampling)]
    for way in ways:
        tasks += [threading.Thread(target=run.files, args=(way, number)) for number in range(2)]
        tasks += [threading.Thread(target=run.session, args=(way,)), threading.Thread(target=run.datagrams, args=(way,))]
    flapping = []
    for number in range(2):
        plan = losses(random.Random(f"{options.seed} interface {number}"), seconds)[1::2]
        flapping.append(threading.Thread(target=run.interface, args=(number, plan)))
    for task in tasks + flapping:
        task.start()
    for task in flapping:
        task.join()
    time.sleep(max(0, run.begun + seconds - time.monotonic()))
    run.over.set()
    for task in tasks:
        task.join()
    time.sleep(3)
    for way in ways:
        run.tell("rate", way=way.variant, when="after", mbit=run.rate(way))
    time.sleep(3)
    run.sample()
    run.tell("end")
    client.terminate()
    client.wait(20)


# What came of it.


def slope(points):
    """kB a minute, by least squares."""
    if len(points) < 3:
        return 0.0
    times, sizes = [at / 60 for at, _ in points], [size for _, size in points]
    mean = statistics.mean(times)
    below = sum((at - mean) ** 2 for at in times)
    return sum((at - mean) * size for at, size in zip(times, sizes)) / below if below else 0.0


def judged(rows, options):
    summary, wrong = {"minutes": options.minutes, "seed": options.seed}, []
    of = lambda what: [row for row in rows if row["what"] == what]
    interfaces, files = of("interface"), of("file")
    silent = sum(len(losses(random.Random(f"{options.seed} silent {number}"), 60 * options.minutes)[::2]) for number in range(2))
    summary["losses"] = {"interface": len(interfaces), "silent": silent}
    for way in ("socks", "tun"):
        mine = [row for row in files if row["way"] == way]
        ends = [row for row in mine if row["end"] != "same"]
        late = [row for row in mine if row["seconds"] > options.bound]
        times = sorted(row["seconds"] for row in mine if row["end"] == "same")
        session = next((row for row in of("session") if row["way"] == way), None)
        rates = {row["when"]: row["mbit"] for row in of("rate") if row["way"] == way}
        datagrams = next((row for row in of("datagrams") if row["way"] == way), {})
        summary[way] = {
            "files": len(mine), "same": len(times), "failed": len(ends), "failures": sorted({row["end"] for row in ends}),
            "median_s": statistics.median(times) if times else None, "longest_s": times[-1] if times else None,
            "session": session and {key: session[key] for key in ("lines", "longest", "ended")}, "mbit": rates,
            "datagrams": {key: datagrams.get(key) for key in ("sent", "came", "refused")},
        }
        wrong += [f"{way}: a file took {row['seconds']} s" for row in late]
        wrong += [f"{way}: a file is not the same: {row['end']}" for row in ends if row["end"] == "wrong"]
        if not session or session["ended"] or session["longest"] > options.bound:
            wrong.append(f"{way}: the session: {session}")
        if rates.get("after", 0) < 0.8 * rates.get("before", 0):
            wrong.append(f"{way}: {rates['after']} Mbit/s after {rates['before']} before")
    for role in ("connect", "serve"):
        mine = [row for row in of("sample") if row["role"] == role]
        first, last, between = mine[0], mine[-1], mine[1:-1]
        second = [row["rss_kb"] for row in between[len(between) // 4:len(between) // 2]] or [first["rss_kb"]]
        fourth = [row["rss_kb"] for row in between[3 * len(between) // 4:]] or [last["rss_kb"]]
        second, fourth = statistics.mean(second), statistics.mean(fourth)
        later = [(row["at"], row["rss_kb"]) for row in between[len(between) // 4:]]
        summary[role] = {
            "fds": {"before": first["fds"], "most": max(row["fds"] for row in mine), "after": last["fds"]},
            "threads": {"before": first["threads"], "after": last["threads"]},
            "rss_kb": {"before": first["rss_kb"], "second quarter": round(second), "last quarter": round(fourth), "after": last["rss_kb"],
                       "a minute, from the second quarter on": round(slope(later), 1)},
        }
        if last["fds"] > first["fds"]:
            wrong.append(f"{role}: {last['fds']} descriptors after {first['fds']} before")
        if fourth > 1.15 * second and fourth > second + 4096:
            wrong.append(f"{role}: {fourth:.0f} kB in the last quarter, {second:.0f} in the second")
    summary["wrong"] = wrong
    return summary


def kept(out, rows, summary):
    out.mkdir(parents=True, exist_ok=True)
    for name, what, keys in (("samples", "sample", ("at", "role", "rss_kb", "fds", "threads")), ("links", "interface", ("at", "link", "lasting")),
                             ("flows", "file", ("at", "way", "direction", "bytes", "seconds", "end"))):
        with open(out / f"{name}.csv", "w", newline="") as file:
            lines = csv.writer(file)
            lines.writerow(keys)
            lines.writerows([row[key] for key in keys] for row in rows if row["what"] == what)
    (out / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("role", nargs="?", choices=["serve", "inside"], help=argparse.SUPPRESS)
    parser.add_argument("--minutes", type=float, default=30.0, help="how long links flap; 0.5 for a short try")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=20, help="of each link, Mbit/s")
    parser.add_argument("--bound", type=float, default=60.0, help="what a file and a line may take, s")
    parser.add_argument("--out", type=Path, default=table.ROOT / "target/bond-flap")
    built = Path(os.environ.get("CARGO_TARGET_DIR", table.ROOT / "target")) / "dist"
    parser.add_argument("--bond", default=str(built / "mpquic-bond"))
    parser.add_argument("--lab", default=str(built / "mpquic-lab"))
    for name in ("address", "token", "pin", "log"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    parser.add_argument("--far-pid", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role == "serve":
        return serve(options.address)
    if options.role == "inside":
        return inside(options)
    outer, behind = f"flapout{os.getpid()}", f"flaptail{os.getpid()}"
    started, rows = [], []
    # What was started ends with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        try:
            table.namespaces(outer, behind)
            (folder / "token").write_bytes(os.urandom(32).hex().encode())
            (folder / "flap.toml").write_text(network(options))
            me = [sys.executable, str(Path(__file__).resolve())]
            started.append(subprocess.Popen(["ip", "netns", "exec", behind, *me, "serve", "--address", table.TARGET]))
            with open(folder / "far.log", "w") as log:
                words = [options.bond, "serve", "--token-file", folder / "token", "--tun", "10.66.0.0/24", "--allow", f"{table.TARGET}/32:*"]
                far = subprocess.Popen(["ip", "netns", "exec", outer, *words], stdout=log, stderr=log, env={**os.environ, "XDG_DATA_HOME": str(folder / "far")})
                started.append(far)
            while "sha256:" not in (text := (folder / "far.log").read_text()):
                if far.poll() is not None:
                    raise SystemExit(text)
                time.sleep(0.1)
            pin = "sha256:" + text.split("sha256:")[1].split()[0]
            words = [*me, "inside", "--token", folder / "token", "--pin", pin, "--log", folder / "near.log", "--far-pid", str(far.pid), "--bond", options.bond,
                     "--minutes", str(options.minutes), "--seed", str(options.seed), "--bound", str(options.bound)]
            shell = ["ip", "netns", "exec", outer, options.lab, "shell", folder / "flap.toml", "--", *words]
            inner = subprocess.Popen(shell, stdout=subprocess.PIPE, text=True, env={**os.environ, "XDG_DATA_HOME": str(folder / "near")})
            started.append(inner)
            for line in inner.stdout:
                if line.startswith("{"):
                    rows.append(json.loads(line))
                    if rows[-1]["what"] in ("rate", "session"):
                        print(line, end="", flush=True)
            inner.wait()
            if not rows or rows[-1]["what"] != "end":
                near = folder / "near.log"
                raise SystemExit(near.read_text()[-4000:] if near.exists() else "the shell did not start")
        finally:
            for process in reversed(started):
                process.terminate()
                process.wait()
            for name in (outer, behind):
                subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)
    summary = judged(rows, options)
    kept(options.out, rows, summary)
    print(json.dumps(summary, indent=1))
    raise SystemExit(1 if summary["wrong"] else 0)


if __name__ == "__main__":
    main()
