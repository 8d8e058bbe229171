//! A path that the client opens and never proves.

use std::time::Duration;

use crate::pair::{Pair, tuple};
use mpquic_proto::{Event, PathErrorCode, PathEvent, TransportConfig};

/// The amplification limit is reached with challenges in flight: neither may the timers fire for ever
/// (RFC 9002 section 6.2.2.1), nor may the path stay for ever.
#[test]
fn a_server_gives_up_a_path_whose_client_vanished() {
    let mut pair = Pair::new(TransportConfig::default(), TransportConfig::default());
    pair.connect();
    let now = pair.now;
    let id = pair.c().open_path(now, tuple(1)).unwrap();
    let mut first = true;
    pair.filter = Box::new(move |from_client, _, _| from_client && std::mem::take(&mut first));
    let gone = Event::Path(PathEvent::Abandoned {
        id,
        error_code: PathErrorCode::PATH_UNSTABLE_OR_POOR,
        by_peer: false,
    });
    let mut steps = 0;
    assert!(pair.run_until(Duration::from_secs(25), |pair| {
        steps += 1;
        pair.server.events.contains(&gone)
    }));
    assert!(steps < 500, "{steps}");
    assert!(pair.s().path(id).is_err());
    assert!(!pair.s().is_closed());
}
