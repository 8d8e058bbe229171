//! Every frame there and back, cut off everywhere. Where each may come is in `receive::tests::table`.

use mpquic_sched_core::{ConnectionId, TransportErrorCode, VarInt};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::Union;

use super::*;
use crate::PathId;
use crate::packet::varint;

fn code(x: u64) -> TransportErrorCode {
    use mpquic_sched_core::coding::Codec;
    let mut buf = Vec::new();
    varint::put(&mut buf, x);
    TransportErrorCode::decode(&mut buf.as_slice()).unwrap()
}

fn number() -> impl Strategy<Value = u64> + Clone {
    prop_oneof![
        0..64u64,
        0..1u64 << 14,
        0..1u64 << 30,
        0..=varint::MAX,
        Just(varint::MAX)
    ]
}

fn path() -> impl Strategy<Value = Option<u64>> {
    prop::option::of(number())
}

/// Data borrows from the test for ever: a test leaks little.
fn data(min: usize, max: usize) -> impl Strategy<Value = &'static [u8]> {
    vec(any::<u8>(), min..max).prop_map(|v| &*v.leak())
}

fn id() -> impl Strategy<Value = StreamId> {
    number().prop_map(|x| VarInt::from_u64(x).unwrap().into())
}

fn var() -> impl Strategy<Value = VarInt> {
    number().prop_map(|x| VarInt::from_u64(x).unwrap())
}

fn dir() -> impl Strategy<Value = Dir> {
    prop_oneof![Just(Dir::Bi), Just(Dir::Uni)]
}

/// An ACK as a receiver makes it, by way of its encoding: blocks exist in no other form.
fn ack() -> impl Strategy<Value = Frame<'static>> {
    let ecn = prop::option::of((number(), number(), number()));
    let steps = vec((2..1u64 << 20, 0..1u64 << 20), 0..64);
    (path(), number(), number(), number(), steps, ecn).prop_map(
        |(path, largest, first, delay, steps, ecn)| {
            let mut buf = Vec::new();
            let path = path.map(|p| PathId(p as u32));
            let ecn = ecn.map(|(ect0, ect1, ce)| EcnCounts { ect0, ect1, ce });
            let mut ranges = vec![largest - first.min(largest)..=largest];
            for (gap, len) in steps {
                let low = *ranges.last().unwrap().start();
                if low < gap + len {
                    break;
                }
                ranges.push(low - gap - len..=low - gap);
            }
            encode_ack(&mut buf, path, delay, ranges, ecn, usize::MAX).unwrap();
            FrameIter::new(buf.leak()).next().unwrap().unwrap()
        },
    )
}

