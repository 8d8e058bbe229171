//! One socket as an endpoint uses it, and the set of an endpoint's sockets.

use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};

use proto::{FourTuple, PathStatus, Transmit};
use quinn_udp::RecvMeta;

use crate::async_socket::{AsyncUdpSocket, SystemSocket};
use crate::wait_queue::{Turn, Turns};

/// What one `sendmsg` can carry with segmentation offload: the UDP length field has 16 bits.
const MAX_SEND_BYTES: usize = 65_507;

/// The largest datagram for sockets on which it may be fragmented: what all paths of QUIC carry (RFC 9000 section 14).
const MAX_UNFRAGMENTED: usize = 1200;

/// Replaced sockets that a socket remembers: connections that have not moved by then have not run for long.
const MAX_FORMER: usize = 8;

/// Sizes asked of the system for a socket's buffers; it may grant less.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BufferSizes {
    pub(crate) send: usize,
    pub(crate) receive: usize,
}

impl Default for BufferSizes {
    /// At 1 GB/s, 8 MiB are what arrives while this task is off the processor for 8 ms.
    fn default() -> Self {
        Self {
            send: 4 << 20,
            receive: 8 << 20,
        }
    }
}

/// Who sends and receives. The system's own socket is called directly.
#[derive(Debug)]
enum Io {
    System(SystemSocket),
    Abstract(Arc<dyn AsyncUdpSocket>),
}

impl Io {
    fn try_send(&self, transmit: &quinn_udp::Transmit<'_>) -> io::Result<()> {
        match self {
            Self::System(socket) => socket.try_send(transmit),
            Self::Abstract(socket) => socket.try_send(transmit),
        }
    }

    fn max_transmit_segments(&self) -> usize {
        match self {
            Self::System(socket) => socket.max_transmit_segments(),
            Self::Abstract(socket) => socket.max_transmit_segments(),
        }
    }
}

/// One bound socket.
#[derive(Debug)]
pub(crate) struct Socket {
    io: Io,
    local: SocketAddr,
    /// It leaves IPv4 to others, though its address would let it carry that.
    only_v6: bool,
    /// Larger datagrams are not sent.
    max_datagram: usize,
    /// The addresses of the sockets that it replaced, the newest last.
    former: Vec<SocketAddr>,
    /// Paths from it are for when there is no other.
    backup: AtomicBool,
    /// The only shard that receives on it, if several send on it.
    reader: Option<usize>,
    /// Of connections that found it full.
    turns: Turns,
    /// So many attempts to receive are to fail.
    #[cfg(test)]
    pub(crate) failures: std::sync::atomic::AtomicU32,
}

/// What became of an attempt to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// It left, or the system refused it for good: either way it is done with.
    Done,
    /// The system's buffer is full; go on from the offset once the socket is writable.
    Blocked,
    /// The system refused it, as it will refuse what follows: it knows no way from here to there.
    NoWay(io::ErrorKind),
}

/// Whether an error says that nothing can be sent between two addresses for the time being.
fn is_no_way(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkDown
            | io::ErrorKind::AddrNotAvailable
            | io::ErrorKind::PermissionDenied
            // Linux: from a loopback address to another host.
            | io::ErrorKind::InvalidInput
    )
}

impl Socket {
    pub(crate) fn new(socket: std::net::UdpSocket, sizes: BufferSizes) -> io::Result<Self> {
        // Of those for which there is no such thing, the system does not tell.
        let only_v6 = socket2::SockRef::from(&socket).only_v6().unwrap_or(false);
        let socket = SystemSocket::with_buffers(socket, sizes)?;
        let local = socket.local();
        let socket = Self::with_io(Io::System(socket), local, usize::MAX);
        Ok(Self { only_v6, ..socket })
    }

