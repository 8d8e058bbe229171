//! The client: a connection over all the local addresses that it is given, and what it asks for on it.

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use mpquic::{
    ClientConfig, Connection, ConnectionError, Endpoint, FullMesh, LinkEvent, LinkTask, VarInt,
};
use mpquic_peer::{ClientTls, PROOF, Token, Transport};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::error::Error;
use crate::name::Name;
use crate::progress::PathShare;
use crate::server::UNWELCOME;
use crate::settings;
use crate::wire::{self, Answer, Entry, LABEL, Request, VERSION, Welcome};

/// How long the server may take to greet.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long to wait at the end until the server knows of the close.
const FAREWELL: Duration = Duration::from_secs(1);
/// Files at a time: enough that small ones do not wait for round trips.
const FILES: usize = 8;
/// Further addresses that a server may name.
const ADDRESSES: usize = 8;

/// What a client connects to, and how.
#[derive(Debug, Clone)]
pub struct ClientSettings {
    /// The server, `HOST:PORT`.
    pub server: String,
    /// The token, if the server wants one.
    pub token: Option<Token>,
    /// Where it connects from.
    pub locals: Locals,
    /// Scheduler and congestion controller.
    pub transport: Transport,
}

/// Where a client connects from.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum Locals {
    /// From an address that the system chooses.
    #[default]
    System,
    /// From these addresses, one per link.
    These(Vec<IpAddr>),
    /// From all links of this machine, as they come and go.
    All {
        /// Interfaces that cost money by the byte: they are used if no other link works.
        metered: Vec<String>,
    },
}

/// A connection to a server. May be cloned to get another handle.
#[derive(Debug, Clone)]
pub struct Client {
    endpoint: Endpoint,
    pub(crate) connection: Connection,
    writable: bool,
    /// Follows the links of the machine.
    _links: Option<Arc<LinkTask>>,
}

impl Client {
    /// Connects, and greets the server. `told` is told of links that come and go, if all are used.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached, does not take this client, or is not the one that is trusted; if no local address can
    /// be bound; if there is no such scheduler or controller.
    pub async fn connect(
        tls: ClientTls,
        settings: ClientSettings,
        told: impl FnMut(LinkEvent) + Send + 'static,
    ) -> Result<Self, Error> {
        let mut config = ClientConfig::new(Arc::new(tls.config.clone())).map_err(settings::tls)?;
        config.transport(Arc::new(settings::transport(&settings.transport)?));
        let (endpoint, links) = bind(&settings, told).await?;
        let connection = mpquic_peer::dial(&endpoint, config, &tls, &settings.server).await?;
        let greeted = timeout(PATIENCE, greet(&connection, settings.token.as_ref())).await;
        let welcome = match greeted {
            Ok(Ok(welcome)) => welcome,
            Ok(Err(error)) => {
                return Err(unwelcome(&connection, &settings.server, &error.to_string()));
            }
            Err(_) => return Err(unwelcome(&connection, &settings.server, "no welcome came")),
        };
        // The links of the machine have theirs already.
        if links.is_none() || !welcome.addresses.is_empty() {
            let remotes = welcome.addresses.into_iter().take(ADDRESSES);
            connection.set_path_manager(remotes.fold(FullMesh::new(), FullMesh::remote));
        }
        Ok(Self {
            endpoint,
            connection,
            writable: welcome.writable,
            _links: links.map(Arc::new),
        })
    }

    /// Whether the server takes files.
    pub const fn is_writable(&self) -> bool {
        self.writable
    }

    /// What each path has carried so far.
    pub fn paths(&self) -> Vec<PathShare> {
        PathShare::of(&self.connection)
    }

    /// Closes the connection, and waits for a moment until the server knows.
    pub async fn close(&self) {
        self.connection.close(VarInt::from_u32(0), b"done");
        // If the server does not hear of it, its idle timeout closes the connection.
        let _ = timeout(FAREWELL, self.endpoint.wait_idle()).await;
    }

    /// Lists a file or folder of the server: itself first, then what it has; with `deep`, all that is below it. Each is given to `emit`
    /// as it comes.
    ///
    /// # Errors
    ///
    /// If there is none, or the connection breaks.
    pub async fn list(
        &self,
        name: &Name,
        deep: bool,
        mut emit: impl FnMut(Entry),
    ) -> Result<(), Error> {
        let (mut send, mut recv) = self.connection.open_bi().await?;
        let request = Request::List {
            name: name.clone(),
            deep,
        };
        wire::send(&mut send, &request).await?;
        // It fails only if it is ended already.
        let _ = send.finish();
        match wire::receive(&mut recv).await? {
            Some(Answer::Listing) => {}
            Some(Answer::Refused(refusal)) => return Err(Error::refused(name, refusal)),
            other => return Err(unexpected(&other)),
        }
        while let Some(entry) = wire::receive(&mut recv).await? {
            emit(entry);
        }
        Ok(())
    }

