//! What a connection tells of its scheduler's learning, and by which names its paths are known.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use crate::common::{self, Pair, client_config, run};
use mpquic::sched::{Context, Decision, Learned, PathKey, PathUpdate, PathUpdateKind, Scheduler};
use mpquic::{Endpoint, FourTuple, TransportConfig, VarInt};

/// Notes the names of its paths.
#[derive(Default)]
struct Names {
    validated: Arc<Mutex<Vec<Option<PathKey>>>>,
}

impl Scheduler for Names {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        match cx.sendable().next() {
            Some(path) => Decision::send(path.index),
            None => Decision::Wait { until: None },
        }
    }

    fn on_path(&mut self, event: &PathUpdate) {
        if event.kind == PathUpdateKind::Validated {
            self.validated.lock().unwrap().push(event.key);
        }
    }

    fn learned(&self) -> Option<Learned> {
        let mut learned = Learned::new("names");
        learned.dropped = self.validated.lock().unwrap().len() as u64;
        Some(learned)
    }
}

#[test]
fn what_was_learned_is_told_while_the_connection_lasts_and_after() {
    run(async {
        let pair = Pair::with(&[common::loopback(1)], |transport| {
            transport.scheduler(|| Box::new(Names::default()));
        });
        let (client, server) = pair.connect().await;
        client.handshake_confirmed().await.unwrap();
        let learned = client.learned().unwrap();
        assert_eq!((&*learned.scheduler, learned.dropped), ("names", 1));
        client.close(VarInt::from_u32(0), b"");
        server.closed().await;
        assert_eq!(client.learned().unwrap().dropped, 1);
        assert_eq!(server.learned().unwrap().dropped, 1);
    });
}

#[test]
fn schedulers_that_do_not_learn_tell_nothing() {
    run(async {
        let pair = Pair::new();
        let (client, _server) = pair.connect().await;
        assert_eq!(client.learned(), None);
    });
}

/// A socket on a wildcard address knows its address by the first answer, in time for the name; on a
/// system that does not tell, it stays unspecified.
#[test]
fn a_path_from_a_wildcard_socket_is_named_by_the_address_that_it_turned_out_to_have() {
    run(async {
        let pair = Pair::new();
        let names = Names::default();
        let validated = Arc::clone(&names.validated);
        let names = Mutex::new(Some(names));
        let mut transport = TransportConfig::default();
        transport.scheduler(move || Box::new(names.lock().unwrap().take().unwrap()));
        let wildcard = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
        let client = Endpoint::client(&[wildcard]).unwrap();
        let config = client_config(&pair.identity, transport);
        let connecting = client
            .connect_with(config, pair.server_addr, "localhost")
            .unwrap();
        let accepting = async { pair.server.accept().await.unwrap().await.unwrap() };
        let (client, _server) = tokio::join!(connecting, accepting);
        let client = client.unwrap();
        let local = client
            .local_ip()
            .unwrap_or_else(|| Ipv4Addr::UNSPECIFIED.into());
        let expected = FourTuple {
            local: SocketAddr::new(local, 0),
            remote: pair.server_addr,
        }
        .key();
        assert_eq!(*validated.lock().unwrap(), [Some(expected)]);
        if cfg!(target_os = "linux") {
            assert_eq!(local, Ipv4Addr::LOCALHOST);
        }
    });
}
