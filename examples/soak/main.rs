//! Many connections, each with two paths, move data while a path fails somewhere every second; in
//! one process, over loopback. Prints errors, fairness, stalls and memory: what the system counts, and what is allocated.
#![deny(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
#[path = "../transfer/lines.rs"]
mod lines;

mod forwarder;
#[path = "../../tests/hostile/src/blackbox/heap.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "shared with the black-box attacker, which sends what a process holds to another one"
)]
mod heap;
mod report;
mod traffic;

use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use mpquic::{Endpoint, rustls};
use mpquic_test_support::allocator::Counting;
use tokio::task::JoinSet;

use forwarder::Forwarder;
use heap::{HEAP, Held};
use report::{Memory, Report};
use traffic::Tally;

#[global_allocator]
static ALLOCATOR: Counting = HEAP;

/// Connections per client endpoint, and so per pair of forwarders.
const PER_ENDPOINT: usize = 50;

/// Runs many two-path connections while paths fail, and reports whether they live well.
///
/// Examples:
///   cargo run --release --example soak
///   cargo run --release --example soak -- --connections 100 --seconds 10 --json
///
/// Exit status: 0 no error; 1 a connection or a request failed; 2 wrong arguments.
#[derive(Debug, Clone, Parser)]
#[command(verbatim_doc_comment)]
struct Arguments {
    /// Connections, with two paths each.
    #[arg(long, default_value_t = 1_000)]
    connections: usize,
    /// How long each of them moves data.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Bytes of a request, which the server returns.
    #[arg(long, default_value_t = 16 << 10)]
    size: usize,
    /// For how long a path that fails passes nothing, in seconds. Every second another one fails.
    #[arg(long, default_value_t = 2)]
    outage: u64,
    /// Prints the report as JSON.
    #[arg(long)]
    json: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) if arguments.connections > 0 && arguments.seconds > 0 => arguments,
        Ok(_) => {
            note!("error: connections and seconds must not be 0");
            return ExitCode::from(2);
        }
        Err(error) => error.exit(),
    };
    match run(&arguments).await {
        Ok(report) => {
            if arguments.json {
                say!("{}", report.to_json());
            } else {
                say!("{}", report.to_string().trim_end());
            }
            if report.errors.is_empty() {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(error) => {
            note!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Two forwarders of one client endpoint: the first and the second path of its connections.
struct Group {
    endpoint: Endpoint,
    locals: [SocketAddr; 2],
    forwarders: [Forwarder; 2],
}

async fn run(arguments: &Arguments) -> Result<Report, Box<dyn std::error::Error + Send + Sync>> {
    let (client, server) = configurations()?;
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = Endpoint::server(server, &[any])?;
    let address = server.local_addrs()[0];
    tokio::spawn(traffic::serve(server.clone()));

    let mut groups = Vec::new();
    for _ in 0..arguments.connections.div_ceil(PER_ENDPOINT) {
        let endpoint = Endpoint::client(&[any, any])?;
        endpoint.set_default_client_config(client.clone());
        let addresses = endpoint.local_addrs();
        groups.push(Group {
            locals: [addresses[0], addresses[1]],
            endpoint,
            forwarders: [Forwarder::start(address)?, Forwarder::start(address)?],
        });
    }

    let mut connections = Vec::with_capacity(arguments.connections);
    for number in 0..arguments.connections {
        let group = &groups[number / PER_ENDPOINT];
        let remote = group.forwarders[0].address;
        let connecting = group
            .endpoint
            .connect_from(group.locals[0], None, remote, "localhost")?;
        let connection = connecting.await?;
        connection.handshake_confirmed().await?;
        connection
            .open_path_from(group.locals[1], group.forwarders[1].address)
            .await?;
        connections.push(connection);
    }

    let begin = Instant::now();
    let end = begin + Duration::from_secs(arguments.seconds);
    let mut tasks = JoinSet::new();
    for connection in connections {
        tasks.spawn(traffic::request_until(connection, arguments.size, end));
    }
    let mut memory = Vec::new();
    let mut seconds = tokio::time::interval(Duration::from_secs(1));
    seconds.tick().await;
    let mut failures = 0;
    let mut tallies: Vec<Tally> = Vec::with_capacity(arguments.connections);
    while tallies.len() < arguments.connections {
        tokio::select! {
            _ = seconds.tick() => {
                memory.push(Memory::now(Held::now()));
                if Instant::now() + Duration::from_secs(arguments.outage) < end {
                    // Each path in turn, the first ones and the second ones.
                    let group = &groups[failures / 2 % groups.len()];
                    group.forwarders[failures % 2].fail_for(Duration::from_secs(arguments.outage));
                    failures += 1;
                }
            }
            Some(tally) = tasks.join_next() => tallies.push(tally?),
        }
    }
    let elapsed = begin.elapsed();
    for group in &groups {
        group.endpoint.close(0u32.into(), b"done");
    }
    Ok(Report::new(
        arguments.size,
        elapsed,
        failures,
        memory,
        tallies,
    ))
}

type Configurations = (mpquic::ClientConfig, mpquic::ServerConfig);

fn configurations() -> Result<Configurations, Box<dyn std::error::Error + Send + Sync>> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()])?;
    let certificate = made.cert.der().clone();
    let key = rustls::pki_types::PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.clone())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = [&rustls::version::TLS13];
    let client = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&versions)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let server = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions)?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    Ok((
        mpquic::ClientConfig::new(Arc::new(client))?,
        mpquic::ServerConfig::new(Arc::new(server))?,
    ))
}
