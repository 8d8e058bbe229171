//! Measures bulk transfers, requests and handshakes against `perf_server`, over one or more paths.
#![deny(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
#[path = "transfer/lines.rs"]
mod lines;

mod perf_common;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::{Args, Parser, Subcommand};
use mpquic::{ClientConfig, Connection, Endpoint, VarInt, rustls};
use perf_common::{ALPN, Result, TransportOptions, ZEROS, context, size};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// Measures bulk transfers, requests and handshakes against perf_server.
#[derive(Debug, Parser)]
#[command(after_help = "\
Examples:
  perf_client bulk --down 1G                      download from perf_server on this machine
  perf_client --paths 2 bulk --down 1G --up 1G    the same over 127.0.0.1 and 127.0.0.2
  perf_client --server 203.0.113.5:4433 --local 192.168.1.23 --local 10.64.3.9 bulk --up 256M
  perf_client --json requests --request 200 --response 4k --concurrency 16 --duration 10
  perf_client handshakes --concurrency 8 --duration 5

Exit status:
  0  success
  1  the measurement failed
  2  the command line is wrong")]
struct Options {
    /// Address of perf_server
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:4433")]
    server: SocketAddr,
    /// Expected name in its certificate
    #[arg(long, value_name = "NAME", default_value = "localhost")]
    name: String,
    /// Trust only certificates signed by this one (PEM). By default, any certificate is accepted,
    /// since only zeros are sent
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Local address of a path; repeat for more paths, the first carries the handshake
    #[arg(long, value_name = "IP", conflicts_with = "paths")]
    local: Vec<IpAddr>,
    /// Number of paths, from 127.0.0.1, 127.0.0.2, ... to a server on this machine
    #[arg(long, value_name = "COUNT", default_value_t = 1,
          value_parser = clap::value_parser!(u8).range(1..=64))]
    paths: u8,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    /// Write TLS keys for Wireshark to the file in SSLKEYLOGFILE
    #[arg(long)]
    keylog: bool,
    #[command(flatten)]
    transport: TransportOptions,
    #[command(subcommand)]
    mode: Mode,
}

#[derive(Debug, Subcommand)]
enum Mode {
    /// Measure large transfers: bytes per second
    Bulk(Bulk),
    /// Measure small requests and responses: how many per second, and the latency of each
    Requests(Requests),
    /// Measure new connections: how many per second, and how long each takes
    Handshakes(Handshakes),
}

#[derive(Debug, Args)]
struct Bulk {
    /// Bytes to download in total
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = size)]
    down: u64,
    /// Bytes to upload in total
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = size)]
    up: u64,
    /// Number of streams that share them
    #[arg(long, value_name = "COUNT", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(1..=100_000))]
    streams: u64,
}

#[derive(Debug, Args)]
struct Requests {
    /// Size of a request
    #[arg(long, value_name = "SIZE", default_value = "100", value_parser = size)]
    request: u64,
    /// Size of a response
    #[arg(long, value_name = "SIZE", default_value = "1k", value_parser = size)]
    response: u64,
    /// Number of simultaneous requests
    #[arg(long, value_name = "COUNT", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    concurrency: u32,
    /// Duration in seconds
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    duration: Duration,
}

#[derive(Debug, Args)]
struct Handshakes {
    /// Number of simultaneous handshakes
    #[arg(long, value_name = "COUNT", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    concurrency: u32,
    /// Duration in seconds
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    duration: Duration,
}

fn seconds(text: &str) -> std::result::Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

fn main() -> ExitCode {
    let options = Options::parse();
    options.transport.run("perf_client", measure(&options))
}

async fn measure(options: &Options) -> Result<()> {
    if let Mode::Bulk(Bulk { down: 0, up: 0, .. }) = options.mode {
        return Err("nothing to do: give --down or --up a size, as in --down 1G".into());
    }
    let locals = locals(options)?;
    let endpoint = Endpoint::client(&locals)?;
    endpoint.set_default_client_config(config(options)?);
    let result = match &options.mode {
        Mode::Bulk(bulk) => {
            let connection = connect(&endpoint, options).await?;
            let figures = run_bulk(&connection, bulk).await;
            finish(&connection, figures)?
        }
        Mode::Requests(requests) => {
            let connection = connect(&endpoint, options).await?;
            let figures = run_requests(&connection, requests).await;
            finish(&connection, figures)?
        }
        Mode::Handshakes(handshakes) => run_handshakes(&endpoint, options, handshakes).await?,
    };
    if options.json {
        say!("{result}");
    } else {
        print(&result);
    }
    endpoint.close(VarInt::from_u32(0), b"");
    // The close must leave. Waiting longer has no use.
    let _ = tokio::time::timeout(Duration::from_millis(500), endpoint.wait_idle()).await;
    Ok(())
}

