//! Gets one URL over HTTP/3, or puts a file there, over as many paths as local addresses are given.

use std::error::Error;
use std::future::poll_fn;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Buf, Bytes};
use clap::Parser;
use h3::client::{RequestStream, SendRequest};
use h3::error::{Code, StreamError};
use http::header::CONTENT_LENGTH;
use http::{Method, Request, Uri};
use mpquic::{FullMesh, rustls};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// How much of a file is read at a time.
const PIECE: usize = 64 * 1024;
/// How many bytes the fields of an answer may take.
const MAX_FIELDS: u64 = 64 * 1024;

/// Gets one URL over HTTP/3, or puts a file there, over as many paths as local addresses are given.
#[derive(Parser)]
#[command(
    after_help = "Example:\n  h3_client https://localhost:4433/Cargo.toml --ca /tmp/cert.pem --local 127.0.0.1 --local 127.0.0.2 -o /tmp/file"
)]
pub(crate) struct Arguments {
    /// What to get; https only.
    url: Uri,
    /// The certificates to trust, PEM.
    #[arg(long)]
    ca: PathBuf,
    /// A local address; may be given several times, once per path.
    #[arg(long = "local", default_value = "0.0.0.0")]
    locals: Vec<IpAddr>,
    /// Where to put the body; without it, it goes to the standard output.
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Asks for the fields of the answer only, and prints them (HEAD).
    #[arg(short = 'I', long, conflicts_with = "upload")]
    head: bool,
    /// A file to send to the URL (PUT).
    #[arg(short = 'T', long)]
    upload: Option<PathBuf>,
}

