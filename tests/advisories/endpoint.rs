//! What an endpoint holds, against what it is charged for (`CollectionSize::for_each_endpoint_charge`, and `for_each_charge` of its
//! connections): clients that wait, handshakes that go no further, refused clients, early data from nowhere, connections that are
//! complete, and closed ones, in bursts of random order. OpenSSL CVE-2026-14456, Q3Fuzz 11 and their like, all at once.

use std::time::Duration;

use mpquic_hostile::duel::from;
use mpquic_hostile::meter;
use mpquic_hostile::params::{Params, id};
use mpquic_hostile::peer::{Peer, Space};
use mpquic_hostile::tls::{self, Identity};
use mpquic_hostile::victim::{Admission, Victim, client_address};
use mpquic_hostile::wire::Frame;
use mpquic_proto::{CollectionSize, Connection};

use super::*;

/// Bytes held for each that is charged.
const MOST: f64 = 4.0;

/// What the handshakes that are under way may hold: `ServerConfig::half_open_memory`.
const HALF_OPEN: usize = 6 << 20;

/// What all that is no complete connection may hold beside that: refused clients, early data, retired connection IDs, clients that are
/// to get a Retry packet, at the caps of `limits.rs`, and the routes of them all.
const BESIDE: i64 = 1 << 20;

/// What a complete connection may hold: four times what it is charged, and what it owes.
const COMPLETE: i64 = 160 << 10;

/// Charged for the tickets that TLS remembers: a store of rustls, as the application has chosen it, with 256 of them.
const TICKETS: u64 = 32 << 10;

fn client(who: u32, params: Params) -> Peer {
    let dcid = [b"endpoint".as_slice(), &who.to_be_bytes()].concat();
    Peer::client(who, &dcid, params, tls::credulous_client()).unwrap()
}

/// What is charged, and how much for each.
fn charged(victim: &Victim) -> (u64, String) {
    let (mut sum, mut text) = (0, String::new());
    let mut add = |what: &'static str, bytes: u64| {
        sum += bytes;
        if bytes > 0 {
            text += &format!(" {what} {bytes},");
        }
    };
    add("tickets", TICKETS);
    CollectionSize::for_each_endpoint_charge(&victim.endpoint, &mut add);
    for (_, connection) in &victim.connections {
        CollectionSize::for_each_charge(connection, &mut add);
    }
    (sum, text)
}

/// One burst of clients of one kind, from `first` on.
fn burst(victim: &mut Victim, kind: u32, first: u32, count: u32) {
    let generous = || Params::generous(Some(7));
    for who in first..first + count {
        let tuple = from(client_address(who));
        match kind {
            // That nobody accepts, and that go on sending.
            0 => {
                victim.admission = Admission::Keep;
                for datagram in client(who, generous()).flight() {
                    for _ in 0..4 {
                        victim.deliver(tuple, None, &datagram);
                    }
                }
                victim.admission = Admission::Accept;
            }
            // That go no further than their first flight.
            1 => {
                for datagram in client(who, generous()).flight() {
                    victim.deliver(tuple, None, &datagram);
                }
            }
            // That are refused, by TLS or by the application.
            2 => {
                let mut params = generous();
                match who % 2 {
                    0 => _ = params.set_bytes(id::RESET_TOKEN, &[1; 16]),
                    _ => victim.admission = Admission::Refuse,
                }
                for datagram in client(who, params).flight() {
                    victim.deliver(tuple, None, &datagram);
                }
                victim.admission = Admission::Accept;
            }
            // Early data of nobody, and packets that belong nowhere.
            3 => {
                let mut early = vec![0xd0, 0, 0, 0, 1, 8];
                early.extend(u64::from(who).to_be_bytes());
                early.extend([0, 0x44, 0x00]);
                early.resize(1200, who as u8);
                victim.deliver(tuple, None, &early);
                early[0] = 0x40;
                victim.deliver(tuple, None, &early);
            }
            // Complete, with the connection IDs of eight paths, half of them closed.
            _ if who % 8 == 0 => {
                // Handshakes that go no further take up all that there is, until their time is over.
                if victim.endpoint.half_open().bytes + 100_000 > HALF_OPEN {
                    victim.advance(Duration::from_secs(11));
                }
                let mut peer = client(who, generous());
                victim.let_in(tuple.remote, &mut peer);
                if who % 16 == 0 {
                    let close = Frame::Close {
                        app: true,
                        code: 0,
                        reason: vec![b'x'; 400],
                    };
                    let closing = peer.seal(Space::Data(0), &[close]).unwrap();
                    victim.deliver(tuple, None, &closing);
                }
            }
            _ => {}
        }
        victim.sent.clear();
    }
}

/// In random orders: at most four bytes for each that is charged, after each burst; in sum, no more than what handshakes may have and a
/// stated constant beside the complete connections; and nothing is left of them when their times are over.
#[test]
fn memory_of_an_endpoint() {
    let mut worst = (0.0, String::new());
    let mut beside = 0;
    for seed in 0..2_u32 {
        let before = meter::reading().held;
        let mut victim = Victim::server_with(&Identity::generate(), quiet(), |config| {
            config.half_open_memory(HALF_OPEN).retry_above(usize::MAX);
        });
        victim.keep_events = false;
        let mut state = seed;
        let mut left = Vec::new();
        for round in 0..120 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            burst(&mut victim, (state >> 16) % 5, 40 * round, 40);
            victim.advance(Duration::from_millis(u64::from(state >> 24)));
            victim.sent.clear();
            let held = meter::reading().held - before;
            let (sum, text) = charged(&victim);
            let ratio = held as f64 / sum as f64;
            if ratio > worst.0 {
                worst = (ratio, format!("{held} held for {sum} charged:{text}"));
            }
            assert!(ratio <= MOST, "{held} held for {sum} charged:{text}");
            let complete = |(_, connection): &&(_, Box<Connection>)| !connection.is_handshaking();
            let complete = victim.connections.iter().filter(complete).count() as i64;
            beside = beside.max(held - HALF_OPEN as i64 - COMPLETE * complete);
            if round % 60 == 59 {
                // Handshakes have ten seconds, what is closed three probe timeouts, the others their idle timeout.
                for _ in 0..60 {
                    victim.advance(Duration::from_secs(1));
                    victim.sent.clear();
                }
                // What is over goes when something comes.
                burst(&mut victim, 2, 1 << 20, 2);
                burst(&mut victim, 3, 1 << 20, 1);
                victim.advance(Duration::from_secs(20));
                let waiting = std::mem::take(&mut victim.incoming);
                let endpoint = &mut victim.endpoint;
                meter::metered(|| waiting.into_iter().for_each(|one| endpoint.ignore(one)));
                assert_eq!(victim.endpoint.half_open().connections, 0);
                assert_eq!(victim.connections.len(), 0, "all are idle or over");
                left.push(meter::reading().held);
            }
        }
        let more = (left[1] - left[0]).max(0) as f64;
        let what = "bytes left more after 4,800 clients than after 2,400";
        figure("endpoint", what, more, 65_536.0);
    }
    println!("{}", worst.1);
    figure("endpoint", "bytes held per byte charged", worst.0, MOST);
    figure(
        "endpoint",
        "bytes held beside handshakes and complete connections",
        beside.max(0) as f64,
        BESIDE as f64,
    );
}
