//! The server: a folder for clients that prove who they are, if they must.

use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mpquic::{
    Connection, ConnectionError, Endpoint, EndpointConfig, Incoming, MissingAddr, ServerConfig,
    VarInt,
};
use mpquic_peer::{PROOF, Pace, Token, Transport};
use tokio::time::timeout;

use crate::error::Error;
use crate::limits::{self, Limits};
use crate::requests::{self, Share};
use crate::settings;
use crate::tree::{self, Hidden};
use crate::wire::{self, LABEL, VERSION, Welcome};

/// The code with which a server closes the connection of a client that it does not take.
pub(crate) const UNWELCOME: VarInt = VarInt::from_u32(1);
/// What a client without a token gives.
const NO_PROOF: [u8; PROOF] = [0; PROOF];
/// How long a client may take to greet.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long clients have to acknowledge the close when the server stops.
const FAREWELL: Duration = Duration::from_secs(1);

/// What a server serves to whom.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// The folder.
    pub root: PathBuf,
    /// Whether clients may put files. Only with a token, or with client certificates in TLS.
    pub allow_put: bool,
    /// Whether TLS asks for client certificates.
    pub client_certificates: bool,
    /// The token that clients must have.
    pub token: Option<Token>,
    /// Its other addresses, which clients are told: they open paths there, too.
    pub announce: Vec<SocketAddr>,
    /// Scheduler and congestion controller.
    pub transport: Transport,
    /// How long a client may take less than 500 bytes a second of what it asked for, before its connection is closed:
    /// [`ServerSettings::PATIENCE`], unless there is a reason.
    pub patience: Duration,
}

impl ServerSettings {
    /// As long as a connection without any answer lasts: 30 seconds.
    pub const PATIENCE: Duration = settings::IDLE;
}

/// A server of a folder.
#[derive(Debug)]
pub struct Server {
    endpoint: Endpoint,
    root: PathBuf,
    share: Share,
    welcome: Welcome,
    token: Option<Token>,
}

impl Server {
    /// Binds its sockets, with keys of its own for each start: [`bind_as`](Self::bind_as) has those that outlive it.
    ///
    /// # Errors
    ///
    /// If the folder cannot be opened, an address not be bound, there is no such scheduler or controller, or anybody could put files.
    pub fn bind(
        tls: rustls::ServerConfig,
        locals: &[SocketAddr],
        settings: ServerSettings,
    ) -> Result<Self, Error> {
        Self::build(None, tls, locals, settings)
    }

    /// Binds its sockets with an endpoint's configuration, such as that of [`Identity::endpoint_config`](mpquic_peer::Identity::endpoint_config):
    /// after a crash and a new start, clients are told at once that their connections are gone.
    ///
    /// # Errors
    ///
    /// As [`bind`](Self::bind).
    pub fn bind_as(
        endpoint: EndpointConfig,
        tls: rustls::ServerConfig,
        locals: &[SocketAddr],
        settings: ServerSettings,
    ) -> Result<Self, Error> {
        Self::build(Some(endpoint), tls, locals, settings)
    }

    fn build(
        endpoint: Option<EndpointConfig>,
        tls: rustls::ServerConfig,
        locals: &[SocketAddr],
        settings: ServerSettings,
    ) -> Result<Self, Error> {
        if settings.allow_put && settings.token.is_none() && !settings.client_certificates {
            let why = "anybody could write here: give --token-file or --client-ca";
            return Err(Error::Argument(why.to_owned()));
        }
        let root = tree::open(&settings.root);
        let root = root.map_err(|source| Error::file(&settings.root, source))?;
        let mut config = ServerConfig::new(Arc::new(tls)).map_err(settings::tls)?;
        config
            .transport(Arc::new(settings::server_transport(&settings)?))
            .max_connections(limits::CLIENTS)
            .max_connections_per_prefix(limits::CLIENTS_OF_ONE);
        let mut builder = Endpoint::builder().bind_all(locals).server(config);
        if let Some(endpoint) = endpoint {
            builder = builder.endpoint_config(endpoint);
        }
        let endpoint = builder.build().map_err(|source| {
            let texts: Vec<_> = locals.iter().map(ToString::to_string).collect();
            mpquic_peer::Error::Listen {
                address: texts.join(", "),
                source,
            }
        })?;
        let share = Share {
            root,
            hidden: Hidden::default(),
            writable: settings.allow_put,
        };
        Ok(Self {
            endpoint,
            root: settings.root,
            share,
            welcome: Welcome {
                writable: settings.allow_put,
                addresses: settings.announce,
            },
            token: settings.token,
        })
    }

    /// Keeps a file back, such as a private key: it is never served, under this name or another one that it has or gets.
    ///
    /// # Errors
    ///
    /// If it is not there, or below the folder that is served.
    pub fn hide(&mut self, file: &Path) -> Result<(), Error> {
        let here = |source| Error::file(file, source);
        // A pipe, as shells make of `<(...)`, is in no folder, and keeps nothing.
        if !file.metadata().map_err(here)?.is_file() {
            return Ok(());
        }
        let whole = file.canonicalize().map_err(here)?;
        if whole.starts_with(self.root.canonicalize().map_err(here)?) {
            return Err(Error::Argument(format!(
                "{} would be among the files that it serves: keep it elsewhere",
                file.display()
            )));
        }
        self.share.hidden.add(file).map_err(here)
    }

