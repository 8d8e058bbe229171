//! The bandit scheduler: choices worked out by hand, and what holds whatever happens.

use std::time::Duration;

use mpquic_sched::{
    Acked, Data, Decision, EpsilonGreedyConfig, Learned, Lost, PathId, PathIndex, PathUpdate,
    PathUpdateKind, PathView, Registry, Scheduler, StreamId, StreamUpdate, StreamUpdateKind, Ucb,
    UcbConfig,
};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{Asked, loaded, unsent};

/// Of this name in the registry, with these settings.
fn asked(name: &str, config: Value) -> Asked<Ucb> {
    let config: UcbConfig = serde_json::from_value(config).unwrap();
    Asked::new(match name {
        "ucb_block" => Ucb::blocking(&config),
        _ => Ucb::new(&config),
    })
}

/// The other bandit over paths, with these settings.
fn greedy(config: Value) -> Asked<Ucb> {
    let config: EpsilonGreedyConfig = serde_json::from_value(config).unwrap();
    Asked::new(Ucb::epsilon_greedy(&config))
}

fn learned(asked: &Asked<Ucb>) -> Learned {
    asked.scheduler.learned().expect("it learns")
}

/// Choices and mean of a path.
fn arm(asked: &Asked<Ucb>, slot: usize) -> (u64, Option<f64>) {
    let arms = learned(asked).arms;
    let arm = arms.iter().find(|arm| arm.path.get() == slot);
    arm.map_or((0, None), |arm| (arm.pulls, arm.mean))
}

/// An event that begins an opportunity, and nothing else.
fn event(asked: &mut Asked<Ucb>) {
    let id = StreamId::from(mpquic_sched::VarInt::from_u32(0));
    let written = StreamUpdate::new(id, StreamUpdateKind::Written(1));
    asked.scheduler.on_stream(&written);
}

fn lost(asked: &mut Asked<Ucb>, slot: usize, decision: u64) {
    let path = PathIndex::new(slot).unwrap();
    let lost = Lost::new(path, asked.now, asked.start, 1235, Some(decision));
    asked.scheduler.on_lost(&lost);
}

fn acked(asked: &mut Asked<Ucb>, slot: usize, decision: u64, after: u64) {
    let path = PathIndex::new(slot).unwrap();
    let sent = asked.now - Duration::from_millis(after);
    let acked = Acked::new(path, asked.now, sent, 1000, None, Some(decision), 0);
    asked.scheduler.on_acked(&acked);
}

/// The slots of so many opportunities, each of which fills the window of its path at once.
fn choices(asked: &mut Asked<Ucb>, paths: &[PathView], times: usize) -> Vec<Option<usize>> {
    let queue = unsent(1 << 20);
    let choose = |_| {
        event(asked);
        let choice = asked.next(paths, &queue).map(|(slot, data)| {
            assert_eq!(data, Data::Next);
            slot
        });
        // With nothing to send there is nothing left of the opportunity.
        asked.next(paths, &unsent(0));
        choice
    };
    (0..times).map(choose).collect()
}

fn filled(paths: &[PathView], slots: &[usize]) -> Vec<PathView> {
    let mut paths = paths.to_vec();
    for slot in slots {
        paths[*slot].can_send = false;
        paths[*slot].in_flight = paths[*slot].cwnd;
    }
    paths
}

/// Rewards 1200 bytes over 20 and over 80 ms: 60,000 and 15,000 bytes/s.
fn two() -> Vec<PathView> {
    vec![loaded(0, 20, 10, 0), loaded(1, 80, 10, 0)]
}

/// The indices worked out apart from this code, with the formula of the report.
#[test]
fn chooses_as_worked_out_by_hand() {
    let some = |slots: &[usize]| slots.iter().copied().map(Some).collect::<Vec<_>>();
    let mut ucb = asked("ucb", json!({}));
    let expected = [0, 1, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0];
    assert_eq!(choices(&mut ucb, &two(), 20), some(&expected));
    assert_eq!(arm(&ucb, 0), (16, Some(60_000.0)));
    assert_eq!(arm(&ucb, 1).0, 4);
    // The same where every choice may fall on a full path, as long as none is.
    let mut block = asked("ucb_block", json!({}));
    assert_eq!(choices(&mut block, &two(), 20), some(&expected));
    assert_eq!(learned(&block).scheduler, "ucb_block");
    // Means that are near each other.
    let near = [loaded(0, 50, 10, 0), loaded(1, 60, 10, 0)];
    let expected = [0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 0, 1, 0, 1, 0];
    let mut ucb = asked("ucb", json!({}));
    assert_eq!(choices(&mut ucb, &near, 20), some(&expected));
    // The scale is part of the algorithm: with the bonus of rewards in [0, 1], greedy for ever.
    let mut greedy = asked("ucb", json!({"exploration": 1}));
    let mut expected = vec![Some(0); 20];
    expected[1] = Some(1);
    assert_eq!(choices(&mut greedy, &two(), 20), expected);
}

