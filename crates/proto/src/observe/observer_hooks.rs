//! Tells whoever looks what the connection does; without an observer, nothing is made up for it.

use std::time::Instant;

use mpquic_sched_core::PathUpdateKind;
use mpquic_wire::transport_parameters::TransportParameters;
use tracing::{Level, Span};

use super::spans::{Spans, Trouble, is_read_at};
use super::{
    AckedPackets, NumberSpace, Observation, Observer, PacketLost, PacketReceived, PacketSent,
    Parameters, PathChange, PathChangeKind, PathMetrics, Started,
};
use crate::space::SentPacket;
use crate::{FourTuple, PathId};

/// The observer of a connection, and its `tracing` events.
pub(crate) struct ObserverHooks {
    observer: Option<Box<dyn Observer>>,
    spans: Spans,
}

impl ObserverHooks {
    pub(crate) fn new(now: Instant, observer: Option<Box<dyn Observer>>) -> Self {
        Self {
            observer,
            spans: Spans::new(now),
        }
    }

    /// Whether there is an observer.
    #[inline]
    pub(crate) fn is_observed(&self) -> bool {
        self.observer.is_some()
    }

    /// Whether somebody wants to know of each packet.
    #[inline]
    pub(crate) fn wants_packets(&self) -> bool {
        self.is_observed() || is_read_at(Level::TRACE)
    }

    /// Whether somebody wants to know of lost packets and of paths in trouble.
    #[inline]
    pub(crate) fn wants_losses(&self) -> bool {
        self.is_observed() || is_read_at(Level::DEBUG)
    }

    /// The connection's span.
    pub(crate) fn span(&self) -> &Span {
        self.spans.span()
    }

    /// Nothing of the application's is called any more, and be it to end it: it may be what has failed.
    pub(crate) fn abandon_observer(&mut self) {
        std::mem::forget(self.observer.take());
    }

    /// Something happened that is not about a single packet.
    #[inline]
    pub(crate) fn note(&mut self, now: Instant, event: Observation<'_>) {
        if is_read_at(Level::DEBUG) {
            self.spans.tell(now, &event);
        }
        if let Some(observer) = &mut self.observer {
            observer.on_event(now, &event);
        }
    }

    /// The connection begins, with our parameters.
    pub(crate) fn on_start(&mut self, now: Instant, started: Started, ours: &TransportParameters) {
        self.note(now, Observation::Started(started));
        self.note(now, Observation::Parameters(Parameters::of(ours, false)));
    }

    /// The keys of 1-RTT packets were updated, if they were: so often by now, and by which side.
    #[inline]
    pub(crate) fn on_key_update(&mut self, now: Instant, updates: Option<u64>, by_peer: bool) {
        if let Some(phase) = updates {
            self.note(now, Observation::KeyUpdate { phase, by_peer });
        }
    }

    /// A packet leaves.
    #[cold]
    pub(crate) fn on_packet_sent(&mut self, packet: &PacketSent<'_>) {
        self.spans.sent(packet);
        if let Some(observer) = &mut self.observer {
            observer.on_packet_sent(packet);
        }
    }

