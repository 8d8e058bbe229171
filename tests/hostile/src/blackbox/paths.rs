//! Attacks by what only multipath has: each frame of RFC 10069, and one path against another. `docs/multipath-attacks.md` says which
//! sentence speaks of each.

use std::io;
use std::time::Duration;

use super::attacker::{Attacker, Wire};
use super::attacks::{Attack, multipath, request};
use crate::peer::{Sealing, Space, reset_token};
use crate::wire::{Frame, payload};

/// All of them; each wants a server that speaks multipath.
pub const PATH_ATTACKS: &[Attack] = &[
    (
        "path-acks",
        "PATH_ACK of numbers that another path sent, and of paths that never were",
        path_acks,
    ),
    (
        "path-cids",
        "connection IDs for paths beyond the limit, of another path, and again and again",
        path_cids,
    ),
    ("max-path-id", "MAX_PATH_ID that rises by one", max_path_id),
    (
        "path-status",
        "statuses that flip, old ones after the largest sequence number",
        path_status,
    ),
    ("abandon", "opens and abandons paths without end", abandon),
    (
        "blocked",
        "PATHS_BLOCKED and PATH_CIDS_BLOCKED without end",
        blocked,
    ),
    (
        "unproven",
        "paths that are used and never answer a challenge",
        unproven,
    ),
    (
        "no-cid",
        "packets on paths without a connection ID to answer to",
        no_cid,
    ),
    (
        "two-addresses",
        "one connection ID of a path from two addresses in turn",
        two_addresses,
    ),
    (
        "path-replay",
        "packets of one path again on others, and under their connection IDs",
        path_replay,
    ),
    (
        "key-updates",
        "key updates on one path while another has old packets",
        key_updates,
    ),
    (
        "late-path-acks",
        "acknowledges a path on another one, and late",
        late_path_acks,
    ),
    (
        "retire-cids",
        "retires connection IDs of all paths without end",
        retire_cids,
    ),
    (
        "path-reset",
        "stateless resets with the token of a second path, and almost",
        path_reset,
    ),
];

/// A connection with so many more paths, until the time is over.
fn with_paths(attacker: &mut Attacker, count: u32) -> io::Result<Option<Wire>> {
    while !attacker.is_over() {
        let Some(mut wire) = attacker.connected(multipath())? else {
            continue;
        };
        if !wire.peer.is_multipath() {
            return Err(io::Error::other(
                "the server does not announce initial_max_path_id",
            ));
        }
        let mut open = 0;
        for path in 1..=count {
            open += u32::from(attacker.open_path(&mut wire, path)?);
        }
        if open == count {
            return Ok(Some(wire));
        }
    }
    Ok(None)
}

/// Sends what `frames` makes for each number until the connection or the time is over, with all acknowledged after every 20
/// packets; connects again.
fn flood(
    attacker: &mut Attacker,
    paths: u32,
    mut frames: impl FnMut(&Wire, u64) -> Vec<(u32, Frame)>,
) -> io::Result<()> {
    while let Some(mut wire) = with_paths(attacker, paths)? {
        let mut number = 0;
        while !attacker.is_over() && wire.peer.close.is_none() {
            for (path, frame) in frames(&wire, number) {
                attacker.frames_on(&mut wire, path, &[frame]);
            }
            attacker.pump(&mut wire);
            number += 1;
            if number.is_multiple_of(20) {
                attacker.acknowledge(&mut wire);
            }
        }
    }
    Ok(())
}

fn path_acks(attacker: &mut Attacker) -> io::Result<()> {
    flood(attacker, 1, |_, number| {
        // The first ones may be true; then one that cannot be.
        let (path, largest) = match number {
            0..50 => (1, 0),
            50..100 => (2 + number % 6, 0),
            _ => (1, 1 << 20),
        };
        vec![(0, Frame::ack(Some(path), largest, largest))]
    })
}

