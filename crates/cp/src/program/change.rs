//! `mkdir`, `mv`, `rm`: what changes on the server without a transfer.

use mpquic_cp::{Error, Name};
use mpquic_peer::say;
use serde_json::json;

use crate::program::arguments::Connect;
use crate::program::screen::Screen;
use crate::program::session::{self, Ended, Stopping};

/// What is to be done.
pub(crate) enum Change {
    MakeFolder(Name),
    Remove(Name, bool),
    Rename(Name, Name),
}

impl Change {
    pub(crate) fn rename(from: &str, to: &str) -> Result<Self, Error> {
        let name: Name = from.parse()?;
        let target: Name = to.parse()?;
        // Into a folder, under its own name.
        let target = match name.last() {
            Some(last) if to.ends_with('/') || target.last().is_none() => target.join(last)?,
            _ => target,
        };
        Ok(Self::Rename(name, target))
    }
}

pub(crate) async fn change(
    connect: &Connect,
    change: &Change,
    stop: Stopping<'_>,
) -> Result<u8, Error> {
    let way = connect.way()?;
    let screen = Screen::lines();
    let ended = session::run(connect, way, &screen, stop, async |client| match change {
        Change::MakeFolder(name) => client.make_folder(name).await,
        Change::Remove(name, deep) => client.remove(name, *deep).await,
        Change::Rename(from, to) => client.rename(from, to).await,
    });
    match ended.await {
        Ok(Ended::Done) => {
            if connect.json {
                say!("{}", json!({ "done": true }));
            }
            Ok(0)
        }
        Ok(Ended::Stopped(stop)) => Ok(stop.exit_code()),
        Err(error) => {
            if connect.json {
                let error = json!({ "error": error.to_string(), "exit": error.exit() as u8 });
                say!("{error}");
            }
            Err(error)
        }
    }
}
