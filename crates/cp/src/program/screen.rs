//! What a user sees while something goes on: a bar on the standard error output, and lines above it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};
use mpquic_cp::{Client, Progress};
use mpquic_peer::note;

/// How often the bar is drawn.
const DRAW: Duration = Duration::from_millis(100);
/// For terminals of 80 columns and more: the bar takes what the others leave.
const WIDE: &str = "{wide_bar} {bytes}/{total_bytes} {msg}";
/// For those that have no room for a bar; the message is cut off, rather than to go on in the next line.
const NARROW: &str = "{bytes}/{total_bytes} {wide_msg}";
/// Columns that a bar of some use needs beside the rest.
const COLUMNS: u16 = 80;

/// The screen of a client. Clones are the same screen.
#[derive(Clone)]
pub(crate) struct Screen(Option<ProgressBar>);

impl Screen {
    /// Without a bar, lines only.
    pub(crate) const fn lines() -> Self {
        Self(None)
    }

    /// With a bar, if there is a terminal.
    pub(crate) fn with_bar() -> Self {
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        fit(&bar, is_narrow());
        Self(Some(bar))
    }

    /// A line for the user.
    pub(crate) fn tell(&self, line: &str) {
        match &self.0 {
            // The bar would be left above the line, and drawn again below it.
            Some(bar) => bar.suspend(|| note!("{line}")),
            None => note!("{line}"),
        }
    }

    /// Draws for as long as it is polled.
    pub(crate) async fn follow(
        &self,
        client: &Client,
        progress: &Arc<Progress>,
    ) -> std::convert::Infallible {
        let Some(bar) = &self.0 else {
            return std::future::pending().await;
        };
        let mut ticks = tokio::time::interval(DRAW);
        let mut narrow = is_narrow();
        let mut speed = Speed::new(Instant::now());
        loop {
            ticks.tick().await;
            speed.update(Instant::now(), progress.moved_now(), progress.files());
            // A window may be made smaller meanwhile.
            if narrow != is_narrow() {
                narrow = !narrow;
                fit(bar, narrow);
            }
            // What comes from a pipe is as long as it is.
            bar.set_length(progress.total().max(progress.done()));
            bar.set_position(progress.done());
            let (files, all) = (progress.files(), progress.expected());
            let paths = count(client.paths().len() as u64, "path");
            let left = speed.left(progress);
            bar.set_message(format!(
                "{}/s, {}{files} of {}, {paths}",
                HumanBytes(speed.rate() as u64),
                left.map_or_else(String::new, |left| format!("{} left, ", clock(left))),
                count(all, "file"),
            ));
        }
    }

    pub(crate) fn clear(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

/// Whether the terminal has no room for a bar.
fn is_narrow() -> bool {
    console::Term::stderr().size().1 < COLUMNS
}

fn fit(bar: &ProgressBar, narrow: bool) {
    if let Ok(style) = ProgressStyle::with_template(if narrow { NARROW } else { WIDE }) {
        bar.set_style(style);
    }
}

/// `1 file`, `2 files`.
pub(crate) fn count(number: u64, what: &str) -> String {
    let many = if number == 1 { "" } else { "s" };
    format!("{number} {what}{many}")
}

/// How fast it goes, as far as the last seconds tell, and with that how much time is left.
#[derive(Debug)]
pub(crate) struct Speed {
    at: Instant,
    moved: u64,
    files: u64,
    /// What was moved, complete and the time that it took, each less the longer it is ago.
    weighed: [f64; 3],
}

impl Speed {
    /// What is so long ago counts less by a factor of e, seconds.
    const MEMORY: f64 = 5.0;

    pub(crate) fn new(now: Instant) -> Self {
        Self {
            at: now,
            moved: 0,
            files: 0,
            weighed: [0.0; 3],
        }
    }

    /// So many bytes were moved until now, and so many files are complete.
    pub(crate) fn update(&mut self, now: Instant, moved: u64, files: u64) {
        let took = now.saturating_duration_since(self.at).as_secs_f64();
        let new = [
            moved.saturating_sub(self.moved) as f64,
            files.saturating_sub(self.files) as f64,
            took,
        ];
        let kept = (-took / Self::MEMORY).exp();
        for (sum, new) in self.weighed.iter_mut().zip(new) {
            *sum = *sum * kept + new;
        }
        (self.at, self.moved, self.files) = (now, moved, files);
    }

    /// Bytes per second.
    pub(crate) fn rate(&self) -> f64 {
        let [moved, _, took] = self.weighed;
        if took > 0.0 { moved / took } else { 0.0 }
    }

    pub(crate) fn left(&self, progress: &Progress) -> Option<Duration> {
        let bytes = progress.total().saturating_sub(progress.done());
        self.left_of(bytes, progress.expected().saturating_sub(progress.files()))
    }

    /// What bytes and files take: that of many small files is not told by their bytes.
    fn left_of(&self, bytes: u64, files: u64) -> Option<Duration> {
        let [moved, complete, took] = self.weighed;
        let of = |left: u64, done: f64| (done > 0.0).then(|| left as f64 * took / done);
        let seconds = match (of(bytes, moved), of(files, complete)) {
            (Some(bytes), Some(files)) => bytes.max(files),
            // The rest of what is large is on its way.
            (Some(bytes), None) => bytes,
            (None, files) => files.filter(|_| bytes == 0)?,
        };
        Duration::try_from_secs_f64(seconds).ok()
    }
}

/// `1:05`, `2:01:05`.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs_f64().ceil() as u64;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_that_is_left_follows_what_goes_slower() {
        let begun = Instant::now();
        let mut speed = Speed::new(begun);
        assert_eq!(speed.left_of(1, 1), None);
        let second = Duration::from_secs(1);
        // 1,000 bytes and 10 files a second.
        for at in 1..=30 {
            speed.update(
                begun + at * second,
                u64::from(at) * 1000,
                u64::from(at) * 10,
            );
        }
        let left = |speed: &Speed, bytes, files| {
            let left = speed.left_of(bytes, files).unwrap();
            left.as_secs_f64().round()
        };
        assert_eq!(left(&speed, 60_000, 100), 60.0);
        assert_eq!(left(&speed, 6_000, 1_000), 100.0);
        assert_eq!(speed.rate().round(), 1000.0);
        // It becomes half as fast, and files of no bytes are left in the end.
        for at in 31..=60 {
            let more = u64::from(at - 30);
            speed.update(begun + at * second, 30_000 + more * 500, 300 + more * 5);
        }
        assert!((118.0..=121.0).contains(&left(&speed, 60_000, 0)));
        assert_eq!(left(&speed, 0, 0), 0.0);
        // Over another connection, what was moved is counted anew.
        speed.update(begun + 61 * second, 10, 305);
        assert!(speed.left_of(1_000, 0).is_some());
    }

    #[test]
    fn times_are_shown_as_on_a_clock() {
        for (seconds, text) in [(0.2, "0:01"), (65.0, "1:05"), (7265.0, "2:01:05")] {
            assert_eq!(clock(Duration::from_secs_f64(seconds)), text);
        }
    }
}
