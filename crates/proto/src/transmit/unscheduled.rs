//! Packets that a path sends without being scheduled: challenges, answers, loss probes, acknowledgements, keep-alives,
//! MTU probes; they carry no new stream data but in loss probes.

use std::time::Instant;

use mpquic_sched_core::PathIndex;

use super::plan::PacketSpec;
use crate::connection::Connection;
use crate::frame::writer::FrameWriter;
use crate::ids::Transmit;
use crate::path::{Due, DueFacts};

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
                confirmed: self.handshake.is_confirmed(),
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
        let due = self.paths.due(now, path, facts, data_waits)?;
        let plan = self.paths.plan_due(now, index, due, buf.len())?;
        let spec = PacketSpec {
            to: plan.to,
            end: plan.end,
            pad_to: plan.pad_to,
            ecn: plan.ecn,
            origin: plan.origin,
            ..PacketSpec::unscheduled(index)
        };
        let packet = self.open_packet(&spec, buf)?;
        let mut w = packet.writer(buf);
        match due {
            Due::LossProbe => self.fill_loss_probe(&mut w, now, index),
            _ => self.paths.fill_due(&mut w, now, index, due, &mut self.rng),
        }
        if due == Due::Ack && w.frames.is_empty() {
            packet.discard(w);
            return None;
        }
        let transmit = self.seal_datagram(now, &spec, &packet, w);
        if transmit.is_some() {
            self.paths.on_due_sent(index, &plan);
        }
        transmit
    }

    /// RFC 9002 section 6.2.4: data if there is any, else a PING. With other paths to carry the
    /// data, a PING is enough to learn whether this one lives.
    fn fill_loss_probe(&mut self, w: &mut FrameWriter<'_>, now: Instant, index: PathIndex) {
        self.paths.fill_own_ack(w, now, index);
        //= specs/rfc10069-draft.md#path-initiation
        //# After receiving packets from the client on a new path, if the server decides to use the
        //# new path, the server MUST validate the peer's address before sending any data as
        //# described in ({{Section 8.2 of QUIC-TRANSPORT}}), unless it has previously validated the
        //# 4-tuple used for that path.
        if self.paths.is_only_usable(index) {
            self.fill_control(w);
            if self.state.is_established() {
                // RFC 9002 section 6.2.4 leaves it to us what a probe carries.
                let repeat = self.paths.probe_repeats(index);
                self.data.fill_probe(w, now, &mut self.paths, index, repeat);
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
    }
}
