//! Two QUIC stacks behind one small interface, so that an exercise is written once and runs with
//! either stack in either role.

mod mpquic_stack;
#[allow(dead_code, reason = "only the runner has it")]
mod noq_stack;
mod quinn_stack;
mod stack;

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CipherSuite, DigitallySignedStruct, RootCertStore, SignatureScheme};

pub(crate) use mpquic_stack::Mpquic;
#[allow(unused_imports, reason = "only the runner has it")]
pub(crate) use noq_stack::Noq;
pub(crate) use quinn_stack::Quinn;

pub(crate) const ALPN: &[u8] = b"interop";

pub(crate) const LOOPBACK: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Why a connection ended, for both stacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// The peer's application closed it.
    Application(u64, Vec<u8>),
    /// The peer's transport closed it with this code, and this reason.
    PeerTransport(u64, String),
    /// Our transport closed it with this code, for this reason.
    OwnTransport(u64, String),
    /// A stateless reset.
    Reset,
    Version,
    TimedOut,
    Local,
    Other(String),
}

impl End {
    /// The code with which the peer's transport closed the connection.
    pub(crate) const fn peer_code(&self) -> Option<u64> {
        match self {
            Self::PeerTransport(code, _) => Some(*code),
            _ => None,
        }
    }

    /// The code with which our transport closed it.
    pub(crate) const fn own_code(&self) -> Option<u64> {
        match self {
            Self::OwnTransport(code, _) => Some(*code),
            _ => None,
        }
    }
}

/// Why a half of a stream ended early, for both stacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StreamEnd {
    Stopped(u64),
    Reset(u64),
    Lost(End),
    Other(String),
}

/// Why a datagram was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DatagramRefused {
    TooLarge,
    UnsupportedByPeer,
    Other(String),
}

pub(crate) trait SendHalf: Send + Sync + 'static {
    fn write_all(&mut self, data: &[u8]) -> impl Future<Output = Result<(), StreamEnd>> + Send;
    fn finish(&mut self);
    fn reset(&mut self, code: u32);
    /// `Ok(None)` when the peer has received everything.
    fn stopped(&self) -> impl Future<Output = Result<Option<u64>, End>> + Send;
}

pub(crate) trait RecvHalf: Send + Sync + 'static {
    fn read(
        &mut self,
        buf: &mut [u8],
    ) -> impl Future<Output = Result<Option<usize>, StreamEnd>> + Send;
    fn stop(&mut self, code: u32);
}

/// One end of a connection. Operations that never fail in an exercise panic on errors.
pub(crate) trait Peer: std::fmt::Debug + Clone + Send + Sync + 'static {
    type Send: SendHalf;
    type Recv: RecvHalf;
    fn open_bi(&self) -> impl Future<Output = (Self::Send, Self::Recv)> + Send;
    fn open_uni(&self) -> impl Future<Output = Self::Send> + Send;
    fn accept_bi(&self) -> impl Future<Output = Result<(Self::Send, Self::Recv), End>> + Send;
    fn accept_uni(&self) -> impl Future<Output = Result<Self::Recv, End>> + Send;
    fn send_datagram(&self, data: Bytes) -> Result<(), DatagramRefused>;
    fn read_datagram(&self) -> impl Future<Output = Result<Bytes, End>> + Send;
    fn max_datagram_size(&self) -> Option<usize>;
    fn close(&self, code: u32, reason: &[u8]);
    fn closed(&self) -> impl Future<Output = End> + Send;
    fn force_key_update(&self);
    /// The number of key updates, if the stack counts them.
    fn key_updates(&self) -> Option<u64>;
    fn alpn(&self) -> Option<Vec<u8>>;
    /// Only on servers.
    fn server_name(&self) -> Option<String>;
    fn peer_identity(&self) -> Option<Vec<CertificateDer<'static>>>;
    fn exported_key(&self) -> [u8; 32];
    fn remote_address(&self) -> SocketAddr;
}

/// How a server treats the next client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Accept,
    Refuse,
    /// Sends a stateless Retry, then accepts.
    Retry,
}

