//! The command line of the example.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::pin::Pin;

const EXAMPLES: &str = "\
Examples:
  On the host that watches; it prints its fingerprint:
    live receive

  On the host with the camera, over Wi-Fi and LTE, for a minute:
    live send 203.0.113.5:4434 --pin sha256:9f86d0.. --local 192.168.1.23 --local 10.64.3.9

  Frames of your own, each behind its length in 4 bytes, big-endian; on the other host they come out in the same way:
    encoder | live send 203.0.113.5:4434 --pin sha256:9f86d0.. --stdin
    live receive --stdout | decoder

  The same camera without copies, hedge and repair, to compare with, and with a row for each frame:
    live send 127.0.0.1:4434 --pin sha256:9f86d0.. --protection none --scheduler minrtt
    live receive --csv frames.csv --once --json

Exit status:
  0  the camera ended
  1  the connection failed
  2  the command line is wrong";

/// Sends a camera over several links, so that it does not freeze when one of them does.
#[derive(Debug, Parser)]
#[command(name = "live", after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) mode: Mode,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Mode {
    /// Send frames to a host that receives
    Send(Send),
    /// Receive frames, and say how late they were and how long the picture stood still
    Receive(Receive),
}

/// How frames are kept from being late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Protection {
    /// Copies of what is overdue, a hedge on silence, repair at a learned rate
    Live,
    /// Nothing is sent again
    None,
    /// Everything goes over all paths
    Twice,
}

#[derive(Debug, Args)]
pub(crate) struct Send {
    /// Where the other host receives
    pub(crate) server: SocketAddr,
    /// The fingerprint of its certificate, as it prints it
    #[arg(long, value_name = "sha256:HEX")]
    pub(crate) pin: Pin,
    /// Local address of a path; repeat for more paths, the first carries the handshake [default: the system's choice]
    #[arg(long, value_name = "IP")]
    pub(crate) local: Vec<IpAddr>,
    /// Take frames from standard input, each behind its length in 4 bytes, big-endian; `key` frames are not told apart
    #[arg(long)]
    pub(crate) stdin: bool,
    /// Frames per second of the synthetic camera
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) fps: u32,
    /// How many frames it makes
    #[arg(long, value_name = "N", default_value_t = 1_800)]
    pub(crate) frames: u64,
    /// Its rate in Mbit/s; a key frame, five times as large as others, comes each 2 s
    #[arg(long, value_name = "MBPS", default_value_t = 4.0, value_parser = rate)]
    pub(crate) rate: f64,
    /// Let its rate follow what the paths can carry, up to that
    #[arg(long)]
    pub(crate) adapt: bool,
    /// For how long a frame is of use, in ms
    #[arg(long, value_name = "MS", default_value = "200", value_parser = ms)]
    pub(crate) deadline: Duration,
    /// The price of bytes: how large a share of frames as many bytes of repair as of frames are worth
    #[arg(long, value_name = "SHARE", default_value_t = 0.02)]
    pub(crate) worth: f64,
    /// How frames are kept from being late
    #[arg(long, value_enum, default_value = "live")]
    pub(crate) protection: Protection,
    /// The packet scheduler
    #[arg(long, value_name = "NAME", default_value = "arrival")]
    pub(crate) scheduler: String,
    /// Keep in this file what was learned, and go on from it
    #[arg(long, value_name = "FILE")]
    pub(crate) memory: Option<PathBuf>,
    /// Print one JSON object at the end
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Receive {
    /// Address to listen on
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:4434")]
    pub(crate) listen: SocketAddr,
    /// End after the first camera
    #[arg(long)]
    pub(crate) once: bool,
    /// Write frames to standard output, each behind its length in 4 bytes, big-endian
    #[arg(long, conflicts_with = "json")]
    pub(crate) stdout: bool,
    /// Write a row for each frame to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Write the certificate's fingerprint to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) pin_out: Option<PathBuf>,
    /// Both hosts have one clock: delays are what they are. Otherwise the shortest one counts as 0
    #[arg(long)]
    pub(crate) one_clock: bool,
    /// Print one JSON object for each camera
    #[arg(long)]
    pub(crate) json: bool,
}

fn rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| "expected Mbit/s".to_owned())?;
    if (0.01..=100.0).contains(&rate) {
        Ok(rate)
    } else {
        Err("expected 0.01 to 100 Mbit/s".to_owned())
    }
}

fn ms(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(ms @ 1..=60_000) => Ok(Duration::from_millis(ms)),
        _ => Err("expected 1 to 60000 ms".to_owned()),
    }
}
