//! The client: keeps a connection to the server over all links, and opens streams on it.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mpquic::sched::Registry;
use mpquic::{
    ClientConfig, Connection, ConnectionError, Endpoint, FullMesh, LinkTask, PathStatus,
    RecvStream, SendStream, VarInt,
};
use mpquic_peer::{ClientTls, Token, Transport};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use crate::error::{Error, StreamFailure};
use crate::proxy;
use crate::report::Report;
use crate::server::UNWELCOME;
use crate::settings;
use crate::udp::Flows;
use crate::wire::{LABEL, PROOF, Refusal, Request, VERSION};

/// How long a program that uses the proxy waits for a connection that is away, and for the server's answer.
const PATIENCE: Duration = Duration::from_secs(15);
/// Between two attempts to connect; doubled up to the longest.
const SHORTEST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// How long to wait if no connection can be accepted for now.
const LOOK: Duration = Duration::from_secs(2);

/// What a client connects to, and how.
#[derive(Debug, Clone)]
pub struct ClientSettings {
    /// The server, `HOST:PORT`.
    pub server: String,
    /// The token, if the server wants one.
    pub token: Option<Token>,
    /// The local addresses, one per link; without any, all links of the machine, as they come and go.
    pub locals: Vec<IpAddr>,
    /// Interfaces that cost money by the byte: they are used if no other link works. Without effect on links that are named.
    pub metered: Vec<String>,
    /// When a TCP connection on which nothing moves is given up.
    pub idle: Duration,
    /// Scheduler and congestion controller.
    pub transport: Transport,
}

/// What one connection has: its handle, and its flows of datagrams.
#[derive(Debug, Clone)]
pub(crate) struct Uplink {
    connection: Connection,
    pub(crate) flows: Arc<Flows>,
}

/// A proxy's near end.
#[derive(Debug)]
pub struct Client {
    endpoint: Endpoint,
    config: ClientConfig,
    tls: ClientTls,
    settings: ClientSettings,
    current: watch::Sender<Option<Uplink>>,
    /// Follows the links, unless they were named.
    _links: Option<LinkTask>,
    /// Links that were taken out by hand: they stay out when the connection is made again.
    out: Mutex<Vec<IpAddr>>,
    /// The scheduler that was chosen by hand.
    scheduler: Mutex<Option<String>>,
}

