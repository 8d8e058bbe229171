//! Packets that a path sends without being scheduled: challenges, answers, loss probes, acknowledgements, keep-alives,
//! MTU probes; they carry no new stream data but in loss probes.

use std::time::Instant;

use mpquic_sched_core::PathIndex;

use super::plan::PacketSpec;
use crate::connection::Connection;
use crate::frame::Frame;
use crate::frame::SentFrame;
use crate::ids::Transmit;
use crate::packet::MIN_INITIAL_DATAGRAM;
use crate::path::{Addresses, Due, DueFacts};
use crate::space::PacketOrigin;

impl Connection {
    /// The next datagram that some path has to send by itself. Acknowledgements that could travel with data are left
    /// to the scheduled packets first, as are MTU probes; `all` sends what is left of them. `left` is set if anything is.
    pub(super) fn transmit_unscheduled(
        &mut self,
        now: Instant,
        buf: &mut Vec<u8>,
        all: bool,
        left: &mut bool,
    ) -> Option<Transmit> {
        // With one path, there is no other.
        let several = self.paths.used() > 1 || !self.paths.retired().is_empty();
        let other_acks = several && self.paths.ack_on_other_path_due(now);
        for slot in 0..self.paths.used() {
            let facts = DueFacts {
                established: self.state.is_established(),
                other_acks,
                all,
            };
            if let Some(path) = self.paths.in_slot(slot)
                && self.paths.has_due(now, path, facts)
            {
                *left = true;
                let index = path.index;
                if let Some(transmit) = self.transmit_due(now, index, facts, buf) {
                    return Some(transmit);
                }
            }
        }
        None
    }

    /// The datagram that a path has to send by itself now, if it has not rather to wait.
    #[inline(never)]
    fn transmit_due(
        &mut self,
        now: Instant,
        index: PathIndex,
        facts: DueFacts,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let path = self.paths.at(index)?;
        let data_waits = || self.has_scheduled_data();
        match self.paths.due(now, path, facts, data_waits)? {
            Due::PathProbe(to) => self.transmit_path_probe(now, index, to, buf),
            Due::LossProbe => self.transmit_loss_probe(now, index, buf),
            Due::Ack => self.transmit_ack(now, index, buf),
            Due::Ping => self.transmit_ping(now, index, buf),
            Due::Credit => self.transmit_credit(now, index, buf),
            Due::MtuProbe(size) => self.transmit_mtu_probe(now, index, size, buf),
        }
    }

