//! Acknowledgements that lie: of packets that were skipped, never sent, beyond counting, late, with impossible marks.

use std::time::Duration;

use bytes::Bytes;
use mpquic_hostile::duel::Duel;
use mpquic_hostile::meter;
use mpquic_hostile::params::Params;
use mpquic_hostile::peer::{Sealing, Space};
use mpquic_hostile::wire::Frame;
use mpquic_proto::{CongestionControl, DatagramOptions, Dir, EcnCodepoint, PathId};

use super::*;

/// Writes as much as fits on one stream, acknowledges honestly, until this many packets were sent. The numbers that the
/// victim left out on path 0.
fn transfer(duel: &mut Duel, packets: u64) -> Vec<u64> {
    let id = duel.victim.connection().streams().open(Dir::Uni).unwrap();
    for _ in 0..10_000 {
        let _ = duel
            .victim
            .connection()
            .send_stream(id)
            .write(&[7; 1 << 16]);
        duel.victim.flush();
        let came = duel.collect();
        duel.answer(&came);
        duel.victim.advance(Duration::from_millis(10));
        if duel.peer.received(Space::Data(0)).last().unwrap_or(0) > packets {
            break;
        }
    }
    let came = duel.collect();
    duel.answer(&came);
    let numbers: Vec<_> = duel.peer.received(Space::Data(0)).collect();
    let pairs = numbers.windows(2);
    pairs.flat_map(|pair| pair[0] + 1..pair[1]).collect()
}

#[test]
fn optimistic_ack() {
    let mut duel = multipath();
    let skipped = transfer(&mut duel, 3000);
    assert!(duel.alive(), "{:?}", duel.reason());
    assert!(!skipped.is_empty(), "no packet number was skipped");
    let per_thousand = 3 - (skipped.len() as u64).min(3);
    figure(
        "optimistic ACK",
        "skips missing in 3,000 packets, of three",
        per_thousand,
        2,
    );
    let trap = skipped[0];
    duel.send(&[Frame::ack(Some(0), trap, trap)]);
    assert_eq!(duel.error(), PROTOCOL_VIOLATION);
    // An attacker that acknowledges all that may come, without looking.
    let mut duel = single_path();
    let id = duel.victim.connection().streams().open(Dir::Uni).unwrap();
    let mut rounds = 0;
    while duel.alive() && rounds < 3000 {
        rounds += 1;
        let _ = duel
            .victim
            .connection()
            .send_stream(id)
            .write(&[7; 1 << 16]);
        duel.victim.flush();
        duel.collect();
        let largest = duel.peer.received(Space::Data(0)).last().unwrap_or(0);
        duel.send(&[Frame::ack(None, 0, largest)]);
        duel.victim.advance(Duration::from_millis(1));
    }
    assert_eq!(duel.error(), PROTOCOL_VIOLATION);
    figure(
        "optimistic ACK",
        "rounds of blind ACKs until the connection ends",
        rounds,
        2000,
    );
}

#[test]
fn ack_of_what_was_never_sent() {
    let beyond = 1 << 20;
    let mut cells = 0;
    for path in [None, Some(0), Some(1)] {
        let mut duel = multipath();
        duel.open_path(1);
        let cwnd = duel
            .victim
            .connection()
            .path(PathId::ZERO)
            .unwrap()
            .stats()
            .cwnd;
        duel.send(&[Frame::ack(path, beyond, beyond)]);
        assert_eq!(duel.error(), PROTOCOL_VIOLATION, "{path:?}");
        let after = duel
            .victim
            .connection()
            .path(PathId::ZERO)
            .map(|path| path.stats());
        assert!(after.is_err() || after.unwrap().cwnd <= cwnd);
        cells += 1;
    }
    for space in [Space::Initial, Space::Handshake] {
        let mut duel = begun();
        let frames = [Frame::ack(None, beyond, beyond), Frame::Padding(1150)];
        assert!(duel.send_as(space, &frames, &Sealing::default()));
        assert_eq!(duel.error(), PROTOCOL_VIOLATION, "{space:?}");
        cells += 1;
    }
    figure(
        "ACK of never sent",
        "spaces and paths without the error",
        5 - cells,
        0,
    );
}

