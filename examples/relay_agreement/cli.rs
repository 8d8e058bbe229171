//! The command line of the example.

use clap::Parser;

const EXAMPLES: &str = "\
Examples:
  All scenarios, fifteen runs of each:
    relay_agreement

  Two of them, with more runs:
    relay_agreement --only het --only outage --runs 31

  For a script:
    relay_agreement --json

Both paths are open before the time runs: from the request to the last byte.

Exit codes: 0 all medians agree within 10 %; 1 one does not, or a run failed; 2 wrong usage.";

/// Runs the same downloads in the simulator and over real sockets, and compares.
#[derive(Debug, Parser)]
#[command(name = "relay_agreement", after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Only this scenario; may be given several times.
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Vec<String>,

    /// Runs of each scenario, simulated and real.
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) runs: u64,

    /// Print one JSON object in place of a table, and no progress bar.
    #[arg(long)]
    pub(crate) json: bool,
}
