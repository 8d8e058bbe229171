//! Tests of multipath (RFC 10069) with another implementation, noq, over loopback sockets, with noq
//! as the server and as the client. No test depends on timing: the only time limit fails a test
//! that hangs.
//!
//! These tests meet the following differences of noq 1.4, which the RFC allows or does not cover:
//!
//! - Its sender only follows its own path status. It reports the peer's preference to the
//!   application (see its `PathEvent::RemoteStatus`). RFC 10069, path status management, allows
//!   this. Therefore, only our sender must leave a backup path unused.
//! - Its sender fills the path with the lowest ID first, and uses others when its window is
//!   exhausted. Therefore, only our sender must use every path.
//! - `open_path` does not wait for connection IDs and does not report when they come. These tests
//!   therefore retry after each round trip.
//! - Its API cannot use a path ID above the peer's limit. `crates/proto/src/receive/violations.rs`
//!   tests how we respond to that.

use std::future::{Future, poll_fn};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use mpquic::{
    OpenPathError, PathError, PathErrorCode, PathEvent, PathId, PathStatus, TransportConfig,
    VarInt, rustls, sched,
};
use mpquic_sim::{LinkConfig, Relay};
use noq_proto::PathAbandonReason;
use rustls::pki_types::PrivateKeyDer;
use sha2::{Digest, Sha256};
use tokio_stream::Stream;

const MIB: usize = 1 << 20;

// -- the two sides

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Client {
    Ours,
    Noq,
}

/// The last bytes of the client's and the server's addresses on the first path, on one from another
/// local address, on one to another remote address, and on one where both differ.
const ROUTES: [(u8, u8); 4] = [(1, 1), (2, 1), (1, 3), (4, 4)];

fn loopback(last: u8) -> IpAddr {
    Ipv4Addr::new(127, 0, 0, last).into()
}

/// What lies between client and server.
#[derive(Clone, Copy)]
enum Between<'a> {
    Nothing,
    /// A relay on each route.
    Links(&'a LinkConfig),
    /// A NAT on the second route.
    Nat,
}

/// A NAT for one client. It forwards in both directions, and can forget its mappings.
struct Nat {
    address: SocketAddr,
    forget: tokio::sync::mpsc::UnboundedSender<IpAddr>,
}

impl Nat {
    fn new(target: SocketAddr) -> Self {
        let bind = |host: IpAddr| {
            let socket = std::net::UdpSocket::bind((host, 0)).unwrap();
            socket.set_nonblocking(true).unwrap();
            tokio::net::UdpSocket::from_std(socket).unwrap()
        };
        let inside = bind(loopback(1));
        let address = inside.local_addr().unwrap();
        let mut outside = bind(loopback(1));
        let (forget, mut forgetting) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut client = None;
            let (mut up, mut down) = (vec![0; 65536], vec![0; 65536]);
            loop {
                tokio::select! {
                    got = inside.recv_from(&mut up) => if let Ok((len, from)) = got {
                        client = Some(from);
                        outside.send_to(&up[..len], target).await.ok();
                    },
                    got = outside.recv_from(&mut down) => if let (Ok((len, _)), Some(to)) = (got, client) {
                        inside.send_to(&down[..len], to).await.ok();
                    },
                    host = forgetting.recv() => match host {
                        Some(host) => outside = bind(host),
                        None => return,
                    },
                }
            }
        });
        Self { address, forget }
    }
}

/// A connection between both implementations, with both of its ends.
struct Pair {
    client: Client,
    /// The server addresses of the routes.
    remotes: Vec<SocketAddr>,
    relays: Vec<Relay>,
    nat: Option<Nat>,
    ours: mpquic::Connection,
    noq: noq::Connection,
    our_events: mpquic::PathEvents,
    noq_events: noq::PathEvents,
    endpoints: (mpquic::Endpoint, noq::Endpoint),
}

fn our_transport(max_paths: u32) -> TransportConfig {
    let mut transport = TransportConfig::default();
    // Uses every path that has room, which the tests check.
    transport
        .scheduler(|| Box::new(sched::RoundRobin::default()))
        .max_paths(max_paths);
    transport
}

fn noq_transport(max_paths: u32) -> noq::TransportConfig {
    let mut transport = noq::TransportConfig::default();
    transport.max_concurrent_multipath_paths(max_paths);
    transport
}

