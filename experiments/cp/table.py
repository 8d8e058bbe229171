#!/usr/bin/env python3
"""How fast mpquic-cp is beside scp, rsync over ssh and rsync's own protocol, over one fast link and over two slow ones.

Needs Linux, root, python3, and the two programs; sshd, scp, rsync, croc and sendme where they are installed (what is not there is left out, and named;
the last two by `go install github.com/schollz/croc/v10@v10.7.0` and `cargo install sendme --version 0.37.1`, or --croc and --sendme):

    cargo build --profile dist -p mpquic-cp -p mpquic-lab
    experiments/cp/table.py --out target/cp-table

Loads: one file of 10 GB, 10,000 files of 4 kB, 1,000 files of 1 MB; over 20 + 10 Mbit/s a hundredth, a tenth and a tenth of that (--scale, --slow-scale).
Links: `lan`, a veth pair at 1 Gbit/s (tc tbf) without delay; `two`, 20 Mbit/s with a round trip of 20 ms and 10 Mbit/s with 40, by mpquic-lab shell.
The client is inside and gets from a server outside, into an empty folder, and contents are compared. Programs that know one link have the better one.
croc goes by a relay of its own beside its sender, and sendme by none. Both have read what they send before the client begins.
Writes runs.csv (a row each) and table.md: MB/s, files/s, and CPU seconds of both ends.

It can be run in pieces: rows are appended, a run that is there is not made again, and the table is of all rows. So, one by one:

    experiments/cp/table.py --links lan --loads large --tools mpquic-cp,scp --runs 1
"""

import argparse
import csv
import filecmp
import getpass
import itertools
import json
import operator
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOADS = {"large": (1, 10_000_000_000), "small": (10_000, 4_000), "medium": (1_000, 1_000_000)}
# Of the load, over slow links.
SLOW = {"large": 0.01, "small": 0.1, "medium": 0.1}
LINKS = {"lan": None, "two": "20Mbit 10ms | 10Mbit 20ms"}
TOOLS = ["mpquic-cp", "scp", "rsync over ssh", "rsync daemon", "croc", "sendme"]
SSH_PORT, RSYNC_PORT, CP_PORT, CROC_PORT = 2222, 8730, 4433, 9009
CROC_CODE = "table-of-copies"
# What the sender of a copy says when it is ready.
READY = {"croc": "Or receive in a browser", "sendme": "sendme receive "}


def loads(options, link):
    for name in options.loads.split(","):
        count, size = LOADS[name]
        scale = options.scale * (SLOW[name] * options.slow_scale if link != "lan" else 1)
        if count == 1:
            yield name, 1, max(1, int(size * scale))
        else:
            yield name, max(1, int(count * scale)), size


def make(folder, count, size):
    """Files that nothing compresses; one block of random bytes is turned, so that no two are alike."""
    if folder.exists() and len(list(folder.iterdir())) == count:
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    block = os.urandom(1 << 24)
    for number in range(count):
        with open(folder / f"file{number:05}", "wb") as file:
            left, at = size, number * 7919 % len(block)
            while left > 0:
                piece = block[at:at + left]
                file.write(piece)
                left, at = left - len(piece), 0
    os.sync()


def same(one, other):
    compared = filecmp.cmpfiles(one, other, os.listdir(one), shallow=False)
    return not compared[1] and not compared[2]


