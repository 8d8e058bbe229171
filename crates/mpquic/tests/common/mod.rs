//! What the integration tests share: certificates, endpoints over loopback, a deadline.
#![allow(
    dead_code,
    unused_imports,
    reason = "each test binary uses its part of it"
)]

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use mpquic::{
    ClientConfig, Connection, Endpoint, EndpointConfig, FourTuple, PathManager, ServerConfig,
    TransportConfig, rustls,
};
pub(crate) use mpquic_test_support::runtime::{run, run_on_one_thread};
pub(crate) use mpquic_test_support::tls::Identity;

pub(crate) const ALPN: &[u8] = b"mpquic-test";

pub(crate) fn identity() -> Identity {
    Identity::new()
}

pub(crate) fn server_tls(identity: &Identity) -> rustls::ServerConfig {
    let mut tls = identity.server();
    tls.alpn_protocols = vec![ALPN.to_vec()];
    tls
}

pub(crate) fn server_config(identity: &Identity, transport: TransportConfig) -> ServerConfig {
    let mut config = ServerConfig::new(Arc::new(server_tls(identity))).unwrap();
    config.transport(Arc::new(transport));
    config
}

pub(crate) fn client_tls(identity: &Identity) -> rustls::ClientConfig {
    let mut tls = identity.client();
    tls.alpn_protocols = vec![ALPN.to_vec()];
    tls
}

pub(crate) fn client_config(identity: &Identity, transport: TransportConfig) -> ClientConfig {
    let mut config = ClientConfig::new(Arc::new(client_tls(identity))).unwrap();
    config.transport(Arc::new(transport));
    config
}

/// The first datagram of a client that is never heard of again.
pub(crate) fn client_hello(config: &ClientConfig, seed: u8, number: u32) -> Vec<u8> {
    let mut bytes = [seed; 32];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    let mut endpoint = mpquic_proto::Endpoint::new(Arc::new(EndpointConfig::new(bytes)), None);
    let path = FourTuple {
        local: loopback(1),
        remote: "127.0.0.1:4433".parse().unwrap(),
    };
    let now = Instant::now();
    let (_, mut connection) = endpoint
        .connect(now, config.clone(), path, "localhost")
        .unwrap();
    let mut datagram = Vec::new();
    let _ = connection.poll_transmit(now, 1, &mut datagram).unwrap();
    datagram
}

pub(crate) fn loopback(last: u8) -> SocketAddr {
    (Ipv4Addr::new(127, 0, 0, last), 0).into()
}

/// Two endpoints; the client has as many local addresses as asked for.
pub(crate) struct Pair {
    pub(crate) client: Endpoint,
    pub(crate) server: Endpoint,
    pub(crate) server_addr: SocketAddr,
    pub(crate) identity: Identity,
}

impl Pair {
    pub(crate) fn new() -> Self {
        Self::with(&[loopback(1)], |_| ())
    }

    pub(crate) fn with(locals: &[SocketAddr], configure: impl Fn(&mut TransportConfig)) -> Self {
        let identity = identity();
        let transport = || {
            let mut transport = TransportConfig::default();
            configure(&mut transport);
            transport
        };
        let server =
            Endpoint::server(server_config(&identity, transport()), &[loopback(1)]).unwrap();
        let client = Endpoint::client(locals).unwrap();
        // Tests open the paths that they want, at their time.
        client.set_path_manager(PathManager::Manual);
        client.set_default_client_config(client_config(&identity, transport()));
        Self {
            server_addr: server.local_addrs()[0],
            client,
            server,
            identity,
        }
    }

    /// Client's and server's end of a new connection.
    pub(crate) async fn connect(&self) -> (Connection, Connection) {
        let connecting = self.client.connect(self.server_addr, "localhost").unwrap();
        let accepting = async { self.server.accept().await.unwrap().await.unwrap() };
        let (client, server) = tokio::join!(connecting, accepting);
        (client.unwrap(), server)
    }
}

/// Bytes that tell where they belong.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}
