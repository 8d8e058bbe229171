//! The reward of one decision, from what arrives in order after it (Peekaboo, Algorithm 1).

/// After how many packets a decision's reward is complete at the latest: 0.9^66 is the first power
/// of 0.9 below [`LEAST_WEIGHT`].
pub const MOST_PACKETS: usize = 66;

/// A packet with a smaller weight is left out of the reward, and so are all after it.
pub const LEAST_WEIGHT: f64 = 1e-3;

/// What shortens a packet's weight for the next one, by the reference time in which it is released:
/// the first, the second, the third.
const DISCOUNTS: [f64; 3] = [0.9, 0.7, 0.5];

/// The least time that a packet takes, milliseconds. On a simulated network without delay, a packet
/// would otherwise have an infinite rate.
const SHORTEST: f64 = 1e-3;

/// The weights of packets that are all released within the first reference time.
pub(crate) const WEIGHTS: [f64; MOST_PACKETS] = {
    let mut weights = [1.0; MOST_PACKETS];
    let mut place = 1;
    while place < MOST_PACKETS {
        weights[place] = weights[place - 1] * DISCOUNTS[0];
        place += 1;
    }
    weights
};

/// The discounted in-order reward of one decision, taken in packet by packet.
///
/// **Formula.** The decision is made at `t0`. Packets sent at or after it are *released* in the
/// order of their data: each one once its own bytes and all before them have arrived, whatever
/// paths carried them. The i-th of them, of `b_i` bytes, sent at `s_i` and released at `a_i`, earns
///
/// ```text
/// r_1 = b_1 / (a_1 - t0)        r_i = b_i / (a_i - s_i)  for i > 1
/// R   = Σ γ_i · r_i             γ_1 = 1
/// γ_(i+1) = γ_i · 0.9, 0.7, 0.5   if a_i - t0 lies in the first, second, third T_ref
/// ```
///
/// and nothing once `a_i - t0` is 3 · `T_ref` or more. With times in milliseconds, R is in bytes (or
/// whatever the amounts are given in) per millisecond. `T_ref` is the caller's; Peekaboo takes
/// max(2 · (R_f + s_f), R_s + s_s).
///
/// **γ shrinks with each packet**, not with time: after 22 packets it is below a tenth, however
/// long `T_ref` is. R is in effect the first dozen packets after the decision. A packet whose weight
/// would be below [`LEAST_WEIGHT`] ends the sum, at the latest the one after
/// [`MOST_PACKETS`]. All that is left out is below 1 % of the largest r.
///
/// **Source.** Wu, Alay, Brunstrom, Ferlin, Caso: *Peekaboo*, IEEE JSAC 2020, Algorithm 1. Two
/// things are ours: the first packet counts from the decision, since otherwise time spent waiting
/// would cost nothing; and packets sent before the decision are left out, since it did nothing for
/// them. So is the end of the sum at a small weight, which bounds the work.
///
/// **Cost.** One division, three multiplications a packet. Before any packet, the reward is 0.
///
/// ```
/// use mpquic_bandit::DiscountedReward;
///
/// let mut reward = DiscountedReward::new(100.0, 50.0);
/// assert_eq!(reward.value(), 0.0);
/// reward.release(110.0, 140.0, 1200.0); // 1200 / (140 - 100) = 30
/// reward.release(115.0, 155.0, 1200.0); // 0.9 · 1200 / (155 - 115) = 27
/// reward.release(120.0, 160.0, 1200.0); // in the second T_ref by now: 0.9 · 0.7 · 30 = 18.9
/// assert!((reward.value() - 75.9).abs() < 1e-9);
/// assert!(!reward.is_over(249.9) && reward.is_over(250.0));
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DiscountedReward {
    made: f64,
    reference: f64,
    weight: f64,
    total: f64,
    packets: u32,
}

