//! Downloads a file from `file_server` over all given paths, and verifies its digest.
//!
//! The entry point is [`file_client::run`]. The QUIC code is in `transfer/session.rs` (a connection
//! and its paths) and `transfer/fetch.rs` (a request on a stream).

#[path = "transfer/arguments.rs"]
mod arguments;
#[path = "transfer/fetch.rs"]
mod fetch;
#[path = "transfer/file_client.rs"]
mod file_client;
#[path = "transfer/measure.rs"]
mod measure;
#[path = "transfer/progress.rs"]
mod progress;
#[path = "transfer/protocol.rs"]
mod protocol;
#[path = "transfer/report.rs"]
mod report;
#[path = "transfer/routes.rs"]
mod routes;
#[path = "transfer/save.rs"]
mod save;
#[path = "transfer/schedulers.rs"]
mod schedulers;
#[path = "transfer/session.rs"]
mod session;
#[path = "transfer/shares.rs"]
mod shares;
#[path = "transfer/stop.rs"]
mod stop;

use std::process::ExitCode;
use std::time::Duration;

use report::Report;

/// The time that the last packet gets to leave.
const FAREWELL: Duration = Duration::from_millis(100);

/// The exit code of an interrupted program: 128 plus the number of SIGINT, as in shells.
const INTERRUPTED: u8 = 130;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: file_client::Arguments = match arguments::parse() {
        Ok(arguments) => arguments,
        Err(exit) => return exit,
    };
    let show = |report: &Report| {
        if arguments.json {
            println!("{}", report.to_json());
        } else {
            print!("{report}");
        }
    };
    let result = tokio::select! {
        result = file_client::run(&arguments, show) => result,
        // Dropping the download removes the temporary file.
        _ = stop::requested() => {
            eprintln!("error: stopped");
            // The connection closes itself, but its last packet must leave before the process ends.
            tokio::time::sleep(FAREWELL).await;
            return ExitCode::from(INTERRUPTED);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
