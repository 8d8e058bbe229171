//! The bandits against textbook ones that keep every reward and compute all from scratch.

use std::vec::Vec;

use proptest::collection::vec;
use proptest::prelude::*;

use super::horizon::{self, Horizon};
use super::*;
use crate::{ArmSet, Refused};

const K: usize = 4;
const C: f64 = 0.7;
const GAMMA: f64 = 0.93;
const WINDOW: usize = 12;

/// What may happen to a bandit; arms beyond the last and rewards that are none come up, too.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Choose among these; the reward comes at once, or later.
    Choose {
        eligible: u32,
        late: bool,
    },
    /// A late reward comes.
    Update {
        arm: usize,
        reward: f64,
    },
    Observe {
        arm: usize,
        reward: f64,
    },
    Abandon {
        arm: usize,
    },
    Reset {
        arm: usize,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let arm = || 0..K + 1;
    let reward = || {
        prop_oneof![
            12 => -1.0..1.0,
            1 => Just(f64::NAN),
            1 => Just(f64::INFINITY),
            1 => Just(-1e101),
        ]
    };
    let step = prop_oneof![
        12 => (0..64_u32, prop::bool::weighted(0.3))
            .prop_map(|(eligible, late)| Step::Choose { eligible, late }),
        3 => (arm(), reward()).prop_map(|(arm, reward)| Step::Update { arm, reward }),
        2 => (arm(), reward()).prop_map(|(arm, reward)| Step::Observe { arm, reward }),
        1 => arm().prop_map(|arm| Step::Abandon { arm }),
        1 => prop_oneof![9 => Just(K), 1 => arm()].prop_map(|arm| Step::Reset { arm }),
    ];
    vec(step, 0..400)
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    arm: usize,
    reward: f64,
    chosen: bool,
}

/// Keeps everything, computes everything anew.
#[derive(Debug, Clone, Default)]
struct Textbook {
    history: Vec<Seen>,
    choices: u64,
    outstanding: [u32; K],
    refused: u64,
}

impl Textbook {
    fn index(&self, arm: usize, root: f64, weight: impl Fn(usize) -> f64) -> Option<f64> {
        let (mut count, mut seen, mut sum) = (0.0, 0.0, 0.0);
        for (place, record) in self
            .history
            .iter()
            .enumerate()
            .filter(|(_, r)| r.arm == arm)
        {
            count += if record.chosen { weight(place) } else { 0.0 };
            seen += weight(place);
            sum += weight(place) * record.reward;
        }
        (count > 0.0).then(|| sum / seen + C * root / f64::sqrt(count))
    }

    /// Checks the choice of one whose indices are these.
    fn check(&self, choice: Option<usize>, eligible: u32, index: impl Fn(usize) -> Option<f64>) {
        let eligible: Vec<_> = (0..K).filter(|arm| eligible & 1 << arm != 0).collect();
        let Some(choice) = choice else {
            assert!(eligible.is_empty());
            return;
        };
        assert!(eligible.contains(&choice));
        let indices: Vec<_> = eligible.iter().map(|arm| (*arm, index(*arm))).collect();
        let untried =
            |(arm, index): &&(usize, Option<f64>)| index.is_none() && self.outstanding[*arm] == 0;
        if let Some((arm, _)) = indices.iter().find(untried) {
            assert_eq!(choice, *arm, "untried first");
            return;
        }
        let best = indices
            .iter()
            .filter_map(|(_, index)| *index)
            .reduce(f64::max);
        let Some(best) = best else {
            let fewest = eligible.iter().min_by_key(|arm| self.outstanding[**arm]);
            assert_eq!(Some(&choice), fewest, "fewest outstanding");
            return;
        };
        // Equal but for rounding, and for the error that the root is allowed.
        let index = index(choice).expect("one with a reward");
        assert!(index >= best - 1e-5 * (1.0 + best.abs()), "{index} {best}");
    }
}

