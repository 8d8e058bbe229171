//! The command line: a server, or a client with its local port.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod program;

use std::process::ExitCode;
use std::time::Duration;

use clap::CommandFactory as _;
use mpquic_bond::Error;
use mpquic_peer::{Given, note, say};

use program::arguments::{Arguments, Role};
use program::{connect, invite, serve};

/// How long the program waits at its end for the terminal, and for who reads its lines.
const PARTING: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let given: Given<Arguments> = Given::from_env();
    mpquic_peer::log_to_stderr();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            note!("error: no runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let ended = runtime.block_on(run(given));
    // A screen that cannot be left, on a terminal that is stopped, does not keep the program.
    runtime.shutdown_timeout(PARTING);
    mpquic_peer::drain_lines(PARTING);
    match ended {
        Ok(code) => code,
        Err(error) => {
            note!("error: {error}");
            ExitCode::from(error.exit())
        }
    }
}

async fn run(given: Given<Arguments>) -> Result<ExitCode, Error> {
    match (given.is_check, given.arguments.role.clone()) {
        (true, Role::Serve(arguments)) => serve::check(&given, &arguments)?,
        (true, Role::Connect(arguments)) => connect::check(&given, &arguments)?,
        (false, Role::Serve(arguments)) => serve::serve(&given, &arguments).await?,
        (false, Role::Connect(arguments)) => return connect::connect(arguments).await,
        (false, Role::Invite(arguments)) => invite::invite(&arguments)?,
        (false, Role::Revoke(arguments)) => invite::revoke(&arguments)?,
        (true, Role::Invite(_) | Role::Revoke(_)) => say!("{}", given.shown.trim_end()),
        (_, Role::Restore) => program::tun::restore()?,
        (_, Role::Manual { folder }) => {
            for file in mpquic_peer::write_manual(Arguments::command(), &folder)? {
                say!("{}", file.display());
            }
        }
        (_, Role::Check { .. }) => {
            let why =
                "check what? `check serve` or `check connect`, with the flags that it is to have";
            return Err(Error::Argument(why.to_owned()));
        }
    }
    Ok(ExitCode::SUCCESS)
}
