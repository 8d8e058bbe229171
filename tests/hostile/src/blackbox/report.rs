//! What an attack has done, for people and as JSON, and which limits did not hold.

use std::fmt::{self, Write};

use super::heap::Held;
use super::honest::Measured;
use super::server::{Error, ServerProcess};

/// What an attack may do to an honest client and to the memory, as ratios to before.
const MAX_LATENCY: f64 = 3.0;
const MIN_RATE: f64 = 0.8;
const MAX_MEMORY: f64 = 1.2;

/// One phase: what the honest client and the server had.
#[derive(Debug)]
pub struct Phase {
    honest: Measured,
    held: Held,
    resident: u64,
    /// The share of one processor that the server has used, in percent.
    processor: f64,
}

impl Phase {
    /// The phase that is over now; `spent` is the processor time that the server had used when it began.
    ///
    /// # Errors
    ///
    /// If the server does not tell what it holds.
    pub fn new(
        honest: Measured,
        server: &mut ServerProcess,
        spent: &mut u64,
    ) -> Result<Self, Error> {
        let now = server.processor_time();
        let processor = now.saturating_sub(*spent) as f64 / honest.time.as_secs_f64().max(1e-9);
        *spent = now;
        Ok(Self {
            processor,
            held: server.held()?,
            resident: server.resident(),
            honest,
        })
    }

    fn to_json(&self) -> String {
        format!(
            "{{\"handshakes\":{},\"p50_ms\":{:.3},\"p99_ms\":{:.3},\"max_ms\":{:.3},\"failed_handshakes\":{},\
             \"requests_per_s\":{:.1},\"failed_requests\":{},\"held_bytes\":{},\"resident_bytes\":{},\
             \"processor_percent\":{:.1}}}",
            self.honest.handshakes.len(),
            finite(self.honest.quantile(0.5)),
            finite(self.honest.quantile(0.99)),
            finite(self.honest.quantile(1.0)),
            self.honest.failed_handshakes,
            self.honest.rate(),
            self.honest.failed_requests,
            self.held.bytes,
            self.resident,
            self.processor,
        )
    }
}

/// JSON has no other numbers.
fn finite(value: f64) -> f64 {
    if value.is_finite() { value } else { -1.0 }
}

/// An attack and what it did.
#[derive(Debug)]
pub struct Report {
    /// What the attack is called.
    pub name: &'static str,
    /// What it does.
    pub what: &'static str,
    /// Before, during, and after the idle timeout.
    pub phases: [Phase; 3],
    /// Datagrams that the attacker has sent.
    pub datagrams: u64,
    /// Their bytes, headers included.
    pub sent: u64,
    /// Bytes that came back.
    pub received: u64,
    /// How long it has attacked.
    pub seconds: f64,
    /// Whether the server still runs.
    pub runs: bool,
}

/// A figure and whether it is within its limit.
struct Line {
    name: &'static str,
    ratio: f64,
    limit: f64,
    held: bool,
}

impl Report {
    fn lines(&self) -> [Line; 4] {
        let [before, during, after] = &self.phases;
        let line = |name, ratio: f64, limit, held| Line {
            name,
            ratio,
            limit,
            held,
        };
        let latency = during.honest.quantile(0.99) / before.honest.quantile(0.99);
        let rate = during.honest.rate() / before.honest.rate();
        let held = after.held.bytes as f64 / before.held.bytes as f64;
        let resident = after.resident as f64 / before.resident as f64;
        [
            line(
                "handshake p99",
                latency,
                MAX_LATENCY,
                latency <= MAX_LATENCY,
            ),
            line("requests", rate, MIN_RATE, rate >= MIN_RATE),
            line("memory held", held, MAX_MEMORY, held <= MAX_MEMORY),
            line(
                "memory resident",
                resident,
                MAX_MEMORY,
                resident <= MAX_MEMORY,
            ),
        ]
    }

    /// What did not hold, each as a line.
    pub fn failures(&self) -> impl Iterator<Item = String> {
        let lines = self.lines().into_iter().filter(|line| !line.held);
        let lines = lines.map(|line| format!("{} x {:.2} ({})", line.name, line.ratio, line.limit));
        let died = (!self.runs).then(|| "the server has ended".to_owned());
        lines.chain(died)
    }

    /// Of which sizes the server had more blocks than before.
    pub fn growth(&self) -> String {
        let mut text = String::new();
        for (name, phase) in [("during", &self.phases[1]), ("after", &self.phases[2])] {
            for (size, count) in phase.held.more_than(&self.phases[0].held).iter().take(12) {
                // A string takes all.
                let _ = writeln!(text, "    {name}: {count} more of {size} bytes");
            }
        }
        text
    }

    /// One line of JSON.
    pub fn to_json(&self) -> String {
        let [before, during, after] = &self.phases;
        let failures: Vec<_> = self.failures().map(|line| format!("{line:?}")).collect();
        let lines = self.lines().map(|line| {
            let name = line.name.replace(' ', "_");
            format!("\"{name}\":{:.3}", finite(line.ratio))
        });
        format!(
            "{{\"attack\":\"{}\",\"seconds\":{:.1},\"datagrams\":{},\"sent_bytes\":{},\"received_bytes\":{},\
             \"before\":{},\"during\":{},\"after\":{},\"ratios\":{{{}}},\"fell\":[{}]}}",
            self.name,
            self.seconds,
            self.datagrams,
            self.sent,
            self.received,
            before.to_json(),
            during.to_json(),
            after.to_json(),
            lines.join(","),
            failures.join(",")
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mebibytes = |bytes: f64| bytes / f64::from(1 << 20);
        writeln!(f, "{}: {}", self.name, self.what)?;
        writeln!(
            f,
            "  {:<8} {:>10} {:>9} {:>9} {:>9} {:>7} {:>11} {:>7} {:>9} {:>9} {:>6}",
            "phase",
            "handshakes",
            "p50 ms",
            "p99 ms",
            "max ms",
            "failed",
            "64 KiB/s",
            "failed",
            "held MiB",
            "RSS MiB",
            "CPU %"
        )?;
        for (name, phase) in ["before", "during", "after"].iter().zip(&self.phases) {
            let honest = &phase.honest;
            writeln!(
                f,
                "  {name:<8} {:>10} {:>9.2} {:>9.2} {:>9.2} {:>7} {:>11.1} {:>7} {:>9.2} {:>9.1} {:>6.0}",
                honest.handshakes.len(),
                honest.quantile(0.5),
                honest.quantile(0.99),
                honest.quantile(1.0),
                honest.failed_handshakes,
                honest.rate(),
                honest.failed_requests,
                mebibytes(phase.held.bytes as f64),
                mebibytes(phase.resident as f64),
                phase.processor,
            )?;
        }
        let rate = self.sent as f64 * 8.0 / 1e6 / self.seconds.max(1e-9);
        writeln!(
            f,
            "  {} datagrams, {} bytes sent ({rate:.2} Mbit/s), {} bytes received",
            self.datagrams, self.sent, self.received
        )?;
        for line in self.lines() {
            let bound = if line.name == "requests" {
                "at least"
            } else {
                "at most"
            };
            let verdict = if line.held { "held" } else { "FELL" };
            let Line {
                name, ratio, limit, ..
            } = line;
            writeln!(f, "  {name:<16} x {ratio:.2} ({bound} {limit}): {verdict}")?;
        }
        if !self.runs {
            writeln!(f, "  the server has ended: FELL")?;
        }
        Ok(())
    }
}