macro_rules! against_textbook {
    ($name:ident, $bandit:expr, |$book:ident| $parameters:expr) => {
        proptest! {
            #[test]
            fn $name(steps in steps(), world in vec(0.0..1.0_f64, K)) {
                let mut bandit = $bandit;
                let mut $book = Textbook::default();
                let mut draw = crate::Draw::new(steps.len() as u64);
                let mut late = Vec::new();
                for step in steps {
                    let update = |bandit: &mut _, book: &mut Textbook, arm, reward: f64| {
                        let bandit: &mut Against = bandit;
                        match bandit.update(arm, reward) {
                            Ok(()) => {
                                let told = book.outstanding[arm] > 0;
                                book.outstanding[arm] -= u32::from(told);
                                book.choices += u64::from(!told);
                                book.history.push(Seen { arm, reward, chosen: true });
                            }
                            Err(why) => {
                                let reckonable = reward.abs() <= 1e100;
                                let expected = if reckonable { Refused::Arm } else { Refused::Reward };
                                assert!(why == expected && (arm >= K || !reckonable));
                                book.refused += 1;
                            }
                        }
                    };
                    match step {
                        Step::Choose { eligible, late: is_late } => {
                            let choice = bandit.select(ArmSet::from_bits(eligible));
                            let (root, weight): (f64, &dyn Fn(usize) -> f64) = $parameters;
                            $book.check(choice, eligible, |arm| $book.index(arm, root, weight));
                            let Some(arm) = choice else { continue };
                            if is_late {
                                bandit.chosen(arm).unwrap();
                                $book.outstanding[arm] += 1;
                                $book.choices += 1;
                                late.push(arm);
                            } else {
                                let reward = world[arm] + draw.unit();
                                update(&mut bandit, &mut $book, arm, reward);
                            }
                        }
                        Step::Update { reward, .. } if !late.is_empty() => {
                            update(&mut bandit, &mut $book, late.swap_remove(0), reward);
                        }
                        Step::Update { arm, reward } => update(&mut bandit, &mut $book, arm, reward),
                        Step::Observe { arm, reward } => match bandit.observe(arm, reward) {
                            Ok(()) => $book.history.push(Seen { arm, reward, chosen: false }),
                            Err(_) => $book.refused += 1,
                        },
                        Step::Abandon { arm } => match bandit.abandon(arm) {
                            Ok(()) => {
                                let outstanding = &mut $book.outstanding[arm];
                                *outstanding = outstanding.saturating_sub(1);
                            }
                            Err(_) => $book.refused += 1,
                        },
                        Step::Reset { arm } => match bandit.reset(arm) {
                            Ok(()) => {
                                $book.outstanding[arm] = 0;
                                // It goes, but those before it do not become younger.
                                for record in &mut $book.history {
                                    if record.arm == arm {
                                        record.arm = usize::MAX;
                                    }
                                }
                            }
                            Err(_) => $book.refused += 1,
                        },
                    }
                    prop_assert_eq!(bandit.refused(), $book.refused);
                    for arm in 0..K {
                        prop_assert_eq!(bandit.outstanding(arm), $book.outstanding[arm]);
                    }
                }
                prop_assert_eq!(bandit.outstanding(K), 0);
            }
        }
    };
}

mod plain {
    use super::*;

    type Against = Ucb1<K>;

    against_textbook!(like_the_textbook, Against::new(C), |book| {
        (horizon::root(book.choices as f64 + 1.0), &|_| 1.0)
    });
}

mod discounted {
    use super::*;

    type Against = DiscountedUcb<K>;

    against_textbook!(like_the_textbook, Against::new(C, GAMMA), |book| {
        // Rewards of choices after each record.
        let mut later = 0;
        let mut weights: Vec<f64> = Vec::new();
        for record in book.history.iter().rev() {
            weights.push(GAMMA.powi(later));
            later += i32::from(record.chosen);
        }
        weights.reverse();
        let of_choices = |(record, weight): (&Seen, &f64)| match record {
            Seen {
                chosen: true, arm, ..
            } if *arm < K => *weight,
            _ => 0.0,
        };
        let n: f64 = book.history.iter().zip(&weights).map(of_choices).sum();
        let root = f64::sqrt(2.0 * n.max(1.0).ln());
        (root, &move |place| weights[place])
    });
}

mod window {
    use super::*;

    type Against = SlidingWindowUcb<K, 16>;

