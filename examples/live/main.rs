//! A camera over several links: `send` on the host with the links, `receive` on the other one.
#![deny(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
#[path = "../transfer/lines.rs"]
mod lines;

#[path = "../transfer/arguments.rs"]
mod arguments;
mod camera;
mod cli;
mod figures;
#[path = "../transfer/pin.rs"]
mod pin;
mod receive;
mod send;
#[path = "../transfer/stop.rs"]
mod stop;

use std::process::ExitCode;

/// The ALPN protocol name.
pub(crate) const ALPN: &[u8] = b"mpquic-live/1";

/// Why it ended early.
pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: cli::Arguments = match arguments::parse() {
        Ok(arguments) => arguments,
        Err(exit) => return exit,
    };
    let result = match arguments.mode {
        cli::Mode::Send(options) => send::run(&options).await,
        cli::Mode::Receive(options) => receive::run(&options).await,
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            note!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
