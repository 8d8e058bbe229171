//! Any frames, packets, addresses, times and application calls on a whole connection with several paths.

use std::time::Duration;

use bytes::Bytes;
use mpquic_proto::{
    DatagramOptions, Dir, FourTuple, PathErrorCode, PathId, PathStatus, StreamId, VarInt,
};

use super::input::Input;
use super::{Features, begin, check, feature, note, observe};
use crate::duel::Duel;
use crate::peer::{Sealing, Space};
use crate::victim::client_address;
use crate::wire::payload;

/// One input.
///
/// # Panics
///
/// If the code under test does, or breaks an invariant.
pub fn connection(data: &[u8]) -> Features {
    let mut input = Input(data);
    let mut features = Features::new();
    let Some(kind) = input.byte() else {
        return features;
    };
    let mut duel = begin(kind);
    if kind & 1 == 0 && kind & 2 == 0 {
        for path in 1..=u32::from(kind >> 2) % 3 {
            duel.open_path(path);
        }
    }
    let mut held: Vec<(FourTuple, Vec<u8>)> = Vec::new();
    let mut steps = 0;
    while duel.alive()
        && steps < 300
        && step(&mut input, &mut duel, &mut held, &mut features).is_some()
    {
        steps += 1;
        check(&mut duel);
        observe(&mut features, &mut duel);
    }
    let came = duel.collect();
    note(&mut features, &came);
    features.insert(feature(3, duel.error()));
    // Whatever came, the connection goes on or ends: it does not hang for ever.
    for _ in 0..100 {
        duel.victim.advance(Duration::from_secs(5));
        duel.victim.sent.clear();
        check(&mut duel);
        if duel.victim.connections.is_empty() {
            break;
        }
    }
    assert_eq!(
        duel.victim.endpoint.open_connections(),
        0,
        "a connection that never ends"
    );
    features
}

/// The path that a packet is sent on.
fn path(input: &mut Input<'_>) -> Option<u32> {
    Some(u32::from(input.byte()? % 10))
}

fn step(
    input: &mut Input<'_>,
    duel: &mut Duel,
    held: &mut Vec<(FourTuple, Vec<u8>)>,
    features: &mut Features,
) -> Option<()> {
    let op = input.byte()?;
    features.insert(feature(4, op % 16));
    match op % 16 {
        0..=4 => {
            let path = path(input)?;
            let mut frames = Vec::new();
            for _ in 0..=op >> 4 {
                frames.push(input.frame(&duel.peer)?);
            }
            duel.send_on(path, &frames);
        }
        5 => {
            let (path, len) = (path(input)?, input.byte()?);
            let payload = input.bytes(usize::from(len) * 4).to_vec();
            if let Some(datagram) =
                duel.peer
                    .seal_as(Space::Data(path), &payload, &Sealing::default())
            {
                let tuple = duel.tuple(path);
                duel.victim.deliver(tuple, None, &datagram);
            }
        }
        6 => duel
            .victim
            .advance(Duration::from_millis(input.byte()?.into())),
        7 => duel
            .victim
            .advance(Duration::from_millis(50 * u64::from(input.byte()?))),
        8 => {
            let came = duel.collect();
            note(features, &came);
            duel.answer(&came);
        }
        9 => {
            let came = duel.collect();
            note(features, &came);
        }
        10 => application(input, duel)?,
        11 => {
            // A packet that is held back, or one that was, from wherever.
            let path = path(input)?;
            if op & 0x80 == 0 {
                let frames = [input.frame(&duel.peer)?];
                if let Some(datagram) = duel.peer.seal(Space::Data(path), &frames) {
                    held.push((duel.tuple(path), datagram));
                }
            } else if !held.is_empty() {
                let (tuple, datagram) = held[usize::from(input.byte()?) % held.len()].clone();
                let tuple = if op & 0x40 == 0 {
                    tuple
                } else {
                    duel.tuple(path)
                };
                duel.victim.deliver(tuple, None, &datagram);
            }
        }
        12 => duel.peer.update_keys(),
        13 => {
            let path = path(input)?;
            let how = Sealing {
                number: (op & 0x10 != 0).then_some(input.number()?),
                first_bits: if op & 0x20 != 0 {
                    input.byte()? & 0x38
                } else {
                    0
                },
                generation: i32::from(op >> 6) - 1,
                ..Sealing::default()
            };
            let frames = payload(&[input.frame(&duel.peer)?]);
            if let Some(mut datagram) = duel.peer.seal_as(Space::Data(path), &frames, &how) {
                if op & 0xc0 == 0xc0 {
                    let at = usize::from(input.byte()?) % datagram.len();
                    datagram[at] ^= 1;
                }
                let tuple = duel.tuple(path);
                duel.victim.deliver(tuple, None, &datagram);
            }
        }
        14 => {
            let path = path(input)?;
            let issue = [duel.peer.issue(path, 0), duel.peer.issue(path, 1)];
            let on = duel.living_path();
            duel.send_on(on, &issue);
            duel.send_on(path, &[crate::wire::Frame::PathChallenge([op; 8])]);
        }
        _ => {
            let path = path(input)?;
            let elsewhere = client_address(30 + u32::from(input.byte()? % 8));
            let mut tuple = duel.tuple(path);
            if duel.against_server {
                tuple.remote = elsewhere;
            } else {
                tuple.local = elsewhere;
            }
            let frames = [input.frame(&duel.peer)?];
            duel.send_from(tuple, path, &frames);
        }
    }
    Some(())
}