/// A QUIC implementation.
pub(crate) trait Stack: 'static {
    type Endpoint: Clone + Send + Sync + 'static;
    type Peer: Peer;
    fn client(setup: &Setup) -> Self::Endpoint {
        Self::client_from(setup, LOOPBACK)
    }
    fn client_from(setup: &Setup, local: SocketAddr) -> Self::Endpoint;
    fn server(setup: &Setup, socket: std::net::UdpSocket) -> Self::Endpoint;
    fn local_address(endpoint: &Self::Endpoint) -> SocketAddr;
    /// Uses the endpoint's configuration. May be called repeatedly.
    fn connect(
        endpoint: &Self::Endpoint,
        remote: SocketAddr,
    ) -> impl Future<Output = Result<Self::Peer, End>> + Send;
    fn answer(
        endpoint: &Self::Endpoint,
        answer: Answer,
    ) -> impl Future<Output = Result<Self::Peer, End>> + Send;
    /// Has the clients of this endpoint go on from another port.
    fn move_client(endpoint: &Self::Endpoint);
    fn wait_idle(endpoint: &Self::Endpoint) -> impl Future<Output = ()> + Send;
    /// Writes a request before the handshake is complete, and waits for the answer: whether the server
    /// accepted early data, and the answer, which is `None` if it did not. `None` without a ticket.
    fn ask_early(
        endpoint: &Self::Endpoint,
        remote: SocketAddr,
        request: Vec<u8>,
    ) -> impl Future<Output = Option<(Self::Peer, bool, Option<Vec<u8>>)>> + Send;
    /// Accepts a connection and answers its first request with itself, before the handshake is complete if the
    /// request came early. Whether it did.
    fn answer_early(endpoint: &Self::Endpoint) -> impl Future<Output = (Self::Peer, bool)> + Send;
}

/// Implements [`Stack::ask_early`] and [`Stack::answer_early`], which are the same for both stacks but for their types.
macro_rules! early_data {
    () => {
        async fn ask_early(
            endpoint: &Endpoint,
            remote: SocketAddr,
            request: Vec<u8>,
        ) -> Option<(Connection, bool, Option<Vec<u8>>)> {
            let connecting = endpoint.connect(remote, "localhost").unwrap();
            let (connection, accepted) = connecting.into_0rtt().ok()?;
            let (mut send, mut recv) = connection.open_bi().await.unwrap();
            // A server that refuses early data may have said so by now.
            if send.write_all(&request).await.is_ok() {
                send.finish().ok();
            }
            let answer = recv.read_to_end(1 << 20).await.ok();
            Some((Connection(connection), accepted.await, answer))
        }

        async fn answer_early(endpoint: &Endpoint) -> (Connection, bool) {
            let incoming = endpoint.accept().await.unwrap();
            let Ok((connection, _)) = incoming.accept().unwrap().into_0rtt() else {
                panic!("servers can always answer early");
            };
            let (mut send, mut recv) = connection.accept_bi().await.unwrap();
            let request = recv.read_to_end(1 << 20).await.unwrap();
            let early = recv.is_0rtt();
            send.write_all(&request).await.unwrap();
            send.finish().unwrap();
            (Connection(connection), early)
        }
    };
}
pub(crate) use early_data;

/// A certificate chain (leaf first), its key, and the root that signed it.
pub(crate) struct Identity {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
    pub(crate) root: CertificateDer<'static>,
}

impl Identity {
    /// A leaf that is signed by a root, and `extra` more certificates in the chain that are not
    /// needed.
    pub(crate) fn new(extra: usize) -> Self {
        use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
        let root_key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        // Each root has its own name. Otherwise, a wrong root would look like a forgery of the
        // right one.
        let name = format!("{:x?}", &root_key.public_key_raw()[..16]);
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = params.self_signed(&root_key).unwrap().der().clone();
        let issuer = Issuer::new(params, root_key);
        let leaf = |key: &KeyPair| {
            let params = CertificateParams::new(vec!["localhost".into()]).unwrap();
            params.signed_by(key, &issuer).unwrap().der().clone()
        };
        let key = KeyPair::generate().unwrap();
        let mut chain = vec![leaf(&key)];
        chain.extend((0..extra).map(|_| leaf(&KeyPair::generate().unwrap())));
        Self {
            chain,
            key: PrivateKeyDer::Pkcs8(key.serialize_der().into()),
            root,
        }
    }
}

/// Small limits, so that flow control and stream limits are always active.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) streams: u32,
    pub(crate) stream_window: u32,
    pub(crate) window: u32,
}