#[test]
fn range_explosion() {
    // A count of ranges that no packet has room for.
    for path in [None, Some(0)] {
        let mut duel = multipath();
        let mut frame = Vec::new();
        mpquic_hostile::wire::put_varint(&mut frame, if path.is_some() { 0x3e } else { 2 });
        if path.is_some() {
            frame.push(0);
        }
        for field in [1, 0, 1 << 60, 0] {
            mpquic_hostile::wire::put_varint(&mut frame, field);
        }
        meter::reset_peak();
        let before = meter::reading().held;
        duel.send(&[Frame::Raw(frame)]);
        assert_eq!(duel.error(), FRAME_ENCODING_ERROR);
        growth(
            "ACK range explosion",
            "bytes allocated for 2^60 ranges",
            before,
            meter::reading().peak,
            16_384,
        );
    }
    // Every second packet number, 20,000 times.
    let mut duel = multipath();
    let before = meter::reading().held;
    let (mut most, mut number) = (0, duel.peer.next_number(Space::Data(0)));
    let mut now = 0;
    for step in 0..20_000 {
        number += 2;
        let how = Sealing {
            number: Some(number),
            ..Sealing::default()
        };
        duel.send_as(Space::Data(0), &[Frame::Ping], &how);
        now += 1;
        if step % 100 == 0 {
            duel.victim.advance(Duration::from_millis(30));
            for frame in duel.frames() {
                if let Frame::Ack { ranges, .. } = frame {
                    most = most.max(1 + ranges.len() as u64);
                }
            }
        }
    }
    assert!(duel.alive() && now > 0);
    assert_eq!(duel.victim.over_caps(), Vec::<String>::new());
    figure(
        "ACK range explosion",
        "ranges in the largest ACK after 20,000 gaps",
        most,
        64,
    );
    growth(
        "ACK range explosion",
        "bytes held after 20,000 gaps",
        before,
        meter::reading().held,
        32_768,
    );
}

/// RFC 9000 section 12.3.
#[test]
fn replay() {
    let mut duel = multipath();
    let first = duel.peer.next_number(Space::Data(0));
    let counter = [Frame::Datagram(vec![1; 20])];
    let old = duel.peer.seal(Space::Data(0), &counter).unwrap();
    for range in 1..=64 {
        let how = Sealing {
            number: Some(first + 2 * range),
            ..Sealing::default()
        };
        duel.send_as(Space::Data(0), &[Frame::Ping], &how);
    }
    for _ in 0..200 {
        duel.deliver(&old);
    }
    let mut processed = 0;
    while duel.victim.connection().datagrams().recv().is_some() {
        processed += 1;
    }
    figure(
        "replay",
        "times that one of 200 copies was processed",
        processed,
        1,
    );
    // In the middle of what is remembered, it is known.
    let how = Sealing {
        number: Some(first + 101),
        ..Sealing::default()
    };
    let copy = duel
        .peer
        .seal_as(
            Space::Data(0),
            &mpquic_hostile::wire::payload(&counter),
            &how,
        )
        .unwrap();
    for _ in 0..200 {
        duel.deliver(&copy);
    }
    let mut processed = 0;
    while duel.victim.connection().datagrams().recv().is_some() {
        processed += 1;
    }
    figure(
        "replay",
        "times that a late packet was processed",
        processed,
        1,
    );
}

/// Finding 9: an RTT that a late ACK has made long does not make the idle timeout longer.
#[test]
fn late_acks() {
    let mut duel = multipath();
    for _ in 0..3 {
        duel.victim.connection().ping();
        duel.victim.flush();
        let first = duel.collect().first().map(|(_, opened)| opened.number);
        // Only the oldest packet is acknowledged: the probes that follow would tell how long the path really is.
        duel.victim.advance(29 * SECOND);
        duel.collect();
        let first = first.unwrap();
        duel.send(&[Frame::ack(Some(0), first, first)]);
    }
    assert!(duel.alive(), "{:?}", duel.reason());
    let rtt = duel.victim.connection().path(PathId::ZERO).unwrap().rtt();
    assert!(rtt > 5 * SECOND, "the lie is believed as an RTT: {rtt:?}");
    let since = duel.victim.now;
    let mut seconds = 0;
    while duel.alive() && seconds < 600 {
        duel.victim.advance(SECOND);
        duel.victim.sent.clear();
        seconds = (duel.victim.now - since).as_secs();
    }
    figure(
        "late ACKs",
        "seconds of silence until the end, timeout 30",
        seconds,
        31,
    );
}