/// A line for people. If nobody can read it, the transfer goes on: `eprintln` would panic.
macro_rules! say {
    ($($what:tt)*) => {{
        let _ = writeln!(std::io::stderr(), $($what)*);
    }};
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let ended = tokio::runtime::Runtime::new()
        .map_err(|error| format!("no runtime: {error}").into())
        .and_then(|runtime| runtime.block_on(run(arguments)));
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(2),
        Err(error) => {
            say!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the server did it.
pub(crate) async fn run(arguments: Arguments) -> Result<bool, Box<dyn Error>> {
    let url = &arguments.url;
    let host = url.host().ok_or("the URL names no host")?;
    let port = url.port_u16().unwrap_or(443);
    let remote: SocketAddr = tokio::net::lookup_host((host, port))
        .await
        .map_err(|error| format!("{host}: {error}"))?
        .find(|address| {
            arguments
                .locals
                .iter()
                .any(|local| local.is_ipv4() == address.is_ipv4())
        })
        .ok_or_else(|| format!("{host} has no address of the family of --local"))?;

    let mut roots = rustls::RootCertStore::empty();
    let named = |error| format!("{}: {error}", arguments.ca.display());
    for certificate in CertificateDer::pem_file_iter(&arguments.ca).map_err(named)? {
        roots.add(certificate.map_err(named)?)?;
    }
    let mut tls = rustls::ClientConfig::builder_with_protocol_versions(&[&rustls::version::TLS13])
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let locals: Vec<_> = arguments.locals.iter().map(|ip| (*ip, 0).into()).collect();
    let endpoint = mpquic::Endpoint::client(&locals)?;
    endpoint.set_path_manager(FullMesh::new());
    let config = mpquic::ClientConfig::new(Arc::new(tls))?;
    let began = Instant::now();
    let connection = endpoint.connect_with(config, remote, host)?.await?;

    let transport = mpquic_h3::Connection::new(connection.clone());
    let (mut driver, mut send_request) = h3::client::builder()
        .max_field_section_size(MAX_FIELDS)
        .build::<_, _, Bytes>(transport)
        .await?;
    let driving = tokio::spawn(async move { poll_fn(|cx| driver.poll_close(cx)).await });
    let done = exchange(&mut send_request, &arguments).await;
    for path in connection.paths() {
        let (Ok(address), Ok(stats)) = (path.network_path(), path.stats()) else {
            continue; // closed by now
        };
        say!(
            "{}: {} bytes received, {} sent",
            address.local.ip(),
            stats.received_stream_bytes,
            stats.sent_stream_bytes
        );
    }
    say!("{:.3} s", began.elapsed().as_secs_f64());
    // No more requests: the connection ends.
    drop(send_request);
    let ended = driving.await?;
    endpoint.wait_idle().await;
    let done = done?;
    if ended.is_h3_no_error() {
        Ok(done)
    } else {
        Err(ended.into())
    }
}

async fn exchange(
    send_request: &mut SendRequest<mpquic_h3::OpenStreams, Bytes>,
    arguments: &Arguments,
) -> Result<bool, Box<dyn Error>> {
    let mut request = Request::builder().uri(&arguments.url);
    let file = match &arguments.upload {
        None => None,
        Some(path) => {
            let file = tokio::fs::File::open(path).await;
            let file = file.map_err(|error| format!("{}: {error}", path.display()))?;
            request = request.header(CONTENT_LENGTH, file.metadata().await?.len());
            Some(file)
        }
    };
    let method = match file {
        Some(_) => Method::PUT,
        None if arguments.head => Method::HEAD,
        None => Method::GET,
    };
    let request = request.method(method).body(())?;
    let stream = send_request.send_request(request).await?;
    // The answer may come before all of the request is sent: the rest is not needed then, and dropping the stream resets it.
    let (send, recv) = stream.split();
    let mut answer = std::pin::pin!(answer(recv, arguments));
    tokio::select! {
        sent = upload(send, file) => sent?,
        done = &mut answer => return done,
    }
    answer.await
}

type Sending = RequestStream<mpquic_h3::SendStream<Bytes>, Bytes>;
type Receiving = RequestStream<mpquic_h3::RecvStream, Bytes>;

/// Sends the body of the request, if it has one, and ends it.
async fn upload(mut stream: Sending, file: Option<tokio::fs::File>) -> Result<(), Box<dyn Error>> {
    let sent = async {
        if let Some(mut file) = file {
            loop {
                let mut piece = bytes::BytesMut::with_capacity(PIECE);
                if file.read_buf(&mut piece).await? == 0 {
                    break;
                }
                stream.send_data(piece.freeze()).await?;
            }
        }
        stream.finish().await?;
        Ok(())
    };
    sent.await.or_else(|error: Box<dyn Error>| {
        let terminated = error.downcast_ref();
        match terminated {
            // The server needs no more to answer (RFC 9114 section 4.1.1): its answer counts.
            Some(StreamError::RemoteTerminate { code, .. }) if *code == Code::H3_NO_ERROR => Ok(()),
            _ => Err(error),
        }
    })
}

async fn answer(mut stream: Receiving, arguments: &Arguments) -> Result<bool, Box<dyn Error>> {
    let response = loop {
        let response = stream.recv_response().await?;
        // Interim answers come before the final one, as many as the server likes (RFC 9110 section 15.2).
        if !response.status().is_informational() {
            break response;
        }
    };
    if !response.status().is_success() {
        say!("{}: {}", arguments.url, response.status());
        return Ok(false);
    }
    let mut output: Box<dyn AsyncWrite + Unpin> = match &arguments.output {
        Some(path) => {
            let file = tokio::fs::File::create(path).await;
            Box::new(file.map_err(|error| format!("{}: {error}", path.display()))?)
        }
        None => Box::new(tokio::io::stdout()),
    };
    if arguments.head {
        for (name, value) in response.headers() {
            // As a Rust literal, without its quotes: a value may have any byte.
            let line = format!("{name}: {}\n", value.as_bytes().escape_ascii());
            output.write_all(line.as_bytes()).await?;
        }
    }
    let mut length = 0;
    while let Some(mut data) = stream.recv_data().await? {
        length += data.remaining() as u64;
        output.write_all_buf(&mut data).await?;
    }
    output.flush().await?;
    // h3 does not compare them (RFC 9114 section 4.1.2).
    let announced = response.headers().get(CONTENT_LENGTH);
    let announced = announced.and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    match announced {
        Some(announced) if announced != length && !arguments.head => {
            Err(format!("{length} bytes came of {announced}").into())
        }
        _ => Ok(true),
    }
}
