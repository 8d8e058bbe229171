//! Acknowledgements that came, and time that passed: which path they are about, and what they settle of its packets.

use std::time::{Duration, Instant};

use mpquic_sched_core::{PathIndex, Side};
use mpquic_wire::frame::AckFrame;

use super::timers::PathTimeout;
use super::{PathState, Paths, TimerFacts};
use crate::recovery::earlier;
use crate::space::{PacketSpace, SentPacket, SpaceId};
use crate::{PathId, TransportError};

/// Packets that an ACK frame or the passing of time has settled. Kept for their allocations.
#[derive(Default)]
pub(crate) struct SettledPackets {
    pub(crate) acked: Vec<(u64, SentPacket)>,
    pub(crate) lost: Vec<(u64, SentPacket)>,
}

/// An ACK frame, and what the connection knows of it.
pub(crate) struct ReceivedAck<'a, 'b> {
    pub(crate) frame: &'a AckFrame<'b>,
    /// The packet number space whose packets it acknowledges.
    pub(crate) space: SpaceId,
    /// The ACK Delay to take off the RTT sample (RFC 9002 section 5.3).
    pub(crate) delay: Duration,
    /// The peer's max_ack_delay.
    pub(crate) max_ack_delay: Duration,
    /// Whether it resets the probe timeout's back-off (RFC 9002 section 6.2.1).
    pub(crate) resets_backoff: bool,
    /// The round trip without a queue of the path on which it came, if that is another one than the path of its packets.
    pub(crate) back: Option<Duration>,
}

impl<'a, 'b> ReceivedAck<'a, 'b> {
    /// A frame that came in a packet of this space. `exponent`: of the unit of its ACK Delay field.
    pub(crate) fn new(
        frame: &'a AckFrame<'b>,
        space: SpaceId,
        side: Side,
        exponent: u8,
        max_ack_delay: Duration,
        confirmed: bool,
    ) -> Self {
        // RFC 9002 section 5.3: the delay of Initial and Handshake acknowledgements is ignored.
        let mut delay = Duration::ZERO;
        if space == SpaceId::Data {
            let micros = frame.delay.checked_shl(exponent.into());
            delay = Duration::from_micros(micros.unwrap_or(u64::MAX).min(1 << 40));
            //= specs/rfc9002.txt#section-5.3
            //# * MUST use the lesser of the acknowledgment delay and the peer's max_ack_delay after the
            //# handshake is confirmed; and
            if confirmed {
                delay = delay.min(max_ack_delay);
            }
        }
        Self {
            frame,
            space,
            delay,
            max_ack_delay,
            // RFC 9002 section 6.2.1: not for a server's Initial ACKs while the client may be unvalidated.
            resets_backoff: space != SpaceId::Initial || side == Side::Server,
            back: None,
        }
    }
}

/// What an ACK frame that acknowledged something new told of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PathAck {
    /// The RTT sample that it gave.
    pub(crate) rtt_sample: Option<Duration>,
    /// The path was suspect and is not any more.
    pub(crate) recovered: bool,
    /// The path was silent for the application that watches it, and is not any more.
    pub(crate) heard: bool,
    /// A packet was acknowledged that the scheduler had decided on.
    pub(crate) scheduled: bool,
}

/// A PATH_ACK came for a path that is not open.
#[cold]
fn ack_of_closed(path: &PathState<'_>) -> Result<(), TransportError> {
    match path {
        PathState::NeverOpened(_) => Err(TransportError::protocol_violation(
            "PATH_ACK for a path on which nothing was sent",
        )),
        //= specs/rfc10069-draft.md#frames
        //# If an endpoint receives a multipath-specific frame with a path ID that it cannot
        //# process anymore (e.g., because the path might have been abandoned), it MUST
        //# silently ignore the frame.
        PathState::Abandoned(_) | PathState::Open(_) => Ok(()),
    }
}

impl Paths {
    /// The open path whose packets an ACK frame of this space acknowledges; `None` if the frame is to be ignored.
    ///
    /// # Errors
    ///
    /// PROTOCOL_VIOLATION for a path on which nothing was sent.
    pub(crate) fn of_ack(
        &mut self,
        space: SpaceId,
        frame: &AckFrame<'_>,
    ) -> Result<Option<(PathId, PathIndex)>, TransportError> {
        if space != SpaceId::Data {
            let path = self.get(PathId::ZERO);
            return Ok(path.map(|path| (path.id, path.index)));
        }
        //= specs/rfc10069-draft.md#handling-ack-and-path-ack-in-0-rtt-and-1-rtt
        //# Endpoints MUST still process ACK frames that acknowledge 0-RTT packets or 1-RTT
        //# packets.
        match self.of_frame(frame.path)? {
            PathState::Open(path) => Ok(Some((path.id, path.index))),
            closed => ack_of_closed(&closed).map(|()| None),
        }
    }

