"""A peer of the interop cases by xquic: runs the demo programs of its sources, which the folder MPQUIC_XQUIC has. See README.md."""

import hashlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PERIOD = 251
# What the cases ask for; the server sends files.
SIZES = [1, 32, 1_024, 20_000, 100_000, 300_000, 600_000, 1_500_000, 3_000_000, 20 << 20]
PATIENCE = {"handshakeloss": 120, "handshakecorruption": 120, "amplificationlimit": 120}

# What its demo programs have no call or option for.
NEITHER = {
    "chacha20": "the demo programs take no choice of the suites of TLS 1.3",
    "v2": "the library speaks version 1 only",
    "ecn": "the library does not mark packets",
    "datagrams": "the demo programs send no datagrams",
    "reset": "the demo programs serve files only",
    "stop": "the demo programs serve files only",
    "close-client": "the demo programs serve files only",
    "close-server": "the demo programs serve files only",
    "preferredaddress": "the demo programs have no option for it",
    "versionnegotiation": "the demo programs have no option for it",
    "cid-0": "the demo programs have no option for it",
    "cid-4": "the demo programs have no option for it",
    "cid-20": "the demo programs have no option for it",
}
CLIENT = {
    "ipv6": "the demo client reads no IPv6 address from a URL",
    "multiplexing": "the demo client writes all answers of one size to one file",
    "streams": "the demo client writes all answers of one size to one file",
    "resumption": "the demo client does not tell of it",
    "zerortt": "the demo client does not tell of it",
    "zerortt-refused": "the demo client does not tell of it",
    "keyupdate": "the demo client counts packets, and does not begin in mid-transfer",
    "connectionmigration": "the demo client does not migrate",
}
# The library's own client takes such packets.
TOKEN = "its servers repeat the client's token in their Initial packets, which clients must not take (RFC 9000 section 17.2.2)"
SERVER = {
    "retry": TOKEN,
    "resumption": TOKEN,
    "zerortt": TOKEN,
    "zerortt-refused": TOKEN,
    "connectionmigration": "its servers forbid it without multipath",
}


def folder() -> Path:
    return Path(os.environ.get("MPQUIC_XQUIC", "/nonexistent"))


def free_port(host: str) -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.bind((host, 0))
        return probe.getsockname()[1]


def is_bound(port: int) -> bool:
    lines = [line for table in ("udp", "udp6") for line in Path(f"/proc/net/{table}").read_text().splitlines()]
    return any(f":{port:04X} " in line.split(" rem_")[0][:60] for line in lines)


def serve(case: str, cert: str, key: str, host: str) -> None:
    with tempfile.TemporaryDirectory() as work:
        shutil.copy(cert, f"{work}/server.crt")
        shutil.copy(key, f"{work}/server.key")
        Path(work, "session_ticket.key").write_bytes(os.urandom(48))
        files = Path(work, "files")
        files.mkdir()
        for size in SIZES:
            whole = bytes(range(PERIOD)) * (size // PERIOD + 1)
            files.joinpath(str(size)).write_bytes(whole[:size])
        port = free_port(host)
        command = [folder() / "demo_server", "-p", str(port), "-D", files, "-l", "e", "-L", f"{work}/log"]
        command += ["-6"] if ":" in host else []
        command += ["-r"] if case == "retry" else []
        server = subprocess.Popen(command, cwd=work, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        while not is_bound(port):
            if server.poll() is not None:
                sys.exit("the demo server ended")
            time.sleep(0.02)
        print(f"listening {port}", flush=True)
        sys.stdin.read()
        server.kill()
        server.wait()


def download(case: str, host: str, port: str, sizes: str) -> None:
    with tempfile.TemporaryDirectory() as work:
        counts = [int(size) for size in sizes.split(",")]
        name = f"[{host}]" if ":" in host else host
        urls = " ".join(f"https://{name}:{port}/{count}" for count in counts)
        command = [folder() / "demo_client", "-a", host, "-p", port, "-A", "hq", "-D", work, "-U", urls]
        command += ["-l", "e", "-L", f"{work}/log", "-t", str(PATIENCE.get(case, 30))]
        command += ["-6"] if ":" in host else []
        client = subprocess.run(command, cwd=work, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, check=False)
        sys.stderr.buffer.write(client.stdout)
        for count in counts:
            got = Path(work, str(count)).read_bytes()
            print(f"got {len(got)} {hashlib.sha256(got).hexdigest()}")
        # The only one that it speaks.
        print("version 0x1")


def main() -> None:
    match sys.argv[1:]:
        case ["version"]:
            if not (folder() / "demo_server").exists():
                sys.exit("MPQUIC_XQUIC names no folder with xquic's demo programs")
            version = folder() / "version"
            print(version.read_text().strip() if version.exists() else "unknown")
        case ["server" | "client" as role, case, *_] if why := NEITHER.get(case) or (SERVER if role == "server" else CLIENT).get(case):
            print(f"unsupported: {why}")
            sys.exit(127)
        case ["server", case, cert, key, host]:
            serve(case, cert, key, host)
        case ["client", case, _authority, host, port, sizes]:
            download(case, host, port, sizes)
        case _:
            sys.exit("usage: xquic_peer.py server CASE CERT KEY HOST | client CASE CA HOST PORT SIZES | version")


main()
