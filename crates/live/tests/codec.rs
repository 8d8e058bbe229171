//! What was lost comes back byte for byte whenever the equations suffice, and hostile symbols cost no more than the bounds say.

use mpquic_live::rlc::{DENSE, Decoder, Encoder, MAX_ROWS, MAX_WINDOW, REACH, RepairOutcome};
use mpquic_live::wire::{Body, Packet};
use proptest::prelude::*;

fn content(number: u64, len: usize) -> Vec<u8> {
    (0..len as u64)
        .map(|i| (number.wrapping_mul(131).wrapping_add(i * 17) >> 3) as u8)
        .collect()
}

/// What happens to source packet `number`: it comes, is lost, or comes after so many others.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Comes,
    Lost,
    Late(u8),
}

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let one = prop_oneof![
        8 => Just(Fate::Comes),
        2 => Just(Fate::Lost),
        1 => (1..60_u8).prop_map(Fate::Late),
    ];
    prop::collection::vec(one, 1..400)
}

proptest! {
    /// Whatever comes, is known as it was sent; what was not sent is never made up.
    #[test]
    fn known_symbols_are_those_sent(
        fates in fates(),
        lens in prop::collection::vec(0..300_usize, 400),
        every in 2..12_usize,
        window in 1..=MAX_WINDOW,
        density in 0..=15_u8,
        twice in any::<bool>(),
    ) {
        let mut encoder = Encoder::new(256);
        let mut decoder = Decoder::new();
        let mut late: Vec<(usize, u64)> = Vec::new();
        for (i, fate) in fates.iter().enumerate() {
            let sent = content(i as u64, lens[i]);
            let number = encoder.push(&sent).unwrap();
            match fate {
                Fate::Comes => {
                    decoder.source(number as u32, &sent);
                    if twice {
                        prop_assert!(!decoder.source(number as u32, &sent));
                    }
                }
                Fate::Lost => {}
                Fate::Late(by) => late.push((i + usize::from(*by), number)),
            }
            late.retain(|(due, number)| {
                if *due <= i {
                    decoder.source(*number as u32, &content(*number, lens[*number as usize]));
                }
                *due > i
            });
            if i % every == 0 {
                let count = window.min(number as usize + 1);
                let first = number + 1 - count as u64;
                let mut symbol = Vec::new();
                encoder.encode(first, count, i as u16, density, &mut symbol);
                decoder.repair(first as u32, count, i as u16, density, &symbol);
            }
            while decoder.recovered().is_some() {}
        }
        prop_assert_eq!(decoder.contradictions(), 0);
        for number in 0..fates.len() as u64 {
            if let Some(known) = decoder.content(number) {
                prop_assert_eq!(known, content(number, lens[number as usize]));
            }
        }
    }

    /// With as many dense repair symbols as losses, and two more against unlucky coefficients, all comes back.
    #[test]
    fn enough_equations_bring_all_back(
        lost in prop::collection::btree_set(0..100_u64, 1..40),
        repairs_first in any::<bool>(),
        begin in prop_oneof![Just(0_u32), Just(u32::MAX - 50), any::<u32>()],
    ) {
        let mut encoder = Encoder::new(128);
        let mut decoder = Decoder::new();
        let sources: Vec<_> = (0..100).map(|number| content(number, 100 + number as usize % 50)).collect();
        for source in &sources {
            encoder.push(source).unwrap();
        }
        let mut send_repairs = |decoder: &mut Decoder| {
            for key in 0..lost.len() as u16 + 2 {
                let mut symbol = Vec::new();
                encoder.encode(0, 100, key, DENSE, &mut symbol);
                let outcome = decoder.repair(begin, 100, key, DENSE, &symbol);
                assert!(matches!(outcome, RepairOutcome::Taken | RepairOutcome::Redundant));
            }
        };
        if repairs_first {
            send_repairs(&mut decoder);
        }
        for (number, source) in (0..).zip(&sources) {
            if !lost.contains(&number) {
                decoder.source(begin.wrapping_add(number as u32), source);
            }
        }
        if !repairs_first {
            send_repairs(&mut decoder);
        }
        let mut back = Vec::new();
        while let Some(number) = decoder.recovered() {
            back.push((number as u32).wrapping_sub(begin));
            let place = (number as u32).wrapping_sub(begin) as usize;
            prop_assert_eq!(decoder.content(number), Some(&sources[place][..]));
        }
        back.sort_unstable();
        // With the repairs first, a source that follows from those before it is brought back before it comes.
        let missing: Vec<u32> = lost.iter().map(|number| *number as u32).collect();
        prop_assert!(missing.iter().all(|number| back.contains(number)));
        prop_assert_eq!(decoder.waiting(), 0);
    }

    /// Nothing that comes makes it panic or hold more than it may.
    #[test]
    fn hostile_symbols_are_bounded(
        symbols in prop::collection::vec(
            (any::<bool>(), prop_oneof![0..2_000_u32, any::<u32>()], 0..200_usize, any::<u16>(), any::<u8>(),
             prop::collection::vec(any::<u8>(), 0..80)),
            0..600,
        ),
    ) {
        let mut decoder = Decoder::new();
        for (source, number, count, key, density, bytes) in symbols {
            if source {
                decoder.source(number, &bytes);
            } else {
                decoder.repair(number, count, key, density, &bytes);
            }
            prop_assert!(decoder.waiting() <= MAX_ROWS);
            let mut recovered = 0;
            while let Some(number) = decoder.recovered() {
                decoder.content(number);
                recovered += 1;
            }
            prop_assert!(recovered <= REACH);
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80), kind in 0x0f..0x14_u8) {
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = kind;
        }
        if let Ok(packet) = Packet::read(&bytes) {
            let mut again = Vec::new();
            packet.write(&mut again);
            prop_assert_eq!(Packet::read(&again), Ok(packet));
            if let Packet::Source { body, .. } = packet
                && let Ok(body) = Body::read(body)
            {
                let mut again = Vec::new();
                body.write(&mut again);
                prop_assert_eq!(Body::read(&again), Ok(body));
            }
        }
    }
}