fn application(input: &mut Input<'_>, duel: &mut Duel) -> Option<()> {
    let (op, argument) = (input.byte()?, input.byte()?);
    let now = duel.victim.now;
    let tuple = duel.tuple(u32::from(argument % 8));
    let connection = duel.victim.connection();
    let stream = StreamId::from(VarInt::from_u32(u32::from(argument % 24)));
    let path = PathId(u32::from(argument % 10));
    // Whatever the answer is, an application may ask.
    match op % 14 {
        0 => {
            _ = connection
                .streams()
                .open(if argument & 1 == 0 { Dir::Bi } else { Dir::Uni })
        }
        1 | 2 => {
            _ = connection
                .send_stream(stream)
                .write(&vec![argument; 40 * usize::from(argument)])
        }
        3 => _ = connection.send_stream(stream).finish(),
        4 => {
            _ = connection
                .send_stream(stream)
                .reset(VarInt::from_u32(argument.into()))
        }
        5 => {
            _ = connection
                .recv_stream(stream)
                .stop(VarInt::from_u32(argument.into()))
        }
        6 => {
            while connection
                .recv_stream(stream)
                .read_chunk(1 + usize::from(argument))
                .is_ok_and(|read| read.is_some())
            {}
        }
        7 => {
            while connection
                .streams()
                .accept(if argument & 1 == 0 { Dir::Bi } else { Dir::Uni })
                .is_some()
            {}
        }
        8 => _ = connection.open_path(now, tuple),
        9 => {
            _ = connection
                .path_mut(path)
                .close(now, PathErrorCode::NO_ERROR)
        }
        10 => {
            let status = if op & 0x80 == 0 {
                PathStatus::Backup
            } else {
                PathStatus::Available
            };
            let _ = connection.path_mut(path).set_status(status);
        }
        11 => connection.ping(),
        12 => {
            let data = Bytes::from(vec![1; argument.into()]);
            let options = match op & 0x80 {
                0 => DatagramOptions::new(),
                _ => DatagramOptions::new().all_paths().tag(argument.into()),
            };
            let _ = connection.datagrams().send_with(data, options, true);
            while connection.datagrams().recv().is_some() {}
            if argument & 1 == 0 {
                while connection.datagrams().fate().is_some() {}
                let extra = Duration::from_millis(argument.into());
                let _ = connection.path_mut(path).watch_silence(Some(extra));
            }
        }
        _ => connection.force_key_update(now),
    }
    duel.victim.flush();
    Some(())
}
