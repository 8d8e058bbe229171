//! Gets one URL over HTTP/3, over as many paths as local addresses are given.

use std::error::Error;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Buf, Bytes};
use clap::Parser;
use h3::client::SendRequest;
use http::{Request, Uri};
use mpquic::{FullMesh, rustls};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// Gets one URL over HTTP/3, over as many paths as local addresses are given.
#[derive(Parser)]
#[command(
    after_help = "Example:\n  h3_client https://localhost:4433/Cargo.toml --ca /tmp/cert.pem --local 127.0.0.1 --local 127.0.0.2 -o /tmp/file"
)]
struct Arguments {
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
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(2),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the server had it.
async fn run(arguments: Arguments) -> Result<bool, Box<dyn Error>> {
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
    let (mut driver, mut send_request) = h3::client::new(transport).await?;
    let driving = tokio::spawn(async move { poll_fn(|cx| driver.poll_close(cx)).await });
    let got = get(&mut send_request, &arguments).await;
    for path in connection.paths() {
        let (Ok(address), Ok(stats)) = (path.network_path(), path.stats()) else {
            continue; // closed by now
        };
        eprintln!(
            "{}: {} bytes",
            address.local.ip(),
            stats.received_stream_bytes
        );
    }
    eprintln!("{:.3} s", began.elapsed().as_secs_f64());
    // No more requests: the connection ends.
    drop(send_request);
    let ended = driving.await?;
    endpoint.wait_idle().await;
    let got = got?;
    if ended.is_h3_no_error() {
        Ok(got)
    } else {
        Err(ended.into())
    }
}

async fn get(
    send_request: &mut SendRequest<mpquic_h3::OpenStreams, Bytes>,
    arguments: &Arguments,
) -> Result<bool, Box<dyn Error>> {
    let request = Request::get(&arguments.url).body(())?;
    let mut stream = send_request.send_request(request).await?;
    stream.finish().await?;
    let response = stream.recv_response().await?;
    if !response.status().is_success() {
        eprintln!("{}: {}", arguments.url, response.status());
        return Ok(false);
    }
    let mut output: Box<dyn AsyncWrite + Unpin> = match &arguments.output {
        Some(path) => {
            let file = tokio::fs::File::create(path).await;
            Box::new(file.map_err(|error| format!("{}: {error}", path.display()))?)
        }
        None => Box::new(tokio::io::stdout()),
    };
    while let Some(mut data) = stream.recv_data().await? {
        while data.has_remaining() {
            let written = output.write(data.chunk()).await?;
            data.advance(written);
        }
    }
    output.flush().await?;
    Ok(true)
}
