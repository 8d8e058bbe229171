//! Serves the files of a directory over multipath QUIC. `file_download` is the client.
//!
//! The entry point is [`file_service::Server`], which has the endpoint and its connections.
//! Requests on streams are in `transfer/serve.rs`.

#[path = "transfer/arguments.rs"]
mod arguments;
#[path = "transfer/file_service.rs"]
mod file_service;
#[path = "transfer/files.rs"]
mod files;
#[path = "transfer/memory.rs"]
mod memory;
#[path = "transfer/protocol.rs"]
mod protocol;
#[path = "transfer/recording.rs"]
mod recording;
#[path = "transfer/schedulers.rs"]
mod schedulers;
#[path = "transfer/serve.rs"]
mod serve;
#[path = "transfer/server_config.rs"]
mod server_config;
#[path = "transfer/stop.rs"]
mod stop;
#[path = "transfer/switch.rs"]
mod switch;

use std::process::ExitCode;

use file_service::{Arguments, Error, Server};

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = match arguments::parse() {
        Ok(arguments) => arguments,
        Err(exit) => return exit,
    };
    match run(&arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

async fn run(arguments: &Arguments) -> Result<(), Error> {
    let server = Server::start(arguments)?;
    for local in server.endpoint.local_addrs() {
        println!("listening on {local}");
    }
    println!("certificate in {}", arguments.cert_out.display());
    let stop = async {
        stop::requested().await?;
        println!("stopping");
        Ok(())
    };
    server.run(stop).await
}
