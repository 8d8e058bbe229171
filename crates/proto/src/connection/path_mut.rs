//! What an application changes of one path: a handle that borrows the connection, for the scheduler, the data and the
//! application itself hear of it.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use mpquic_sched_core::{PathStatus, PathUpdateKind, Side};

use super::Connection;
use crate::events::Event;
use crate::path::Path;
use crate::{FourTuple, PathError, PathErrorCode, PathEvent, PathId};

/// A path that is to be changed. Of [`Connection::path_mut`]; what can be read of a path is
/// [`PathRef`](crate::PathRef)'s.
///
/// ```
/// use mpquic_proto::{Connection, PathError, PathId, PathStatus};
///
/// fn spare(connection: &mut Connection, id: PathId) -> Result<(), PathError> {
///     connection.path_mut(id).set_status(PathStatus::Backup)
/// }
/// ```
pub struct PathMut<'a> {
    connection: &'a mut Connection,
    id: PathId,
}

impl<'a> PathMut<'a> {
    pub(super) fn new(connection: &'a mut Connection, id: PathId) -> Self {
        Self { connection, id }
    }

    /// Its ID.
    pub const fn id(&self) -> PathId {
        self.id
    }

    /// Abandons the path. Its data in flight is sent again on other paths.
    ///
    /// # Errors
    ///
    /// If the path is not open, or the last one.
    pub fn close(&mut self, now: Instant, code: PathErrorCode) -> Result<(), PathError> {
        let (connection, id) = (&mut *self.connection, self.id);
        if connection.is_closed() {
            return Err(PathError::Closed);
        }
        if !connection.paths.is_multipath() {
            return Err(PathError::MultipathNotNegotiated);
        }
        connection.paths.open_one(id)?;
        let is_other = |path: &Path| path.id != id && path.is_validated();
        if !connection.paths.iter().any(is_other) {
            return Err(PathError::LastPath(id));
        }
        connection.abandon_path(now, id, code, false);
        Ok(())
    }

    /// Sets our status for the path. The peer and our own scheduler are told.
    ///
    /// # Errors
    ///
    /// If the path is not open, or multipath was not negotiated.
    pub fn set_status(&mut self, status: PathStatus) -> Result<(), PathError> {
        let (connection, id) = (&mut *self.connection, self.id);
        if !connection.paths.is_multipath() {
            return Err(PathError::MultipathNotNegotiated);
        }
        let path = connection.paths.get_mut(id);
        let path = path.ok_or(PathError::NotOpen(id))?;
        let effective = path.set_local_status(status);
        let (index, now) = (path.index, path.last_activity());
        connection.tell_scheduler(now, index, PathUpdateKind::Status(effective));
        Ok(())
    }

    /// Sends no more than so many bytes per second on the path from now on, whatever the congestion controller would; `None`, which is the
    /// default, lifts that. It holds for packets that the path's congestion window limits, with their headers, and not for
    /// acknowledgements and probes; a burst of 10 ms, or of 10 packets, may come at once. The scheduler sees the limit as the
    /// path's pacing rate. The peer is not told, and sends as it likes.
    ///
    /// ```
    /// use mpquic_proto::{Connection, PathError, PathId};
    ///
    /// fn spare(connection: &mut Connection, id: PathId) -> Result<(), PathError> {
    ///     connection.path_mut(id).set_max_rate(Some(1_250_000)) // 10 Mbit/s
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// If the path is not open.
    pub fn set_max_rate(&mut self, bytes_per_second: Option<u64>) -> Result<(), PathError> {
        let path = self.connection.paths.get_mut(self.id);
        let path = path.ok_or(PathError::NotOpen(self.id))?;
        path.limit_rate(bytes_per_second);
        Ok(())
    }

    /// Tells the application by [`PathEvent::Silent`] when the path is silent: once the acknowledgement of a packet, of those that
    /// left after the newest acknowledged one, is late by `extra` on its smoothed RTT. [`PathEvent::Heard`] follows when one
    /// comes. `None` turns it off, which is the default; so does the end of the path. The transport itself waits longer, and
    /// does nothing differently for this. Where nothing is sent, there is no silence.
    ///
    /// A peer may hold the acknowledgement of a single packet back, by 25 ms unless it says otherwise (its max_ack_delay), until
    /// it has a second one. Silence begins so much later then. [`AckFrequencyConfig`](crate::AckFrequencyConfig) with a threshold of 0 asks the
    /// peer to acknowledge each packet at once.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use mpquic_proto::{Connection, PathError};
    ///
    /// fn watch(connection: &mut Connection) -> Result<(), PathError> {
    ///     let ids: Vec<_> = connection.paths().ids().collect();
    ///     for id in ids {
    ///         connection.path_mut(id).watch_silence(Some(Duration::from_millis(20)))?;
    ///     }
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// If the path is not open.
    pub fn watch_silence(&mut self, extra: Option<Duration>) -> Result<(), PathError> {
        let path = self.connection.paths.get_mut(self.id);
        let path = path.ok_or(PathError::NotOpen(self.id))?;
        path.watch_silence(extra);
        Ok(())
    }