fn tls() -> (rustls::ClientConfig, rustls::ServerConfig) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let certificate = made.cert.der().clone();
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = [&rustls::version::TLS13];
    let mut client = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut server = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions)
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    client.alpn_protocols = vec![b"interop".to_vec()];
    server.alpn_protocols = vec![b"interop".to_vec()];
    (client, server)
}

impl Pair {
    /// Both sides allow four paths.
    async fn new(client: Client) -> Self {
        Self::with(client, our_transport(4), noq_transport(4), Between::Nothing).await
    }

    async fn with(
        client: Client,
        our_transport: TransportConfig,
        noq_transport: noq::TransportConfig,
        between: Between<'_>,
    ) -> Self {
        let (client_tls, server_tls) = tls();
        let wildcard = SocketAddr::from(([0; 4], 0));
        let (our_transport, noq_transport) = (Arc::new(our_transport), Arc::new(noq_transport));
        let mut relays = Vec::new();
        let mut nat = None;
        let mut remotes = Vec::new();
        let mut lay = |port: u16| {
            for (number, (_, remote)) in ROUTES.iter().enumerate() {
                let mut remote = SocketAddr::from((loopback(*remote), port));
                if let Between::Links(link) = between {
                    let from = (loopback(1), 0).into();
                    let seed = number as u64;
                    let relay = Relay::spawn(from, remote, link.clone(), link.clone(), seed);
                    let relay = relay.unwrap();
                    remote = relay.addr();
                    relays.push(relay);
                }
                remotes.push(remote);
            }
            if let Between::Nat = between {
                let made = Nat::new(remotes[1]);
                remotes[1] = made.address;
                nat = Some(made);
            }
            remotes[0]
        };
        let (ours, noq, endpoints) = match client {
            Client::Ours => {
                let crypto = noq::crypto::rustls::QuicServerConfig::try_from(server_tls).unwrap();
                let mut config = noq::ServerConfig::with_crypto(Arc::new(crypto));
                config.transport_config(noq_transport);
                let server = noq::Endpoint::server(config, wildcard).unwrap();
                let locals = [1, 2, 4].map(|last| (loopback(last), 0).into());
                let client = mpquic::Endpoint::client(&locals).unwrap();
                let mut config = mpquic::ClientConfig::new(Arc::new(client_tls)).unwrap();
                config.transport(our_transport);
                let remote = lay(server.local_addr().unwrap().port());
                let connecting = client.connect_with(config, remote, "localhost").unwrap();
                let accepting = async { server.accept().await.unwrap().await };
                let (ours, noq) = tokio::join!(connecting, accepting);
                (ours.unwrap(), noq.unwrap(), (client, server))
            }
            Client::Noq => {
                let mut config = mpquic::ServerConfig::new(Arc::new(server_tls)).unwrap();
                config.transport(our_transport);
                let server = mpquic::Endpoint::server(config, &[wildcard]).unwrap();
                let client = noq::Endpoint::client(wildcard).unwrap();
                let crypto = noq::crypto::rustls::QuicClientConfig::try_from(client_tls).unwrap();
                let mut config = noq::ClientConfig::new(Arc::new(crypto));
                config.transport_config(noq_transport);
                let remote = lay(server.local_addrs()[0].port());
                let connecting = client.connect_with(config, remote, "localhost").unwrap();
                let accepting = async { server.accept().await.unwrap().await };
                let (noq, ours) = tokio::join!(connecting, accepting);
                (ours.unwrap(), noq.unwrap(), (server, client))
            }
        };
        Self {
            client,
            remotes,
            relays,
            nat,
            our_events: ours.path_events(),
            noq_events: noq.path_events(),
            ours,
            noq,
            endpoints,
        }
    }

    // -- paths

    /// The local IP address and the remote address of a route.
    fn route(&self, number: usize) -> (IpAddr, SocketAddr) {
        (loopback(ROUTES[number].0), self.remotes[number])
    }

