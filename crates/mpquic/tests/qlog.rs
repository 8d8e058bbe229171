//! qlog of live connections over loopback: every event as its schema has it, and nothing missing.

#[path = "../../qlog/tests/schema/mod.rs"]
mod schema;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use crate::common::{Pair, loopback, pattern, run};
use mpquic::qlog::Qlog;
use mpquic::{Connection, PathErrorCode, PathEvent, PathId, VarInt};
use schema::Schema;
use serde_json::Value;

const LEN: usize = 4 << 20;

async fn transfer(from: &Connection, to: &Connection) {
    let send = async {
        let mut stream = from.open_uni().await.unwrap();
        stream.write_all(&pattern(LEN)).await.unwrap();
        stream.finish().unwrap();
        stream.stopped().await.unwrap();
    };
    let receive = async {
        let mut stream = to.accept_uni().await.unwrap();
        assert!(stream.read_to_end(LEN).await.unwrap() == pattern(LEN));
    };
    tokio::join!(send, receive);
}

/// A connection with two paths, one of which is closed before the end.
async fn session(pair: &Pair) {
    let (client, server) = pair.connect().await;
    let mut events = server.path_events();
    let second = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
    let path = client.open_path(second, pair.server_addr).await.unwrap();
    transfer(&server, &client).await;
    client
        .send_datagram(b"by itself".as_slice().into())
        .unwrap();
    server.read_datagram().await.unwrap();
    path.close(PathErrorCode::APPLICATION_ABANDON_PATH).unwrap();
    loop {
        let event = events.recv().await.unwrap();
        if matches!(event, PathEvent::Abandoned { id: PathId(1), .. }) {
            break;
        }
    }
    client.close(VarInt::from_u32(7), b"enough");
    server.closed().await;
}

/// The files of a folder, with the side that wrote each.
fn files(dir: &Path) -> Vec<(String, String)> {
    let files = std::fs::read_dir(dir).unwrap();
    let files = files.map(|file| file.unwrap().path());
    let read = |path: std::path::PathBuf| {
        let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let (_, side) = stem.rsplit_once('_').unwrap();
        assert_eq!(path.extension().unwrap(), "sqlog");
        (side.to_owned(), std::fs::read_to_string(path).unwrap())
    };
    files.map(read).collect()
}

#[test]
fn every_event_is_as_its_schema_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let qlog = Qlog::with_capacity(dir.path(), 1 << 17).unwrap();
    let attached = qlog.clone();
    run(async move {
        let locals = [loopback(1), loopback(2)];
        let pair = Pair::with(&locals, |transport| attached.attach(transport));
        session(&pair).await;
        pair.client.wait_idle().await;
        pair.server.wait_idle().await;
    });
    assert_eq!(qlog.left_out(), 0);
    // The last that holds it: all is written when it is gone.
    drop(qlog);
    let files = files(dir.path());
    assert_eq!(files.len(), 2, "a file per side");
    let files = BTreeMap::from_iter(files);
    let schema = Schema::new();
    for (side, text) in &files {
        let (wrong, names) = schema.check(text);
        assert!(wrong.is_empty(), "{side}, {}: {}", wrong.len(), wrong[0]);
        println!("{side}: {names:?}");
        let mut expected = vec![
            "mpquic:path_updated",
            "quic:connection_closed",
            "quic:connection_started",
            "quic:connection_state_updated",
            "quic:packet_received",
            "quic:packet_sent",
            "quic:packets_acked",
            "quic:parameters_set",
            "quic:recovery_metrics_updated",
            "quic:tuple_assigned",
            "quic:version_information",
        ];
        if side == "server" {
            expected.push("mpquic:scheduler_decided");
        }
        for name in expected {
            assert!(names.contains_key(name), "{side} has no {name}");
        }
        let events = text.split('\x1e').skip(2);
        let events: Vec<Value> = events
            .map(|text| serde_json::from_str(text).unwrap())
            .collect();
        for path in 0..2 {
            let sent = events.iter().filter(|event| {
                event["name"] == "quic:packet_sent"
                    && event["data"]["path_id"] == path
                    && event["tuple"].as_str() == Some(&*path.to_string())
            });
            assert!(sent.count() > 0, "{side} sent nothing on path {path}");
        }
        let states = events
            .iter()
            .filter(|event| event["name"] == "mpquic:path_updated")
            .filter(|event| event["data"]["path_id"] == 1)
            .map(|event| event["data"]["new"].as_str().unwrap());
        // On a busy machine, a path may look silent for a while.
        let states = states.filter(|state| !["suspect", "recovered"].contains(state));
        let states: Vec<_> = states.collect();
        assert_eq!(states[..3], ["opened", "validated", "abandoned"], "{side}");
        let close = events
            .iter()
            .find(|event| event["name"] == "quic:connection_closed");
        let close = &close.unwrap()["data"];
        let initiator = if side == "client" { "local" } else { "remote" };
        assert_eq!(close["initiator"], initiator);
    }
    // Both sides name the connection alike, and what one sent the other received.
    let group = |text: &str| {
        let first = text.split('\x1e').nth(1).unwrap();
        let first: Value = serde_json::from_str(first).unwrap();
        first["trace"]["common_fields"]["group_id"].clone()
    };
    assert_eq!(group(&files["client"]), group(&files["server"]));
    let numbers = |side: &str, name: &str| {
        let events = files[side].split('\x1e').skip(2);
        let events = events.map(|text| serde_json::from_str::<Value>(text).unwrap());
        let of_path = events.filter(|event| event["name"] == name && event["data"]["path_id"] == 1);
        let numbers = of_path.map(|event| event["data"]["header"]["packet_number"].as_u64());
        numbers.collect::<std::collections::BTreeSet<_>>()
    };
    let sent = numbers("server", "quic:packet_sent");
    let received = numbers("client", "quic:packet_received");
    assert!(!received.is_empty() && received.is_subset(&sent));
}

#[test]
fn a_ring_that_is_full_drops_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    // As small as it can be: a flight of packets is more.
    let qlog = Qlog::with_capacity(dir.path(), 0).unwrap();
    let attached = qlog.clone();
    run(async move {
        // The ring is emptied all the while, so that one session may just fit on an idle machine.
        while attached.left_out() == 0 {
            let pair = Pair::with(&[loopback(1), loopback(2)], |transport| {
                attached.attach(transport)
            });
            session(&pair).await;
        }
    });
    let left_out = qlog.left_out();
    drop(qlog);
    let mut told = 0;
    for (_, text) in files(dir.path()) {
        let (wrong, _) = Schema::new().check(&text);
        assert!(wrong.is_empty(), "{}", wrong[0]);
        for event in text.split('\x1e').skip(2) {
            let event: Value = serde_json::from_str(event).unwrap();
            if event["name"] == "mpquic:records_left_out" {
                told += event["data"]["count"].as_u64().unwrap();
            }
        }
    }
    assert!(told > 0 && told <= left_out, "{told} of {left_out}");
}
