//! Tests of the peer's connection IDs: rules, floods, and both ends against each other under loss.

use std::collections::BTreeMap;

use mpquic_sched_core::{ConnectionId, TransportErrorCode as Code};
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::{CidGenerator, LocalCids, OnNew, RemoteCids, ResetKey, ResetToken, Rotation};
use crate::frame_writer::FrameWriter;
use crate::sent_frame::{SentFrame, SentFrames};
use crate::{PathId, TransportError, limits};

const P0: PathId = PathId(0);
const P1: PathId = PathId(1);

fn cid(n: u64) -> ConnectionId {
    ConnectionId::new(&n.to_be_bytes())
}

fn token(n: u64) -> ResetToken {
    (u128::from(n) + 1).to_be_bytes()
}

/// Issues ID number `n` under sequence number `n`, apart for each path.
fn new(cids: &mut RemoteCids, path: PathId, n: u64, prior: u64) -> Result<OnNew, Code> {
    let unique = (u64::from(path.0) << 40) + n;
    code(cids.on_new(path, n, prior, cid(unique), token(unique)))
}

fn code<T>(result: Result<T, TransportError>) -> Result<T, Code> {
    result.map_err(|error| error.code)
}

fn sent(fill: impl FnOnce(&mut FrameWriter<'_>), limit: usize) -> SentFrames {
    let mut buf = Vec::new();
    let mut w = FrameWriter::new(&mut buf, limit);
    fill(&mut w);
    let frames = w.frames;
    assert!(buf.len() <= limit);
    frames
}

fn retired(cids: &mut RemoteCids) -> Vec<(u32, u64)> {
    sent(|w| cids.fill(w, true), 1200)
        .iter()
        .map(|frame| match *frame {
            SentFrame::RetireConnectionId { path, sequence } => (path.0, sequence),
            _ => panic!("{frame:?}"),
        })
        .collect()
}

//= specs/rfc9000.txt#section-19.15
//= type=test
//# Receipt of the same frame multiple times MUST NOT be treated as a connection error.
#[test]
fn repetitions_are_ignored_and_contradictions_are_not() {
    let mut cids = RemoteCids::new(cid(0));
    assert_eq!(new(&mut cids, P0, 1, 0), Ok(OnNew::Stored));
    assert_eq!(new(&mut cids, P0, 1, 0), Ok(OnNew::Ignored));
    let violation = Err(Code::PROTOCOL_VIOLATION);
    let mut on_new =
        |path, sequence, id, token| code(cids.on_new(path, sequence, 0, cid(id), token)).map(drop);
    // Another ID or token under the same number; the same ID or token under another, on any path.
    assert_eq!(on_new(P0, 1, 9, token(1)), violation);
    assert_eq!(on_new(P0, 1, 1, token(9)), violation);
    assert_eq!(on_new(P0, 2, 1, token(9)), violation);
    assert_eq!(on_new(P0, 2, 9, token(1)), violation);
    assert_eq!(on_new(P1, 1, 1, token(9)), violation);
    assert_eq!(on_new(P1, 0, 0, token(9)), violation);
    // The initial one, repeated; its token is not known to us.
    assert_eq!(on_new(P0, 0, 0, token(9)), Ok(()));
    assert_eq!(on_new(P0, 0, 5, token(9)), violation);
}

#[test]
fn malformed() {
    let mut cids = RemoteCids::new(cid(0));
    assert_eq!(new(&mut cids, P0, 1, 2), Err(Code::FRAME_ENCODING_ERROR));
    let empty = ConnectionId::new(&[]);
    assert_eq!(
        code(cids.on_new(P0, 1, 0, empty, token(1))),
        Err(Code::FRAME_ENCODING_ERROR)
    );
    let mut cids = RemoteCids::new(empty);
    assert_eq!(new(&mut cids, P0, 1, 0), Err(Code::PROTOCOL_VIOLATION));
    cids.replace_initial(cid(0));
    assert_eq!(new(&mut cids, P0, 1, 0), Ok(OnNew::Stored));
    let largest = (1 << 62) - 1;
    assert!(matches!(
        new(&mut cids, P0, largest, largest),
        Ok(OnNew::Rotated(_))
    ));
    assert_eq!(cids.next_expected(P0), 1 << 62);
}

//= specs/rfc9000.txt#section-5.1.1
//= type=test
//# After processing a NEW_CONNECTION_ID frame and adding and retiring active connection IDs, if the
//# number of active connection IDs exceeds the value advertised in its active_connection_id_limit
//# transport parameter, an endpoint MUST close the connection with an error of type
//# CONNECTION_ID_LIMIT_ERROR.
#[test]
fn limit_counts_per_path_and_after_retiring() {
    let mut cids = RemoteCids::new(cid(0));
    for n in 1..5 {
        assert_eq!(new(&mut cids, P0, n, 0), Ok(OnNew::Stored));
        assert_eq!(new(&mut cids, P1, n - 1, 0), Ok(OnNew::Stored));
    }
    assert_eq!(new(&mut cids, P1, 4, 0), Ok(OnNew::Stored));
    // One more, but it retires one: fine. And one too many.
    assert_eq!(new(&mut cids, P1, 5, 1), Ok(OnNew::Stored));
    assert_eq!(
        new(&mut cids, P1, 6, 1),
        Err(Code::CONNECTION_ID_LIMIT_ERROR)
    );
    assert_eq!(
        new(&mut cids, P0, 5, 0),
        Err(Code::CONNECTION_ID_LIMIT_ERROR)
    );
}

//= specs/rfc9000.txt#section-5.1.2
//= type=test
//# Upon receipt of an increased Retire Prior To field, the peer MUST stop using the corresponding
//# connection IDs and retire them with RETIRE_CONNECTION_ID frames before adding the newly provided
//# connection ID to the set of active connection IDs.
#[test]
fn retire_prior_to_rotates_and_late_ids_are_retired() {
    let mut cids = RemoteCids::new(cid(0));
    assert!(cids.set_reset_token(token(0)));
    assert_eq!(
        new(&mut cids, P0, 3, 3),
        Ok(OnNew::Rotated(Rotation {
            id: cid(3),
            token: Some(token(3)),
            retired_token: Some(token(0)),
        }))
    );
    assert!(!cids.set_reset_token(token(0)));
    assert_eq!(cids.tokens().collect::<Vec<_>>(), [&token(3)]);
    //= specs/rfc9000.txt#section-19.15
    //= type=test
    //# A receiver MUST ignore any Retire Prior To fields that do not increase the largest received
    //# Retire Prior To value.
    //= specs/rfc9000.txt#section-19.15
    //= type=test
    //# An endpoint that receives a NEW_CONNECTION_ID frame with a sequence number smaller than the
    //# Retire Prior To field of a previously received NEW_CONNECTION_ID frame MUST send a
    //# corresponding RETIRE_CONNECTION_ID frame that retires the newly received connection ID,
    //# unless it has already done so for that sequence number.
    // Lower Retire Prior To has no effect; IDs below it are retired once.
    assert_eq!(new(&mut cids, P0, 2, 1), Ok(OnNew::Ignored));
    assert_eq!(new(&mut cids, P0, 2, 1), Ok(OnNew::Ignored));
    assert_eq!(retired(&mut cids), [(0, 0), (0, 2)]);
    assert!(!cids.can_send());
    cids.on_lost(P0, 2);
    cids.on_lost(P0, 2);
    assert_eq!(retired(&mut cids), [(0, 2)]);
    cids.on_acked(P0, 2);
    cids.on_lost(P0, 2);
    cids.on_lost(P0, 0);
    cids.on_acked(P0, 0);
    assert!(!cids.can_send());
    assert_eq!(new(&mut cids, P0, 0, 0), Ok(OnNew::Ignored));
    assert!(!cids.can_send());
}

//= specs/rfc10069-draft.md#rotating-and-retiring-connection-ids
//= type=test
//# For the extension specified in this document, endpoints MUST only rotate to another connection
//# ID associated with the same path ID.
#[test]
fn rotation_runs_out_without_harm() {
    let mut cids = RemoteCids::new(cid(0));
    assert_eq!(cids.rotate(P0), None);
    assert_eq!(cids.active(P0), Some(cid(0)));
    new(&mut cids, P0, 1, 0).unwrap();
    assert_eq!(cids.rotate(P0).unwrap().id, cid(1));
    assert_eq!(cids.rotate(P0), None);
    assert_eq!(cids.rotate(P1), None);
    assert_eq!(cids.activate(P1), None);
    assert_eq!(retired(&mut cids), [(0, 0)]);
}

/// A repetition may bring a Retire Prior To that retires the ID in use while no other is left.
#[test]
fn blocked_until_the_next_id() {
    let mut cids = RemoteCids::new(cid(0));
    new(&mut cids, P0, 2, 0).unwrap();
    new(&mut cids, P0, 1, 0).unwrap();
    cids.rotate(P0).unwrap();
    cids.rotate(P0).unwrap();
    assert_eq!(cids.active(P0), Some(cid(2)));
    new(&mut cids, P0, 3, 0).unwrap();
    cids.rotate(P0).unwrap();
    // 3 is in use. Number 5 comes, is used, and comes again with Retire Prior To 5: still held.
    new(&mut cids, P0, 5, 0).unwrap();
    cids.rotate(P0).unwrap();
    assert_eq!(new(&mut cids, P0, 5, 5), Ok(OnNew::Ignored));
    new(&mut cids, P0, 4, 0).unwrap();
    new(&mut cids, P0, 6, 0).unwrap();
    cids.rotate(P0).unwrap();
    assert_eq!(cids.active(P0), Some(cid(6)));
    new(&mut cids, P0, 9, 0).unwrap();
    new(&mut cids, P0, 7, 0).unwrap();
    cids.rotate(P0).unwrap();
    cids.rotate(P0).unwrap();
    new(&mut cids, P0, 8, 0).unwrap();
    cids.rotate(P0).unwrap();
    // 8 is in use, 9 retired; 9 again, and it retires 8.
    assert_eq!(
        new(&mut cids, P0, 9, 9),
        Ok(OnNew::Blocked {
            retired_token: Some(token(8))
        })
    );
    assert_eq!(cids.active(P0), None);
    assert_eq!(cids.rotate(P0), None);
    let rotated = new(&mut cids, P0, 10, 0);
    assert!(
        matches!(rotated, Ok(OnNew::Rotated(r)) if r.id == cid(10) && r.retired_token.is_none())
    );
}

//= specs/rfc10069-draft.md#path-close
//= type=test
//# Endpoints that send a PATH_ABANDON frame MUST treat all connection IDs received from the peer
//# for the path ID indicated in the PATH_ABANDON as immediately retired, and subsequently cannot
//# send any packet on that path anymore.
#[test]
fn abandoning_forgets_everything_of_the_path() {
    let mut cids = RemoteCids::new(cid(0));
    for n in 0..3 {
        new(&mut cids, P1, n, 0).unwrap();
    }
    assert!(cids.has_unused(P1) && cids.active(P1).is_none());
    assert_eq!(cids.next_expected(P1), 3);
    let first = cids.activate(P1).unwrap();
    assert_eq!(first.retired_token, None);
    assert_eq!(cids.activate(P1), None);
    let second = cids.rotate(P1).unwrap();
    assert_eq!(second.retired_token, first.token);
    assert_eq!(cids.abandon(P1), second.token);
    assert_eq!(cids.abandon(P1), None);
    assert!(!cids.can_send() && !cids.has_unused(P1) && cids.active(P1).is_none());
    cids.on_lost(P1, 0);
    assert!(!cids.can_send());
    assert_eq!(cids.tokens().count(), 0);
}

/// CVE-2024-22189: Retire Prior To rises with each frame, and nothing is acknowledged.
//= specs/rfc9000.txt#section-5.1.2
//= type=test
//# An endpoint SHOULD limit the number of connection IDs it has retired locally for which
//# RETIRE_CONNECTION_ID frames have not yet been acknowledged.
#[test]
fn retire_flood_hits_the_cap() {
    for send in [false, true] {
        let mut cids = RemoteCids::new(cid(0));
        let mut n = 0;
        let error = loop {
            n += 1;
            if let Err(error) = new(&mut cids, P0, n, n) {
                break error;
            }
            if send {
                retired(&mut cids);
            }
            assert!(cids.state_size() < limits::MAX_PENDING_RETIRE + 20);
        };
        assert_eq!(error, Code::CONNECTION_ID_LIMIT_ERROR);
        assert_eq!(n as usize, limits::MAX_PENDING_RETIRE + 1);
    }
}

/// The cap is the connection's, not each path's.
#[test]
fn retire_flood_over_many_paths_hits_the_same_cap() {
    let mut cids = RemoteCids::new(cid(0));
    let mut frames = 0;
    'flood: for n in 0.. {
        for path in 1..9 {
            frames += 1;
            if let Err(error) = new(&mut cids, PathId(path), n, n) {
                assert_eq!(error, Code::CONNECTION_ID_LIMIT_ERROR);
                break 'flood;
            }
        }
    }
    assert_eq!(frames, limits::MAX_PENDING_RETIRE + 8 + 1);
}

