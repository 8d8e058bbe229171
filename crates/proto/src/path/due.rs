//! Picks the next unscheduled packet of a path that has one due, the most urgent first: challenges and answers, loss
//! probes, acknowledgements, keep-alives, MTU probes.

use std::time::Instant;

use mpquic_sched_core::{EcnCodepoint, PathIndex, Side};
use mpquic_wire::frame::Frame;
use mpquic_wire::packet::MIN_INITIAL_DATAGRAM;
use rand::rngs::StdRng;

use super::{Addresses, Path, Paths};
use crate::frame_writer::FrameWriter;
use crate::limits;
use crate::sent_frame::SentFrame;
use crate::space::PacketOrigin;

/// An unscheduled packet that a path has to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    PathProbe(Addresses),
    LossProbe,
    Ack,
    Ping,
    Credit,
    MtuProbe(u16),
}

/// What the connection knows beyond its paths, for what they have to send.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DueFacts {
    /// The handshake is complete.
    pub(crate) established: bool,
    /// The path that carries acknowledgements of others, if some are due.
    pub(crate) other_acks: Option<PathIndex>,
    /// Acknowledgements and MTU probes are not left to scheduled packets any more.
    pub(crate) all: bool,
    pub(crate) confirmed: bool,
}

/// What an unscheduled packet is to be, beside its frames.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DuePacket {
    pub(crate) to: Addresses,
    pub(crate) origin: PacketOrigin,
    /// The mark of its datagram's IP header.
    pub(crate) ecn: Option<EcnCodepoint>,
    /// Where the datagram must end: an index into the buffer. `None`: as large as the path takes.
    pub(crate) end: Option<usize>,
    /// Where it must end at least: an index into the buffer; 0 for no padding.
    pub(crate) pad_to: usize,
    /// There is no room for it in the congestion window: the next one like it waits until then.
    beyond_window: Option<Instant>,
}

impl Paths {
    /// Whether some path of an established connection has something to send by itself.
    pub(crate) fn has_any_due(&self, now: Instant) -> bool {
        let facts = DueFacts {
            established: true,
            other_acks: self.carrier_of_other_acks(now),
            all: true,
            confirmed: true,
        };
        self.iter().any(|path| self.has_due(now, path, facts))
    }

    /// Whether a path has something to send by itself, now or with what is scheduled.
    pub(crate) fn has_due(&self, now: Instant, path: &Path, facts: DueFacts) -> bool {
        facts.other_acks == Some(path.index)
            || path.has_probes()
            || path.space().acks.due(now)
            || (facts.established && path.has_ping())
            || path.wants_credit()
            || path
                .probe_due(now, || self.has_room_for_probe(path))
                .is_some()
            || (facts.established && self.mtu_probe(now, path).is_some())
    }

    /// The size of the path's MTU probe that is due.
    fn mtu_probe(&self, now: Instant, path: &Path) -> Option<u16> {
        path.mtu_probe(now, || self.controller.window(path.index))
    }

    /// The next unscheduled packet of a path that [has](Self::has_due) one due. `data_waits`: whether there is
    /// anything that a scheduler could send.
    pub(crate) fn due(
        &self,
        now: Instant,
        path: &Path,
        facts: DueFacts,
        data_waits: impl FnOnce() -> bool,
    ) -> Option<Due> {
        let DueFacts {
            established, all, ..
        } = facts;
        //= specs/rfc10069-draft.md#path-management
        //# The client can open a new path when both endpoints have issued available connection IDs
        //# for at least one unused, common path ID, as the same path ID is used in both directions.
        // Ours may still wait for their turn among the scheduled packets.
        if !self.has_cid(path.id) || !self.local_cids.is_announced(path.id) {
            return None;
        }
        if let Some(to) = path.probe_due(now, || self.has_room_for_probe(path)) {
            return Some(Due::PathProbe(to));
        }
        if path.has_probes() {
            return Some(Due::LossProbe);
        }
        let ack = path.space().acks.due(now);
        let carried = || established && self.data_will_carry_ack(path) && data_waits();
        let others = facts.other_acks == Some(path.index);
        if others || (ack && self.carries_own_acks(now, path) && (all || !carried())) {
            return Some(Due::Ack);
        }
        if established && path.has_ping() {
            return Some(Due::Ping);
        }
        if path.wants_credit() && self.has_room_for_probe(path) {
            return Some(Due::Credit);
        }
        let size = self.mtu_probe(now, path).filter(|_| established && all)?;
        let may = path.is_validated() && facts.confirmed;
        // A probe counts against the window like any packet (RFC 9000 section 14.4).
        (may && self.has_room(path, size.into())).then_some(Due::MtuProbe(size))
    }

