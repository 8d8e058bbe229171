//! A peer of the interop cases by quiche: see `README.md` two folders above.

use std::collections::HashMap;
use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use peer_common::client::{Client, Step, closed_by_server};
use peer_common::net::Sockets;
use peer_common::server::{self, Heard, Read, Server, Wrote};
use peer_common::{ALPN, Call, asks_early, comes_back, exit_with_stdin, id_len, patience};
use quiche::{Config, ConnectionId, PathEvent, RecvInfo, RetryConnectionIds, Shutdown, Type};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// What BoringSSL calls `ssl_early_data_accepted`.
const EARLY_DATA_ACCEPTED: u32 = 2;
/// A version that nobody speaks (RFC 9000 section 15).
const RESERVED: u32 = 0xbaba_baba;
const MAX_DATAGRAM: usize = 1_500;

fn lacks(case: &str, is_client: bool) -> Option<&'static str> {
    match case {
        "v2" => Some("the library speaks version 1 only"),
        "chacha20" => Some("BoringSSL does not let a program choose the suites of TLS 1.3"),
        "ecn" => Some("the library does not mark packets"),
        "keyupdate" if is_client => Some("the library has no call for it"),
        "rebind-port" | "rebind-addr" | "connectionmigration" if !is_client => Some(
            "its servers do not declare lost what was on its way to an address that the client has left, whatever later packet is acknowledged (RFC 9002 section 6.1), and their probes repeat the two oldest packets alone: with more of them the connection stands still, whoever's client it is",
        ),
        "preferredaddress" => Some("the library has no preferred addresses"),
        _ => None,
    }
}

fn main() -> Result<()> {
    match peer_common::call("quiche", lacks) {
        Call::Server {
            case,
            certificate,
            key,
            host,
        } => {
            let mut config = config(&case, quiche::PROTOCOL_VERSION)?;
            config.load_cert_chain_from_pem_file(&certificate)?;
            config.load_priv_key_from_pem_file(&key)?;
            config.enable_early_data();
            Listener::bind(case, config, host)?.run()
        }
        Call::Client {
            case,
            authority,
            remote,
            sizes,
        } => client(&case, &authority, remote, &sizes),
    }
}

fn config(case: &str, version: u32) -> Result<Config> {
    let mut config = Config::new(version)?;
    config.set_application_protos(&[ALPN])?;
    config.set_max_idle_timeout(patience(case) * 1_000);
    config.set_max_recv_udp_payload_size(MAX_DATAGRAM);
    if case != "mtu1280" {
        config.set_max_send_udp_payload_size(1_350);
    }
    config.set_initial_max_data(10 << 20);
    config.set_initial_max_stream_data_bidi_local(1 << 20);
    config.set_initial_max_stream_data_bidi_remote(1 << 20);
    config.set_initial_max_stream_data_uni(1 << 20);
    config.set_initial_max_streams_bidi(1_000);
    config.set_initial_max_streams_uni(100);
    // Also the number of addresses that it remembers of a peer.
    config.set_active_connection_id_limit(8);
    config.enable_dgram(true, 100, 100);
    Ok(config)
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    boring::rand::rand_bytes(&mut bytes).expect("the system has random bytes");
    bytes
}

fn new_id(case: &str) -> ConnectionId<'static> {
    let len = id_len(case).unwrap_or(16);
    ConnectionId::from_vec(random::<20>()[..len].to_vec())
}

/// The library's connection, for what the peers share.
struct Polled<'a>(&'a mut quiche::Connection);

impl server::Connection for Polled<'_> {
    fn readable(&mut self) -> Vec<u64> {
        self.0.readable().collect()
    }

    fn read(&mut self, stream: u64, buf: &mut [u8]) -> Read {
        match self.0.stream_recv(stream, buf) {
            Ok((len, fin)) => Read::Some(len, fin),
            Err(quiche::Error::StreamReset(code)) => Read::Reset(code),
            Err(quiche::Error::Done) => Read::Nothing,
            Err(_) => Read::Gone,
        }
    }

    fn write(&mut self, stream: u64, data: &[u8], fin: bool) -> Wrote {
        match self.0.stream_send(stream, data, fin) {
            Ok(len) => Wrote::Some(len),
            Err(quiche::Error::StreamStopped(code)) => Wrote::Stopped(code),
            Err(quiche::Error::Done | quiche::Error::StreamLimit) => Wrote::Some(0),
            Err(_) => Wrote::Gone,
        }
    }

    fn reset(&mut self, stream: u64, code: u64) {
        self.0.stream_shutdown(stream, Shutdown::Write, code).ok();
    }

    fn stop(&mut self, stream: u64, code: u64) {
        self.0.stream_shutdown(stream, Shutdown::Read, code).ok();
    }

    fn close(&mut self, code: u64) {
        self.0.close(true, code, b"bye").ok();
    }

    fn send_datagram(&mut self, datagram: &[u8]) {
        // The queue may be full: datagrams get lost.
        self.0.dgram_send(datagram).ok();
    }

    fn receive_datagram(&mut self, buf: &mut [u8]) -> Option<usize> {
        self.0.dgram_recv(buf).ok()
    }
}

