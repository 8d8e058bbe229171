//! What a model draws: rates, delays and outages over time; and how a link gets them.

use std::time::Duration;

use mpquic_sim::{LinkConfig, Outage, PlannedChange};

/// A mobile link over time.
#[derive(Debug, Clone, PartialEq)]
pub struct Channel {
    /// How long each rate applies.
    pub slot: Duration,
    /// The rate of each slot from the server to the client, bit/s. At 0, packets wait.
    pub down: Vec<u64>,
    /// The same from the client to the server.
    pub up: Vec<u64>,
    /// From which time on which propagation delay applies in each direction, in ascending order; empty: that of the model.
    pub delays: Vec<(Duration, Duration)>,
    /// The standard deviation of the delay in each direction.
    pub delay_sd: Duration,
    /// When packets are lost.
    pub outages: Vec<Outage>,
}

impl Channel {
    /// How long the channel is.
    pub fn length(&self) -> Duration {
        self.slot * u32::try_from(self.down.len()).unwrap_or(u32::MAX)
    }

    /// Gives a link these rates, times `scale`, and the delays and outages.
    pub(super) fn apply(&self, link: &mut LinkConfig, rates: &[u64], scale: f64) {
        let scaled = rates.iter().map(|rate| rounded(*rate as f64 * scale));
        let mut steps: Vec<(Duration, u64)> = Vec::new();
        for (slot, rate) in scaled.enumerate() {
            if steps.last().is_none_or(|last| last.1 != rate) {
                steps.push((self.slot * slot as u32, rate));
            }
        }
        // A link on which nothing ever passes is none.
        if steps.iter().all(|step| step.1 == 0) {
            steps = vec![(Duration::ZERO, 1000)];
        }
        link.rate = None;
        *link = link.clone().with_rate_steps(steps, Some(self.length()));
        // A file may say another one.
        if link.delay_sd.is_zero() {
            link.delay_sd = self.delay_sd;
        }
        for &(at, delay) in &self.delays {
            if at.is_zero() {
                link.delay = delay;
            } else {
                link.changes.push(PlannedChange {
                    delay: Some(delay),
                    ..PlannedChange::at(at)
                });
            }
        }
        link.outages.extend(&self.outages);
    }
}

/// Three significant digits: readable, and the same on every platform although logarithms are not.
pub(super) fn rounded(rate: f64) -> u64 {
    if rate < 1.0 {
        return 0;
    }
    let unit = 10_f64.powi((rate.log10().floor() as i32 - 2).max(0));
    ((rate / unit).round() * unit) as u64
}
