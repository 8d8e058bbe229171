//! The client: keeps a connection to the server over all links, and opens streams on it.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mpquic::{
    ClientConfig, Connection, ConnectionError, Endpoint, FullMesh, LinkTask, PathStatus,
    RecvStream, SendStream, VarInt,
};
use mpquic_peer::status::{PathFigures, Peer, Status};
use mpquic_peer::{ClientTls, Escaped, LinkRule, Local, Passwords, Token, Transport};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::error::{Error, StreamFailure};
use crate::journal::Journal;
use crate::links::Links;
use crate::live::Lane;
use crate::proxy;
use crate::report::Report;
use crate::server::UNWELCOME;
use crate::settings;
use crate::udp::Flows;
use crate::wire::{LABEL, PROOF, Refusal, Request, Target, VERSION};

/// How long a program that uses the proxy waits for a connection that is away, and for the server's answer.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long a server may be silent before the next one is tried as well.
const HEAD_START: Duration = Duration::from_secs(3);
/// Between two attempts to connect; doubled up to the longest.
const SHORTEST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// How long to wait if no connection can be accepted for now; doubled up to the longest.
const SHORTEST_LOOK: Duration = Duration::from_millis(10);
const LONGEST_LOOK: Duration = Duration::from_secs(1);
/// The scheduler of connections for which none was chosen.
const SCHEDULER: &str = "arrival";

/// What a client connects to, and how.
#[derive(Debug, Clone)]
pub struct ClientSettings {
    /// The server, `HOST:PORT`; a link-local address has its zone, as in `[fe80::1%eth0]:4433`.
    pub server: String,
    /// The token, if the server wants one.
    pub token: Option<Token>,
    /// The local addresses, one per link; without any, all links of the machine, as they come and go.
    pub locals: Vec<IpAddr>,
    /// Interfaces that cost money by the byte: they are used if no other link works. Without effect on links that are named.
    pub metered: Vec<String>,
    /// Interfaces that are no links. Without effect on links that are named.
    pub ignored: Vec<String>,
    /// What else is to be kept to on links.
    pub links: Vec<LinkRule>,
    /// Where it is kept how much links with a quota carried in this month.
    pub usage: Option<PathBuf>,
    /// When a TCP connection on which nothing moves is given up.
    pub idle: Duration,
    /// What programs that use the local port must show: all may without.
    pub passwords: Option<Arc<Passwords>>,
    /// Scheduler and congestion controller.
    pub transport: Transport,
    /// For how long a UDP datagram is of use, if UDP is to go as frames in time: see [`LIVE_DEADLINE`](crate::LIVE_DEADLINE). The server must be
    /// set to it, too.
    pub live: Option<Duration>,
}

/// A server that is taken if those before it cannot be reached.
#[derive(Debug, Clone)]
pub struct Far {
    /// The server, as [`ClientSettings::server`].
    pub server: String,
    /// The token, if the server wants one.
    pub token: Option<Token>,
    /// How it is recognised.
    pub tls: ClientTls,
}

/// A server, and what its connections are made with.
#[derive(Debug)]
struct Way {
    far: Far,
    config: ClientConfig,
}

/// What one connection has: its handle, and its flows of datagrams.
#[derive(Debug, Clone)]
pub(crate) struct Uplink {
    /// Whose it is, as the server was named.
    pub(crate) server: Arc<str>,
    connection: Connection,
    since: Instant,
    pub(crate) flows: Arc<Flows>,
    pub(crate) lane: Arc<Lane>,
}

/// A proxy's near end.
#[derive(Debug)]
pub struct Client {
    endpoint: Endpoint,
    /// The servers, the one that is preferred first.
    ways: Vec<Way>,
    settings: ClientSettings,
    links: Links,
    current: watch::Sender<Option<Uplink>>,
    /// Follows the links, unless they were named.
    _links: Option<LinkTask>,
    /// Links that were taken out by hand: they stay out when the connection is made again.
    out: Mutex<Vec<IpAddr>>,
    /// The scheduler that was chosen by hand.
    scheduler: Mutex<Option<String>>,
    pub(crate) journal: Arc<Journal>,
    /// TCP connections and UDP associations of programs, as they are now.
    pub(crate) in_use: InUse,
    stopping: watch::Sender<bool>,
}

