//! Cellular models: the signal over time, and the rate that a signal allows.

use std::time::Duration;

use super::channel::{Channel, rounded};
use super::{GaussMarkov, exponential, normal};
use crate::networks::sampling::Draws;

/// The standard deviation of shadowing in dB, and the distance in m over which it is forgotten: 3GPP TR 36.814, table
/// A.2.1.1-2, macro cells.
pub(super) const SHADOWING: [f64; 2] = [8.0, 50.0];
/// The distance of sites in m in the same table, case 1.
const SITES: f64 = 500.0;
/// The mean signal over interference and noise from the base station and to it, dB; ours.
pub(super) const SIGNAL: [f64; 2] = [8.0, 3.0];
/// The bandwidth of an LTE carrier, Hz.
pub(super) const LTE_BAND: f64 = 20e6;
/// How many others there are in the cell on average, and for how long each, s; ours. That their number changes the rate more
/// than the signal does: Raida et al., Repeatability for Spatiotemporal Throughput Measurements in LTE, VTC 2019.
pub(super) const OTHERS: [f64; 2] = [2.0, 5.0];
/// The share of the rate that is left with so many others: round robin.
pub(super) fn share(others: u32) -> f64 {
    1.0 / f64::from(others + 1)
}

/// Bit/s per Hz: Shannon's bound, attenuated and truncated, as 3GPP TR 36.942, annex A.2, has it for E-UTRA. Factor and most
/// are 0.6 and 4.4 from the base station, 0.4 and 2.0 to it; nothing passes below -10 dB.
pub(super) fn efficiency(signal: f64, [factor, most]: [f64; 2]) -> f64 {
    if signal < -10.0 {
        return 0.0;
    }
    (factor * (1.0 + 10_f64.powf(signal / 10.0)).log2()).min(most)
}

pub(super) const DOWN: [f64; 2] = [0.6, 4.4];
pub(super) const UP: [f64; 2] = [0.4, 2.0];

const SLOT: Duration = Duration::from_millis(100);

pub(super) fn slots(length: Duration, slot: Duration) -> usize {
    (length.as_secs_f64() / slot.as_secs_f64()).round() as usize
}

/// The others in the cell: they come at a constant rate and stay for an exponential time, so that their number is Poisson.
pub(super) struct Cell {
    others: u32,
}

impl Cell {
    pub(super) fn new(draws: &mut Draws) -> Self {
        let mut cell = Self { others: 0 };
        // Long enough to forget the start.
        for _ in 0..slots(Duration::from_secs_f64(10.0 * OTHERS[1]), SLOT) {
            cell.next(draws);
        }
        cell
    }

    pub(super) fn next(&mut self, draws: &mut Draws) -> u32 {
        let slot = SLOT.as_secs_f64();
        let leaving = (0..self.others).filter(|_| draws.unit() < slot / OTHERS[1]);
        self.others -= leaving.count() as u32;
        let arrives = draws.unit() < OTHERS[0] * slot / OTHERS[1];
        self.others += u32::from(arrives);
        self.others
    }
}

/// LTE at this speed (m/s), with this loss of signal (dB) in each slot.
fn lte(draws: &mut Draws, length: Duration, speed: f64, loss: impl Fn(usize) -> f64) -> Channel {
    let mut shadow = GaussMarkov::new(draws, SHADOWING[0], SHADOWING[1] / speed, SLOT);
    let mut cell = Cell::new(draws);
    let mut handover = exponential(draws, SITES / speed);
    let (mut down, mut up) = (Vec::new(), Vec::new());
    for slot in 0..slots(length, SLOT) {
        let signal = shadow.next(draws) - loss(slot);
        let left = LTE_BAND * share(cell.next(draws));
        handover -= SLOT.as_secs_f64();
        // A slot without data: the interruption of a handover is about half of it, and what follows is slow.
        let through = if handover < 0.0 {
            handover = exponential(draws, SITES / speed);
            0.0
        } else {
            left
        };
        down.push(rounded(through * efficiency(SIGNAL[0] + signal, DOWN)));
        up.push(rounded(through * efficiency(SIGNAL[1] + signal, UP)));
    }
    Channel {
        slot: SLOT,
        down,
        up,
        delays: Vec::new(),
        // One retransmission of the radio link takes 8 ms (3GPP TS 36.321); ours: of every fifth packet.
        delay_sd: Duration::from_millis(3),
        outages: Vec::new(),
    }
}

