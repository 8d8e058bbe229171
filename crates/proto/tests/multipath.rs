//! The life of paths as RFC 10069 has it: opened, proven, abandoned, and the end of a connection of several.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::pair::{Pair, client_addr, tuple};
use bytes::Bytes;
use mpquic_proto::{
    Dir, EarlyPathData, Event, NumberSpace, Observer, PacketSent, PathErrorCode, PathEvent, PathId,
    StreamId, TransportConfig, VarInt,
};
use mpquic_sched_core::{Context, Decision, Scheduler};

const SECOND: PathId = PathId(1);

/// With keep-alives, so that time passes in small steps and no connection idles out.
fn config() -> TransportConfig {
    let mut config = TransportConfig::default();
    config.keep_alive_interval(Some(Duration::from_millis(100)));
    config
}

fn connected() -> Pair {
    let mut pair = Pair::new(config(), config());
    pair.connect();
    pair
}

fn open_second(pair: &mut Pair) {
    let now = pair.now;
    assert_eq!(pair.c().open_path(now, tuple(1)), Ok(SECOND));
}

fn two_paths() -> Pair {
    let mut pair = connected();
    open_second(&mut pair);
    assert!(pair.run_until(Duration::from_secs(5), |pair| pair.both_validated(SECOND)));
    pair
}

/// Whether the datagram travels between the client's second address and the server.
fn is_second(from_client: bool, tuple: &mpquic_proto::FourTuple) -> bool {
    let client = if from_client {
        tuple.local
    } else {
        tuple.remote
    };
    client == client_addr(1)
}

/// Both sides write as much as they can for so long.
fn both_write(pair: &mut Pair, time: Duration) {
    let up = pair.c().streams().open(Dir::Uni).unwrap();
    let down = pair.s().streams().open(Dir::Uni).unwrap();
    let data = vec![7; 65536];
    let mut buf = vec![0; 65536];
    let mut read = |connection: &mut mpquic_proto::Connection, id: StreamId| {
        connection.streams().accept(Dir::Uni);
        while let Ok(Some(_)) = connection.recv_stream(id).read(&mut buf) {}
    };
    pair.run_until(time, |pair| {
        while pair.c().send_stream(up).write(&data).is_ok() {}
        while pair.s().send_stream(down).write(&data).is_ok() {}
        read(pair.s(), up);
        read(pair.c(), down);
        false
    });
}

fn abandoned(by_peer: bool) -> Event {
    Event::Path(PathEvent::Abandoned {
        id: SECOND,
        error_code: PathErrorCode::PATH_UNSTABLE_OR_POOR,
        by_peer,
    })
}

//= specs/rfc10069-draft.md#path-initiation
//= type=test
//# A client that wants to use a new path MUST validate the peer's address as described in {{Section
//# 8.2 of QUIC-TRANSPORT}}, unless it has previously validated the 4-tuple used for that path.
#[test]
fn a_client_sends_no_data_on_a_path_that_is_not_proven() {
    let mut strict = config();
    strict.early_path_data(EarlyPathData::Never);
    let mut pair = Pair::new(strict, config());
    pair.connect();
    pair.filter = Box::new(|from_client, tuple, _| from_client || !is_second(from_client, tuple));
    open_second(&mut pair);
    both_write(&mut pair, Duration::from_millis(200));
    let sent = pair.c().path(SECOND).unwrap().stats();
    assert!(
        sent.sent_datagrams > 1 && sent.sent_stream_bytes == 0,
        "{sent:?}"
    );
    assert!(
        pair.c()
            .path(PathId::ZERO)
            .unwrap()
            .stats()
            .sent_stream_bytes
            > 0
    );
}

//= specs/rfc10069-draft.md#path-initiation
//= type=test
//# After receiving packets from the client on a new path, if the server decides to use the new
//# path, the server MUST validate the peer's address before sending any data as described in
//# ({{Section 8.2 of QUIC-TRANSPORT}}), unless it has previously validated the 4-tuple used for
//# that path.
#[test]
fn a_server_sends_no_data_on_a_path_that_is_not_proven() {
    let mut pair = connected();
    let mut first = true;
    pair.filter = Box::new(move |from_client, tuple, _| {
        !(from_client && is_second(from_client, tuple)) || std::mem::take(&mut first)
    });
    open_second(&mut pair);
    both_write(&mut pair, Duration::from_millis(200));
    let sent = pair.s().path(SECOND).unwrap().stats();
    assert!(
        sent.sent_datagrams > 0 && sent.sent_stream_bytes == 0,
        "{sent:?}"
    );
    assert!(
        pair.s()
            .path(PathId::ZERO)
            .unwrap()
            .stats()
            .sent_stream_bytes
            > 0
    );
}

