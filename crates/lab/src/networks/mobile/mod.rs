//! Mobile links from models: rates, delays and outages over time, drawn from a seed. No trace of anybody is in here.
//!
//! Each model has a file. It says which of its numbers are from a standard or a measurement, with the source, and which are ours.
//! Tests compare what is drawn with these sources. The crate `netem-trace` has constant, independent normal, sawtooth and
//! repeated rates, and so none of these.

mod channel;
mod radio;
mod satellite;
#[cfg(test)]
mod tests;
mod wifi;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use channel::Channel;

use mpquic_sim::content;

use crate::file::network::PathSpec;
use crate::networks::sampling::Draws;

/// A model of a mobile link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// A car at 50 km/h in an LTE network: shadowing, others in the cell, handovers.
    LteCar,
    /// A walk beside a millimetre-wave 5G cell: people block the line of sight.
    #[serde(rename = "5g-blockage")]
    FiveGBlockage,
    /// A satellite in low orbit: another one every 15 s.
    LeoSatellite,
    /// A walk through a Wi-Fi cell: Rayleigh fading, and rates that follow it.
    WifiWalk,
    /// A train at 60 km/h in an LTE network, in and out of tunnels.
    CommuterTunnel,
}

/// A text is not the name of a model.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("unknown model `{0}`, there are: {names}", names = Model::ALL.map(Model::name).join(", "))]
pub struct UnknownModel(String);

impl Model {
    /// All models.
    pub const ALL: [Self; 5] = [
        Self::LteCar,
        Self::FiveGBlockage,
        Self::LeoSatellite,
        Self::WifiWalk,
        Self::CommuterTunnel,
    ];

    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LteCar => "lte-car",
            Self::FiveGBlockage => "5g-blockage",
            Self::LeoSatellite => "leo-satellite",
            Self::WifiWalk => "wifi-walk",
            Self::CommuterTunnel => "commuter-tunnel",
        }
    }

    /// The mean rates over a long time, from the server and from the client, in bit/s. Rounded; a test compares them with
    /// what is drawn.
    pub const fn mean_rates(self) -> [u64; 2] {
        match self {
            Self::LteCar => [16_000_000, 6_700_000],
            Self::FiveGBlockage => [290_000_000, 45_000_000],
            Self::LeoSatellite => [110_000_000, 15_000_000],
            Self::WifiWalk => [29_000_000, 8_800_000],
            Self::CommuterTunnel => [11_500_000, 4_800_000],
        }
    }

    /// The propagation delay of one direction, as long as the model does not change it.
    pub const fn delay(self) -> Duration {
        Duration::from_millis(match self {
            Self::LteCar | Self::LeoSatellite => 25,
            Self::FiveGBlockage => 10,
            Self::WifiWalk => 5,
            Self::CommuterTunnel => 30,
        })
    }

    /// Draws a channel of this length, of at least a second. The same seed gives the same channel.
    pub fn draw(self, seed: u64, length: Duration) -> Channel {
        let length = length.max(Duration::from_secs(1));
        let draws = &mut Draws::new(content::word(seed, self as u64));
        match self {
            Self::LteCar => radio::lte_car(draws, length),
            Self::FiveGBlockage => radio::blockage(draws, length),
            Self::LeoSatellite => satellite::draw(draws, length),
            Self::WifiWalk => wifi::draw(draws, length),
            Self::CommuterTunnel => radio::tunnel(draws, length),
        }
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Model {
    type Err = UnknownModel;

    fn from_str(text: &str) -> Result<Self, UnknownModel> {
        let found = Self::ALL.into_iter().find(|model| model.name() == text);
        found.ok_or_else(|| UnknownModel(text.to_owned()))
    }
}

/// A path whose links a model draws.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MobileSpec {
    /// The model.
    pub model: Model,
    /// The seed of the channel; `None`: each run has a channel of its own, the same for all schedulers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// How long the channel is. Then the rates start over, and delays stay.
    pub length: Duration,
    /// The rates are multiplied by this.
    pub scale: f64,
}

impl MobileSpec {
    /// Puts a channel on a path's links. `seed` is that of the run and of the path.
    pub(crate) fn apply(&self, path: &mut PathSpec, seed: u64) {
        let channel = self.model.draw(self.seed.unwrap_or(seed), self.length);
        channel.apply(&mut path.down, &channel.down, self.scale);
        channel.apply(&mut path.up, &channel.up, self.scale);
    }
}

/// A normal number with mean 0 and variance 1, by the sum of twelve even ones: the same on every platform.
fn normal(draws: &mut Draws) -> f64 {
    (0..12).map(|_| draws.unit()).sum::<f64>() - 6.0
}

/// An exponential number with this mean.
fn exponential(draws: &mut Draws, mean: f64) -> f64 {
    -mean * (1.0 - draws.unit()).ln()
}

/// A Gauss-Markov process with mean 0: its autocorrelation falls to 1/e in `memory` (Gudmundson, Electronics Letters 27(23),
/// 1991, for shadowing along a way).
struct GaussMarkov {
    keep: f64,
    deviation: f64,
    value: f64,
}

impl GaussMarkov {
    fn new(draws: &mut Draws, deviation: f64, memory: f64, step: Duration) -> Self {
        Self {
            keep: (-step.as_secs_f64() / memory).exp(),
            deviation,
            value: deviation * normal(draws),
        }
    }

    fn next(&mut self, draws: &mut Draws) -> f64 {
        let now = self.value;
        let fresh = (1.0 - self.keep * self.keep).sqrt() * self.deviation;
        self.value = self.keep * self.value + fresh * normal(draws);
        now
    }
}
