//! A network of an experiment, every value fixed: paths, shared links, cross traffic, windows; the parser makes it, `setup` builds it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::LinkConfig;
use crate::units::{rate, share, time};

/// A value that sets a network apart from its siblings in a grid or a sample.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameter {
    /// What it is: the key and the path's number, as `rate1`.
    pub name: String,
    /// The value as written.
    pub value: String,
}

impl Parameter {
    pub(crate) fn new(name: &str, value: String) -> Self {
        Self {
            name: name.to_owned(),
            value,
        }
    }
}

/// One network of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NetworkSpec {
    /// Unique in its experiment: the set's name, and what sets it apart from its siblings.
    pub name: String,
    /// The description that it came from.
    pub set: String,
    /// What sets it apart, in the order of the grid.
    pub parameters: Vec<Parameter>,
    /// The paths, the handshake's first.
    pub paths: Vec<PathSpec>,
    /// Links that several paths lead through.
    pub shared: Vec<SharedSpec>,
    /// Competing connections.
    pub cross_traffic: Vec<CrossTrafficSpec>,
    /// The receive window of the connection and of each stream, bytes.
    pub receive_window: u64,
    /// The most bytes written and not acknowledged, bytes.
    pub send_window: u64,
    /// The initial congestion window, packets.
    pub initial_window: u32,
    /// UDP payload bytes per datagram.
    pub mtu: u16,
    /// Labels of the only schedulers to run here; empty: all.
    pub schedulers: Vec<String>,
}

/// A path: its links, client to server and server to client.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PathSpec {
    /// From the client to the server.
    pub up: DirectionSpec,
    /// From the server to the client.
    pub down: DirectionSpec,
    /// The shared link that both directions lead through, by name.
    pub through: Option<String>,
}

/// One direction of a path.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DirectionSpec {
    /// How it begins.
    pub link: LinkConfig,
    /// How it changes, in the order of time.
    pub steps: Vec<StepSpec>,
}

/// A change of a link at a time; what is `None` stays.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct StepSpec {
    /// When, from the start of the run.
    pub at: Duration,
    /// Bit/s.
    pub rate: Option<u64>,
    /// Propagation delay of the direction.
    pub delay: Option<Duration>,
    /// Standard deviation of the delay.
    pub delay_sd: Option<Duration>,
    /// Probability of loss.
    pub loss: Option<f64>,
}

/// A link that several paths lead through, in both directions, behind their own links.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SharedSpec {
    /// Its name in the paths' `through`.
    pub name: String,
    /// From the clients to the server.
    pub up: DirectionSpec,
    /// From the server to the clients.
    pub down: DirectionSpec,
}

/// A competing connection that sends as much as it can.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CrossTrafficSpec {
    /// Over which path, from 0 on.
    pub path: usize,
    /// Whether it sends from the client's side.
    pub from_client: bool,
    /// Its congestion control, by name.
    pub congestion: String,
    /// From when.
    pub start: Duration,
    /// Until when; `None`: to the end.
    pub stop: Option<Duration>,
}

impl NetworkSpec {
    /// The paths in words, for tables and titles.
    pub fn describe(&self) -> String {
        let paths = self.paths.iter().map(PathSpec::describe);
        paths.collect::<Vec<_>>().join(" | ")
    }
}

impl PathSpec {
    fn describe(&self) -> String {
        let mut text = self.down.describe();
        if self.up != self.down {
            // Losses on the data direction alone are the usual difference, and not worth a line.
            let mut alike = self.up.clone();
            alike.link.loss = self.down.link.loss;
            if alike != self.down {
                text = format!("down {text}, up {}", self.up.describe());
            }
        }
        if let Some(link) = &self.through {
            text += &format!(" through {link}");
        }
        text
    }
}

impl DirectionSpec {
    fn describe(&self) -> String {
        let link = &self.link;
        let rate = link.rate.map_or_else(|| "any rate".into(), rate::show);
        let mut text = format!("{rate} {}", time::show(link.delay));
        if link.loss > 0.0 {
            text += &format!(" {} loss", share::show(link.loss));
        }
        if !link.delay_sd.is_zero() {
            text += &format!(" ±{}", time::show(link.delay_sd));
        }
        if !self.steps.is_empty() {
            text += &format!(" {} changes", self.steps.len());
        }
        text
    }
}
