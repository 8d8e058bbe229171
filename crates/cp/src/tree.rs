//! What is in a folder: files to read, and listings. Nothing outside of it can be reached, whatever links say.

use std::ffi::OsStr;
use std::io;
use std::path::{Component, Path};
use std::sync::Arc;
use std::time::SystemTime;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, DirEntry, Metadata, ReadDir};

use crate::name::{Name, is_scratch};
use crate::wire::{Entry, Kind, Listed, Omission};

/// Entries of a folder that are looked at in one go: a thread that waits for the disk is free again after them.
const BATCH: usize = 256;
/// Bytes of names after which a go ends, too.
const BATCH_BYTES: usize = 64 * 1024;
/// The bits of a mode that travel: who may read, write and execute. What else a file has (set-user-ID) is its owner's to give.
#[cfg(unix)]
const MODE: u32 = 0o777;

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

/// Files that are never shown, under whatever names they are: a server's keys. Known by device and inode, so that other names and
/// later moves do not matter.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hidden(#[cfg(unix)] Vec<(u64, u64)>);

impl Hidden {
    pub(crate) fn add(&mut self, file: &Path) -> io::Result<()> {
        let metadata = std::fs::metadata(file)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt as _;
            self.0.push((metadata.dev(), metadata.ino()));
        }
        let _ = metadata;
        Ok(())
    }

    fn has(&self, metadata: &Metadata) -> bool {
        #[cfg(unix)]
        {
            use cap_std::fs::MetadataExt as _;
            self.0.contains(&(metadata.dev(), metadata.ino()))
        }
        #[cfg(not(unix))]
        {
            let _ = metadata;
            false
        }
    }
}

fn modified(metadata: &Metadata) -> Option<u64> {
    let time = metadata.modified().ok()?.into_std();
    let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(since.as_secs())
}

fn mode(metadata: &Metadata) -> Option<u32> {
    #[cfg(unix)]
    {
        use cap_std::fs::MetadataExt as _;
        Some(metadata.mode() & MODE)
    }
    #[cfg(not(unix))]
    {
        let _ = metadata;
        None
    }
}

fn entry_of(name: &Name, metadata: &Metadata) -> io::Result<Entry> {
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
    Ok(Entry {
        name: name.clone(),
        kind,
        size,
        modified: modified(metadata),
        mode: mode(metadata),
        target: None,
    })
}

/// Whether it has no name any more: a folder that is open and was removed looks empty.
fn is_removed(metadata: &Metadata) -> bool {
    #[cfg(unix)]
    {
        use cap_std::fs::MetadataExt as _;
        metadata.nlink() == 0
    }
    #[cfg(not(unix))]
    {
        let _ = metadata;
        false
    }
}

/// The entry of a name, links below the folder followed.
pub(crate) fn entry(dir: &Dir, name: &Name) -> io::Result<Entry> {
    entry_of(name, &dir.metadata(name.path())?)
}

/// Opens a file to read.
pub(crate) fn read(dir: &Dir, name: &Name, hidden: &Hidden) -> io::Result<(std::fs::File, Entry)> {
    // Opening a pipe would wait for its other end.
    if entry(dir, name)?.kind != Kind::File {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let file = dir.open(name.path())?;
    let metadata = file.metadata()?;
    if hidden.has(&metadata) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok((file.into_std(), entry_of(name, &metadata)?))
}

/// Gives a file that is open its permissions. A system without such permissions has nothing to give.
pub(crate) fn set_mode(file: &std::fs::File, mode: u32) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        file.set_permissions(std::fs::Permissions::from_mode(mode & MODE))
    }
    #[cfg(not(unix))]
    {
        let _ = (file, mode);
        Ok(())
    }
}

/// Gives a file or folder its permissions, if it has others.
pub(crate) fn set_mode_of(dir: &Dir, name: &Name, wanted: u32) -> io::Result<()> {
    #[cfg(unix)]
    {
        use cap_std::fs::PermissionsExt as _;
        let wanted = wanted & MODE;
        if mode(&dir.metadata(name.path())?) == Some(wanted) {
            return Ok(());
        }
        dir.set_permissions(name.path(), cap_std::fs::Permissions::from_mode(wanted))
    }
    #[cfg(not(unix))]
    {
        let _ = (dir, name, wanted);
        Ok(())
    }
}