/// Hands out as many connection IDs as the peer takes.
fn give_ids(case: &str, connection: &mut quiche::Connection) -> Vec<ConnectionId<'static>> {
    let mut given = Vec::new();
    while connection.is_established() && connection.scids_left() > 0 {
        let id = new_id(case);
        let token = u128::from_be_bytes(random());
        if id.is_empty() || connection.new_scid(&id, token, false).is_err() {
            break;
        }
        given.push(id);
    }
    given
}

/// Sends all that a connection has to send.
fn flush(connection: &mut quiche::Connection, sockets: &Sockets) {
    let mut buf = [0; MAX_DATAGRAM];
    while let Ok((len, info)) = connection.send(&mut buf) {
        sockets.send(info.from, info.to, &buf[..len]);
    }
}

struct Served {
    connection: quiche::Connection,
    app: Server,
}

struct Listener {
    case: String,
    config: Config,
    sockets: Sockets,
    served: Vec<Served>,
    by_id: HashMap<Vec<u8>, usize>,
    heard: Heard,
}

impl Listener {
    fn bind(case: String, config: Config, host: IpAddr) -> Result<Self> {
        let sockets = Sockets::bind(host)?;
        println!("listening {}", sockets.local().port());
        exit_with_stdin();
        Ok(Self {
            case,
            config,
            sockets,
            served: Vec::new(),
            by_id: HashMap::new(),
            heard: Heard::default(),
        })
    }

    fn run(mut self) -> Result<()> {
        let mut buf = vec![0; 1 << 16];
        loop {
            let timeouts = self.served.iter().map(|one| one.connection.timeout());
            let timeout = timeouts.flatten().min();
            self.sockets.wait(timeout)?;
            while let Some((len, from, to)) = self.sockets.receive(&mut buf) {
                if let Some(served) = self.route(&mut buf[..len], from, to)? {
                    let info = RecvInfo { from, to };
                    let connection = &mut self.served[served].connection;
                    // What is no packet of this connection is dropped, and a connection that begins with such a one.
                    let begins = connection.stats().recv == 0;
                    if connection.recv(&mut buf[..len], info).is_err() && begins {
                        self.by_id.retain(|_, number| *number != served);
                    }
                }
            }
            for (number, Served { connection, app }) in self.served.iter_mut().enumerate() {
                if connection.timeout() == Some(Duration::ZERO) {
                    connection.on_timeout();
                }
                if connection.is_established() || connection.is_in_early_data() {
                    app.poll(&mut Polled(connection), &mut self.heard);
                }
                for id in give_ids(&self.case, connection) {
                    self.by_id.insert(id.to_vec(), number);
                }
                let end = connection.peer_error().filter(|error| error.is_app);
                self.heard.closed = self.heard.closed.or(end.map(|error| error.error_code));
                flush(connection, &self.sockets);
            }
        }
    }

    /// The connection that a datagram is for, which may be a new one.
    fn route(
        &mut self,
        datagram: &mut [u8],
        from: SocketAddr,
        to: SocketAddr,
    ) -> Result<Option<usize>> {
        let id_len = id_len(&self.case).unwrap_or(16);
        let Ok(header) = quiche::Header::from_slice(datagram, id_len) else {
            return Ok(None);
        };
        if let Some(served) = self.by_id.get(&header.dcid.to_vec()) {
            return Ok(Some(*served));
        }
        if id_len == 0 {
            let known = |one: &Served| one.connection.paths_iter(to).any(|peer| peer == from);
            if let Some(served) = self.served.iter().position(known) {
                return Ok(Some(served));
            }
        }
        if header.ty == Type::Short {
            return Ok(None);
        }
        let mut out = [0; MAX_DATAGRAM];
        // The types of other versions are numbered in other ways.
        if !quiche::version_is_supported(header.version) {
            let len = quiche::negotiate_version(&header.scid, &header.dcid, &mut out)?;
            self.sockets.send(to, from, &out[..len]);
            return Ok(None);
        }
        if header.ty != Type::Initial {
            return Ok(None);
        }
        let id = new_id(&self.case);
        let connection = if self.case == "retry" {
            // The token of a test: the address, and the connection ID that the client began with.
            let address = from.to_string();
            let token = header.token.unwrap_or_default();
            let Some(original) = token.strip_prefix(address.as_bytes()) else {
                let token = [address.as_bytes(), &header.dcid].concat();
                let (scid, dcid) = (&header.scid, &header.dcid);
                let len = quiche::retry(scid, dcid, &id, &token, header.version, &mut out)?;
                self.sockets.send(to, from, &out[..len]);
                return Ok(None);
            };
            let ids = RetryConnectionIds {
                original_destination_cid: &ConnectionId::from_ref(original),
                retry_source_cid: &header.dcid,
            };
            quiche::accept_with_retry(&id, ids, to, from, &mut self.config)?
        } else {
            quiche::accept(&id, None, to, from, &mut self.config)?
        };
        let number = self.served.len();
        self.by_id.insert(header.dcid.to_vec(), number);
        if !id.is_empty() {
            self.by_id.insert(id.to_vec(), number);
        }
        let app = Server::default();
        self.served.push(Served { connection, app });
        Ok(Some(number))
    }
}

