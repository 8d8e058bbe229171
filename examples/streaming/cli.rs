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
  A minute of video over a near and a far path, scheduled by the DQN policy that comes with this library:
    streaming

  Schedulers to compare with, 20 s each:
    streaming --scheduler ecf --seconds 20
    streaming --scheduler minrtt --seconds 20

  A policy of your own, trained by training/:
    streaming --config '{\"model\": \"my_policy.onnx\"}'

  Another network: 20 Mbit/s and 5 ms beside 15 Mbit/s, 77 ms, 1 % of loss and a queue of 50 packets:
    streaming --path wifi:20:5 --path lte:15:77:1:50

  One encoding, for a script:
    streaming --json --bitrates 5 --seed 7

The player asks for one chunk of 1 s after the other, at the bitrate that the chunks before it came in at (the rule
of AStream as Lee and Yoo changed it), and plays them in real time. While it plays, bars on the terminal show buffer,
bitrate, and each path's share; without a terminal there is a line for each chunk.

Exit codes: 0 played to the end; 1 failed, or a digest is wrong; 2 wrong usage; 130 stopped before (the summary is
printed).";

/// Plays DASH-like video over emulated paths, in one process: a server, a relay per path, a player.
#[derive(Debug, Parser)]
#[command(name = "streaming", after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The packet scheduler.
    #[arg(long, value_name = "NAME", default_value = "dqn")]
    scheduler: String,

    /// The scheduler's configuration, a JSON object.
    #[arg(
        long,
        visible_alias = "scheduler-config",
        value_name = "JSON",
        default_value = "{}"
    )]
    config: String,

    /// List the schedulers there are, and do nothing else.
    #[arg(long)]
    pub(crate) list_schedulers: bool,

    /// The congestion controller: cubic, newreno, bbr3, or coupled over all paths lia, olia, balia.
    #[arg(long, value_name = "NAME", default_value_t = CongestionControl::Olia)]
    congestion: CongestionControl,

    /// How much video to play, in chunks of 1 s.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,

    /// The bitrates that the player may choose from, in Mbit/s.
    #[arg(
        long,
        value_name = "MBPS",
        value_delimiter = ',',
        default_values_t = [1.0, 5.0, 10.0],
    )]
    bitrates: Vec<f64>,

    /// The most chunks that may wait to be played when the next one is asked for.
    #[arg(long, value_name = "CHUNKS", default_value_t = 2)]
    buffer: u64,

    /// A path: its name, its rate in Mbit/s and its one-way delay in ms, and maybe its loss in
    /// percent and its queue in packets, the same in both directions. Give it several times; the
    /// first is the path of the handshake. The queue in front of each link holds the larger of 100
    /// packets and one bandwidth-delay product, if not told otherwise.
    #[arg(
        long = "path",
        value_name = "NAME:RATE_MBPS:OWD_MS[:LOSS[:QUEUE]]",
        default_values = ["near:9:5:0:50", "far:9:450:0:50"],
    )]
    paths: Vec<LinkArgument>,

    /// Which content to generate; also seeds what is random in the links.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Print one JSON object in place of the summary, and nothing while it plays.
    #[arg(long)]
    pub(crate) json: bool,
}

impl Arguments {
    pub(crate) fn options(self) -> Result<Options, OptionsError> {
        Options {
            scheduler: Choice::parse(&self.scheduler, &self.config)?,
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
