//! One connection between this crate and noq, with both of its ends, and the network between them.

use std::future::poll_fn;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use mpquic::{PathErrorCode, PathEvent, PathId, TransportConfig, VarInt, rustls, sched};
use mpquic_sim::{LinkConfig, Relay};
use noq_proto::PathAbandonReason;
use rustls::pki_types::PrivateKeyDer;
use tokio_stream::Stream;

use crate::streams::{receive, send_all};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Client {
    Ours,
    Noq,
}

/// The last bytes of the client's and the server's addresses on the first path, on one from another
/// local address, on one to another remote address, and on one where both differ.
pub(crate) const ROUTES: [(u8, u8); 4] = [(1, 1), (2, 1), (1, 3), (4, 4)];

pub(crate) fn loopback(last: u8) -> IpAddr {
    Ipv4Addr::new(127, 0, 0, last).into()
}

/// What lies between client and server.
#[derive(Clone, Copy)]
pub(crate) enum Between<'a> {
    Nothing,
    /// A relay on each route.
    Links(&'a LinkConfig),
    /// A NAT on the second route.
    Nat,
}

/// A NAT for one client. It forwards in both directions, and can forget its mappings.
pub(crate) struct Nat {
    address: SocketAddr,
    pub(crate) forget: tokio::sync::mpsc::UnboundedSender<IpAddr>,
}

impl Nat {
    pub(crate) fn new(target: SocketAddr) -> Self {
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
pub(crate) struct Pair {
    pub(crate) client: Client,
    /// The server addresses of the routes.
    remotes: Vec<SocketAddr>,
    relays: Vec<Relay>,
    pub(crate) nat: Option<Nat>,
    pub(crate) ours: mpquic::Connection,
    pub(crate) noq: noq::Connection,
    pub(crate) our_events: mpquic::PathEvents,
    noq_events: noq::PathEvents,
    endpoints: (mpquic::Endpoint, noq::Endpoint),
}

pub(crate) fn our_transport(max_paths: u32) -> TransportConfig {
    let mut transport = TransportConfig::default();
    // Uses every path that has room, which the tests check.
    transport
        .scheduler(|| Box::new(sched::RoundRobin::default()))
        .max_paths(max_paths);
    transport
}

pub(crate) fn noq_transport(max_paths: u32) -> noq::TransportConfig {
    let mut transport = noq::TransportConfig::default();
    transport.max_concurrent_multipath_paths(max_paths);
    transport
}

pub(crate) fn tls() -> (rustls::ClientConfig, rustls::ServerConfig) {
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
    pub(crate) async fn new(client: Client) -> Self {
        Self::with(client, our_transport(4), noq_transport(4), Between::Nothing).await
    }

    pub(crate) async fn with(
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
                client.set_path_manager(mpquic::PathManager::Manual);
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
    pub(crate) fn route(&self, number: usize) -> (IpAddr, SocketAddr) {
        (loopback(ROUTES[number].0), self.remotes[number])
    }

    /// The client opens a path along a route. Waits until both sides have validated it.
    pub(crate) async fn open(&mut self, number: usize) -> PathId {
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

    pub(crate) async fn noq_opens(
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

    pub(crate) async fn our_event(&mut self, wanted: impl Fn(&PathEvent) -> bool) -> PathEvent {
        loop {
            let event = self.our_events.recv().await.expect("our side ended");
            if wanted(&event) {
                return event;
            }
        }
    }

    pub(crate) async fn noq_event(
        &mut self,
        wanted: impl Fn(&noq::PathEvent) -> bool,
    ) -> noq::PathEvent {
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
    pub(crate) async fn abandoned(&mut self, id: PathId, code: PathErrorCode, by_noq: bool) {
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
    pub(crate) fn sent(&self, ids: &[PathId]) -> Vec<u64> {
        let sent = |id: &PathId| self.ours.path(*id).unwrap().stats().unwrap();
        ids.iter().map(|id| sent(id).sent_stream_bytes).collect()
    }

    /// STREAM frames that noq has received on each path.
    pub(crate) fn received(&self, ids: &[PathId]) -> Vec<u64> {
        let received = |id: &PathId| self.noq.path_stats(noq_id(*id)).unwrap().frame_rx;
        ids.iter().map(|id| received(id).stream).collect()
    }

    // -- data

    /// Sends to noq, and calls `mid` when a quarter has arrived. The receiver does not read during
    /// this call. A quarter is more than flow control allows in flight, so the call is in the
    /// middle of the transfer.
    pub(crate) async fn upload(&self, len: usize, mid: impl FnOnce()) {
        let (mut send, mut recv) = (self.ours.open_uni().await.unwrap(), None);
        let receive = async {
            let stream = recv.insert(self.noq.accept_uni().await.unwrap());
            receive(stream, len, mid).await
        };
        let (sent, received) = tokio::join!(send_all(&mut send, len), receive);
        assert_eq!(sent, received);
    }

    /// noq sends to us. Calls `mid` when a quarter has arrived.
    pub(crate) async fn download(&self, len: usize, mid: impl FnOnce()) {
        let (mut send, mut recv) = (self.noq.open_uni().await.unwrap(), None);
        let receive = async {
            let stream = recv.insert(self.ours.accept_uni().await.unwrap());
            receive(stream, len, mid).await
        };
        let (sent, received) = tokio::join!(send_all(&mut send, len), receive);
        assert_eq!(sent, received);
    }

    /// The same amount of data in both directions at once.
    pub(crate) async fn exchange(&self, len: usize, mid: impl FnOnce()) {
        tokio::join!(self.upload(len, mid), self.download(len, || ()));
    }

    /// Sends a byte in each direction. After this, everything that either side sent before has
    /// arrived.
    pub(crate) async fn round_trip(&self) {
        self.upload(1, || ()).await;
        self.download(1, || ()).await;
    }

    /// Checks that both sides still work, and that the close of one reaches the other.
    pub(crate) async fn finish(self) {
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

pub(crate) fn noq_id(id: PathId) -> noq::PathId {
    id.0.into()
}

pub(crate) fn our_id(id: noq::PathId) -> PathId {
    PathId(id.to_string().parse().unwrap())
}
