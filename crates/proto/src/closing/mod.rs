//! The life of a connection and its end (RFC 9000 section 10): the states, who is to be told, why it ended, what remains.

mod frame;
mod idle;
mod remains;

use std::time::{Duration, Instant};

use mpquic_sched_core::{PathIndex, PathSet};

pub(crate) use frame::CloseFrame;
pub(crate) use idle::IdleTimer;
pub use remains::Remains;

use crate::ConnectionError;
use crate::recovery::RttEstimator;

/// Where the connection stands.
pub(crate) struct State {
    life: Life,
    /// CONNECTION_CLOSE is to be sent on the paths of these slots.
    due: PathSet,
    /// When it was sent last.
    sent: Option<Instant>,
    /// That datagram, if there was but one path to send it on.
    last: Box<[u8]>,
    /// Packets that came since the connection was closed.
    received: u64,
    lost_reason: Option<ConnectionError>,
}

enum Life {
    /// TLS is under way.
    Handshaking,
    /// TLS is complete.
    Established,
    /// We closed: CONNECTION_CLOSE is repeated to a peer that goes on sending.
    Closing { close: CloseFrame, until: Instant },
    /// The peer closed, or reset: nothing is sent.
    Draining { until: Instant },
    /// Over.
    Drained,
}

impl State {
    pub(crate) fn new() -> Self {
        Self {
            life: Life::Handshaking,
            due: PathSet::EMPTY,
            sent: None,
            last: Box::default(),
            received: 0,
            lost_reason: None,
        }
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        matches!(self.life, Life::Handshaking)
    }

    pub(crate) fn is_established(&self) -> bool {
        matches!(self.life, Life::Established)
    }

    /// Neither closing nor beyond.
    pub(crate) fn is_alive(&self) -> bool {
        matches!(self.life, Life::Handshaking | Life::Established)
    }

    pub(crate) fn is_closing(&self) -> bool {
        matches!(self.life, Life::Closing { .. })
    }

    pub(crate) fn is_drained(&self) -> bool {
        matches!(self.life, Life::Drained)
    }

    /// When the closing or draining period is over.
    pub(crate) fn timer(&self) -> Option<Instant> {
        match self.life {
            Life::Closing { until, .. } | Life::Draining { until } => Some(until),
            _ => None,
        }
    }

    pub(crate) fn close_frame(&self) -> Option<&CloseFrame> {
        match &self.life {
            Life::Closing { close, .. } => Some(close),
            _ => None,
        }
    }

    /// Why the connection ended, if it has.
    pub(crate) fn lost_reason(&self) -> Option<&ConnectionError> {
        self.lost_reason.as_ref()
    }

    /// This is why the connection ended.
    pub(crate) fn set_lost_reason(&mut self, reason: ConnectionError) {
        self.lost_reason = Some(reason);
    }

    pub(crate) fn establish(&mut self) {
        if self.is_handshaking() {
            self.life = Life::Established;
        }
    }

    /// RFC 9000 section 10.2.1: the peer is told on the paths of these slots. No effect unless alive.
    pub(crate) fn close(&mut self, close: CloseFrame, until: Instant, due: PathSet) {
        if self.is_alive() {
            self.lost_reason = Some(close.reason());
            self.life = Life::Closing { close, until };
            self.due = due;
        }
    }

    /// RFC 9000 section 10.2.2: also from closing, when the peer's close arrives. Returns whether the connection was alive.
    pub(crate) fn drain(&mut self, until: Instant, reason: &ConnectionError) -> bool {
        let was_alive = self.is_alive();
        if was_alive {
            self.lost_reason = Some(reason.clone());
        }
        match self.life {
            Life::Handshaking | Life::Established => self.life = Life::Draining { until },
            Life::Closing { until, .. } => self.life = Life::Draining { until },
            Life::Draining { .. } | Life::Drained => {}
        }
        //= specs/rfc9000.txt#section-10.2.2
        //# While otherwise identical to the closing state, an endpoint in the draining state MUST
        //# NOT send any packets.
        //= specs/rfc9000.txt#section-10.2.2
        //# An endpoint MUST NOT send further packets.
        self.due = PathSet::EMPTY;
        was_alive
    }

    /// Over at once; true if it was not before.
    pub(crate) fn end(&mut self) -> bool {
        let was = !self.is_drained();
        self.life = Life::Drained;
        was
    }

    /// We closed, and the peer was told on each path.
    pub(crate) fn is_told(&self) -> bool {
        self.is_closing() && self.due.is_empty()
    }

    /// Takes the slot of the next path on which CONNECTION_CLOSE is to be sent.
    pub(crate) fn take_due(&mut self) -> Option<PathIndex> {
        let index = self.due.iter().next()?;
        self.due.remove(index);
        Some(index)
    }