/// Not even in loss probes, when nothing comes back on the first path any more.
//= specs/rfc10069-draft.md#path-initiation
//= type=test
//# After receiving packets from the client on a new path, if the server decides to use the new
//# path, the server MUST validate the peer's address before sending any data as described in
//# ({{Section 8.2 of QUIC-TRANSPORT}}), unless it has previously validated the 4-tuple used for
//# that path.
#[test]
fn a_server_probes_a_path_that_is_not_proven_without_data() {
    let mut pair = connected();
    // Only the client's packets on the second path arrive: nothing that the server sends is answered.
    pair.filter = Box::new(|from_client, tuple, _| from_client && is_second(from_client, tuple));
    open_second(&mut pair);
    pair.run_until(Duration::from_millis(30), |_| false);
    let stream = pair.s().streams().open(Dir::Uni).unwrap();
    assert!(pair.s().send_stream(stream).write(&[7; 65536]).is_ok());
    pair.run_until(Duration::from_secs(3), |_| false);
    assert!(!pair.s().path(SECOND).is_ok_and(|path| path.is_validated()));
    let first = pair.s().path(PathId::ZERO).unwrap().stats();
    let second = pair.s().path(SECOND).unwrap().stats();
    assert!(first.suspect && second.sent_datagrams > 1, "{second:?}");
    assert_eq!(second.sent_stream_bytes, 0, "{second:?}");
}

/// The way back of the second path is closed: an answer that came on the first would prove it.
//= specs/rfc10069-draft.md#path-initiation
//= type=test
//# If an endpoint sends a PATH_RESPONSE ({{Section 19.18 of QUIC-TRANSPORT}}), it MUST be sent on
//# the same path as used by the packet that contained the PATH_CHALLENGE frame ({{Section 19.17 of
//# QUIC-TRANSPORT}}), using a connection ID associated with the same path ID.
//= specs/rfc9000.txt#section-8.2.2
//= type=test
//# A PATH_RESPONSE frame MUST be sent on the network path where the PATH_CHALLENGE frame was
//# received.
#[test]
fn a_challenge_is_answered_on_its_own_path() {
    let mut pair = connected();
    pair.filter = Box::new(|from_client, tuple, _| from_client || !is_second(from_client, tuple));
    open_second(&mut pair);
    let gone = pair.run_until(Duration::from_secs(25), |pair| {
        assert!(!pair.c().path(SECOND).is_ok_and(|path| path.is_validated()));
        pair.client.events.contains(&abandoned(false))
    });
    assert!(gone);
}

//= specs/rfc10069-draft.md#path-initiation
//= type=test
//# If validation fails, the client MUST NOT use the path and can remove any status associated to
//# the path initiation attempt.
//= specs/rfc10069-draft.md#path-initiation
//= type=test
//# As the used path ID is consumed either way, the endpoint MUST explicitly close the path, as
//# specified in {{path-close}}.
#[test]
fn a_path_that_cannot_be_proven_is_abandoned() {
    let mut pair = connected();
    pair.filter = Box::new(|from_client, tuple, _| !is_second(from_client, tuple));
    open_second(&mut pair);
    assert!(pair.run_until(Duration::from_secs(25), |pair| {
        pair.server.events.contains(&abandoned(true))
    }));
    assert!(pair.client.events.contains(&abandoned(false)));
    assert_eq!(pair.c().paths().ids().collect::<Vec<_>>(), [PathId::ZERO]);
}

//= specs/rfc10069-draft.md#path-initiation
//= type=test
//# Each endpoint MUST also validate that a minimum QUIC packet MTU of 1200 bytes is supported on
//# the path.
//= specs/rfc9000.txt#section-8.2.1
//= type=test
//# An endpoint MUST expand datagrams that contain a PATH_CHALLENGE frame to at least the smallest
//# allowed maximum datagram size of 1200 bytes, unless the anti-amplification limit for the path
//# does not permit sending a datagram of this size.
#[test]
fn a_path_too_narrow_for_quic_is_not_proven() {
    let mut pair = connected();
    pair.filter =
        Box::new(|from_client, tuple, data| !is_second(from_client, tuple) || data.len() < 1200);
    open_second(&mut pair);
    assert!(pair.run_until(Duration::from_secs(25), |pair| {
        assert!(!pair.c().path(SECOND).is_ok_and(|path| path.is_validated()));
        pair.client.events.contains(&abandoned(false))
    }));
}