def ticks(pid):
    """CPU seconds of a process and of those of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def available(options):
    found = []
    for tool in options.tools.split(","):
        needed = {"mpquic-cp": [options.cp], "scp": ["scp", "/usr/sbin/sshd"], "rsync over ssh": ["rsync", "ssh", "/usr/sbin/sshd"], "rsync daemon": ["rsync"],
                  "croc": [options.croc], "sendme": [options.sendme]}
        absent = [program for program in needed[tool] if not shutil.which(program)]
        if absent:
            print(f"left out: {tool}; there is no {', '.join(absent)}", file=sys.stderr)
        else:
            found.append(tool)
    return found


class Servers:
    """All of them, outside."""

    def __init__(self, enter, folder, source, options, tools):
        self.processes = {}
        sshd = {"scp", "rsync over ssh"} & set(tools)
        if "mpquic-cp" in tools:
            with open(folder / "cp.log", "w") as log:
                words = [options.cp, "serve", "--root", source, "--listen", f"0.0.0.0:{CP_PORT}"]
                self.start("mpquic-cp", [*enter, *words], stdout=log, stderr=log, env={**os.environ, "XDG_DATA_HOME": str(folder / "far")})
            while "fingerprint " not in (text := (folder / "cp.log").read_text()):
                assert self.processes["mpquic-cp"].poll() is None, text
                time.sleep(0.05)
            self.pin = text.split("fingerprint ")[1].split()[0]
        if sshd:
            for name in ("host", "client"):
                subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
            shutil.copy(folder / "client.pub", folder / "authorized")
            Path("/run/sshd").mkdir(exist_ok=True)
            settings = ["UsePAM no", "StrictModes no", "PermitRootLogin prohibit-password", f"AuthorizedKeysFile {folder}/authorized",
                        f"HostKey {folder}/host", f"Port {SSH_PORT}", f"PidFile {folder}/sshd.pid", "MaxStartups 100", "Subsystem sftp internal-sftp"]
            (folder / "sshd").write_text("\n".join(settings) + "\n")
            self.start("sshd", [*enter, "/usr/sbin/sshd", "-D", "-e", "-f", folder / "sshd"], stderr=subprocess.DEVNULL)
        self.enter, self.folder, self.options = enter, folder, options
        self.env = {**os.environ, "HOME": str(folder), "CROC_SECRET": CROC_CODE, "XDG_DATA_HOME": str(folder / "far")}
        if "croc" in tools:
            self.start("croc relay", [*enter, options.croc, "relay", "--port", CROC_PORT], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=self.env)
        if "rsync daemon" in tools:
            (folder / "rsyncd").write_text(f"port = {RSYNC_PORT}\nuse chroot = no\n[files]\npath = {source}\nuid = 0\ngid = 0\n")
            self.start("rsync daemon", [*enter, "rsync", "--daemon", "--no-detach", f"--config={folder / 'rsyncd'}"])
        time.sleep(0.5)

    def start(self, name, words, **more):
        self.processes[name] = subprocess.Popen(list(map(str, words)), **more)

    def offer(self, tool, what):
        """A sender for one copy, where it takes one; what the client has to know."""
        words = {
            "croc": [self.options.croc, "--yes", "--ignore-stdin", "--disable-clipboard", "--relay", f"127.0.0.1:{CROC_PORT}", "send", "--no-local", what],
            "sendme": [self.options.sendme, "send", "--relay", "disabled", "--ticket-type", "addresses", "--no-progress", what],
        }.get(tool)
        if not words:
            return getattr(self, "pin", "")
        with open(self.folder / "offer.log", "w") as log:
            # sendme keeps a folder of what it sends where it is started.
            self.start(tool, [*self.enter, *words], stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=self.env, cwd=self.folder)
        while READY[tool] not in (text := (self.folder / "offer.log").read_text(errors="replace")):
            assert self.processes[tool].poll() is None, text
            time.sleep(0.05)
        time.sleep(0.5)
        return (text.split(READY[tool])[1].split() or [""])[0]

    def withdraw(self, tool):
        if tool in READY:
            process = self.processes.pop(tool)
            process.terminate()
            process.wait()

    def cpu(self, tool):
        name = "sshd" if tool in ("scp", "rsync over ssh") else tool
        both = [name, "croc relay"] if tool == "croc" else [name]
        return sum(ticks(self.processes[name].pid) for name in both)

    def stop(self):
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.wait()


def command(tool, host, name, target, folder, source, options, known):
    ssh = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", "-i", str(folder / "client")]
    user = f"{getpass.getuser()}@{host}"
    return {
        "mpquic-cp": [options.cp, "get", f"{host}:{CP_PORT}", name, str(target), "--pin", known, "--json"],
        "scp": ["scp", "-q", "-r", "-p", "-P", str(SSH_PORT), *ssh, f"{user}:{source / name}", str(target)],
        "rsync over ssh": ["rsync", "-a", "-e", f"ssh -p {SSH_PORT} " + " ".join(ssh), f"{user}:{source / name}/", str(target)],
        "rsync daemon": ["rsync", "-a", f"rsync://{host}:{RSYNC_PORT}/files/{name}/", str(target)],
        "croc": [options.croc, "--yes", "--ignore-stdin", "--overwrite", "--relay", f"{host}:{CROC_PORT}", "--out", str(target)],
        "sendme": ["sh", "-c", f"cd '{target}' && exec '{options.sendme}' receive --relay disabled --no-progress {known}"],
    }[tool]


def inside(options):
    """Where the links are: the commands come as lines, and what they took goes back."""
    outside = os.environ.get("LAB_OUTSIDE", "10.89.0.1")
    print(json.dumps({"outside": outside}), flush=True)
    for line in sys.stdin:
        words = json.loads(line)
        begun, before = time.monotonic(), os.times()
        with open(options.said, "w") as said:
            code = subprocess.run(words, stdout=said, stderr=said, stdin=subprocess.DEVNULL).returncode
        now, after = time.monotonic(), os.times()
        cpu = after.children_user + after.children_system - before.children_user - before.children_system
        print(json.dumps({"code": code, "seconds": now - begun, "cpu": cpu}), flush=True)


def lan(names):
    outer, inner = names
    for name in names:
        subprocess.run(["ip", "netns", "add", name], check=True)
        subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
    subprocess.run(["ip", "-n", outer, "link", "add", "v0", "type", "veth", "peer", "name", "v1", "netns", inner], check=True)
    for name, device, address in ((outer, "v0", "10.89.0.1/24"), (inner, "v1", "10.89.0.2/24")):
        subprocess.run(["ip", "-n", name, "address", "add", address, "dev", device], check=True)
        subprocess.run(["ip", "-n", name, "link", "set", device, "up"], check=True)
        # A packet of offload is as large as the burst at most.
        subprocess.run(["tc", "-n", name, "qdisc", "add", "dev", device, "root", "tbf", "rate", "1gbit", "burst", "256k", "latency", "20ms"], check=True)


FIELDS = ("link", "load", "tool", "run", "files", "bytes", "seconds", "client_cpu", "server_cpu")


def kept(out):
    """The rows of earlier runs."""
    path = out / "runs.csv"
    if not path.exists():
        return []
    with open(path, newline="") as file:
        number = {**dict.fromkeys(("run", "files", "bytes"), int), **dict.fromkeys(("seconds", "client_cpu", "server_cpu"), float)}
        return [{name: number.get(name, str)(value) for name, value in line.items()} for line in csv.DictReader(file)]


def keep(out, row):
    is_new = not (out / "runs.csv").exists()
    with open(out / "runs.csv", "a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        if is_new:
            writer.writeheader()
        writer.writerow(row)


def absent(options, link, tools):
    """What is still to be run over a link."""
    there = {tuple(row[name] for name in FIELDS[:6]) for row in kept(options.out)}
    every = itertools.product(range(1, options.runs + 1), loads(options, link), tools)
    return [(run, load, tool) for run, load, tool in every if (link, load[0], tool, run, load[1], load[1] * load[2]) not in there]


def measured(options, link, wanted, folder):
    outer, inner = f"cpout{os.getpid()}", f"cpin{os.getpid()}"
    source = options.work / "source" / link
    names = (outer, inner) if link == "lan" else (outer,)
    servers = agent = None
    try:
        if link == "lan":
            lan(names)
        else:
            subprocess.run(["ip", "netns", "add", outer], check=True)
            subprocess.run(["ip", "-n", outer, "link", "set", "lo", "up"], check=True)
        tools = list(dict.fromkeys(tool for _, _, tool in wanted))
        for name, count, size in dict.fromkeys(load for _, load, _ in wanted):
            make(source / name, count, size)
        enter = ["ip", "netns", "exec", outer]
        servers = Servers(enter, folder, source, options, tools)
        me = [sys.executable, str(Path(__file__).resolve()), "inside", "--said", str(folder / "said")]
        into = ["ip", "netns", "exec", inner, *me] if link == "lan" else [*enter, options.lab, "shell", "--network", LINKS[link], "--", *me]
        agent = subprocess.Popen(into, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**servers.env, "XDG_DATA_HOME": str(folder / "near")})
        host = json.loads(agent.stdout.readline())["outside"]
        for run, (name, count, size), tool in wanted:
            # Files of which many were just removed are slower to make, for whoever comes next: small ones stay to the end.
            target = options.work / (f"target-{link}-{name}-{run}-{tool}".replace(" ", "-") if count * size < 1e8 else "target")
            shutil.rmtree(target, ignore_errors=True)
            if tool in READY:
                # They put a folder of its name into another.
                target.mkdir(parents=True)
            known = servers.offer(tool, source / name)
            words = command(tool, host, name, target, folder, source, options, known)
            before = servers.cpu(tool)
            agent.stdin.write(json.dumps(words) + "\n")
            agent.stdin.flush()
            found = json.loads(agent.stdout.readline())
            # Processes of a server may end a moment later.
            time.sleep(0.3)
            far = servers.cpu(tool) - before
            servers.withdraw(tool)
            if found["code"] != 0 or not same(source / name, target / name if tool in READY else target):
                raise SystemExit(f"{link}, {name}, {tool}: {found}\n{(folder / 'said').read_text()[-2000:]}")
            took = [round(found["seconds"], 3), round(found["cpu"], 2), round(far, 2)]
            row = dict(zip(FIELDS, [link, name, tool, run, count, count * size, *took]))
            keep(options.out, row)
            print(" ".join(f"{value}" for value in row.values()), flush=True)
    finally:
        if agent:
            agent.stdin.close()
            agent.wait()
        if servers:
            servers.stop()
        for name in names:
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)


def table(rows):
    lines = ["| link | load | tool | MB/s | files/s | CPU of client, server, s | of the fastest | runs |", "|---|---|---|--:|--:|--:|--:|--:|"]
    load_of = operator.itemgetter("link", "load", "files", "bytes")
    for load in dict.fromkeys(map(load_of, rows)):
        link, _, files, size = load
        here = [row for row in rows if load_of(row) == load]
        took = {tool: statistics.median(row["seconds"] for row in here if row["tool"] == tool) for tool in dict.fromkeys(row["tool"] for row in here)}
        for tool, seconds in took.items():
            own = [row for row in here if row["tool"] == tool]
            cpu = [statistics.median(row[end] for row in own) for end in ("client_cpu", "server_cpu")]
            lines.append(f"| {link} | {files:,} file{'s' * (files > 1)}, {1e-6 * size:,.0f} MB | {tool} | {1e-6 * size / seconds:.2f} | {files / seconds:,.1f} |"
                         f" {cpu[0]:.2f}, {cpu[1]:.2f} | {min(took.values()) / seconds:.2f} | {len(own)} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("role", nargs="?", choices=["inside"], help=argparse.SUPPRESS)
    parser.add_argument("--links", default=",".join(LINKS))
    parser.add_argument("--loads", default=",".join(LOADS))
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1, help="of all loads")
    parser.add_argument("--slow-scale", type=float, default=1, help="of the loads over slow links, beside that")
    parser.add_argument("--work", type=Path, default=ROOT / "target/cp-work", help="for 20 GB; removed at the end")
    parser.add_argument("--out", type=Path, default=ROOT / "target/cp-table")
    built = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "dist"
    parser.add_argument("--cp", default=str(built / "mpquic-cp"))
    parser.add_argument("--lab", default=str(built / "mpquic-lab"))
    parser.add_argument("--croc", default="croc")
    parser.add_argument("--sendme", default="sendme")
    parser.add_argument("--said", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role == "inside":
        return inside(options)
    options.work = options.work.resolve()
    tools = available(options)
    options.out.mkdir(parents=True, exist_ok=True)
    try:
        for link in options.links.split(","):
            if wanted := absent(options, link, tools):
                with tempfile.TemporaryDirectory() as folder:
                    measured(options, link, wanted, Path(folder))
    finally:
        shutil.rmtree(options.work, ignore_errors=True)
    text = table(kept(options.out))
    (options.out / "table.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