/// Gives a file that has the right contents its time of change, if it has another one. Where that cannot be done, nothing is lost.
pub(crate) fn set_modified_of(dir: &Dir, name: &Name, seconds: u64) {
    let is_other = entry(dir, name)
        .is_ok_and(|entry| entry.kind == Kind::File && entry.modified != Some(seconds));
    let time = SystemTime::UNIX_EPOCH.checked_add(std::time::Duration::from_secs(seconds));
    if is_other && let (Ok(file), Some(time)) = (dir.open(name.path()), time) {
        let _ = file.into_std().set_modified(time);
    }
}

/// Makes a folder and those that lead to it, with these permissions. The one into which all is copied keeps its own.
pub(crate) fn make_folder(dir: &Dir, name: &Name, mode: Option<u32>) -> io::Result<()> {
    if name.last().is_none() {
        return Ok(());
    }
    dir.create_dir_all(name.path())?;
    mode.map_or(Ok(()), |mode| set_mode_of(dir, name, mode))
}

/// Removes a file, a link or a folder; one that is not empty with `deep` only.
pub(crate) fn remove(dir: &Dir, name: &Name, deep: bool, hidden: &Hidden) -> io::Result<()> {
    let metadata = dir.symlink_metadata(name.path())?;
    if hidden.has(&metadata) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    match (metadata.is_dir(), deep) {
        (true, true) => dir.remove_dir_all(name.path()),
        (true, false) => dir.remove_dir(name.path()),
        (false, _) => dir.remove_file(name.path()),
    }
}

/// Gives a file, a link or a folder another name, whose folder is made if there is none. Nothing that is there is replaced, unless it comes
/// there at this very moment.
pub(crate) fn rename(dir: &Dir, from: &Name, to: &Name, hidden: &Hidden) -> io::Result<()> {
    if hidden.has(&dir.symlink_metadata(from.path())?) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    if dir.symlink_metadata(to.path()).is_ok() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    make_folder(dir, &to.folder(), None)?;
    dir.rename(from.path(), dir, to.path())
}

/// Whether the file that is there was changed after this time, as far as is known.
pub(crate) fn is_newer(dir: &Dir, name: &Name, than: Option<u64>) -> bool {
    let there = dir.symlink_metadata(name.path()).ok();
    let there = there.filter(Metadata::is_file);
    let changed = there.and_then(|there| there.modified().ok());
    let changed =
        changed.and_then(|time| time.into_std().duration_since(SystemTime::UNIX_EPOCH).ok());
    // The other side tells whole seconds: what was changed later in the same second counts as changed later.
    // What was changed before 1970, or on a side that does not know when, is not taken for newer.
    changed.is_some_and(|changed| changed > std::time::Duration::from_secs(than.unwrap_or(0)))
}

/// Whether a link in a folder so many folders below the top leads to a place below the top. As long as `..` is nowhere but at the
/// beginning, no other link on the way can make something else of it.
pub(crate) fn leads_inside(depth: usize, target: &str) -> bool {
    let mut up = 0;
    let mut down = false;
    for component in Path::new(target).components() {
        match component {
            Component::ParentDir if !down => up += 1,
            Component::CurDir => {}
            Component::Normal(_) => down = true,
            _ => return false,
        }
    }
    up <= depth && !target.is_empty()
}

/// Refuses a place that has a pipe, a socket or a device: that is nothing to be replaced. A link is replaced, wherever it leads.
pub(crate) fn check_place(dir: &Dir, name: &Name) -> io::Result<()> {
    match dir.symlink_metadata(name.path()) {
        Ok(there) if !there.is_file() && !there.is_dir() && !there.is_symlink() => Err(special()),
        _ => Ok(()),
    }
}

/// The same for the place that a user names, such as `/dev/stdout`: it may be a link to the like.
pub(crate) fn check_named(place: &Path) -> io::Result<()> {
    let is_special = std::fs::metadata(place).is_ok_and(|at| !at.is_file() && !at.is_dir());
    let leads = std::fs::read_link(place).unwrap_or_default();
    if is_special || leads.starts_with("/proc") || leads.starts_with("/dev") {
        return Err(special());
    }
    Ok(())
}

fn special() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        "what is there is neither a file nor a folder, and stays",
    )
}

