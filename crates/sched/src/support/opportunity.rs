//! Turns by send opportunity, as the ns-3 model of MPQUIC gives them; whose turn it is, each rule says.

use super::{Fastest, comes_back, usable};
use crate::{Context, Decision, PathIndex, PathSet, PathView};

/// Paths that have been given an opportunity to send and have not filled their windows since.
///
/// In ns-3, whatever makes the socket try to send, an acknowledgement, a write or a timer, is an
/// opportunity: one path is chosen, and sends at once until its window is full. Here a scheduler is
/// asked for each packet, and a pacer spreads what would have gone at once. An opportunity begins
/// with the first question after an event, and lasts, next to those that begin meanwhile, until the
/// path's window is full or there is nothing left to send.
#[derive(Debug, Clone)]
pub struct Opportunities {
    /// Something has happened since the last one began.
    due: bool,
    filling: PathSet,
}

impl Default for Opportunities {
    fn default() -> Self {
        Self {
            due: true,
            filling: PathSet::EMPTY,
        }
    }
}

impl Opportunities {
    /// Something happened that would have made ns-3 try to send.
    pub fn on_event(&mut self) {
        self.due = true;
    }

    /// The paths that still fill their windows, as of the last decision.
    pub const fn filling(&self) -> PathSet {
        self.filling
    }

    /// The next packet. Each opportunity is for the path that `choose` takes from all that are usable,
    /// full or not; none that nothing would ever wake up is among them.
    pub fn decide(
        &mut self,
        cx: &Context<'_>,
        choose: impl FnOnce(PathSet) -> Option<PathIndex>,
    ) -> Decision {
        if cx.queue.unsent == 0 && cx.queue.retransmittable == 0 {
            self.filling = PathSet::EMPTY;
            let path = Fastest::of(cx).and_then(|fastest| fastest.sendable);
            return path.map_or(Decision::Wait { until: None }, |path| {
                Decision::send(path.index)
            });
        }
        let paths = |accept: fn(&PathView) -> bool| -> PathSet {
            let accepted = usable(cx).filter(|path| accept(path));
            accepted.map(|path| path.index).collect()
        };
        // A path that goes away leaves what it was given to the next one.
        let gone = self.filling.difference(paths(|_| true));
        if (self.due || !gone.is_empty())
            && let Some(path) = choose(paths(comes_back))
        {
            self.due = false;
            self.filling.insert(path);
        }
        let with_window = paths(|path| path.can_send || path.next_release.is_some());
        self.filling = self.filling.intersection(with_window);
        let able = self.filling.intersection(paths(|path| path.can_send));
        if let Some(path) = able.first() {
            return Decision::send(path);
        }
        let filling = self.filling.iter().filter_map(|path| cx.path(path));
        Decision::Wait {
            until: filling.filter_map(|path| path.next_release).min(),
        }
    }
}
