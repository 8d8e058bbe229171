//! Decisions that wait for their reward, found again by their number.

use crate::{ArmSet, Choice, Refused};

/// One line of a log: what was known, what was possible, what was chosen and how likely that was, what it brought.
///
/// Enough to learn from later, and to [evaluate](crate::OffPolicy) another policy on.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Logged<const D: usize> {
    /// The features, as the policy saw them.
    #[cfg_attr(feature = "serde", serde(with = "crate::linucb::array"))]
    pub context: [f64; D],
    /// The arms that could be chosen.
    #[cfg_attr(feature = "serde", serde(with = "bits"))]
    pub eligible: ArmSet,
    /// The arm that was, with its probability.
    pub choice: Choice,
    /// What it brought; larger is better.
    pub reward: f64,
}

/// A set of arms as the number whose bits they are.
#[cfg(feature = "serde")]
mod bits {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::ArmSet;

    pub(super) fn serialize<S: Serializer>(set: &ArmSet, to: S) -> Result<S::Ok, S::Error> {
        set.bits().serialize(to)
    }

    pub(super) fn deserialize<'de, R: Deserializer<'de>>(from: R) -> Result<ArmSet, R::Error> {
        u32::deserialize(from).map(ArmSet::from_bits)
    }
}

/// The number of a decision, by which its reward finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct DecisionId(u64);

impl DecisionId {
    /// Counted from 0 on.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// Up to N decisions whose rewards are still to come, in any order.
///
/// [`Settlement`](crate::Settlement) makes rewards of packets that arrive in order; this is for rewards that come by themselves and
/// name their decision. A decision is given up once N more have been [opened](Self::open): a reward that comes later is not
/// found any more.
///
/// **Cost.** Each call takes the same time, whatever N is. No allocation: D + 5 words a decision.
///
/// ```
/// use mpquic_bandit::{ArmSet, Decisions, Draw, Epsilon, LinUcb, LinUcbConfig};
///
/// let mut bandit = LinUcb::<f64, 1, 2>::new(&LinUcbConfig::default());
/// let mut open = Decisions::<1, 64>::new();
/// let (all, mut draw) = (ArmSet::first_of(2), Draw::new(1));
///
/// let context = [1.0];
/// let choice = Epsilon::new(0.1).choose(bandit.select(0.5, &context), all, &mut draw).unwrap();
/// let id = open.open(context, all, choice);
/// // … later, by its number:
/// let logged = open.reward(id, 0.7)?.expect("it is among the last 64");
/// bandit.update(logged.choice.arm, &logged.context, logged.reward)?;
/// assert!(open.reward(id, 0.7)?.is_none()); // Each has one reward.
/// # Ok::<(), mpquic_bandit::Refused>(())
/// ```
#[derive(Debug, Clone)]
pub struct Decisions<const D: usize, const N: usize> {
    /// Decision i is in slot i mod N, with its reward not known yet.
    slots: [Option<(DecisionId, Logged<D>)>; N],
    next: u64,
    given_up: u64,
}

impl<const D: usize, const N: usize> Decisions<D, N> {
    /// None yet.
    pub const fn new() -> Self {
        const { assert!(N > 0) };
        Self {
            slots: [None; N],
            next: 0,
            given_up: 0,
        }
    }

    /// A decision was made.
    pub const fn open(
        &mut self,
        context: [f64; D],
        eligible: ArmSet,
        choice: Choice,
    ) -> DecisionId {
        let id = DecisionId(self.next);
        self.next += 1;
        let slot = &mut self.slots[(id.0 % N as u64) as usize];
        if slot.is_some() {
            self.given_up += 1;
        }
        let reward = 0.0;
        *slot = Some((
            id,
            Logged {
                context,
                eligible,
                choice,
                reward,
            },
        ));
        id
    }

    /// The reward of a decision came: the whole line, or `None` if the decision has its reward or was given up.
    ///
    /// # Errors
    ///
    /// [`Refused::Reward`] if it is not finite; the decision still waits then.
    pub fn reward(&mut self, id: DecisionId, reward: f64) -> Result<Option<Logged<D>>, Refused> {
        if !reward.is_finite() {
            return Err(Refused::Reward);
        }
        Ok(self.take(id).map(|logged| Logged { reward, ..logged }))
    }

    /// The reward of a decision will never come: whether it still waited.
    pub fn abandon(&mut self, id: DecisionId) -> bool {
        let waited = self.take(id).is_some();
        self.given_up += u64::from(waited);
        waited
    }

    fn take(&mut self, id: DecisionId) -> Option<Logged<D>> {
        let slot = &mut self.slots[(id.0 % N as u64) as usize];
        let (_, logged) = slot.take_if(|(held, _)| *held == id)?;
        Some(logged)
    }

    /// How many decisions wait.
    pub fn waiting(&self) -> usize {
        self.slots.iter().flatten().count()
    }

    /// How many will never have a reward: [abandoned](Self::abandon), or too old.
    pub const fn given_up(&self) -> u64 {
        self.given_up
    }
}

impl<const D: usize, const N: usize> Default for Decisions<D, N> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: ArmSet = ArmSet::first_of(3);

    #[test]
    fn rewards_in_any_order() {
        let mut open = Decisions::<1, 4>::new();
        let ids: [_; 4] =
            core::array::from_fn(|i| open.open([i as f64], ALL, Choice::certain(i % 3)));
        for i in [2, 0, 3, 1] {
            let logged = open.reward(ids[i], 10.0 * i as f64).unwrap().unwrap();
            assert_eq!((logged.context, logged.choice.arm), ([i as f64], i % 3));
            assert_eq!(logged.reward, 10.0 * i as f64);
            assert_eq!(open.reward(ids[i], 1.0), Ok(None));
        }
        assert_eq!((open.waiting(), open.given_up()), (0, 0));
    }

    #[test]
    fn the_oldest_are_given_up() {
        let mut open = Decisions::<0, 2>::new();
        let ids: [_; 5] = core::array::from_fn(|_| open.open([], ALL, Choice::certain(0)));
        assert_eq!((open.waiting(), open.given_up()), (2, 3));
        assert_eq!(open.reward(ids[2], 1.0), Ok(None));
        assert!(open.abandon(ids[3]) && !open.abandon(ids[3]));
        assert_eq!(open.reward(ids[4], f64::NAN), Err(Refused::Reward));
        assert!(open.reward(ids[4], 1.0).unwrap().is_some());
        assert_eq!((open.waiting(), open.given_up()), (0, 4));
    }
}