/// Why a stream was not opened.
#[derive(Debug)]
pub(crate) enum NotOpened {
    /// The server said so.
    Refused(Refusal),
    /// There is no connection, or it broke.
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
        let mut config = ClientConfig::new(Arc::new(tls.config.clone())).map_err(settings::tls)?;
        config.transport(Arc::new(settings::transport(&settings.transport)?));
        let (endpoint, links) = match settings.locals.as_slice() {
            [] => {
                let told = |event| eprintln!("{event}");
                let (endpoint, links) =
                    mpquic_peer::all_links(&settings.server, &settings.metered, told).await?;
                (endpoint, links)
            }
            given => {
                let locals: Vec<SocketAddr> = given.iter().map(|ip| (*ip, 0).into()).collect();
                let endpoint = Endpoint::client(&locals).map_err(|source| Error::Listen {
                    address: settings::list(&locals),
                    source,
                })?;
                endpoint.set_path_manager(FullMesh::new());
                (endpoint, None)
            }
        };
        let client = Arc::new(Self {
            endpoint,
            config,
            tls,
            settings,
            current: watch::Sender::new(None),
            _links: links,
            out: Mutex::default(),
            scheduler: Mutex::default(),
        });
        let uplink = client.dial().await?;
        client.current.send_replace(Some(uplink));
        Ok(client)
    }

    /// One attempt: all addresses of the server, from all links.
    async fn dial(&self) -> Result<Uplink, Error> {
        let name = &self.settings.server;
        let connection =
            mpquic_peer::dial(&self.endpoint, self.config.clone(), &self.tls, name).await?;
        let greeted = timeout(PATIENCE, self.greet(&connection)).await;
        if let Err(error) = greeted.map_err(StreamFailure::from).flatten() {
            let why = match connection.close_reason() {
                Some(ConnectionError::ApplicationClosed(close))
                    if close.error_code == UNWELCOME =>
                {
                    String::from_utf8_lossy(&close.reason).into_owned()
                }
                Some(reason) => reason.to_string(),
                None => error.to_string(),
            };
            connection.close(VarInt::from_u32(0), b"");
            return Err(Error::Unwelcome {
                name: name.clone(),
                why,
            });
        }
        Ok(Uplink {
            connection,
            flows: Arc::default(),
        })
    }

    async fn greet(&self, connection: &Connection) -> Result<(), StreamFailure> {
        let mut greeting = [0; 1 + PROOF];
        greeting[0] = VERSION;
        if let Some(token) = &self.settings.token {
            // Without the proof, the server says what is wrong.
            if let Ok(proof) = token.proof(connection, LABEL) {
                greeting[1..].copy_from_slice(&proof);
            }
        }
        let (mut send, mut recv) = connection.open_bi().await?;
        send.write_all(&greeting).await?;
        let mut answer = [0];
        recv.read_exact(&mut answer).await?;
        Ok(())
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
        let accepting = async {
            loop {
                match listener.accept().await {
                    Ok((socket, _)) => {
                        let client = Arc::clone(self);
                        tokio::spawn(async move { proxy::serve(socket, &client).await });
                    }
                    // The one that came is gone again, or there are no descriptors for now.
                    Err(error) if is_passing(&error) => tokio::time::sleep(LOOK).await,
                    Err(error) => return Err(error.into()),
                }
            }
        };
        let ended = tokio::select! {
            ended = accepting => ended,
            () = self.keep_connected() => Ok(()),
            () = stop => Ok(()),
        };
        self.current.send_replace(None);
        self.endpoint
            .close(VarInt::from_u32(0), b"the client stops");
        self.endpoint.wait_idle().await;
        ended
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
                let ended = uplink.flows.dispatch(&uplink.connection).await;
                self.current.send_replace(None);
                eprintln!("connection lost: {ended}");
            }
            let next = Instant::now() + pause;
            match self.dial().await {
                Ok(uplink) => {
                    eprintln!("connected again");
                    self.current.send_replace(Some(uplink));
                    continue;
                }
                Err(error) => eprintln!("{error}"),
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

    /// The scheduler that was chosen last, by its name; `None` is that of the start.
    pub fn scheduler(&self) -> Option<String> {
        let chosen = self.scheduler.lock();
        chosen.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Schedules by this one from now on, on both sides, and on later connections. The connection goes on.
    ///
    /// # Errors
    ///
    /// If there is none of that name here. A server that does not have it goes on with its own.
    pub fn set_scheduler(&self, name: &str) -> Result<(), Error> {
        let factory = Registry::new().factory(name, &Default::default());
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
            tokio::spawn(uplink.ask_for_scheduler(name.to_owned()));
        }
        Ok(())
    }

    /// The scheduler that was chosen by hand holds for a new connection, too.
    fn choose_scheduler_again(&self) {
        if let Some(name) = self.scheduler()
            && let Err(error) = self.set_scheduler(&name)
        {
            eprintln!("{error}");
        }
    }

    /// Takes a link out, or in again. A link that is out carries data only if no other is left; the server does the same. True if there is
    /// such a path now; the choice also holds for later connections.
    pub fn set_out(&self, local: IpAddr, out: bool) -> bool {
        {
            let mut list = self.out.lock().unwrap_or_else(PoisonError::into_inner);
            list.retain(|ip| *ip != local);
            if out {
                list.push(local);
            }
        }
        let uplink = self.current.borrow().clone();
        uplink.is_some_and(|uplink| set_status(&uplink.connection, local, out))
    }

    /// Links that are out stay out on a new connection, as soon as they have a path there.
    fn take_out_again(&self, uplink: &Uplink) {
        let list = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        let list = list.clone();
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

fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    // EMFILE and ENFILE have no kind of their own.
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionReset | Interrupted
    ) || matches!(error.raw_os_error(), Some(23 | 24))
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
        let (send, recv, answer) = timeout(PATIENCE, opening)
            .await
            .map_err(StreamFailure::from)??;
        match answer {
            Ok(()) => Ok((send, recv)),
            Err(refusal) => Err(NotOpened::Refused(refusal)),
        }
    }

    async fn ask_for_scheduler(self, name: String) {
        let asked = self.open(&Request::Scheduler(name.clone())).await;
        if let Err(NotOpened::Refused(refusal)) = asked {
            eprintln!("scheduler {name}: {refusal}");
        }
    }

    pub(crate) const fn connection(&self) -> &Connection {
        &self.connection
    }
}