/// RFC 9000 section 13.4.2: counts that cannot be end the use of ECN, and nothing else.
#[test]
fn impossible_ecn_counts() {
    for (lie, why) in [
        ([0, 0, 1 << 40], "more marks than packets"),
        ([1 << 40, 0, 0], "marks never sent"),
        ([0, 0, 0], "marks taken away"),
    ] {
        let mut duel = multipath();
        let id = duel.victim.connection().streams().open(Dir::Uni).unwrap();
        let _ = duel.victim.connection().send_stream(id).write(&[7; 5000]);
        duel.victim.flush();
        let marked = |duel: &Duel| {
            duel.victim
                .sent
                .iter()
                .filter(|sent| sent.ecn.is_some())
                .count()
        };
        assert!(marked(&duel) > 0, "packets are marked at first");
        duel.collect();
        let mut ack = duel.peer.ack_of(Space::Data(0)).unwrap();
        if let Frame::Ack { ecn, .. } = &mut ack {
            *ecn = Some(lie);
        }
        duel.send(&[ack]);
        duel.victim.advance(SECOND);
        duel.collect();
        let before = duel
            .victim
            .connection()
            .path(PathId::ZERO)
            .unwrap()
            .stats()
            .cwnd;
        let _ = duel.victim.connection().send_stream(id).write(&[7; 5000]);
        duel.victim.flush();
        assert!(!duel.victim.sent.is_empty() && duel.alive(), "{why}");
        let still = duel
            .victim
            .sent
            .iter()
            .filter(|sent| sent.ecn == Some(EcnCodepoint::Ect0))
            .count();
        figure("ECN lies", why, still as u64, 0);
        assert!(before >= 2400, "the window is not beaten down: {before}");
    }
}

/// RFC 9002 section 5.3: a delay beyond max_ack_delay is not believed.
#[test]
fn ack_delay_lies() {
    let mut duel = multipath();
    // The first packet is acknowledged, not the probes that follow it.
    let exchange = |duel: &mut Duel, wait: u64, delay: u64| {
        duel.collect();
        duel.victim.connection().ping();
        duel.victim.flush();
        let number = duel.collect().last().map(|(_, opened)| opened.number);
        duel.victim.advance(Duration::from_millis(wait));
        let (path, largest) = (Some(0), number.unwrap());
        let ecn = None;
        duel.send(&[Frame::Ack {
            path,
            largest,
            delay,
            first: 0,
            ranges: Vec::new(),
            ecn,
        }]);
    };
    for _ in 0..20 {
        exchange(&mut duel, 10, 0);
    }
    let before = duel.victim.connection().path(PathId::ZERO).unwrap().rtt();
    for _ in 0..40 {
        // 100 ms, of which 90 ms are said to be delay (times 8 microseconds).
        exchange(&mut duel, 100, 90_000 / 8);
    }
    let after = duel.victim.connection().path(PathId::ZERO).unwrap().rtt();
    assert!(before < Duration::from_millis(30));
    // 25 ms at most are taken off: more than 70 ms remain.
    let believed = Duration::from_millis(100).saturating_sub(after);
    figure(
        "ACK delay lies",
        "milliseconds of claimed delay believed, of 90",
        believed.as_millis() as u64,
        30,
    );
}

/// A sender that forgets nothing must not be kept busy for ever by a receiver that does not acknowledge one path.
#[test]
fn acks_held_back_on_one_path() {
    let mut duel = multipath();
    duel.open_path(1);
    let id = duel.victim.connection().streams().open(Dir::Uni).unwrap();
    let mut written = 0;
    let mut got = std::collections::BTreeSet::new();
    let goal = 400_000u64;
    let mut milliseconds = 0;
    while (got.len() as u64) < goal / 1000 && milliseconds < 60_000 {
        if written < goal as usize {
            written += duel
                .victim
                .connection()
                .send_stream(id)
                .write(&[7; 4000])
                .unwrap_or(0);
        }
        duel.victim.flush();
        let came = duel.collect();
        for (_, opened) in &came {
            for frame in &opened.frames {
                // What travels on path 1 is received, but never acknowledged: only what path 0 brings counts.
                if let (Frame::Stream { offset, data, .. }, Space::Data(0)) = (frame, opened.space)
                {
                    got.extend((*offset..offset + data.len() as u64).map(|byte| byte / 1000));
                }
            }
        }
        duel.peer.take_acks();
        if let Some(ack) = duel.peer.ack_of(Space::Data(0)) {
            duel.send(&[ack]);
        }
        duel.victim.advance(Duration::from_millis(10));
        milliseconds += 10;
    }
    assert_eq!(got.len() as u64, goal / 1000, "after {milliseconds} ms");
    figure(
        "scheduler abuse",
        "ms for 400 kB with one path never acknowledged",
        milliseconds,
        6000,
    );
}

