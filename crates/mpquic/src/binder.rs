//! Opens the sockets of an endpoint: for each address, one per shard or one for all.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proto::Steering;
use tokio::runtime::Handle;

use crate::async_socket::AsyncUdpSocket;
use crate::socket::{BufferSizes, Socket};
use crate::steer;

/// How the sockets of an endpoint are made.
#[derive(Debug)]
pub(crate) struct Binder {
    sizes: BufferSizes,
    /// If there are several shards.
    steering: Option<Steering>,
    /// Of each shard: a socket belongs to the runtime whose tasks wait for it.
    runtimes: Vec<Handle>,
    /// The shards take turns to read sockets that all of them have.
    readers: AtomicUsize,
}

impl Binder {
    pub(crate) const fn new(
        sizes: BufferSizes,
        steering: Option<Steering>,
        runtimes: Vec<Handle>,
    ) -> Self {
        Self {
            sizes,
            steering,
            runtimes,
            readers: AtomicUsize::new(0),
        }
    }

    /// The socket of each shard for this address, which replaces those with the `former` addresses.
    pub(crate) fn bind(
        &self,
        local: SocketAddr,
        former: &[SocketAddr],
    ) -> io::Result<Vec<Arc<Socket>>> {
        let group = match &self.steering {
            Some(steering) => steer::bind(local, steering)?,
            None => None,
        };
        let Some(group) = group else {
            return self.share(UdpSocket::bind(local)?, former);
        };
        let sockets = group.into_iter().zip(&self.runtimes);
        sockets
            .map(|(socket, runtime)| {
                let _context = runtime.enter();
                let socket = Socket::new(socket, self.sizes)?;
                Ok(Arc::new(socket.replacing(former)))
            })
            .collect()
    }

    /// A socket that is bound already. All shards send on it, and one of them receives.
    pub(crate) fn adopt(&self, socket: UdpSocket) -> io::Result<Vec<Arc<Socket>>> {
        self.share(socket, &[])
    }

    /// One that the application brings, in the same way.
    pub(crate) fn adopt_abstract(
        &self,
        socket: Arc<dyn AsyncUdpSocket>,
    ) -> io::Result<Vec<Arc<Socket>>> {
        Ok(self.for_all(Socket::adopt(socket)?, self.next_reader()))
    }

    fn share(&self, socket: UdpSocket, former: &[SocketAddr]) -> io::Result<Vec<Arc<Socket>>> {
        let reader = self.next_reader();
        let _context = self.runtimes[reader].enter();
        let socket = Socket::new(socket, self.sizes)?.replacing(former);
        Ok(self.for_all(socket, reader))
    }

    fn next_reader(&self) -> usize {
        self.readers.fetch_add(1, Ordering::Relaxed) % self.runtimes.len()
    }

    /// The same one for each shard.
    fn for_all(&self, socket: Socket, reader: usize) -> Vec<Arc<Socket>> {
        let shards = self.runtimes.len();
        let socket = Arc::new(match shards {
            1 => socket,
            _ => socket.read_by(reader),
        });
        vec![socket; shards]
    }
}
