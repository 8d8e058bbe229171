//! What an endpoint needs of a UDP socket, as a trait for sockets of others, and the operating system's socket behind it.

use std::fmt;
use std::future::Future;
use std::io;
use std::io::IoSliceMut;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use proto::FourTuple;
use quinn_udp::{RecvMeta, Transmit, UdpSocketState};

use crate::link_mtu::link_mtu;
use crate::readiness::Watched;
use crate::socket::BufferSizes;

/// Whether one call receives all that is there, up to as many messages as there are buffers (`recvmmsg`): fewer say that
/// nothing is left.
const ENDS_WHEN_EMPTY: bool = cfg!(any(target_os = "linux", target_os = "android"));

/// A UDP socket of your own: one that goes through a proxy, over another transport, through a user-space network stack, or
/// that counts, delays or drops for a test. It has the shape of quinn's trait of this name, so that a socket for quinn serves
/// here with its `use` lines changed.
///
/// An endpoint takes it with [`EndpointBuilder::abstract_socket`](crate::EndpointBuilder::abstract_socket) or
/// [`Endpoint::adopt_abstract_socket`](crate::Endpoint::adopt_abstract_socket). It is asked once for each batch of
/// datagrams, from the endpoint's task to receive and from the tasks of connections to send. If it fails to receive many
/// times in a row, the endpoint lets it rest and tries again: see [`SocketEvent`](crate::SocketEvent). A datagram that it
/// fails to send is lost, and no more; connections over several paths go on with the others.
///
/// A socket that changes something can hold a [`SystemSocket`] and leave the rest to it:
///
/// ```
/// use std::io::{self, IoSliceMut};
/// use std::net::SocketAddr;
/// use std::pin::Pin;
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::task::{Context, Poll};
///
/// use mpquic::udp::{RecvMeta, Transmit};
/// use mpquic::{AsyncUdpSocket, Endpoint, SystemSocket, UdpPoller};
///
/// /// Counts the bytes that it sends.
/// #[derive(Debug)]
/// struct Counting {
///     inner: Arc<SystemSocket>,
///     sent: AtomicU64,
/// }
///
/// impl AsyncUdpSocket for Counting {
///     fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
///         Arc::clone(&self.inner).create_io_poller()
///     }
///
///     fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
///         self.inner.try_send(transmit)?;
///         self.sent.fetch_add(transmit.contents.len() as u64, Ordering::Relaxed);
///         Ok(())
///     }
///
///     fn poll_recv(
///         &self,
///         cx: &mut Context<'_>,
///         bufs: &mut [IoSliceMut<'_>],
///         meta: &mut [RecvMeta],
///     ) -> Poll<io::Result<usize>> {
///         self.inner.poll_recv(cx, bufs, meta)
///     }
///
///     fn local_addr(&self) -> io::Result<SocketAddr> {
///         self.inner.local_addr()
///     }
///
///     fn max_transmit_segments(&self) -> usize {
///         self.inner.max_transmit_segments()
///     }
///
///     fn max_receive_segments(&self) -> usize {
///         self.inner.max_receive_segments()
///     }
///
///     fn may_fragment(&self) -> bool {
///         self.inner.may_fragment()
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> io::Result<()> {
/// let bound = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// let inner = Arc::new(SystemSocket::new(bound)?);
/// let socket = Arc::new(Counting { inner, sent: AtomicU64::new(0) });
/// let endpoint = Endpoint::builder().abstract_socket(socket.clone()).build()?;
/// assert_eq!(endpoint.local_addr()?, socket.local_addr()?);
/// # Ok(()) }
/// ```
pub trait AsyncUdpSocket: Send + Sync + fmt::Debug + 'static {
    /// Something that waits until there is room to send, for one task. Asked for only when [`try_send`](Self::try_send) said
    /// [`WouldBlock`](io::ErrorKind::WouldBlock).
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>>;

    /// Sends the datagrams of `transmit`: one, or several of `segment_size` bytes each, of which the last may be shorter. There
    /// are never more than [`max_transmit_segments`](Self::max_transmit_segments).
    ///
    /// All of them are sent, or none if it fails.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is no room for now: the same datagrams are offered again after
    /// [`UdpPoller::poll_writable`]. With any other error they are lost. `NetworkUnreachable`, `HostUnreachable`,
    /// `NetworkDown`, `AddrNotAvailable`, `PermissionDenied` and `InvalidInput` also tell the connection that nothing goes
    /// this way for the time being, so that it does not wait for a timer.
    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()>;

    /// Receives into `bufs`, one message into each, and describes it in the place of the same index in `meta`. How many. A
    /// message may be several datagrams of `stride` bytes each, of which the last may be shorter. Each buffer has 64 KiB.
    ///
    /// `Pending` if there is nothing, and then the task of `cx` is woken when there is something. Only one task polls, the
    /// most recent one counts.
    ///
    /// # Errors
    ///
    /// If it cannot receive. The endpoint tries again, after 64 errors in a row at intervals.
    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>>;

    /// The address by which the endpoint knows the socket. It is asked for once; no two sockets of an endpoint have the same.
    /// With an unspecified IP (`0.0.0.0`, `[::]`), what is received says to which IP it came (`dst_ip`), and what is sent from
    /// which it goes (`src_ip`).
    ///
    /// # Errors
    ///
    /// If it has none: the endpoint does not take it then.
    fn local_addr(&self) -> io::Result<SocketAddr>;

    /// The most datagrams that [`try_send`](Self::try_send) takes at once; may shrink as it learns. Default 1.
    fn max_transmit_segments(&self) -> usize {
        1
    }

    /// The most datagrams that one message of [`poll_recv`](Self::poll_recv) has. For those who choose their buffers by it: an
    /// endpoint's are always large enough. Default 1.
    fn max_receive_segments(&self) -> usize {
        1
    }

    /// Whether datagrams may be fragmented on their way. It is asked for once. Default `true`.
    ///
    /// QUIC must not be fragmented (RFC 9000 section 14): on such a socket, datagrams of more than 1200 bytes are not sent, so
    /// that the search for the path MTU ends there. Say `false` if a datagram that is too large is lost as a whole.
    fn may_fragment(&self) -> bool {
        true
    }
}

