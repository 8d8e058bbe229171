//! UDP through the connection's datagrams: flows that live as long as the stream that asked for them.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use mpquic::{Connection, ConnectionError, RecvStream, SendStream};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;

use crate::server::{ServerSettings, any_of, resolve};
use crate::wire::{Datagram, Refusal, Target, flow};

/// Datagrams that wait for one flow. More are dropped, as any network would.
const WAITING: usize = 256;
/// Flows of one client at a time.
const FLOWS: usize = 256;
/// The largest UDP payload.
const LARGEST: usize = 65_535;

/// The flows of one end of a connection: who gets which datagram.
#[derive(Debug, Default)]
pub(crate) struct Flows(Mutex<HashMap<u32, mpsc::Sender<Datagram>>>);

impl Flows {
    fn lock(&self) -> MutexGuard<'_, HashMap<u32, mpsc::Sender<Datagram>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the datagrams of a flow come out from now on, until it is [closed](Self::close); `None` if there are too many.
    pub(crate) fn open(&self, number: u32) -> Option<mpsc::Receiver<Datagram>> {
        let mut flows = self.lock();
        if flows.len() >= FLOWS {
            return None;
        }
        let (sender, receiver) = mpsc::channel(WAITING);
        flows.insert(number, sender);
        Some(receiver)
    }

    pub(crate) fn close(&self, number: u32) {
        self.lock().remove(&number);
    }

    /// Hands out what comes, until the connection ends. What belongs to no flow, or comes faster than it is taken, is dropped.
    pub(crate) async fn dispatch(&self, connection: &Connection) -> ConnectionError {
        loop {
            let bytes = match connection.read_datagram().await {
                Ok(bytes) => bytes,
                Err(error) => return error,
            };
            let Ok(datagram) = Datagram::decode(bytes) else {
                continue;
            };
            if let Some(flow) = self.lock().get(&datagram.flow) {
                let _ = flow.try_send(datagram);
            }
        }
    }
}

/// The flows of a client, at the server.
#[derive(Debug)]
pub(crate) struct ServerFlows {
    connection: Connection,
    settings: Arc<ServerSettings>,
    flows: Flows,
}

impl ServerFlows {
    pub(crate) fn new(connection: Connection, settings: Arc<ServerSettings>) -> Self {
        Self {
            connection,
            settings,
            flows: Flows::default(),
        }
    }

    pub(crate) async fn dispatch(&self) -> ConnectionError {
        self.flows.dispatch(&self.connection).await
    }

    /// Serves a flow until its stream ends.
    pub(crate) async fn serve(&self, mut send: SendStream, mut recv: RecvStream) {
        let number = flow(send.id());
        let opened = self.flows.open(number).ok_or(Refusal::Failed);
        let status = Refusal::encode(opened.as_ref().map(|_| ()).map_err(|refusal| *refusal));
        let answered = send.write_all(&[status]).await;
        if let (Ok(outgoing), Ok(())) = (opened, answered) {
            tokio::select! {
                // The client writes nothing more: its end, whatever it looks like, is the flow's.
                _ = recv.received_reset() => {}
                _ = self.pass(number, outgoing) => {}
            }
            self.flows.close(number);
        }
    }

    /// Sends what comes for a flow, and sends back what answers.
    async fn pass(&self, number: u32, mut outgoing: mpsc::Receiver<Datagram>) -> io::Result<()> {
        let v4 = UdpSocket::bind(any_of(std::net::Ipv4Addr::UNSPECIFIED.into())).await?;
        // A machine without IPv6 has flows for IPv4.
        let v6 = UdpSocket::bind(any_of(std::net::Ipv6Addr::UNSPECIFIED.into()))
            .await
            .ok();
        let mut v4_buffer = vec![0; LARGEST];
        let mut v6_buffer = vec![0; if v6.is_some() { LARGEST } else { 0 }];
        loop {
            tokio::select! {
                datagram = outgoing.recv() => {
                    let Some(datagram) = datagram else { return Ok(()) };
                    let allowed = resolve(&datagram.target, &self.settings.allow).await;
                    // What is not allowed, or cannot be sent, is lost, as datagrams are.
                    let Some(address) = allowed.ok().and_then(|list| list.first().copied()) else { continue };
                    let socket = if address.is_ipv4() { Some(&v4) } else { v6.as_ref() };
                    if let Some(socket) = socket {
                        let _ = socket.send_to(&datagram.payload, address).await;
                    }
                }
                (len, from) = receive(Some(&v4), &mut v4_buffer) => self.send_back(number, from, &v4_buffer[..len]),
                (len, from) = receive(v6.as_ref(), &mut v6_buffer) => self.send_back(number, from, &v6_buffer[..len]),
            }
        }
    }

    fn send_back(&self, number: u32, from: SocketAddr, payload: &[u8]) {
        let datagram = Datagram {
            flow: number,
            target: Target::Address(from),
            payload: Bytes::copy_from_slice(payload),
        };
        // One that is too large for the paths is lost.
        let _ = self.connection.send_datagram(datagram.encode());
    }
}

/// The next datagram; never, without a socket. Errors of earlier sends are passed over.
async fn receive(socket: Option<&UdpSocket>, buffer: &mut [u8]) -> (usize, SocketAddr) {
    let Some(socket) = socket else {
        return std::future::pending().await;
    };
    loop {
        match socket.recv_from(buffer).await {
            Ok(received) => return received,
            // What came of a datagram that was sent before: nobody listens there, say.
            Err(_) => tokio::task::yield_now().await,
        }
    }
}
