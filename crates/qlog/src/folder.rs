//! The folder of qlog files: how many there may be, and how large all of them together; the oldest make room.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Files of the same name that are looked past: an attempt to connect is repeated with another connection ID.
const MAX_NAMESAKES: u32 = 100;

/// What the folder may hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) files: usize,
    pub(crate) bytes: u64,
}

/// A file that is being written.
#[derive(Debug)]
pub(crate) struct Open {
    file: File,
    path: PathBuf,
    bytes: u64,
}

/// The files of one folder, as the thread that writes knows them.
#[derive(Debug)]
pub(crate) struct Folder {
    dir: PathBuf,
    limits: Limits,
    /// What nobody writes any more, the oldest first, with its size.
    closed: VecDeque<(PathBuf, u64)>,
    open: usize,
    /// The size of all of them.
    bytes: u64,
}

impl Folder {
    /// What is there counts, if its name is that of a qlog file of ours.
    pub(crate) fn new(dir: &Path, limits: Limits) -> Self {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        let mut found: Vec<_> = entries
            .filter(|entry| entry.file_name().to_str().is_some_and(is_ours))
            .filter_map(|entry| {
                let data = entry.metadata().ok().filter(fs::Metadata::is_file)?;
                Some((data.modified().ok()?, entry.path(), data.len()))
            })
            .collect();
        found.sort();
        let closed: VecDeque<_> = found
            .into_iter()
            .map(|(_, path, size)| (path, size))
            .collect();
        Self {
            dir: dir.to_owned(),
            limits,
            open: 0,
            bytes: closed.iter().map(|(_, size)| size).sum(),
            closed,
        }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// A new file: what is there is not written over, but the oldest may be removed for it.
    pub(crate) fn create(&mut self, stem: &str) -> io::Result<Open> {
        while self.open + self.closed.len() >= self.limits.files {
            self.remove_oldest("as many files as it may have are being written")?;
        }
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        for namesake in 1..MAX_NAMESAKES {
            let path = self.dir.join(match namesake {
                1 => format!("{stem}.sqlog"),
                more => format!("{stem}-{more}.sqlog"),
            });
            match options.open(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                Ok(file) => {
                    self.open += 1;
                    return Ok(Open {
                        file,
                        path,
                        bytes: 0,
                    });
                }
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Appends to a file.
    pub(crate) fn write(&mut self, open: &mut Open, text: &[u8]) -> io::Result<()> {
        let size = text.len() as u64;
        while self.bytes.saturating_add(size) > self.limits.bytes {
            self.remove_oldest("what is being written is as large as all may be")?;
        }
        open.file.write_all(text)?;
        open.bytes += size;
        self.bytes += size;
        Ok(())
    }

    /// Nothing more is written to it.
    pub(crate) fn close(&mut self, open: Open) {
        self.open -= 1;
        self.closed.push_back((open.path, open.bytes));
    }

    fn remove_oldest(&mut self, full: &'static str) -> io::Result<()> {
        let Some((path, size)) = self.closed.pop_front() else {
            return Err(io::Error::new(io::ErrorKind::StorageFull, full));
        };
        self.bytes -= size;
        match fs::remove_file(path) {
            // Somebody was faster.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }
}

/// Whether a name is one that [`Folder::create`] gives: a connection ID in hexadecimal digits, a side, perhaps a number.
fn is_ours(name: &str) -> bool {
    let Some((id, side)) = name
        .strip_suffix(".sqlog")
        .and_then(|stem| stem.split_once('_'))
    else {
        return false;
    };
    let (side, number) = side.split_once('-').unwrap_or((side, "2"));
    id.bytes().all(|byte| byte.is_ascii_hexdigit())
        && matches!(side, "client" | "server")
        && number.parse::<u32>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn folder(dir: &Path, files: usize, bytes: u64) -> Folder {
        Folder::new(dir, Limits { files, bytes })
    }

    #[test]
    fn the_oldest_make_room_for_more_files() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("notes.txt"), "mine").unwrap();
        let mut folder = folder(dir.path(), 2, 1000);
        for stem in ["aa_client", "bb_client", "bb_client", "cc_server"] {
            let open = folder.create(stem).unwrap();
            folder.close(open);
        }
        let expected = ["bb_client-2.sqlog", "cc_server.sqlog", "notes.txt"];
        assert_eq!(names(dir.path()), expected);
        // What is being written stays, and nothing else is begun.
        let open = ["dd_client", "ee_client"].map(|stem| folder.create(stem).unwrap());
        let error = folder.create("ff_client").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        let expected = ["dd_client.sqlog", "ee_client.sqlog", "notes.txt"];
        assert_eq!(names(dir.path()), expected);
        drop(open);
    }

    #[test]
    fn the_oldest_make_room_for_more_bytes() {
        let dir = tempfile::tempdir().unwrap();
        // Those of an earlier run count.
        fs::write(dir.path().join("aa_server.sqlog"), [b'a'; 400]).unwrap();
        let mut folder = folder(dir.path(), 9, 1000);
        let mut open = folder.create("bb_server").unwrap();
        folder.write(&mut open, &[b'b'; 600]).unwrap();
        assert_eq!(names(dir.path()).len(), 2);
        folder.write(&mut open, b"b").unwrap();
        assert_eq!(names(dir.path()), ["bb_server.sqlog"]);
        let error = folder.write(&mut open, &[b'b'; 400]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::metadata(open.path).unwrap().len(), 601);
    }

    #[test]
    fn only_names_of_ours_are_removed() {
        for ours in ["89ab01cd23ef4567_client.sqlog", "00_server-17.sqlog"] {
            assert!(is_ours(ours), "{ours}");
        }
        for other in [
            "notes.sqlog",
            "my_client.sqlog",
            "89ab_client.sqlog.gz",
            "89ab_client-x.sqlog",
            "89ab_router.sqlog",
        ] {
            assert!(!is_ours(other), "{other}");
        }
    }
}
