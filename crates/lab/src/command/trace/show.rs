//! Figures and pictures of a mobile link over time.

use mpquic_sim::MahimahiTrace;
use serde_json::{Value, json};

use crate::networks::mobile::Channel;
use crate::result::statistics::quantile;
use crate::view::report::rates_over_time;
use crate::view::text::significant;

/// Into which intervals the opportunities of a recorded trace are counted, ms.
const BIN: u64 = 100;
/// The characters of the line of rates.
const LINE: usize = 72;
/// The lags of the autocorrelation, s.
const LAGS: [f64; 3] = [0.1, 1.0, 10.0];

/// Rates in equal slots, and what a model has besides.
#[derive(Debug)]
pub(super) struct Shown {
    slot: f64,
    /// Mbit/s.
    down: Vec<f64>,
    up: Option<Vec<f64>>,
    /// One-way delays in ms, one per interval.
    delays: Vec<f64>,
    outages: usize,
    /// How long nothing passes in outages, s.
    dark: f64,
}

impl Shown {
    pub(super) fn of_channel(channel: &Channel) -> Self {
        let rates = |rates: &[u64]| rates.iter().map(|rate| *rate as f64 / 1e6).collect();
        Self {
            slot: channel.slot.as_secs_f64(),
            down: rates(&channel.down),
            up: Some(rates(&channel.up)),
            delays: channel
                .delays
                .iter()
                .map(|delay| delay.1.as_secs_f64() * 1e3)
                .collect(),
            outages: channel.outages.len(),
            dark: channel
                .outages
                .iter()
                .map(|outage| outage.lasting.as_secs_f64())
                .sum(),
        }
    }

    pub(super) fn of_trace(trace: &MahimahiTrace) -> Self {
        let mut counts = vec![0.0; trace.period_millis().div_ceil(BIN).max(1) as usize];
        for millis in trace.millis() {
            // An opportunity at the end of an interval belongs to it.
            let bin = millis.saturating_sub(1) / BIN;
            counts[bin as usize] += 1500.0 * 8.0 / (BIN as f64 / 1e3) / 1e6;
        }
        Self {
            slot: BIN as f64 / 1e3,
            down: counts,
            up: None,
            delays: Vec::new(),
            outages: 0,
            dark: 0.0,
        }
    }

    pub(super) fn json(&self) -> Value {
        let figures = |rates: &[f64]| {
            let of = Figures::new(rates, self.slot);
            json!({
                "mean": of.mean,
                "sd": of.sd,
                "quantiles": of.quantiles,
                "zero": of.zero,
                "longest_zero_s": of.longest,
                "autocorrelation": of.autocorrelation.map(|(lag, value)| json!({ "lag_s": lag, "value": value })),
            })
        };
        json!({
            "seconds": self.slot * self.down.len() as f64,
            "slot_s": self.slot,
            "down": figures(&self.down),
            "up": self.up.as_deref().map(figures),
            "delays_ms": self.delays,
            "outages": self.outages,
            "outage_s": self.dark,
        })
    }

    pub(super) fn text(&self, name: &str) -> String {
        let seconds = self.slot * self.down.len() as f64;
        let mut text = format!(
            "{name}: {} s in slots of {} ms\n",
            significant(seconds, 4),
            significant(self.slot * 1e3, 3)
        );
        let directions = [("down", Some(&self.down)), ("up", self.up.as_ref())];
        for (direction, rates) in directions {
            let Some(rates) = rates else { continue };
            let of = Figures::new(rates, self.slot);
            let [low, quarter, median, three, high] =
                of.quantiles.map(|value| significant(value, 3));
            text += &format!("\n{direction:<5}{}\n", sparkline(rates));
            text += &format!(
                "     Mbit/s: mean {}, deviation {}; quantiles 5 % {low}, 25 % {quarter}, 50 % {median}, 75 % {three}, 95 % {high}\n",
                significant(of.mean, 3),
                significant(of.sd, 3)
            );
            text += &format!(
                "     nothing passes in {} % of the time, at most {} s in a row\n",
                significant(100.0 * of.zero, 3),
                significant(of.longest, 3)
            );
            let lags = of.autocorrelation.iter().filter_map(|(lag, value)| {
                Some(format!("{} after {lag} s", significant((*value)?, 2)))
            });
            text += &format!(
                "     autocorrelation: {}\n",
                lags.collect::<Vec<_>>().join(", ")
            );
        }
        if !self.delays.is_empty() {
            let of = |q| significant(quantile(&self.delays, q), 3);
            text += &format!(
                "\ndelay, one way, ms: {} to {}, median {}, {} changes\n",
                of(0.0),
                of(1.0),
                of(0.5),
                self.delays.len() - 1
            );
        }
        if self.outages > 0 {
            text += &format!(
                "outages: {}, {} s together\n",
                self.outages,
                significant(self.dark, 3)
            );
        }
        text
    }

