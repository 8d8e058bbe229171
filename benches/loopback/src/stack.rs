//! What the measurements ask of a QUIC implementation; each does it in a file of its own.

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use serde_json::Value;
use tokio::runtime::Handle;

pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// The name in the certificate.
pub(crate) const NAME: &str = "localhost";

/// Connections may be idle for so long, seconds.
pub(crate) const IDLE: u64 = 600;

/// Bytes that one call writes or reads at most.
pub(crate) const PIECE: usize = 64 << 10;

/// Sizes of the sockets' buffers, bytes: those that mpquic asks for by itself.
pub(crate) const SEND_BUFFER: usize = 4 << 20;
pub(crate) const RECEIVE_BUFFER: usize = 8 << 20;

/// What is sent.
pub(crate) static ZEROS: [u8; PIECE] = [0; PIECE];

/// A stack as it is, or with something else.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Variant {
    #[default]
    Usual,
    /// The peer is not asked for fewer acknowledgements.
    AllAcks,
    /// With BBRv3 for the controller that all others have.
    Bbr3,
}

/// How the application sends and receives.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Calls {
    /// Owned pieces, which need not be copied, in place of `read` and `write`.
    pub(crate) chunks: bool,
    /// The server has its default limits for half-open connections; without, none.
    pub(crate) guarded: bool,
    /// The largest datagram that is probed for and received; `None` is the default of each implementation.
    pub(crate) mtu: Option<u16>,
    /// The system gets each datagram by itself.
    pub(crate) one_by_one: bool,
    pub(crate) variant: Variant,
    /// A client resumes its sessions; without, each handshake is a full one.
    pub(crate) resume: bool,
}

/// Marks a number of bytes as those that the client sends.
pub(crate) const UP: u64 = 1 << 63;

/// What a server counted so far.
pub(crate) type Counted = Box<dyn Fn() -> Value + Send>;

/// An implementation.
pub(crate) trait Stack: Send + Sync + Sized + 'static {
    type Connection: Clone + Send + Sync + 'static;

    /// Starts a server: a shard on each of these runtimes. It writes its certificate to `certificate`. Each stream asks with 8
    /// bytes for as many bytes; with [`UP`], it says that so many follow, which are answered with 8 bytes. Returns its address,
    /// and what says what it counted.
    fn serve(
        runtimes: &[Handle],
        certificate: &Path,
        calls: Calls,
    ) -> Result<(SocketAddr, Counted)>;

    /// A client with these local addresses.
    fn client(certificate: &Path, locals: &[Ipv4Addr], calls: Calls) -> Result<Self>;

    /// A connection with a path from each local address.
    fn connect(&self, server: SocketAddr) -> impl Future<Output = Result<Self::Connection>> + Send;

    /// Asks for so many bytes on a stream, and reads them.
    fn fetch(
        connection: &Self::Connection,
        bytes: u64,
        calls: Calls,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Sends so many bytes on a stream, and waits until the server has them.
    fn give(
        _connection: &Self::Connection,
        _bytes: u64,
        _calls: Calls,
    ) -> impl Future<Output = Result<()>> + Send {
        async { Err("this one only receives".into()) }
    }

    /// Datagrams that the client sent on it; NaN where nobody counts.
    fn datagrams(_connection: &Self::Connection) -> f64 {
        f64::NAN
    }
}

/// A certificate and its key, made anew.
pub(crate) struct Identity {
    pub(crate) certificate: rustls::pki_types::CertificateDer<'static>,
    pub(crate) key: rustls::pki_types::PrivateKeyDer<'static>,
}

impl Identity {
    /// Makes one and writes the certificate to the file, for the client.
    pub(crate) fn new(file: &Path) -> Result<Self> {
        let made = rcgen::generate_simple_self_signed(vec![NAME.into()])?;
        std::fs::write(file, made.cert.der())?;
        Ok(Self {
            certificate: made.cert.der().clone(),
            key: rustls::pki_types::PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into()),
        })
    }

    /// The same for every implementation.
    pub(crate) fn server(&self) -> Result<rustls::ServerConfig> {
        let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], self.key.clone_key())?;
        tls.max_early_data_size = u32::MAX;
        Ok(tls)
    }
}

/// A client that trusts the certificate in the file.
pub(crate) fn client_tls(file: &Path, calls: Calls) -> Result<rustls::ClientConfig> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(std::fs::read(file)?.into())?;
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    if !calls.resume {
        tls.resumption = rustls::client::Resumption::disabled();
    }
    Ok(tls)
}
