//! The results of a playback, as a table for people and as JSON for programs.

use std::fmt;

use mpquic::sched::Learned;
use serde::Serialize;
use serde_json::Value;

use crate::playback::{Chunk, End, Playback};
use crate::shares::{PathShare, names};
use crate::sparkline::sparkline;

/// The most blocks in a row.
const COLUMNS: usize = 60;

/// The results of a playback.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Report {
    /// The name of the scheduler.
    pub(crate) scheduler: String,
    /// Its configuration as given.
    pub(crate) config: Value,
    pub(crate) congestion: &'static str,
    /// `played`, `stopped` or `failed`.
    pub(crate) end: &'static str,
    /// The error, if it failed.
    pub(crate) error: Option<String>,
    /// The time from the start of the handshake to the end.
    pub(crate) seconds: f64,
    /// Seconds of video that were played.
    pub(crate) seen: f64,
    /// The playing time of a chunk.
    pub(crate) chunk_seconds: f64,
    /// The number of chunks in the video.
    pub(crate) chunks_wanted: u64,
    /// The time from the start of the handshake to the first picture.
    pub(crate) startup: Option<f64>,
    pub(crate) stalls: u64,
    /// The total duration of these stalls in seconds.
    pub(crate) stalled: f64,
    /// The mean over the chunks.
    pub(crate) bitrate_mbps: Option<f64>,
    /// The download times of the chunks.
    pub(crate) chunk_time: Option<Spread>,
    /// Whether all digests were right.
    pub(crate) sha256_ok: bool,
    pub(crate) chunks: Vec<Chunk>,
    pub(crate) paths: Vec<PathShare>,
    /// The one-way delays of the paths in ms.
    #[serde(skip)]
    pub(crate) delays_ms: Vec<f64>,
    /// What the sender's scheduler had learned at the end, if it learns.
    pub(crate) learned: Option<Learned>,
}

/// A summary of several times, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) mean: f64,
    pub(crate) median: f64,
    /// The 95th percentile.
    pub(crate) p95: f64,
    pub(crate) longest: f64,
}

impl Spread {
    /// `None` if there are no times.
    fn of(times: &[f64]) -> Option<Self> {
        let mut sorted = times.to_vec();
        sorted.sort_by(f64::total_cmp);
        let longest = *sorted.last()?;
        // The smallest time that is at least as large as this share of all times.
        let rank = |percent: usize| sorted[(sorted.len() * percent).div_ceil(100).max(1) - 1];
        Some(Self {
            mean: times.iter().sum::<f64>() / times.len() as f64,
            median: rank(50),
            p95: rank(95),
            longest,
        })
    }
}

/// The parts of the report that are not in the playback.
pub(crate) struct Circumstances {
    pub(crate) scheduler: String,
    pub(crate) config: Value,
    pub(crate) congestion: &'static str,
    pub(crate) chunk_seconds: f64,
    pub(crate) chunks_wanted: u64,
    pub(crate) paths: Vec<PathShare>,
    pub(crate) delays_ms: Vec<f64>,
    pub(crate) learned: Option<Learned>,
}

impl Report {
    pub(crate) fn new(playback: &Playback<'_>, end: &End, circumstances: Circumstances) -> Self {
        let chunks = playback.chunks.clone();
        let count = chunks.len() as f64;
        let bitrates = chunks.iter().map(|chunk| chunk.bitrate_mbps);
        let times: Vec<_> = chunks.iter().map(|chunk| chunk.seconds).collect();
        let (stalls, stalled) = playback.player.stalls();
        let (end, error) = match end {
            End::Played => ("played", None),
            End::Stopped => ("stopped", None),
            End::Failed(failure) => ("failed", Some(failure.to_string())),
        };
        Self {
            scheduler: circumstances.scheduler,
            config: circumstances.config,
            congestion: circumstances.congestion,
            end,
            error,
            seconds: playback.elapsed().as_secs_f64(),
            seen: playback.seen().as_secs_f64(),
            chunk_seconds: circumstances.chunk_seconds,
            chunks_wanted: circumstances.chunks_wanted,
            startup: (!chunks.is_empty()).then(|| playback.player.startup().as_secs_f64()),
            stalls,
            stalled: stalled.as_secs_f64(),
            bitrate_mbps: (!chunks.is_empty()).then(|| bitrates.sum::<f64>() / count),
            chunk_time: Spread::of(&times),
            sha256_ok: chunks.iter().all(|chunk| chunk.sha256_ok),
            chunks,
            paths: circumstances.paths,
            delays_ms: circumstances.delays_ms,
            learned: circumstances.learned,
        }
    }

