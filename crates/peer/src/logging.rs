//! What the programs log: nothing, unless `RUST_LOG` asks for it.

use std::io::IsTerminal;

use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Shows on standard error what the environment variable `RUST_LOG` asks for: `debug`, or `mpquic=debug,mpquic_proto=trace`
/// and the like, with the levels that the guide's page "Seeing inside" lists. Without it, nothing is logged, and logging
/// costs nothing. Does nothing if the program logs already.
///
/// A text that is no filter is told, and counts as none.
pub fn log_to_stderr() {
    let Some(text) = std::env::var_os("RUST_LOG").filter(|text| !text.is_empty()) else {
        return;
    };
    let targets: Targets = match text.to_string_lossy().parse() {
        Ok(targets) => targets,
        Err(error) => {
            crate::note!("RUST_LOG is ignored: {error}");
            return;
        }
    };
    let shown = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_filter(targets);
    // Fails if there is one already, which is what is wanted then.
    let _ = tracing_subscriber::registry().with(shown).try_init();
}