/// An acknowledging peer may go on for ever; state stays flat.
#[test]
fn acknowledged_churn_is_flat() {
    let mut cids = RemoteCids::new(cid(0));
    for n in 1..100_000 {
        new(&mut cids, P0, n, n).unwrap();
        for (path, sequence) in retired(&mut cids) {
            cids.on_acked(PathId(path), sequence);
        }
        assert!(cids.state_size() <= 3);
    }
}

/// Every second number, far below Retire Prior To: no memory for the holes.
#[test]
fn sparse_numbers_hit_a_cap() {
    let mut cids = RemoteCids::new(cid(0));
    new(&mut cids, P0, 1 << 40, 1 << 40).unwrap();
    let mut n = 2;
    let error = loop {
        n += 2;
        if let Err(error) = new(&mut cids, P0, n, 0) {
            break error;
        }
        for (path, sequence) in retired(&mut cids) {
            cids.on_acked(PathId(path), sequence);
        }
        assert!(cids.state_size() <= 20);
    };
    assert_eq!(error, Code::CONNECTION_ID_LIMIT_ERROR);
}

proptest! {
    /// Whatever frames come: no panic, bounded state, an open path has an ID or said "blocked".
    #[test]
    fn any_frames(ops in prop::collection::vec(
        (0..4_u32, 0..20_u64, 0..20_u64, 0..24_u64, 0..6_u8), 0..400
    )) {
        let mut cids = RemoteCids::new(cid(0));
        let mut blocked = [false; 4];
        for (path, sequence, prior, id, op) in ops {
            let at = path as usize;
            let path = PathId(path);
            match op {
                0 => {
                    if cids.rotate(path).is_some() {
                        blocked[at] = false;
                    }
                }
                1 => {
                    cids.activate(path);
                }
                2 if path != P0 => {
                    cids.abandon(path);
                    blocked[at] = false;
                }
                3 => {
                    retired(&mut cids);
                }
                _ => match cids.on_new(path, sequence, prior.min(sequence), cid(id), token(id)) {
                    Ok(OnNew::Blocked { .. }) => blocked[at] = true,
                    Ok(OnNew::Rotated(_)) => blocked[at] = false,
                    Ok(_) | Err(_) => {}
                },
            }
            prop_assert!(cids.state_size() <= limits::MAX_PENDING_RETIRE + 4 * 30);
            let ids: Vec<_> = (0..4).filter_map(|p| cids.active(PathId(p))).collect();
            prop_assert!(ids.iter().enumerate().all(|(n, a)| !ids[..n].contains(a)));
        }
        prop_assert!(cids.active(P0).is_some() || blocked[0]);
    }
}

