//! Matrices: every frame in every packet type to both roles (RFC 9000 table 3), and every frame that names a path
//! against every state of that path, with and without multipath (RFC 10069, New Frames). All cells were written down
//! from the texts.

use mpquic_hostile::duel::Duel;
use mpquic_hostile::params::{Params, id};
use mpquic_hostile::peer::{Sealing, Space};
use mpquic_hostile::wire::{Frame, put_varint};

use super::*;

fn ack(path: Option<u64>, number: u64) -> Frame {
    Frame::ack(path, number, number)
}

const fn status(path: u64, seq: u64, backup: bool) -> Frame {
    Frame::PathStatus { path, seq, backup }
}

fn stream(id: u64) -> Frame {
    Frame::Stream {
        id,
        offset: 0,
        fin: false,
        data: vec![1, 2, 3],
    }
}

/// A frame of every type that is valid in a 1-RTT packet, with the packets that may carry it (RFC 9000 table 3; RFC
/// 9221 section 5; RFC 10069, New Frames) and whether only servers may send it.
fn frames(duel: &Duel) -> Vec<(Frame, &'static str, bool)> {
    let to_server = duel.against_server;
    // The sender's own streams: bidirectional and unidirectional; and those that the receiver never opened.
    let (bidi, uni) = if to_server { (0, 2) } else { (1, 3) };
    let token = [9; 16];
    let cid = duel.peer.own_cid(0, 5);
    vec![
        (Frame::Padding(3), "IH1", false),
        (Frame::Ping, "IH1", false),
        (
            Frame::ResetStream {
                id: uni,
                code: 1,
                size: 0,
            },
            "1",
            false,
        ),
        (Frame::StopSending { id: bidi, code: 1 }, "1", false),
        (Frame::NewToken(vec![1, 2, 3]), "1", true),
        (stream(bidi), "1", false),
        (Frame::MaxData(1 << 30), "1", false),
        (
            Frame::MaxStreamData {
                id: bidi,
                max: 1 << 30,
            },
            "1",
            false,
        ),
        (Frame::MaxStreams { uni: false, max: 9 }, "1", false),
        (Frame::MaxStreams { uni: true, max: 9 }, "1", false),
        (Frame::DataBlocked(5), "1", false),
        (Frame::StreamDataBlocked { id: bidi, max: 5 }, "1", false),
        (Frame::StreamsBlocked { uni: false, max: 5 }, "1", false),
        (Frame::StreamsBlocked { uni: true, max: 5 }, "1", false),
        (
            Frame::NewCid {
                path: None,
                seq: 1,
                retire_prior_to: 0,
                cid: cid.clone(),
                token,
            },
            "1",
            false,
        ),
        (Frame::PathChallenge([1; 8]), "1", false),
        (Frame::PathResponse([1; 8]), "1", false),
        (Frame::HandshakeDone, "1", true),
        (Frame::Datagram(vec![1, 2]), "1", false),
        (Frame::PathAbandon { path: 3, code: 0 }, "m", false),
        (status(0, 3, true), "m", false),
        (status(0, 4, false), "m", false),
        (
            Frame::NewCid {
                path: Some(1),
                seq: 0,
                retire_prior_to: 0,
                cid,
                token,
            },
            "m",
            false,
        ),
        (Frame::MaxPathId(9), "m", false),
        (Frame::PathsBlocked(0), "m", false),
        (Frame::PathCidsBlocked { path: 0, next: 0 }, "m", false),
        // Unknown types: the frame is not one.
        (Frame::Raw(vec![0x20]), "x", false),
        (Frame::Raw(vec![0x3d]), "x", false),
        (Frame::Raw(vec![0x7e, 0x7d]), "x", false),
    ]
}

/// The states in which a packet type can be sent and opened.
fn ready(space: Space, to_server: bool, multipath: bool) -> Duel {
    let params = Params::generous(multipath.then_some(7));
    let mut duel = if to_server {
        Duel::with_server(quiet(), params)
    } else {
        Duel::with_client(quiet(), params)
    };
    match space {
        Space::Data(_) => duel.connect(),
        _ if to_server => {
            for datagram in duel.peer.flight() {
                duel.deliver(&datagram);
            }
            duel.collect();
        }
        // The client has sent its hello; the server's answers are held back, but its keys are there.
        Space::Initial => drop(duel.collect()),
        Space::Handshake => {
            duel.collect();
            let initials = duel
                .peer
                .flight()
                .into_iter()
                .filter(|datagram| datagram[0] & 0x30 == 0);
            for datagram in initials.collect::<Vec<_>>() {
                duel.deliver(&datagram);
            }
        }
    }
    duel
}

