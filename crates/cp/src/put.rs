//! From this machine to the server: a file, or a folder with all that is below it.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cap_std::fs::Dir;
use mpquic::{ReadExactError, StreamHints, WriteError};

use crate::client::{Client, CopyOptions, FILES, List, unexpected};
use crate::content::{NotSent, Source};
use crate::error::Error;
use crate::get::{check_distinct, missing, open_mode, tell};
use crate::name::Name;
use crate::plan::{is_same, planned};
use crate::progress::Progress;
use crate::several::turns;
use crate::surplus::{self, Surplus, Tree, surplus};
use crate::tree::{self, Hidden, Walk, Want, blocking};
use crate::wire::{self, Answer, Entry, Kind, Refusal, RefusalKind, Request, Unread};

impl Client {
    /// Puts `local` to `name` on the server; without one, or if it ends with `/`, under its own name. What the server has already is not
    /// transferred again; a file of its own with other contents is replaced, unless it was changed later.
    ///
    /// What of a folder cannot be read or written is left out, and told to `progress`; all else is copied.
    ///
    /// # Errors
    ///
    /// If a file that is put by itself cannot be read, the server does not take it, or the connection breaks. What the server got of a file
    /// then stays there under a hidden name.
    pub async fn put(
        &self,
        local: &Path,
        name: Option<&str>,
        options: &CopyOptions,
        progress: &Arc<Progress>,
    ) -> Result<(), Error> {
        let found = self.found(local, options, progress).await?;
        let target = match name {
            None => found.own()?,
            Some(folder) if folder.ends_with('/') => {
                folder.parse::<Name>()?.join(found.own()?.as_str())?
            }
            Some(name) => name.parse()?,
        };
        self.send(found, target, options, progress, true).await
    }

    /// Puts each of `locals` into the folder `name` of the server, under its own name. One that cannot be read is left out, and told to
    /// `progress`.
    ///
    /// # Errors
    ///
    /// If two have the same name, the server does not take them, or the connection breaks.
    pub async fn put_all(
        &self,
        locals: &[PathBuf],
        name: &Name,
        options: &CopyOptions,
        progress: &Arc<Progress>,
    ) -> Result<(), Error> {
        let mut all = Vec::new();
        // What all of it is comes first, so that it is known how much is left.
        for local in locals {
            match self.found(local, options, progress).await {
                Ok(found) => all.push(found),
                Err(error) => missing(error, progress)?,
            }
        }
        let names: Result<Vec<Name>, Error> = all.iter().map(Found::own).collect();
        let names = names?;
        check_distinct(names.iter().map(Name::as_str))?;
        for (found, own) in all.into_iter().zip(names) {
            let target = name.join(own.as_str())?;
            self.send(found, target, options, progress, false).await?;
        }
        Ok(())
    }

    /// What this machine has of it, as far as it is selected.
    async fn found(
        &self,
        local: &Path,
        options: &CopyOptions,
        progress: &Progress,
    ) -> Result<Found, Error> {
        let here = |error| Error::file(local, error);
        if !self.is_writable() {
            return Err(Error::ReadOnly);
        }
        let whole = std::path::absolute(local).map_err(here)?;
        let metadata = match options.links {
            true => tokio::fs::symlink_metadata(&whole).await,
            false => tokio::fs::metadata(&whole).await,
        };
        let is_folder = metadata.map_err(here)?.is_dir();
        let (base, first) = if is_folder {
            (whole.as_path(), Name::default())
        } else {
            let folder = whole.parent().unwrap_or_else(|| Path::new("/"));
            (folder, own(&whole)?)
        };
        let want = Want {
            deep: true,
            links: options.links,
        };
        let started = blocking({
            let (base, first) = (base.to_owned(), first.clone());
            move || {
                let dir = tree::open(&base)?;
                let walk = Walk::start(&dir, &Hidden::default(), &first, want)?;
                Ok::<_, std::io::Error>((dir, walk))
            }
        });
        let (dir, walk) = started.await.map_err(here)?;
        let mut tree = Tree::new(&first);
        listed(walk, &mut tree).await.map_err(here)?;
        for omission in &tree.omitted {
            progress.omit(omission);
        }
        if is_folder {
            tree.select(&options.select);
        }
        if !options.dry_run {
            let files = tree.entries.iter();
            for entry in files.filter(|entry| entry.kind != Kind::Folder) {
                progress.expect(entry.size);
            }
        }
        Ok(Found {
            origin: Origin {
                dir,
                base: base.to_owned(),
                options: options.clone(),
                has_some: AtomicBool::new(false),
            },
            tree,
            whole,
            is_folder,
        })
    }

