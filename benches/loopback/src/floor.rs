//! What a QUIC implementation cannot do without, and nothing else: packets of the same size, encrypted, their headers
//! protected, over UDP with the same offloads.
//!
//! The application's bytes are copied once into packets, because an AEAD that works in place would overwrite them. They are
//! copied once to the application, or handed to it where they were received (`chunks`). What is acknowledged is a number
//! per system call, so that the socket does not overflow. Nothing is sent again: a loss is an error.

use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;

use quinn_udp::{RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use rustls::Side;
use rustls::quic::Keys;
use serde_json::Value;
use tokio::io::Interest;
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use crate::seal::{TAG, keys, seal};
use crate::stack::{Calls, Counted, PIECE, RECEIVE_BUFFER, Result, SEND_BUFFER, Stack, ZEROS};

/// Bytes of a datagram, if nothing else is asked for: what mpquic finds that loopback carries.
const DATAGRAM: usize = 9188;

/// Bytes of a packet's header: the first byte, a connection ID, a packet number of four bytes, and a STREAM frame's.
const HEADER: usize = 17;

/// Where the packet number is, and the bytes that protect it.
const NUMBER: usize = 9;
const SAMPLE: usize = NUMBER + 4;

/// Bytes that fit into one system call.
const CALL: usize = 65_507;

/// Bytes of a datagram.
fn datagram(calls: Calls) -> usize {
    calls.mtu.map_or(DATAGRAM, usize::from).min(CALL)
}

/// Bytes that are sent ahead of what was received.
const WINDOW: u64 = 2 << 20;

/// Tells a request from an acknowledgement.
const REQUEST: u64 = 1 << 63;

/// Messages per system call, and the bytes of each.
const MESSAGES: usize = 16;
const MESSAGE: usize = 1 << 16;

/// A socket and the memory for its datagrams.
struct Socket {
    /// Bytes of a datagram.
    datagram: usize,
    io: tokio::net::UdpSocket,
    state: UdpSocketState,
    keys: Keys,
    /// The number of the next packet in each direction.
    sent: u64,
    received: u64,
    /// Bytes of the application that were sent, or received; and how many the client says it has.
    bytes: u64,
    acknowledged: u64,
    buffer: Vec<u8>,
    metas: [RecvMeta; MESSAGES],
    output: Vec<u8>,
}

impl Socket {
    fn bind(local: Ipv4Addr, side: Side, datagram: usize) -> Result<Self> {
        let socket = UdpSocket::bind((local, 0))?;
        let options = socket2::SockRef::from(&socket);
        options.set_send_buffer_size(SEND_BUFFER)?;
        options.set_recv_buffer_size(RECEIVE_BUFFER)?;
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        Ok(Self {
            datagram,
            io: tokio::net::UdpSocket::from_std(socket)?,
            state,
            keys: keys(side)?,
            sent: 0,
            received: 0,
            bytes: 0,
            acknowledged: 0,
            buffer: vec![0; MESSAGE * MESSAGES],
            metas: [RecvMeta::default(); MESSAGES],
            output: vec![0; CALL],
        })
    }

    async fn send(&self, to: SocketAddr, contents: &[u8]) -> Result<()> {
        let transmit = Transmit {
            destination: to,
            ecn: None,
            contents,
            segment_size: (contents.len() > self.datagram).then_some(self.datagram),
            src_ip: None,
        };
        loop {
            self.io.writable().await?;
            let sent = self.io.try_io(Interest::WRITABLE, || {
                self.state.try_send(UdpSockRef::from(&self.io), &transmit)
            });
            match sent {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                sent => return Ok(sent?),
            }
        }
    }

    /// Receives what is there; how many messages.
    fn try_receive(&mut self) -> io::Result<usize> {
        let mut chunks = self.buffer.chunks_exact_mut(MESSAGE);
        let mut slices: [IoSliceMut<'_>; MESSAGES] =
            std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
        let (state, io, metas) = (&self.state, &self.io, &mut self.metas);
        io.try_io(Interest::READABLE, || {
            state.recv(UdpSockRef::from(io), &mut slices, metas)
        })
    }

    async fn receive(&mut self) -> Result<usize> {
        loop {
            self.io.readable().await?;
            match self.try_receive() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                received => return Ok(received?),
            }
        }
    }

    /// Takes in what a client has sent, and where from it wants how many bytes, if it wants more.
    fn hear(&mut self, messages: usize) -> Option<(u64, SocketAddr)> {
        let mut wanted = None;
        for index in 0..messages {
            let meta = self.metas[index];
            let message = &self.buffer[index * MESSAGE..index * MESSAGE + meta.len];
            for bytes in message.chunks(8).filter_map(<[u8]>::first_chunk) {
                let number = u64::from_be_bytes(*bytes);
                if number & REQUEST == 0 {
                    self.acknowledged = self.acknowledged.max(number);
                } else {
                    wanted = Some((number & !REQUEST, meta.addr));
                }
            }
        }
        wanted
    }

    /// Makes the next packet, with these bytes of the application's, at `start` of the output; returns its end.
    fn write(&mut self, start: usize, payload: &[u8]) -> Result<usize> {
        let end = start + HEADER + payload.len() + TAG;
        let packet = &mut self.output[start..end];
        packet[0] = 0x43;
        packet[NUMBER..NUMBER + 4].copy_from_slice(&(self.sent as u32).to_be_bytes());
        packet[HEADER..HEADER + payload.len()].copy_from_slice(payload);
        let keys = &self.keys.local;
        // The length of the frame's header is part of what is encrypted.
        seal(keys, self.sent, packet, NUMBER + 4)?;
        let (head, rest) = packet.split_at_mut(SAMPLE);
        let (first, number) = head.split_at_mut(NUMBER);
        let sample = &rest[..keys.header.sample_len()];
        keys.header
            .encrypt_in_place(sample, &mut first[0], number)?;
        self.sent += 1;
        Ok(end)
    }

    /// Opens the next packet where it was received; where the application's bytes are.
    fn open(&mut self, start: usize, end: usize) -> Result<std::ops::Range<usize>> {
        let keys = &self.keys.remote;
        let packet = &mut self.buffer[start..end];
        let (head, rest) = packet.split_at_mut(SAMPLE);
        let (first, number) = head.split_at_mut(NUMBER);
        let sample = &rest[..keys.header.sample_len()];
        keys.header
            .decrypt_in_place(sample, &mut first[0], number)?;
        if number != (self.received as u32).to_be_bytes() {
            return Err("a packet was lost".into());
        }
        keys.packet.decrypt_in_place(self.received, head, rest)?;
        self.received += 1;
        Ok(start + HEADER..end - TAG)
    }

    /// Answers requests for ever.
    async fn serve(&mut self) -> Result<()> {
        // Of the application in a datagram, and datagrams in a system call.
        let payload = self.datagram - HEADER - TAG;
        let batch = CALL / self.datagram;
        loop {
            let messages = self.receive().await?;
            let Some((mut left, client)) = self.hear(messages) else {
                continue;
            };
            while left > 0 {
                while self.bytes >= self.acknowledged + WINDOW {
                    let messages = self.receive().await?;
                    self.hear(messages);
                }
                let (mut end, mut count) = (0, 0);
                while left > 0 && count < batch {
                    let len = left.min(payload as u64) as usize;
                    // Through the application's memory.
                    let from = self.bytes as usize % (PIECE - payload);
                    end = self.write(end, &ZEROS[from..from + len])?;
                    (left, count) = (left - len as u64, count + 1);
                    self.bytes += len as u64;
                }
                self.send(client, &self.output[..end]).await?;
            }
        }
    }

    async fn fetch(&mut self, server: SocketAddr, wanted: u64, calls: Calls) -> Result<()> {
        let request = wanted | REQUEST;
        self.send(server, &request.to_be_bytes()).await?;
        let mut application = vec![0; PIECE];
        let mut place = 0;
        let mut got = 0;
        while got < wanted {
            let messages = self.receive().await?;
            for index in 0..messages {
                let meta = self.metas[index];
                let message = index * MESSAGE;
                for at in (0..meta.len).step_by(meta.stride.max(1)) {
                    let end = meta.len.min(at + meta.stride);
                    let payload = self.open(message + at, message + end)?;
                    let len = payload.len();
                    if !calls.chunks {
                        if place + len > application.len() {
                            place = 0;
                        }
                        application[place..place + len].copy_from_slice(&self.buffer[payload]);
                        place += len;
                    }
                    got += len as u64;
                    self.bytes += len as u64;
                }
            }
            self.send(server, &self.bytes.to_be_bytes()).await?;
        }
        Ok(())
    }
}

/// A client, with the bytes of its datagrams.
pub(crate) struct Floor(usize);

impl Stack for Floor {
    type Connection = Arc<Mutex<Connected>>;

    fn serve(
        runtimes: &[Handle],
        _certificate: &Path,
        calls: Calls,
    ) -> Result<(SocketAddr, Counted)> {
        let [runtime] = runtimes else {
            return Err("there are no shards here".into());
        };
        let _context = runtime.enter();
        let mut socket = Socket::bind(Ipv4Addr::LOCALHOST, Side::Server, datagram(calls))?;
        let address = socket.io.local_addr()?;
        runtime.spawn(async move {
            if let Err(error) = socket.serve().await {
                eprintln!("floor: {error}");
            }
        });
        Ok((address, Box::new(|| Value::Null)))
    }

    fn client(_certificate: &Path, _locals: &[Ipv4Addr], calls: Calls) -> Result<Self> {
        Ok(Self(datagram(calls)))
    }

    async fn connect(&self, server: SocketAddr) -> Result<Self::Connection> {
        let socket = Socket::bind(Ipv4Addr::LOCALHOST, Side::Client, self.0)?;
        Ok(Arc::new(Mutex::new(Connected { socket, server })))
    }

    async fn fetch(connection: &Self::Connection, bytes: u64, calls: Calls) -> Result<()> {
        let mut connected = connection.lock().await;
        let server = connected.server;
        connected.socket.fetch(server, bytes, calls).await
    }
}

/// A client's socket.
pub(crate) struct Connected {
    socket: Socket,
    server: SocketAddr,
}