#[test]
fn frames_in_packets_to_roles() {
    let mut cells = 0;
    for multipath in [true, false] {
        for to_server in [true, false] {
            for (space, letter) in [
                (Space::Initial, 'I'),
                (Space::Handshake, 'H'),
                (Space::Data(0), '1'),
            ] {
                let count = frames(&ready(space, to_server, multipath)).len();
                for at in 0..count {
                    let mut duel = ready(space, to_server, multipath);
                    let (frame, packets, by_server) = frames(&duel).swap_remove(at);
                    let label = format!(
                        "{frame:?} in {space:?} to server {to_server}, multipath {multipath}"
                    );
                    let padding = Frame::Padding(if space == Space::Initial { 1150 } else { 0 });
                    assert!(
                        duel.send_as(space, &[frame, padding], &Sealing::default()),
                        "{label}"
                    );
                    let error = duel.error();
                    let fits = packets.contains(letter) || (packets == "m" && letter == '1');
                    let expected = if packets == "x" {
                        vec![FRAME_ENCODING_ERROR]
                    } else if !fits || (by_server && to_server) || (packets == "m" && !multipath) {
                        // To who does not speak multipath, a frame of it may be unknown (RFC 9000 section 12.4).
                        vec![PROTOCOL_VIOLATION, FRAME_ENCODING_ERROR]
                    } else {
                        vec![None]
                    };
                    // What an Initial packet says may be dropped instead (RFC 9000 section 11.1).
                    let dropped = space == Space::Initial && error.is_none();
                    assert!(expected.contains(&error) || dropped, "{label}: {error:?}");
                    cells += 1;
                }
            }
        }
    }
    figure(
        "frame in wrong role or space",
        "cells left out, of 348",
        348 - cells,
        0,
    );
}

/// What has become of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    NeverOpened,
    Open,
    Abandoned,
    Discarded,
    Beyond,
}

const STATES: [State; 5] = [
    State::NeverOpened,
    State::Open,
    State::Abandoned,
    State::Discarded,
    State::Beyond,
];

/// The path that has this state in [`in_states`].
const fn path_in(state: State) -> u32 {
    match state {
        State::NeverOpened => 5,
        State::Open => 1,
        State::Abandoned => 3,
        State::Discarded => 2,
        State::Beyond => 1000,
    }
}

/// A connection with a path in every state.
fn in_states(to_server: bool) -> Duel {
    let params = Params::generous(Some(20));
    let mut duel = if to_server {
        Duel::established(quiet(), params)
    } else {
        Duel::established_client(quiet(), params)
    };
    for path in 1..=3 {
        if to_server {
            duel.open_path(path);
        } else {
            open_from_client(&mut duel, path);
        }
    }
    duel.send(&[Frame::PathAbandon { path: 2, code: 0 }]);
    duel.settle();
    duel.victim.advance(5 * SECOND);
    duel.settle();
    // The other: abandoned just now, and only by the victim's side acknowledged.
    duel.send(&[Frame::PathAbandon { path: 3, code: 0 }]);
    let came = duel.collect();
    duel.answer(&came);
    assert!(duel.alive(), "{:?}", duel.reason());
    duel
}

/// Has the victim, a client, open a path.
fn open_from_client(duel: &mut Duel, path: u32) {
    let issue = [duel.peer.issue(path, 0), duel.peer.issue(path, 1)];
    duel.send(&issue);
    let (now, tuple) = (duel.victim.now, duel.tuple(path));
    let opened = duel.victim.connection().open_path(now, tuple);
    assert_eq!(opened.map(|id| id.0), Ok(path));
    duel.victim.flush();
    duel.settle();
}

/// What must become of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cell {
    /// It goes on.
    Fine,
    /// It is closed with PROTOCOL_VIOLATION.
    Violation,
}
use Cell::{Fine, Violation};

