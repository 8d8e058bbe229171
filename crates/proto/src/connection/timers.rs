//! When to wake up and what to do then: idle, loss, probe, acknowledgement, validation, discard.
//! Derived from the parts' state on each call, so no timer can be orphaned.

use std::time::{Duration, Instant};

use mpquic_sched_core::Side;

use super::Connection;
use crate::handshake::Level;
use crate::path::{NetworkPath, Path};
use crate::recovery::{pto_duration, pto_time};
use crate::{ConnectionError, PathId};

/// A suspect path is probed at least so often while another path carries the data: a path that
/// comes back is found within this time and its round trip.
const MAX_SUSPECT_PROBE_INTERVAL: Duration = Duration::from_millis(400);

/// Probes of a suspect path that are remembered: they go on for as long as the path is silent. An
/// answer to one of the newest is what tells that it is back.
const MAX_BARE_PROBES: usize = 16;

/// Probes sent when a PTO expires (RFC 9002 section 6.2.4).
const PROBES_PER_PTO: u8 = 2;

impl Connection {
    /// When to call [`handle_timeout`](Self::handle_timeout); `None` for never.
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        if self.state.is_drained() {
            return None;
        }
        if let Some(until) = self.state.timer() {
            return Some(until);
        }
        let max_ack_delay = self.peer_max_ack_delay();
        let mut next = None;
        let mut consider = |at: Option<Instant>| next = earlier(next, at);
        consider(self.handshake_pto_deadline());
        for space in self.levels.iter().flatten() {
            consider(space.loss_time);
        }
        for path in self.paths.iter() {
            consider(path.space.loss_time);
            consider(self.pto_deadline(path));
            consider(path.space.acks.timer());
            consider(path.network.challenge_timer());
            consider(path.aside.as_ref().and_then(NetworkPath::challenge_timer));
            consider(path.suspect.deadline(&path.space, &path.rtt, max_ack_delay));
            consider(self.keep_alive_deadline(path));
        }
        if self.state.is_established() && (self.has_scheduled_data() || self.has_copies()) {
            for view in &self.schedule.views[..self.paths.used()] {
                consider(view.next_release.filter(|_| view.open));
            }
            consider(self.schedule.timer(self.smallest_pto()));
        }
        for retired in self.paths.retired() {
            consider(retired.discard_at);
            consider(retired.space.acks.timer());
        }
        // Hardly ever the next: worked out only if not even its least could come later.
        match (self.idle_timeout(), next) {
            (Some(timeout), Some(next)) if next <= self.idle_since + timeout => Some(next),
            _ => earlier(next, self.idle_deadline()),
        }
    }

    /// The time of [`poll_timeout`](Self::poll_timeout) has come; harmless if called early.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.state.is_drained() {
            return;
        }
        if let Some(until) = self.state.timer() {
            if until <= now {
                self.end(None);
            }
            return;
        }
        if self.idle_deadline().is_some_and(|at| at <= now) {
            // RFC 9000 section 10.1: silently.
            self.end(Some(ConnectionError::TimedOut));
            return;
        }
        self.handshake.on_timeout(now);
        self.on_level_timeouts(now);
        let ids: smallvec::SmallVec<[PathId; 16]> = self.paths.iter().map(|path| path.id).collect();
        for id in ids {
            self.on_path_timeouts(now, id);
        }
        let pto = self.smallest_pto();
        self.schedule.on_timeout(now, pto);
        for retired in self.paths.retired_mut() {
            if retired.space.acks.timer().is_some_and(|at| at <= now) {
                retired.space.acks.force();
            }
        }
        while let Some(at) = self
            .paths
            .retired()
            .iter()
            .position(|retired| retired.discard_at.is_some_and(|at| at <= now))
        {
            let retired = self.paths.retired_mut().remove(at);
            self.discard_path(retired.id);
        }
    }

    fn on_level_timeouts(&mut self, now: Instant) {
        for level in [Level::Initial, Level::Handshake] {
            let due = self
                .level(level)
                .and_then(|space| space.loss_time)
                .is_some_and(|at| at <= now);
            if due {
                self.detect_level_losses(now, level);
            }
        }
        if self.handshake_pto_deadline().is_some_and(|at| at <= now) {
            self.on_handshake_pto();
        }
    }

    fn on_path_timeouts(&mut self, now: Instant, id: PathId) {
        let keep_alive = self
            .paths
            .get(id)
            .and_then(|path| self.keep_alive_deadline(path));
        let pto = self.path_pto_deadline(id);
        let max_ack_delay = self.peer_max_ack_delay();
        let Some(path) = self.paths.get_mut(id) else {
            return;
        };
        if keep_alive.is_some_and(|at| at <= now) {
            path.ping = true;
            path.last_activity = now;
        }
        if path.space.acks.timer().is_some_and(|at| at <= now) {
            // Due from now on, whether or not it can be sent at once.
            path.space.acks.force();
        }
        if path.space.loss_time.is_some_and(|at| at <= now) {
            self.detect_path_losses(now, id);
        }
        if pto.is_some_and(|at| at <= now) {
            self.on_path_pto(now, id);
        }
        let Some(path) = self.paths.get_mut(id) else {
            return;
        };
        let pto_count = path.pto_count;
        if path
            .suspect
            .check(now, &path.space, &path.rtt, max_ack_delay, pto_count)
        {
            self.on_suspect(now, id);
        }
        self.on_challenge_timeouts(now, id);
    }

    /// RFC 9002 section 6.2.4: a probe timeout of a path's packet number space.
    fn on_path_pto(&mut self, now: Instant, id: PathId) {
        let max_ack_delay = self.peer_max_ack_delay();
        let Some(path) = self.paths.get_mut(id) else {
            return;
        };
        path.pto_count = path.pto_count.saturating_add(1);
        let index = path.index;
        let pto_count = path.pto_count;
        if path.mtu.on_pto(now, pto_count) {
            self.controller.on_mtu_update(index, path.mtu.current());
        }
        let newly_suspect =
            path.suspect
                .check(now, &path.space, &path.rtt, max_ack_delay, pto_count);
        let elsewhere = self.has_other_usable(index);
        if newly_suspect {
            self.on_suspect(now, id);
        } else if elsewhere {
            // A scheduler may have gone on to send here: that must not be stuck either.
            self.offer_in_flight(id);
        }
        if let Some(path) = self.paths.get_mut(id) {
            // With the data on other paths, one small probe shows whether this one lives.
            path.probes = if elsewhere { 1 } else { PROBES_PER_PTO };
            if elsewhere {
                path.ping = true;
                path.space.sent.forget_bare(MAX_BARE_PROBES);
            }
        }
        if !elsewhere {
            self.repeat_oldest_control(id);
        }
    }

    /// When the PTO of a path's 1-RTT space expires.
    pub(crate) fn path_pto_deadline(&self, id: PathId) -> Option<Instant> {
        self.pto_deadline(self.paths.get(id)?)
    }

    fn pto_deadline(&self, path: &Path) -> Option<Instant> {
        // RFC 9002 section 6.2.1: not before the handshake is confirmed.
        if !self.confirmed || path.space.ack_eliciting_in_flight() == 0 {
            return None;
        }
        // The probes of the last one wait to be sent, as soon as the path lets them. RFC 9002 section
        // 6.2.2.1: nor while they could not leave. Armed, it would fire for ever and send nothing.
        if path.probes > 0 || path.network.is_at_limit() {
            return None;
        }
        let deadline = pto_time(
            &path.space,
            &path.rtt,
            self.peer_max_ack_delay(),
            path.pto_count,
        )?;
        if path.suspect.is_suspect() && self.has_other_usable(path.index) {
            let pto = path.pto(self.peer_max_ack_delay());
            let latest = path.space.last_ack_eliciting_sent? + pto.max(MAX_SUSPECT_PROBE_INTERVAL);
            return Some(deadline.min(latest));
        }
        Some(deadline)
    }

    /// When the PTO of the Initial and Handshake spaces expires.
    fn handshake_pto_deadline(&self) -> Option<Instant> {
        let path = self.paths.get(PathId::ZERO)?;
        if self.levels.iter().all(Option::is_none) {
            return None;
        }
        // RFC 9002 section 6.2.2.1: a server at the amplification limit cannot send, and waits.
        if path.network.is_at_limit() || self.level_probes != [0; 2] {
            return None;
        }
        let earliest = self
            .levels
            .iter()
            .flatten()
            .filter_map(|space| pto_time(space, &path.rtt, Duration::ZERO, path.pto_count))
            .min();
        if earliest.is_some() || self.side == Side::Server || self.confirmed {
            return earliest;
        }
        // RFC 9002 section 6.2.2.1: a client keeps the PTO armed until its address is validated, so
        // that a server at the amplification limit gets something to answer.
        Some(self.idle_since + pto_duration(&path.rtt, Duration::ZERO, path.pto_count))
    }

    fn on_handshake_pto(&mut self) {
        let Some(path) = self.paths.get_mut(PathId::ZERO) else {
            return;
        };
        path.pto_count = path.pto_count.saturating_add(1);
        let mut probed = false;
        for level in [Level::Initial, Level::Handshake] {
            let slot = level as usize;
            let Some(space) = self.levels[slot].as_ref() else {
                continue;
            };
            if space.ack_eliciting_in_flight() == 0 {
                continue;
            }
            probed = true;
            self.level_probes[slot] = PROBES_PER_PTO;
            let stream = self.handshake.stream(level);
            for (_, packet) in space.sent.iter() {
                for frame in &packet.frames {
                    if let crate::space::SentFrame::Crypto { start, end } = *frame {
                        stream.on_lost(start, end);
                    }
                }
            }
        }
        if !probed {
            // Nothing in flight: RFC 9002 section 6.2.2.1, a Handshake packet if there are keys, else
            // a padded Initial.
            let slot = usize::from(self.handshake.handshake.is_some());
            self.level_probes[slot] = 1;
            // The next deadline counts from here.
            self.eliciting_since_received = true;
        }
    }

    /// RFC 9000 section 10.1: the smaller of both sides' timeouts, at least three PTOs.
    fn idle_deadline(&self) -> Option<Instant> {
        let timeout = self.idle_timeout()?;
        Some(self.idle_since + timeout.max(3 * self.largest_pto()))
    }

    /// The smaller of both sides' idle timeouts.
    fn idle_timeout(&self) -> Option<Duration> {
        let local = self.config.max_idle_timeout;
        let remote = (self.peer.max_idle_timeout_ms != 0)
            .then(|| Duration::from_millis(self.peer.max_idle_timeout_ms));
        match (local, remote) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// When a PING is due for want of anything else. What is in flight must be acknowledged as it is,
    /// and has a probe timer that backs off.
    fn keep_alive_deadline(&self, path: &Path) -> Option<Instant> {
        let interval = self.config.keep_alive_interval?;
        let silent = self.state.is_established() && path.space.ack_eliciting_in_flight() == 0;
        silent.then(|| path.last_activity + interval)
    }

    pub(crate) fn smallest_pto(&self) -> Duration {
        let delay = self.peer_max_ack_delay();
        self.paths
            .iter()
            .filter(|path| path.network.is_validated())
            .map(|path| path.pto(delay))
            .min()
            .unwrap_or(3 * self.config.initial_rtt)
    }
}

/// The earlier of two times, either of which may be never.
fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
