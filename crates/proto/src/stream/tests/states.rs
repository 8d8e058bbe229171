//! Stream states, limits and errors (RFC 9000 sections 2 to 4 and 19).

use super::*;
use crate::{ClosedStream, FinishError, ReadError, WriteError};

fn now() -> Instant {
    Instant::now()
}

fn stream(
    s: &mut Streams,
    id: StreamId,
    offset: u64,
    fin: bool,
    data: &[u8],
) -> Result<(), TransportError> {
    s.on_stream(now(), RTT, id, offset, fin, data)
}

//= specs/rfc9000.txt#section-4.5
//= type=test
//# A receiver SHOULD treat receipt of data at or beyond the final size as an error of type
//# FINAL_SIZE_ERROR, even after a stream is closed.
//= specs/rfc9000.txt#section-4.5
//= type=test
//# If a RESET_STREAM or STREAM frame is received indicating a change in the final size for the
//# stream, an endpoint SHOULD respond with an error of type FINAL_SIZE_ERROR; see Section 11 for
//# details on error handling.
#[test]
fn final_sizes_are_held_to() {
    let id = client_stream(Dir::Uni, 0);
    let fresh = || {
        let mut s = server(&TransportConfig::default());
        stream(&mut s, id, 0, false, b"0123456789").unwrap();
        s
    };
    let error = TransportErrorCode::FINAL_SIZE_ERROR;
    fails(stream(&mut fresh(), id, 0, true, b"01234"), error);
    fails(fresh().on_reset_stream(id, code(0), 9), error);
    let mut s = fresh();
    stream(&mut s, id, 10, true, b"").unwrap();
    fails(stream(&mut s, id, 10, false, b"x"), error);
    fails(stream(&mut s, id, 10, true, b"x"), error);
    fails(s.on_reset_stream(id, code(0), 11), error);
    s.on_reset_stream(id, code(0), 10).unwrap();
    // Everything had arrived: the reset says nothing new.
    assert_eq!(s.read(id, &mut [0; 20]), Ok(Some(10)));
    assert_eq!(s.read(id, &mut [0; 20]), Ok(None));
    assert_eq!(s.read(id, &mut [0; 20]), Err(ReadError::ClosedStream));
    // Over: ignored, whatever it says.
    stream(&mut s, id, 100, true, b"x").unwrap();
    s.on_reset_stream(id, code(0), 1000).unwrap();
}

//= specs/rfc9000.txt#section-4.1
//= type=test
//# A receiver MUST close the connection with an error of type FLOW_CONTROL_ERROR if the sender
//# violates the advertised connection or stream data limits; see Section 11 for details on error
//# handling.
#[test]
fn limits_are_held_to() {
    let mut config = TransportConfig::default();
    config.stream_receive_window(1000).receive_window(1500);
    let (a, b) = (client_stream(Dir::Uni, 0), client_stream(Dir::Bi, 0));
    let error = TransportErrorCode::FLOW_CONTROL_ERROR;
    //= specs/rfc9000.txt#section-19.10
    //= type=test
    //# An endpoint MUST terminate a connection with an error of type FLOW_CONTROL_ERROR if it
    //# receives more data than the largest maximum stream data that it has sent for the affected
    //# stream.
    fails(stream(&mut server(&config), a, 1000, false, b"x"), error);
    fails(server(&config).on_reset_stream(a, code(0), 1001), error);
    let mut s = server(&config);
    stream(&mut s, a, 999, false, b"x").unwrap();
    //= specs/rfc9000.txt#section-19.9
    //= type=test
    //# An endpoint MUST terminate a connection with an error of type FLOW_CONTROL_ERROR if it
    //# receives more data than the maximum data value that it has sent.
    fails(stream(&mut s, b, 500, false, b"x"), error);
    fails(s.on_reset_stream(b, code(0), 501), error);
    // A reset gives all of its share back to the connection, not to the stream.
    s.on_reset_stream(a, code(0), 1000).unwrap();
    assert!(s.can_send_control());
    let p = control_packet(&mut s).unwrap();
    assert!(p.frames.contains(&SentFrame::MaxData));
    stream(&mut s, b, 999, false, b"x").unwrap();
    fails(
        stream(&mut s, b, (1 << 62) - 1, false, b"x"),
        TransportErrorCode::FRAME_ENCODING_ERROR,
    );
    fails(
        s.on_max_streams(Dir::Bi, (1 << 60) + 1),
        TransportErrorCode::FRAME_ENCODING_ERROR,
    );
    fails(
        s.on_streams_blocked(Dir::Uni, (1 << 60) + 1),
        TransportErrorCode::FRAME_ENCODING_ERROR,
    );
}

