//! Attacks by clients that begin connections: floods of first packets, half-open connections, refused ones, Retry.

use std::time::Duration;

use mpquic_hostile::duel::{Duel, from};
use mpquic_hostile::meter;
use mpquic_hostile::params::{Params, id};
use mpquic_hostile::peer::{Peer, Space};
use mpquic_hostile::tls::{self, Identity};
use mpquic_hostile::victim::{Admission, Victim, client_address};
use mpquic_hostile::wire::Frame;

use super::*;

/// Initial packets of clients that wait: as many as may, and nothing for those beyond.
#[test]
fn initial_flood() {
    let limit = 500;
    let mut victim = Victim::server_with(&Identity::generate(), quiet(), |config| {
        config.max_incoming(limit).retry_above(usize::MAX);
    });
    victim.admission = Admission::Keep;
    let before = meter::reading();
    let mut template = client(0).flight().remove(0);
    let flood = |victim: &mut Victim, range: std::ops::Range<u32>, template: &mut [u8]| {
        for who in range {
            // Another connection ID: nobody derives keys to see that the rest does not fit.
            template[6..10].copy_from_slice(&who.to_be_bytes());
            victim.deliver(from(client_address(who)), None, template);
        }
    };
    flood(&mut victim, 0..limit as u32, &mut template);
    assert_eq!(victim.incoming.len(), limit);
    let full = meter::reading();
    let each = (full.held - before.held) as u64 / limit as u64;
    figure("Initial flood", "bytes held per waiting client", each, 4096);
    flood(&mut victim, 10_000..15_000, &mut template);
    let after = meter::reading();
    assert_eq!(victim.incoming.len(), limit);
    figure(
        "Initial flood",
        "allocations per Initial beyond the cap",
        (after.allocations - full.allocations) / 5000,
        2,
    );
    growth(
        "Initial flood",
        "bytes held for 5,000 beyond the cap",
        full.held,
        after.held,
        1024,
    );
    // One that waits, and goes on sending.
    template[6..10].copy_from_slice(&7u32.to_be_bytes());
    for _ in 0..1000 {
        victim.deliver(from(client_address(7)), None, &template);
    }
    growth(
        "Initial flood",
        "bytes held of 1,200,000 from one that waits",
        full.held,
        meter::reading().held,
        16_384,
    );
    let waiting = std::mem::take(&mut victim.incoming);
    meter::metered(|| {
        for incoming in waiting {
            victim.endpoint.ignore(incoming);
        }
    });
    growth(
        "Initial flood",
        "bytes held when all were ignored",
        before.held,
        meter::reading().held,
        131_072,
    );
    // Nobody accepts them, and nobody gives them up: they are forgotten all the same.
    flood(&mut victim, 20_000..20_000 + limit as u32, &mut template);
    assert_eq!(victim.endpoint.half_open().connections, limit);
    victim.advance(11 * SECOND);
    figure(
        "Initial flood",
        "places taken 11 s later",
        victim.endpoint.half_open().connections as u64,
        0,
    );
    let accepted = victim.connections.len();
    victim.accept_oldest();
    assert_eq!(victim.connections.len(), accepted, "it came too late");
}

/// RFC 9000 section 10.2: a client whose first packet ends the connection goes on sending. It is told again, ever more
/// rarely; and so are no more of them than there is room for.
#[test]
fn closed_before_it_began() {
    let mut victim = Victim::server_with(&Identity::generate(), quiet(), |config| {
        config.retry_above(usize::MAX);
    });
    victim.keep_events = false;
    // A ClientHello with a parameter that only servers send.
    let refused = |who: u32| {
        let mut params = Params::generous(Some(7));
        params.set_bytes(id::RESET_TOKEN, &[1; 16]);
        let dcid = [b"closed".as_slice(), &who.to_be_bytes()].concat();
        let peer = Peer::client(who, &dcid, params, tls::credulous_client());
        peer.unwrap().flight()
    };
    let hello = refused(0);
    let tuple = from(client_address(0));
    for datagram in &hello {
        victim.deliver(tuple, None, datagram);
    }
    assert_eq!(victim.accept_errors.len(), 1);
    let told = victim.sent_in_all().datagrams;
    assert!(told > 0, "the client is told");
    for _ in 0..1000 {
        for datagram in &hello {
            victim.deliver(tuple, None, datagram);
        }
    }
    let again = victim.sent_in_all().datagrams - told;
    assert!(again > 0, "a client that did not hear it is told again");
    figure(
        "closed before it began",
        "closes for 1,000 further datagrams",
        again,
        10,
    );
    assert_eq!(victim.accept_errors.len(), 1, "no second handshake");
    let before = meter::reading().held;
    for who in 1..=1500 {
        for datagram in refused(who) {
            victim.deliver(from(client_address(who)), None, &datagram);
        }
        victim.sent.clear();
        victim.accept_errors.clear();
    }
    growth(
        "closed before it began",
        "bytes held for 1,500 refused at once",
        before,
        meter::reading().held,
        768 * 1024,
    );
    // Three seconds later they are forgotten: the next one is a new connection.
    victim.advance(4 * SECOND);
    for datagram in &hello {
        victim.deliver(tuple, None, datagram);
    }
    assert_eq!(victim.accept_errors.len(), 1);
}

