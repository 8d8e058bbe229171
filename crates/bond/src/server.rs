//! The server: takes clients that prove who they are, and connects to what they ask for and the allow list has.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};
#[cfg(target_os = "linux")]
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use mpquic::{
    Connection, ConnectionError, Endpoint, EndpointConfig, Incoming, MissingAddr, RecvStream,
    SendStream, ServerConfig, VarInt,
};
use mpquic_peer::status::{Present, Status};
use mpquic_peer::{Admitted, Door, Greeting, Token, Transport, User, Users};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};

use crate::allow::AllowList;
use crate::caps::{Budget, Share};
use crate::client::InUse;
use crate::error::{Error, StreamFailure};
use crate::journal::PeerLog;
use crate::links;
use crate::live::Lane;
use crate::names::{self, Answers, Names};
use crate::race::{Connected, race};
use crate::settings;
use crate::splice::splice;
#[cfg(target_os = "linux")]
use crate::tun::{OwnTunnel, Pool, TunServer};
use crate::udp::ServerFlows;
use crate::wire::{LABEL, Refusal, Request, Target, VERSION};

/// The code with which a server closes the connection of a client that it does not take.
pub(crate) const UNWELCOME: VarInt = VarInt::from_u32(1);
/// How long a client may take to greet, to ask, and a target to answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// Names of one client that are looked up at a time; others wait for their turn.
const LOOKUPS: usize = 32;

/// What a server does for whom.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// A token that clients must have. Without one, and without users, TLS must ask for client certificates.
    pub token: Option<Token>,
    /// Those that may come by name, each with limits of its own. Follows their file while the server runs.
    pub users: Option<Arc<Users>>,
    /// What they may reach.
    pub allow: AllowList,
    /// When a TCP connection on which nothing moves is given up, and a client that takes next to nothing of what waits for it.
    pub idle: Duration,
    /// Scheduler and congestion controller.
    pub transport: Transport,
    /// For how long a UDP datagram is of use, if UDP goes as frames in time for clients that ask for it.
    pub live: Option<Duration>,
}

/// A proxy's far end.
#[derive(Debug)]
pub struct Server {
    endpoint: Endpoint,
    shared: Arc<Shared>,
}

/// What all clients have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    /// As they are now.
    settings: RwLock<Arc<ServerSettings>>,
    names: Names,
    budget: Arc<Budget>,
    present: Arc<Present>,
    /// The tunnels of clients, if it gives them any.
    #[cfg(target_os = "linux")]
    pub(crate) tun: OnceLock<Arc<TunServer>>,
    /// About those that are no clients yet.
    log: PeerLog,
}

impl Shared {
    fn settings(&self) -> Arc<ServerSettings> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What a user may reach, if it is not what all may.
fn rules(user: &User) -> Result<Option<AllowList>, String> {
    let Some(rules) = &user.allow else {
        return Ok(None);
    };
    let rules: Result<_, String> = rules.iter().map(|rule| rule.parse()).collect();
    Ok(Some(AllowList::new(rules?)))
}

/// Those that may use a server by name, from a file: see [`mpquic_peer::users`].
///
/// # Errors
///
/// If it cannot be read, or makes no sense for a proxy.
pub fn users(path: &std::path::Path) -> Result<Arc<Users>, Error> {
    let check = |user: &User| {
        if user.folder.is_some() || user.rights.is_some() {
            return Err("a proxy has no folders, nor rights to files".to_owned());
        }
        rules(user).map(|_| ())
    };
    Ok(Users::open(path, check)?)
}

impl ServerSettings {
    fn door(&self) -> Door {
        Door {
            token: self.token.clone(),
            users: self.users.clone(),
        }
    }

    /// Whether there are the scheduler and the controller that they name.
    ///
    /// # Errors
    ///
    /// What there is not.
    pub fn check(&self) -> Result<(), Error> {
        settings::server_transport(&self.transport, self.idle).map(|_| ())
    }
}

impl Server {
    /// Binds its sockets, with keys of its own: a client of a server that was killed and started again notices after its idle
    /// timeout.
    ///
    /// # Errors
    ///
    /// If an address cannot be bound, or there is no such scheduler or controller.
    pub fn bind(
        tls: rustls::ServerConfig,
        locals: &[SocketAddr],
        settings: ServerSettings,
    ) -> Result<Self, Error> {
        Self::bind_endpoint(Endpoint::builder(), tls, locals, settings)
    }

