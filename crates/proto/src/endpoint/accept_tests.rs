//! Tests of accepting in three steps, and of what is left of connections that end before they begin.

use super::tests::{Bench, initial};
use super::*;
use crate::{ConnectionError, limits};

fn garbage_outcome(bench: &mut Bench, incoming: Incoming) -> AcceptOutcome {
    let mut answer = Vec::new();
    let job = bench.endpoint.prepare_accept(incoming, &mut answer, None);
    assert!(answer.is_empty());
    job.unwrap().run(bench.now)
}

#[test]
fn what_comes_while_tls_works_is_kept_and_counted() {
    let mut bench = Bench::server();
    let incoming = bench.incoming(&initial(1)).unwrap();
    let outcome = garbage_outcome(&mut bench, incoming);
    // The endpoint is free to route meanwhile.
    let other = bench.incoming(&initial(2)).unwrap();
    assert!(bench.handle(&initial(1)).is_none());
    assert_eq!(bench.endpoint.half_open().connections, 2);
    let error = bench
        .endpoint
        .finish_accept(bench.now, outcome, &mut Vec::new())
        .err()
        .unwrap();
    assert!(matches!(error.cause, ConnectionError::LocallyClosed));
    assert!(error.response.is_none());
    bench.endpoint.ignore(other);
    bench.assert_none_waits();
}

#[test]
fn what_expires_while_tls_works_is_not_accepted() {
    let mut bench = Bench::server();
    let incoming = bench.incoming(&initial(1)).unwrap();
    bench.now = incoming.expires();
    let outcome = garbage_outcome(&mut bench, incoming);
    bench.endpoint.handle_timeout(bench.now);
    let error = bench
        .endpoint
        .finish_accept(bench.now, outcome, &mut Vec::new())
        .err()
        .unwrap();
    assert!(matches!(error.cause, ConnectionError::TimedOut));
    bench.assert_none_waits();
    assert_eq!(bench.endpoint.open_connections(), 0);
}

//= specs/rfc9000.txt#section-10.2.1
//= type=test
//# An endpoint in the closing state sends a packet containing a CONNECTION_CLOSE frame in response
//# to any incoming packet that it attributes to the connection.
//= specs/rfc9000.txt#section-10.2.1
//= type=test
//# An endpoint SHOULD limit the rate at which it generates packets in the closing state.
#[test]
fn a_refusal_is_sent_again_ever_more_rarely() {
    let mut bench = Bench::server();
    let incoming = bench.incoming(&initial(1)).unwrap();
    let mut refusal = Vec::new();
    let _ = bench.endpoint.refuse(incoming, &mut refusal);
    let answers: Vec<usize> = (1..=100)
        .filter(|_| match bench.response(&initial(1)) {
            Some(answer) => {
                assert_eq!(answer, refusal);
                true
            }
            None => false,
        })
        .collect();
    assert_eq!(answers, [1, 2, 4, 8, 16, 32, 64]);
    // Another connection of the same client is another matter.
    assert!(bench.incoming(&initial(2)).is_some());
    // So is the same after its time.
    bench.now += Duration::from_secs(3);
    assert!(bench.incoming(&initial(1)).is_some());
    assert_eq!(bench.endpoint.refused.len(), 0);
}

//= specs/rfc9000.txt#section-10.2.1
//= type=test
//# To avoid being used for an amplification attack, such endpoints MUST limit the cumulative size
//# of packets it sends to three times the cumulative size of the packets that are received and
//# attributed to the connection.
#[test]
fn a_refusal_is_no_amplifier() {
    let mut bench = Bench::server();
    let incoming = bench.incoming(&initial(1)).unwrap();
    let mut refusal = Vec::new();
    let _ = bench.endpoint.refuse(incoming, &mut refusal);
    let (mut received, mut sent) = (0, 0);
    for size in (7..60).chain([7; 1000]) {
        let tiny = &initial(1)[..size.max(6 + 8)];
        received += tiny.len();
        sent += bench.response(tiny).map_or(0, |answer| answer.len());
        assert!(sent <= 3 * received, "{sent} of {received}");
    }
}

#[test]
fn a_flood_of_refusals_leaves_little() {
    let mut bench = Bench::server();
    for n in 0..1000 {
        let incoming = bench.incoming(&initial(n)).unwrap();
        let _ = bench.endpoint.refuse(incoming, &mut Vec::new());
    }
    assert_eq!(bench.endpoint.refused.len(), limits::MAX_CLOSED_KEPT);
    assert_eq!(bench.endpoint.routes.sizes().0, limits::MAX_CLOSED_KEPT);
    // The newest are kept.
    assert!(bench.response(&initial(999)).is_some());
    assert!(bench.incoming(&initial(0)).is_some());
}
