//! When a client's work begins: right after the handshake, or once all paths are in use; what begins is not its business.

use std::collections::BTreeSet;
use std::time::Duration;

use mpquic_proto::{Event, PathEvent, PathId};

use crate::app::AppContext;

/// Says once, when to begin.
///
/// Cold, that is when the handshake is complete, as with the papers' clients, which make a new
/// connection and ask at once: further paths are opened and validated while data flows already.
///
/// Warm, it is when the client has validated all paths that it was told to open (one that cannot
/// be opened is not waited for) and the longest RTT among them has passed once more. By then the
/// server has validated them, too: the answer to its own challenge left the client when the
/// client's validation was over (RFC 9000 section 8.2), and is there half an RTT later.
#[derive(Debug, Default)]
pub(crate) struct Start {
    warm: bool,
    begun: bool,
    /// Paths that were validated or given up.
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

    /// Whether to begin now.
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
                    let rtts = cx.connection.paths().map(|id| cx.connection.rtt(id));
                    let longest = rtts.flatten().max().unwrap_or_default();
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

    /// Whether to begin now.
    pub(crate) fn on_wakeup(&mut self, now: Duration) -> bool {
        if self.at.is_none_or(|at| at > now) {
            return false;
        }
        self.at = None;
        self.begun = true;
        true
    }
}
