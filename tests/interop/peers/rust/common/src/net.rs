//! UDP sockets for libraries that bring none: waits on all of a program's sockets until a library's next timer.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use mio::net::UdpSocket;
use mio::{Events, Interest, Poll, Token};

/// The sockets of one program.
pub struct Sockets {
    poll: Poll,
    events: Events,
    sockets: Vec<(UdpSocket, SocketAddr)>,
}

impl Sockets {
    /// One socket, on any port of this address.
    pub fn bind(host: IpAddr) -> io::Result<Self> {
        let mut this = Self {
            poll: Poll::new()?,
            events: Events::with_capacity(16),
            sockets: Vec::new(),
        };
        this.add(host)?;
        Ok(this)
    }

    /// One more.
    pub fn add(&mut self, host: IpAddr) -> io::Result<SocketAddr> {
        let mut socket = UdpSocket::bind(SocketAddr::new(host, 0))?;
        let local = socket.local_addr()?;
        let token = Token(self.sockets.len());
        self.poll
            .registry()
            .register(&mut socket, token, Interest::READABLE)?;
        self.sockets.push((socket, local));
        Ok(local)
    }

    /// The address of the first one.
    pub fn local(&self) -> SocketAddr {
        self.sockets[0].1
    }

    /// Waits until a datagram is there.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        match self.poll.poll(&mut self.events, timeout) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            other => other,
        }
    }

    /// The next datagram that is there: its length, where it came from, and to which of our addresses.
    pub fn receive(&self, buf: &mut [u8]) -> Option<(usize, SocketAddr, SocketAddr)> {
        for (socket, local) in &self.sockets {
            loop {
                match socket.recv_from(buf) {
                    Ok((len, from)) => return Some((len, from, *local)),
                    // Of an earlier datagram, whose receiver is gone.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                    Err(_) => break,
                }
            }
        }
        None
    }

    /// Sends a datagram from one of our addresses. What the system has no room for is lost.
    pub fn send(&self, from: SocketAddr, to: SocketAddr, datagram: &[u8]) {
        let socket = self.sockets.iter().find(|(_, local)| *local == from);
        let (socket, _) = socket.unwrap_or(&self.sockets[0]);
        socket.send_to(datagram, to).ok();
    }
}
