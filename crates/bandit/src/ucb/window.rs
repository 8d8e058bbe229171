//! Sliding-window UCB, for rewards that change abruptly: only the newest rewards count.

use num_traits::Float;

use super::board::{self, Board};
use crate::{ArmSet, Refused};

/// The arm of a record that stands for nothing.
pub(super) const NOBODY: u8 = u8::MAX;

/// Of its peak, what a sum is at least that is not added up anew: 2^-26.
const LEAST_SHARE: f64 = 1.0 / (1_u64 << 26) as f64;

/// One reward in the window.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record {
    pub(super) reward: f64,
    pub(super) arm: u8,
    /// It is one of a choice; it was only observed otherwise.
    pub(super) chosen: bool,
}

impl Record {
    pub(super) const NONE: Self = Self {
        reward: 0.0,
        arm: NOBODY,
        chosen: false,
    };
}

/// Sliding-window UCB: the newest rewards count, and no others.
///
/// **Rule.** As [`Ucb1`](crate::Ucb1), with the largest
///
/// ```text
/// mean_i + c sqrt(2 ln n / N_i)
/// ```
///
/// where N_i are the rewards of choices of arm i among the newest rewards, as many as the window
/// holds, n is the sum of the N_i, and the mean is taken over the window too. An arm that has left
/// the window is untried again.
///
/// **Source.** Garivier and Moulines: *On Upper-Confidence Bound Policies for Switching Bandit
/// Problems*, ALT 2011, whose bonus B sqrt(xi ln(min(t, window)) / N) is ours with c = B
/// sqrt(xi / 2), B the size of the rewards and xi just above 1/2. For a horizon T with so many
/// breakpoints they choose the window 2 B sqrt(T ln T / breakpoints).
///
/// **Late rewards.** As with [`Ucb1`](crate::Ucb1); a reward is in the window from when it comes.
///
/// **Exactness.** A reward that leaves is subtracted from the sums. The sums are recomputed once per window,
/// so that rounding stays below that of two windows of additions; and one whose rounding might be more than a 2^26th of
/// what is left of it is added up anew, so that rewards from 0 on never have a mean below 0.
///
/// **Cost.** [`select`](Self::select): two flops an arm. [`update`](Self::update): 20 flops. No
/// allocation; 16 bytes a reward of the window's largest size `W`, 60 an arm.
///
/// ```
/// use mpquic_bandit::{ArmSet, SlidingWindowUcb};
///
/// let mut bandit = SlidingWindowUcb::<2, 256>::new(0.5, 100);
/// let all = ArmSet::first_of(2);
/// for _ in 0..1000 {
///     let arm = bandit.select(all).unwrap();
///     bandit.update(arm, [0.9, 0.1][arm]).unwrap();
/// }
/// let pulls = bandit.pulls(0);
/// assert!(pulls > 80 && pulls + bandit.pulls(1) == 100);
/// ```
#[derive(Debug, Clone)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(
        try_from = "super::snapshot::WindowSnapshot<K, W>",
        into = "super::snapshot::WindowSnapshot<K, W>"
    )
)]
pub struct SlidingWindowUcb<const K: usize, const W: usize> {
    pub(super) board: Board<K>,
    pub(super) exploration: f64,
    /// The window, and a place for it: the first `window` of the records.
    pub(super) window: usize,
    pub(super) records: [Record; W],
    /// Where the next reward goes; the oldest one is there.
    pub(super) next: usize,
    /// Rewards of choices, of each arm and of all.
    pulls: [u32; K],
    total: u32,
    /// Rewards and their sum, those that were only observed among them.
    seen: [u32; K],
    sum: [f64; K],
    /// The largest size of the sum since it was added up, to which its rounding belongs.
    peak: [f64; K],
    /// The sum since `next` was 0 last.
    fresh: [f64; K],
    root: f64,
}

impl<const K: usize, const W: usize> SlidingWindowUcb<K, W> {
    /// A new bandit of 1 to 32 arms. An exploration coefficient that is not a number above 0 means no
    /// exploration. The window is limited to 1 to `W` rewards.
    pub fn new(exploration: f64, window: usize) -> Self {
        const { assert!(0 < W && W <= u32::MAX as usize, "a window of 1 or more") };
        Self {
            board: Board::new(),
            exploration: board::exploration(exploration),
            window: window.clamp(1, W),
            records: [Record::NONE; W],
            next: 0,
            pulls: [0; K],
            total: 0,
            seen: [0; K],
            sum: [0.0; K],
            peak: [0.0; K],
            fresh: [0.0; K],
            root: 0.0,
        }
    }

    /// The arm to choose, `None` if none of the bandit's is eligible. Counts nothing.
    #[inline]
    pub fn select(&self, eligible: ArmSet) -> Option<usize> {
        self.board.select(self.root, eligible)
    }

    /// Reports that the arm was chosen; its reward will come later.
    ///
    /// # Errors
    ///
    /// [`Refused::Arm`].
    pub fn chosen(&mut self, arm: usize) -> Result<(), Refused> {
        self.board.arm(arm)?;
        self.board.choose(arm);
        Ok(())
    }

