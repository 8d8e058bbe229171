//! Half-open connections of a server: counted, bounded in time, and gone without a trace.

use std::time::Duration;

use crate::pair::Pair;
use mpquic_proto::{ConnectionError, Event, HalfOpen, TransportConfig};

fn half_open(pair: &Pair) -> HalfOpen {
    pair.server.endpoint.half_open()
}

#[test]
fn a_complete_handshake_is_not_half_open() {
    let mut pair = Pair::new(TransportConfig::default(), TransportConfig::default());
    let mut seen = HalfOpen::default();
    let done = pair.run_until(Duration::from_secs(10), |pair| {
        let now = half_open(pair);
        if now.connections == 1 {
            seen = now;
        }
        pair.c().is_handshake_confirmed()
    });
    assert!(done);
    assert!(seen.bytes >= mpquic_proto::limits::HALF_OPEN_COST);
    assert_eq!(half_open(&pair), HalfOpen::default());
    assert_eq!(pair.server.endpoint.open_connections(), 1);
}

/// A client that never answers but goes on sending Initial packets: the idle timeout alone would keep
/// the server's state for as long as it likes.
#[test]
fn a_half_open_connection_has_a_deadline_whatever_comes() {
    let mut pair = Pair::new(TransportConfig::default(), TransportConfig::default());
    // The first datagram is a packet that the server processes: later copies of it restart nothing, so
    // the client is left to make its own, and hears nothing.
    pair.filter = Box::new(|from_client, _, _| from_client);
    let start = pair.now;
    let mut last = start;
    // The time before the step that was just done: a step ends at the time of the next one.
    let (mut step, mut ended) = (start, start);
    let over = pair.run_until(Duration::from_secs(60), |pair| {
        let received = pair.server.connection.as_ref().map(|(_, c)| c.stats());
        if received.is_some_and(|stats| stats.received_datagrams > 3) {
            last = pair.now;
        }
        (ended, step) = (step, pair.now);
        let lost = |event: &Event| matches!(event, Event::ConnectionLost { .. });
        pair.server.events.iter().any(lost)
    });
    assert!(over, "the server waits for ever");
    let took = ended - start;
    assert!(
        took >= Duration::from_secs(10) && took < Duration::from_millis(10_100),
        "{took:?}"
    );
    // The client has sent until shortly before.
    assert!(last - start > Duration::from_secs(5));
    assert_eq!(pair.s().lost_reason(), Some(&ConnectionError::TimedOut));
    assert_eq!(half_open(&pair), HalfOpen::default());
    assert_eq!(pair.server.endpoint.open_connections(), 0);
}

/// Whether this datagram of the client, not its first, may carry its Finished. A Handshake packet with no more than an
/// acknowledgement is smaller than that.
fn may_finish(datagram: &[u8], first: &mut bool) -> bool {
    let long = datagram[0] & 0x80 != 0;
    long && datagram.len() > 60 && !std::mem::take(first)
}

/// Chance loses the client's Finished for more than a second; its acknowledgements pass. Its own probes come ever later
/// then. The server asks, and says what it has: the client repeats at once what that shows to be lost.
#[test]
fn a_server_asks_for_the_finished() {
    let mut pair = Pair::new(TransportConfig::default(), TransportConfig::default());
    let clear = std::rc::Rc::new(std::cell::Cell::new(false));
    let passes = clear.clone();
    let mut first = true;
    pair.filter = Box::new(move |from_client, _, datagram| {
        !(from_client && may_finish(datagram, &mut first)) || passes.get()
    });
    let begin = pair.now;
    let done = pair.run_until(Duration::from_secs(10), |pair| {
        clear.set(pair.now - begin > Duration::from_millis(1200));
        pair.c().is_handshake_confirmed()
    });
    let took = pair.now - begin;
    assert!(done);
    // The client's own probes leave after 0.06, 0.18, 0.42, 0.9 and 1.86 s.
    assert!(took < Duration::from_millis(1500), "{took:?}");
}

/// It asks ever more seldom, so that a client that always answers and never finishes costs a few packets.
#[test]
fn questions_for_the_finished_are_few() {
    let mut pair = Pair::new(TransportConfig::default(), TransportConfig::default());
    let mut first = true;
    pair.filter = Box::new(move |from_client, _, datagram| {
        !(from_client && may_finish(datagram, &mut first))
    });
    let mut sent = 0;
    let over = pair.run_until(Duration::from_secs(60), |pair| {
        if let Some((_, server)) = &pair.server.connection {
            sent = server.stats().sent_datagrams;
        }
        let lost = |event: &Event| matches!(event, Event::ConnectionLost { .. });
        pair.server.events.iter().any(lost)
    });
    assert!(over, "the server waits for ever");
    assert!(sent < 40, "{sent} datagrams in ten seconds");
}