/// Acknowledgements at odd times under every controller: no overflow, no panic (the profile of tests checks arithmetic).
#[test]
fn arithmetic_of_controllers() {
    let mut runs = 0;
    for controller in ["auto", "newreno", "cubic", "bbr3", "lia", "olia", "balia"] {
        let Ok(controller) = controller.parse::<CongestionControl>() else {
            continue;
        };
        for waits in [
            [0, 0, 0],
            [1, 40_000, 0],
            [900_000, 1, 900_000],
            [29_000_000, 3, 29_000_000],
        ] {
            let mut config = quiet();
            config.congestion(controller).max_idle_timeout(None);
            let mut params = Params::generous(Some(7));
            params.set(mpquic_hostile::params::id::MAX_IDLE_TIMEOUT, 0);
            let mut duel = Duel::established(config, params);
            duel.open_path(1);
            let id = duel.victim.connection().streams().open(Dir::Uni).unwrap();
            for round in 0..60 {
                let _ = duel
                    .victim
                    .connection()
                    .send_stream(id)
                    .write(&[7; 1 << 15]);
                duel.victim.flush();
                duel.collect();
                duel.victim.now += Duration::from_micros(waits[round % 3]);
                let acks = duel.peer.take_acks();
                if round % 7 != 3 {
                    duel.send(&acks);
                }
                if round % 20 == 19 {
                    duel.victim.advance(Duration::from_secs(3600));
                }
            }
            runs += 1;
        }
    }
    figure("controller arithmetic", "runs missing, of 28", 28 - runs, 0);
}

/// The application follows the fate of its datagrams and asks for none. The peer acknowledges nothing, every fourth packet,
/// or every fourth and what was lost for that a while later.
#[test]
fn fates_of_datagrams() {
    for (how, part, late) in [
        ("of no packet", 0, false),
        ("of every fourth packet", 4, false),
        ("of every fourth packet, the others late", 4, true),
    ] {
        let mut duel = multipath();
        duel.victim.keep_events = false;
        let before = meter::reading().held;
        let (mut tag, mut told) = (0, 0);
        for round in 0..2000 {
            for _ in 0..40 {
                let options = DatagramOptions::new().tag(tag);
                let data = Bytes::from_static(&[7; 20]);
                let mut datagrams = duel.victim.connection().datagrams();
                let _ = datagrams.send_with(data, options, true);
                tag += 1;
            }
            duel.victim.flush();
            duel.collect();
            duel.peer.take_acks();
            let all = late && round % 20 == 0;
            let numbers: Vec<_> = duel.peer.received(Space::Data(0)).collect();
            let newest = numbers.into_iter().rev().take(100);
            let said = newest.filter(|number| part > 0 && (all || number % part == 0));
            for number in said.collect::<Vec<_>>() {
                told += u64::from(duel.send(&[Frame::ack(Some(0), number, number)]));
            }
            duel.victim.advance(Duration::from_millis(10));
        }
        assert!(duel.alive(), "{how}: {:?}", duel.reason());
        assert!(part == 0 || told > 1000, "{told}");
        assert_eq!(duel.victim.over_caps(), Vec::<String>::new());
        let dropped = duel.victim.connection().stats().dropped_fates;
        assert!(dropped > 0 || part == 0);
        let datagrams = std::iter::from_fn(|| duel.victim.connection().datagrams().fate());
        let what = format!("news that wait, acknowledged {how}");
        figure("fates of datagrams", &what, datagrams.count() as u64, 4096);
        let held = (meter::reading().held - before).max(0) as u64;
        let what = format!("bytes held after 80,000, acknowledged {how}");
        figure("fates of datagrams", &what, held, 512 << 10);
    }
}