    /// The reward of a choice. It replaces the oldest one in the window.
    ///
    /// # Errors
    ///
    /// [`Refused::Reward`] if it is not finite or beyond 1e100 in size, [`Refused::Arm`]; only
    /// [`refused`](Self::refused) changes then.
    pub fn update(&mut self, arm: usize, reward: f64) -> Result<(), Refused> {
        self.board.reward(arm, reward)?;
        self.push(arm, reward, true);
        self.board.rewarded(arm);
        Ok(())
    }

    /// The reward that the arm would have had, if it had been chosen: it counts in the mean only, and
    /// takes a place in the window.
    ///
    /// # Errors
    ///
    /// As [`update`](Self::update).
    pub fn observe(&mut self, arm: usize, reward: f64) -> Result<(), Refused> {
        self.board.reward(arm, reward)?;
        self.push(arm, reward, false);
        Ok(())
    }

    fn push(&mut self, arm: usize, reward: f64, chosen: bool) {
        let place = &mut self.records[self.next];
        let oldest = *place;
        *place = Record {
            reward,
            arm: arm as u8,
            chosen,
        };
        let total = self.total;
        self.forget(oldest);
        self.seen[arm] += 1;
        self.sum[arm] += reward;
        self.peak[arm] = self.peak[arm].max(self.sum[arm].abs());
        self.fresh[arm] += reward;
        if chosen {
            self.pulls[arm] += 1;
            self.total += 1;
            self.widen(arm);
        }
        self.next += 1;
        if self.next == self.window {
            // All in the window came since the last time that this happened.
            self.next = 0;
            self.sum = self.fresh;
            self.peak = self.sum.map(f64::abs);
            self.fresh = [0.0; K];
            for arm in 0..K {
                self.board.mean[arm] = self.sum[arm] / f64::from(self.seen[arm].max(1));
            }
        }
        self.board.mean[arm] = self.sum[arm] / f64::from(self.seen[arm]);
        if self.total != total {
            self.root = Float::sqrt(2.0 * Float::ln(f64::from(self.total.max(1))));
        }
    }

    /// Takes a record out of the sums.
    fn forget(&mut self, record: Record) {
        let arm = usize::from(record.arm);
        if arm >= K {
            return;
        }
        self.seen[arm] -= 1;
        self.sum[arm] -= record.reward;
        if self.seen[arm] == 0 {
            (self.sum[arm], self.peak[arm]) = (0.0, 0.0);
        } else if self.sum[arm].abs() < LEAST_SHARE * self.peak[arm] {
            self.add_up(arm);
        }
        self.board.mean[arm] = self.sum[arm] / f64::from(self.seen[arm].max(1));
        if record.chosen {
            self.pulls[arm] -= 1;
            self.total -= 1;
            if self.pulls[arm] == 0 {
                self.board.unknow(arm);
            } else {
                self.widen(arm);
            }
        }
    }

    /// Computes the sum of an arm from its records, but for the newest, which is not in the sum yet.
    #[cold]
    fn add_up(&mut self, arm: usize) {
        let records = self.records[..self.window].iter().enumerate();
        let of_arm = |(place, record): &(usize, &Record)| {
            *place != self.next && usize::from(record.arm) == arm
        };
        let sum: f64 = records
            .filter(of_arm)
            .map(|(_, record)| record.reward)
            .sum();
        (self.sum[arm], self.peak[arm]) = (sum, sum.abs());
    }

    #[inline]
    fn widen(&mut self, arm: usize) {
        self.board.width[arm] = self.exploration / Float::sqrt(f64::from(self.pulls[arm]));
    }

    /// The reward of a choice that was [reported](Self::chosen) will never come.
    ///
    /// # Errors
    ///
    /// [`Refused::Arm`].
    pub fn abandon(&mut self, arm: usize) -> Result<(), Refused> {
        self.board.arm(arm)?;
        self.board.abandon(arm);
        Ok(())
    }

    /// Forgets all of an arm, as if it had never been tried; in steps of the window's size.
    ///
    /// # Errors
    ///
    /// [`Refused::Arm`].
    pub fn reset(&mut self, arm: usize) -> Result<(), Refused> {
        self.board.arm(arm)?;
        for record in &mut self.records {
            if usize::from(record.arm) == arm {
                *record = Record::NONE;
            }
        }
        self.total -= self.pulls[arm];
        (self.pulls[arm], self.seen[arm]) = (0, 0);
        (self.sum[arm], self.peak[arm], self.fresh[arm]) = (0.0, 0.0, 0.0);
        self.root = Float::sqrt(2.0 * Float::ln(f64::from(self.total.max(1))));
        self.board.reset(arm);
        Ok(())
    }

    /// The mean of the arm's rewards in the window, `None` if there are none or no such arm.
    pub fn mean(&self, arm: usize) -> Option<f64> {
        let seen = *self.seen.get(arm)? > 0;
        seen.then(|| self.board.mean[arm])
    }

    /// How many choices of the arm have their reward in the window; 0 if there is no such arm.
    pub fn pulls(&self, arm: usize) -> u64 {
        self.pulls.get(arm).copied().unwrap_or(0).into()
    }

    /// How many choices of the arm wait for their reward.
    pub fn outstanding(&self, arm: usize) -> u32 {
        self.board.outstanding(arm)
    }

    /// How often something was refused.
    pub const fn refused(&self) -> u64 {
        self.board.refused()
    }
}
