//! Settings of an endpoint before it starts.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use proto::{ClientConfig, EndpointConfig, ServerConfig};
use rand::TryRng;
use rand::rngs::SysRng;
use tokio::runtime::Handle;

use crate::Endpoint;
use crate::async_socket::AsyncUdpSocket;
use crate::binder::Binder;
#[cfg(feature = "interfaces")]
use crate::links::LinkPolicy;
use crate::path_manager::PathManager;
use crate::socket::BufferSizes;

/// Builds an [`Endpoint`].
///
/// ```no_run
/// # // no_run: tests/book runs it over two links
/// # fn run(config: mpquic::ClientConfig) -> std::io::Result<()> {
/// use mpquic::{Endpoint, FullMesh};
///
/// let endpoint = Endpoint::builder()
///     .bind("192.168.1.23:0".parse().unwrap())
///     .bind("10.64.3.9:0".parse().unwrap())
///     .default_client(config)
///     .path_manager(FullMesh::new())
///     .build()?;
/// # Ok(()) }
/// ```
#[derive(Debug, Default)]
#[must_use = "an endpoint starts with build()"]
pub struct EndpointBuilder {
    locals: Vec<SocketAddr>,
    sockets: Vec<std::net::UdpSocket>,
    abstract_sockets: Vec<Arc<dyn AsyncUdpSocket>>,
    sizes: BufferSizes,
    config: Option<EndpointConfig>,
    server: Option<ServerConfig>,
    client: Option<ClientConfig>,
    path_manager: Option<PathManager>,
    #[cfg(feature = "interfaces")]
    links: Option<LinkPolicy>,
    shards: Shards,
}

/// Where the tasks of the shards run.
#[derive(Debug)]
enum Shards {
    /// So many, on the runtime in which the endpoint is built.
    Here(u16),
    /// One on each of these.
    On(Vec<Handle>),
}

impl Default for Shards {
    fn default() -> Self {
        Self::Here(1)
    }
}

impl EndpointBuilder {
    /// A local address to bind a socket to; port 0 is any port. Each call adds a socket.
    ///
    /// A socket on `[::]` takes IPv4 as well if the system has it so, as Linux does. If the endpoint has an IPv4 address too,
    /// such as `0.0.0.0`, it is for IPv6 only, so that both can have the same port. A wildcard address of a family that this
    /// host does not have is left out then ([`Endpoint::missing_addrs`]).
    pub fn bind(mut self, local: SocketAddr) -> Self {
        self.locals.push(local);
        self
    }

    /// Several local addresses.
    pub fn bind_all(mut self, locals: &[SocketAddr]) -> Self {
        self.locals.extend_from_slice(locals);
        self
    }

    /// A socket that is already bound, for options of your own (such as `SO_BINDTODEVICE`).
    pub fn socket(mut self, socket: std::net::UdpSocket) -> Self {
        self.sockets.push(socket);
        self
    }

    /// A socket that need not be one of the system's: see [`AsyncUdpSocket`]. Each call adds one.
    pub fn abstract_socket(mut self, socket: Arc<dyn AsyncUdpSocket>) -> Self {
        self.abstract_sockets.push(socket);
        self
    }

    /// Sizes of the sockets' buffers to ask the system for, in bytes: it may grant less. Default
    /// 4 MiB to send and 8 MiB to receive, for 1 GB/s; 0 leaves them as the system makes them.
    pub fn socket_buffers(mut self, send: usize, receive: usize) -> Self {
        self.sizes = BufferSizes { send, receive };
        self
    }

    /// Accepts connections with this configuration.
    pub fn server(mut self, config: ServerConfig) -> Self {
        self.server = Some(config);
        self
    }

    /// The configuration that [`Endpoint::connect`] takes.
    pub fn default_client(mut self, config: ClientConfig) -> Self {
        self.client = Some(config);
        self
    }

    /// Which paths connections to servers open by themselves. Default: one from each local address, if there are several
    /// ([`PathManager`]).
    pub fn path_manager(mut self, manager: impl Into<PathManager>) -> Self {
        self.path_manager = Some(manager.into());
        self
    }

