//! From this machine to the server: a file, or a folder with all that is below it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::Dir;
use mpquic::{StreamHints, WriteError};
use tokio::fs::File;

use crate::client::{Client, CopyOptions, List, unexpected};
use crate::content::{NotSent, Source};
use crate::error::Error;
use crate::get::{open_mode, tell};
use crate::name::Name;
use crate::plan::{There, by_name, planned};
use crate::progress::Progress;
use crate::tree::{self, Hidden, Walk, Want, blocking};
use crate::wire::{self, Answer, Entry, Kind, Listed, Refusal, RefusalKind, Request};

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
        let here = |error| Error::file(local, error);
        if !self.is_writable() {
            return Err(Error::ReadOnly);
        }
        let whole = std::path::absolute(local).map_err(here)?;
        let own = || -> Result<Name, Error> {
            let wrong = |what: &str| Error::Argument(format!("{}: {what}", local.display()));
            let own = whole.file_name();
            let own = own.ok_or_else(|| wrong("it has no name: give one for the server"))?;
            let own = own.to_str();
            Ok(own.ok_or_else(|| wrong("its name is not UTF-8"))?.parse()?)
        };
        let target = match name {
            None => own()?,
            Some(folder) if folder.ends_with('/') => {
                folder.parse::<Name>()?.join(own()?.as_str())?
            }
            Some(name) => name.parse()?,
        };
        let metadata = match options.links {
            true => tokio::fs::symlink_metadata(&whole).await,
            false => tokio::fs::metadata(&whole).await,
        };
        let is_dir = metadata.map_err(here)?.is_dir();
        let (base, first) = if is_dir {
            (whole.as_path(), Name::default())
        } else {
            (whole.parent().unwrap_or_else(|| Path::new("/")), own()?)
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
        let from = Arc::new(Origin {
            dir,
            base: base.to_owned(),
            options: options.clone(),
        });
        let mut files = Vec::new();
        let mut locked = Vec::new();
        let mut found = listed(walk, progress).await.map_err(here)?;
        if is_dir {
            options.select.keep(&mut found, |entry| {
                (entry.name.as_str().to_owned(), entry.kind == Kind::Folder)
            });
        }
        if options.dry_run {
            let there = self.there(&target, options).await?;
            let files = found.iter().filter(|entry| entry.kind != Kind::Folder);
            let plan = files.map(|entry| {
                let place = match is_dir {
                    true => target.join(entry.name.as_str()).ok(),
                    false => Some(target.clone()),
                };
                let there = place.and_then(|place| there.get(place.as_str()).copied());
                planned(entry, there, options.overwrite)
            });
            progress.planned(plan.collect());
            return Ok(());
        }
        for mut entry in found {
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
                Kind::File => progress.expect(entry.size),
                Kind::Link => {}
                Kind::Folder => {
                    if to.last().is_some() {
                        let made = self.make_folder_with(&to, entry.mode.map(open_mode)).await;
                        if let Err(error) = made {
                            tell(error, to == target, progress)?;
                        } else {
                            let mode = entry.mode.filter(|mode| *mode != open_mode(*mode));
                            locked.extend(mode.map(|mode| (to, mode)));
                        }
                    }
                    continue;
                }
            }
            files.push((entry, to));
        }
        self.each(files, |client, (entry, to)| {
            let (from, progress) = (Arc::clone(&from), Arc::clone(progress));
            async move {
                let done = match entry.kind {
                    Kind::Link => client.put_link(&entry, &to, &from, &progress).await,
                    _ => client.put_file(&entry, &to, &from, &progress).await,
                };
                done.or_else(|error| tell(error, !is_dir, &progress))
            }
        })
        .await?;
        // What may not be written could not have been filled; those inside before those around them.
        for (to, mode) in locked.into_iter().rev() {
            let made = self.make_folder_with(&to, Some(mode)).await;
            made.or_else(|error| tell(error, false, progress))?;
        }
        Ok(())
    }

    /// What the server has in the place of what would be put.
    async fn there(
        &self,
        target: &Name,
        options: &CopyOptions,
    ) -> Result<HashMap<String, There>, Error> {
        let mut entries = Vec::new();
        let what = List {
            deep: true,
            links: options.links,
        };
        let collect = |entry| entries.push(entry);
        match self.list(target, what, &Progress::new(), collect).await {
            // Nothing, most often.
            Ok(()) | Err(Error::Refused { .. }) => Ok(by_name(entries)),
            Err(error) => Err(error),
        }
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
        progress.file_done(false);
        Ok(())
    }

    async fn put_file(
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
            move || tree::read(&dir, &name, &Hidden::default())
        });
        let (file, entry) = opened.await.map_err(here)?;
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
        let mut source = Source::new(File::from_std(file), entry.size);
        let same = source.begins_with(have, digest).await.map_err(here)?;
        if complete && have == entry.size && (same || have == 0) {
            // Without an offset, the server keeps what it has.
            let _ = send.finish();
            progress.resumed(entry.size);
            progress.file_done(true);
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
        progress.file_done(false);
        Ok(())
    }
}

/// What is copied from, and how.
struct Origin {
    dir: Arc<Dir>,
    base: PathBuf,
    options: CopyOptions,
}

/// All that a walk finds; what it leaves out is told.
async fn listed(mut walk: Walk, progress: &Progress) -> std::io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    while !walk.is_over() {
        let batch = blocking(move || {
            let batch = walk.batch();
            Ok::<_, std::io::Error>((batch, walk))
        });
        let (found, rest) = batch.await?;
        walk = rest;
        for found in found {
            match found {
                Listed::Entry(entry) => entries.push(entry),
                Listed::Omitted(omission) => progress.omit(&omission),
            }
        }
    }
    Ok(entries)
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
