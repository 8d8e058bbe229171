//! A client connection with one local socket per path: connects, opens the paths, and counts what each receives.

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

/// The time limit of the handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long to wait at the end until the server knows of the close.
const FAREWELL: Duration = Duration::from_secs(1);

/// The endpoints of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    /// A name for the user.
    pub(crate) name: String,
    /// The client's address; port 0 is any port.
    pub(crate) local: SocketAddr,
    /// The server's address.
    pub(crate) remote: SocketAddr,
}

/// The server, the configuration and the routes of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) config: ClientConfig,
    pub(crate) server_name: String,
    /// The routes; the first one carries the handshake. Not empty.
    pub(crate) routes: Vec<Route>,
}

/// Why the connection or a path could not be opened.
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

/// The configuration of a client that trusts certificates signed by these roots.
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
    /// The client's routes, with the local ports that the system chose.
    routes: Vec<Route>,
    meters: Mutex<Vec<Meter>>,
}

/// Counts what a path has received. The count stays after the path is closed.
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
        // At this point, the path of the handshake is the only one.
        meters[0].path = connection.paths().into_iter().next();
        Ok(Self {
            endpoint,
            connection,
            routes,
            meters: Mutex::new(meters),
        })
    }

    /// Opens the paths of all other routes at the same time. Data can flow on open paths meanwhile.
    pub(crate) async fn open_paths(&self) -> Result<(), SessionError> {
        let mut opening: Vec<_> = (1..self.routes.len())
            .map(|index| {
                let Route { local, remote, .. } = self.routes[index];
                (index, self.connection.open_path_from(local, remote))
            })
            .collect();
        // Polled in order, so that the path IDs have the order of the routes.
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

    /// Stream bytes received so far on each route, including retransmissions and copies.
    pub(crate) fn received(&self) -> Vec<u64> {
        let mut meters = self.meters();
        for meter in meters.iter_mut() {
            // A path that was closed has no statistics. The last known value is used.
            if let Some(stats) = meter.path.as_ref().and_then(|path| path.stats().ok()) {
                meter.bytes = stats.received_stream_bytes;
            }
        }
        meters.iter().map(|meter| meter.bytes).collect()
    }

    /// Closes the connection, and waits until the server knows or the time is over.
    pub(crate) async fn close(self, code: VarInt, reason: &[u8]) {
        self.connection.close(code, reason);
        // If the server does not hear of it, its idle timeout closes the connection.
        let _ = tokio::time::timeout(FAREWELL, self.endpoint.wait_idle()).await;
    }
}
