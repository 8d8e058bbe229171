//! Replay: from the fates of a frame's packets and of those after it, would it have been in time with this much repair?

use std::collections::VecDeque;
use std::time::Duration;

use super::flow::{Frame, Packet};
use super::rates::{ARMS, RATES};

/// Of each rate, the probability that the first frame would have been in time: that it, with frames after it, misses no more packets
/// than the rate would have sent repair packets until then, each of which arrives with probability `share`.
///
/// Copies count as they came: what a rate is asked for is what they do not bring back. `way` is the shortest way to the peer.
pub(super) fn replay(
    frames: &VecDeque<Frame>,
    packets: &VecDeque<Packet>,
    base: u64,
    share: f64,
    way: Duration,
) -> [f64; ARMS] {
    let mut best = [0.0_f64; ARMS];
    let Some(judged) = frames.front() else {
        return best;
    };
    let (mut missing, mut sent) = (0_u32, [0_u32; ARMS]);
    for frame in frames {
        // Repair that left with this frame must arrive in time.
        if frame.left.is_none_or(|left| left + way > judged.deadline) {
            break;
        }
        let from = (frame.first - base) as usize;
        let own = packets.range(from..from + frame.parts as usize);
        missing += own
            .filter(|packet| {
                packet
                    .arrival
                    .is_none_or(|arrival| arrival > judged.deadline)
            })
            .count() as u32;
        if missing == 0 {
            return [1.0; ARMS];
        }
        for arm in 0..ARMS {
            sent[arm] += u32::from(frame.repairs[arm]);
            best[arm] = best[arm].max(at_least(missing, sent[arm], share));
        }
    }
    best
}

/// The probability that of `n` independent trials, each of which succeeds with `share`, at least `k` do.
fn at_least(k: u32, n: u32, share: f64) -> f64 {
    if k > n {
        return 0.0;
    }
    let share = share.clamp(1e-6, 1.0 - 1e-9);
    // Of fewer successes, one after the other.
    let mut one = (1.0 - share).powi(n as i32);
    let mut fewer = 0.0;
    for successes in 0..k {
        fewer += one;
        one *= f64::from(n - successes) / f64::from(successes + 1) * share / (1.0 - share);
    }
    (1.0 - fewer).clamp(0.0, 1.0)
}

/// How many repair packets each rate sends for each frame: what is less than a whole one is carried over.
#[derive(Debug, Default)]
pub(super) struct Carry([f64; ARMS]);

impl Carry {
    pub(super) fn frame(&mut self, parts: u32, cap: f64) -> [u8; ARMS] {
        std::array::from_fn(|arm| {
            let due = self.0[arm] + RATES[arm].min(cap) * f64::from(parts);
            let whole = due.floor();
            self.0[arm] = due - whole;
            whole.min(255.0) as u8
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binomial_tails() {
        assert_eq!(at_least(0, 0, 0.5), 1.0);
        assert_eq!(at_least(1, 0, 0.5), 0.0);
        assert!((at_least(1, 2, 0.5) - 0.75).abs() < 1e-12);
        assert!((at_least(2, 3, 0.9) - 0.972).abs() < 1e-12);
        assert!(at_least(3, 3, 1.0) > 0.999);
        assert!(at_least(1, 255, 0.0) < 0.001);
    }

    #[test]
    fn rates_carry_over() {
        let mut carry = Carry::default();
        let mut sums = [0_u32; ARMS];
        for _ in 0..100 {
            for (sum, repairs) in sums.iter_mut().zip(carry.frame(14, 0.4)) {
                *sum += u32::from(repairs);
            }
        }
        for (sum, rate) in sums.into_iter().zip(RATES) {
            assert!((f64::from(sum) - 1_400.0 * rate.min(0.4)).abs() <= 1.0);
        }
    }
}