/// The settings of both stacks and of TLS. A `Stack` uses what its role needs.
pub(crate) struct Setup {
    pub(crate) identity: Identity,
    /// The root that clients trust, if it is not that of `identity`.
    pub(crate) trusted: Option<CertificateDer<'static>>,
    pub(crate) client_alpn: Vec<u8>,
    pub(crate) server_alpn: Vec<u8>,
    pub(crate) suite: Option<CipherSuite>,
    pub(crate) limits: Option<Limits>,
    /// Of both sides.
    pub(crate) idle_timeout: Duration,
    pub(crate) server_takes_datagrams: bool,
    pub(crate) server_needs_client_certificate: bool,
    /// How long the other stack's connection IDs are.
    pub(crate) cid_len: usize,
    /// How long ours are, if an application makes them.
    pub(crate) our_cid_len: Option<usize>,
    /// The only version that quinn supports.
    pub(crate) version: Option<u32>,
    /// The version that our clients begin with.
    pub(crate) our_version: mpquic::Version,
    /// Whether our servers speak version 1 only.
    pub(crate) our_server_knows_v1_only: bool,
    /// Whether packets to us, and to quinn, may come without the QUIC bit (RFC 9287).
    pub(crate) our_quic_bit_greased: bool,
    pub(crate) quinn_quic_bit_greased: bool,
    /// The address that servers ask clients to go on to.
    pub(crate) preferred_address: Option<SocketAddrV4>,
    /// Whether clients and servers allow early data (0-RTT).
    pub(crate) early_data: bool,
    /// How often a client checked a certificate: not when it resumes a session.
    pub(crate) certificate_checks: Arc<AtomicUsize>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            identity: Identity::new(0),
            trusted: None,
            client_alpn: ALPN.to_vec(),
            server_alpn: ALPN.to_vec(),
            suite: None,
            limits: None,
            idle_timeout: Duration::from_secs(30),
            server_takes_datagrams: true,
            server_needs_client_certificate: false,
            cid_len: 8,
            our_cid_len: None,
            version: None,
            our_version: mpquic::Version::V1,
            our_server_knows_v1_only: false,
            our_quic_bit_greased: true,
            quinn_quic_bit_greased: true,
            preferred_address: None,
            early_data: false,
            certificate_checks: Arc::default(),
        }
    }
}

/// Counts how often certificates are checked.
#[derive(Debug)]
struct CountedVerifier {
    verifier: Arc<WebPkiServerVerifier>,
    checks: Arc<AtomicUsize>,
}

impl ServerCertVerifier for CountedVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.checks.fetch_add(1, Ordering::Relaxed);
        self.verifier
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

impl Setup {
    fn provider(&self) -> Arc<rustls::crypto::CryptoProvider> {
        Arc::new(rustls::crypto::ring::default_provider())
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        let root = self.trusted.as_ref().unwrap_or(&self.identity.root);
        roots.add(root.clone()).unwrap();
        roots
    }

    pub(crate) fn client_tls(&self) -> rustls::ClientConfig {
        let mut provider = rustls::crypto::ring::default_provider();
        if let Some(suite) = self.suite {
            // Clients offer their suites, the preferred one first. AES-128-GCM protects Initial
            // packets, so it must be in the list, but may be last.
            provider.cipher_suites.retain(|one| {
                [suite, CipherSuite::TLS13_AES_128_GCM_SHA256].contains(&one.suite())
            });
            provider
                .cipher_suites
                .sort_by_key(|one| one.suite() != suite);
        }
        let provider = Arc::new(provider);
        let roots = Arc::new(self.roots());
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider));
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(CountedVerifier {
                verifier: verifier.build().unwrap(),
                checks: Arc::clone(&self.certificate_checks),
            }));
        let mut tls = if self.server_needs_client_certificate {
            let identity = &self.identity;
            tls.with_client_auth_cert(identity.chain.clone(), identity.key.clone_key())
                .unwrap()
        } else {
            tls.with_no_client_auth()
        };
        tls.alpn_protocols = vec![self.client_alpn.clone()];
        tls.enable_early_data = self.early_data;
        tls
    }

    pub(crate) fn server_tls(&self) -> rustls::ServerConfig {
        let tls = rustls::ServerConfig::builder_with_provider(self.provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap();
        let tls = if self.server_needs_client_certificate {
            let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(
                Arc::new(self.roots()),
                self.provider(),
            );
            tls.with_client_cert_verifier(verifier.build().unwrap())
        } else {
            tls.with_no_client_auth()
        };
        let identity = &self.identity;
        let mut tls = tls
            .with_single_cert(identity.chain.clone(), identity.key.clone_key())
            .unwrap();
        tls.alpn_protocols = vec![self.server_alpn.clone()];
        if self.early_data {
            tls.max_early_data_size = u32::MAX;
        }
        tls
    }
}

/// Two endpoints, one of each stack.
pub(crate) struct Pair<C: Stack, S: Stack> {
    pub(crate) client: C::Endpoint,
    pub(crate) server: S::Endpoint,
    pub(crate) setup: Setup,
}

impl<C: Stack, S: Stack> Pair<C, S> {
    pub(crate) fn new(setup: Setup) -> Self {
        let socket = std::net::UdpSocket::bind(LOOPBACK).unwrap();
        Self {
            client: C::client(&setup),
            server: S::server(&setup, socket),
            setup,
        }
    }

    /// A handshake that may fail. Returns the results of the client and of the server.
    pub(crate) async fn try_connect(
        &self,
        answer: Answer,
    ) -> (Result<C::Peer, End>, Result<S::Peer, End>) {
        tokio::join!(
            C::connect(&self.client, S::local_address(&self.server)),
            S::answer(&self.server, answer),
        )
    }

    /// Opens a connection. Returns the client's and the server's end.
    pub(crate) async fn connect(&self) -> (C::Peer, S::Peer) {
        let (client, server) = self.try_connect(Answer::Accept).await;
        (client.unwrap(), server.unwrap())
    }
}