    /// One that the application brings.
    pub(crate) fn adopt(socket: Arc<dyn AsyncUdpSocket>) -> io::Result<Self> {
        let local = socket.local_addr()?;
        let max_datagram = if socket.may_fragment() {
            MAX_UNFRAGMENTED
        } else {
            usize::MAX
        };
        Ok(Self::with_io(Io::Abstract(socket), local, max_datagram))
    }

    fn with_io(io: Io, local: SocketAddr, max_datagram: usize) -> Self {
        Self {
            io,
            local,
            only_v6: false,
            max_datagram,
            former: Vec::new(),
            backup: AtomicBool::new(false),
            reader: None,
            turns: Turns::default(),
            #[cfg(test)]
            failures: Default::default(),
        }
    }

    /// How paths from it are to be used.
    pub(crate) fn status(&self) -> PathStatus {
        if self.backup.load(Ordering::Relaxed) {
            PathStatus::Backup
        } else {
            PathStatus::Available
        }
    }

    pub(crate) fn set_status(&self, status: PathStatus) {
        self.backup
            .store(status == PathStatus::Backup, Ordering::Relaxed);
    }

    /// In the place of others, with these addresses.
    pub(crate) fn replacing(mut self, former: &[SocketAddr]) -> Self {
        self.former = former.to_vec();
        self
    }

    #[cfg(test)]
    pub(crate) fn bind(local: SocketAddr, sizes: BufferSizes) -> io::Result<Self> {
        Self::new(std::net::UdpSocket::bind(local)?, sizes)
    }

    /// As one on which all shards send, and this one receives.
    pub(crate) const fn read_by(mut self, shard: usize) -> Self {
        self.reader = Some(shard);
        self
    }

    /// Whether this shard receives on it.
    pub(crate) fn is_read_by(&self, shard: usize) -> bool {
        self.reader.is_none_or(|reader| reader == shard)
    }

    /// The bound address; its IP may be unspecified.
    pub(crate) const fn local(&self) -> SocketAddr {
        self.local
    }

    fn is_wildcard(&self) -> bool {
        self.local.ip().is_unspecified()
    }

    /// The network path from here to `remote`, if it can be reached.
    fn path_to(&self, remote: SocketAddr) -> Option<FourTuple> {
        self.align(self.local, remote)
    }

    /// The same from an address that this socket has.
    fn align(&self, local: SocketAddr, remote: SocketAddr) -> Option<FourTuple> {
        let foreign = self.only_v6 && remote.ip().to_canonical().is_ipv4();
        if foreign { None } else { align(local, remote) }
    }

    /// The most datagrams that one system call takes.
    pub(crate) fn max_segments(&self) -> usize {
        self.io.max_transmit_segments()
    }

    /// The largest IP packet that the link between these addresses takes, if that is known.
    pub(crate) fn link_mtu(&self, path: &FourTuple) -> Option<u32> {
        match &self.io {
            Io::System(socket) => socket.link_mtu(path),
            Io::Abstract(_) => None,
        }
    }

    /// Our address of a datagram that came in here.
    pub(crate) fn local_of(&self, meta: &RecvMeta) -> SocketAddr {
        match meta.dst_ip {
            Some(ip) if self.is_wildcard() => SocketAddr::new(ip, self.local.port()),
            _ => self.local,
        }
    }

