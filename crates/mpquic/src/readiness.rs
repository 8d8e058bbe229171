//! A socket of the system that the runtime watches: when there is something to receive, and when there is room to send.

use std::io;
use std::net::UdpSocket;
use std::task::{Context, Poll};

use quinn_udp::UdpSockRef;
use socket2::SockRef;
use tokio::io::Interest;

#[cfg(unix)]
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
#[cfg(unix)]
use tokio::io::unix::AsyncFd;

/// A socket and the runtime's notice of it.
///
/// Where the system lets us choose, only what comes in is watched. Room to send is watched while somebody waits for it: there is
/// room again with every datagram that has left, and the runtime would be told of each, and woken by it, for nothing. What comes
/// in is [not watched](Self::unwatch) either while it is read at intervals, for the same reason.
#[derive(Debug)]
pub(crate) struct Watched {
    #[cfg(unix)]
    socket: Arc<UdpSocket>,
    /// Of the one task that receives, so that nobody else holds it.
    #[cfg(unix)]
    incoming: Mutex<Option<AsyncFd<Arc<UdpSocket>>>>,
    #[cfg(not(unix))]
    io: tokio::net::UdpSocket,
}

#[cfg(unix)]
#[allow(
    deprecated,
    reason = "newer versions of tokio say so: a file whose descriptor changes while it is watched would be unsound; a socket's does not, and the way without this warning is unsafe code"
)]
fn watch<S: std::os::fd::AsRawFd>(socket: S, interest: Interest) -> io::Result<AsyncFd<S>> {
    AsyncFd::with_interest(socket, interest)
}

impl Watched {
    /// The socket must not block.
    #[cfg(unix)]
    pub(crate) fn new(socket: UdpSocket) -> io::Result<Self> {
        let socket = Arc::new(socket);
        let incoming = watch(Arc::clone(&socket), Interest::READABLE)?;
        Ok(Self {
            socket,
            incoming: Mutex::new(Some(incoming)),
        })
    }

    #[cfg(not(unix))]
    pub(crate) fn new(socket: UdpSocket) -> io::Result<Self> {
        let io = tokio::net::UdpSocket::from_std(socket)?;
        Ok(Self { io })
    }

    #[cfg(unix)]
    fn incoming(&self) -> MutexGuard<'_, Option<AsyncFd<Arc<UdpSocket>>>> {
        self.incoming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The runtime is not told any more of what comes in, until [`poll_recv_ready`](Self::poll_recv_ready) is asked. Where the
    /// system does not let us choose, it goes on to be told.
    pub(crate) fn unwatch(&self) {
        #[cfg(unix)]
        self.incoming().take();
    }

