//! Serves the files of a folder over HTTP/3, on all paths that a client opens, and takes files if it is told to.

use std::error::Error;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use clap::Parser;
use http::header::{ALLOW, CONTENT_LENGTH};
use http::{Method, Request, Response, StatusCode};
use mpquic::{ConnectionError, rustls};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;

/// How much of a file is read at a time. A request for a file holds about twice as much.
const PIECE: usize = 16 * 1024;
/// How many requests of a connection may hold a file and its pieces at once. The others wait.
const BODIES: usize = 8;
/// How many bytes the fields of a request may take: beyond that, h3 answers 431.
const MAX_FIELDS: u64 = 16 * 1024;

/// How much, and for how long, is still read of a request that is answered already. Chromium shows an answer only when it has sent
/// its request to the end; other clients stop by themselves.
const READ_ON: usize = 16 * 1024 * 1024;
const READ_ON_FOR: Duration = Duration::from_secs(5);

type Answering = h3::server::RequestStream<mpquic_h3::BidiStream<Bytes>, Bytes>;
type Failure = Box<dyn Error + Send + Sync>;

/// Serves the files of a folder over HTTP/3.
///
/// Without --cert and --key it makes itself a certificate for `localhost`, and writes it to --cert-out for the client.
#[derive(Parser)]
#[command(
    after_help = "Example:\n  h3_server --root . --listen 127.0.0.1:4433 --cert-out /tmp/cert.pem"
)]
pub(crate) struct Arguments {
    /// The folder with the files.
    #[arg(long, default_value = ".")]
    root: PathBuf,
    /// Where to listen; may be given several times, for several addresses of this machine.
    #[arg(long, default_value = "127.0.0.1:4433")]
    listen: Vec<SocketAddr>,
    /// The certificate chain, PEM.
    #[arg(long, requires = "key")]
    cert: Option<PathBuf>,
    /// Its private key, PEM.
    #[arg(long, requires = "cert")]
    key: Option<PathBuf>,
    /// Where the certificate is written that is made without --cert.
    #[arg(long, default_value = "h3-cert.pem")]
    cert_out: PathBuf,
    /// A folder for files that clients PUT, as /NAME; anybody may. Without it, PUT is refused.
    #[arg(long)]
    uploads: Option<PathBuf>,
    /// How large such a file may be, in bytes.
    #[arg(long, default_value = "100000000")]
    upload_limit: u64,
}

/// What does not change from one request to the next.
struct Service {
    root: PathBuf,
    uploads: Option<PathBuf>,
    upload_limit: u64,
}

/// A line for people. If nobody can read it, the service goes on: `println` and `eprintln` would panic.
macro_rules! say {
    ($to:expr, $($what:tt)*) => {{
        let _ = writeln!($to, $($what)*);
    }};
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let ended = tokio::runtime::Runtime::new()
        .map_err(|error| format!("no runtime: {error}").into())
        .and_then(|runtime| {
            runtime.block_on(async {
                let endpoint = listen(&arguments)?;
                run(endpoint, arguments, stop()).await
            })
        });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say!(std::io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn identity(
    arguments: &Arguments,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), Box<dyn Error>> {
    if let (Some(cert), Some(key)) = (&arguments.cert, &arguments.key) {
        let named = |path: &Path, error| format!("{}: {error}", path.display());
        let chain = CertificateDer::pem_file_iter(cert)
            .and_then(Iterator::collect)
            .map_err(|error| named(cert, error))?;
        let key = PrivateKeyDer::from_pem_file(key).map_err(|error| named(key, error))?;
        return Ok((chain, key));
    }
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into(), "127.0.0.1".into()])?;
    std::fs::write(&arguments.cert_out, made.cert.pem())
        .map_err(|error| format!("{}: {error}", arguments.cert_out.display()))?;
    let written = arguments.cert_out.display();
    say!(std::io::stdout(), "certificate in {written}");
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    Ok((vec![made.cert.der().clone()], key))
}

