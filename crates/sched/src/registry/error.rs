//! Why a scheduler could not be made, in words that help.

use thiserror::Error;

use super::InvalidConfig;

/// Why a scheduler could not be made or registered.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// No scheduler has this name.
    #[error("unknown scheduler `{name}`{} Known: {}", hint(nearest), known.join(", "))]
    UnknownName {
        /// The name that was asked for.
        name: String,
        /// The known name that looks most like it, if one does.
        nearest: Option<String>,
        /// All known names, each with its second names.
        known: Vec<String>,
    },
    /// The scheduler is there, but this program was built without it.
    #[error(
        "scheduler `{name}` is in the crate `{package}`, which this program was built without: mpquic's own programs have it with `--features neural`"
    )]
    NotBuilt {
        /// The name that was asked for.
        name: String,
        /// The crate that has it, and adds it to a registry.
        package: &'static str,
    },
    /// The configuration is not one of this scheduler.
    #[error("scheduler `{scheduler}`, {problem}")]
    InvalidConfig {
        /// The scheduler's name; the first one if it was asked for by a second one.
        scheduler: String,
        /// The field, and what was expected of it.
        problem: InvalidConfig,
    },
    /// A scheduler with this name is registered already.
    #[error("a scheduler is registered as `{0}` already")]
    NameTaken(String),
}

/// The end of the sentence that names the unknown one.
fn hint(nearest: &Option<String>) -> String {
    match nearest {
        Some(nearest) => format!(", did you mean `{nearest}`?"),
        None => ".".to_owned(),
    }
}

/// The candidate with the fewest edits to `name`, unless that is most of it; of equals the first.
pub(super) fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<String> {
    let name = name.to_ascii_lowercase();
    candidates
        .map(|candidate| (distance(&name, candidate), candidate))
        .filter(|(distance, candidate)| 2 * distance <= candidate.len())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate.to_owned())
}

/// How many characters must be put in, taken out or replaced to make `b` of `a` (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.chars().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.chars().count()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, expected) in [
            ("", "", 0),
            ("", "rr", 2),
            ("minrtt", "minrtt", 0),
            ("min-rtt", "minrtt", 1),
            ("mintrt", "minrtt", 2),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(a, b), expected, "{a} {b}");
            assert_eq!(distance(b, a), expected, "{b} {a}");
        }
    }

    #[test]
    fn nearest_gives_up_on_what_is_like_nothing() {
        let known = || ["minrtt", "roundrobin", "single"].into_iter();
        assert_eq!(nearest("Round-Robin", known()).unwrap(), "roundrobin");
        assert_eq!(nearest("singel", known()).unwrap(), "single");
        assert_eq!(nearest("blest", known()), None);
    }
}