    /// Takes in an ACK frame for packets of a path: of `handshake` if that is given, or else of the path's own space.
    /// `None` if it acknowledged nothing new. What it settled waits to be [taken](Self::take_acked).
    ///
    /// # Errors
    ///
    /// PROTOCOL_VIOLATION for a packet that was never sent (RFC 9000 section 13.1).
    pub(crate) fn on_ack(
        &mut self,
        now: Instant,
        index: PathIndex,
        over: PathId,
        space: SpaceId,
        frame: &AckFrame<'_>,
        handshake: Option<&mut PacketSpace>,
        confirmed: bool,
    ) -> Result<Option<PathAck>, TransportError> {
        let back = self.way_back(index, over);
        let mut ack = ReceivedAck::new(
            frame,
            space,
            self.side,
            self.peer.ack_delay_exponent,
            self.ack_frequency.peer_max_ack_delay(),
            confirmed,
        );
        ack.back = back;
        let Some(Some(path)) = self.slots.get_mut(index.get()) else {
            return Ok(None);
        };
        let (controller, settled) = (&mut *self.controller, &mut self.settled);
        match handshake {
            None => path.on_ack(now, &ack, controller, settled),
            Some(space) => path.on_handshake_ack(now, space, &ack, controller, settled),
        }
    }

    /// The round trip without a queue of the path on which acknowledgements of another one came.
    fn way_back(&self, index: PathIndex, over: PathId) -> Option<Duration> {
        if self.at(index).is_none_or(|path| path.id == over) {
            return None;
        }
        Some(
            self.get(over)
                .map_or(Duration::ZERO, |path| path.recovery.model.base()),
        )
    }

    /// The packets that were acknowledged, to be given back for their allocation.
    pub(crate) fn take_acked(&mut self) -> Vec<(u64, SentPacket)> {
        std::mem::take(&mut self.settled.acked)
    }

    pub(crate) fn reuse_acked(&mut self, mut acked: Vec<(u64, SentPacket)>) {
        acked.clear();
        self.settled.acked = acked;
    }

    /// Whether packets were lost that nobody has [taken](Self::take_lost) yet.
    pub(crate) fn any_lost(&self) -> bool {
        !self.settled.lost.is_empty()
    }

    /// The packets that were lost, to be given back for their allocation.
    pub(crate) fn take_lost(&mut self) -> Vec<(u64, SentPacket)> {
        std::mem::take(&mut self.settled.lost)
    }

    pub(crate) fn reuse_lost(&mut self, mut lost: Vec<(u64, SentPacket)>) {
        lost.clear();
        self.settled.lost = lost;
    }

    /// The loss timer of the Initial or Handshake space has come. Returns the slot of the path that its packets go on.
    pub(crate) fn on_handshake_loss_timeout(
        &mut self,
        now: Instant,
        space: &mut PacketSpace,
        id: SpaceId,
    ) -> Option<PathIndex> {
        let max_ack_delay = self.peer_max_ack_delay();
        let index = self.get(PathId::ZERO)?.index;
        let path = self.slots.get_mut(index.get())?.as_mut()?;
        let (controller, lost) = (&mut *self.controller, &mut self.settled.lost);
        path.on_handshake_loss_timeout(now, space, id, max_ack_delay, controller, lost);
        Some(index)
    }

    /// Time has passed; `due` is when the connection wanted to be called. `None` if the path is not open any more.
    pub(crate) fn on_timeout(
        &mut self,
        now: Instant,
        due: Option<Instant>,
        id: PathId,
        facts: TimerFacts,
    ) -> Option<(PathIndex, PathTimeout)> {
        let index = self.get(id)?.index;
        let elsewhere = self.has_other_usable(index);
        let facts = TimerFacts { elsewhere, ..facts };
        let path = self.slots.get_mut(index.get())?.as_mut()?;
        let (controller, lost) = (&mut *self.controller, &mut self.settled.lost);
        Some((index, path.on_timeout(now, due, facts, controller, lost)))
    }

    /// When something is due for paths that are gone.
    #[cold]
    #[inline(never)]
    pub(crate) fn retired_timeout(&self) -> Option<Instant> {
        let retired = self.retired().iter();
        let times = retired.map(|one| earlier(one.discard_at(), one.space.acks.timer()));
        times.fold(None, earlier)
    }

