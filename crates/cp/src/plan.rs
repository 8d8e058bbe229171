//! What a transfer would do, without doing it.

use std::collections::HashMap;

use serde::Serialize;

use crate::wire::{Entry, Kind};

/// What would become of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Action {
    /// There is nothing in its place yet.
    New,
    /// What is in its place has another size, and is replaced.
    Replace,
    /// What is in its place has the same size: contents are compared, and it is replaced if they differ.
    Compare,
    /// What is in its place was changed later, and stays.
    Keep,
}

/// A file or link that would be copied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Planned {
    /// Its name on the side that it comes from.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// What would become of it.
    pub action: Action,
}

/// What is in the place of a file: its size, and when it was changed.
pub(crate) type There = (u64, Option<u64>);

/// What would become of an entry.
pub(crate) fn planned(entry: &Entry, there: Option<There>, overwrite: bool) -> Planned {
    let action = match there {
        None => Action::New,
        Some((size, _)) if entry.kind == Kind::File && size == entry.size => Action::Compare,
        Some((_, changed)) if !overwrite && changed > Some(entry.modified.unwrap_or(0)) => {
            Action::Keep
        }
        Some(_) => Action::Replace,
    };
    Planned {
        name: entry.name.to_string(),
        size: entry.size,
        action,
    }
}

/// Files and links by their names.
pub(crate) fn by_name(entries: Vec<Entry>) -> HashMap<String, There> {
    let files = entries
        .into_iter()
        .filter(|entry| entry.kind != Kind::Folder);
    let there = files.map(|entry| (entry.name.to_string(), (entry.size, entry.modified)));
    there.collect()
}
