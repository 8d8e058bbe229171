//! The datagram with CONNECTION_CLOSE (RFC 9000 section 10.2): at every level whose keys the peer may
//! have; decides nothing about the connection's state.

use std::time::Instant;

use mpquic_sched_core::TransportErrorCode;

use super::{MIN_INITIAL_DATAGRAM, PacketBuilder, SealKeys, Written};
use crate::connection::{CloseFrame, Connection};
use crate::frame::writer::FrameWriter;
use crate::handshake::Level;
use crate::ids::Transmit;
use crate::packet::{PacketType, VERSION_1};
use crate::{ConnectionClose, NumberSpace, PathId};

impl Connection {
    /// One datagram with CONNECTION_CLOSE for the next path that is due to get it.
    pub(super) fn transmit_close(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Transmit> {
        let close = self.state.close_frame()?.clone();
        while let Some(index) = self.close_due.iter().next() {
            self.close_due.remove(index);
            let Some(id) = self.paths.at(index).map(|path| path.id) else {
                continue;
            };
            if let Some(transmit) = self.close_datagram(now, id, &close, buf) {
                return Some(transmit);
            }
        }
        None
    }

    fn close_datagram(
        &mut self,
        now: Instant,
        id: PathId,
        close: &CloseFrame,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let start = buf.len();
        let path = self.paths.get(id)?;
        let budget = usize::try_from(path.network.budget()).unwrap_or(usize::MAX);
        let size = MIN_INITIAL_DATAGRAM.min(budget);
        let end = start + size;
        if id == PathId::ZERO && !self.confirmed {
            let one_rtt = self.handshake.one_rtt.is_some() && self.handshake.is_complete();
            for level in [Level::Initial, Level::Handshake] {
                let last = match level {
                    Level::Initial => self.handshake.handshake.is_none(),
                    _ => !one_rtt,
                };
                let pad_to = if last && self.handshake.initial.is_some() {
                    end
                } else {
                    0
                };
                self.close_at_level(now, level, close, buf, end, pad_to);
            }
        }
        if self.handshake.one_rtt.is_some() && (self.handshake.is_complete() || self.confirmed) {
            self.close_in_short_packet(now, id, close, buf, end);
        }
        let size = buf.len() - start;
        if size == 0 {
            return None;
        }
        self.finish_transmit(id, None, size, None)
    }

    fn close_at_level(
        &mut self,
        now: Instant,
        level: Level,
        close: &CloseFrame,
        buf: &mut Vec<u8>,
        end: usize,
        pad_to: usize,
    ) -> Option<()> {
        let dcid = self.remote_cids.active(PathId::ZERO)?;
        let keys = match level {
            Level::Initial => self.handshake.initial.as_ref()?,
            _ => self.handshake.handshake.as_ref()?,
        };
        let ty = match level {
            Level::Initial => PacketType::Initial,
            _ => PacketType::Handshake,
        };
        let token = self.initial_token();
        let space = self.levels[level as usize].as_mut()?;
        let number = space.next_pn()?;
        let acked = space.largest_acked;
        let scid = &self.handshake_scid;
        let builder =
            PacketBuilder::long(buf, ty, VERSION_1, &dcid, scid, &token, number, acked, end)?;
        let mut w = builder.writer(buf);
        // RFC 9000 section 10.2.3: what the application said is not for unauthenticated eyes.
        match close {
            CloseFrame::Transport(error) => write_transport_close(&mut w, error),
            CloseFrame::Application(_) => {
                let error = crate::TransportError::new(TransportErrorCode::APPLICATION_ERROR, "");
                write_transport_close(&mut w, &error);
            }
        }
        let written = Written::from(w);
        space.numbers.take(&mut self.rng);
        let built = builder
            .finish(buf, written, pad_to, SealKeys::Long(keys))
            .ok()?;
        self.observe(now, NumberSpace::of_level(level), &built, None);
        Some(())
    }

    fn close_in_short_packet(
        &mut self,
        now: Instant,
        id: PathId,
        close: &CloseFrame,
        buf: &mut Vec<u8>,
        end: usize,
    ) -> Option<()> {
        let dcid = self.remote_cids.active(id)?;
        let nonce_path = self.nonce_path(id);
        let path = self.paths.get_mut(id)?;
        let number = path.space.next_pn()?;
        let acked = path.space.largest_acked;
        path.space.numbers.take(&mut self.rng);
        let keys = self.handshake.one_rtt.as_mut()?;
        let builder = PacketBuilder::short(buf, &dcid, keys.phase(), number, acked, end)?;
        let mut w = builder.writer(buf);
        match close {
            CloseFrame::Transport(error) => write_transport_close(&mut w, error),
            CloseFrame::Application(close) => {
                let room = w.remaining();
                close.encode(w.buf, room);
            }
        }
        let written = Written::from(w);
        let built = builder
            .finish(buf, written, 0, SealKeys::OneRtt(keys, nonce_path))
            .ok()?;
        self.observe(now, NumberSpace::Path(id), &built, None);
        Some(())
    }
}

fn write_transport_close(w: &mut FrameWriter<'_>, error: &crate::TransportError) {
    let close = ConnectionClose {
        error_code: error.code,
        frame_type: error.frame.unwrap_or(0),
        reason: bytes::Bytes::copy_from_slice(error.reason.as_bytes()),
    };
    let room = w.remaining();
    close.encode(w.buf, room);
}
