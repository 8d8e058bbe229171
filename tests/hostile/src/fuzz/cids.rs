//! Connection IDs in both directions against a model: which of ours the victim may use, and what it may issue.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::input::Input;
use super::{Features, begin, check, feature, note, observe};
use crate::duel::Duel;
use crate::peer::Space;
use crate::wire::Frame;

/// What both sides have said.
#[derive(Debug, Default)]
struct Model {
    /// Ours that the victim may have, by path and sequence number.
    issued: BTreeSet<(u32, u32)>,
    /// Ours that the victim has retired.
    retired: BTreeSet<(u32, u32)>,
    /// The victim's, by connection ID.
    theirs: BTreeMap<Vec<u8>, (u32, u64)>,
    /// Stateless reset tokens of the victim.
    tokens: BTreeSet<[u8; 16]>,
}

/// One input.
///
/// # Panics
///
/// If the code under test does, or uses or issues a connection ID that it must not.
pub fn cids(data: &[u8]) -> Features {
    let mut input = Input(data);
    let mut features = Features::new();
    let Some(kind) = input.byte() else {
        return features;
    };
    let mut duel = begin(kind & 2);
    let mut model = Model::default();
    model.issued.insert((0, 0));
    if duel.against_server {
        for path in 1..=2 {
            model.issued.extend([(path, 0), (path, 1)]);
            duel.open_path(path);
        }
    }
    let mut steps = 0;
    while duel.alive()
        && steps < 200
        && step(&mut input, &mut duel, &mut model, &mut features).is_some()
    {
        steps += 1;
        check(&mut duel);
        observe(&mut features, &mut duel);
    }
    features.insert(feature(3, duel.error()));
    features
}

fn step(
    input: &mut Input<'_>,
    duel: &mut Duel,
    model: &mut Model,
    features: &mut Features,
) -> Option<()> {
    let op = input.byte()?;
    match op % 8 {
        0..=3 => {
            let path = u32::from(input.byte()? % 4);
            let (seq, back) = (input.byte()? % 32, input.byte()?);
            let seq = u32::from(seq) + 8 * u32::from(op >> 5);
            let prior = if back & 1 == 0 {
                0
            } else {
                u64::from(seq).saturating_sub(u64::from(back >> 1) % 8)
            };
            let mut frame = duel.peer.issue(path, seq);
            if let Frame::NewCid {
                retire_prior_to, ..
            } = &mut frame
            {
                *retire_prior_to = prior;
            }
            model.issued.insert((path, seq));
            duel.send_on(0, &[frame]);
        }
        4 => {
            let path = u32::from(input.byte()? % 4);
            let held = duel
                .peer
                .their_cids
                .get(&path)
                .map(|cids| cids.iter().map(|cid| cid.seq).collect::<Vec<_>>())?;
            if held.len() > 1 {
                let seq = held[usize::from(input.byte()?) % held.len()];
                // Not the one that the packet itself goes to.
                if path != 0 || duel.peer.dcid(0).is_some_and(|cid| cid.seq != seq) {
                    if let Some(cids) = duel.peer.their_cids.get_mut(&path) {
                        cids.retain(|cid| cid.seq != seq);
                    }
                    duel.send_on(
                        0,
                        &[Frame::RetireCid {
                            path: Some(path.into()),
                            seq,
                        }],
                    );
                }
            }
        }
        5 => duel
            .victim
            .advance(Duration::from_millis(4 * u64::from(input.byte()?))),
        6 => duel.victim.connection().ping(),
        _ => {
            let came = look(duel, model, features);
            if op & 0x40 == 0 {
                duel.answer(&came);
            }
        }
    }
    duel.victim.flush();
    look(duel, model, features);
    Some(())
}

/// Holds what the victim has sent against the model.
fn look(
    duel: &mut Duel,
    model: &mut Model,
    features: &mut Features,
) -> Vec<(mpquic_proto::FourTuple, crate::peer::Opened)> {
    let came = duel.collect();
    note(features, &came);
    for (_, opened) in &came {
        let Space::Data(path) = opened.space else {
            continue;
        };
        let part = |at: usize| {
            opened.dcid[at..at + 4]
                .iter()
                .fold(0, |id, byte| (id << 8) | u32::from(*byte))
        };
        let used = (part(4), part(8));
        assert_eq!(used.0, path);
        assert!(model.issued.contains(&used), "{used:?} was never issued");
        assert!(
            !model.retired.contains(&used),
            "{used:?} was retired, and is used again"
        );
        for frame in &opened.frames {
            match frame {
                Frame::RetireCid { path, seq } => {
                    let retired = (path.unwrap_or(0) as u32, *seq as u32);
                    // RFC 9000 section 19.16: not the one that the packet goes to. Repetitions are allowed.
                    assert!(retired != used, "{retired:?} in a packet to itself");
                    model.retired.insert(retired);
                }
                Frame::NewCid {
                    path,
                    seq,
                    cid,
                    token,
                    ..
                } => {
                    let id = (path.unwrap_or(0) as u32, *seq);
                    let before = model.theirs.insert(cid.clone(), id);
                    assert!(
                        before.is_none_or(|before| before == id),
                        "one ID for {before:?} and {id:?}"
                    );
                    if before.is_none() {
                        assert!(model.tokens.insert(*token), "a token twice");
                    }
                }
                _ => {}
            }
        }
    }
    came
}
