//! The contribution of each path, and the paths' names in reports of learned values.

use mpquic::sched::{Learned, PathIndex};
use serde::Serialize;

/// The contribution of a path.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct PathShare {
    pub(crate) name: String,
    /// The rate of the link, if known.
    pub(crate) rate_mbps: Option<f64>,
    /// Stream bytes received on the path. Content that was sent twice counts twice.
    pub(crate) bytes: u64,
    /// The share of the stream bytes of all paths.
    pub(crate) share: f64,
}

/// The contributions of the paths, given the name, the link's rate if known, and the bytes of each.
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

/// The names of paths by slot. Path IDs have the order of the paths.
pub(crate) fn names(paths: &[PathShare], learned: &Learned) -> impl Fn(PathIndex) -> String {
    move |slot| {
        let id = learned
            .paths
            .get(&slot)
            .and_then(|id| usize::try_from(id.0).ok());
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