//= specs/rfc9000.txt#section-19.4
//= type=test
//# An endpoint that receives a RESET_STREAM frame for a send-only stream MUST terminate the
//# connection with error STREAM_STATE_ERROR.
//= specs/rfc9000.txt#section-19.13
//= type=test
//# An endpoint that receives a STREAM_DATA_BLOCKED frame for a send-only stream MUST terminate the
//# connection with error STREAM_STATE_ERROR.
#[test]
fn streams_that_cannot_be() {
    let error = TransportErrorCode::STREAM_STATE_ERROR;
    let mut s = server(&TransportConfig::default());
    let ours = s.open(Dir::Uni).unwrap();
    fails(stream(&mut s, ours, 0, false, b"x"), error);
    fails(s.on_reset_stream(ours, code(0), 0), error);
    fails(s.on_stream_data_blocked(ours), error);
    //= specs/rfc9000.txt#section-19.5
    //= type=test
    //# An endpoint that receives a STOP_SENDING frame for a receive-only stream MUST terminate the
    //# connection with error STREAM_STATE_ERROR.
    //= specs/rfc9000.txt#section-19.10
    //= type=test
    //# An endpoint that receives a MAX_STREAM_DATA frame for a receive-only stream MUST terminate
    //# the connection with error STREAM_STATE_ERROR.
    let theirs = client_stream(Dir::Uni, 0);
    fails(s.on_stop_sending(theirs, code(0)), error);
    fails(s.on_max_stream_data(theirs, 0), error);
    for dir in [Dir::Uni, Dir::Bi] {
        //= specs/rfc9000.txt#section-19.5
        //= type=test
        //# Receiving a STOP_SENDING frame for a locally initiated stream that has not yet been
        //# created MUST be treated as a connection error of type STREAM_STATE_ERROR.
        //= specs/rfc9000.txt#section-19.10
        //= type=test
        //# Receiving a MAX_STREAM_DATA frame for a locally initiated stream that has not yet been
        //# created MUST be treated as a connection error of type STREAM_STATE_ERROR.
        //= specs/rfc9000.txt#section-19.8
        //= type=test
        //# An endpoint MUST terminate the connection with error STREAM_STATE_ERROR if it receives a
        //# STREAM frame for a locally initiated stream that has not yet been created, or for a
        //# send-only stream.
        let unopened = StreamId::new(Side::Server, dir, 5);
        fails(s.on_stop_sending(unopened, code(0)), error);
        fails(s.on_max_stream_data(unopened, 1), error);
        fails(stream(&mut s, unopened, 0, false, b"x"), error);
    }
    //= specs/rfc9000.txt#section-4.6
    //= type=test
    //# An endpoint that receives a frame with a stream ID exceeding the limit it has sent MUST
    //# treat this as a connection error of type STREAM_LIMIT_ERROR; see Section 11 for details on
    //# error handling.
    //= specs/rfc9000.txt#section-19.11
    //= type=test
    //# An endpoint MUST terminate a connection with an error of type STREAM_LIMIT_ERROR if a peer
    //# opens more streams than was permitted.
    let error = TransportErrorCode::STREAM_LIMIT_ERROR;
    for dir in [Dir::Uni, Dir::Bi] {
        let beyond = client_stream(dir, 128);
        fails(stream(&mut s, beyond, 0, false, b"x"), error);
        fails(s.on_reset_stream(beyond, code(0), 0), error);
        fails(s.on_stream_data_blocked(beyond), error);
    }
    fails(
        s.on_stop_sending(client_stream(Dir::Bi, 128), code(0)),
        error,
    );
    fails(s.on_max_stream_data(client_stream(Dir::Bi, 128), 0), error);
    assert_eq!(events(&mut s), []);
}

