//! The bytes of a segment: as the documentation has them, whatever is cut off or changed.

use std::time::Instant;

use mpquic_sched::record::{self, Event, MIN_BYTES, ReadError, Recording};
use proptest::collection::vec;
use proptest::prelude::*;

use super::{at, place, recorder, ring, schema};

const MAGIC: &[u8] = b"MPQTRAJ\n";

/// A record by hand.
fn frame(payload: &[u8]) -> Vec<u8> {
    let length = payload.len() as u16;
    let mut bytes = length.to_le_bytes().to_vec();
    bytes.extend((!length).to_le_bytes());
    bytes.extend(crc32fast::hash(payload).to_le_bytes());
    bytes.extend(payload);
    bytes
}

/// A segment by hand.
fn segment(header: &str, payloads: &[&[u8]]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(frame(&[b"\0", header.as_bytes()].concat()));
    payloads
        .iter()
        .for_each(|payload| bytes.extend(frame(payload)));
    bytes
}

const HEADER: &str =
    r#"{"crate":"mpquic-sched","format":1,"recording":"00000000000000ff","segment":5}"#;
const SCHEMA: &[u8] =
    b"\x01\x07\0\0\0{\"scheduler\":\"s\",\"config\":{},\"features\":[[\"a\",\"ms\"]],\
    \"rows\":1,\"actions\":[\"b\"]}";
const OPENED: &[u8] = b"\x02\x09\0\0\0\0\0\0\0\x07\0\0\0";

/// A decision of connection 9: number 2, at 3 us.
fn decided(flags: u8, state: &[f32], action: &[f32]) -> Vec<u8> {
    let mut bytes = vec![3];
    bytes.extend([9_u64, 2, 3].iter().flat_map(|word| word.to_le_bytes()));
    bytes.push(flags);
    for values in [state, action] {
        bytes.extend((values.len() as u16).to_le_bytes());
    }
    let values = state.iter().chain(action);
    values.for_each(|value| bytes.extend(value.to_le_bytes()));
    bytes
}

fn parse(bytes: &[u8]) -> Result<Recording, ReadError> {
    Recording::from_segments([bytes])
}

#[test]
fn the_format_is_as_documented() {
    let mut ended = b"\x05\x09\0\0\0\0\0\0\0".to_vec();
    ended.extend(1000_u64.to_le_bytes());
    ended.push(1);
    (11..20_u64).for_each(|count| ended.extend(count.to_le_bytes()));
    let mut rewarded = vec![4];
    rewarded.extend([9_u64, 2, 4].iter().flat_map(|word| word.to_le_bytes()));
    rewarded.push(1);
    rewarded.extend(0.25_f64.to_le_bytes());
    let payloads = [
        SCHEMA,
        OPENED,
        &decided(1, &[0.5], &[2.0]),
        &rewarded,
        &ended,
    ];
    let recording = parse(&segment(HEADER, &payloads)).unwrap();
    assert_eq!((recording.id, &*recording.segments), (255, &[5][..]));
    assert_eq!(recording.events.len(), 3);
    let trajectory = &recording.trajectories()[0];
    assert_eq!(
        (trajectory.connection, &*trajectory.schema.scheduler),
        (9, "s")
    );
    assert_eq!(
        trajectory.schema.features,
        [("a".to_owned(), "ms".to_owned())]
    );
    let pair = &trajectory.pairs[0];
    assert_eq!((pair.decided.number, pair.decided.us), (2, 3));
    assert!(pair.decided.fell_back);
    assert_eq!(
        (&*pair.decided.state, &*pair.decided.action),
        (&[0.5][..], &[2.0][..])
    );
    let reward = pair.rewards[0];
    assert_eq!((reward.us, reward.reward, reward.done), (4, 0.25, true));
    let outcome = trajectory.ended.unwrap();
    assert_eq!((outcome.us, outcome.cut), (1000, true));
    assert_eq!(
        (
            outcome.sent_packets,
            outcome.sent_bytes,
            outcome.retransmissions
        ),
        (11, 12, 13)
    );
    assert_eq!((outcome.acked_bytes, outcome.contiguous_bytes), (14, 15));
    assert_eq!((outcome.lost_packets, outcome.decisions), (16, 17));
    assert_eq!((outcome.rewards, outcome.dropped), (18, 19));
}

