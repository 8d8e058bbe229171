//! The client: a connection over all the local addresses that it is given, and what it asks for on it.

use std::collections::HashSet;
use std::convert::Infallible;
use std::future::Future;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use mpquic::{
    ClientConfig, Connection, ConnectionError, Endpoint, FullMesh, LinkEvent, LinkTask, PathEvent,
    RecvStream, SendStream, VarInt,
};
use mpquic_peer::{ClientTls, Local, PROOF, Rate, Throttle, Token, Transport};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::error::Error;
use crate::limits::STREAMS;
use crate::name::Name;
use crate::progress::{PathShare, Progress};
use crate::select::Select;
use crate::server::UNWELCOME;
use crate::settings::{self, IDLE};
use crate::wire::{self, Answer, Entry, LABEL, Listed, RefusalKind, Request, VERSION, Welcome};

/// How long the server may take to greet.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long to wait at the end until the server knows of the close.
const FAREWELL: Duration = Duration::from_secs(1);
/// Files at a time: small ones wait for round trips. Two streams of those that a server lets a client have are left for listings.
pub(crate) const FILES: usize = STREAMS as usize - 2;
/// Further addresses that a server may name.
const ADDRESSES: usize = 8;
/// What a listing may take of this side's memory, bytes: some three million files.
const LISTING: u64 = 512 << 20;
/// How long to wait before a server that has no room, or whose file is taken, is asked again.
const AGAIN: Duration = Duration::from_millis(500);

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
    /// How fast contents are sent, and how fast they are taken, over all files at a time; as fast as it goes without.
    pub rate: Option<Rate>,
}

/// Where a client connects from.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum Locals {
    /// From an address that the system chooses.
    #[default]
    System,
    /// From these addresses, one per link.
    These(Vec<Local>),
    /// From all links of this machine, as they come and go. A server on the same machine is reached as the system chooses.
    All {
        /// Interfaces that cost money by the byte: they are used if no other link works.
        metered: Vec<String>,
    },
}

/// How files are copied.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopyOptions {
    /// Whether files and folders get the permissions that they have on the other side: reading, writing and executing by owner, group
    /// and others. Default true.
    pub permissions: bool,
    /// Whether symbolic links are copied as links, if they lead to something in what is copied. Else what a link to a file leads to is
    /// copied, and a link to a folder is left out. Default false.
    pub links: bool,
    /// Whether a file is replaced that was changed later than the one that is copied. Default false.
    pub overwrite: bool,
    /// Whether files of the same size and time of change, in whole seconds, are taken for the same, and not read. Default false.
    pub quick: bool,
    /// Whether what the copy of a folder has and the folder has not is removed, when all else is copied. What [`select`](Self::select)
    /// leaves out stays on both sides, and so does what could not be listed. Default false.
    pub delete: bool,
    /// Whether nothing is done, and [`Progress::plan`] tells what would be. Default false.
    pub dry_run: bool,
    /// What of a folder is copied. Default all.
    pub select: Select,
}

impl Default for CopyOptions {
    fn default() -> Self {
        Self {
            permissions: true,
            links: false,
            overwrite: false,
            quick: false,
            delete: false,
            dry_run: false,
            select: Select::default(),
        }
    }
}

/// What is listed of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct List {
    /// All that is below it, too.
    pub deep: bool,
    /// Symbolic links as links; else links to files as the files that they lead to, and no links to folders.
    pub links: bool,
}