    /// What a packet is to be that is due. Its datagram begins at `start`, an index into the buffer.
    pub(crate) fn plan_due(
        &mut self,
        now: Instant,
        index: PathIndex,
        due: Due,
        start: usize,
    ) -> Option<DuePacket> {
        let path = self.slots.get_mut(index.get())?.as_mut()?;
        let full = start + MIN_INITIAL_DATAGRAM;
        let small = self.config.least_question(start);
        let mut plan = DuePacket {
            to: Addresses::Current,
            origin: PacketOrigin::Unscheduled,
            ecn: None,
            end: None,
            pad_to: 0,
            beyond_window: None,
        };
        match due {
            Due::PathProbe(to) => {
                plan.to = to;
                plan.origin = PacketOrigin::PathProbe;
                //= specs/rfc9000.txt#section-8.2.1
                //# An endpoint MUST expand datagrams that contain a PATH_CHALLENGE frame to at least
                //# the smallest allowed maximum datagram size of 1200 bytes, unless the
                //# anti-amplification limit for the path does not permit sending a datagram of this
                //# size.
                //= specs/rfc9000.txt#section-8.2.2
                //# An endpoint MUST expand datagrams that contain a PATH_RESPONSE frame to at least the
                //# smallest allowed maximum datagram size of 1200 bytes.
                plan.pad_to = full;
                let path = self.at(index)?;
                let again = now + path.pto(self.peer_max_ack_delay());
                plan.beyond_window = (!self.has_room_for_probe(path)).then_some(again);
            }
            Due::LossProbe => {
                //= specs/rfc9002.txt#section-7.5
                //# Probe packets MUST NOT be blocked by the congestion controller.
                path.on_loss_probe_sent();
                plan.ecn = path.ecn();
                plan.pad_to = small;
            }
            //= specs/rfc9000.txt#section-13.2.1
            //= type=implication
            //# In that case, an endpoint MUST NOT send an ack-eliciting frame in all packets that would
            //# otherwise be non-ack-eliciting, to avoid an infinite feedback loop of acknowledgments.
            Due::Ack => plan.ecn = path.ecn(),
            Due::Ping => plan.pad_to = if path.wants_full_ping() { full } else { small },
            Due::Credit => plan.pad_to = full,
            // RFC 8899.
            Due::MtuProbe(size) => {
                plan.pad_to = start + usize::from(size);
                plan.end = Some(plan.pad_to);
                plan.origin = PacketOrigin::MtuProbe;
            }
        }
        Some(plan)
    }

    /// Writes the frames of a packet that is due; of a loss probe, only its acknowledgement: what else it carries is not only
    /// the paths' own.
    pub(crate) fn fill_due(
        &mut self,
        w: &mut FrameWriter<'_>,
        now: Instant,
        index: PathIndex,
        due: Due,
        rng: &mut StdRng,
    ) {
        match due {
            Due::PathProbe(to) => self.fill_path_probe(w, now, index, to, rng),
            Due::Ack => {
                self.fill_own_ack(w, now, index);
                self.fill_acks_of_other_paths(w, now);
            }
            Due::Ping => {
                if let Some(path) = self.at_mut(index) {
                    path.on_ping_sent();
                }
                self.fill_own_ack(w, now, index);
                w.ping();
            }
            // A full datagram that lets the server send three times as much before it has validated the address (RFC 9000
            // section 8.1).
            Due::Credit => {
                if let Some(path) = self.at_mut(index) {
                    path.on_credit_sent();
                }
                w.ping();
            }
            Due::MtuProbe(_) => {
                w.ping();
                if self.ack_frequency.is_in_use() {
                    w.immediate_ack();
                }
            }
            Due::LossProbe => self.fill_own_ack(w, now, index),
        }
    }

