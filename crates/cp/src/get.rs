//! From the server to this machine: a file, or a folder with all that is below it.

use std::path::Path;
use std::sync::Arc;

use cap_std::fs::Dir;
use sha2::{Digest as _, Sha256};
use tokio::fs::File;

use crate::client::{Client, unexpected};
use crate::content::{self, NotReceived, hash};
use crate::error::Error;
use crate::name::Name;
use crate::part::{NoPart, Part};
use crate::progress::Progress;
use crate::tree::{self, blocking};
use crate::wire::{self, Answer, Digest, Entry, Kind, Request};

impl Client {
    /// Gets `name` to `local`: into it, if that ends with a separator, is `.` or `..`, or is a folder and `name` a file; else to that name.
    /// What is there already is not transferred again; a file with other contents is replaced when the new one is complete.
    ///
    /// # Errors
    ///
    /// If there is no such file, a file cannot be written, or the connection breaks. What was transferred of a file stays beside its place
    /// as `NAME.mpquic.part` then, unless the disk is the reason.
    pub async fn get(
        &self,
        name: &Name,
        local: &Path,
        progress: &Arc<Progress>,
    ) -> Result<(), Error> {
        let mut entries = Vec::new();
        let collect = |entry: Entry| entries.push(entry);
        self.list(name, true, collect).await?;
        let first = entries.first();
        let first = first.ok_or_else(|| Error::Malformed("an empty listing".to_owned()))?;
        // Whatever is there of a folder already, the same command means the same place: it goes on where it stopped.
        let named = local.as_os_str().to_string_lossy();
        let into = named.ends_with(['/', '\\'])
            || local.file_name().is_none()
            || (first.kind == Kind::File && local.is_dir());
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
        let is_file = first.kind == Kind::File;
        let dir = blocking({
            let base = base.to_owned();
            move || {
                std::fs::create_dir_all(&base)?;
                tree::open(&base)
            }
        });
        let dir = dir.await.map_err(|error| Error::file(base, error))?;

        let mut files = Vec::new();
        for entry in entries {
            let to = below(&entry.name, name, &target)?;
            if is_file != (entry.kind == Kind::File && entry.name == *name) && is_file {
                return Err(Error::Malformed("a file with others below it".to_owned()));
            }
            match entry.kind {
                Kind::File => {
                    progress.expect(entry.size);
                    files.push((entry, to));
                }
                Kind::Folder => {
                    let made = blocking({
                        let (dir, to) = (Arc::clone(&dir), to.clone());
                        move || dir.create_dir_all(to.path())
                    });
                    made.await
                        .map_err(|error| Error::file(&base.join(to.path()), error))?;
                }
            }
        }
        let base: Arc<Path> = base.into();
        self.each(files, |client, (entry, to)| {
            let (dir, base, progress) = (Arc::clone(&dir), Arc::clone(&base), Arc::clone(progress));
            async move { client.get_file(entry, to, &dir, &base, &progress).await }
        })
        .await
    }

    async fn get_file(
        &self,
        entry: Entry,
        to: Name,
        dir: &Arc<Dir>,
        base: &Path,
        progress: &Progress,
    ) -> Result<(), Error> {
        let local = base.join(to.path());
        let here = |error| Error::file(&local, error);
        // What has the size of the server's may be the same.
        if let Some(digest) = whole(dir, &to, entry.size).await.map_err(here)? {
            let asked = self.ask(&entry.name, entry.size, Some(digest)).await?;
            if asked.from == entry.size && asked.size == entry.size {
                progress.resumed(entry.size);
                progress.file_done(true);
                return Ok(());
            }
        }
        let mut part = match Part::open(dir, &to).await {
            Ok(part) => part,
            Err(NoPart::Io(error)) => return Err(here(error)),
            Err(NoPart::Busy) => return Err(Error::Busy(local.display().to_string())),
        };
        let digest = (part.len() > 0).then(|| part.digest());
        let mut asked = match self.ask(&entry.name, part.len(), digest).await {
            Ok(asked) => asked,
            Err(error) => {
                part.keep().await;
                return Err(error);
            }
        };
        if asked.from != part.len() {
            if asked.from != 0 {
                part.keep().await;
                let why = format!("it goes on at byte {}", asked.from);
                return Err(Error::Malformed(why));
            }
            if let Err(error) = part.restart().await {
                part.discard().await;
                return Err(here(error));
            }
        }
        progress.resumed(asked.from);
        let count = |bytes| progress.moved(bytes);
        match content::receive(&mut part, asked.size, &mut asked.recv, count).await {
            Ok(()) => part.commit(asked.modified).await.map_err(here)?,
            Err(NotReceived::Stream(error)) => {
                part.keep().await;
                return Err(error);
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
        progress.file_done(false);
        Ok(())
    }

    /// Asks for a file, of which `have` bytes with this digest are here.
    async fn ask(&self, name: &Name, have: u64, digest: Option<Digest>) -> Result<Asked, Error> {
        let (mut send, mut recv) = self.connection.open_bi().await?;
        let request = Request::Get {
            name: name.clone(),
            have,
            digest,
        };
        wire::send(&mut send, &request).await?;
        // It fails only if it is ended already.
        let _ = send.finish();
        match wire::receive(&mut recv).await? {
            Some(Answer::Content {
                size,
                from,
                modified,
            }) => Ok(Asked {
                recv,
                size,
                from,
                modified,
            }),
            Some(Answer::Refused(refusal)) => Err(Error::refused(name, refusal)),
            other => Err(unexpected(&other)),
        }
    }
}

/// The answer to a request for a file; its contents follow.
struct Asked {
    recv: mpquic::RecvStream,
    size: u64,
    from: u64,
    modified: Option<u64>,
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
async fn whole(dir: &Arc<Dir>, name: &Name, size: u64) -> std::io::Result<Option<Digest>> {
    let opened = blocking({
        let (dir, name) = (Arc::clone(dir), name.clone());
        move || match tree::entry(&dir, &name) {
            Ok(entry) if entry.kind == Kind::File && entry.size == size => {
                tree::read(&dir, &name).map(Some)
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
