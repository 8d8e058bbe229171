//! A value over time, reduced to the least, the greatest and the last value of each interval.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A value over time, thinned to intervals. Each interval in which the value changed is one point;
/// the points are stored as columns. The value stays the same between points. It does not exist
/// before the first point.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Series {
    /// For each point, the number of its interval: the time divided by the interval length, rounded
    /// down.
    pub slot: Vec<u32>,
    /// The least value in the interval, including the value at its start.
    pub min: Vec<u64>,
    /// The greatest value in the interval, including the value at its start.
    pub max: Vec<u64>,
    /// The value at the interval's end.
    pub last: Vec<u64>,
}

impl Series {
    /// Sets the value from this time on. Times must not decrease.
    pub(crate) fn set(&mut self, at: Duration, interval: Duration, value: u64) {
        let before = self.last.last().copied();
        if before == Some(value) {
            return;
        }
        let slot = at.as_nanos() / interval.as_nanos().max(1);
        let slot = u32::try_from(slot).unwrap_or(u32::MAX);
        if self.slot.last() == Some(&slot)
            && let (Some(min), Some(max), Some(last)) = (
                self.min.last_mut(),
                self.max.last_mut(),
                self.last.last_mut(),
            )
        {
            *min = value.min(*min);
            *max = value.max(*max);
            *last = value;
            return;
        }
        self.slot.push(slot);
        self.min
            .push(before.map_or(value, |before| before.min(value)));
        self.max
            .push(before.map_or(value, |before| before.max(value)));
        self.last.push(value);
    }

    /// The value at the end of the interval with this number, if it exists.
    pub fn at(&self, slot: u32) -> Option<u64> {
        let next = self.slot.partition_point(|other| *other <= slot);
        next.checked_sub(1).map(|point| self.last[point])
    }

    /// The greatest value of all, if any exists.
    pub fn greatest(&self) -> Option<u64> {
        self.max.iter().max().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_interval_keeps_its_extremes_and_its_last_value() {
        let ms = Duration::from_millis;
        let mut series = Series::default();
        assert_eq!((series.at(9), series.greatest()), (None, None));
        for (at, value) in [
            (12, 5),
            (15, 90),
            (19, 7),
            (20, 7),
            (25, 7),
            (57, 3),
            (58, 60),
        ] {
            series.set(ms(at), ms(10), value);
        }
        let expected = Series {
            slot: vec![1, 5],
            min: vec![5, 3],
            max: vec![90, 60],
            last: vec![7, 60],
        };
        assert_eq!(series, expected);
        let at = [0, 1, 4, 5, 100].map(|slot| series.at(slot));
        assert_eq!(at, [None, Some(7), Some(7), Some(60), Some(60)]);
        assert_eq!(series.greatest(), Some(90));
        let json = serde_json::to_string(&series).unwrap();
        assert_eq!(
            json,
            r#"{"slot":[1,5],"min":[5,3],"max":[90,60],"last":[7,60]}"#
        );
        assert_eq!(serde_json::from_str::<Series>(&json).unwrap(), series);
    }

    #[test]
    fn the_value_at_the_beginning_of_an_interval_counts_as_in_it() {
        let ms = Duration::from_millis;
        let mut series = Series::default();
        series.set(ms(0), ms(10), 100);
        series.set(ms(35), ms(10), 40);
        assert_eq!((series.slot, series.max), (vec![0, 3], vec![100, 100]));
    }
}