/// What programs have open through a client.
#[derive(Debug, Default)]
pub(crate) struct InUse {
    tcp: AtomicUsize,
    udp: AtomicUsize,
}

/// One of them, for as long as it lives.
pub(crate) struct Counted<'a>(&'a AtomicUsize);

impl InUse {
    pub(crate) fn tcp(&self) -> Counted<'_> {
        Counted::new(&self.tcp)
    }

    pub(crate) fn udp(&self) -> Counted<'_> {
        Counted::new(&self.udp)
    }

    /// By kind, for who looks at it.
    pub(crate) fn counts(&self) -> BTreeMap<&'static str, u64> {
        let of = |count: &AtomicUsize| count.load(Ordering::Relaxed) as u64;
        [("tcp", of(&self.tcp)), ("udp", of(&self.udp))].into()
    }
}

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Why a stream was not opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotOpened {
    /// The server said so.
    #[error("refused: {0}")]
    Refused(Refusal),
    /// There is no connection, or it broke.
    #[error("there is no connection to the server")]
    Away,
}

impl From<StreamFailure> for NotOpened {
    fn from(_: StreamFailure) -> Self {
        Self::Away
    }
}

impl Client {
    /// Connects, and greets the server.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached, does not take this client, or is not the one that is trusted; if no local address can
    /// be bound; if there is no such scheduler or controller.
    pub async fn connect(tls: ClientTls, settings: ClientSettings) -> Result<Arc<Self>, Error> {
        let locals: Vec<Local> = settings.locals.iter().map(|ip| (*ip).into()).collect();
        Self::connect_from(tls, settings, &locals).await
    }

