//! Draws the links of a path, and what is special about them.

use std::time::Duration;

use mpquic_sim::{GilbertElliott, LinkConfig, PlannedChange, QueueLimit};

use super::MTU;
use crate::file::network::PathSpec;
use crate::networks::sampling::Draws;

/// The smallest queue in bytes: ten packets, below which no congestion control works.
const MIN_QUEUE: u64 = 10 * MTU as u64;
/// The smallest rate of the direction that carries acknowledgements, bit/s.
const MIN_UPLINK: f64 = 5e5;
/// How often the rate of a mobile link changes.
const SLOT: Duration = Duration::from_millis(100);
/// After this many slots, the rates of a mobile link repeat: 60 s.
const SLOTS: u32 = 600;

/// A number whose logarithm is even.
pub(super) fn log_even(draws: &mut Draws, low: f64, high: f64) -> f64 {
    (low.ln() + (high.ln() - low.ln()) * draws.unit()).exp()
}

/// Three significant digits: readable, and the same on every platform although logarithms are not.
pub(super) fn round(value: f64) -> u64 {
    let unit = 10_f64.powi((value.max(1.0).log10().floor() as i32 - 2).max(0));
    ((value / unit).round() * unit) as u64
}

/// Whole microseconds, to three significant digits.
fn time(milliseconds: f64) -> Duration {
    Duration::from_micros(round(milliseconds * 1e3))
}

/// A share with few digits.
fn share(value: f64) -> f64 {
    (value * 1e5).round() / 1e5
}

/// A path between the ends of the prior, with little loss on half of the paths, jitter on half of
/// them, and an uplink that is slower on half of them.
pub(super) fn path(draws: &mut Draws) -> PathSpec {
    let rate = log_even(draws, 1e6, 200e6);
    let delay = time(log_even(draws, 1.0, 300.0));
    let queue = log_even(draws, 0.25, 4.0);
    let mut down = LinkConfig::new(round(rate), delay);
    if draws.unit() < 0.5 {
        // Squared: strong jitter is rarer than weak jitter.
        let jitter = 30.0 * draws.unit().powi(2);
        down = down.with_rtt_variation(jitter);
    }
    let mut up = down.clone();
    if draws.unit() < 0.5 {
        let slower = log_even(draws, 2.0, 10.0);
        up.rate = Some(round((rate / slower).max(MIN_UPLINK.min(rate))));
    }
    if draws.unit() < 0.5 {
        down.loss = share(log_even(draws, 0.0001, 0.01));
    }
    for link in [&mut up, &mut down] {
        link.queue = queue_of(link, queue);
    }
    PathSpec {
        up,
        down,
        through: None,
        model: None,
    }
}

/// A queue of this many bandwidth-delay products.
pub(super) fn queue_of(link: &LinkConfig, products: f64) -> QueueLimit {
    let rate = link.rate.unwrap_or(0) as f64;
    let bytes = rate / 8.0 * 2.0 * link.delay.as_secs_f64() * products;
    QueueLimit::Bytes(round(bytes).max(MIN_QUEUE))
}

/// Independent losses of up to 3 %.
pub(super) fn lossy(path: &mut PathSpec, draws: &mut Draws) {
    path.down.loss = share(0.03 * draws.unit());
}

/// Losses of up to 3 % in bursts of 2 to 20 packets.
pub(super) fn bursts(path: &mut PathSpec, draws: &mut Draws) {
    path.down.loss = 0.0;
    let mean = share(0.03 * draws.unit());
    let burst = round(log_even(draws, 2.0, 20.0)) as f64;
    // The chain exists: 3 % is less than bursts of two packets allow.
    path.down.gilbert_elliott = GilbertElliott::from_mean(mean, burst).ok();
}

/// Makes both directions' rates vary as those of a mobile link.
///
/// No trace may be redistributed with this project, so the rates come from a model with the features
/// that measurements of mobile links have: a rate that varies by a factor of about two around its
/// level within seconds, and fades to a few percent for a fraction of a second to some seconds (for
/// example Winstein et al., NSDI 2013, section 2; Narayanan et al., SIGCOMM 2021). The logarithm of
/// the rate is an autoregressive process of first order, sampled every 100 ms.
pub(super) fn mobile(path: &mut PathSpec, draws: &mut Draws) {
    let memory = log_even(draws, 0.5, 5.0);
    let spread = 0.3 + 0.5 * draws.unit();
    let fades = log_even(draws, 5.0, 60.0);
    let keep = (-SLOT.as_secs_f64() / memory).exp();
    let (mut level, mut fading) = (normal(draws), 0_u32);
    let mut factors = Vec::new();
    for _ in 0..SLOTS {
        level = keep * level + (1.0 - keep * keep).sqrt() * normal(draws);
        if fading == 0 && draws.unit() < SLOT.as_secs_f64() / fades {
            fading = 2 + draws.below(20) as u32;
        }
        let faded = if fading > 0 { 0.05 } else { 1.0 };
        fading = fading.saturating_sub(1);
        // The mean of the logarithm is that of the path's rate; nothing is above three times that.
        factors.push(((spread * level).exp() * faded).clamp(0.02, 3.0));
    }
    for link in [&mut path.up, &mut path.down] {
        let Some(rate) = link.rate else { continue };
        let steps = factors.iter().enumerate().map(|(slot, factor)| {
            let rate = round((rate as f64 * factor).max(3e4));
            (SLOT * slot as u32, rate)
        });
        *link = link
            .clone()
            .with_rate_steps(steps.collect::<Vec<_>>(), Some(SLOT * SLOTS));
    }
}

/// A normal number, by the sum of twelve even ones.
fn normal(draws: &mut Draws) -> f64 {
    (0..12).map(|_| draws.unit()).sum::<f64>() - 6.0
}

/// One to three outages of 0.2 to 3 s in both directions.
pub(super) fn outage(path: &mut PathSpec, draws: &mut Draws) {
    let mut at = log_even(draws, 100.0, 3000.0);
    for _ in 0..=draws.below(3) {
        let lasting = log_even(draws, 200.0, 3000.0);
        for link in [&mut path.up, &mut path.down] {
            *link = link.clone().with_outage(time(at), time(lasting));
        }
        at += lasting + log_even(draws, 2000.0, 10_000.0);
    }
}

/// A path whose rate falls to 2 to 20 %, and whose delay grows up to three times, for 1 to 10 s.
pub(super) fn stuck(path: &mut PathSpec, draws: &mut Draws) {
    let at = time(log_even(draws, 100.0, 3000.0));
    let lasting = time(log_even(draws, 1000.0, 10_000.0));
    let (slower, longer) = (log_even(draws, 0.02, 0.2), 1.0 + 2.0 * draws.unit());
    for link in [&mut path.up, &mut path.down] {
        let Some(rate) = link.rate else { continue };
        let delay = link.delay;
        *link = link
            .clone()
            .with_change(PlannedChange {
                rate: Some(round((rate as f64 * slower).max(3e4))),
                delay: Some(time(delay.as_secs_f64() * 1e3 * longer)),
                ..PlannedChange::at(at)
            })
            .with_change(PlannedChange {
                rate: Some(rate),
                delay: Some(delay),
                ..PlannedChange::at(at + lasting)
            });
    }
}