//= specs/rfc10069-draft.md#path-initiation
//= type=test
//# To open a new path, an endpoint MUST use a new connection ID associated with an unused path ID.
//= specs/rfc10069-draft.md#issuing-new-connection-ids
//= type=test
//# Similarly, endpoints SHOULD consume path IDs in a continuous way, i.e., when creating paths.
//= specs/rfc10069-draft.md#path-close
//= type=test
//# After a path is abandoned, the path ID MUST NOT be reused for new paths, as the path ID is part
//# of the nonce calculation {{nonce}}.
#[test]
fn path_ids_are_used_in_order_and_once() {
    let mut pair = two_paths();
    let now = pair.now;
    assert_eq!(pair.c().open_path(now, tuple(2)), Ok(PathId(2)));
    pair.c()
        .path_mut(SECOND)
        .close(now, PathErrorCode::NO_ERROR)
        .unwrap();
    for id in 3..6 {
        pair.run_until(Duration::from_secs(2), |_| false);
        let now = pair.now;
        assert_eq!(pair.c().open_path(now, tuple(3)), Ok(PathId(id)));
        pair.run_until(Duration::from_secs(2), |pair| {
            pair.c()
                .path(PathId(id))
                .is_ok_and(|path| path.is_validated())
        });
        let now = pair.now;
        pair.c()
            .path_mut(PathId(id))
            .close(now, PathErrorCode::NO_ERROR)
            .unwrap();
    }
}

/// In short headers, the destination follows the first byte.
//= specs/rfc10069-draft.md#path-initiation
//= type=test
//# An endpoint MUST use a connection ID associated to the same path ID as used in the packet
//# received by the endpoint when it intends to send packets on the same path.
#[test]
fn each_path_has_connection_ids_of_its_own() {
    let mut pair = two_paths();
    let seen = Rc::new(RefCell::new([const { BTreeSet::new() }; 4]));
    let note = Rc::clone(&seen);
    pair.filter = Box::new(move |from_client, tuple, data| {
        let slot = 2 * usize::from(from_client) + usize::from(is_second(from_client, tuple));
        note.borrow_mut()[slot].insert(data[1..9].to_vec());
        true
    });
    both_write(&mut pair, Duration::from_millis(200));
    let [down, down_second, up, up_second] = &*seen.borrow();
    assert!(
        [down, down_second, up, up_second]
            .iter()
            .all(|ids| !ids.is_empty())
    );
    assert!(down.is_disjoint(down_second) && up.is_disjoint(up_second));
}

//= specs/rfc10069-draft.md#path-close
//= type=test
//# When an endpoint receives a PATH_ABANDON frame, it MUST send a corresponding PATH_ABANDON frame,
//# if it has not already done so, and respectively treat all connection IDs received from the peer
//# for that path as immediately retired.
//= specs/rfc10069-draft.md#path-abandon-frame
//= type=test
//# If a packet containing a PATH_ABANDON frame is considered lost, the peer SHOULD repeat it.
#[test]
fn the_peer_abandons_an_abandoned_path_too_even_if_the_news_is_lost() {
    for by_client in [true, false] {
        let mut pair = two_paths();
        let now = pair.now;
        let side = if by_client { pair.c() } else { pair.s() };
        side.path_mut(SECOND)
            .close(now, PathErrorCode::PATH_UNSTABLE_OR_POOR)
            .unwrap();
        pair.filter = Box::new(move |from_client, _, _| from_client != by_client);
        pair.run_until(Duration::from_millis(500), |_| false);
        pair.filter = Box::new(|_, _, _| true);
        // What is left of the path goes when the peer has answered.
        let over = Event::Path(PathEvent::Discarded { id: SECOND });
        assert!(pair.run_until(Duration::from_secs(10), |pair| {
            pair.client.events.contains(&over) && pair.server.events.contains(&over)
        }));
        let (here, there) = if by_client {
            (&pair.client.events, &pair.server.events)
        } else {
            (&pair.server.events, &pair.client.events)
        };
        assert!(here.contains(&abandoned(false)) && there.contains(&abandoned(true)));
    }
}

/// The news that the second path is abandoned must not need it.
//= specs/rfc10069-draft.md#path-close
//= type=test
//# It is RECOMMENDED to send the PATH_ABANDON frames on another open path, especially if
//# connectivity on the to-be-abandoned path is expected to be broken.
#[test]
fn a_broken_path_is_abandoned_on_another() {
    let mut pair = two_paths();
    pair.filter = Box::new(|from_client, tuple, _| !is_second(from_client, tuple));
    let now = pair.now;
    pair.c()
        .path_mut(SECOND)
        .close(now, PathErrorCode::PATH_UNSTABLE_OR_POOR)
        .unwrap();
    assert!(pair.run_until(Duration::from_secs(1), |pair| {
        pair.server.events.contains(&abandoned(true))
    }));
}

