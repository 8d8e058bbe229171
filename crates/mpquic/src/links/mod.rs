//! The links of a machine as the sockets of an endpoint: bound as interfaces come, let go as they go. Opens no paths: a
//! [`FullMesh`](crate::FullMesh) does, on the sockets that there are.

mod choice;
#[cfg(feature = "interfaces")]
mod system;

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use crate::{Endpoint, EndpointBuilder};
use choice::Link;
pub use choice::{LinkPolicy, Metered};
#[cfg(feature = "interfaces")]
pub use system::SystemInterfaces;

/// A link on which no socket could be bound is tried again after so long, and after twice as long each time, up to the longest: its
/// address may not be ready yet (RFC 4862 section 5.4), or there may be too many open files.
const FIRST_RETRY: Duration = Duration::from_millis(500);
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// A network interface that is up, and its addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name, such as `wlan0`.
    pub name: String,
    /// Its number, if the system tells it: an adapter that is plugged in again has another one.
    pub index: Option<u32>,
    /// Its addresses, the preferred ones first.
    pub addresses: Vec<IpAddr>,
}

/// Tells which interfaces there are. `SystemInterfaces` (feature `interfaces`) asks the operating system; a test tells what it likes.
pub trait InterfaceWatcher: Send + 'static {
    /// The first time, the interfaces that are up now. Later, it waits until they may have changed, and tells all that are up then.
    /// Must be cancel-safe.
    ///
    /// # Errors
    ///
    /// If the system does not tell. [`LinkManager::run`] ends then.
    fn next(&mut self) -> impl Future<Output = io::Result<Vec<Interface>>> + Send;
}

/// What a [`LinkManager`] did.
#[derive(Debug)]
#[non_exhaustive]
pub enum LinkEvent {
    /// A link came up, and has a socket: connections open paths from it.
    Up {
        /// The interface.
        interface: String,
        /// The address of the socket.
        local: SocketAddr,
    },
    /// A link went away: paths from it are abandoned.
    Down {
        /// The interface.
        interface: String,
        /// The address that the socket had.
        local: SocketAddr,
    },
    /// No socket could be bound on a link.
    Unusable {
        /// The interface.
        interface: String,
        /// Its address.
        ip: IpAddr,
        /// Why.
        error: io::Error,
    },
    /// The interfaces cannot be watched any longer.
    Blind(io::Error),
}

impl fmt::Display for LinkEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Up { interface, local } => write!(f, "link {} ({interface}) is up", local.ip()),
            Self::Down { interface, local } => {
                write!(f, "link {} ({interface}) is gone", local.ip())
            }
            Self::Unusable {
                interface,
                ip,
                error,
            } => write!(f, "link {ip} ({interface}) cannot be used: {error}"),
            Self::Blind(error) => write!(f, "changes of links are not seen any more: {error}"),
        }
    }
}

/// Keeps the sockets of an endpoint those of the machine's links, as a [`LinkPolicy`] chooses them, and tells what it does.
/// `EndpointBuilder::all_interfaces` (feature `interfaces`) is the same in one line, for those who need not be told.
///
/// ```no_run
/// # // no_run: tests/book runs it over two links
/// # #[cfg(feature = "interfaces")]
/// # async fn run(config: mpquic::ClientConfig) -> Result<(), Box<dyn std::error::Error>> {
/// use mpquic::{Endpoint, LinkManager, LinkPolicy, SystemInterfaces};
///
/// let builder = Endpoint::builder().default_client(config);
/// let policy = LinkPolicy::new().limit(4);
/// let (endpoint, links) = LinkManager::start(builder, SystemInterfaces::new()?, policy).await?;
/// let links = links.spawn(|event| eprintln!("{event}"));
/// // From all links at once: one that is dead costs nothing.
/// let connection = endpoint.connect("203.0.113.5:4433".parse()?, "example.com")?.await?;
/// // ...
/// drop(links); // the sockets stay as they are from here on
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct LinkManager<W> {
    endpoint: Endpoint,
    watcher: W,
    policy: LinkPolicy,
    bound: Vec<Bound>,
    early: Vec<LinkEvent>,
    /// What the watcher told last.
    interfaces: Vec<Interface>,
    /// A link has no socket: when it is tried again.
    retry: Option<Duration>,
}

/// A link, and its socket.
#[derive(Debug)]
struct Bound {
    link: Link,
    local: SocketAddr,
}

impl<W: InterfaceWatcher> LinkManager<W> {
    /// Builds an endpoint with a socket on each link that the policy chooses, and the policy's [`FullMesh`](crate::FullMesh) as
    /// its path manager, unless the builder was given one.
    ///
    /// # Errors
    ///
    /// If no link is up, none can be used, the watcher fails, or the endpoint cannot be built.
    pub async fn start(
        builder: EndpointBuilder,
        mut watcher: W,
        policy: LinkPolicy,
    ) -> io::Result<(Endpoint, Self)> {
        let interfaces = watcher.next().await?;
        Self::start_on(builder, watcher, policy, &interfaces)
    }

