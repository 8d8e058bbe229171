//! A scheduler that takes the place of another one while the connection runs: what it is told of paths and streams that were there before
//! it. Decides nothing.

use std::time::Instant;

use mpquic_sched_core::{ConnectionFacts, MAX_PATHS, PathUpdateKind, Scheduler};
use smallvec::SmallVec;

use super::Connection;

impl Connection {
    /// What a factory of schedulers is told of this connection.
    pub fn facts(&self) -> ConnectionFacts {
        ConnectionFacts::new(self.side, self.handshake_tuple.remote, self.config.tag)
    }

    /// Schedules by this one from now on. It is told of the open paths and of the streams that are not delivered as if they had just come: `Opened`,
    /// `Validated`, `Status` and `Suspect` of paths; `Opened`, `Hint`, `Written` (all that was written so far) and `Finished` of streams.
    /// What was sent before stays as it is: nothing is lost or sent twice for it. Acknowledgements of it reach the new scheduler, with
    /// numbers of decisions that it did not make.
    ///
    /// What the old one has learned goes with it, but for what it leaves in a memory. Does nothing once the connection is over.
    pub fn set_scheduler(&mut self, now: Instant, scheduler: Box<dyn Scheduler>) {
        if self.is_closed() {
            return;
        }
        self.data.replace_scheduler(now, scheduler);
        let paths = self.paths.iter().map(|path| {
            let status = path.status().effective();
            (path.index, path.is_validated(), status, path.is_suspect())
        });
        let paths: SmallVec<[_; MAX_PATHS]> = paths.collect();
        for (index, validated, status, suspect) in paths {
            self.tell_scheduler(now, index, PathUpdateKind::Opened);
            if validated {
                self.tell_scheduler(now, index, PathUpdateKind::Validated);
            }
            self.tell_scheduler(now, index, PathUpdateKind::Status(status));
            if suspect {
                self.tell_scheduler(now, index, PathUpdateKind::Suspect);
            }
        }
        self.data.tell_of_streams();
    }
}