/// The second path is slow, and a connection waits as long for what may be on its way there.
//= specs/rfc10069-draft.md#connection-closure
//= type=test
//# {{Section 10.2 of QUIC-TRANSPORT}} specifies that the closing and draining connection states
//# "SHOULD persist for at least three times the current PTO".
//= specs/rfc10069-draft.md#connection-closure
//= type=test
//# When this specification is used, these states SHOULD instead persist for at least three times
//# the largest PTO among all paths.
//= specs/rfc9000.txt#section-10.2
//= type=test
//# These states SHOULD persist for at least three times the current PTO interval as defined in
//# [QUIC-RECOVERY].
#[test]
fn a_closed_connection_lingers_for_three_times_the_largest_pto() {
    let mut pair = Pair::new(TransportConfig::default(), TransportConfig::default());
    pair.connect();
    let fast = pair.delay;
    pair.delay = Duration::from_millis(300);
    open_second(&mut pair);
    assert!(pair.run_until(Duration::from_secs(5), |pair| pair.both_validated(SECOND)));
    pair.run_until(Duration::from_secs(5), |_| false);
    pair.delay = fast;
    let rtts = [PathId::ZERO, SECOND].map(|id| pair.c().path(id).unwrap().rtt());
    assert!(rtts[1] > 2 * rtts[0], "{rtts:?}");
    let start = pair.now;
    pair.c().close(start, VarInt::from_u32(7), Bytes::new());
    assert!(pair.run_until(Duration::from_secs(60), |pair| pair.c().is_drained()));
    assert!(pair.now - start >= 3 * rtts[1], "{:?}", pair.now - start);
    assert!(pair.run_until(Duration::from_secs(60), |pair| pair.s().is_drained()));
    assert!(pair.now - start >= 3 * rtts[1], "{:?}", pair.now - start);
}

/// Each packet of one side: where its number counts, and its frames as they are printed.
#[derive(Clone, Default)]
struct Frames(Arc<Mutex<Vec<(NumberSpace, String)>>>);

impl Observer for Frames {
    fn on_packet_sent(&mut self, packet: &PacketSent<'_>) {
        let mut packets = self.0.lock().unwrap();
        packets.push((packet.space, format!("{packet:?}")));
    }
}

impl Frames {
    fn observe() -> (TransportConfig, Self) {
        let frames = Self::default();
        let mut config = config();
        let watch = frames.clone();
        config.observer(move |_| Some(Box::new(watch.clone())));
        (config, frames)
    }

    fn has(&self, space: NumberSpace, frame: &str) -> bool {
        let packets = self.0.lock().unwrap();
        packets
            .iter()
            .any(|(at, text)| *at == space && text.contains(frame))
    }
}

//= specs/rfc10069-draft.md#ack-after-abandon
//= type=test
//# Endpoints SHOULD promptly send PATH_ACK frames for all unacknowledged packets received on an
//# abandoned path if path state is still retained to do so.
#[test]
fn what_comes_on_an_abandoned_path_is_acknowledged_on_another() {
    let (config, frames) = Frames::observe();
    let mut pair = Pair::new(self::config(), config);
    pair.connect();
    open_second(&mut pair);
    assert!(pair.run_until(Duration::from_secs(5), |pair| pair.both_validated(SECOND)));
    pair.run_until(Duration::from_secs(1), |_| false);
    let ack = "Ack { path: Some(1)";
    assert!(!frames.has(NumberSpace::Path(PathId::ZERO), ack));
    // The client's PING is on its way when the server gives up the path.
    let now = pair.now;
    pair.c().ping();
    pair.s()
        .path_mut(SECOND)
        .close(now, PathErrorCode::NO_ERROR)
        .unwrap();
    pair.run_until(Duration::from_secs(1), |_| false);
    assert!(frames.has(NumberSpace::Path(PathId::ZERO), ack));
}

