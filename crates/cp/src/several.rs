//! Small files: several are asked for or sent at a time, on one stream, so that they do not wait for a round trip each.

use std::pin::pin;
use std::sync::atomic::Ordering;

use mpquic::{ReadError, ReadExactError, RecvStream};

use crate::client::{Client, FILES, unexpected};
use crate::content::{self, NotReceived, NotSent, SMALL, Source};
use crate::error::Error;
use crate::get::{Content, To, tell};
use crate::name::Name;
use crate::place::{Gathered, TOGETHER, Whole, place};
use crate::progress::Progress;
use crate::put::Origin;
use crate::tree::{Hidden, blocking};
use crate::wire::{self, Answer, Entry, Kind, RefusalKind, Request, Unread};

/// Files on one stream.
const MOST: usize = 64;
/// Their contents, bytes; of the last one, the beginning only.
const CONTENTS: u64 = 256 * 1024;
/// Their names, bytes: the server takes them all without having its answers read.
const NAMES: usize = 16 * 1024;

/// What is copied in a turn: one thing, or several small files.
pub(crate) type Turn = Vec<(Entry, Name)>;

/// Divides what is to be copied into turns: `alone` small files by themselves first, and the others in as many turns as go at a time, at
/// least.
pub(crate) fn turns(files: Turn, mut alone: usize, may_be_several: bool) -> Vec<Turn> {
    let is_small = |entry: &Entry| entry.kind == Kind::File && entry.size <= SMALL;
    let small = files.iter().filter(|(entry, _)| is_small(entry)).count();
    let most = match may_be_several {
        true => small.saturating_sub(alone).div_ceil(FILES).clamp(1, MOST),
        false => 1,
    };
    let mut turns = Vec::new();
    let (mut turn, mut contents, mut names) = (Turn::new(), 0, 0);
    for (entry, target) in files {
        if !is_small(&entry) || alone > 0 {
            alone -= usize::from(is_small(&entry));
            turns.push(vec![(entry, target)]);
            continue;
        }
        contents += entry.size;
        names += entry.name.as_str().len().max(target.as_str().len());
        turn.push((entry, target));
        if turn.len() >= most || contents >= CONTENTS || names >= NAMES {
            turns.push(std::mem::take(&mut turn));
            (contents, names) = (0, 0);
        }
    }
    if !turn.is_empty() {
        turns.push(turn);
    }
    turns
}

impl Client {
    /// Gets several files; what cannot be had of them is told.
    pub(crate) async fn get_several(
        &self,
        files: Turn,
        to: &To,
        progress: &Progress,
    ) -> Result<(), Error> {
        let (fresh, mut rest) = to.fresh(files).await?;
        if !fresh.is_empty() {
            rest.extend(self.get_fresh(fresh, to, progress).await?);
        }
        for (entry, target) in rest {
            let done = self.get_file(entry, target, to, progress).await;
            done.or_else(|error| tell(error, false, progress))?;
        }
        Ok(())
    }

    /// Gets files of which nothing is here by one stream. Returns those that are to be had by themselves.
    async fn get_fresh(&self, fresh: Turn, to: &To, progress: &Progress) -> Result<Turn, Error> {
        let mut recv = self.ask_for(&fresh).await?;
        let mut rest = Turn::new();
        let mut left = fresh.into_iter();
        let mut gathered = Gathered::new();
        let mut ended = Ok(());
        for (entry, target) in left.by_ref() {
            let came = {
                let mut coming = pin!(self.whole(&entry, &mut recv));
                match gathered.before(coming.as_mut()).await {
                    Some(came) => came,
                    // What is here does not wait for what is slow to come.
                    None => {
                        to.place(gathered.take(), &mut rest, progress).await?;
                        coming.await
                    }
                }
            };
            match came {
                Ok((contents, content)) => {
                    progress.moved(content.size);
                    gathered.push(Small {
                        entry,
                        target,
                        contents,
                        content,
                    });
                }
                Err(Missed::Told(error)) => tell(error, false, progress)?,
                Err(Missed::Again) => rest.push((entry, target)),
                Err(Missed::Lost) => {
                    rest.push((entry, target));
                    break;
                }
                Err(Missed::Broken(error)) => {
                    ended = Err(error);
                    break;
                }
            }
            if gathered.files.len() == TOGETHER {
                to.place(gathered.take(), &mut rest, progress).await?;
            }
        }
        to.place(gathered.take(), &mut rest, progress).await?;
        ended?;
        rest.extend(left);
        Ok(rest)
    }