/// Waits for one task until there is room to send in an [`AsyncUdpSocket`]; any number of them may exist.
pub trait UdpPoller: Send + Sync + fmt::Debug + 'static {
    /// Whether there is room. After a [`WouldBlock`](io::ErrorKind::WouldBlock), `Pending` until there is, and then the task of
    /// `cx` is woken. May be polled again after it was ready.
    ///
    /// # Errors
    ///
    /// If it cannot tell. It is then tried.
    fn poll_writable(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
}

/// A UDP socket of the operating system with its offloads, as endpoints make them; an [`AsyncUdpSocket`] for others to hold.
#[derive(Debug)]
pub struct SystemSocket {
    io: Watched,
    state: UdpSocketState,
    local: SocketAddr,
}

impl SystemSocket {
    /// Of a bound socket, with buffers of the default sizes
    /// ([`EndpointBuilder::socket_buffers`](crate::EndpointBuilder::socket_buffers)).
    ///
    /// # Errors
    ///
    /// If it refuses an option that QUIC needs.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime, or in one without its I/O driver.
    pub fn new(socket: std::net::UdpSocket) -> io::Result<Self> {
        Self::with_buffers(socket, BufferSizes::default())
    }

    pub(crate) fn with_buffers(
        socket: std::net::UdpSocket,
        sizes: BufferSizes,
    ) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let local = socket.local_addr()?;
        //= specs/rfc9000.txt#section-14
        //= type=implication
        //# In IPv4 [IPv4], the Don't Fragment (DF) bit MUST be set if possible, to prevent
        //# fragmentation on the path.
        //= specs/rfc9000.txt#section-14
        //= type=implication
        //# UDP datagrams MUST NOT be fragmented at the IP layer.
        //= specs/rfc8899.txt#section-3
        //= type=implication
        //# In IPv4, a probe packet MUST be sent with the Don't Fragment (DF) bit set in the IP
        //# header and without network layer endpoint fragmentation.
        //= specs/rfc8899.txt#section-3
        //= type=implication
        //# Probe packets: The network interface below the PL is REQUIRED to provide a way to
        //# transmit a probe packet that is larger than the PLPMTU.
        //= specs/rfc8899.txt#section-4.5
        //= type=implication
        //# A PL implementing this specification MUST suspend network layer processing of outgoing
        //# packets that enforces a PMTU [RFC1191][RFC8201] for each flow utilizing DPLPMTUD and
        //# instead use DPLPMTUD to control the size of packets that are sent by a flow.
        // It sets IP_PMTUDISC_PROBE on Linux, and what other systems have: DF, and no PMTU of the kernel's own.
        let state = UdpSocketState::new((&socket).into())?;
        // Best effort: without privileges the system caps both, and a small buffer still works.
        // The system counts in an int.
        let size = |bytes: usize| bytes.min(i32::MAX as usize);
        if sizes.receive > 0
            && let Err(error) = state.set_recv_buffer_size((&socket).into(), size(sizes.receive))
        {
            tracing::debug!(%local, %error, "receive buffer not enlarged");
        }
        if sizes.send > 0
            && let Err(error) = state.set_send_buffer_size((&socket).into(), size(sizes.send))
        {
            tracing::debug!(%local, %error, "send buffer not enlarged");
        }
        Ok(Self {
            io: Watched::new(socket)?,
            state,
            local,
        })
    }

    pub(crate) const fn local(&self) -> SocketAddr {
        self.local
    }

    /// What the link between these addresses takes, if the system says so.
    pub(crate) fn link_mtu(&self, path: &FourTuple) -> Option<u32> {
        link_mtu(self.io.sock_ref(), path)
    }

    /// Waits until there is room to send. Any number of tasks may wait, and all are woken.
    pub(crate) async fn writable(&self) -> io::Result<()> {
        self.io.writable().await
    }

    /// Whether there is something to receive; only one task may poll this.
    pub(crate) fn poll_recv_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_recv_ready(cx)
    }

    /// Nobody is woken by what comes in, until [`poll_recv_ready`](Self::poll_recv_ready) is asked.
    pub(crate) fn unwatch(&self) {
        self.io.unwatch();
    }

    /// Whether something waits to be received, also if the runtime has not heard of it yet.
    pub(crate) fn has_unread(&self) -> bool {
        let mut byte = [std::mem::MaybeUninit::uninit()];
        self.io.sock_ref().peek(&mut byte).is_ok()
    }

    /// Receives what is there, also if the runtime has not heard of it yet. Who waits for the readiness is none the wiser.
    pub(crate) fn recv_now(
        &self,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> io::Result<usize> {
        self.state.recv((&*self.io.sock_ref()).into(), bufs, meta)
    }

    /// Receives what is there, at most as many messages as there are buffers.
    pub(crate) fn try_recv(
        &self,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> io::Result<usize> {
        let mut received = None;
        let result = self.io.try_recv(|socket| {
            let count = self.state.recv(socket, bufs, meta)?;
            received = Some(count);
            if ENDS_WHEN_EMPTY && count < bufs.len() {
                // To the runtime as to whoever finds nothing: the next datagram is a new event, and no call is made in vain.
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Ok(count)
        });
        received.map_or(result, Ok)
    }
}

impl AsyncUdpSocket for SystemSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(SystemPoller {
            socket: self,
            waiting: None,
        })
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let send = |socket: quinn_udp::UdpSockRef<'_>| self.state.try_send(socket, transmit);
        self.io.try_send(send)
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.poll_recv_ready(cx))?;
            match self.try_recv(bufs, meta) {
                // The readiness is gone: the next look waits for a new event.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.local)
    }

    fn max_transmit_segments(&self) -> usize {
        self.state.max_gso_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.state.gro_segments()
    }

    fn may_fragment(&self) -> bool {
        self.state.may_fragment()
    }
}

