//! The first packets of many clients, made ahead to be sent at once.

use std::collections::HashMap;
use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use mpquic::udp::{RecvMeta, Transmit};
use mpquic::{AsyncUdpSocket, ClientConfig, Endpoint, UdpPoller};
use tokio::runtime::Builder;

use crate::stack::{Calls, Error, NAME, Result, client_tls};

/// Keeps the first datagram to each connection ID that a client made up.
#[derive(Debug, Default)]
struct Kept(Mutex<HashMap<Vec<u8>, Vec<u8>>>);

impl AsyncUdpSocket for Kept {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(AlwaysRoom)
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let datagram = transmit.contents;
        // RFC 9000 section 17.2: the length of the ID is after the version.
        let end = 6 + datagram.get(5).map_or(0, |len| usize::from(*len));
        if let Some(id) = datagram.get(6..end) {
            let mut kept = self.0.lock().unwrap();
            kept.entry(id.to_vec()).or_insert_with(|| datagram.to_vec());
        }
        Ok(())
    }

    fn poll_recv(
        &self,
        _: &mut Context<'_>,
        _: &mut [IoSliceMut<'_>],
        _: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        Poll::Pending
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok((Ipv4Addr::LOCALHOST, 1).into())
    }
}

#[derive(Debug)]
struct AlwaysRoom;

impl UdpPoller for AlwaysRoom {
    fn poll_writable(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Clients that send only their first Initial packet.
pub(crate) struct Storm {
    socket: UdpSocket,
    datagrams: Vec<Vec<u8>>,
}

/// The first datagrams of so many clients.
async fn make(certificate: &Path, server: SocketAddr, count: usize) -> Result<Vec<Vec<u8>>> {
    let kept = Arc::new(Kept::default());
    let config = ClientConfig::new(Arc::new(client_tls(certificate, Calls::default())?))?;
    let endpoint = Endpoint::builder()
        .default_client(config)
        .abstract_socket(kept.clone())
        .build()?;
    let waiting = (0..count).map(|_| endpoint.connect(server, NAME));
    let waiting = waiting.collect::<std::result::Result<Vec<_>, _>>()?;
    while kept.0.lock().unwrap().len() < count {
        tokio::task::yield_now().await;
    }
    std::mem::forget(waiting);
    let datagrams = std::mem::take(&mut *kept.0.lock().unwrap());
    Ok(datagrams.into_values().take(count).collect())
}

impl Storm {
    pub(crate) async fn new(certificate: &Path, server: SocketAddr, count: usize) -> Result<Self> {
        let (tell, told) = tokio::sync::oneshot::channel();
        let certificate = certificate.to_owned();
        // On a thread of its own, which goes on forever: what becomes of these clients is nothing of the honest one's.
        std::thread::spawn(move || {
            let made = Builder::new_current_thread().enable_all().build();
            let made = made.map_err(Error::from).and_then(|runtime| {
                let made = runtime.block_on(make(&certificate, server, count));
                std::mem::forget(runtime);
                made
            });
            let _ = tell.send(made);
            loop {
                std::thread::park();
            }
        });
        let datagrams = told.await??;
        Ok(Self {
            socket: UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?,
            datagrams,
        })
    }

    /// Sends all of them.
    pub(crate) fn send(&self, server: SocketAddr) -> Result<()> {
        for datagram in &self.datagrams {
            self.socket.send_to(datagram, server)?;
        }
        Ok(())
    }
}