#[test]
fn records_that_cannot_be_are_refused_with_their_place() {
    let place = segment(HEADER, &[SCHEMA, OPENED]).len() as u64;
    let good = decided(0, &[0.5], &[2.0]);
    let longer = [&*good, b"x"].concat();
    for (payload, expected) in [
        (&b""[..], "1 bytes too early"),
        (b"\x06", "expected a record of kind 1 to 5, got 6"),
        (&good[..good.len() - 1], "expected 1 numbers, got 3 bytes"),
        (&longer, "1 bytes too many"),
        (
            &decided(2, &[0.5], &[2.0]),
            "expected flags of 0 or 1, got 2",
        ),
        (
            &decided(0, &[0.5, 0.5], &[2.0]),
            "(2, 1) numbers, expected (1, 1)",
        ),
        (
            &decided(0, &[0.5; 4096], &[2.0]),
            "expected at most 4096 numbers, got 4097",
        ),
        (SCHEMA, "schema 7 is there twice"),
        (b"\x01\x08\0\0\0{}", "missing field"),
        (OPENED, "connection 9 is opened twice"),
        (b"\x02\x0a\0\0\0\0\0\0\0\x08\0\0\0", "schema 8, unknown"),
        (
            b"\x04\x0a\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
            "connection 10 is not open here",
        ),
    ] {
        let error = parse(&segment(HEADER, &[SCHEMA, OPENED, payload])).unwrap_err();
        let ReadError::Malformed {
            segment,
            offset,
            ref problem,
        } = error
        else {
            panic!("{error}");
        };
        assert_eq!((segment, offset), (5, place), "{error}");
        assert!(problem.contains(expected), "{problem}, expected {expected}");
    }
}

#[test]
fn what_is_of_another_format_or_program_is_refused() {
    for (bytes, expected) in [
        (
            b"".to_vec(),
            "not a recording: it does not begin with \"MPQTRAJ\"",
        ),
        (MAGIC.to_vec(), "not a recording: it has no whole header"),
        (
            [MAGIC, &frame(OPENED)].concat(),
            "not a recording: the first record is no header",
        ),
        (
            segment(&HEADER.replace(":1,", ":2,"), &[]),
            "a recording of format 2, expected 1",
        ),
        (
            segment(&HEADER.replace("mpquic", "other"), &[]),
            "not a recording: written by \"other-sched\", expected \"mpquic-sched\"",
        ),
        (segment(&HEADER.replace("ff", "fg"), &[]), "its number is"),
    ] {
        let error = parse(&bytes).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}, expected {expected}");
    }
    let one = segment(HEADER, &[]);
    let other = segment(&HEADER.replace("ff", "fe").replace(":5", ":6"), &[]);
    for pair in [[&one, &other], [&one, &one]] {
        assert!(matches!(
            Recording::from_segments(pair),
            Err(ReadError::Foreign { .. })
        ));
    }
    let none: [&[u8]; 0] = [];
    assert!(matches!(
        Recording::from_segments(none),
        Err(ReadError::Foreign { .. })
    ));
}

/// What to record: for some connection, a decision with these numbers, a reward, or its end.
#[derive(Debug, Clone)]
enum Deed {
    Decided([f32; 2], f32, bool),
    Rewarded(u64, f64, bool),
    Ended,
}

fn deeds() -> impl Strategy<Value = Vec<(usize, Deed)>> {
    let deed = prop_oneof![
        4 => (any::<[f32; 2]>(), any::<f32>(), any::<bool>())
            .prop_map(|(state, action, fell_back)| Deed::Decided(state, action, fell_back)),
        4 => (0..20_u64, any::<f64>(), any::<bool>())
            .prop_map(|(number, reward, done)| Deed::Rewarded(number, reward, done)),
        1 => Just(Deed::Ended),
    ];
    vec((0..3_usize, deed), 1..40)
}

/// The file that comes of it, and its events by connection as they were told.
fn file_of(deeds: &[(usize, Deed)]) -> (Vec<u8>, Vec<String>) {
    let (_folder, file) = place();
    let recorder = recorder(&file, MIN_BYTES, 1 << 16);
    let source = recorder.source(&schema()).unwrap();
    let mut rings: Vec<_> = (0..3).map(|_| Some(ring(&source))).collect();
    let (start, mut told) = (Instant::now(), vec![String::new(); 3]);
    for (us, (connection, deed)) in (0..).zip(deeds) {
        let Some(ring) = &mut rings[*connection] else {
            continue;
        };
        // The time of a connection begins with its first record.
        let now = at(start, us);
        let text = match *deed {
            Deed::Decided(state, action, fell_back) => {
                ring.decided(us, now, &state, &[action], fell_back);
                let bits = [state[0], state[1], action].map(f32::to_bits);
                format!("{us} {bits:?} {fell_back};")
            }
            Deed::Rewarded(number, reward, done) => {
                ring.rewarded(number, now, reward, done);
                format!("{number} {:x} {done};", reward.to_bits())
            }
            Deed::Ended => {
                rings[*connection] = None;
                "ended;".to_owned()
            }
        };
        told[*connection] += &text;
    }
    recorder.flush().unwrap();
    (std::fs::read(&file).unwrap(), told)
}

/// The same of what was read.
fn told(recording: &Recording) -> Vec<String> {
    let mut told = vec![String::new(); 3];
    for event in &recording.events {
        let (connection, text) = match event {
            Event::Decided(decided) => {
                let values = decided.state.iter().chain(&decided.action);
                let bits: Vec<_> = values.map(|value| value.to_bits()).collect();
                let text = format!("{} {bits:?} {};", decided.number, decided.fell_back);
                (decided.connection, text)
            }
            Event::Rewarded(rewarded) => {
                let bits = rewarded.reward.to_bits();
                let text = format!("{} {bits:x} {};", rewarded.number, rewarded.done);
                (rewarded.connection, text)
            }
            Event::Ended { connection, .. } => (*connection, "ended;".to_owned()),
            other => panic!("{other:?}"),
        };
        told[connection as usize] += &text;
    }
    told
}