    /// On the interfaces that are up now, as the watcher has told or will tell.
    fn start_on(
        builder: EndpointBuilder,
        watcher: W,
        policy: LinkPolicy,
        interfaces: &[Interface],
    ) -> io::Result<(Endpoint, Self)> {
        let (mut bound, mut early) = (Vec::new(), Vec::new());
        let mut builder = builder.default_path_manager(policy.mesh());
        for link in policy.choose(interfaces) {
            match open(&link, policy.binds_device()) {
                Ok((socket, local)) => {
                    builder = builder.socket(socket);
                    bound.push(Bound { link, local });
                }
                Err(error) => early.push(unusable(link, error)),
            }
        }
        if bound.is_empty() {
            return Err(match early.pop() {
                Some(LinkEvent::Unusable { error, .. }) => error,
                _ => io::Error::new(io::ErrorKind::AddrNotAvailable, "no link is up"),
            });
        }
        let endpoint = builder.build()?;
        for bound in &bound {
            endpoint.set_socket_status(bound.local, bound.link.status);
        }
        let manager = Self {
            endpoint: endpoint.clone(),
            watcher,
            policy,
            bound,
            retry: (!early.is_empty()).then_some(FIRST_RETRY),
            early,
            interfaces: interfaces.to_vec(),
        };
        Ok((endpoint, manager))
    }

    /// Follows the links, and tells `on` what it did, until the watcher fails. Cancel-safe: what is bound stays bound.
    pub async fn run(&mut self, mut on: impl FnMut(LinkEvent)) {
        self.early.drain(..).for_each(&mut on);
        loop {
            let news = match self.retry {
                None => self.watcher.next().await,
                Some(wait) => match tokio::time::timeout(wait, self.watcher.next()).await {
                    Ok(news) => news,
                    Err(_) => {
                        self.try_again(wait, &mut on);
                        continue;
                    }
                },
            };
            match news {
                Ok(interfaces) => {
                    self.interfaces = interfaces;
                    let missed = self.follow(&mut on);
                    self.retry = missed.then_some(FIRST_RETRY);
                }
                Err(error) => return on(LinkEvent::Blind(error)),
            }
        }
    }

    /// [`run`](Self::run) in a task of its own, which ends when the handle is dropped.
    pub fn spawn(mut self, on: impl FnMut(LinkEvent) + Send + 'static) -> LinkTask {
        LinkTask(tokio::spawn(async move { self.run(on).await }))
    }

    /// Links that have no socket may get one now. That they have none was told.
    fn try_again(&mut self, waited: Duration, on: &mut impl FnMut(LinkEvent)) {
        let missed = self.follow(&mut |event| {
            if !matches!(event, LinkEvent::Unusable { .. }) {
                on(event);
            }
        });
        self.retry = missed.then_some((waited * 2).min(LONGEST_RETRY));
    }

    /// Binds and lets go, as the interfaces are. Whether a link has no socket.
    fn follow(&mut self, on: &mut impl FnMut(LinkEvent)) -> bool {
        let wanted = self.policy.choose(&self.interfaces);
        let mut missed = false;
        let mut kept = Vec::with_capacity(wanted.len());
        for link in wanted {
            let known = self.bound.iter().position(|bound| bound.link.is(&link));
            if let Some(index) = known {
                let bound = self.bound.swap_remove(index);
                self.endpoint.set_socket_status(bound.local, link.status);
                kept.push(Bound { link, ..bound });
                continue;
            }
            let adopted = open(&link, self.policy.binds_device()).and_then(|(socket, local)| {
                self.endpoint.adopt_socket_as(socket, link.status)?;
                Ok(local)
            });
            match adopted {
                Ok(local) => {
                    on(LinkEvent::Up {
                        interface: link.interface.clone(),
                        local,
                    });
                    kept.push(Bound { link, local });
                }
                Err(error) => {
                    missed = true;
                    on(unusable(link, error));
                }
            }
        }
        let gone = std::mem::replace(&mut self.bound, kept);
        if self.bound.is_empty() {
            // Without a socket, connections could not wait for a link to come back.
            self.bound = gone;
            return missed;
        }
        for Bound { link, local } in gone {
            self.endpoint.remove_socket(local);
            on(LinkEvent::Down {
                interface: link.interface,
                local,
            });
        }
        missed
    }
}

/// An endpoint on the links of this machine, which are followed for as long as it has handles or connections.
#[cfg(feature = "interfaces")]
pub(crate) fn build(builder: EndpointBuilder, policy: LinkPolicy) -> io::Result<Endpoint> {
    let (watcher, interfaces) = SystemInterfaces::begin()?;
    let (endpoint, mut manager) = LinkManager::start_on(builder, watcher, policy, &interfaces)?;
    // It must not keep the endpoint.
    manager.endpoint = endpoint.uncounted();
    let watched = endpoint.uncounted();
    endpoint.runtime().spawn(async move {
        tokio::select! {
            () = watched.finished() => {}
            () = manager.run(|event| tracing::info!("{event}")) => {}
        }
    });
    Ok(endpoint)
}

/// A task that follows the links; ends when this is dropped.
#[derive(Debug)]
#[must_use = "links are followed for as long as it lives"]
pub struct LinkTask(tokio::task::JoinHandle<()>);

impl Drop for LinkTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn unusable(link: Link, error: io::Error) -> LinkEvent {
    LinkEvent::Unusable {
        interface: link.interface,
        ip: link.ip,
        error,
    }
}

/// A socket on a link. Where the system can, it is bound to the interface, too: routes alone may lead packets of one interface's address
/// out of another one.
fn open(link: &Link, device: bool) -> io::Result<(UdpSocket, SocketAddr)> {
    let address = SocketAddr::new(link.ip, 0);
    let domain = socket2::Domain::for_address(address);
    let socket = socket2::Socket::new(domain, socket2::Type::DGRAM, None)?;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if device && let Err(error) = socket.bind_device(Some(link.interface.as_bytes())) {
        // Before Linux 5.7, it takes a privilege.
        tracing::debug!(interface = link.interface, %error, "not bound to the interface");
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let _ = device;
    socket.bind(&address.into())?;
    let socket = UdpSocket::from(socket);
    let local = socket.local_addr()?;
    Ok((socket, local))
}
