//! From this machine to the server: a file, or a folder with all that is below it.

use std::path::Path;
use std::sync::Arc;

use cap_std::fs::Dir;
use mpquic::{RecvStream, SendStream, StreamHints, WriteError};
use tokio::fs::File;
use tokio::time::{Duration, Instant, sleep};

use crate::client::{Client, unexpected};
use crate::content::{NotSent, Source};
use crate::error::Error;
use crate::name::Name;
use crate::progress::Progress;
use crate::settings::IDLE;
use crate::tree::{self, blocking};
use crate::wire::{self, Answer, Digest, Entry, Kind, Refusal, RefusalKind, Request};

/// How long to wait before a server whose file is taken is asked again.
const AGAIN: Duration = Duration::from_millis(500);

impl Client {
    /// Puts `local` to `name` on the server; without one, or if it ends with `/`, under its own name. What the server has already is not
    /// transferred again. `skip` is told what is left out: links that lead outside, and what is neither a file nor a folder.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, the server does not take it, or the connection breaks. What the server got of a file then stays there
    /// as `NAME.mpquic.part`.
    pub async fn put(
        &self,
        local: &Path,
        name: Option<&str>,
        progress: &Arc<Progress>,
        mut skip: impl FnMut(String) + Send + 'static,
    ) -> Result<(), Error> {
        let here = |error| Error::file(local, error);
        if !self.is_writable() {
            let why = "this server is read-only";
            let refusal = Refusal::new(RefusalKind::Denied, why);
            return Err(Error::refused(&Name::default(), refusal));
        }
        let whole = std::path::absolute(local).map_err(here)?;
        let own = || -> Result<Name, Error> {
            let own = whole.file_name().and_then(|own| own.to_str());
            let own =
                own.ok_or_else(|| Error::Argument(format!("{}: it has no name", local.display())))?;
            Ok(own.parse()?)
        };
        let target = match name {
            None => own()?,
            Some(folder) if folder.ends_with('/') => {
                folder.parse::<Name>()?.join(own()?.as_str())?
            }
            Some(name) => name.parse()?,
        };
        let is_dir = tokio::fs::metadata(&whole).await.map_err(here)?.is_dir();
        let (base, first) = if is_dir {
            (whole.as_path(), Name::default())
        } else {
            (whole.parent().unwrap_or_else(|| Path::new("/")), own()?)
        };
        let walked = blocking({
            let (base, first) = (base.to_owned(), first.clone());
            move || {
                let dir = tree::open(&base)?;
                let mut entries = Vec::new();
                let mut emit = |entry| {
                    entries.push(entry);
                    true
                };
                tree::walk(&dir, &first, true, &mut emit, &mut skip)?;
                Ok::<_, std::io::Error>((dir, entries))
            }
        });
        let (dir, entries) = walked.await.map_err(here)?;
        let mut files = Vec::new();
        for entry in entries {
            let to = if is_dir && !entry.name.as_str().is_empty() {
                target.join(entry.name.as_str())?
            } else {
                target.clone()
            };
            match entry.kind {
                Kind::Folder if to.last().is_none() => {}
                Kind::Folder => self.make_folder(&to).await?,
                Kind::File => {
                    progress.expect(entry.size);
                    files.push((entry, to));
                }
            }
        }
        let base: Arc<Path> = base.into();
        self.each(files, |client, (entry, to)| {
            let (dir, base, progress) = (Arc::clone(&dir), Arc::clone(&base), Arc::clone(progress));
            async move { client.put_file(&entry, &to, &dir, &base, &progress).await }
        })
        .await
    }

    async fn make_folder(&self, name: &Name) -> Result<(), Error> {
        let (mut send, mut recv) = self.connection.open_bi().await?;
        wire::send(&mut send, &Request::Folder { name: name.clone() }).await?;
        // It fails only if it is ended already.
        let _ = send.finish();
        done(name, wire::receive(&mut recv).await?)
    }

    async fn put_file(
        &self,
        entry: &Entry,
        to: &Name,
        dir: &Arc<Dir>,
        base: &Path,
        progress: &Progress,
    ) -> Result<(), Error> {
        let local = base.join(entry.name.path());
        let here = |error| Error::file(&local, error);
        let opened = blocking({
            let (dir, name) = (Arc::clone(dir), entry.name.clone());
            move || tree::read(&dir, &name)
        });
        let (file, entry) = opened.await.map_err(here)?;
        let (mut send, mut recv, (have, digest, complete)) = self.offer(&entry, to).await?;
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
            return Err(unexpected(&Some(Answer::Resume {
                have,
                digest,
                complete,
            })));
        }
        let at = source.at();
        progress.resumed(at);
        // Some schedulers plan for the end of a transfer. Without the hint, it works as well.
        let _ = send.set_hints(StreamHints {
            size: Some(entry.size - at),
            ..StreamHints::default()
        });
        let sent = match send.write_all(&at.to_be_bytes()).await {
            Ok(()) => source.send(&mut send, |bytes| progress.moved(bytes)).await,
            Err(error) => Err(NotSent::Stream(error)),
        };
        match sent {
            // The server's answer says why it takes no more.
            Ok(()) | Err(NotSent::Stream(WriteError::Stopped(_))) => {}
            Err(NotSent::Stream(error)) => return Err(error.into()),
            Err(NotSent::File(error)) => return Err(here(error)),
        }
        done(to, wire::receive(&mut recv).await?)?;
        progress.file_done(false);
        Ok(())
    }
}

/// What the server has of a file: how much, with which digest, and whether it is there under its name.
type Had = (u64, Digest, bool);

impl Client {
    /// Offers a file. A server that has not heard yet that an earlier connection is lost says that another transfer writes it: it is asked
    /// again until it must have heard.
    async fn offer(
        &self,
        entry: &Entry,
        to: &Name,
    ) -> Result<(SendStream, RecvStream, Had), Error> {
        let patience = Instant::now() + IDLE + AGAIN;
        loop {
            let (mut send, mut recv) = self.connection.open_bi().await?;
            let request = Request::Put {
                name: to.clone(),
                size: entry.size,
                modified: entry.modified,
            };
            wire::send(&mut send, &request).await?;
            match wire::receive(&mut recv).await? {
                Some(Answer::Resume {
                    have,
                    digest,
                    complete,
                }) => return Ok((send, recv, (have, digest, complete))),
                Some(Answer::Refused(refusal))
                    if refusal.kind == RefusalKind::Busy && Instant::now() < patience =>
                {
                    sleep(AGAIN).await;
                }
                Some(Answer::Refused(refusal)) => return Err(Error::refused(to, refusal)),
                other => return Err(unexpected(&other)),
            }
        }
    }
}

fn done(name: &Name, answer: Option<Answer>) -> Result<(), Error> {
    match answer {
        Some(Answer::Done) => Ok(()),
        Some(Answer::Refused(refusal)) => Err(Error::refused(name, refusal)),
        other => Err(unexpected(&other)),
    }
}
