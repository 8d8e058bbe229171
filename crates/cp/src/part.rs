//! A file that is not complete yet: beside its place, until its SHA-256 is right.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use cap_std::fs::{Dir, OpenOptions};
use sha2::{Digest as _, Sha256};
use tokio::fs::File;
use tokio::io::{AsyncSeekExt, AsyncWriteExt};

use crate::content::hash;
use crate::name::Name;
use crate::tree::{self, blocking};
use crate::wire::Digest;

/// So many bytes of contents are kept until there are more, or all: a small file is written, given its time and permissions, and renamed
/// in one go.
const SMALL: usize = 64 * 1024;

/// A hidden file in the folder of the name, locked against other transfers for as long as this lives.
#[derive(Debug)]
pub(crate) struct Part {
    dir: Arc<Dir>,
    name: Name,
    path: PathBuf,
    file: File,
    /// What is not in the file yet.
    pending: Vec<u8>,
    sum: Sha256,
    len: u64,
}

/// Why a part cannot be had.
#[derive(Debug)]
pub(crate) enum NoPart {
    /// Another transfer has it.
    Busy,
    /// The system refuses.
    Io(io::Error),
}

impl From<io::Error> for NoPart {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Part {
    /// Begins anew where nothing is: neither under the name nor of an earlier transfer. `None` if there is something, or if more has to be
    /// found out: [`open`](Self::open) says what. A `private` one, whose permissions come when it is complete, can be read by its owner only
    /// until then.
    pub(crate) async fn begin(
        dir: &Arc<Dir>,
        name: &Name,
        private: bool,
    ) -> Result<Option<Self>, NoPart> {
        let path = name.part();
        let file = blocking({
            let (dir, path, name) = (Arc::clone(dir), path.clone(), name.clone());
            move || begin_locked(&dir, &path, &name, private)
        });
        let Some(file) = file.await? else {
            return Ok(None);
        };
        let file = File::from_std(file);
        Ok(Some(Self::of(dir, name, path, file, Sha256::new(), 0)))
    }

    /// Takes up what an earlier transfer left, or begins anew, as [`begin`](Self::begin) does. Makes the folders that lead there.
    pub(crate) async fn open(dir: &Arc<Dir>, name: &Name, private: bool) -> Result<Self, NoPart> {
        let path = name.part();
        let file = blocking({
            let (dir, path, name) = (Arc::clone(dir), path.clone(), name.clone());
            move || open_locked(&dir, &path, &name, private)
        })
        .await?;
        let mut file = File::from_std(file);
        let mut sum = Sha256::new();
        let len = hash(&mut file, u64::MAX, &mut sum).await?;
        Ok(Self::of(dir, name, path, file, sum, len))
    }

    fn of(dir: &Arc<Dir>, name: &Name, path: PathBuf, file: File, sum: Sha256, len: u64) -> Self {
        Self {
            dir: Arc::clone(dir),
            name: name.clone(),
            path,
            file,
            pending: Vec::new(),
            sum,
            len,
        }
    }

    pub(crate) const fn len(&self) -> u64 {
        self.len
    }

    /// The SHA-256 of what is there.
    pub(crate) fn digest(&self) -> Digest {
        Digest(self.sum.clone().finalize().into())
    }

    /// Forgets what is there.
    pub(crate) async fn restart(&mut self) -> io::Result<()> {
        self.pending.clear();
        self.file.rewind().await?;
        self.file.set_len(0).await?;
        self.sum = Sha256::new();
        self.len = 0;
        Ok(())
    }

    pub(crate) async fn append(&mut self, data: &[u8]) -> io::Result<()> {
        if self.pending.len() + data.len() <= SMALL && self.len == self.pending.len() as u64 {
            self.pending.extend_from_slice(data);
        } else {
            self.write_pending().await?;
            self.file.write_all(data).await?;
        }
        self.sum.update(data);
        self.len += data.len() as u64;
        Ok(())
    }

    async fn write_pending(&mut self) -> io::Result<()> {
        let pending = std::mem::take(&mut self.pending);
        self.file.write_all(&pending).await
    }

    /// Writes all that came.
    async fn flush(&mut self) -> io::Result<()> {
        self.write_pending().await?;
        self.file.flush().await
    }

