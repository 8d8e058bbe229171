//! Wi-Fi while walking: Rayleigh fading, and a rate that follows the signal.

use std::f64::consts::TAU;
use std::time::Duration;

use super::channel::{Channel, rounded};
use super::radio::slots;
use crate::networks::sampling::Draws;

/// The largest Doppler shift in Hz: 1.4 m/s at 2.4 GHz.
pub(super) const DOPPLER: f64 = 1.4 * 2.4e9 / 3e8;
/// The mean signal, dBm; ours: a room away.
pub(super) const MEAN: f64 = -65.0;
/// The least signal in dBm and the rate in Mbit/s of each modulation: IEEE 802.11-2012, tables 20-23 and 20-30, 20 MHz, one stream,
/// long guard interval.
pub(super) const MODULATIONS: [(f64, f64); 8] = [
    (-82.0, 6.5),
    (-79.0, 13.0),
    (-77.0, 19.5),
    (-74.0, 26.0),
    (-70.0, 39.0),
    (-66.0, 52.0),
    (-65.0, 58.5),
    (-64.0, 65.0),
];
/// What headers, contention and acknowledgements leave of the air time for data from the server, and what the other direction has; ours.
pub(super) const AIR: [f64; 2] = [0.65, 0.2];
/// How many waves there are.
const WAVES: usize = 32;
/// A rate is kept for this long.
pub(super) const SLOT: Duration = Duration::from_millis(10);

/// The power of a flat Rayleigh channel over time, with mean 1: a sum of waves from all sides (Clarke, Bell System Technical
/// Journal 47, 1968).
pub(super) struct Rayleigh {
    /// The two quadratures of each wave as cosine and sine, and those of its turn per step.
    waves: [[f64; 6]; WAVES],
}

impl Rayleigh {
    /// The channel in steps of so many seconds.
    pub(super) fn new(draws: &mut Draws, step: f64) -> Self {
        // Evenly from all sides but for a turn, so that no two have the same shift.
        let turn = draws.unit();
        let mut waves = [[0.0; 6]; WAVES];
        for (number, wave) in waves.iter_mut().enumerate() {
            let angle = TAU * (number as f64 + turn) / WAVES as f64;
            let (turned_sin, turned_cos) = (TAU * DOPPLER * angle.cos() * step).sin_cos();
            let [first, second] = [(); 2].map(|()| (TAU * draws.unit()).sin_cos());
            *wave = [first.1, first.0, second.1, second.0, turned_cos, turned_sin];
        }
        Self { waves }
    }

    /// The power now. Each wave then turns on, which needs no cosine.
    pub(super) fn next(&mut self) -> f64 {
        let (mut first, mut second) = (0.0, 0.0);
        for [a, b, c, d, cos, sin] in &mut self.waves {
            first += *a;
            second += *c;
            (*a, *b) = (*a * *cos - *b * *sin, *a * *sin + *b * *cos);
            (*c, *d) = (*c * *cos - *d * *sin, *c * *sin + *d * *cos);
        }
        (first * first + second * second) / WAVES as f64
    }
}

/// The rate in bit/s, of the air time of one, that a signal allows.
pub(super) fn rate(signal: f64) -> f64 {
    let possible = MODULATIONS.iter().rev().find(|(least, _)| signal >= *least);
    possible.map_or(0.0, |(_, rate)| rate * 1e6)
}

pub(super) fn draw(draws: &mut Draws, length: Duration) -> Channel {
    let mut fading = Rayleigh::new(draws, SLOT.as_secs_f64());
    let (mut down, mut up) = (Vec::new(), Vec::new());
    for _ in 0..slots(length, SLOT) {
        let rate = rate(MEAN + 10.0 * fading.next().log10());
        down.push(rounded(AIR[0] * rate));
        up.push(rounded(AIR[1] * rate));
    }
    Channel {
        slot: SLOT,
        down,
        up,
        delays: Vec::new(),
        // Contention: ours.
        delay_sd: Duration::from_millis(1),
        outages: Vec::new(),
    }
}