    /// Whether there is something to receive; only one task may poll this.
    #[cfg(unix)]
    pub(crate) fn poll_recv_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut incoming = self.incoming();
        let io = match &*incoming {
            Some(io) => io,
            // What is there already is told first of all.
            None => incoming.insert(watch(Arc::clone(&self.socket), Interest::READABLE)?),
        };
        io.poll_read_ready(cx).map_ok(drop)
    }

    #[cfg(not(unix))]
    pub(crate) fn poll_recv_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_recv_ready(cx)
    }

    /// Calls `receive` if there may be something. If it says [`WouldBlock`](io::ErrorKind::WouldBlock),
    /// [`poll_recv_ready`](Self::poll_recv_ready) waits for what comes next.
    pub(crate) fn try_recv(
        &self,
        receive: impl FnOnce(UdpSockRef<'_>) -> io::Result<usize>,
    ) -> io::Result<usize> {
        #[cfg(unix)]
        return match &*self.incoming() {
            Some(io) => io.try_io(Interest::READABLE, |socket| receive((&**socket).into())),
            None => receive((&*self.socket).into()),
        };
        #[cfg(not(unix))]
        self.io
            .try_io(Interest::READABLE, || receive((&self.io).into()))
    }

    /// Calls `send`.
    pub(crate) fn try_send(
        &self,
        send: impl FnOnce(UdpSockRef<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        #[cfg(unix)]
        return send((&*self.socket).into());
        #[cfg(not(unix))]
        self.io
            .try_io(Interest::WRITABLE, || send((&self.io).into()))
    }

    /// Waits until there is room to send. Any number of tasks may wait, and all are woken.
    pub(crate) async fn writable(&self) -> io::Result<()> {
        #[cfg(unix)]
        {
            // The runtime knows it as another file, with a registration of its own, which says first how things are.
            let socket = self.socket.try_clone()?;
            let room = watch(socket, Interest::WRITABLE)?;
            room.writable().await.map(drop)
        }
        #[cfg(not(unix))]
        self.io.writable().await
    }

    /// For calls that the runtime has nothing to do with.
    pub(crate) fn sock_ref(&self) -> SockRef<'_> {
        #[cfg(unix)]
        return (&*self.socket).into();
        #[cfg(not(unix))]
        (&self.io).into()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::net::Ipv4Addr;
    use std::sync::Arc;
    use std::task::Waker;
    use std::time::Duration;

    use super::*;
    use crate::wait_queue::Turns;

    fn bind() -> (Watched, UdpSocket) {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.set_nonblocking(true).unwrap();
        let copy = socket.try_clone().unwrap();
        (Watched::new(socket).unwrap(), copy)
    }

    /// Who waits for room is told, as often as they ask and however many they are; what comes in meanwhile is told too.
    #[tokio::test(flavor = "current_thread")]
    async fn room_is_told_to_those_who_wait_for_it() {
        let ((from, _), (to, socket)) = (bind(), bind());
        let is_ready = || {
            let mut cx = Context::from_waker(Waker::noop());
            to.poll_recv_ready(&mut cx).is_ready()
        };
        let target = socket.local_addr().unwrap();
        let mut buffer = [0; 100];
        for round in 1..4 {
            let (a, b, c) = tokio::join!(from.writable(), from.writable(), to.writable());
            a.and(b).and(c).unwrap();
            assert!(!is_ready());
            let sent =
                from.try_send(|_| from.sock_ref().send_to(&[round], &target.into()).map(drop));
            sent.unwrap();
            poll_fn(|cx| to.poll_recv_ready(cx)).await.unwrap();
            assert_eq!(to.try_recv(|_| socket.recv(&mut buffer)).unwrap(), 1);
            assert_eq!(buffer[0], round);
            let nothing = to.try_recv(|_| socket.recv(&mut buffer)).unwrap_err();
            assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        }
    }

    /// While it is not watched, nobody is woken; whoever polls again learns of what came meanwhile, and of what comes.
    #[cfg(unix)]
    #[tokio::test(flavor = "current_thread")]
    async fn what_came_while_it_was_not_watched_is_told() {
        let ((from, _), (to, socket)) = (bind(), bind());
        let target = socket.local_addr().unwrap();
        let send = || {
            let sent = from.try_send(|_| from.sock_ref().send_to(&[1], &target.into()).map(drop));
            sent.unwrap();
        };
        let mut buffer = [0; 100];
        let mut receive = || to.try_recv(|_| socket.recv(&mut buffer));
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..3 {
            assert!(to.poll_recv_ready(&mut cx).is_pending());
            to.unwatch();
            send();
            assert_eq!(receive().unwrap(), 1, "it can be read all the same");
            send();
            poll_fn(|cx| to.poll_recv_ready(cx)).await.unwrap();
            assert_eq!(receive().unwrap(), 1);
            assert!(receive().is_err());
            assert!(to.poll_recv_ready(&mut cx).is_pending());
            send();
            poll_fn(|cx| to.poll_recv_ready(cx)).await.unwrap();
            assert_eq!(receive().unwrap(), 1);
            assert!(receive().is_err());
        }
    }

    /// A full socket, and the end at which it is emptied. UDP's is full only as long as an interface takes, so this is one of
    /// another kind: to the runtime, all are files.
    #[cfg(unix)]
    fn full() -> (Arc<Watched>, std::os::unix::net::UnixDatagram) {
        use std::os::fd::OwnedFd;
        use std::os::unix::net::UnixDatagram;

        let (from, to) = UnixDatagram::pair().unwrap();
        from.set_nonblocking(true).unwrap();
        to.set_nonblocking(true).unwrap();
        let from = Watched::new(UdpSocket::from(OwnedFd::from(from))).unwrap();
        while send(&from).is_ok() {}
        (Arc::new(from), to)
    }

    #[cfg(unix)]
    fn send(from: &Watched) -> io::Result<()> {
        from.try_send(|_| from.sock_ref().send(&[7; 100]).map(drop))
    }

    /// Many wait for room in a full socket, some give up, some come when there is room already: nobody misses it, neither those
    /// who take turns nor those who are all told.
    #[cfg(unix)]
    #[tokio::test]
    async fn nobody_who_waits_for_room_misses_it() {
        const SENDERS: usize = 50;
        const EACH: usize = 40;

        let (from, to) = full();
        {
            let mut waiting = std::pin::pin!(from.writable());
            for _ in 0..100 {
                // The runtime looks for events meanwhile.
                tokio::task::yield_now().await;
                let mut cx = Context::from_waker(Waker::noop());
                assert!(
                    waiting.as_mut().poll(&mut cx).is_pending(),
                    "there is no room"
                );
            }
        }
        let turns = Arc::new(Turns::default());
        let mut tasks = tokio::task::JoinSet::new();
        for sender in 0..SENDERS {
            let (from, turns) = (Arc::clone(&from), Arc::clone(&turns));
            tasks.spawn(async move {
                let mut sent = 0;
                while sent < EACH {
                    let room = from.writable();
                    let turn = match sender % 2 {
                        0 => Some(turns.wait(async { room.await.unwrap() }).await),
                        _ => room.await.map(|()| None).unwrap(),
                    };
                    // Others may have been faster.
                    while sent < EACH && send(&from).is_ok() {
                        sent += 1;
                    }
                    drop(turn);
                }
            });
        }
        let (mut buffer, mut received) = ([0; 200], 0);
        while !tasks.is_empty() {
            match to.recv(&mut buffer) {
                Ok(_) => received += 1,
                // Until they have sent. The deadline fails a test that hangs.
                Err(_) => tokio::select! {
                    done = tasks.join_next() => done.unwrap().unwrap(),
                    room = from.writable() => room.unwrap(),
                    () = tokio::time::sleep(Duration::from_secs(60)) => panic!("{} wait", tasks.len()),
                },
            }
            while let Some(done) = tasks.try_join_next() {
                done.unwrap();
            }
        }
        while to.recv(&mut buffer).is_ok() {
            received += 1;
        }
        assert!(
            received > SENDERS * EACH,
            "theirs, and what was there before"
        );
    }
}
