//! From the server to this machine: a file, or a folder with all that is below it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::Dir;
use mpquic::{Escaped, RecvStream};
use sha2::{Digest as _, Sha256};
use tokio::fs::File;

use crate::client::{Client, CopyOptions, List, unexpected};
use crate::content::{self, NotReceived, hash};
use crate::error::Error;
use crate::name::Name;
use crate::part::{NoPart, Part};
use crate::plan::{is_same, planned};
use crate::progress::Progress;
use crate::several::{Turn, turns};
use crate::surplus::{self, Surplus, Tree, surplus};
use crate::tree::{self, Hidden, Walk, Want, blocking};
use crate::wire::{Answer, Digest, Entry, Kind, Omission, Request};

impl Client {
    /// Gets `name` to `local`: into it, if that ends with a separator, is `.` or `..`, or is a folder and `name` a file; else to that name.
    /// What is there already is not transferred again; a file with other contents is replaced when the new one is complete, unless it was
    /// changed later than the server's.
    ///
    /// What of a folder cannot be had is left out, and told to `progress`; all else is copied.
    ///
    /// # Errors
    ///
    /// If there is no such file or folder, the disk is full, or the connection breaks. What was transferred of a file stays beside its place
    /// under a hidden name then, unless the disk is the reason.
    pub async fn get(
        &self,
        name: &Name,
        local: &Path,
        options: &CopyOptions,
        progress: &Arc<Progress>,
    ) -> Result<(), Error> {
        let found = self.gather(name, options, progress).await?;
        let (base, target) = place(name, local, found.is_folder)?;
        self.copy(found, base, target, options, progress, true)
            .await
    }

    /// Gets each of `names` into the folder `local`, under its own name. One that there is not is left out, and told to `progress`.
    ///
    /// # Errors
    ///
    /// If two have the same name, the disk is full, or the connection breaks.
    pub async fn get_all(
        &self,
        names: &[Name],
        local: &Path,
        options: &CopyOptions,
        progress: &Arc<Progress>,
    ) -> Result<(), Error> {
        check_distinct(names.iter().filter_map(Name::last))?;
        let mut all = Vec::new();
        // What all of it is comes first, so that it is known how much is left.
        for name in names {
            match self.gather(name, options, progress).await {
                Ok(found) => all.push((name, found)),
                Err(error) => missing(error, progress)?,
            }
        }
        for (name, found) in all {
            let target = name.last().map_or_else(Name::default, |_| name.own());
            let base = local.to_owned();
            self.copy(found, base, target, options, progress, false)
                .await?;
        }
        Ok(())
    }

    /// What the server has of a name, as far as it is selected.
    async fn gather(
        &self,
        name: &Name,
        options: &CopyOptions,
        progress: &Progress,
    ) -> Result<Found, Error> {
        let what = List {
            deep: true,
            links: options.links,
        };
        let mut tree = Tree::new(name);
        self.list_all(name, what, |listed| tree.add(listed)).await?;
        for omission in &tree.omitted {
            progress.omit(omission);
        }
        tree.select(&options.select);
        let first = tree.entries.first();
        let first = first.ok_or_else(|| Error::Malformed("an empty listing".to_owned()))?;
        let is_folder = first.kind == Kind::Folder;
        if !is_folder && tree.entries.len() > 1 {
            let why = "a file with others below it";
            return Err(Error::Malformed(why.to_owned()));
        }
        if !options.dry_run {
            let files = tree.entries.iter();
            for entry in files.filter(|entry| entry.kind != Kind::Folder) {
                progress.expect(entry.size);
            }
        }
        Ok(Found {
            name: name.clone(),
            tree,
            is_folder,
        })
    }

