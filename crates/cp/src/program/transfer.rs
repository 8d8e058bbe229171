//! `get`, `put` and `sync`: a transfer with a bar, and what came of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::HumanBytes;
use mpquic_cp::{
    Action, Client, CopyOptions, Error, Event, Passed, PathShare, Planned, Progress, Summary,
};
use mpquic_peer::{Escaped, Way, note, say};
use serde_json::json;

use crate::program::arguments::Connect;
use crate::program::places::{Get, Put, Sync};
use crate::program::screen::{Screen, Speed, count};
use crate::program::session::{self, Ended, Stopping};

pub(crate) async fn get(
    connect: &Connect,
    way: Way,
    options: CopyOptions,
    what: Get,
    stop: Stopping<'_>,
) -> Result<u8, Error> {
    if connect.common.scheduler.is_some() || connect.common.congestion.is_some() {
        warn_of_sending();
    }
    let is_dry = options.dry_run;
    match what {
        Get::One(name, local) => {
            transfer(
                connect,
                way,
                stop,
                How::of(is_dry),
                async |client, progress| client.get(&name, &local, &options, progress).await,
            )
            .await
        }
        Get::Many(names, local) => {
            transfer(
                connect,
                way,
                stop,
                How::of(is_dry),
                async |client, progress| client.get_all(&names, &local, &options, progress).await,
            )
            .await
        }
        Get::Out(name) => {
            if connect.json || is_dry {
                let why = "with `-`, standard output has the contents: no --json and no --dry-run";
                return Err(Error::Argument(why.to_owned()));
            }
            // What was written stays so over another connection.
            let out = tokio::sync::Mutex::new((tokio::io::stdout(), Passed::default()));
            transfer(connect, way, stop, How::Pipe, async |client, progress| {
                let (out, passed) = &mut *out.lock().await;
                client.get_to(&name, out, passed, progress).await
            })
            .await
        }
    }
}

pub(crate) async fn put(
    connect: &Connect,
    way: Way,
    options: CopyOptions,
    what: Put,
    stop: Stopping<'_>,
) -> Result<u8, Error> {
    let is_dry = options.dry_run;
    match what {
        Put::One(local, remote) => {
            transfer(
                connect,
                way,
                stop,
                How::of(is_dry),
                async |client, progress| {
                    let remote = remote.as_deref();
                    client.put(&local, remote, &options, progress).await
                },
            )
            .await
        }
        Put::Many(locals, remote) => {
            transfer(
                connect,
                way,
                stop,
                How::of(is_dry),
                async |client, progress| client.put_all(&locals, &remote, &options, progress).await,
            )
            .await
        }
        Put::In(name) => {
            if is_dry || connect.server == "-" {
                let why = "with `-`, standard input has the contents: no ticket, and no --dry-run";
                return Err(Error::Argument(why.to_owned()));
            }
            // What was read cannot be read again.
            let once = Connect {
                retry: None,
                ..connect.clone()
            };
            let input = tokio::sync::Mutex::new(tokio::io::stdin());
            transfer(&once, way, stop, How::Copy, async |client, progress| {
                let input = &mut *input.lock().await;
                client.put_from(input, &name, progress).await
            })
            .await
        }
    }
}

pub(crate) async fn sync(
    connect: &Connect,
    way: Way,
    options: CopyOptions,
    what: Sync,
    stop: Stopping<'_>,
) -> Result<u8, Error> {
    match what {
        Sync::Get(name, local) => get(connect, way, options, Get::One(name, local), stop).await,
        Sync::Put(local, name) => {
            let name = Some(name.as_str().to_owned());
            put(connect, way, options, Put::One(local, name), stop).await
        }
    }
}

/// What is told of a transfer, and where.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Copy,
    /// What would be done.
    Dry,
    /// Standard output has the contents.
    Pipe,
}

