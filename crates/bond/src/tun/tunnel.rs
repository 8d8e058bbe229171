//! Packets between two ends of a connection. Those of TCP go on lanes, streams that each carry some of the flows: in order and without losses, so that one
//! flow has the sum of the links. All others go as datagrams; those of UDP by `mpquic-live`, each as one frame, if both ends want that.
//!
//! ```text
//! lane:      length (2)  packet, again and again
//! datagram:  0xffffffff (4)  part (1)  number (4)  packet or a half of it; in a frame of `mpquic-live`, a whole one
//! ```

use std::collections::VecDeque;
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use mpquic::{Connection, DatagramOptions, RecvStream, SendStream};
use mpquic_peer::Throttle;
use tokio::sync::{mpsc, watch};

use super::codel::CoDel;
use super::packet::Head;
use crate::live::{self, Loads};
use crate::wire::TUNNEL as MARK;

/// Streams of a tunnel.
pub(crate) const LANES: usize = 32;
/// Packets that wait for a lane, and bytes that wait for all of them. More are dropped, and before that those that [`CoDel`] picks: a TCP sender takes that for a full
/// queue, which it is.
const WAITING: usize = 4096;
const BYTES: usize = 8 << 20;
/// Bytes that are written to a lane at a time.
const PIECE: usize = 64 * 1024;
const HEAD: usize = 4 + 1 + 4;
const WHOLE: u8 = 0;
const FIRST: u8 = 1;
const SECOND: u8 = 2;
/// A datagram that has not left by then is dropped: nobody waits for it any more.
const DEADLINE: Duration = Duration::from_millis(300);
/// Packets up to this size go over all paths while there are few of them: calls, games, names.
const SMALL: usize = 400;
/// How much goes twice, bytes per second.
const COPIES: &str = "40kB";
/// First halves that wait for their second ones.
const HALVES: usize = 64;
/// How far back a number is known to have come.
const WINDOW: u32 = 1024;

/// Where packets go that come out.
pub(crate) type Sink = Arc<dyn Fn(&[u8]) + Send + Sync>;

/// One end of a tunnel.
pub(crate) struct Tunnel {
    pub(crate) connection: Connection,
    lanes: Vec<Lane>,
    /// Bytes that wait for lanes.
    waiting: AtomicUsize,
    flows: RandomState,
    number: AtomicU32,
    copies: Throttle,
    in_time: Arc<live::Lane>,
    loads: Loads,
    arrived: Mutex<Arrived>,
    sink: Sink,
    is_over: watch::Sender<bool>,
}

struct Lane {
    queue: mpsc::Sender<Waiting>,
    /// Until its stream is there.
    waits: Mutex<Option<mpsc::Receiver<Waiting>>>,
}

/// A packet for a lane, and since when it waits.
type Waiting = (Instant, Bytes);

impl fmt::Debug for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tunnel").finish_non_exhaustive()
    }
}

impl Tunnel {
    pub(crate) fn new(connection: Connection, in_time: Arc<live::Lane>, sink: Sink) -> Arc<Self> {
        let lane = |_| {
            let (queue, waits) = mpsc::channel(WAITING);
            Lane {
                queue,
                waits: Mutex::new(Some(waits)),
            }
        };
        Arc::new(Self {
            connection,
            lanes: (0..LANES).map(lane).collect(),
            waiting: AtomicUsize::new(0),
            flows: RandomState::new(),
            number: AtomicU32::new(0),
            copies: Throttle::new(COPIES.parse().ok()),
            in_time,
            loads: Loads::default(),
            arrived: Mutex::default(),
            sink,
            is_over: watch::Sender::new(false),
        })
    }

    /// Ends its lanes, whose packets would be those of whoever has the addresses next.
    pub(crate) fn end(&self) {
        self.is_over.send_replace(true);
    }

