//! What of a folder is copied: patterns that name it, or leave it out.

use std::fmt;
use std::sync::Arc;

use globset::{GlobBuilder, GlobMatcher};

use crate::error::Error;

/// Which files and folders below the one that was asked for are copied. Without a pattern, all are.
///
/// A pattern has `*`, `?`, `[a-z]`, `{one,other}`, and `**` for any number of folders. One without a `/` is about names in any folder, as
/// `*.tmp`; one with a `/` about the place below what is copied, as `build/**/*.o` or `/cache`. What it says of a folder, it says of all that is below it.
#[derive(Clone, Default)]
pub struct Select(Arc<Patterns>);

#[derive(Default)]
struct Patterns {
    include: Vec<Pattern>,
    exclude: Vec<Pattern>,
}

struct Pattern {
    text: String,
    glob: GlobMatcher,
    is_place: bool,
}

impl PartialEq for Select {
    fn eq(&self, other: &Self) -> bool {
        self.texts() == other.texts()
    }
}

impl Eq for Select {}

impl fmt::Debug for Select {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.texts().fmt(f)
    }
}

impl Pattern {
    fn new(text: &String) -> Result<Self, Error> {
        let is_place = text.trim_end_matches('/').contains('/');
        let bare = text.trim_end_matches('/').trim_start_matches('/');
        let glob = GlobBuilder::new(bare).literal_separator(true).build();
        let glob =
            glob.map_err(|error| Error::Argument(format!("the pattern {text:?}: {error}")))?;
        Ok(Self {
            text: text.clone(),
            glob: glob.compile_matcher(),
            is_place,
        })
    }

    /// Whether it is about this place, or a folder around it.
    fn matches(&self, place: &str) -> bool {
        let ends = place.match_indices('/').map(|(at, _)| at);
        ends.chain([place.len()]).any(|end| {
            let whole = &place[..end];
            let own = whole.rsplit_once('/').map_or(whole, |(_, own)| own);
            self.glob.is_match(if self.is_place { whole } else { own })
        })
    }
}

impl Select {
    /// Copies what one of `include` names, or all without any; and nothing that one of `exclude` names.
    ///
    /// # Errors
    ///
    /// If a pattern makes no sense.
    pub fn new(include: &[String], exclude: &[String]) -> Result<Self, Error> {
        let of = |texts: &[String]| {
            texts
                .iter()
                .map(Pattern::new)
                .collect::<Result<Vec<_>, _>>()
        };
        Ok(Self(Arc::new(Patterns {
            include: of(include)?,
            exclude: of(exclude)?,
        })))
    }

    /// Whether it leaves nothing out.
    pub(crate) fn is_all(&self) -> bool {
        self.0.include.is_empty() && self.0.exclude.is_empty()
    }

    fn texts(&self) -> [Vec<&str>; 2] {
        let of = |patterns| {
            let patterns: &Vec<Pattern> = patterns;
            patterns
                .iter()
                .map(|pattern| pattern.text.as_str())
                .collect()
        };
        [of(&self.0.include), of(&self.0.exclude)]
    }

    /// Leaves those of `entries` that are to be copied. `place` says where one is below what is copied, and whether it is a folder.
    pub(crate) fn keep<T>(&self, entries: &mut Vec<T>, place: impl Fn(&T) -> (String, bool)) {
        let Patterns { include, exclude } = &*self.0;
        if self.is_all() {
            return;
        }
        let any = |patterns: &[Pattern], place: &str| patterns.iter().any(|one| one.matches(place));
        entries.retain(|entry| {
            let (place, is_folder) = place(entry);
            let is_named = include.is_empty() || is_folder || any(include, &place);
            place.is_empty() || (is_named && !any(exclude, &place))
        });
        if include.is_empty() {
            return;
        }
        // Folders in which nothing is left were not asked for.
        let mut needed = std::collections::HashSet::new();
        for entry in &*entries {
            let (place, is_folder) = place(entry);
            if !is_folder || any(include, &place) {
                needed.extend(
                    place
                        .match_indices('/')
                        .map(|(at, _)| place[..at].to_owned()),
                );
                needed.insert(place);
            }
        }
        entries.retain(|entry| {
            let (place, is_folder) = place(entry);
            !is_folder || place.is_empty() || needed.contains(&place)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left of a tree; names of folders end with `/`.
    fn kept(include: &[&str], exclude: &[&str]) -> String {
        let owned = |texts: &[&str]| {
            texts
                .iter()
                .map(|text| (*text).to_owned())
                .collect::<Vec<_>>()
        };
        let select = Select::new(&owned(include), &owned(exclude)).unwrap();
        let tree = [
            "",
            "a.txt",
            "a.tmp",
            "d/",
            "d/b.txt",
            "d/e/",
            "d/e/b.tmp",
            "f/",
            "f/c.o",
        ];
        let mut entries = tree.to_vec();
        select.keep(&mut entries, |entry| {
            let place = entry.trim_end_matches('/').to_owned();
            let is_folder = entry.is_empty() || entry.ends_with('/');
            (place, is_folder)
        });
        entries.join(" ").trim().to_owned()
    }

    #[test]
    fn patterns_choose() {
        for (include, exclude, left) in [
            (
                &[][..],
                &[][..],
                "a.txt a.tmp d/ d/b.txt d/e/ d/e/b.tmp f/ f/c.o",
            ),
            (&[], &["*.tmp"], "a.txt d/ d/b.txt d/e/ f/ f/c.o"),
            (&[], &["d"], "a.txt a.tmp f/ f/c.o"),
            (&[], &["d/e/"], "a.txt a.tmp d/ d/b.txt f/ f/c.o"),
            (
                &[],
                &["e/b.tmp"],
                "a.txt a.tmp d/ d/b.txt d/e/ d/e/b.tmp f/ f/c.o",
            ),
            (&[], &["**/b.tmp"], "a.txt a.tmp d/ d/b.txt d/e/ f/ f/c.o"),
            (&[], &["/a.*"], "d/ d/b.txt d/e/ d/e/b.tmp f/ f/c.o"),
            (&["*.txt"], &[], "a.txt d/ d/b.txt"),
            (&["*.{txt,tmp}"], &["e"], "a.txt a.tmp d/ d/b.txt"),
            (&["d"], &["*.txt"], "d/ d/e/ d/e/b.tmp"),
            (&["none"], &[], ""),
        ] {
            assert_eq!(kept(include, exclude), left, "{include:?} {exclude:?}");
        }
        assert!(Select::new(&["[".to_owned()], &[]).is_err());
    }
}