impl How {
    const fn of(is_dry: bool) -> Self {
        if is_dry { Self::Dry } else { Self::Copy }
    }
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
    how: How,
    work: impl AsyncFn(&Client, &Arc<Progress>) -> Result<(), Error>,
) -> Result<u8, Error> {
    let screen = if connect.json {
        Screen::lines()
    } else {
        Screen::with_bar()
    };
    let progress = Arc::new(Progress::following({
        let (screen, json) = (screen.clone(), connect.json);
        move |event| {
            if let Event::LeftOut(omission) = event {
                screen.tell(&format!("left out: {omission}"));
            }
            if json {
                say!("{}", json!(event));
            }
        }
    }));
    let begun = Instant::now();
    let mut paths = Vec::new();
    let done = session::run(connect, way, &screen, stop, async |client| {
        progress.restart();
        let worked = tokio::select! {
            worked = work(client, &progress) => worked,
            never = screen.follow(client, &progress) => match never {},
            never = told(connect.json, &progress) => match never {},
        };
        paths = client.paths();
        worked
    })
    .await;
    screen.clear();
    match done {
        Ok(Ended::Stopped(stop)) => Ok(stop.exit_code()),
        Ok(Ended::Done) if how == How::Dry => {
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
                    Action::Delete => "delete",
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
            let summary = progress.summary(begun.elapsed(), paths);
            let lines = lines(&summary, connect.json);
            match how {
                How::Pipe => lines.iter().for_each(|line| note!("{line}")),
                _ => lines.iter().for_each(|line| say!("{line}")),
            }
            Ok(progress.incomplete().map_or(0, |exit| exit as u8))
        }
        Err(error) => {
            if connect.json {
                say!(
                    "{}",
                    json!({ "event": "error", "error": error.to_string(), "exit": error.exit() as u8 })
                );
            }
            Err(error)
        }
    }
}

/// Tells each second how far it is, as JSON, for as long as it is polled.
async fn told(json: bool, progress: &Progress) -> std::convert::Infallible {
    const EACH: Duration = Duration::from_secs(1);
    if !json {
        return std::future::pending().await;
    }
    let mut speed = Speed::new(Instant::now());
    let mut ticks = tokio::time::interval(EACH);
    // The first is due at once.
    ticks.tick().await;
    loop {
        ticks.tick().await;
        speed.update(Instant::now(), progress.moved_now(), progress.files());
        say!(
            "{}",
            json!({
                "event": "progress",
                "bytes": progress.done(),
                "of_bytes": progress.total(),
                "files": progress.files(),
                "of_files": progress.expected(),
                "bytes_per_second": speed.rate() as u64,
                "seconds_left": speed.left(progress).map(|left| left.as_secs_f64().ceil()),
            })
        );
    }
}

/// What came of it.
fn lines(summary: &Summary, json: bool) -> Vec<String> {
    if json {
        let mut summary = json!(summary);
        summary["event"] = "done".into();
        return vec![summary.to_string()];
    }
    let rate = summary.moved as f64 * 8e-6 / summary.seconds.max(1e-3);
    let mut lines = vec![format!(
        "{}, {}: {} in {:.1} s, {rate:.1} Mbit/s",
        count(summary.files, "file"),
        HumanBytes(summary.bytes),
        HumanBytes(summary.moved),
        summary.seconds,
    )];
    if summary.resumed > 0 || summary.unchanged > 0 {
        lines.push(format!(
            "  {} were there, {} unchanged",
            HumanBytes(summary.resumed),
            count(summary.unchanged, "file"),
        ));
    }
    if summary.removed > 0 {
        lines.push(format!("  {} removed", summary.removed));
    }
    if summary.omitted > 0 {
        lines.push(format!("  {} left out", summary.omitted));
    }
    let carried = |path: &PathShare| path.received + path.sent;
    let all: u64 = summary.paths.iter().map(carried).sum();
    for path in &summary.paths {
        let share = 100.0 * carried(path) as f64 / all.max(1) as f64;
        lines.push(format!(
            "  {} to {}: {share:.0} %",
            path.local.ip(),
            path.remote
        ));
    }
    lines
}