    /// Copies what was found to a name below a folder of this machine.
    async fn copy(
        &self,
        found: Found,
        base: PathBuf,
        target: Name,
        options: &CopyOptions,
        progress: &Arc<Progress>,
        is_all: bool,
    ) -> Result<(), Error> {
        let (name, is_folder) = (&found.name, found.is_folder);
        if options.dry_run {
            let there = there(&base, &target).await?;
            let placed = there.by_place();
            let files = found.tree.entries.iter();
            let files = files.filter(|entry| entry.kind != Kind::Folder);
            let plan = files.filter_map(|entry| {
                let place = found.tree.place(entry.name.as_str());
                planned(entry, placed.get(place).copied(), options)
            });
            progress.planned(plan.collect());
            drop(placed);
            if options.delete && is_folder {
                let surplus = surplus(&found.tree, there, &options.select);
                progress.planned(surplus::planned(&surplus));
            }
            return Ok(());
        }
        let place = target.last().map(|_| base.join(target.path()));
        let dir = blocking({
            let base = base.clone();
            move || {
                place.map_or(Ok(()), |place| tree::check_named(&place))?;
                std::fs::create_dir_all(&base)?;
                tree::open(&base)
            }
        });
        let dir = dir.await.map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => Error::file(&base.join(target.path()), error),
            _ => Error::file(&base, error),
        })?;
        let to = Arc::new(To {
            dir,
            base,
            options: options.clone(),
            top: target.clone(),
        });
        let (first, last) = if options.delete && is_folder {
            let there = there(&to.base, &target).await?;
            let all = surplus(&found.tree, there, &options.select);
            all.into_iter().partition(|one| one.in_the_way)
        } else {
            (Vec::new(), Vec::new())
        };
        to.remove(first, progress).await?;
        let mut files = Vec::new();
        let mut locked = Vec::new();
        for mut entry in found.tree.entries {
            if !options.permissions {
                entry.mode = None;
            }
            let target = match below(&entry.name, name, &target) {
                // The names of this side can be longer than those of the other.
                Err(Error::Name(error)) => {
                    progress.omit(&Omission::new(entry.name.as_str(), error));
                    continue;
                }
                target => target?,
            };
            match entry.kind {
                Kind::File | Kind::Link => {}
                Kind::Folder => {
                    if let Err(error) = to.make_folder(&target, entry.mode.map(open_mode)).await {
                        tell(error, is_all && target == to.top, progress)?;
                    } else if let Some(mode) = entry.mode.filter(|mode| *mode != open_mode(*mode)) {
                        locked.push((target, mode));
                    }
                    continue;
                }
            }
            files.push((entry, target));
        }
        let single = is_all && !is_folder;
        let turns = turns(files, 0, self.takes_several());
        self.each(turns, |client, mut turn| {
            let (to, progress) = (Arc::clone(&to), Arc::clone(progress));
            async move {
                if turn.len() > 1 {
                    return client.get_several(turn, &to, &progress).await;
                }
                let Some((entry, target)) = turn.pop() else {
                    return Ok(());
                };
                let done = match entry.kind {
                    Kind::Link => to.make_link(&entry, &target, &progress).await,
                    _ => client.get_file(entry, target, &to, &progress).await,
                };
                done.or_else(|error| tell(error, single, &progress))
            }
        })
        .await?;
        to.remove(last, progress).await?;
        // What may not be written could not have been filled; those inside before those around them.
        for (target, mode) in locked.into_iter().rev() {
            if let Err(error) = to.make_folder(&target, Some(mode)).await {
                tell(error, false, progress)?;
            }
        }
        Ok(())
    }

    pub(crate) async fn get_file(
        &self,
        entry: Entry,
        target: Name,
        to: &To,
        progress: &Progress,
    ) -> Result<(), Error> {
        if to.passes_over(&entry, &target, progress).await? {
            return Ok(());
        }
        let part = match to.begin(&entry, &target).await? {
            Some(part) => part,
            None => match self.part_of(&entry, &target, to, progress).await? {
                Some(part) => part,
                None => return Ok(()),
            },
        };
        let begun = Begun {
            entry,
            target,
            part,
        };
        self.fetch(begun, to, progress).await
    }

    /// The part of a file of which something is here; none if all of it is, and is right now.
    async fn part_of(
        &self,
        entry: &Entry,
        target: &Name,
        to: &To,
        progress: &Progress,
    ) -> Result<Option<Part>, Error> {
        // What has the size of the server's may be the same.
        let whole = whole(&to.dir, target, entry.size).await;
        if let Some(digest) = whole.map_err(|error| to.error(target, error))? {
            let (asked, _) = self.ask(&entry.name, entry.size, Some(digest)).await?;
            if asked.from == entry.size && asked.size == entry.size {
                if let Some(mode) = entry.mode {
                    to.set_mode(target, mode).await?;
                }
                to.set_modified(target, asked.modified).await?;
                progress.resumed(entry.size);
                progress.file_done(&entry.name, entry.size, true);
                return Ok(None);
            }
        }
        if !to.options.overwrite && to.is_newer(target, entry.modified).await? {
            return Err(Error::Newer(to.path(target).display().to_string()));
        }
        let opened = Part::open(&to.dir, target, entry.mode.is_some()).await;
        opened.map(Some).map_err(|why| to.no_part(target, why))
    }

    /// Gets what a part lacks.
    pub(crate) async fn fetch(
        &self,
        mut begun: Begun,
        to: &To,
        progress: &Progress,
    ) -> Result<(), Error> {
        let Begun {
            entry,
            target,
            part,
        } = &mut begun;
        let digest = (part.len() > 0).then(|| part.digest());
        let (content, mut recv) = match self.ask(&entry.name, part.len(), digest).await {
            Ok(asked) => asked,
            Err(error) => {
                begun.part.keep().await;
                return Err(error);
            }
        };
        if content.from != part.len() {
            if content.from != 0 {
                begun.part.keep().await;
                let why = format!("it goes on at byte {}", content.from);
                return Err(Error::Malformed(why));
            }
            if let Err(error) = part.restart().await {
                let error = to.error(target, error);
                begun.part.discard().await;
                return Err(error);
            }
        }
        progress.resumed(content.from);
        self.take(begun, content, &mut recv, to, progress).await
    }

    /// Takes the contents that come, and gives the file its name.
    pub(crate) async fn take(
        &self,
        begun: Begun,
        content: Content,
        recv: &mut RecvStream,
        to: &To,
        progress: &Progress,
    ) -> Result<(), Error> {
        let Begun {
            entry,
            target,
            mut part,
        } = begun;
        let here = |error| to.error(&target, error);
        let mode = content.mode.filter(|_| to.options.permissions);
        let count = |bytes| progress.moved(bytes);
        match content::receive(&mut part, content.size, recv, self.throttle(), count).await {
            Ok(()) => part.commit(content.modified, mode).await.map_err(here)?,
            Err(NotReceived::Stream(error)) => {
                part.keep().await;
                return Err(error);
            }
            Err(NotReceived::Cut) => {
                part.keep().await;
                return Err(Error::Cut(entry.name));
            }
            Err(NotReceived::File(error)) => {
                part.discard().await;
                return Err(here(error));
            }
            Err(NotReceived::Damaged) => {
                part.discard().await;
                return Err(Error::Damaged(entry.name));
            }
        }
        progress.file_done(&entry.name, content.size, false);
        Ok(())
    }

    /// Asks for a file, of which `have` bytes with this digest are here.
    pub(crate) async fn ask(
        &self,
        name: &Name,
        have: u64,
        digest: Option<Digest>,
    ) -> Result<(Content, RecvStream), Error> {
        let request = Request::Get {
            name: name.clone(),
            have,
            digest,
        };
        let (_, recv, answer) = self.request(&request, true).await?;
        Ok((Content::of(answer)?, recv))
    }
}