//= specs/rfc10069-draft.md#issuing-new-connection-ids
//= type=test
//# If for any reason an endpoint does not want to issue connection IDs for all unused path ID, it
//# SHOULD NOT introduce discontinuity in the issuing of path IDs as path initiation requires
//# available connection IDs for the same path ID on both sides.
#[test]
fn connection_ids_are_issued_for_path_ids_without_a_gap() {
    let (config, frames) = Frames::observe();
    let mut few = self::config();
    few.max_paths(5);
    let mut pair = Pair::new(config, few);
    pair.connect();
    pair.run_until(Duration::from_secs(1), |_| false);
    for id in 0..20 {
        let issued = format!("NewConnectionId {{ path: Some({id}), sequence");
        let any = (0..5).any(|space| frames.has(NumberSpace::Path(PathId(space)), &issued));
        assert_eq!(any, id < 5, "path {id}");
    }
}

/// Sends nothing by its own will; the transport overrides it when nothing has got on for a probe timeout.
struct Reluctant;

impl Scheduler for Reluctant {
    fn decide(&mut self, _: &Context<'_>) -> Decision {
        Decision::Wait { until: None }
    }
}

/// The application opens a path when its connection IDs still wait for their turn among the scheduled packets: they go
/// first.
//= specs/rfc10069-draft.md#path-management
//= type=test
//# The client can open a new path when both endpoints have issued available connection IDs for at
//# least one unused, common path ID, as the same path ID is used in both directions.
#[test]
fn a_path_is_not_used_before_its_connection_ids_are_sent() {
    let (mut config, frames) = Frames::observe();
    config.scheduler(|| Box::new(Reluctant));
    let mut pair = Pair::new(config, self::config());
    pair.connect();
    let announcement = "NewConnectionId { path: Some(1)";
    let first = NumberSpace::Path(PathId::ZERO);
    assert!(!frames.has(first, announcement), "not sent so far");
    open_second(&mut pair);
    let opened = pair.run_until(Duration::from_secs(20), |pair| pair.both_validated(SECOND));
    assert!(opened);
    let packets = frames.0.lock().unwrap();
    let second = |(space, _): &(NumberSpace, String)| *space == NumberSpace::Path(SECOND);
    let used = packets.iter().position(second).unwrap();
    assert!(
        packets[..used]
            .iter()
            .any(|(_, text)| text.contains(announcement))
    );
}

/// Path 0 dies before the peer has our connection IDs for the next path: the packets that open it carry them too.
#[test]
fn a_path_is_opened_though_the_first_one_is_dead() {
    let mut pair = connected_with_lost_ids();
    open_second(&mut pair);
    let opened = pair.run_until(Duration::from_secs(20), |pair| pair.both_validated(SECOND));
    assert!(opened);
}

/// The client's 1-RTT packets on path 0 are all lost.
fn connected_with_lost_ids() -> Pair {
    let mut pair = Pair::new(config(), config());
    pair.filter = Box::new(move |from_client, tuple, data| {
        !from_client || is_second(true, tuple) || data[0] & 0x80 != 0
    });
    pair.connect();
    pair
}

/// However many path IDs the peer gives up, and whatever is lost of the answers, each of its PATH_ABANDON frames is
/// answered in the end.
//= specs/rfc10069-draft.md#path-close
//= type=test
//# When an endpoint receives a PATH_ABANDON frame, it MUST send a corresponding PATH_ABANDON frame,
//# if it has not already done so, and respectively treat all connection IDs received from the peer
//# for that path as immediately retired.
#[test]
fn every_path_abandon_is_answered() {
    let mut transport = config();
    transport.max_paths(16);
    let mut pair = Pair::new(transport.clone(), transport);
    pair.connect();
    // For two of three seconds, the datagrams of the server are lost: longer than it remembers a path.
    let mut abandoned = BTreeSet::new();
    let mut answered = BTreeSet::new();
    let start = pair.now;
    let clock = Rc::new(RefCell::new(pair.now));
    let seen = Rc::clone(&clock);
    pair.filter = Box::new(move |from_client, _, _| {
        from_client || (*seen.borrow() - start).as_millis() % 3000 > 2000
    });
    pair.run_until(Duration::from_secs(3600), |pair| {
        *clock.borrow_mut() = pair.now;
        let now = pair.now;
        while abandoned.len() < 100
            && let Ok(id) = pair
                .c()
                .open_path(now, tuple(1 + abandoned.len() as u8 % 8))
        {
            let code = PathErrorCode::APPLICATION_ABANDON_PATH;
            if pair.c().path_mut(id).close(now, code).is_ok() {
                abandoned.insert(id);
            }
        }
        while let Some(event) = pair.client.events.pop_front() {
            if let Event::Path(PathEvent::Discarded { id }) = event {
                answered.insert(id);
            }
        }
        answered.len() >= 100
    });
    assert_eq!(abandoned.len(), 100);
    assert_eq!(answered, abandoned);
    assert_eq!(pair.s().paths().ids().count(), 1);
}