/// Any frame that [`Frame::encode`] can write.
fn frame() -> impl Strategy<Value = Frame<'static>> {
    let stream =
        (id(), 0..1u64 << 61, any::<bool>(), data(0, 100)).prop_map(|(id, offset, fin, data)| {
            Frame::Stream(Stream {
                id,
                offset,
                fin,
                data,
            })
        });
    let cid = (
        path(),
        number(),
        number(),
        vec(any::<u8>(), 1..21),
        any::<[u8; 16]>(),
    )
        .prop_map(|(path, sequence, prior, cid, reset_token)| {
            Frame::NewConnectionId(NewConnectionId {
                path,
                sequence,
                retire_prior_to: prior.min(sequence),
                id: ConnectionId::new(&cid),
                reset_token,
            })
        });
    let close = (number(), number(), data(0, 200)).prop_map(|(error, frame_type, reason)| {
        Frame::ConnectionClose(ConnectionClose {
            error_code: code(error),
            frame_type,
            reason: reason.into(),
        })
    });
    Union::new([
        Just(Frame::Padding).boxed(),
        Just(Frame::Ping).boxed(),
        ack().boxed(),
        (id(), var(), number())
            .prop_map(|(id, error_code, final_size)| {
                Frame::ResetStream(ResetStream {
                    id,
                    error_code,
                    final_size,
                })
            })
            .boxed(),
        (id(), var())
            .prop_map(|(id, error_code)| Frame::StopSending(StopSending { id, error_code }))
            .boxed(),
        (0..1u64 << 61, data(0, 100))
            .prop_map(|(offset, data)| Frame::Crypto(Crypto { offset, data }))
            .boxed(),
        data(1, 100).prop_map(Frame::NewToken).boxed(),
        stream.boxed(),
        number().prop_map(Frame::MaxData).boxed(),
        (id(), number())
            .prop_map(|(id, offset)| Frame::MaxStreamData { id, offset })
            .boxed(),
        (dir(), 0..=MAX_STREAM_COUNT)
            .prop_map(|(dir, count)| Frame::MaxStreams { dir, count })
            .boxed(),
        number()
            .prop_map(|offset| Frame::DataBlocked { offset })
            .boxed(),
        (id(), number())
            .prop_map(|(id, offset)| Frame::StreamDataBlocked { id, offset })
            .boxed(),
        (dir(), 0..=MAX_STREAM_COUNT)
            .prop_map(|(dir, limit)| Frame::StreamsBlocked { dir, limit })
            .boxed(),
        cid.boxed(),
        (path(), number())
            .prop_map(|(path, sequence)| {
                Frame::RetireConnectionId(RetireConnectionId { path, sequence })
            })
            .boxed(),
        any::<u64>().prop_map(Frame::PathChallenge).boxed(),
        any::<u64>().prop_map(Frame::PathResponse).boxed(),
        close.boxed(),
        (var(), data(0, 200))
            .prop_map(|(error_code, reason)| {
                Frame::ApplicationClose(ApplicationClose {
                    error_code,
                    reason: reason.into(),
                })
            })
            .boxed(),
        Just(Frame::HandshakeDone).boxed(),
        Just(Frame::ImmediateAck).boxed(),
        (number(), number(), number(), number())
            .prop_map(|(sequence, threshold, max_ack_delay, reordering)| {
                Frame::AckFrequency(AckFrequencyFrame {
                    sequence,
                    ack_eliciting_threshold: threshold,
                    max_ack_delay,
                    reordering_threshold: reordering,
                })
            })
            .boxed(),
        data(0, 100).prop_map(Frame::Datagram).boxed(),
        (number(), number())
            .prop_map(|(path, error)| Frame::PathAbandon {
                path,
                error: PathErrorCode(error),
            })
            .boxed(),
        (number(), number())
            .prop_map(|(path, seq)| Frame::PathStatusBackup { path, seq })
            .boxed(),
        (number(), number())
            .prop_map(|(path, seq)| Frame::PathStatusAvailable { path, seq })
            .boxed(),
        number().prop_map(Frame::MaxPathId).boxed(),
        number().prop_map(Frame::PathsBlocked).boxed(),
        (number(), number())
            .prop_map(|(path, next_seq)| Frame::PathCidsBlocked { path, next_seq })
            .boxed(),
    ])
}

