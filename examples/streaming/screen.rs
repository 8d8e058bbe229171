//! What the user sees during playback: bars on a terminal, otherwise a line per chunk.

use std::io::{IsTerminal, stderr};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::playback::{Chunk, Playback};

/// Where the playback is shown. It uses stderr, since the result goes to stdout. Dropping it
/// removes the bars.
pub(crate) enum Screen {
    /// Nothing is shown.
    Off,
    /// A line per chunk, with the names of the paths.
    Lines(Vec<String>),
    Bars(Bars),
}

/// A bar for the video, and one per path.
pub(crate) struct Bars {
    group: MultiProgress,
    video: ProgressBar,
    paths: Vec<ProgressBar>,
    length: Duration,
}

impl Screen {
    /// Bars if stderr is a terminal, otherwise lines. `length` is that of the video.
    pub(crate) fn new(wanted: bool, length: Duration, paths: &[&str]) -> Self {
        if !wanted {
            Self::Off
        } else if stderr().is_terminal() {
            Self::Bars(Bars::new(length, paths))
        } else {
            Self::Lines(paths.iter().map(|name| (*name).to_owned()).collect())
        }
    }

    /// Shows the state of the playback.
    pub(crate) fn show(&self, playback: &Playback<'_>) {
        if let Self::Bars(bars) = self {
            bars.show(playback);
        }
    }

    /// Shows a new chunk.
    pub(crate) fn on_chunk(&self, playback: &Playback<'_>) {
        match (self, playback.chunks.last()) {
            (Self::Lines(names), Some(chunk)) => note!("{}", line(chunk, names)),
            _ => self.show(playback),
        }
    }
}

/// The line for a chunk.
fn line(chunk: &Chunk, names: &[String]) -> String {
    let total: u64 = chunk.paths.iter().sum();
    let share = |bytes: u64| bytes as f64 * 100.0 / total.max(1) as f64;
    let shares = names.iter().zip(&chunk.paths);
    let shares = shares.map(|(name, bytes)| format!("{name} {:3.0} %", share(*bytes)));
    let shares = shares.collect::<Vec<_>>().join(", ");
    let Chunk {
        number,
        bitrate_mbps,
        at,
        seconds,
        buffer,
        ..
    } = chunk;
    let damaged = if chunk.sha256_ok { "" } else { ", DAMAGED" };
    format!(
        "{at:7.2} s  chunk {number:3}: {bitrate_mbps:4} Mbit/s in {seconds:5.3} s, buffer {buffer:4.2} s, {shares}{damaged}"
    )
}

impl Bars {
    fn new(length: Duration, paths: &[&str]) -> Self {
        let group = MultiProgress::new();
        let bar = |name: &str, length: u64, template: &str| {
            // Only a mistake in this file can make a template invalid. The default style is then
            // good enough.
            let style = ProgressStyle::with_template(template)
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            let bar = ProgressBar::new(length).with_style(style.progress_chars("=> "));
            group.add(bar).with_prefix(name.to_owned())
        };
        // No line is wider than a terminal of 60 columns, or it would break, and stay.
        let path = "{prefix:>10.10} [{bar:14}] {percent:>3} % {bytes:>11} {bytes_per_sec:>13}";
        Self {
            video: bar(
                "video",
                milliseconds(length),
                "{prefix:>10.10} [{bar:14}] {wide_msg}",
            ),
            paths: paths.iter().map(|name| bar(name, 1, path)).collect(),
            group,
            length,
        }
    }

    fn show(&self, playback: &Playback<'_>) {
        let now = playback.elapsed();
        let seen = playback.seen();
        let (stalls, _) = playback.player.stalls();
        let state = match playback.player.next_change() {
            Some(_) => "plays",
            None if seen >= self.length => "is over",
            None if playback.chunks.is_empty() => "starts",
            None => "STALLS",
        };
        self.video.set_position(milliseconds(seen));
        self.video.set_message(format!(
            "{state} {:.0}/{:.0} s, buffer {:.1} s, {} Mbit/s, stalls {stalls}",
            seen.as_secs_f64(),
            self.length.as_secs_f64(),
            playback.player.left(now).as_secs_f64(),
            playback.bitrate() as f64 / 1e6,
        ));
        // Relative to the sum of all paths, so that the bars are shares. The sum must not be zero.
        let total = playback.received.iter().sum::<u64>().max(1);
        for (bar, bytes) in self.paths.iter().zip(&playback.received) {
            bar.set_length(total);
            bar.set_position(*bytes);
        }
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        // A failure to remove the bars is harmless.
        let _ = self.group.clear();
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let mut chunk = Chunk {
            number: 12,
            bitrate_mbps: 5.0,
            bytes: 625_000,
            at: 9.876,
            seconds: 0.654_3,
            buffer: 2.5,
            paths: vec![600_000, 30_000],
            sha256_ok: true,
        };
        let names = ["near".to_owned(), "far".to_owned()];
        let expected =
            "   9.88 s  chunk  12:    5 Mbit/s in 0.654 s, buffer 2.50 s, near  95 %, far   5 %";
        assert_eq!(line(&chunk, &names), expected);
        (chunk.sha256_ok, chunk.paths) = (false, vec![0, 0]);
        let text = line(&chunk, &names);
        assert!(text.ends_with("near   0 %, far   0 %, DAMAGED"), "{text}");
    }
}