    /// Sends `data` from `*offset` on, in as few system calls as it takes, and advances `*offset`. Without `offload`, the
    /// system gets each datagram by itself.
    ///
    /// An error other than a full buffer costs the datagrams concerned and nothing else: to the
    /// connection it is a loss like any other, and a path on which everything is lost gets into
    /// trouble by itself.
    pub(crate) fn send(
        &self,
        transmit: &Transmit,
        data: &[u8],
        offload: bool,
        offset: &mut usize,
    ) -> Sent {
        let local_ip = transmit.network_path.local.ip();
        // A bound socket has only one address to send from; a wildcard one answers from the
        // address that was asked.
        let src_ip = (self.is_wildcard() && !local_ip.is_unspecified()).then_some(local_ip);
        let segment = transmit.segment_size.unwrap_or(data.len()).max(1);
        if segment > self.max_datagram {
            tracing::trace!(path = %transmit.network_path, len = segment, "not sent: might be fragmented");
            *offset = data.len();
            return Sent::Done;
        }
        let mut outcome = Sent::Done;
        while *offset < data.len() {
            let most = if offload { self.max_segments() } else { 1 };
            let batch = most.min(MAX_SEND_BYTES / segment).max(1);
            let end = data.len().min(offset.saturating_add(batch * segment));
            let contents = &data[*offset..end];
            let datagrams = quinn_udp::Transmit {
                destination: transmit.network_path.remote,
                ecn: transmit
                    .ecn
                    .and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8)),
                contents,
                segment_size: (contents.len() > segment).then_some(segment),
                src_ip,
            };
            match self.io.try_send(&datagrams) {
                Ok(()) => *offset = end,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Sent::Blocked,
                // The driver cannot segment after all, and the state has taken note: once more,
                // one by one.
                Err(_) if datagrams.segment_size.is_some() && self.max_segments() < batch => {}
                Err(error) => {
                    // Probes for the path MTU, single and large, are meant to fail now and then.
                    if transmit.segment_size.is_none() && contents.len() > 1200 {
                        tracing::trace!(path = %transmit.network_path, %error, len = contents.len(), "not sent");
                    } else {
                        tracing::debug!(path = %transmit.network_path, %error, "datagrams not sent");
                    }
                    *offset = end;
                    if is_no_way(error.kind()) {
                        outcome = Sent::NoWay(error.kind());
                    }
                }
            }
        }
        outcome
    }

    /// Whether others wait for room in the system's send buffer: who comes then has to wait too.
    pub(crate) fn is_awaited(&self) -> bool {
        self.turns.has_waiting()
    }

    /// Waits until the system's send buffer has room and all who came before had theirs.
    pub(crate) fn turn(self: &Arc<Self>) -> impl Future<Output = Turn> + use<> {
        let socket = Arc::clone(self);
        self.turns.wait(async move { socket.writable().await })
    }

    /// Waits until the system's send buffer has room. Any number of tasks may wait, and all are woken.
    pub(crate) async fn writable(&self) {
        let result = match &self.io {
            Io::System(socket) => socket.writable().await,
            Io::Abstract(socket) => {
                // If it is wrong about the room that it has, other tasks have their turn all the same.
                tokio::task::coop::consume_budget().await;
                let mut poller = Arc::clone(socket).create_io_poller();
                poll_fn(|cx| poller.as_mut().poll_writable(cx)).await
            }
        };
        if let Err(error) = result {
            tracing::debug!(local = %self.local, %error, "waiting for the socket");
        }
    }

    /// Whether it makes sense to receive; only one task may poll this. A socket that the application brings says so no sooner
    /// than in [`poll_receive`](Self::poll_receive).
    pub(crate) fn poll_recv_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.io {
            Io::System(socket) => socket.poll_recv_ready(cx),
            Io::Abstract(_) => Poll::Ready(Ok(())),
        }
    }

    /// Whether it is the system's, and not one that the application brings.
    pub(crate) const fn is_systems(&self) -> bool {
        matches!(self.io, Io::System(_))
    }

    /// Nobody is woken by what comes in, until [`poll_recv_ready`](Self::poll_recv_ready) is asked. Only for the system's.
    pub(crate) fn unwatch(&self) {
        if let Io::System(socket) = &self.io {
            socket.unwatch();
        }
    }

    /// Whether something waits to be received, also if the runtime has not heard of it yet.
    pub(crate) fn has_unread(&self) -> bool {
        match &self.io {
            Io::System(socket) => socket.has_unread(),
            // It cannot be asked without being read.
            Io::Abstract(_) => false,
        }
    }

    /// Receives what is there, also if the runtime has not heard of it yet; `None` for a socket that cannot be asked so.
    pub(crate) fn receive_now(
        &self,
        buffers: &mut [io::IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> Option<io::Result<usize>> {
        match &self.io {
            Io::System(socket) => Some(socket.recv_now(buffers, metas)),
            Io::Abstract(_) => None,
        }
    }

    /// Receives what is there, at most as many messages as there are buffers. The system's socket answers at once,
    /// with an error if there is nothing: the task is woken by [`poll_recv_ready`](Self::poll_recv_ready) then.
    pub(crate) fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [io::IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        #[cfg(test)]
        if let Ok(left) = self
            .failures
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(1)
            })
        {
            let error = io::Error::new(io::ErrorKind::NetworkDown, left.to_string());
            return Poll::Ready(Err(error));
        }
        match &self.io {
            Io::System(socket) => Poll::Ready(socket.try_recv(buffers, metas)),
            Io::Abstract(socket) => socket.poll_recv(cx, buffers, metas),
        }
    }
}

