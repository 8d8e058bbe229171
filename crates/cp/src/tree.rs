//! What is in a folder: files to read, and listings. Nothing outside of it can be reached, whatever links say.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, Metadata};

use crate::name::{Name, PART};
use crate::wire::{Entry, Kind};

/// Runs what may wait for a disk where nobody else waits for it.
pub(crate) async fn blocking<T, E>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, E>
where
    T: Send + 'static,
    E: Send + From<io::Error> + 'static,
{
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(io::Error::other(error).into()),
    }
}

/// A folder, by a path of the user's own.
pub(crate) fn open(folder: &Path) -> io::Result<Arc<Dir>> {
    Ok(Arc::new(Dir::open_ambient_dir(
        folder,
        ambient_authority(),
    )?))
}

fn modified(metadata: &Metadata) -> Option<u64> {
    let time = metadata.modified().ok()?.into_std();
    let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(since.as_secs())
}

/// The entry of a name, links below the folder followed.
pub(crate) fn entry(dir: &Dir, name: &Name) -> io::Result<Entry> {
    let metadata = dir.metadata(name.path())?;
    let (kind, size) = if metadata.is_dir() {
        (Kind::Folder, 0)
    } else if metadata.is_file() {
        (Kind::File, metadata.len())
    } else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is neither a file nor a folder",
        ));
    };
    Ok(Entry::new(name.clone(), kind, size, modified(&metadata)))
}

/// Opens a file to read.
pub(crate) fn read(dir: &Dir, name: &Name) -> io::Result<(std::fs::File, Entry)> {
    // Opening a pipe would wait for its other end.
    let entry = entry(dir, name)?;
    if entry.kind == Kind::Folder {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let file = dir.open(name.path())?;
    let metadata = file.metadata()?;
    let entry = Entry::new(
        name.clone(),
        Kind::File,
        metadata.len(),
        modified(&metadata),
    );
    Ok((file.into_std(), entry))
}

/// Tells `emit` of a file or a folder, and of what a folder has: with `deep`, of all that is below it, each folder before its contents.
/// Links to folders are listed and not followed; links that lead nowhere or outside, names that are not UTF-8, and what is neither a
/// file nor a folder go to `skip`. `emit` says whether it wants more.
pub(crate) fn walk(
    dir: &Dir,
    name: &Name,
    deep: bool,
    emit: &mut dyn FnMut(Entry) -> bool,
    skip: &mut dyn FnMut(String),
) -> io::Result<()> {
    let first = entry(dir, name)?;
    let is_folder = first.kind == Kind::Folder;
    if !emit(first) || !is_folder {
        return Ok(());
    }
    let mut folders = vec![name.clone()];
    while let Some(folder) = folders.pop() {
        let mut inside = Vec::new();
        for found in dir.read_dir(folder.path())? {
            let found = found?;
            let text = found.file_name();
            let Some(text) = text.to_str() else {
                skip(format!("{folder}/{}: not UTF-8", text.display()));
                continue;
            };
            if text.ends_with(PART) {
                continue;
            }
            let Ok(name) = folder.join(text) else {
                skip(format!("{folder}/{}: no name", text.escape_debug()));
                continue;
            };
            let is_link = found.file_type()?.is_symlink();
            match entry(dir, &name) {
                Ok(entry) => inside.push((entry, is_link)),
                Err(error) => skip(format!("{name}: {error}")),
            }
        }
        inside.sort_by(|(first, _), (second, _)| first.name.cmp(&second.name));
        for (entry, is_link) in inside {
            let name = entry.name.clone();
            let descend = deep && entry.kind == Kind::Folder && !is_link;
            if !emit(entry) {
                return Ok(());
            }
            if descend {
                folders.push(name);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> (tempfile::TempDir, Arc<Dir>) {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a", "b/c/d", "b/e.mpquic.part", "b/f"] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, name).unwrap();
        }
        let dir = open(folder.path()).unwrap();
        (folder, dir)
    }

    fn names(dir: &Dir, name: &str, deep: bool) -> (Vec<String>, Vec<String>) {
        let (mut names, mut skipped) = (Vec::new(), Vec::new());
        let mut emit = |entry: Entry| {
            names.push(entry.name.to_string());
            true
        };
        walk(dir, &name.parse().unwrap(), deep, &mut emit, &mut |text| {
            skipped.push(text)
        })
        .unwrap();
        (names, skipped)
    }

    #[test]
    fn folders_come_before_their_contents() {
        let (_folder, dir) = place();
        assert_eq!(
            names(&dir, "", true).0,
            [".", "a", "b", "b/c", "b/f", "b/c/d"]
        );
        assert_eq!(names(&dir, "", false).0, [".", "a", "b"]);
        assert_eq!(names(&dir, "b/f", true).0, ["b/f"]);
    }

    #[cfg(unix)]
    #[test]
    fn links_lead_nowhere_else() {
        use std::os::unix::fs::symlink;

        let (folder, dir) = place();
        symlink("/etc/hostname", folder.path().join("outside")).unwrap();
        symlink("..", folder.path().join("b/up")).unwrap();
        symlink("a", folder.path().join("inside")).unwrap();
        symlink("../../x", folder.path().join("b/far")).unwrap();
        let (found, skipped) = names(&dir, "", true);
        assert_eq!(
            found,
            [".", "a", "b", "inside", "b/c", "b/f", "b/up", "b/c/d"]
        );
        assert_eq!(skipped.len(), 2, "{skipped:?}");
        assert_eq!(read(&dir, &"inside".parse().unwrap()).unwrap().1.size, 1);
        for name in ["outside", "b/far"] {
            assert!(read(&dir, &name.parse().unwrap()).is_err());
        }
        assert!(read(&dir, &"b".parse().unwrap()).is_err());
    }
}