    /// A packet of the peer was decrypted: made up only if somebody looks.
    #[inline]
    pub(crate) fn on_packet_received<'a>(&mut self, packet: impl FnOnce() -> PacketReceived<'a>) {
        if self.wants_packets() {
            self.tell_received(&packet());
        }
    }

    #[cold]
    fn tell_received(&mut self, packet: &PacketReceived<'_>) {
        self.spans.received(packet);
        if let Some(observer) = &mut self.observer {
            observer.on_packet_received(packet);
        }
    }

    /// The scheduler was told of a path.
    pub(crate) fn on_path_update(
        &mut self,
        now: Instant,
        id: PathId,
        tuple: FourTuple,
        update: PathUpdateKind,
    ) {
        let kind = match update {
            PathUpdateKind::Opened => PathChangeKind::Opened,
            PathUpdateKind::Validated => PathChangeKind::Validated,
            PathUpdateKind::Moved => PathChangeKind::Moved,
            PathUpdateKind::Status(status) => PathChangeKind::Status(status),
            PathUpdateKind::Suspect => PathChangeKind::Suspect,
            PathUpdateKind::Recovered => PathChangeKind::Recovered,
            // Told with its code where it happens.
            _ => return,
        };
        let tuple = Some(tuple);
        self.note(now, Observation::Path(PathChange { id, tuple, kind }));
    }

    /// Nothing is kept of an abandoned path any more.
    pub(crate) fn on_path_discarded(&mut self, now: Instant, id: PathId) {
        let (tuple, kind) = (None, PathChangeKind::Discarded);
        self.note(now, Observation::Path(PathChange { id, tuple, kind }));
    }

    /// The figures that tell an operator why a path is in trouble.
    pub(crate) fn on_trouble(&self, now: Instant, id: PathId, trouble: &Trouble) {
        if is_read_at(Level::DEBUG) {
            self.spans.suspect(now, id, trouble);
        }
    }

    /// Packets were acknowledged.
    #[inline]
    pub(crate) fn on_acked(
        &mut self,
        now: Instant,
        space: NumberSpace,
        packets: &[(u64, SentPacket)],
    ) {
        if self.is_observed() && !packets.is_empty() {
            self.note(now, Observation::Acked(AckedPackets { space, packets }));
        }
    }

    /// Packets were declared lost.
    #[cold]
    pub(crate) fn on_lost(
        &mut self,
        now: Instant,
        id: PathId,
        space: NumberSpace,
        packets: &[(u64, SentPacket)],
    ) {
        if is_read_at(Level::DEBUG) {
            self.spans.lost(now, id, packets.len());
        }
        self.note_lost(now, space, packets, false);
    }

    /// The packets in flight on a path that is abandoned count as lost.
    pub(crate) fn on_given_up(&mut self, now: Instant, id: PathId, packets: &[(u64, SentPacket)]) {
        if self.is_observed() {
            self.note_lost(now, NumberSpace::Path(id), packets, true);
        }
    }

    fn note_lost(
        &mut self,
        now: Instant,
        space: NumberSpace,
        packets: &[(u64, SentPacket)],
        abandoned: bool,
    ) {
        for (number, packet) in packets {
            self.note(
                now,
                Observation::Lost(PacketLost {
                    space,
                    number: *number,
                    size: packet.size,
                    mtu_probe: packet.mtu_probe,
                    abandoned,
                }),
            );
        }
    }

    /// What a path measures has changed.
    #[inline]
    pub(crate) fn on_metrics(
        &mut self,
        now: Instant,
        metrics: impl FnOnce() -> Option<PathMetrics>,
    ) {
        if self.is_observed()
            && let Some(metrics) = metrics()
        {
            self.note(now, Observation::Metrics(metrics));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    struct Keeps(Arc<Mutex<Vec<String>>>);

    impl Observer for Keeps {
        fn on_event(&mut self, _now: Instant, event: &Observation<'_>) {
            self.0.lock().unwrap().push(format!("{event:?}"));
        }
    }

    impl Drop for Keeps {
        fn drop(&mut self) {
            self.0.lock().unwrap().push("dropped".into());
        }
    }

    #[test]
    fn an_observer_that_may_have_failed_is_told_nothing_more() {
        let (now, told) = (Instant::now(), Arc::default());
        let mut watch = ObserverHooks::new(now, Some(Box::new(Keeps(Arc::clone(&told)))));
        let tuple = FourTuple {
            local: "192.0.2.1:1".parse().unwrap(),
            remote: "192.0.2.2:2".parse().unwrap(),
        };
        watch.on_path_update(now, PathId::ZERO, tuple, PathUpdateKind::Recovered);
        // Told with its code, where it happens.
        watch.on_path_update(now, PathId::ZERO, tuple, PathUpdateKind::Abandoned);
        watch.abandon_observer();
        assert!(!watch.is_observed());
        watch.note(now, Observation::HandshakeConfirmed);
        drop(watch);
        let told = told.lock().unwrap();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("Recovered"));
    }

    #[test]
    fn metrics_are_not_made_up_for_nobody() {
        let mut watch = ObserverHooks::new(Instant::now(), None);
        watch.on_metrics(Instant::now(), || unreachable!("nobody looks"));
    }
}
