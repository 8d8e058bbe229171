//! The server: takes clients that prove who they are, and connects to what they ask for and the allow list has.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mpquic::sched::Registry;
use mpquic::{Connection, Endpoint, Incoming, RecvStream, SendStream, ServerConfig, VarInt};
use mpquic_peer::{Token, Transport};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::allow::AllowList;
use crate::error::{Error, StreamFailure};
use crate::settings;
use crate::splice::splice;
use crate::udp::ServerFlows;
use crate::wire::{LABEL, PROOF, Refusal, Request, Target, VERSION};

/// The code with which a server closes the connection of a client that it does not take.
pub(crate) const UNWELCOME: VarInt = VarInt::from_u32(1);
/// How long a client may take to greet, to ask, and a target to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a server does for whom.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// The token that clients must have. Without one, TLS must ask for client certificates.
    pub token: Option<Token>,
    /// What they may reach.
    pub allow: AllowList,
    /// When a TCP connection on which nothing moves is given up.
    pub idle: Duration,
    /// Scheduler and congestion controller.
    pub transport: Transport,
}

/// A proxy's far end.
#[derive(Debug)]
pub struct Server {
    endpoint: Endpoint,
    settings: Arc<ServerSettings>,
}

impl Server {
    /// Binds its sockets.
    ///
    /// # Errors
    ///
    /// If an address cannot be bound, or there is no such scheduler or controller.
    pub fn bind(
        tls: rustls::ServerConfig,
        locals: &[SocketAddr],
        settings: ServerSettings,
    ) -> Result<Self, Error> {
        let mut config = ServerConfig::new(Arc::new(tls)).map_err(settings::tls)?;
        config.transport(Arc::new(settings::transport(&settings.transport)?));
        let endpoint = Endpoint::server(config, locals).map_err(|source| Error::Listen {
            address: settings::list(locals),
            source,
        })?;
        Ok(Self {
            endpoint,
            settings: Arc::new(settings),
        })
    }

    /// Where it listens.
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        self.endpoint.local_addrs()
    }

    /// Serves clients until `stop` is done.
    pub async fn run(&self, stop: impl Future<Output = ()>) {
        let accepting = async {
            while let Some(incoming) = self.endpoint.accept().await {
                tokio::spawn(serve(incoming, Arc::clone(&self.settings)));
            }
        };
        tokio::select! {
            () = accepting => {}
            () = stop => {}
        }
        self.endpoint
            .close(VarInt::from_u32(0), b"the server stops");
        self.endpoint.wait_idle().await;
    }
}

async fn serve(incoming: Incoming, settings: Arc<ServerSettings>) {
    let remote = incoming.remote_address();
    let connection = match incoming.await {
        Ok(connection) => connection,
        Err(error) => return eprintln!("{remote}: no handshake: {error}"),
    };
    if let Err(why) = welcome(&connection, settings.token.as_ref()).await {
        connection.close(UNWELCOME, why.as_bytes());
        return eprintln!("{remote}: refused: {why}");
    }
    eprintln!("{remote}: a client");
    let flows = Arc::new(ServerFlows::new(connection.clone(), Arc::clone(&settings)));
    let dispatching = flows.dispatch();
    let accepting = async {
        loop {
            match connection.accept_bi().await {
                Ok((send, recv)) => {
                    let (settings, flows) = (Arc::clone(&settings), Arc::clone(&flows));
                    tokio::spawn(answer(connection.clone(), send, recv, settings, flows));
                }
                Err(error) => return error,
            }
        }
    };
    let ended = tokio::select! {
        error = accepting => error,
        error = dispatching => error,
    };
    eprintln!("{remote}: gone: {ended}");
}

/// Takes the greeting on the first stream.
async fn welcome(connection: &Connection, token: Option<&Token>) -> Result<(), String> {
    let greeted = timeout(PATIENCE, async {
        let (send, mut recv) = connection.accept_bi().await?;
        let mut greeting = [0; 1 + PROOF];
        recv.read_exact(&mut greeting).await?;
        Ok::<_, StreamFailure>((send, greeting))
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
        return Err("wrong token".to_owned());
    }
    let answered = send.write_all(&[0]).await;
    answered.map_err(|error| error.to_string())
}

/// Answers one stream.
async fn answer(
    connection: Connection,
    mut send: SendStream,
    mut recv: RecvStream,
    settings: Arc<ServerSettings>,
    flows: Arc<ServerFlows>,
) {
    // What breaks here is seen by the client as the end of its stream, and it tells its application.
    let Ok(Ok(request)) = timeout(PATIENCE, Request::read(&mut recv)).await else {
        let _ = send.reset(UNWELCOME);
        return;
    };
    match request {
        Request::Udp => flows.serve(send, recv).await,
        Request::Scheduler(name) => {
            let factory = Registry::new().factory(&name, &Default::default());
            let answer = factory.map(|factory| connection.set_scheduler(factory));
            let status = Refusal::encode(answer.map_err(|_| Refusal::Failed));
            // A client that is gone needs no answer.
            let _ = send.write_all(&[status]).await;
        }
        Request::Tcp(target) => {
            let connected = connect(&target, &settings.allow).await;
            let status =
                Refusal::encode(connected.as_ref().map(|_| ()).map_err(|refusal| *refusal));
            let answered = send.write_all(&[status]).await;
            if let (Ok(socket), Ok(())) = (connected, answered) {
                let _ = splice(socket, Bytes::new(), send, recv, settings.idle).await;
            }
        }
    }
}

/// The addresses of a target that the list allows.
pub(crate) async fn resolve(
    target: &Target,
    allow: &AllowList,
) -> Result<Vec<SocketAddr>, Refusal> {
    let addresses: Vec<_> = match target {
        Target::Address(address) => vec![*address],
        Target::Name(name, port) => timeout(PATIENCE, tokio::net::lookup_host((&**name, *port)))
            .await
            .map_err(|_| Refusal::Unresolved)?
            .map_err(|_| Refusal::Unresolved)?
            .collect(),
    };
    if addresses.is_empty() {
        return Err(Refusal::Unresolved);
    }
    let allowed = |address: &SocketAddr| allow.allows(target, address.ip());
    let addresses: Vec<_> = addresses.into_iter().filter(allowed).collect();
    if addresses.is_empty() {
        return Err(Refusal::Denied);
    }
    Ok(addresses)
}

async fn connect(target: &Target, allow: &AllowList) -> Result<TcpStream, Refusal> {
    let mut last = Refusal::Unreachable;
    for address in resolve(target, allow).await? {
        match timeout(PATIENCE, TcpStream::connect(address)).await {
            Ok(Ok(socket)) => {
                // Whoever speaks through a proxy wants what it wrote to leave. A socket that does not take it works, too.
                let _ = socket.set_nodelay(true);
                return Ok(socket);
            }
            Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
                last = Refusal::Refused;
            }
            Ok(Err(_)) | Err(_) => {}
        }
    }
    Err(last)
}

/// Any local address of the family of `ip`.
pub(crate) const fn any_of(ip: IpAddr) -> SocketAddr {
    match ip {
        IpAddr::V4(_) => SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0),
        IpAddr::V6(_) => SocketAddr::new(IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED), 0),
    }
}
