"""A peer of the interop cases by aioquic: see README.md in this folder."""

import asyncio
import hashlib
import socket
import ssl
import sys

import aioquic
from aioquic.asyncio import QuicConnectionProtocol, connect, serve
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import (
    ConnectionTerminated,
    DatagramFrameReceived,
    StopSendingReceived,
    StreamDataReceived,
    StreamReset,
)
from aioquic.quic.packet import QuicProtocolVersion
from aioquic.tls import CipherSuite

ALPN = "hq-interop"
RESET, STOP, CLOSE_BY_CLIENT = 17, 18, 20
DATAGRAMS, DATAGRAM_LEN = 20, 1000
PERIOD = bytes(range(251))


def body(size):
    return (PERIOD * (size // len(PERIOD) + 1))[:size]


def settings(case, is_client):
    configuration = QuicConfiguration(is_client=is_client, alpn_protocols=[ALPN])
    # The first probes of a client take long to get through.
    configuration.idle_timeout = 120.0 if case == "amplificationlimit" else 30.0
    configuration.max_datagram_frame_size = 65535
    if case in ("cid-0", "cid-4", "cid-20"):
        configuration.connection_id_length = int(case[4:])
    if case == "chacha20":
        configuration.cipher_suites = [CipherSuite.CHACHA20_POLY1305_SHA256]
    v1, v2 = QuicProtocolVersion.VERSION_1, QuicProtocolVersion.VERSION_2
    begins_with_v2 = case == "v2" or case == "versionnegotiation" and is_client
    configuration.supported_versions = [v2, v1] if begins_with_v2 else [v1]
    if is_client:
        configuration.original_version = v2 if begins_with_v2 else v1
    return configuration


def lacks(role, case):
    """Why the library cannot do a case."""
    if case == "ecn":
        return "aioquic neither marks its packets nor reports the marks of others"
    if case == "preferredaddress" and role == "server":
        return "aioquic's servers have no setting for a preferred address"
    if case == "cid-0" and role == "server":
        return "aioquic's servers need connection IDs"
    if case in ("cid-0", "cid-4") and role == "client":
        return "the setting is also the length of the server's first connection ID, which has at least 8 bytes"
    return None


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

    def quic_event_received(self, event):
        if isinstance(event, DatagramFrameReceived):
            self._quic.send_datagram_frame(event.data)
            self.transmit()
        if isinstance(event, StopSendingReceived):
            self.heard.tell(self.heard.stopped, event.error_code)
        if isinstance(event, ConnectionTerminated):
            self.heard.tell(self.heard.closed, event.error_code)
        if not isinstance(event, StreamDataReceived) or event.stream_id % 4 != 0:
            return
        request = self.requests.get(event.stream_id, b"") + event.data
        self.requests[event.stream_id] = request
        if not event.end_stream:
            return
        del self.requests[event.stream_id]
        asyncio.ensure_future(self.answer(event.stream_id, request))

    async def answer(self, stream, request):
        verb, size = request.decode().strip().split(" /")
        if verb == "CLOSE":
            self.close(int(size), "bye")
            return
        if verb == "STOPPED":
            whole = b"%d" % await self.heard.stopped
        elif verb == "CLOSED":
            whole = b"%d" % await self.heard.closed
        else:
            whole = body(int(size))
        self._quic.send_stream_data(stream, whole, end_stream=verb != "RESET")
        self.transmit()
        if verb == "RESET":
            self._quic.reset_stream(stream, RESET)
            self.transmit()


class Client(QuicConnectionProtocol):
    """Downloads; each stream has a future that ends with its digest."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.waiting = {}
        self.update_at = None
        self.move_at = None
        self.moving = None
        self.resets = {}
        self.back = set()
        self.got_one = asyncio.Event()
        self.closed_with = asyncio.get_running_loop().create_future()

    def connection_made(self, transport):
        """The first port, or another one, with which another connection ID is used (RFC 9000 section 9.5)."""
        super().connection_made(transport)
        if self.moving is not None:
            self._quic.change_connection_id()

    def connection_lost(self, error):
        """The old port is closed: the connection goes on without it."""

    async def move(self):
        """Goes on from another port."""
        old = self._transport
        other = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        other.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        other.bind(("::", 0, 0, 0))
        await asyncio.get_running_loop().create_datagram_endpoint(lambda: self, sock=other)
        old.close()
        self.transmit()

    def get(self, size):
        return self.ask("GET", size)[1]

    def ask(self, verb, size):
        stream = self._quic.get_next_available_stream_id()
        future = asyncio.get_running_loop().create_future()
        self.waiting[stream] = (future, hashlib.sha256(), [0], [])
        request = b"%s /%d\r\n" % (verb.encode(), size)
        self._quic.send_stream_data(stream, request, end_stream=True)
        self.transmit()
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
            self.transmit()
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
            self.transmit()
            return f"stopped {await self.told('STOPPED')}"
        if case == "close-server":
            self.ask("CLOSE", 19)
            return f"closed {await self.closed_with}"
        if case == "close-client":
            return f"closed {await self.told('CLOSED')}"
        return None

    def quic_event_received(self, event):
        if isinstance(event, StreamReset):
            self.resets[event.stream_id] = event.error_code
            future = self.waiting[event.stream_id][0]
            if not future.done():
                future.set_result((0, "reset"))
        if isinstance(event, DatagramFrameReceived):
            assert event.data == event.data[:1] * DATAGRAM_LEN
            self.back.add(event.data[0])
            self.got_one.set()
        if isinstance(event, ConnectionTerminated) and not self.closed_with.done():
            self.closed_with.set_result(event.error_code)
        if not isinstance(event, StreamDataReceived):
            return
        future, digest, count, pieces = self.waiting[event.stream_id]
        if count[0] < 1000:
            pieces.append(event.data)
        digest.update(event.data)
        count[0] += len(event.data)
        if self.update_at is not None and count[0] > self.update_at:
            self.update_at = None
            self._quic.request_key_update()
        if self.move_at is not None and count[0] > self.move_at:
            self.move_at = None
            self.moving = asyncio.ensure_future(self.move())
        if event.end_stream and not future.done():
            future.set_result((count[0], digest.hexdigest()))


async def run_server(case, certificate, key, host):
    configuration = settings(case, False)
    configuration.load_cert_chain(certificate, key)
    tickets = {}
    Server.heard = Heard()
    server = await serve(
        host,
        0,
        configuration=configuration,
        create_protocol=Server,
        retry=case == "retry",
        session_ticket_fetcher=lambda label: tickets.pop(label, None),
        session_ticket_handler=lambda ticket: tickets.__setitem__(ticket.ticket, ticket),
    )
    port = server._transport.get_extra_info("sockname")[1]
    print("listening", port, flush=True)
    # Until the test closes our standard input.
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    server.close()


async def download(
    configuration,
    host,
    port,
    sizes,
    tickets,
    tell=True,
    wants_ticket=False,
    early=False,
    update_at=None,
    move_at=None,
    case=None,
):
    async with connect(
        host,
        port,
        configuration=configuration,
        create_protocol=Client,
        session_ticket_handler=tickets.append,
        wait_connected=not early,
    ) as client:
        client.update_at = update_at
        client.move_at = move_at
        for size, answer in [(size, client.get(size)) for size in sizes]:
            count, digest = await answer
            assert count == size, f"{count} bytes instead of {size}, or {digest}"
            if tell:
                print("got", size, digest, flush=True)
        facts = [f"version {client._quic._version:#x}"]
        if client._quic.tls.session_resumed:
            facts.append("resumed")
        if client._quic.tls.early_data_accepted:
            facts.append("early")
        # A ticket may follow the handshake at once or later.
        while wants_ticket and not tickets:
            await client.ping()
        fact = await client.act(case)
        if fact is not None:
            facts.append(fact)
        client.close(CLOSE_BY_CLIENT, "bye")
        return facts


async def run_client(case, authority, host, port, sizes):
    configuration = settings(case, True)
    configuration.load_verify_locations(authority)
    configuration.verify_mode = ssl.CERT_REQUIRED
    configuration.server_name = "localhost"
    tickets = []
    if case == "close-client":
        await download(configuration, host, port, [1], tickets, tell=False)
    if case in ("resumption", "zerortt", "zerortt-refused"):
        await download(configuration, host, port, [1], tickets, tell=False, wants_ticket=True)
        configuration.session_ticket = tickets[-1]
    facts = await download(
        configuration,
        host,
        port,
        sizes,
        tickets,
        case=case,
        early=case in ("zerortt", "zerortt-refused"),
        update_at=sum(sizes) // 4 if case == "keyupdate" else None,
        move_at=sum(sizes) // 4 if case == "connectionmigration" else None,
    )
    for fact in facts:
        print(fact, flush=True)


def main():
    if sys.argv[1:] == ["version"]:
        print(aioquic.__version__)
        return
    role, case, *rest = sys.argv[1:]
    why = lacks(role, case)
    if why is not None:
        print("unsupported:", why)
        sys.exit(127)
    if role == "server":
        asyncio.run(run_server(case, *rest))
    else:
        authority, host, port, sizes = rest
        sizes = [int(size) for size in sizes.split(",")]
        asyncio.run(run_client(case, authority, host, int(port), sizes))


main()
