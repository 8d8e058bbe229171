//! Connection IDs by which something in front of a server routes packets: on every path, and while they change.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::pair::{Pair, client_addr, tuple};
use mpquic_proto::{
    ConnectionIdGenerator, EndpointConfig, PathId, QuicLb, QuicLbConfig, TransportConfig,
};

/// Where 1-RTT packets of the client come from, and their connection IDs of 11 bytes.
type Seen = Rc<RefCell<Vec<(SocketAddr, Vec<u8>)>>>;

fn config() -> TransportConfig {
    let mut config = TransportConfig::default();
    config.keep_alive_interval(Some(Duration::from_millis(100)));
    config
}

/// A server with these connection IDs, and a client that sees them.
fn connected(ids: Arc<dyn ConnectionIdGenerator>) -> (Pair, Seen) {
    let mut endpoints = [1, 2].map(|seed| EndpointConfig::new([seed; 32]));
    endpoints[1].connection_ids(ids);
    let mut pair = Pair::with_endpoints(config(), config(), endpoints);
    let seen = Seen::default();
    let all = Rc::clone(&seen);
    pair.filter = Box::new(move |from_client, tuple, data| {
        if from_client && data[0] & 0x80 == 0 {
            all.borrow_mut().push((tuple.local, data[1..12].to_vec()));
        }
        true
    });
    pair.connect();
    (pair, seen)
}

fn open(pair: &mut Pair, path: u8) {
    let now = pair.now;
    let id = PathId(path.into());
    assert_eq!(pair.c().open_path(now, tuple(path)), Ok(id));
    assert!(pair.run_until(Duration::from_secs(5), |pair| pair.both_validated(id)));
}

#[test]
fn all_paths_of_a_connection_lead_to_one_server() {
    let ids = QuicLb::new(&QuicLbConfig::new(0, &[0xa5, 7], 8)).unwrap();
    let (mut pair, seen) = connected(Arc::new(ids));
    open(&mut pair, 1);
    pair.run_until(Duration::from_secs(1), |_| false);
    let seen = seen.borrow();
    for path in [0, 1] {
        let of_path = seen.iter().filter(|(from, _)| *from == client_addr(path));
        assert!(of_path.clone().count() > 5);
        assert!(
            of_path
                .clone()
                .all(|(_, id)| id[0] >> 5 == 0 && id[1..3] == [0xa5, 7])
        );
    }
    // Otherwise, nothing tells that they are of one connection.
    let first = |path| seen.iter().find(|(from, _)| *from == client_addr(path));
    assert_ne!(first(0).unwrap().1[3..], first(1).unwrap().1[3..]);
}

/// The balancers have another configuration: open connections go over to it, on every path, and paths that are opened later
/// begin with it.
#[test]
fn connections_go_over_to_another_configuration() {
    let ids = Arc::new(QuicLb::new(&QuicLbConfig::new(0, &[1, 1], 8)).unwrap());
    let (mut pair, seen) = connected(ids.clone());
    open(&mut pair, 1);
    ids.replace(&QuicLbConfig::new(1, &[2, 2], 8)).unwrap();
    pair.run_until(Duration::from_secs(1), |_| false);
    assert!(seen.borrow().iter().all(|(_, id)| id[0] >> 5 == 0));
    // Once more while that is under way changes nothing.
    pair.s().replace_connection_ids();
    pair.s().replace_connection_ids();
    pair.run_until(Duration::from_secs(1), |_| false);
    seen.borrow_mut().clear();
    open(&mut pair, 2);
    pair.run_until(Duration::from_secs(1), |_| false);
    for path in [0, 1, 2] {
        let seen = seen.borrow();
        let of_path = seen.iter().filter(|(from, _)| *from == client_addr(path));
        assert!(of_path.clone().count() > 5, "{path}");
        assert!(
            of_path
                .clone()
                .all(|(_, id)| id[0] >> 5 == 1 && id[1..3] == [2, 2]),
            "{path}"
        );
    }
    // And again.
    ids.replace(&QuicLbConfig::new(2, &[3, 3], 8)).unwrap();
    pair.s().replace_connection_ids();
    pair.run_until(Duration::from_secs(1), |_| false);
    seen.borrow_mut().clear();
    pair.run_until(Duration::from_secs(1), |_| false);
    assert!(seen.borrow().iter().all(|(_, id)| id[0] >> 5 == 2));
    assert!(!pair.c().is_closed() && !pair.s().is_closed());
}
