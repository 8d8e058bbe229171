//! The application's calls about paths; passes them on.

use std::time::{Duration, Instant};

use mpquic_sched_core::{PathStatus, PathUpdateKind};

use super::Connection;
use crate::path::Path;
use crate::{FourTuple, PathError, PathErrorCode, PathId, PathStats};

impl Connection {
    /// Whether both sides speak RFC 10069; known once the handshake is complete.
    pub fn is_multipath(&self) -> bool {
        self.path_limits.is_some()
    }

    /// Abandons a path: its data in flight goes to the other ones.
    ///
    /// # Errors
    ///
    /// If the path is not open, or the last one.
    pub fn close_path(
        &mut self,
        now: Instant,
        id: PathId,
        code: PathErrorCode,
    ) -> Result<(), PathError> {
        if self.is_closed() {
            return Err(PathError::Closed);
        }
        if self.path_limits.is_none() {
            return Err(PathError::MultipathNotNegotiated);
        }
        self.path_or_error(id)?;
        let others = self
            .paths
            .iter()
            .any(|path| path.id != id && path.network.is_validated());
        if !others {
            return Err(PathError::LastPath(id));
        }
        self.abandon_path(now, id, code, false);
        Ok(())
    }

    /// Sets our preference for a path: the peer is told, and our own scheduler goes by it.
    ///
    /// # Errors
    ///
    /// If the path is not open, or multipath was not negotiated.
    pub fn set_path_status(&mut self, id: PathId, status: PathStatus) -> Result<(), PathError> {
        if self.path_limits.is_none() {
            return Err(PathError::MultipathNotNegotiated);
        }
        let path = self.paths.get_mut(id).ok_or(PathError::NotOpen(id))?;
        path.status.set_local(status);
        let (index, now) = (path.index, path.last_activity);
        let effective = path.status.effective();
        self.tell_scheduler(now, id, index, PathUpdateKind::Status(effective));
        Ok(())
    }

    /// Our preference for a path, and the peer's, if it told.
    ///
    /// # Errors
    ///
    /// If the path is not open.
    pub fn path_status(&self, id: PathId) -> Result<(PathStatus, Option<PathStatus>), PathError> {
        let path = self.path_or_error(id)?;
        Ok((path.status.local(), path.status.remote()))
    }

    /// The IDs of the open paths, validated or not.
    pub fn paths(&self) -> impl Iterator<Item = PathId> + '_ {
        self.paths.iter().map(|path| path.id)
    }

    /// Whether the path is open and its address validated.
    pub fn is_path_validated(&self, id: PathId) -> bool {
        self.paths
            .get(id)
            .is_some_and(|path| path.network.is_validated())
    }

    /// UDP payload bytes sent to and received from the path's address while it was not validated
    /// (RFC 9000 section 8.1); for tests of the amplification limit.
    ///
    /// # Errors
    ///
    /// If the path is not open.
    pub fn path_amplification(&self, id: PathId) -> Result<(u64, u64), PathError> {
        Ok(self.path_or_error(id)?.network.traffic())
    }

    /// The path's addresses.
    ///
    /// # Errors
    ///
    /// If the path is not open.
    pub fn network_path(&self, id: PathId) -> Result<FourTuple, PathError> {
        Ok(self.path_or_error(id)?.network.tuple)
    }

    /// The path's smoothed RTT.
    ///
    /// # Errors
    ///
    /// If the path is not open.
    pub fn rtt(&self, id: PathId) -> Result<Duration, PathError> {
        Ok(self.path_or_error(id)?.rtt.smoothed())
    }

    /// The path's figures.
    ///
    /// # Errors
    ///
    /// If the path is not open.
    pub fn path_stats(&self, id: PathId) -> Result<PathStats, PathError> {
        Ok(self.stats_of(self.path_or_error(id)?))
    }

    /// The last addresses and figures of a path that was abandoned, from
    /// [`PathEvent::Abandoned`](crate::PathEvent::Abandoned) to
    /// [`PathEvent::Discarded`](crate::PathEvent::Discarded).
    pub fn abandoned_path(&self, id: PathId) -> Option<(FourTuple, PathStats)> {
        let mut retired = self.paths.retired().iter();
        retired.find(|path| path.id == id)?.last
    }

    pub(crate) fn stats_of(&self, path: &Path) -> PathStats {
        let counters = &path.counters;
        PathStats {
            rtt: path.rtt.smoothed(),
            min_rtt: path.rtt.min(),
            rtt_var: path.rtt.var(),
            has_rtt: path.rtt.has_sample(),
            cwnd: self.controller.window(path.index),
            in_flight: path.space.bytes_in_flight(),
            mtu: path.mtu.current(),
            pto_count: path.pto_count,
            sent_datagrams: counters.sent_datagrams,
            sent_bytes: counters.sent_bytes,
            received_datagrams: counters.received_datagrams,
            received_bytes: counters.received_bytes,
            sent_stream_bytes: counters.sent_stream_bytes,
            received_stream_bytes: counters.received_stream_bytes,
            sent_packets: counters.sent_packets,
            lost_packets: counters.lost_packets,
            spurious_losses: counters.spurious_losses,
            retransmitted_packets: counters.retransmitted_packets,
            retransmitted_bytes: counters.retransmitted_bytes,
            copied_packets: counters.copied_packets,
            copied_bytes: counters.copied_bytes,
            reinjected_bytes: counters.reinjected_bytes,
            congestion_events: self.controller.congestion_events(path.index),
            delivery_rate: path.delivery.rate(),
            suspect: path.suspect.is_suspect(),
        }
    }

    fn path_or_error(&self, id: PathId) -> Result<&Path, PathError> {
        self.paths.get(id).ok_or(PathError::NotOpen(id))
    }
}