/// Where things go, and how.
pub(crate) struct To {
    pub(crate) dir: Arc<Dir>,
    base: PathBuf,
    pub(crate) options: CopyOptions,
    /// What is copied, as a whole.
    top: Name,
}

impl To {
    fn path(&self, name: &Name) -> PathBuf {
        match name.last() {
            Some(_) => self.base.join(name.path()),
            None => self.base.clone(),
        }
    }

    fn error(&self, name: &Name, error: io::Error) -> Error {
        // What was there and is not any more is the server's.
        let error = match error.kind() {
            io::ErrorKind::NotFound => io::Error::other("its folder is gone"),
            _ => error,
        };
        Error::file(&self.path(name), error)
    }

    /// Does what may wait for the disk.
    async fn blocking<T: Send + 'static>(
        &self,
        name: &Name,
        work: impl FnOnce(&Dir, &Name) -> io::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        let (dir, own) = (Arc::clone(&self.dir), name.clone());
        let done = blocking(move || work(&dir, &own)).await;
        done.map_err(|error| self.error(name, error))
    }

    /// Whether a file is taken for the same as the server's, unread; it is told as done then.
    pub(crate) async fn passes_over(
        &self,
        entry: &Entry,
        target: &Name,
        progress: &Progress,
    ) -> Result<bool, Error> {
        if !self.options.quick || !self.has(target, entry).await? {
            return Ok(false);
        }
        if let Some(mode) = entry.mode {
            self.set_mode(target, mode).await?;
        }
        progress.resumed(entry.size);
        progress.file_done(&entry.name, entry.size, true);
        Ok(true)
    }

    /// Those of which nothing is here, and the others.
    pub(crate) async fn fresh(&self, files: Turn) -> Result<(Turn, Turn), Error> {
        let dir = Arc::clone(&self.dir);
        let divided = blocking(move || {
            let is_absent = |path: &Path| {
                let found = dir.symlink_metadata(path);
                found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
            };
            let files = files.into_iter();
            Ok(files.partition(|(_, name)| is_absent(name.path()) && is_absent(&name.part())))
        });
        divided
            .await
            .map_err(|error| Error::file(&self.base, error))
    }

    /// A part of a file of which nothing is here; none if there is something.
    pub(crate) async fn begin(&self, entry: &Entry, target: &Name) -> Result<Option<Part>, Error> {
        let begun = Part::begin(&self.dir, target, entry.mode.is_some()).await;
        begun.map_err(|why| self.no_part(target, why))
    }

    pub(crate) fn no_part(&self, target: &Name, why: NoPart) -> Error {
        match why {
            NoPart::Io(error) => self.error(target, error),
            NoPart::Busy => Error::Busy(self.path(target).display().to_string()),
        }
    }

    async fn make_folder(&self, name: &Name, mode: Option<u32>) -> Result<(), Error> {
        self.blocking(name, move |dir, name| tree::make_folder(dir, name, mode))
            .await
    }

    async fn set_mode(&self, name: &Name, mode: u32) -> Result<(), Error> {
        self.blocking(name, move |dir, name| tree::set_mode_of(dir, name, mode))
            .await
    }

    /// The same contents with another time of change are given that of the server, if that can be done.
    async fn set_modified(&self, name: &Name, modified: Option<u64>) -> Result<(), Error> {
        let Some(modified) = modified else {
            return Ok(());
        };
        self.blocking(name, move |dir, name| {
            tree::set_modified_of(dir, name, modified);
            Ok(())
        })
        .await
    }

    /// Whether what is there is taken for the same, unread.
    async fn has(&self, name: &Name, entry: &Entry) -> Result<bool, Error> {
        let entry = entry.clone();
        self.blocking(name, move |dir, name| {
            let is_link = dir
                .symlink_metadata(name.path())
                .is_ok_and(|there| there.is_symlink());
            let there = tree::entry(dir, name);
            Ok(!is_link && there.is_ok_and(|there| is_same(&entry, &there)))
        })
        .await
    }

    /// Removes what is there too much. A folder in which something is left stays.
    async fn remove(&self, all: Vec<Surplus>, progress: &Progress) -> Result<(), Error> {
        for one in all {
            let removed = self.blocking(&one.name, move |dir, name| {
                match tree::remove(dir, name, one.deep, &Hidden::default()) {
                    Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(false),
                    removed => removed.map(|()| true),
                }
            });
            match removed.await {
                Ok(true) => progress.removed(&one.name),
                Ok(false) => {}
                Err(error) => tell(error, false, progress)?,
            }
        }
        Ok(())
    }

    async fn is_newer(&self, name: &Name, than: Option<u64>) -> Result<bool, Error> {
        self.blocking(name, move |dir, name| Ok(tree::is_newer(dir, name, than)))
            .await
    }

    /// Makes a link, if it leads to a place in what is copied.
    async fn make_link(
        &self,
        entry: &Entry,
        name: &Name,
        progress: &Progress,
    ) -> Result<(), Error> {
        let target = entry.target.clone().unwrap_or_default();
        // In the folder that is copied; a link by itself may lead to what is beside it.
        let depth = match self.top == *name {
            true => 0,
            false => name.depth() - self.top.last().map_or(0, |_| self.top.depth() + 1),
        };
        if !tree::leads_inside(depth, &target) {
            let why = io::Error::other("a link that leads out of the folder");
            return Err(self.error(name, why));
        }
        if !self.options.overwrite && self.is_newer(name, entry.modified).await? {
            return Err(Error::Newer(self.path(name).display().to_string()));
        }
        self.blocking(name, move |dir, name| tree::make_link(dir, name, &target))
            .await?;
        progress.file_done(&entry.name, 0, false);
        Ok(())
    }
}

