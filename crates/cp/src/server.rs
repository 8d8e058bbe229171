//! The server: a folder for clients that prove who they are, if they must.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use mpquic::{
    Connection, ConnectionError, Endpoint, EndpointConfig, Incoming, MissingAddr, SendStream,
    ServerConfig, VarInt,
};
use mpquic_peer::status::{Present, Status};
use mpquic_peer::{Admitted, Door, Greeting, Pace, Token, Transport, User, Users};
use tokio::time::timeout;

use crate::error::Error;
use crate::limits::{self, Limits};
use crate::name::Name;
use crate::requests::{self, Rights, Share};
use crate::settings;
use crate::tree::{self, Hidden};
use crate::wire::{self, LABEL, VERSION, Welcome};

/// The code with which a server closes the connection of a client that it does not take.
pub(crate) const UNWELCOME: VarInt = VarInt::from_u32(1);
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
    /// Whether clients may remove and rename what is there. Only with a token, or with client certificates in TLS.
    pub allow_remove: bool,
    /// Whether TLS asks for client certificates.
    pub client_certificates: bool,
    /// The token that clients must have.
    pub token: Option<Token>,
    /// Those that may come by name, each with rights, a folder and limits of its own. Follows their file while the server runs.
    pub users: Option<Arc<Users>>,
    /// Nothing but this file or folder, with all that is below it, if there is one.
    pub only: Option<Name>,
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
    current: Arc<Current>,
    present: Arc<Present>,
}

/// What is offered now; those that have it go on with it.
#[derive(Debug)]
struct Current(RwLock<Arc<Open>>);

