//! `ls`: what a folder of the server has.

use std::io::Write;

use mpquic_cp::{Entry, Error, Kind, List, Name, Progress};
use mpquic_peer::{Escaped, Way, note};
use serde_json::json;

use crate::program::arguments::Connect;
use crate::program::screen::Screen;
use crate::program::session::{self, Ended, Stopping};

pub(crate) async fn list(
    connect: &Connect,
    way: Way,
    name: &Name,
    what: List,
    stop: Stopping<'_>,
) -> Result<u8, Error> {
    if connect.common.scheduler.is_some() || connect.common.congestion.is_some() {
        super::transfer::warn_of_sending();
    }
    let progress = Progress::telling(|omission| note!("left out: {omission}"));
    let mut entries = Vec::new();
    let listed = session::run(connect, way, &Screen::lines(), stop, async |client| {
        progress.restart();
        entries.clear();
        client
            .list(name, what, &progress, |entry| entries.push(entry))
            .await
    })
    .await;
    // The folder itself is what was asked for.
    entries.retain(|entry| entry.kind != Kind::Folder || entry.name != *name);
    entries.sort_by(|first, second| first.name.cmp(&second.name));
    let mut text = String::new();
    for entry in &entries {
        text.push_str(&line(entry, connect.json));
        text.push('\n');
    }
    let written = std::io::stdout().write_all(text.as_bytes());
    let code = match listed? {
        Ended::Stopped(stop) => stop.exit_code(),
        Ended::Done => progress.incomplete().map_or(0, |exit| exit as u8),
    };
    match written {
        // Where nobody reads it any more, as behind `head`, nothing is lost; on a full disk, the listing is.
        Err(source) if code == 0 && source.kind() != std::io::ErrorKind::BrokenPipe => {
            let path = "standard output".to_owned();
            Err(Error::File { path, source })
        }
        _ => Ok(code),
    }
}

fn line(entry: &Entry, json: bool) -> String {
    if json {
        return json!(entry).to_string();
    }
    match (entry.kind, &entry.target) {
        (Kind::File, _) => format!("{:>14}  {}", entry.size, entry.name),
        (Kind::Folder, _) => format!("{:>14}  {}/", "", entry.name),
        (Kind::Link, target) => {
            let target = Escaped::new(target.as_deref().unwrap_or_default());
            format!("{:>14}  {} -> {target}", "", entry.name)
        }
    }
}
