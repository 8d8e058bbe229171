//! The command line: a server, or a client that gets, puts or lists.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod program;

use std::process::ExitCode;
use std::task::Poll;
use std::time::Duration;

use clap::CommandFactory as _;
use mpquic_cp::{Error, Exit, List, Name};
use mpquic_peer::{Given, Hangups, note, say};

use program::arguments::{Arguments, Role};
use program::change::Change;
use program::places::{Get, Put, Sync};
use program::session::Stopping;
use program::{change, invite, list, serve, session, share, transfer};

/// How long the program waits at its end for who reads its lines.
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
    let ended = runtime.block_on(async {
        // A server with a file of settings or users reads that again on SIGHUP.
        let reads_again = match &given.arguments.role {
            Role::Serve(serve) => given.file.is_some() || serve.users.is_some(),
            _ => false,
        };
        let (hangups, stop) = Hangups::of(reads_again);
        let mut stop = std::pin::pin!(stop);
        // Signals are heard from here on.
        let early = std::future::poll_fn(|context| Poll::Ready(stop.as_mut().poll(context)));
        match early.await {
            Poll::Ready(stop) => Ok(stop.exit_code()),
            Poll::Pending => run(given, stop, hangups).await,
        }
    });
    // Files may be open that nobody waits for.
    runtime.shutdown_background();
    mpquic_peer::drain_lines(PARTING);
    match ended {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let advice = match error.exit() {
                Exit::Lost => "; the same command goes on where it stopped",
                _ => "",
            };
            note!("error: {error}{advice}");
            ExitCode::from(error.exit() as u8)
        }
    }
}

/// Does it. Returns the exit code.
async fn run(given: Given<Arguments>, stop: Stopping<'_>, hangups: Hangups) -> Result<u8, Error> {
    let role = given.arguments.role.clone();
    if given.is_check {
        match &role {
            Role::Serve(arguments) => serve::check(&given, arguments)?,
            Role::Get { connect, .. }
            | Role::Put { connect, .. }
            | Role::Sync { connect, .. }
            | Role::Ls { connect, .. }
            | Role::Mkdir { connect, .. }
            | Role::Mv { connect, .. }
            | Role::Rm { connect, .. } => {
                session::check(&given, connect)?;
            }
            Role::Share(_) | Role::Invite(_) | Role::Revoke(_) => {
                say!("{}", given.shown.trim_end());
            }
            Role::Check { .. } | Role::Manual { .. } => {}
        }
        return Ok(0);
    }
    match role {
        Role::Serve(arguments) => serve::serve(&given, &arguments, stop, hangups).await,
        Role::Mkdir { connect, remote } => {
            change::change(&connect, &Change::MakeFolder(remote.parse()?), stop).await
        }
        Role::Mv { connect, from, to } => {
            change::change(&connect, &Change::rename(&from, &to)?, stop).await
        }
        Role::Rm {
            connect,
            remote,
            recursive,
        } => {
            let name: Name = remote.parse()?;
            change::change(&connect, &Change::Remove(name, recursive), stop).await
        }
        Role::Share(arguments) => share::share(&arguments, stop).await,
        Role::Invite(arguments) => invite::invite(&arguments),
        Role::Revoke(arguments) => invite::revoke(&arguments),
        Role::Manual { folder } => {
            for file in mpquic_peer::write_manual(Arguments::command(), &folder)? {
                say!("{}", file.display());
            }
            Ok(0)
        }
        Role::Check { .. } => {
            let why =
                "check what? `check serve`, or get, put or ls, with the flags that it is to have";
            Err(Error::Argument(why.to_owned()))
        }
        Role::Get {
            connect,
            copy,
            names,
        } => {
            let way = connect.way()?;
            let what = Get::new(&way, names)?;
            transfer::get(&connect, way, copy.options()?, what, stop).await
        }
        Role::Put {
            connect,
            copy,
            names,
        } => {
            let (what, options) = (Put::new(names)?, copy.options()?);
            transfer::put(&connect, connect.way()?, options, what, stop).await
        }
        Role::Sync {
            connect,
            choice,
            delete,
            checksum,
            from,
            to,
        } => {
            let what = Sync::new(&from, &to)?;
            let mut options = choice.options()?;
            (options.overwrite, options.delete, options.quick) = (true, delete, !checksum);
            transfer::sync(&connect, connect.way()?, options, what, stop).await
        }
        Role::Ls {
            connect,
            remote,
            recursive,
            links,
        } => {
            let name: Name = remote.parse()?;
            let what = List {
                deep: recursive,
                links,
            };
            list::list(&connect, connect.way()?, &name, what, stop).await
        }
    }
}
