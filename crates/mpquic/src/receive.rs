//! Receives batches from a socket into buffers that are reused, and cuts them into datagrams.

use std::io::{self, IoSliceMut};

use bytes::BytesMut;
use proto::{EcnCodepoint, FourTuple};
use quinn_udp::RecvMeta;

use crate::socket::Socket;

/// The largest message that receive offload can produce.
const MESSAGE: usize = 1 << 16;
/// Messages per system call. With offload one message is up to 64 datagrams, so that more would
/// only push the first ones out of the processor's cache before they are read.
const MESSAGES: usize = 16;
/// Datagrams are handed out as slices of blocks of this size. It bounds both the allocations (one
/// per block, none per datagram) and the memory that a small piece kept by a stream can pin.
const BLOCK: usize = 1 << 16;

/// One datagram.
pub(crate) struct Datagram {
    pub(crate) network_path: FourTuple,
    pub(crate) ecn: Option<EcnCodepoint>,
    pub(crate) payload: BytesMut,
}

/// The buffers.
pub(crate) struct Receiver {
    // Never written as a whole: pages that no message reaches are never backed by memory.
    buffer: Box<[u8]>,
    metas: [RecvMeta; MESSAGES],
    block: BytesMut,
}

impl Receiver {
    pub(crate) fn new() -> Self {
        Self {
            buffer: vec![0; MESSAGE * MESSAGES].into_boxed_slice(),
            metas: [RecvMeta::default(); MESSAGES],
            block: BytesMut::new(),
        }
    }

    /// Receives once, and hands each datagram to `sink`.
    pub(crate) fn receive(
        &mut self,
        socket: &Socket,
        mut sink: impl FnMut(Datagram),
    ) -> io::Result<()> {
        let mut chunks = self.buffer.chunks_exact_mut(MESSAGE);
        let mut slices: [IoSliceMut<'_>; MESSAGES] =
            std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
        let count = socket.receive(&mut slices, &mut self.metas)?;
        for (meta, message) in self
            .metas
            .iter()
            .zip(self.buffer.chunks_exact(MESSAGE))
            .take(count)
        {
            let message = &message[..meta.len.min(MESSAGE)];
            let network_path = FourTuple {
                local: socket.local_of(meta),
                remote: meta.addr,
            };
            let ecn = meta.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8));
            // Copied out of the message buffer: a slice of that itself could not be written to
            // again before the connection has let go of it.
            if self.block.capacity() < message.len() {
                self.block.reserve(BLOCK);
            }
            self.block.extend_from_slice(message);
            let mut rest = self.block.split();
            while !rest.is_empty() {
                let len = meta.stride.clamp(1, rest.len());
                sink(Datagram {
                    network_path,
                    ecn,
                    payload: rest.split_to(len),
                });
            }
        }
        Ok(())
    }
}
