//! Measures mpquic beside quinn over loopback: two processes on cores of their own, in alternating rounds.

mod child;
mod measure;
mod ours;
mod peer;
mod stack;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use child::{ClientOptions, ServerOptions};
use measure::Plan;
use ours::Ours;
use peer::Quinn;
use stack::Result;

#[derive(Debug, Parser)]
#[command(
    about = "Measures mpquic beside quinn over loopback",
    after_help = "\
Examples:
  loopback bulk                  1 GiB: goodput, CPU per byte of both sides, with and without chunks, over two paths
  loopback requests              1 KiB requests, one after another: median and 99th percentile
  loopback handshakes            CPU per handshake
  loopback many                  64 KiB requests on 1,000 connections at once
  loopback idle                  10,000 idle connections: CPU and memory
  loopback shards                64 KiB requests on 500 connections per client, a shard and a client on one core, and on two
  loopback busy                  two paths while other programs use both cores: what is sent twice

Times on a machine with other work say little. CPU per unit of work says more, and ratios of alternating rounds."
)]
struct Options {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Goodput and CPU per byte of one long transfer
    Bulk(Plan),
    /// Times of small requests
    Requests(Plan),
    /// CPU per handshake
    Handshakes(Plan),
    /// Rate and fairness of large requests on many connections
    Many(Plan),
    /// CPU and memory of connections that do nothing
    Idle(Plan),
    /// What a second core adds for many connections
    Shards(Plan),
    /// What is sent twice over two paths while other programs use both cores
    Busy(Plan),
    /// One of the measured processes
    #[command(hide = true)]
    Server {
        #[arg(long)]
        quinn: bool,
        #[command(flatten)]
        options: ServerOptions,
    },
    /// One of the measured processes
    #[command(hide = true)]
    Client {
        #[arg(long)]
        quinn: bool,
        #[command(flatten)]
        options: ClientOptions,
    },
}

fn run(role: &Role) -> Result<()> {
    match role {
        Role::Server { quinn, options } if *quinn => child::serve::<Quinn>(options),
        Role::Server { options, .. } => child::serve::<Ours>(options),
        Role::Client { quinn, options } if *quinn => child::drive::<Quinn>(options),
        Role::Client { options, .. } => child::drive::<Ours>(options),
        Role::Bulk(plan) => measure::bulk(plan),
        Role::Requests(plan) => measure::requests(plan),
        Role::Handshakes(plan) => measure::handshakes(plan),
        Role::Many(plan) => measure::many(plan),
        Role::Idle(plan) => measure::idle(plan),
        Role::Shards(plan) => measure::shards(plan),
        Role::Busy(plan) => measure::busy(plan),
    }
}

fn main() -> ExitCode {
    match run(&Options::parse().role) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("loopback: {error}");
            ExitCode::FAILURE
        }
    }
}
