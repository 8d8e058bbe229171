//! The figures of a download, for people as a table and for programs as JSON.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

/// What a download gave.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Report {
    /// Who decided which packet goes where.
    pub(crate) scheduler: String,
    /// Bytes of content.
    pub(crate) bytes: u64,
    /// From the first packet of the handshake to the last byte of the content.
    pub(crate) seconds: f64,
    /// Content by time, in Mbit/s.
    pub(crate) goodput_mbps: f64,
    /// Whether the content is what the server sent.
    pub(crate) sha256_ok: bool,
    pub(crate) paths: Vec<PathShare>,
    /// The same download over each path alone, where that was measured.
    pub(crate) alone: Vec<Alone>,
}

/// What a path contributed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct PathShare {
    pub(crate) name: String,
    /// What the link carries, where that is known.
    pub(crate) rate_mbps: Option<f64>,
    /// Stream bytes received on it; content sent twice counts twice.
    pub(crate) bytes: u64,
    /// Of the stream bytes of all paths.
    pub(crate) share: f64,
}

/// The download over one path alone.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Alone {
    pub(crate) name: String,
    pub(crate) seconds: f64,
    pub(crate) goodput_mbps: f64,
}

/// Content by time, in Mbit/s.
pub(crate) fn goodput_mbps(bytes: u64, took: Duration) -> f64 {
    // No download takes no time, but a report must not hold what JSON cannot.
    bytes as f64 * 8.0 / 1e6 / took.as_secs_f64().max(1e-9)
}

/// The contribution of each path, given its name, its link's rate if known, and its bytes.
pub(crate) fn shares(paths: impl Iterator<Item = (String, Option<f64>, u64)>) -> Vec<PathShare> {
    let mut shares: Vec<_> = paths
        .map(|(name, rate_mbps, bytes)| PathShare {
            name,
            rate_mbps,
            bytes,
            share: 0.0,
        })
        .collect();
    let total: u64 = shares.iter().map(|path| path.bytes).sum();
    for path in &mut shares {
        path.share = path.bytes as f64 / total.max(1) as f64;
    }
    shares
}

impl Report {
    /// The JSON object, in one line.
    pub(crate) fn to_json(&self) -> String {
        // Strings, numbers and lists: there is nothing in it that JSON cannot hold.
        serde_json::to_string(self).unwrap_or_default()
    }

    fn rate_of(&self, name: &str) -> Option<f64> {
        self.paths.iter().find(|path| path.name == name)?.rate_mbps
    }
}

/// A line of the table; what is not known stays empty.
fn row(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    link: Option<f64>,
    seconds: Option<f64>,
    goodput: Option<f64>,
    bytes: Option<u64>,
    share: Option<f64>,
) -> fmt::Result {
    let cell = |text: Option<String>| text.unwrap_or_default();
    let line = format!(
        "{name:<24}{:>12}{:>11}{:>15}{:>12}{:>9}",
        cell(link.map(|mbps| format!("{mbps} Mbit/s"))),
        cell(seconds.map(|seconds| format!("{seconds:.2} s"))),
        cell(goodput.map(|mbps| format!("{mbps:.1} Mbit/s"))),
        cell(bytes.map(|bytes| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)))),
        cell(share.map(|share| format!("{:.1} %", share * 100.0))),
    );
    writeln!(f, "{}", line.trim_end())
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} bytes, scheduler {}, SHA-256 {}",
            self.bytes,
            self.scheduler,
            if self.sha256_ok { "right" } else { "WRONG" },
        )?;
        writeln!(f)?;
        writeln!(
            f,
            "{:<24}{:>12}{:>11}{:>15}{:>12}{:>9}",
            "", "link", "time", "goodput", "received", "share"
        )?;
        let names: Vec<_> = self.paths.iter().map(|path| path.name.as_str()).collect();
        let links: Option<f64> = self.paths.iter().map(|path| path.rate_mbps).sum();
        row(
            f,
            &names.join(" + "),
            links,
            Some(self.seconds),
            Some(self.goodput_mbps),
            Some(self.paths.iter().map(|path| path.bytes).sum()),
            None,
        )?;
        for path in &self.paths {
            let name = format!("  on {}", path.name);
            let (bytes, share) = (Some(path.bytes), Some(path.share));
            row(f, &name, path.rate_mbps, None, None, bytes, share)?;
        }
        for alone in &self.alone {
            let name = format!("{} alone", alone.name);
            let (seconds, goodput) = (Some(alone.seconds), Some(alone.goodput_mbps));
            row(
                f,
                &name,
                self.rate_of(&alone.name),
                seconds,
                goodput,
                None,
                None,
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        Report {
            scheduler: "minrtt".into(),
            bytes: 64 << 20,
            seconds: 8.0,
            goodput_mbps: goodput_mbps(64 << 20, Duration::from_secs(8)),
            sha256_ok: true,
            paths: shares(
                [
                    ("wifi".to_owned(), Some(50.0), 48 << 20),
                    ("lte".to_owned(), Some(20.0), 16 << 20),
                ]
                .into_iter(),
            ),
            alone: vec![Alone {
                name: "lte".into(),
                seconds: 28.5,
                goodput_mbps: 18.84,
            }],
        }
    }

    #[test]
    fn table() {
        let expected = "\
67108864 bytes, scheduler minrtt, SHA-256 right

                                link       time        goodput    received    share
wifi + lte                 70 Mbit/s     8.00 s    67.1 Mbit/s    64.0 MiB
  on wifi                  50 Mbit/s                              48.0 MiB   75.0 %
  on lte                   20 Mbit/s                              16.0 MiB   25.0 %
lte alone                  20 Mbit/s    28.50 s    18.8 Mbit/s
";
        assert_eq!(report().to_string(), expected);
    }

    #[test]
    fn json_has_these_keys() {
        let json = serde_json::to_value(report()).unwrap();
        let keys = |value: &serde_json::Value| -> Vec<String> {
            value.as_object().unwrap().keys().cloned().collect()
        };
        let mut top = keys(&json);
        top.sort();
        assert_eq!(
            top,
            [
                "alone",
                "bytes",
                "goodput_mbps",
                "paths",
                "scheduler",
                "seconds",
                "sha256_ok"
            ]
        );
        assert_eq!(json["paths"][1]["share"], 0.25);
        assert_eq!(json["paths"][1]["rate_mbps"], 20.0);
        assert_eq!(json["alone"][0]["name"], "lte");
    }

    #[test]
    fn shares_of_nothing() {
        let paths = shares([("a".to_owned(), None, 0)].into_iter());
        assert_eq!(paths[0].share, 0.0);
    }
}
