//! What `auto` takes from earlier connections over a path, and what it leaves to the next one; keeps nothing itself.

use mpquic_sched_core::SavedPath;

use super::{Auto, Controller as _, MOST_LOST, NewPath, Path, Tally};

/// What earlier connections knew of losses by chance counts as so many of them.
const KNOWN_RUNS: u32 = 8;

impl Path {
    /// The path begins with what earlier connections left. Whether BBRv3 steers it.
    fn recall(&mut self, saved: &SavedPath, window: u64) -> bool {
        // What was wrong may be right by now: it counts for less from one connection to the next.
        self.recalled = saved.refusals / 2;
        (self.returns, self.refused) = (self.recalled, self.recalled);
        // Overflows of an earlier connection, such as that of its slow start, say nothing of this one's losses.
        if 2 * saved.chance_events >= saved.loss_events {
            let tenths = |count: u32| count as f32 / 10.0;
            let (events, chance) = (tenths(saved.loss_events), tenths(saved.chance_events));
            self.judge.recall(events, chance);
        }
        if !saved.bbr || saved.chance_loss == 0 {
            return false;
        }
        let packets = u64::from(KNOWN_RUNS) * 1_000_000 / u64::from(saved.chance_loss);
        self.chance = Tally {
            runs: KNOWN_RUNS,
            bytes: packets * u64::from(self.mtu),
        };
        self.start_stay(window.max(saved.window));
        true
    }

    /// Runs per million packets that chance has lost, before BBRv3 took over and since.
    pub(super) fn chance_loss(&self) -> u32 {
        let seen = self
            .stay
            .as_ref()
            .map_or_else(Tally::default, |stay| stay.seen);
        let all = Tally {
            runs: self.chance.runs + seen.runs,
            bytes: self.chance.bytes + seen.bytes,
        };
        (1e6 * (all.rate() * f64::from(self.mtu)).min(MOST_LOST)) as u32
    }
}

impl Auto {
    /// A path begins of which earlier connections have judged losses.
    pub(super) fn recall(&mut self, new: &NewPath, saved: &SavedPath) {
        let window = self.cubic.window(new.path);
        let Some(p) = self.watch(new.path, None) else {
            return;
        };
        if p.recall(saved, window) {
            let loss = f64::from(saved.chance_loss) / 1e6;
            self.bbr().begin(new, loss);
            self.handed.insert(new.path);
        }
    }
}
