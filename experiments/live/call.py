#!/usr/bin/env python3
"""A call through mpquic-bond beside a download, over two emulated links in real time: with and without --live.

Needs Linux, root, and the two programs:

    cargo build --release -p mpquic-bond -p mpquic-lab
    experiments/live/call.py --runs 3

The call is UDP by SOCKS5: 50 packets of 200 bytes a second in each direction. The download is TCP through the same proxy, from the third
second on. A packet counts as late if it comes after 150 ms, and a freeze is a time in which none comes in time. Both ends of the call have
one clock.
"""

import argparse
import json
import os
import secrets
import selectors
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
INTERVAL, SIZE, LATE = 0.02, 200, 0.15
# What comes so long after the last packet still counts as late, not as lost.
TAIL = 3.0


class Half:
    """One end of the call: sends at its times, and notes what comes. `wrap` and `unwrap` are for SOCKS5."""

    def __init__(self, sock, seconds, wrap=lambda data: data, unwrap=lambda data: data):
        self.sock, self.seconds, self.wrap, self.unwrap = sock, seconds, wrap, unwrap
        self.to, self.came, self.count = None, {}, int(seconds / INTERVAL)

    def run(self):
        self.sock.setblocking(False)
        with selectors.DefaultSelector() as selector:
            selector.register(self.sock, selectors.EVENT_READ)
            begin, number = None, 0
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline:
                now = time.monotonic()
                # The far end begins when it hears where the near one is.
                if self.to and begin is None:
                    begin, deadline = now, now + self.seconds + TAIL
                while begin is not None and number < self.count and begin + number * INTERVAL <= now:
                    data = struct.pack("!Id", number, time.monotonic()).ljust(SIZE, b"\0")
                    try:
                        self.sock.sendto(self.wrap(data), self.to)
                    except BlockingIOError:
                        pass
                    number += 1
                next_at = deadline if begin is None or number >= self.count else begin + number * INTERVAL
                for _ in selector.select(max(0.0, min(next_at, deadline) - now)):
                    self.receive()

    def receive(self):
        while True:
            try:
                data, source = self.sock.recvfrom(2048)
            except BlockingIOError:
                return
            now, data = time.monotonic(), self.unwrap(data)
            if len(data) < 12:
                continue
            self.to = self.to or source
            number, sent = struct.unpack("!Id", data[:12])
            self.came.setdefault(number, (sent, now))

    def figures(self):
        delays = [came - sent for sent, came in self.came.values()]
        in_time = sorted(came for sent, came in self.came.values() if came - sent <= LATE)
        gaps = [later - earlier for earlier, later in zip(in_time, in_time[1:])]
        delays.sort()
        return {
            "sent": self.count,
            "lost": self.count - len(delays),
            "late": sum(delay > LATE for delay in delays),
            "freeze_ms": 1e3 * max(gaps, default=self.seconds),
            "p50_ms": 1e3 * delays[len(delays) // 2] if delays else float("nan"),
            "p99_ms": 1e3 * delays[int(len(delays) * 0.99)] if delays else float("nan"),
        }


def exactly(sock, count):
    data = b""
    while len(data) < count:
        more = sock.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def socks(proxy, command, host, port):
    """A connection to the proxy that has asked for this, and the address in its answer."""
    sock = socket.create_connection(proxy)
    sock.sendall(b"\5\1\0")
    exactly(sock, 2)
    sock.sendall(bytes([5, command, 0, 1]) + socket.inet_aton(host) + struct.pack("!H", port))
    answer = exactly(sock, 10)
    if answer[1]:
        raise OSError(f"SOCKS5 answers {answer[1]}")
    return sock, (socket.inet_ntoa(answer[4:8]), struct.unpack("!H", answer[8:])[0])


def inside(options):
    """The near end, behind the proxy: prints what came of the call, and how much of the download did."""
    proxy = ("127.0.0.1", 1080)
    for _ in range(200):
        try:
            control, relay = socks(proxy, 3, "0.0.0.0", 0)
            break
        except OSError:
            time.sleep(0.1)
    else:
        sys.exit("no proxy")
    host = os.environ["LAB_OUTSIDE"]
    head = b"\0\0\0\1" + socket.inet_aton(host) + struct.pack("!H", options.call_port)
    call = Half(socket.socket(socket.AF_INET, socket.SOCK_DGRAM), options.seconds, lambda data: head + data, lambda data: data[10:])
    call.sock.bind(("127.0.0.1", 0))
    call.to = relay
    taken = [0]

    def download():
        time.sleep(2)
        sock, _ = socks(proxy, 1, host, options.bulk_port)
        while data := sock.recv(1 << 16):
            taken[0] += len(data)

    if not options.alone:
        threading.Thread(target=download, daemon=True).start()
    call.run()
    print(json.dumps({**call.figures(), "download_mbit_s": taken[0] * 8e-6 / (options.seconds + TAIL - 2)}), flush=True)
    control.close()


def source(listener):
    """Sends to whoever comes, as fast as it is taken."""
    zeros = bytes(1 << 16)
    while True:
        sock, _ = listener.accept()

        def fill(sock=sock):
            try:
                while True:
                    sock.sendall(zeros)
            except OSError:
                pass

        threading.Thread(target=fill, daemon=True).start()


def run(options, network, live, number):
    """One run: figures of what came to the near end and to the far one."""
    seed = str(number)
    with tempfile.TemporaryDirectory() as folder:
        token = Path(folder) / "token"
        token.write_text(secrets.token_hex(16))
        flags = ["--token-file", token, *(["--live"] if live else [])]
        call = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        call.bind(("0.0.0.0", 0))
        bulk = socket.create_server(("0.0.0.0", 0))
        threading.Thread(target=source, args=(bulk,), daemon=True).start()
        serve = [options.bond, "serve", "--listen", "0.0.0.0:4433", "--identity", folder, "--allow", "0.0.0.0/0:*", *flags]
        server = subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            line = ""
            while not line.startswith("fingerprint "):
                line = server.stdout.readline()
                if not line:
                    sys.exit("the server did not start")
            pin = line.split()[1]
            me = f"{sys.executable} {Path(__file__).resolve()} --inside --seconds {options.seconds} --call-port {call.getsockname()[1]}"
            me += f" --bulk-port {bulk.getsockname()[1]}" + (" --alone" if options.alone else "")
            local = 'local=""; for a in $(echo $LAB_ADDRESSES | tr , " "); do local="$local --local $a"; done; '
            connect = f"{options.bond} connect $LAB_OUTSIDE:4433 --pin {pin} {' '.join(map(str, flags))} $local >{folder}/near 2>&1 & "
            script = f"{local}{connect} near=$!; {me}; kill $near; wait"
            shell = [options.lab, "shell", HERE / "call.toml", "--only", f"^{network}$", "--seed", seed, "--", "sh", "-c", script]
            far = Half(call, options.seconds)
            hearing = threading.Thread(target=far.run)
            hearing.start()
            near = subprocess.run(shell, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            hearing.join()
        finally:
            server.terminate()
            server.wait()
        lines = [line for line in near.stdout.splitlines() if line.startswith("{")]
        if not lines:
            sys.exit(f"{network}: {near.stderr.strip()}\n{(Path(folder) / 'near').read_text()}")
        return json.loads(lines[0]), far.figures()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    target = HERE.parents[1] / "target" / "release"
    parser.add_argument("--bond", type=Path, default=target / "mpquic-bond", help="the proxy's program")
    parser.add_argument("--lab", type=Path, default=target / "mpquic-lab", help="the lab's program")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--networks", default="steady,hole")
    parser.add_argument("--variants", default="plain,live")
    parser.add_argument("--alone", action="store_true", help="without the download")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--call-port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--bulk-port", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        return inside(options)
    options.bond, options.lab = options.bond.resolve(), options.lab.resolve()
    if os.geteuid() != 0:
        sys.exit("needs root, for network namespaces")
    print("| network | UDP | to the client: late, lost | longest freeze | 50 %, 99 % | to the server: late, lost | longest freeze | download |")
    print("|---|---|--:|--:|--:|--:|--:|--:|")
    for network in options.networks.split(","):
        for variant in options.variants.split(","):
            runs = [run(options, network, variant == "live", number) for number in range(1, options.runs + 1)]
            cells = []
            for half in ([near for near, _ in runs], [far for _, far in runs]):
                sent = sum(figures["sent"] for figures in half)
                share = lambda key: 100 * sum(figures[key] for figures in half) / sent
                freezes = [figures["freeze_ms"] for figures in half]
                cells.append(f"{share('late'):.2f}, {share('lost'):.2f} %")
                cells.append(f"{statistics.median(freezes):.0f}, {max(freezes):.0f} ms")
                if len(cells) == 2:
                    middle = [statistics.median(figures[key] for figures in half) for key in ("p50_ms", "p99_ms")]
                    cells.append(f"{middle[0]:.0f}, {middle[1]:.0f} ms")
            download = statistics.mean(near["download_mbit_s"] for near, _ in runs)
            name = "`--live`" if variant == "live" else "as it is"
            print(f"| {network} | {name} | {' | '.join(cells)} | {download:.1f} Mbit/s |", flush=True)


if __name__ == "__main__":
    main()
