//! The link model in real time: a UDP relay with its own threads. It does not pass on ECN marks.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

use crate::link::{Exit, Fate, Link, LinkConfig, LinkConfigError, LinkStats, flip_bit};

/// The most client addresses per relay. Without this limit, a sender with many ports could use up
/// threads and sockets. The relay drops and counts datagrams of further clients.
const MAX_CLIENTS: usize = 64;
/// How often a thread that waits for datagrams checks whether it should stop.
const STOP_CHECK: Duration = Duration::from_millis(20);
/// The buffer size requested for each socket, so that a burst survives until its thread runs.
const SOCKET_BUFFER: usize = 4 << 20;
/// The largest UDP payload.
const MAX_DATAGRAM: usize = 65_535;

/// A UDP relay between clients and one target. It forwards through two modelled links, one per
/// direction, which all its clients share. Several relays make several paths to as many addresses;
/// one relay makes several paths to one address if clients at some IP addresses have links of their own
/// ([`add_links`](Self::add_links)), as a machine with two interfaces has.
///
/// The target sees each client as a separate port of the relay. The link model and the real clock
/// determine delivery times. The system's scheduler may delay a datagram further. These delays do
/// not add up, because the model never waits for the sender.
///
/// Dropping the relay stops it.
pub struct Relay {
    shared: Arc<Shared>,
    address: SocketAddr,
    threads: Vec<JoinHandle<()>>,
}

/// The counters of a relay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RelayStats {
    /// The link from the clients to the target. Not those of [`Relay::add_links`].
    pub up: LinkStats,
    /// The link from the target to the clients.
    pub down: LinkStats,
    /// Client addresses served.
    pub clients: usize,
    /// Datagrams from clients beyond the limit, or for which no socket could be opened.
    pub refused: u64,
    /// Datagrams that the system did not accept.
    pub send_errors: u64,
}

/// A datagram on one of the links.
#[derive(Debug, Clone)]
struct Parcel {
    client: usize,
    bytes: Vec<u8>,
}

struct Client {
    address: SocketAddr,
    upstream: Arc<UdpSocket>,
    /// The place of its links.
    links: usize,
}

/// The links of some clients, one per direction.
struct Links {
    /// None: of all clients that have no others.
    from: Option<IpAddr>,
    up: Link<Parcel>,
    down: Link<Parcel>,
}

impl Links {
    fn new(from: Option<IpAddr>, up: LinkConfig, down: LinkConfig, seed: u64) -> io::Result<Self> {
        Ok(Self {
            from,
            up: Link::new(up, seed).map_err(invalid)?,
            down: Link::new(down, seed ^ u64::MAX).map_err(invalid)?,
        })
    }

    fn set_up(&mut self, now: Duration, up: bool) {
        self.up.set_up(now, up);
        self.down.set_up(now, up);
    }