    /// Goes on with the path from another address of ours, as when the network changed: RFC 9000 section 9.2. The path ID,
    /// its packet numbers and all streams stay what they are. Only clients can, after the handshake is confirmed. What
    /// was measured of the path is forgotten, unless only the port is another one.
    ///
    /// [`PathEvent::Moved`] follows when the path is validated from there. If it cannot be, the path goes back to the
    /// address that it had. With multipath, opening a path and closing the other one is smoother.
    ///
    /// # Errors
    ///
    /// If the connection or the path is not open; before the handshake is confirmed; on servers; if the peer forbids
    /// it ([`PathError::MigrationDisabled`]); or if it has issued no connection ID for another address.
    pub fn migrate(&mut self, now: Instant, local: SocketAddr) -> Result<(), PathError> {
        self.move_to(now, local, true)
    }

    /// Goes on with the path from another address of ours, since the one that it has is gone: its socket is closed, or its
    /// interface is. As [`migrate`](Self::migrate), but for two things. There is no way back. And if the peer has
    /// issued no connection ID for another address, and no other path is validated, the one in use goes on: RFC 9000 section
    /// 9.5 forbids that for the sake of privacy, and without it the connection would wait for connection IDs that nobody can
    /// send to an address that is gone.
    ///
    /// # Errors
    ///
    /// As [`migrate`](Self::migrate). With [`PathError::NoCidAvailable`], another path is validated:
    /// [close](Self::close) this one. With another error, the connection cannot go on from `local`, now or later.
    pub fn replace_local(&mut self, now: Instant, local: SocketAddr) -> Result<(), PathError> {
        self.move_to(now, local, false)
    }

    /// Takes another address of ours into use. `returns`: the path goes back to the one that it has if it cannot be
    /// reached at the new one.
    fn move_to(&mut self, now: Instant, local: SocketAddr, returns: bool) -> Result<(), PathError> {
        let (connection, id) = (&mut *self.connection, self.id);
        if connection.is_closed() {
            return Err(PathError::Closed);
        }
        if connection.side == Side::Server {
            return Err(PathError::ServerSide);
        }
        //= specs/rfc9000.txt#section-9
        //# An endpoint MUST NOT initiate connection migration before the handshake is confirmed, as
        //# defined in Section 4.1.2 of [QUIC-TLS].
        if !connection.handshake.is_confirmed() {
            return Err(PathError::HandshakeIncomplete);
        }
        let events = &mut connection.endpoint_events;
        let moved = connection.paths.move_to(now, id, local, returns, events)?;
        if let Some(index) = moved {
            connection.data.on_path_moved(index);
        }
        Ok(())
    }

    /// No socket can send from the address that the path uses, and none can take its place for now: nothing leaves or comes on
    /// the path. [`PathEvent::Stranded`] says so, once. A driver calls it again with `false` when there is a socket with just
    /// that address once more. Does nothing if the path is not open.
    pub fn set_stranded(&mut self, stranded: bool) {
        let (connection, id) = (&mut *self.connection, self.id);
        let Some(path) = connection.paths.get_mut(id) else {
            return;
        };
        if path.set_stranded(stranded) && stranded && !connection.is_closed() {
            let event = PathEvent::Stranded { id };
            connection.events.push_back(Event::Path(event));
        }
    }

    /// The link by which datagrams with these addresses leave takes IP packets of `mtu` bytes; `None` if the system does not
    /// tell. The search for the path MTU goes on up to it. Nothing happens if the path is not open, if it has other addresses
    /// by now, or if [`TransportConfig::max_mtu`](crate::TransportConfig::max_mtu) was set.
    pub fn set_link_mtu(&mut self, now: Instant, network_path: &FourTuple, mtu: Option<u32>) {
        let Some(path) = self.connection.paths.get_mut(self.id) else {
            return;
        };
        if path.tuple() == *network_path {
            let payload = mtu
                .unwrap_or(0)
                .saturating_sub(headers(network_path.remote.ip()));
            path.set_link_mtu(now, u16::try_from(payload).unwrap_or(u16::MAX));
        }
    }
}

/// Bytes of the headers of IP and UDP.
const fn headers(remote: IpAddr) -> u32 {
    match remote.to_canonical() {
        IpAddr::V4(_) => 20 + 8,
        IpAddr::V6(_) => 40 + 8,
    }
}
