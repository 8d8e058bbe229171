//! A recording's records sorted by connection and paired.

use std::collections::BTreeMap;

use super::{Decided, Event, Outcome, Recording, Rewarded, Schema};

/// What one connection's scheduler did, and what came of it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Trajectory<'a> {
    /// The connection.
    pub connection: u64,
    /// What its states and actions are.
    pub schema: &'a Schema,
    /// Its decisions, in order, each with what it earned.
    pub pairs: Vec<Pair<'a>>,
    /// Rewards of decisions that are not there: dropped, or in a segment that was let go.
    pub orphans: Vec<&'a Rewarded>,
    /// How the connection went; `None` if that is not there: the process crashed, or still records.
    pub ended: Option<&'a Outcome>,
}

/// A decision, and what it earned.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Pair<'a> {
    /// The decision.
    pub decided: &'a Decided,
    /// What it earned: one reward, several in parts, or none.
    pub rewards: Vec<&'a Rewarded>,
}

impl Recording {
    /// Sorts the records by connection, and puts the rewards to the decisions that earned them.
    pub fn trajectories(&self) -> Vec<Trajectory<'_>> {
        let mut all = BTreeMap::new();
        for (connection, schema) in &self.connections {
            let trajectory = Trajectory {
                connection: *connection,
                schema,
                pairs: Vec::new(),
                orphans: Vec::new(),
                ended: None,
            };
            // Beside it: where the decisions are, by their numbers.
            all.insert(*connection, (trajectory, BTreeMap::new()));
        }
        for event in &self.events {
            match event {
                Event::Decided(decided) => {
                    if let Some((trajectory, places)) = all.get_mut(&decided.connection) {
                        places.insert(decided.number, trajectory.pairs.len());
                        let rewards = Vec::new();
                        trajectory.pairs.push(Pair { decided, rewards });
                    }
                }
                Event::Rewarded(rewarded) => {
                    if let Some((trajectory, places)) = all.get_mut(&rewarded.connection) {
                        match places.get(&rewarded.number) {
                            Some(place) => trajectory.pairs[*place].rewards.push(rewarded),
                            None => trajectory.orphans.push(rewarded),
                        }
                    }
                }
                Event::Ended {
                    connection,
                    outcome,
                } => {
                    if let Some((trajectory, _)) = all.get_mut(connection) {
                        trajectory.ended = Some(outcome);
                    }
                }
                Event::Schema { .. } | Event::Opened { .. } => {}
            }
        }
        all.into_values()
            .map(|(trajectory, _)| trajectory)
            .collect()
    }
}
