//! Receives messages from a socket into buffers that are reused; what offload has joined in one stays together.

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
pub(crate) const MESSAGES: usize = 8;
/// After so many calls in a row that found less than [`FEW`] messages, no more are asked for, until there are as many: to be
/// ready for more takes as many instructions as the rest of the call here. Two may come together where a peer that
/// answers acknowledges by itself now and then.
const QUIET_CALLS: u8 = 16;
const FEW: usize = 3;
/// Messages are handed out as slices of blocks of this size. It bounds both the allocations (one
/// per block, none per message) and the memory that a small message that waits can pin.
pub(crate) const BLOCK: usize = 1 << 16;
/// Full blocks that are kept until their datagrams are gone, to be used again: 1.5 MiB. A connection's task that keeps up
/// lets go of a block before so many others are full.
const KEPT_BLOCKS: usize = 24;
/// Messages of so many bytes stay where they were received: the block is theirs. Smaller ones are copied into a common one.
const LARGE: usize = BLOCK / 4;

/// One datagram, or several that receive offload has joined.
pub(crate) struct Message {
    pub(crate) network_path: FourTuple,
    pub(crate) ecn: Option<EcnCodepoint>,
    /// One after the other.
    pub(crate) payload: BytesMut,
    /// Bytes of each datagram, but for the last.
    pub(crate) segment: usize,
    /// The number of the block that the payload is a slice of.
    pub(crate) block: u64,
}

impl Message {
    /// How many datagrams there are.
    pub(crate) fn count(&self) -> usize {
        self.payload.len().div_ceil(self.segment)
    }
}

/// The buffers.
pub(crate) struct Receiver {
    /// Where the system writes, each as long as a message can be. Never written as a whole: pages that no message reaches
    /// are not backed by memory.
    places: [BytesMut; MESSAGES],
    metas: [RecvMeta; MESSAGES],
    /// How many calls in a row have found less than [`FEW`] messages, up to [`QUIET_CALLS`].
    quiet_calls: u8,
    /// The last call found as many as it could.
    filled: bool,
    /// For small messages.
    block: BytesMut,
    /// The number of the newest block.
    blocks: u64,
    /// There was a large message since: the block for small ones goes on with another number, so that numbers never fall.
    overtaken: bool,
    /// The ends of the blocks that are full, oldest first: whoever has the last slice of one can have all of it.
    full: VecDeque<BytesMut>,
}

impl Receiver {
    pub(crate) fn new() -> Self {
        Self {
            places: std::array::from_fn(|_| BytesMut::zeroed(MESSAGE)),
            metas: [RecvMeta::default(); MESSAGES],
            quiet_calls: 0,
            filled: false,
            block: BytesMut::new(),
            blocks: 0,
            overtaken: false,
            full: VecDeque::with_capacity(KEPT_BLOCKS + 1),
        }
    }

    /// Little has come for a while: what is kept for much is given back. Blocks of which datagrams are left go with the last of these.
    pub(crate) fn rest(&mut self) {
        self.full.clear();
    }

    /// The newest full block whose datagrams are all gone: what was used last is still in the processor's cache, and memory
    /// that is used again costs no page faults.
    fn free_block(&mut self) -> Option<BytesMut> {
        let mut full = self.full.iter_mut();
        let at = full.rposition(|block| block.try_reclaim(BLOCK))?;
        self.full.remove(at)
    }

    /// A block is full: this is its end.
    fn keep(&mut self, end: BytesMut) {
        self.full.push_back(end);
        if self.full.len() > KEPT_BLOCKS {
            // It is freed with the last of its datagrams.
            self.full.pop_front();
        }
    }

    /// Begins another block for small messages.
    fn next_block(&mut self) {
        self.blocks += 1;
        self.overtaken = false;
        if self.block.try_reclaim(BLOCK) {
            return;
        }
        let next = self.free_block();
        let next = next.unwrap_or_else(|| BytesMut::with_capacity(BLOCK));
        let end = std::mem::replace(&mut self.block, next);
        self.keep(end);
    }

