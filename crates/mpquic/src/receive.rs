//! Receives batches from a socket into buffers that are reused, and cuts them into datagrams.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::task::{Context, Poll, ready};

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
pub(crate) const BLOCK: usize = 1 << 16;
/// Full blocks that are kept until their datagrams are gone, to be used again: 1 MiB. A connection's task that keeps up lets
/// go of a block before so many others are full.
const KEPT_BLOCKS: usize = 16;

/// One datagram.
pub(crate) struct Datagram {
    pub(crate) network_path: FourTuple,
    pub(crate) ecn: Option<EcnCodepoint>,
    pub(crate) payload: BytesMut,
    /// The number of the block that the payload is a slice of.
    pub(crate) block: u64,
}

/// The buffers.
pub(crate) struct Receiver {
    // Never written as a whole: pages that no message reaches are never backed by memory.
    buffer: Box<[u8]>,
    metas: [RecvMeta; MESSAGES],
    block: BytesMut,
    blocks: u64,
    /// The ends of the blocks that are full, oldest first: whoever has the last slice of one can have all of it.
    full: VecDeque<BytesMut>,
}

impl Receiver {
    pub(crate) fn new() -> Self {
        Self {
            buffer: vec![0; MESSAGE * MESSAGES].into_boxed_slice(),
            metas: [RecvMeta::default(); MESSAGES],
            block: BytesMut::new(),
            blocks: 0,
            full: VecDeque::with_capacity(KEPT_BLOCKS + 1),
        }
    }

    /// Begins another block: the oldest one whose datagrams are all gone, or a new one. Memory that is used again costs no
    /// page faults.
    fn next_block(&mut self) {
        self.blocks += 1;
        if self.block.try_reclaim(BLOCK) {
            return;
        }
        let mut full = self.full.iter_mut();
        let free = full.position(|block| block.try_reclaim(BLOCK));
        let next = free.and_then(|at| self.full.remove(at));
        let next = next.unwrap_or_else(|| BytesMut::with_capacity(BLOCK));
        self.full
            .push_back(std::mem::replace(&mut self.block, next));
        if self.full.len() > KEPT_BLOCKS {
            // It is freed with the last of its datagrams.
            self.full.pop_front();
        }
    }

