//! A satellite in low orbit: every 15 s the terminal gets another one, with another rate and another delay.

use std::time::Duration;

use mpquic_sim::Outage;

use super::channel::{Channel, rounded};
use super::radio::slots;
use super::{GaussMarkov, normal};
use crate::networks::sampling::Draws;

/// How long a satellite is kept: Mohan et al., A Multifaceted Look at Starlink Performance, WWW 2024; Huston, A transport
/// protocol's view of Starlink, APNIC 2024.
pub(super) const INTERVAL: f64 = 15.0;
/// The quartiles of the round-trip time in ms, and its least: Michel et al., A First Look at Starlink Performance, IMC 2022, to
/// anchors in Europe.
pub(super) const ROUND_TRIP: [f64; 3] = [40.0, 50.0, 60.0];
const LEAST_ROUND_TRIP: f64 = 20.0;
/// By how much the round-trip time differs from one packet to the next on average, ms: Huston 2024.
pub(super) const JITTER: f64 = 6.7;
/// The median rates in bit/s: Ookla's for Starlink in the United States, second quarter of 2021 from the server, third quarter to it.
pub(super) const RATES: [f64; 2] = [97.23e6, 13.54e6];
/// The least and the highest rate from the server: Huston 2024 saw these.
pub(super) const RANGE: [f64; 2] = [10e6, 370e6];
/// The standard deviation of the rate's logarithm over satellites; ours, so that the range is three of them.
pub(super) const SPREAD: f64 = 0.45;
/// The same within an interval, and its memory in s; ours.
const WITHIN: [f64; 2] = [0.1, 2.0];
/// How long nothing passes at a handover, ms; ours. That losses go with handovers: Kassem et al., A Browser-side View of Starlink
/// Connectivity, IMC 2022.
const GAP: [f64; 2] = [40.0, 160.0];

const SLOT: Duration = Duration::from_millis(500);

/// A channel that begins anywhere in an interval.
pub(super) fn draw(draws: &mut Draws, length: Duration) -> Channel {
    let mut noise = GaussMarkov::new(draws, WITHIN[0], WITHIN[1], SLOT);
    let mut next = INTERVAL * draws.unit();
    let mut level = (SPREAD * normal(draws)).exp();
    let (mut down, mut up) = (Vec::new(), Vec::new());
    let (mut delays, mut outages) = (vec![(Duration::ZERO, delay(draws))], Vec::new());
    for slot in 0..slots(length, SLOT) {
        let now = slot as f64 * SLOT.as_secs_f64();
        while next <= now {
            let at = Duration::from_micros((next * 1e6) as u64);
            level = (SPREAD * normal(draws)).exp();
            delays.push((at, delay(draws)));
            let gap = GAP[0] + (GAP[1] - GAP[0]) * draws.unit();
            outages.push(Outage {
                at,
                lasting: Duration::from_micros((gap * 1e3) as u64),
            });
            next += INTERVAL;
        }
        let factor = level * noise.next(draws).exp();
        let rate = (RATES[0] * factor).clamp(RANGE[0], RANGE[1]);
        down.push(rounded(rate));
        up.push(rounded(rate * RATES[1] / RATES[0]));
    }
    // The mean difference of two independent normal numbers is 2/sqrt(pi) of their deviation. Both directions vary.
    let of_round_trip = JITTER * std::f64::consts::PI.sqrt() / 2.0;
    let of_direction = of_round_trip / std::f64::consts::SQRT_2;
    Channel {
        slot: SLOT,
        down,
        up,
        delays,
        delay_sd: Duration::from_micros((of_direction * 1e3).round() as u64),
        outages,
    }
}

/// The delay of one direction over a satellite.
fn delay(draws: &mut Draws) -> Duration {
    // The quartile of the normal distribution.
    let deviation = (ROUND_TRIP[2] - ROUND_TRIP[0]) / 2.0 / 0.674_49;
    let round_trip = (ROUND_TRIP[1] + deviation * normal(draws)).max(LEAST_ROUND_TRIP);
    Duration::from_micros((round_trip * 500.0).round() as u64)
}
