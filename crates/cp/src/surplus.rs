//! What a copy has and the folder that is copied has not: found in two listings, and removed.

use std::collections::{HashMap, HashSet};

use crate::name::Name;
use crate::plan::{Action, Planned};
use crate::select::Select;
use crate::wire::{Entry, Kind, Listed, Omission};

/// A listing as a whole: what is below a folder, with where it is below that, and what could not be listed.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    top: Name,
    pub(crate) entries: Vec<Entry>,
    pub(crate) omitted: Vec<Omission>,
}

impl Tree {
    pub(crate) fn new(top: &Name) -> Self {
        Self {
            top: top.clone(),
            ..Self::default()
        }
    }

    pub(crate) fn add(&mut self, listed: Listed) {
        match listed {
            Listed::Entry(entry) => self.entries.push(entry),
            Listed::Omitted(omission) => self.omitted.push(omission),
        }
    }

    /// Where it is below the top; nothing for the top itself.
    pub(crate) fn place<'a>(&self, name: &'a str) -> &'a str {
        let rest = name.strip_prefix(self.top.as_str());
        rest.unwrap_or_default().trim_start_matches('/')
    }

    pub(crate) fn select(&mut self, select: &Select) {
        let mut entries = std::mem::take(&mut self.entries);
        select.keep(&mut entries, |entry| {
            let place = self.place(entry.name.as_str()).to_owned();
            (place, entry.kind == Kind::Folder)
        });
        self.entries = entries;
    }

    pub(crate) fn by_place(&self) -> HashMap<&str, &Entry> {
        let entries = self.entries.iter();
        let placed = entries.map(|entry| (self.place(entry.name.as_str()), entry));
        placed.collect()
    }
}

/// Something that is to be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Surplus {
    pub(crate) name: Name,
    pub(crate) size: u64,
    pub(crate) is_folder: bool,
    /// With all that is in it.
    pub(crate) deep: bool,
    /// What is copied has something else in its place: it is removed before that.
    pub(crate) in_the_way: bool,
}

/// What is to be removed from `there`, so that it has what `here` has, each thing before the folder that it is in. `here` is what was selected.
///
/// What `select` leaves out stays, and so does what could not be listed on either side.
pub(crate) fn surplus(here: &Tree, mut there: Tree, select: &Select) -> Vec<Surplus> {
    let wanted: HashMap<&str, bool> = here
        .entries
        .iter()
        .map(|entry| {
            let place = here.place(entry.name.as_str());
            (place, entry.kind == Kind::Folder)
        })
        .collect();
    let hidden: HashSet<&str> = here
        .omitted
        .iter()
        .map(|omission| here.place(&omission.omitted))
        .collect();
    // Whether it, or a folder around it, could not be listed.
    let is_hidden = |place: &str| {
        let ends = place.match_indices('/').map(|(at, _)| at);
        ends.chain([place.len()])
            .any(|end| hidden.contains(&place[..end]))
    };
    // Without patterns, and if all of both sides is known, a folder goes with all that is in it.
    let is_known = select.is_all() && here.omitted.is_empty() && there.omitted.is_empty();
    there.select(select);
    let mut found = Vec::new();
    let mut gone: HashSet<String> = HashSet::new();
    for entry in &there.entries {
        let place = there.place(entry.name.as_str());
        let is_folder = entry.kind == Kind::Folder;
        let other = wanted.get(place);
        if place.is_empty() || other == Some(&is_folder) || is_hidden(place) {
            continue;
        }
        // Folders are listed before what is in them.
        let around = place.rsplit_once('/').map_or("", |(around, _)| around);
        if is_folder && is_known {
            gone.insert(place.to_owned());
        }
        if gone.contains(around) {
            continue;
        }
        found.push(Surplus {
            name: entry.name.clone(),
            size: entry.size,
            is_folder,
            deep: is_folder && is_known,
            in_the_way: other.is_some() || is_below_a_file(place, &wanted),
        });
    }
    found.reverse();
    found
}

/// Whether what is copied has a file where this has a folder around it.
fn is_below_a_file(place: &str, wanted: &HashMap<&str, bool>) -> bool {
    let mut ends = place.match_indices('/').map(|(at, _)| at);
    ends.any(|end| wanted.get(&place[..end]) == Some(&false))
}

pub(crate) fn planned(surplus: &[Surplus]) -> Vec<Planned> {
    let all = surplus.iter().map(|one| Planned {
        name: one.name.to_string(),
        size: one.size,
        action: Action::Delete,
    });
    all.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of folders end with `/`, of what could not be listed with `!`.
    fn tree(top: &str, names: &[&str]) -> Tree {
        let mut tree = Tree::new(&top.parse().unwrap());
        for name in names {
            let whole = format!("{top}/{}", name.trim_end_matches(['/', '!']));
            if name.ends_with('!') {
                tree.add(Listed::Omitted(Omission::new(&whole, "no")));
                continue;
            }
            tree.add(Listed::Entry(Entry {
                name: whole.parse().unwrap(),
                kind: match name.ends_with('/') {
                    true => Kind::Folder,
                    false => Kind::File,
                },
                size: 0,
                modified: None,
                mode: None,
                target: None,
            }));
        }
        tree
    }

    /// What is removed: with `*` if deep, with `<` if it is in the way.
    fn removed(here: &[&str], there: &[&str], exclude: &[&str]) -> String {
        let exclude: Vec<_> = exclude.iter().map(|text| (*text).to_owned()).collect();
        let select = Select::new(&[], &exclude).unwrap();
        let mut here = tree("from", here);
        here.select(&select);
        let found = surplus(&here, tree("to", there), &select);
        let texts = found.iter().map(|one| {
            let name = one.name.as_str().strip_prefix("to/").unwrap();
            let deep = if one.deep { "*" } else { "" };
            let way = if one.in_the_way { "<" } else { "" };
            format!("{name}{deep}{way}")
        });
        texts.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_a_copy_has_more_is_found() {
        let there = ["a", "d/", "d/b", "d/e/", "d/e/c", "f"];
        for (here, exclude, gone) in [
            (&["a", "d/", "d/b", "d/e/", "d/e/c", "f"][..], &[][..], ""),
            (&["a", "d/", "d/b"], &[], "f d/e*"),
            (&[], &[], "f d* a"),
            // A file where a folder is, and the other way round.
            (&["a/", "d", "f"], &[], "d*< a<"),
            // What is left out stays, and the folders around it, if they are not empty.
            (&[], &["c"], "f d/e d/b d a"),
            (&["a"], &["d"], "f"),
            // What could not be listed stays.
            (&["a", "d!"], &[], "f"),
            (&["a", "d/", "d/b!"], &[], "f d/e/c d/e"),
        ] {
            assert_eq!(removed(here, &there, exclude), gone, "{here:?} {exclude:?}");
        }
        assert_eq!(removed(&[], &["d/", "d/x", "d/y!"], &[]), "d/x d");
        assert_eq!(removed(&["d"], &["d/", "d/x", "y!"], &[]), "d/x< d<");
    }
}