/// A frame that names a path, and what becomes of it for each of [`STATES`].
type Row = (&'static str, fn(&Duel, u64) -> Frame, [Cell; 5]);

/// RFC 10069, New Frames: above the limit, PROTOCOL_VIOLATION; what cannot be processed any more is ignored. The other
/// cells are in the frames' sections.
const ROWS: &[Row] = &[
    // RFC 9000 section 13.1: an ACK of what was never sent; nothing was sent on a path that was never opened.
    (
        "PATH_ACK of 0",
        |_, path| ack(Some(path), 0),
        [Violation, Fine, Fine, Fine, Violation],
    ),
    (
        "PATH_ACK of 2^20",
        |_, path| ack(Some(path), 1 << 20),
        [Violation, Violation, Fine, Fine, Violation],
    ),
    (
        "PATH_ABANDON",
        |_, path| Frame::PathAbandon { path, code: 0 },
        [Fine, Fine, Fine, Fine, Violation],
    ),
    (
        "PATH_STATUS_BACKUP",
        |_, path| status(path, 9, true),
        [Fine, Fine, Fine, Fine, Violation],
    ),
    (
        "PATH_STATUS_AVAILABLE",
        |_, path| status(path, 9, false),
        [Fine, Fine, Fine, Fine, Violation],
    ),
    (
        "PATH_NEW_CONNECTION_ID",
        |duel, path| Frame::NewCid {
            path: Some(path),
            seq: 2,
            retire_prior_to: 0,
            cid: duel.peer.own_cid(path as u32, 2),
            token: [path as u8; 16],
        },
        [Fine, Fine, Fine, Fine, Violation],
    ),
    (
        "PATH_RETIRE_CONNECTION_ID",
        |_, path| Frame::RetireCid {
            path: Some(path),
            seq: 0,
        },
        [Fine, Fine, Fine, Fine, Violation],
    ),
    // "Receipt of a RETIRE_CONNECTION_ID frame containing a sequence number greater than any previously sent".
    (
        "PATH_RETIRE_CONNECTION_ID of 999",
        |_, path| Frame::RetireCid {
            path: Some(path),
            seq: 999,
        },
        [Violation, Violation, Fine, Fine, Violation],
    ),
    (
        "MAX_PATH_ID",
        |_, path| Frame::MaxPathId(path.max(20)),
        [Fine, Fine, Fine, Fine, Fine],
    ),
    (
        "PATHS_BLOCKED",
        |_, path| Frame::PathsBlocked(path),
        [Fine, Fine, Fine, Fine, Violation],
    ),
    (
        "PATH_CIDS_BLOCKED",
        |_, path| Frame::PathCidsBlocked { path, next: 0 },
        [Fine, Fine, Fine, Fine, Violation],
    ),
    (
        "PATH_CIDS_BLOCKED at 999",
        |_, path| Frame::PathCidsBlocked { path, next: 999 },
        [Violation, Violation, Fine, Fine, Violation],
    ),
];

#[test]
fn frames_against_states_of_paths() {
    let mut cells = 0;
    for to_server in [true, false] {
        for (name, make, expected) in ROWS {
            for (state, expected) in STATES.into_iter().zip(expected) {
                let mut duel = in_states(to_server);
                let path = path_in(state);
                let frame = make(&duel, path.into());
                duel.send(&[frame]);
                let expected = match expected {
                    Fine => None,
                    Violation => PROTOCOL_VIOLATION,
                };
                assert_eq!(
                    duel.error(),
                    expected,
                    "{name}, path {state:?}, to server {to_server}"
                );
                // It goes on: nothing hangs, nothing panics.
                duel.settle();
                duel.victim.advance(10 * SECOND);
                assert_eq!(duel.victim.over_caps(), Vec::<String>::new());
                cells += 1;
            }
        }
    }
    let all = 2 * 5 * ROWS.len() as u64;
    figure("frame x state of path", "cells left out", all - cells, 0);
    // Without multipath, each of them is refused whatever the path.
    let mut refused = 0;
    for (name, make, _) in ROWS {
        for path in [0, 1, 1000] {
            let mut duel = single_path();
            let frame = make(&duel, path);
            duel.send(&[frame]);
            let error = duel.error();
            assert!(
                [PROTOCOL_VIOLATION, FRAME_ENCODING_ERROR].contains(&error),
                "{name}, path {path}: {error:?}"
            );
            refused += 1;
        }
    }
    figure(
        "frame x state of path",
        "frames taken without multipath",
        3 * ROWS.len() as u64 - refused,
        0,
    );
}

/// Frames that name no path, in packets on paths in every state: what a packet carries counts where packets count.
#[test]
fn packets_on_paths_in_every_state() {
    let frames: &[Frame] = &[
        Frame::Ping,
        Frame::PathChallenge([3; 8]),
        Frame::PathResponse([3; 8]),
        stream(0),
        Frame::MaxData(1 << 31),
        Frame::Datagram(vec![1; 10]),
        Frame::ack(None, 0, 0),
        Frame::Crypto {
            offset: 0,
            data: vec![1, 2],
        },
        Frame::NewCid {
            path: None,
            seq: 0,
            retire_prior_to: 0,
            cid: vec![1; 12],
            token: [1; 16],
        },
        Frame::RetireCid { path: None, seq: 0 },
    ];
    let mut cells = 0;
    for frame in frames {
        for state in STATES.into_iter().filter(|state| *state != State::Beyond) {
            // Packets with the connection ID and the nonce of a path in that state.
            let mut duel = in_states(true);
            let path = path_in(state);
            if state == State::NeverOpened {
                let issue = [duel.peer.issue(path, 0), duel.peer.issue(path, 1)];
                duel.send(&issue);
            }
            let before = duel.victim.sent_in_all().bytes;
            for _ in 0..20 {
                duel.send_on(path, std::slice::from_ref(frame));
            }
            duel.settle();
            duel.victim.advance(5 * SECOND);
            assert_eq!(duel.victim.over_caps(), Vec::<String>::new());
            let discarded = state == State::Discarded;
            if discarded {
                assert!(duel.alive(), "{frame:?} on a discarded path");
                // At most stateless resets, shorter than what they answer.
                assert!(duel.victim.sent_in_all().bytes - before < 20 * 60 + 2000);
            }
            cells += 1;
        }
    }
    figure(
        "packet x state of path",
        "cells left out",
        4 * frames.len() as u64 - cells,
        0,
    );
}

/// Every frame cut off at every byte: FRAME_ENCODING_ERROR, or another reading of the bytes that is allowed; never a
/// panic.
#[test]
fn frames_cut_off() {
    let template = multipath();
    let mut encodings: Vec<Vec<u8>> = Vec::new();
    for (frame, _, _) in frames(&template) {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        encodings.push(bytes);
    }
    for (_, make, _) in ROWS {
        let mut bytes = Vec::new();
        make(&template, 1).encode(&mut bytes);
        encodings.push(bytes);
    }
    let mut cuts = 0;
    for bytes in encodings {
        for len in 1..bytes.len() {
            let mut duel = multipath();
            duel.send(&[Frame::Raw(bytes[..len].to_vec())]);
            let error = duel.error();
            let known = [
                None,
                FRAME_ENCODING_ERROR,
                PROTOCOL_VIOLATION,
                STREAM_LIMIT_ERROR,
            ];
            assert!(known.contains(&error), "{bytes:?} cut at {len}: {error:?}");
            cuts += 1;
        }
    }
    assert!(cuts > 150);
    // Values at the edges of what can be encoded, in every field of every type.
    let mut strange = 0;
    for ty in (0u64..0x40).chain(0x3e75..=0x3e7c) {
        for value in [
            0,
            63,
            64,
            (1 << 32) - 1,
            1 << 32,
            (1 << 60) - 1,
            1 << 60,
            (1 << 62) - 1,
        ] {
            let mut duel = multipath();
            let mut bytes = Vec::new();
            put_varint(&mut bytes, ty);
            for _ in 0..6 {
                put_varint(&mut bytes, value);
            }
            duel.send(&[Frame::Raw(bytes)]);
            duel.victim.advance(SECOND);
            strange += 1;
        }
    }
    assert!(strange > 500);
    figure(
        "truncation",
        "panics in frames cut off and of edge values",
        0,
        0,
    );
}

/// The parameters that only one role may send, and those of the other role's (RFC 9000 section 18.2).
#[test]
fn parameters_of_the_wrong_role() {
    for which in [
        id::ORIGINAL_DCID,
        id::RESET_TOKEN,
        id::PREFERRED_ADDRESS,
        id::RETRY_SCID,
    ] {
        let mut params = Params::generous(Some(7));
        params.set_bytes(which, &[1; 16]);
        let mut duel = Duel::with_server(quiet(), params);
        for datagram in duel.peer.flight() {
            duel.deliver(&datagram);
        }
        let error = mpquic_hostile::duel::own_error(duel.victim.accept_errors.first());
        assert_eq!(error, TRANSPORT_PARAMETER_ERROR, "{which:#x}");
    }
}