    /// Gives the file its name. If that fails, nothing is left of it.
    pub(crate) async fn commit(self, modified: Option<u64>, mode: Option<u32>) -> io::Result<()> {
        let (dir, path) = (Arc::clone(&self.dir), self.path.clone());
        let done = self.rename(modified, mode).await;
        if done.is_err() {
            // What cannot be removed either is no beginning of the file to the next transfer.
            let _ = blocking(move || dir.remove_file(path)).await;
        }
        done
    }

    async fn rename(mut self, modified: Option<u64>, mode: Option<u32>) -> io::Result<()> {
        self.file.flush().await?;
        let mut file = self.file.into_std().await;
        let (dir, from, to, pending) = (self.dir, self.path, self.name, self.pending);
        blocking(move || {
            file.write_all(&pending)?;
            // A name for what a crash of the machine would leave empty is worse than none.
            file.sync_all()?;
            dress(&file, modified, mode);
            dir.rename(&from, &dir, to.path())
        })
        .await
    }

    /// Leaves it for the next transfer, unless it is empty or the disk does not take it.
    pub(crate) async fn keep(mut self) {
        if self.len == 0 || self.flush().await.is_err() {
            self.discard().await;
        }
    }

    /// Removes it: it is of no use.
    pub(crate) async fn discard(self) {
        let (dir, path) = (self.dir, self.path);
        // If it stays, the next transfer sees that it is no beginning of the file.
        let _ = blocking(move || dir.remove_file(path)).await;
    }
}

/// Gives a file its time of change and its permissions.
pub(crate) fn dress(file: &std::fs::File, modified: Option<u64>, mode: Option<u32>) {
    if let Some(seconds) = modified {
        let time = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
        // A time that the file system does not take is no reason to lose the contents.
        let _ = time.map(|time| file.set_modified(time));
    }
    if let Some(mode) = mode {
        // Nor is a file system without permissions.
        let _ = tree::set_mode(file, mode);
    }
}

fn open_locked(
    dir: &Dir,
    path: &Path,
    name: &Name,
    private: bool,
) -> Result<std::fs::File, NoPart> {
    let folder = name.folder();
    if folder.last().is_some() {
        dir.create_dir_all(folder.path())?;
    }
    tree::check_place(dir, name)?;
    match dir.metadata(name.path()) {
        Ok(there) if there.is_dir() => {
            return Err(io::Error::from(io::ErrorKind::IsADirectory).into());
        }
        // Better now than when all of it is here.
        Err(error) if error.kind() == io::ErrorKind::InvalidFilename => return Err(error.into()),
        _ => {}
    }
    if dir
        .symlink_metadata(path)
        .is_ok_and(|found| !found.is_file())
    {
        // Opening a pipe would wait for its other end, and a link leads to a file that is not meant.
        return Err(io::Error::other("what is in the place of the part is no file").into());
    }
    let file = dir
        .open_with(path, options(private).create(true))?
        .into_std();
    lock(dir, path, file)
}

/// A new part of a file that is not there.
pub(crate) fn begin_locked(
    dir: &Dir,
    path: &Path,
    name: &Name,
    private: bool,
) -> Result<Option<std::fs::File>, NoPart> {
    match dir.symlink_metadata(name.path()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        _ => return Ok(None),
    }
    let make = || dir.open_with(path, options(private).create_new(true));
    let folder = name.folder();
    let made = make().or_else(|error| {
        if error.kind() != io::ErrorKind::NotFound || folder.last().is_none() {
            return Err(error);
        }
        dir.create_dir_all(folder.path())?;
        make()
    });
    match made {
        Ok(file) => lock(dir, path, file.into_std()).map(Some),
        Err(_) => Ok(None),
    }
}

fn options(private: bool) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    #[cfg(unix)]
    if private {
        use cap_std::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    let _ = private;
    options
}

fn lock(dir: &Dir, path: &Path, file: std::fs::File) -> Result<std::fs::File, NoPart> {
    match file.try_lock() {
        Ok(()) => {}
        Err(std::fs::TryLockError::WouldBlock) => return Err(NoPart::Busy),
        Err(std::fs::TryLockError::Error(error)) => return Err(error.into()),
    }
    // Between opening and locking, the transfer that had it may have given it its name.
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;

        use cap_std::fs::MetadataExt as _;
        let there = dir.symlink_metadata(path).ok();
        let here = file.metadata()?;
        if there.map(|there| (there.dev(), there.ino())) != Some((here.dev(), here.ino())) {
            return Err(NoPart::Busy);
        }
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use cap_std::ambient_authority;

    use super::*;

    fn place() -> (tempfile::TempDir, Arc<Dir>, Name) {
        let folder = tempfile::tempdir().unwrap();
        let dir = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        (folder, Arc::new(dir), "deep/file".parse().unwrap())
    }

    #[tokio::test]
    async fn it_goes_on_where_it_stopped_and_has_its_name_when_it_is_complete() {
        let (folder, dir, name) = place();
        let mut part = Part::open(&dir, &name, true).await.unwrap();
        part.append(b"first ").await.unwrap();
        part.flush().await.unwrap();
        assert!(matches!(
            Part::open(&dir, &name, true).await,
            Err(NoPart::Busy)
        ));
        drop(part);
        assert!(!folder.path().join("deep/file").exists());

        let mut part = Part::open(&dir, &name, true).await.unwrap();
        assert_eq!(part.len(), 6);
        part.append(b"second").await.unwrap();
        let whole: [u8; 32] = Sha256::digest(b"first second").into();
        assert_eq!(part.digest(), Digest(whole));
        part.commit(Some(1_000_000), Some(0o4640)).await.unwrap();
        let file = folder.path().join("deep/file");
        assert_eq!(std::fs::read(&file).unwrap(), b"first second");
        let modified = std::fs::metadata(&file).unwrap().modified().unwrap();
        let since = modified.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(since, Duration::from_secs(1_000_000));
        assert!(!folder.path().join(name.part()).exists());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = std::fs::metadata(&file).unwrap().permissions().mode();
            assert_eq!(mode & 0o7777, 0o640, "set-user-ID does not travel");
        }
    }

