//! A NAT in front of one client, which changes its address in mid-transfer, again and again.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes to the client between two changes. Not datagrams, which are few where a peer takes large ones.
const BETWEEN: usize = 600_000;

pub(crate) struct Nat {
    /// Where the client sends to.
    pub(crate) address: SocketAddr,
    /// How many changes there are to be.
    pub(crate) hosts: usize,
    changes: Arc<AtomicUsize>,
}

impl Nat {
    /// In front of a client of `target`. After so many bytes it takes the next of these hosts'
    /// addresses, with a new port.
    pub(crate) fn new(target: SocketAddr, hosts: Vec<IpAddr>) -> Self {
        let bind = |host: IpAddr| {
            let socket = std::net::UdpSocket::bind((host, 0)).unwrap();
            socket.set_nonblocking(true).unwrap();
            tokio::net::UdpSocket::from_std(socket).unwrap()
        };
        let inside = bind(crate::loopback(1));
        let mut outside = bind(crate::loopback(1));
        let changes = Arc::new(AtomicUsize::new(0));
        let this = Self {
            address: inside.local_addr().unwrap(),
            hosts: hosts.len(),
            changes: Arc::clone(&changes),
        };
        tokio::spawn(async move {
            let mut hosts = hosts.into_iter();
            let mut client = None;
            let (mut forwarded, mut next) = (0, BETWEEN);
            let (mut up, mut down) = (vec![0; 65_536], vec![0; 65_536]);
            loop {
                // An error is that of an earlier datagram, whose receiver is gone.
                tokio::select! {
                    got = inside.recv_from(&mut up) => if let Ok((len, from)) = got {
                        client = Some(from);
                        outside.send_to(&up[..len], target).await.ok();
                    },
                    got = outside.recv_from(&mut down) => if let (Ok((len, _)), Some(to)) = (got, client) {
                        inside.send_to(&down[..len], to).await.ok();
                        forwarded += len;
                        if forwarded >= next && let Some(host) = hosts.next() {
                            next = forwarded + BETWEEN;
                            outside = bind(host);
                            changes.fetch_add(1, Ordering::Relaxed);
                        }
                    },
                }
            }
        });
        this
    }

    /// How often it changed its address.
    pub(crate) fn rebindings(&self) -> usize {
        self.changes.load(Ordering::Relaxed)
    }
}