/// Waits for room in a socket of the system. The runtime's own poll function remembers one task for a socket; its future
/// remembers one each.
struct SystemPoller {
    socket: Arc<SystemSocket>,
    waiting: Option<Pin<Box<dyn Future<Output = io::Result<()>> + Send + Sync>>>,
}

impl fmt::Debug for SystemPoller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SystemPoller")
            .field("socket", &self.socket)
            .finish_non_exhaustive()
    }
}

impl UdpPoller for SystemPoller {
    fn poll_writable(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let waiting = this.waiting.get_or_insert_with(|| {
            let socket = Arc::clone(&this.socket);
            Box::pin(async move { socket.writable().await })
        });
        let result = ready!(waiting.as_mut().poll(cx));
        this.waiting = None;
        Poll::Ready(result)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    fn bind() -> Arc<SystemSocket> {
        let socket = std::net::UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0)).unwrap();
        Arc::new(SystemSocket::new(socket).unwrap())
    }

    /// Who has received all that was there waits for the next datagram without asking in vain, and is woken by it.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[tokio::test(flavor = "current_thread")]
    async fn a_call_that_is_not_filled_ends_the_readiness() {
        let (from, to) = (bind(), bind());
        let mut buffers = [[0; 2000]; 3];
        let mut meta = [RecvMeta::default(); 3];
        let mut receive = || {
            let mut slices = buffers.each_mut().map(|buffer| IoSliceMut::new(buffer));
            to.try_recv(&mut slices, &mut meta)
        };
        let send = |count| {
            for _ in 0..count {
                let transmit = Transmit {
                    destination: to.local(),
                    ecn: None,
                    contents: &[7; 100],
                    segment_size: None,
                    src_ip: None,
                };
                from.try_send(&transmit).unwrap();
            }
        };
        let is_ready = || {
            let mut cx = Context::from_waker(std::task::Waker::noop());
            to.poll_recv_ready(&mut cx).is_ready()
        };
        from.writable().await.unwrap();
        for _ in 0..3 {
            send(4);
            poll_fn(|cx| to.poll_recv_ready(cx)).await.unwrap();
            assert_eq!(receive().unwrap(), 3);
            assert!(is_ready(), "there may be more");
            assert_eq!(receive().unwrap(), 1);
            assert!(!is_ready(), "there is nothing");
        }
    }

    /// The trait's side of the system's socket: a poller is used again, and who polls too early is woken.
    #[tokio::test(flavor = "current_thread")]
    async fn the_systems_socket_by_its_trait() {
        let (from, to): (Arc<dyn AsyncUdpSocket>, Arc<dyn AsyncUdpSocket>) = (bind(), bind());
        let mut poller = Arc::clone(&from).create_io_poller();
        let mut buffer = [0; 2000];
        let mut meta = [RecvMeta::default()];
        for round in 1..4 {
            poll_fn(|cx| poller.as_mut().poll_writable(cx))
                .await
                .unwrap();
            let receive =
                poll_fn(|cx| to.poll_recv(cx, &mut [IoSliceMut::new(&mut buffer)], &mut meta));
            let send = async {
                // `join` polls the other one first, in vain.
                from.try_send(&Transmit {
                    destination: to.local_addr().unwrap(),
                    ecn: None,
                    contents: &[round; 1200],
                    segment_size: None,
                    src_ip: None,
                })
                .unwrap();
            };
            let (count, ()) = tokio::join!(biased; receive, send);
            assert_eq!((count.unwrap(), meta[0].len), (1, 1200));
            assert_eq!(meta[0].addr, from.local_addr().unwrap());
            assert_eq!(buffer[..1200], [round; 1200]);
        }
    }
}
