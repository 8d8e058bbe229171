//! What a packet is to be, before it is opened.

use mpquic_sched_core::{EcnCodepoint, PathIndex};

use crate::path::Addresses;
use crate::space::{PacketOrigin, SpaceId};

/// What a packet is to be, beside its frames.
#[derive(Debug, Clone, Copy)]
pub(super) struct PacketSpec {
    /// The path that carries it.
    pub(super) path: PathIndex,
    /// Which of the path's addresses it goes to.
    pub(super) to: Addresses,
    pub(super) space: SpaceId,
    /// Where the datagram must end: an index into the buffer. `None`: as large as the path takes.
    pub(super) end: Option<usize>,
    /// Rounds the maximum payload down to a multiple of this many bytes: see `EndpointConfig::cipher_block`.
    pub(super) block: u16,
    /// Where it must end at least: an index into the buffer, tag included; 0 for no padding.
    pub(super) pad_to: usize,
    /// The mark of its datagram's IP header.
    pub(super) ecn: Option<EcnCodepoint>,
    pub(super) origin: PacketOrigin,
}

impl PacketSpec {
    /// A 1-RTT packet that a path sends by itself, as large as the path takes.
    pub(super) const fn unscheduled(path: PathIndex) -> Self {
        Self {
            path,
            to: Addresses::Current,
            space: SpaceId::Data,
            end: None,
            block: 1,
            pad_to: 0,
            ecn: None,
            origin: PacketOrigin::Unscheduled,
        }
    }
}