    /// The message at a place, and the number of its block.
    fn take(&mut self, place: usize, len: usize) -> (BytesMut, u64) {
        if len < LARGE {
            // A slice of the place itself could not be written to again before the connection has let go of it.
            if self.block.capacity() < len {
                self.next_block();
            } else if std::mem::take(&mut self.overtaken) {
                self.blocks += 1;
            }
            self.block.extend_from_slice(&self.places[place][..len]);
            return (self.block.split(), self.blocks);
        }
        let next = match self.free_block() {
            Some(mut block) => {
                block.resize(MESSAGE, 0);
                block
            }
            None => BytesMut::zeroed(MESSAGE),
        };
        let mut message = std::mem::replace(&mut self.places[place], next);
        let mut end = message.split_off(len);
        end.clear();
        self.keep(end);
        self.blocks += 1;
        self.overtaken = true;
        (message, self.blocks)
    }

    /// Receives once, and hands each message to `sink`. `Pending` if the socket will wake the task.
    pub(crate) fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        socket: &Socket,
        sink: impl FnMut(Message),
    ) -> Poll<io::Result<()>> {
        let asked = self.asked();
        let slices = &mut slices(&mut self.places)[..asked];
        let count = ready!(socket.poll_receive(cx, slices, &mut self.metas[..asked]))?;
        self.note(count, asked);
        self.hand_out(count, socket, sink);
        Poll::Ready(Ok(()))
    }

    /// Receives once what is there already; `None` if the socket cannot be asked so.
    pub(crate) fn receive_now(
        &mut self,
        socket: &Socket,
        sink: impl FnMut(Message),
    ) -> Option<io::Result<()>> {
        let asked = self.asked();
        let slices = &mut slices(&mut self.places)[..asked];
        let received = socket.receive_now(slices, &mut self.metas[..asked])?;
        Some(received.map(|count| {
            self.note(count, asked);
            self.hand_out(count, socket, sink);
        }))
    }

    /// How many messages the next call asks for.
    const fn asked(&self) -> usize {
        if self.quiet_calls >= QUIET_CALLS {
            FEW
        } else {
            MESSAGES
        }
    }

    /// A call that asked for so many has found `count`.
    fn note(&mut self, count: usize, asked: usize) {
        self.filled = count >= asked;
        self.quiet_calls = if count < FEW {
            (self.quiet_calls + 1).min(QUIET_CALLS)
        } else {
            0
        };
    }

    /// Whether the last call found as many messages as it asked for, so that there may be more.
    pub(crate) const fn is_filled(&self) -> bool {
        self.filled
    }

    fn hand_out(&mut self, count: usize, socket: &Socket, mut sink: impl FnMut(Message)) {
        // A socket that the application brings may say anything.
        for index in 0..count.min(MESSAGES) {
            let meta = self.metas[index];
            let len = meta.len.min(MESSAGE);
            if len == 0 {
                continue;
            }
            let network_path = FourTuple {
                local: socket.local_of(&meta),
                remote: meta.addr,
            };
            let ecn = meta.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8));
            let (payload, block) = self.take(index, len);
            sink(Message {
                network_path,
                ecn,
                payload,
                // A size of 0 tells nothing, so that the message is taken for one datagram.
                segment: if meta.stride == 0 { len } else { meta.stride },
                block,
            });
        }
    }
}

