//! What a transfer would do, without doing it.

use serde::Serialize;

use crate::client::CopyOptions;
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
    /// It is not in what is copied, and is removed.
    Delete,
}

/// A file or link that would be copied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Planned {
    /// Its name on the side that it comes from; of what is removed, on the other one.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// What would become of it.
    pub action: Action,
}

/// What would become of an entry; nothing if it is taken for what is there. Where that is a folder, something else is in the way.
pub(crate) fn planned(
    entry: &Entry,
    there: Option<&Entry>,
    options: &CopyOptions,
) -> Option<Planned> {
    let action = match there {
        None => Action::New,
        Some(there) if options.quick && is_same(entry, there) => return None,
        Some(there)
            if (entry.kind, there.kind) == (Kind::File, Kind::File) && there.size == entry.size =>
        {
            Action::Compare
        }
        Some(there) if !options.overwrite && there.modified > Some(entry.modified.unwrap_or(0)) => {
            Action::Keep
        }
        Some(_) => Action::Replace,
    };
    Some(Planned {
        name: entry.name.to_string(),
        size: entry.size,
        action,
    })
}

/// Whether what is there can be taken for the same without being read.
pub(crate) fn is_same(entry: &Entry, there: &Entry) -> bool {
    let times = entry.modified.is_some() && entry.modified == there.modified;
    entry.kind == there.kind
        && match entry.kind {
            Kind::Link => entry.target == there.target,
            _ => times && entry.size == there.size,
        }
}