#[test]
fn losses_make_a_path_worse() {
    let config = json!({"exploration": 0});
    let mut ucb = asked("ucb", config);
    let near = [loaded(0, 50, 10, 0), loaded(1, 60, 10, 0)];
    assert_eq!(choices(&mut ucb, &near, 3), [Some(0), Some(1), Some(0)]);
    assert_eq!(arm(&ucb, 0).1, Some(24_000.0));
    // Three losses, once: half of a reward of 24,000, in the mean with those before.
    for decision in 0..3 {
        lost(&mut ucb, 0, decision);
    }
    assert_eq!(choices(&mut ucb, &near, 1), [Some(0)]);
    assert_eq!(arm(&ucb, 0).1, Some(21_000.0));
    for _ in 0..2 {
        for decision in 0..24 {
            lost(&mut ucb, 0, decision);
        }
        choices(&mut ucb, &near, 1);
    }
    // (3 * 24000 + 12000 + 2 * 24000 / 5) / 6
    assert!((arm(&ucb, 0).1.unwrap() - 15_600.0).abs() < 1e-6);
    assert_eq!(choices(&mut ucb, &near, 1), [Some(1)]);
}

#[test]
fn full_paths_are_left_out_or_not() {
    let paths = two();
    for (name, choice) in [("ucb", Some(1)), ("ucb_block", None)] {
        let mut ucb = asked(name, json!({"exploration": 0}));
        choices(&mut ucb, &paths, 4);
        // The best one is full.
        assert_eq!(
            choices(&mut ucb, &filled(&paths, &[0]), 3),
            [choice; 3],
            "{name}"
        );
        assert_eq!(choices(&mut ucb, &paths, 1), [Some(0)], "{name}");
        assert_eq!(
            choices(&mut ucb, &filled(&paths, &[0, 1]), 2),
            [None; 2],
            "{name}"
        );
        // One that nothing will wake up is never waited for.
        let mut dead = filled(&paths, &[0]);
        dead[0].in_flight = 0;
        assert_eq!(choices(&mut ucb, &dead, 3), [Some(1); 3], "{name}");
        assert_eq!(choices(&mut ucb, &[], 1), [None], "{name}");
    }
    // `block` in the configuration is `ucb_block`.
    let mut ucb = asked("ucb", json!({"exploration": 0, "block": true}));
    choices(&mut ucb, &paths, 4);
    assert_eq!(choices(&mut ucb, &filled(&paths, &[0]), 1), [None]);
}

#[test]
fn an_opportunity_without_a_path_waits_for_one() {
    let (paths, queue) = (two(), unsent(1 << 20));
    let mut ucb = asked("ucb", json!({}));
    assert_eq!(ucb.waits(&filled(&paths, &[0, 1]), &queue), None);
    assert_eq!(arm(&ucb, 0).0, 0);
    // It is still there when a window has opened, without another event.
    assert_eq!(
        ucb.next(&filled(&paths, &[0]), &queue),
        Some((1, Data::Next))
    );
    assert_eq!(arm(&ucb, 1).0, 1);
    // Held back by its pacer is not full: the choice stands until then.
    let mut paced = filled(&paths, &[1]);
    paced[0].can_send = false;
    paced[0].next_release = Some(ucb.start + Duration::from_millis(7));
    event(&mut ucb);
    assert_eq!(ucb.waits(&paced, &queue), Some(7));
    assert_eq!(ucb.at(7).next(&paths, &queue), Some((0, Data::Next)));
}