/// A car at 50 km/h.
pub(super) fn lte_car(draws: &mut Draws, length: Duration) -> Channel {
    lte(draws, length, 50.0 / 3.6, |_| 0.0)
}

/// The mean lengths of the way in the open and in a tunnel, m. Ours: Riiser et al. (MMSys 2013) publish logs of metros whose
/// signal is very low in tunnels, without a distribution.
pub(super) const TUNNEL: [f64; 2] = [1000.0, 400.0];
/// The loss of signal in a tunnel, dB; ours: almost nothing passes.
const IN_TUNNEL: f64 = 30.0;
/// How long the signal takes to fade, s: a train's length.
const RAMP: f64 = 3.0;

/// A train at 60 km/h, which starts in the open.
pub(super) fn tunnel(draws: &mut Draws, length: Duration) -> Channel {
    let speed = 60.0 / 3.6;
    let mut losses = Vec::new();
    let (mut inside, mut left, mut loss) = (false, exponential(draws, TUNNEL[0] / speed), 0.0_f64);
    for _ in 0..slots(length, SLOT) {
        left -= SLOT.as_secs_f64();
        if left < 0.0 {
            inside = !inside;
            left = exponential(draws, TUNNEL[usize::from(inside)] / speed);
        }
        let step = IN_TUNNEL / RAMP * SLOT.as_secs_f64();
        loss = (loss + if inside { step } else { -step }).clamp(0.0, IN_TUNNEL);
        losses.push(loss);
    }
    lte(draws, length, speed, |slot| {
        losses.get(slot).copied().unwrap_or(0.0)
    })
}

/// The slot of the model with blockage.
const SHORT: Duration = Duration::from_millis(20);
/// The mean duration of a blockage by a pedestrian, s: MacCartney, Rappaport and Rangan, Rapid Fading Due to Human Blockage in
/// Pedestrian Crowds at 5G Millimeter-Wave Frequencies, GLOBECOM 2017, beams of 7 degrees. Exponential, as in their two-state
/// Markov model.
pub(super) const BLOCKED: f64 = 0.299;
/// Its mean depth in the same paper, dB.
pub(super) const DEPTH: f64 = 15.8;
/// The standard deviation of the depth, dB; ours.
const DEPTH_SD: f64 = 4.0;
/// The mean time between blockages, s; ours. That it is exponential: Gapeyenko et al., IEEE Trans. Vehicular Technology 66(11), 2017.
pub(super) const CLEAR: f64 = 4.0;
/// The shadowing in the line of sight in dB, and over how many m it is forgotten: 3GPP TR 38.901, tables 7.4.1-1 and 7.5-6, UMi
/// street canyon.
const STREET: [f64; 2] = [4.0, 10.0];
/// The mean signal in the clear, dB; ours.
const NEAR: [f64; 2] = [22.0, 17.0];
/// The bandwidth of each direction of a carrier of 100 MHz in time division, Hz; ours: three of four slots are for the base
/// station.
const NR_BAND: [f64; 2] = [75e6, 25e6];

/// A walk at 5 km/h beside a cell.
pub(super) fn blockage(draws: &mut Draws, length: Duration) -> Channel {
    let mut shadow = GaussMarkov::new(draws, STREET[0], STREET[1] / (5.0 / 3.6), SHORT);
    let (mut blocked, mut left, mut depth) = (false, exponential(draws, CLEAR), 0.0);
    let (mut down, mut up) = (Vec::new(), Vec::new());
    for _ in 0..slots(length, SHORT) {
        let signal = shadow.next(draws) - depth;
        down.push(rounded(NR_BAND[0] * efficiency(NEAR[0] + signal, DOWN)));
        up.push(rounded(NR_BAND[1] * efficiency(NEAR[1] + signal, UP)));
        left -= SHORT.as_secs_f64();
        while left < 0.0 {
            blocked = !blocked;
            left += exponential(draws, if blocked { BLOCKED } else { CLEAR });
            depth = if blocked {
                (DEPTH + DEPTH_SD * normal(draws)).max(0.0)
            } else {
                0.0
            };
        }
    }
    Channel {
        slot: SHORT,
        down,
        up,
        delays: Vec::new(),
        delay_sd: Duration::from_millis(1),
        outages: Vec::new(),
    }
}
