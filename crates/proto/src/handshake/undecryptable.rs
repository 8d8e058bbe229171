//! Packets that came before their keys (RFC 9001 section 5.7), bounded; decrypts nothing.

use std::time::Instant;

use bytes::BytesMut;
use mpquic_sched_core::EcnCodepoint;

use crate::receive::DatagramMeta;
use crate::space::SpaceId;
use crate::{FourTuple, limits};

/// One packet, headers still protected.
#[derive(Debug)]
pub(crate) struct Buffered {
    /// The level whose TLS messages bring the keys: of 0-RTT packets Initial, as the ClientHello does.
    pub(crate) space_id: SpaceId,
    /// When it came.
    pub(crate) received: Instant,
    pub(crate) network_path: FourTuple,
    pub(crate) ecn: Option<EcnCodepoint>,
    pub(crate) packet: BytesMut,
}

/// The packets kept.
#[derive(Debug, Default)]
pub(crate) struct Undecryptable {
    packets: Vec<Buffered>,
    /// Of the packets.
    bytes: usize,
}

impl Undecryptable {
    /// Keeps a packet, unless too many or too large ones are kept already.
    //= specs/rfc9001.txt#section-4.1.4
    //# While waiting for TLS processing to complete, an endpoint SHOULD buffer received packets if
    //# they might be processed using keys that are not yet available.
    pub(crate) fn push(&mut self, space_id: SpaceId, arrival: &DatagramMeta, packet: &[u8]) {
        let bytes = self.bytes + packet.len();
        if self.packets.len() < limits::MAX_UNDECRYPTABLE_PACKETS
            && bytes <= limits::MAX_UNDECRYPTABLE_BYTES
        {
            self.bytes = bytes;
            self.packets.push(Buffered {
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
        self.bytes = self.packets.iter().map(|packet| packet.packet.len()).sum();
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

    /// How many packets are kept.
    pub(crate) fn len(&self) -> usize {
        self.packets.len()
    }

    /// Their bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
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
                kept.push(SpaceId::Data, &arrival, &vec![1; size]);
            }
            assert_eq!((kept.len(), kept.bytes()), (most, most * size));
            let memory: usize = kept.packets.iter().map(|p| p.packet.capacity()).sum();
            assert!(memory <= limits::MAX_UNDECRYPTABLE_BYTES, "{memory} bytes");
            kept.push(SpaceId::Handshake, &arrival, &[1; 10]);
            kept.take(SpaceId::Data);
            assert!(kept.bytes() <= 10);
            kept.clear();
            assert!(kept.is_empty() && kept.bytes() == 0);
        }
    }
}
