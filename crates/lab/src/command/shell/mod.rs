//! The command `shell`: runs a program in a network namespace whose interfaces lead through the links of a network.

#[cfg(target_os = "linux")]
mod flows;
#[cfg(target_os = "linux")]
mod namespace;
#[cfg(target_os = "linux")]
mod relay;
#[cfg(target_os = "linux")]
mod session;

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use mpquic_proto::CongestionControl;

use crate::Pattern;
use crate::command::cli::Failure;
use crate::file::experiment::Experiment;
use crate::file::network::NetworkSpec;
use crate::file::scheduler_set::Schedulers;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// An experiment file, one of whose networks is taken.
    #[arg(required_unless_present = "network", conflicts_with = "network")]
    file: Option<PathBuf>,
    /// The network: RATE DELAY [LOSS] [key=value].. per interface, with `|` between interfaces. The delay is that of one
    /// direction, and the rate counts IP packets.
    #[arg(long)]
    network: Option<String>,
    /// Of the networks of the file, the one whose name contains this text. These characters form a pattern: . * + ? [..] ^ $ |
    #[arg(long, value_name = "PATTERN", requires = "file")]
    only: Option<Pattern>,
    /// The seed of all that is random: losses, variation of the delay, what models draw.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// When the program has ended, print one JSON object of what each link carried as the last line of standard output.
    #[arg(long)]
    json: bool,
    /// The program and its arguments [default: $SHELL].
    #[arg(last = true)]
    program: Vec<OsString>,
}

/// Runs the program. Returns its exit status.
pub(crate) fn run(
    arguments: &Arguments,
    schedulers: &Schedulers,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<u8, Failure> {
    let network = match (&arguments.file, &arguments.network) {
        (Some(file), _) => of_file(file, arguments.only.as_ref(), schedulers)?,
        (None, Some(network)) => of_text(network)?,
        (None, None) => return Err(Failure::usage("expected an experiment file or --network")),
    };
    let network = network.drawn(arguments.seed).unwrap_or(network);
    let program = match &*arguments.program {
        [] => vec![std::env::var_os("SHELL").unwrap_or_else(|| "sh".into())],
        given => given.to_vec(),
    };
    #[cfg(target_os = "linux")]
    return session::run(&network, arguments.seed, &program, arguments.json, out, err);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (program, out, err);
        Err(Failure::usage(
            "network namespaces and TUN devices with names are Linux's: run the lab there, or in a virtual machine with it",
        ))
    }
}

fn of_text(network: &str) -> Result<NetworkSpec, Failure> {
    // What runs on the network is not asked for here.
    let scheduler = ["minrtt".to_owned()];
    let control = [CongestionControl::default().to_string()];
    let experiment = Experiment::of_one_network(network, "file:1MB", &scheduler, &control);
    let networks = experiment.map_err(Failure::usage)?.networks;
    let first = networks.into_iter().next();
    first.ok_or_else(|| Failure::usage("--network: there is no network"))
}

fn of_file(
    file: &Path,
    only: Option<&Pattern>,
    schedulers: &Schedulers,
) -> Result<NetworkSpec, Failure> {
    let experiment = Experiment::load_with(file, schedulers).map_err(Failure::usage)?;
    let wanted = |network: &&NetworkSpec| only.is_none_or(|only| only.matches(&network.name));
    let found: Vec<_> = experiment.networks.iter().filter(wanted).collect();
    if let [one] = *found {
        return Ok(one.clone());
    }
    let names = |networks: &[&NetworkSpec]| {
        let names = networks.iter().take(12).map(|network| &*network.name);
        let more = if networks.len() > 12 { ", .." } else { "" };
        format!("{}{more}", names.collect::<Vec<_>>().join(", "))
    };
    Err(Failure::Usage(if found.is_empty() {
        let all: Vec<_> = experiment.networks.iter().collect();
        format!("--only matches none of the networks: {}", names(&all))
    } else {
        format!(
            "{} has several networks: say which one with --only: {}",
            file.display(),
            names(&found)
        )
    }))
}
