//! Limits that the application changes while the connection is in use: concurrent streams and windows.

use mpquic_sched_core::Dir;

use super::flow::INITIAL_WINDOW;
use super::set::Streams;

impl Streams {
    /// How many streams of this direction the peer may have open at a time.
    pub(crate) fn set_max_concurrent(&mut self, dir: Dir, count: u64) {
        self.remote[dir as usize].set_concurrent(count);
    }

    /// What may be received and not read, over all streams.
    pub(crate) fn set_receive_window(&mut self, bytes: u64) {
        let fixed = self.has_fixed_windows();
        self.window.set_max(bytes, fixed);
        // A server that keeps strangers small lets them begin as others do once they are known: while a window grows by use,
        // it holds up each round trip, and a sender inside of a tunnel takes that for a full queue.
        self.window.grow_to(INITIAL_WINDOW);
    }

    /// What may be written and not acknowledged, over all streams.
    pub(crate) fn set_send_window(&mut self, bytes: u64) {
        self.send_window = bytes;
        self.wake_writers();
    }
}
