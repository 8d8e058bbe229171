//! What the integration tests share: certificates, endpoints over loopback, a deadline.
#![allow(dead_code, reason = "each test binary uses its part of it")]

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mpquic::{
    ClientConfig, Connection, Endpoint, EndpointConfig, FourTuple, PathManager, ServerConfig,
    TransportConfig, rustls,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

pub(crate) const ALPN: &[u8] = b"mpquic-test";

/// Runs a test on several threads. The deadline is there to fail a test that hangs, nothing else:
/// no test depends on how long something takes.
pub(crate) fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(60), test)
            .await
            .expect("the test hangs");
    });
}

/// Runs a test on the one thread that there is, so that all tasks take turns.
pub(crate) fn run_on_one_thread(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(test);
}

pub(crate) struct Identity {
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) key: PrivateKeyDer<'static>,
}

pub(crate) fn identity() -> Identity {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    Identity {
        certificate: made.cert.der().clone(),
        key: PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into()),
    }
}

pub(crate) fn server_tls(identity: &Identity) -> rustls::ServerConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![identity.certificate.clone()], identity.key.clone_key())
        .unwrap();
    tls.alpn_protocols = vec![ALPN.to_vec()];
    tls
}

pub(crate) fn server_config(identity: &Identity, transport: TransportConfig) -> ServerConfig {
    let mut config = ServerConfig::new(Arc::new(server_tls(identity))).unwrap();
    config.transport(Arc::new(transport));
    config
}

pub(crate) fn client_tls(identity: &Identity) -> rustls::ClientConfig {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(identity.certificate.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
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