//= specs/rfc9000.txt#section-3.2
//= type=test
//# Before a stream is created, all streams of the same type with lower- numbered stream IDs MUST be
//# created.
#[test]
fn a_stream_opens_those_before_it() {
    let mut s = server(&TransportConfig::default());
    s.on_max_stream_data(client_stream(Dir::Bi, 2), 1 << 20)
        .unwrap();
    assert_eq!(events(&mut s), [StreamEvent::Opened { dir: Dir::Bi }]);
    let ids: Vec<_> = std::iter::from_fn(|| s.accept(Dir::Bi)).collect();
    assert_eq!(ids, [0, 1, 2].map(|i| client_stream(Dir::Bi, i)));
    assert_eq!(s.write(ids[0], b"answer"), Ok(6));
    assert_eq!(s.read(ids[1], &mut [0; 9]), Err(ReadError::Blocked));
    stream(&mut s, ids[1], 0, false, b"x").unwrap();
    assert_eq!(events(&mut s), [StreamEvent::Readable { id: ids[1] }]);
}

//= specs/rfc9000.txt#section-4.5
//= type=test
//# The receiver MUST use the final size of the stream to account for all bytes sent on the stream
//# in its connection-level flow controller.
//= specs/rfc9000.txt#section-3.3
//= type=test
//# A sender MUST NOT send any of these frames from a terminal state ("Data Recvd" or "Reset
//# Recvd").
//= specs/rfc9000.txt#section-3.3
//= type=test
//# A sender MUST NOT send a STREAM or STREAM_DATA_BLOCKED frame for a stream in the "Reset Sent"
//# state or any terminal state -- that is, after sending a RESET_STREAM frame.
#[test]
fn reset_reaches_the_reader() {
    let (mut a, mut b) = pair(&TransportConfig::default());
    let id = a.open(Dir::Bi).unwrap();
    a.write(id, &[1; 5000]).unwrap();
    let p = data_packet(&mut a, 1200, Data::Next, 0).unwrap();
    a.reset(id, code(7)).unwrap();
    assert_eq!(a.reset(id, code(8)), Err(ClosedStream));
    assert_eq!(a.write(id, b"x"), Err(WriteError::ClosedStream));
    assert_eq!(a.finish(id), Err(FinishError::ClosedStream));
    assert!(!a.can_send_data() && a.buffered_send() == 0);
    let reset = control_packet(&mut a).unwrap();
    lost(&mut a, &reset.frames, 0);
    lost(&mut a, &p.frames, 0);
    assert!(!a.can_send_data());
    let reset = control_packet(&mut a).unwrap();
    deliver(&mut b, now(), &reset.payload).unwrap();
    deliver(&mut b, now(), &p.payload).unwrap();
    acked(&mut a, &reset.frames);
    assert_eq!(a.stopped(id), Err(ClosedStream));
    assert_eq!(b.accept(Dir::Bi), Some(id));
    assert_eq!(b.read(id, &mut [0; 9]), Err(ReadError::Reset(code(7))));
    assert_eq!(b.read(id, &mut [0; 9]), Err(ReadError::ClosedStream));
    assert_eq!(b.received, 1198);
    assert_eq!(b.window.consumed(), b.received);
    // Their half is over, ours is not.
    b.write(id, b"still here").unwrap();
}

