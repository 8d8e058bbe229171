//! Downloads over two emulated paths at once, and over each alone, in one process: a server, a
//! relay per path, and a client. Run it without arguments.
#![deny(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
#[path = "../transfer/lines.rs"]
mod lines;

#[path = "../transfer/arguments.rs"]
mod arguments;
mod cli;
mod content;
mod download;
#[path = "../transfer/fetch.rs"]
mod fetch;
#[path = "../transfer/lab.rs"]
mod lab;
#[path = "../transfer/link.rs"]
mod link;
#[path = "../transfer/measure.rs"]
mod measure;
#[path = "../transfer/memory.rs"]
mod memory;
#[path = "../transfer/progress.rs"]
mod progress;
#[path = "../transfer/protocol.rs"]
mod protocol;
#[path = "../transfer/recording.rs"]
mod recording;
#[path = "../transfer/report.rs"]
mod report;
#[path = "../transfer/schedulers.rs"]
mod schedulers;
#[path = "../transfer/serve.rs"]
mod serve;
#[path = "../transfer/server_config.rs"]
mod server_config;
#[path = "../transfer/session.rs"]
mod session;
#[path = "../transfer/shares.rs"]
mod shares;
mod size;

use std::process::ExitCode;

use download::Error;

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
    match run(arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            note!("error: {error}");
            match error {
                Error::Options(_) => ExitCode::from(arguments::USAGE),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

async fn run(arguments: cli::Arguments) -> Result<(), Error> {
    let json = arguments.json;
    let report = download::run(arguments.options()?).await?;
    if json {
        say!("{}", report.to_json());
    } else {
        say!("{}", report.to_string().trim_end());
    }
    if report.sha256_ok {
        Ok(())
    } else {
        Err(Error::Digest)
    }
}