/// The local addresses to bind. The system chooses the ports.
fn locals(options: &Options) -> Result<Vec<SocketAddr>> {
    let any_port = |ip: IpAddr| SocketAddr::new(ip, 0);
    if !options.local.is_empty() {
        return Ok(options.local.iter().copied().map(any_port).collect());
    }
    if options.paths == 1 {
        return Ok(vec![match options.server {
            SocketAddr::V4(_) => any_port(Ipv4Addr::UNSPECIFIED.into()),
            SocketAddr::V6(_) => any_port(Ipv6Addr::UNSPECIFIED.into()),
        }]);
    }
    if !(options.server.ip().is_loopback() && options.server.is_ipv4()) {
        return Err(
            "--paths is for a server on 127.0.0.1: name your addresses with --local".into(),
        );
    }
    let loopback = |last| any_port(Ipv4Addr::new(127, 0, 0, last).into());
    Ok((1..=options.paths).map(loopback).collect())
}

fn config(options: &Options) -> Result<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])?;
    let mut tls = match &options.ca {
        Some(file) => {
            let mut roots = rustls::RootCertStore::empty();
            let certificate =
                CertificateDer::from_pem_file(file).map_err(context(file.display()))?;
            roots.add(certificate).map_err(context(file.display()))?;
            builder.with_root_certificates(roots).with_no_client_auth()
        }
        None => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
            .with_no_client_auth(),
    };
    tls.alpn_protocols = vec![ALPN.to_vec()];
    // The measurement needs full handshakes.
    tls.resumption = rustls::client::Resumption::disabled();
    if options.keylog {
        tls.key_log = Arc::new(rustls::KeyLogFile::new());
    }
    let mut config = ClientConfig::new(Arc::new(tls))?;
    config.transport(options.transport.transport()?);
    Ok(config)
}

/// Connects, and opens a path from each further local address.
async fn connect(endpoint: &Endpoint, options: &Options) -> Result<Connection> {
    let connection = endpoint
        .connect(options.server, &options.name)?
        .await
        .map_err(context(format!(
            "connecting to {} (is perf_server running there?)",
            options.server
        )))?;
    for local in endpoint.local_addrs().into_iter().skip(1) {
        connection
            .open_path_from(local, options.server)
            .await
            .map_err(context(format!("opening a path from {local}")))?;
    }
    Ok(connection)
}

/// Requests `down` bytes while sending `up`. Returns when the last byte has arrived.
async fn exchange(connection: &Connection, up: u64, down: u64) -> Result<()> {
    let (mut send, mut recv) = connection.open_bi().await?;
    send.write_all(&down.to_be_bytes()).await?;
    let mut left = up;
    while left > 0 {
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(ZEROS.len());
        send.write_chunk(Bytes::from_static(&ZEROS[..len])).await?;
        left -= len as u64;
    }
    send.finish()?;
    let mut received = 0;
    while let Some(chunk) = recv.read_chunk(usize::MAX).await? {
        received += chunk.len() as u64;
    }
    if received == down {
        Ok(())
    } else {
        Err(format!("{down} bytes asked for, {received} came").into())
    }
}

async fn run_bulk(connection: &Connection, bulk: &Bulk) -> Result<Value> {
    let start = Instant::now();
    let mut streams = JoinSet::new();
    for index in 0..bulk.streams {
        // The first streams take the remainder.
        let share = |all: u64| all / bulk.streams + u64::from(index < all % bulk.streams);
        let (up, down) = (share(bulk.up), share(bulk.down));
        let connection = connection.clone();
        streams.spawn(async move { exchange(&connection, up, down).await });
    }
    while let Some(result) = streams.join_next().await {
        result??;
    }
    let elapsed = start.elapsed().as_secs_f64();
    Ok(json!({
        "mode": "bulk",
        "seconds": elapsed,
        "down_bytes": bulk.down,
        "up_bytes": bulk.up,
        "down_bytes_per_second": bulk.down as f64 / elapsed,
        "up_bytes_per_second": bulk.up as f64 / elapsed,
        "streams": bulk.streams,
    }))
}

async fn run_requests(connection: &Connection, requests: &Requests) -> Result<Value> {
    let (up, down) = (requests.request, requests.response);
    let figures = repeat(requests.concurrency, requests.duration, || {
        let connection = connection.clone();
        async move { exchange(&connection, up, down).await }
    });
    figures.await.map(|figures| with("requests", figures))
}