    /// All links of this machine, as they come and go: a socket on each interface that is up, for each address family, and a
    /// path from each. Those of mobile networks, by their names, are backups: see [`LinkPolicy`], and
    /// [`links`](Self::links) for another one. For clients; a server takes a wildcard address.
    ///
    /// The links are followed for as long as the endpoint has handles or connections. A server on this very machine is not
    /// reached over them.
    ///
    /// ```no_run
    /// # // no_run: what links there are, and where they lead, depends on the machine.
    /// # async fn run(config: mpquic::ClientConfig) -> Result<(), Box<dyn std::error::Error>> {
    /// use mpquic::Endpoint;
    ///
    /// let endpoint = Endpoint::builder().all_interfaces().default_client(config).build()?;
    /// let connection = endpoint.connect("203.0.113.5:4433".parse()?, "example.com")?.await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "interfaces")]
    #[cfg_attr(docsrs, doc(cfg(feature = "interfaces")))]
    pub fn all_interfaces(self) -> Self {
        self.links(LinkPolicy::new())
    }

    /// The links of this machine that this policy chooses, as [`all_interfaces`](Self::all_interfaces) has them all. What
    /// happens to them is told to the log; [`LinkManager`](crate::LinkManager) tells it to the application.
    #[cfg(feature = "interfaces")]
    #[cfg_attr(docsrs, doc(cfg(feature = "interfaces")))]
    pub fn links(mut self, policy: LinkPolicy) -> Self {
        self.links = Some(policy);
        self
    }

    /// Unless another one was chosen.
    pub(crate) fn default_path_manager(mut self, manager: impl Into<PathManager>) -> Self {
        self.path_manager.get_or_insert_with(|| manager.into());
        self
    }

    /// Settings of the endpoint instead of the default ones, which take a seed, the keys and the time from the system.
    /// Several processes with the same keys need the time too: [`EndpointConfig::clock`].
    pub fn endpoint_config(mut self, config: EndpointConfig) -> Self {
        self.config = Some(config);
        self
    }

    /// Divides the endpoint into so many shards, at most [`MAX_SHARDS`](crate::limits::MAX_SHARDS). Default 1.
    ///
    /// Each shard has a task of its own that receives, a socket of its own for each address, and connections of its own. It
    /// shares nothing with the others while packets come and go, so that an endpoint with many connections uses several
    /// cores: on a runtime with several threads, choose as many shards as threads. A single connection gains nothing, and
    /// neither does a client with a few.
    ///
    /// Each connection belongs to one shard, on all its paths and whatever addresses its peer uses: its connection IDs lead
    /// there, those of an own [`ConnectionIdGenerator`](crate::ConnectionIdGenerator) too. On Linux, the
    /// kernel reads them (SO_REUSEPORT with a program for the Berkeley Packet Filter, no privilege needed). What it cannot
    /// tell apart, datagrams of several connections that it has joined, is passed on from shard to shard; so is everything
    /// on other systems and on sockets of your own ([`socket`](Self::socket), [`abstract_socket`](Self::abstract_socket)),
    /// where one shard receives for all.
    ///
    /// [`Endpoint::accept`](crate::Endpoint::accept) gives out the clients of all shards. Memory for data
    /// ([`EndpointConfig::send_memory`], [`EndpointConfig::receive_memory`]) is divided evenly among them;
    /// limits of the [`ServerConfig`] hold for each by itself.
    ///
    /// ```no_run
    /// # // no_run: tests/book runs it over two links
    /// # fn run(config: mpquic::ServerConfig) -> std::io::Result<()> {
    /// use mpquic::Endpoint;
    ///
    /// let endpoint = Endpoint::builder()
    ///     .bind("0.0.0.0:4433".parse().unwrap())
    ///     .server(config)
    ///     .shards(4)
    ///     .build()?;
    /// for shard in endpoint.shard_stats() {
    ///     println!("{shard:?}");
    /// }
    /// # Ok(()) }
    /// ```
    pub fn shards(mut self, count: u16) -> Self {
        self.shards = Shards::Here(count);
        self
    }

    /// The same with one shard on each of these runtimes: its task runs there, and the tasks of its connections. They need
    /// their I/O and time drivers. With current-thread runtimes on threads of their own, nothing of a connection moves from
    /// core to core, if the application works for it there too:
    ///
    /// ```no_run
    /// # // no_run: waits for clients
    /// # async fn run(endpoint: mpquic::Endpoint) {
    /// while let Some(incoming) = endpoint.accept().await {
    ///     let runtime = incoming.runtime().clone();
    ///     // The handshake, and all that follows.
    ///     runtime.spawn(async move {
    ///         if let Ok(connection) = incoming.await {
    ///             // ...
    /// #           drop(connection);
    ///         }
    ///     });
    /// }
    /// # }
    /// ```
    pub fn shards_on(mut self, runtimes: Vec<Handle>) -> Self {
        self.shards = Shards::On(runtimes);
        self
    }

