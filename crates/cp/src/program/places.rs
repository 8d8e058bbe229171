//! What the names on a command line mean: what is copied, and where to.

use std::path::{Path, PathBuf};

use mpquic_cp::{Error, Name};
use mpquic_peer::Way;

/// The name of standard input and output.
const PIPE: &str = "-";
/// With what names of the server begin, for `sync`.
const THERE: char = ':';

/// What `get` copies.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Get {
    One(Name, PathBuf),
    /// Into a folder.
    Many(Vec<Name>, PathBuf),
    /// To standard output.
    Out(Name),
}

/// What `put` copies.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Put {
    One(PathBuf, Option<String>),
    /// Into a folder.
    Many(Vec<PathBuf>, Name),
    /// From standard input.
    In(Name),
}

/// What `sync` copies.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Sync {
    Get(Name, PathBuf),
    Put(PathBuf, Name),
}

fn wrong<T>(why: &str) -> Result<T, Error> {
    Err(Error::Argument(why.to_owned()))
}

impl Get {
    /// A ticket of `share` says what is copied.
    pub(crate) fn new(way: &Way, names: Vec<String>) -> Result<Self, Error> {
        let ticket = way.what.as_deref().filter(|what| !what.is_empty());
        Self::of(ticket, names)
    }

    fn of(ticket: Option<&str>, mut names: Vec<String>) -> Result<Self, Error> {
        if let Some(what) = ticket {
            if names.len() > 1 {
                return wrong("this ticket says what it is for: give no more than where it goes");
            }
            names.insert(0, what.to_owned());
        }
        let local = match names.len() {
            0 => return wrong("which file or folder? `.` for all"),
            1 => ".".to_owned(),
            _ => names.pop().unwrap_or_default(),
        };
        let mut names: Vec<Name> = names
            .iter()
            .map(|name| name.parse())
            .collect::<Result<_, _>>()?;
        Ok(match (names.len(), local.as_str()) {
            (1, PIPE) => Self::Out(names.remove(0)),
            (_, PIPE) => return wrong("one file at a time goes to standard output"),
            (1, _) => Self::One(names.remove(0), local.into()),
            _ => Self::Many(names, local.into()),
        })
    }
}

impl Put {
    pub(crate) fn new(mut names: Vec<PathBuf>) -> Result<Self, Error> {
        let remote = match names.len() {
            0 | 1 => None,
            _ => names.pop(),
        };
        let remote = match remote.as_deref().map(Path::to_str) {
            None => None,
            Some(Some(remote)) => Some(remote.to_owned()),
            Some(None) => return wrong("the name on the server is not UTF-8"),
        };
        let is_pipe = names.iter().any(|name| name.as_os_str() == PIPE);
        match (names.len(), remote) {
            (1, None) if is_pipe => wrong("standard input has no name: give one for the server"),
            (1, Some(name)) if is_pipe && name.ends_with('/') => {
                wrong("standard input has no name: give one for the server, without `/` at its end")
            }
            (1, Some(name)) if is_pipe => Ok(Self::In(name.parse()?)),
            _ if is_pipe => wrong("standard input is put by itself"),
            (1, remote) => Ok(Self::One(names.remove(0), remote)),
            (_, remote) => Ok(Self::Many(names, remote.unwrap_or_default().parse()?)),
        }
    }
}

impl Sync {
    pub(crate) fn new(from: &str, to: &str) -> Result<Self, Error> {
        match (from.strip_prefix(THERE), to.strip_prefix(THERE)) {
            (Some(from), None) => Ok(Self::Get(from.parse()?, exact(Path::new(to))?)),
            (None, Some(to)) => Ok(Self::Put(exact(Path::new(from))?, to.parse()?)),
            _ => wrong(
                "one of the two is on the server, and its name begins with `:`, as in `sync SERVER :photos photos`",
            ),
        }
    }
}

/// A place by a name of its own: `.` and the like are the folders that they mean, into which nothing else goes.
fn exact(local: &Path) -> Result<PathBuf, Error> {
    let whole = std::fs::canonicalize(local).or_else(|_| std::path::absolute(local));
    let whole = whole.map_err(|source| Error::File {
        path: local.display().to_string(),
        source,
    })?;
    if whole.file_name().is_none() {
        return wrong("not all of a machine: name a folder");
    }
    // Without a separator at its end.
    Ok(whole.components().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(names: &[&str]) -> Result<Get, Error> {
        Get::of(None, names.iter().map(|name| (*name).to_owned()).collect())
    }

    fn put(names: &[&str]) -> Result<Put, Error> {
        Put::new(names.iter().map(PathBuf::from).collect())
    }

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    #[test]
    fn names_say_what_goes_where() {
        assert_eq!(get(&["a"]).unwrap(), Get::One(name("a"), ".".into()));
        assert_eq!(get(&["a", "b"]).unwrap(), Get::One(name("a"), "b".into()));
        let two = vec![name("a"), name("b")];
        assert_eq!(get(&["a", "b", "c"]).unwrap(), Get::Many(two, "c".into()));
        assert_eq!(get(&["a", "-"]).unwrap(), Get::Out(name("a")));
        for refused in [&[][..], &["a", "b", "-"], &["../a"]] {
            assert!(get(refused).is_err(), "{refused:?}");
        }
        let by = |names: &[&str]| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            Get::of(Some("what"), names)
        };
        assert_eq!(by(&[]).unwrap(), Get::One(name("what"), ".".into()));
        assert_eq!(by(&["-"]).unwrap(), Get::Out(name("what")));
        assert!(by(&["a", "b"]).is_err());

        assert_eq!(put(&["a"]).unwrap(), Put::One("a".into(), None));
        let to = Some("b/".to_owned());
        assert_eq!(put(&["a", "b/"]).unwrap(), Put::One("a".into(), to));
        let two = vec!["a".into(), "b".into()];
        assert_eq!(put(&["a", "b", "c/"]).unwrap(), Put::Many(two, name("c")));
        assert_eq!(put(&["-", "c"]).unwrap(), Put::In(name("c")));
        for refused in [
            &["-"][..],
            &["-", "c/"],
            &["-", "a", "c"],
            &["a", "b", "/c"],
        ] {
            assert!(put(refused).is_err(), "{refused:?}");
        }
    }

    #[test]
    fn one_side_of_a_sync_is_the_server() {
        let here = std::env::current_dir().unwrap().canonicalize().unwrap();
        assert_eq!(
            Sync::new(":a", ".").unwrap(),
            Sync::Get(name("a"), here.clone())
        );
        assert_eq!(
            Sync::new("none/", ":").unwrap(),
            Sync::Put(here.join("none"), name(""))
        );
        for (from, to) in [("a", "b"), (":a", ":b"), (":a", "/"), (":../a", "b")] {
            assert!(Sync::new(from, to).is_err(), "{from} {to}");
        }
    }
}