/// An endpoint at the addresses that the arguments name. Of a runtime.
pub(crate) fn listen(arguments: &Arguments) -> Result<mpquic::Endpoint, Box<dyn Error>> {
    let (chain, key) = identity(arguments)?;
    let mut tls = rustls::ServerConfig::builder_with_protocol_versions(&[&rustls::version::TLS13])
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let mut transport = mpquic::TransportConfig::default();
    // A client that takes less of what waits for it holds memory, and gets nowhere.
    transport.min_peer_rate(1_000, Duration::from_secs(30));
    let mut config = mpquic::ServerConfig::new(Arc::new(tls))?;
    config.transport(Arc::new(transport));
    let endpoint = mpquic::Endpoint::server(config, &arguments.listen)?;
    for local in endpoint.local_addrs() {
        say!(std::io::stdout(), "listening on https://{local}/");
    }
    Ok(endpoint)
}

/// Serves until it is told to stop.
pub(crate) async fn run(
    endpoint: mpquic::Endpoint,
    arguments: Arguments,
    stop: impl Future<Output = std::io::Result<()>>,
) -> Result<(), Box<dyn Error>> {
    let service = Arc::new(Service {
        root: arguments.root,
        uploads: arguments.uploads,
        upload_limit: arguments.upload_limit,
    });
    let mut stop = std::pin::pin!(stop);
    loop {
        let incoming = tokio::select! {
            incoming = endpoint.accept() => incoming,
            stopped = &mut stop => {
                stopped?;
                break;
            }
        };
        let Some(incoming) = incoming else { break };
        let service = Arc::clone(&service);
        tokio::spawn(async move {
            let connection = match incoming.await {
                Ok(connection) => connection,
                Err(error) => return say!(std::io::stderr(), "a handshake failed: {error}"),
            };
            let remote = connection.remote_address();
            if let Err(error) = serve(connection, service).await {
                say!(std::io::stderr(), "{remote}: {error}");
            }
        });
    }
    // Clients are told that no more comes.
    let no_error = u32::try_from(h3::error::Code::H3_NO_ERROR.value())?;
    endpoint.close(no_error.into(), b"the server stops");
    endpoint.wait_idle().await;
    Ok(())
}

/// Until somebody stops the service: Ctrl-C, or SIGTERM, as `kill`, containers and systemd send it.
async fn stop() -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            pressed = tokio::signal::ctrl_c() => pressed,
            _ = terminate.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await
}

