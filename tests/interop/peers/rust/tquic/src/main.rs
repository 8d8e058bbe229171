//! A peer of the interop cases by TQUIC: see `README.md` two folders above.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, Instant};

use peer_common::client::{Client, Step, closed_by_server};
use peer_common::net::Sockets;
use peer_common::server::{self, Heard, Read, Server, Wrote};
use peer_common::{ALPN, Call, asks_early, comes_back, exit_with_stdin, id_len, patience};
use tquic::{
    Config, Connection, Endpoint, PacketInfo, PacketSendHandler, Shutdown, TlsConfig,
    TransportHandler,
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;
type Shared<T> = Rc<RefCell<T>>;

fn lacks(case: &str, is_client: bool) -> Option<&'static str> {
    match case {
        "v2" => Some("the library speaks version 1 only"),
        "versionnegotiation" if is_client => {
            Some("the library begins with version 1, the only one that it speaks")
        }
        "versionnegotiation" => Some(
            "its servers answer another version only in packets whose type is that of version 1's Initial; our other version is 2, whose type differs (RFC 9000 section 5.2.2: SHOULD)",
        ),
        "chacha20" => Some("BoringSSL does not let a program choose the suites of TLS 1.3"),
        "datagrams" => Some("the library has no datagrams"),
        "ecn" => Some("the library does not mark packets"),
        "keyupdate" if is_client => Some("the library has no call for it"),
        "connectionmigration" if is_client => Some("the library's call for it does nothing yet"),
        "connectionmigration" | "rebind-port" | "rebind-addr" if !is_client => {
            Some("its servers do not go on at another address of the client yet")
        }
        "preferredaddress" => Some("the library has no preferred addresses"),
        _ => None,
    }
}

fn main() -> Result<()> {
    match peer_common::call("tquic", lacks) {
        Call::Server {
            case,
            certificate,
            key,
            host,
        } => {
            let alpn = vec![ALPN.to_vec()];
            let tls = TlsConfig::new_server_config(&certificate, &key, alpn, true)?;
            serve(config(&case, tls)?, host)
        }
        Call::Client {
            case,
            authority,
            remote,
            sizes,
        } => client(&case, &authority, remote, &sizes),
    }
}

fn config(case: &str, tls: TlsConfig) -> Result<Config> {
    let mut config = Config::new()?;
    config.set_tls_config(tls);
    config.set_max_idle_timeout(patience(case) * 1_000);
    config.set_max_handshake_timeout(patience(case) * 1_000);
    config.set_initial_max_data(10 << 20);
    config.set_initial_max_stream_data_bidi_local(1 << 20);
    config.set_initial_max_stream_data_bidi_remote(1 << 20);
    config.set_initial_max_streams_bidi(1_000);
    config.set_active_connection_id_limit(4);
    config.enable_retry(case == "retry");
    if let Some(len) = id_len(case) {
        config.set_cid_len(len);
    }
    if case == "mtu1280" {
        config.set_send_udp_payload_size(1_232);
        config.enable_dplpmtud(false);
    }
    Ok(config)
}

/// The library's connection, for what the peers share.
struct Polled<'a>(&'a mut Connection);

