//! A download in real time: real sockets, and for each path a relay with the modelled link.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mpquic::{
    ClientConfig, ConfigError, Connection, ConnectionError, Endpoint, OpenPathError, ReadError,
    ServerConfig, WriteError,
};
use mpquic_sim::{Relay, content, identity};
use thiserror::Error;

use crate::scenario::{CONTENT_SEED, Scenario};

const CHUNK: usize = 64 * 1024;

/// Why a download over real sockets failed.
#[derive(Debug, Error)]
pub(crate) enum Error {
    #[error("sockets or threads: {0}")]
    Io(#[from] std::io::Error),
    #[error("configuration: {0}")]
    Config(#[from] ConfigError),
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    #[error("connecting: {0}")]
    Connect(#[from] mpquic::ConnectError),
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    #[error("opening the second path: {0}")]
    Path(#[from] OpenPathError),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("{0} bytes came, {1} were asked for")]
    Length(u64, u64),
    #[error("byte {0} is not what was sent")]
    Content(u64),
    #[error("the server never accepted the connection")]
    NotAccepted,
}

const fn loopback() -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0)
}

/// The time from the request to the last byte.
pub(crate) fn download(scenario: &Scenario, seed: u64) -> Result<Duration, Error> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?
        .block_on(run(scenario, seed))
}

async fn run(scenario: &Scenario, seed: u64) -> Result<Duration, Error> {
    let transport = Arc::new(scenario.transport());
    let mut config = ServerConfig::new(identity::server_tls()?)?;
    config.transport(Arc::clone(&transport));
    let server = Endpoint::server(config, &[loopback()])?;
    let address = server.local_addrs()[0];
    let mut relays = Vec::new();
    for (number, link) in (0..).zip(&scenario.links) {
        let seed = seed * 2 + number;
        relays.push(Relay::spawn(
            loopback(),
            address,
            link.clone(),
            link.clone(),
            seed,
        )?);
    }

    let client = Endpoint::client(&[loopback(), loopback()])?;
    let mut config = ClientConfig::new(identity::client_tls()?)?;
    config.transport(transport);
    let locals = client.local_addrs();
    let serving = tokio::spawn({
        let server = server.clone();
        async move {
            let connection = server.accept().await.ok_or(Error::NotAccepted)?.await?;
            serve(connection).await
        }
    });
    let connection = client
        .connect_from(
            locals[0],
            Some(config),
            relays[0].addr(),
            identity::SERVER_NAME,
        )?
        .await?;
    connection
        .open_path_from(locals[1], relays[1].addr())
        .await?;

    let asked = Instant::now();
    let (mut send, mut recv) = connection.open_bi().await?;
    send.write_all(&scenario.bytes.to_be_bytes()).await?;
    let mut received = 0;
    while let Some(chunk) = recv.read_chunk(CHUNK).await? {
        content::verify(CONTENT_SEED, received, &chunk).map_err(|_| Error::Content(received))?;
        received += chunk.len() as u64;
    }
    let took = asked.elapsed();
    if received != scenario.bytes {
        return Err(Error::Length(received, scenario.bytes));
    }
    connection.close(0_u32.into(), b"");
    client.wait_idle().await;
    server.wait_idle().await;
    // All data has arrived, so the server's error does not matter.
    drop(serving);
    Ok(took)
}

/// Answers one request.
async fn serve(connection: Connection) -> Result<(), Error> {
    let (mut send, mut recv) = connection.accept_bi().await?;
    let mut request = [0; 8];
    let mut filled = 0;
    while filled < request.len() {
        match recv.read_chunk(request.len() - filled).await? {
            Some(chunk) => {
                request[filled..filled + chunk.len()].copy_from_slice(&chunk);
                filled += chunk.len();
            }
            None => return Err(Error::Length(filled as u64, request.len() as u64)),
        }
    }
    let bytes = u64::from_be_bytes(request);
    let mut buffer = vec![0; CHUNK];
    let mut sent = 0;
    while sent < bytes {
        buffer.truncate((bytes - sent).min(CHUNK as u64) as usize);
        content::fill(CONTENT_SEED, sent, &mut buffer);
        send.write_all(&buffer).await?;
        sent += buffer.len() as u64;
    }
    // This fails only if the stream was finished before.
    let _ = send.finish();
    let _ = send.stopped().await;
    Ok(())
}