/// Whether a socket bound to `bound` can send from `local`, and how well: lower is better.
fn rank(bound: SocketAddr, local: SocketAddr) -> Option<u8> {
    if bound.port() != local.port() {
        return None;
    }
    // Scope and flow label of IPv6 are left out: a received datagram does not tell them.
    if bound.ip() == local.ip() {
        return Some(0);
    }
    (bound.ip().is_unspecified() && bound.is_ipv4() == local.is_ipv4()).then_some(1)
}

/// The socket that can send from `local`: bound to just this address, else a wildcard one.
pub(crate) fn route(sockets: &[Arc<Socket>], local: SocketAddr) -> Option<usize> {
    if let [only] = sockets {
        return rank(only.local, local).map(|_| 0);
    }
    route_among(sockets, local)
}

/// Apart from the rest, as most endpoints have one socket.
#[cold]
#[inline(never)]
fn route_among(sockets: &[Arc<Socket>], local: SocketAddr) -> Option<usize> {
    best(sockets.iter().map(|socket| rank(socket.local, local)))
}

fn best(ranks: impl Iterator<Item = Option<u8>>) -> Option<usize> {
    ranks
        .enumerate()
        .filter_map(|(index, rank)| Some((rank?, index)))
        .min()
        .map(|(_, index)| index)
}

/// Where a path from `local` goes on, whose socket is gone: the address of the socket that replaced it.
pub(crate) fn successor(sockets: &[Arc<Socket>], local: SocketAddr) -> Option<SocketAddr> {
    let replaced = |socket: &&Arc<Socket>| {
        let mut former = socket.former.iter();
        former.any(|former| rank(*former, local).is_some())
    };
    sockets.iter().find(replaced).map(|socket| socket.local)
}

/// Local and remote as one address family, which is what the system wants: an IPv4 remote on an
/// IPv6 wildcard socket is written as an IPv4-mapped IPv6 address.
fn align(local: SocketAddr, remote: SocketAddr) -> Option<FourTuple> {
    let remote = match (local, remote) {
        (SocketAddr::V4(_), SocketAddr::V4(_)) | (SocketAddr::V6(_), SocketAddr::V6(_)) => remote,
        (SocketAddr::V6(v6), SocketAddr::V4(v4))
            if v6.ip().is_unspecified() || v6.ip().to_ipv4_mapped().is_some() =>
        {
            SocketAddr::V6(SocketAddrV6::new(v4.ip().to_ipv6_mapped(), v4.port(), 0, 0))
        }
        _ => return None,
    };
    Some(FourTuple { local, remote })
}

/// The sockets of a shard of an endpoint. Readers take a snapshot and look at the generation to see whether
/// it still holds, so that sending takes no lock.
#[derive(Debug)]
pub(crate) struct SocketSet {
    sockets: RwLock<Arc<[Arc<Socket>]>>,
    generation: AtomicU64,
}

impl SocketSet {
    pub(crate) fn new(sockets: Vec<Arc<Socket>>) -> Self {
        Self {
            sockets: RwLock::new(sockets.into()),
            generation: AtomicU64::new(0),
        }
    }

