//! The idle timeout (RFC 9000 section 10.1): when it fires, what restarts it, and that nobody is told.

use std::time::{Duration, Instant};

use mpquic_sched_core::{Dir, Side};

use super::forge::{self, Forgery, Packet};
use super::pair::Pair;
use crate::{ConnectionError, PathId, TransportConfig};

const SIDES: [Side; 2] = [Side::Client, Side::Server];
const LONG: Duration = Duration::from_secs(10);
const SHORT: Duration = Duration::from_secs(4);

/// No probes for a larger MTU: nothing is sent unasked.
fn config(timeout: Option<Duration>) -> TransportConfig {
    let mut config = TransportConfig::default();
    config.max_idle_timeout(timeout).max_mtu(1200).unwrap();
    config
}

fn ready(client: Option<Duration>, server: Option<Duration>) -> Pair {
    forge::ready_for(Packet::OneRtt, config(client), config(server))
}

/// Loses all that is sent from here on, and all that is on its way.
fn cut(pair: &mut Pair) {
    pair.filter = Box::new(|_, _, _| false);
    pair.client.inbound.clear();
    pair.server.inbound.clear();
}

/// A PING reaches this side now, and nothing after it. Returns the time and the datagram.
fn last_sign_of_life(pair: &mut Pair, side: Side) -> (Instant, Vec<u8>) {
    cut(pair);
    let (ping, _) = Forgery::new(Packet::OneRtt, &[1]).seal(pair, !side);
    forge::hand_over(pair, side, &ping);
    (pair.now, ping)
}

/// How long after `since` this side gives up; `None` if it does not within an hour.
fn closed_after(pair: &mut Pair, side: Side, since: Instant) -> Option<Duration> {
    let hour = Duration::from_secs(3600);
    // After a step, it is the time of the next event, whichever side's that is.
    let mut at = pair.now;
    let closed = pair.run_until(hour, |pair| {
        let closed = forge::side_of(pair, side).is_closed();
        if !closed {
            at = pair.now;
        }
        closed
    });
    closed.then(|| at - since)
}

/// "the effective value at an endpoint is computed as the minimum of the two advertised values (or the
/// sole advertised value, if only one endpoint advertises a non-zero value)".
#[test]
fn the_smaller_of_both_timeouts() {
    let zero = Some(Duration::ZERO);
    for (own, peers, expected) in [
        (Some(LONG), Some(SHORT), Some(SHORT)),
        (Some(SHORT), Some(LONG), Some(SHORT)),
        (None, Some(SHORT), Some(SHORT)),
        (Some(SHORT), None, Some(SHORT)),
        // Section 18.2: "Idle timeout is disabled when both endpoints omit this transport parameter
        // or specify a value of 0."
        (zero, Some(SHORT), Some(SHORT)),
        (Some(SHORT), zero, Some(SHORT)),
        (None, None, None),
        (zero, zero, None),
    ] {
        for side in SIDES {
            let mut pair = match side {
                Side::Client => ready(own, peers),
                Side::Server => ready(peers, own),
            };
            let (since, _) = last_sign_of_life(&mut pair, side);
            let after = closed_after(&mut pair, side, since);
            assert_eq!(
                after, expected,
                "{side:?} with {own:?}, its peer with {peers:?}"
            );
        }
    }
}

