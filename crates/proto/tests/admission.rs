//! Address validation over the wire: Retry and its loss, tokens of earlier connections.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::pair::{Pair, read_all, tuple};
use mpquic_proto::{
    ConnectionError, Dir, Endpoint, EndpointConfig, NoTokenLog, NoTokenStore, PathErrorCode,
    PathId, TokenMemoryStore, TokenStore, TransportConfig, ValidationTokenConfig,
};

const SECOND: Duration = Duration::from_secs(1);

fn pair() -> Pair {
    Pair::new(TransportConfig::default(), TransportConfig::default())
}

/// Bits of the first byte that tell a Retry packet.
fn is_retry(datagram: &[u8]) -> bool {
    datagram[0] & 0xf0 == 0xf0
}

//= specs/rfc9000.txt#section-7.3
//= type=test
//# A server includes the Destination Connection ID field from the first Initial packet it
//# received from the client in the original_destination_connection_id transport parameter; if the
//# server sent a Retry packet, this refers to the first Initial packet received before sending the
//# Retry packet.
//= specs/rfc9000.txt#section-7.3
//= type=test
//# If it sends a Retry packet, a server also includes the Source Connection ID field from the
//# Retry packet in the retry_source_connection_id transport parameter.
#[test]
fn a_handshake_with_retry() {
    let mut pair = pair();
    pair.retry = true;
    let start = pair.now;
    // The client checks both parameters, or there is no connection.
    pair.connect();
    let took = pair.now - start;
    assert!(
        took <= Duration::from_millis(80),
        "one round trip more: {took:?}"
    );
    assert_eq!(pair.server.endpoint.open_connections(), 1);
    assert_eq!(pair.server.endpoint.half_open().connections, 0);
}

/// Every one of the first datagrams is lost once, each in a run of its own, and all of the first few.
#[test]
fn a_handshake_with_retry_under_loss() {
    for lost in 0..12 {
        for all_before in [false, true] {
            let mut pair = pair();
            pair.retry = true;
            let mut number = 0;
            let retries = Rc::new(Cell::new(0));
            let count = Rc::clone(&retries);
            pair.filter = Box::new(move |_, _, datagram| {
                let now = number;
                number += 1;
                let drop = if all_before {
                    now < lost / 3
                } else {
                    now == lost
                };
                if !drop && is_retry(datagram) {
                    count.set(count.get() + 1);
                }
                !drop
            });
            pair.connect();
            assert!(retries.get() >= 1);
        }
    }
}

/// Somebody who saw the client's first packet repeats it: the client takes one Retry, and the server keeps nothing
/// for the others.
#[test]
fn repeated_first_packets() {
    let mut pair = pair();
    pair.retry = true;
    let mut first = None;
    assert!(pair.run_until(SECOND, |pair| {
        first = pair.server.inbound.front().cloned();
        first.is_some()
    }));
    let first = first.unwrap();
    for _ in 0..5 {
        pair.server.inbound.push_back(first.clone());
    }
    pair.connect();
    assert_eq!(pair.server.endpoint.open_connections(), 1);
    assert_eq!(pair.server.endpoint.half_open().connections, 0);
}

/// RFC 9000 section 8.1: the address is proven, so a large certificate needs no more of the client's packets.
#[test]
fn a_proven_address_has_no_limit() {
    for retry in [false, true] {
        let mut pair = pair();
        pair.retry = retry;
        let accepted = pair.run_until(SECOND, |pair| pair.server.connection.is_some());
        assert!(accepted);
        assert_eq!(
            pair.s()
                .path(PathId::ZERO)
                .is_ok_and(|path| path.is_validated()),
            retry
        );
    }
}

/// Counts the Retry packets that are sent from here on.
fn count_retries(pair: &mut Pair) -> Rc<Cell<usize>> {
    let retries = Rc::new(Cell::new(0));
    let count = Rc::clone(&retries);
    pair.filter = Box::new(move |_, _, datagram| {
        count.set(count.get() + usize::from(is_retry(datagram)));
        true
    });
    retries
}

/// A server that has every client prove its address, and a client with this store that was there before.
fn visited(store: Arc<dyn TokenStore>) -> (Pair, Rc<Cell<usize>>) {
    let (mut client, server) = Pair::configs(multipath(), multipath());
    client.token_store(store);
    let mut pair = Pair::with_configs(client, server);
    pair.retry = true;
    let retries = count_retries(&mut pair);
    pair.connect();
    pair.run_until(SECOND, |_| false);
    assert_eq!(retries.replace(0), 1);
    (pair, retries)
}

fn multipath() -> TransportConfig {
    let mut config = TransportConfig::default();
    config.max_paths(4).max_idle_timeout(None);
    config
}

