//! Faults of the machine: links that vanish and come back, addresses that change, system calls that fail, processes and clocks that stand
//! still, while two clients move data to and from a server. What must hold: every byte is right, no connection is lost, memory comes
//! back, no task is left. What is measured: how long nothing moved.
//!
//! ```sh
//! cargo run -p mpquic-chaos -- --minutes 20 --seed 7
//! ```

#[cfg(target_os = "linux")]
mod client;
#[cfg(target_os = "linux")]
mod control;
#[cfg(target_os = "linux")]
mod director;
#[cfg(target_os = "linux")]
mod faults;
#[cfg(target_os = "linux")]
mod faulty;
#[cfg(target_os = "linux")]
mod holdings;
#[cfg(target_os = "linux")]
mod pattern;
#[cfg(target_os = "linux")]
mod place;
#[cfg(target_os = "linux")]
mod server;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// What went wrong.
#[cfg(target_os = "linux")]
type Error = Box<dyn std::error::Error + Send + Sync>;

#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: mpquic_test_support::allocator::Counting = holdings::ALLOCATOR;

/// Faults of the machine under two clients and a server, in network namespaces of their own.
#[derive(Parser, Debug)]
struct Arguments {
    /// How long faults come.
    #[arg(long, default_value_t = 1.0)]
    minutes: f64,
    /// Which faults, and when.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Tell each fault as it comes.
    #[arg(long)]
    verbose: bool,
    #[command(subcommand)]
    role: Option<Role>,
}

/// What the program starts itself as.
#[derive(Subcommand, Debug)]
#[command(hide = true)]
enum Role {
    /// Serves on two ports: over a socket that fails when told, and over the system's with two shards.
    Server,
    /// Moves data to and from a server.
    Client {
        /// `system`: the links of the machine, as `EndpointBuilder::links` has them. `faulty`: sockets that fail when told, on one
        /// thread, whose clock can stand still.
        sockets: String,
        /// Where the server is.
        server: std::net::SocketAddr,
        /// Its certificate, as hexadecimal digits.
        certificate: String,
    },
}

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match &arguments.role {
        None => director::run(arguments.minutes, arguments.seed, arguments.verbose),
        Some(Role::Server) => server::run(),
        Some(Role::Client {
            sockets,
            server,
            certificate,
        }) => client::run(sockets, *server, certificate),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("failed: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    let _ = Arguments::parse();
    println!("left out: network namespaces are Linux's");
    ExitCode::SUCCESS
}