    /// A datagram with CONNECTION_CLOSE leaves; `only`: what it is, if there is but one path.
    pub(crate) fn on_close_sent(&mut self, now: Instant, only: Option<&[u8]>) {
        self.sent = Some(now);
        if let Some(datagram) = only {
            self.last = datagram.into();
        }
    }

    /// A packet came while closing: answer it, ever more rarely (RFC 9000 section 10.2.1).
    pub(crate) fn on_packet_while_closing(&mut self, path: PathIndex) {
        self.received += 1;
        //= specs/rfc9000.txt#section-10.2.1
        //# An endpoint SHOULD limit the rate at which it generates packets in the closing state.
        //= specs/rfc9000.txt#section-11.1
        //# An endpoint SHOULD be prepared to retransmit a packet containing a CONNECTION_CLOSE
        //# frame if it receives more packets on a terminated connection.
        if self.received.is_power_of_two() {
            self.due.insert(path);
        }
    }

    /// What is enough to keep of the connection. `only`: the round trip of the one path, if there is but one; `idle_since`:
    /// when something was last received. `None` if it is not that far.
    pub(crate) fn remains(
        &mut self,
        idle_since: Instant,
        only: Option<&RttEstimator>,
    ) -> Option<Remains> {
        let until = self.timer()?;
        if !self.due.is_empty() {
            return None;
        }
        let mut remains = Remains {
            until,
            close: Box::default(),
            sent: idle_since,
            round_trip: Duration::ZERO,
            received: self.received,
        };
        if self.is_closing() {
            let rtt = only?;
            if self.last.is_empty() {
                return None;
            }
            remains.sent = self.sent?;
            if rtt.has_sample() {
                remains.round_trip = rtt.smoothed();
            }
            remains.close = std::mem::take(&mut self.last);
        }
        Some(remains)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TransportError;

    fn slot(index: usize) -> PathIndex {
        PathIndex::new(index).unwrap()
    }

    fn closing(now: Instant, slots: &[usize]) -> State {
        let mut state = State::new();
        state.establish();
        let error = TransportError::internal("out of memory");
        let due = slots.iter().map(|index| slot(*index)).collect();
        state.close(CloseFrame::Transport(error), now, due);
        state
    }

    #[test]
    fn the_peer_is_told_on_each_path_and_then_ever_more_rarely() {
        let mut state = closing(Instant::now(), &[0, 2]);
        assert!(!state.is_told());
        assert_eq!(state.take_due(), Some(slot(0)));
        assert_eq!(state.take_due(), Some(slot(2)));
        assert_eq!(state.take_due(), None);
        assert!(state.is_told());
        let answered: Vec<_> = (1..=16)
            .filter(|_| {
                state.on_packet_while_closing(slot(2));
                state.take_due().is_some()
            })
            .collect();
        assert_eq!(answered, [1, 2, 4, 8, 16]);
    }

    #[test]
    fn a_close_of_the_peer_silences_a_closing_connection_until_the_same_time() {
        let now = Instant::now();
        let mut state = closing(now, &[0]);
        let reason = state.lost_reason().cloned();
        assert!(matches!(reason, Some(ConnectionError::TransportError(_))));
        let later = now + Duration::from_secs(1);
        assert!(!state.drain(later, &ConnectionError::Reset));
        assert_eq!(state.take_due(), None);
        assert_eq!(state.timer(), Some(now));
        assert_eq!(state.lost_reason(), reason.as_ref());
        assert!(state.end());
        assert!(!state.end());
        assert_eq!(state.timer(), None);
    }

    #[test]
    fn a_closed_connection_leaves_its_last_datagram_once_it_is_sent() {
        let now = Instant::now();
        let rtt = RttEstimator::new(Duration::from_millis(100));
        let mut state = closing(now, &[0]);
        assert!(state.remains(now, Some(&rtt)).is_none(), "it is still due");
        state.take_due();
        assert!(state.remains(now, Some(&rtt)).is_none(), "it was not sent");
        state.on_close_sent(now, Some(&[1; 40]));
        assert!(state.remains(now, None).is_none(), "there are two paths");
        let remains = state.remains(now, Some(&rtt)).unwrap();
        assert_eq!((remains.close.len(), remains.sent), (40, now));
        assert_eq!(remains.round_trip, Duration::ZERO, "no sample");
    }

    #[test]
    fn a_draining_connection_leaves_nothing_to_say() {
        let now = Instant::now();
        let mut state = State::new();
        assert!(state.remains(now, None).is_none(), "it is alive");
        assert!(state.drain(now, &ConnectionError::Reset));
        assert_eq!(state.lost_reason(), Some(&ConnectionError::Reset));
        assert!(state.remains(now, None).unwrap().close.is_empty());
    }
}