    /// The next file on a stream.
    async fn whole(
        &self,
        entry: &Entry,
        recv: &mut RecvStream,
    ) -> Result<(Vec<u8>, Content), Missed> {
        let content = match wire::receive(recv).await {
            Ok(Some(Answer::Refused(refusal))) => {
                return Err(match refusal.kind {
                    RefusalKind::Busy | RefusalKind::Limit => Missed::Again,
                    _ => Missed::Told(Error::refused(&entry.name, refusal)),
                });
            }
            Ok(Some(answer)) => Content::of(answer).map_err(Missed::Broken)?,
            Ok(None) => {
                let why = "an empty answer".to_owned();
                return Err(Missed::Broken(Error::Malformed(why)));
            }
            // It may be a later file that the server cannot read to its end: what came before is lost with it.
            Err(Unread::Stream(ReadExactError::ReadError(ReadError::Reset(_)))) => {
                return Err(Missed::Lost);
            }
            Err(error) => return Err(Missed::Broken(error.into())),
        };
        if content.from != 0 {
            let why = format!("it goes on at byte {}", content.from);
            return Err(Missed::Broken(Error::Malformed(why)));
        }
        if content.size > SMALL {
            // It has grown. Its contents are on the stream.
            return Err(Missed::Lost);
        }
        let received = content::receive_whole(content.size, recv, self.throttle()).await;
        match received {
            Ok(contents) => Ok((contents, content)),
            Err(NotReceived::Damaged) => Err(Missed::Told(Error::Damaged(entry.name.clone()))),
            Err(NotReceived::Stream(error)) => Err(Missed::Broken(error)),
            Err(NotReceived::Cut | NotReceived::File(_)) => Err(Missed::Lost),
        }
    }

    /// Asks for all of them.
    async fn ask_for(&self, files: &[(Entry, Name)]) -> Result<RecvStream, Error> {
        let (mut send, recv) = self.connection.open_bi().await?;
        let requests = files.iter().flat_map(|(entry, _)| {
            wire::encode(&Request::Get {
                name: entry.name.clone(),
                have: 0,
                digest: None,
            })
        });
        let requests: Vec<u8> = requests.collect();
        send.write_chunk(requests.into()).await?;
        // It fails only if it is ended already.
        let _ = send.finish();
        Ok(recv)
    }

    /// Puts several files; what cannot be put of them is told.
    pub(crate) async fn put_several(
        &self,
        files: Turn,
        from: &Origin,
        progress: &Progress,
    ) -> Result<(), Error> {
        // What is there need not be sent: it is offered first, where some is.
        let rest = match from.has_some.load(Ordering::Relaxed) {
            true => files,
            false => self.put_fresh(files, from, progress).await?,
        };
        for (entry, to) in rest {
            let done = self.put_file(&entry, &to, from, progress).await;
            done.or_else(|error| tell(error, false, progress))?;
        }
        Ok(())
    }

    /// Sends files of which the server should have nothing by one stream. Returns those that are to be put by themselves.
    async fn put_fresh(
        &self,
        files: Turn,
        from: &Origin,
        progress: &Progress,
    ) -> Result<Turn, Error> {
        let (mut send, mut recv) = self.connection.open_bi().await?;
        let (mut sent, mut rest) = (Turn::new(), Turn::new());
        for (entry, source) in from.open_all(files).await? {
            let (entry, to) = entry;
            let (source, now) = match source {
                Ok(opened) => opened,
                Err(error) => {
                    let error = Error::file(&from.base.join(entry.name.path()), error);
                    tell(error, false, progress)?;
                    continue;
                }
            };
            if now.size > SMALL {
                rest.push((entry, to));
                continue;
            }
            let request = Request::Fresh {
                name: to.clone(),
                size: now.size,
                modified: now.modified,
                mode: now.mode.filter(|_| from.options.permissions),
            };
            let written = match wire::send(&mut send, &request).await {
                Ok(()) => source.send(&mut send, self.throttle(), |_| {}).await,
                Err(error) => Err(NotSent::Stream(error)),
            };
            match written {
                Ok(()) => sent.push((now, to)),
                // What is small is in memory.
                Err(NotSent::File(error)) => return Err(Error::file(&from.base, error)),
                Err(NotSent::Stream(error)) => return Err(error.into()),
            }
        }
        // It fails only if it is ended already.
        let _ = send.finish();
        for (entry, to) in sent {
            match wire::receive(&mut recv).await? {
                Some(Answer::Done) => {
                    progress.moved(entry.size);
                    progress.file_done(&to, entry.size, false);
                }
                Some(Answer::Refused(refusal)) => match refusal.kind {
                    RefusalKind::Present => {
                        from.has_some.store(true, Ordering::Relaxed);
                        rest.push((entry, to));
                    }
                    RefusalKind::Busy | RefusalKind::Limit => rest.push((entry, to)),
                    _ => tell(Error::refused(&to, refusal), false, progress)?,
                },
                Some(other) => return Err(unexpected(&other)),
                None => return Err(Error::Malformed("an empty answer".to_owned())),
            }
        }
        Ok(rest)
    }
}