    /// Binds its sockets. With the keys that an identity keeps ([`Identity::endpoint_config`](crate::Identity::endpoint_config)), a client of
    /// a server that was killed and started again notices at its next packet.
    ///
    /// Raises the number of files and sockets that this process may have open as far as the system lets it: each TCP connection
    /// of a client takes one.
    ///
    /// # Errors
    ///
    /// If an address cannot be bound, or there is no such scheduler or controller.
    pub fn bind_with(
        keys: EndpointConfig,
        tls: rustls::ServerConfig,
        locals: &[SocketAddr],
        settings: ServerSettings,
    ) -> Result<Self, Error> {
        let builder = Endpoint::builder().endpoint_config(keys);
        Self::bind_endpoint(builder, tls, locals, settings)
    }

    fn bind_endpoint(
        builder: mpquic::EndpointBuilder,
        tls: rustls::ServerConfig,
        locals: &[SocketAddr],
        settings: ServerSettings,
    ) -> Result<Self, Error> {
        let mut config = ServerConfig::new(Arc::new(tls)).map_err(settings::tls)?;
        let mut transport = settings::server_transport(&settings.transport, settings.idle)?;
        if settings.live.is_some() {
            mpquic_live::tune(&mut transport);
        }
        config
            .transport(Arc::new(transport))
            .max_connections(settings::CLIENTS)
            .max_connections_per_prefix(settings::CLIENTS_OF_ONE);
        let bound = builder.server(config).bind_all(locals).build();
        let endpoint = bound.map_err(|source| Error::Listen {
            address: settings::list(locals),
            source,
        })?;
        Ok(Self {
            endpoint,
            shared: Arc::new(Shared {
                settings: RwLock::new(Arc::new(settings)),
                names: Names::of_system(),
                budget: Budget::new(mpquic_peer::raise_open_files()),
                present: Arc::default(),
                #[cfg(target_os = "linux")]
                tun: OnceLock::new(),
                log: PeerLog::new("no client"),
            }),
        })
    }

    /// Gives clients that ask for one a tunnel. Makes the device, which takes CAP_NET_ADMIN.
    ///
    /// # Errors
    ///
    /// If the pool makes no sense, or the device cannot be made.
    #[cfg(target_os = "linux")]
    pub fn open_tunnels(&self, pool: Pool) -> Result<(), Error> {
        let made = TunServer::new(pool)?;
        // A second one would be left alone.
        let _ = self.shared.tun.set(made);
        Ok(())
    }

    /// Where it listens.
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        self.endpoint.local_addrs()
    }

    /// Where it was to listen and does not, since this machine does not have that address family.
    pub fn missing_addrs(&self) -> &[MissingAddr] {
        self.endpoint.missing_addrs()
    }

    /// Takes other settings, and drops nobody: the token holds for those that come from now on, the allow list and the time of
    /// idle TCP connections for what is asked for from now on. The transport and the file of users stay those of the start; what is in
    /// that file is followed anyway.
    pub fn reload(&self, mut settings: ServerSettings) {
        let before = self.shared.settings();
        settings.users = before.users.clone();
        settings.live = before.live;
        let mut current = self
            .shared
            .settings
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(settings);
    }

    /// What its clients do.
    pub fn status(&self) -> Status {
        Status {
            program: "mpquic-bond",
            role: "serve",
            peers: self.shared.present.peers(),
        }
    }

    /// Serves clients until `stop` is done, and tells them that it stops.
    pub async fn run(&self, stop: impl Future<Output = ()>) {
        let accepting = async {
            while let Some(incoming) = self.endpoint.accept().await {
                tokio::spawn(serve(incoming, Arc::clone(&self.shared)));
            }
        };
        let users = self.shared.settings().users.clone();
        let following = async {
            match &users {
                Some(users) => users.follow().await,
                None => std::future::pending().await,
            }
        };
        #[cfg(target_os = "linux")]
        let carrying = async {
            if let Some(tun) = self.shared.tun.get() {
                let error = tun.run().await;
                self.shared.log.line(format_args!("tunnels: {error}"));
            }
            std::future::pending().await
        };
        #[cfg(not(target_os = "linux"))]
        let carrying = std::future::pending();
        tokio::select! {
            () = accepting => {}
            () = following => {}
            () = carrying => {}
            () = stop => {}
        }
        self.endpoint
            .close(VarInt::from_u32(0), b"the server stops");
        self.endpoint.wait_idle().await;
    }
}

/// A client that was welcomed.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) connection: Connection,
    pub(crate) shared: Arc<Shared>,
    pub(crate) log: PeerLog,
    pub(crate) share: Arc<Share>,
    lookups: Semaphore,
    /// Who it is, if it came by name.
    pub(crate) user: Option<Admitted>,
    pub(crate) lane: Arc<Lane>,
    in_use: Arc<InUse>,
    #[cfg(target_os = "linux")]
    pub(crate) tunnel: Mutex<OwnTunnel>,
}

