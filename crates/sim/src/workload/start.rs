//! When a client's work starts: right after the handshake, or when all paths are in use.

use std::collections::BTreeSet;
use std::time::Duration;

use mpquic_proto::{Event, PathEvent, PathId};

use crate::app::AppContext;

/// Reports once when to start.
///
/// A cold start is when the handshake is complete. The papers' clients do the same: they make a new
/// connection and send their request at once, while further paths are still being opened and
/// validated.
///
/// A warm start is when the client has validated all paths that it was told to open, and the
/// longest RTT among them has passed once more. It does not wait for paths that cannot be opened.
/// By then, the server has validated the paths, too. The response to the server's challenge left
/// the client before the client's own validation was over (RFC 9000 section 8.2), and arrives half
/// an RTT later.
#[derive(Debug, Default)]
pub(crate) struct Start {
    warm: bool,
    begun: bool,
    /// Paths that were validated or have failed.
    settled: BTreeSet<PathId>,
    at: Option<Duration>,
}

impl Start {
    pub(crate) fn new(warm: bool) -> Self {
        Self {
            warm,
            ..Self::default()
        }
    }

    /// Whether to start now.
    pub(crate) fn on_event(&mut self, cx: &AppContext<'_>, event: &Event) -> bool {
        if self.begun {
            return false;
        }
        match event {
            Event::Connected if !self.warm => {
                self.begun = true;
                return true;
            }
            Event::Path(PathEvent::Opened { id } | PathEvent::Abandoned { id, .. })
                if self.warm =>
            {
                self.settled.insert(*id);
                if self.settled.len() >= cx.paths_expected() && self.at.is_none() {
                    let rtts = cx.connection.paths().iter().map(|path| path.rtt());
                    let longest = rtts.max().unwrap_or_default();
                    self.at = Some(cx.now() + longest);
                }
            }
            _ => {}
        }
        false
    }

    pub(crate) const fn next_wakeup(&self) -> Option<Duration> {
        self.at
    }

    /// Whether to start now.
    pub(crate) fn on_wakeup(&mut self, now: Duration) -> bool {
        if self.at.is_none_or(|at| at > now) {
            return false;
        }
        self.at = None;
        self.begun = true;
        true
    }
}
