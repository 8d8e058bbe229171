//! How long a path's round trips take, as a rule: quantiles of the last 256.

use std::time::Duration;

/// How many round trips count.
const SAMPLES: usize = 256;

/// From how many on a quantile says something.
const ENOUGH: usize = 32;

/// The last round trips, in microseconds, in the order in which they came and by length.
#[derive(Debug)]
pub(super) struct Habit {
    came: Vec<u32>,
    oldest: usize,
    sorted: Vec<u32>,
}

impl Habit {
    pub(super) fn new() -> Self {
        Self {
            came: Vec::with_capacity(SAMPLES),
            oldest: 0,
            sorted: Vec::with_capacity(SAMPLES + 1),
        }
    }

    pub(super) fn push(&mut self, sample: Duration) {
        let sample = u32::try_from(sample.as_micros()).unwrap_or(u32::MAX);
        if self.came.len() < SAMPLES {
            self.came.push(sample);
        } else {
            let gone = std::mem::replace(&mut self.came[self.oldest], sample);
            self.oldest = (self.oldest + 1) % SAMPLES;
            let place = self.sorted.partition_point(|other| *other < gone);
            self.sorted.remove(place);
        }
        let place = self.sorted.partition_point(|other| *other < sample);
        self.sorted.insert(place, sample);
    }

    /// What 98 of 100 round trips do not exceed; `None` of fewer than 32.
    pub(super) fn most(&self) -> Option<Duration> {
        let len = self.sorted.len();
        (len >= ENOUGH)
            .then(|| Duration::from_micros(u64::from(self.sorted[(len * 98).div_ceil(100) - 1])))
    }

    /// The shortest one.
    pub(super) fn shortest(&self) -> Option<Duration> {
        self.sorted
            .first()
            .map(|micros| Duration::from_micros(u64::from(*micros)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_the_last_256() {
        let mut habit = Habit::new();
        let ms = Duration::from_millis;
        for i in 0..31 {
            habit.push(ms(i));
        }
        assert_eq!((habit.most(), habit.shortest()), (None, Some(ms(0))));
        for i in 0..300 {
            habit.push(ms(1_000 + i * 37 % 300));
        }
        assert!(habit.shortest() >= Some(ms(1_000)));
        let mut all: Vec<u64> = (44..300).map(|i| 1_000 + i * 37 % 300).collect();
        all.sort_unstable();
        assert_eq!(habit.most(), Some(ms(all[250])));
        assert_eq!(habit.sorted.len(), SAMPLES);
    }
}