fn encode(frame: &Frame<'_>) -> Vec<u8> {
    let mut buf = Vec::new();
    frame.encode(&mut buf);
    buf
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Taken out by themselves, STREAM frames are what they are among all others: frames, types and errors.
    #[test]
    fn stream_frames_by_themselves(
        frames in vec(frame(), 0..5),
        streams in vec((0x08_u8..0x10, vec(0_u8..0x50, 0..12)), 0..3),
        noise in vec(any::<u8>(), 0..8),
    ) {
        let mut buf: Vec<u8> = frames.iter().flat_map(encode).collect();
        for (ty, body) in streams {
            buf.push(ty);
            buf.extend(body);
        }
        buf.extend(noise);
        let (mut all, mut apart) = (FrameIter::new(&buf), FrameIter::new(&buf));
        loop {
            let next = match apart.next_stream() {
                Some(Ok(stream)) => Some(Ok(Frame::Stream(stream))),
                Some(Err(malformed)) => Some(Err(apart.malformed(malformed))),
                None => apart.next(),
            };
            let expected = all.next();
            prop_assert_eq!(&next, &expected);
            prop_assert_eq!(apart.last_type(), all.last_type());
            prop_assert_eq!(apart.remaining(), all.remaining());
            if expected.is_none() {
                break;
            }
        }
    }

    #[test]
    fn round_trip(frame in frame()) {
        let buf = encode(&frame);
        prop_assert_eq!(buf.len(), frame.size());
        let mut iter = FrameIter::new(&buf);
        prop_assert_eq!(iter.next(), Some(Ok(frame.clone())));
        prop_assert_eq!(iter.last_type(), frame.ty());
        prop_assert_eq!(iter.next(), None);
    }

    #[test]
    fn sequences_round_trip(frames in vec(frame(), 0..12)) {
        let mut buf = Vec::new();
        let mut expected: Vec<Frame<'_>> = Vec::new();
        for frame in &frames {
            frame.encode(&mut buf);
            // A run of padding is one frame.
            if *frame != Frame::Padding || expected.last() != Some(&Frame::Padding) {
                expected.push(frame.clone());
            }
        }
        let decoded: Result<Vec<_>, _> = FrameIter::new(&buf).collect();
        prop_assert_eq!(decoded, Ok(expected));
    }

    /// Every frame but PADDING has no shorter form that is valid, so that each cut is an error.
    #[test]
    fn truncation_is_an_error(frame in frame()) {
        let buf = encode(&frame);
        for cut in 1..buf.len() {
            let mut iter = FrameIter::new(&buf[..cut]);
            match iter.next() {
                Some(Err(error)) => {
                    prop_assert_eq!(error.code, TransportErrorCode::FRAME_ENCODING_ERROR);
                }
                other => prop_assert!(false, "{} of {} bytes of {:?} gave {:?}", cut, buf.len(), frame, other),
            }
            prop_assert_eq!(iter.next(), None);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..200)) {
        let mut again = Vec::new();
        for frame in FrameIter::new(&bytes) {
            let Ok(frame) = frame else { break };
            if let Frame::Ack(ack) = &frame {
                prop_assert!(ack.blocks.iter().count() <= bytes.len());
            }
            frame.encode(&mut again);
            let _ = (frame.size(), frame.is_ack_eliciting(), frame.is_probing());
        }
        // What was understood is understood again.
        for frame in FrameIter::new(&again) {
            prop_assert!(frame.is_ok());
        }
    }

    /// Bytes that start like a frame reach further than noise does.
    #[test]
    fn corrupted_frames_never_panic(frame in frame(), at in any::<prop::sample::Index>(), x in any::<u8>()) {
        let mut buf = encode(&frame);
        let at = at.index(buf.len());
        buf[at] ^= x;
        for frame in FrameIter::new(&buf) {
            if let Ok(Frame::Ack(ack)) = frame {
                let _ = ack.blocks.iter().count();
            }
        }
    }

    #[test]
    fn ack_keeps_within_its_limit(
        starts in vec((2..300u64, 0..300u64), 1..80),
        path in prop::option::of(any::<u32>()),
        limit in 0..300usize,
    ) {
        // Ascending steps from 0, then turned around.
        let mut at = 0;
        let mut ranges = Vec::new();
        for (gap, len) in starts {
            ranges.push(at + gap..=at + gap + len);
            at += gap + len;
        }
        ranges.reverse();
        let mut buf = vec![0xff];
        let low = encode_ack(&mut buf, path.map(PathId), 7, ranges.iter().cloned(), None, limit);
        prop_assert!(buf.len() - 1 <= limit);
        match low {
            None => prop_assert_eq!(buf, vec![0xff]),
            Some(low) => {
                let Some(Ok(Frame::Ack(ack))) = FrameIter::new(&buf[1..]).next() else {
                    return Err(TestCaseError::fail("no ACK"));
                };
                let got: Vec<_> = ack.blocks.iter().collect();
                prop_assert_eq!(&got[..], &ranges[..got.len()]);
                prop_assert_eq!(low, *got.last().unwrap().start());
                prop_assert_eq!(ack.path, path.map(u64::from));
                // All that fit, or 64, or no room for a further range (4 bytes at most here).
                prop_assert!(got.len() == ranges.len().min(64) || buf.len() - 1 + 4 > limit);
            }
        }
    }

    #[test]
    fn close_reason_is_cut_to_the_limit(reason in data(0, 300), limit in 0..320usize) {
        let close = ApplicationClose { error_code: VarInt::from_u32(7), reason: reason.into() };
        let mut buf = Vec::new();
        let fits = close.encode(&mut buf, limit);
        prop_assert!(buf.len() <= limit);
        // Its type, its code, the length of its reason; that length may have two bytes.
        prop_assert!(fits == (limit >= 3) && fits != buf.is_empty());
        if !fits {
            return Ok(());
        }
        match FrameIter::new(&buf).next() {
            Some(Ok(Frame::ApplicationClose(got))) => {
                prop_assert!(reason.starts_with(&got.reason));
                prop_assert!(got.reason.len() == reason.len() || buf.len() + 1 >= limit);
            }
            other => prop_assert!(false, "{:?}", other),
        }
    }

    #[test]
    fn stream_header_size_is_exact(id in id(), offset in 0..1u64 << 61, fin in any::<bool>(), data in data(0, 50)) {
        for len in [None, Some(data.len())] {
            let mut buf = Vec::new();
            encode_stream_header(&mut buf, id, offset, fin, len);
            prop_assert_eq!(buf.len(), stream_header_size(id, offset, len));
            buf.extend_from_slice(data);
            let expected = Frame::Stream(Stream { id, offset, fin, data });
            prop_assert_eq!(FrameIter::new(&buf).next(), Some(Ok(expected)));
        }
        for len in [None, Some(data.len())] {
            let mut buf = Vec::new();
            encode_datagram_header(&mut buf, len);
            prop_assert_eq!(buf.len(), datagram_header_size(len));
            buf.extend_from_slice(data);
            prop_assert_eq!(FrameIter::new(&buf).next(), Some(Ok(Frame::Datagram(data))));
        }
    }
}

