//! Packets that came before their keys (RFC 9001 section 5.7), bounded.

use std::time::Instant;

use bytes::BytesMut;
use mpquic_sched_core::EcnCodepoint;

use crate::events::DatagramMeta;
use crate::space::SpaceId;
use crate::{FourTuple, PathId, limits};

/// One packet, headers still protected.
#[derive(Debug)]
pub(crate) struct Buffered {
    /// The level whose TLS messages bring the keys: of 0-RTT packets Initial, as the ClientHello does.
    pub(crate) space_id: SpaceId,
    /// When it came.
    pub(crate) received: Instant,
    pub(crate) network_path: FourTuple,
    pub(crate) ecn: Option<EcnCodepoint>,
    /// The path that its connection ID belongs to.
    pub(crate) path: PathId,
    pub(crate) packet: BytesMut,
}

/// The packets kept.
#[derive(Debug, Default)]
pub(crate) struct Undecryptable {
    packets: Vec<Buffered>,
    /// Of the packets of the path that carries the handshake.
    bytes: usize,
}

impl Undecryptable {
    /// Keeps a packet, unless too many or too large ones are kept already.
    //= specs/rfc9001.txt#section-4.1.4
    //# While waiting for TLS processing to complete, an endpoint SHOULD buffer received packets if
    //# they might be processed using keys that are not yet available.
    pub(crate) fn push(
        &mut self,
        space_id: SpaceId,
        path: PathId,
        arrival: &DatagramMeta,
        packet: &[u8],
    ) {
        let kept = self.count(path);
        let fits = if path == PathId::ZERO {
            let bytes = self.bytes + packet.len();
            kept < limits::MAX_UNDECRYPTABLE_PACKETS && bytes <= limits::MAX_UNDECRYPTABLE_BYTES
        } else {
            // What opens a path may overtake the Finished, and must not lose its place to data that did, too.
            kept < limits::MAX_UNDECRYPTABLE_PER_FURTHER_PATH
                && packet.len() <= limits::MAX_UNDECRYPTABLE_FURTHER_PACKET
                && path.0 <= limits::MAX_PATH_IDS_ISSUED_EARLY
        };
        if fits {
            if path == PathId::ZERO {
                self.bytes += packet.len();
            }
            self.packets.push(Buffered {
                path,
                space_id,
                received: arrival.received,
                network_path: arrival.tuple,
                ecn: arrival.ecn,
                // A copy: the buffer that it came in may be large and shared.
                packet: BytesMut::from(packet),
            });
        }
    }

    /// Takes out the packets of a level, oldest first.
    pub(crate) fn take(&mut self, space_id: SpaceId) -> Vec<Buffered> {
        let (taken, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut self.packets)
            .into_iter()
            .partition(|packet| packet.space_id == space_id);
        self.packets = kept;
        let first = self.packets.iter().filter(|kept| kept.path == PathId::ZERO);
        self.bytes = first.map(|kept| kept.packet.len()).sum();
        taken
    }

    /// Memory of the packets kept.
    pub(crate) fn memory(&self) -> usize {
        self.packets.iter().map(|kept| kept.packet.capacity()).sum()
    }

    /// Forgets them all: the connection ended.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// How many packets of a path are kept.
    fn count(&self, path: PathId) -> usize {
        self.packets.iter().filter(|kept| kept.path == path).count()
    }

    /// How many packets are kept.
    pub(crate) fn len(&self) -> usize {
        self.packets.len()
    }

    /// Their bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.packets.iter().map(|kept| kept.packet.len()).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounded_by_packets_and_by_bytes() {
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
        let now = Instant::now();
        let arrival = DatagramMeta {
            now,
            received: now,
            tuple: FourTuple {
                local: address,
                remote: address,
            },
            ecn: None,
            bytes: 0,
        };
        for (size, most) in [
            (50, limits::MAX_UNDECRYPTABLE_PACKETS),
            (65_000, 0),
            (9000, limits::MAX_UNDECRYPTABLE_BYTES / 9000),
        ] {
            let mut kept = Undecryptable::default();
            for _ in 0..100 {
                kept.push(SpaceId::Data, PathId::ZERO, &arrival, &vec![1; size]);
            }
            assert_eq!((kept.len(), kept.bytes()), (most, most * size));
            let memory: usize = kept.packets.iter().map(|p| p.packet.capacity()).sum();
            assert!(memory <= limits::MAX_UNDECRYPTABLE_BYTES, "{memory} bytes");
            kept.push(SpaceId::Handshake, PathId::ZERO, &arrival, &[1; 10]);
            kept.take(SpaceId::Data);
            assert!(kept.bytes() <= 10);
            kept.clear();
            assert!(kept.is_empty() && kept.bytes() == 0);
        }
    }

    #[test]
    fn further_paths_have_places_of_their_own() {
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
        let now = Instant::now();
        let arrival = DatagramMeta {
            now,
            received: now,
            tuple: FourTuple {
                local: address,
                remote: address,
            },
            ecn: None,
            bytes: 0,
        };
        let mut kept = Undecryptable::default();
        let first = limits::MAX_UNDECRYPTABLE_PACKETS;
        for _ in 0..100 {
            kept.push(SpaceId::Data, PathId::ZERO, &arrival, &[1; 1500]);
        }
        assert_eq!(kept.len(), first);
        let (early, each) = (
            limits::MAX_PATH_IDS_ISSUED_EARLY,
            limits::MAX_UNDECRYPTABLE_PER_FURTHER_PATH,
        );
        for path in 1..=early + 5 {
            kept.push(SpaceId::Data, PathId(path), &arrival, &vec![1; 9000]);
            for _ in 0..100 {
                kept.push(SpaceId::Data, PathId(path), &arrival, &[1; 1500]);
            }
        }
        assert_eq!(kept.len(), first + early as usize * each);
        assert_eq!(kept.memory(), kept.bytes());
        assert_eq!(
            kept.take(SpaceId::Data).len(),
            first + early as usize * each
        );
        assert!(kept.is_empty() && kept.bytes() == 0);
        kept.push(SpaceId::Data, PathId(1), &arrival, &[1; 1500]);
        assert_eq!(kept.len(), 1);
    }
}