    /// PATH_CHALLENGE and PATH_RESPONSE, padded (RFC 9000 sections 8.2.1 and 8.2.2): to the addresses that the path
    /// uses, or to those that it does not, or not any more (sections 8.2.2 and 9.3.3).
    fn transmit_path_probe(
        &mut self,
        now: Instant,
        index: PathIndex,
        to: Addresses,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let path = self.paths.at(index)?;
        let room = self.paths.has_room_for_probe(path);
        let again = now + path.pto(self.paths.peer_max_ack_delay());
        let spec = PacketSpec {
            to,
            //= specs/rfc9000.txt#section-8.2.1
            //# An endpoint MUST expand datagrams that contain a PATH_CHALLENGE frame to at least
            //# the smallest allowed maximum datagram size of 1200 bytes, unless the
            //# anti-amplification limit for the path does not permit sending a datagram of this
            //# size.
            //= specs/rfc9000.txt#section-8.2.2
            //# An endpoint MUST expand datagrams that contain a PATH_RESPONSE frame to at least the
            //# smallest allowed maximum datagram size of 1200 bytes.
            pad_to: buf.len() + MIN_INITIAL_DATAGRAM,
            origin: PacketOrigin::PathProbe,
            ..PacketSpec::unscheduled(index)
        };
        let active = to == Addresses::Current;
        let is_client = self.side.is_client();
        let packet = self.open_packet(&spec, buf)?;
        let mut w = packet.writer(buf);
        //= specs/rfc9000.txt#section-8.2.1
        //# The endpoint MUST use unpredictable data in every PATH_CHALLENGE frame so that it
        //# can associate the peer's response with the corresponding PATH_CHALLENGE.
        let token = rand::Rng::next_u64(&mut self.rng);
        let path = self.paths.at_mut(index);
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
            self.paths.fill_own_ack(&mut w, now, index);
            self.paths.fill_own_cids(&mut w, index);
        }
        let transmit = self.seal_datagram(now, &spec, &packet, w);
        if !room
            && transmit.is_some()
            && let Some(path) = self.paths.at_mut(index)
        {
            path.on_probe_beyond_window(again);
        }
        transmit
    }

    /// RFC 9002 section 6.2.4: data if there is any, else a PING. With other paths to carry the
    /// data, a PING is enough to learn whether this one lives.
    fn transmit_loss_probe(
        &mut self,
        now: Instant,
        index: PathIndex,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let path = self.paths.at_mut(index)?;
        //= specs/rfc9002.txt#section-7.5
        //# Probe packets MUST NOT be blocked by the congestion controller.
        path.on_loss_probe_sent();
        //= specs/rfc10069-draft.md#path-initiation
        //# After receiving packets from the client on a new path, if the server decides to use the
        //# new path, the server MUST validate the peer's address before sending any data as
        //# described in ({{Section 8.2 of QUIC-TRANSPORT}}), unless it has previously validated the
        //# 4-tuple used for that path.
        let validated = path.is_validated();
        // The second of such timeouts in a row, the fourth, and so on.
        let timeouts = path.pto_count() as usize;
        let repeats = timeouts > 0 && timeouts.is_multiple_of(2);
        let spec = PacketSpec {
            ecn: path.ecn(),
            pad_to: self.config.least_question(buf.len()),
            ..PacketSpec::unscheduled(index)
        };
        let packet = self.open_packet(&spec, buf)?;
        let mut w = packet.writer(buf);
        self.paths.fill_own_ack(&mut w, now, index);
        if validated && !self.paths.has_other_usable(index) {
            self.fill_control(&mut w);
            if self.state.is_established() {
                // RFC 9002 section 6.2.4 leaves it to us what a probe carries.
                let repeat = repeats.then_some(timeouts / 2);
                let paths = &mut self.paths;
                self.data.fill_probe(&mut w, now, paths, index, repeat);
            }
        }
        //= specs/rfc9002.txt#section-6.2.4
        //# All probe packets sent on a PTO MUST be ack-eliciting.
        //= specs/rfc9002.txt#section-6.2.4
        //# When there is no data to send, the sender SHOULD send a PING or other ack-eliciting
        //# frame in a single packet, rearming the PTO timer.
        if !w.is_ack_eliciting() {
            w.ping();
        }
        if self.paths.ack_frequency().is_in_use() {
            // Answered late, a probe would tell nothing before the next one.
            w.immediate_ack();
        }
        self.seal_datagram(now, &spec, &packet, w)
    }

    fn transmit_ack(
        &mut self,
        now: Instant,
        index: PathIndex,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        //= specs/rfc9000.txt#section-13.2.1
        //= type=implication
        //# In that case, an endpoint MUST NOT send an ack-eliciting frame in all packets that would
        //# otherwise be non-ack-eliciting, to avoid an infinite feedback loop of acknowledgments.
        let spec = PacketSpec {
            ecn: self.paths.at(index)?.ecn(),
            ..PacketSpec::unscheduled(index)
        };
        let packet = self.open_packet(&spec, buf)?;
        let mut w = packet.writer(buf);
        self.paths.fill_own_ack(&mut w, now, index);
        self.paths.fill_acks_of_other_paths(&mut w, now);
        if w.frames.is_empty() {
            packet.discard(w);
            return None;
        }
        self.seal_datagram(now, &spec, &packet, w)
    }

    fn transmit_ping(
        &mut self,
        now: Instant,
        index: PathIndex,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let full = self.paths.at(index)?.wants_full_ping();
        let pad_to = match full {
            true => buf.len() + MIN_INITIAL_DATAGRAM,
            false => self.config.least_question(buf.len()),
        };
        let spec = PacketSpec {
            pad_to,
            ..PacketSpec::unscheduled(index)
        };
        let packet = self.open_packet(&spec, buf)?;
        let mut w = packet.writer(buf);
        if let Some(path) = self.paths.at_mut(index) {
            path.on_ping_sent();
        }
        self.paths.fill_own_ack(&mut w, now, index);
        w.ping();
        self.seal_datagram(now, &spec, &packet, w)
    }

    /// A full datagram that lets the server send three times as much before it has validated the address (RFC 9000
    /// section 8.1).
    fn transmit_credit(
        &mut self,
        now: Instant,
        index: PathIndex,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let spec = PacketSpec {
            pad_to: buf.len() + MIN_INITIAL_DATAGRAM,
            ..PacketSpec::unscheduled(index)
        };
        let packet = self.open_packet(&spec, buf)?;
        let mut w = packet.writer(buf);
        if let Some(path) = self.paths.at_mut(index) {
            path.on_credit_sent();
        }
        w.ping();
        self.seal_datagram(now, &spec, &packet, w)
    }

    /// RFC 8899: a PING padded to the size that is being tried.
    fn transmit_mtu_probe(
        &mut self,
        now: Instant,
        index: PathIndex,
        size: u16,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let path = self.paths.at(index)?;
        if !path.is_validated() || !self.handshake.is_confirmed() {
            return None;
        }
        // A probe counts against the window like any packet (RFC 9000 section 14.4).
        if !self.paths.has_room(path, size.into()) {
            return None;
        }
        let end = buf.len() + usize::from(size);
        let spec = PacketSpec {
            end: Some(end),
            pad_to: end,
            origin: PacketOrigin::MtuProbe,
            ..PacketSpec::unscheduled(index)
        };
        let packet = self.open_packet(&spec, buf)?;
        let mut w = packet.writer(buf);
        w.ping();
        if self.paths.ack_frequency().is_in_use() {
            w.immediate_ack();
        }
        self.seal_datagram(now, &spec, &packet, w)
    }
}
