//! A client connection with one local socket per path: connects, opens the paths, counts what each
//! brings; does not know what is transferred.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use mpquic::rustls::{self, RootCertStore, crypto::ring};
use mpquic::{
    ClientConfig, ConfigError, ConnectError, Connection, ConnectionError, Endpoint, OpenPathError,
    Path, TransportConfig, VarInt,
};
use thiserror::Error;

use crate::protocol::ALPN;

/// How long the server may take for the handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long to wait, at the end, for the server to hear that we are gone.
const FAREWELL: Duration = Duration::from_secs(1);

/// Where a path starts and ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    /// For people.
    pub(crate) name: String,
    /// Our address on it; port 0 is any port.
    pub(crate) local: SocketAddr,
    /// The server's address on it.
    pub(crate) remote: SocketAddr,
}

/// Whom to connect to, how, and over what.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) config: ClientConfig,
    pub(crate) server_name: String,
    /// The first one is the path of the handshake. Not empty.
    pub(crate) routes: Vec<Route>,
}

/// Why there is no connection, or no path.
#[derive(Debug, Error)]
pub(crate) enum SessionError {
    #[error("{0}")]
    Bind(io::Error),
    #[error("cannot connect to {remote}: {source}")]
    Connect {
        remote: SocketAddr,
        source: ConnectError,
    },
    #[error("the handshake with {remote} failed: {source}")]
    Handshake {
        remote: SocketAddr,
        source: ConnectionError,
    },
    #[error("no answer from {remote} within {} s", HANDSHAKE.as_secs())]
    NoAnswer { remote: SocketAddr },
    #[error("cannot open path {} from {} to {}: {source}", .route.name, .route.local, .route.remote)]
    Path {
        route: Box<Route>,
        source: OpenPathError,
    },
}

/// Settings of a client that trusts servers whose certificates these roots signed.
pub(crate) fn client_config(
    roots: RootCertStore,
    transport: TransportConfig,
) -> Result<ClientConfig, ConfigError> {
    let mut tls = rustls::ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| ConfigError::Tls(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let mut config = ClientConfig::new(Arc::new(tls))?;
    config.transport(Arc::new(transport));
    Ok(config)
}

/// A connection and its paths.
pub(crate) struct Session {
    endpoint: Endpoint,
    pub(crate) connection: Connection,
    /// As in the client's routes, with the local ports that the system chose.
    routes: Vec<Route>,
    meters: Mutex<Vec<Meter>>,
}

/// Counts what a path brought, even once the path is gone.
#[derive(Default)]
struct Meter {
    path: Option<Path>,
    bytes: u64,
}

impl Session {
    /// Connects over the first route.
    pub(crate) async fn connect(client: &Client) -> Result<Self, SessionError> {
        let locals: Vec<_> = client.routes.iter().map(|route| route.local).collect();
        let endpoint = Endpoint::client(&locals).map_err(SessionError::Bind)?;
        let mut routes = client.routes.clone();
        for (route, bound) in routes.iter_mut().zip(endpoint.local_addrs()) {
            route.local = bound;
        }
        let Route { local, remote, .. } = routes[0];
        let connecting = endpoint
            .connect_from(
                local,
                Some(client.config.clone()),
                remote,
                &client.server_name,
            )
            .map_err(|source| SessionError::Connect { remote, source })?;
        let connection = tokio::time::timeout(HANDSHAKE, connecting)
            .await
            .map_err(|_| SessionError::NoAnswer { remote })?
            .map_err(|source| SessionError::Handshake { remote, source })?;

        let mut meters: Vec<_> = routes.iter().map(|_| Meter::default()).collect();
        // The path of the handshake is there already, the only one so far.
        meters[0].path = connection.paths().into_iter().next();
        Ok(Self {
            endpoint,
            connection,
            routes,
            meters: Mutex::new(meters),
        })
    }

    /// Opens the paths of all further routes, at the same time. Data flows on those that are there
    /// meanwhile.
    pub(crate) async fn open_paths(&self) -> Result<(), SessionError> {
        let mut opening: Vec<_> = (1..self.routes.len())
            .map(|index| {
                let Route { local, remote, .. } = self.routes[index];
                (index, self.connection.open_path(local, remote))
            })
            .collect();
        // Polled in order, so that path IDs are in the order of the routes.
        poll_fn(|cx| {
            let mut failed = None;
            opening.retain_mut(|(index, path)| match Pin::new(path).poll(cx) {
                Poll::Pending => true,
                Poll::Ready(Ok(path)) => {
                    self.meters()[*index].path = Some(path);
                    false
                }
                Poll::Ready(Err(source)) => {
                    failed.get_or_insert((*index, source));
                    false
                }
            });
            match failed {
                Some((index, source)) => Poll::Ready(Err(SessionError::Path {
                    route: Box::new(self.routes[index].clone()),
                    source,
                })),
                None if opening.is_empty() => Poll::Ready(Ok(())),
                None => Poll::Pending,
            }
        })
        .await
    }

    fn meters(&self) -> std::sync::MutexGuard<'_, Vec<Meter>> {
        self.meters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stream bytes received on each route so far, retransmissions and copies included.
    pub(crate) fn received(&self) -> Vec<u64> {
        let mut meters = self.meters();
        for meter in meters.iter_mut() {
            // A path that was given up has no figures any more: the last ones stand.
            if let Some(stats) = meter.path.as_ref().and_then(|path| path.stats().ok()) {
                meter.bytes = stats.received_stream_bytes;
            }
        }
        meters.iter().map(|meter| meter.bytes).collect()
    }

    /// Closes the connection, and gives the server the time to hear of it.
    pub(crate) async fn close(self, code: VarInt, reason: &[u8]) {
        self.connection.close(code, reason);
        // If it does not, its idle timeout tells it.
        let _ = tokio::time::timeout(FAREWELL, self.endpoint.wait_idle()).await;
    }
}