    against_textbook!(like_the_textbook, Against::new(C, WINDOW), |book| {
        let from = book.history.len().saturating_sub(WINDOW);
        let newest = &book.history[from..];
        let n = newest
            .iter()
            .filter(|record| record.chosen && record.arm < K)
            .count();
        let root = f64::sqrt(2.0 * (n.max(1) as f64).ln());
        (root, &move |place| f64::from(u8::from(place >= from)))
    });
}

#[test]
fn each_eligible_arm_once_in_order_even_if_rewards_are_late() {
    let mut bandit = Ucb1::<3>::new(1.0);
    let all = ArmSet::first_of(3);
    for expected in [0, 1, 2, 0, 1, 2, 0] {
        assert_eq!(bandit.select(all), Some(expected), "the fewest outstanding");
        bandit.chosen(expected).unwrap();
    }
    // The first reward, however small, makes its arm the only one that is known.
    bandit.update(1, -1e9).unwrap();
    assert_eq!(bandit.select(all), Some(1));
    assert_eq!(bandit.select(ArmSet::from_bits(0b101)), Some(2));
    // The reward of the one choice will not come: untried again.
    for _ in 0..2 {
        bandit.abandon(2).unwrap();
    }
    assert_eq!(bandit.select(all), Some(2));
    assert_eq!((bandit.choices(), bandit.outstanding(0)), (7, 3));
}

/// The horizon is set where 2^40 choices would have brought it.
#[test]
fn age_does_not_matter() {
    let age = 1_u64 << 40;
    let mut bandit = Ucb1::<2>::new(0.5);
    bandit.horizon = Horizon::after(age);
    let all = ArmSet::first_of(2);
    for (arm, pulls) in [(0, age - (1 << 20)), (1, 1 << 20)] {
        bandit.update(arm, 0.5).unwrap();
        bandit.pulls[arm] = pulls as f64;
        bandit.seen[arm] = pulls as f64;
        bandit.board.width[arm] = 0.5 / f64::sqrt(pulls as f64);
    }
    // Rewards of 0.6: after as many again as there were, the mean has moved by half of 0.1, and
    // not by nothing or by rounding, which single precision would have done.
    for _ in 0..1 << 20 {
        bandit.update(1, 0.6).unwrap();
    }
    assert!((bandit.mean(1).unwrap() - 0.55).abs() < 1e-12);
    assert_eq!(bandit.pulls(1), 1 << 21);
    let before = bandit.mean(0).unwrap();
    for _ in 0..1000 {
        bandit.update(0, 0.6).unwrap();
    }
    let moved = (bandit.mean(0).unwrap() - before) / (0.1 * 1000.0 / age as f64);
    assert!((0.99..1.01).contains(&moved), "{moved}");
    assert_eq!(bandit.choices(), age + 2 + (1 << 20) + 1000);
    assert_eq!(bandit.select(all), Some(1));
    let exact = horizon::root(bandit.choices() as f64 + 1.0);
    assert!((bandit.horizon.root() / exact - 1.0).abs() < horizon::ERROR);
}

/// Of the forgetful ones the state after very long is like that after long: nothing has grown.
#[test]
fn the_forgetful_do_not_age() {
    let mut discounted = DiscountedUcb::<2>::new(0.5, 0.99);
    let mut window = SlidingWindowUcb::<2, 64>::new(0.5, 50);
    let mut draw = crate::Draw::new(3);
    // Arm 1 is not eligible for so long that its weight would vanish many times over.
    for t in 0..1_000_000 {
        let reward = draw.unit();
        let first = usize::from(t < 100 && t % 2 == 1);
        discounted.update(first, reward).unwrap();
        window.update(first, reward).unwrap();
    }
    assert!((discounted.weight(0) - 100.0).abs() < 1e-6);
    assert_eq!(discounted.weight(1), 0.0);
    assert_eq!(discounted.select(ArmSet::first_of(2)), Some(1));
    assert!(discounted.mean(0).unwrap().is_finite());
    assert_eq!(window.select(ArmSet::first_of(2)), Some(1));
    assert_eq!((window.pulls(0), window.mean(1)), (50, None));
    // The large ones leave no trace once they have been gone for a window.
    window.update(0, 1e99).unwrap();
    for _ in 0..100 {
        window.update(0, 0.25).unwrap();
    }
    assert_eq!(window.mean(0), Some(0.25));
    discounted.update(1, 0.5).unwrap();
    assert_eq!(discounted.mean(1), Some(0.5));
    assert!((discounted.weight(1) - 1.0).abs() < 1e-9);
}

