//! Serves the files of a folder over HTTP/3, on all paths that a client opens.

use std::error::Error;
use std::net::SocketAddr;
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use bytes::Bytes;
use clap::Parser;
use h3::server::RequestStream;
use http::{Method, Request, Response, StatusCode};
use mpquic::rustls;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::AsyncReadExt;

/// How much of a file is read at a time.
const PIECE: usize = 256 * 1024;

/// Serves the files of a folder over HTTP/3.
///
/// Without --cert and --key it makes itself a certificate for `localhost`, and writes it to --cert-out for the client.
#[derive(Parser)]
#[command(
    after_help = "Example:\n  h3_server --root . --listen 127.0.0.1:4433 --cert-out /tmp/cert.pem"
)]
struct Arguments {
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
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: no runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(run(arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
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
    println!("certificate in {}", arguments.cert_out.display());
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    Ok((vec![made.cert.der().clone()], key))
}

async fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let (chain, key) = identity(&arguments)?;
    let mut tls = rustls::ServerConfig::builder_with_protocol_versions(&[&rustls::version::TLS13])
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let config = mpquic::ServerConfig::new(Arc::new(tls))?;
    let endpoint = mpquic::Endpoint::server(config, &arguments.listen)?;
    for local in endpoint.local_addrs() {
        println!("listening on https://{local}/");
    }
    let root: Arc<Path> = arguments.root.into();
    while let Some(incoming) = endpoint.accept().await {
        let root = Arc::clone(&root);
        tokio::spawn(async move {
            let connection = match incoming.await {
                Ok(connection) => connection,
                Err(error) => return eprintln!("a handshake failed: {error}"),
            };
            let remote = connection.remote_address();
            if let Err(error) = serve(connection, &root).await {
                eprintln!("{remote}: {error}");
            }
        });
    }
    Ok(())
}

async fn serve(connection: mpquic::Connection, root: &Arc<Path>) -> Result<(), Box<dyn Error>> {
    let transport = mpquic_h3::Connection::new(connection.clone());
    let mut requests = h3::server::Connection::<_, Bytes>::new(transport).await?;
    loop {
        let resolver = match requests.accept().await {
            Ok(Some(resolver)) => resolver,
            Ok(None) => return Ok(()),
            Err(error) if error.is_h3_no_error() => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let root = Arc::clone(root);
        let connection = connection.clone();
        tokio::spawn(async move {
            let (request, stream) = match resolver.resolve_request().await {
                Ok(both) => both,
                Err(error) => return eprintln!("no request: {error}"),
            };
            let uri = request.uri().clone();
            match answer(&request, stream, &root).await {
                Ok(status) => println!("{status} {uri}, {} paths", connection.paths().len()),
                Err(error) => eprintln!("{uri}: {error}"),
            }
        });
    }
}

/// The file that a request names, if it lies in the folder.
fn file_of(root: &Path, uri: &str) -> Option<PathBuf> {
    let relative = Path::new(uri.trim_start_matches('/'));
    let inside = |part| matches!(part, Component::Normal(_));
    relative
        .components()
        .all(inside)
        .then(|| root.join(relative))
}

async fn answer<S>(
    request: &Request<()>,
    mut stream: RequestStream<S, Bytes>,
    root: &Path,
) -> Result<StatusCode, Box<dyn Error + Send + Sync>>
where
    S: h3::quic::BidiStream<Bytes>,
{
    let found = match file_of(root, request.uri().path()) {
        _ if *request.method() != Method::GET => Err(StatusCode::METHOD_NOT_ALLOWED),
        Some(path) => match tokio::fs::File::open(&path).await {
            Ok(file) => match file.metadata().await {
                Ok(facts) if facts.is_file() => Ok((file, facts.len())),
                _ => Err(StatusCode::NOT_FOUND),
            },
            Err(_) => Err(StatusCode::NOT_FOUND),
        },
        None => Err(StatusCode::NOT_FOUND),
    };
    let status = match found {
        Ok((mut file, len)) => {
            let head = Response::builder().header("content-length", len).body(())?;
            stream.send_response(head).await?;
            let mut left = len;
            while left > 0 {
                let mut piece = vec![0; PIECE.min(usize::try_from(left).unwrap_or(PIECE))];
                // A file that became shorter ends the request, not the length that was promised.
                file.read_exact(&mut piece).await?;
                left -= piece.len() as u64;
                stream.send_data(Bytes::from(piece)).await?;
            }
            StatusCode::OK
        }
        Err(status) => {
            let head = Response::builder().status(status).body(())?;
            stream.send_response(head).await?;
            status
        }
    };
    stream.finish().await?;
    Ok(status)
}