    /// Makes sure that a loss probe is answered, and at once.
    pub(crate) fn finish_loss_probe(&self, w: &mut FrameWriter<'_>) {
        //= specs/rfc9002.txt#section-6.2.4
        //# All probe packets sent on a PTO MUST be ack-eliciting.
        //= specs/rfc9002.txt#section-6.2.4
        //# When there is no data to send, the sender SHOULD send a PING or other ack-eliciting
        //# frame in a single packet, rearming the PTO timer.
        if !w.is_ack_eliciting() {
            w.ping();
        }
        if self.ack_frequency.is_in_use() {
            // Answered late, a probe would tell nothing before the next one.
            w.immediate_ack();
        }
    }

    /// PATH_CHALLENGE and PATH_RESPONSE (RFC 9000 sections 8.2.1 and 8.2.2): to the addresses that the path uses, or to
    /// those that it does not, or not any more (sections 8.2.2 and 9.3.3).
    #[cold]
    #[inline(never)]
    fn fill_path_probe(
        &mut self,
        w: &mut FrameWriter<'_>,
        now: Instant,
        index: PathIndex,
        to: Addresses,
        rng: &mut StdRng,
    ) {
        let active = to == Addresses::Current;
        let is_client = self.side == Side::Client;
        //= specs/rfc9000.txt#section-8.2.1
        //# The endpoint MUST use unpredictable data in every PATH_CHALLENGE frame so that it
        //# can associate the peer's response with the corresponding PATH_CHALLENGE.
        let token = rand::Rng::next_u64(rng);
        let room = self
            .at(index)
            .is_some_and(|path| self.has_room_for_probe(path));
        let path = self.at_mut(index);
        if let Some(network) = path.and_then(|path| path.network_mut(to)) {
            //= specs/rfc10069-draft.md#path-initiation
            //# If an endpoint sends a PATH_RESPONSE ({{Section 19.18 of QUIC-TRANSPORT}}), it
            //# MUST be sent on the same path as used by the packet that contained the
            //# PATH_CHALLENGE frame ({{Section 19.17 of QUIC-TRANSPORT}}), using a connection
            //# ID associated with the same path ID.
            //= specs/rfc9000.txt#section-8.2.2
            //# A PATH_RESPONSE frame MUST be sent on the network path where the PATH_CHALLENGE
            //# frame was received.
            let response = match room {
                true => network.next_response(),
                false => network.newest_response(),
            };
            if let Some(response) = response {
                Frame::PathResponse(response).encode(w.buf);
                w.mark_ack_eliciting();
                //= specs/rfc9000.txt#section-9.3.3
                //# An endpoint that receives a PATH_CHALLENGE on an active path SHOULD send a
                //# non-probing packet in response.
                if active && is_client && w.remaining() > 16 {
                    w.ping();
                }
            }
            if network.challenge_due() && w.remaining() > 16 {
                Frame::PathChallenge(token).encode(w.buf);
                w.record(SentFrame::PathChallenge(token));
                let full = network.send_limit() >= MIN_INITIAL_DATAGRAM as u64;
                network.on_challenge_sent(now, token, full);
            }
        }
        //= specs/rfc9000.txt#section-9
        //# Servers do not send non- probing packets (see Section 9.1) toward a client address
        //# until they see a non-probing packet from that address.
        // Beyond the window, what would have to be repeated waits for room.
        if active && room {
            self.fill_own_ack(w, now, index);
            self.fill_own_cids(w, index);
        }
    }

    /// Whether a loss probe repeats data that the peer waits for: the second one of several probe timeouts in a row, the
    /// fourth, and so on. Each repeats the next one of what is waited for: returns how many did before.
    pub(crate) fn probe_repeats(&self, index: PathIndex) -> Option<usize> {
        let timeouts = self.at(index)?.pto_count() as usize;
        (timeouts > 0 && timeouts.is_multiple_of(2)).then_some(timeouts / 2)
    }

