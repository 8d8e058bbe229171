//! The life of paths against a model: which path IDs are never opened, open, abandoned or beyond the limit says what
//! every frame does.

use std::collections::BTreeSet;
use std::time::Duration;

use super::input::Input;
use super::{Features, begin, check, feature, observe};
use crate::duel::Duel;
use crate::wire::Frame;

/// What the paths of a connection must be.
#[derive(Debug)]
struct Model {
    open: BTreeSet<u32>,
    abandoned: BTreeSet<u32>,
    /// The largest path ID that the victim has announced, as the peer knows it.
    limit: u64,
}

const PROTOCOL_VIOLATION: Option<u64> = Some(0x0a);

/// One input.
///
/// # Panics
///
/// If the code under test does, or differs from the model.
pub fn paths(data: &[u8]) -> Features {
    let mut input = Input(data);
    let mut features = Features::new();
    let mut duel = begin(0);
    let limit = duel.peer.their_max_path_id.unwrap_or(0);
    let mut model = Model {
        open: BTreeSet::from([0]),
        abandoned: BTreeSet::new(),
        limit,
    };
    let mut steps = 0;
    while steps < 100 && step(&mut input, &mut duel, &mut model, &mut features).is_some() {
        steps += 1;
        check(&mut duel);
        observe(&mut features, &mut duel);
        if !duel.alive() {
            break;
        }
        let open: BTreeSet<u32> = duel
            .victim
            .connection()
            .paths()
            .ids()
            .map(|path| path.0)
            .collect();
        assert_eq!(open, model.open, "{model:?}");
        features.insert(feature(1, (model.open.len(), model.abandoned.len().min(9))));
    }
    features
}

fn step(
    input: &mut Input<'_>,
    duel: &mut Duel,
    model: &mut Model,
    features: &mut Features,
) -> Option<()> {
    let (op, path) = (input.byte()?, input.path()?);
    let known = u32::try_from(path).ok().filter(|_| path <= model.limit);
    let on = *model
        .open
        .iter()
        .nth(usize::from(op >> 4) % model.open.len())?;
    let mut expected = known.map_or(PROTOCOL_VIOLATION, |_| None);
    let abandoned = known.is_some_and(|path| model.abandoned.contains(&path));
    let never =
        known.is_some_and(|path| !model.open.contains(&path) && !model.abandoned.contains(&path));
    features.insert(feature(2, (op % 12, known.is_some(), abandoned, never)));
    match op % 12 {
        0..=2 => {
            // Opens it, and validates it.
            // Nine is what the peer itself has announced.
            let Some(path) = known.filter(|path| never && *path <= 9 && model.open.len() < 6)
            else {
                return Some(());
            };
            duel.open_path(path);
            model.open.insert(path);
            expected = None;
        }
        3 | 4 => {
            duel.send_on(
                on,
                &[Frame::PathAbandon {
                    path,
                    code: op.into(),
                }],
            );
            if let Some(path) = known {
                model.open.remove(&path);
                model.abandoned.insert(path);
                if model.open.is_empty() {
                    expected = Some(0);
                }
            }
        }
        5 => {
            let status = Frame::PathStatus {
                path,
                seq: input.number()?,
                backup: op & 0x80 == 0,
            };
            duel.send_on(on, &[status]);
        }
        6 => {
            // Of packets that were never sent: on paths where something could have been.
            duel.send_on(on, &[Frame::ack(Some(path), 1 << 30, 1 << 30)]);
            if !abandoned {
                expected = PROTOCOL_VIOLATION;
            }
        }
        7 => {
            duel.send_on(
                on,
                &[Frame::RetireCid {
                    path: Some(path),
                    seq: 1 << 30,
                }],
            );
            if !abandoned {
                expected = PROTOCOL_VIOLATION;
            }
        }
        8 => {
            duel.send_on(on, &[Frame::PathsBlocked(path)]);
        }
        9 => {
            let next = if op & 0x80 == 0 { 0 } else { 1 << 20 };
            duel.send_on(on, &[Frame::PathCidsBlocked { path, next }]);
            if next > 0 && !abandoned {
                expected = PROTOCOL_VIOLATION;
            }
        }
        10 => {
            // The victim abandons it.
            let Some(path) = known.filter(|path| model.open.contains(path) && model.open.len() > 1)
            else {
                return Some(());
            };
            let now = duel.victim.now;
            let code = mpquic_proto::PathErrorCode::NO_ERROR;
            let id = mpquic_proto::PathId(path);
            assert!(
                duel.victim
                    .connection()
                    .path_mut(id)
                    .close(now, code)
                    .is_ok()
            );
            duel.victim.flush();
            model.open.remove(&path);
            model.abandoned.insert(path);
            expected = None;
        }
        _ => {
            // Time passes, in which the peer acknowledges and answers.
            for _ in 0..op >> 5 {
                duel.victim.advance(Duration::from_millis(300));
                duel.settle();
            }
            expected = None;
        }
    }
    assert_eq!(
        duel.error(),
        expected,
        "op {}, path {path}, {model:?}",
        op % 12
    );
    if expected.is_none() {
        duel.settle();
        model.limit = model.limit.max(duel.peer.their_max_path_id.unwrap_or(0));
        // What the victim abandons is abandoned by the peer as well, or it would wait for that.
        for path in model.abandoned.clone() {
            if op % 12 == 10 && u64::from(path) <= model.limit {
                duel.send(&[Frame::PathAbandon {
                    path: path.into(),
                    code: 0,
                }]);
            }
        }
    }
    Some(())
}
