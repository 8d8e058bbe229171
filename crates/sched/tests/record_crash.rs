//! A process that records is killed in the middle of it, and what it said was written is there.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mpquic_sched::record::{self, Recorder, RecorderConfig, Schema};

/// What tells the child that it is the child.
const CHILD: &str = "record-until-killed";

fn main() {
    let arguments: Vec<_> = std::env::args().collect();
    if let [_, role, file] = &arguments[..]
        && role == CHILD
    {
        record_for_ever(Path::new(file));
    }
    // At the beginning, within the first segment, and after some.
    for reports in [1, 2, 40, 200] {
        kill_after(reports);
    }
    println!("what was written before a crash is read back: ok");
}

/// Records decisions of growing numbers, and says from time to time how many are written.
fn record_for_ever(file: &Path) -> ! {
    let mut config = RecorderConfig::default();
    config.max_bytes = record::MIN_BYTES;
    let recorder = Recorder::create(file, &config).expect("a recorder");
    let schema = Schema::new("crash", serde_json::json!({}))
        .with_state(1, &[("number", ""), ("twice", "")])
        .with_action(&["half"]);
    let source = recorder.source(&schema).expect("a schema that fits");
    let mut kept = None;
    let _connection = source.record(|ring| kept = Some(ring));
    let mut ring = kept.expect("a ring");
    #[allow(clippy::disallowed_methods, reason = "a point to start from")]
    let start = Instant::now();
    for number in 0_u64.. {
        let now = start + Duration::from_micros(number);
        let value = number as f32;
        ring.decided(number, now, &[value, 2.0 * value], &[value / 2.0], false);
        ring.rewarded(number, now, -(number as f64), false);
        if number % 50 == 49 {
            recorder.flush().expect("written");
            println!("{}", number + 1);
        }
    }
    unreachable!("killed before that")
}

fn kill_after(reports: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("crash.traj");
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .arg(CHILD)
        .arg(&file)
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child");
    let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let told = lines.take(reports).last().expect("a report").expect("text");
    child.kill().expect("killed");
    let status = child.wait().expect("its end");
    assert!(!status.success());

    let told: u64 = told.parse().expect("a number");
    let recording = record::read(&file).expect("a recording");
    assert!(recording.damage.iter().all(|damage| damage.torn));
    let trajectories = recording.trajectories();
    let [trajectory] = &trajectories[..] else {
        panic!("one connection, not {}", trajectories.len());
    };
    assert!(trajectory.ended.is_none());
    let first = trajectory.pairs[0].decided.number;
    assert!(first == 0 || recording.segments[0] > 0);
    let mut number = first;
    for pair in &trajectory.pairs {
        let (decided, value) = (pair.decided, number as f32);
        // None is missing in between, and each is as it was.
        assert_eq!(decided.number, number);
        assert_eq!(decided.us, number);
        assert_eq!(
            (&*decided.state, &*decided.action),
            (&[value, 2.0 * value][..], &[value / 2.0][..])
        );
        let rewards: Vec<_> = pair.rewards.iter().map(|reward| reward.reward).collect();
        match rewards[..] {
            [reward] => assert_eq!(reward, -(number as f64)),
            // It broke off between the two.
            _ => assert!(rewards.is_empty() && number + 1 == first + trajectory.pairs.len() as u64),
        }
        number += 1;
    }
    assert!(number >= told, "{number} of {told} are there");
}