    /// Connects from these local addresses, and not from those of the settings: they may be link-local ones, with their zones. Without any,
    /// over all links of the machine.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub async fn connect_from(
        tls: ClientTls,
        settings: ClientSettings,
        locals: &[Local],
    ) -> Result<Arc<Self>, Error> {
        Self::connect_to(tls, settings, locals, Vec::new()).await
    }

    /// Connects to the server of the settings, or to the first of `others` that can be reached if it cannot, or is silent for three
    /// seconds. When a connection is lost, the servers are tried in the same order again.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect), about the first server.
    pub async fn connect_to(
        tls: ClientTls,
        settings: ClientSettings,
        locals: &[Local],
        others: Vec<Far>,
    ) -> Result<Arc<Self>, Error> {
        let first = Far {
            server: settings.server.clone(),
            token: settings.token.clone(),
            tls,
        };
        let has_others = !others.is_empty();
        let mut ways = Vec::new();
        for far in std::iter::once(first).chain(others) {
            let config = ClientConfig::new(Arc::new(far.tls.config.clone()));
            let mut config = config.map_err(settings::tls)?;
            let mut transport = settings::client_transport(&settings.transport)?;
            if has_others {
                settings::fail_over(&mut transport);
            }
            if settings.live.is_some() {
                mpquic_live::tune(&mut transport);
            }
            config.transport(Arc::new(transport));
            ways.push(Way { far, config });
        }
        let rules = Links::new(settings.links.clone(), settings.usage.as_deref())?;
        let servers: Vec<&str> = ways.iter().map(|way| way.far.server.as_str()).collect();
        let servers = servers.join(",");
        let journal = Arc::new(Journal::default());
        let (endpoint, links) = if locals.is_empty() {
            let told = Arc::clone(&journal);
            let on = move |event| told.line(format_args!("{event}"));
            mpquic_peer::all_links(&servers, &settings.metered, &settings.ignored, on).await?
        } else {
            let locals: Vec<SocketAddr> = locals.iter().map(|local| local.address()).collect();
            let endpoint = Endpoint::client(&locals).map_err(|source| Error::Local {
                address: settings::list(&locals),
                source,
            })?;
            endpoint.set_path_manager(FullMesh::new());
            (endpoint, None)
        };
        let client = Arc::new(Self {
            endpoint,
            ways,
            settings,
            links: rules,
            current: watch::Sender::new(None),
            _links: links,
            out: Mutex::default(),
            scheduler: Mutex::default(),
            journal,
            in_use: InUse::default(),
            stopping: watch::Sender::new(false),
        });
        let uplink = client.dial(0).await?;
        client.current.send_replace(Some(uplink));
        Ok(client)
    }

    /// One attempt: this server, and those after it if it cannot be reached or lets wait. The error is that of the first.
    fn dial(
        &self,
        number: usize,
    ) -> Pin<Box<dyn Future<Output = Result<Uplink, Error>> + Send + '_>> {
        Box::pin(async move {
            let mut this = pin!(self.dial_one(&self.ways[number]));
            if number + 1 == self.ways.len() {
                return this.await;
            }
            let next = || {
                let server = &self.ways[number + 1].far.server;
                self.journal.line(format_args!("{server} is tried"));
                self.dial(number + 1)
            };
            let failed = match timeout(HEAD_START, &mut this).await {
                Ok(Ok(uplink)) => return Ok(uplink),
                Ok(Err(error)) => Some(error),
                Err(_) => None,
            };
            if let Some(error) = failed {
                self.journal.line(format_args!("{error}"));
                return next().await.map_err(|_| error);
            }
            let mut other = next();
            tokio::select! {
                dialled = &mut this => match dialled {
                    Ok(uplink) => Ok(uplink),
                    Err(error) => other.await.map_err(|_| error),
                },
                dialled = &mut other => match dialled {
                    Ok(uplink) => Ok(uplink),
                    Err(_) => this.await,
                },
            }
        })
    }

    /// All addresses of a server, from all links.
    async fn dial_one(&self, way: &Way) -> Result<Uplink, Error> {
        let name = &way.far.server;
        let config = way.config.clone();
        let connection = mpquic_peer::dial(&self.endpoint, config, &way.far.tls, name).await?;
        let greeted = timeout(PATIENCE, greet(way.far.token.as_ref(), &connection)).await;
        if let Err(error) = greeted.map_err(StreamFailure::from).flatten() {
            let name = name.clone();
            let error = match connection.close_reason() {
                Some(ConnectionError::ApplicationClosed(close))
                    if close.error_code == UNWELCOME =>
                {
                    let why = Escaped::new(&close.reason).to_string();
                    Error::Unwelcome { name, why }
                }
                Some(reason) => match mpquic_peer::Error::ended(&name, reason.clone()) {
                    untrusted if untrusted.is_distrust() => untrusted.into(),
                    _ => Error::Lost {
                        name,
                        why: reason.to_string(),
                    },
                },
                None => Error::Lost {
                    name,
                    why: error.to_string(),
                },
            };
            connection.close(VarInt::from_u32(0), b"");
            return Err(error);
        }
        Ok(Uplink {
            server: name.as_str().into(),
            connection,
            since: Instant::now(),
            flows: Arc::default(),
            lane: Arc::new(Lane::new(self.settings.live)),
        })
    }

    /// Serves programs that come to `listener`, and keeps the connection, until `stop` is done.
    ///
    /// # Errors
    ///
    /// If the listener fails.
    pub async fn run(
        self: &Arc<Self>,
        listener: TcpListener,
        stop: impl Future<Output = ()>,
    ) -> Result<(), Error> {
        let accepting = self.accept(&listener, |socket| {
            let client = Arc::clone(self);
            tokio::spawn(async move { proxy::serve(socket, &client).await });
        });
        let ended = tokio::select! {
            ended = accepting => ended,
            () = self.keep_connected() => Ok(()),
            () = stop => Ok(()),
        };
        self.stopping.send_replace(true);
        self.links.keep(&self.journal);
        // Before the last handle goes, which would close without a word.
        self.endpoint
            .close(VarInt::from_u32(0), b"the client stops");
        self.current.send_replace(None);
        self.endpoint.wait_idle().await;
        ended
    }

    /// Carries the packets of this machine, for as long as it is polled; what it changes of the system's routes is put back then. `begun` is from
    /// before the first connection.
    ///
    /// # Errors
    ///
    /// If the device cannot be made or fails, or the server gives no tunnel.
    #[cfg(target_os = "linux")]
    pub async fn tunnel(&self, begun: &crate::tun::Near) -> Result<(), Error> {
        begun.run(self).await
    }

    /// Leads each connection that comes to `listener` to one target, for as long as it is polled.
    ///
    /// # Errors
    ///
    /// If the listener fails.
    pub async fn forward(
        self: &Arc<Self>,
        listener: TcpListener,
        target: Target,
    ) -> Result<(), Error> {
        self.accept(&listener, |socket| {
            let (client, target) = (Arc::clone(self), target.clone());
            tokio::spawn(async move { proxy::forward(socket, target, &client).await });
        })
        .await
    }

    /// Takes connections from a listener until it fails.
    async fn accept(&self, listener: &TcpListener, serve: impl Fn(TcpStream)) -> Result<(), Error> {
        let mut look = SHORTEST_LOOK;
        loop {
            match listener.accept().await {
                Ok((socket, _)) => {
                    look = SHORTEST_LOOK;
                    serve(socket);
                }
                Err(error) if is_final(&error) => return Err(error.into()),
                // The one that came is gone again, the network is down, or there are no descriptors or memory for now.
                Err(error) => {
                    if look == SHORTEST_LOOK {
                        let journal = &self.journal;
                        journal.line(format_args!("accepting goes on after an error: {error}"));
                    }
                    sleep(look).await;
                    look = (2 * look).min(LONGEST_LOOK);
                }
            }
        }
    }

    pub(crate) fn passwords(&self) -> Option<&Passwords> {
        self.settings.passwords.as_deref()
    }

    /// Watches the connection, and makes another one when it ends.
    async fn keep_connected(&self) {
        let mut pause = SHORTEST_PAUSE;
        loop {
            let uplink = self.current.borrow().clone();
            if let Some(uplink) = uplink {
                pause = SHORTEST_PAUSE;
                self.take_out_again(&uplink);
                self.choose_scheduler_again();
                self.ask_for_live(&uplink);
                let governing = async {
                    self.links.govern(self, uplink.clone()).await;
                    std::future::pending().await
                };
                let ended = tokio::select! {
                    ended = uplink.flows.dispatch(&uplink.connection, &uplink.lane) => ended,
                    never = governing => never,
                };
                self.links.keep(&self.journal);
                self.current.send_replace(None);
                self.journal.line(format_args!("connection lost: {ended}"));
            }
            let next = Instant::now() + pause;
            match self.dial(0).await {
                Ok(uplink) => {
                    match self.ways.len() {
                        1 => self.journal.line(format_args!("connected again")),
                        _ => {
                            let server = &uplink.server;
                            self.journal
                                .line(format_args!("connected again, to {server}"));
                        }
                    }
                    self.current.send_replace(Some(uplink));
                    continue;
                }
                Err(error) => self.journal.line(format_args!("{error}")),
            }
            sleep_until(next).await;
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    /// The connection, as soon as there is one.
    pub(crate) async fn uplink(&self) -> Result<Uplink, NotOpened> {
        let mut current = self.current.subscribe();
        let found = timeout(PATIENCE, current.wait_for(Option::is_some)).await;
        match found {
            Ok(Ok(uplink)) => uplink.clone().ok_or(NotOpened::Away),
            Ok(Err(_)) | Err(_) => Err(NotOpened::Away),
        }
    }

    pub(crate) const fn idle(&self) -> Duration {
        self.settings.idle
    }

    /// What each link does; empty while there is no connection.
    pub fn report(&self) -> Report {
        let current = self.current.borrow();
        current
            .as_ref()
            .map(|uplink| Report::of(&uplink.connection))
            .unwrap_or_default()
    }

    /// What the connection and its links do, to be looked at; without a peer while there is no connection.
    pub fn status(&self) -> Status {
        let uplink = self.current.borrow().clone();
        let peers = uplink.into_iter().map(|uplink| Peer {
            peer: uplink.server.to_string(),
            user: None,
            age: uplink.since.elapsed().as_secs_f64(),
            open: self.in_use.counts(),
            paths: PathFigures::of(&uplink.connection),
        });
        Status {
            program: "mpquic-bond",
            role: "connect",
            peers: peers.collect(),
        }
    }

    /// The scheduler that was chosen last, by its name; `None` is that of the start.
    pub fn scheduler(&self) -> Option<String> {
        let chosen = self.scheduler.lock();
        chosen.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The scheduler of what this side sends, by its name.
    pub fn scheduler_in_use(&self) -> String {
        let begun = || self.settings.transport.scheduler.clone();
        let name = self.scheduler().or_else(begun);
        name.unwrap_or_else(|| SCHEDULER.to_owned())
    }

    /// The server that it is connected to, or prefers while it is not, as it was named.
    pub fn server(&self) -> String {
        let current = self.current.borrow();
        let current = current.as_ref().map(|uplink| uplink.server.to_string());
        current.unwrap_or_else(|| self.settings.server.clone())
    }

    /// TCP connections and UDP associations that programs have open through it now.
    pub fn in_use(&self) -> (usize, usize) {
        let InUse { tcp, udp } = &self.in_use;
        (tcp.load(Ordering::Relaxed), udp.load(Ordering::Relaxed))
    }

    /// Whether [`run`](Self::run) ends, or has ended.
    pub(crate) fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Schedules by this one from now on, on both sides, and on later connections. The connection goes on.
    ///
    /// # Errors
    ///
    /// If there is none of that name here. A server that does not have it goes on with its own.
    pub fn set_scheduler(&self, name: &str) -> Result<(), Error> {
        let factory = mpquic_peer::schedulers().factory(name, &Default::default());
        let factory = factory.map_err(|error| Error::Argument(error.to_string()))?;
        {
            let mut chosen = self
                .scheduler
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            *chosen = Some(name.to_owned());
        }
        let uplink = self.current.borrow().clone();
        if let Some(uplink) = uplink {
            uplink.connection.set_scheduler(factory);
            let asking = uplink.ask_for_scheduler(name.to_owned(), Arc::clone(&self.journal));
            tokio::spawn(asking);
        }
        Ok(())
    }

    /// Frames in time, if this side is set to them.
    fn ask_for_live(&self, uplink: &Uplink) {
        if uplink.lane.is_wanted() {
            let asking = uplink.clone().ask_for_live(Arc::clone(&self.journal));
            tokio::spawn(asking);
        }
    }

    /// The scheduler that was chosen by hand holds for a new connection, too.
    fn choose_scheduler_again(&self) {
        if let Some(name) = self.scheduler()
            && let Err(error) = self.set_scheduler(&name)
        {
            self.journal.line(format_args!("{error}"));
        }
    }

    /// Takes a link out, or in again. A link that is out carries data only if no other is left; the server does the same. True if there is
    /// such a path now; the choice also holds for later connections.
    ///
    /// The last link that is neither out nor a backup cannot be taken out, since it would carry all the same: the result is then false, and
    /// nothing changes.
    pub fn set_out(&self, local: IpAddr, out: bool) -> bool {
        let uplink = self.current.borrow().clone();
        if out
            && uplink
                .as_ref()
                .is_some_and(|uplink| !has_another(&uplink.connection, local))
        {
            let journal = &self.journal;
            journal.line(format_args!(
                "{local} stays in: no other link is left that is not out or a backup"
            ));
            return false;
        }
        {
            let mut list = self.outs();
            list.retain(|ip| *ip != local);
            if out {
                list.push(local);
            }
        }
        uplink.is_some_and(|uplink| set_status(&uplink.connection, local, out))
    }

    pub(crate) fn outs(&self) -> MutexGuard<'_, Vec<IpAddr>> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Links that are out stay out on a new connection, as soon as they have a path there.
    fn take_out_again(&self, uplink: &Uplink) {
        let list = self.outs().clone();
        if list.is_empty() {
            return;
        }
        let connection = uplink.connection.clone();
        let mut events = connection.path_events();
        tokio::spawn(async move {
            loop {
                for ip in &list {
                    set_status(&connection, *ip, true);
                }
                if events.recv().await.is_none() {
                    return;
                }
            }
        });
    }
}

/// Shows the server who this is.
async fn greet(token: Option<&Token>, connection: &Connection) -> Result<(), StreamFailure> {
    // Without a proof, the server says what is wrong.
    let without = || [&[VERSION][..], &[0; PROOF]].concat();
    let greeting = match token {
        Some(token) => token.greeting(connection, VERSION, LABEL),
        None => Ok(without()),
    };
    let greeting = greeting.unwrap_or_else(|_| without());
    let (mut send, mut recv) = connection.open_bi().await?;
    send.write_all(&greeting).await?;
    let mut answer = [0];
    recv.read_exact(&mut answer).await?;
    Ok(())
}

fn set_status(connection: &Connection, local: IpAddr, out: bool) -> bool {
    let status = if out {
        PathStatus::Backup
    } else {
        PathStatus::Available
    };
    let mut found = false;
    for path in connection.paths() {
        let here = path
            .network_path()
            .is_ok_and(|address| address.local.ip() == local);
        // The path may be closed by now.
        if here && path.set_status(status).is_ok() {
            found = true;
        }
    }
    found
}

/// Whether a link other than this one is open, and neither out nor a backup.
fn has_another(connection: &Connection, local: IpAddr) -> bool {
    connection.paths().into_iter().any(|path| {
        let elsewhere = path
            .network_path()
            .is_ok_and(|address| address.local.ip() != local);
        elsewhere
            && path
                .status()
                .is_ok_and(|status| status == PathStatus::Available)
    })
}

/// Whether the listener itself is wrong, and will be. All else passes: accept(2) hands on errors of the network that came before
/// the connection did, and wants them to be treated as "try again".
fn is_final(error: &io::Error) -> bool {
    // EBADF and ENOTSOCK, which have no kind of their own; EINVAL: it does not listen.
    #[cfg(unix)]
    const NO_SOCKET: [i32; 2] = [9, if cfg!(target_os = "linux") { 88 } else { 38 }];
    #[cfg(not(unix))]
    const NO_SOCKET: [i32; 2] = [10_009, 10_038];
    let code = error.raw_os_error();
    error.kind() == io::ErrorKind::InvalidInput
        || code.is_some_and(|code| NO_SOCKET.contains(&code))
}

impl Uplink {
    /// Opens a stream for `request`.
    pub(crate) async fn open(
        &self,
        request: &Request,
    ) -> Result<(SendStream, RecvStream), NotOpened> {
        let opening = async {
            let (mut send, mut recv) = self.connection.open_bi().await?;
            send.write_chunk(request.encode()).await?;
            let answer = Refusal::read(&mut recv).await?;
            Ok::<_, StreamFailure>((send, recv, answer))
        };
        let opened = timeout(PATIENCE, opening).await;
        let (send, recv, answer) = opened.map_err(StreamFailure::from)??;
        match answer {
            Ok(()) => Ok((send, recv)),
            Err(refusal) => Err(NotOpened::Refused(refusal)),
        }
    }

    async fn ask_for_scheduler(self, name: String, journal: Arc<Journal>) {
        let asked = self.open(&Request::Scheduler(name.clone())).await;
        if let Err(NotOpened::Refused(refusal)) = asked {
            journal.line(format_args!("scheduler {name}: {refusal}"));
        }
    }

    async fn ask_for_live(self, journal: Arc<Journal>) {
        match self.open(&Request::Live).await {
            Ok(_) => drop(self.lane.begin(&self.connection)),
            Err(_) => journal.line(format_args!("the server has no --live: UDP goes as it is")),
        }
    }

    pub(crate) const fn connection(&self) -> &Connection {
        &self.connection
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_network_pass_and_those_of_the_listener_do_not() {
        // accept(2): ENETDOWN, EPROTO, ENOPROTOOPT, EHOSTDOWN, ENONET, EHOSTUNREACH, EOPNOTSUPP, ENETUNREACH; then ECONNABORTED, EINTR,
        // EMFILE, ENFILE, ENOBUFS, ENOMEM, EPERM, EAGAIN, ETIMEDOUT, ECONNRESET, EACCES.
        for code in [
            100, 71, 92, 112, 64, 113, 95, 101, 103, 4, 24, 23, 105, 12, 1, 11, 110, 104, 13,
        ] {
            let error = io::Error::from_raw_os_error(code);
            assert!(!is_final(&error), "{error}");
        }
        for code in [9, 22, 88] {
            let error = io::Error::from_raw_os_error(code);
            assert!(is_final(&error), "{error}");
        }
    }
}