    /// Copies what was found to a name of the server.
    async fn send(
        &self,
        found: Found,
        target: Name,
        options: &CopyOptions,
        progress: &Arc<Progress>,
        is_all: bool,
    ) -> Result<(), Error> {
        let is_dir = found.is_folder;
        let there = if options.dry_run || options.quick || options.delete {
            self.there(&target, options).await?
        } else {
            Tree::new(&target)
        };
        let mut files = Vec::new();
        let mut locked = Vec::new();
        let placed = there.by_place();
        let at = |entry: &Entry| {
            let place = if is_dir { entry.name.as_str() } else { "" };
            placed.get(place).copied()
        };
        if options.dry_run {
            let files = found.tree.entries.iter();
            let files = files.filter(|entry| entry.kind != Kind::Folder);
            let plan = files.filter_map(|entry| planned(entry, at(entry), options));
            progress.planned(plan.collect());
            drop(placed);
            if options.delete && is_dir {
                let surplus = surplus(&found.tree, there, &options.select);
                progress.planned(surplus::planned(&surplus));
            }
            return Ok(());
        }
        // What is the same, if it need not be read. Permissions are given with the contents.
        let is_there: HashSet<Name> = match options.quick {
            true => {
                let entries = found.tree.entries.iter();
                let same = entries.filter(|entry| {
                    at(entry).is_some_and(|there| {
                        is_same(entry, there) && (!options.permissions || entry.mode == there.mode)
                    })
                });
                same.map(|entry| entry.name.clone()).collect()
            }
            false => HashSet::new(),
        };
        drop(placed);
        let (first, last) = if options.delete && is_dir {
            let all = surplus(&found.tree, there, &options.select);
            all.into_iter().partition(|one| one.in_the_way)
        } else {
            (Vec::new(), Vec::new())
        };
        self.remove_all(first, progress).await?;
        let from = Arc::new(found.origin);
        for mut entry in found.tree.entries {
            if !options.permissions {
                entry.mode = None;
            }
            let to = if is_dir && entry.name.last().is_some() {
                match target.join(entry.name.as_str()) {
                    Ok(to) => to,
                    Err(error) => {
                        let omission = wire::Omission::new(entry.name.as_str(), error);
                        progress.omit(&omission);
                        continue;
                    }
                }
            } else {
                target.clone()
            };
            match entry.kind {
                Kind::File | Kind::Link => {}
                Kind::Folder => {
                    if to.last().is_some() {
                        let made = self.make_folder_with(&to, entry.mode.map(open_mode)).await;
                        if let Err(error) = made {
                            tell(error, is_all && to == target, progress)?;
                        } else {
                            let mode = entry.mode.filter(|mode| *mode != open_mode(*mode));
                            locked.extend(mode.map(|mode| (to, mode)));
                        }
                    }
                    continue;
                }
            }
            if is_there.contains(&entry.name) {
                progress.resumed(entry.size);
                progress.file_done(&to, entry.size, true);
                continue;
            }
            files.push((entry, to));
        }
        let single = is_all && !is_dir;
        let turns = turns(files, FILES, self.takes_several());
        self.each(turns, |client, mut turn| {
            let (from, progress) = (Arc::clone(&from), Arc::clone(progress));
            async move {
                if turn.len() > 1 {
                    return client.put_several(turn, &from, &progress).await;
                }
                let Some((entry, to)) = turn.pop() else {
                    return Ok(());
                };
                let done = match entry.kind {
                    Kind::Link => client.put_link(&entry, &to, &from, &progress).await,
                    _ => client.put_file(&entry, &to, &from, &progress).await,
                };
                done.or_else(|error| tell(error, single, &progress))
            }
        })
        .await?;
        self.remove_all(last, progress).await?;
        // What may not be written could not have been filled; those inside before those around them.
        for (to, mode) in locked.into_iter().rev() {
            let made = self.make_folder_with(&to, Some(mode)).await;
            made.or_else(|error| tell(error, false, progress))?;
        }
        Ok(())
    }

