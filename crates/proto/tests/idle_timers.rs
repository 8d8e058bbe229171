//! An idle connection costs nothing: no timer goes off and no datagram leaves until its idle timeout.

use std::time::Duration;

use crate::pair::{Pair, download, tuple};
use mpquic_proto::TransportConfig;

/// Acknowledgements, probes for the path MTU, what is sent again: so long after the last byte, all is said.
const SETTLED: Duration = Duration::from_secs(5);

/// A connection does something on each of its paths, and then has nothing to do. At how many times something happens
/// from a while after that until both sides have forgotten it.
fn events(paths: u8, keep_alive: Option<Duration>) -> usize {
    let mut client = TransportConfig::default();
    client.keep_alive_interval(keep_alive);
    let mut pair = Pair::new(client, TransportConfig::default());
    pair.connect();
    for path in 1..paths {
        let now = pair.now;
        pair.c().open_path(now, tuple(path)).unwrap();
    }
    assert!(download(&mut pair, 1 << 20));
    let settled = pair.now + SETTLED;
    let mut events = 0;
    pair.run_until(Duration::from_secs(120), |pair| {
        events += usize::from(pair.now > settled);
        pair.c().is_drained() && pair.s().is_drained()
    });
    events
}

#[test]
fn no_timer_of_an_idle_connection_goes_off_before_its_last() {
    for paths in [1, 2, 4] {
        // The idle timeouts of both sides.
        let events = events(paths, None);
        assert!(events <= 3, "{paths} paths: {events} events");
    }
}

/// The test sees what it is to see.
#[test]
fn a_connection_that_is_kept_alive_is_not_idle() {
    let events = events(1, Some(Duration::from_secs(5)));
    assert!(events > 24, "{events}");
}