/// The permissions of a folder that is still to be filled.
pub(crate) const fn open_mode(mode: u32) -> u32 {
    mode | 0o700
}

/// An error of what was asked for ends it; that of one thing of many is told, and the others go on.
pub(crate) fn tell(error: Error, single: bool, progress: &Progress) -> Result<(), Error> {
    match error.omission() {
        Some(omission) if !single => {
            progress.omit(&omission);
            Ok(())
        }
        _ => Err(error),
    }
}

/// One of several that there is not is told, and the others are copied.
pub(crate) fn missing(error: Error, progress: &Progress) -> Result<(), Error> {
    let omission = error.omission().ok_or(error)?;
    progress.omit(&Omission {
        vanished: false,
        ..omission
    });
    Ok(())
}

/// Several that go into one folder have names of their own.
pub(crate) fn check_distinct<'a>(names: impl Iterator<Item = &'a str>) -> Result<(), Error> {
    let mut seen = std::collections::HashSet::new();
    for name in names {
        if !seen.insert(name) {
            let why = format!(
                "two are called {}: copy them one by one",
                Escaped::new(name)
            );
            return Err(Error::Argument(why));
        }
    }
    Ok(())
}

/// What is to be copied.
struct Found {
    name: Name,
    tree: Tree,
    is_folder: bool,
}

