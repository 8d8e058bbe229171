//! What bandits are written down as, and the checks on what is read back.
//!
//! Only what was learned is written. What follows from it (widths, roots) is computed anew, and
//! choices whose reward was outstanding are left out: nobody will settle them after a restart.

use core::fmt;
use core::marker::PhantomData;

use num_traits::Float;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::board;
use super::discounted::DiscountedUcb;
use super::horizon::Horizon;
use super::plain::Ucb1;
use super::window::{NOBODY, Record, SlidingWindowUcb};

/// Counts are kept in floating point, which is exact up to here.
pub(crate) const MOST: u64 = 1 << 53;

/// What is wrong with a snapshot of a bandit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadSnapshot {
    field: &'static str,
    expected: &'static str,
}

impl BadSnapshot {
    pub(crate) const fn unless(
        good: bool,
        field: &'static str,
        expected: &'static str,
    ) -> Result<(), Self> {
        if good {
            Ok(())
        } else {
            Err(Self { field, expected })
        }
    }
}

impl fmt::Display for BadSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: expected {}", self.field, self.expected)
    }
}

impl core::error::Error for BadSnapshot {}

/// An array of any length, which serde itself neither writes nor reads.
#[derive(Debug, Clone)]
pub(crate) struct Array<V, const N: usize>(pub(crate) [V; N]);

impl<V: Serialize, const N: usize> Serialize for Array<V, N> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(&self.0)
    }
}

impl<'de, V: Deserialize<'de> + Copy + Default, const N: usize> Deserialize<'de> for Array<V, N> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let (values, count) = from.deserialize_seq(Values::<V, N>(PhantomData))?;
        if count < N {
            return Err(D::Error::invalid_length(
                count,
                &Values::<V, N>(PhantomData),
            ));
        }
        Ok(Self(values))
    }
}

/// Reads up to `N` values, and says how many there were.
struct Values<V, const N: usize>(PhantomData<V>);

impl<'de, V: Deserialize<'de> + Copy + Default, const N: usize> Visitor<'de> for Values<V, N> {
    type Value = ([V; N], usize);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{N} values")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let (mut values, mut count) = ([V::default(); N], 0);
        while let Some(value) = seq.next_element()? {
            let place = values.get_mut(count);
            *place.ok_or_else(|| A::Error::invalid_length(count + 1, &self))? = value;
            count += 1;
        }
        Ok((values, count))
    }
}

const EXPLORATION: &str = "a number from 0 to 1e100";

fn check_exploration(exploration: f64) -> Result<(), BadSnapshot> {
    let good = board::exploration(exploration) == exploration;
    BadSnapshot::unless(good, "exploration", EXPLORATION)
}

