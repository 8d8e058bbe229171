//! What the tests share: both ends on loopback with a link or two between them, and targets to reach.
#![allow(
    dead_code,
    unused_imports,
    reason = "each test binary uses its part of it"
)]

#[cfg(unix)]
pub(crate) mod process;
pub(crate) mod stranger;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use mpquic_bond::{
    AllowList, Client, ClientSettings, Error, Fingerprint, Identity, Rule, Server, ServerSettings,
    Token, Transport, Trust, client_tls, server_tls,
};
pub(crate) use mpquic_test_support::runtime::run;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::oneshot;
use tokio::time::timeout;

pub(crate) const FIRST: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 1));
pub(crate) const SECOND: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

pub(crate) const HOUR: Duration = Duration::from_secs(3600);

pub(crate) fn token(secret: &str) -> Token {
    Token::new(secret.as_bytes()).unwrap()
}

pub(crate) const SECRET: &str = "a token for the tests";

/// A server that runs.
pub(crate) struct Far {
    pub(crate) address: SocketAddr,
    pub(crate) fingerprint: Fingerprint,
    _stop: oneshot::Sender<()>,
}

pub(crate) fn far(allow: &[&str], idle: Duration) -> Far {
    far_with(allow, idle, None)
}

/// A server whose UDP is of use for so long, for clients that want it so.
pub(crate) fn far_with(allow: &[&str], idle: Duration, live: Option<Duration>) -> Far {
    far_of(settings(allow, idle, live))
}

pub(crate) fn settings(allow: &[&str], idle: Duration, live: Option<Duration>) -> ServerSettings {
    let rules: Vec<Rule> = allow.iter().map(|rule| rule.parse().unwrap()).collect();
    ServerSettings {
        token: Some(token(SECRET)),
        users: None,
        allow: AllowList::new(rules),
        idle,
        transport: Transport::default(),
        live,
    }
}

pub(crate) fn far_of(settings: ServerSettings) -> Far {
    let folder = tempfile::tempdir().unwrap();
    let identity = Identity::kept_in(folder.path(), "mpquic-bond").unwrap();
    let fingerprint = identity.fingerprint().unwrap();
    let tls = server_tls(identity, None).unwrap();
    let server = Server::bind(tls, &[(FIRST, 0).into()], settings).unwrap();
    let address = server.local_addrs()[0];
    let (stop, stopped) = oneshot::channel::<()>();
    tokio::spawn(async move {
        server.run(async { drop(stopped.await) }).await;
    });
    Far {
        address,
        fingerprint,
        _stop: stop,
    }
}

/// A client that runs, and its local port.
pub(crate) struct Near {
    pub(crate) client: Arc<Client>,
    pub(crate) proxy: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    task: tokio::task::JoinHandle<Result<(), Error>>,
}

impl Near {
    /// Stops it, and waits until it has.
    pub(crate) async fn stop(mut self) {
        drop(self.stop.take());
        self.task.await.unwrap().unwrap();
    }
}

pub(crate) fn client_settings(server: SocketAddr, locals: &[IpAddr]) -> ClientSettings {
    ClientSettings {
        server: server.to_string(),
        token: Some(token(SECRET)),
        locals: locals.to_vec(),
        metered: Vec::new(),
        ignored: Vec::new(),
        links: Vec::new(),
        usage: None,
        idle: Duration::from_secs(60),
        passwords: None,
        transport: Transport::default(),
        live: None,
    }
}

/// A client of the server that has this fingerprint, at `server`, which may be a relay before it.
pub(crate) async fn near(
    fingerprint: Fingerprint,
    settings: ClientSettings,
) -> Result<Near, Error> {
    let tls = client_tls(&Trust::Fingerprint(fingerprint), None).unwrap();
    let client = Client::connect(tls, settings).await?;
    let listener = TcpListener::bind((FIRST, 0)).await.unwrap();
    let proxy = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let running = Arc::clone(&client);
    let task =
        tokio::spawn(async move { running.run(listener, async { drop(stopped.await) }).await });
    Ok(Near {
        client,
        proxy,
        stop: Some(stop),
        task,
    })
}

/// Asks a SOCKS5 proxy for `command` (1: CONNECT, 3: UDP ASSOCIATE); gives the reply's code and address, and the connection.
pub(crate) async fn socks(
    proxy: SocketAddr,
    command: u8,
    target: SocketAddr,
) -> (u8, SocketAddr, TcpStream) {
    let mut socket = TcpStream::connect(proxy).await.unwrap();
    socket.write_all(&[5, 1, 0]).await.unwrap();
    let mut method = [0; 2];
    socket.read_exact(&mut method).await.unwrap();
    assert_eq!(method, [5, 0]);
    let IpAddr::V4(ip) = target.ip() else {
        panic!("the tests use IPv4");
    };
    let mut request = vec![5, command, 0, 1];
    request.extend_from_slice(&ip.octets());
    request.extend_from_slice(&target.port().to_be_bytes());
    socket.write_all(&request).await.unwrap();
    let mut reply = [0; 10];
    socket.read_exact(&mut reply).await.unwrap();
    let ip = Ipv4Addr::new(reply[4], reply[5], reply[6], reply[7]);
    let port = u16::from_be_bytes([reply[8], reply[9]]);
    (reply[1], (ip, port).into(), socket)
}

/// Accepts connections, and runs `serve` for each.
pub(crate) async fn target<F, R>(serve: F) -> SocketAddr
where
    F: Fn(TcpStream) -> R + Send + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind((FIRST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(serve(socket));
        }
    });
    address
}

/// Sends back what it gets, and its end.
/// A UDP socket that sends back what comes, last byte first; gives its address.
pub(crate) async fn udp_echo() -> SocketAddr {
    let server = UdpSocket::bind((FIRST, 0)).await.unwrap();
    let address = server.local_addr().unwrap();
    tokio::spawn(async move {
        let mut buffer = [0; 9000];
        while let Ok((len, from)) = server.recv_from(&mut buffer).await {
            buffer[..len].reverse();
            server.send_to(&buffer[..len], from).await.unwrap();
        }
    });
    address
}

/// Sends datagrams through the local port to an [echo](udp_echo). What does not come back at once is sent again, as programs do.
pub(crate) async fn echoes_udp(near: &Near, payloads: &[&[u8]]) {
    let address = udp_echo().await;
    let (code, relay, control) = socks(near.proxy, 3, (FIRST, 0).into()).await;
    assert_eq!(code, 0);
    let program = UdpSocket::bind((FIRST, 0)).await.unwrap();
    let mut head = vec![0, 0, 0, 1, 127, 0, 0, 1];
    head.extend_from_slice(&address.port().to_be_bytes());
    for payload in payloads {
        let datagram = [&head, *payload].concat();
        loop {
            program.send_to(&datagram, relay).await.unwrap();
            let mut buffer = [0; 9000];
            let back = timeout(Duration::from_millis(500), program.recv_from(&mut buffer));
            let Ok(received) = back.await else { continue };
            let (len, from) = received.unwrap();
            assert_eq!(from, relay);
            assert_eq!(buffer[..10], head);
            let mut back = buffer[10..len].to_vec();
            back.reverse();
            if back == *payload {
                break;
            }
        }
    }
    // The end of the control connection is the end of the association.
    drop(control);
}

pub(crate) async fn echo(mut socket: TcpStream) {
    let (mut reader, mut writer) = socket.split();
    tokio::io::copy(&mut reader, &mut writer).await.unwrap();
    writer.shutdown().await.unwrap();
}

pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}
