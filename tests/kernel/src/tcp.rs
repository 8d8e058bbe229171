//! A download by the kernel's TCP or MPTCP, in the namespaces of a place.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

use crate::Fault;
use crate::place::{Host, Place};

/// The server's congestion control.
pub(crate) const CONGESTION: &str = "cubic";
const PORT: u16 = 5001;
const CHUNK: usize = 64 * 1024;
/// Far longer than the kernel waits for anything that is still alive.
const LIMIT: Duration = Duration::from_secs(60);

/// Which of the kernel's protocols.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// TCP on the path of this number, from 0.
    Tcp(usize),
    /// MPTCP; its first subflow is on the first path.
    Mptcp,
}

impl Kernel {
    const fn path(self) -> usize {
        match self {
            Self::Tcp(path) => path,
            Self::Mptcp => 0,
        }
    }

    fn socket(self) -> std::io::Result<Socket> {
        let protocol = match self {
            Self::Tcp(_) => Protocol::TCP,
            Self::Mptcp => Protocol::MPTCP,
        };
        Socket::new(Domain::IPV4, Type::STREAM, Some(protocol))
    }
}

/// The time from the request to the last byte. The request leaves when the connection is there.
///
/// # Errors
///
/// If a namespace cannot be entered or the download fails.
pub(crate) fn download(place: &Place, kernel: Kernel, bytes: u64) -> Result<Duration, Fault> {
    let address = SocketAddr::from((place.server_ip(kernel.path()), PORT));
    let (ready, is_ready) = mpsc::channel();
    std::thread::scope(|scope| {
        let server = scope.spawn(move || place.inside(Host::Server, || serve(kernel, &ready)));
        let client = place.inside(Host::Client, move || {
            is_ready.recv().map_err(|_| Fault::NoServer)?;
            fetch(kernel, address, bytes)
        });
        let served = match server.join() {
            Ok(served) => served,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        served??;
        client?
    })
}

fn serve(kernel: Kernel, ready: &mpsc::Sender<()>) -> Result<(), Fault> {
    let socket = kernel.socket()?;
    socket.set_reuse_address(true)?;
    // Connections that it accepts inherit it. The setting of the namespace would need what only the machine's own may set.
    socket.set_tcp_congestion(CONGESTION.as_bytes())?;
    // All addresses: an MPTCP subflow on another path comes to another one.
    let any = SocketAddr::from((std::net::Ipv4Addr::UNSPECIFIED, PORT));
    socket.bind(&any.into())?;
    socket.listen(1)?;
    let listener = TcpListener::from(socket);
    // A client that is gone has said why.
    let _ = ready.send(());
    let (mut stream, _) = listener.accept()?;
    stream.set_write_timeout(Some(LIMIT))?;
    let mut request = [0; 8];
    stream.read_exact(&mut request)?;
    let buffer = vec![0x5a; CHUNK];
    let mut left = u64::from_be_bytes(request);
    while left > 0 {
        let len = left.min(CHUNK as u64);
        stream.write_all(&buffer[..len as usize])?;
        left -= len;
    }
    Ok(())
}

fn fetch(kernel: Kernel, address: SocketAddr, bytes: u64) -> Result<Duration, Fault> {
    let socket = kernel.socket()?;
    socket.connect(&address.into())?;
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(LIMIT))?;
    let asked = Instant::now();
    stream.write_all(&bytes.to_be_bytes())?;
    let mut buffer = vec![0; CHUNK];
    let mut received = 0;
    while received < bytes {
        match stream.read(&mut buffer)? {
            0 => return Err(Fault::Length(received, bytes)),
            size => received += size as u64,
        }
    }
    Ok(asked.elapsed())
}
