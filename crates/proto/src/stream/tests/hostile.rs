//! Any frames in any order from a hostile peer, any calls by the application: errors, no panics.

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Op {
    Stream(u64, u64, usize, bool),
    Reset(u64, u64),
    StopSending(u64),
    MaxStreamData(u64, u64),
    MaxData(u64),
    MaxStreams(u64),
    Blocked(u64),
    Open(bool),
    Accept(bool),
    Write(u64, usize),
    Finish(u64),
    AppReset(u64),
    Stop(u64),
    Read(u64, usize),
    Send,
    Lose,
}

/// Small numbers mostly, and the edges.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => 0u64..3000,
        1 => 0u64..4 << 20,
        1 => (0u64..20).prop_map(|n| (1 << 62) - n),
        1 => (0u64..20).prop_map(|n| (1 << 60) + 10 - n),
    ]
}

fn id() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0u64..24, 1 => 0u64..600, 1 => (0u64..8).prop_map(|n| (1 << 62) - 1 - n)]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (id(), number(), 0usize..2000, any::<bool>())
            .prop_map(|(i, at, n, fin)| Op::Stream(i, at, n, fin && n % 4 == 0)),
        1 => (id(), number()).prop_map(|(i, n)| Op::Reset(i, n)),
        1 => id().prop_map(Op::StopSending),
        1 => (id(), number()).prop_map(|(i, n)| Op::MaxStreamData(i, n)),
        1 => number().prop_map(Op::MaxData),
        1 => number().prop_map(Op::MaxStreams),
        1 => id().prop_map(Op::Blocked),
        2 => any::<bool>().prop_map(Op::Open),
        2 => any::<bool>().prop_map(Op::Accept),
        3 => (id(), 0usize..5000).prop_map(|(i, n)| Op::Write(i, n)),
        1 => id().prop_map(Op::Finish),
        1 => id().prop_map(Op::AppReset),
        1 => id().prop_map(Op::Stop),
        3 => (id(), 0usize..5000).prop_map(|(i, n)| Op::Read(i, n)),
        3 => Just(Op::Send),
        1 => Just(Op::Lose),
    ]
}

fn dir(bi: bool) -> Dir {
    if bi { Dir::Bi } else { Dir::Uni }
}

fn sid(id: u64) -> StreamId {
    VarInt::from_u64(id).unwrap().into()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn errors_but_no_panics(ops in prop::collection::vec(op(), 1..200)) {
        let now = Instant::now();
        let (mut s, _) = pair(&TransportConfig::default());
        let mut sent = Vec::new();
        for op in ops {
            // A real connection would close; going on is harder.
            let _ = match op {
                Op::Stream(i, at, n, fin) => s.on_stream(now, RTT, sid(i), at, fin, &vec![1; n]),
                Op::Reset(i, n) => s.on_reset_stream(sid(i), code(1), n),
                Op::StopSending(i) => s.on_stop_sending(sid(i), code(1)),
                Op::MaxStreamData(i, n) => s.on_max_stream_data(sid(i), n),
                Op::MaxStreams(n) => s.on_max_streams(dir(n % 2 == 0), n),
                Op::Blocked(i) => s
                    .on_stream_data_blocked(sid(i))
                    .and_then(|()| s.on_streams_blocked(Dir::Bi, i)),
                other => {
                    app(&mut s, other, &mut sent);
                    Ok(())
                }
            };
            prop_assert!(s.received <= s.window.limit());
            prop_assert!(s.data_sent <= s.max_data);
            prop_assert!(s.window.consumed() <= s.received);
        }
    }
}

fn app(s: &mut Streams, op: Op, sent: &mut Vec<Packet>) {
    match op {
        Op::MaxData(n) => s.on_max_data(n),
        Op::Open(bi) => drop(s.open(dir(bi))),
        Op::Accept(bi) => drop(s.accept(dir(bi))),
        Op::Write(i, n) => drop(s.write(sid(i), &vec![2; n])),
        Op::Finish(i) => drop(s.finish(sid(i))),
        Op::AppReset(i) => drop(s.reset(sid(i), code(2))),
        Op::Stop(i) => drop(s.stop(sid(i), code(2))),
        Op::Read(i, n) => drop(s.read_chunk(sid(i), n)),
        Op::Send => {
            sent.extend(control_packet(s));
            sent.extend(data_packet(s, 1200, Data::Next, 0));
            if sent.len() > 5 {
                acked(s, &sent.remove(0).frames);
            }
            while s.poll_event().is_some() {}
        }
        _ => {
            if let Some(packet) = sent.pop() {
                lost(s, &packet.frames, 0);
            }
        }
    }
}
