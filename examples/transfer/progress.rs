//! Progress bars on the terminal: one for the content and one per path.

use std::io::IsTerminal;
use std::sync::atomic::Ordering;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::fetch::Counter;

/// The bars of one download. Dropping them removes them from the terminal.
pub(crate) struct Bars {
    group: MultiProgress,
    content: ProgressBar,
    routes: Vec<ProgressBar>,
}

impl Bars {
    /// Bars on stderr, if requested and stderr is a terminal. Otherwise nothing is drawn.
    pub(crate) fn new<'a>(
        wanted: bool,
        title: &str,
        routes: impl Iterator<Item = &'a str>,
    ) -> Self {
        let group = MultiProgress::new();
        if !wanted || !std::io::stderr().is_terminal() {
            group.set_draw_target(indicatif::ProgressDrawTarget::hidden());
        }
        let bar = |name: &str, template: &str| {
            // Only a mistake in this file can make a template invalid. The default style is then
            // good enough.
            let style = ProgressStyle::with_template(template)
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            let bar = ProgressBar::new(0).with_style(style.progress_chars("=> "));
            group.add(bar).with_prefix(name.to_owned())
        };
        Self {
            routes: routes
                .map(|name| {
                    bar(
                        name,
                        "{prefix:>16.16} [{wide_bar}] {bytes:>11} {bytes_per_sec:>13}            ",
                    )
                })
                .collect(),
            content: bar(
                title,
                "{prefix:>16.16} [{wide_bar}] {bytes:>11} {bytes_per_sec:>13} {percent:>3} % {eta:>5}",
            ),
            group,
        }
    }

    /// Updates the bars with the bytes received in total and on each route.
    pub(crate) fn show(&self, counter: &Counter, per_route: &[u64]) {
        let total = counter.total.load(Ordering::Relaxed);
        self.content.set_length(total);
        self.content
            .set_position(counter.received.load(Ordering::Relaxed));
        for (bar, bytes) in self.routes.iter().zip(per_route) {
            // Relative to the whole content, so that the bars of the paths add up to that of the
            // content.
            bar.set_length(total);
            bar.set_position(*bytes);
        }
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        // The report has all results. A failure to remove the bars is harmless.
        let _ = self.group.clear();
    }
}