#[test]
fn a_path_without_a_sample_is_tried_once_and_gets_its_reward_later() {
    let mut paths = two();
    paths[0].smoothed_rtt = Duration::ZERO;
    let mut ucb = asked("ucb", json!({"exploration": 0}));
    let expected = [Some(0), Some(1), Some(1), Some(1)];
    assert_eq!(choices(&mut ucb, &paths, 4), expected);
    assert_eq!(arm(&ucb, 0), (1, None));
    assert_eq!(choices(&mut ucb, &two(), 2), [Some(0), Some(0)]);
    assert_eq!(arm(&ucb, 0), (3, Some(60_000.0)));
}

#[test]
fn a_slots_next_path_starts_afresh() {
    for config in [
        json!({}),
        json!({"reward": "delayed"}),
        json!({"forgetting": {"window": 9}}),
    ] {
        let mut ucb = asked("ucb", config.clone());
        choices(&mut ucb, &two(), 9);
        lost(&mut ucb, 0, 0);
        let (path, now) = (PathIndex::new(0).unwrap(), ucb.now);
        let before = arm(&ucb, 1);
        for kind in [PathUpdateKind::Abandoned, PathUpdateKind::Opened] {
            ucb.scheduler
                .on_path(&PathUpdate::new(path, PathId(7), now, kind));
        }
        assert_eq!(arm(&ucb, 0), (0, None), "{config}");
        assert_eq!(arm(&ucb, 1), before, "{config}");
        assert_eq!(choices(&mut ucb, &two(), 1), [Some(0)], "{config}");
    }
}

/// The speeds of two paths are exchanged; how soon each way to forget follows.
#[test]
fn forgetting_follows_the_world() {
    let exchanged = [loaded(0, 80, 10, 0), loaded(1, 20, 10, 0)];
    let until_followed = |forgetting: Value| {
        let config = json!({"exploration": 1000, "forgetting": forgetting});
        let mut ucb = asked("ucb", config);
        choices(&mut ucb, &two(), 400);
        let before = choices(&mut ucb, &two(), 20);
        assert!(before.iter().filter(|choice| **choice == Some(0)).count() >= 17);
        let after = choices(&mut ucb, &exchanged, 1000);
        let right = |at: &usize| {
            after[*at..]
                .iter()
                .take(20)
                .filter(|c| **c == Some(1))
                .count()
        };
        (0..980).find(|at| right(at) >= 18)
    };
    let plain = until_followed(json!("none"));
    let discounted = until_followed(json!({"discount": 0.95})).expect("follows");
    // Two rewards for each choice.
    let window = until_followed(json!({"window": 40})).expect("follows");
    assert!(plain.is_none_or(|plain| plain > 300), "{plain:?}");
    assert!(discounted < 30 && window < 30, "{discounted} {window}");
}

#[test]
fn a_rate_tells_apart_what_the_rtt_does_not() {
    let mut paths = [loaded(0, 50, 10, 0), loaded(1, 50, 10, 0)];
    (paths[0].delivery_rate, paths[1].delivery_rate) = (1_000_000, 5_000_000);
    let config = json!({"reward": "rate", "exploration": 0});
    let mut ucb = asked("ucb", config);
    assert_eq!(
        choices(&mut ucb, &paths, 4),
        [Some(0), Some(1), Some(1), Some(1)]
    );
    assert_eq!(arm(&ucb, 1).1, Some(5e6));
    // As long as it is unknown, what the window allows: 12,350 bytes in 50 ms.
    let mut ucb = asked("ucb", json!({"reward": "rate"}));
    paths[0].delivery_rate = 0;
    choices(&mut ucb, &paths, 1);
    assert!((arm(&ucb, 0).1.unwrap() - 247_000.0).abs() < 1e-6);
}