    /// A packet that was due leaves.
    pub(crate) fn on_due_sent(&mut self, index: PathIndex, plan: &DuePacket) {
        if let Some(again) = plan.beyond_window
            && let Some(path) = self.at_mut(index)
        {
            path.on_probe_beyond_window(again);
        }
    }

    /// Whether the path's congestion window has room for a datagram with a PATH_CHALLENGE or PATH_RESPONSE, and the peer
    /// has acknowledged enough of those before it.
    fn has_room_for_probe(&self, path: &Path) -> bool {
        path.space().sent.path_probes() < limits::MAX_PATH_PROBES_IN_FLIGHT
            && self.has_room(path, MIN_INITIAL_DATAGRAM as u64)
    }

    /// Whether the path's congestion window has room for so many bytes.
    fn has_room(&self, path: &Path, bytes: u64) -> bool {
        path.space().bytes_in_flight() + bytes <= self.controller.window(path.index)
    }

    /// Whether a scheduled packet on this path is likely to follow at once, if data waits.
    fn data_will_carry_ack(&self, path: &Path) -> bool {
        self.open_count() == 1 && path.is_validated() && self.has_room(path, path.mtu().into())
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use std::time::Duration;

    use mpquic_sched_core::RoundTrip;

    use super::super::set::tests::{multipath, open};
    use super::*;
    use crate::space::{AckPolicy, ReceivedPacket};
    use crate::{ConnectionId, PathId};

    const FACTS: DueFacts = DueFacts {
        established: true,
        other_acks: None,
        all: true,
        confirmed: true,
    };

    fn due(paths: &Paths, now: Instant, index: PathIndex, facts: DueFacts) -> Option<Due> {
        let path = paths.at(index)?;
        let next = paths.due(now, path, facts, || false);
        assert!(next.is_none() || paths.has_due(now, path, facts));
        next
    }

    /// The peer asks whether anybody is there.
    fn challenge(paths: &mut Paths, index: PathIndex) {
        let network = paths.at_mut(index).unwrap().network_mut(Addresses::Current);
        network.unwrap().on_challenge(7);
    }

    /// The frames of what is due, and what their packet is to be.
    fn send(paths: &mut Paths, now: Instant, index: PathIndex, due: Due) -> (DuePacket, Vec<u8>) {
        let (mut rng, mut buf) = (StdRng::seed_from_u64(1), vec![0; 10]);
        let plan = paths.plan_due(now, index, due, 10).unwrap();
        let mut w = FrameWriter::new(&mut buf, 1210);
        paths.fill_due(&mut w, now, index, due, &mut rng);
        paths.on_due_sent(index, &plan);
        (plan, buf.split_off(10))
    }

    #[test]
    fn a_ping_leaves_once_and_after_what_is_more_urgent() {
        let now = Instant::now();
        let mut paths = multipath(Side::Client);
        let index = open(&mut paths, 0);
        assert_eq!(due(&paths, now, index, FACTS), None);
        paths.at_mut(index).unwrap().request_ping();
        let before = DueFacts {
            established: false,
            ..FACTS
        };
        assert_eq!(due(&paths, now, index, before), None);
        challenge(&mut paths, index);
        let probe = Due::PathProbe(Addresses::Current);
        assert_eq!(due(&paths, now, index, FACTS), Some(probe));
        let (plan, frames) = send(&mut paths, now, index, probe);
        assert_eq!((plan.pad_to, plan.origin), (1210, PacketOrigin::PathProbe));
        assert_eq!(frames[0], 0x1b, "PATH_RESPONSE");
        assert_eq!(due(&paths, now, index, FACTS), Some(Due::Ping));
        let (plan, frames) = send(&mut paths, now, index, Due::Ping);
        assert_eq!((plan.end, frames), (None, vec![0x01]));
        assert_eq!(due(&paths, now, index, FACTS), None);
    }

    /// A round trip that the peer did not hold back.
    fn sample(paths: &mut Paths, now: Instant, index: PathIndex, rtt: u64) {
        let recovery = &mut paths.at_mut(index).unwrap().recovery;
        let rtt = Duration::from_millis(rtt);
        recovery.rtt.update(now, rtt, Duration::ZERO);
        recovery.model.on_sent(now, 0);
        recovery.model.on_round_trip(&RoundTrip {
            now,
            sent: now,
            received: 0,
            rtt,
            ack_delay: Duration::ZERO,
            smoothed_rtt: recovery.rtt.smoothed(),
            ahead: 0,
            delivery_rate: 0,
            window: 12_000,
            back: None,
        });
    }

    #[test]
    fn acknowledgements_leave_a_path_behind_others_queue_for_one_that_is_longer_without() {
        for (other, leaves) in [(32, true), (18, false), (120, false)] {
            let mut now = Instant::now();
            let mut paths = multipath(Side::Client);
            let [near, far] = [0, 1].map(|id| open(&mut paths, id));
            let (cids, mut buf) = (&mut paths.local_cids, Vec::new());
            cids.issue(PathId(1), ConnectionId::new(&[9; 8]), [9; 16]);
            cids.fill(&mut FrameWriter::new(&mut buf, 1200), true);
            let step = Duration::from_millis(100);
            for rtt in [20, 20, 20, 60] {
                assert!(paths.carries_own_acks(now, paths.at(near).unwrap()));
                now += step;
                sample(&mut paths, now, near, rtt);
                sample(&mut paths, now, far, other);
            }
            assert_eq!(
                paths.carries_own_acks(now, paths.at(near).unwrap()),
                !leaves
            );
            let packet = ReceivedPacket {
                now,
                received: now,
                pn: 0,
                ack_eliciting: true,
                ecn: None,
                policy: AckPolicy::new(step),
                immediate: true,
            };
            paths.at_mut(near).unwrap().on_packet_received(&packet);
            let other_acks = paths.carrier_of_other_acks(now);
            assert_eq!(other_acks, leaves.then_some(far));
            // No MTU probes.
            let facts = DueFacts {
                other_acks,
                confirmed: false,
                ..FACTS
            };
            let (carrier, silent) = if leaves { (far, near) } else { (near, far) };
            assert_eq!(due(&paths, now, silent, facts), None);
            assert_eq!(due(&paths, now, carrier, facts), Some(Due::Ack));
            let (_, frames) = send(&mut paths, now, carrier, Due::Ack);
            assert_eq!(frames[..2], [0x3e, 0], "a PATH_ACK for path 0");
            assert_eq!(paths.carrier_of_other_acks(now), None);
        }
    }

    #[test]
    fn one_path_probe_for_each_probe_timeout_leaves_beyond_the_window() {
        let now = Instant::now();
        let mut paths = multipath(Side::Client);
        let index = open(&mut paths, 0);
        let room = paths.controller.window(index);
        let (path, controller) = paths.with_controller(index).unwrap();
        let mut packet = crate::space::tests_support::packet(now);
        packet.size = u16::try_from(room - 1).unwrap();
        let (resent, origin) = (Default::default(), PacketOrigin::Unscheduled);
        let mut rng = StdRng::seed_from_u64(1);
        path.on_packet_sent(now, packet, resent, origin, controller, &mut rng);
        let probe = Due::PathProbe(Addresses::Current);
        for at in [now, now + paths.largest_pto()] {
            challenge(&mut paths, index);
            assert_eq!(due(&paths, at, index, FACTS), Some(probe));
            send(&mut paths, at, index, probe);
            challenge(&mut paths, index);
            assert_eq!(due(&paths, at, index, FACTS), None);
        }
    }

    #[test]
    fn a_loss_probe_asks_for_an_answer_whatever_it_carries() {
        let mut paths = multipath(Side::Client);
        open(&mut paths, 0);
        for (asks, written) in [(false, vec![0x01]), (true, vec![])] {
            let mut buf = Vec::new();
            let mut w = FrameWriter::new(&mut buf, 1200);
            if asks {
                w.mark_ack_eliciting();
            }
            paths.finish_loss_probe(&mut w);
            assert!(w.is_ack_eliciting());
            assert_eq!(buf, written);
        }
    }
}