    /// Runs a piece of work for each item, some at a time. The first error ends all.
    pub(crate) async fn each<T, F>(
        &self,
        items: impl IntoIterator<Item = T>,
        work: impl Fn(Self, T) -> F,
    ) -> Result<(), Error>
    where
        F: Future<Output = Result<(), Error>> + Send + 'static,
    {
        let mut running = JoinSet::new();
        let mut items = items.into_iter();
        loop {
            while running.len() < FILES
                && let Some(item) = items.next()
            {
                running.spawn(work(self.clone(), item));
            }
            match running.join_next().await {
                None => return Ok(()),
                Some(Ok(done)) => done?,
                Some(Err(panicked)) => return Err(Error::Malformed(panicked.to_string())),
            }
        }
    }
}

/// Sockets on the local addresses that are given, or on those that reach the server's families.
async fn bind(
    settings: &ClientSettings,
    told: impl FnMut(LinkEvent) + Send + 'static,
) -> Result<(Endpoint, Option<LinkTask>), Error> {
    let listen = |address: String| move |source| mpquic_peer::Error::Listen { address, source };
    match &settings.locals {
        Locals::These(ips) => {
            let locals: Vec<SocketAddr> = ips.iter().map(|ip| (*ip, 0).into()).collect();
            let texts: Vec<_> = ips.iter().map(ToString::to_string).collect();
            let endpoint = Endpoint::client(&locals).map_err(listen(texts.join(", ")))?;
            return Ok((endpoint, None));
        }
        Locals::All { metered } => {
            let (endpoint, links) = mpquic_peer::all_links(&settings.server, metered, told).await?;
            return Ok((endpoint, links));
        }
        Locals::System => {}
    }
    let remotes = mpquic_peer::resolve(&settings.server).await?;
    let any = |remote: &SocketAddr| -> SocketAddr {
        match remote {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        }
    };
    let mut locals: Vec<_> = remotes.iter().map(any).collect();
    locals.sort_unstable();
    locals.dedup();
    // A system without one of the families reaches the server by the other.
    let mut failed = None;
    for usable in [locals.as_slice(), &locals[..1], &locals[locals.len() - 1..]] {
        match Endpoint::client(usable) {
            Ok(endpoint) => return Ok((endpoint, None)),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    let failed = failed.unwrap_or_else(|| std::io::ErrorKind::AddrNotAvailable.into());
    Err(listen(locals[0].to_string())(failed).into())
}

async fn greet(connection: &Connection, token: Option<&Token>) -> Result<Welcome, Error> {
    let mut greeting = [0; 1 + PROOF];
    greeting[0] = VERSION;
    if let Some(token) = token {
        // Without the proof, the server says what is wrong.
        if let Ok(proof) = token.proof(connection, LABEL) {
            greeting[1..].copy_from_slice(&proof);
        }
    }
    let (mut send, mut recv) = connection.open_bi().await?;
    send.write_all(&greeting).await?;
    let _ = send.finish();
    let welcome = wire::receive(&mut recv).await?;
    welcome.ok_or_else(|| Error::Malformed("an empty welcome".to_owned()))
}

/// Why the greeting failed, in the server's words if it has said so.
fn unwelcome(connection: &Connection, server: &str, otherwise: &str) -> Error {
    let name = || server.to_owned();
    let error = match connection.close_reason() {
        Some(ConnectionError::ApplicationClosed(close)) if close.error_code == UNWELCOME => {
            Error::Unwelcome {
                server: name(),
                why: String::from_utf8_lossy(&close.reason).into_owned(),
            }
        }
        // Such as an alert of TLS about this client's certificate, which comes after the client's handshake is complete.
        Some(source) => mpquic_peer::Error::Connect {
            name: name(),
            source,
        }
        .into(),
        None => Error::Unwelcome {
            server: name(),
            why: otherwise.to_owned(),
        },
    };
    connection.close(VarInt::from_u32(0), b"");
    error
}

pub(crate) fn unexpected(answer: &Option<Answer>) -> Error {
    Error::Malformed(format!("{answer:?} is no answer to this"))
}
