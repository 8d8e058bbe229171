//! Code shared by `perf_server` and `perf_client`: options, sizes, exit codes.
//!
//! Both use the protocol of draft-banks-quic-performance (ALPN "perf"). On a bidirectional stream,
//! the client sends eight bytes with the size of the response that it wants, then any number of
//! bytes. The server reads to the end and responds with that many bytes.

use std::error::Error;
use std::fmt::Display;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use mpquic::{CongestionControl, InitialWindow, TransportConfig};

pub(crate) const ALPN: &[u8] = b"perf";

/// The data that is sent repeatedly. Its content does not matter, but memory bandwidth does.
pub(crate) static ZEROS: [u8; 1 << 18] = [0; 1 << 18];

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Transport options, the same on both sides.
#[derive(Debug, Args)]
pub(crate) struct TransportOptions {
    /// Packet scheduler for data that this side sends; each side schedules its own data
    #[arg(long, value_name = "NAME", default_value = "arrival")]
    scheduler: String,
    /// The scheduler's settings as JSON: '{"burst": 4}'
    #[arg(long, value_name = "JSON", default_value = "{}")]
    scheduler_config: String,
    /// Congestion controller: auto, cubic, newreno, bbr3, or one that couples all paths: lia, olia, balia
    #[arg(long, value_name = "NAME", default_value_t = CongestionControl::default())]
    congestion: CongestionControl,
    /// Congestion window of a new path, in packets [default: as in RFC 9002, about 10]
    #[arg(long, value_name = "PACKETS")]
    initial_window: Option<u32>,
    /// Initial UDP payload size in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1200)]
    initial_mtu: u16,
    /// Largest UDP payload size to probe for, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1452)]
    max_mtu: u16,
    /// Flow control windows and send buffer, in bytes
    #[arg(long, value_name = "SIZE", default_value = "32M", value_parser = size)]
    window: u64,
    /// The most streams that the peer may have open at a time
    #[arg(long, value_name = "COUNT", default_value_t = 1024)]
    max_streams: u64,
    /// Idle timeout in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    idle_timeout: u64,
    /// Threads of the runtime; 1: a single thread, 0: one per core
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    threads: usize,
}

impl TransportOptions {
    pub(crate) fn transport(&self) -> Result<Arc<TransportConfig>> {
        let settings = serde_json::from_str(&self.scheduler_config)
            .map_err(context("--scheduler-config is no JSON"))?;
        let scheduler = mpquic_workspace::schedulers().factory(&self.scheduler, &settings)?;
        let mut transport = TransportConfig::default();
        transport
            .scheduler(scheduler)
            .congestion(self.congestion)
            .initial_window(match self.initial_window {
                Some(packets) => InitialWindow::Packets(packets),
                None => InitialWindow::default(),
            })?
            .max_idle_timeout(Some(Duration::from_secs(self.idle_timeout)))
            .stream_receive_window(self.window)
            .receive_window(self.window)
            .send_window(self.window)
            .max_concurrent_bidi_streams(self.max_streams)
            .initial_mtu(self.initial_mtu)?
            .max_mtu(self.max_mtu)?;
        Ok(Arc::new(transport))
    }

    fn runtime(&self) -> std::io::Result<tokio::runtime::Runtime> {
        let mut builder = match self.threads {
            1 => tokio::runtime::Builder::new_current_thread(),
            _ => tokio::runtime::Builder::new_multi_thread(),
        };
        if self.threads > 1 {
            builder.worker_threads(self.threads);
        }
        builder.enable_all().build()
    }

    /// Runs `main` to its end. An error is printed on one line and gives exit code 1.
    pub(crate) fn run(&self, program: &str, main: impl Future<Output = Result<()>>) -> ExitCode {
        let result = self
            .runtime()
            .map_err(Into::into)
            .and_then(|runtime| runtime.block_on(main));
        match result {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                note!("{program}: {error}");
                ExitCode::FAILURE
            }
        }
    }
}

/// Prefixes an error with what was attempted.
pub(crate) fn context<E: Display>(what: impl Display) -> impl FnOnce(E) -> String {
    move |error| format!("{what}: {error}")
}

/// Parses a size such as "10M"; k, M and G are powers of 1024.
pub(crate) fn size(text: &str) -> std::result::Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        unit => return Err(format!("unknown unit {unit:?}: k, M or G")),
    };
    let number: u64 = digits
        .parse()
        .map_err(|_| "expected a number and perhaps k, M or G, as in 64M".to_owned())?;
    number
        .checked_shl(shift)
        .filter(|bytes| bytes >> shift == number)
        .ok_or_else(|| "too large".to_owned())
}
