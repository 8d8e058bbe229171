//! The ACK_FREQUENCY frame (QUIC Acknowledgment Frequency).

use super::decode::Malformed;
use super::types;
use crate::packet::varint::{self, Reader};

/// ACK_FREQUENCY: what the sender of data asks of the acknowledgements that it gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckFrequencyFrame {
    /// Sequence Number: of two frames, the larger counts.
    pub sequence: u64,
    /// Ack-eliciting packets that may wait for an acknowledgement.
    pub ack_eliciting_threshold: u64,
    /// Requested Max Ack Delay, microseconds.
    pub max_ack_delay: u64,
    /// Reordering Threshold, in packets.
    pub reordering_threshold: u64,
}

impl AckFrequencyFrame {
    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            sequence: r.varint()?,
            ack_eliciting_threshold: r.varint()?,
            max_ack_delay: r.varint()?,
            reordering_threshold: r.varint()?,
        })
    }

    const fn fields(&self) -> [u64; 5] {
        [
            types::ACK_FREQUENCY,
            self.sequence,
            self.ack_eliciting_threshold,
            self.max_ack_delay,
            self.reordering_threshold,
        ]
    }

    pub(super) fn encode(&self, buf: &mut Vec<u8>) {
        for field in self.fields() {
            varint::put(buf, field);
        }
    }

    pub(super) fn size(&self) -> usize {
        self.fields().iter().map(|&field| varint::size(field)).sum()
    }
}
