//! A server of a fleet behind one address, and a client with several paths that says which server it reached: for trying
//! balancers (`examples/fleet/nftables.sh`).
#![deny(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
#[path = "../transfer/lines.rs"]
mod lines;

use std::io::{BufRead, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use mpquic::sched::RoundRobin;
use mpquic::{
    ClientConfig, Connection, Endpoint, EndpointConfig, FullMesh, QuicLb, QuicLbConfig,
    ServerConfig, TransportConfig, rustls,
};
use rand::TryRng;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The name in the certificates.
const NAME: &str = "fleet.example";

/// Bytes of an exchange, each way.
const EXCHANGE: usize = 256 << 10;

/// Exchanges for a line at most, until each path has carried something.
const EXCHANGES: usize = 10;

#[derive(Debug, Parser)]
#[command(about = "A server of a fleet, and a client that says which one it reached")]
struct Options {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Serves until SIGTERM, then takes no new clients and ends with its last connection
    Server(Server),
    /// Connects; for each line that it reads, exchanges data over all its paths. Ends at the end of its input
    Client(Client),
}

#[derive(Debug, Args)]
struct Server {
    /// Address to listen on
    #[arg(long, value_name = "ADDR")]
    listen: SocketAddr,
    /// What its connection IDs say after the first byte
    #[arg(long, value_name = "NUMBER")]
    server_id: u8,
    /// Writes its certificate to this file (PEM)
    #[arg(long, value_name = "FILE")]
    cert_out: PathBuf,
}

#[derive(Debug, Args)]
struct Client {
    /// Address of the fleet
    #[arg(long, value_name = "ADDR")]
    server: SocketAddr,
    /// Local address of a path; repeat for more
    #[arg(long, value_name = "IP", required = true)]
    local: Vec<IpAddr>,
    /// Certificate of a server (PEM); repeat for more
    #[arg(long, value_name = "FILE", required = true)]
    ca: Vec<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let result = match Options::parse().role {
        Role::Server(options) => serve(&options).await,
        Role::Client(options) => connect(&options).await,
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            note!("fleet: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Packets take the paths in turns, so that each shows where it leads.
fn transport() -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    transport.scheduler(|| Box::new(RoundRobin::default()));
    Arc::new(transport)
}

fn endpoint_config(server_id: u8) -> Result<EndpointConfig> {
    let mut seed = [0; 32];
    rand::rngs::SysRng.try_fill_bytes(&mut seed)?;
    let mut config = EndpointConfig::new(seed);
    // Configuration 0, a server ID of one byte, 8 random bytes.
    let ids = QuicLb::new(&QuicLbConfig::new(0, &[server_id], 8))?;
    config.connection_ids(Arc::new(ids));
    Ok(config)
}

fn server_config(cert_out: &Path) -> Result<ServerConfig> {
    let made = rcgen::generate_simple_self_signed(vec![NAME.into()])?;
    std::fs::write(cert_out, made.cert.pem())?;
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)?;
    let mut config = ServerConfig::new(Arc::new(tls))?;
    config.transport(transport());
    Ok(config)
}

async fn serve(options: &Server) -> Result<()> {
    let endpoint = Endpoint::builder()
        .bind(options.listen)
        .endpoint_config(endpoint_config(options.server_id)?)
        .server(server_config(&options.cert_out)?)
        .build()?;
    say!("server {} listens", options.server_id);
    let mut terminate = signal(SignalKind::terminate())?;
    loop {
        let incoming = tokio::select! {
            Some(incoming) = endpoint.accept() => incoming,
            _ = terminate.recv() => break,
        };
        let id = options.server_id;
        tokio::spawn(async move {
            if let Ok(connection) = incoming.await {
                answer(&connection, id).await;
            }
        });
    }
    endpoint.set_server_config(None);
    say!(
        "server {} drains, connections left: {}",
        options.server_id,
        endpoint.open_connections()
    );
    endpoint.wait_idle().await;
    say!("server {} has none left", options.server_id);
    Ok(())
}

/// Says on each stream who it is, and returns as much as it got.
async fn answer(connection: &Connection, id: u8) {
    while let Ok((mut send, mut receive)) = connection.accept_bi().await {
        let exchange = async {
            let data = receive.read_to_end(EXCHANGE).await?;
            send.write_all(&[id]).await?;
            send.write_all(&data).await?;
            send.finish()?;
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
        };
        if let Err(error) = exchange.await {
            note!("server {id}: {error}");
        }
    }
}

fn client_config(certificates: &[PathBuf]) -> Result<ClientConfig> {
    let mut roots = rustls::RootCertStore::empty();
    for file in certificates {
        roots.add(CertificateDer::from_pem_file(file)?)?;
    }
    let mut config = ClientConfig::with_root_certificates(roots)?;
    config.transport(transport());
    Ok(config)
}

async fn connect(options: &Client) -> Result<()> {
    let mut builder = Endpoint::builder().default_client(client_config(&options.ca)?);
    for local in &options.local {
        builder = builder.bind((*local, 0).into());
    }
    let endpoint = builder.path_manager(FullMesh::new()).build()?;
    let connection = endpoint.connect(options.server, NAME)?.await?;
    let mut events = connection.path_events();
    while connection.paths().len() < options.local.len() {
        tokio::time::timeout(Duration::from_secs(5), events.recv())
            .await
            .map_err(|_| "a path did not come up within 5 s")?;
    }
    let (sender, mut lines) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            if line.is_err() || sender.send(()).is_err() {
                break;
            }
        }
    });
    while lines.recv().await.is_some() {
        let before = received(&connection);
        let mut exchanges = 0;
        let (server, paths) = loop {
            let server = exchange(&connection).await?;
            exchanges += 1;
            let after = received(&connection);
            let since = |(index, bytes)| bytes - before.get(index).unwrap_or(&0);
            let paths: Vec<u64> = after.into_iter().enumerate().map(since).collect();
            // The server uses a new path once it has validated it.
            if !paths.contains(&0) || exchanges == EXCHANGES {
                break (server, paths);
            }
        };
        say!("server {server}, bytes by path: {paths:?}");
        std::io::stdout().flush()?;
    }
    endpoint.close(0_u32.into(), b"done");
    endpoint.wait_idle().await;
    Ok(())
}

/// Sends and receives; which server it was.
async fn exchange(connection: &Connection) -> Result<u8> {
    let (mut send, mut receive) = connection.open_bi().await?;
    send.write_all(&[0; EXCHANGE]).await?;
    send.finish()?;
    let data = receive.read_to_end(EXCHANGE + 1).await?;
    match data.first() {
        Some(server) if data.len() == EXCHANGE + 1 => Ok(*server),
        _ => Err("a short answer".into()),
    }
}

/// Bytes of streams that came on each path.
fn received(connection: &Connection) -> Vec<u64> {
    let paths = connection.paths();
    let stats = paths.iter().filter_map(|path| path.stats().ok());
    stats.map(|stats| stats.received_stream_bytes).collect()
}
