//! The results of a download, as a table for people and as JSON for programs.

use std::fmt;
use std::time::Duration;

use mpquic::sched::Learned;
use serde::Serialize;

use crate::shares::{PathShare, names};

/// The results of a download.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Report {
    /// The name of the scheduler.
    pub(crate) scheduler: String,
    /// The name of the congestion controller.
    pub(crate) congestion: String,
    /// Bytes of content.
    pub(crate) bytes: u64,
    /// The time from the first packet of the handshake to the last byte of the content.
    pub(crate) seconds: f64,
    /// Content divided by time, in Mbit/s.
    pub(crate) goodput_mbps: f64,
    /// Whether the digest is right.
    pub(crate) sha256_ok: bool,
    pub(crate) paths: Vec<PathShare>,
    /// The same download by a second connection over the same paths, if it was measured.
    pub(crate) again: Option<Again>,
    /// The same download over each path alone, if it was measured.
    pub(crate) alone: Vec<Alone>,
    /// What the sender's scheduler had learned at the end, if it learns and runs in this process.
    pub(crate) learned: Option<Learned>,
}

/// The download by a second connection.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Again {
    pub(crate) seconds: f64,
    pub(crate) goodput_mbps: f64,
    /// How many paths the sender remembered when it began.
    pub(crate) remembered_paths: usize,
    /// The part of the first connection's time that it saved; negative if it took longer.
    pub(crate) gain: f64,
}

/// The download over one path alone.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Alone {
    pub(crate) name: String,
    pub(crate) seconds: f64,
    pub(crate) goodput_mbps: f64,
}

/// Content divided by time, in Mbit/s.
pub(crate) fn goodput_mbps(bytes: u64, took: Duration) -> f64 {
    // Every download takes time. The lower bound only protects against infinity, which JSON cannot
    // represent.
    bytes as f64 * 8.0 / 1e6 / took.as_secs_f64().max(1e-9)
}

impl Report {
    /// The JSON object, in one line.
    pub(crate) fn to_json(&self) -> String {
        // The report has only strings, numbers and lists, which JSON can represent.
        serde_json::to_string(self).unwrap_or_default()
    }

    fn rate_of(&self, name: &str) -> Option<f64> {
        self.paths.iter().find(|path| path.name == name)?.rate_mbps
    }
}

/// A row of the table. Unknown values stay empty.
#[derive(Default)]
struct Row {
    name: String,
    link: Option<f64>,
    seconds: Option<f64>,
    goodput: Option<f64>,
    bytes: Option<u64>,
    share: Option<f64>,
}

impl Row {
    /// The texts of the columns after the name.
    fn cells(&self) -> [String; 5] {
        let cell = |text: Option<String>| text.unwrap_or_default();
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        [
            cell(self.link.map(|mbps| format!("{mbps} Mbit/s"))),
            cell(self.seconds.map(|seconds| format!("{seconds:.2} s"))),
            cell(self.goodput.map(|mbps| format!("{mbps:.1} Mbit/s"))),
            cell(self.bytes.map(|bytes| format!("{:.1} MiB", mib(bytes)))),
            cell(self.share.map(|share| format!("{:.1} %", share * 100.0))),
        ]
    }
}