/// What this machine has in the place of it.
async fn there(base: &Path, target: &Name) -> Result<Tree, Error> {
    let listed = blocking({
        let (base, target) = (base.to_owned(), target.clone());
        move || {
            let mut tree = Tree::new(&target);
            let want = Want {
                deep: true,
                links: true,
            };
            let started = tree::open(&base)
                .and_then(|dir| Walk::start(&dir, &Hidden::default(), &target, want));
            let mut walk = match started {
                Ok(walk) => walk,
                // A link that leads elsewhere is no error of the system's.
                Err(error)
                    if error.kind() == io::ErrorKind::NotFound
                        || error.raw_os_error().is_none() =>
                {
                    return Ok(tree);
                }
                Err(error) => return Err(error),
            };
            while !walk.is_over() {
                walk.batch().into_iter().for_each(|listed| tree.add(listed));
            }
            Ok(tree)
        }
    });
    let whole = || match target.last() {
        Some(_) => base.join(target.path()),
        None => base.to_owned(),
    };
    listed.await.map_err(|error| Error::file(&whole(), error))
}

/// The folder of this machine, and the name below it, to which `name` goes.
fn place(name: &Name, local: &Path, is_folder: bool) -> Result<(PathBuf, Name), Error> {
    // Whatever is there of a folder already, the same command means the same place: it goes on where it stopped.
    let named = local.as_os_str().to_string_lossy();
    let into = named.ends_with(['/', '\\'])
        || local.file_name().is_none()
        || (!is_folder && local.is_dir());
    let (base, target) = match (into, name.last(), local.file_name()) {
        (true, Some(last), _) => (local, last.parse()?),
        // The whole of the server's folder has no name.
        (true, None, _) | (false, None, _) => (local, Name::default()),
        (false, Some(_), Some(file)) => {
            let file = file.to_str();
            let file =
                file.ok_or_else(|| Error::Argument(format!("{}: not UTF-8", local.display())))?;
            (
                local.parent().unwrap_or_else(|| Path::new("")),
                file.parse()?,
            )
        }
        (false, Some(_), None) => {
            return Err(Error::Argument(format!(
                "{}: no name of a file",
                local.display()
            )));
        }
    };
    let base = if base.as_os_str().is_empty() {
        Path::new(".")
    } else {
        base
    };
    Ok((base.to_owned(), target))
}

