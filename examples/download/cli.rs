//! The command line of the example.

use std::path::PathBuf;

use clap::Parser;

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

  With a scheduler that learns, twice: the second time, it begins with what it learned the first time
  (the summary says \"from memory\"):
    download --scheduler peekaboo --memory learned.json --no-alone
    download --scheduler peekaboo --memory learned.json --no-alone

  And with what it experienced written down, for training:
    download --scheduler linucb --record linucb.traj --no-alone

  For a script:
    download --json --size 4MiB --seed 7

The time runs from the first packet of the handshake to the last byte of the content; opening the
further paths is in it, too.

What a scheduler has learned (linucb, peekaboo, ucb) is that of the server, which sends; it is told of the
download over all paths, at its end.

Exit codes: 0 done; 1 failed, the digest is wrong, or the memory or the recording cannot be written; 2 wrong usage.";

/// Downloads over two emulated paths at once, and over each alone, in one process.
#[derive(Debug, Parser)]
#[command(name = "download", after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The packet scheduler.
    #[arg(long, value_name = "NAME", default_value = "minrtt")]
    scheduler: String,

    /// The scheduler's configuration, a JSON object.
    #[arg(long, value_name = "JSON", default_value = "{}")]
    scheduler_config: String,

    /// List the schedulers there are, and do nothing else.
    #[arg(long)]
    pub(crate) list_schedulers: bool,

    /// How much to download: bytes, or with a unit such as kB, KiB, MB, MiB, GB or GiB.
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    size: Size,

    /// A path: its name, its rate in Mbit/s and its one-way delay in ms, and maybe its loss in
    /// percent and its queue in packets, the same in both directions. Give it several times; the
    /// first is the path of the handshake. The queue in front of each link holds the larger of 100
    /// packets and one bandwidth-delay product, if not told otherwise.
    #[arg(
        long = "path",
        value_name = "NAME:RATE_MBPS:OWD_MS[:LOSS[:QUEUE]]",
        default_values = ["wifi:50:10", "lte:20:35"],
    )]
    paths: Vec<LinkArgument>,

    /// Do not download over each path alone afterwards.
    #[arg(long)]
    no_alone: bool,

    /// Where the scheduler keeps what it learns of the paths: read at the start, written at the end.
    /// Paths are known by their place on the command line. A file that cannot be used is set aside
    /// as FILE.refused, and learning starts fresh.
    #[arg(long, value_name = "FILE")]
    memory: Option<PathBuf>,

    /// Records what the scheduler experiences (states, actions, rewards), for training: of each connection, with all
    /// paths and then over each alone. The format is that of `mpquic::sched::record`.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,

    /// Which content to generate; also seeds what is random in the links.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Print one JSON object in place of a table, and no progress bars.
    #[arg(long)]
    pub(crate) json: bool,
}

impl Arguments {
    pub(crate) fn options(self) -> Result<Options, OptionsError> {
        Options {
            scheduler: Choice::parse(&self.scheduler, &self.scheduler_config)?,
            size: self.size.0,
            links: self.paths,
            alone: !self.no_alone,
            memory: self.memory,
            record: self.record,
            seed: self.seed,
            progress: !self.json,
        }
        .check()
    }
}