impl Report {
    fn rows(&self) -> Vec<Row> {
        let names: Vec<_> = self.paths.iter().map(|path| path.name.as_str()).collect();
        let mut rows = vec![Row {
            name: names.join(" + "),
            link: self.paths.iter().map(|path| path.rate_mbps).sum(),
            seconds: Some(self.seconds),
            goodput: Some(self.goodput_mbps),
            bytes: Some(self.paths.iter().map(|path| path.bytes).sum()),
            share: None,
        }];
        rows.extend(self.paths.iter().map(|path| Row {
            name: format!("  on {}", path.name),
            link: path.rate_mbps,
            bytes: Some(path.bytes),
            share: Some(path.share),
            ..Row::default()
        }));
        rows.extend(self.again.iter().map(|again| Row {
            name: "second connection".to_owned(),
            link: self.paths.iter().map(|path| path.rate_mbps).sum(),
            seconds: Some(again.seconds),
            goodput: Some(again.goodput_mbps),
            ..Row::default()
        }));
        rows.extend(self.alone.iter().map(|alone| Row {
            name: format!("{} alone", alone.name),
            link: self.rate_of(&alone.name),
            seconds: Some(alone.seconds),
            goodput: Some(alone.goodput_mbps),
            ..Row::default()
        }));
        rows
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digest = if self.sha256_ok { "right" } else { "WRONG" };
        let (bytes, scheduler, congestion) = (self.bytes, &self.scheduler, &self.congestion);
        writeln!(
            f,
            "{bytes} bytes, scheduler {scheduler} over {congestion}, SHA-256 {digest}\n"
        )?;

        let rows = self.rows();
        let widest = rows.iter().map(|row| row.name.chars().count()).max();
        let width = widest.unwrap_or(0);
        let head = ["link", "time", "goodput", "received", "share"].map(str::to_owned);
        let cells = rows.iter().map(|row| (row.name.as_str(), row.cells()));
        for (name, [link, time, goodput, bytes, share]) in std::iter::once(("", head)).chain(cells)
        {
            let line =
                format!("{name:width$}{link:>14}{time:>11}{goodput:>15}{bytes:>13}{share:>9}");
            writeln!(f, "{}", line.trim_end())?;
        }
        if let Some(again) = &self.again {
            let known = match again.remembered_paths {
                0 => "no path remembered".to_owned(),
                1 => "1 path remembered".to_owned(),
                paths => format!("{paths} paths remembered"),
            };
            let (part, than) = (again.gain.abs() * 100.0, again.gain < 0.0);
            let compared = if than { "longer" } else { "shorter" };
            writeln!(
                f,
                "\nsecond connection: {:.2} s after {:.2} s, {part:.1} % {compared}, {known}",
                again.seconds, self.seconds
            )?;
        }
        match &self.learned {
            Some(learned) => write!(
                f,
                "\nlearned by {}\n",
                learned.named(names(&self.paths, learned))
            ),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use mpquic::sched::{LearnedArm, LearnedPair, PathIndex};

    use super::*;
    use crate::shares::shares;

    fn report() -> Report {
        Report {
            scheduler: "minrtt".into(),
            congestion: "cubic".into(),
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
            again: None,
            alone: vec![Alone {
                name: "lte".into(),
                seconds: 28.5,
                goodput_mbps: 18.84,
            }],
            learned: None,
        }
    }

    #[test]
    fn table() {
        let expected = "\
67108864 bytes, scheduler minrtt over cubic, SHA-256 right

                    link       time        goodput     received    share
wifi + lte     70 Mbit/s     8.00 s    67.1 Mbit/s     64.0 MiB
  on wifi      50 Mbit/s                               48.0 MiB   75.0 %
  on lte       20 Mbit/s                               16.0 MiB   25.0 %
lte alone      20 Mbit/s    28.50 s    18.8 Mbit/s
";
        assert_eq!(report().to_string(), expected);
    }

    #[test]
    fn the_second_connection_is_compared_with_the_first() {
        let mut report = report();
        let mut again = Again {
            seconds: 6.0,
            goodput_mbps: 89.5,
            remembered_paths: 2,
            gain: 0.25,
        };
        report.again = Some(again.clone());
        let text = report.to_string();
        assert!(
            text.contains("\nsecond connection     70 Mbit/s     6.00 s    89.5 Mbit/s\n"),
            "{text}"
        );
        let line = "\nsecond connection: 6.00 s after 8.00 s, 25.0 % shorter, 2 paths remembered\n";
        assert!(text.ends_with(line), "{text}");
        (again.gain, again.remembered_paths) = (-0.1, 0);
        report.again = Some(again);
        let text = report.to_string();
        assert!(
            text.ends_with(" 10.0 % longer, no path remembered\n"),
            "{text}"
        );
        let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
        assert_eq!(json["again"]["gain"], -0.1);
        assert_eq!(json["again"]["remembered_paths"], 0);
    }

    #[test]
    fn json_has_these_keys() {
        let text = report().to_json();
        assert!(!text.contains('\n'));
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let keys = |value: &serde_json::Value| -> Vec<String> {
            value.as_object().unwrap().keys().cloned().collect()
        };
        let mut top = keys(&json);
        top.sort();
        assert_eq!(
            top,
            [
                "again",
                "alone",
                "bytes",
                "congestion",
                "goodput_mbps",
                "learned",
                "paths",
                "scheduler",
                "seconds",
                "sha256_ok"
            ]
        );
        assert_eq!(json["paths"][1]["share"], 0.25);
        assert_eq!(json["paths"][1]["rate_mbps"], 20.0);
        assert_eq!(json["alone"][0]["name"], "lte");
        assert!(json["learned"].is_null());
    }

    #[test]
    fn what_was_learned_follows_with_the_paths_names() {
        let slot = |slot| PathIndex::new(slot).unwrap();
        let mut learned = Learned::new("linucb");
        let mut pair = LearnedPair::new(slot(2), slot(0));
        (pair.decisions, pair.alpha) = (7, Some(0.8));
        learned.pairs.push(pair);
        learned.arms.push(LearnedArm::new(slot(1)));
        learned.paths = [(2, 1), (0, 0), (1, 9)]
            .map(|(path, id)| (slot(path), mpquic::PathId(id)))
            .into();
        let mut report = report();
        report.learned = Some(learned);
        let expected = "\
lte alone      20 Mbit/s    28.50 s    18.8 Mbit/s

learned by linucb
  lte before wifi: 7 decisions, 0 waits, alpha 0.8
  path 1: chosen 0 times
";
        let text = report.to_string();
        assert!(text.ends_with(expected), "{text}");
        let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
        assert_eq!(json["learned"]["pairs"][0]["alpha"], 0.8);
        assert_eq!(json["learned"]["paths"]["2"], 1);
    }
}