#[test]
fn late_rewards_are_those_of_the_packets() {
    let (paths, queue) = (two(), unsent(1 << 20));
    let mut ucb = asked("ucb", json!({"reward": "delayed", "exploration": 0}));
    // Two packets on path 0, then its window is full: an opportunity for path 1, one packet.
    for _ in 0..2 {
        assert_eq!(ucb.next(&paths, &queue), Some((0, Data::Next)));
    }
    assert_eq!(ucb.waits(&filled(&paths, &[0]), &queue), None);
    event(&mut ucb);
    assert_eq!(
        ucb.next(&filled(&paths, &[0]), &queue),
        Some((1, Data::Next))
    );
    assert_eq!(ucb.waits(&filled(&paths, &[0, 1]), &queue), None);
    assert_eq!((arm(&ucb, 0), arm(&ucb, 1)), ((1, None), (1, None)));
    // 1000 bytes in 20 ms; the choice is settled with its other packet, which is lost.
    ucb.at(20);
    acked(&mut ucb, 0, 0, 20);
    assert_eq!(arm(&ucb, 0), (1, None));
    lost(&mut ucb, 0, 1);
    assert_eq!(arm(&ucb, 0), (1, Some(25_000.0)));
    // 1000 bytes in 80 ms, decision 3. Another path's decision is no affair of this one's.
    ucb.at(80);
    acked(&mut ucb, 1, 0, 80);
    assert_eq!(arm(&ucb, 1), (1, None));
    acked(&mut ucb, 1, 3, 80);
    assert_eq!(arm(&ucb, 1), (1, Some(12_500.0)));
    assert_eq!(ucb.next(&paths, &queue), Some((0, Data::Next)));
    assert_eq!(arm(&ucb, 0), (2, Some(25_000.0)));
    // A path that goes away takes what it owed along.
    let gone = PathUpdate::new(
        PathIndex::new(0).unwrap(),
        PathId::ZERO,
        ucb.now,
        PathUpdateKind::Abandoned,
    );
    ucb.scheduler.on_path(&gone);
    assert_eq!(learned(&ucb).dropped, 1);
}

#[test]
fn wrong_configurations() {
    let message = |config: Value| {
        let error = Registry::new()
            .build("ucb_block", &config)
            .err()
            .expect("refused");
        error.to_string()
    };
    for (config, expected) in [
        (
            json!({"exploration": -1}),
            "field `exploration`: expected bytes per second, 0 to 1e15, got -1",
        ),
        (
            json!({"forgetting": {"discount": 1}}),
            "field `forgetting.discount`: expected a factor above 0 and below 1, got 1",
        ),
        (
            json!({"forgetting": {"window": 1025}}),
            "field `forgetting.window`: expected 1 to 1024 rewards, got 1025",
        ),
        (
            json!({"forgetting": "all"}),
            "field `forgetting`: unknown variant `all`, expected one of `none`, `discount`, `window`",
        ),
        (
            json!({"reward": "late"}),
            "field `reward`: unknown variant `late`, expected one of `latest`, `delayed`, `rate`",
        ),
        (
            json!({"blocks": true}),
            "field `blocks`: unknown field `blocks`, expected one of `exploration`, `block`, `forgetting`, `reward`",
        ),
    ] {
        assert_eq!(
            message(config),
            format!("scheduler `ucb_block`, {expected}")
        );
    }
}

/// All ways to set it up, `block` apart.
fn configurations() -> Vec<Value> {
    let mut all = Vec::new();
    for forgetting in [
        json!("none"),
        json!({"discount": 0.9}),
        json!({"window": 5}),
    ] {
        for reward in ["latest", "delayed", "rate"] {
            all.push(json!({"forgetting": forgetting, "reward": reward}));
        }
    }
    all
}

/// What the network does next.
#[derive(Debug, Clone)]
enum Happens {
    /// The oldest packet in flight of this path is acknowledged, or lost.
    Settled {
        slot: usize,
        lost: bool,
    },
    Written,
    Time,
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        6 => (0..3_usize, prop::bool::weighted(0.2))
            .prop_map(|(slot, lost)| Happens::Settled { slot, lost }),
        1 => Just(Happens::Written),
        2 => Just(Happens::Time),
    ]
}