/// "the connection is silently closed and its state is discarded".
#[test]
fn silently() {
    for side in SIDES {
        let mut pair = ready(Some(SHORT), Some(SHORT));
        let (since, _) = last_sign_of_life(&mut pair, side);
        pair.filter = Box::new(move |_, _, _| panic!("told the peer"));
        // The acknowledgement of the PING is not what this is about.
        pair.now = since + SHORT;
        let connection = forge::side_of(&mut pair, side);
        assert_eq!(
            connection.poll_timeout().filter(|at| *at > since + SHORT),
            None
        );
        connection.handle_timeout(since + SHORT);
        assert_eq!(connection.lost_reason(), Some(&ConnectionError::TimedOut));
        assert_eq!(connection.poll_timeout(), None);
        assert!(
            connection
                .poll_transmit(since + SHORT, 10, &mut Vec::new())
                .is_none()
        );
        pair.step();
        let end = match side {
            Side::Client => &pair.client,
            Side::Server => &pair.server,
        };
        assert_eq!(end.endpoint.open_connections(), 0);
        assert!(end.events.iter().any(|event| matches!(
            event,
            crate::Event::ConnectionLost {
                reason: ConnectionError::TimedOut
            }
        )));
    }
}

/// "endpoints MUST increase the idle timeout period to be at least three times the current Probe
/// Timeout (PTO)".
//= specs/rfc9000.txt#section-10.1
//= type=test
//# To avoid excessively small idle timeout periods, endpoints MUST increase the idle timeout period
//# to be at least three times the current Probe Timeout (PTO).
#[test]
fn at_least_three_probe_timeouts() {
    let tiny = Some(Duration::from_millis(1));
    for side in SIDES {
        let mut pair = Pair::new(config(tiny), config(tiny));
        pair.delay = Duration::from_millis(200);
        pair.connect();
        let quiet = pair.run_until(Duration::from_secs(2), |pair| {
            SIDES.into_iter().all(|side| {
                let stats = forge::side_of(pair, side)
                    .path(PathId::ZERO)
                    .unwrap()
                    .stats();
                stats.in_flight == 0 && stats.has_rtt
            })
        });
        assert!(quiet);
        let (since, _) = last_sign_of_life(&mut pair, side);
        // RFC 9002 section 6.2.1. The peer's max_ack_delay is the default of 25 ms.
        let stats = forge::side_of(&mut pair, side)
            .path(PathId::ZERO)
            .unwrap()
            .stats();
        let variation = (4 * stats.rtt_var).max(Duration::from_millis(1));
        let pto = stats.rtt + variation + Duration::from_millis(25);
        assert!(stats.rtt >= Duration::from_millis(400));
        let after = closed_after(&mut pair, side, since);
        assert_eq!(after, Some(3 * pto), "{side:?}, {stats:?}");
    }
}

/// "An endpoint also restarts its idle timer when sending an ack-eliciting packet if no other
/// ack-eliciting packets have been sent since last receiving and processing a packet."
#[test]
fn restarts_with_the_first_packet_that_asks_for_an_answer() {
    for side in SIDES {
        let mut pair = ready(Some(SHORT), Some(SHORT));
        let (since, _) = last_sign_of_life(&mut pair, side);
        let write = |pair: &mut Pair| {
            let connection = forge::side_of(pair, side);
            let id = connection.streams().open(Dir::Uni).unwrap();
            assert_eq!(connection.send_stream(id).write(&[7; 100]), Ok(100));
            pair.step();
        };
        let first = since + Duration::from_secs(3);
        pair.now = first;
        write(&mut pair);
        // Neither these nor the probes that follow are the first.
        pair.now = first + Duration::from_secs(2);
        write(&mut pair);
        let after = closed_after(&mut pair, side, since);
        assert_eq!(after, Some(Duration::from_secs(3) + SHORT), "{side:?}");
    }
}