/// One end's issued IDs and the other's view of them, with packets that get lost and reordered.
struct Link {
    rng: StdRng,
    local: LocalCids,
    remote: RemoteCids,
    issued: BTreeMap<(PathId, u64), (ConnectionId, ResetToken)>,
    key: ResetKey,
    loss: f64,
    /// Packets under way: towards the remote view (true) or back.
    flying: Vec<(bool, SentFrames)>,
}

impl Link {
    const PATHS: u32 = 4;

    fn new(seed: u64, loss: f64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let initial = CidGenerator::new(8).generate(&mut rng);
        Self {
            rng,
            local: LocalCids::new(initial),
            remote: RemoteCids::new(initial),
            issued: BTreeMap::new(),
            key: ResetKey::new(&[3; 32]),
            loss,
            flying: Vec::new(),
        }
    }

    fn step(&mut self) {
        for path in (0..Self::PATHS).map(PathId) {
            for _ in 0..self.local.needed(path, limits::ACTIVE_CONNECTION_ID_LIMIT) {
                let id = CidGenerator::new(8).generate(&mut self.rng);
                let token = self.key.token(&id);
                let sequence = self.local.issue(path, id, token);
                self.issued.insert((path, sequence), (id, token));
            }
        }
        let room = self.rng.random_range(0..120);
        let frames = sent(|w| self.local.fill(w, true), room);
        self.flying.push((true, frames));
        let frames = sent(|w| self.remote.fill(w, true), room);
        self.flying.push((false, frames));
        while self.flying.len() > 6 {
            let at = self.rng.random_range(0..self.flying.len());
            let (forth, frames) = self.flying.swap_remove(at);
            let lost = self.rng.random_bool(self.loss);
            for frame in frames {
                self.deliver(forth, lost, frame);
            }
        }
    }