fn error_of(bytes: &[u8]) -> TransportErrorCode {
    let error = FrameIter::new(bytes).find_map(Result::err);
    error.expect("an error").code
}

/// Builds a frame from varints.
fn varints(fields: &[u64]) -> Vec<u8> {
    let mut buf = Vec::new();
    for &x in fields {
        varint::put(&mut buf, x);
    }
    buf
}

#[test]
fn padding_collapses() {
    let bytes = [0, 0, 0, 1, 0, 0];
    let frames: Vec<_> = FrameIter::new(&bytes).map(Result::unwrap).collect();
    assert_eq!(frames, [Frame::Padding, Frame::Ping, Frame::Padding]);
}

/// neqo GHSA-5m9j-vr32-g7j5: the count is a claim of the peer's.
#[test]
fn ack_claiming_2_to_60_ranges_is_rejected_at_once() {
    for (ty, path) in [
        (types::ACK, None),
        (types::ACK_ECN, None),
        (types::PATH_ACK, Some(1)),
    ] {
        let mut buf = varints(&[ty]);
        if let Some(path) = path {
            varint::put(&mut buf, path);
        }
        // Largest, delay, count, first range; then room for 500 ranges.
        buf.extend_from_slice(&varints(&[varint::MAX, 0, 1 << 60, 0]));
        buf.extend_from_slice(&[0; 1000]);
        let error = FrameIter::new(&buf).next().unwrap().unwrap_err();
        assert_eq!(error.code, TransportErrorCode::FRAME_ENCODING_ERROR);
        assert_eq!(error.frame, Some(ty));
        // Found out by the count itself, before any range was looked at.
        assert_eq!(error.reason, "more ACK ranges than bytes");
    }
}

//= specs/rfc9000.txt#section-19.3.1
//= type=test
//# If any computed packet number is negative, an endpoint MUST generate a connection error of type
//# FRAME_ENCODING_ERROR.
#[test]
fn ack_ranges_below_zero_are_rejected() {
    for fields in [
        &[types::ACK, 5, 0, 0, 6][..],
        &[types::ACK, 5, 0, 1, 5, 0, 0],
        &[types::ACK, 5, 0, 1, 0, 3, 1],
        &[types::ACK, 5, 0, 1, 0, varint::MAX, 0],
        &[types::PATH_ACK, 1, 5, 0, 1, 0, 3, varint::MAX],
    ] {
        assert_eq!(
            error_of(&varints(fields)),
            TransportErrorCode::FRAME_ENCODING_ERROR,
            "{fields:x?}"
        );
    }
    let buf = varints(&[types::ACK, 5, 0, 1, 0, 3, 0]);
    let Some(Ok(Frame::Ack(ack))) = FrameIter::new(&buf).next() else {
        panic!("valid")
    };
    assert_eq!(ack.blocks.iter().collect::<Vec<_>>(), [5..=5, 0..=0]);
}