pub(crate) fn check_mean(mean: f64) -> Result<(), BadSnapshot> {
    BadSnapshot::unless(
        board::reward(mean).is_ok(),
        "mean",
        "a number from -1e100 to 1e100",
    )
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlainSnapshot<const K: usize> {
    exploration: f64,
    choices: u64,
    refused: u64,
    arms: Array<PlainArm, K>,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlainArm {
    pulls: u64,
    /// All rewards, those that were only observed among them.
    seen: u64,
    mean: f64,
}

impl<const K: usize> From<Ucb1<K>> for PlainSnapshot<K> {
    fn from(bandit: Ucb1<K>) -> Self {
        Self {
            exploration: bandit.exploration,
            choices: bandit.choices(),
            refused: bandit.refused(),
            arms: Array(core::array::from_fn(|arm| PlainArm {
                pulls: bandit.pulls(arm),
                seen: bandit.seen[arm] as u64,
                mean: bandit.board.mean[arm],
            })),
        }
    }
}

impl<const K: usize> TryFrom<PlainSnapshot<K>> for Ucb1<K> {
    type Error = BadSnapshot;

    fn try_from(snapshot: PlainSnapshot<K>) -> Result<Self, BadSnapshot> {
        check_exploration(snapshot.exploration)?;
        let mut bandit = Self::new(snapshot.exploration);
        let mut pulls = 0_u64;
        for (arm, saved) in snapshot.arms.0.iter().enumerate() {
            check_mean(saved.mean)?;
            BadSnapshot::unless(saved.seen <= MOST, "seen", "at most 2^53")?;
            BadSnapshot::unless(saved.pulls <= saved.seen, "pulls", "at most `seen`")?;
            let unseen = saved.seen == 0;
            BadSnapshot::unless(!unseen || saved.mean == 0.0, "mean", "0 without a reward")?;
            bandit.board.mean[arm] = saved.mean;
            (bandit.pulls[arm], bandit.seen[arm]) = (saved.pulls as f64, saved.seen as f64);
            if saved.pulls > 0 {
                bandit.board.rewarded(arm);
                bandit.board.width[arm] = bandit.exploration / Float::sqrt(bandit.pulls[arm]);
            }
            pulls += saved.pulls;
        }
        // Choices that were never rewarded, and those of arms that were forgotten, count as well.
        let good = (pulls..=MOST).contains(&snapshot.choices);
        BadSnapshot::unless(good, "choices", "the sum of `pulls` or more, at most 2^53")?;
        bandit.horizon = Horizon::after(snapshot.choices);
        bandit.board.set_refused(snapshot.refused);
        Ok(bandit)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DiscountedSnapshot<const K: usize> {
    exploration: f64,
    discount: f64,
    refused: u64,
    arms: Array<DiscountedArm, K>,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DiscountedArm {
    weight: f64,
    /// The weight of all rewards, those that were only observed among them.
    seen: f64,
    mean: f64,
}

impl<const K: usize> From<DiscountedUcb<K>> for DiscountedSnapshot<K> {
    fn from(bandit: DiscountedUcb<K>) -> Self {
        Self {
            exploration: bandit.exploration,
            discount: bandit.discount,
            refused: bandit.refused(),
            arms: Array(core::array::from_fn(|arm| DiscountedArm {
                weight: bandit.weight(arm),
                seen: bandit.seen[arm],
                mean: bandit.board.mean[arm],
            })),
        }
    }
}

impl<const K: usize> TryFrom<DiscountedSnapshot<K>> for DiscountedUcb<K> {
    type Error = BadSnapshot;

    fn try_from(snapshot: DiscountedSnapshot<K>) -> Result<Self, BadSnapshot> {
        check_exploration(snapshot.exploration)?;
        let mut bandit = Self::new(snapshot.exploration, snapshot.discount);
        let good = bandit.discount == snapshot.discount;
        BadSnapshot::unless(good, "discount", "a number above 0, at most 1")?;
        for (arm, saved) in snapshot.arms.0.iter().enumerate() {
            check_mean(saved.mean)?;
            let count = 0.0..=MOST as f64;
            BadSnapshot::unless(count.contains(&saved.seen), "seen", "0 to 2^53")?;
            // Both shrink in the same steps, but not with the same rounding.
            let good = 0.0 <= saved.weight && saved.weight <= saved.seen * (1.0 + 1e-9);
            BadSnapshot::unless(good, "weight", "0 to `seen`")?;
            bandit.board.mean[arm] = saved.mean;
            (bandit.weight[arm], bandit.seen[arm]) = (saved.weight, saved.seen);
            if saved.weight > 0.0 {
                bandit.board.rewarded(arm);
                let width = bandit.exploration / Float::sqrt(saved.weight);
                bandit.board.width[arm] = width.min(bandit.exploration * 1e75);
            }
            bandit.total += saved.weight;
        }
        bandit.renew();
        bandit.board.set_refused(snapshot.refused);
        Ok(bandit)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WindowSnapshot<const K: usize, const W: usize> {
    exploration: f64,
    window: usize,
    refused: u64,
    records: Records<W>,
}

/// The rewards in the window, oldest first.
struct Records<const W: usize> {
    records: [Record; W],
    count: usize,
}

/// Arm, reward, whether it was chosen.
type Triple = (u8, f64, bool);

impl<const W: usize> Serialize for Records<W> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let triple = |record: &Record| -> Triple { (record.arm, record.reward, record.chosen) };
        to.collect_seq(self.records[..self.count].iter().map(triple))
    }
}

impl<'de, const W: usize> Deserialize<'de> for Records<W> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let (triples, count) = from.deserialize_seq(Values::<Triple, W>(PhantomData))?;
        let records = triples.map(|(arm, reward, chosen)| Record {
            reward,
            arm,
            chosen,
        });
        Ok(Self { records, count })
    }
}

impl<const K: usize, const W: usize> From<SlidingWindowUcb<K, W>> for WindowSnapshot<K, W> {
    fn from(bandit: SlidingWindowUcb<K, W>) -> Self {
        let mut records = Records {
            records: [Record::NONE; W],
            count: 0,
        };
        let (newer, older) = bandit.records[..bandit.window].split_at(bandit.next);
        for record in older.iter().chain(newer) {
            if record.arm != NOBODY {
                records.records[records.count] = *record;
                records.count += 1;
            }
        }
        Self {
            exploration: bandit.exploration,
            window: bandit.window,
            refused: bandit.refused(),
            records,
        }
    }
}

impl<const K: usize, const W: usize> TryFrom<WindowSnapshot<K, W>> for SlidingWindowUcb<K, W> {
    type Error = BadSnapshot;

    fn try_from(snapshot: WindowSnapshot<K, W>) -> Result<Self, BadSnapshot> {
        check_exploration(snapshot.exploration)?;
        let mut bandit = Self::new(snapshot.exploration, snapshot.window);
        let good = bandit.window == snapshot.window;
        BadSnapshot::unless(good, "window", "1 to what there is place for")?;
        let Records { records, count } = snapshot.records;
        BadSnapshot::unless(count <= bandit.window, "records", "at most `window`")?;
        for record in &records[..count] {
            let arm = usize::from(record.arm);
            let fed = if record.chosen {
                bandit.update(arm, record.reward)
            } else {
                bandit.observe(arm, record.reward)
            };
            let expected = "arms that there are, and rewards from -1e100 to 1e100";
            BadSnapshot::unless(fed.is_ok(), "records", expected)?;
        }
        bandit.board.set_refused(snapshot.refused);
        Ok(bandit)
    }
}