fn path_cids(attacker: &mut Attacker) -> io::Result<()> {
    flood(attacker, 1, |wire, number| {
        let mut frame = wire.peer.issue(1, 2);
        if let Frame::NewCid {
            path,
            seq,
            retire_prior_to,
            cid,
            ..
        } = &mut frame
        {
            match number {
                // Below Retire Prior To, again and again.
                0 => (*seq, *retire_prior_to) = (6, 6),
                1..2000 => *seq = 3,
                // Of another path, or of one beyond any limit.
                _ if number % 2 == 0 => *cid = wire.peer.own_cid(0, 0),
                _ => *path = Some((1 << 32) - 1),
            }
        }
        vec![(0, frame)]
    })
}

fn max_path_id(attacker: &mut Attacker) -> io::Result<()> {
    flood(attacker, 0, |_, number| {
        vec![(0, Frame::MaxPathId(8 + number))]
    })
}

fn path_status(attacker: &mut Attacker) -> io::Result<()> {
    flood(attacker, 1, |_, number| {
        let seq = if number % 100_000 == 9999 {
            (1 << 62) - 1
        } else {
            number
        };
        let frame = Frame::PathStatus {
            path: 1,
            seq,
            backup: number % 2 == 0,
        };
        vec![((number % 2) as u32, frame)]
    })
}

fn abandon(attacker: &mut Attacker) -> io::Result<()> {
    while let Some(mut wire) = with_paths(attacker, 0)? {
        attacker.frames(&mut wire, &[Frame::MaxPathId((1 << 32) - 1)]);
        let mut path = 0;
        while !attacker.is_over() && wire.peer.close.is_none() {
            if u64::from(path) >= wire.peer.their_max_path_id.unwrap_or(0) {
                attacker.pause(Duration::from_millis(10), Some(&mut wire));
                attacker.acknowledge(&mut wire);
                continue;
            }
            path += 1;
            attacker.open_path(&mut wire, path)?;
            let frame = Frame::PathAbandon {
                path: path.into(),
                code: 0,
            };
            attacker.frames(&mut wire, &[frame]);
            wire.others.remove(&path);
            attacker.pump(&mut wire);
            attacker.acknowledge(&mut wire);
        }
    }
    Ok(())
}

fn blocked(attacker: &mut Attacker) -> io::Result<()> {
    flood(attacker, 1, |wire, number| {
        let max = wire.peer.their_max_path_id.unwrap_or(0);
        let ids = Frame::PathCidsBlocked {
            path: number % (max + 1),
            next: 0,
        };
        vec![(0, Frame::PathsBlocked(max)), (1, ids)]
    })
}

fn unproven(attacker: &mut Attacker) -> io::Result<()> {
    while let Some(mut wire) = with_paths(attacker, 0)? {
        // What the server would rather send on all paths.
        attacker.frames(&mut wire, &[request(0, 4 << 20)]);
        let paths = wire.peer.their_max_path_id.unwrap_or(0).min(7) as u32;
        for path in 1..=paths {
            let issue = [wire.peer.issue(path, 0), wire.peer.issue(path, 1)];
            attacker.frames(&mut wire, &issue);
        }
        while !attacker.is_over() && wire.peer.close.is_none() {
            for path in 1..=paths {
                attacker.frames_on(&mut wire, path, &[Frame::Ping, Frame::Padding(40)]);
            }
            attacker.pause(Duration::from_millis(20), Some(&mut wire));
            attacker.acknowledge(&mut wire);
        }
    }
    Ok(())
}

fn no_cid(attacker: &mut Attacker) -> io::Result<()> {
    flood(attacker, 0, |_, number| {
        vec![(1 + (number % 7) as u32, Frame::Ping)]
    })
}

fn two_addresses(attacker: &mut Attacker) -> io::Result<()> {
    while let Some(mut wire) = with_paths(attacker, 1)? {
        let mut spare = attacker.another_socket()?;
        while !attacker.is_over() && wire.peer.close.is_none() {
            if let Some(socket) = wire.others.get_mut(&1) {
                std::mem::swap(socket, &mut spare);
            }
            attacker.frames_on(&mut wire, 1, &[Frame::Ping]);
            attacker.pump(&mut wire);
            attacker.acknowledge(&mut wire);
        }
    }
    Ok(())
}

