//! Settings of an endpoint before it starts; no behaviour beyond that.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use proto::{ClientConfig, EndpointConfig, ServerConfig};
use rand::TryRng;
use rand::rngs::SysRng;

use crate::Endpoint;
use crate::path_manager::PathManager;
use crate::socket::{BufferSizes, Socket, SocketSet};

/// Builds an [`Endpoint`].
///
/// ```no_run
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
    sizes: BufferSizes,
    config: Option<EndpointConfig>,
    server: Option<ServerConfig>,
    client: Option<ClientConfig>,
    path_manager: PathManager,
}

impl EndpointBuilder {
    /// A local address to bind a socket to; port 0 is any port. Each call adds a socket.
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

    /// Sizes of the sockets' buffers to ask the system for, in bytes: it may grant less. Default
    /// 4 MiB to send and 8 MiB to receive, for 1 GB/s.
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

    /// Which paths connections to servers open by themselves. Default none.
    pub fn path_manager(mut self, manager: impl Into<PathManager>) -> Self {
        self.path_manager = manager.into();
        self
    }

    /// Settings of the endpoint instead of the default ones, which take a seed, the keys and the time from the system.
    /// Several processes with the same keys need the time too: [`EndpointConfig::clock`].
    pub fn endpoint_config(mut self, config: EndpointConfig) -> Self {
        self.config = Some(config);
        self
    }

    /// Binds the sockets and starts the endpoint's task.
    ///
    /// # Errors
    ///
    /// Without an address or socket, if an address cannot be bound, if the system has no
    /// randomness, or outside of a tokio runtime.
    pub fn build(self) -> io::Result<Endpoint> {
        if self.locals.is_empty() && self.sockets.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "an endpoint needs a local address or a socket",
            ));
        }
        // Sockets need the reactor: say so in place of a panic.
        tokio::runtime::Handle::try_current().map_err(io::Error::other)?;
        let config = match self.config {
            Some(config) => config,
            None => default_config()?,
        };
        let mut sockets = bind_all(&self.locals, self.sizes)?;
        for socket in self.sockets {
            sockets.push(Arc::new(Socket::new(socket, self.sizes)?));
        }
        Endpoint::start(
            proto::Endpoint::new(Arc::new(config), self.server.map(Arc::new)),
            SocketSet::new(sockets, self.sizes),
            self.client,
            self.path_manager,
        )
    }
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

/// Binds all or none.
fn bind_all(locals: &[SocketAddr], sizes: BufferSizes) -> io::Result<Vec<Arc<Socket>>> {
    let bind = |local: &SocketAddr| match Socket::bind(*local, sizes) {
        Ok(socket) => Ok(Arc::new(socket)),
        Err(error) => Err(io::Error::new(
            error.kind(),
            format!("cannot bind {local}: {error}"),
        )),
    };
    locals.iter().map(bind).collect()
}