    fn next_event(&self) -> Option<Duration> {
        match (self.up.next_event(), self.down.next_event()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}

struct State {
    /// The first ones are of all clients that have no others.
    links: Vec<Links>,
    /// Indexed by number; `numbers` maps addresses to numbers.
    clients: Vec<Client>,
    numbers: BTreeMap<SocketAddr, usize>,
    receivers: Vec<JoinHandle<()>>,
    refused: u64,
    send_errors: u64,
    stopping: bool,
}

struct Shared {
    origin: Instant,
    listen: UdpSocket,
    target: SocketAddr,
    state: Mutex<State>,
    /// Notified when the links' next event may have changed, or when the relay stops.
    changed: Condvar,
}

impl Relay {
    /// Starts a relay from `listen` (port 0 for any) to `target` through these links.
    ///
    /// # Errors
    ///
    /// If a socket or thread cannot be created, or (as `InvalidInput`) if the configuration of a
    /// link is invalid.
    pub fn spawn(
        listen: SocketAddr,
        target: SocketAddr,
        up: LinkConfig,
        down: LinkConfig,
        seed: u64,
    ) -> io::Result<Self> {
        let listen = bind(listen)?;
        let address = listen.local_addr()?;
        let state = State {
            links: vec![Links::new(None, up, down, seed)?],
            clients: Vec::new(),
            numbers: BTreeMap::new(),
            receivers: Vec::new(),
            refused: 0,
            send_errors: 0,
            stopping: false,
        };
        let shared = Arc::new(Shared {
            origin: clock(),
            listen,
            target,
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        // From here on, dropping `relay` stops what was started.
        let mut relay = Self {
            shared,
            address,
            threads: Vec::new(),
        };
        for (name, run) in [
            ("relay-listen", Shared::listen as fn(&Arc<Shared>)),
            ("relay-send", Shared::send),
        ] {
            relay.threads.push(spawn(name, &relay.shared, run)?);
        }
        Ok(relay)
    }

    /// The address on which the relay listens.
    pub const fn addr(&self) -> SocketAddr {
        self.address
    }

    /// Gives clients at this IP address links of their own. Those that the relay knows already keep theirs.
    ///
    /// # Errors
    ///
    /// As `InvalidInput` if the configuration of a link is invalid, or if the address has links of its own.
    pub fn add_links(
        &self,
        from: IpAddr,
        up: LinkConfig,
        down: LinkConfig,
        seed: u64,
    ) -> io::Result<()> {
        let links = Links::new(Some(from), up, down, seed)?;
        let mut state = self.shared.lock();
        if state.links.iter().any(|links| links.from == Some(from)) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{from} has links of its own"),
            ));
        }
        state.links.push(links);
        Ok(())
    }

    /// Takes both links of the clients at this IP address up or down. Whether it has links of its own.
    pub fn set_links_up(&self, from: IpAddr, up: bool) -> bool {
        self.shared.change(|state, now| {
            let links = state.links.iter_mut().find(|l| l.from == Some(from));
            links.map(|links| links.set_up(now, up)).is_some()
        })
    }

    /// The counters of the links of clients at this IP address, to the target and from it; `None` if it has no links
    /// of its own.
    pub fn link_stats(&self, from: IpAddr) -> Option<(LinkStats, LinkStats)> {
        let state = self.shared.lock();
        let links = state.links.iter().find(|links| links.from == Some(from))?;
        Some((*links.up.stats(), *links.down.stats()))
    }

    /// The counters so far.
    pub fn stats(&self) -> RelayStats {
        let state = self.shared.lock();
        let all = state.links.first();
        RelayStats {
            up: all.map(|links| *links.up.stats()).unwrap_or_default(),
            down: all.map(|links| *links.down.stats()).unwrap_or_default(),
            clients: state.clients.len(),
            refused: state.refused,
            send_errors: state.send_errors,
        }
    }

    /// Takes all links up or down.
    pub fn set_up(&self, up: bool) {
        self.shared.change(|state, now| {
            for links in &mut state.links {
                links.set_up(now, up);
            }
        });
    }

    /// Changes the rate of all links in bit/s. With `None`, serialisation takes no time.
    ///
    /// # Errors
    ///
    /// If the rate is 0.
    pub fn set_rate(&self, rate: Option<u64>) -> Result<(), LinkConfigError> {
        self.shared.change(|state, now| {
            for links in &mut state.links {
                links.up.set_rate(now, rate)?;
                links.down.set_rate(now, rate)?;
            }
            Ok(())
        })
    }

    /// Changes the propagation delay of all links.
    ///
    /// # Errors
    ///
    /// If the delay is more than an hour.
    pub fn set_delay(&self, delay: Duration) -> Result<(), LinkConfigError> {
        self.shared.change(|state, now| {
            for links in &mut state.links {
                links.up.set_delay(now, delay)?;
                links.down.set_delay(now, delay)?;
            }
            Ok(())
        })
    }

    /// Changes the probability of loss of all links.
    ///
    /// # Errors
    ///
    /// If it is not a probability.
    pub fn set_loss(&self, loss: f64) -> Result<(), LinkConfigError> {
        self.shared.change(|state, now| {
            for links in &mut state.links {
                links.up.set_loss(now, loss)?;
                links.down.set_loss(now, loss)?;
            }
            Ok(())
        })
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let receivers = {
            let mut state = self.shared.lock();
            state.stopping = true;
            std::mem::take(&mut state.receivers)
        };
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..).chain(receivers) {
            // A thread that panicked has no result, and a drop must not panic.
            let _ = thread.join();
        }
    }
}

impl State {
    fn links_of(&mut self, client: usize) -> Option<&mut Links> {
        let client = self.clients.get(client)?;
        self.links.get_mut(client.links)
    }
}

