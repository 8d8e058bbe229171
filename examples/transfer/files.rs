//! Access to the files below a directory, and to nothing else.

use std::io;
use std::path::{Component, Path, PathBuf};

use thiserror::Error;
use tokio::fs::File;

/// A directory whose files anyone may read.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    /// Without symbolic links.
    root: PathBuf,
}

/// Why a file is not served. Reveals nothing about files outside the root.
#[derive(Debug, Error)]
pub(crate) enum FileError {
    #[error("no such file: {0}")]
    NotFound(String),
    #[error("not a file name below the root: {0}")]
    Outside(String),
    #[error("not a regular file: {0}")]
    NotRegular(String),
    #[error("cannot read {name}: {kind}")]
    Unreadable { name: String, kind: io::ErrorKind },
}

impl Files {
    /// The files below `root`.
    pub(crate) fn new(root: &Path) -> io::Result<Self> {
        let root = root.canonicalize()?;
        if !root.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Self { root })
    }

    /// Opens a file by its name relative to the root. Also returns its length.
    ///
    /// Refuses `..`, absolute names and symbolic links that lead out of the root. A user who can
    /// change links below the root at the same time could still get around this check: do not serve
    /// a directory to which untrusted users can write.
    pub(crate) async fn open(&self, name: &str) -> Result<(File, u64), FileError> {
        let relative = Path::new(name);
        let plain = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        if name.contains('\0') || !relative.components().all(plain) {
            return Err(FileError::Outside(name.to_owned()));
        }
        let error = |error: io::Error| match error.kind() {
            // If a part of the name is a file instead of a directory, the requested file does not
            // exist.
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                FileError::NotFound(name.to_owned())
            }
            kind => FileError::Unreadable {
                name: name.to_owned(),
                kind,
            },
        };
        let resolved = tokio::fs::canonicalize(self.root.join(relative)).await;
        let resolved = resolved.map_err(error)?;
        if !resolved.starts_with(&self.root) {
            return Err(FileError::Outside(name.to_owned()));
        }
        // Checked before opening: opening a named pipe would wait for its writer.
        let is_file = tokio::fs::metadata(&resolved)
            .await
            .map_err(error)?
            .is_file();
        if !is_file {
            return Err(FileError::NotRegular(name.to_owned()));
        }
        let file = File::open(&resolved).await.map_err(error)?;
        let length = file.metadata().await.map_err(error)?.len();
        Ok((file, length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn serves_what_is_below_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        std::fs::create_dir_all(root.join("deep")).unwrap();
        std::fs::write(root.join("deep/a b"), b"12345").unwrap();
        std::fs::write(dir.path().join("secret"), b"secret").unwrap();
        let files = Files::new(&root).unwrap();

        assert_eq!(files.open("deep/a b").await.unwrap().1, 5);
        assert_eq!(files.open("./deep/./a b").await.unwrap().1, 5);
        let secret = dir.path().join("secret");
        for (name, expected) in [
            ("../secret", "not a file name"),
            ("deep/../../secret", "not a file name"),
            ("deep/../deep/a b", "not a file name"),
            (secret.to_str().unwrap(), "not a file name"),
            ("/etc/passwd", "not a file name"),
            ("a\0b", "not a file name"),
            ("none", "no such file"),
            ("deep/a b/c", "no such file"),
            ("deep", "not a regular file"),
            ("", "not a regular file"),
        ] {
            let error = files.open(name).await.unwrap_err().to_string();
            assert!(error.starts_with(expected), "{name:?}: {error}");
        }
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn links_may_not_lead_out() {
        use std::os::unix::fs::symlink;

        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        std::fs::create_dir(&root).unwrap();
        // A name that starts like the root's, in case the check compares text.
        std::fs::create_dir(dir.path().join("root2")).unwrap();
        std::fs::write(dir.path().join("root2/secret"), b"secret").unwrap();
        std::fs::write(root.join("inside"), b"12345").unwrap();
        symlink("inside", root.join("good")).unwrap();
        symlink("../root2/secret", root.join("bad")).unwrap();
        symlink("../root2", root.join("dir")).unwrap();
        let files = Files::new(&root).unwrap();

        assert_eq!(files.open("good").await.unwrap().1, 5);
        for name in ["bad", "dir/secret"] {
            let error = files.open(name).await.unwrap_err();
            assert!(matches!(error, FileError::Outside(_)), "{name}: {error}");
        }
    }

    #[test]
    fn the_root_is_a_directory() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(Files::new(file.path()).is_err());
        assert!(Files::new(&file.path().join("none")).is_err());
    }
}
