//! gRPC over multipath QUIC: what is between tonic and a connection, to be copied.
//!
//! - A stream of the connection is to tonic what a TCP connection is elsewhere: a channel has one, with HTTP/2 inside, and opens another one if that ends.
//!   Calls of a channel wait for each other's lost packets, as over TCP; what should not has a channel of its own.
//! - A path that dies takes nothing with it: the connection sends on others what was on its way, and calls and streams of messages go on.
//! - QUIC has encrypted and authenticated it all: HTTP/2 goes inside as it is.

use std::error::Error;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use mpquic::{ClientConfig, Connection, Endpoint, RecvStream, SendStream, ServerConfig};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite, Join, ReadBuf};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::Routes;
use tonic::transport::server::Connected;
use tonic::transport::{Channel, Server};
use tower::service_fn;

type Failure = Box<dyn Error + Send + Sync>;

/// The application protocol: ours, as no standard names one for gRPC over streams.
const ALPN: &[u8] = b"mpquic-grpc";
/// Streams of all clients that wait to be served.
const WAITING: usize = 64;
/// How long calls have to finish when the server stops.
const PATIENCE: Duration = Duration::from_secs(10);

/// A stream of a client, as tonic serves it.
struct Stream {
    halves: Join<RecvStream, SendStream>,
    remote: SocketAddr,
}

impl Connected for Stream {
    type ConnectInfo = SocketAddr;

    /// What services read from a request's extensions: the address on which the client began.
    fn connect_info(&self) -> SocketAddr {
        self.remote
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.halves).poll_read(cx, buf)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.halves).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.halves).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.halves).poll_shutdown(cx)
    }
}

/// Opens the sockets, with a certificate that is made here and left in `cert`. A real server has one of an authority.
///
/// # Errors
///
/// If an address cannot be bound, or the file not be written.
pub fn listen(addresses: &[SocketAddr], cert: &Path) -> Result<Endpoint, Failure> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
    std::fs::write(cert, made.cert.pem())?;
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let mut tls = rustls::ServerConfig::builder_with_protocol_versions(&[&rustls::version::TLS13])
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)?;
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let config = ServerConfig::new(Arc::new(tls))?;
    Ok(Endpoint::server(config, addresses)?)
}

/// Serves `services` on all streams of all connections until `stop` is done, then lets calls finish.
///
/// # Errors
///
/// If tonic cannot serve.
pub async fn serve(
    endpoint: &Endpoint,
    services: Routes,
    stop: impl Future<Output = ()>,
) -> Result<(), Failure> {
    let (found, streams) = mpsc::channel(WAITING);
    let accepting = async {
        while let Some(incoming) = endpoint.accept().await {
            let found = found.clone();
            tokio::spawn(async move {
                let remote = incoming.remote_address();
                if let Err(error) = accept(incoming.await, &found).await {
                    eprintln!("{remote}: {error}");
                }
            });
        }
    };
    let (stopping, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = Server::builder().add_routes(services);
    let serving = server.serve_with_incoming_shutdown(ReceiverStream::new(streams), async {
        drop(stopped.await);
    });
    let mut serving = std::pin::pin!(serving);
    tokio::select! {
        () = accepting => {}
        served = &mut serving => return Ok(served?),
        () = stop => {}
    }
    drop(stopping);
    let served = tokio::time::timeout(PATIENCE, serving).await;
    endpoint.close(0_u32.into(), b"the server stops");
    endpoint.wait_idle().await;
    served.map_or(Ok(()), |served| Ok(served?))
}

/// The streams of a connection, until it ends.
async fn accept(
    connection: Result<Connection, mpquic::ConnectionError>,
    found: &mpsc::Sender<io::Result<Stream>>,
) -> Result<(), mpquic::ConnectionError> {
    let connection = connection?;
    let remote = connection.remote_address();
    loop {
        let (send, recv) = match connection.accept_bi().await {
            Ok(halves) => halves,
            Err(mpquic::ConnectionError::ApplicationClosed(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        let halves = tokio::io::join(recv, send);
        if found.send(Ok(Stream { halves, remote })).await.is_err() {
            // The server stops.
            return Ok(());
        }
    }
}

/// Connects to a server from these local addresses; the certificate is the file that it left.
///
/// # Errors
///
/// If it cannot be reached, or is another one.
pub async fn connect(
    endpoint: &Endpoint,
    server: SocketAddr,
    cert: &Path,
) -> Result<Connection, Failure> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(cert)?)?;
    let versions = [&rustls::version::TLS13];
    let tls = rustls::ClientConfig::builder_with_protocol_versions(&versions);
    let mut tls = tls.with_root_certificates(roots).with_no_client_auth();
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let config = ClientConfig::new(Arc::new(tls))?;
    Ok(endpoint.connect_with(config, server, "localhost")?.await?)
}

/// A channel for tonic's clients on a stream of the connection, and on another one when that ends.
pub fn channel(connection: Connection) -> Channel {
    // Nobody resolves the name: QUIC knows with whom it speaks.
    let named = tonic::transport::Endpoint::from_static("http://localhost");
    named.connect_with_connector_lazy(service_fn(move |_| {
        let connection = connection.clone();
        async move {
            let (send, recv) = connection.open_bi().await?;
            Ok::<_, mpquic::ConnectionError>(TokioIo::new(tokio::io::join(recv, send)))
        }
    }))
}
