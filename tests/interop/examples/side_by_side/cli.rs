//! The command line.

use std::fmt;

use clap::{Parser, ValueEnum};

const EXAMPLES: &str = "\
Examples:
  2 MB over two networks, both orders, both controllers, 20 rounds:
    side_by_side

  One network, more rounds:
    side_by_side --network het --congestion cubic --runs 41

  Two ways only, JSON output for a script:
    side_by_side --variant ours:ecf --variant noq --json

Each round has one download of each variant, over new connections. Loss and jitter of the links are drawn anew in each
round. Ratios to `alone` (this crate over the better path only) are medians over the rounds, with 95 % bootstrap
intervals.

Exit status:
  0  all downloads were complete
  1  one was not
  2  the command line is wrong";

/// Downloads the same content by this crate, quinn and noq over emulated links, in turn.
#[derive(Debug, Parser)]
#[command(name = "side_by_side", after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The network: het, p-low or p-med; repeat for more [default: the first two].
    #[arg(long, value_name = "NAME")]
    pub(crate) network: Vec<String>,

    /// Which path is the first one, 1 (the better) or 2; repeat for both [default: both].
    #[arg(long, value_name = "PATH", value_parser = clap::value_parser!(u8).range(1..=2))]
    pub(crate) order: Vec<u8>,

    /// Who downloads: alone, ours:SCHEDULER, bare:SCHEDULER (without copies of the last bytes), old:SCHEDULER (the start of before), quinn, quinn:10 (with this crate's initial window of ten datagrams) or noq; repeat for more [default: all of them].
    #[arg(long, value_name = "NAME")]
    pub(crate) variant: Vec<String>,

    /// The congestion controller; repeat for more.
    #[arg(long, value_enum, default_values_t = [Congestion::Cubic, Congestion::Bbr])]
    pub(crate) congestion: Vec<Congestion>,

    /// Bytes of a download.
    #[arg(long, value_name = "N", default_value_t = 2_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) size: u64,

    /// The number of rounds.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) runs: usize,

    /// Print one JSON object instead of a table, without progress.
    #[arg(long)]
    pub(crate) json: bool,
}

/// A congestion controller that all three have, or this crate's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Congestion {
    Cubic,
    /// BBRv3; quinn has version 1.
    Bbr,
    /// This crate's default; the others have CUBIC for it.
    Auto,
}

impl fmt::Display for Congestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
            Self::Auto => "auto",
        })
    }
}