async fn serve(incoming: Incoming, shared: Arc<Shared>) {
    let remote = incoming.remote_address();
    let strangers = &shared.log;
    let connection = match incoming.await {
        Ok(connection) => connection,
        Err(error) => return strangers.line(format_args!("{remote}: no handshake: {error}")),
    };
    // If the client is refused, its stream lives as long as the connection: the end would come before the reason, and say nothing.
    let mut stream = None;
    let user = match welcome(&connection, &shared.settings().door(), &mut stream).await {
        Ok(user) => user,
        Err(why) => {
            connection.close(UNWELCOME, why.as_bytes());
            return strangers.line(format_args!("{remote}: refused: {why}"));
        }
    };
    drop(stream);
    // Until here, it could hold one small stream.
    settings::open_up(&connection);
    let client = Arc::new(Served {
        log: match &user {
            Some(user) => PeerLog::new(format_args!("{remote} ({})", user.name())),
            None => PeerLog::new(remote),
        },
        user,
        lane: Arc::new(Lane::new(shared.settings().live)),
        in_use: Arc::default(),
        share: Share::of(&shared.budget),
        lookups: Semaphore::new(LOOKUPS),
        #[cfg(target_os = "linux")]
        tunnel: Mutex::default(),
        connection,
        shared,
    });
    client.log.line(format_args!("a client"));
    let in_use = Arc::clone(&client.in_use);
    let name = client.user.as_ref().map(Admitted::name);
    let present = &client.shared.present;
    let _present = present.enter(remote, name, &client.connection, move || in_use.counts());
    let flows = Arc::new(ServerFlows::new(Arc::clone(&client)));
    let dispatching = flows.dispatch();
    let accepting = async {
        loop {
            match client.connection.accept_bi().await {
                Ok((send, recv)) => {
                    let (client, flows) = (Arc::clone(&client), Arc::clone(&flows));
                    tokio::spawn(async move { client.answer(send, recv, &flows).await });
                }
                Err(error) => return error,
            }
        }
    };
    let until = async {
        match &client.user {
            Some(user) => user.ended().await,
            None => std::future::pending().await,
        }
    };
    let ended = tokio::select! {
        error = accepting => error,
        error = dispatching => error,
        why = until => {
            client.connection.close(UNWELCOME, why.as_bytes());
            return client.log.line(format_args!("closed: {why}"));
        }
    };
    client.log.line(format_args!("gone: {ended}"));
}

/// Takes the greeting on the first stream, and answers it there; the stream is left in `stream`.
async fn welcome(
    connection: &Connection,
    door: &Door,
    stream: &mut Option<SendStream>,
) -> Result<Option<Admitted>, String> {
    let greeted = timeout(PATIENCE, async {
        let (send, mut recv) = connection.accept_bi().await?;
        let send = stream.insert(send);
        let greeting = Greeting::read(&mut recv, VERSION).await?;
        Ok::<_, StreamFailure>((send, greeting))
    });
    let greeted = tokio::select! {
        greeted = greeted => greeted,
        ended = drop_datagrams(connection) => return Err(ended.to_string()),
    };
    let (send, greeting) = match greeted {
        Ok(Ok(greeted)) => greeted,
        Ok(Err(error)) => return Err(error.to_string()),
        Err(_) => return Err("no greeting came".to_owned()),
    };
    let user = door.judge(greeting, connection, VERSION, LABEL).await?;
    let answered = send.write_all(&[0]).await;
    answered.map_err(|error| error.to_string())?;
    Ok(user)
}

/// Nobody who was not welcomed has flows: what is not read would be kept.
async fn drop_datagrams(connection: &Connection) -> ConnectionError {
    loop {
        if let Err(error) = connection.read_datagram().await {
            return error;
        }
    }
}

impl Served {
    /// Answers one stream.
    async fn answer(
        self: &Arc<Self>,
        mut send: SendStream,
        mut recv: RecvStream,
        flows: &ServerFlows,
    ) {
        // What breaks here is seen by the client as the end of its stream, and it tells its application.
        let Ok(Ok(request)) = timeout(PATIENCE, Request::read(&mut recv)).await else {
            let _ = send.reset(UNWELCOME);
            return;
        };
        match request {
            Request::Udp => {
                let _counted = self.in_use.udp();
                flows.serve(send, recv).await;
            }
            Request::Live => {
                let answer = self.lane.begin(&self.connection);
                let status = Refusal::encode(answer.then_some(()).ok_or(Refusal::Failed));
                // A client that is gone needs no answer.
                let _ = send.write_all(&[status]).await;
            }
            Request::Scheduler(name) => {
                let factory = mpquic_peer::schedulers().factory(&name, &Default::default());
                let answer = factory.map(|factory| self.connection.set_scheduler(factory));
                let status = Refusal::encode(answer.map_err(|_| Refusal::Failed));
                // A client that is gone needs no answer.
                let _ = send.write_all(&[status]).await;
            }
            Request::Limit(path, rate) => {
                let done = links::limit(&self.connection, path, rate);
                let answer = done.then_some(()).ok_or(Refusal::Failed);
                let _ = send.write_all(&[Refusal::encode(answer)]).await;
            }
            Request::Shares(shares) => {
                let done = links::share(&self.connection, &shares);
                let answer = done.then_some(()).ok_or(Refusal::Failed);
                let _ = send.write_all(&[Refusal::encode(answer)]).await;
            }
            #[cfg(target_os = "linux")]
            Request::Tun(cookie) => self.tunnel(cookie, send, recv, flows).await,
            #[cfg(target_os = "linux")]
            Request::Lane(number) => self.lane(number, send, recv).await,
            #[cfg(not(target_os = "linux"))]
            Request::Tun(_) | Request::Lane(_) => {
                let _ = send.write_all(&[Refusal::Denied as u8]).await;
            }
            Request::Tcp(target) => self.tcp(&target, send, recv).await,
        }
    }