impl DiscountedReward {
    /// The reward of a decision made at `made`, with this reference time, both in milliseconds. A
    /// reference time that is not above 0, or not a number, is over at once.
    pub const fn new(made: f64, reference: f64) -> Self {
        Self {
            made,
            reference,
            weight: 1.0,
            total: 0.0,
            packets: 0,
        }
    }

    /// The next packet in order was sent and released at these times, milliseconds. Ignored once the
    /// reward is complete.
    pub fn release(&mut self, sent: f64, released: f64, amount: f64) {
        let rate = match self.packets {
            0 => rate(amount, released - self.made),
            _ => rate(amount, released - sent),
        };
        self.add(rate, released);
    }

    /// The same of a packet whose r is known.
    pub(crate) fn add(&mut self, rate: f64, released: f64) {
        let age = released - self.made;
        // In this order, so that a reference time that is no number ends it.
        let phase = match self.reference {
            t if age < t => 0,
            t if age < 2.0 * t => 1,
            t if age < 3.0 * t => 2,
            _ => return,
        };
        if self.weight < LEAST_WEIGHT {
            return;
        }
        self.total += self.weight * rate;
        self.weight *= DISCOUNTS[phase];
        self.packets += 1;
    }

    /// R so far.
    pub const fn value(&self) -> f64 {
        self.total
    }

    /// How many packets it counts.
    pub const fn packets(&self) -> u32 {
        self.packets
    }

    /// Whether releases from `now` on, milliseconds, can no longer change it.
    pub fn is_over(&self, now: f64) -> bool {
        self.weight < LEAST_WEIGHT || is_over(self.made, self.reference, now)
    }
}

/// After so many reference times nothing counts any more.
pub(crate) const OVER_AFTER: f64 = DISCOUNTS.len() as f64;

/// Whether so many have passed.
#[inline]
pub(crate) fn is_over(made: f64, reference: f64, now: f64) -> bool {
    let within = now - made < OVER_AFTER * reference;
    // Not `>=`: a reference time that is no number is over.
    !within
}

/// What a packet earns that was `age` milliseconds under way.
#[inline]
pub(crate) fn rate(amount: f64, age: f64) -> f64 {
    amount / age.max(SHORTEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_fall_below_the_least_after_the_most_packets() {
        let last = WEIGHTS[MOST_PACKETS - 1];
        assert!(last >= LEAST_WEIGHT && last * DISCOUNTS[0] < LEAST_WEIGHT);
    }

    #[test]
    fn each_reference_time_has_its_discount() {
        let mut reward = DiscountedReward::new(0.0, 10.0);
        // r is 1 throughout: what the sum grows by is the weight.
        let mut weights = [0.0; 7];
        for (weight, at) in weights
            .iter_mut()
            .zip([1.0, 9.9, 10.0, 19.0, 20.0, 29.9, 30.0])
        {
            let before = reward.value();
            reward.add(1.0, at);
            *weight = reward.value() - before;
        }
        let expected = [1.0, 0.9, 0.81, 0.567, 0.3969, 0.19845, 0.0];
        for (weight, expected) in weights.iter().zip(expected) {
            assert!((weight - expected).abs() < 1e-12, "{weights:?}");
        }
        assert_eq!(reward.packets(), 6);
    }

    #[test]
    fn the_first_packet_counts_from_the_decision_and_no_time_is_zero() {
        let mut reward = DiscountedReward::new(0.0, 100.0);
        reward.release(30.0, 40.0, 400.0);
        assert_eq!(reward.value(), 10.0);
        let mut reward = DiscountedReward::new(5.0, 100.0);
        reward.release(5.0, 5.0, 1.0);
        assert_eq!(reward.value(), 1000.0);
    }

    #[test]
    fn a_reference_time_that_is_none_is_over_at_once() {
        for reference in [0.0, -1.0, f64::NAN] {
            let mut reward = DiscountedReward::new(0.0, reference);
            assert!(reward.is_over(0.0));
            reward.release(0.0, 1.0, 1.0);
            assert_eq!((reward.value(), reward.packets()), (0.0, 0));
        }
    }
}