/// The values worked out apart from this code: each opportunity brings both rewards, and a constant step goes a tenth of the way.
#[test]
fn epsilon_greedy_follows_by_its_step_and_explores_by_chance() {
    let mut never = greedy(json!({"epsilon": 0}));
    assert_eq!(choices(&mut never, &two(), 10), [Some(0); 10]);
    let value = |reward: f64, n: i32| reward * (1.0 - 0.9_f64.powi(n));
    for (slot, reward) in [(0, 60_000.0), (1, 15_000.0)] {
        let mean = arm(&never, slot).1.unwrap();
        assert!((mean - value(reward, 10)).abs() < 1e-6, "{mean}");
    }
    assert_eq!(learned(&never).scheduler, "epsilon_greedy");
    // The other path is the faster one now: the values cross after some more rewards, never with the mean of them all.
    let swapped = vec![loaded(0, 80, 10, 0), loaded(1, 20, 10, 0)];
    let switch = choices(&mut never, &swapped, 20)
        .iter()
        .position(|choice| *choice == Some(1));
    let expected = (0..)
        .find(|n| {
            let [old, new] = [60_000.0, 15_000.0].map(|reward| value(reward, 10));
            let after = |old: f64, reward: f64| reward + (old - reward) * 0.9_f64.powi(n + 1);
            after(new, 60_000.0) > after(old, 15_000.0)
        })
        .map(|n| n as usize);
    assert_eq!(switch, expected);
    let mut mean = greedy(json!({"epsilon": 0, "step": 0}));
    choices(&mut mean, &two(), 10);
    assert_eq!(arm(&mean, 0).1, Some(60_000.0));

    // An epsilon of a fifth takes the slower path in a tenth: 100 of 1,000 with five standard deviations of a binomial, 47.
    let mut explores = greedy(json!({"epsilon": 0.2, "seed": 5}));
    let chosen = choices(&mut explores, &two(), 1_000);
    let slower = chosen.iter().filter(|choice| **choice == Some(1)).count();
    assert!(slower.abs_diff(100) <= 47, "{slower}");
}

proptest! {
    /// Three paths with windows of 2, 3 and 4 packets that are full for real: whatever happens, it
    /// sends only where there is room, waits only with something in flight, and once all that is in
    /// flight has been settled, it sends again.
    #[test]
    fn never_gets_stuck(script in vec(happens(), 0..120), block in any::<bool>()) {
        let queue = unsent(1 << 30);
        let name = if block { "ucb_block" } else { "ucb" };
        let explores = json!({"epsilon": 0.5, "block": block});
        let all = configurations().into_iter().map(|config| asked(name, config));
        for mut ucb in all.chain([greedy(explores)]) {
            // Decision numbers of the packets in flight.
            let mut in_flight: [std::collections::VecDeque<u64>; 3] = Default::default();
            let views = |in_flight: &[std::collections::VecDeque<u64>; 3]| -> Vec<PathView> {
                let view = |slot: usize| {
                    let packets = in_flight[slot].len() as u64;
                    loaded(slot, 20 + 30 * slot as u64, 2 + slot as u64, packets)
                };
                (0..3).map(view).collect()
            };
            let fill = |ucb: &mut Asked<Ucb>, in_flight: &mut [_; 3]| {
                for _ in 0..10 {
                    let paths = views(in_flight);
                    match ucb.decide(&paths, &queue, &[]) {
                        Decision::Send { path, .. } => {
                            assert!(paths[path.get()].can_send);
                            ucb.sent(path, false);
                            in_flight[path.get()].push_back(ucb.number - 1);
                        }
                        Decision::Wait { .. } => {
                            assert!(in_flight.iter().any(|packets| !packets.is_empty()));
                            return;
                        }
                    }
                }
                panic!("windows of 9 packets took 10");
            };
            let settle = |ucb: &mut Asked<Ucb>, in_flight: &mut [_; 3], slot: usize, is_lost| {
                let packets: &mut std::collections::VecDeque<u64> = &mut in_flight[slot];
                if let Some(decision) = packets.pop_front() {
                    if is_lost {
                        lost(ucb, slot, decision);
                    } else {
                        acked(ucb, slot, decision, 20 + 30 * slot as u64);
                    }
                }
            };
            ucb.at(100);
            let mut ms = 100;
            for step in &script {
                fill(&mut ucb, &mut in_flight);
                match step {
                    Happens::Settled { slot, lost } => {
                        settle(&mut ucb, &mut in_flight, *slot, *lost);
                    }
                    Happens::Written => event(&mut ucb),
                    Happens::Time => {
                        ms += 13;
                        ucb.at(ms);
                    }
                }
            }
            for round in 0..3 {
                for slot in 0..3 {
                    while !in_flight[slot].is_empty() {
                        settle(&mut ucb, &mut in_flight, slot, round == 1);
                    }
                }
                let before = ucb.number;
                fill(&mut ucb, &mut in_flight);
                prop_assert!(ucb.number > before + 1 || round == 0, "sent nothing");
            }
            let learned = learned(&ucb);
            prop_assert_eq!((learned.refused, learned.dropped), (0, 0));
            let sound = |m: f64| m.is_finite() && m >= 0.0;
            prop_assert!(learned.arms.iter().all(|arm| arm.mean.is_none_or(sound)), "{learned:?}");
        }
    }
}