/// Redundancy 25 %, losses 20 %, over ten thousand packets: the window slides, and nearly all comes back.
#[test]
fn a_long_stream_is_repaired() {
    let mut encoder = Encoder::new(256);
    let mut decoder = Decoder::new();
    let (mut lost, mut back, mut state) = (0, 0, 1_u32);
    for i in 0..10_000_u64 {
        let sent = content(i, 64);
        encoder.push(&sent).unwrap();
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if state >> 16 < 65_536 / 5 {
            lost += 1;
        } else {
            decoder.source(i as u32, &sent);
        }
        if i % 4 == 3 {
            let count = MAX_WINDOW.min(i as usize + 1);
            let first = i + 1 - count as u64;
            let mut symbol = Vec::new();
            encoder.encode(first, count, i as u16, DENSE, &mut symbol);
            decoder.repair(first as u32, count, i as u16, DENSE, &symbol);
        }
        while let Some(number) = decoder.recovered() {
            assert_eq!(decoder.content(number), Some(&content(number, 64)[..]));
            back += 1;
        }
    }
    assert_eq!(decoder.contradictions(), 0);
    assert!(back > lost * 97 / 100, "{back} of {lost}");
}

/// A symbol that was changed on its way is found where it can be, and nothing is held beyond the bounds.
#[test]
fn contradictions_are_counted() {
    let mut encoder = Encoder::new(8);
    encoder.push(b"one").unwrap();
    encoder.push(b"two").unwrap();
    let mut symbol = Vec::new();
    encoder.encode(0, 2, 5, DENSE, &mut symbol);
    symbol[4] ^= 1;
    let mut decoder = Decoder::new();
    assert_eq!(
        decoder.repair(0, 2, 5, DENSE, &symbol),
        RepairOutcome::Taken
    );
    decoder.source(0, b"one");
    decoder.source(1, b"two");
    assert_eq!(decoder.waiting(), 0);
    assert_eq!(
        decoder.repair(0, 2, 5, DENSE, &symbol),
        RepairOutcome::Redundant
    );
    // Too short for what it covers.
    let mut decoder = Decoder::new();
    decoder.source(0, b"longer than that");
    assert_eq!(
        decoder.repair(0, 2, 5, DENSE, b"abc"),
        RepairOutcome::Invalid
    );
    assert_eq!(
        decoder.repair(0, 129, 5, DENSE, b"abc"),
        RepairOutcome::Invalid
    );
    decoder.source(5_000, b"x");
    assert_eq!(
        decoder.repair(0, 2, 5, DENSE, b"abcdefg"),
        RepairOutcome::TooOld
    );
}
