//! A UDP forwarder between one socket and a target, which can pass nothing for a while.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::net::UdpSocket;

/// Larger than any datagram.
const BUFFER: usize = 65_536;

pub(crate) struct Forwarder {
    /// Where the socket sends to.
    pub(crate) address: SocketAddr,
    begin: Instant,
    /// Until when nothing passes, in milliseconds since `begin`.
    down_until: Arc<AtomicU64>,
}

impl Forwarder {
    /// Starts one for whoever sends to its address first.
    pub(crate) fn start(target: SocketAddr) -> io::Result<Self> {
        let (inside, outside) = (socket()?, socket()?);
        let this = Self {
            address: inside.local_addr()?,
            begin: Instant::now(),
            down_until: Arc::default(),
        };
        let (begin, down_until) = (this.begin, Arc::clone(&this.down_until));
        tokio::spawn(async move {
            let up = move || millis(begin.elapsed()) >= down_until.load(Ordering::Relaxed);
            let (mut there, mut back) = (vec![0; BUFFER], vec![0; BUFFER]);
            let mut client = None;
            loop {
                // What cannot be sent is lost, as in any network.
                tokio::select! {
                    got = inside.recv_from(&mut there) => if let Ok((len, from)) = got {
                        client = Some(from);
                        if up() {
                            outside.send_to(&there[..len], target).await.ok();
                        }
                    },
                    got = outside.recv_from(&mut back) => if let (Ok((len, _)), Some(to)) = (got, client)
                        && up()
                    {
                        inside.send_to(&back[..len], to).await.ok();
                    },
                }
            }
        });
        Ok(this)
    }

    /// From now on nothing passes for so long.
    pub(crate) fn fail_for(&self, time: Duration) {
        let until = millis(self.begin.elapsed() + time);
        self.down_until.fetch_max(until, Ordering::Relaxed);
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn socket() -> io::Result<UdpSocket> {
    let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket)
}
