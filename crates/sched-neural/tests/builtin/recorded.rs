//! What is written down of those that ask a network.

use std::time::Instant;

use drive::drive;
use mpquic_sched::record::{self, Recorder, RecorderConfig};
use mpquic_sched_neural::{Dqn, Gaps, Sailfish, registry};
use serde_json::json;

#[path = "../../../sched/tests/record/drive.rs"]
mod drive;

/// Those that ask a network, by what their states and actions are.
#[test]
fn those_that_ask_a_network_are_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("test.traj");
    let mut bounds = RecorderConfig::default();
    (bounds.max_bytes, bounds.ring_bytes) = (16 << 20, 4 << 20);
    let recorder = Recorder::create(&file, &bounds).unwrap();
    let registry = registry().with_recorder(recorder.clone());
    let config = json!({"model": "random", "seed": 5});
    for name in ["dqn", "sailfish", "gaps"] {
        drive(&mut *registry.build(name, &config).unwrap(), Instant::now());
    }
    assert_eq!(recorder.flush().unwrap().dropped, 0);
    let recording = record::read(&file).unwrap();
    let trajectories = recording.trajectories();
    for (trajectory, (name, state, rows, actions)) in trajectories.iter().zip([
        ("dqn", Dqn::STATE, 1, 1),
        ("sailfish", Sailfish::STATE, 4, 1),
        ("gaps", Gaps::STATE, 8, Gaps::OUTPUTS),
    ]) {
        let schema = trajectory.schema;
        assert_eq!(
            (&*schema.scheduler, schema.state_len(), schema.rows),
            (name, state, rows)
        );
        assert_eq!(schema.action_len(), actions);
        assert_eq!(
            (&schema.config["model"], &schema.config["seed"]),
            (&json!("random"), &json!(5))
        );
        assert!(trajectory.ended.unwrap().sent_packets > 0);
    }
    // The other two decide about streams, of which there are none here.
    let gaps = &trajectories[2];
    assert!(gaps.pairs.len() > 10);
    for (number, pair) in (0..).zip(&gaps.pairs) {
        assert_eq!(pair.decided.number, number);
        assert!(pair.decided.action.iter().all(|change| change.abs() <= 1.0));
        // What a decision earned is known at the next one.
        assert!(pair.rewards.len() == 1 || pair == gaps.pairs.last().unwrap());
    }
}
