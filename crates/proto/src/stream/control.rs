//! Frames of streams other than STREAM: which are due, and what their loss means.

use mpquic_sched_core::{Dir, StreamId};
use mpquic_wire::frame::{Frame, ResetStream, StopSending};

use super::set::Streams;
use crate::frame_writer::FrameWriter;
use crate::sent_frame::SentFrame;

const DIRS: [Dir; 2] = [Dir::Bi, Dir::Uni];

impl Streams {
    /// Whether [`fill_control`](Self::fill_control) has something to write.
    pub(crate) fn can_send_control(&self) -> bool {
        !self.send_control.is_empty()
            || !self.recv_control.is_empty()
            || self.is_max_data_due()
            || self.is_data_blocked_due()
            || self.remote.iter().any(super::ids::RemoteIds::is_due)
            || self.local.iter().any(super::ids::LocalIds::is_blocked_due)
    }

    fn is_max_data_due(&self) -> bool {
        self.announce_again || self.window.is_due()
    }

    /// RFC 9000 section 4.1: data waits for nothing but the connection's window; once per limit. Of all that
    /// [`can_send_control`](Self::can_send_control) asks, this alone can come about by sending.
    pub(crate) fn is_data_blocked_due(&self) -> bool {
        self.totals.unsent > self.totals.free
            && self.window_left() == 0
            && self.told_blocked_at != Some(self.max_data)
    }

    /// Whether data is held back by nothing but the peer's limits.
    pub(crate) fn is_limited(&self) -> bool {
        self.queue().blocked
    }

    /// Whether streams were wanted beyond the peer's limits.
    pub(crate) fn wants_streams(&self) -> bool {
        self.local.iter().any(|ids| ids.wanted)
    }

    /// The peer is to hear once more which of its limits hold data back. Of several streams that wait, one says so: the
    /// packet counts more than the list. Looks at them one by one.
    pub(crate) fn repeat_blocked(&mut self) {
        self.told_blocked_at = None;
        for ids in &mut self.local {
            ids.told_blocked_at = None;
        }
        let starved = self.sends.values_mut().find(|s| s.is_starved()).map(|s| {
            s.pending.blocked = true;
            s.id()
        });
        if let Some(id) = starved {
            self.queue_send_control(id);
        }
    }

    /// Writes what is due and fits.
    pub(crate) fn fill_control(&mut self, w: &mut FrameWriter<'_>) {
        self.fill_connection_limits(w);
        self.fill_send_control(w);
        self.fill_recv_control(w);
    }

    fn fill_connection_limits(&mut self, w: &mut FrameWriter<'_>) {
        // The largest of these frames.
        const SIZE: usize = 9;
        if self.is_max_data_due() && w.remaining() >= SIZE {
            self.announce_again = false;
            w.put(&Frame::MaxData(self.window.announce()));
            w.record(SentFrame::MaxData);
        }
        //= specs/rfc9000.txt#section-19.12
        //# A sender SHOULD send a DATA_BLOCKED frame (type=0x14) when it wishes to send data but is
        //# unable to do so due to connection-level flow control; see Section 4.
        if self.is_data_blocked_due() && w.remaining() >= SIZE {
            self.told_blocked_at = Some(self.max_data);
            let offset = self.max_data;
            w.put(&Frame::DataBlocked { offset });
            w.record(SentFrame::DataBlocked);
        }
        for dir in DIRS {
            let ids = &mut self.remote[dir as usize];
            if ids.is_due() && w.remaining() >= SIZE {
                let count = ids.announce();
                w.put(&Frame::MaxStreams { dir, count });
                w.record(SentFrame::MaxStreams(dir));
            }
            let ids = &mut self.local[dir as usize];
            //= specs/rfc9000.txt#section-19.14
            //# A sender SHOULD send a STREAMS_BLOCKED frame (type=0x16 or 0x17) when it wishes to
            //# open a stream but is unable to do so due to the maximum stream limit set by its
            //# peer; see Section 19.11.
            if ids.is_blocked_due() && w.remaining() >= SIZE {
                ids.told_blocked_at = Some(ids.limit);
                let limit = ids.limit;
                w.put(&Frame::StreamsBlocked { dir, limit });
                w.record(SentFrame::StreamsBlocked(dir));
            }
        }
    }