/// CVE-2024-45311: copies of an Initial in every order of the application's answers.
#[test]
fn every_answer_to_a_client() {
    let answers = [
        Admission::Accept,
        Admission::Keep,
        Admission::Refuse,
        Admission::Ignore,
    ];
    let mut orders = 0;
    for first in answers {
        for second in answers {
            for third in answers {
                let mut victim = Victim::server(&Identity::generate(), quiet());
                let mut peer = client(3);
                let hello = peer.flight();
                let tuple = from(client_address(3));
                for answer in [first, second, third] {
                    victim.admission = answer;
                    for datagram in &hello {
                        victim.deliver(tuple, None, datagram);
                        victim.deliver(tuple, None, datagram);
                    }
                    victim.advance(Duration::from_millis(10));
                    if answer == Admission::Refuse {
                        victim.accept_oldest();
                    }
                }
                while !victim.incoming.is_empty() {
                    victim.accept_oldest();
                }
                assert!(victim.endpoint.open_connections() <= 1);
                victim.advance(Duration::from_secs(3600));
                assert_eq!(victim.endpoint.open_connections(), 0);
                orders += 1;
            }
        }
    }
    figure(
        "incoming state machine",
        "orders left out, of 64",
        64 - orders,
        0,
    );
}

/// First flights of so many clients that go no further. The bytes of them.
fn begin_handshakes(victim: &mut Victim, clients: std::ops::Range<u32>) -> u64 {
    let mut received = 0;
    for who in clients {
        for datagram in client(who).flight() {
            victim.deliver(from(client_address(who)), None, &datagram);
            received += datagram.len() as u64;
        }
        victim.sent.clear();
    }
    received
}

/// Finding 2: clients that begin a handshake and go no further, from addresses that need not be theirs.
#[test]
fn half_open_connections() {
    let mut victim = Victim::server_with(&Identity::generate(), quiet(), |config| {
        config.half_open_memory(4 << 20).retry_above(usize::MAX);
    });
    victim.keep_events = false;
    let before = meter::reading().held;
    begin_handshakes(&mut victim, 0..200);
    growth(
        "half-open connections",
        "bytes held of 200, budget 4 MiB",
        before,
        meter::reading().held,
        4 << 20,
    );
    figure(
        "half-open connections",
        "of 200 within the budget",
        victim.endpoint.half_open().connections as u64,
        (4 << 20) / mpquic_proto::limits::HALF_OPEN_COST as u64,
    );
    let mut victim = Victim::server_with(&Identity::generate(), quiet(), |config| {
        config.max_half_open(200).retry_above(usize::MAX);
    });
    victim.keep_events = false;
    let before = meter::reading().held;
    let received = begin_handshakes(&mut victim, 0..1000);
    let held = (meter::reading().held - before).max(0) as u64;
    figure(
        "half-open connections",
        "half-open connections of 1,000, cap 200",
        victim.endpoint.half_open().connections as u64,
        200,
    );
    figure(
        "half-open connections",
        "bytes held per byte received",
        held / received,
        25,
    );
    figure(
        "half-open connections",
        "bytes held per half-open connection",
        held / 200,
        73_728,
    );
    // They are over by the deadline, whatever else comes.
    for _ in 0..12 {
        victim.advance(SECOND);
        victim.sent.clear();
    }
    figure(
        "half-open connections",
        "of them after 12 s",
        victim.endpoint.half_open().connections as u64,
        0,
    );
    // And what the closing state needs is over after three PTOs.
    victim.advance(8 * SECOND);
    growth(
        "half-open connections",
        "bytes held then",
        before,
        meter::reading().held,
        262_144,
    );
}