//= specs/rfc9000.txt#section-12.4
//= type=test
//# To ensure simple and efficient implementations of frame parsing, a frame type MUST use the
//# shortest possible encoding.
#[test]
fn frame_type_must_be_in_its_shortest_encoding() {
    for bytes in [
        &[0x40, 0x01][..],
        &[0x40, 0x00],
        &[0x80, 0, 0, 0x01],
        &[0xc0, 0, 0, 0, 0, 0, 0, 0x1e],
        &[0x80, 0, 0x3e, 0x7a, 5],
        &[0xc0, 0, 0, 0, 0, 0, 0x3e, 0x75, 0, 0],
    ] {
        assert_eq!(
            error_of(bytes),
            TransportErrorCode::PROTOCOL_VIOLATION,
            "{bytes:x?}"
        );
    }
    // Two bytes are the shortest for these.
    let max_path_id = FrameIter::new(&[0x7e, 0x7a, 5]).next();
    assert_eq!(max_path_id, Some(Ok(Frame::MaxPathId(5))));
}

//= specs/rfc9000.txt#section-12.4
//= type=test
//# An endpoint MUST treat the receipt of a frame of unknown type as a connection error of type
//# FRAME_ENCODING_ERROR.
#[test]
fn unknown_types_are_rejected() {
    for ty in [0x20, 0x2f, 0x32, 0x3d, 0x40, 0x3e74, 0x3e7d, varint::MAX] {
        let mut buf = varints(&[ty]);
        buf.extend_from_slice(&[0; 64]);
        let error = FrameIter::new(&buf).next().unwrap().unwrap_err();
        assert_eq!(error.code, TransportErrorCode::FRAME_ENCODING_ERROR);
        assert_eq!(error.frame, Some(ty));
    }
}

#[test]
fn values_out_of_bounds_are_rejected() {
    let above = MAX_STREAM_COUNT + 1;
    for fields in [
        //= specs/rfc9000.txt#section-19.11
        //= type=test
        //# Receipt of a frame that permits opening of a stream larger than this limit MUST be
        //# treated as a connection error of type FRAME_ENCODING_ERROR.
        &[types::MAX_STREAMS_BIDI, above][..],
        &[types::MAX_STREAMS_UNI, above],
        //= specs/rfc9000.txt#section-19.14
        //= type=test
        //# Receipt of a frame that encodes a larger stream ID MUST be treated as a connection error
        //# of type STREAM_LIMIT_ERROR or FRAME_ENCODING_ERROR.
        &[types::STREAMS_BLOCKED_BIDI, above],
        &[types::STREAMS_BLOCKED_UNI, above],
        //= specs/rfc9000.txt#section-19.7
        //= type=test
        //# A client MUST treat receipt of a NEW_TOKEN frame with an empty Token field as a
        //# connection error of type FRAME_ENCODING_ERROR.
        &[types::NEW_TOKEN, 0],
        // The end of the data is beyond 2^62-1 (here the length, 1, and the byte, 7).
        //= specs/rfc9000.txt#section-19.6
        //= type=test
        //# Receipt of a frame that exceeds this limit MUST be treated as a connection error of type
        //# FRAME_ENCODING_ERROR or CRYPTO_BUFFER_EXCEEDED.
        &[types::CRYPTO, varint::MAX, 1, 7],
        //= specs/rfc9000.txt#section-19.8
        //= type=test
        //# Receipt of a frame that exceeds this limit MUST be treated as a connection error of type
        //# FRAME_ENCODING_ERROR or FLOW_CONTROL_ERROR.
        &[0x0e, 0, varint::MAX, 1, 7],
        &[0x0c, 0, varint::MAX, 7],
        // Length fields beyond the end.
        &[types::CRYPTO, 0, varint::MAX],
        &[0x0a, 0, varint::MAX],
        &[types::DATAGRAM_LEN, varint::MAX],
        &[types::NEW_TOKEN, varint::MAX],
        &[types::CONNECTION_CLOSE, 0, 0, varint::MAX],
        &[types::APPLICATION_CLOSE, 0, varint::MAX],
    ] {
        assert_eq!(
            error_of(&varints(fields)),
            TransportErrorCode::FRAME_ENCODING_ERROR,
            "{fields:x?}"
        );
    }
    //= specs/rfc9000.txt#section-19.15
    //= type=test
    //# Receiving a value in the Retire Prior To field that is greater than that in the Sequence
    //# Number field MUST be treated as a connection error of type FRAME_ENCODING_ERROR.
    //= specs/rfc9000.txt#section-19.15
    //= type=test
    //# Values less than 1 and greater than 20 are invalid and MUST be treated as a connection error
    //# of type FRAME_ENCODING_ERROR.
    for (sequence, prior, len) in [(0, 1, 8u8), (5, 5, 0), (5, 5, 21), (5, 5, 255)] {
        for head in [
            &[types::NEW_CONNECTION_ID][..],
            &[types::PATH_NEW_CONNECTION_ID, 2],
        ] {
            let mut buf = varints(head);
            buf.extend_from_slice(&varints(&[sequence, prior]));
            buf.push(len);
            buf.extend_from_slice(&[7; 300]);
            assert_eq!(error_of(&buf), TransportErrorCode::FRAME_ENCODING_ERROR);
        }
    }
}