/// All places, for the system. Written out, as what maps an array is several times as much code.
fn slices(places: &mut [BytesMut; MESSAGES]) -> [IoSliceMut<'_>; MESSAGES] {
    let [a, b, c, d, e, f, g, h] = places;
    [
        IoSliceMut::new(a),
        IoSliceMut::new(b),
        IoSliceMut::new(c),
        IoSliceMut::new(d),
        IoSliceMut::new(e),
        IoSliceMut::new(f),
        IoSliceMut::new(g),
        IoSliceMut::new(h),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::future::poll_fn;

    use proto::Transmit;

    use super::*;
    use crate::socket::{BufferSizes, Sent};

    fn socket(local: &str) -> Socket {
        Socket::bind(local.parse().unwrap(), BufferSizes::default()).unwrap()
    }

    async fn send(socket: &Socket, transmit: &Transmit, data: &[u8]) {
        let mut offset = 0;
        while socket.send(transmit, data, true, &mut offset) == Sent::Blocked {
            socket.writable().await;
        }
        assert_eq!(offset, data.len());
    }

    async fn receive_once(
        receiver: &mut Receiver,
        socket: &Socket,
        mut sink: impl FnMut(Message),
    ) -> io::Result<()> {
        poll_fn(|cx| receiver.poll_receive(cx, socket, &mut sink)).await
    }

    async fn receive(socket: &Socket, bytes: usize) -> Vec<Message> {
        let mut receiver = Receiver::new();
        let mut datagrams = Vec::new();
        while datagrams
            .iter()
            .map(|one: &Message| one.payload.len())
            .sum::<usize>()
            < bytes
        {
            poll_fn(|cx| socket.poll_recv_ready(cx)).await.unwrap();
            // As the datagrams that they were.
            let sink = |mut message: Message| {
                while !message.payload.is_empty() {
                    let len = message.segment.min(message.payload.len());
                    let payload = message.payload.split_to(len);
                    datagrams.push(Message { payload, ..message });
                }
            };
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
            let blocks = memory.len();
            assert!(blocks <= 2 + behind + 1, "{blocks} blocks");
        }
    }

    /// Where messages come one by one, fewer are asked for; what comes together then is received as before, in its order.
    #[tokio::test(flavor = "current_thread")]
    async fn few_are_asked_for_while_they_come_one_by_one() {
        let (from, to) = (socket("127.0.0.1:0"), socket("127.0.0.1:0"));
        let transmit = Transmit {
            network_path: FourTuple {
                local: from.local(),
                remote: to.local(),
            },
            ecn: None,
            size: 1,
            segment_size: None,
        };
        let mut receiver = Receiver::new();
        for round in 0..3 {
            for _ in 0..QUIET_CALLS {
                assert_eq!(receiver.asked(), MESSAGES);
                send(&from, &transmit, &[round]).await;
                let mut got = Vec::new();
                while got.is_empty() {
                    poll_fn(|cx| to.poll_recv_ready(cx)).await.unwrap();
                    let sink = |message: Message| got.push(message);
                    let _ = receive_once(&mut receiver, &to, sink).await;
                }
                assert!(!receiver.is_filled());
            }
            assert_eq!(receiver.asked(), FEW);
            for number in 0..=MESSAGES {
                send(&from, &transmit, &[number as u8]).await;
            }
            let (mut got, mut calls) = (Vec::new(), Vec::new());
            while got.len() <= MESSAGES {
                poll_fn(|cx| to.poll_recv_ready(cx)).await.unwrap();
                let sink = |message: Message| got.extend_from_slice(&message.payload);
                if receive_once(&mut receiver, &to, sink).await.is_ok() {
                    calls.push(receiver.is_filled());
                }
            }
            assert!(got.iter().copied().eq(0..=MESSAGES as u8));
            assert!(calls[0], "there is more: {calls:?}");
        }
    }

    /// A run of messages holds the blocks from the first number to the last.
    #[test]
    fn large_messages_stay_where_they_are_and_the_numbers_of_blocks_rise() {
        let mut receiver = Receiver::new();
        let mut blocks = BTreeMap::new();
        let mut last = 0;
        for (index, len) in [100, 60_000, 100, LARGE, LARGE - 1, MESSAGE, 1, MESSAGE]
            .into_iter()
            .cycle()
            .take(400)
            .enumerate()
        {
            let place = index % MESSAGES;
            receiver.places[place][..len].fill(index as u8);
            let before = receiver.places[place].as_ptr();
            let (message, block) = receiver.take(place, len);
            assert_eq!(message, vec![index as u8; len]);
            assert_eq!(message.as_ptr() == before, len >= LARGE);
            assert_eq!(receiver.places[place].len(), MESSAGE);
            assert!(block >= last, "{block} after {last}");
            last = block;
            let held: &mut usize = blocks.entry(block).or_default();
            *held += len;
        }
        assert!(blocks.values().all(|held| *held <= BLOCK));
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