#[test]
fn settings_out_of_range_do_something_sensible() {
    let mut greedy = Ucb1::<2>::new(f64::NAN);
    for arm in [0, 1] {
        greedy.update(arm, [0.1, 0.2][arm]).unwrap();
    }
    for _ in 0..1000 {
        assert_eq!(greedy.select(ArmSet::first_of(2)), Some(1));
        greedy.update(1, 0.2).unwrap();
    }
    let mut never_forgets = DiscountedUcb::<1>::new(1.0, f64::NAN);
    let mut narrow = SlidingWindowUcb::<1, 8>::new(f64::INFINITY, 0);
    let mut wide = SlidingWindowUcb::<1, 8>::new(-1.0, 99);
    for _ in 0..100 {
        never_forgets.update(0, 1.0).unwrap();
        narrow.update(0, 1.0).unwrap();
        wide.update(0, 1.0).unwrap();
    }
    assert_eq!(never_forgets.weight(0), 100.0);
    assert_eq!((narrow.pulls(0), wide.pulls(0)), (1, 8));
    assert_eq!(narrow.select(ArmSet::only(0)), Some(0));
}

#[cfg(feature = "serde")]
mod snapshots {
    use std::format;
    use std::string::ToString;

    use serde::Serialize;
    use serde::de::DeserializeOwned;

    use super::*;

    fn again<T: Serialize + DeserializeOwned>(bandit: &T) -> T {
        serde_json::from_str(&serde_json::to_string(bandit).unwrap()).unwrap()
    }

    /// One that was written down and read goes on as the one that was not.
    macro_rules! goes_on {
        ($bandit:expr) => {
            let mut one = $bandit;
            let mut draw = crate::Draw::new(9);
            let mut read = again(&one);
            for t in 0..2000 {
                if t % 97 == 0 {
                    read = again(&one);
                }
                let eligible = ArmSet::from_bits((draw.unit() * 16.0) as u32);
                let arm = one.select(eligible);
                assert_eq!(read.select(eligible), arm, "{t}");
                let Some(arm) = arm else { continue };
                let reward = draw.unit() + arm as f64 / 8.0;
                for bandit in [&mut one, &mut read] {
                    bandit.update(arm, reward).unwrap();
                    bandit.observe((arm + 1) % K, reward / 2.0).unwrap();
                }
            }
        };
    }

    #[test]
    fn are_written_and_read() {
        goes_on!(Ucb1::<K>::new(0.3));
        goes_on!(DiscountedUcb::<K>::new(0.3, 0.97));
        let mut window = SlidingWindowUcb::<K, 64>::new(0.3, 40);
        window.update(2, 0.5).unwrap();
        window.reset(2).unwrap();
        goes_on!(window);
    }

    #[test]
    fn leave_out_what_is_outstanding() {
        let mut bandit = Ucb1::<2>::new(1.0);
        bandit.chosen(0).unwrap();
        let read = again(&bandit);
        assert_eq!((read.outstanding(0), read.choices()), (0, 1));
        assert_eq!(read.select(ArmSet::first_of(2)), Some(0));
        assert_eq!(bandit.select(ArmSet::first_of(2)), Some(1));
    }

    fn refuse<T: DeserializeOwned + std::fmt::Debug>(text: &str, expected: &str) {
        let error = serde_json::from_str::<T>(text).expect_err(text).to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }

    #[test]
    fn bad_ones_are_refused() {
        let plain = |exploration: &str, choices: &str, arms: &str| {
            format!(
                r#"{{"exploration":{exploration},"choices":{choices},"refused":0,"arms":[{arms}]}}"#
            )
        };
        let arm = r#"{"pulls":2,"seen":3,"mean":0.5}"#;
        let read = |text: &str| serde_json::from_str::<Ucb1<1>>(text);
        assert_eq!(read(&plain("1.0", "2", arm)).unwrap().pulls(0), 2);
        for (exploration, choices, arms, expected) in [
            ("-1.0", "2", arm, "`exploration`: expected a number"),
            ("1e101", "2", arm, "`exploration`"),
            ("1.0", "1", arm, "`choices`: expected the sum of `pulls`"),
            ("1.0", "9007199254740993", arm, "`choices`"),
            ("1.0", "2", "", "invalid length 0, expected 1 values"),
            (
                "1.0",
                "2",
                r#"{"pulls":4,"seen":3,"mean":0.5}"#,
                "`pulls`: expected at most `seen`",
            ),
            (
                "1.0",
                "2",
                r#"{"pulls":2,"seen":18014398509481984,"mean":0.5}"#,
                "`seen`",
            ),
            ("1.0", "2", r#"{"pulls":2,"seen":3,"mean":1e200}"#, "`mean`"),
            ("1.0", "2", r#"{"pulls":0,"seen":0,"mean":1}"#, "`mean`"),
            ("1.0", "2", r#"{"pulls":2,"seen":3,"mean":null}"#, "null"),
            ("1.0", "2", r#"{"pulls":-2,"seen":3,"mean":0}"#, "-2"),
            (
                "1.0",
                "2",
                r#"{"pulls":2,"seen":3}"#,
                "missing field `mean`",
            ),
            (
                "1.0",
                "2",
                r#"{"pulls":2,"seen":3,"mean":0,"x":1}"#,
                "unknown field",
            ),
        ] {
            refuse::<Ucb1<1>>(&plain(exploration, choices, arms), expected);
        }
        refuse::<Ucb1<1>>(
            &plain("1.0", "9", &format!("{arm},{arm}")),
            "invalid length 2",
        );
        let discounted = |discount: &str, weight: &str, seen: &str| {
            format!(
                r#"{{"exploration":1,"discount":{discount},"refused":0,
                   "arms":[{{"weight":{weight},"seen":{seen},"mean":0.5}}]}}"#
            )
        };
        assert!(serde_json::from_str::<DiscountedUcb<1>>(&discounted("0.9", "2", "3")).is_ok());
        for (discount, weight, seen, expected) in [
            ("1.1", "2", "3", "`discount`"),
            ("0", "2", "3", "`discount`"),
            ("0.9", "4", "3", "`weight`"),
            ("0.9", "-1", "3", "`weight`"),
            ("0.9", "2", "1e300", "`seen`"),
        ] {
            refuse::<DiscountedUcb<1>>(&discounted(discount, weight, seen), expected);
        }
        let window = |window: &str, records: &str| {
            format!(r#"{{"exploration":1,"window":{window},"refused":0,"records":[{records}]}}"#)
        };
        type Window = SlidingWindowUcb<1, 4>;
        assert!(serde_json::from_str::<Window>(&window("2", "[0,0.5,true],[0,1,false]")).is_ok());
        for (size, records, expected) in [
            ("0", "", "`window`"),
            ("5", "", "`window`"),
            (
                "1",
                "[0,1,true],[0,1,true]",
                "`records`: expected at most `window`",
            ),
            ("2", "[1,1,true]", "`records`: expected arms"),
            ("2", "[0,1e200,true]", "`records`: expected arms"),
            (
                "4",
                "[0,1,true],[0,1,true],[0,1,true],[0,1,true],[0,1,true]",
                "invalid length 5",
            ),
            ("2", "[0,1]", "invalid length 2"),
        ] {
            refuse::<Window>(&window(size, records), expected);
        }
    }
}

/// What large rewards left of rounding in a sum does not make the mean of those that stay negative, or too large by much.
#[test]
fn a_window_of_small_rewards_after_large_ones() {
    let mut draw = crate::Draw::new(5);
    for _ in 0..2_000 {
        let mut window = SlidingWindowUcb::<1, 16>::new(0.0, 5);
        let mut newest = std::collections::VecDeque::new();
        for _ in 0..40 {
            let reward = [0.0, 1e5, 1e-1, 1e-7, 1e-13][(draw.unit() * 5.0) as usize] * draw.unit();
            window.update(0, reward).unwrap();
            newest.push_back(reward);
            if newest.len() > 5 {
                newest.pop_front();
            }
            let expected = newest.iter().sum::<f64>() / newest.len() as f64;
            let mean = window.mean(0).unwrap();
            assert!(
                mean >= 0.0 && (mean - expected).abs() <= 1e-6 * expected,
                "{mean} for {newest:?}"
            );
        }
    }
}