async fn serve(connection: mpquic::Connection, service: Arc<Service>) -> Result<(), Failure> {
    let transport = mpquic_h3::Connection::new(connection.clone());
    let mut requests = h3::server::builder()
        .max_field_section_size(MAX_FIELDS)
        .build::<_, Bytes>(transport)
        .await?;
    let bodies = Arc::new(Semaphore::new(BODIES));
    loop {
        let resolver = match requests.accept().await {
            Ok(Some(resolver)) => resolver,
            Ok(None) => return Ok(()),
            Err(error) if error.is_h3_no_error() => return Ok(()),
            // The service stops.
            Err(_) if connection.close_reason() == Some(ConnectionError::LocallyClosed) => {
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        let service = Arc::clone(&service);
        let bodies = Arc::clone(&bodies);
        let connection = connection.clone();
        tokio::spawn(async move {
            let (request, stream) = match resolver.resolve_request().await {
                Ok(both) => both,
                Err(error) => return say!(std::io::stderr(), "no request: {error}"),
            };
            let Ok(_turn) = bodies.acquire().await else {
                return; // nobody closes it
            };
            let (method, uri) = (request.method(), request.uri());
            // An error leaves the stream, which resets it: the client does not take a part for the whole.
            match service.answer(&request, stream).await {
                Ok(status) => {
                    let paths = connection.paths().len();
                    say!(std::io::stdout(), "{status} {method} {uri}, {paths} paths");
                }
                Err(error) => say!(std::io::stderr(), "{method} {uri}: {error}"),
            }
        });
    }
}

impl Service {
    async fn answer(
        &self,
        request: &Request<()>,
        mut stream: Answering,
    ) -> Result<StatusCode, Failure> {
        let path = request.uri().path();
        let status = match (request.method(), &self.uploads) {
            (&Method::GET | &Method::HEAD, _) => match self.open(path).await {
                Some((file, length)) => {
                    let head = Response::builder().header(CONTENT_LENGTH, length);
                    stream.send_response(head.body(())?).await?;
                    if request.method() == Method::GET {
                        send(file, length, &mut stream).await?;
                    }
                    stream.finish().await?;
                    return Ok(StatusCode::OK);
                }
                None => StatusCode::NOT_FOUND,
            },
            (&Method::PUT, Some(folder)) => self.receive(request, folder, &mut stream).await?,
            // RFC 9110 section 15.5.6 wants the list.
            _ => StatusCode::METHOD_NOT_ALLOWED,
        };
        let mut head = Response::builder().status(status).header(CONTENT_LENGTH, 0);
        if status == StatusCode::METHOD_NOT_ALLOWED {
            let put = if self.uploads.is_some() { ", PUT" } else { "" };
            head = head.header(ALLOW, format!("GET, HEAD{put}"));
        }
        stream.send_response(head.body(())?).await?;
        stream.finish().await?;
        // What is unread of the request then is stopped with H3_NO_ERROR when the stream is dropped: clients read this answer.
        let _ = tokio::time::timeout(READ_ON_FOR, read_on(&mut stream)).await;
        Ok(status)
    }

    /// The file that a request names, if there is one in the folder, and its length.
    async fn open(&self, path: &str) -> Option<(tokio::fs::File, u64)> {
        let relative = Path::new(path.trim_start_matches('/'));
        let inside = |part| matches!(part, Component::Normal(_));
        if !relative.components().all(inside) {
            return None;
        }
        let path = self.root.join(relative);
        // A pipe would have us wait for whoever writes.
        if !tokio::fs::metadata(&path).await.ok()?.is_file() {
            return None;
        }
        let file = tokio::fs::File::open(&path).await.ok()?;
        let length = file.metadata().await.ok()?.len();
        Some((file, length))
    }

    /// Writes the body of a request into a file. It has its name once all of it is there.
    async fn receive(
        &self,
        request: &Request<()>,
        folder: &Path,
        stream: &mut Answering,
    ) -> Result<StatusCode, Failure> {
        let mut parts = Path::new(request.uri().path().trim_start_matches('/')).components();
        let (Some(Component::Normal(name)), None) = (parts.next(), parts.next()) else {
            return Ok(StatusCode::NOT_FOUND);
        };
        let announced = request.headers().get(CONTENT_LENGTH);
        let announced = match announced.map(|value| value.to_str().map(str::parse)) {
            None => None,
            Some(Ok(Ok(length))) => Some(length),
            Some(_) => return Ok(StatusCode::BAD_REQUEST),
        };
        // Before the body is sent, if the client says how long it is.
        if announced.is_some_and(|length: u64| length > self.upload_limit) {
            return Ok(StatusCode::PAYLOAD_TOO_LARGE);
        }
        let part = tempfile::NamedTempFile::new_in(folder)?;
        let mut file = tokio::fs::File::from_std(part.reopen()?);
        file.set_max_buf_size(PIECE);
        let mut length = 0;
        while let Some(mut data) = stream.recv_data().await? {
            length += data.remaining() as u64;
            if length > self.upload_limit {
                return Ok(StatusCode::PAYLOAD_TOO_LARGE);
            }
            file.write_all_buf(&mut data).await?;
        }
        file.flush().await?;
        // h3 does not compare them (RFC 9114 section 4.1.2).
        if announced.is_some_and(|announced| announced != length) {
            return Ok(StatusCode::BAD_REQUEST);
        }
        part.persist(folder.join(name))?;
        Ok(StatusCode::CREATED)
    }
}

/// Reads what still comes of a request, and throws it away. A client that resets it needs nothing more.
async fn read_on(stream: &mut Answering) {
    let mut read = 0;
    while let Ok(Some(data)) = stream.recv_data().await {
        read += data.remaining();
        if read > READ_ON {
            return;
        }
    }
}

/// Sends so much of the file.
async fn send(
    mut file: tokio::fs::File,
    length: u64,
    stream: &mut Answering,
) -> Result<(), Failure> {
    file.set_max_buf_size(PIECE);
    let mut left = length;
    while left > 0 {
        let mut piece = vec![0; PIECE.min(usize::try_from(left).unwrap_or(PIECE))];
        // A file that became shorter ends the request, not the length that was promised.
        file.read_exact(&mut piece).await?;
        left -= piece.len() as u64;
        stream.send_data(Bytes::from(piece)).await?;
    }
    Ok(())
}