impl Shared {
    /// No code here leaves the state half changed, so it is valid even after a panic.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        clock().duration_since(self.origin)
    }

    fn change<R>(&self, f: impl FnOnce(&mut State, Duration) -> R) -> R {
        let result = f(&mut self.lock(), self.now());
        self.changed.notify_all();
        result
    }

    /// Receives datagrams from clients until the relay stops.
    fn listen(self: &Arc<Self>) {
        let mut buffer = vec![0; MAX_DATAGRAM];
        loop {
            let received = self.listen.recv_from(&mut buffer);
            // The clock is read after the wait and before the lock: that is the time of arrival.
            let now = self.now();
            let mut state = self.lock();
            if state.stopping {
                return;
            }
            // A failed receive is a timeout or an ICMP error of an earlier send. Neither matters
            // here.
            let Ok((size, from)) = received else {
                continue;
            };
            let Some(client) = self.client(&mut state, from) else {
                state.refused += 1;
                continue;
            };
            let bytes = buffer[..size].to_vec();
            if let Some(links) = state.links_of(client) {
                self.put(&mut links.up, now, Parcel { client, bytes });
            }
        }
    }

    /// Puts a parcel on a link, and wakes the sending thread if it must now wake earlier. The link
    /// counts what it drops.
    fn put(&self, link: &mut Link<Parcel>, now: Duration, parcel: Parcel) {
        let before = link.next_event();
        let _ = link.enqueue(now, parcel.bytes.len(), parcel);
        if link.next_event() != before {
            self.changed.notify_all();
        }
    }

    /// The number of the client with this address, which may be new.
    fn client(self: &Arc<Self>, state: &mut State, address: SocketAddr) -> Option<usize> {
        if let Some(&number) = state.numbers.get(&address) {
            return Some(number);
        }
        if state.clients.len() >= MAX_CLIENTS {
            return None;
        }
        let number = state.clients.len();
        let upstream = self.connect_upstream().ok()?;
        let socket = Arc::clone(&upstream);
        let receiver = spawn("relay-upstream", self, move |shared| {
            shared.receive(number, &socket);
        })
        .ok()?;
        state.receivers.push(receiver);
        let own = |links: &Links| links.from == Some(address.ip());
        let links = state.links.iter().position(own).unwrap_or(0);
        state.clients.push(Client {
            address,
            upstream,
            links,
        });
        state.numbers.insert(address, number);
        Some(number)
    }

    fn connect_upstream(&self) -> io::Result<Arc<UdpSocket>> {
        let any = match self.target {
            SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        };
        let socket = bind(any)?;
        socket.connect(self.target)?;
        Ok(Arc::new(socket))
    }

    /// Receives the target's datagrams for one client until the relay stops.
    fn receive(&self, client: usize, upstream: &UdpSocket) {
        let mut buffer = vec![0; MAX_DATAGRAM];
        loop {
            let received = upstream.recv(&mut buffer);
            let now = self.now();
            let mut state = self.lock();
            if state.stopping {
                return;
            }
            if let Ok(size) = received {
                let bytes = buffer[..size].to_vec();
                if let Some(links) = state.links_of(client) {
                    self.put(&mut links.down, now, Parcel { client, bytes });
                }
            }
        }
    }

    /// Sends datagrams that leave the links at their time, until the relay stops.
    fn send(self: &Arc<Self>) {
        let mut due = Vec::new();
        let mut state = self.lock();
        while !state.stopping {
            let now = self.now();
            // All that are due, so that a late wake-up costs delay but not throughput.
            let State { links, clients, .. } = &mut *state;
            for links in links {
                while let Some(exit) = links.up.poll(now) {
                    if let Some(client) = clients.get(exit.payload.client) {
                        due.push((Some(Arc::clone(&client.upstream)), client.address, exit));
                    }
                }
                while let Some(exit) = links.down.poll(now) {
                    if let Some(client) = clients.get(exit.payload.client) {
                        due.push((None, client.address, exit));
                    }
                }
            }
            if !due.is_empty() {
                // Without the lock: receiving must continue meanwhile.
                drop(state);
                let mut failed = 0;
                for (upstream, address, exit) in due.drain(..) {
                    let sent = match (arrived(exit), upstream) {
                        (Some(bytes), Some(upstream)) => upstream.send(&bytes),
                        (Some(bytes), None) => self.listen.send_to(&bytes, address),
                        (None, _) => continue,
                    };
                    failed += u64::from(sent.is_err());
                }
                state = self.lock();
                state.send_errors += failed;
                continue;
            }
            let next = state.links.iter().filter_map(Links::next_event).min();
            state = match next {
                Some(at) => {
                    self.changed
                        .wait_timeout(state, at.saturating_sub(now))
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
                None => self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

/// The bytes of a parcel, unless it was lost.
fn arrived(exit: Exit<Parcel>) -> Option<Vec<u8>> {
    let mut bytes = exit.payload.bytes;
    if let Fate::Corrupted { bit } = exit.fate {
        flip_bit(&mut bytes, bit);
    }
    exit.fate.arrives().then_some(bytes)
}

fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::DGRAM,
        Some(Protocol::UDP),
    )?;
    // The system may grant less. A burst may then be lost outside the model.
    let _ = socket.set_recv_buffer_size(SOCKET_BUFFER);
    let _ = socket.set_send_buffer_size(SOCKET_BUFFER);
    socket.bind(&address.into())?;
    socket.set_read_timeout(Some(STOP_CHECK))?;
    Ok(socket.into())
}

fn spawn(
    name: &str,
    shared: &Arc<Shared>,
    run: impl FnOnce(&Arc<Shared>) + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let shared = Arc::clone(shared);
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || run(&shared))
}

fn invalid(error: LinkConfigError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error)
}

#[allow(
    clippy::disallowed_methods,
    reason = "the relay is the one part that lives in real time"
)]
fn clock() -> Instant {
    Instant::now()
}
