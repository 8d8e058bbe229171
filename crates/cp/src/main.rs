//! The command line: a server, or a client that gets, puts or lists.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod program;

use std::process::ExitCode;
use std::task::Poll;
use std::time::Duration;

use clap::Parser;
use mpquic_cp::{Error, Exit, List, Name};
use mpquic_peer::note;

use program::arguments::{Arguments, Role};
use program::session::Stopping;
use program::{list, serve, transfer};

/// How long the program waits at its end for who reads its lines.
const PARTING: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    mpquic_peer::log_to_stderr();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            note!("error: no runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let ended = runtime.block_on(async {
        let mut stop = std::pin::pin!(mpquic_peer::stopped());
        // Signals are heard from here on.
        let early = std::future::poll_fn(|context| Poll::Ready(stop.as_mut().poll(context)));
        match early.await {
            Poll::Ready(stop) => Ok(stop.exit_code()),
            Poll::Pending => run(arguments.role, stop).await,
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
async fn run(role: Role, stop: Stopping<'_>) -> Result<u8, Error> {
    match role {
        Role::Serve(arguments) => serve::serve(arguments, stop).await,
        Role::Get {
            connect,
            copy,
            remote,
            local,
        } => {
            let name: Name = remote.parse()?;
            transfer::get(&connect, copy.options(), &name, &local, stop).await
        }
        Role::Put {
            connect,
            copy,
            local,
            remote,
        } => transfer::put(&connect, copy.options(), &local, remote.as_deref(), stop).await,
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
            list::list(&connect, &name, what, stop).await
        }
    }
}