    pub(super) fn svg(&self, name: &str) -> String {
        let mut lines = vec![("down", &*self.down)];
        lines.extend(self.up.as_deref().map(|up| ("up", up)));
        rates_over_time(name, self.slot, &lines)
    }
}

/// The figures of one direction.
struct Figures {
    mean: f64,
    sd: f64,
    /// 5, 25, 50, 75 and 95 %.
    quantiles: [f64; 5],
    /// The share of slots in which nothing passes, and the longest such time in s.
    zero: f64,
    longest: f64,
    autocorrelation: [(f64, Option<f64>); 3],
}

impl Figures {
    fn new(rates: &[f64], slot: f64) -> Self {
        let count = rates.len().max(1) as f64;
        let mean = rates.iter().sum::<f64>() / count;
        let variance = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / count;
        let (mut longest, mut run) = (0_usize, 0);
        for rate in rates {
            run = if *rate == 0.0 { run + 1 } else { 0 };
            longest = longest.max(run);
        }
        let zero = rates.iter().filter(|rate| **rate == 0.0).count() as f64 / count;
        let autocorrelation = LAGS.map(|lag| {
            let slots = (lag / slot).round() as usize;
            let enough = slots > 0 && slots * 3 <= rates.len() && variance > 0.0;
            let value = enough.then(|| {
                let pairs = rates.iter().zip(&rates[slots..]);
                let products = pairs.map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>();
                products / (rates.len() - slots) as f64 / variance
            });
            (lag, value)
        });
        Self {
            mean,
            sd: variance.sqrt(),
            quantiles: [0.05, 0.25, 0.5, 0.75, 0.95].map(|q| quantile(rates, q)),
            zero,
            longest: longest as f64 * slot,
            autocorrelation,
        }
    }
}

/// The rates as a line of bars.
fn sparkline(rates: &[f64]) -> String {
    const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let columns = LINE.min(rates.len());
    let column = |at: usize| {
        let part = &rates[at * rates.len() / columns..(at + 1) * rates.len() / columns];
        part.iter().sum::<f64>() / part.len().max(1) as f64
    };
    let means: Vec<_> = (0..columns).map(column).collect();
    let most = means.iter().copied().fold(0.0, f64::max);
    let bar = |mean: &f64| match most > 0.0 {
        true => BARS[(mean / most * 8.0).ceil().clamp(0.0, 8.0) as usize],
        false => ' ',
    };
    means.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_a_square_wave() {
        // A second on, a second off.
        let rates: Vec<_> = (0..600)
            .map(|slot| if slot / 10 % 2 == 0 { 8.0 } else { 0.0 })
            .collect();
        let of = Figures::new(&rates, 0.1);
        assert_eq!((of.mean, of.sd, of.zero), (4.0, 4.0, 0.5));
        assert!((of.longest - 1.0).abs() < 1e-9);
        assert_eq!(of.quantiles[4], 8.0);
        let [tenth, second, ten] = of.autocorrelation.map(|(_, value)| value.unwrap());
        assert!(
            tenth > 0.75 && second < -0.99 && ten > 0.99,
            "{tenth} {second} {ten}"
        );
        let line = sparkline(&rates);
        assert_eq!(line.chars().count(), LINE);
        assert!(line.contains('█') && line.contains(' '));
    }

    #[test]
    fn opportunities_are_counted() {
        let trace = "50\n100\n100\n250\n".parse().unwrap();
        let shown = Shown::of_trace(&trace);
        let mbit = |count: f64| count * 0.12;
        let expected = [mbit(3.0), 0.0, mbit(1.0)];
        assert!(
            shown
                .down
                .iter()
                .zip(expected)
                .all(|(found, expected)| (found - expected).abs() < 1e-9)
        );
        assert!(shown.text("x").contains("0.3 s in slots of 100 ms"));
        assert!(shown.json()["up"].is_null());
        assert!(shown.svg("x").starts_with("<svg"));
    }
}