fn path_replay(attacker: &mut Attacker) -> io::Result<()> {
    while let Some(mut wire) = with_paths(attacker, 2)? {
        let Some(datagram) = wire.peer.seal(Space::Data(1), &[Frame::Ping]) else {
            continue;
        };
        let Some(other) = wire.peer.dcid(2).map(|cid| cid.cid.clone()) else {
            continue;
        };
        let mut renamed = datagram.clone();
        let end = (1 + other.len()).min(renamed.len());
        renamed[1..end].copy_from_slice(&other[..end - 1]);
        let mut path = 0;
        while !attacker.is_over() && wire.peer.close.is_none() {
            path = (path + 1) % 3;
            attacker.datagram_on(&wire, path, &datagram);
            attacker.datagram_on(&wire, path, &renamed);
            attacker.pump(&mut wire);
        }
    }
    Ok(())
}

fn key_updates(attacker: &mut Attacker) -> io::Result<()> {
    while let Some(mut wire) = with_paths(attacker, 1)? {
        while !attacker.is_over() && wire.peer.close.is_none() {
            let old = wire.peer.seal(Space::Data(1), &[Frame::Ping]);
            wire.peer.update_keys();
            attacker.frames(&mut wire, &[Frame::Ping]);
            for _ in 0..50 {
                if let Some(old) = &old {
                    attacker.datagram_on(&wire, 1, old);
                }
                let how = Sealing {
                    generation: -2,
                    ..Sealing::default()
                };
                let frames = payload(&[Frame::Ping]);
                if let Some(older) = wire.peer.seal_as(Space::Data(1), &frames, &how) {
                    attacker.datagram_on(&wire, 1, &older);
                }
            }
            attacker.pause(Duration::from_millis(300), Some(&mut wire));
            attacker.acknowledge(&mut wire);
        }
    }
    Ok(())
}

fn late_path_acks(attacker: &mut Attacker) -> io::Result<()> {
    while let Some(mut wire) = with_paths(attacker, 1)? {
        let mut stream = 0;
        while !attacker.is_over() && wire.peer.close.is_none() {
            attacker.frames(&mut wire, &[request(stream, 1 << 20)]);
            stream += 1;
            let mut late = Vec::new();
            for _ in 0..30 {
                attacker.pause(Duration::from_millis(10), Some(&mut wire));
                for frame in wire.peer.take_acks() {
                    match frame {
                        Frame::Ack { path: Some(1), .. } => late.push(frame),
                        frame => {
                            attacker.frames(&mut wire, &[frame]);
                        }
                    }
                }
            }
            // The last one has all that came before it.
            if let Some(ack) = late.pop() {
                attacker.frames(&mut wire, &[ack]);
            }
        }
    }
    Ok(())
}

fn retire_cids(attacker: &mut Attacker) -> io::Result<()> {
    while let Some(mut wire) = with_paths(attacker, 2)? {
        while !attacker.is_over() && wire.peer.close.is_none() {
            for path in 0..3u32 {
                let Some(ids) = wire.peer.their_cids.get_mut(&path) else {
                    continue;
                };
                if ids.len() > 1 {
                    let seq = ids.remove(0).seq;
                    let retire = Frame::RetireCid {
                        path: Some(path.into()),
                        seq,
                    };
                    attacker.frames_on(&mut wire, (path + 1) % 3, &[retire]);
                }
            }
            attacker.pause(Duration::from_millis(1), Some(&mut wire));
            attacker.acknowledge(&mut wire);
        }
    }
    Ok(())
}

fn path_reset(attacker: &mut Attacker) -> io::Result<()> {
    while let Some(mut wire) = with_paths(attacker, 1)? {
        let mut datagram = vec![0x47; 60];
        let mut token = reset_token(1, 0);
        token[15] ^= 1;
        for _ in 0..100 {
            datagram[44..].copy_from_slice(&token);
            attacker.datagram_on(&wire, 1, &datagram);
        }
        datagram[44..].copy_from_slice(&reset_token(1, 0));
        attacker.datagram_on(&wire, 1, &datagram);
        attacker.pump(&mut wire);
    }
    Ok(())
}
