//! The link model in real time: a UDP relay on threads of its own. Knows nothing of QUIC; ECN marks do not pass it.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

use crate::link::{Exit, Fate, Link, LinkConfig, LinkConfigError, LinkStats, flip_bit};

/// The most client addresses that one relay serves. Stops: a sender with many ports from using up
/// threads and sockets; datagrams of further clients are dropped and counted.
const MAX_CLIENTS: usize = 64;
/// How often a thread that waits for datagrams looks whether it is to end.
const STOP_CHECK: Duration = Duration::from_millis(20);
/// Asked of the system for each socket, so that a burst survives until its thread runs.
const SOCKET_BUFFER: usize = 4 << 20;
/// The largest UDP payload.
const MAX_DATAGRAM: usize = 65_535;

/// A UDP relay that forwards between clients and one target through two modelled links, one for
/// each direction, shared by all its clients. Several relays make several paths.
///
/// The target sees each client as a port of its own of the relay. Delivery times follow from the
/// link model and the real clock; how late a datagram leaves beyond that is up to the system's
/// scheduler, and does not add up: the model never waits for the sender.
///
/// Ends when dropped.
pub struct Relay {
    shared: Arc<Shared>,
    address: SocketAddr,
    threads: Vec<JoinHandle<()>>,
}

/// What a relay has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RelayStats {
    /// The link from the clients to the target.
    pub up: LinkStats,
    /// The link from the target to the clients.
    pub down: LinkStats,
    /// Client addresses seen and served.
    pub clients: usize,
    /// Datagrams from clients beyond the limit, or for which there was no socket.
    pub refused: u64,
    /// Datagrams that the system did not take.
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
}

struct State {
    up: Link<Parcel>,
    down: Link<Parcel>,
    /// By number; the numbers of addresses stand in `numbers`.
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
    /// The links' next event may have moved, or the relay is to end.
    changed: Condvar,
}

impl Relay {
    /// A relay from `listen` (port 0 for any) to `target`, through these links.
    ///
    /// # Errors
    ///
    /// If a socket or thread cannot be had, or (as `InvalidInput`) if a link cannot be.
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
            up: Link::new(up, seed).map_err(invalid)?,
            down: Link::new(down, seed ^ u64::MAX).map_err(invalid)?,
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
        // From here on, dropping `relay` ends what was started.
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

    /// Where it listens.
    pub const fn addr(&self) -> SocketAddr {
        self.address
    }

    /// What it has done up to now.
    pub fn stats(&self) -> RelayStats {
        let state = self.shared.lock();
        RelayStats {
            up: *state.up.stats(),
            down: *state.down.stats(),
            clients: state.clients.len(),
            refused: state.refused,
            send_errors: state.send_errors,
        }
    }

    /// Darkens or lights both links.
    pub fn set_up(&self, up: bool) {
        self.shared.change(|state, now| {
            state.up.set_up(now, up);
            state.down.set_up(now, up);
        });
    }

    /// Changes the rate of both links, bit/s; `None` serialises in no time.
    ///
    /// # Errors
    ///
    /// If the rate is 0.
    pub fn set_rate(&self, rate: Option<u64>) -> Result<(), LinkConfigError> {
        self.shared.change(|state, now| {
            state.up.set_rate(now, rate)?;
            state.down.set_rate(now, rate)
        })
    }

    /// Changes the propagation delay of both links.
    ///
    /// # Errors
    ///
    /// If it is beyond an hour.
    pub fn set_delay(&self, delay: Duration) -> Result<(), LinkConfigError> {
        self.shared.change(|state, now| {
            state.up.set_delay(now, delay)?;
            state.down.set_delay(now, delay)
        })
    }

    /// Changes the probability of loss of both links.
    ///
    /// # Errors
    ///
    /// If it is no probability.
    pub fn set_loss(&self, loss: f64) -> Result<(), LinkConfigError> {
        self.shared.change(|state, now| {
            state.up.set_loss(now, loss)?;
            state.down.set_loss(now, loss)
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
            // A thread that panicked has nothing more to give, and a drop must not panic.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Nothing in here leaves the state half changed: after a panic it is still good.
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

    /// Takes in datagrams of clients until the relay ends.
    fn listen(self: &Arc<Self>) {
        let mut buffer = vec![0; MAX_DATAGRAM];
        loop {
            let received = self.listen.recv_from(&mut buffer);
            // The clock after the wait and before the lock: that is when it came.
            let now = self.now();
            let mut state = self.lock();
            if state.stopping {
                return;
            }
            // A failed receive is a timeout or an ICMP error of an earlier send: neither is for us.
            let Ok((size, from)) = received else {
                continue;
            };
            let Some(client) = self.client(&mut state, from) else {
                state.refused += 1;
                continue;
            };
            let bytes = buffer[..size].to_vec();
            self.put(&mut state.up, now, Parcel { client, bytes });
        }
    }

    /// Puts a parcel on a link and wakes the sending thread if it must now wake earlier. What the
    /// link refuses, it counts.
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
        state.clients.push(Client { address, upstream });
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

    /// Takes in the target's datagrams for one client until the relay ends.
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
                self.put(&mut state.down, now, Parcel { client, bytes });
            }
        }
    }

    /// Sends on what the links let out, when its time has come, until the relay ends.
    fn send(self: &Arc<Self>) {
        let mut due = Vec::new();
        let mut state = self.lock();
        while !state.stopping {
            let now = self.now();
            // All whose time has come, so that a late wake-up costs delay and no rate.
            while let Some(exit) = state.up.poll(now) {
                if let Some(client) = state.clients.get(exit.payload.client) {
                    due.push((Some(Arc::clone(&client.upstream)), client.address, exit));
                }
            }
            while let Some(exit) = state.down.poll(now) {
                if let Some(client) = state.clients.get(exit.payload.client) {
                    due.push((None, client.address, exit));
                }
            }
            if !due.is_empty() {
                // Not under the lock: receiving must go on meanwhile.
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
            let next = match (state.up.next_event(), state.down.next_event()) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
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

/// The bytes of a parcel that was not lost.
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
    // The system may grant less; a burst may then be lost outside the model.
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