/// Makes a symbolic link in the place of a file or link, if there is one.
pub(crate) fn make_link(dir: &Dir, name: &Name, target: &str) -> io::Result<()> {
    #[cfg(unix)]
    {
        let folder = name.folder();
        if folder.last().is_some() {
            dir.create_dir_all(folder.path())?;
        }
        // Behind a link to a folder, `..` means something else than the name says.
        if folder.last().is_some() && dir.canonicalize(folder.path())? != folder.path() {
            return Err(io::Error::other("its folder is a link"));
        }
        check_place(dir, name)?;
        match dir.symlink_metadata(name.path()) {
            Ok(there) if there.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(there)
                if there.is_symlink()
                    && dir.read_link_contents(name.path())? == Path::new(target) =>
            {
                return Ok(());
            }
            _ => {}
        }
        let scratch = name.part();
        if dir
            .symlink_metadata(&scratch)
            .is_ok_and(|found| found.is_symlink())
        {
            dir.remove_file(&scratch)?;
        }
        dir.symlink(target, &scratch)?;
        let renamed = dir.rename(&scratch, dir, name.path());
        if renamed.is_err() {
            // If it stays, the next try removes it.
            let _ = dir.remove_file(&scratch);
        }
        renamed
    }
    #[cfg(not(unix))]
    {
        let _ = (dir, name, target);
        let why = "links are made on Unix only";
        Err(io::Error::new(io::ErrorKind::Unsupported, why))
    }
}

/// What a listing tells.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Want {
    /// All that is below the folder, too.
    pub(crate) deep: bool,
    /// Links as links; else the files that they lead to.
    pub(crate) links: bool,
}

/// A walk through a file or a folder, and what a folder has: with `deep`, all that is below it, each folder before its contents. What
/// cannot be told is told as left out, and the walk goes on.
#[derive(Debug)]
pub(crate) struct Walk {
    dir: Arc<Dir>,
    hidden: Hidden,
    want: Want,
    top: Name,
    first: Option<Entry>,
    /// Folders to look into.
    folders: Vec<Name>,
    /// The one that is looked into.
    open: Option<(Name, ReadDir)>,
    found: Vec<Listed>,
}

impl Walk {
    /// Begins with the file or folder itself.
    pub(crate) fn start(
        dir: &Arc<Dir>,
        hidden: &Hidden,
        top: &Name,
        want: Want,
    ) -> io::Result<Self> {
        let mut walk = Self {
            dir: Arc::clone(dir),
            hidden: hidden.clone(),
            want,
            top: top.clone(),
            first: None,
            folders: Vec::new(),
            open: None,
            found: Vec::new(),
        };
        let is_link = || Ok::<_, io::Error>(dir.symlink_metadata(top.path())?.is_symlink());
        if want.links && top.last().is_some() && is_link()? {
            let link = walk.link(top)?.map_err(io::Error::other)?;
            walk.first = Some(link);
            return Ok(walk);
        }
        let metadata = dir.metadata(top.path())?;
        if is_removed(&metadata) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let first = entry_of(top, &metadata)?;
        if hidden.has(&metadata) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        if first.kind == Kind::Folder {
            walk.open = Some((top.clone(), dir.read_dir(top.path())?));
        }
        walk.first = Some(first);
        Ok(walk)
    }

    /// Some of it; nothing at the end.
    pub(crate) fn batch(&mut self) -> Vec<Listed> {
        let first = self.first.take();
        self.found.extend(first.map(Listed::Entry));
        let mut bytes = 0;
        for _ in 0..BATCH {
            if bytes > BATCH_BYTES {
                break;
            }
            if let Some((folder, mut entries)) = self.open.take() {
                match entries.next() {
                    None => continue,
                    Some(Ok(entry)) => {
                        bytes += folder.as_str().len() + entry.file_name().len();
                        self.look(&folder, &entry);
                    }
                    // Whether another try gives the same error again, nobody knows.
                    Some(Err(error)) => {
                        self.omit(Omission::by(&folder, &error));
                        continue;
                    }
                }
                self.open = Some((folder, entries));
            } else if let Some(folder) = self.folders.pop() {
                match self.dir.read_dir(folder.path()) {
                    Ok(entries) => self.open = Some((folder, entries)),
                    Err(error) => self.omit(Omission::by(&folder, &error)),
                }
            } else {
                break;
            }
        }
        std::mem::take(&mut self.found)
    }

    /// Whether there is no more.
    pub(crate) fn is_over(&self) -> bool {
        self.first.is_none() && self.open.is_none() && self.folders.is_empty()
    }

    fn omit(&mut self, omission: Omission) {
        self.found.push(Listed::Omitted(omission));
    }

