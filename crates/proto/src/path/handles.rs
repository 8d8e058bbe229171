//! What an application reads of a connection's paths: handles that borrow the connection.

use std::time::{Duration, Instant};

use mpquic_sched_core::PathStatus;

use super::{Path, Paths};
use crate::{FourTuple, PathError, PathId, PathStats};

/// An open path. Of [`Connection::path`](crate::Connection::path); what changes a path is
/// [`PathMut`](crate::PathMut)'s.
///
/// ```
/// use mpquic_proto::{Connection, PathId};
///
/// fn report(connection: &Connection) {
///     if let Ok(path) = connection.path(PathId::ZERO) {
///         let (peer, stats) = (path.network_path().remote, path.stats());
///         println!("{peer}: {:?}, {} bytes sent", path.rtt(), stats.sent_bytes);
///     }
/// }
/// ```
#[derive(Clone, Copy)]
pub struct PathRef<'a> {
    path: &'a Path,
    paths: &'a Paths,
}

/// A connection's paths as a whole. Of [`Connection::paths`](crate::Connection::paths).
///
/// ```
/// use std::time::Duration;
///
/// use mpquic_proto::Connection;
///
/// fn shortest(connection: &Connection) -> Option<Duration> {
///     let paths = connection.paths().iter();
///     paths.filter(|path| path.is_validated()).map(|path| path.rtt()).min()
/// }
/// ```
#[derive(Clone, Copy)]
pub struct PathsRef<'a> {
    paths: &'a Paths,
}

impl Paths {
    pub(crate) fn handle(&self) -> PathsRef<'_> {
        PathsRef { paths: self }
    }

    pub(crate) fn path_handle(&self, id: PathId) -> Result<PathRef<'_>, PathError> {
        let path = self.open_one(id)?;
        Ok(PathRef { path, paths: self })
    }
}

impl PathRef<'_> {
    /// Its ID.
    pub fn id(self) -> PathId {
        self.path.id
    }

    /// Our status for the path.
    pub fn status(self) -> PathStatus {
        self.path.status().local()
    }

    /// The peer's status for the path, if it has sent one.
    pub fn remote_status(self) -> Option<PathStatus> {
        self.path.status().remote()
    }

    /// Its addresses.
    pub fn network_path(self) -> FourTuple {
        self.path.tuple()
    }

    /// Whether the peer's address is validated.
    pub fn is_validated(self) -> bool {
        self.path.is_validated()
    }

    /// The smoothed RTT.
    pub fn rtt(self) -> Duration {
        self.path.rtt().smoothed()
    }

    /// The latest sample of the RTT, if there is one. Who sends little has few, and the smoothed RTT is of long ago.
    pub fn latest_rtt(self) -> Option<Duration> {
        let rtt = self.path.rtt();
        rtt.has_sample().then(|| rtt.latest())
    }

    /// When the oldest packet left that the peer must acknowledge and has not yet; `None` if there is none in flight.
    /// [`PathMut::watch_silence`](crate::PathMut::watch_silence) makes an event of a path that is silent for too long.
    pub fn oldest_unacked(self) -> Option<Instant> {
        self.path.oldest_unacked()
    }

    /// When the last packet came on it that could be read; `None` if none came since the handshake was complete.
    /// Acknowledgements of packets of one path may come on another.
    pub fn last_heard(self) -> Option<Instant> {
        self.path.last_heard()
    }

    /// Its figures.
    pub fn stats(self) -> PathStats {
        self.path.stats(self.paths.controller())
    }

    /// UDP payload bytes sent to and received from the path's address, while the amplification limit holds for it:
    /// until the peer has proven that it is there (RFC 9000 section 8.1). For tests of that limit.
    pub fn amplification(self) -> Option<(u64, u64)> {
        self.path.traffic()
    }
}

impl<'a> PathsRef<'a> {
    /// Whether multipath was negotiated (RFC 10069). Known when the handshake is complete.
    pub fn is_multipath(self) -> bool {
        self.paths.is_multipath() && self.paths.is_complete()
    }

    /// Whether the system may be asked to segment what leaves
    /// ([`TransportConfig::segmentation_offload`](crate::TransportConfig::segmentation_offload)).
    pub fn segmentation_offload(self) -> bool {
        self.paths.config.segmentation_offload
    }

    /// Whether this side may open paths now: it is a client, and the handshake is where
    /// [`TransportConfig::path_start`](crate::TransportConfig::path_start) has it. There may still be a limit in the
    /// way, or no connection ID; [`PathEvent::Available`](crate::PathEvent::Available) tells when there is none. Once the
    /// peer has refused a path that was opened before the handshake was confirmed, no other can be opened until it is.
    pub fn may_open(self) -> bool {
        self.paths.may_open()
    }

    /// The open paths, validated or not.
    pub fn iter(self) -> impl Iterator<Item = PathRef<'a>> + 'a {
        let paths = self.paths;
        paths.iter().map(move |path| PathRef { path, paths })
    }

    /// The IDs of the open paths, validated or not.
    pub fn ids(self) -> impl Iterator<Item = PathId> + 'a {
        self.paths.iter().map(|path| path.id)
    }

    /// The last addresses and figures of a path that was abandoned, from
    /// [`PathEvent::Abandoned`](crate::PathEvent::Abandoned) to
    /// [`PathEvent::Discarded`](crate::PathEvent::Discarded).
    pub fn abandoned(self, id: PathId) -> Option<(FourTuple, PathStats)> {
        let mut retired = self.paths.retired().iter();
        retired.find(|path| path.id == id)?.last
    }

    /// A path that has carried enough for datagrams beyond the configured size to pay, if its link takes such: answer with
    /// [`PathMut::set_link_mtu`](crate::PathMut::set_link_mtu). A driver that never asks leaves it at that size.
    pub fn link_mtu_wanted(self, now: Instant) -> Option<(PathId, FourTuple)> {
        let path = self.paths.iter().find(|path| path.wants_link_mtu(now))?;
        Some((path.id, path.tuple()))
    }

    /// [`PathRef::amplification`] for each pair of addresses that packets of open paths may go to: those that a path uses,
    /// those that it has left and may go back to, and those from which the peer probes it (RFC 9000 section 9.1).
    pub fn amplification(self) -> impl Iterator<Item = (FourTuple, Option<(u64, u64)>)> + 'a {
        self.paths.iter().flat_map(Path::traffic_by_address)
    }
}
