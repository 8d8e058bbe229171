//! The Initial and the Handshake packet number space, and the loss probes that are to be sent in them.

use rand::rngs::StdRng;

use crate::space::{PacketSpace, SpaceId};

/// The packet number spaces of the handshake, each until its keys are dropped (RFC 9001 section 4.9).
pub(crate) struct HandshakeSpaces {
    /// Boxed: a connection is without them for most of its life.
    spaces: [Option<Box<PacketSpace>>; 2],
    /// Loss probes to be sent.
    probes: [u8; 2],
    /// How often the client's Finished was asked for.
    asked: u8,
}

impl HandshakeSpaces {
    pub(crate) fn new(rng: &mut StdRng) -> Self {
        let initial = PacketSpace::new(rng);
        let handshake = PacketSpace::new(rng);
        Self {
            spaces: [Some(Box::new(initial)), Some(Box::new(handshake))],
            probes: [0; 2],
            asked: 0,
        }
    }

    const fn slot(space_id: SpaceId) -> Option<usize> {
        match space_id {
            SpaceId::Initial => Some(0),
            SpaceId::Handshake => Some(1),
            SpaceId::Data => None,
        }
    }

    pub(crate) fn get(&self, space_id: SpaceId) -> Option<&PacketSpace> {
        self.spaces[Self::slot(space_id)?].as_deref()
    }

    pub(crate) fn get_mut(&mut self, space_id: SpaceId) -> Option<&mut PacketSpace> {
        self.spaces[Self::slot(space_id)?].as_deref_mut()
    }

    /// The spaces whose keys are still there.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &PacketSpace> {
        self.spaces.iter().flatten().map(|space| &**space)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// The keys were dropped; true if the space was there until now.
    pub(crate) fn discard(&mut self, space_id: SpaceId) -> bool {
        let Some(slot) = Self::slot(space_id) else {
            return false;
        };
        self.probes[slot] = 0;
        self.spaces[slot].take().is_some()
    }

    /// Packets were acknowledged: no probe is needed.
    pub(crate) fn on_acked(&mut self, space_id: SpaceId) {
        self.request_probes(space_id, 0);
    }

    /// So many loss probes are to be sent (RFC 9002 section 6.2.4).
    pub(crate) fn request_probes(&mut self, space_id: SpaceId, count: u8) {
        if let Some(slot) = Self::slot(space_id) {
            self.probes[slot] = count;
        }
    }

    /// How often the client's Finished was asked for.
    pub(crate) fn asked(&self) -> u32 {
        u32::from(self.asked)
    }

    /// The client's Finished is to be asked for, with a PING and an acknowledgement of all that came: that tells the
    /// client what was lost, if what came after it asked for none.
    pub(crate) fn ask_for_finished(&mut self) {
        self.asked = self.asked.saturating_add(1);
        self.request_probes(SpaceId::Handshake, 1);
        if let Some(space) = self.get_mut(SpaceId::Handshake) {
            space.acks.add_to_next();
        }
    }

    /// Whether loss probes are to be sent in a space.
    pub(crate) fn wants_probe(&self, space_id: SpaceId) -> bool {
        Self::slot(space_id).is_some_and(|slot| self.probes[slot] > 0)
    }

    /// Whether loss probes are to be sent in any of them.
    pub(crate) fn has_probes(&self) -> bool {
        self.probes != [0; 2]
    }

    /// A packet of a space leaves: if a probe was due, the packet is it.
    pub(crate) fn take_probe(&mut self, space_id: SpaceId) -> bool {
        let due = self.wants_probe(space_id);
        if due && let Some(slot) = Self::slot(space_id) {
            self.probes[slot] -= 1;
        }
        due
    }

    /// Bytes in flight over both.
    pub(crate) fn bytes_in_flight(&self) -> u64 {
        self.iter().map(PacketSpace::bytes_in_flight).sum()
    }
}
