"""A peer of the interop cases by aioquic: see README.md in this folder."""

import asyncio
import hashlib
import socket
import ssl
import sys

from aioquic.asyncio import QuicConnectionProtocol, connect, serve
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import StreamDataReceived, StreamReset
from aioquic.quic.packet import QuicProtocolVersion
from aioquic.tls import CipherSuite

ALPN = "hq-interop"
PERIOD = bytes(range(251))


def body(size):
    return (PERIOD * (size // len(PERIOD) + 1))[:size]


def settings(case, is_client):
    configuration = QuicConfiguration(is_client=is_client, alpn_protocols=[ALPN])
    configuration.idle_timeout = 30.0
    if case == "chacha20":
        configuration.cipher_suites = [CipherSuite.CHACHA20_POLY1305_SHA256]
    v1, v2 = QuicProtocolVersion.VERSION_1, QuicProtocolVersion.VERSION_2
    configuration.supported_versions = [v2, v1] if case == "v2" else [v1]
    if is_client:
        configuration.original_version = v2 if case == "v2" else v1
    return configuration


def lacks(role, case):
    """Why the library cannot do a case."""
    if case == "ecn":
        return "aioquic neither marks its packets nor reports the marks of others"
    if case == "preferredaddress" and role == "server":
        return "aioquic's servers have no setting for a preferred address"
    return None


class Server(QuicConnectionProtocol):
    """Answers each request when its stream has ended."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.requests = {}

    def quic_event_received(self, event):
        if not isinstance(event, StreamDataReceived) or event.stream_id % 4 != 0:
            return
        request = self.requests.get(event.stream_id, b"") + event.data
        self.requests[event.stream_id] = request
        if not event.end_stream:
            return
        del self.requests[event.stream_id]
        size = int(request.split(b"/", 1)[1].split()[0])
        self._quic.send_stream_data(event.stream_id, body(size), end_stream=True)
        self.transmit()


class Client(QuicConnectionProtocol):
    """Downloads; each stream has a future that ends with its digest."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.waiting = {}
        self.update_at = None
        self.move_at = None
        self.moving = None

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
        stream = self._quic.get_next_available_stream_id()
        future = asyncio.get_running_loop().create_future()
        self.waiting[stream] = (future, hashlib.sha256(), [0])
        self._quic.send_stream_data(stream, b"GET /%d\r\n" % size, end_stream=True)
        self.transmit()
        return future

    def quic_event_received(self, event):
        if isinstance(event, StreamReset):
            self.waiting[event.stream_id][0].set_exception(RuntimeError("reset"))
        if not isinstance(event, StreamDataReceived):
            return
        future, digest, count = self.waiting[event.stream_id]
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
            assert count == size, f"{count} bytes instead of {size}"
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
        return facts


async def run_client(case, authority, host, port, sizes):
    configuration = settings(case, True)
    configuration.load_verify_locations(authority)
    configuration.verify_mode = ssl.CERT_REQUIRED
    configuration.server_name = "localhost"
    tickets = []
    if case in ("resumption", "zerortt"):
        await download(configuration, host, port, [1], tickets, tell=False, wants_ticket=True)
        configuration.session_ticket = tickets[-1]
    facts = await download(
        configuration,
        host,
        port,
        sizes,
        tickets,
        early=case == "zerortt",
        update_at=sum(sizes) // 4 if case == "keyupdate" else None,
        move_at=sum(sizes) // 4 if case == "connectionmigration" else None,
    )
    for fact in facts:
        print(fact, flush=True)


def main():
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