//= specs/rfc9000.txt#section-8.1.3
//= type=test
//# When connecting to a server for which the client retains an applicable and unused token, it SHOULD
//# include that token in the Token field of its Initial packet.
#[test]
fn a_client_that_comes_back_needs_no_retry() {
    let (mut pair, retries) = visited(Arc::new(TokenMemoryStore::default()));
    for _ in 0..5 {
        // Each connection uses one token and brings two.
        pair.reconnect(tuple(0));
        let begun = pair.now;
        pair.connect();
        assert!(pair.now - begun <= Duration::from_millis(60));
        assert_eq!(retries.get(), 0);
        pair.run_until(SECOND, |_| false);
    }
    // From another address, no token counts.
    pair.reconnect(tuple(1));
    pair.connect();
    assert_eq!(retries.get(), 1);
}

#[test]
fn a_client_that_keeps_no_tokens_proves_its_address_each_time() {
    let (mut pair, retries) = visited(Arc::new(NoTokenStore));
    pair.reconnect(tuple(0));
    pair.connect();
    assert_eq!(retries.get(), 1);
}

//= specs/rfc10069-draft.md#address-validation-token
//= type=test
//# To avoid issues when clients make the "wrong" choice, a server SHOULD issue tokens that are
//# capable of validating any of the previously validated addresses.
#[test]
fn a_token_counts_for_all_addresses_that_were_validated() {
    for from in [0, 1, 2] {
        let (mut pair, retries) = visited(Arc::new(TokenMemoryStore::default()));
        for path in [1, 2] {
            let now = pair.now;
            pair.c().open_path(now, tuple(path)).unwrap();
        }
        let ids = [PathId(1), PathId(2)];
        let open = pair.run_until(SECOND, |pair| {
            ids.iter()
                .all(|id| pair.s().path(*id).is_ok_and(|path| path.is_validated()))
        });
        assert!(open);
        pair.run_until(SECOND, |_| false);
        pair.reconnect(tuple(from));
        pair.connect();
        assert_eq!(retries.get(), 0, "from address {from}");
    }
}

/// The second connection of a client that was at addresses 0 and 1: what the server sent on the path 1 from this address
/// until it heard the answer to its challenge, of a download for which the first path has no room.
fn sent_before_validation(from: u8) -> (u64, Pair) {
    let (mut pair, _) = visited(Arc::new(TokenMemoryStore::default()));
    let now = pair.now;
    pair.c().open_path(now, tuple(1)).unwrap();
    assert!(pair.run_until(SECOND, |pair| {
        pair.s()
            .path(PathId(1))
            .is_ok_and(|path| path.is_validated())
    }));
    pair.run_until(SECOND, |_| false);
    pair.reconnect(tuple(0));
    pair.app = Box::new(move |is_client, now, connection| {
        if is_client && connection.paths().may_open() && connection.paths().ids().count() == 1 {
            let _ = connection.open_path(now, tuple(from));
            if let Some(stream) = connection.streams().open(Dir::Bi) {
                let _ = connection.send_stream(stream).write(b"all of it");
            }
        }
    });
    let before = data_before_validation(&mut pair, PathId(1));
    (before, pair)
}

/// What the server sends on the client's new path until it has heard the answer to its challenge.
fn data_before_validation(pair: &mut Pair, path: PathId) -> u64 {
    let mut before = 0;
    let validated = pair.run_until(SECOND, |pair| {
        if pair.server.connection.is_none() {
            return false;
        }
        if let Some(stream) = pair.s().streams().accept(Dir::Bi) {
            let _ = pair.s().send_stream(stream).write(&[7; 4_000_000]);
        }
        for (tuple, traffic) in pair.s().paths().amplification() {
            // An initial window, and what the amplification limit allows beside it.
            if let Some((sent, received)) = traffic {
                assert!(sent <= 3 * received, "{sent} after {received} of {tuple:?}");
            }
        }
        if pair.s().path(path).is_ok_and(|path| path.is_validated()) {
            return true;
        }
        let stats = pair.s().path(path).map(|path| path.stats());
        before = stats.map_or(0, |stats| stats.sent_stream_bytes);
        false
    });
    assert!(validated);
    before
}

/// An initial window goes ahead of the validation to an address at which the client was before, and nothing to another.
#[test]
fn data_need_not_wait_at_an_address_that_a_token_knows() {
    assert_eq!(sent_before_validation(2).0, 0);
    let known = sent_before_validation(1).0;
    assert!((8 * 1100..=15 * 1200).contains(&known), "{known}");
}

/// A client that opens path after path from there does not draw another window to where perhaps nobody is any more.
#[test]
fn an_address_that_a_token_knows_gets_data_ahead_once() {
    let (first, mut pair) = sent_before_validation(1);
    assert!(first > 0);
    let now = pair.now;
    // The client opens path 2 then.
    pair.c()
        .path_mut(PathId(1))
        .close(now, PathErrorCode::NO_ERROR)
        .unwrap();
    assert_eq!(data_before_validation(&mut pair, PathId(2)), 0);
}