    /// Binds the sockets and starts the endpoint's tasks.
    ///
    /// # Errors
    ///
    /// Without an address or socket, if no [link](Self::all_interfaces) is up, if an address cannot be bound, if an [abstract socket](Self::abstract_socket) has none, if the system has no
    /// randomness, outside of a tokio runtime, or if there cannot be
    /// so many [shards](Self::shards) or connection IDs do not tell them apart.
    pub fn build(self) -> io::Result<Endpoint> {
        #[cfg(feature = "interfaces")]
        let builder = {
            let mut builder = self;
            if let Some(policy) = builder.links.take() {
                return crate::links::build(builder, policy);
            }
            builder
        };
        #[cfg(not(feature = "interfaces"))]
        let builder = self;
        builder.build_as_it_is()
    }

    fn build_as_it_is(self) -> io::Result<Endpoint> {
        if self.locals.is_empty() && self.sockets.is_empty() && self.abstract_sockets.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "an endpoint needs a local address or a socket",
            ));
        }
        let runtimes = match self.shards {
            // Sockets need the reactor: say so in place of a panic.
            Shards::Here(count) => {
                let runtime = Handle::try_current().map_err(io::Error::other)?;
                vec![runtime; usize::from(count)]
            }
            Shards::On(runtimes) => runtimes,
        };
        let mut config = match self.config {
            Some(config) => config,
            None => default_config()?,
        };
        config.alarm_delay(ALARM_DELAY).cipher_block(CIPHER_BLOCK);
        #[cfg(feature = "qlog")]
        let config = logged(config);
        let count = u16::try_from(runtimes.len()).unwrap_or(u16::MAX);
        let configs = config
            .into_shards(count)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let steering = configs[0].steering().cloned();
        let binder = Binder::new(self.sizes, steering, runtimes.clone());
        let mut adopted = Vec::new();
        for socket in self.sockets {
            adopted.push(binder.adopt(socket)?);
        }
        for socket in self.abstract_sockets {
            adopted.push(binder.adopt_abstract(socket)?);
        }
        let beside: Vec<_> = adopted.iter().map(|shards| shards[0].local()).collect();
        let (mut sockets, missing) = binder.bind_all(&self.locals, &beside)?;
        for missing in &missing {
            tracing::warn!(local = %missing.local, "{missing}");
        }
        sockets.extend(adopted);
        Ok(Endpoint::start(
            configs.into_iter().zip(runtimes).collect(),
            self.server,
            &sockets,
            (binder, missing),
            self.client,
            self.path_manager.as_ref(),
        ))
    }
}

/// How late timers go off: tokio's at the next whole millisecond, and then the task has to get its turn.
const ALARM_DELAY: Duration = Duration::from_millis(2);

/// The block of AES-GCM, and of the authentication of ChaCha20-Poly1305.
const CIPHER_BLOCK: u16 = 16;

/// With the environment variable `QLOGDIR`, a file is written of each connection.
#[cfg(feature = "qlog")]
fn logged(mut config: EndpointConfig) -> EndpointConfig {
    match mpquic_qlog::Qlog::from_env() {
        Ok(Some(qlog)) => qlog.attach_endpoint(&mut config),
        Ok(None) => {}
        // What is for looking on must not keep anybody from working.
        Err(error) => {
            tracing::warn!(%error, "no qlog: the folder that QLOGDIR names cannot be made");
        }
    }
    config
}

/// A seed and keys from the system, which have nothing to do with each other.
fn default_config() -> io::Result<EndpointConfig> {
    let secret = || {
        let mut bytes = [0; 32];
        SysRng
            .try_fill_bytes(&mut bytes)
            .map_err(io::Error::other)?;
        Ok::<_, io::Error>(bytes)
    };
    let mut config = EndpointConfig::new(secret()?);
    config.token_key(secret()?).reset_key(secret()?);
    let now = tokio::time::Instant::now().into_std();
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    // A clock before 1970 serves the endpoint's own tokens all the same.
    config.clock(now, since_epoch.unwrap_or_default());
    Ok(config)
}
