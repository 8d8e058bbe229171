//! `agree`: the lab's predictions beside the same downloads over links of the Linux kernel. Needs root.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

const EXAMPLES: &str = "\
Examples:
  All networks, five downloads each:
    agree

  One network and one congestion control:
    agree --only uneven/.*/cubic

Exit status:
  0  all predictions for our endpoints agree with the median of the downloads
  1  one of them does not
  2  there is no result: not root, not Linux, a program is missing, a mistake in the file, or a download failed";

/// Runs downloads in the lab, and over network namespaces whose links `tc tbf` shapes: by our endpoints, by kernel TCP on each path and
/// by MPTCP.
#[derive(Debug, Parser)]
#[command(name = "agree", after_help = EXAMPLES)]
struct Arguments {
    /// The experiment. Its links may have a rate, a delay and a queue in bytes.
    #[arg(default_value = "experiments/agreement.toml")]
    file: PathBuf,

    /// Run only cells whose names (network/workload/congestion/scheduler) contain this or match it as a regular expression.
    #[arg(long, value_name = "PATTERN")]
    only: Option<String>,

    /// The number of downloads of each kind.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,

    /// The time at a link's rate that its token bucket holds, microseconds. It holds two packets at least.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    bucket: u64,

    /// Leave out TCP and MPTCP.
    #[arg(long)]
    no_tcp: bool,

    /// The largest difference that counts as agreement, percent of the median.
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    tolerance: f64,

    /// Print one JSON object in place of a table.
    #[arg(long)]
    json: bool,
}

#[cfg(target_os = "linux")]
fn run(arguments: &Arguments) -> Result<bool, Box<dyn std::error::Error>> {
    use mpquic_kernel::{Options, agree};

    let options = Options {
        only: arguments.only.as_deref().map(str::parse).transpose()?,
        runs: arguments.runs,
        tcp: !arguments.no_tcp,
        bucket: std::time::Duration::from_micros(arguments.bucket),
        tolerance: arguments.tolerance / 100.0,
    };
    let report = agree(&arguments.file, &options, |row, seconds| {
        eprintln!(
            "{} {} {} {}: {seconds:.3} s",
            row.network,
            row.congestion,
            row.scheduler,
            row.kind.name()
        );
    })?;
    if arguments.json {
        println!("{}", report.to_json());
    } else {
        print!("{report}");
    }
    Ok(report.agrees())
}

#[cfg(not(target_os = "linux"))]
fn run(_: &Arguments) -> Result<bool, Box<dyn std::error::Error>> {
    Err("only Linux has network namespaces".into())
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
