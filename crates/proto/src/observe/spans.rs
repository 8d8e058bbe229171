//! What operators read: the life of a connection and of its paths as `tracing` events, in spans of theirs. At `debug` a
//! connection's life is told in few lines; at `trace` every packet. Nothing is told that nobody asked for.

use std::time::Instant;

use mpquic_sched_core::Side;
use tracing::{Level, Span};

use super::event::{Observation, PathChange, PathChangeKind, Started};
use super::{PacketReceived, PacketSent};
use crate::{FourTuple, PathId};

/// So many packets lost at once are worth a line at `debug`. Fewer are part of any transfer that fills its path.
const BULK: usize = 32;

/// The spans of a connection and its paths.
pub(crate) struct Spans {
    connection: Span,
    /// Empty, and not on the heap, if nobody reads.
    paths: Vec<(PathId, Span)>,
    began: Instant,
}

/// Whether somebody wants to read what is told at this level: one load and a comparison.
#[inline]
pub(crate) fn is_read_at(level: Level) -> bool {
    tracing::level_filters::STATIC_MAX_LEVEL >= level
        && tracing::level_filters::LevelFilter::current() >= level
}

/// The figures that tell why a path is in trouble.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trouble {
    /// Since when nothing was acknowledged, milliseconds.
    pub(crate) silent_ms: u64,
    pub(crate) ptos: u32,
    pub(crate) in_flight: u64,
    /// Whether another path takes over.
    pub(crate) elsewhere: bool,
}

impl Spans {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            connection: Span::none(),
            paths: Vec::new(),
            began: now,
        }
    }

    /// The connection's span.
    pub(crate) fn span(&self) -> &Span {
        &self.connection
    }

    /// A path's span; the connection's, if it has none.
    pub(crate) fn path(&self, id: PathId) -> &Span {
        let mut known = self.paths.iter();
        known
            .find(|(known, _)| *known == id)
            .map_or(&self.connection, |(_, span)| span)
    }

    /// Tells what happened.
    pub(crate) fn tell(&mut self, now: Instant, event: &Observation<'_>) {
        let at_ms = now.saturating_duration_since(self.began).as_millis() as u64;
        match event {
            Observation::Started(started) => self.start(started),
            Observation::HandshakeComplete => {
                tracing::debug!(parent: &self.connection, at_ms, "handshake complete");
            }
            Observation::HandshakeConfirmed => {
                tracing::debug!(parent: &self.connection, at_ms, "handshake confirmed");
            }
            Observation::Path(change) => self.path_changed(at_ms, change),
            Observation::KeyUpdate { phase, by_peer } => {
                tracing::debug!(parent: &self.connection, at_ms, phase, by_peer, "keys updated");
            }
            Observation::Closed(reason) => {
                tracing::debug!(parent: &self.connection, at_ms, %reason, "connection over");
            }
            _ => {}
        }
    }

    fn start(&mut self, started: &Started) {
        let side = match started.side {
            Side::Client => "client",
            Side::Server => "server",
        };
        self.connection = tracing::debug_span!("connection", side, id = %started.original_dcid);
        self.enter_path(PathId::ZERO, started.tuple);
        let FourTuple { local, remote } = started.tuple;
        tracing::debug!(parent: &self.connection, %local, %remote, "connection begins");
    }

    /// A path goes over these addresses from now on.
    fn enter_path(&mut self, id: PathId, tuple: FourTuple) {
        let FourTuple { local, remote } = tuple;
        let span =
            tracing::debug_span!(parent: &self.connection, "path", id = id.0, %local, %remote);
        match self.paths.iter_mut().find(|(known, _)| *known == id) {
            Some((_, known)) => *known = span,
            None => self.paths.push((id, span)),
        }
    }

    fn path_changed(&mut self, at_ms: u64, change: &PathChange) {
        let id = change.id;
        let begins = matches!(change.kind, PathChangeKind::Opened | PathChangeKind::Moved);
        if let (true, Some(tuple)) = (begins, change.tuple) {
            self.enter_path(id, tuple);
        }
        let path = self.path(id);
        match change.kind {
            // That of the handshake has been open from the beginning.
            PathChangeKind::Opened if id == PathId::ZERO => {}
            PathChangeKind::Opened => tracing::debug!(parent: path, at_ms, "path opens"),
            PathChangeKind::Validated => {
                tracing::debug!(parent: path, at_ms, "path validated: it carries data");
            }
            PathChangeKind::Moved => tracing::debug!(parent: path, at_ms, "path moved"),
            PathChangeKind::Status(status) => {
                tracing::debug!(parent: path, at_ms, ?status, "path status");
            }
            // Told with its figures, by `suspect`.
            PathChangeKind::Suspect => {}
            PathChangeKind::Recovered => {
                tracing::debug!(parent: path, at_ms, "path delivers again");
            }
            PathChangeKind::Abandoned {
                error_code,
                by_peer,
            } => {
                tracing::debug!(parent: path, at_ms, %error_code, by_peer, "path abandoned");
            }
            PathChangeKind::Discarded => {
                tracing::debug!(parent: path, at_ms, "path forgotten");
                self.paths.retain(|(known, _)| *known != id);
            }
        }
    }

    /// A path fell into trouble.
    pub(crate) fn suspect(&self, now: Instant, id: PathId, trouble: &Trouble) {
        let at_ms = now.saturating_duration_since(self.began).as_millis() as u64;
        let Trouble {
            silent_ms,
            ptos,
            in_flight,
            elsewhere,
        } = *trouble;
        let path = self.path(id);
        if elsewhere {
            tracing::debug!(parent: path, at_ms, silent_ms, ptos, in_flight, "path does not deliver: its data goes to other paths");
        } else {
            tracing::debug!(parent: path, at_ms, silent_ms, ptos, in_flight, "path does not deliver, and there is no other");
        }
    }

    /// Packets were declared lost: many at once are worth a line.
    pub(crate) fn lost(&self, now: Instant, id: PathId, packets: usize) {
        let at_ms = now.saturating_duration_since(self.began).as_millis() as u64;
        let path = self.path(id);
        if packets >= BULK {
            tracing::debug!(parent: path, at_ms, packets, "packets lost");
        } else {
            tracing::trace!(parent: path, at_ms, packets, "packets lost");
        }
    }

    /// A packet leaves.
    pub(crate) fn sent(&self, packet: &PacketSent<'_>) {
        let path = self.path(packet.space.path());
        let PacketSent { number, size, .. } = *packet;
        let (space, frames) = (packet.space.name(), packet.frames());
        tracing::trace!(parent: path, space, number, size, ?frames, "packet sent");
    }

    /// A packet of the peer was decrypted.
    pub(crate) fn received(&self, packet: &PacketReceived<'_>) {
        let path = self.path(packet.space.path());
        let (number, size) = (packet.number, packet.size());
        let (space, frames) = (packet.space.name(), packet.frames());
        tracing::trace!(parent: path, space, number, size, ?frames, "packet received");
    }
}