/// One that is kept alive by small packets now and then.
#[test]
fn half_open_kept_alive() {
    let mut victim = Victim::server(&Identity::generate(), quiet());
    let mut peer = client(1);
    let tuple = from(client_address(1));
    for datagram in peer.flight() {
        victim.deliver(tuple, None, &datagram);
    }
    let mut seconds = 0;
    while victim.endpoint.open_connections() > 0 && seconds < 200 {
        for sent in std::mem::take(&mut victim.sent) {
            peer.receive(&sent.data);
        }
        // Small and large ones: neither changes the deadline.
        let size = if seconds % 2 == 0 { 1 } else { 1170 };
        let ping = peer
            .seal(Space::Initial, &[Frame::Ping, Frame::Padding(size)])
            .unwrap();
        victim.deliver(tuple, None, &ping);
        victim.advance(SECOND);
        seconds += 1;
    }
    figure(
        "half-open connections",
        "seconds that PINGs keep one alive",
        seconds,
        12,
    );
}

/// Retry: above its threshold the server keeps nothing of a client, and answers no more than it got.
#[test]
fn retry_under_load() {
    let mut victim = Victim::server_with(&Identity::generate(), quiet(), |config| {
        config.retry_above(50);
    });
    victim.keep_events = false;
    begin_handshakes(&mut victim, 1..61);
    let before = meter::reading();
    let (sent, accepted) = (victim.sent_in_all().bytes, victim.proven.len());
    let received = begin_handshakes(&mut victim, 61..561);
    let after = meter::reading();
    growth(
        "Retry",
        "bytes held for 500 clients above the threshold",
        before.held,
        after.held,
        4096,
    );
    figure(
        "Retry",
        "allocations per client above the threshold",
        (after.allocations - before.allocations) / 500,
        8,
    );
    figure(
        "Retry",
        "tenths of a byte sent per byte received",
        10 * (victim.sent_in_all().bytes - sent) / received,
        10,
    );
    figure(
        "Retry",
        "TLS handshakes begun above the threshold",
        (victim.proven.len() - accepted) as u64,
        0,
    );
    // One that answers is served.
    let mut duel = Duel::between(victim, Params::generous(Some(7)));
    duel.victim.sent.clear();
    for _ in 0..10 {
        duel.exchange();
    }
    assert!(
        duel.peer.complete && duel.peer.retries == 1,
        "{:?}",
        duel.peer
    );
}

/// Clients that send only their first Initial packet, faster than a server can answer, from one network or from made-up addresses
/// everywhere; and then an honest one. However the server asks for proofs, it does not stand behind them.
#[test]
fn storm_of_first_packets() {
    const STORM: u32 = 4000;
    // What a driver sends between two looks at its sockets.
    const RETRIES: usize = 16;
    // From one network, which is the honest client's, or from everywhere.
    let one = |who: u32| client_address(who);
    let everywhere = |who: u32| ([11, (who >> 8) as u8, who as u8, 1], 5000).into();
    let sources: [fn(u32) -> std::net::SocketAddr; 2] = [one, everywhere];
    for (source, threshold) in sources
        .into_iter()
        .flat_map(|source| [(source, 256), (source, usize::MAX)])
    {
        let mut victim = Victim::server_with(&Identity::generate(), quiet(), |config| {
            config.retry_above(threshold);
        });
        victim.keep_events = false;
        victim.endpoint.queue_clients();
        let before = meter::reading().held;
        let mut template = client(0).flight().remove(0);
        for who in 0..STORM {
            template[6..10].copy_from_slice(&who.to_be_bytes());
            victim.deliver(from(source(who)), None, &template);
            // While it begins one handshake, a hundred of them come.
            if who % 100 == 50 {
                victim.serve(RETRIES);
            }
        }
        // What was sent is not to count as held, nor what each address was sent.
        victim.sent.clear();
        growth(
            "storm of first packets",
            "bytes held per client of 4,000",
            before / i64::from(STORM),
            meter::reading().held / i64::from(STORM),
            if threshold == usize::MAX { 4096 } else { 1024 },
        );
        let (begun, sent) = (victim.proven.len(), victim.sent_in_all().datagrams);
        let mut honest = client(STORM);
        let address = client_address(STORM);
        let mut own = 0;
        for _ in 0..5 {
            for datagram in honest.flight() {
                victim.deliver(from(address), None, &datagram);
            }
            victim.serve(RETRIES);
            for sent in std::mem::take(&mut victim.sent) {
                if sent.tuple.remote == address {
                    honest.receive(&sent.data);
                    own += 1;
                }
            }
            if honest.complete {
                break;
            }
        }
        assert!(honest.complete, "{honest:?}");
        assert_eq!(honest.retries, usize::from(threshold == 256));
        figure(
            "storm of first packets",
            "handshakes begun before the honest one",
            (victim.proven.len() - begun - 1) as u64,
            2,
        );
        figure(
            "storm of first packets",
            "datagrams sent to others meanwhile",
            victim.sent_in_all().datagrams - sent - own,
            2 * RETRIES as u64,
        );
    }
}
