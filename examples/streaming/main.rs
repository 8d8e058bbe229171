//! Plays DASH-like video over several paths: without arguments, over two emulated ones in one process, with a server, a relay per
//! path, and a player; with `--serve` and `--play`, between two hosts.
#![deny(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
#[path = "../transfer/lines.rs"]
mod lines;

#[path = "../transfer/arguments.rs"]
mod arguments;
mod cli;
mod fetch;
mod hosts;
#[path = "../transfer/lab.rs"]
mod lab;
#[path = "../transfer/link.rs"]
mod link;
#[path = "../transfer/pin.rs"]
mod pin;
mod playback;
mod protocol;
mod report;
#[path = "../transfer/schedulers.rs"]
mod schedulers;
mod screen;
mod server;
#[path = "../transfer/server_config.rs"]
mod server_config;
#[path = "../transfer/session.rs"]
mod session;
#[path = "../transfer/shares.rs"]
mod shares;
mod sparkline;
#[path = "../transfer/stop.rs"]
mod stop;
mod streaming;

use std::process::ExitCode;

use report::Report;
use streaming::Error;

/// The exit code of an interrupted program: 128 plus the number of SIGINT, as in shells.
const INTERRUPTED: u8 = 130;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: cli::Arguments = match arguments::parse() {
        Ok(arguments) => arguments,
        Err(exit) => return exit,
    };
    if arguments.list_schedulers {
        let registry = mpquic_workspace::schedulers();
        for name in registry.names() {
            say!("{name}");
        }
        return ExitCode::SUCCESS;
    }
    let done = if arguments.serve.is_empty() {
        run(arguments).await.map(|report| report.end)
    } else {
        serve(&arguments).await.map(|()| "served")
    };
    match done {
        Ok("stopped") => ExitCode::from(INTERRUPTED),
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            note!("error: {error}");
            match error {
                Error::Options(_) => ExitCode::from(arguments::USAGE),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

async fn stopped() {
    if stop::requested().await.is_err() {
        // Then it is ended as any program is.
        std::future::pending().await
    }
}

async fn serve(arguments: &cli::Arguments) -> Result<(), Error> {
    if let Some(hint) = arguments.hint() {
        note!("{hint}");
    }
    let ready = |addresses: &[std::net::SocketAddr], pin| {
        for address in addresses {
            note!("serving on {address}, pin {pin}");
        }
    };
    hosts::serve(arguments.serving()?, ready, stopped()).await
}

async fn run(arguments: cli::Arguments) -> Result<Report, Error> {
    let json = arguments.json;
    if let Some(hint) = arguments.hint() {
        note!("{hint}");
    }
    let report = match arguments.playing() {
        Some(options) => hosts::play(&options?, stopped()).await?,
        None => streaming::run(&arguments.options()?, stopped()).await?,
    };
    if json {
        say!("{}", report.to_json());
    } else {
        say!("{}", report.to_string().trim_end());
    }
    match &report.error {
        Some(error) => Err(Error::Failed(error.clone())),
        None if !report.sha256_ok => Err(Error::Digest),
        None => Ok(report),
    }
}