    /// Sends a packet to the other end, or drops it.
    pub(crate) fn send(&self, packet: &[u8], head: &Head) {
        let flow = || self.flows.hash_one((head.from, head.to, head.ports));
        if head.is_tcp {
            let flow = flow();
            let lane = &self.lanes[flow as usize % LANES];
            if self.waiting.load(Ordering::Relaxed) + packet.len() <= BYTES
                && let Ok(room) = lane.queue.try_reserve()
            {
                self.waiting.fetch_add(packet.len(), Ordering::Relaxed);
                // What waits does not hold the buffer that it was read into.
                room.send((Instant::now(), Bytes::copy_from_slice(packet)));
            }
            return;
        }
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let options = DatagramOptions::new().deadline(Instant::now() + DEADLINE);
        let datagram = |part, rest: &[u8]| {
            let mut bytes = BytesMut::with_capacity(HEAD + rest.len());
            bytes.put_slice(&MARK);
            bytes.put_u8(part);
            bytes.put_u32(number);
            bytes.put_slice(rest);
            bytes.freeze()
        };
        if head.is_udp && self.in_time.has_begun() {
            let frame = datagram(WHOLE, packet);
            let Self {
                connection, loads, ..
            } = self;
            if self.in_time.send_packet(connection, loads, flow(), &frame) {
                return;
            }
        }
        let room = self.connection.max_datagram_size().unwrap_or(0);
        // One that cannot be sent is lost, as packets are.
        if packet.len() + HEAD <= room {
            let is_copied = packet.len() <= SMALL && self.copies.takes(packet.len());
            let options = if is_copied {
                options.all_paths()
            } else {
                options
            };
            let sent = datagram(WHOLE, packet);
            let _ = self.connection.send_datagram_with(sent, options);
        } else {
            let (first, second) = packet.split_at(packet.len().div_ceil(2));
            for (part, half) in [(FIRST, first), (SECOND, second)] {
                let sent = datagram(part, half);
                let _ = self.connection.send_datagram_with(sent, options);
            }
        }
    }

    /// Takes a datagram of the other end, with its mark.
    pub(crate) fn arrived(&self, datagram: Bytes) {
        let mut arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        let packet = arrived.packet(datagram);
        drop(arrived);
        if let Some(packet) = packet {
            (self.sink)(&packet);
        }
    }

    /// Serves a lane on its stream until that ends. At most once for each.
    pub(crate) async fn serve_lane(&self, number: usize, send: SendStream, recv: RecvStream) {
        let Some(lane) = self.lanes.get(number) else {
            return;
        };
        let waits = lane
            .waits
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(waits) = waits else { return };
        let mut is_over = self.is_over.subscribe();
        tokio::select! {
            _ = is_over.wait_for(|is_over| *is_over) => {}
            _ = self.outward(send, waits) => {}
            _ = self.inward(recv) => {}
        }
    }

    async fn outward(
        &self,
        mut send: SendStream,
        mut waits: mpsc::Receiver<Waiting>,
    ) -> Option<()> {
        let mut codel = CoDel::default();
        loop {
            let mut next = Some(waits.recv().await?);
            let now = Instant::now();
            let mut piece = BytesMut::new();
            while let Some((since, packet)) = next {
                self.waiting.fetch_sub(packet.len(), Ordering::Relaxed);
                if !codel.drops(now.saturating_duration_since(since), now) {
                    // The device has no larger ones.
                    piece.put_u16(packet.len() as u16);
                    piece.put_slice(&packet);
                }
                next = match piece.len() < PIECE {
                    true => waits.try_recv().ok(),
                    false => None,
                };
            }
            if !piece.is_empty() {
                send.write_chunk(piece.freeze()).await.ok()?;
            }
        }
    }

    async fn inward(&self, mut recv: RecvStream) -> Option<()> {
        let mut rest = BytesMut::new();
        loop {
            // Whole packets of what came are handed on where they are.
            let mut chunk = recv.read_chunk(PIECE).await.ok()??;
            if !rest.is_empty() {
                rest.extend_from_slice(&chunk);
                chunk = std::mem::take(&mut rest).freeze();
            }
            while let Some(head) = chunk.first_chunk::<2>() {
                let len = usize::from(u16::from_be_bytes(*head));
                if chunk.len() < 2 + len {
                    break;
                }
                chunk.advance(2);
                let packet = chunk.split_to(len);
                (self.sink)(&packet);
            }
            rest.extend_from_slice(&chunk);
        }
    }
}