    /// The client opens a path along a route. Waits until both sides have validated it.
    async fn open(&mut self, number: usize) -> PathId {
        let (local, remote) = self.route(number);
        let id = match self.client {
            Client::Ours => self.ours.open_path(local, remote).await.unwrap().id(),
            Client::Noq => {
                let path = self.noq_opens(local, remote, noq::PathStatus::Available);
                our_id(path.await.id())
            }
        };
        match self.client {
            Client::Ours => {
                self.noq_event(|event| match event {
                    noq::PathEvent::Established { id: opened, .. } => *opened == noq_id(id),
                    _ => false,
                })
                .await;
            }
            Client::Noq => {
                self.our_event(|event| *event == PathEvent::Opened { id })
                    .await;
            }
        }
        if !self.relays.is_empty() || self.nat.is_some() {
            return id;
        }
        let ours = self.ours.path(id).unwrap().network_path().unwrap();
        let noq = self.noq.path(noq_id(id)).unwrap().network_path().unwrap();
        assert_eq!(noq.local_ip(), Some(ours.remote.ip()));
        assert_eq!(noq.remote(), ours.local);
        id
    }

    async fn noq_opens(
        &self,
        local: IpAddr,
        remote: SocketAddr,
        status: noq::PathStatus,
    ) -> noq::Path {
        let path = noq::FourTuple::new(remote, Some(local));
        loop {
            match self.noq.open_path(path, status).await {
                Ok(path) => return path,
                Err(noq::PathError::RemoteCidsExhausted | noq::PathError::MaxPathIdReached) => {
                    self.round_trip().await;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    async fn our_event(&mut self, wanted: impl Fn(&PathEvent) -> bool) -> PathEvent {
        loop {
            let event = self.our_events.recv().await.expect("our side ended");
            if wanted(&event) {
                return event;
            }
        }
    }

    async fn noq_event(&mut self, wanted: impl Fn(&noq::PathEvent) -> bool) -> noq::PathEvent {
        loop {
            let next = poll_fn(|cx| Pin::new(&mut self.noq_events).poll_next(cx));
            let event = next.await.expect("noq's side ended").unwrap();
            if wanted(&event) {
                return event;
            }
        }
    }

    /// Waits until both sides have reported that the path was abandoned, and then that its state is
    /// gone.
    async fn abandoned(&mut self, id: PathId, code: PathErrorCode, by_noq: bool) {
        let of_path = |event: &PathEvent| matches!(event, PathEvent::Abandoned { id: gone, .. } if *gone == id);
        let expected = PathEvent::Abandoned {
            id,
            error_code: code,
            by_peer: by_noq,
        };
        assert_eq!(self.our_event(of_path).await, expected);
        let of_path = |event: &noq::PathEvent| matches!(event, noq::PathEvent::Abandoned { id: gone, .. } if *gone == noq_id(id));
        let noq::PathEvent::Abandoned { reason, .. } = self.noq_event(of_path).await else {
            unreachable!();
        };
        let error_code = noq::VarInt::from_u64(code.0).unwrap();
        let expected = match by_noq {
            true => PathAbandonReason::ApplicationClosed { error_code },
            false => PathAbandonReason::RemoteAbandoned { error_code },
        };
        assert_eq!(reason, expected);
        // Each side discards the path after the other has sent PATH_ABANDON, too.
        self.our_event(|event| *event == PathEvent::Discarded { id })
            .await;
        self.noq_event(|event| matches!(event, noq::PathEvent::Discarded { id: gone, .. } if *gone == noq_id(id)))
            .await;
    }

    /// Stream bytes that we have sent on each path.
    fn sent(&self, ids: &[PathId]) -> Vec<u64> {
        let sent = |id: &PathId| self.ours.path(*id).unwrap().stats().unwrap();
        ids.iter().map(|id| sent(id).sent_stream_bytes).collect()
    }

    /// STREAM frames that noq has received on each path.
    fn received(&self, ids: &[PathId]) -> Vec<u64> {
        let received = |id: &PathId| self.noq.path_stats(noq_id(*id)).unwrap().frame_rx;
        ids.iter().map(|id| received(id).stream).collect()
    }

    // -- data

    /// Sends to noq, and calls `mid` when a quarter has arrived. The receiver does not read during
    /// this call. A quarter is more than flow control allows in flight, so the call is in the
    /// middle of the transfer.
    async fn upload(&self, len: usize, mid: impl FnOnce()) {
        let (mut send, mut recv) = (self.ours.open_uni().await.unwrap(), None);
        let receive = async {
            let stream = recv.insert(self.noq.accept_uni().await.unwrap());
            receive(stream, len, mid).await
        };
        let (sent, received) = tokio::join!(send_all(&mut send, len), receive);
        assert_eq!(sent, received);
    }

    /// noq sends to us. Calls `mid` when a quarter has arrived.
    async fn download(&self, len: usize, mid: impl FnOnce()) {
        let (mut send, mut recv) = (self.noq.open_uni().await.unwrap(), None);
        let receive = async {
            let stream = recv.insert(self.ours.accept_uni().await.unwrap());
            receive(stream, len, mid).await
        };
        let (sent, received) = tokio::join!(send_all(&mut send, len), receive);
        assert_eq!(sent, received);
    }

    /// The same amount of data in both directions at once.
    async fn exchange(&self, len: usize, mid: impl FnOnce()) {
        tokio::join!(self.upload(len, mid), self.download(len, || ()));
    }

    /// Sends a byte in each direction. After this, everything that either side sent before has
    /// arrived.
    async fn round_trip(&self) {
        self.upload(1, || ()).await;
        self.download(1, || ()).await;
    }

    /// Checks that both sides still work, and that the close of one reaches the other.
    async fn finish(self) {
        self.round_trip().await;
        match self.client {
            Client::Ours => {
                self.ours.close(VarInt::from_u32(7), b"done");
                let noq::ConnectionError::ApplicationClosed(close) = self.noq.closed().await else {
                    panic!("{:?}", self.noq.close_reason());
                };
                assert_eq!(
                    (close.error_code.into_inner(), &close.reason[..]),
                    (7, &b"done"[..])
                );
            }
            Client::Noq => {
                self.noq.close(noq::VarInt::from_u32(8), b"done");
                let mpquic::ConnectionError::ApplicationClosed(close) = self.ours.closed().await
                else {
                    panic!("{:?}", self.ours.close_reason());
                };
                assert_eq!(
                    (close.error_code.into_inner(), &close.reason[..]),
                    (8, &b"done"[..])
                );
            }
        }
        drop(self.endpoints);
    }
}

fn noq_id(id: PathId) -> noq::PathId {
    id.0.into()
}

fn our_id(id: noq::PathId) -> PathId {
    PathId(id.to_string().parse().unwrap())
}

/// The common operations of both implementations' streams.
trait Write {
    async fn all(&mut self, data: &[u8]);
    async fn end(&mut self);
}

trait Read {
    async fn some(&mut self, buf: &mut [u8]) -> Option<usize>;
}

macro_rules! streams {
    ($crate_name:ident) => {
        impl Write for $crate_name::SendStream {
            async fn all(&mut self, data: &[u8]) {
                self.write_all(data).await.unwrap();
            }

            async fn end(&mut self) {
                self.finish().unwrap();
                assert_eq!(self.stopped().await, Ok(None), "all was acknowledged");
            }
        }

        impl Read for $crate_name::RecvStream {
            async fn some(&mut self, buf: &mut [u8]) -> Option<usize> {
                self.read(buf).await.unwrap()
            }
        }
    };
}

streams!(mpquic);
streams!(noq);

/// Sends this many non-repeating bytes. Returns their hash.
async fn send_all(stream: &mut impl Write, len: usize) -> Vec<u8> {
    let mut hash = Sha256::new();
    let mut state = len as u64;
    let mut left = len;
    let mut block = vec![0; 64 << 10];
    while left > 0 {
        for word in block.chunks_exact_mut(8) {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            word.copy_from_slice(&state.to_be_bytes());
        }
        let part = &block[..left.min(block.len())];
        hash.update(part);
        stream.all(part).await;
        left -= part.len();
    }
    stream.end().await;
    hash.finalize().to_vec()
}

async fn receive(stream: &mut impl Read, len: usize, mid: impl FnOnce()) -> Vec<u8> {
    let mut hash = Sha256::new();
    let mut received = 0;
    let mut mid = Some(mid);
    let mut block = vec![0; 64 << 10];
    while let Some(count) = stream.some(&mut block).await {
        hash.update(&block[..count]);
        received += count;
        if received * 4 >= len
            && let Some(mid) = mid.take()
        {
            mid();
        }
    }
    assert_eq!(received, len);
    hash.finalize().to_vec()
}

/// Runs a test with each implementation as the client.
fn run<F: Future<Output = ()>>(client: Client, test: impl FnOnce(Client) -> F) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(60), test(client))
            .await
            .expect("the test hangs");
    });
}