/// A small file that came.
struct Small {
    entry: Entry,
    target: Name,
    contents: Vec<u8>,
    content: Content,
}

/// Why the next file on a stream did not come.
enum Missed {
    /// It cannot be had.
    Told(Error),
    /// It is to be had by itself.
    Again,
    /// So is it, and what comes behind it.
    Lost,
    /// The connection is, or what the server says makes no sense.
    Broken(Error),
}

impl To {
    /// Gives them their names. Those are to be had by themselves in whose place something came to be meanwhile.
    async fn place(
        &self,
        small: Vec<Small>,
        rest: &mut Turn,
        progress: &Progress,
    ) -> Result<(), Error> {
        let (mut files, mut sizes, mut wholes) = (Turn::new(), Vec::new(), Vec::new());
        for one in small {
            sizes.push(one.content.size);
            wholes.push(Whole {
                name: one.target.clone(),
                contents: one.contents,
                modified: one.content.modified,
                mode: one.content.mode.filter(|_| self.options.permissions),
            });
            files.push((one.entry, one.target));
        }
        if files.is_empty() {
            return Ok(());
        }
        let placed = place(&self.dir, wholes).await;
        for (((entry, target), size), placed) in files.into_iter().zip(sizes).zip(placed) {
            match placed {
                Ok(true) => progress.file_done(&entry.name, size, false),
                Ok(false) => rest.push((entry, target)),
                Err(why) => tell(self.no_part(&target, why), false, progress)?,
            }
        }
        Ok(())
    }
}

impl Origin {
    /// Opens each of them.
    async fn open_all(&self, files: Turn) -> Result<Vec<Opened>, Error> {
        let dir = std::sync::Arc::clone(&self.dir);
        let opened = blocking(move || {
            let opened = files.into_iter().map(|file| {
                let source = Source::open(&dir, &file.0.name, &Hidden::default());
                (file, source)
            });
            Ok(opened.collect())
        });
        opened.await.map_err(|error| Error::file(&self.base, error))
    }
}

/// A file, and what could be had of it.
type Opened = ((Entry, Name), std::io::Result<(Source, Entry)>);

#[cfg(test)]
mod tests {
    use super::*;

    fn file(number: usize, size: u64) -> (Entry, Name) {
        let name: Name = format!("folder/file{number:04}").parse().unwrap();
        let entry = Entry {
            name: name.clone(),
            kind: Kind::File,
            size,
            modified: None,
            mode: None,
            target: None,
        };
        (entry, name)
    }

    fn lengths(sizes: impl IntoIterator<Item = u64>, may_be_several: bool) -> Vec<usize> {
        let files = sizes.into_iter().enumerate();
        let files = files.map(|(number, size)| file(number, size)).collect();
        turns(files, 0, may_be_several)
            .iter()
            .map(Vec::len)
            .collect()
    }

    #[test]
    fn small_files_go_together_once_there_are_more_than_go_at_a_time() {
        assert_eq!(lengths([10; FILES], true), [1; FILES]);
        assert_eq!(lengths([10; 3 * FILES], true), [3; FILES]);
        assert_eq!(lengths([10; 3 * FILES], false), [1; 3 * FILES]);
        let many = lengths([10; 3000], true);
        assert!(many[..46].iter().all(|&len| len == MOST), "{many:?}");
        assert_eq!(many.iter().sum::<usize>(), 3000);
        // So much at a time, and no more.
        assert!(lengths([SMALL; 3000], true).iter().all(|&len| len == 4));
        assert_eq!(lengths([SMALL + 1; 100], true), [1; 100]);
        assert_eq!(lengths([SMALL + 1, 10, 10], true), [1, 1, 1]);
        let files = (0..FILES + 28).map(|number| file(number, 10)).collect();
        let divided: Vec<_> = turns(files, FILES, true).iter().map(Vec::len).collect();
        assert_eq!(divided, [&[1; FILES][..], &[2; 14]].concat());
    }

    #[test]
    fn long_names_are_not_asked_for_by_the_dozen() {
        let long = |number: usize| {
            let (mut entry, target) = file(number, 1);
            entry.name = ("n/".repeat(1_000) + &number.to_string()).parse().unwrap();
            (entry, target)
        };
        let turns = turns((0..1000).map(long).collect(), 0, true);
        assert!(turns.iter().all(|turn| turn.len() <= 9));
    }
}