/// What came in datagrams: copies, and halves that wait.
#[derive(Debug, Default)]
struct Arrived {
    newest: Option<u32>,
    /// Which of the numbers before it came: as a ring.
    seen: Vec<u64>,
    halves: VecDeque<(u32, u8, Bytes)>,
}

impl Arrived {
    /// The packet that is whole with this datagram.
    fn packet(&mut self, mut datagram: Bytes) -> Option<Bytes> {
        if datagram.len() < HEAD {
            return None;
        }
        datagram.advance(MARK.len());
        let (part, number) = (datagram.get_u8(), datagram.get_u32());
        match part {
            WHOLE => self.is_new(number).then_some(datagram),
            FIRST | SECOND => {
                let is_other = |(other, of, _): &(u32, u8, Bytes)| *other == number && *of != part;
                let Some(at) = self.halves.iter().position(is_other) else {
                    if self.halves.len() == HALVES {
                        self.halves.pop_front();
                    }
                    self.halves.push_back((number, part, datagram));
                    return None;
                };
                let (_, _, other) = self.halves.remove(at)?;
                let (first, second) = match part {
                    FIRST => (datagram, other),
                    _ => (other, datagram),
                };
                Some([first, second].concat().into())
            }
            _ => None,
        }
    }

    /// Whether a number comes for the first time, as far as is known.
    fn is_new(&mut self, number: u32) -> bool {
        self.seen.resize(WINDOW as usize / 64, 0);
        let newest = *self.newest.get_or_insert_with(|| number.wrapping_sub(1));
        let ahead = number.wrapping_sub(newest);
        if ahead != 0 && ahead < u32::MAX / 2 {
            for skipped in 0..ahead.min(WINDOW) {
                let (word, bit) = place(number.wrapping_sub(skipped));
                self.seen[word] &= !bit;
            }
            self.newest = Some(number);
        } else if newest.wrapping_sub(number) >= WINDOW {
            return false;
        }
        let (word, bit) = place(number);
        let is_new = self.seen[word] & bit == 0;
        self.seen[word] |= bit;
        is_new
    }
}

const fn place(number: u32) -> (usize, u64) {
    let at = number % WINDOW;
    (at as usize / 64, 1 << (at % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram(part: u8, number: u32, rest: &[u8]) -> Bytes {
        [&MARK[..], &[part], &number.to_be_bytes(), rest]
            .concat()
            .into()
    }

    #[test]
    fn copies_are_dropped_and_what_is_late_is_not() {
        let mut arrived = Arrived::default();
        for start in [0, u32::MAX - 5] {
            let mut arrived = Arrived::default();
            for number in 0..2000 {
                let number = u32::wrapping_add(start, number);
                assert!(
                    arrived.is_new(number) && !arrived.is_new(number),
                    "{number}"
                );
            }
        }
        for number in [10, 12, 11, 900, 500] {
            assert!(arrived.is_new(number));
        }
        for number in [10, 12, 11, 900, 500] {
            assert!(!arrived.is_new(number));
        }
        assert!(arrived.is_new(5000));
        // Too old to be known.
        assert!(!arrived.is_new(3976) && arrived.is_new(3977));
    }

    #[test]
    fn halves_become_whole_in_any_order() {
        let mut arrived = Arrived::default();
        assert_eq!(
            arrived.packet(datagram(WHOLE, 1, b"abc")),
            Some("abc".into())
        );
        assert_eq!(arrived.packet(datagram(SECOND, 2, b"def")), None);
        assert_eq!(arrived.packet(datagram(SECOND, 2, b"def")), None);
        assert_eq!(
            arrived.packet(datagram(FIRST, 2, b"abc")),
            Some("abcdef".into())
        );
        for number in 3..500 {
            assert_eq!(arrived.packet(datagram(FIRST, number, b"x")), None);
        }
        assert!(arrived.halves.len() <= HALVES);
        for bytes in [&b""[..], &MARK, b"\xff\xff\xff\xff\x09\0\0\0\0x"] {
            assert_eq!(arrived.packet(Bytes::copy_from_slice(bytes)), None);
        }
    }
}