impl server::Connection for Polled<'_> {
    fn readable(&mut self) -> Vec<u64> {
        self.0.stream_readable_iter().collect()
    }

    fn read(&mut self, stream: u64, buf: &mut [u8]) -> Read {
        match self.0.stream_read(stream, buf) {
            Ok((len, fin)) => Read::Some(len, fin),
            Err(tquic::Error::StreamReset(code)) => Read::Reset(code),
            Err(tquic::Error::Done) => Read::Nothing,
            Err(_) => Read::Gone,
        }
    }

    fn write(&mut self, stream: u64, data: &[u8], fin: bool) -> Wrote {
        // Where there is no room, writing does not tell that the stream was stopped.
        if let Err(tquic::Error::StreamStopped(code)) = self.0.stream_capacity(stream) {
            return Wrote::Stopped(code);
        }
        match self.0.stream_write(stream, data.to_vec().into(), fin) {
            Ok(len) => Wrote::Some(len),
            Err(tquic::Error::StreamStopped(code)) => Wrote::Stopped(code),
            Err(tquic::Error::Done | tquic::Error::StreamLimitError) => Wrote::Some(0),
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

    fn send_datagram(&mut self, _: &[u8]) {}

    fn receive_datagram(&mut self, _: &mut [u8]) -> Option<usize> {
        None
    }
}

/// Sends what the library gives out.
struct Sender(Shared<Sockets>);

impl PacketSendHandler for Sender {
    fn on_packets_send(&self, packets: &[(Vec<u8>, PacketInfo)]) -> tquic::Result<usize> {
        for (packet, info) in packets {
            self.0.borrow().send(info.src, info.dst, packet);
        }
        Ok(packets.len())
    }
}

/// How a connection ended.
#[derive(Clone, Default)]
struct Ended {
    /// The code of the peer's application.
    by_peer: Option<u64>,
    session: Option<Vec<u8>>,
    facts: Vec<String>,
    error: String,
}

/// What the library told, by the connection's index. What is to be done is done outside of its calls.
#[derive(Default)]
struct Told {
    servers: BTreeMap<u64, Server>,
    ended: Vec<Ended>,
}

struct Handler(Shared<Told>);

impl TransportHandler for Handler {
    fn on_conn_created(&mut self, connection: &mut Connection) {
        let index = connection.index().expect("it is in the table");
        let mut told = self.0.borrow_mut();
        told.servers.insert(index, Server::default());
    }

    fn on_conn_established(&mut self, _: &mut Connection) {}

    fn on_conn_closed(&mut self, connection: &mut Connection) {
        let mut told = self.0.borrow_mut();
        let index = connection.index().expect("it was in the table");
        told.servers.remove(&index);
        told.ended.push(ended(connection));
    }

    fn on_stream_created(&mut self, _: &mut Connection, _: u64) {}

    fn on_stream_readable(&mut self, _: &mut Connection, _: u64) {}

    fn on_stream_writable(&mut self, _: &mut Connection, _: u64) {}

    fn on_stream_closed(&mut self, _: &mut Connection, _: u64) {}

    fn on_new_token(&mut self, _: &mut Connection, _: Vec<u8>) {}
}

fn ended(connection: &Connection) -> Ended {
    let by_peer = connection.peer_error().filter(|error| error.is_app);
    let mut facts = Vec::new();
    if connection.is_resumed() {
        facts.push("resumed".into());
    }
    if matches!(connection.early_data_reason(), Ok(Some("accepted"))) {
        facts.push("early".into());
    }
    // The only one that the library speaks.
    facts.push(format!("version {:#x}", tquic::QUIC_VERSION_V1));
    Ended {
        by_peer: by_peer.map(|error| error.error_code),
        session: connection.session().map(<[u8]>::to_vec),
        facts,
        error: format!(
            "{:?} {:?}",
            connection.peer_error(),
            connection.local_error()
        ),
    }
}

/// Waits for datagrams or timers, and hands them to the library.
fn receive(
    endpoint: &mut Endpoint,
    sockets: &RefCell<Sockets>,
    timer: Option<Duration>,
    buf: &mut [u8],
) -> Result<()> {
    let timeout = [endpoint.timeout(), timer].into_iter().flatten().min();
    sockets.borrow_mut().wait(timeout)?;
    loop {
        let received = sockets.borrow().receive(buf);
        let Some((len, src, dst)) = received else {
            break;
        };
        let time = Instant::now();
        // What is no packet of a connection is dropped.
        let info = PacketInfo { src, dst, time };
        endpoint.recv(&mut buf[..len], &info).ok();
    }
    endpoint.on_timeout(Instant::now());
    Ok(())
}

fn endpoint(
    config: Config,
    is_server: bool,
    host: IpAddr,
) -> Result<(Endpoint, Shared<Sockets>, Shared<Told>)> {
    let sockets = Rc::new(RefCell::new(Sockets::bind(host)?));
    let told = Rc::new(RefCell::new(Told::default()));
    let sender = Rc::new(Sender(Rc::clone(&sockets)));
    let handler = Box::new(Handler(Rc::clone(&told)));
    let endpoint = Endpoint::new(Box::new(config), is_server, handler, sender);
    Ok((endpoint, sockets, told))
}

fn serve(config: Config, host: IpAddr) -> Result<()> {
    let (mut endpoint, sockets, told) = endpoint(config, true, host)?;
    println!("listening {}", sockets.borrow().local().port());
    exit_with_stdin();
    let mut heard = Heard::default();
    let mut buf = vec![0; 1 << 16];
    loop {
        receive(&mut endpoint, &sockets, None, &mut buf)?;
        {
            let mut told = told.borrow_mut();
            for (index, app) in &mut told.servers {
                let Some(connection) = endpoint.conn_get_mut(*index) else {
                    continue;
                };
                app.poll(&mut Polled(connection), &mut heard);
                let end = connection.peer_error().filter(|error| error.is_app);
                heard.closed = heard.closed.or(end.map(|error| error.error_code));
            }
        }
        endpoint.process_connections()?;
    }
}

fn client(case: &str, authority: &str, remote: SocketAddr, sizes: &[usize]) -> Result<()> {
    let new_config = || -> Result<Config> {
        let mut tls = TlsConfig::new_client_config(vec![ALPN.to_vec()], asks_early(case))?;
        tls.set_ca_certs(authority)?;
        tls.set_verify(true);
        config(case, tls)
    };
    let mut session = None;
    if comes_back(case) {
        let first = Client::new(case, &[], true);
        session = download(first, new_config()?, remote, None)?.1;
    }
    let session = session.filter(|_| case != "close-client");
    let second = Client::new(case, sizes, false);
    for line in download(second, new_config()?, remote, session)?.0 {
        println!("{line}");
    }
    Ok(())
}

/// What is to be printed, and what a later connection can go on with.
fn download(
    mut app: Client,
    config: Config,
    remote: SocketAddr,
    session: Option<Vec<u8>>,
) -> Result<(Vec<String>, Option<Vec<u8>>)> {
    let host: IpAddr = match remote {
        SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    let (mut endpoint, sockets, told) = endpoint(config, false, host)?;
    let local = sockets.borrow().local();
    let name = Some("localhost");
    let index = endpoint.connect(local, remote, name, session.as_deref(), None, None)?;
    let mut buf = vec![0; 1 << 16];
    loop {
        if let Some(connection) = endpoint.conn_get_mut(index) {
            let early = app.asks_early() && connection.is_in_early_data();
            if let Some(error) = connection.peer_error() {
                if !error.is_app {
                    return Err(format!("{error:?}").into());
                }
                let code = error.error_code;
                let end = ended(connection);
                let lines = closed_by_server(app, code);
                return Ok((lines.into_iter().chain(end.facts).collect(), None));
            }
            while connection.is_established() || early {
                match app.poll(&mut Polled(connection)) {
                    Step::Quarter => {}
                    Step::Nothing => break,
                    Step::Done(mut lines) => {
                        let end = ended(connection);
                        lines.extend(end.facts);
                        endpoint.process_connections()?;
                        return Ok((lines, end.session));
                    }
                }
            }
        } else if let Some(end) = told.borrow().ended.first() {
            return Err(format!(
                "the connection ended early: {} {:?}",
                end.error, end.by_peer
            )
            .into());
        }
        endpoint.process_connections()?;
        let timer = app.timer();
        let timer = timer.map(|at| at.saturating_duration_since(Instant::now()));
        receive(&mut endpoint, &sockets, timer, &mut buf)?;
    }
}
