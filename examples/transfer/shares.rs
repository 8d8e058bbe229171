//! What each path contributed, and the paths' names for what a scheduler has learned of them; measures nothing.

use mpquic::sched::{Learned, PathIndex};
use serde::Serialize;

/// What a path contributed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct PathShare {
    pub(crate) name: String,
    /// What the link carries, where that is known.
    pub(crate) rate_mbps: Option<f64>,
    /// Stream bytes received on it; content sent twice counts twice.
    pub(crate) bytes: u64,
    /// Of the stream bytes of all paths.
    pub(crate) share: f64,
}

/// The contribution of each path, given its name, its link's rate if known, and its bytes.
pub(crate) fn shares(paths: impl Iterator<Item = (String, Option<f64>, u64)>) -> Vec<PathShare> {
    let mut shares: Vec<_> = paths
        .map(|(name, rate_mbps, bytes)| PathShare {
            name,
            rate_mbps,
            bytes,
            share: 0.0,
        })
        .collect();
    let total: u64 = shares.iter().map(|path| path.bytes).sum();
    for path in &mut shares {
        path.share = path.bytes as f64 / total.max(1) as f64;
    }
    shares
}

/// The names of paths in slots. Path IDs are in the order of the paths.
pub(crate) fn names(paths: &[PathShare], learned: &Learned) -> impl Fn(PathIndex) -> String {
    move |slot| {
        let id = learned
            .paths
            .get(&slot)
            .and_then(|id| usize::try_from(*id).ok());
        let path = id.and_then(|id| paths.get(id));
        path.map_or_else(|| format!("path {slot}"), |path| path.name.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_nothing() {
        let paths = shares([("a".to_owned(), None, 0)].into_iter());
        assert_eq!(paths[0].share, 0.0);
    }
}