    /// The JSON object, in one line.
    pub(crate) fn to_json(&self) -> String {
        // The report has only strings, numbers and lists, which JSON can represent.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// How often each bitrate was chosen, ascending.
    fn bitrates(&self) -> Vec<(f64, usize)> {
        let mut chosen: Vec<(f64, usize)> = Vec::new();
        for chunk in &self.chunks {
            match chosen
                .iter_mut()
                .find(|(rate, _)| *rate == chunk.bitrate_mbps)
            {
                Some((_, count)) => *count += 1,
                None => chosen.push((chunk.bitrate_mbps, 1)),
            }
        }
        chosen.sort_by(|a, b| a.0.total_cmp(&b.0));
        chosen
    }

    fn changes(&self) -> usize {
        let pairs = self.chunks.windows(2);
        pairs
            .filter(|pair| pair[0].bitrate_mbps != pair[1].bitrate_mbps)
            .count()
    }

    fn write_figures(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(startup) = self.startup {
            writeln!(f, "startup      {startup:.2} s")?;
        }
        match self.stalls {
            0 => writeln!(f, "stalls       none")?,
            stalls => writeln!(f, "stalls       {stalls}, {:.2} s in all", self.stalled)?,
        }
        let (Some(mean), Some(time)) = (self.bitrate_mbps, self.chunk_time) else {
            return Ok(());
        };
        let chosen = self.bitrates().into_iter();
        let chosen = chosen.map(|(rate, count)| format!("{count} at {rate}"));
        writeln!(
            f,
            "bitrate      mean {mean:.2} Mbit/s: {} Mbit/s; {} changes",
            chosen.collect::<Vec<_>>().join(", "),
            self.changes()
        )?;
        let Spread {
            mean,
            median,
            p95,
            longest,
        } = time;
        writeln!(
            f,
            "chunk time   mean {mean:.3} s, median {median:.3} s, 95 % within {p95:.3} s, longest {longest:.3} s"
        )
    }

    fn write_rows(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut row = |name: &str, unit: &str, figure: &dyn Fn(&Chunk) -> f64| {
            let values: Vec<_> = self.chunks.iter().map(figure).collect();
            let top = values.iter().copied().fold(0.0, f64::max);
            let blocks = sparkline(&values, top, COLUMNS);
            writeln!(f, "{name:<13}{blocks}  up to {top:.2} {unit}")
        };
        row("bitrate", "Mbit/s", &|chunk| chunk.bitrate_mbps)?;
        row("chunk time", "s", &|chunk| chunk.seconds)?;
        row("buffer", "s", &|chunk| chunk.buffer)
    }

    fn write_paths(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.paths.iter().map(|path| path.name.chars().count());
        let width = widths.max().unwrap_or(0).max(11);
        writeln!(
            f,
            "{:width$}{:>14}{:>11}{:>13}{:>9}",
            "", "link", "delay", "received", "share"
        )?;
        for (number, path) in self.paths.iter().enumerate() {
            let link = path.rate_mbps.map(|mbps| format!("{mbps} Mbit/s"));
            // Of real links, neither is known.
            let delay = self.delays_ms.get(number);
            let delay = delay.map_or_else(String::new, |delay| format!("{delay} ms"));
            let received = format!("{:.1} MB", path.bytes as f64 / 1e6);
            let share = format!("{:.1} %", path.share * 100.0);
            writeln!(
                f,
                "{:width$}{:>14}{delay:>11}{received:>13}{share:>9}",
                path.name,
                link.unwrap_or_default()
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digest = if self.sha256_ok { "right" } else { "WRONG" };
        let whole = self.chunks_wanted as f64 * self.chunk_seconds;
        let (seen, seconds) = (self.seen, self.seconds);
        let (end, scheduler, congestion) = (self.end, &self.scheduler, self.congestion);
        write!(
            f,
            "{seen:.0} of {whole:.0} s of video seen in {seconds:.1} s ({end}), scheduler {scheduler} over {congestion}"
        )?;
        if self.chunks.is_empty() {
            return writeln!(f, "\nno chunk arrived");
        }
        writeln!(f, ", SHA-256 {digest}\n")?;
        self.write_figures(f)?;
        writeln!(f)?;
        self.write_rows(f)?;
        writeln!(f)?;
        self.write_paths(f)?;
        match &self.learned {
            Some(learned) => {
                write!(
                    f,
                    "\nlearned by {}\n",
                    learned.named(names(&self.paths, learned))
                )
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use mpquic::sched::{Fallbacks, LearnedPolicy};

    use super::*;
    use crate::shares::shares;

    fn chunk(number: u64, bitrate_mbps: f64, seconds: f64) -> Chunk {
        Chunk {
            number,
            bitrate_mbps,
            bytes: (bitrate_mbps * 125_000.0) as u64,
            at: number as f64 + seconds,
            seconds,
            buffer: 2.0,
            paths: vec![1, 2],
            sha256_ok: true,
        }
    }

    fn report() -> Report {
        let chunks = vec![
            chunk(0, 1.0, 0.2),
            chunk(1, 5.0, 0.8),
            chunk(2, 5.0, 0.4),
            chunk(3, 10.0, 1.6),
        ];
        Report {
            scheduler: "ecf".into(),
            config: Value::Null,
            congestion: "olia",
            end: "played",
            error: None,
            seconds: 4.25,
            seen: 4.0,
            chunk_seconds: 1.0,
            chunks_wanted: 4,
            startup: Some(0.25),
            stalls: 0,
            stalled: 0.0,
            bitrate_mbps: Some(5.25),
            chunk_time: Spread::of(&[0.2, 0.8, 0.4, 1.6]),
            sha256_ok: true,
            chunks,
            paths: shares(
                [
                    ("near".to_owned(), Some(9.0), 2_000_000),
                    ("far".to_owned(), Some(9.0), 500_000),
                ]
                .into_iter(),
            ),
            delays_ms: vec![5.0, 450.0],
            learned: None,
        }
    }

    #[test]
    fn summary() {
        let expected = "\
4 of 4 s of video seen in 4.2 s (played), scheduler ecf over olia, SHA-256 right

startup      0.25 s
stalls       none
bitrate      mean 5.25 Mbit/s: 1 at 1, 2 at 5, 1 at 10 Mbit/s; 2 changes
chunk time   mean 0.750 s, median 0.400 s, 95 % within 1.600 s, longest 1.600 s

bitrate      ▁▄▄█  up to 10.00 Mbit/s
chunk time   ▁▄▂█  up to 1.60 s
buffer       ████  up to 2.00 s

                     link      delay     received    share
near             9 Mbit/s       5 ms       2.0 MB   80.0 %
far              9 Mbit/s     450 ms       0.5 MB   20.0 %
";
        assert_eq!(report().to_string(), expected);
    }

    #[test]
    fn stalls_damage_and_policy_are_told() {
        let mut report = report();
        (report.stalls, report.stalled) = (2, 1.5);
        (report.end, report.sha256_ok) = ("stopped", false);
        let mut learned = Learned::new("dqn");
        learned.policy = Some(LearnedPolicy::new("plan".into(), 7, Fallbacks::default()));
        report.learned = Some(learned);
        let text = report.to_string();
        assert!(text.contains("(stopped)") && text.contains("SHA-256 WRONG"));
        assert!(text.contains("stalls       2, 1.50 s in all"), "{text}");
        let end = "\nlearned by dqn\n  policy: plan, 7 decisions\n";
        assert!(text.ends_with(end), "{text}");
    }

    #[test]
    fn of_nothing() {
        assert_eq!(Spread::of(&[]), None);
        let mut report = report();
        report.chunks.clear();
        (report.startup, report.bitrate_mbps, report.chunk_time) = (None, None, None);
        assert!(report.to_string().ends_with("\nno chunk arrived\n"));
        let json: Value = serde_json::from_str(&report.to_json()).unwrap();
        assert!(json["bitrate_mbps"].is_null() && json["startup"].is_null());
    }

    #[test]
    fn json_has_what_the_summary_says() {
        let text = report().to_json();
        assert!(!text.contains('\n'));
        let json: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["end"], "played");
        assert_eq!(json["chunk_time"]["longest"], 1.6);
        assert_eq!(json["chunks"][3]["bitrate_mbps"], 10.0);
        assert_eq!(json["paths"][1]["share"], 0.2);
        assert!(json["error"].is_null() && json["learned"].is_null());
    }

    #[test]
    fn ranks() {
        let times: Vec<_> = (1..=100).map(f64::from).collect();
        let spread = Spread::of(&times).unwrap();
        assert_eq!(
            (spread.median, spread.p95, spread.longest),
            (50.0, 95.0, 100.0)
        );
        assert_eq!(spread.mean, 50.5);
    }
}