/// A connection to a server. May be cloned to get another handle.
#[derive(Debug, Clone)]
pub struct Client {
    endpoint: Endpoint,
    pub(crate) connection: Connection,
    writable: bool,
    takes_several: bool,
    throttle: Option<Arc<Throttle>>,
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
        config.transport(Arc::new(settings::client_transport(&settings.transport)?));
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
            takes_several: welcome.several,
            throttle: settings
                .rate
                .map(|rate| Arc::new(Throttle::new(Some(rate)))),
            _links: links.map(Arc::new),
        })
    }

    /// Whether the server takes files.
    pub const fn is_writable(&self) -> bool {
        self.writable
    }

    /// Whether the server is asked for several files on one stream.
    pub(crate) const fn takes_several(&self) -> bool {
        self.takes_several
    }

    pub(crate) fn throttle(&self) -> Option<&Throttle> {
        self.throttle.as_deref()
    }

    /// What each path has carried so far.
    pub fn paths(&self) -> Vec<PathShare> {
        PathShare::of(&self.connection)
    }

    /// Closes the connection, and waits for a moment until the server knows.
    pub async fn close(&self) {
        if self.connection.close_reason().is_some() {
            // Nobody is there to be told.
            return;
        }
        self.connection.close(VarInt::from_u32(0), b"done");
        // If the server does not hear of it, its idle timeout closes the connection.
        let _ = timeout(FAREWELL, self.endpoint.wait_idle()).await;
    }

    /// Lists a file or folder of the server: itself first, then what it has, in any order; with `deep`, all that is below it, each
    /// folder before its contents. Each is given to `emit` as it comes, and what is left out to `progress`.
    ///
    /// # Errors
    ///
    /// If there is none, the connection breaks, or the listing takes more than 512 MiB of memory where it is kept as a whole.
    pub async fn list(
        &self,
        name: &Name,
        what: List,
        progress: &Progress,
        mut emit: impl FnMut(Entry),
    ) -> Result<(), Error> {
        self.list_all(name, what, |listed| match listed {
            Listed::Entry(entry) => emit(entry),
            Listed::Omitted(omission) => progress.omit(&omission),
        })
        .await
    }

    /// The same, with what is left out in its place.
    pub(crate) async fn list_all(
        &self,
        name: &Name,
        what: List,
        mut emit: impl FnMut(Listed),
    ) -> Result<(), Error> {
        let request = Request::List {
            name: name.clone(),
            deep: what.deep,
            links: what.links,
            omissions: true,
        };
        let (_, mut recv, answer) = self.request(&request, true).await?;
        if answer != Answer::Listing {
            return Err(unexpected(&answer));
        }
        let mut room = Room::new(name);
        while let Some(listed) = wire::receive(&mut recv).await? {
            room.take(&listed)?;
            emit(listed);
        }
        Ok(())
    }

    /// Makes a folder of the server, and those that lead to it; one that is there stays as it is.
    ///
    /// # Errors
    ///
    /// If the server does not let this client put files, or the connection breaks.
    pub async fn make_folder(&self, name: &Name) -> Result<(), Error> {
        self.make_folder_with(name, None).await
    }

    /// Removes a file, a link or an empty folder of the server; with `deep`, a folder with all that is below it.
    ///
    /// # Errors
    ///
    /// If there is none, the server does not let this client remove anything, or the connection breaks.
    pub async fn remove(&self, name: &Name, deep: bool) -> Result<(), Error> {
        let name = name.clone();
        self.order(Request::Remove { name, deep }).await
    }

    /// Gives a file, a link or a folder of the server another name, which nothing has.
    ///
    /// # Errors
    ///
    /// If there is none, the other name is taken, the server does not let this client remove and put, or the connection breaks.
    pub async fn rename(&self, name: &Name, to: &Name) -> Result<(), Error> {
        let (name, to) = (name.clone(), to.clone());
        self.order(Request::Rename { name, to }).await
    }

    pub(crate) async fn order(&self, request: Request) -> Result<(), Error> {
        match self.request(&request, true).await? {
            (.., Answer::Done) => Ok(()),
            (.., other) => Err(unexpected(&other)),
        }
    }

    /// Tells `told` when no path works any more, and when one does again.
    pub async fn watch(&self, mut told: impl FnMut(&str)) -> Infallible {
        /// Shorter silences are told to nobody.
        const SILENCE: Duration = Duration::from_secs(1);
        let mut events = self.connection.path_events();
        let mut suspects = HashSet::new();
        let (mut works, mut said) = (true, false);
        loop {
            let event = if works || said {
                events.recv().await
            } else if let Ok(event) = timeout(SILENCE, events.recv()).await {
                event
            } else {
                said = true;
                told("no link works: waiting for one to come back");
                continue;
            };
            match event {
                // The connection is over: whoever waits for it knows why.
                None => return std::future::pending().await,
                Some(PathEvent::Suspect { id }) => drop(suspects.insert(id)),
                Some(
                    PathEvent::Recovered { id }
                    | PathEvent::Abandoned { id, .. }
                    | PathEvent::Discarded { id },
                ) => drop(suspects.remove(&id)),
                Some(_) => {}
            }
            let paths = self.connection.paths();
            works = paths.iter().any(|path| !suspects.contains(&path.id()));
            if works && std::mem::take(&mut said) {
                told("a link works again");
            }
        }
    }

    /// Opens a stream, and asks. With `whole`, nothing follows the request. A server that has no room now, or has not heard yet that an
    /// earlier connection with the same file is lost, is asked again until it must have heard.
    pub(crate) async fn request(
        &self,
        request: &Request,
        whole: bool,
    ) -> Result<(SendStream, RecvStream, Answer), Error> {
        let patience = Instant::now() + IDLE + AGAIN;
        loop {
            let (mut send, mut recv) = self.connection.open_bi().await?;
            wire::send(&mut send, request).await?;
            if whole {
                // It fails only if it is ended already.
                let _ = send.finish();
            }
            match wire::receive(&mut recv).await? {
                Some(Answer::Refused(refusal))
                    if matches!(refusal.kind, RefusalKind::Busy | RefusalKind::Limit)
                        && Instant::now() < patience =>
                {
                    sleep(AGAIN).await;
                }
                Some(Answer::Refused(refusal)) => {
                    return Err(Error::refused(request.name(), refusal));
                }
                Some(answer) => return Ok((send, recv, answer)),
                None => return Err(Error::Malformed("an empty answer".to_owned())),
            }
        }
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
                Some(Ok(Ok(()))) => {}
                Some(Ok(Err(error))) => {
                    // The others meet the same, and leave their files in order.
                    while error.is_passing() && running.join_next().await.is_some() {}
                    return Err(error);
                }
                Some(Err(panicked)) => return Err(Error::Malformed(panicked.to_string())),
            }
        }
    }
}

