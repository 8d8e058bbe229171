//! The command line of the example.

use std::time::Duration;

use clap::Parser;
use mpquic::CongestionControl;

use crate::link::LinkArgument;
use crate::protocol::Video;
use crate::schedulers::Choice;
use crate::streaming::{Options, OptionsError, bitrates};

const EXAMPLES: &str = "\
Examples:
  A minute of video over a near and a far path, scheduled by dqn, a trained policy that comes with this library, or
  by arrival if this program was built without the feature neural, which brings in the trained policies:
    streaming

  Other schedulers for comparison, 20 s each:
    streaming --scheduler arrival --seconds 20
    streaming --scheduler minrtt --seconds 20

  A policy of your own, trained by training/:
    streaming --scheduler-config '{\"model\": \"my_policy.onnx\"}'

  Another network: one path with 20 Mbit/s and 5 ms, one with 15 Mbit/s, 77 ms, 1 % loss and a queue of 50 packets:
    streaming --path wifi:20:5 --path lte:15:77:1:50

  One bitrate, with JSON output for a script:
    streaming --json --bitrates 5 --seed 7

The player requests chunks of 1 s one after the other and plays them in real time. The download rate of earlier chunks
determines the bitrate of the next one (the rule of AStream, as modified by Lee and Yoo). During playback, bars on the
terminal show the buffer, the bitrate and each path's share. Without a terminal, there is a line per chunk.

Exit status:
  0    the video was played to its end
  1    the playback failed, or a digest is wrong
  2    the command line is wrong
  130  stopped by Ctrl-C or SIGTERM; the summary is printed";

/// Plays DASH-like video over emulated paths in one process: a server, a relay per path, a player.
#[derive(Debug, Parser)]
#[command(name = "streaming", after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The packet scheduler [default: dqn, or arrival if this program was built without the feature neural].
    #[arg(long, value_name = "NAME")]
    scheduler: Option<String>,

    /// The scheduler's configuration, a JSON object.
    #[arg(
        long,
        visible_alias = "config",
        value_name = "JSON",
        default_value = "{}"
    )]
    scheduler_config: String,

    /// List the available schedulers and exit.
    #[arg(long)]
    pub(crate) list_schedulers: bool,

    /// The congestion controller: auto, cubic, newreno, bbr3, or one that couples all paths: lia, olia,
    /// balia.
    #[arg(long, value_name = "NAME", default_value_t = CongestionControl::Olia)]
    congestion: CongestionControl,

    /// The length of the video in seconds, which is the number of its chunks.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,

    /// The bitrates that the player can choose, in Mbit/s.
    #[arg(
        long,
        value_name = "MBPS",
        value_delimiter = ',',
        default_values_t = [1.0, 5.0, 10.0],
    )]
    bitrates: Vec<f64>,

    /// The most chunks that may wait for playback when the player requests the next one.
    #[arg(long, value_name = "CHUNKS", default_value_t = 2)]
    buffer: u64,

    /// A path: its name, its rate in Mbit/s, its one-way delay in ms, and optionally its loss in
    /// percent and its queue in packets. Both directions are the same. Repeat the option for more
    /// paths; the first path carries the handshake. By default, the queue of each link holds 100
    /// packets or one bandwidth-delay product, whichever is larger.
    #[arg(
        long = "path",
        value_name = "NAME:RATE_MBPS:OWD_MS[:LOSS[:QUEUE]]",
        default_values = ["near:9:5:0:50", "far:9:450:0:50"],
    )]
    paths: Vec<LinkArgument>,

    /// The seed of the content and of all randomness in the links.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Print one JSON object instead of the summary, and nothing during playback.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The scheduler if none is named, and if no policy is at hand.
const POLICY: &str = "dqn";
const HEURISTIC: &str = "arrival";

/// Whether this program has the trained policies. Asks the registry, not this package's feature: another package of
/// the same build can have it turned on.
pub(crate) fn has_policies() -> bool {
    mpquic_workspace::schedulers()
        .names()
        .any(|name| name == POLICY)
}

impl Arguments {
    /// A line for those who name no scheduler and so do not get the one that this example is about.
    pub(crate) fn hint(&self) -> Option<String> {
        let missing = self.scheduler.is_none() && !has_policies();
        missing.then(|| {
            format!(
                "scheduled by {HEURISTIC}; with the trained policies, which take minutes to build: \
                 cargo run --release --features neural --example streaming"
            )
        })
    }

    pub(crate) fn options(self) -> Result<Options, OptionsError> {
        let default = if has_policies() { POLICY } else { HEURISTIC };
        let scheduler = self.scheduler.as_deref().unwrap_or(default);
        Options {
            scheduler: Choice::parse(scheduler, &self.scheduler_config)?,
            congestion: self.congestion,
            video: Video {
                chunks: self.seconds,
                length: Duration::from_secs(1),
                bitrates: bitrates(&self.bitrates)?,
            },
            buffer: self.buffer,
            links: self.paths,
            seed: self.seed,
            live: !self.json,
        }
        .check()
    }
}