//= specs/rfc9000.txt#section-3.5
//= type=test
//# An endpoint that receives a STOP_SENDING frame MUST send a RESET_STREAM frame if the stream is
//# in the "Ready" or "Send" state.
#[test]
fn stop_sending_is_answered_by_a_reset() {
    let (mut a, mut b) = pair(&TransportConfig::default());
    let id = a.open(Dir::Uni).unwrap();
    a.write(id, &[1; 5000]).unwrap();
    let p = data_packet(&mut a, 1200, Data::Next, 0).unwrap();
    deliver(&mut b, now(), &p.payload).unwrap();
    assert_eq!(b.accept(Dir::Uni), Some(id));
    b.stop(id, code(9)).unwrap();
    assert_eq!(b.stop(id, code(9)), Err(ClosedStream));
    assert_eq!(b.read(id, &mut [0; 9]), Err(ReadError::ClosedStream));
    let stop = control_packet(&mut b).unwrap();
    lost(&mut b, &stop.frames, 0);
    exchange(&mut a, &mut b, now());
    assert_eq!(
        events(&mut a),
        [StreamEvent::Stopped {
            id,
            error_code: code(9)
        }]
    );
    // The stream waits for the application to notice.
    assert_eq!(a.stopped(id), Ok(Some(code(9))));
    assert_eq!(a.write(id, b"x"), Err(WriteError::Stopped(code(9))));
    assert_eq!(a.write(id, b"x"), Err(WriteError::ClosedStream));
    assert_eq!((a.open_halves(), b.open_halves()), ((0, 0), (0, 0)));
    assert_eq!(b.window.consumed(), b.received);
    lost(&mut b, &stop.frames, 0);
    assert!(
        control_packet(&mut b).is_none_or(|p| p.frames[..] == [SentFrame::MaxStreams(Dir::Uni)])
    );
}

#[test]
fn stopping_a_stream_that_has_ended_asks_for_nothing() {
    let (mut a, mut b) = pair(&TransportConfig::default());
    let id = a.open(Dir::Uni).unwrap();
    a.write(id, b"all").unwrap();
    a.finish(id).unwrap();
    exchange(&mut a, &mut b, now());
    b.stop(id, code(0)).unwrap();
    assert!(b.recv_control.is_empty());
    assert_eq!(b.open_halves(), (0, 0));
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Chunk,
    Fin,
    Reset,
    StopSending,
    MaxData,
    AppFinish,
    AppReset,
    AppStop,
    AppRead,
    AppWrite,
    Control,
}

/// All orders of what can befall a bidirectional stream: no panic, and no state left behind.
#[test]
fn all_orders_of_ends() {
    use Step::*;
    let steps = [
        Chunk,
        Fin,
        Reset,
        StopSending,
        MaxData,
        AppFinish,
        AppReset,
        AppStop,
        AppRead,
        AppWrite,
        Control,
    ];
    let mut seed = 1u64;
    for _ in 0..20_000 {
        // Each step up to twice, in an order that a small generator picks.
        let mut s = server(&TransportConfig::default());
        let id = client_stream(Dir::Bi, 0);
        stream(&mut s, id, 0, false, b"a").unwrap();
        assert_eq!(s.accept(Dir::Bi), Some(id));
        let mut sent = Vec::new();
        for _ in 0..14 {
            seed = seed
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            apply(
                &mut s,
                id,
                steps[(seed >> 33) as usize % steps.len()],
                &mut sent,
            );
        }
        // Whatever happened, this ends it: the peer resets, we reset, all is acknowledged.
        apply(&mut s, id, StopSending, &mut sent);
        let _ = s.reset(id, code(3));
        let _ = s.stop(id, code(3));
        apply(&mut s, id, Control, &mut sent);
        for frames in sent.drain(..) {
            lost(&mut s, &frames, 0);
        }
        apply(&mut s, id, Reset, &mut sent);
        while let Some(p) =
            control_packet(&mut s).or_else(|| data_packet(&mut s, 500, Data::Next, 1))
        {
            acked(&mut s, &p.frames);
        }
        assert_eq!(s.open_halves(), (0, 0));
        assert_eq!(s.window.consumed(), s.received);
        assert_eq!(s.totals, super::super::counters::Tally::default());
    }
}