    fn deliver(&mut self, forth: bool, lost: bool, frame: SentFrame) {
        match frame {
            SentFrame::NewConnectionId { path, sequence } => {
                assert!(forth);
                if lost {
                    return self.local.on_lost(path, sequence);
                }
                let (id, token) = self.issued[&(path, sequence)];
                self.remote.on_new(path, sequence, 0, id, token).unwrap();
                // Now and then the acknowledgement is lost, and the frame comes twice.
                if self.rng.random_bool(self.loss) {
                    self.local.on_lost(path, sequence);
                } else {
                    self.local.on_acked(path, sequence);
                }
            }
            SentFrame::RetireConnectionId { path, sequence } => {
                assert!(!forth);
                if lost {
                    return self.remote.on_lost(path, sequence);
                }
                let dcid = self.remote.active(P0).unwrap();
                self.local.retire(path, sequence, &dcid).unwrap();
                if self.rng.random_bool(self.loss) {
                    self.remote.on_lost(path, sequence);
                } else {
                    self.remote.on_acked(path, sequence);
                }
            }
            other => panic!("{other:?}"),
        }
    }
}

/// 10^4 rotations over four paths, a tenth to a third of all packets lost: every ID in use is
/// known to its issuer for the same path, no bound is broken, and the supply never dries up.
#[test]
fn ten_thousand_rotations_under_loss() {
    for (seed, loss) in [(1, 0.0), (2, 0.1), (3, 0.33)] {
        let mut link = Link::new(seed, loss);
        let (mut rotations, mut steps) = (0, 0);
        while rotations < 10_000 {
            steps += 1;
            assert!(steps < 200_000, "starved");
            link.step();
            let path = PathId(link.rng.random_range(0..Link::PATHS));
            let rotation = match link.remote.active(path) {
                None => link.remote.activate(path),
                Some(_) => link.remote.rotate(path),
            };
            if let Some(rotation) = rotation {
                rotations += 1;
                assert_eq!(rotation.token, Some(link.key.token(&rotation.id)));
            }
            for path in (0..Link::PATHS).map(PathId) {
                if let Some(id) = link.remote.active(path) {
                    assert_eq!(link.local.path_of(&id), Some(path));
                }
            }
            assert!(link.remote.state_size() < 100);
            assert!(link.local.iter().count() <= 5 * Link::PATHS as usize);
        }
        // Without rotations and loss, both ends settle: five IDs per path, nothing to send.
        link.loss = 0.0;
        for _ in 0..200 {
            link.step();
        }
        assert!(!link.local.can_send() && !link.remote.can_send());
        assert_eq!(link.local.iter().count(), 5 * Link::PATHS as usize);
    }
}