impl Current {
    fn get(&self) -> Arc<Open> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn change<T>(&self, change: impl FnOnce(&mut Arc<Open>) -> T) -> T {
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What is offered to whom, as it is now.
#[derive(Debug, Clone)]
struct Open {
    share: Share,
    addresses: Vec<SocketAddr>,
    door: Door,
}

impl Open {
    /// What one client has. May wait for the disk.
    fn of(&self, user: Option<&Admitted>) -> io::Result<Share> {
        let mut share = self.share.clone();
        let Some(user) = user else { return Ok(share) };
        let user = user.user().ok_or(io::ErrorKind::PermissionDenied)?;
        if let Some(rights) = &user.rights {
            share.rights = Rights::of(rights);
        }
        if let Some(folder) = &user.folder {
            share.root = Arc::new(share.root.open_dir(folder)?);
        }
        Ok(share)
    }
}

/// Whether the folder of a user is below the one that is served, as it is written.
pub fn is_below(folder: &Path) -> bool {
    let is_plain = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    folder.components().all(is_plain)
}

/// Those that may use a server by name, from a file: see [`mpquic_peer::users`].
///
/// # Errors
///
/// If it cannot be read, or makes no sense for a server of files.
pub fn users(path: &Path) -> Result<Arc<Users>, Error> {
    let check = |user: &User| match &user.folder {
        Some(folder) if !is_below(folder) => Err(format!(
            "folder: {} is not below the folder that is served",
            folder.display()
        )),
        _ if user.allow.is_some() => Err("a server of files reaches nothing".to_owned()),
        _ => Ok(()),
    };
    Ok(Users::open(path, check)?)
}

impl ServerSettings {
    fn open(&self, root: Arc<cap_std::fs::Dir>, hidden: Hidden) -> Result<Open, Error> {
        let anybody = self.token.is_none() && self.users.is_none() && !self.client_certificates;
        if (self.allow_put || self.allow_remove) && anybody {
            let why = "anybody could write here: give --token-file, --users or --client-ca";
            return Err(Error::Argument(why.to_owned()));
        }
        Ok(Open {
            share: Share {
                root,
                hidden,
                rights: Rights {
                    get: true,
                    put: self.allow_put,
                    remove: self.allow_remove,
                },
                only: self.only.clone(),
            },
            addresses: self.announce.clone(),
            door: Door {
                token: self.token.clone(),
                users: self.users.clone(),
            },
        })
    }

    /// Whether a server could be bound with them.
    ///
    /// # Errors
    ///
    /// If the folder cannot be opened, there is no such scheduler or controller, or anybody could put files.
    pub fn check(&self) -> Result<(), Error> {
        let root = tree::open(&self.root);
        let root = root.map_err(|source| Error::file(&self.root, source))?;
        self.open(root, Hidden::default())?;
        settings::server_transport(self).map(|_| ())
    }
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
        let root = tree::open(&settings.root);
        let root = root.map_err(|source| Error::file(&settings.root, source))?;
        let open = settings.open(root, Hidden::default())?;
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
        Ok(Self {
            endpoint,
            root: settings.root,
            current: Arc::new(Current(RwLock::new(Arc::new(open)))),
            present: Arc::default(),
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
        self.current
            .change(|open| Arc::make_mut(open).share.hidden.add(file))
            .map_err(here)
    }

    /// Where it listens.
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        self.endpoint.local_addrs()
    }

    /// Addresses where it should listen and does not, since this host has none of their family.
    pub fn missing_addrs(&self) -> &[MissingAddr] {
        self.endpoint.missing_addrs()
    }

    /// Takes another token, other addresses to announce, and whether files may be put; all else stays as it was at the start. Nobody is
    /// dropped: the token holds for those that come from now on, the rest for what is asked for from now on.
    ///
    /// # Errors
    ///
    /// If anybody could put files: all stays as it was.
    pub fn reload(&self, settings: &ServerSettings) -> Result<(), Error> {
        self.current.change(|open| {
            let share = &open.share;
            let mut now = settings.open(Arc::clone(&share.root), share.hidden.clone())?;
            now.door.users = open.door.users.clone();
            now.share.only = share.only.clone();
            *open = Arc::new(now);
            Ok(())
        })
    }

    /// What its clients do.
    pub fn status(&self) -> Status {
        Status {
            program: "mpquic-cp",
            role: "serve",
            peers: self.present.peers(),
        }
    }

    /// Serves clients until `stop` is done. Each of their transfers is a line for `log`.
    pub async fn run(
        &self,
        stop: impl Future<Output = ()>,
        log: impl Fn(&str) + Clone + Send + Sync + 'static,
    ) {
        let house = Arc::new(House {
            current: Arc::clone(&self.current),
            present: Arc::clone(&self.present),
            limits: Arc::new(Limits::new(mpquic_peer::raise_open_files())),
            strangers: Pace::default(),
        });
        let accepting = async {
            while let Some(incoming) = self.endpoint.accept().await {
                tokio::spawn(serve(incoming, Arc::clone(&house), log.clone()));
            }
        };
        let users = self.current.get().door.users.clone();
        let following = async {
            match &users {
                Some(users) => users.follow().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = accepting => {}
            () = following => {}
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
    current: Arc<Current>,
    present: Arc<Present>,
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
    // If the client is refused, its stream lives as long as the connection: the end would come before the reason, and say nothing.
    let mut stream = None;
    let user = match greet(&connection, &house.current.get(), &mut stream).await {
        Ok(user) => user.map(Arc::new),
        Err(why) => {
            connection.close(UNWELCOME, why.as_bytes());
            return complain(&house.strangers, &log, remote, "refused: ", &why);
        }
    };
    drop(stream);
    settings::greeted(&connection);
    let who: Arc<str> = match &user {
        Some(user) => format!("{remote} ({})", user.name()).into(),
        None => remote.to_string().into(),
    };
    log(&format!("{who}: a client"));
    let name = user.as_deref().map(Admitted::name);
    let requests = Arc::new(());
    let open = Arc::clone(&requests);
    let _present = house.present.enter(remote, name, &connection, move || {
        // Each has a handle, as have this one and the loop below.
        [(
            "requests",
            Arc::strong_count(&open).saturating_sub(2) as u64,
        )]
        .into()
    });
    let limits = limits::Share::new(Arc::clone(&house.limits));
    let pace = Arc::new(Pace::default());
    let until = async {
        match &user {
            Some(user) => user.ended().await,
            None => std::future::pending().await,
        }
    };
    let mut until = std::pin::pin!(until);
    let ended = loop {
        let accepted = tokio::select! {
            accepted = connection.accept_bi() => accepted,
            why = &mut until => {
                connection.close(UNWELCOME, why.as_bytes());
                return log(&format!("{who}: closed: {why}"));
            }
        };
        match accepted {
            Ok((send, recv)) => {
                let (house, limits, log) = (Arc::clone(&house), limits.clone(), log.clone());
                let (pace, user, who) = (Arc::clone(&pace), user.clone(), Arc::clone(&who));
                let counted = Arc::clone(&requests);
                tokio::spawn(async move {
                    let _counted = counted;
                    let user = user.as_deref();
                    let share = match house.current.get().of(user) {
                        Ok(share) => share,
                        Err(error) => return complain(&pace, &log, &who, "", &error),
                    };
                    let tell = |outcome: requests::Outcome| match outcome {
                        Ok(text) => log(&format!("{who}: {text}")),
                        Err(error) => complain(&pace, &log, &who, "", &error),
                    };
                    requests::answer(&share, &limits, user, send, recv, tell).await;
                });
            }
            Err(ended) => break ended,
        }
    };
    match ended {
        // As clients that are done close it.
        ConnectionError::ApplicationClosed(close) if close.error_code == VarInt::from_u32(0) => {
            log(&format!("{who}: gone"));
        }
        ConnectionError::LocallyClosed => {}
        ended => log(&format!("{who}: gone: {ended}")),
    }
}

/// A line about what a peer was refused, or did wrong. It costs the peer less than what it asks for: there is a limit.
fn complain(
    pace: &Pace,
    log: &impl Fn(&str),
    remote: impl std::fmt::Display,
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

/// Takes the greeting on the first stream, and answers it there; the stream is left in `stream`.
async fn greet(
    connection: &Connection,
    open: &Open,
    stream: &mut Option<SendStream>,
) -> Result<Option<Admitted>, String> {
    let greeted = timeout(PATIENCE, async {
        let (send, mut recv) = connection.accept_bi().await?;
        let send = stream.insert(send);
        let greeting = Greeting::read(&mut recv, VERSION).await?;
        Ok::<_, Error>((send, greeting))
    });
    let (send, greeting) = match greeted.await {
        Ok(Ok(greeted)) => greeted,
        Ok(Err(error)) => return Err(error.to_string()),
        Err(_) => return Err("no greeting came".to_owned()),
    };
    let user = open
        .door
        .judge(greeting, connection, VERSION, LABEL)
        .await?;
    let share = open.of(user.as_ref());
    let share = share.map_err(|error| format!("the folder of this user: {error}"))?;
    let welcome = Welcome {
        writable: share.rights.put,
        addresses: open.addresses.clone(),
        several: true,
    };
    let answered = wire::send(send, &welcome).await;
    answered.map_err(|error| error.to_string())?;
    Ok(user)
}

#[cfg(test)]
mod tests {
    use mpquic::ClientConfig;
    use mpquic_peer::{Identity, Trust};
    use mpquic_test_support::runtime::run;

    use super::*;
    use crate::settings::{client_tls, server_tls};

    #[test]
    fn who_is_refused_hears_why_before_the_stream_ends() {
        run(async {
            let folder = tempfile::tempdir().unwrap();
            let identity = Identity::kept_in(&folder.path().join("identity"), "test").unwrap();
            let trust = Trust::Fingerprint(identity.fingerprint().unwrap());
            let settings = ServerSettings {
                root: folder.path().to_owned(),
                allow_put: false,
                allow_remove: false,
                users: None,
                only: None,
                client_certificates: false,
                token: Some(Token::new(b"a token for the tests").unwrap()),
                announce: Vec::new(),
                transport: Transport::default(),
                patience: PATIENCE,
            };
            let here = [(std::net::Ipv4Addr::LOCALHOST, 0).into()];
            let tls = server_tls(identity, None, None).unwrap();
            let server = Server::bind(tls, &here, settings).unwrap();
            let tls = client_tls(&trust, None, None).unwrap();
            let config = ClientConfig::new(Arc::new(tls.config)).unwrap();
            let endpoint = Endpoint::client(&here).unwrap();
            let connecting = endpoint.connect_with(config, server.local_addrs()[0], "server");
            let accepted = async { server.endpoint.accept().await.unwrap().await.unwrap() };
            let (connection, near) = tokio::join!(accepted, connecting.unwrap());
            let near = near.unwrap();
            let (mut send, mut recv) = near.open_bi().await.unwrap();
            send.write_all(&[&[VERSION][..], &[0; 32]].concat())
                .await
                .unwrap();
            let mut stream = None;
            let greeted = greet(&connection, &server.current.get(), &mut stream).await;
            let why = greeted.err().unwrap();
            // What the server sends next comes after an end of the stream, if there is one.
            let mut next = connection.open_uni().await.unwrap();
            next.write_all(b"next").await.unwrap();
            next.finish().unwrap();
            let mut next = near.accept_uni().await.unwrap();
            assert_eq!(next.read_to_end(10).await.unwrap(), b"next");
            connection.close(UNWELCOME, why.as_bytes());
            let heard = recv.read_to_end(10).await.unwrap_err().to_string();
            assert!(heard.contains(&why), "{heard}");
        });
    }
}