/// A file of which a part is here, locked.
pub(crate) struct Begun {
    pub(crate) entry: Entry,
    pub(crate) target: Name,
    pub(crate) part: Part,
}

/// The answer to a request for a file; its contents follow.
pub(crate) struct Content {
    pub(crate) size: u64,
    pub(crate) from: u64,
    pub(crate) modified: Option<u64>,
    pub(crate) mode: Option<u32>,
}

impl Content {
    pub(crate) fn of(answer: Answer) -> Result<Self, Error> {
        match answer {
            Answer::Content {
                size,
                from,
                modified,
                mode,
            } => Ok(Self {
                size,
                from,
                modified,
                mode,
            }),
            other => Err(unexpected(&other)),
        }
    }
}

/// Where an entry below `name` goes that is to be `target`.
fn below(entry: &Name, name: &Name, target: &Name) -> Result<Name, Error> {
    let rest = entry.as_str().strip_prefix(name.as_str());
    let rest =
        rest.filter(|rest| rest.is_empty() || rest.starts_with('/') || name.as_str().is_empty());
    match rest.map(|rest| rest.trim_start_matches('/')) {
        Some("") => Ok(target.clone()),
        Some(rest) => Ok(target.join(rest)?),
        None => Err(Error::Malformed(format!("{entry} is not below {name}"))),
    }
}

/// The digest of a file that is there under its name, if it has this size.
async fn whole(dir: &Arc<Dir>, name: &Name, size: u64) -> io::Result<Option<Digest>> {
    let opened = blocking({
        let (dir, name) = (Arc::clone(dir), name.clone());
        move || match tree::entry(&dir, &name) {
            Ok(entry) if entry.kind == Kind::File && entry.size == size => {
                tree::read(&dir, &name, &Hidden::default()).map(Some)
            }
            // What is there is in the way, or nothing is: this shows when the file is to be written.
            _ => Ok(None),
        }
    });
    let Some((file, _)) = opened.await? else {
        return Ok(None);
    };
    let mut sum = Sha256::new();
    let len = hash(&mut File::from_std(file), u64::MAX, &mut sum).await?;
    Ok((len == size).then(|| Digest(sum.finalize().into())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_keep_their_place_below_the_target() {
        let name = |text: &str| text.parse::<Name>().unwrap();
        for (entry, from, target, to) in [
            ("a/b", "a", "c", "c/b"),
            ("a", "a", "c", "c"),
            ("a/b/c", "a/b", "b", "b/c"),
            ("a/b", "", "", "a/b"),
            ("", "", "", ""),
        ] {
            assert_eq!(
                below(&name(entry), &name(from), &name(target)).unwrap(),
                name(to)
            );
        }
        for (entry, from) in [("ab", "a"), ("c", "a")] {
            assert!(below(&name(entry), &name(from), &name("x")).is_err());
        }
    }
}
