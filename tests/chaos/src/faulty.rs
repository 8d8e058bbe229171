//! A socket that fails when it is told to, over one of the system's.

use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use mpquic::udp::{RecvMeta, Transmit};
use mpquic::{AsyncUdpSocket, SystemSocket, UdpPoller};

/// How long one waits for room while the socket says that there is none.
const LOOK: Duration = Duration::from_millis(2);

/// What fails, how often and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The system's number of the error.
    pub(crate) code: i32,
    /// Percent of the calls that send.
    pub(crate) of_sends: u32,
    /// Percent of the calls that receive.
    pub(crate) of_receives: u32,
    pub(crate) time: Duration,
}

/// What all sockets of a process are told.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    fault: Mutex<Option<(Fault, Instant)>>,
    dice: AtomicU64,
    /// Calls that failed.
    pub(crate) failed: AtomicU64,
}

impl Plan {
    pub(crate) fn set(&self, fault: Fault) {
        *self.fault.lock().unwrap() = Some((fault, Instant::now() + fault.time));
    }

    fn current(&self) -> Option<Fault> {
        let mut fault = self.fault.lock().unwrap();
        // The real clock: another one may stand still.
        *fault = fault.filter(|(_, until)| Instant::now() < *until);
        fault.map(|(fault, _)| fault)
    }

    /// Whether this call fails, and how.
    fn strike(&self, share: impl FnOnce(&Fault) -> u32) -> io::Result<()> {
        let Some(fault) = self.current() else {
            return Ok(());
        };
        let rolled = self
            .dice
            .fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed)
            >> 32;
        if rolled % 100 >= share(&fault).into() {
            return Ok(());
        }
        self.failed.fetch_add(1, Ordering::Relaxed);
        Err(io::Error::from_raw_os_error(fault.code))
    }
}

/// The socket.
#[derive(Debug)]
pub(crate) struct Faulty {
    inner: Arc<SystemSocket>,
    plan: Arc<Plan>,
}

impl Faulty {
    pub(crate) fn bind(address: SocketAddr, plan: &Arc<Plan>) -> io::Result<Arc<Self>> {
        let inner = Arc::new(SystemSocket::new(UdpSocket::bind(address)?)?);
        let plan = Arc::clone(plan);
        Ok(Arc::new(Self { inner, plan }))
    }
}

impl AsyncUdpSocket for Faulty {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Room {
            inner: Arc::clone(&self.inner).create_io_poller(),
            plan: Arc::clone(&self.plan),
            sleep: None,
        })
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.plan.strike(|fault| fault.of_sends)?;
        self.inner.try_send(transmit)
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let came = self.inner.poll_recv(cx, bufs, meta);
        match self.plan.strike(|fault| fault.of_receives) {
            // One that would block has nothing; what came is lost.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if came.is_ready() {
                    cx.waker().wake_by_ref();
                }
                Poll::Pending
            }
            Err(error) => Poll::Ready(Err(error)),
            Ok(()) => came,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.inner.max_transmit_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

/// Waits for room, which there is none of while the fault lasts.
#[derive(Debug)]
struct Room {
    inner: Pin<Box<dyn UdpPoller>>,
    plan: Arc<Plan>,
    sleep: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl UdpPoller for Room {
    fn poll_writable(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(sleep) = &mut self.sleep {
            std::task::ready!(sleep.as_mut().poll(cx));
            self.sleep = None;
        } else if self.plan.current().is_some_and(|fault| fault.of_sends > 0) {
            let mut sleep = Box::pin(tokio::time::sleep(LOOK));
            if sleep.as_mut().poll(cx).is_pending() {
                self.sleep = Some(sleep);
                return Poll::Pending;
            }
        }
        self.inner.as_mut().poll_writable(cx)
    }
}
