//! The command line of the example.

use std::path::PathBuf;

use clap::Parser;
use mpquic::CongestionControl;

use crate::download::{Options, OptionsError};
use crate::link::LinkArgument;
use crate::schedulers::Choice;
use crate::size::Size;

const EXAMPLES: &str = "\
Examples:
  64 MiB over Wi-Fi and LTE, then over each alone:
    download

  Another scheduler, over three paths, without the comparison:
    download --scheduler roundrobin --scheduler-config '{\"burst\": 4}' --no-alone \\
             --path wifi:50:10 --path lte:20:35 --path satellite:5:300

  Another congestion controller, over a path that loses packets:
    download --congestion bbr3 --path wifi:50:10:1 --path lte:20:35

  A scheduler that learns, twice. The second run starts with what the first one learned
  (the summary says \"from memory\"):
    download --scheduler peekaboo --memory learned.json --no-alone
    download --scheduler peekaboo --memory learned.json --no-alone

  Twice in a row. The second connection begins with what the first one measured of the paths;
  with --cold, it does not, so that the difference is what the memory brings:
    download --size 2MiB --no-alone --again
    download --size 2MiB --no-alone --again --cold

  A recording of what a scheduler experienced, for training:
    download --scheduler linucb --record linucb.traj --no-alone

  JSON output for a script:
    download --json --size 4MiB --seed 7

Times are from the first packet of the handshake to the last byte of the content. They include the
time to open the other paths.

The summary shows what a scheduler has learned (linucb, peekaboo, ucb) at the end of the download over
all paths. This is the scheduler of the server, which sends the data.

Exit status:
  0  success
  1  the download failed, the digest is wrong, or the memory or the recording cannot be written
  2  the command line is wrong";

/// Downloads generated content over emulated paths: over all at once, then over each alone.
#[derive(Debug, Parser)]
#[command(name = "download", after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The packet scheduler.
    #[arg(long, value_name = "NAME", default_value = "arrival")]
    scheduler: String,

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
    #[arg(long, value_name = "NAME", default_value_t = CongestionControl::default())]
    congestion: CongestionControl,

    /// How much to download: a number of bytes, or one with a unit such as kB, KiB, MB, MiB, GB or
    /// GiB.
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    size: Size,

    /// A path: its name, its rate in Mbit/s, its one-way delay in ms, and optionally its loss in
    /// percent and its queue in packets. Both directions are the same. Repeat the option for more
    /// paths; the first path carries the handshake. By default, the queue of each link holds 100
    /// packets or one bandwidth-delay product, whichever is larger.
    #[arg(
        long = "path",
        value_name = "NAME:RATE_MBPS:OWD_MS[:LOSS[:QUEUE]]",
        default_values = ["wifi:50:10", "lte:20:35"],
    )]
    paths: Vec<LinkArgument>,

    /// Skip the downloads over each path alone.
    #[arg(long)]
    no_alone: bool,

    /// Download a second time over all paths, by a new connection that remembers the paths, and
    /// compare it with the first.
    #[arg(long)]
    again: bool,

    /// Begin every connection without what earlier ones measured of the paths. What the scheduler
    /// learned is not affected.
    #[arg(long)]
    cold: bool,

    /// The file in which the scheduler keeps what it learns about the paths, and the server what it
    /// measures of them (rate, round-trip time). It is read at the start and written at the end. Paths are identified by their position on the command line. An
    /// invalid file is renamed to FILE.refused, and learning starts afresh.
    #[arg(long, value_name = "FILE")]
    memory: Option<PathBuf>,

    /// Record what the scheduler experiences (states, actions, rewards) for training: first with
    /// all paths, then over each alone. The format is that of `mpquic::sched::record`.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,

    /// The seed of the content and of all randomness in the links.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Print one JSON object instead of a table, without progress bars.
    #[arg(long)]
    pub(crate) json: bool,
}

impl Arguments {
    pub(crate) fn options(self) -> Result<Options, OptionsError> {
        Options {
            scheduler: Choice::parse(&self.scheduler, &self.scheduler_config)?,
            congestion: self.congestion,
            size: self.size.0,
            links: self.paths,
            again: self.again,
            cold: self.cold,
            alone: !self.no_alone,
            memory: self.memory,
            record: self.record,
            seed: self.seed,
            progress: !self.json,
        }
        .check()
    }
}
