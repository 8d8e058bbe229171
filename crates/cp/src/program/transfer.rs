//! `get` and `put`: a transfer with a bar, and what came of it.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use indicatif::HumanBytes;
use mpquic_cp::{Action, Client, CopyOptions, Error, Name, PathShare, Planned, Progress, Summary};
use mpquic_peer::{Escaped, Way, say};
use serde_json::json;

use crate::program::arguments::Connect;
use crate::program::screen::{Screen, count};
use crate::program::session::{self, Ended, Stopping};

pub(crate) async fn get(
    connect: &Connect,
    way: Way,
    options: CopyOptions,
    name: &Name,
    local: &Path,
    stop: Stopping<'_>,
) -> Result<u8, Error> {
    if connect.common.scheduler.is_some() || connect.common.congestion.is_some() {
        warn_of_sending();
    }
    transfer(
        connect,
        way,
        stop,
        options.dry_run,
        async |client, progress| client.get(name, local, &options, progress).await,
    )
    .await
}

pub(crate) async fn put(
    connect: &Connect,
    way: Way,
    options: CopyOptions,
    local: &Path,
    remote: Option<&str>,
    stop: Stopping<'_>,
) -> Result<u8, Error> {
    transfer(
        connect,
        way,
        stop,
        options.dry_run,
        async |client, progress| client.put(local, remote, &options, progress).await,
    )
    .await
}

/// Says that this side chooses nothing, since it sends nothing.
pub(crate) fn warn_of_sending() {
    mpquic_peer::note!(
        "warning: --scheduler and --congestion have no effect here: they are for what this side sends, and the server sends"
    );
}

/// Connects, runs `work` with a bar, and tells what came of it.
async fn transfer(
    connect: &Connect,
    way: Way,
    stop: Stopping<'_>,
    is_dry: bool,
    work: impl AsyncFn(&Client, &Arc<Progress>) -> Result<(), Error>,
) -> Result<u8, Error> {
    let screen = if connect.json {
        Screen::lines()
    } else {
        Screen::with_bar()
    };
    let progress = Arc::new(Progress::telling({
        let screen = screen.clone();
        move |omission| screen.tell(&format!("left out: {omission}"))
    }));
    let begun = Instant::now();
    let mut paths = Vec::new();
    let done = session::run(connect, way, &screen, stop, async |client| {
        progress.restart();
        let worked = tokio::select! {
            worked = work(client, &progress) => worked,
            never = screen.follow(client, &progress) => match never {},
        };
        paths = client.paths();
        worked
    })
    .await;
    screen.clear();
    match done {
        Ok(Ended::Stopped(stop)) => Ok(stop.exit_code()),
        Ok(Ended::Done) if is_dry => {
            for file in progress.plan() {
                if connect.json {
                    say!("{}", json!({ "plan": file }));
                    continue;
                }
                let Planned { name, size, .. } = &file;
                let action = match file.action {
                    Action::New => "new",
                    Action::Replace => "replace",
                    Action::Compare => "compare",
                    _ => "keep",
                };
                say!(
                    "{action:<8}{:>12}  {}",
                    HumanBytes(*size).to_string(),
                    Escaped::new(name)
                );
            }
            Ok(0)
        }
        Ok(Ended::Done) => {
            tell(&progress.summary(begun.elapsed(), paths), connect.json);
            Ok(progress.incomplete().map_or(0, |exit| exit as u8))
        }
        Err(error) => {
            if connect.json {
                say!(
                    "{}",
                    json!({ "error": error.to_string(), "exit": error.exit() as u8 })
                );
            }
            Err(error)
        }
    }
}

fn tell(summary: &Summary, json: bool) {
    if json {
        say!("{}", json!(summary));
        return;
    }
    let rate = summary.moved as f64 * 8e-6 / summary.seconds.max(1e-3);
    say!(
        "{}, {}: {} in {:.1} s, {rate:.1} Mbit/s",
        count(summary.files, "file"),
        HumanBytes(summary.bytes),
        HumanBytes(summary.moved),
        summary.seconds,
    );
    if summary.resumed > 0 || summary.unchanged > 0 {
        say!(
            "  {} were there, {} unchanged",
            HumanBytes(summary.resumed),
            count(summary.unchanged, "file"),
        );
    }
    if summary.omitted > 0 {
        say!("  {} left out", summary.omitted);
    }
    let carried = |path: &PathShare| path.received + path.sent;
    let all: u64 = summary.paths.iter().map(carried).sum();
    for path in &summary.paths {
        let share = 100.0 * carried(path) as f64 / all.max(1) as f64;
        say!("  {} to {}: {share:.0} %", path.local.ip(), path.remote);
    }
}