    async fn tcp(&self, target: &Target, mut send: SendStream, recv: RecvStream) {
        let connecting = self.connect(target);
        let connected = tokio::select! {
            connected = connecting => connected,
            // Nobody waits for it any more.
            _ = self.connection.closed() => return,
        };
        let status = Refusal::encode(connected.as_ref().map(|_| ()).map_err(|why| *why));
        let answered = send.write_all(&[status]).await;
        match connected {
            Ok(Connected {
                socket,
                address,
                held,
            }) => {
                match target {
                    Target::Address(_) => self.log.line(format_args!("TCP to {target}")),
                    Target::Name(..) => self.log.line(format_args!("TCP to {target} at {address}")),
                }
                if answered.is_ok() {
                    let _counted = self.in_use.tcp();
                    let idle = self.shared.settings().idle;
                    let user = self.user.as_ref();
                    let _ = splice(socket, Bytes::new(), send, recv, idle, user).await;
                }
                drop(held);
            }
            Err(why) => self
                .log
                .line(format_args!("TCP to {target} refused: {why}")),
        }
    }

    /// What this client may reach now.
    pub(crate) fn allow(&self) -> AllowList {
        let all = || self.shared.settings().allow.clone();
        match &self.user {
            None => all(),
            Some(user) => match user.user().as_deref().map(rules) {
                Some(Ok(own)) => own.unwrap_or_else(all),
                // Nothing, after it was revoked.
                Some(Err(_)) | None => AllowList::default(),
            },
        }
    }

    async fn connect(&self, target: &Target) -> Result<Connected, Refusal> {
        let deadline = Instant::now() + PATIENCE;
        let (answers, held) = self.look_up(target, deadline).await?;
        let allow = self.allow();
        let allowed = |ip| allow.allows(target, ip);
        let connected = race(answers, target.port(), allowed, &self.share, deadline).await;
        drop(held);
        connected
    }

    /// Begins to look for the addresses of a target, as soon as this client's turn has come. What is held is dropped when enough is
    /// known.
    async fn look_up(
        &self,
        target: &Target,
        deadline: Instant,
    ) -> Result<(Answers, Option<impl Sized + '_>), Refusal> {
        let name = match target {
            Target::Address(address) => return Ok((address.ip().into(), None)),
            Target::Name(name, _) => name,
        };
        // Those that must be asked for hold up no others.
        if let Some(answers) = self.shared.names.at_hand(name) {
            return Ok((answers, None));
        }
        let turn = timeout_at(deadline, self.lookups.acquire()).await;
        let Ok(Ok(turn)) = turn else {
            return Err(Refusal::Busy);
        };
        let sockets = self.share.take(names::SOCKETS).ok_or(Refusal::Busy)?;
        Ok((self.shared.names.look_up(name), Some((turn, sockets))))
    }

    /// Whether nobody is asked for the addresses of a target.
    pub(crate) fn is_at_hand(&self, target: &Target) -> bool {
        match target {
            Target::Address(_) => true,
            Target::Name(name, _) => self.shared.names.at_hand(name).is_some(),
        }
    }

    /// The addresses of a target that the list allows, of the families that answer in time.
    pub(crate) async fn resolve(&self, target: &Target) -> Result<Vec<SocketAddr>, Refusal> {
        let deadline = Instant::now() + PATIENCE;
        let (mut answers, _held) = self.look_up(target, deadline).await?;
        let mut why = Refusal::Unresolved;
        let allow = self.allow();
        while let Ok(Some(found)) = timeout_at(deadline, answers.next()).await {
            let allowed = |ip: &std::net::IpAddr| allow.allows(target, *ip);
            let found = found.into_iter().filter(allowed);
            let found: Vec<_> = found.map(|ip| (ip, target.port()).into()).collect();
            if !found.is_empty() {
                return Ok(found);
            }
            why = Refusal::Denied;
        }
        Err(why)
    }
}
