//! Small files that came as a whole: several are written, put on the disk and given their names in one go.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use cap_std::fs::Dir;
use tokio::time::{Instant, timeout_at};

use crate::name::Name;
use crate::part::{self, NoPart};

/// Files that go together. With 16 at a time, 10,000 files of 4 kB take half of the time and of the CPU that they take one by one, and with
/// 64 no less; each is open until it is on the disk.
pub(crate) const TOGETHER: usize = 16;
/// How long one waits for others.
const GATHERED: Duration = Duration::from_millis(20);

/// A small file, all of which came.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) name: Name,
    pub(crate) contents: Vec<u8>,
    pub(crate) modified: Option<u64>,
    pub(crate) mode: Option<u32>,
}

/// Whether it has its name: not if there is something already, under its name or of an earlier transfer.
pub(crate) type Placed = Result<bool, NoPart>;

/// Files that wait for each other.
#[derive(Debug)]
pub(crate) struct Gathered<T> {
    pub(crate) files: Vec<T>,
    since: Instant,
}

impl<T> Gathered<T> {
    pub(crate) fn new() -> Self {
        Self {
            files: Vec::new(),
            since: Instant::now(),
        }
    }

    pub(crate) fn push(&mut self, file: T) {
        if self.files.is_empty() {
            self.since = Instant::now();
        }
        self.files.push(file);
    }

    /// Those that are here.
    pub(crate) fn take(&mut self) -> Vec<T> {
        std::mem::take(&mut self.files)
    }

    /// What comes next, if it comes before those that are here have waited long enough.
    pub(crate) async fn before<O>(&self, next: impl Future<Output = O>) -> Option<O> {
        if self.files.is_empty() {
            return Some(next.await);
        }
        timeout_at(self.since + GATHERED, next).await.ok()
    }
}

/// Gives each its name, once its contents are on the disk. Of one that does not get it, nothing is left.
pub(crate) async fn place(dir: &Arc<Dir>, files: Vec<Whole>) -> Vec<Placed> {
    let (dir, count) = (Arc::clone(dir), files.len());
    let placed = tokio::task::spawn_blocking(move || place_all(&dir, &files));
    placed.await.unwrap_or_else(|error| {
        let failed = |_| Err(io::Error::other(error.to_string()).into());
        (0..count).map(failed).collect()
    })
}

#[cfg(target_os = "linux")]
fn place_all(dir: &Dir, files: &[Whole]) -> Vec<Placed> {
    let mut folders = Vec::new();
    let written: Vec<_> = files
        .iter()
        .map(|file| nameless::write(dir, &mut folders, file))
        .collect();
    // The disk has all of them before the first is waited for: they share what a file system does to keep one (in ext4, a commit of its journal).
    let kept: Vec<_> = written
        .into_iter()
        .map(|written| {
            written.filter(|file| {
                // What cannot be kept is tried once more by itself, and tells its error there.
                file.sync_all().is_ok()
            })
        })
        .collect();
    files
        .iter()
        .zip(kept)
        .map(|(file, kept)| match kept {
            Some(kept) => nameless::link(dir, &folders, &kept, file),
            None => place_one(dir, file),
        })
        .collect()
}

#[cfg(not(target_os = "linux"))]
fn place_all(dir: &Dir, files: &[Whole]) -> Vec<Placed> {
    files.iter().map(|file| place_one(dir, file)).collect()
}

/// By itself, under a hidden name first.
fn place_one(dir: &Dir, file: &Whole) -> Placed {
    let path = file.name.part();
    let Some(mut part) = part::begin_locked(dir, &path, &file.name, file.mode.is_some())? else {
        return Ok(false);
    };
    let named = part.write_all(&file.contents).and_then(|()| {
        part.sync_all()?;
        part::dress(&part, file.modified, file.mode);
        dir.rename(&path, dir, file.name.path())
    });
    if let Err(error) = named {
        // What cannot be removed either is no beginning of the file to the next transfer.
        let _ = dir.remove_file(&path);
        return Err(error.into());
    }
    Ok(true)
}

/// Files without a name until they are on the disk: nobody else can have one, and nothing is left of one if the process ends.
#[cfg(target_os = "linux")]
mod nameless {
    use std::fs::File;
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;

    use rustix::fs::{AtFlags, CWD, Mode, OFlags};
    use rustix::io::Errno;

    use super::{Dir, Name, Placed, Whole, place_one};
    use crate::part;

    /// Folders of files, each opened once.
    type Folders = Vec<(Name, Dir)>;

    fn folder<'a>(dir: &'a Dir, folders: &'a Folders, name: &Name) -> Option<&'a Dir> {
        let folder = name.folder();
        match folder.last() {
            None => Some(dir),
            Some(_) => folders
                .iter()
                .find(|(of, _)| *of == folder)
                .map(|(_, dir)| dir),
        }
    }

