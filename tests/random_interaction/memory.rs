//! What endpoints believe to know of their paths: of each as much as one of the plan's links, or a quarter or four times of
//! it. Round trips are right more often than not, so that paths jump.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use mpquic_proto::{PathKey, PathMemory, SavedPath};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

pub(crate) struct Hearsay {
    pub(crate) seed: u64,
    /// Bits per second, and round trip.
    pub(crate) links: Vec<(u64, Duration)>,
}

impl PathMemory for Hearsay {
    fn look_up(&self, key: PathKey, now: Duration) -> Option<SavedPath> {
        let mut hasher = DefaultHasher::new();
        (self.seed, key).hash(&mut hasher);
        let rng = &mut StdRng::seed_from_u64(hasher.finish());
        let (rate, rtt) = self.links[rng.random_range(0..self.links.len())];
        let rtt = rtt.mul_f64([1.0, 1.0, 0.5, 1.5][rng.random_range(0..4)]);
        let rate = rate as f64 / 8.0 * [0.25, 1.0, 1.0, 4.0][rng.random_range(0..4)];
        let mut saved = SavedPath::new(rtt, now);
        saved.first_rtt = rtt.mul_f64(rng.random_range(1.0..2.0));
        saved.rate = rate as u64;
        saved.window = (rate * rtt.as_secs_f64()) as u64;
        saved.chance_loss = rng.random_range(0..300_000);
        saved.confidence = rng.random_range(1..6);
        rng.random_bool(0.8).then_some(saved)
    }

    fn remember(&self, _: PathKey, _: &SavedPath) {}

    fn forget(&self, _: PathKey) {}

    fn claim(&self, _: PathKey) -> bool {
        true
    }

    fn release(&self, _: PathKey) {}
}