fn client(case: &str, authority: &str, remote: SocketAddr, sizes: &[usize]) -> Result<()> {
    let version = match case {
        "versionnegotiation" => RESERVED,
        _ => quiche::PROTOCOL_VERSION,
    };
    let mut config = config(case, version)?;
    config.load_verify_locations_from_file(authority)?;
    config.verify_peer(true);
    if asks_early(case) {
        config.enable_early_data();
    }
    let mut session = None;
    if comes_back(case) {
        let first = Client::new(case, &[], true);
        session = download(case, first, &mut config, remote, None)?.1;
    }
    let session = session.filter(|_| case != "close-client");
    let second = Client::new(case, sizes, false);
    for line in download(case, second, &mut config, remote, session)?.0 {
        println!("{line}");
    }
    Ok(())
}

/// What is to be printed, and what a later connection can go on with.
fn download(
    case: &str,
    mut app: Client,
    config: &mut Config,
    remote: SocketAddr,
    session: Option<Vec<u8>>,
) -> Result<(Vec<String>, Option<Vec<u8>>)> {
    let host: IpAddr = match remote {
        SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    let mut sockets = Sockets::bind(host)?;
    let mut connection = quiche::connect(
        Some("localhost"),
        &new_id(case),
        sockets.local(),
        remote,
        config,
    )?;
    if let Some(session) = &session {
        connection.set_session(session)?;
    }
    let mut moved_to = None;
    let mut lines = Vec::new();
    let mut buf = vec![0; 1 << 16];
    loop {
        flush(&mut connection, &sockets);
        if connection.is_closed() || !lines.is_empty() {
            break;
        }
        let mut timeout = connection.timeout();
        if let Some(timer) = app.timer() {
            let left = timer.saturating_duration_since(Instant::now());
            timeout = Some(timeout.map_or(left, |timeout| timeout.min(left)));
        }
        // Early data goes out with the first flight.
        let early = app.asks_early() && connection.is_in_early_data();
        sockets.wait(if early { Some(Duration::ZERO) } else { timeout })?;
        while let Some((len, from, to)) = sockets.receive(&mut buf) {
            connection.recv(&mut buf[..len], RecvInfo { from, to }).ok();
        }
        if connection.timeout() == Some(Duration::ZERO) {
            connection.on_timeout();
        }
        give_ids(case, &mut connection);
        while let Some(event) = connection.path_event_next() {
            if let (PathEvent::Validated(local, peer), Some(to)) = (event, moved_to)
                && local == to
            {
                connection.migrate(local, peer)?;
            }
        }
        if let Some(end) = connection.peer_error() {
            if !end.is_app {
                return Err(format!("{end:?}").into());
            }
            lines = closed_by_server(app, end.error_code);
            break;
        }
        if !connection.is_established() && !early {
            continue;
        }
        loop {
            match app.poll(&mut Polled(&mut connection)) {
                Step::Quarter if case == "connectionmigration" => {
                    let local = sockets.add(host)?;
                    connection.probe_path(local, remote)?;
                    moved_to = Some(local);
                }
                Step::Quarter => {}
                Step::Done(done) => {
                    lines = done;
                    break;
                }
                Step::Nothing => break,
            }
        }
    }
    if let Some(error) = connection.local_error().filter(|error| !error.is_app) {
        return Err(format!("{error:?}").into());
    }
    if lines.is_empty() {
        return Err("the connection ended early".into());
    }
    if connection.is_resumed() {
        lines.push("resumed".into());
    }
    if connection.early_data_reason() == EARLY_DATA_ACCEPTED {
        lines.push("early".into());
    }
    // The only one that the library speaks.
    lines.push(format!("version {:#x}", quiche::PROTOCOL_VERSION));
    Ok((lines, connection.session().map(<[u8]>::to_vec)))
}
