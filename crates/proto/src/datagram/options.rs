//! What an application asks for when it sends a datagram.

use std::time::Instant;

use crate::PathId;

/// Where a datagram is to go, and until when. The default: on the path that the scheduler chooses, whenever there is room.
///
/// A datagram for a path, or for all paths, does not ask the scheduler. It waits for room in its path's congestion
/// window like any packet, and overtakes what the scheduler has to send.
///
/// ```
/// use std::time::{Duration, Instant};
/// use mpquic_proto::{DatagramOptions, PathId};
///
/// let soon = Instant::now() + Duration::from_millis(20);
/// let on_the_second = DatagramOptions::new().path(PathId(1)).deadline(soon);
/// let on_each = DatagramOptions::new().all_paths();
/// assert_ne!(on_the_second, on_each);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DatagramOptions {
    pub(crate) route: Route,
    pub(crate) deadline: Option<Instant>,
    pub(crate) tag: Option<u64>,
}

/// Which paths carry a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Route {
    /// The one that the scheduler chooses.
    #[default]
    Scheduled,
    Path(PathId),
    AllPaths,
}

impl DatagramOptions {
    /// The default options.
    pub const fn new() -> Self {
        Self {
            route: Route::Scheduled,
            deadline: None,
            tag: None,
        }
    }

    /// Only this path may carry it. It is dropped if the path ends before it has left.
    #[must_use]
    pub const fn path(mut self, path: PathId) -> Self {
        self.route = Route::Path(path);
        self
    }

    /// Each usable path carries a copy: the paths that are validated and delivered when the datagram is queued, without
    /// those of status backup if there is another. Where none is, those that are the next best.
    ///
    /// DATAGRAM frames have no numbers (RFC 9221 section 4): the receiver's application gets each copy that arrives, and
    /// tells them apart by what it wrote into them. Each copy counts in the send buffer.
    #[must_use]
    pub const fn all_paths(mut self) -> Self {
        self.route = Route::AllPaths;
        self
    }

    /// If it has not left by then, it is dropped.
    #[must_use]
    pub const fn deadline(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// What becomes of it is to be told under this number, which is not sent: when and on which path it left, and whether it
    /// was acknowledged, lost or never sent ([`Fate`](crate::Fate)). Numbers may repeat; it is the application that tells
    /// datagrams apart by them.
    ///
    /// A datagram without a tag costs nothing for it, and nothing is told of it.
    #[must_use]
    pub const fn tag(mut self, tag: u64) -> Self {
        self.tag = Some(tag);
        self
    }
}
