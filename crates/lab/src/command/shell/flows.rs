//! The flows of others on a network, in real time: TCP of this machine's kernel beside the program.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use mpquic_proto::{CongestionControl, Side};
use mpquic_sim::{CrossTraffic, content};
use serde::Serialize;
use socket2::{Domain, Socket, Type};
use thiserror::Error;

use super::namespace::{Namespace, NamespaceError, inside_name};
use super::relay::clock;

/// What is written and read at a time.
const CHUNK: usize = 64 * 1024;
/// How long a flow waits before it looks whether its time is over.
const PATIENCE: Duration = Duration::from_millis(50);

/// Why a flow cannot be there.
#[derive(Debug, Error)]
pub(super) enum FlowError {
    #[error(
        "a flow of others has the controller {0}, and the kernel's TCP has none of this name: it may have cubic, newreno and bbr3"
    )]
    Unknown(CongestionControl),
    #[error(
        "the kernel has no congestion controller {0}: {1}; try `modprobe tcp_{0}`, or see \
         /proc/sys/net/ipv4/tcp_available_congestion_control"
    )]
    Missing(&'static str, io::Error),
    #[error("a socket for a flow of others: {0}")]
    Socket(#[from] io::Error),
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
}

/// A flow, and what has arrived of it.
pub(super) struct Flow {
    traffic: CrossTraffic,
    control: &'static str,
    received: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// What a flow did, for the report.
#[derive(Debug, Serialize)]
pub(super) struct Carried {
    link: String,
    from: &'static str,
    control: &'static str,
    /// Of data, without headers.
    bytes: u64,
}

impl Flow {
    pub(super) fn carried(&self) -> Carried {
        Carried {
            link: inside_name(self.traffic.path),
            from: match self.traffic.from {
                Side::Client => "inside",
                Side::Server => "outside",
            },
            control: self.control,
            bytes: self.received.load(Ordering::Relaxed),
        }
    }
}

impl fmt::Display for Carried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            link,
            from,
            control,
            bytes,
        } = self;
        let megabytes = *bytes as f64 / 1e6;
        write!(
            f,
            "TCP {control} from {from} over {link}: {megabytes:.3} MB"
        )
    }
}

/// Starts the flows of a network, each at its time from now. They end at their time or when they are dropped.
pub(super) fn start(
    traffic: &[CrossTraffic],
    namespace: &Namespace,
    seed: u64,
) -> Result<Vec<Flow>, FlowError> {
    (0..)
        .zip(traffic)
        .map(|(number, traffic)| {
            let share = content::word(seed, number) as f64 / u64::MAX as f64;
            start_one(*traffic, namespace, traffic.phase.mul_f64(share))
        })
        .collect()
}

fn start_one(
    traffic: CrossTraffic,
    namespace: &Namespace,
    phase: Duration,
) -> Result<Flow, FlowError> {
    let control = name(traffic.control)?;
    let [there, here] = namespace.addresses(traffic.path);
    let listener = socket((there, 0).into())?;
    listener.listen(1)?;
    let address = listener.local_addr()?;
    let client = namespace.enter(|| socket((here, 0).into()))??;
    let sender = match traffic.from {
        Side::Client => &client,
        // What it accepts has the same.
        Side::Server => &listener,
    };
    sender
        .set_tcp_congestion(control.as_bytes())
        .map_err(|error| FlowError::Missing(control, error))?;
    let received = Arc::new(AtomicU64::new(0));
    let over = Arc::new(AtomicBool::new(false));
    let (counter, stop) = (Arc::clone(&received), Arc::clone(&over));
    let now = clock();
    let begin = now + traffic.start + phase;
    let end = traffic.stop.map(|stop| now + stop);
    thread::Builder::new()
        .name("shell-flow".into())
        .spawn(move || {
            let is_over = || stop.load(Ordering::Relaxed);
            while clock() < begin {
                if is_over() {
                    return;
                }
                thread::park_timeout(begin.saturating_duration_since(clock()).min(PATIENCE));
            }
            let connected = client.connect(&address).and_then(|()| listener.accept());
            let Ok((accepted, _)) = connected else {
                // A link that is dark for minutes: nobody is there.
                return;
            };
            let (inside, outside) = (client.into(), accepted.into());
            let (from, to) = match traffic.from {
                Side::Client => (inside, outside),
                Side::Server => (outside, inside),
            };
            thread::scope(|scope| {
                scope.spawn(|| send(from, || is_over() || end.is_some_and(|end| clock() >= end)));
                receive(to, is_over, &counter);
            });
        })?;
    Ok(Flow {
        traffic,
        control,
        received,
        over,
    })
}

/// What the kernel calls a controller.
const fn name(control: CongestionControl) -> Result<&'static str, FlowError> {
    match control {
        CongestionControl::Cubic => Ok("cubic"),
        CongestionControl::NewReno => Ok("reno"),
        CongestionControl::Bbr => Ok("bbr"),
        other => Err(FlowError::Unknown(other)),
    }
}

fn socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

fn send(mut to: TcpStream, is_over: impl Fn() -> bool) {
    let zeros = vec![0; CHUNK];
    let result = to.set_write_timeout(Some(PATIENCE));
    while result.is_ok() && !is_over() {
        match to.write(&zeros) {
            Err(error) if !is_timeout(&error) => return,
            _ => {}
        }
    }
}

fn receive(mut from: TcpStream, is_over: impl Fn() -> bool, received: &AtomicU64) {
    let mut buffer = vec![0; CHUNK];
    let result = from.set_read_timeout(Some(PATIENCE));
    while result.is_ok() && !is_over() {
        match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(size) => drop(received.fetch_add(size as u64, Ordering::Relaxed)),
            Err(error) if is_timeout(&error) => {}
            Err(_) => return,
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}