macro_rules! both_ways {
    ($($name:ident),* $(,)?) => {
        mod our_client {
            $(#[test] fn $name() { super::run(super::Client::Ours, super::$name); })*
        }
        mod noq_client {
            $(#[test] fn $name() { super::run(super::Client::Noq, super::$name); })*
        }
    };
}

both_ways!(
    two_and_three_paths_carry_data,
    a_path_abandoned_by_us,
    a_path_abandoned_by_noq,
    backup_paths_are_left_alone,
    the_limit_of_paths_holds,
    an_abandoned_path_makes_room_for_another,
    two_paths_on_the_same_addresses,
    keys_are_updated_with_several_paths,
    links_that_lose_and_reorder,
    a_nat_moves_a_path,
);

// -- the tests

/// Path initiation and validation, with a packet number space and a nonce per path.
async fn two_and_three_paths_carry_data(client: Client) {
    let mut pair = Pair::new(client).await;
    assert!(pair.ours.is_multipath());
    assert!(pair.noq.is_multipath_enabled());
    let mut ids = vec![PathId::ZERO];
    for number in 1..=2 {
        let id = pair.open(number).await;
        assert_eq!(id, PathId(number as u32), "IDs are used in order");
        ids.push(id);
        let (sent, received) = (pair.sent(&ids), pair.received(&ids));
        pair.exchange(32 * MIB, || ()).await;
        let now = (pair.sent(&ids), pair.received(&ids));
        for path in 0..ids.len() {
            assert!(now.0[path] > sent[path], "path {path}: {sent:?} {now:?}");
            assert!(
                now.1[path] > received[path],
                "path {path}: {received:?} {now:?}"
            );
        }
        assert_eq!(pair.ours.paths().len(), ids.len());
    }
    assert_eq!(pair.ours.stats().undecryptable_packets, 0);
    pair.finish().await;
}

/// Path close, with a code other than the application's.
async fn a_path_abandoned_by_us(client: Client) {
    let mut pair = Pair::new(client).await;
    let first = pair.open(1).await;
    pair.open(2).await;
    let code = PathErrorCode::PATH_UNSTABLE_OR_POOR;
    for id in [first, PathId::ZERO] {
        let path = pair.ours.path(id).unwrap();
        pair.exchange(16 * MIB, || path.close(code).unwrap()).await;
        pair.abandoned(id, code, false).await;
    }
    assert_eq!(pair.ours.paths().len(), 1);
    pair.exchange(MIB, || ()).await;
    pair.finish().await;
}

/// noq has only one code for its application: APPLICATION_ABANDON_PATH.
async fn a_path_abandoned_by_noq(client: Client) {
    let mut pair = Pair::new(client).await;
    let first = pair.open(1).await;
    pair.open(2).await;
    for id in [first, PathId::ZERO] {
        let path = pair.noq.path(noq_id(id)).unwrap();
        pair.exchange(16 * MIB, || path.close().unwrap()).await;
        let code = PathErrorCode::APPLICATION_ABANDON_PATH;
        pair.abandoned(id, code, true).await;
    }
    assert_eq!(pair.ours.paths().len(), 1);
    pair.exchange(MIB, || ()).await;
    pair.finish().await;
}

/// Path status management: the frames of both sides, and how our sender reacts.
async fn backup_paths_are_left_alone(client: Client) {
    let mut pair = Pair::new(client).await;
    let id = pair.open(1).await;
    let ids = [PathId::ZERO, id];
    let path = pair.ours.path(id).unwrap();
    let noq_path = pair.noq.path(noq_id(id)).unwrap();

    noq_path.set_status(noq::PathStatus::Backup).unwrap();
    let told = PathEvent::RemoteStatus {
        id,
        status: PathStatus::Backup,
    };
    pair.our_event(|event| *event == told).await;
    assert_eq!(path.remote_status(), Ok(Some(PathStatus::Backup)));
    assert_eq!(
        path.status(),
        Ok(PathStatus::Available),
        "each side has its own"
    );
    pair.only_first_path_is_used(ids).await;

    noq_path.set_status(noq::PathStatus::Available).unwrap();
    let told = PathEvent::RemoteStatus {
        id,
        status: PathStatus::Available,
    };
    pair.our_event(|event| *event == told).await;
    let before = pair.sent(&ids);
    pair.upload(8 * MIB, || ()).await;
    let after = pair.sent(&ids);
    assert!(after[0] > before[0] && after[1] > before[1]);

    for status in [
        PathStatus::Backup,
        PathStatus::Available,
        PathStatus::Backup,
    ] {
        path.set_status(status).unwrap();
        let told = match status {
            PathStatus::Backup => noq::PathStatus::Backup,
            _ => noq::PathStatus::Available,
        };
        pair.noq_event(|event| match event {
            noq::PathEvent::RemoteStatus { id: of, status, .. } => {
                *of == noq_id(id) && *status == told
            }
            _ => false,
        })
        .await;
    }
    pair.only_first_path_is_used(ids).await;

    // The available path closes, so only the backup path is left.
    pair.ours
        .path(PathId::ZERO)
        .unwrap()
        .close(PathErrorCode::NO_ERROR)
        .unwrap();
    pair.abandoned(PathId::ZERO, PathErrorCode::NO_ERROR, false)
        .await;
    pair.exchange(MIB, || ()).await;
    pair.finish().await;
}

impl Pair {
    /// Sends data, and checks that only the first path carried it. If the first path had trouble
    /// meanwhile, for example because the machine paused, the other path was used legitimately. The
    /// check is then repeated.
    async fn only_first_path_is_used(&mut self, ids: [PathId; 2]) {
        let in_trouble = |events: &mut mpquic::PathEvents| {
            let events = std::iter::from_fn(|| events.try_recv());
            events
                .filter(|event| {
                    matches!(
                        event,
                        PathEvent::Suspect { .. } | PathEvent::Recovered { .. }
                    )
                })
                .count()
                > 0
        };
        loop {
            in_trouble(&mut self.our_events);
            let before = self.sent(&ids);
            self.upload(8 * MIB, || ()).await;
            let after = self.sent(&ids);
            if in_trouble(&mut self.our_events) {
                continue;
            }
            assert_eq!(after[1], before[1], "a backup path carried data");
            assert!(after[0] >= before[0] + 8 * MIB as u64);
            return;
        }
    }
}

/// MAX_PATH_ID and PATHS_BLOCKED: a side that opens more paths than the peer allows gets a local
/// error.
async fn the_limit_of_paths_holds(client: Client) {
    let (ours, noq) = match client {
        Client::Ours => (4, 2),
        Client::Noq => (2, 4),
    };
    let mut pair = Pair::with(
        client,
        our_transport(ours),
        noq_transport(noq),
        Between::Nothing,
    )
    .await;
    pair.open(1).await;
    let (local, remote) = pair.route(2);
    match client {
        Client::Ours => {
            let error = pair.ours.open_path(local, remote).await.unwrap_err();
            let limit = PathId(1);
            let expected = OpenPathError::Path(PathError::NoPathIdLeft { limit });
            assert_eq!(error, expected);
            while pair.noq.stats().frame_rx.paths_blocked == 0 {
                pair.round_trip().await;
            }
        }
        Client::Noq => {
            let path = noq::FourTuple::new(remote, Some(local));
            let opened = pair.noq.open_path(path, noq::PathStatus::Available).await;
            assert_eq!(opened.unwrap_err(), noq::PathError::MaxPathIdReached);
            while pair.noq.stats().frame_tx.paths_blocked == 0 {
                pair.round_trip().await;
            }
        }
    }
    pair.exchange(MIB, || ()).await;
    assert_eq!(pair.ours.paths().len(), 2);
    pair.finish().await;
}

/// An abandoned path raises MAX_PATH_ID on both sides. Its ID is never used again.
async fn an_abandoned_path_makes_room_for_another(client: Client) {
    let mut pair = Pair::with(client, our_transport(2), noq_transport(2), Between::Nothing).await;
    for round in 1..=4 {
        let id = pair.open(1).await;
        assert_eq!(id, PathId(round));
        pair.exchange(MIB, || ()).await;
        let by_noq = round % 2 == 0;
        let code = PathErrorCode::APPLICATION_ABANDON_PATH;
        match by_noq {
            true => pair.noq.path(noq_id(id)).unwrap().close().unwrap(),
            false => pair.ours.path(id).unwrap().close(code).unwrap(),
        }
        pair.abandoned(id, code, by_noq).await;
    }
    let id = pair.open(2).await;
    assert_eq!(id, PathId(5));
    pair.exchange(MIB, || ()).await;
    pair.finish().await;
}

/// RFC 10069 section 1: several path IDs may have the same 4-tuple.
async fn two_paths_on_the_same_addresses(client: Client) {
    let mut pair = Pair::new(client).await;
    let id = pair.open(0).await;
    let ids = [PathId::ZERO, id];
    pair.exchange(8 * MIB, || ()).await;
    assert!(pair.sent(&ids).iter().all(|sent| *sent > 0));
    assert!(pair.received(&ids).iter().all(|received| *received > 0));
    pair.finish().await;
}

/// One key phase for all paths, each with its own packet numbers.
async fn keys_are_updated_with_several_paths(client: Client) {
    let mut pair = Pair::new(client).await;
    pair.open(1).await;
    pair.open(2).await;
    pair.exchange(16 * MIB, || pair.ours.force_key_update())
        .await;
    pair.exchange(16 * MIB, || pair.noq.force_key_update())
        .await;
    assert_eq!(pair.ours.stats().undecryptable_packets, 0);
    pair.finish().await;
}

/// The same tests over links with losses and reordering, so that every frame is lost sometimes.
async fn links_that_lose_and_reorder(client: Client) {
    let mut link = LinkConfig::new(200_000_000, Duration::from_millis(5)).with_loss(0.02);
    link.reordering = 0.01;
    link.duplication = 0.01;
    link.corruption = 0.001;
    let mut pair = Pair::with(
        client,
        our_transport(3),
        noq_transport(3),
        Between::Links(&link),
    )
    .await;
    let code = PathErrorCode::APPLICATION_ABANDON_PATH;
    let (first, second) = (pair.open(1).await, pair.open(2).await);
    for id in [first, second] {
        let by_noq = id == second;
        let (ours, noq) = (pair.ours.path(id), pair.noq.path(noq_id(id)));
        let (ours, noq) = (ours.unwrap(), noq.unwrap());
        let close = || match by_noq {
            true => noq.close().unwrap(),
            false => ours.close(code).unwrap(),
        };
        pair.exchange(2 * MIB, close).await;
        pair.abandoned(id, code, by_noq).await;
        let again = pair.open(3).await;
        ours_or_noq_updates(&pair, by_noq).await;
        assert_eq!(again, PathId(if by_noq { 4 } else { 3 }));
    }
    assert_eq!(pair.ours.paths().len(), 3);
    pair.finish().await;
}

async fn ours_or_noq_updates(pair: &Pair, noq: bool) {
    let update = || match noq {
        true => pair.noq.force_key_update(),
        false => pair.ours.force_key_update(),
    };
    pair.exchange(2 * MIB, update).await;
}

/// Probing and migration: when the 4-tuple of a path ID changes, it is the same path to another
/// address. First the port changes, then the host.
async fn a_nat_moves_a_path(client: Client) {
    let (ours, noq) = (our_transport(2), noq_transport(2));
    let mut pair = Pair::with(client, ours, noq, Between::Nat).await;
    let id = pair.open(1).await;
    let forget = pair.nat.as_ref().unwrap().forget.clone();
    // The client's address on the path, as the server sees it.
    let seen = |pair: &Pair| match pair.client {
        Client::Ours => {
            let path = pair.noq.path(noq_id(id)).unwrap();
            path.network_path().unwrap().remote()
        }
        Client::Noq => {
            let path = pair.ours.path(id).unwrap();
            path.network_path().unwrap().remote
        }
    };
    let mut before = seen(&pair);
    for host in [loopback(1), loopback(9)] {
        pair.exchange(2 * MIB, || forget.send(host).unwrap()).await;
        // The NAT drops datagrams to the old port, so the client must send first. noq does not
        // report a migration to its application, so the test continues until it sees one.
        while seen(&pair) == before {
            match client {
                Client::Ours => pair.ours.ping(),
                Client::Noq => pair.noq.path(noq_id(id)).unwrap().ping().unwrap(),
            }
            pair.exchange(MIB, || ()).await;
        }
        before = seen(&pair);
        assert_eq!(before.ip(), host);
        if pair.client == Client::Noq {
            pair.our_event(|event| *event == PathEvent::Moved { id })
                .await;
        }
        // The other path carried everything meanwhile. Now this path must carry data again.
        let sent = pair.sent(&[id]);
        while pair.sent(&[id]) == sent {
            pair.exchange(2 * MIB, || ()).await;
        }
    }
    assert_eq!(pair.ours.paths().len(), 2);
    pair.finish().await;
}