    /// Writes it, and has the disk begin with it. `None` if something is in its place, or the file system does not do this.
    pub(super) fn write(dir: &Dir, folders: &mut Folders, whole: &Whole) -> Option<File> {
        let folder_of = whole.name.folder();
        if folder(dir, folders, &whole.name).is_none() {
            let opened = dir.open_dir(folder_of.path()).or_else(|_| {
                dir.create_dir_all(folder_of.path())?;
                dir.open_dir(folder_of.path())
            });
            folders.push((folder_of, opened.ok()?));
        }
        let folder = folder(dir, folders, &whole.name)?;
        let path = whole.name.part();
        for name in [whole.name.last()?, path.file_name()?.to_str()?] {
            let there = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
            if there.err() != Some(Errno::NOENT) {
                return None;
            }
        }
        let mode = if whole.mode.is_some() { 0o600 } else { 0o666 };
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(folder, ".", flags, Mode::from_raw_mode(mode)).ok()?;
        let mut file = File::from(file);
        file.write_all(&whole.contents).ok()?;
        part::dress(&file, whole.modified, whole.mode);
        // It has the system begin to write what is dirty; what is being written stays in its cache.
        let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
        Some(file)
    }

    /// Gives it its name, which nothing has.
    pub(super) fn link(dir: &Dir, folders: &Folders, file: &File, whole: &Whole) -> Placed {
        let linked = folder(dir, folders, &whole.name).and_then(|folder| {
            let own = format!("/proc/self/fd/{}", file.as_raw_fd());
            let name = whole.name.last()?;
            rustix::fs::linkat(CWD, &own, folder, name, AtFlags::SYMLINK_FOLLOW).ok()
        });
        match linked {
            Some(()) => Ok(true),
            // There is something meanwhile, or no /proc.
            None => place_one(dir, whole),
        }
    }
}

#[cfg(test)]
mod tests {
    use cap_std::ambient_authority;

    use super::*;

    fn whole(name: &str, contents: &[u8]) -> Whole {
        Whole {
            name: name.parse().unwrap(),
            contents: contents.to_vec(),
            modified: Some(1_000_000),
            mode: Some(0o640),
        }
    }

    #[tokio::test]
    async fn each_has_its_name_unless_something_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let dir = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        let dir = Arc::new(dir);
        std::fs::write(folder.path().join("there"), "as it was").unwrap();
        let begun: Name = "begun".parse().unwrap();
        std::fs::write(folder.path().join(begun.part()), "half").unwrap();
        let files = [
            whole("first", b"1"),
            whole("deep/er/second", b"22"),
            whole("there", b"other"),
            whole("begun", b"whole"),
            whole("deep/er/second", b"twice"),
            whole("there/below", b"no folder"),
            whole("deep/er/empty", b""),
        ];
        let placed = place(&dir, files.into()).await;
        let told: Vec<_> = placed.iter().map(|one| one.as_ref().ok()).collect();
        let expected = [true, true, false, false, false].map(Some);
        assert_eq!(told[..5], expected.each_ref().map(Option::as_ref));
        assert_ne!(told[5], Some(&true));
        assert_eq!(told[6], Some(&true));
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        for (name, text) in [
            ("first", "1"),
            ("deep/er/second", "22"),
            ("there", "as it was"),
            ("deep/er/empty", ""),
        ] {
            assert_eq!(read(name), text);
        }
        assert_eq!(
            std::fs::read(folder.path().join(begun.part())).unwrap(),
            b"half"
        );
        let made = std::fs::metadata(folder.path().join("first")).unwrap();
        let since = made
            .modified()
            .unwrap()
            .duration_since(std::time::SystemTime::UNIX_EPOCH);
        assert_eq!(since.unwrap(), Duration::from_secs(1_000_000));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(made.permissions().mode() & 0o7777, 0o640);
        }
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn nothing_is_placed_through_links() {
        use std::os::unix::fs::symlink;

        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let dir = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        symlink(outside.path(), folder.path().join("away")).unwrap();
        symlink("nowhere", folder.path().join("dangling")).unwrap();
        let files = vec![whole("away/file", b"1"), whole("dangling", b"2")];
        let placed = place(&Arc::new(dir), files).await;
        assert!(
            !placed.iter().any(|one| matches!(one, Ok(true))),
            "{placed:?}"
        );
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
        assert!(!folder.path().join("nowhere").exists());
    }

    #[tokio::test]
    async fn what_is_here_waits_for_others_and_not_for_ever() {
        let mut gathered = Gathered::new();
        assert!(gathered.before(async {}).await.is_some());
        gathered.push(());
        assert!(gathered.before(async {}).await.is_some());
        let never = std::future::pending::<()>();
        assert!(gathered.before(never).await.is_none());
        assert_eq!(gathered.take().len(), 1);
    }
}
