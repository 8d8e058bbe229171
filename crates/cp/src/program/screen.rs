//! What a user sees while something goes on: a bar on the standard error output, and lines above it.

use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use mpquic_cp::{Client, Progress};
use mpquic_peer::note;

/// How often the bar is drawn.
const DRAW: Duration = Duration::from_millis(100);
/// For terminals of 80 columns and more: the bar takes what the others leave.
const WIDE: &str = "{wide_bar} {bytes}/{total_bytes} {binary_bytes_per_sec} {eta} {msg}";
/// For those that have no room for a bar; the message is cut off, rather than to go on in the next line.
const NARROW: &str = "{bytes}/{total_bytes} {binary_bytes_per_sec} {eta} {wide_msg}";
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
        loop {
            ticks.tick().await;
            // A window may be made smaller meanwhile.
            if narrow != is_narrow() {
                narrow = !narrow;
                fit(bar, narrow);
            }
            bar.set_length(progress.total());
            bar.set_position(progress.done());
            let (files, paths) = (progress.files(), client.paths().len() as u64);
            bar.set_message(format!(
                "{}, {}",
                count(files, "file"),
                count(paths, "path")
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
