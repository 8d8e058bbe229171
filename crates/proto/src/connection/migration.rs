//! The addresses beneath a path ID: challenged, proven, changed by the peer (RFC 9000 sections 8.2 and
//! 9; RFC 10069, relation to probing and migration); a path ID stays what it is, and opens nothing.

use std::time::Instant;

use mpquic_sched_core::{PathUpdateKind, Side};

use super::{Connection, Event};
use crate::congestion::NewPath;
use crate::path::{ChallengeTimeout, NetworkPath};
use crate::receive::Arrival;
use crate::{FourTuple, PathErrorCode, PathEvent, PathId};

impl Connection {
    /// A PATH_CHALLENGE came: it is answered to where it came from (RFC 9000 section 8.2.2).
    pub(crate) fn on_path_challenge(&mut self, arrival: Arrival, id: PathId, token: u64) {
        let Some(path) = self.paths.get_mut(id) else {
            return;
        };
        if path.network.tuple.matches(&arrival.tuple) {
            path.network.on_challenge(token);
            return;
        }
        if self.side == Side::Client {
            // RFC 9000 section 9: servers do not move.
            return;
        }
        let known = path
            .aside
            .as_mut()
            .filter(|aside| aside.tuple.matches(&arrival.tuple));
        if let Some(aside) = known {
            aside.on_challenge(token);
            return;
        }
        // What could be needed again stays; the peer repeats its challenge.
        if path
            .aside
            .as_ref()
            .is_none_or(|aside| !aside.is_validated())
        {
            let mut aside = NetworkPath::new(arrival.tuple, false);
            aside.on_received(arrival.bytes);
            aside.on_challenge(token);
            path.aside = Some(aside);
        }
    }

    /// A packet that was more than a probe came on this path. If it is the newest one and came over
    /// other addresses than before, the client has moved, or its NAT has moved it (RFC 9000 section
    /// 9.3).
    pub(crate) fn follow_peer(&mut self, arrival: Arrival, id: PathId, number: u64) {
        if self.side == Side::Client || !self.confirmed {
            return;
        }
        let interval = self.challenge_interval();
        let Some(path) = self.paths.get_mut(id) else {
            return;
        };
        let newest = path.space.received.largest() == Some(number);
        if !newest || path.network.tuple.matches(&arrival.tuple) {
            return;
        }
        let known = path
            .aside
            .take_if(|aside| aside.tuple.matches(&arrival.tuple));
        let mut network = known.unwrap_or_else(|| {
            let mut network = NetworkPath::new(arrival.tuple, false);
            network.on_received(arrival.bytes);
            network
        });
        network.start_challenge(arrival.now, interval);
        tracing::debug!(%id, from = %path.network.tuple, to = %network.tuple, "the peer moved");
        let mut old = self.switch(id, network);
        let Some(path) = self.paths.get_mut(id) else {
            return;
        };
        if let Some(old) = old.take_if(|old| old.is_validated()) {
            // RFC 9000 section 9.3.2: to be returned to. Section 9.3.3: and to be asked whether the
            // peer has moved at all, or somebody only passes its packets on.
            let aside = path.aside.insert(old);
            aside.challenge_again(arrival.now, interval);
        }
        self.announce_move(arrival.now, id);
    }

    /// Takes other addresses into use for a path; returns the old ones.
    fn switch(&mut self, id: PathId, network: NetworkPath) -> Option<NetworkPath> {
        if let Some(token) = self.remote_cids.active_token(id) {
            self.forget_reset_token(id, token);
        }
        // RFC 9000 section 9.5: another address, another connection ID, if there is one.
        self.remote_cids.rotate(id);
        let path = self.paths.get_mut(id)?;
        let old = std::mem::replace(&mut path.network, network);
        if let Some(token) = self.remote_cids.active_token(id) {
            self.add_reset_token(id, token);
        }
        Some(old)
    }

    /// A PATH_RESPONSE came on this path. RFC 9000 section 8.2.3: whichever way it came, it proves the
    /// address that the challenge was sent to.
    pub(crate) fn on_path_response(&mut self, now: Instant, id: PathId, token: u64) {
        let Some(path) = self.paths.get_mut(id) else {
            return;
        };
        let answered = path.network.on_response(token);
        if let Some(aside) = &mut path.aside {
            aside.on_response(token);
        }
        // The old addresses are of no more use once both were asked and have answered.
        if path.network.is_validated() {
            path.aside.take_if(|aside| aside.is_settled());
        }
        if !answered {
            return;
        }
        let (index, opened) = (path.index, std::mem::replace(&mut path.opened, true));
        self.offer_stranded();
        if !opened {
            self.events.push_back(Event::Path(PathEvent::Opened { id }));
            self.tell_scheduler(now, id, index, PathUpdateKind::Validated);
            return;
        }
        self.announce_move(now, id);
    }

    /// The addresses of a path that was open before are new, and proven if they need to be.
    fn announce_move(&mut self, now: Instant, id: PathId) {
        let Some(path) = self.paths.get_mut(id) else {
            return;
        };
        if !path.network.is_validated() {
            return;
        }
        if !same_hosts(&path.measured, &path.network.tuple) {
            // RFC 9000 section 9.4: but for a change of the port only.
            path.measure_anew(now, &self.config);
            let (index, mtu) = (path.index, path.mtu.current());
            let changed = NewPath::new(index, now, mtu);
            self.controller.on_path_changed(&changed);
            self.limit_mtu(id);
        }
        if let Some(path) = self.paths.get(id) {
            let (index, key) = (path.index, path.network.tuple.key());
            if self.schedule.views[index.get()].key != Some(key) {
                self.tell_scheduler(now, id, index, PathUpdateKind::Moved);
            }
        }
        self.events.push_back(Event::Path(PathEvent::Moved { id }));
    }

    /// Repeats challenges that are due, and draws the conclusion from those that stayed unanswered.
    pub(crate) fn on_challenge_timeouts(&mut self, now: Instant, id: PathId) {
        let Some(path) = self.paths.get_mut(id) else {
            return;
        };
        let given_up = path.network.on_challenge_timeout(now) == ChallengeTimeout::GiveUp;
        if let Some(aside) = &mut path.aside
            && aside.on_challenge_timeout(now) == ChallengeTimeout::GiveUp
        {
            aside.stop_challenge();
            if !given_up {
                path.aside = None;
            }
        }
        if !given_up {
            return;
        }
        match path.aside.take_if(|aside| aside.is_validated()) {
            // RFC 9000 section 9.3.2.
            Some(last) => {
                tracing::debug!(%id, to = %last.tuple, "the peer did not move after all");
                self.switch(id, last);
            }
            // RFC 10069, path initiation: a path that cannot be validated is closed explicitly.
            None => self.abandon_path(now, id, PathErrorCode::PATH_UNSTABLE_OR_POOR, false),
        }
    }
}

/// Whether two network paths differ in ports at most.
fn same_hosts(a: &FourTuple, b: &FourTuple) -> bool {
    a.remote.ip() == b.remote.ip()
}