#[test]
fn a_long_close_reason_is_kept_in_part() {
    let reason = vec![b'x'; 5000];
    let close = ApplicationClose {
        error_code: VarInt::from_u32(1),
        reason: reason.into(),
    };
    let buf = encode(&Frame::ApplicationClose(close));
    let Some(Ok(Frame::ApplicationClose(close))) = FrameIter::new(&buf).next() else {
        panic!("valid")
    };
    assert_eq!(close.reason.len(), MAX_CLOSE_REASON);
}

/// The figures of RFC 10069, New Frames, byte for byte.
#[test]
fn multipath_frames_on_the_wire() {
    for (frame, bytes) in [
        (
            Frame::PathAbandon {
                path: 3,
                error: PathErrorCode::PATH_UNSTABLE_OR_POOR,
            },
            &[0x7e, 0x75, 3, 0x7e, 0x76][..],
        ),
        (
            Frame::PathStatusBackup { path: 3, seq: 4 },
            &[0x7e, 0x76, 3, 4],
        ),
        (
            Frame::PathStatusAvailable { path: 3, seq: 4 },
            &[0x7e, 0x77, 3, 4],
        ),
        (
            Frame::RetireConnectionId(RetireConnectionId {
                path: Some(3),
                sequence: 9,
            }),
            &[0x7e, 0x79, 3, 9],
        ),
        (
            Frame::MaxPathId(u32::MAX.into()),
            &[0x7e, 0x7a, 0xc0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff],
        ),
        (Frame::PathsBlocked(2), &[0x7e, 0x7b, 2]),
        (
            Frame::PathCidsBlocked {
                path: 2,
                next_seq: 1,
            },
            &[0x7e, 0x7c, 2, 1],
        ),
        (
            Frame::AckFrequency(AckFrequencyFrame {
                sequence: 3,
                ack_eliciting_threshold: 10,
                max_ack_delay: 25_000,
                reordering_threshold: 0,
            }),
            &[0x40, 0xaf, 3, 10, 0x80, 0, 0x61, 0xa8, 0],
        ),
        (Frame::ImmediateAck, &[0x1f]),
    ] {
        assert_eq!(encode(&frame), bytes);
        assert_eq!(FrameIter::new(bytes).next(), Some(Ok(frame)));
    }
    let mut buf = Vec::new();
    let low = encode_ack(
        &mut buf,
        Some(PathId(2)),
        25,
        [10..=12, 4..=7],
        Some(EcnCounts {
            ect0: 1,
            ect1: 0,
            ce: 2,
        }),
        100,
    );
    assert_eq!(low, Some(4));
    assert_eq!(buf, [0x3f, 2, 12, 25, 1, 2, 1, 3, 1, 0, 2]);
}