    /// Changes with every change of the set.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub(crate) fn snapshot(&self) -> Arc<[Arc<Socket>]> {
        let sockets = self.sockets.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&sockets)
    }

    fn update(&self, change: impl FnOnce(&mut Vec<Arc<Socket>>)) {
        let mut sockets = self.sockets.write().unwrap_or_else(PoisonError::into_inner);
        let mut list = sockets.to_vec();
        change(&mut list);
        *sockets = list.into();
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Whether there is no socket.
    pub(crate) fn is_bare(&self) -> bool {
        self.snapshot().is_empty()
    }

    /// Whoever looks at the set is to look again, though it is the same.
    pub(crate) fn touch(&self) {
        self.generation.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn add(&self, socket: Arc<Socket>) {
        self.update(|list| list.push(socket));
    }

    /// Sets how paths from the socket bound to `local` are to be used; returns whether there is one.
    pub(crate) fn set_status(&self, local: SocketAddr, status: PathStatus) -> bool {
        let mut found = false;
        self.update(|list| {
            for socket in list.iter().filter(|socket| socket.local() == local) {
                socket.set_status(status);
                found = true;
            }
        });
        found
    }

    /// Takes out the socket bound to `local`; returns whether there was one.
    pub(crate) fn remove(&self, local: SocketAddr) -> bool {
        let mut found = false;
        self.update(|list| {
            list.retain(|socket| {
                let keep = socket.local() != local;
                found |= !keep;
                keep
            });
        });
        found
    }

    /// Puts a new socket into the place of the one bound to `old`, in one step. Whether there was one.
    pub(crate) fn replace(&self, old: SocketAddr, new: Arc<Socket>) -> bool {
        let mut found = false;
        self.update(|list| {
            if let Some(place) = list.iter_mut().find(|socket| socket.local() == old) {
                *place = new;
                found = true;
            }
        });
        found
    }

    /// The addresses for the one that replaces the socket bound to `old` to remember; `None` if there is no such socket.
    pub(crate) fn former(&self, old: SocketAddr) -> Option<Vec<SocketAddr>> {
        let sockets = self.snapshot();
        let socket = sockets.iter().find(|socket| socket.local() == old)?;
        let kept = socket.former.len().saturating_sub(MAX_FORMER - 1);
        let mut former = socket.former[kept..].to_vec();
        former.push(old);
        Some(former)
    }

    /// Whether there are several sockets of the system's.
    pub(crate) fn has_several(&self) -> bool {
        let sockets = self.snapshot();
        let of_the_system = |socket: &&Arc<Socket>| matches!(socket.io, Io::System(_));
        sockets.iter().filter(of_the_system).count() > 1
    }

    pub(crate) fn locals(&self) -> Vec<SocketAddr> {
        self.snapshot()
            .iter()
            .map(|socket| socket.local())
            .collect()
    }

    /// The network path to `remote` from the first socket that can reach it; from a backup only if there is no other.
    pub(crate) fn default_path(&self, remote: SocketAddr) -> Option<FourTuple> {
        let sockets = self.snapshot();
        let same_family = sockets
            .iter()
            .filter(|socket| socket.local.is_ipv4() == remote.is_ipv4());
        same_family
            .min_by_key(|socket| socket.status())
            .into_iter()
            .chain(sockets.iter())
            .find_map(|socket| socket.path_to(remote))
    }

    /// The network paths to `remote` that a connection may begin on: the default one, and those from the other sockets of
    /// its address family, unless the system chooses the address.
    pub(crate) fn paths_to(&self, remote: SocketAddr) -> Vec<FourTuple> {
        let Some(default) = self.default_path(remote) else {
            return Vec::new();
        };
        let mut paths = vec![default];
        if default.local.ip().is_unspecified() {
            return paths;
        }
        let mut sockets = self.snapshot().to_vec();
        // Stable: within these, the order in which they were bound stays.
        sockets.sort_by_key(|socket| socket.status());
        for socket in sockets.iter().filter(|one| !one.is_wildcard()) {
            if let Some(path) = socket.path_to(remote)
                && !paths.contains(&path)
            {
                paths.push(path);
            }
        }
        paths
    }

    /// The network path to `remote` from this local address.
    pub(crate) fn path_from(&self, local: LocalAddr, remote: SocketAddr) -> Option<FourTuple> {
        let sockets = self.snapshot();
        let (socket, local) = match local {
            LocalAddr::Socket(local) => (&sockets[route(&sockets, local)?], local),
            LocalAddr::Ip(ip) => {
                let index =
                    best(sockets.iter().map(|socket| {
                        rank(socket.local, SocketAddr::new(ip, socket.local.port()))
                    }))?;
                let bound = sockets[index].local;
                // Of a socket bound to just this IP, the bound address itself, scope included.
                let local = if bound.ip() == ip {
                    bound
                } else {
                    SocketAddr::new(ip, bound.port())
                };
                (&sockets[index], local)
            }
        };
        socket.align(local, remote)
    }
}

/// A local address to open a path from: an IP, on whichever socket of the endpoint has it, or an
/// IP and port.
///
/// ```
/// use std::net::{IpAddr, Ipv4Addr, SocketAddr};
/// use mpquic::LocalAddr;
///
/// let any_port: LocalAddr = Ipv4Addr::LOCALHOST.into();
/// let exact: LocalAddr = SocketAddr::from((Ipv4Addr::LOCALHOST, 4433)).into();
/// assert_ne!(any_port, exact);
/// # let _: LocalAddr = IpAddr::from(Ipv4Addr::LOCALHOST).into();
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LocalAddr {
    /// Whichever socket is bound to this IP, else a wildcard one.
    Ip(IpAddr),
    /// The socket bound to this address, else a wildcard one with this port.
    Socket(SocketAddr),
}

impl From<IpAddr> for LocalAddr {
    fn from(ip: IpAddr) -> Self {
        Self::Ip(ip)
    }
}

impl From<Ipv4Addr> for LocalAddr {
    fn from(ip: Ipv4Addr) -> Self {
        Self::Ip(ip.into())
    }
}

impl From<Ipv6Addr> for LocalAddr {
    fn from(ip: Ipv6Addr) -> Self {
        Self::Ip(ip.into())
    }
}

impl From<SocketAddr> for LocalAddr {
    fn from(address: SocketAddr) -> Self {
        Self::Socket(address)
    }
}

impl std::fmt::Display for LocalAddr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ip(ip) => ip.fmt(f),
            Self::Socket(address) => address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn exact_socket_before_wildcard_before_none() {
        let bound = [
            addr("0.0.0.0:443"),
            addr("10.0.0.1:443"),
            addr("10.0.0.1:444"),
        ];
        let pick = |local| best(bound.iter().map(|bound| rank(*bound, addr(local))));
        assert_eq!(pick("10.0.0.1:443"), Some(1));
        assert_eq!(pick("10.0.0.1:444"), Some(2));
        assert_eq!(pick("10.0.0.2:443"), Some(0));
        assert_eq!(pick("10.0.0.2:444"), None);
        assert_eq!(pick("[::1]:443"), None);
    }

    #[test]
    fn ipv4_is_mapped_only_on_ipv6_wildcards() {
        let path = align(addr("[::]:1"), addr("192.0.2.1:2")).unwrap();
        assert_eq!(path.remote, addr("[::ffff:192.0.2.1]:2"));
        assert_eq!(align(addr("[::1]:1"), addr("192.0.2.1:2")), None);
        assert_eq!(align(addr("0.0.0.0:1"), addr("[::1]:2")), None);
        let path = align(addr("0.0.0.0:1"), addr("192.0.2.1:2")).unwrap();
        assert_eq!(path.remote, addr("192.0.2.1:2"));
    }
}
