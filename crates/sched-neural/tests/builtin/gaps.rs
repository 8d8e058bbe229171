//! GAPS: when its policy is asked, what the answers do, and what is told of them, worked out by hand.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mpquic_sched::{
    Acked, Context, Data, Decision, MinRtt, PathId, PathIndex, PathUpdate, PathUpdateKind,
    PathView, Scheduler,
};
use mpquic_sched_neural::registry;
use mpquic_sched_neural::{Experience, Gaps, GapsConfig, Policy, Run, Unanswered};
use serde_json::json;

use crate::{Asked, PACKET, loaded, unsent};

const MANY: u64 = 1 << 30;

type Answer = Result<Vec<f32>, Unanswered>;
type States = Arc<Mutex<Vec<Vec<f32>>>>;

/// Answers as it is told, one after the other, the last one for ever.
struct Told {
    answers: std::vec::IntoIter<Answer>,
    now: Answer,
    seen: States,
}

impl Policy for Told {
    fn answer(&mut self, state: &[f32]) -> Result<&[f32], Unanswered> {
        self.seen.lock().unwrap().push(state.to_vec());
        if let Some(next) = self.answers.next() {
            self.now = next;
        }
        self.now.as_deref().map_err(|error| *error)
    }
}

/// What an observer heard, with times left out.
#[derive(Debug, PartialEq)]
enum Heard {
    Decided(u64, Vec<f32>, Vec<f32>, bool),
    Rewarded(u64, f32, bool),
}

struct Watched {
    asked: Asked<Gaps>,
    states: States,
    heard: Receiver<Heard>,
}

fn slot(index: usize) -> PathIndex {
    PathIndex::new(index).unwrap()
}

/// The same change for each path.
fn all(change: f32) -> Answer {
    Ok(vec![change; Gaps::OUTPUTS])
}

fn watched(config: GapsConfig, answers: Vec<Answer>) -> Watched {
    let states = States::default();
    let policy = Told {
        answers: answers.into_iter(),
        now: all(0.0),
        seen: Arc::clone(&states),
    };
    let (tell, heard) = channel();
    let gaps = Gaps::new(&config, Box::new(policy)).with_observer(Box::new(move |experience| {
        let told = match *experience {
            Experience::Decided {
                number,
                state,
                action,
                fell_back,
                ..
            } => Heard::Decided(number, state.to_vec(), action.to_vec(), fell_back),
            Experience::Rewarded {
                number,
                reward,
                done,
                ..
            } => Heard::Rewarded(number, reward, done),
            _ => unreachable!("nothing else happens"),
        };
        tell.send(told).unwrap();
    }));
    Watched {
        asked: Asked::new(gaps),
        states,
        heard,
    }
}

impl Watched {
    /// A packet of this path is acknowledged at this time, milliseconds after the start.
    fn acked(&mut self, ms: u64, path: usize) -> &mut Self {
        self.asked.at(ms);
        let (now, sent) = (self.asked.now, self.asked.start);
        let acked = Acked::new(slot(path), now, sent, 1235, None, None, 0);
        self.asked.scheduler.on_acked(&acked);
        self
    }