    /// Gives back memory that is kept to be used again.
    pub(crate) fn shrink(&mut self) {
        self.settled = SettledPackets::default();
        for path in self.iter_mut() {
            path.shrink();
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::super::set::tests::{multipath, open};
    use super::*;
    use crate::space::{PacketOrigin, tests_support::packet};
    use mpquic_wire::frame::{Frame, FrameIter};

    /// What comes of a PATH_ACK of the first packet of a path.
    fn ack(
        paths: &mut Paths,
        now: Instant,
        path: u8,
    ) -> Result<Option<(PathId, Option<PathAck>)>, TransportError> {
        let encoded = [0x3e, path, 0, 0, 0, 0];
        let Some(Ok(Frame::Ack(frame))) = FrameIter::new(&encoded).next() else {
            panic!("not an ACK frame");
        };
        let Some((id, index)) = paths.of_ack(SpaceId::Data, &frame)? else {
            return Ok(None);
        };
        let outcome = paths.on_ack(now, index, id, SpaceId::Data, &frame, None, true)?;
        Ok(Some((id, outcome)))
    }

    #[test]
    fn an_acknowledgement_settles_packets_of_the_path_that_it_names() {
        let (now, mut rng) = (Instant::now(), StdRng::seed_from_u64(1));
        let mut paths = multipath(Side::Client);
        open(&mut paths, 0);
        let index = open(&mut paths, 1);
        let (path, controller) = paths.with_controller(index).unwrap();
        let number = path.next_number().unwrap().0;
        assert_eq!(number, 0);
        let (packet, resent) = (packet(now), Default::default());
        let origin = PacketOrigin::Unscheduled;
        path.on_packet_sent(now, packet, resent, origin, controller, &mut rng);
        let later = now + Duration::from_millis(30);
        assert!(ack(&mut paths, later, 0).is_err(), "nothing left on path 0");
        assert!(
            ack(&mut paths, later, 2).is_err(),
            "path 2 was never opened"
        );
        let (id, outcome) = ack(&mut paths, later, 1).unwrap().unwrap();
        let sample = outcome.and_then(|outcome| outcome.rtt_sample);
        assert_eq!((id, sample), (PathId(1), Some(later - now)));
        let acked = paths.take_acked();
        assert_eq!(acked.len(), 1);
        paths.reuse_acked(acked);
        assert_eq!(ack(&mut paths, later, 1), Ok(Some((PathId(1), None))));
        let (mut rng, mut events) = (StdRng::seed_from_u64(1), Default::default());
        let code = crate::PathErrorCode::NO_ERROR;
        paths.abandon(later, PathId(1), code, true, &mut rng, &mut events);
        assert_eq!(ack(&mut paths, later, 1), Ok(None), "it is ignored");
    }

    #[test]
    fn an_acknowledgement_over_a_shorter_path_does_not_shorten_its_own() {
        let (now, mut rng) = (Instant::now(), StdRng::seed_from_u64(1));
        let mut paths = multipath(Side::Client);
        open(&mut paths, 0);
        let index = open(&mut paths, 1);
        for _ in 0..2 {
            let (path, controller) = paths.with_controller(index).unwrap();
            path.next_number().unwrap();
            let (packet, resent) = (packet(now), Default::default());
            let origin = PacketOrigin::Unscheduled;
            path.on_packet_sent(now, packet, resent, origin, controller, &mut rng);
        }
        for (number, over, millis) in [(0, 1, 60), (1, 0, 35)] {
            let encoded = [0x3e, 1, number, 0, 0, 0];
            let Some(Ok(Frame::Ack(frame))) = FrameIter::new(&encoded).next() else {
                panic!("not an ACK frame");
            };
            let now = now + Duration::from_millis(millis);
            let over = PathId(over);
            let acked = paths.on_ack(now, index, over, SpaceId::Data, &frame, None, true);
            assert!(acked.unwrap().unwrap().rtt_sample.is_some());
            let rtt = &paths.at(index).unwrap().recovery.rtt;
            assert_eq!(rtt.min(), Duration::from_millis(60));
            assert_eq!(rtt.latest(), Duration::from_millis(millis));
            let acked = paths.take_acked();
            paths.reuse_acked(acked);
        }
    }

    #[test]
    fn a_timeout_finds_its_path_only_while_that_is_open() {
        let now = Instant::now();
        let mut paths = multipath(Side::Client);
        let index = open(&mut paths, 0);
        let facts = TimerFacts {
            max_ack_delay: Duration::ZERO,
            ack_threshold: 1,
            held_back: Duration::ZERO,
            confirmed: true,
            keep_alive: Some(Duration::from_secs(1)),
            elsewhere: false,
            asks: false,
            expected: super::super::Expected {
                streams: false,
                credit: false,
                idle_timeout: None,
            },
        };
        let later = now + Duration::from_secs(2);
        assert!(paths.on_timeout(later, None, PathId(1), facts).is_none());
        let (found, outcome) = paths.on_timeout(later, None, PathId::ZERO, facts).unwrap();
        assert!(found == index && outcome.kept_alive);
        assert!(paths.at(index).unwrap().has_ping());
    }
}
