//! Runs that figures share: each is made once in a call, whichever sections, experiments and labels ask for it.

use std::collections::{HashMap, HashSet};
use std::io;

use crate::plan::{Cell, Plan};
use crate::result::record::Record;
use crate::run::runner::{self, Options};

/// What decides a run: [`Cell::alike`](crate::plan::Cell::alike), and the seed.
type Key = (String, u64);

/// The runs that sections to come ask for, too.
#[derive(Debug, Default)]
pub(super) struct Runs {
    /// How many sections are still to ask.
    wanted: HashMap<Key, usize>,
    kept: HashMap<Key, Record>,
    /// How many were made, and how many were there already.
    pub(super) made: usize,
    pub(super) shared: usize,
}

impl Runs {
    /// Says before the first run what a section will ask for.
    pub(super) fn announce(&mut self, plan: &Plan<'_>) {
        for key in keys(plan) {
            *self.wanted.entry(key).or_default() += 1;
        }
    }

    /// How many runs that makes, and how many are asked for beside them.
    pub(super) fn announced(&self) -> (usize, usize) {
        let all: usize = self.wanted.values().sum();
        (self.wanted.len(), all - self.wanted.len())
    }

    /// The records of an announced plan.
    ///
    /// # Errors
    ///
    /// If the threads cannot be started.
    pub(super) fn of(&mut self, plan: &Plan<'_>, options: Options) -> io::Result<Vec<Record>> {
        let alike: Vec<_> = plan.cells.iter().map(Cell::alike).collect();
        // The first of those that are alike stands for all.
        let mut seen = HashSet::new();
        let mut firsts = plan.clone();
        firsts.cells.clear();
        let mut names = HashMap::new();
        for (cell, alike) in plan.cells.iter().zip(&alike) {
            if seen.insert(alike) {
                names.insert(cell.fingerprint.clone(), alike.clone());
                firsts.cells.push(cell.clone());
            }
        }
        let mut records = Vec::new();
        let has = |cell: &Cell<'_>, seed| {
            let alike = names.get(&cell.fingerprint).cloned().unwrap_or_default();
            self.kept.contains_key(&(alike, seed))
        };
        let done = runner::run(&firsts, options, has, |record| {
            records.push(record);
            Ok(())
        })?;
        for record in records {
            let alike = names.get(&record.cell).cloned().unwrap_or_default();
            self.kept.insert((alike, record.seed), record);
        }
        let mut all = Vec::with_capacity(plan.len());
        for (cell, alike) in plan.cells.iter().zip(alike) {
            for &seed in &plan.seeds {
                let key = (alike.clone(), seed);
                let left = self.wanted.get_mut(&key).map_or(0, |left| {
                    *left -= 1;
                    *left
                });
                let known = if left == 0 {
                    self.kept.remove(&key)
                } else {
                    self.kept.get(&key).cloned()
                };
                all.extend(known.map(|record| Record {
                    cell: cell.fingerprint.clone(),
                    network: cell.id.network.clone(),
                    workload: cell.id.workload.clone(),
                    congestion: cell.id.congestion.clone(),
                    scheduler: cell.id.scheduler.clone(),
                    ..record
                }));
            }
        }
        self.made += done.ran;
        self.shared += all.len() - done.ran;
        Ok(all)
    }
}

fn keys(plan: &Plan<'_>) -> impl Iterator<Item = Key> {
    let cells = plan.cells.iter().map(Cell::alike);
    cells.flat_map(|alike| plan.seeds.iter().map(move |&seed| (alike.clone(), seed)))
}
