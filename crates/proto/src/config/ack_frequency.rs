//! How often the peer is asked to acknowledge (QUIC Acknowledgment Frequency).

use std::time::Duration;

use mpquic_sched_core::VarInt;

/// What to ask of the acknowledgements that the peer sends, if it speaks the extension QUIC Acknowledgment
/// Frequency: fewer of them save work at both ends, and room on paths that are narrow in the direction of the
/// acknowledgements.
///
/// The request follows what is sent: the peer is asked for about eight acknowledgements per round trip of the packets that a
/// path delivered in its last one, and for a delay of an eighth of the shortest RTT of the paths at most. During slow start,
/// and while a path delivers fewer than sixteen packets per round trip, acknowledgements come as without the extension. Of a path that
/// lost packets within half a minute, no acknowledgement lets go more than a twelfth of what waited in its queue then. What ends
/// a burst, so that nothing follows for now, is acknowledged at once. The request holds for each path by itself.
///
/// ```
/// use mpquic_proto::{AckFrequencyConfig, TransportConfig};
///
/// let mut ack_frequency = AckFrequencyConfig::default();
/// ack_frequency.ack_eliciting_threshold(20u32.into());
/// let mut config = TransportConfig::default();
/// config.ack_frequency_config(Some(ack_frequency));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckFrequencyConfig {
    pub(crate) ack_eliciting_threshold: u64,
    pub(crate) max_ack_delay: Option<Duration>,
    pub(crate) reordering_threshold: u64,
    /// Nobody asked for it: only where it costs nothing.
    pub(crate) careful: bool,
}

impl AckFrequencyConfig {
    /// What is asked for if an application says nothing.
    pub(crate) fn careful() -> Self {
        Self {
            careful: true,
            ..Self::default()
        }
    }

    /// How many ack-eliciting packets the peer may receive without acknowledging them, at most; 0 asks for an
    /// acknowledgement of each packet. Without the extension it is 1. Default 64.
    pub fn ack_eliciting_threshold(&mut self, packets: VarInt) -> &mut Self {
        self.ack_eliciting_threshold = packets.into();
        self
    }

    /// How long the peer may wait before it acknowledges what it received, at most. A time that the peer
    /// refuses becomes the nearest one that it takes: 0 is the shortest that it offers, more than 2^14 ms counts as that.
    /// Default `None`: what the peer announced, 25 ms with most.
    pub fn max_ack_delay(&mut self, delay: Option<Duration>) -> &mut Self {
        self.max_ack_delay = delay.map(|delay| delay.min(Duration::from_millis(1 << 14)));
        self
    }

    /// How far packets may arrive out of order before the peer acknowledges at once; 0 asks it never to do so
    /// for that reason. Without the extension it is 1. Default 3, which is when packets are declared lost.
    pub fn reordering_threshold(&mut self, packets: VarInt) -> &mut Self {
        self.reordering_threshold = packets.into();
        self
    }
}

impl Default for AckFrequencyConfig {
    fn default() -> Self {
        Self {
            ack_eliciting_threshold: 64,
            max_ack_delay: None,
            reordering_threshold: crate::recovery::PACKET_THRESHOLD,
            careful: false,
        }
    }
}
