//! The command line of the example.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use clap::Parser;
use mpquic::CongestionControl;

use crate::hosts::{Play, Serve};
use crate::link::LinkArgument;
use crate::pin::Pin;
use crate::protocol::Video;
use crate::schedulers::Choice;
use crate::streaming::{Options, OptionsError, bitrates};

const EXAMPLES: &str = "\
Examples:
  A minute of video over Wi-Fi and LTE, both emulated, scheduled by dqn, a trained policy that comes with this library, or
  by arrival if this program was built without the feature neural, which brings in the trained policies:
    streaming

  Between two hosts: on the one that has the video, which prints its fingerprint, and on the other, over two links:
    streaming --serve 0.0.0.0:4433 --scheduler arrival
    streaming --play 203.0.113.5:4433 --pin sha256:9f86d0.. --local 192.168.1.23 --local 10.64.3.9

  Other schedulers for comparison, 20 s each:
    streaming --scheduler arrival --seconds 20
    streaming --scheduler minrtt --seconds 20

  A policy of your own, trained by training/:
    streaming --scheduler-config '{\"model\": \"my_policy.onnx\"}'

  The network that was searched for dqn, on which it is at its best:
    streaming --path near:9:5:0:50 --path far:9:450:0:50

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

/// Plays DASH-like video over several paths: emulated ones in one process, or those between two hosts.
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
        default_values = ["wifi:12:8", "lte:8:35"],
        conflicts_with_all = ["serve", "play"],
    )]
    paths: Vec<LinkArgument>,

    /// Only serve, at this address, until stopped; repeat for more.
    #[arg(long, value_name = "ADDR", conflicts_with = "play")]
    pub(crate) serve: Vec<SocketAddr>,

    /// Only play, from the server at this address. The length and the bitrates must be the server's, or some of them.
    #[arg(long, value_name = "ADDR", requires = "pin")]
    pub(crate) play: Option<SocketAddr>,

    /// The fingerprint of the server's certificate, as it prints it.
    #[arg(long, value_name = "sha256:HEX", requires = "play")]
    pin: Option<Pin>,

    /// With --play, the local address of a path; repeat for more paths. The first path carries the handshake. By default,
    /// one path from the address that the system chooses.
    #[arg(long, value_name = "IP", requires = "play")]
    local: Vec<IpAddr>,

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
        let missing = self.scheduler.is_none() && self.play.is_none() && !has_policies();
        missing.then(|| {
            format!(
                "scheduled by {HEURISTIC}; with the trained policies, which take minutes to build: \
                 cargo run --release --features neural --example streaming"
            )
        })
    }

    fn choice(&self) -> Result<Choice, OptionsError> {
        let default = if has_policies() { POLICY } else { HEURISTIC };
        let scheduler = self.scheduler.as_deref().unwrap_or(default);
        Ok(Choice::parse(scheduler, &self.scheduler_config)?)
    }

    fn video(&self) -> Result<Video, OptionsError> {
        Ok(Video {
            chunks: self.seconds,
            length: Duration::from_secs(1),
            bitrates: bitrates(&self.bitrates)?,
        })
    }

    /// What is to be served, with `--serve`.
    pub(crate) fn serving(&self) -> Result<Serve, OptionsError> {
        Ok(Serve {
            listen: self.serve.clone(),
            scheduler: self.choice()?,
            congestion: self.congestion,
            video: self.video()?,
            seed: self.seed,
        })
    }

    /// What is to be played, with `--play`.
    pub(crate) fn playing(&self) -> Option<Result<Play, OptionsError>> {
        let (server, pin) = (self.play?, self.pin?);
        Some(self.video().map(|video| Play {
            server,
            pin,
            locals: self.local.clone(),
            congestion: self.congestion,
            video,
            buffer: self.buffer,
            live: !self.json,
        }))
    }

    /// What is to be done in one process.
    pub(crate) fn options(self) -> Result<Options, OptionsError> {
        Options {
            scheduler: self.choice()?,
            congestion: self.congestion,
            video: self.video()?,
            buffer: self.buffer,
            links: self.paths,
            seed: self.seed,
            live: !self.json,
        }
        .check()
    }
}