/// Events as text: numbers that are none are equal to themselves there.
fn texts(recording: &Recording) -> Vec<String> {
    recording
        .events
        .iter()
        .map(|event| format!("{event:?}"))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_was_told_is_read_back(deeds in deeds()) {
        let (bytes, expected) = file_of(&deeds);
        let recording = parse(&bytes).unwrap();
        prop_assert!(recording.damage.is_empty());
        prop_assert_eq!(told(&recording), expected);
    }

    /// Wherever it breaks off: what was before is there, and nothing else.
    #[test]
    fn torn_at_any_byte(deeds in deeds(), zeros in 0..100_usize) {
        let (bytes, _) = file_of(&deeds);
        let whole = texts(&parse(&bytes).unwrap());
        let mut count = 0;
        for length in 0..bytes.len() {
            let mut torn = bytes[..length].to_vec();
            let Ok(recording) = parse(&torn) else {
                // Within the header.
                prop_assert!(length < 200 && count == 0);
                continue;
            };
            let read = texts(&recording);
            prop_assert_eq!(&read[..], &whole[..read.len()]);
            prop_assert!(read.len() >= count, "less of more bytes");
            count = read.len();
            if let [damage] = &recording.damage[..] {
                prop_assert!(damage.torn && damage.offset + damage.left == length as u64);
            }
            // The end of a file that the system had not written yet.
            if recording.damage.is_empty() {
                torn.resize(length + zeros, 0);
                let recording = parse(&torn).unwrap();
                prop_assert_eq!(texts(&recording), read);
                prop_assert_eq!(recording.damage.len(), usize::from(zeros > 0));
                prop_assert!(recording.damage.iter().all(|damage| damage.torn));
            }
        }
    }

    /// Whatever bits flip: what is read is what was written up to some record, and that not all is there is told.
    #[test]
    fn flipped_bits_give_nothing_wrong(deeds in deeds(), flips in vec((any::<prop::sample::Index>(), 0..8), 1..4)) {
        let (bytes, _) = file_of(&deeds);
        let whole = texts(&parse(&bytes).unwrap());
        let mut changed = bytes.clone();
        for (place, bit) in flips {
            changed[place.index(bytes.len())] ^= 1_u8 << bit;
        }
        prop_assume!(changed != bytes);
        if let Ok(recording) = parse(&changed) {
            let read = texts(&recording);
            prop_assert_eq!(&read[..], &whole[..read.len()]);
            prop_assert_eq!(recording.damage.len(), 1);
        }
    }

    /// Bytes of anybody's, with sound checksums: read or refused, and no more memory than there are bytes.
    #[test]
    fn anything_is_read_or_refused(
        payloads in vec(vec(any::<u8>(), 0..60), 0..20),
        kinds in vec(0..7_u8, 20),
        rest in vec(any::<u8>(), 0..60),
    ) {
        let mut bytes = segment(HEADER, &[SCHEMA, OPENED]);
        for (mut payload, kind) in payloads.into_iter().zip(kinds) {
            if let Some(first) = payload.first_mut() {
                *first = kind;
            }
            bytes.extend(frame(&payload));
        }
        bytes.extend(&rest);
        match parse(&bytes) {
            Ok(recording) => prop_assert_eq!(recording.trajectories().len(), recording.connections.len()),
            Err(error) => prop_assert!(!error.to_string().contains('\n')),
        }
        let _ = parse(&rest);
    }
}

#[test]
fn several_segments_read_as_one() {
    let (_folder, file) = place();
    let recorder = recorder(&file, MIN_BYTES, 1 << 20);
    let source = recorder.source(&schema()).unwrap();
    let mut ring = ring(&source);
    let start = Instant::now();
    (0..2000).for_each(|number| ring.decided(number, start, &[0.0, 1.0], &[2.0], false));
    recorder.flush().unwrap();
    assert_eq!(record::read(&file).unwrap().segments, [0, 1]);
    // Damage in the older one costs what is behind it there, and is told; the newer one is read.
    let older = file.with_extension("traj.1");
    let mut bytes = std::fs::read(&older).unwrap();
    bytes[10_000] ^= 1;
    std::fs::write(&older, bytes).unwrap();
    let recording = record::read(&file).unwrap();
    let [damage] = &recording.damage[..] else {
        panic!("{:?}", recording.damage);
    };
    assert!(damage.segment == 0 && !damage.torn && damage.offset <= 10_000);
    assert!(
        damage
            .to_string()
            .starts_with("segment 0 is damaged at byte ")
    );
    let trajectories = recording.trajectories();
    assert_eq!(trajectories[0].pairs.last().unwrap().decided.number, 1999);
}