    /// Where it listens.
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        self.endpoint.local_addrs()
    }

    /// Addresses where it should listen and does not, since this host has none of their family.
    pub fn missing_addrs(&self) -> &[MissingAddr] {
        self.endpoint.missing_addrs()
    }

    /// Serves clients until `stop` is done. Each of their transfers is a line for `log`.
    pub async fn run(
        self,
        stop: impl Future<Output = ()>,
        log: impl Fn(&str) + Clone + Send + Sync + 'static,
    ) {
        let house = Arc::new(House {
            share: self.share,
            welcome: self.welcome,
            token: self.token,
            limits: Arc::new(Limits::new(mpquic_peer::raise_open_files())),
            strangers: Pace::default(),
        });
        let accepting = async {
            while let Some(incoming) = self.endpoint.accept().await {
                tokio::spawn(serve(incoming, Arc::clone(&house), log.clone()));
            }
        };
        tokio::select! {
            () = accepting => {}
            () = stop => {}
        }
        self.endpoint
            .close(VarInt::from_u32(0), b"the server stops");
        // Who does not answer has its idle timeout.
        let _ = timeout(FAREWELL, self.endpoint.wait_idle()).await;
    }
}

/// What all connections share.
struct House {
    share: Share,
    welcome: Welcome,
    token: Option<Token>,
    limits: Arc<Limits>,
    /// Lines about those that are no clients yet.
    strangers: Pace,
}

async fn serve(
    incoming: Incoming,
    house: Arc<House>,
    log: impl Fn(&str) + Clone + Send + Sync + 'static,
) {
    let remote = incoming.remote_address();
    let connection = match incoming.await {
        Ok(connection) => connection,
        Err(error) => return complain(&house.strangers, &log, remote, "no handshake: ", &error),
    };
    if let Err(why) = greet(&connection, &house.welcome, house.token.as_ref()).await {
        connection.close(UNWELCOME, why.as_bytes());
        return complain(&house.strangers, &log, remote, "refused: ", &why);
    }
    settings::greeted(&connection);
    log(&format!("{remote}: a client"));
    let limits = limits::Share::new(Arc::clone(&house.limits));
    let pace = Arc::new(Pace::default());
    let ended = loop {
        match connection.accept_bi().await {
            Ok((send, recv)) => {
                let (house, limits, log) = (Arc::clone(&house), limits.clone(), log.clone());
                let pace = Arc::clone(&pace);
                tokio::spawn(async move {
                    match requests::answer(&house.share, &limits, send, recv).await {
                        Ok(text) => log(&format!("{remote}: {text}")),
                        Err(error) => complain(&pace, &log, remote, "", &error),
                    }
                });
            }
            Err(ended) => break ended,
        }
    };
    match ended {
        // As clients that are done close it.
        ConnectionError::ApplicationClosed(close) if close.error_code == VarInt::from_u32(0) => {
            log(&format!("{remote}: gone"));
        }
        ConnectionError::LocallyClosed => {}
        ended => log(&format!("{remote}: gone: {ended}")),
    }
}

/// A line about what a peer was refused, or did wrong. It costs the peer less than what it asks for: there is a limit.
fn complain(
    pace: &Pace,
    log: &impl Fn(&str),
    remote: SocketAddr,
    what: &str,
    why: &dyn std::fmt::Display,
) {
    let (shown, left_out) = pace.step(Instant::now());
    if left_out > 0 {
        log(&format!("{remote}: {left_out} complaints are left out"));
    }
    if shown {
        log(&format!("{remote}: {what}{why}"));
    }
}

/// Takes the greeting on the first stream, and answers it.
async fn greet(
    connection: &Connection,
    welcome: &Welcome,
    token: Option<&Token>,
) -> Result<(), String> {
    let greeted = timeout(PATIENCE, async {
        let (send, mut recv) = connection.accept_bi().await?;
        let mut greeting = [0; 1 + PROOF];
        recv.read_exact(&mut greeting).await?;
        Ok::<_, Error>((send, greeting))
    });
    let (mut send, [version, proof @ ..]) = match greeted.await {
        Ok(Ok(greeted)) => greeted,
        Ok(Err(error)) => return Err(error.to_string()),
        Err(_) => return Err("no greeting came".to_owned()),
    };
    if version != VERSION {
        return Err(format!(
            "this server speaks version {VERSION} of the protocol, not {version}"
        ));
    }
    if token.is_some_and(|token| !token.proves(connection, LABEL, &proof)) {
        return Err(match proof {
            NO_PROOF => "it needs a token: give --token-file".to_owned(),
            _ => "wrong token".to_owned(),
        });
    }
    let answered = wire::send(&mut send, welcome).await;
    answered.map_err(|error| error.to_string())
}