    #[tokio::test]
    async fn it_begins_in_one_go_only_where_nothing_is() {
        let (folder, dir, name) = place();
        let begin = async || Part::begin(&dir, &name, true).await.unwrap();
        // Small contents are nowhere but in memory until they are kept.
        let mut part = begin().await.unwrap();
        part.append(b"some").await.unwrap();
        let path = folder.path().join(name.part());
        assert_eq!(std::fs::read(&path).unwrap(), b"");
        part.keep().await;
        assert_eq!(std::fs::read(&path).unwrap(), b"some");
        assert!(begin().await.is_none(), "an earlier transfer left this");
        let mut part = Part::open(&dir, &name, true).await.unwrap();
        part.append(b" more").await.unwrap();
        part.commit(None, None).await.unwrap();
        let file = folder.path().join("deep/file");
        assert_eq!(std::fs::read(&file).unwrap(), b"some more");
        assert!(begin().await.is_none(), "the file is there");

        std::fs::remove_file(&file).unwrap();
        let mut part = begin().await.unwrap();
        let piece = vec![7; SMALL - 1];
        for _ in 0..3 {
            part.append(&piece).await.unwrap();
        }
        let whole = piece.repeat(3);
        let digest: [u8; 32] = Sha256::digest(&whole).into();
        assert_eq!(part.digest(), Digest(digest));
        part.commit(None, None).await.unwrap();
        assert!(std::fs::read(&file).unwrap() == whole);
    }

    #[tokio::test]
    async fn it_begins_anew_and_goes_away() {
        let (folder, dir, name) = place();
        let mut part = Part::open(&dir, &name, true).await.unwrap();
        part.append(b"a long beginning").await.unwrap();
        part.restart().await.unwrap();
        part.append(b"other").await.unwrap();
        let other: [u8; 32] = Sha256::digest(b"other").into();
        assert_eq!((part.len(), part.digest()), (5, Digest(other)));
        part.flush().await.unwrap();
        let path = folder.path().join(name.part());
        assert_eq!(std::fs::read(&path).unwrap(), b"other");
        part.discard().await;
        assert!(!path.exists());
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn nothing_is_written_through_links() {
        use std::os::unix::fs::symlink;

        let (folder, dir, name) = place();
        let outside = tempfile::tempdir().unwrap();
        symlink(outside.path(), folder.path().join("deep")).unwrap();
        assert!(matches!(
            Part::open(&dir, &name, true).await,
            Err(NoPart::Io(_))
        ));
        let other: Name = "other".parse().unwrap();
        let link = folder.path().join(other.part());
        symlink("inside", &link).unwrap();
        for name in [&name, &other] {
            assert!(matches!(Part::begin(&dir, name, true).await, Ok(None)));
        }
        assert!(matches!(
            Part::open(&dir, &other, true).await,
            Err(NoPart::Io(_))
        ));
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
        assert!(!folder.path().join("inside").exists());
    }
}
