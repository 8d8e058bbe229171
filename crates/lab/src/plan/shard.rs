//! Shards: equal parts of the runs of an experiment, for several machines.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The most shards. The limit catches typing errors.
const MAX: usize = 100_000;

/// One of several equal parts of a numbered list of runs. Shard `i/n` has the runs whose number, from 0, leaves the remainder
/// `i - 1` when divided by `n`. Neighbours in the list are seeds of one cell, which take about the same time, so the
/// shards do, too.
///
/// ```
/// use mpquic_lab::Shard;
///
/// let shard: Shard = "2/3".parse()?;
/// assert_eq!(shard.of(8).collect::<Vec<_>>(), [1, 4, 7]);
/// assert!("4/3".parse::<Shard>().is_err());
/// # Ok::<(), mpquic_lab::ShardError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Shard {
    /// From 1.
    number: usize,
    count: usize,
}

/// A text is not a shard.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is not a shard, expected one as 2/4: the second of four")]
pub struct ShardError(String);

impl Shard {
    /// All runs.
    pub const WHOLE: Self = Self {
        number: 1,
        count: 1,
    };

    /// Which of the shards it is, from 1.
    pub const fn number(self) -> usize {
        self.number
    }

    /// How many shards there are.
    pub const fn count(self) -> usize {
        self.count
    }

    /// Whether it has the run with this number, from 0.
    pub const fn has(self, run: usize) -> bool {
        run % self.count == self.number - 1
    }

    /// The numbers of its runs, out of this many.
    pub fn of(self, runs: usize) -> impl Iterator<Item = usize> {
        (self.number - 1..runs).step_by(self.count)
    }
}

impl FromStr for Shard {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Self, ShardError> {
        let numbers = text.split_once('/').and_then(|(number, count)| {
            let parse = |text: &str| text.trim().parse::<usize>().ok();
            Some((parse(number)?, parse(count)?))
        });
        match numbers {
            Some((number, count)) if (1..=count).contains(&number) && count <= MAX => {
                Ok(Self { number, count })
            }
            _ => Err(ShardError(text.chars().take(40).collect())),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.count)
    }
}

impl TryFrom<String> for Shard {
    type Error = ShardError;

    fn try_from(text: String) -> Result<Self, ShardError> {
        text.parse()
    }
}

impl From<Shard> for String {
    fn from(shard: Shard) -> Self {
        shard.to_string()
    }
}

/// What a results file has of an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// The shard.
    pub shard: Shard,
    /// How many runs all shards have together.
    pub runs: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_is_in_one_shard() {
        for count in [1, 3, 7] {
            let mut seen = vec![0; 20];
            for number in 1..=count {
                let shard = Shard { number, count };
                for run in shard.of(20) {
                    assert!(shard.has(run));
                    seen[run] += 1;
                }
            }
            assert_eq!(seen, [1; 20], "{count}");
        }
        assert_eq!(Shard::WHOLE.of(4).count(), 4);
    }

    #[test]
    fn what_is_no_shard_is_refused() {
        for text in [
            "", "3", "0/3", "4/3", "1/0", "-1/3", "1/2/3", "a/b", "1/100001",
        ] {
            assert_eq!(text.parse::<Shard>(), Err(ShardError(text.into())));
        }
        let json = serde_json::to_string(&"2/4".parse::<Shard>().unwrap()).unwrap();
        assert_eq!(json, "\"2/4\"");
        assert!(serde_json::from_str::<Shard>("\"5/4\"").is_err());
    }
}