    fn look(&mut self, folder: &Name, found: &DirEntry) {
        let text = found.file_name();
        let here = |text: String| match folder.last() {
            Some(_) => format!("{}/{text}", folder.as_str()),
            None => text,
        };
        let Some(text) = text.to_str() else {
            return self.omit(Omission::new(here(shown(&text)), "its name is not UTF-8"));
        };
        // What an unfinished transfer left.
        if is_scratch(text) {
            return;
        }
        let name = match folder.join(text) {
            Ok(name) => name,
            Err(error) => return self.omit(Omission::new(here(text.to_owned()), error)),
        };
        match self.told(&name, found) {
            Ok(Ok(entry)) => {
                if self.want.deep && entry.kind == Kind::Folder {
                    self.folders.push(name);
                }
                self.found.push(Listed::Entry(entry));
            }
            Ok(Err(why)) => self.omit(Omission::new(name.as_str(), why)),
            Err(error) => self.omit(Omission::by(name.as_str(), &error)),
        }
    }

    /// What is told of something, or why it is left out.
    fn told(&self, name: &Name, found: &DirEntry) -> io::Result<Result<Entry, &'static str>> {
        const OUT: &str = "a link that leads out of the folder";
        let metadata = if !found.file_type()?.is_symlink() {
            found.metadata()?
        } else if self.want.links {
            return self.link(name);
        } else {
            match self.dir.metadata(name.path()) {
                Ok(metadata) if metadata.is_dir() => {
                    return Ok(Err("a link to a folder: --links copies links as links"));
                }
                Ok(metadata) => metadata,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Ok(Err("a link that leads nowhere"));
                }
                // Not the system's.
                Err(error) if error.raw_os_error().is_none() => return Ok(Err(OUT)),
                Err(error) => return Err(error),
            }
        };
        if self.hidden.has(&metadata) {
            return Ok(Err("a key or secret of the server"));
        }
        if !metadata.is_dir() && !metadata.is_file() {
            return Ok(Err("neither a file nor a folder"));
        }
        entry_of(name, &metadata).map(Ok)
    }

    /// A link as such, if it leads to a place below the top.
    fn link(&self, name: &Name) -> io::Result<Result<Entry, &'static str>> {
        let metadata = self.dir.symlink_metadata(name.path())?;
        let target = self.dir.read_link_contents(name.path())?;
        let Some(target) = target.to_str() else {
            return Ok(Err("a link to a name that is not UTF-8"));
        };
        let within = match name.as_str().strip_prefix(self.top.as_str()) {
            Some(rest) if *name != self.top => rest.trim_start_matches('/').matches('/').count(),
            _ => 0,
        };
        if !leads_inside(within, target) {
            return Ok(Err("a link that leads out of the folder"));
        }
        Ok(Ok(Entry {
            name: name.clone(),
            kind: Kind::Link,
            size: 0,
            modified: modified(&metadata),
            mode: None,
            target: Some(target.to_owned()),
        }))
    }
}