/// What is left for a listing: who copies a folder keeps all of it, and a server could go on for ever.
struct Room<'a> {
    name: &'a Name,
    left: u64,
}

impl<'a> Room<'a> {
    const fn new(name: &'a Name) -> Self {
        Self {
            name,
            left: LISTING,
        }
    }

    fn take(&mut self, listed: &Listed) -> Result<(), Error> {
        let text = match listed {
            Listed::Entry(entry) => {
                entry.name.as_str().len() + entry.target.as_ref().map_or(0, String::len)
            }
            Listed::Omitted(omission) => omission.omitted.len(),
        };
        let bytes = (size_of::<Listed>() + text) as u64;
        let left = self.left.checked_sub(bytes);
        self.left = left.ok_or_else(|| Error::TooMany(self.name.clone()))?;
        Ok(())
    }
}

/// Sockets on the local addresses that are given, or on those that reach the server's families.
async fn bind(
    settings: &ClientSettings,
    told: impl FnMut(LinkEvent) + Send + 'static,
) -> Result<(Endpoint, Option<LinkTask>), Error> {
    let unusable = |address: String| move |source| Error::Local { address, source };
    match &settings.locals {
        Locals::These(given) => {
            let locals: Vec<SocketAddr> = given.iter().map(|local| local.address()).collect();
            let texts: Vec<_> = locals.iter().map(|local| local.ip().to_string()).collect();
            let endpoint = Endpoint::client(&locals).map_err(unusable(texts.join(", ")))?;
            return Ok((endpoint, None));
        }
        Locals::All { metered } => {
            let remotes = mpquic_peer::resolve(&settings.server).await?;
            // No link leads to this very machine: the system knows the way.
            let is_here = remotes.iter().all(|remote| remote.ip().is_loopback());
            if !is_here || !metered.is_empty() {
                match mpquic_peer::all_links(&settings.server, metered, &[], told).await {
                    Err(mpquic_peer::Error::NoLinks(_)) if is_here => {}
                    bound => return Ok(bound?),
                }
            }
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
    Err(unusable(locals[0].to_string())(failed))
}

async fn greet(connection: &Connection, token: Option<&Token>) -> Result<Welcome, Error> {
    // Without a proof, the server says what is wrong.
    let without = || [&[VERSION][..], &[0; PROOF]].concat();
    let greeting = match token {
        Some(token) => token.greeting(connection, VERSION, LABEL),
        None => Ok(without()),
    };
    let greeting = greeting.unwrap_or_else(|_| without());
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
        Some(source) => mpquic_peer::Error::ended(server, source).into(),
        None => Error::Unwelcome {
            server: name(),
            why: otherwise.to_owned(),
        },
    };
    connection.close(VarInt::from_u32(0), b"");
    error
}

pub(crate) fn unexpected(answer: &Answer) -> Error {
    Error::Malformed(format!("{answer:?} is no answer to this"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Kind, Omission};

    /// How many of these are taken.
    fn taken(listed: &Listed) -> usize {
        let name = "folder".parse().unwrap();
        let mut room = Room::new(&name);
        let taken = std::iter::repeat_with(|| room.take(listed)).take_while(Result::is_ok);
        let taken = taken.take(LISTING as usize).count();
        let refused = room.take(listed).unwrap_err();
        let told = refused.to_string();
        assert!(told.starts_with("folder: it has more than"), "{told}");
        taken
    }

    #[test]
    fn a_listing_without_end_is_refused_whatever_it_consists_of() {
        let long = "n/".repeat(2_000) + "n";
        let entry = Entry {
            name: long.parse().unwrap(),
            kind: Kind::Link,
            size: 0,
            modified: None,
            mode: None,
            target: Some(long.clone()),
        };
        assert!((60_000..70_000).contains(&taken(&Listed::Entry(entry))));
        assert!((120_000..140_000).contains(&taken(&Listed::Omitted(Omission::new(&long, "no")))));
        // As many as anybody has.
        let short = Entry {
            name: "some/folder/with/a/file.of.some.kind".parse().unwrap(),
            kind: Kind::File,
            size: 0,
            modified: None,
            mode: None,
            target: None,
        };
        assert!(taken(&Listed::Entry(short)) > 2_500_000);
    }
}