async fn run_handshakes(
    endpoint: &Endpoint,
    options: &Options,
    handshakes: &Handshakes,
) -> Result<Value> {
    let (server, name) = (options.server, options.name.as_str());
    let figures = repeat(handshakes.concurrency, handshakes.duration, || {
        let (endpoint, name) = (endpoint.clone(), name.to_owned());
        async move {
            let attempt = endpoint.connect(server, &name)?;
            let connection = attempt.await.map_err(context("handshake"))?;
            connection.close(VarInt::from_u32(0), b"");
            Ok(())
        }
    });
    figures.await.map(|figures| with("handshakes", figures))
}

fn with(mode: &str, mut figures: Value) -> Value {
    figures["mode"] = mode.into();
    figures
}

/// Repeats an operation for this time, several at once.
async fn repeat<F>(count: u32, duration: Duration, once: impl Fn() -> F) -> Result<Value>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let start = Instant::now();
    let timed = |work: F| async move {
        let begin = Instant::now();
        work.await.map(|()| begin.elapsed())
    };
    let mut running = JoinSet::new();
    for _ in 0..count {
        running.spawn(timed(once()));
    }
    let mut times = Vec::new();
    while let Some(result) = running.join_next().await {
        times.push(result??.as_secs_f64() * 1e6);
        if start.elapsed() < duration {
            running.spawn(timed(once()));
        }
    }
    let elapsed = start.elapsed().as_secs_f64();
    times.sort_by(f64::total_cmp);
    let quantile = |part: f64| times[((times.len() - 1) as f64 * part).round() as usize];
    Ok(json!({
        "seconds": elapsed,
        "count": times.len(),
        "per_second": times.len() as f64 / elapsed,
        "concurrency": count,
        "microseconds": {
            "min": quantile(0.0),
            "p50": quantile(0.5),
            "p90": quantile(0.9),
            "p99": quantile(0.99),
            "max": quantile(1.0),
        },
    }))
}

/// Adds the statistics of the connection.
fn finish(connection: &Connection, figures: Result<Value>) -> Result<Value> {
    let mut figures = figures?;
    let mut paths = Vec::new();
    for path in connection.paths() {
        let (stats, network) = (path.stats()?, path.network_path()?);
        paths.push(json!({
            "id": path.id().0,
            "local": network.local.to_string(),
            "remote": network.remote.to_string(),
            "rtt_us": stats.rtt.as_secs_f64() * 1e6,
            "min_rtt_us": stats.min_rtt.as_secs_f64() * 1e6,
            "mtu": stats.mtu,
            "cwnd": stats.cwnd,
            "sent_bytes": stats.sent_bytes,
            "received_bytes": stats.received_bytes,
            "sent_packets": stats.sent_packets,
            "lost_packets": stats.lost_packets,
            "congestion_events": stats.congestion_events,
        }));
    }
    figures["paths"] = paths.into();
    figures["lost_packets"] = connection.stats().lost_packets.into();
    Ok(figures)
}

fn print(figures: &Value) {
    let number = |name: &str| figures[name].as_f64().unwrap_or(0.0);
    if figures["mode"] == "bulk" {
        for direction in ["down", "up"] {
            let bytes = number(&format!("{direction}_bytes"));
            if bytes > 0.0 {
                say!(
                    "{direction:>4} {:10.1} MB in {:.3} s: {:8.1} MB/s",
                    bytes / 1e6,
                    number("seconds"),
                    number(&format!("{direction}_bytes_per_second")) / 1e6,
                );
            }
        }
    } else {
        let time = |name: &str| figures["microseconds"][name].as_f64().unwrap_or(0.0);
        say!(
            "{} {} in {:.3} s: {:.1}/s, p50 {:.0} us, p90 {:.0} us, p99 {:.0} us, max {:.0} us",
            number("count"),
            figures["mode"].as_str().unwrap_or_default(),
            number("seconds"),
            number("per_second"),
            time("p50"),
            time("p90"),
            time("p99"),
            time("max"),
        );
    }
    for path in figures["paths"].as_array().into_iter().flatten() {
        let number = |name: &str| path[name].as_f64().unwrap_or(0.0);
        say!(
            "path {}: {} to {}: sent {:.1} MB, received {:.1} MB, rtt {:.0} us, mtu {}, lost {} of {} packets",
            path["id"],
            path["local"].as_str().unwrap_or_default(),
            path["remote"].as_str().unwrap_or_default(),
            number("sent_bytes") / 1e6,
            number("received_bytes") / 1e6,
            number("rtt_us"),
            path["mtu"],
            path["lost_packets"],
            path["sent_packets"],
        );
    }
}

/// Accepts any certificate, but verifies that the server has its key.
#[derive(Debug)]
struct AnyCertificate(Arc<rustls::crypto::CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &rustls::DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &rustls::DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