/// A name that may not be UTF-8, with what is not as `\xNN`.
pub(crate) fn shown(name: &OsStr) -> String {
    let mut text = String::new();
    for chunk in name.as_encoded_bytes().utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> (tempfile::TempDir, Arc<Dir>) {
        let folder = tempfile::tempdir().unwrap();
        let scratch = "b/.mpquic-0123456789abcdef0123456789abcdef.part";
        for name in ["a", "b/c/d", "b/e.mpquic.part", "b/f", scratch] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, name).unwrap();
        }
        let dir = open(folder.path()).unwrap();
        (folder, dir)
    }

    fn names(dir: &Arc<Dir>, name: &str, deep: bool, links: bool) -> (Vec<String>, Vec<String>) {
        let want = Want { deep, links };
        let name = name.parse().unwrap();
        let mut walk = Walk::start(dir, &Hidden::default(), &name, want).unwrap();
        let (mut names, mut omitted) = (Vec::new(), Vec::new());
        while !walk.is_over() {
            for found in walk.batch() {
                match found {
                    Listed::Entry(entry) => names.push(entry.name.to_string()),
                    Listed::Omitted(omission) => omitted.push(omission.to_string()),
                }
            }
        }
        for name in &names {
            let folder = name.parse::<Name>().unwrap().folder().to_string();
            let place = |of: &str| names.iter().position(|name| name == of);
            assert!(place(&folder) <= place(name), "{names:?}");
        }
        names.sort();
        omitted.sort();
        (names, omitted)
    }

    #[test]
    fn folders_come_before_their_contents() {
        let (_folder, dir) = place();
        assert_eq!(
            names(&dir, "", true, false).0,
            [".", "a", "b", "b/c", "b/c/d", "b/e.mpquic.part", "b/f"]
        );
        assert_eq!(names(&dir, "", false, false).0, [".", "a", "b"]);
        assert_eq!(names(&dir, "b/f", true, false).0, ["b/f"]);
    }

    #[test]
    fn a_folder_is_told_in_batches() {
        let (folder, dir) = place();
        for index in 0..BATCH {
            std::fs::write(folder.path().join(format!("b/{index}")), "").unwrap();
        }
        let top = "b".parse().unwrap();
        let mut walk = Walk::start(&dir, &Hidden::default(), &top, Want::default()).unwrap();
        let (first, second) = (walk.batch(), walk.batch());
        assert!(first.len() <= BATCH + 1, "{}", first.len());
        assert!(walk.is_over() && walk.batch().is_empty());
        assert_eq!(first.len() + second.len(), 1 + 3 + BATCH);
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
        symlink("nothing", folder.path().join("dangling")).unwrap();
        let (found, omitted) = names(&dir, "", true, false);
        let files = [".", "a", "b", "b/c", "b/c/d", "b/e.mpquic.part", "b/f"];
        assert_eq!(found, [&files[..], &["inside"]].concat());
        assert_eq!(
            omitted,
            [
                "b/far: a link that leads out of the folder",
                "b/up: a link to a folder: --links copies links as links",
                "dangling: a link that leads nowhere",
                "outside: a link that leads out of the folder",
            ]
        );
        let (found, omitted) = names(&dir, "", true, true);
        assert_eq!(
            found,
            [&files[..], &["b/up", "dangling", "inside"]]
                .concat()
                .into_iter()
                .collect::<std::collections::BTreeSet<_>>()
                .into_iter()
                .collect::<Vec<_>>()
        );
        assert_eq!(omitted.len(), 2, "{omitted:?}");
        let hidden = Hidden::default();
        let inside = "inside".parse().unwrap();
        assert_eq!(read(&dir, &inside, &hidden).unwrap().1.size, 1);
        for name in ["outside", "b/far", "b"] {
            assert!(read(&dir, &name.parse().unwrap(), &hidden).is_err());
        }
    }

    #[test]
    fn where_links_lead() {
        for (depth, target, inside) in [
            (0, "a", true),
            (0, "./a/b", true),
            (0, "..", false),
            (1, "..", true),
            (1, "../../a", false),
            (2, "../../a", true),
            (3, "a/../..", false),
            (3, "/a", false),
            (3, "", false),
        ] {
            assert_eq!(leads_inside(depth, target), inside, "{depth} {target}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_made_where_its_name_says() {
        use std::os::unix::fs::symlink;

        let (folder, dir) = place();
        for (name, target) in [("b/new/link", "../f"), ("b/new/link", "../c"), ("a", "b")] {
            make_link(&dir, &name.parse().unwrap(), target).unwrap();
            let made = std::fs::read_link(folder.path().join(name)).unwrap();
            assert_eq!(made, Path::new(target));
        }
        // At `top/x`, `..` would lead out, although the name has two folders before it.
        symlink("../..", folder.path().join("b/c/top")).unwrap();
        for name in ["b/c/top/x", "b"] {
            assert!(
                make_link(&dir, &name.parse().unwrap(), "..").is_err(),
                "{name}"
            );
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_key_is_hidden_under_every_name() {
        let (folder, dir) = place();
        let mut hidden = Hidden::default();
        hidden.add(&folder.path().join("a")).unwrap();
        std::fs::hard_link(folder.path().join("a"), folder.path().join("b/other")).unwrap();
        std::fs::rename(folder.path().join("a"), folder.path().join("moved")).unwrap();
        std::os::unix::fs::symlink("../moved", folder.path().join("b/way")).unwrap();
        for name in ["moved", "b/other", "b/way"] {
            let name: Name = name.parse().unwrap();
            let refused = read(&dir, &name, &hidden).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied, "{name}");
            assert!(Walk::start(&dir, &hidden, &name, Want::default()).is_err());
        }
        let want = Want {
            deep: true,
            links: false,
        };
        let mut walk = Walk::start(&dir, &hidden, &Name::default(), want).unwrap();
        let omitted = walk.batch().into_iter().filter(
            |found| matches!(found, Listed::Omitted(omission) if omission.why.contains("secret")),
        );
        assert_eq!(omitted.count(), 3);
    }

    #[cfg(unix)]
    #[test]
    fn a_name_that_is_not_utf_8_is_shown() {
        use std::os::unix::ffi::OsStrExt as _;
        assert_eq!(shown(OsStr::from_bytes(b"bad\xff!")), "bad\\xff!");
    }
}
