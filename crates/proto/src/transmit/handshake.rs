//! Datagrams of Initial and Handshake packets, coalesced (RFC 9000 section 12.2); no 1-RTT data.

use std::time::Instant;

use mpquic_sched_core::Side;

use super::fill::write_ack;
use super::{MIN_INITIAL_DATAGRAM, PacketBuilder, SealKeys, Written};
use crate::PathId;
use crate::connection::Connection;
use crate::handshake::Level;
use crate::ids::Transmit;
use crate::packet::{PacketType, VERSION_1};

impl Connection {
    /// Whether a level has something to send now.
    fn level_wants(&self, now: Instant, level: Level) -> bool {
        let slot = level as usize;
        let keys = match level {
            Level::Initial => self.handshake.initial.is_some(),
            _ => self.handshake.handshake.is_some(),
        };
        let Some(space) = self.levels[slot].as_ref().filter(|_| keys) else {
            return false;
        };
        space.acks.due(now) || self.handshake.can_send(level) || self.level_probes[slot] > 0
    }

    pub(super) fn transmit_handshake(
        &mut self,
        now: Instant,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let initial = self.level_wants(now, Level::Initial);
        let handshake = self.level_wants(now, Level::Handshake);
        if !initial && !handshake {
            return None;
        }
        let path = self.paths.get(PathId::ZERO)?;
        let budget = path.network.budget();
        let size =
            usize::from(path.mtu.current()).min(usize::try_from(budget).unwrap_or(usize::MAX));
        let probing = self.level_probes != [0; 2];
        let window_left = self
            .controller
            .window(path.index)
            .saturating_sub(self.handshake_in_flight());
        // RFC 9002 section 7: probes may exceed the window; the handshake otherwise may not.
        if !probing && window_left < size as u64 && self.only_data(now) {
            return None;
        }
        if size < 64 {
            return None;
        }
        let ecn = path.ecn.outgoing();
        let start = buf.len();
        let end = start + size;
        // RFC 9000 section 14.1: a client pads all datagrams with Initial packets, a server those
        // whose Initial packets are ack-eliciting. Padding all is allowed and simpler.
        let must_pad =
            initial && (self.side == Side::Client || self.handshake.can_send(Level::Initial));
        if must_pad && size < MIN_INITIAL_DATAGRAM {
            return None;
        }
        let pad_to = if must_pad {
            start + MIN_INITIAL_DATAGRAM
        } else {
            0
        };
        if initial {
            self.build_level(
                now,
                Level::Initial,
                buf,
                end,
                if handshake { 0 } else { pad_to },
                ecn,
            )?;
        }
        if handshake {
            self.build_level(now, Level::Handshake, buf, end, pad_to, ecn);
            if buf.len() > start && self.side == Side::Client && self.levels[0].is_some() {
                // RFC 9001 section 4.9.1.
                self.discard_level(Level::Initial);
            }
        }
        let size = buf.len() - start;
        if size == 0 {
            return None;
        }
        self.finish_transmit(PathId::ZERO, ecn, size, None)
    }

    /// Whether all that the levels want to send is ack-eliciting data, which the window may hold back.
    fn only_data(&self, now: Instant) -> bool {
        !self
            .levels
            .iter()
            .flatten()
            .any(|space| space.acks.due(now))
    }

    /// Bytes in flight on path 0 over all spaces.
    fn handshake_in_flight(&self) -> u64 {
        let levels: u64 = self
            .levels
            .iter()
            .flatten()
            .map(crate::space::PacketSpace::bytes_in_flight)
            .sum();
        let data = self
            .paths
            .get(PathId::ZERO)
            .map_or(0, |path| path.space.bytes_in_flight());
        levels + data
    }

    fn build_level(
        &mut self,
        now: Instant,
        level: Level,
        buf: &mut Vec<u8>,
        end: usize,
        pad_to: usize,
        ecn: Option<mpquic_sched_core::EcnCodepoint>,
    ) -> Option<()> {
        let slot = level as usize;
        let dcid = self.remote_cids.active(PathId::ZERO)?;
        let token = self.initial_token();
        let space = self.levels[slot].as_mut()?;
        let ty = match level {
            Level::Initial => PacketType::Initial,
            _ => PacketType::Handshake,
        };
        let number = space.next_pn()?;
        let builder = PacketBuilder::long(
            buf,
            ty,
            VERSION_1,
            &dcid,
            &self.handshake_scid,
            &token,
            number,
            space.largest_acked,
            end,
        )?;
        let mut w = builder.writer(buf);
        write_ack(&mut w, space, now, None, PathId::ZERO, 0);
        self.handshake.stream(level).fill(&mut w);
        if self.level_probes[slot] > 0 {
            self.level_probes[slot] -= 1;
            if !w.is_ack_eliciting() {
                w.buf.push(crate::frame::types::PING as u8);
                w.mark_ack_eliciting();
            }
        }
        let written = Written::from(w);
        let keys = match level {
            Level::Initial => self.handshake.initial.as_ref()?,
            _ => self.handshake.handshake.as_ref()?,
        };
        let built = builder.finish(buf, written, pad_to, SealKeys::Long(keys));
        match built {
            Ok(built) => self.book_level(now, level, built, ecn),
            Err(error) => self.on_seal_error(now, error),
        }
        Some(())
    }
}
