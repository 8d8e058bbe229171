//! Files that a user names: regular ones only, of at most so many bytes, in lines of at most so many. What is beyond is
//! refused in a sentence, before it is in memory.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::Path;

/// The most that is read of a file.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of the whole file.
    pub file: u64,
    /// Bytes of a line.
    pub line: u64,
}

const MEGABYTE: u64 = 1_000_000;

/// A trace of times: an hour at 300 Mbit/s.
pub const TRACE: Limits = Limits {
    file: 1000 * MEGABYTE,
    line: 1000,
};

fn refused(fault: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, fault)
}

fn megabytes(bytes: u64) -> String {
    match bytes / MEGABYTE {
        0 => format!("{bytes} bytes"),
        megabytes => format!("{megabytes} MB"),
    }
}

fn too_large(limit: u64) -> io::Error {
    refused(format!(
        "larger than {}, the most that is read",
        megabytes(limit)
    ))
}

/// Refuses what is no regular file: a pipe or a device may have no end, and would be waited for.
fn check(found: &Metadata, limit: u64) -> io::Result<()> {
    if found.is_dir() {
        return Err(refused("a folder, expected a file".to_owned()));
    }
    if !found.is_file() {
        return Err(refused(
            "a pipe or a device, expected a regular file".to_owned(),
        ));
    }
    match found.len() > limit {
        true => Err(too_large(limit)),
        false => Ok(()),
    }
}

/// Opens a regular file of at most `limit` bytes.
fn open(path: &Path, limit: u64) -> io::Result<File> {
    // Before it is opened: opening a pipe waits for whoever writes to it.
    check(&std::fs::metadata(path)?, limit)?;
    let mut options = OpenOptions::new();
    options.read(true);
    // It may be another one by now. Regular files do not know this flag.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    let file = options.open(path)?;
    check(&file.metadata()?, limit)?;
    Ok(file)
}

/// The text of a file.
///
/// # Errors
///
/// If it cannot be read, or is no regular file, larger than the limit, or not UTF-8: then with the line.
pub fn read(path: &Path, limits: Limits) -> io::Result<String> {
    let mut text = String::new();
    for piece in pieces(path, b'\n', limits)?.with_ends() {
        text += &piece?;
    }
    Ok(text)
}

/// The lines of a file.
///
/// # Errors
///
/// If it cannot be opened, or is no regular file, or larger than the limit. Each line may be an error, too.
pub fn lines(path: &Path, limits: Limits) -> io::Result<Pieces> {
    pieces(path, b'\n', limits)
}

/// The parts of a file between separators. Counts as lines do: what is empty after the last separator is none.
///
/// # Errors
///
/// As [`lines`].
pub fn pieces(path: &Path, separator: u8, limits: Limits) -> io::Result<Pieces> {
    Ok(Pieces {
        file: BufReader::new(open(path, limits.file)?),
        separator,
        limits,
        read: 0,
        line: 1,
        separated: true,
        with_ends: false,
        failed: false,
    })
}

/// See [`pieces`]. Ends after an error.
#[derive(Debug)]
pub struct Pieces {
    file: BufReader<File>,
    separator: u8,
    limits: Limits,
    read: u64,
    /// The line in which the next piece begins, from 1.
    line: u64,
    separated: bool,
    with_ends: bool,
    failed: bool,
}

impl Pieces {
    /// Whether the last piece ended with the separator, as all but that of a file that is being written do.
    pub const fn is_separated(&self) -> bool {
        self.separated
    }

    /// Leaves the separators at the ends of the pieces.
    const fn with_ends(mut self) -> Self {
        self.with_ends = true;
        self
    }

    fn piece(&mut self) -> io::Result<Option<String>> {
        let mut bytes = Vec::new();
        // One more than a line and its end may have, so that a longer one is noticed.
        let most = self.limits.line + 2;
        let found = (&mut self.file)
            .take(most)
            .read_until(self.separator, &mut bytes)? as u64;
        if found == 0 {
            return Ok(None);
        }
        // A file may grow while it is read.
        self.read += found;
        if self.read > self.limits.file {
            return Err(too_large(self.limits.file));
        }
        self.separated = bytes.last() == Some(&self.separator);
        if found - u64::from(self.separated) > self.limits.line {
            let most = megabytes(self.limits.line);
            return Err(refused(format!(
                "line {}: longer than {most}, the most that is read",
                self.line
            )));
        }
        let breaks = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        let all = breaks(&bytes);
        if self.separated && !self.with_ends {
            bytes.pop();
            if self.separator == b'\n' && bytes.last() == Some(&b'\r') {
                bytes.pop();
            }
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            refused(format!("line {}: not UTF-8", self.line + breaks(before)))
        })?;
        self.line += all;
        Ok(Some(text))
    }
}

impl Iterator for Pieces {
    type Item = io::Result<String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let piece = self.piece().transpose();
        self.failed = matches!(piece, Some(Err(_)));
        piece
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Limits = Limits { file: 40, line: 10 };

    fn written(bytes: &[u8]) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, bytes).unwrap();
        (folder, path)
    }

    fn all(path: &Path, separator: u8) -> Result<Vec<String>, String> {
        let pieces = pieces(path, separator, SMALL).map_err(|error| error.to_string())?;
        let pieces: io::Result<_> = pieces.collect();
        pieces.map_err(|error| error.to_string())
    }

    #[test]
    fn lines_are_those_of_the_standard_library() {
        for text in ["", "\n", "a\n", "a\r\nb", "\n\na\n\n", "0123456789\nx\r\n"] {
            let (_folder, path) = written(text.as_bytes());
            let expected: Vec<_> = text.lines().map(str::to_owned).collect();
            assert_eq!(all(&path, b'\n').unwrap(), expected, "{text:?}");
        }
        let (_folder, path) = written(b"\x1ea\nb\n\x1ec");
        assert_eq!(all(&path, 0x1e).unwrap(), ["", "a\nb\n", "c"]);
    }

    #[test]
    fn what_is_too_much_is_refused_with_its_line() {
        for (bytes, separator, fault) in [
            (
                &b"ab\n01234567890\n"[..],
                b'\n',
                "line 2: longer than 10 bytes, the most that is read",
            ),
            (
                b"ab\n01234567890",
                b'\n',
                "line 2: longer than 10 bytes, the most that is read",
            ),
            (b"a\nb\n\xff\n", b'\n', "line 3: not UTF-8"),
            (b"\x1ea\n\x1eb\nc\xfe", 0x1e, "line 3: not UTF-8"),
            (
                &[b'\n'; 41],
                b'\n',
                "larger than 40 bytes, the most that is read",
            ),
        ] {
            let (_folder, path) = written(bytes);
            assert_eq!(all(&path, separator).unwrap_err(), fault);
        }
    }

    #[cfg(unix)]
    #[test]
    fn only_regular_files_are_opened() {
        let (folder, path) = written(b"x");
        let folder = folder.path();
        let pipe = folder.join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        let expected = "a pipe or a device, expected a regular file";
        for odd in [&*pipe, Path::new("/dev/zero"), Path::new("/dev/null")] {
            assert_eq!(all(odd, b'\n').unwrap_err(), expected, "{odd:?}");
        }
        assert_eq!(all(folder, b'\n').unwrap_err(), "a folder, expected a file");
        let link = folder.join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert_eq!(all(&link, b'\n').unwrap(), ["x"]);
    }
}
