//! Packets that came before their keys (RFC 9001 section 5.7), bounded; decrypts nothing.

use bytes::BytesMut;
use mpquic_sched_core::EcnCodepoint;

use crate::space::SpaceId;
use crate::{FourTuple, limits};

/// One packet, headers still protected.
#[derive(Debug)]
pub(crate) struct Buffered {
    pub(crate) space_id: SpaceId,
    pub(crate) network_path: FourTuple,
    pub(crate) ecn: Option<EcnCodepoint>,
    pub(crate) packet: BytesMut,
}

/// The packets kept.
#[derive(Debug, Default)]
pub(crate) struct Undecryptable(Vec<Buffered>);

impl Undecryptable {
    /// Keeps a packet, unless too many are kept already.
    //= specs/rfc9001.txt#section-4.1.4
    //# While waiting for TLS processing to complete, an endpoint SHOULD buffer received packets if
    //# they might be processed using keys that are not yet available.
    pub(crate) fn push(&mut self, packet: Buffered) {
        if self.0.len() < limits::MAX_UNDECRYPTABLE_PACKETS {
            self.0.push(packet);
        }
    }

    /// Takes out the packets of a level, oldest first.
    pub(crate) fn take(&mut self, space_id: SpaceId) -> Vec<Buffered> {
        let (taken, kept) = std::mem::take(&mut self.0)
            .into_iter()
            .partition(|packet| packet.space_id == space_id);
        self.0 = kept;
        taken
    }

    /// Memory of the packets kept.
    pub(crate) fn memory(&self) -> usize {
        self.0.iter().map(|kept| kept.packet.capacity()).sum()
    }

    /// How many packets are kept.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
