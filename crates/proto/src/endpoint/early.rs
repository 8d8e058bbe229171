//! 0-RTT packets that came before the Initial packet of their connection (RFC 9000 section 5.2.2): few are kept, for a
//! moment; opens nothing.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use mpquic_sched_core::ConnectionId;

use super::admission::FirstPacket;
use crate::events::ConnectionEvent;
use crate::{FourTuple, limits};

/// An Initial packet that was overtaken comes within this time, or was lost.
const PATIENCE: Duration = Duration::from_millis(100);

/// The datagrams kept, oldest first. Their number is small, so that it costs nothing to look through them.
#[derive(Debug, Default)]
pub(super) struct Early(VecDeque<(ConnectionId, ConnectionEvent)>);

impl Early {
    /// Keeps a datagram for the connection that a client will ask for with this ID; the oldest makes room.
    //= specs/rfc9000.txt#section-5.2.2
    //# If the packet is a 0-RTT packet, the server MAY buffer a limited number of these packets in
    //# anticipation of a late-arriving Initial packet.
    pub(super) fn keep(&mut self, packet: &FirstPacket<'_>) {
        if packet.datagram.len() > limits::MAX_EARLY_DATAGRAM {
            return;
        }
        self.expire(packet.now);
        if self.0.len() >= limits::MAX_EARLY_DATAGRAMS {
            self.0.pop_front();
        }
        let event = ConnectionEvent::single(
            packet.now,
            packet.network_path,
            packet.ecn,
            BytesMut::from(packet.datagram),
        );
        self.0.push_back((ConnectionId::new(packet.dcid), event));
    }

    /// The Initial packet is here: hands out what came before it, from the same address.
    pub(super) fn take(
        &mut self,
        now: Instant,
        dcid: &ConnectionId,
        network_path: &FourTuple,
    ) -> Vec<ConnectionEvent> {
        if self.0.is_empty() {
            return Vec::new();
        }
        self.expire(now);
        let mut taken = Vec::new();
        let kept = std::mem::take(&mut self.0).into_iter();
        self.0 = kept
            .filter_map(|(id, event)| {
                if id == *dcid && event.network_path == *network_path {
                    taken.push(event);
                    None
                } else {
                    Some((id, event))
                }
            })
            .collect();
        taken
    }

    fn expire(&mut self, now: Instant) {
        while let Some((_, oldest)) = self.0.front()
            && now.saturating_duration_since(oldest.now) > PATIENCE
        {
            self.0.pop_front();
        }
    }

    /// What is kept.
    pub(super) fn bytes(&self) -> usize {
        self.0.iter().map(|(_, event)| 256 + event.size()).sum()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
