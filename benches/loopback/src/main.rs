//! Measures mpquic beside quinn over loopback: two processes on cores of their own, in alternating rounds.

mod child;
mod everyday;
mod floor;
mod links;
mod measure;
mod ours;
mod peer;
mod process;
mod rows;
mod seal;
mod stack;
mod storm;
mod tcp;
mod tls;

use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};

use child::{ClientOptions, ServerOptions};
use everyday::Everyday;
use floor::Floor;
use measure::Plan;
use ours::Ours;
use peer::{Noq, Quinn};
use stack::Result;
use tcp::Tcp;
use tls::Tls;

#[derive(Debug, Parser)]
#[command(
    about = "Measures mpquic beside quinn over loopback",
    after_help = "\
Examples:
  loopback everyday              what people have: 5 to 1,000 Mbit/s, delay, two paths, small requests, handshakes; as root, with
                                 namespaces and token buckets. 10 minutes; --list names the rows
  loopback bulk                  1 GiB: goodput, CPU per byte of both sides, with and without chunks, over two paths;
                                 and what the system's calls and the encryption take alone, with UDP and with TCP
  loopback requests              1 KiB requests, one after another: median and 99th percentile
  loopback handshakes            CPU per handshake
  loopback storm                 4,000 handshakes at once: how long an honest one takes then, and before
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

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    Mpquic,
    Quinn,
    Noq,
    /// UDP and encryption, and no protocol
    Floor,
    /// TCP and encryption
    Tcp,
    /// TCP and rustls
    Tls,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Everyday rates, small requests and handshakes, beside quinn, noq and TCP with rustls: a table
    Everyday(Everyday),
    /// Goodput and CPU per byte of one long transfer
    Bulk(Plan),
    /// Times of small requests
    Requests(Plan),
    /// CPU per handshake
    Handshakes(Plan),
    /// What 4,000 handshakes at once cost an honest one
    Storm(Plan),
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
        stack: Kind,
        #[command(flatten)]
        options: ServerOptions,
    },
    /// One of the measured processes
    #[command(hide = true)]
    Client {
        #[arg(long)]
        stack: Kind,
        #[command(flatten)]
        options: ClientOptions,
    },
}

fn run(role: &Role) -> Result<()> {
    match role {
        Role::Server { stack, options } => match stack {
            Kind::Mpquic => child::serve::<Ours>(options),
            Kind::Quinn => child::serve::<Quinn>(options),
            Kind::Noq => child::serve::<Noq>(options),
            Kind::Floor => child::serve::<Floor>(options),
            Kind::Tcp => child::serve::<Tcp>(options),
            Kind::Tls => child::serve::<Tls>(options),
        },
        Role::Client { stack, options } => match stack {
            Kind::Mpquic => child::drive::<Ours>(options),
            Kind::Quinn => child::drive::<Quinn>(options),
            Kind::Noq => child::drive::<Noq>(options),
            Kind::Floor => child::drive::<Floor>(options),
            Kind::Tcp => child::drive::<Tcp>(options),
            Kind::Tls => child::drive::<Tls>(options),
        },
        Role::Everyday(plan) => everyday::run(plan),
        Role::Bulk(plan) => measure::bulk(plan),
        Role::Requests(plan) => measure::requests(plan),
        Role::Handshakes(plan) => measure::handshakes(plan),
        Role::Storm(plan) => measure::storm(plan),
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