    /// The gap of the next packet, packets, with so many bytes out of order.
    #[track_caller]
    fn gap_with(&mut self, paths: &[PathView], out_of_order: u64) -> f64 {
        let mut queue = unsent(MANY);
        queue.out_of_order = out_of_order;
        match self.asked.next(paths, &queue) {
            Some((_, Data::Ahead(gap))) => gap as f64 / PACKET as f64,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn gap(&mut self, paths: &[PathView]) -> f64 {
        self.gap_with(paths, 0)
    }

    fn states(&self) -> usize {
        self.states.lock().unwrap().len()
    }
}

/// The fast path, 20 ms, is full; the slow one, 60 ms, starts with a gap of 10 packets.
fn pair() -> [PathView; 2] {
    [loaded(0, 20, 10, 10), loaded(1, 60, 10, 0)]
}

#[test]
fn the_policy_is_asked_after_acknowledgements_and_not_too_often() {
    let paths = pair();
    let mut gaps = watched(GapsConfig::default(), vec![all(1.0)]);
    assert_eq!(gaps.gap(&paths), 10.0, "as STMS starts");
    assert_eq!(gaps.states(), 0, "nothing was acknowledged");
    for (ms, gap, asked) in [(30, 18.0, 1), (49, 18.0, 1), (50, 26.0, 2), (90, 34.0, 3)] {
        assert_eq!(gaps.acked(ms, 0).gap(&paths), gap, "{ms}");
        assert_eq!(gaps.gap(&paths), gap, "each acknowledgement counts once");
        assert_eq!(gaps.states(), asked, "{ms}");
    }
    gaps.asked.at(200);
    assert_eq!(
        (gaps.gap(&paths), gaps.states()),
        (34.0, 3),
        "nothing was acknowledged since"
    );
    // The gap ends at four windows of the fast path.
    assert_eq!(gaps.acked(220, 1).gap(&paths), 40.0);

    // With both times 0, each acknowledgement brings a decision.
    let config = GapsConfig {
        interval_ms: 0.0,
        round_trips: 0.0,
        ..GapsConfig::default()
    };
    let mut gaps = watched(config, vec![all(1.0)]);
    for (ms, gap) in [(30, 18.0), (31, 26.0), (31, 34.0)] {
        assert_eq!(gaps.acked(ms, 0).gap(&paths), gap);
    }
    // On a fast path of 4 ms, 10 ms count.
    let paths = [loaded(0, 4, 10, 10), loaded(1, 12, 10, 0)];
    let mut gaps = watched(GapsConfig::default(), vec![all(0.5)]);
    for (ms, gap) in [(30, 14.0), (39, 14.0), (40, 18.0)] {
        assert_eq!(gaps.acked(ms, 0).gap(&paths), gap);
    }
}

#[test]
fn an_answer_changes_the_gaps_of_slower_paths_by_whole_packets() {
    let three = |slow: usize| {
        let mut paths = [
            loaded(0, 60, 10, 10),
            loaded(1, 20, 10, 10),
            loaded(2, 100, 10, 10),
        ];
        paths[slow].can_send = true;
        paths
    };
    // 0.3 * 8 = 2.4; the fastest path's -1 is nobody's; -0.2 * 8 = -1.6.
    let mut answer = vec![0.3, -1.0, -0.2];
    answer.resize(Gaps::OUTPUTS, 1.0);
    let mut gaps = watched(GapsConfig::default(), vec![Ok(answer), all(-1.0)]);
    assert_eq!(gaps.acked(30, 0).gap(&three(0)), 12.0);
    assert_eq!(gaps.gap(&three(2)), 18.0);
    assert_eq!(gaps.acked(60, 0).gap(&three(0)), 4.0);
    assert_eq!(gaps.gap(&three(2)), 10.0);
    assert_eq!(
        gaps.acked(90, 0).gap(&three(0)),
        0.0,
        "none is less than none"
    );
    let learned = gaps.asked.scheduler.learned().unwrap();
    let told: Vec<_> = learned
        .gaps
        .iter()
        .map(|gap| (gap.path.get(), gap.packets, gap.sent))
        .collect();
    assert_eq!(told, [(0, 0.0, 3), (2, 2.0, 2)]);
    assert_eq!(learned.gaps[0].mean, Some(16.0 / 3.0));
    let policy = learned.policy.unwrap();
    assert_eq!(
        (&*policy.engine, policy.decisions, policy.fallbacks.total()),
        ("custom", 3, 0)
    );
    // Another path in the slot starts anew.
    let ended = PathUpdate::new(
        slot(2),
        PathId(2),
        gaps.asked.now,
        PathUpdateKind::Abandoned,
    );
    gaps.asked.scheduler.on_path(&ended);
    assert_eq!(gaps.gap(&three(2)), 20.0);
}

#[test]
fn what_cannot_be_followed_is_counted_and_minrtt_steps_in() {
    let paths = pair();
    let mut short = all(0.0);
    short.as_mut().unwrap().pop();
    let mut nan = vec![0.0; Gaps::OUTPUTS];
    nan[3] = f32::NAN;
    for answer in [Err(Unanswered), Ok(nan), all(1.1), short] {
        let mut gaps = watched(GapsConfig::default(), vec![answer.clone(), all(1.0)]);
        assert_eq!(gaps.gap(&paths), 10.0);
        gaps.acked(30, 0);
        for _ in 0..2 {
            let packet = gaps.asked.next(&paths, &unsent(MANY));
            assert_eq!(
                packet,
                Asked::new(MinRtt::default()).next(&paths, &unsent(MANY)),
                "{answer:?}"
            );
            assert_eq!(packet, Some((1, Data::Next)));
        }
        // The next answer is a good one, and the gap is where it was.
        assert_eq!(gaps.acked(60, 0).gap(&paths), 18.0);
        let policy = gaps.asked.scheduler.learned().unwrap().policy.unwrap();
        assert_eq!((policy.decisions, policy.fallbacks.total()), (2, 1));
        let first = gaps.heard.try_recv().unwrap();
        let Heard::Decided(0, _, action, true) = first else {
            panic!("{first:?}");
        };
        assert_eq!(action, [0.0; Gaps::OUTPUTS]);
    }
}

#[test]
fn an_observer_hears_states_actions_and_rewards_in_order() {
    let paths = pair();
    let mut gaps = watched(GapsConfig::default(), vec![all(0.25), all(-0.5)]);
    // What lies out of order before the first decision is nobody's.
    gaps.acked(30, 1).gap_with(&paths, 900_000);
    for (ms, out_of_order) in [(35, 100_000), (40, 300_000), (45, 0)] {
        let _ = gaps.acked(ms, 0).gap_with(&paths, out_of_order);
        // A second packet at the same moment is no second reading.
        let _ = gaps.gap_with(&paths, 5_000_000);
    }
    let _ = gaps.acked(50, 1).gap_with(&paths, 200_000);
    let heard: Vec<_> = gaps.heard.try_iter().collect();
    let states = gaps.states.lock().unwrap().clone();
    assert_eq!(states.len(), 2);
    assert_eq!(
        heard,
        [
            Heard::Decided(0, states[0].clone(), all(0.25).unwrap(), false),
            Heard::Rewarded(0, -1.5, false),
            Heard::Decided(1, states[1].clone(), all(-0.5).unwrap(), false),
        ]
    );
    // Acknowledged since the last decision: one of the slow path before the first, three of the fast one and one of
    // the slow one before the second.
    let width = Gaps::FEATURES.len();
    let acknowledged = |state: &[f32]| [state[6], state[width + 6]];
    assert_eq!(acknowledged(&states[0]), [0.0, 1.0]);
    assert_eq!(acknowledged(&states[1]), [3.0, 1.0]);
    // The gap grew by what the first answer said, 2 packets; and the queue is the reward's, in kB.
    let gap = |state: &[f32]| state[width + 7];
    assert_eq!(gap(&states[1]) - gap(&states[0]), 2.0);
    assert_eq!([states[0][8], states[1][8]], [900.0, 150.0]);
    assert_eq!(states[0].len(), Gaps::STATE);
    assert_eq!(Gaps::STATE, Gaps::OUTPUTS * Gaps::FEATURES.len());
}

#[test]
fn a_thread_answers_when_it_can_and_nothing_is_asked_meanwhile() {
    let paths = pair();
    let config = GapsConfig {
        run: Run::Thread,
        ..GapsConfig::default()
    };
    let mut gaps = watched(config, vec![all(1.0)]);
    let mut last = 10.0;
    for ms in (30..).step_by(20) {
        let gap = gaps.acked(ms, 0).gap(&paths);
        assert!(
            // The answer awaited and the one to the state that was handed over then.
            [0.0, 8.0, 16.0].contains(&(gap - last)) || gap == 40.0,
            "{last}, then {gap}"
        );
        last = gap;
        if last == 40.0 {
            break;
        }
        std::thread::yield_now();
    }
    let mut numbers = Vec::new();
    for heard in gaps.heard.try_iter() {
        match heard {
            Heard::Decided(number, state, _, fell_back) => {
                assert_eq!(state, gaps.states.lock().unwrap()[number as usize]);
                assert!(!fell_back);
                numbers.push((number, "decided"));
            }
            Heard::Rewarded(number, ..) => numbers.push((number, "rewarded")),
        }
    }
    let expected = (0..).flat_map(|number| [(number, "decided"), (number, "rewarded")]);
    assert!(numbers.len() >= 7, "{numbers:?}");
    assert_eq!(numbers, expected.take(numbers.len()).collect::<Vec<_>>());
}

#[test]
fn a_fixed_gap_is_what_it_says() {
    let paths = pair();
    let config = GapsConfig {
        fixed_gap: Some(55.5),
        ..GapsConfig::default()
    };
    let mut gaps = watched(config, vec![all(1.0)]);
    for ms in [30, 60, 90] {
        assert_eq!(gaps.acked(ms, 0).gap(&paths), 55.5);
    }
    assert_eq!(
        (gaps.states(), gaps.heard.try_iter().count()),
        (0, 0),
        "no policy is asked"
    );
    let learned = gaps.asked.scheduler.learned().unwrap();
    assert_eq!(
        learned.to_string(),
        "gaps, fixed gap\n  path 1: gap of 55.5 packets, 55.5 on average over 3 packets"
    );
}

#[test]
fn waits_as_stms_does() {
    let paths = pair();
    let tail = unsent(10 * PACKET);
    let mut gaps = watched(GapsConfig::default(), vec![]);
    assert_eq!(gaps.asked.waits(&paths, &tail), Some(65));
    assert_eq!(gaps.asked.at(65).next(&paths, &tail), Some((1, Data::Next)));
}

#[test]
fn the_shipped_network_is_checked_and_runs_as_a_plan() {
    let registry = registry();
    let mut scheduler = registry.build("gaps", &json!({})).unwrap();
    let policy = scheduler.learned().unwrap().policy.unwrap();
    assert!(policy.engine.starts_with("plan"), "{}", policy.engine);
    // It answers what it is shown.
    let paths = pair();
    let (start, queue) = (Instant::now(), unsent(MANY));
    for ms in (30..2000).step_by(10) {
        let now = start + Duration::from_millis(ms);
        scheduler.on_acked(&Acked::new(slot(0), now, start, 1235, None, None, 0));
        let decision = scheduler.decide(&Context::new(now, &paths, &queue, ms));
        assert!(matches!(decision, Decision::Send { .. }));
    }
    let policy = scheduler.learned().unwrap().policy.unwrap();
    assert_eq!((policy.decisions, policy.fallbacks.total()), (99, 0));

    for (config, complaint) in [
        (
            json!({"fixed_gap": -1}),
            "field `fixed_gap`: expected packets, 0 to 1000000, got -1",
        ),
        (
            json!({"interval_ms": 60_001}),
            "field `interval_ms`: expected milliseconds, 0 to 60000, got 60001",
        ),
        (json!({"gap": 3}), "field `gap`: unknown field"),
    ] {
        let error = registry.build("gaps", &config).err().unwrap().to_string();
        assert!(error.contains(complaint), "{error}");
    }
    let missing = json!({"model": "no/such/file.onnx"});
    let error = registry.build("gaps", &missing).err().unwrap().to_string();
    assert!(
        error.starts_with("scheduler `gaps`, field `model`: no/such/file.onnx: "),
        "{error}"
    );
}