    /// Receives once, and hands each datagram to `sink`. `Pending` if the socket will wake the task.
    pub(crate) fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        socket: &Socket,
        mut sink: impl FnMut(Datagram),
    ) -> Poll<io::Result<()>> {
        let mut chunks = self.buffer.chunks_exact_mut(MESSAGE);
        let mut slices: [IoSliceMut<'_>; MESSAGES] =
            std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
        let count = ready!(socket.poll_receive(cx, &mut slices, &mut self.metas))?;
        // A socket that the application brings may say anything.
        for index in 0..count.min(MESSAGES) {
            let meta = self.metas[index];
            let len = meta.len.min(MESSAGE);
            let network_path = FourTuple {
                local: socket.local_of(&meta),
                remote: meta.addr,
            };
            let ecn = meta.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8));
            // Copied out of the message buffer: a slice of that itself could not be written to
            // again before the connection has let go of it.
            if self.block.capacity() < len {
                self.next_block();
            }
            let start = index * MESSAGE;
            self.block
                .extend_from_slice(&self.buffer[start..start + len]);
            for payload in segments(self.block.split(), meta.stride) {
                sink(Datagram {
                    network_path,
                    ecn,
                    payload,
                    block: self.blocks,
                });
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// The datagrams that receive offload joined to one message: each has `size` bytes, and the last what is left. A size of
/// 0 tells nothing, so that the message is taken for one datagram.
fn segments(mut message: BytesMut, size: usize) -> impl Iterator<Item = BytesMut> {
    let size = if size == 0 { usize::MAX } else { size };
    std::iter::from_fn(move || {
        let len = message.len().min(size);
        (len > 0).then(|| message.split_to(len))
    })
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use proto::Transmit;

    use super::*;
    use crate::socket::{BufferSizes, Sent};

    fn socket(local: &str) -> Socket {
        Socket::bind(local.parse().unwrap(), BufferSizes::default()).unwrap()
    }

    async fn send(socket: &Socket, transmit: &Transmit, data: &[u8]) {
        let mut offset = 0;
        while socket.send(transmit, data, &mut offset) == Sent::Blocked {
            socket.writable().await;
        }
        assert_eq!(offset, data.len());
    }

    async fn receive_once(
        receiver: &mut Receiver,
        socket: &Socket,
        mut sink: impl FnMut(Datagram),
    ) -> io::Result<()> {
        poll_fn(|cx| receiver.poll_receive(cx, socket, &mut sink)).await
    }

    async fn receive(socket: &Socket, bytes: usize) -> Vec<Datagram> {
        let mut receiver = Receiver::new();
        let mut datagrams = Vec::new();
        while datagrams
            .iter()
            .map(|one: &Datagram| one.payload.len())
            .sum::<usize>()
            < bytes
        {
            poll_fn(|cx| socket.poll_recv_ready(cx)).await.unwrap();
            let sink = |datagram| datagrams.push(datagram);
            match receive_once(&mut receiver, socket, sink).await {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => result.unwrap(),
            }
        }
        datagrams
    }

    /// Three batches in one, larger than one system call takes, and a wildcard receiver that is
    /// told which of its addresses was meant.
    #[tokio::test(flavor = "current_thread")]
    async fn batches_arrive_as_the_datagrams_that_they_were() {
        let from = socket("127.0.0.1:0");
        let to = socket("0.0.0.0:0");
        let asked = ([127, 0, 0, 3], to.local().port()).into();
        let segment = 1400;
        let data: Vec<u8> = (0..100 * segment - 7)
            .map(|i| (i / segment) as u8)
            .collect();
        let transmit = Transmit {
            network_path: FourTuple {
                local: from.local(),
                remote: asked,
            },
            ecn: Some(EcnCodepoint::Ect0),
            size: data.len(),
            segment_size: Some(segment),
        };
        send(&from, &transmit, &data).await;
        let datagrams = receive(&to, data.len()).await;
        assert_eq!(datagrams.len(), 100);
        for (index, datagram) in datagrams.iter().enumerate() {
            assert_eq!(datagram.network_path.local, asked);
            assert_eq!(datagram.network_path.remote, from.local());
            assert_eq!(datagram.ecn, Some(EcnCodepoint::Ect0));
            let len = if index == 99 { segment - 7 } else { segment };
            assert_eq!(datagram.payload, vec![index as u8; len]);
        }

        // And back, from the address that was asked.
        let answer = Transmit {
            network_path: datagrams[0].network_path,
            ecn: None,
            size: 5,
            segment_size: None,
        };
        send(&to, &answer, b"hello").await;
        let datagrams = receive(&from, 5).await;
        assert_eq!(datagrams[0].network_path.remote, asked);
        assert_eq!(datagrams[0].ecn, None);
    }

    /// However much is received, a receiver whose datagrams are dealt with has two blocks; one that has to wait for them,
    /// as many as it is behind.
    #[tokio::test(flavor = "current_thread")]
    async fn blocks_are_used_again() {
        let (from, to) = (socket("127.0.0.1:0"), socket("127.0.0.1:0"));
        let transmit = Transmit {
            network_path: FourTuple {
                local: from.local(),
                remote: to.local(),
            },
            ecn: None,
            size: 30_000,
            segment_size: None,
        };
        let data = vec![7; 30_000];
        let mut receiver = Receiver::new();
        let mut waiting = VecDeque::new();
        for behind in [0, 10] {
            let mut memory = std::collections::BTreeSet::new();
            for _ in 0..100 {
                send(&from, &transmit, &data).await;
                let before = waiting.len();
                while waiting.len() == before {
                    poll_fn(|cx| to.poll_recv_ready(cx)).await.unwrap();
                    let sink = |datagram| waiting.push_back(datagram);
                    match receive_once(&mut receiver, &to, sink).await {
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                        result => result.unwrap(),
                    }
                }
                assert!(waiting.iter().all(|datagram| datagram.payload == data));
                memory.extend(waiting.iter().map(|datagram| datagram.payload.as_ptr()));
                while waiting.len() > behind {
                    waiting.pop_front();
                }
            }
            // Two datagrams in a block.
            let blocks = memory.len().div_ceil(2);
            assert!(blocks <= 2 + behind / 2 + 1, "{blocks} blocks");
        }
    }

    #[test]
    fn whatever_the_segment_size_the_message_comes_to_its_end() {
        let lens = |len: usize, size| -> Vec<usize> {
            let message = BytesMut::from(&vec![7; len][..]);
            segments(message, size).map(|part| part.len()).collect()
        };
        assert_eq!(lens(10, 4), [4, 4, 2]);
        assert_eq!(lens(8, 4), [4, 4]);
        assert_eq!(lens(10, 10), [10]);
        assert_eq!(lens(10, usize::MAX), [10]);
        assert_eq!(lens(65_535, 0), [65_535]);
        assert_eq!(lens(0, 0), [] as [usize; 0]);
        assert_eq!(lens(0, 5), [] as [usize; 0]);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn what_the_system_refuses_is_lost_and_no_more() {
        let from = socket("127.0.0.1:0");
        // Loopback addresses reach no other network.
        let transmit = Transmit {
            network_path: FourTuple {
                local: from.local(),
                remote: "192.0.2.1:9".parse().unwrap(),
            },
            ecn: None,
            size: 5,
            segment_size: None,
        };
        send(&from, &transmit, b"hello").await;
    }
}