    /// What the server has in the place of what would be put.
    async fn there(&self, target: &Name, options: &CopyOptions) -> Result<Tree, Error> {
        let mut tree = Tree::new(target);
        let what = List {
            deep: true,
            links: options.links || options.delete,
        };
        match self.list_all(target, what, |listed| tree.add(listed)).await {
            Ok(()) => Ok(tree),
            // Nothing, most often; a client that may not see what is there cannot say what is too much.
            Err(Error::Refused { refusal, .. })
                if !options.delete || refusal.kind == RefusalKind::Missing =>
            {
                Ok(Tree::new(target))
            }
            Err(error) => Err(error),
        }
    }

    /// Removes what is there too much. A folder in which something is left stays.
    async fn remove_all(&self, all: Vec<Surplus>, progress: &Arc<Progress>) -> Result<(), Error> {
        // Folders go when what was in them is gone.
        let (folders, files): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|one| one.is_folder && !one.deep);
        let remove = |client: Self, one: Surplus| {
            let progress = Arc::clone(progress);
            async move {
                match client.remove(&one.name, one.deep).await {
                    Ok(()) => progress.removed(&one.name),
                    Err(Error::Refused { refusal, .. })
                        if refusal.kind == RefusalKind::Denied
                            && refusal.why.contains("not empty") => {}
                    Err(error) => tell(error, false, &progress)?,
                }
                Ok(())
            }
        };
        self.each(files, remove).await?;
        for folder in folders {
            remove(self.clone(), folder).await?;
        }
        Ok(())
    }

    pub(crate) async fn make_folder_with(
        &self,
        name: &Name,
        mode: Option<u32>,
    ) -> Result<(), Error> {
        let name = name.clone();
        let (.., answer) = self.request(&Request::Folder { name, mode }, true).await?;
        done(&answer)
    }

    async fn put_link(
        &self,
        entry: &Entry,
        to: &Name,
        from: &Origin,
        progress: &Progress,
    ) -> Result<(), Error> {
        let request = Request::Link {
            name: to.clone(),
            target: entry.target.clone().unwrap_or_default(),
            modified: entry.modified,
            keep_newer: !from.options.overwrite,
        };
        let asked = self.request(&request, true).await;
        let (.., answer) = asked.map_err(newer)?;
        done(&answer)?;
        progress.file_done(to, 0, false);
        Ok(())
    }

    pub(crate) async fn put_file(
        &self,
        entry: &Entry,
        to: &Name,
        from: &Origin,
        progress: &Progress,
    ) -> Result<(), Error> {
        let local = from.base.join(entry.name.path());
        let here = |error| Error::file(&local, error);
        let opened = blocking({
            let (dir, name) = (Arc::clone(&from.dir), entry.name.clone());
            move || Source::open(&dir, &name, &Hidden::default())
        });
        let (mut source, entry) = opened.await.map_err(here)?;
        let request = Request::Put {
            name: to.clone(),
            size: entry.size,
            modified: entry.modified,
            mode: entry.mode.filter(|_| from.options.permissions),
            keep_newer: !from.options.overwrite,
        };
        let (mut send, mut recv, answer) = self.request(&request, false).await.map_err(newer)?;
        let Answer::Resume {
            have,
            digest,
            complete,
        } = answer
        else {
            return Err(unexpected(&answer));
        };
        if have > 0 || complete {
            from.has_some.store(true, Ordering::Relaxed);
        }
        let same = source.begins_with(have, digest).await.map_err(here)?;
        if complete && have == entry.size && (same || have == 0) {
            // Without an offset, the server keeps what it has.
            let _ = send.finish();
            // It may have to give it another time and mode: the stream ends once it has them.
            match wire::receive(&mut recv).await {
                Err(Unread::Stream(ReadExactError::FinishedEarly(0))) => {}
                Ok(Some(Answer::Refused(refusal))) => {
                    return Err(newer(Error::refused(to, refusal)));
                }
                Ok(Some(other)) => return Err(unexpected(&other)),
                Ok(None) => return Err(Error::Malformed("an empty answer".to_owned())),
                Err(error) => return Err(error.into()),
            }
            progress.resumed(entry.size);
            progress.file_done(to, entry.size, true);
            return Ok(());
        }
        if complete && same {
            // The beginning of another file: it is replaced as a whole.
            return Err(unexpected(&answer));
        }
        let at = source.at();
        progress.resumed(at);
        // Some schedulers plan for the end of a transfer. Without the hint, it works as well.
        let _ = send.set_hints(StreamHints {
            size: Some(entry.size - at),
            ..StreamHints::default()
        });
        let sent = match send.write_all(&at.to_be_bytes()).await {
            Ok(()) => {
                source
                    .send(&mut send, self.throttle(), |bytes| progress.moved(bytes))
                    .await
            }
            Err(error) => Err(NotSent::Stream(error)),
        };
        // It fails only if it was ended before.
        let _ = send.finish();
        match sent {
            // The server's answer says why it takes no more.
            Ok(()) | Err(NotSent::Stream(WriteError::Stopped(_))) => {}
            Err(NotSent::Stream(error)) => return Err(error.into()),
            Err(NotSent::File(error)) => return Err(here(error)),
        }
        match wire::receive(&mut recv).await? {
            Some(Answer::Done) => {}
            Some(Answer::Refused(refusal)) => return Err(newer(Error::refused(to, refusal))),
            Some(other) => return Err(unexpected(&other)),
            None => return Err(Error::Malformed("an empty answer".to_owned())),
        }
        progress.file_done(to, entry.size, false);
        Ok(())
    }
}

