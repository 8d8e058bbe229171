"""A peer of the interop cases by aiopquic, which is picoquic for Python: see README.md in this folder."""

import asyncio
import hashlib
import os
import socket
import ssl
import sys
import tempfile
from importlib.metadata import version

from aiopquic.asyncio.client import connect
from aiopquic.asyncio.protocol import QuicConnectionProtocol
from aiopquic.asyncio.server import serve
from aiopquic.quic.configuration import QuicConfiguration
from aiopquic.quic.events import (
    ConnectionTerminated,
    DatagramFrameReceived,
    HandshakeCompleted,
    StopSendingReceived,
    StreamDataReceived,
    StreamReset,
)

ALPN = "hq-interop"
RESET, STOP, CLOSE_BY_CLIENT = 17, 18, 20
DATAGRAMS, DATAGRAM_LEN = 20, 1000
PERIOD = bytes(range(251))

LACKS = {
    "v2": "the library begins with version 1",
    "versionnegotiation": "the library begins with version 1, and its servers speak both",
    "keyupdate": "the library updates keys by itself only",
    "ecn": "the library has no setting for marks",
    "connectionmigration": "the library has no call for it",
    "preferredaddress": "the library has no setting for it",
    "cid-0": "the length of connection IDs is fixed",
    "cid-4": "the length of connection IDs is fixed",
    "cid-20": "the length of connection IDs is fixed",
    "zerortt": "the library does not tell whether early data was taken",
    "zerortt-refused": "the program cannot tell the two connections' tickets apart",
}
# What its servers do nevertheless.
SERVES = ("connectionmigration", "keyupdate", "zerortt", "zerortt-refused")