    fn fill_send_control(&mut self, w: &mut FrameWriter<'_>) {
        while let Some(id) = self.send_control.front() {
            if let Some(stream) = self.sends.get_mut(id) {
                if stream.pending.reset
                    && let Some((error_code, final_size)) = stream.reset_frame()
                {
                    let frame = Frame::ResetStream(ResetStream {
                        id,
                        error_code,
                        final_size,
                    });
                    if !w.put(&frame) {
                        return;
                    }
                    w.record(SentFrame::ResetStream(id));
                }
                stream.pending.reset = false;
                //= specs/rfc9000.txt#section-19.13
                //# A sender SHOULD send a STREAM_DATA_BLOCKED frame (type=0x15) when it wishes to
                //# send data but is unable to do so due to stream-level flow control.
                if stream.pending.blocked && stream.is_open() && stream.credit_left() == 0 {
                    let offset = stream.credit();
                    if !w.put(&Frame::StreamDataBlocked { id, offset }) {
                        return;
                    }
                    w.record(SentFrame::StreamDataBlocked(id));
                }
                stream.pending.blocked = false;
                stream.in_control = false;
            }
            self.send_control.pop();
        }
    }

    fn fill_recv_control(&mut self, w: &mut FrameWriter<'_>) {
        while let Some(id) = self.recv_control.front() {
            if let Some(stream) = self.recvs.get_mut(id) {
                if stream.pending.stop_sending
                    && let Some(error_code) = stream.stopped()
                {
                    if !w.put(&Frame::StopSending(StopSending { id, error_code })) {
                        return;
                    }
                    w.record(SentFrame::StopSending(id));
                }
                stream.pending.stop_sending = false;
                //= specs/rfc9000.txt#section-13.3
                //# An endpoint SHOULD stop sending MAX_STREAM_DATA frames when the receiving part
                //# of the stream enters a "Size Known" or "Reset Recvd" state.
                if stream.pending.max_stream_data && stream.wants_more() {
                    // The largest of this frame: a limit must not be announced and not written.
                    if w.remaining() < 1 + 8 + 8 {
                        return;
                    }
                    let offset = stream.window.announce();
                    w.put(&Frame::MaxStreamData { id, offset });
                    w.record(SentFrame::MaxStreamData(id));
                }
                stream.pending.max_stream_data = false;
                stream.in_control = false;
            }
            self.recv_control.pop();
        }
    }

    /// A packet with this frame was acknowledged. Frames of others are ignored.
    pub(crate) fn on_control_acked(&mut self, frame: &SentFrame) {
        if let SentFrame::ResetStream(id) = *frame {
            if let Some(stream) = self.sends.get_mut(id) {
                stream.on_reset_acked();
            }
            self.free_send_if_done(id);
        }
    }

    /// A packet with this frame was declared lost: sent again if it still says something, with
    /// what holds by then (RFC 9000 section 13.3). Frames of others are ignored.
    pub(crate) fn on_control_lost(&mut self, frame: &SentFrame) {
        match *frame {
            SentFrame::ResetStream(id) => {
                if let Some(stream) = self.sends.get_mut(id)
                    && stream.reset_frame().is_some()
                {
                    stream.pending.reset = true;
                    self.queue_send_control(id);
                }
            }
            SentFrame::StopSending(id) => self.recv_again(id, |stream| {
                stream.pending.stop_sending = stream.stopped().is_some();
            }),
            SentFrame::MaxStreamData(id) => self.recv_again(id, |stream| {
                stream.pending.max_stream_data = stream.stopped().is_none();
            }),
            SentFrame::MaxData => self.announce_again = true,
            SentFrame::MaxStreams(dir) => self.remote[dir as usize].announce_again(),
            SentFrame::DataBlocked => self.told_blocked_at = None,
            SentFrame::StreamDataBlocked(id) => {
                if let Some(stream) = self.sends.get_mut(id)
                    && stream.is_open()
                    && stream.blocked_at == Some(stream.credit())
                {
                    stream.pending.blocked = true;
                    self.queue_send_control(id);
                }
            }
            SentFrame::StreamsBlocked(dir) => self.local[dir as usize].told_blocked_at = None,
            _ => {}
        }
    }

    fn recv_again(&mut self, id: StreamId, f: impl FnOnce(&mut super::recv::RecvStream)) {
        let Some(stream) = self.recvs.get_mut(id) else {
            return;
        };
        if stream.wants_more() {
            f(stream);
            self.queue_recv_control(id);
        }
    }
}