/// What is copied from, and how.
pub(crate) struct Origin {
    pub(crate) dir: Arc<Dir>,
    pub(crate) base: PathBuf,
    pub(crate) options: CopyOptions,
    /// Something of it is on the server already, as was seen.
    pub(crate) has_some: AtomicBool,
}

/// What is to be copied.
struct Found {
    origin: Origin,
    tree: Tree,
    whole: PathBuf,
    is_folder: bool,
}

impl Found {
    fn own(&self) -> Result<Name, Error> {
        own(&self.whole)
    }
}

/// The name that a file or folder of this machine has by itself.
fn own(whole: &Path) -> Result<Name, Error> {
    let wrong = |what: &str| Error::Argument(format!("{}: {what}", whole.display()));
    let own = whole.file_name();
    let own = own.ok_or_else(|| wrong("it has no name: give one for the server"))?;
    let own = own.to_str();
    Ok(own.ok_or_else(|| wrong("its name is not UTF-8"))?.parse()?)
}

/// All that a walk finds.
async fn listed(mut walk: Walk, tree: &mut Tree) -> std::io::Result<()> {
    while !walk.is_over() {
        let batch = blocking(move || {
            let batch = walk.batch();
            Ok::<_, std::io::Error>((batch, walk))
        });
        let (found, rest) = batch.await?;
        walk = rest;
        found.into_iter().for_each(|listed| tree.add(listed));
    }
    Ok(())
}

/// With what to do about it.
fn newer(error: Error) -> Error {
    match error {
        Error::Refused { name, refusal } if refusal.kind == RefusalKind::Newer => {
            let why = "the file there is newer: --overwrite replaces it";
            Error::refused(&name, Refusal::new(RefusalKind::Newer, why))
        }
        error => error,
    }
}

fn done(answer: &Answer) -> Result<(), Error> {
    match answer {
        Answer::Done => Ok(()),
        other => Err(unexpected(other)),
    }
}