fn apply(s: &mut Streams, id: StreamId, step: Step, sent: &mut Vec<SentFrames>) {
    // The peer is well-behaved: its data ends at 3.
    match step {
        Step::Chunk => stream(s, id, 1, false, b"b").unwrap(),
        Step::Fin => stream(s, id, 2, true, b"c").unwrap(),
        Step::Reset => s.on_reset_stream(id, code(1), 3).unwrap(),
        Step::StopSending => s.on_stop_sending(id, code(2)).unwrap(),
        Step::MaxData => s.on_max_stream_data(id, 5 << 20).unwrap(),
        Step::AppFinish => drop(s.finish(id)),
        Step::AppReset => drop(s.reset(id, code(3))),
        Step::AppStop => drop(s.stop(id, code(4))),
        Step::AppRead => drop(s.read(id, &mut [0; 2])),
        Step::AppWrite => drop(s.write(id, b"hello")),
        Step::Control => {
            sent.extend(control_packet(s).map(|p| p.frames));
            sent.extend(data_packet(s, 500, Data::Next, 0).map(|p| p.frames));
            events(s);
        }
    }
}

#[test]
fn churn_leaves_nothing_behind() {
    let mut config = TransportConfig::default();
    config.max_concurrent_bidi_streams(4);
    let (mut a, mut b) = pair(&config);
    let now = now();
    // One stream stays open all the time.
    let first = a.open(Dir::Bi).unwrap();
    a.write(first, b"x").unwrap();
    for round in 0..5000 {
        let Some(id) = a.open(Dir::Bi) else {
            panic!("no credit in round {round}");
        };
        a.write(id, b"request").unwrap();
        if round % 3 == 0 {
            a.reset(id, code(0)).unwrap();
        } else {
            a.finish(id).unwrap();
        }
        exchange(&mut a, &mut b, now);
        while let Some(id) = b.accept(Dir::Bi) {
            while let Ok(Some(_)) = b.read(id, &mut [0; 100]) {}
            if id != first {
                b.finish(id).unwrap();
            }
        }
        exchange(&mut a, &mut b, now);
        while let Ok(Some(_)) = a.read(id, &mut [0; 100]) {}
        events(&mut a);
        events(&mut b);
        assert_eq!((a.open_halves(), b.open_halves()), ((1, 1), (1, 1)));
        assert!(b.send_control.len() + b.recv_control.len() + a.send_control.len() < 4);
    }
}

#[test]
fn scheduler_events_tell_the_story() {
    use mpquic_sched_core::{StreamHints, StreamUpdateKind as Fact};
    let (mut a, mut b) = pair(&TransportConfig::default());
    let silent = a.open(Dir::Uni).unwrap();
    a.write(silent, b"x").unwrap();
    assert!(a.poll_sched_event().is_none());
    a.enable_sched_events(true);
    let id = a.open(Dir::Uni).unwrap();
    let hints = StreamHints {
        chunk: Some(3),
        ..StreamHints::default()
    };
    a.set_hints(id, hints).unwrap();
    for _ in 0..10 {
        a.write(id, &[0; 100]).unwrap();
    }
    assert_eq!(a.head().map(|h| h.chunk), Some(None));
    a.finish(id).unwrap();
    exchange(&mut a, &mut b, now());
    let facts: Vec<_> = std::iter::from_fn(|| a.poll_sched_event())
        .inspect(|e| assert_eq!(e.id, id))
        .map(|e| e.kind)
        .collect();
    assert_eq!(
        facts,
        [
            Fact::Opened,
            Fact::Hint(hints),
            Fact::Written(1000),
            Fact::Finished,
            Fact::FullyAcked
        ]
    );
    for _ in 0..100_000 {
        a.set_hints(silent, hints).unwrap();
    }
    assert!(std::iter::from_fn(|| a.poll_sched_event()).count() <= 4096);
}