/// "An endpoint restarts its idle timer when a packet from its peer is received and processed
/// successfully": not by packets that are not authentic, nor by duplicates.
#[test]
fn does_not_restart_with_what_is_not_processed() {
    for side in SIDES {
        let mut pair = ready(Some(SHORT), Some(SHORT));
        let (since, ping) = last_sign_of_life(&mut pair, side);
        pair.now = since + Duration::from_secs(3);
        forge::hand_over(&mut pair, side, &ping);
        let (mut damaged, _) = Forgery::new(Packet::OneRtt, &[1; 100]).seal(&mut pair, !side);
        *damaged.last_mut().unwrap() ^= 1;
        forge::hand_over(&mut pair, side, &damaged);
        assert_eq!(
            closed_after(&mut pair, side, since),
            Some(SHORT),
            "{side:?}"
        );
        // The same packet undamaged does.
        let mut pair = ready(Some(SHORT), Some(SHORT));
        let (since, _) = last_sign_of_life(&mut pair, side);
        pair.now = since + Duration::from_secs(3);
        let (again, _) = last_sign_of_life(&mut pair, side);
        assert_eq!(
            closed_after(&mut pair, side, again),
            Some(SHORT),
            "{side:?}"
        );
        assert_eq!(pair.now - since, Duration::from_secs(3) + SHORT);
    }
}

/// The PTO rests on RTT samples, which a peer makes as long as it likes by acknowledging late. Three of such PTOs would
/// keep the connection for as long as it likes, too.
#[test]
fn late_acknowledgements_do_not_stretch_it() {
    let mut pair = ready(Some(LONG), Some(LONG));
    cut(&mut pair);
    pair.s().ping();
    let late = forge::next_number(pair.s());
    for _ in 0..30 {
        let end = pair.now + LONG / 2;
        pair.run_until(LONG / 2, |_| false);
        pair.now = end;
        forge::deliver(&mut pair, Side::Client, Packet::OneRtt, &[1]);
    }
    // ACK: the largest number, delay, count of further ranges, first range.
    let ack = forge::varints(&[0x02, late, 0, 0, 0]);
    forge::deliver(&mut pair, Side::Client, Packet::OneRtt, &ack);
    let rtt = pair.s().path(PathId::ZERO).unwrap().rtt();
    assert!(rtt > LONG, "the acknowledgement gave no sample: {rtt:?}");
    let since = pair.now;
    let after = closed_after(&mut pair, Side::Server, since);
    assert!(
        after.is_some_and(|after| after <= Duration::from_secs(60)),
        "{after:?} with an RTT of {rtt:?}"
    );
}

/// Times without end in the configuration are as good as a day: no sum with them overflows.
#[test]
fn times_without_end() {
    let mut config = config(Some(Duration::MAX));
    config
        .keep_alive_interval(Some(Duration::MAX))
        .initial_rtt(Duration::MAX);
    let mut pair = Pair::new(config.clone(), config);
    pair.connect();
    pair.run_until(LONG, |_| false);
    assert!(!pair.c().is_closed() && !pair.s().is_closed());
}

/// A client whose data waits for the server's limits keeps the connection; a server does not: what it keeps for a client
/// that does not read is not to be kept for ever.
//= specs/rfc9000.txt#section-4.1
//= type=test
//# To keep the connection from closing, a sender that is flow control limited SHOULD periodically send a
//# STREAM_DATA_BLOCKED or DATA_BLOCKED frame when it has no ack-eliciting packets in flight.
#[test]
fn a_client_at_the_servers_limits_keeps_the_connection() {
    for (side, stream) in SIDES
        .into_iter()
        .flat_map(|side| [(side, false), (side, true)])
    {
        let mut config = config(Some(LONG));
        match stream {
            false => config.receive_window(5000),
            true => config.stream_receive_window(5000),
        };
        let mut pair = forge::ready_for(Packet::OneRtt, config.clone(), config);
        let sender = forge::side_of(&mut pair, side);
        let id = sender.streams().open(Dir::Uni).unwrap();
        sender.send_stream(id).write(&[0; 20_000]).unwrap();
        // The writer has more than the stream takes.
        let _ = sender.send_stream(id).write(&[0; 20_000]);
        let since = pair.now;
        let closed = pair.run_until(10 * LONG, |pair| {
            pair.c().is_closed() && pair.s().is_closed()
        });
        match side {
            Side::Client => assert!(!closed, "after {:?}", pair.now - since),
            Side::Server => assert!(closed && pair.now - since < 2 * LONG),
        }
    }
}
