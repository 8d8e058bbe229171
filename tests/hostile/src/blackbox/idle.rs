//! What idle connections cost a server process: many over the loopback network, and what it holds for each.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mpquic::{ClientConfig, Connection, Endpoint, TransportConfig};
use tokio::task::JoinSet;

use super::server::{Error, ServerProcess};
use crate::tls;

/// Longer than all of it takes.
const IDLE_TIMEOUT: Duration = Duration::from_secs(3600);

/// Connections per client endpoint.
const PER_ENDPOINT: usize = 500;

/// Handshakes at a time: fewer than those from which on a server asks clients to prove their address.
const AT_A_TIME: usize = 32;

/// Connections of before, so that what the server has once only does not count.
const WARM_UP: usize = 100;

/// How long nothing happens before the server is asked: longer than what is acknowledged late, or probed.
const QUIET: Duration = Duration::from_secs(15);

/// What the server has per idle connection, in bytes.
#[derive(Debug, Clone)]
pub struct Cost {
    /// Allocated by its code.
    pub held: f64,
    /// Resident.
    pub resident: f64,
    /// How many blocks of which size.
    pub blocks: Vec<(usize, f64)>,
}

/// Opens so many connections to the server, with one path or two, and asks for what it holds when they are idle.
///
/// # Errors
///
/// If a connection cannot be opened, or has ended at the end.
pub async fn measure(
    allocator: Option<&str>,
    connections: usize,
    paths: usize,
) -> Result<Cost, Error> {
    let mut server = ServerProcess::start(IDLE_TIMEOUT.as_secs(), allocator)?;
    let mut open = connect(server.address, WARM_UP, paths).await?;
    tokio::time::sleep(QUIET).await;
    let (before, resident) = (server.held()?, server.resident());
    open.extend(connect(server.address, connections, paths).await?);
    tokio::time::sleep(QUIET).await;
    let after = server.held()?;
    let more = after.bytes - before.bytes;
    let more_resident = server.resident() as f64 - resident as f64;
    if let Some(ended) = open.iter().find_map(Connection::close_reason) {
        return Err(format!("a connection has ended: {ended}").into());
    }
    let blocks = after.more_than(&before).into_iter();
    Ok(Cost {
        blocks: blocks
            .map(|(size, count)| (size, count as f64 / connections as f64))
            .collect(),
        held: more as f64 / connections as f64,
        resident: more_resident / connections as f64,
    })
}

async fn connect(
    server: SocketAddr,
    connections: usize,
    paths: usize,
) -> Result<Vec<Connection>, Error> {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(IDLE_TIMEOUT));
    let mut config = ClientConfig::new(tls::credulous_client())?;
    config.transport(Arc::new(transport));
    let mut open = Vec::with_capacity(connections);
    while open.len() < connections {
        let endpoint = Endpoint::client(&vec![any; paths])?;
        endpoint.set_default_client_config(config.clone());
        let mut left = PER_ENDPOINT.min(connections - open.len());
        let mut under_way = JoinSet::new();
        while left > 0 || !under_way.is_empty() {
            if left > 0 && under_way.len() < AT_A_TIME {
                left -= 1;
                under_way.spawn(connect_one(endpoint.clone(), server));
            } else if let Some(connection) = under_way.join_next().await {
                open.push(connection??);
            }
        }
    }
    Ok(open)
}

/// A connection with a path from each socket of the endpoint.
async fn connect_one(endpoint: Endpoint, server: SocketAddr) -> Result<Connection, Error> {
    let locals = endpoint.local_addrs();
    let connecting = endpoint.connect_from(locals[0], None, server, "localhost")?;
    let connection = connecting.await?;
    connection.handshake_confirmed().await?;
    for local in &locals[1..] {
        connection.open_path_from(*local, server).await?;
    }
    Ok(connection)
}