/// Whatever is lost: the tokens arrive in the end.
#[test]
fn tokens_survive_loss() {
    for lost in 0..12 {
        let (client, server) = Pair::configs(multipath(), multipath());
        let mut pair = Pair::with_configs(client, server);
        let mut number = 0;
        pair.filter = Box::new(move |from_client, _, _| {
            number += usize::from(!from_client);
            from_client || number != lost
        });
        pair.connect();
        pair.run_until(5 * SECOND, |_| false);
        let retries = count_retries(&mut pair);
        pair.retry = true;
        for _ in 0..2 {
            pair.reconnect(tuple(0));
            pair.connect();
            assert_eq!(retries.get(), 0, "{lost} was lost");
        }
    }
}

#[test]
fn a_server_can_give_out_no_tokens_or_accept_none() {
    let mut none = ValidationTokenConfig::default();
    none.sent(0);
    let mut refused = ValidationTokenConfig::default();
    refused.log(Arc::new(NoTokenLog));
    let mut short = ValidationTokenConfig::default();
    short.lifetime(Duration::from_millis(500));
    for tokens in [none, refused, short] {
        let (client, mut server) = Pair::configs(multipath(), multipath());
        server.validation_tokens(tokens);
        let mut pair = Pair::with_configs(client, server);
        pair.connect();
        pair.run_until(SECOND, |_| false);
        pair.now += SECOND;
        let retries = count_retries(&mut pair);
        pair.retry = true;
        pair.reconnect(tuple(0));
        pair.connect();
        assert_eq!(retries.get(), 1);
    }
}

/// A process is replaced by one with the same reset key: the client notices at once that its connection is gone.
#[test]
fn another_process_with_the_same_key_ends_a_connection() {
    for same_key in [true, false] {
        let mut pair = pair();
        pair.connect();
        let mut config = EndpointConfig::new([3; 32]);
        // The key of the process before came from its seed.
        config.reset_key(if same_key { [2; 32] } else { [4; 32] });
        pair.server.endpoint = Endpoint::new(Arc::new(config), None);
        pair.server.connection = None;
        let before = pair.now;
        let id = pair.c().streams().open(Dir::Uni).unwrap();
        pair.c().send_stream(id).write(&[0; 500]).unwrap();
        let over = pair.run_until(SECOND, |pair| pair.c().is_closed());
        assert_eq!(over, same_key);
        if same_key {
            let reason = pair.c().lost_reason();
            assert!(matches!(reason, Some(ConnectionError::Reset)), "{reason:?}");
            assert!(pair.now - before <= Duration::from_millis(30));
        }
    }
}

/// The server's process is killed, and another one takes its place after a while. The client has nothing to say but that it
/// is there: its keep-alives, and the probes of what it sent in vain, are large enough to be answered.
#[test]
fn a_client_that_only_listens_notices_that_the_server_lost_its_state() {
    for (keep_alive, away) in [
        (Some(SECOND), Duration::ZERO),
        (Some(SECOND), Duration::from_millis(1500)),
        (None, Duration::ZERO),
        (None, Duration::from_millis(400)),
    ] {
        // Too long to matter in the middle of a download.
        let interval = keep_alive.unwrap_or(100 * SECOND);
        let mut config = TransportConfig::default();
        config.keep_alive_interval(Some(interval));
        let mut pair = Pair::new(config, TransportConfig::default());
        pair.connect();
        if keep_alive.is_some() {
            pair.run_until(5 * SECOND, |_| false);
        } else {
            // In the middle of a download: it sends acknowledgements, and nobody answers these.
            let id = pair.s().streams().open(Dir::Uni).unwrap();
            let mut read = 0;
            pair.run_until(SECOND, |pair| {
                let _ = pair.s().send_stream(id).write(&[0; 10_000]);
                pair.c().streams().accept(Dir::Uni);
                read_all(pair, id, &mut read);
                read > 200_000
            });
            assert!(read > 200_000);
        }
        let mut config = EndpointConfig::new([3; 32]);
        config.reset_key([2; 32]);
        pair.server.endpoint = Endpoint::new(Arc::new(config), None);
        pair.server.connection = None;
        let (killed, small) = (pair.now, Rc::new(Cell::new(usize::MAX)));
        let (least, begun) = (Rc::clone(&small), Rc::new(Cell::new(false)));
        let is_back = Rc::clone(&begun);
        pair.filter = Box::new(move |from_client, _, datagram| {
            if from_client && is_back.get() {
                least.set(least.get().min(datagram.len()));
            }
            !from_client || is_back.get()
        });
        pair.run_until(away, |_| false);
        begun.set(true);
        let back = pair.now;
        assert!(back >= killed + away);
        assert!(
            pair.run_until(2 * SECOND, |pair| pair.c().is_closed()),
            "{keep_alive:?}, away for {away:?}"
        );
        let reason = pair.c().lost_reason();
        assert!(matches!(reason, Some(ConnectionError::Reset)), "{reason:?}");
        // The next keep-alive, or the next probe: an eighth of the time away.
        let most = keep_alive.unwrap_or(Duration::from_millis(250));
        let took = pair.now - back;
        assert!(
            took <= most + pair.delay * 2,
            "{took:?} {keep_alive:?} {away:?}"
        );
        // As large as it must be, and no larger.
        if keep_alive.is_some() {
            assert_eq!(small.get(), 43);
        }
    }
}
