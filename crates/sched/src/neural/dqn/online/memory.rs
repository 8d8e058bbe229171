//! What `dqn_online` keeps of a connection for the next one over the same paths: its network, and how often it still explores.

use serde::{Deserialize, Serialize};

use super::network::{HIDDEN, Network};
use crate::memory::Recall;
use crate::{MAX_PATHS, PathKey, PathUpdate, PathUpdateKind};

/// What is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Stored")]
pub(super) struct Remembered {
    pub(super) epsilon: f64,
    weights: Vec<f32>,
}

/// The same, not checked yet.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    epsilon: f64,
    weights: Vec<f32>,
}

impl TryFrom<Stored> for Remembered {
    type Error = &'static str;

    fn try_from(stored: Stored) -> Result<Self, Self::Error> {
        let Stored { epsilon, weights } = stored;
        if !(0.0..=1.0).contains(&epsilon) {
            return Err("epsilon is not from 0 to 1");
        }
        if weights.len() != Network::<HIDDEN>::zero().parameters().count() {
            return Err("this is another network");
        }
        if !weights.iter().all(|weight| weight.is_finite()) {
            return Err("a weight is not finite");
        }
        Ok(Self { epsilon, weights })
    }
}

impl Remembered {
    pub(super) fn of(network: &Network<HIDDEN>, epsilon: f64) -> Self {
        Self {
            epsilon,
            weights: network.parameters().copied().collect(),
        }
    }

    /// Copies the weights into a network.
    pub(super) fn copy_to(&self, network: &mut Network<HIDDEN>) {
        for (to, from) in network.parameters_mut().zip(&self.weights) {
            *to = *from;
        }
    }
}

/// Which paths there are, and what is remembered of the first two.
#[derive(Debug)]
pub(super) struct Memory {
    recall: Recall,
    /// By slot.
    keys: [Option<PathKey>; MAX_PATHS],
    /// The two paths that the connection began with, in the order in which they were validated.
    pair: [Option<PathKey>; 2],
}

impl Memory {
    pub(super) const fn new(recall: Recall) -> Self {
        Self {
            recall,
            keys: [None; MAX_PATHS],
            pair: [None; 2],
        }
    }

    /// A path began or ended: what is remembered, once two are known.
    pub(super) fn on_path(&mut self, event: &PathUpdate) -> Option<Remembered> {
        let slot = event.path.get();
        match event.kind {
            PathUpdateKind::Opened | PathUpdateKind::Moved => self.keys[slot] = event.key,
            PathUpdateKind::Validated => {
                let key = event.key.or(self.keys[slot])?;
                match &mut self.pair {
                    [first @ None, _] => *first = Some(key),
                    [Some(first), second @ None] if *first != key => {
                        *second = Some(key);
                        let (one, other) = self.ordered()?;
                        return self.recall.recall(one, other);
                    }
                    _ => {}
                }
            }
            _ => {}
        }
        None
    }

    /// Keeps this for the next connection, if two paths are known.
    pub(super) fn remember(&self, what: impl FnOnce() -> Remembered) {
        if self.recall.is_some()
            && let Some((one, other)) = self.ordered()
        {
            self.recall.remember(one, other, &what());
        }
    }

    /// The network takes the paths by their round trips, so the order in which they came says nothing.
    fn ordered(&self) -> Option<(PathKey, PathKey)> {
        let [Some(one), Some(other)] = self.pair else {
            return None;
        };
        Some((one.min(other), one.max(other)))
    }
}