def body(size):
    return (PERIOD * (size // len(PERIOD) + 1))[:size]


def settings(case, is_client):
    configuration = QuicConfiguration(
        is_client=is_client, alpn_protocols=[ALPN], max_streams_bidi=1000
    )
    configuration.ip_family = socket.AF_INET6 if case == "ipv6" else socket.AF_INET
    if case == "chacha20":
        configuration.cipher_suite = 0x1303
    return configuration


class Heard:
    """Codes that a server was told, on any connection."""

    def __init__(self):
        self.stopped = asyncio.get_running_loop().create_future()
        self.closed = asyncio.get_running_loop().create_future()

    @staticmethod
    def tell(future, code):
        if not future.done():
            future.set_result(code)


class Server(QuicConnectionProtocol):
    """Answers each request when its stream has ended."""

    heard = None

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.requests = {}
        self.tasks = set()

    def quic_event_received(self, event):
        if isinstance(event, DatagramFrameReceived):
            self._quic.send_datagram_frame(bytes(event.data))
        if isinstance(event, StopSendingReceived):
            self.heard.tell(self.heard.stopped, event.error_code)
        if isinstance(event, ConnectionTerminated):
            self.heard.tell(self.heard.closed, event.error_code)
        if not isinstance(event, StreamDataReceived) or event.stream_id % 4 != 0:
            return
        request = self.requests.get(event.stream_id, b"") + bytes(event.data)
        self.requests[event.stream_id] = request
        if not event.end_stream:
            return
        del self.requests[event.stream_id]
        task = asyncio.ensure_future(self.answer(event.stream_id, request))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def answer(self, stream, request):
        verb, size = request.decode().strip().split(" /")
        if verb == "CLOSE":
            self._quic.close(int(size))
            return
        if verb == "STOPPED":
            whole = b"%d" % await self.heard.stopped
        elif verb == "CLOSED":
            whole = b"%d" % await self.heard.closed
        else:
            whole = body(int(size))
        await send(self._quic, stream, whole, verb != "RESET")
        if verb == "RESET":
            self._quic.reset_stream(stream, RESET)


async def send(quic, stream, whole, ends):
    """Piece by piece, as the library takes it."""
    piece = 1 << 16
    for at in range(0, max(len(whole), 1), piece):
        last = at + piece >= len(whole)
        await quic.send_stream_data_drained(stream, whole[at : at + piece], end_stream=ends and last)


class Client(QuicConnectionProtocol):
    """Downloads; each stream has a future that ends with its digest."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.waiting = {}
        self.resets = {}
        self.back = set()
        self.got_one = asyncio.Event()
        self.closed_with = asyncio.get_running_loop().create_future()
        self.facts = set()

    def ask(self, verb, size):
        stream = self._quic.get_next_available_stream_id()
        future = asyncio.get_running_loop().create_future()
        self.waiting[stream] = (future, hashlib.sha256(), [0], [])
        request = b"%s /%d\r\n" % (verb.encode(), size)
        self._quic.send_stream_data(stream, request, end_stream=True)
        return stream, future

    async def told(self, verb):
        """What the server heard."""
        stream, future = self.ask(verb, 0)
        await future
        return b"".join(self.waiting[stream][3]).decode()

    async def echoed(self):
        """Sends datagrams until all are back: those that got lost, again."""
        while len(self.back) < DATAGRAMS:
            for number in set(range(DATAGRAMS)) - self.back:
                self._quic.send_datagram_frame(bytes([number]) * DATAGRAM_LEN)
            try:
                async with asyncio.timeout(0.3):
                    while len(self.back) < DATAGRAMS:
                        self.got_one.clear()
                        await self.got_one.wait()
            except TimeoutError:
                pass
        return len(self.back)

    async def act(self, case):
        """Does what a case is about. The fact that comes of it."""
        if case == "datagrams":
            return f"datagrams {await self.echoed()}"
        if case == "reset":
            stream, future = self.ask("RESET", 100_000)
            await future
            return f"reset {self.resets[stream]}"
        if case == "stop":
            stream, _ = self.ask("GET", 20 << 20)
            while not self.waiting[stream][2][0]:
                await asyncio.sleep(0)
            self._quic.stop_stream(stream, STOP)
            return f"stopped {await self.told('STOPPED')}"
        if case == "close-server":
            self.ask("CLOSE", 19)
            return f"closed {await self.closed_with}"
        if case == "close-client":
            return f"closed {await self.told('CLOSED')}"
        return None

    def quic_event_received(self, event):
        if isinstance(event, HandshakeCompleted):
            if event.session_resumed:
                self.facts.add("resumed")
        if isinstance(event, StreamReset):
            self.resets[event.stream_id] = event.error_code
            future = self.waiting[event.stream_id][0]
            if not future.done():
                future.set_result((0, "reset"))
        if isinstance(event, DatagramFrameReceived):
            data = bytes(event.data)
            assert data == data[:1] * DATAGRAM_LEN
            self.back.add(data[0])
            self.got_one.set()
        if isinstance(event, ConnectionTerminated) and not self.closed_with.done():
            self.closed_with.set_result(event.error_code)
        if not isinstance(event, StreamDataReceived):
            return
        data = bytes(event.data)
        future, digest, count, pieces = self.waiting[event.stream_id]
        if count[0] < 1000:
            pieces.append(data)
        digest.update(data)
        count[0] += len(data)
        if event.end_stream and not future.done():
            future.set_result((count[0], digest.hexdigest()))


async def run_server(case, certificate, key, host):
    configuration = settings(case, False)
    configuration.load_cert_chain(certificate, key)
    # The library takes no address of an interface, and tells no port: one that was free just now.
    family = socket.AF_INET6 if case == "ipv6" else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.bind((host, 0))
        port = probe.getsockname()[1]
    Server.heard = Heard()
    server = await serve(
        host, port, configuration=configuration, create_protocol=Server, retry=case == "retry"
    )
    print("listening", port, flush=True)
    # Until the test closes our standard input.
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    server.close()


async def download(case, configuration, host, port, sizes, tell=True):
    async with connect(
        host, port, configuration=configuration, create_protocol=Client
    ) as client:
        for size, (_, answer) in [(size, client.ask("GET", size)) for size in sizes]:
            count, digest = await answer
            assert count == size, f"{count} bytes instead of {size}, or {digest}"
            if tell:
                print("got", size, digest, flush=True)
        if not tell and case != "close-client":
            # The ticket follows the handshake at once or later.
            await asyncio.sleep(0.3)
        fact = await client.act(case) if tell else None
        facts = [*client.facts, *([fact] if fact else []), "version 0x1"]
        await client.aclose(CLOSE_BY_CLIENT)
        return facts


async def run_client(case, authority, host, port, sizes, folder):
    configuration = settings(case, True)
    configuration.load_verify_locations(authority)
    configuration.verify_mode = ssl.CERT_REQUIRED
    configuration.server_name = "localhost"
    if case == "resumption":
        configuration.session_ticket_file = os.path.join(folder, "tickets")
    if case in ("resumption", "close-client"):
        await download(case, configuration, host, port, [1], tell=False)
    facts = await download(case, configuration, host, port, sizes)
    for fact in facts:
        print(fact, flush=True)


def main():
    if sys.argv[1:] == ["version"]:
        print(version("aiopquic"))
        return
    role, case, *rest = sys.argv[1:]
    if case in LACKS and not (role == "server" and case in SERVES):
        print("unsupported:", LACKS[case])
        sys.exit(127)
    if role == "server":
        asyncio.run(run_server(case, *rest))
    else:
        authority, host, port, sizes = rest
        sizes = [int(size) for size in sizes.split(",")]
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(run_client(case, authority, host, int(port), sizes, folder))


main()
