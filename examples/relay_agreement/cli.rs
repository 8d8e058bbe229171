//! The command line of the example.

use clap::Parser;

const EXAMPLES: &str = "\
Examples:
  All scenarios with fifteen runs each:
    relay_agreement

  Two scenarios with more runs:
    relay_agreement --only het --only outage --runs 31

  Is one scheduler as far ahead of another one as the simulator says?
    relay_agreement --scheduler arrival --against minrtt --runs 7

  JSON output for a script:
    relay_agreement --json

Times are from the request to the last byte. Both paths are open before the request.

Exit status:
  0  all medians agree within 10 %, and with --against, the ratios of the two schedulers' medians within 5 %
  1  one of them does not agree, or a run failed
  2  the command line is wrong";

/// Runs the same downloads in the simulator and over real sockets, and compares their times.
#[derive(Debug, Parser)]
#[command(name = "relay_agreement", after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Run only this scenario; repeat for more.
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Vec<String>,

    /// The scheduler, in place of each scenario's own.
    #[arg(long, value_name = "NAME")]
    pub(crate) scheduler: Option<String>,

    /// Run a second scheduler in turn with the first, and compare the ratios of their times.
    #[arg(long, value_name = "NAME", requires = "scheduler")]
    pub(crate) against: Option<String>,

    /// The number of runs of each scenario, both simulated and real.
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) runs: u64,

    /// Print one JSON object instead of a table, without a progress bar.
    #[arg(long)]
    pub(crate) json: bool,
}
