//! A file that appears under its name only when it is complete.

use std::io;
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};
use tokio::fs::File;

/// A file that is being written. It has a temporary name in the same directory until
/// [`commit`](Self::commit), and is removed if it is dropped before.
#[derive(Debug)]
pub(crate) struct PartialFile {
    /// The handle for writing; `temporary` has another handle of the same file.
    pub(crate) file: File,
    temporary: NamedTempFile,
    target: PathBuf,
}

impl PartialFile {
    /// Creates a file that will become `target`.
    pub(crate) fn create(target: &Path) -> io::Result<Self> {
        let name = target
            .file_name()
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "not a file name"))?;
        if target.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        // In the same directory, because a rename is atomic only within one file system.
        let mut builder = Builder::new();
        let prefix = format!(".{}.", name.to_string_lossy());
        builder.prefix(&prefix).suffix(".part");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // The usual permissions of a new file. The umask restricts them.
            builder.permissions(std::fs::Permissions::from_mode(0o666));
        }
        let temporary = builder.tempfile_in(directory(target))?;
        Ok(Self {
            file: File::from_std(temporary.reopen()?),
            temporary,
            target: target.to_owned(),
        })
    }

    /// Makes the file durable and gives it its name. This replaces an existing file of that name
    /// atomically.
    pub(crate) async fn commit(self) -> io::Result<()> {
        self.file.sync_all().await?;
        let directory = directory(&self.target).to_owned();
        self.temporary.persist(&self.target)?;
        // The new name is durable when its directory is. Some systems, such as Windows, cannot open
        // a directory for this; nothing more can be done there.
        if let Ok(directory) = File::open(directory).await {
            directory.sync_all().await?;
        }
        Ok(())
    }
}

/// The directory of `target`.
fn directory(target: &Path) -> &Path {
    match target.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    #[tokio::test]
    async fn appears_when_complete() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("target");
        std::fs::write(&target, b"old").unwrap();
        let mut partial = PartialFile::create(&target).unwrap();
        partial.file.write_all(b"new").await.unwrap();
        partial.file.flush().await.unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"old");
        partial.commit().await.unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"new");
        assert_eq!(names(dir.path()), ["target"]);
    }

    #[tokio::test]
    async fn leaves_nothing_when_given_up() {
        let dir = tempfile::tempdir().unwrap();
        let mut partial = PartialFile::create(&dir.path().join("target")).unwrap();
        partial.file.write_all(b"half").await.unwrap();
        assert_eq!(names(dir.path()).len(), 1);
        drop(partial);
        assert_eq!(names(dir.path()), [""; 0]);
    }

    #[tokio::test]
    async fn targets_that_cannot_be() {
        let dir = tempfile::tempdir().unwrap();
        for target in [dir.path(), &dir.path().join("none/target"), Path::new("..")] {
            assert!(PartialFile::create(target).is_err(), "{target:?}");
        }
    }
}
