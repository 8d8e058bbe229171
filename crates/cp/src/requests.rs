//! The server's side of a stream: one request, and what is done about it.

use std::io;
use std::sync::Arc;

use cap_std::fs::Dir;
use mpquic::{ReadExactError, RecvStream, SendStream, StreamHints, VarInt};
use sha2::{Digest as _, Sha256};
use tokio::fs::File;
use tokio::sync::mpsc;

use crate::content::{self, BROKEN, NotReceived, NotSent, Source, hash};
use crate::error::Error;
use crate::name::Name;
use crate::part::{NoPart, Part};
use crate::tree::{self, blocking};
use crate::wire::{self, Answer, Digest, Entry, Kind, Refusal, RefusalKind, Request};

/// The code with which streams are stopped that the server does not read to their end; the answer says why.
const ENOUGH: VarInt = VarInt::from_u32(3);
/// Entries of a listing that wait for the network.
const WAITING: usize = 256;

/// What a server offers.
#[derive(Debug)]
pub(crate) struct Share {
    pub(crate) root: Arc<Dir>,
    pub(crate) writable: bool,
}

/// What became of a request, for the server's log.
pub(crate) type Outcome = Result<String, Error>;

/// Answers one stream.
pub(crate) async fn answer(share: &Share, mut send: SendStream, mut recv: RecvStream) -> Outcome {
    let request: Option<Request> = wire::receive(&mut recv).await?;
    let done = match request {
        None => Err(Refusal::new(RefusalKind::Malformed, "an empty request").into()),
        Some(Request::List { name, deep }) => list(share, &mut send, name, deep).await,
        Some(Request::Get { name, have, digest }) => {
            get(share, &mut send, name, have, digest).await
        }
        Some(Request::Put {
            name,
            size,
            modified,
        }) => put(share, &mut send, &mut recv, name, size, modified).await,
        Some(Request::Folder { name }) => folder(share, &mut send, name).await,
    };
    match done {
        Ok(text) => {
            // It fails only if it is ended already.
            let _ = send.finish();
            Ok(text)
        }
        Err(Stop::Refused(refusal)) => {
            wire::send(&mut send, &Answer::Refused(refusal.clone())).await?;
            let _ = send.finish();
            // Who is still sending reads the answer then.
            let _ = recv.stop(ENOUGH);
            Err(Error::refused(&Name::default(), refusal))
        }
        Err(Stop::Broken(error)) => Err(error),
    }
}

/// Why a request is not carried out.
enum Stop {
    /// The client is told.
    Refused(Refusal),
    /// The client cannot be told.
    Broken(Error),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl<E: Into<Error>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Broken(error.into())
    }
}

/// An error of the file system in words for a client: nothing of paths outside the folder.
fn refusal(name: &Name, error: &io::Error) -> Refusal {
    use io::ErrorKind::{IsADirectory, NotADirectory, NotFound, PermissionDenied, StorageFull};
    let (kind, why) = match error.kind() {
        NotFound | NotADirectory => (RefusalKind::Missing, "no such file or folder".to_owned()),
        PermissionDenied => (RefusalKind::Denied, "permission denied".to_owned()),
        IsADirectory => (RefusalKind::Denied, "it is a folder".to_owned()),
        StorageFull => (RefusalKind::Storage, "the server's disk is full".to_owned()),
        _ => (RefusalKind::Storage, format!("the server's disk: {error}")),
    };
    Refusal::new(kind, format!("{name}: {why}"))
}

async fn list(
    share: &Share,
    send: &mut SendStream,
    name: Name,
    deep: bool,
) -> Result<String, Stop> {
    let (entries, mut found) = mpsc::channel::<Entry>(WAITING);
    let walking = tokio::task::spawn_blocking({
        let (root, name) = (Arc::clone(&share.root), name.clone());
        move || {
            let mut emit = |entry| entries.blocking_send(entry).is_ok();
            tree::walk(&root, &name, deep, &mut emit, &mut |_| {})
        }
    });
    let mut count = 0_u64;
    while let Some(entry) = found.recv().await {
        if count == 0 {
            wire::send(send, &Answer::Listing).await?;
        }
        wire::send(send, &entry).await?;
        count += 1;
    }
    match walking.await.map_err(io::Error::other).flatten() {
        Ok(()) => {}
        Err(error) if count == 0 => return Err(refusal(&name, &error).into()),
        Err(error) => {
            // What was told is not all: the listing must not end as if it were.
            let _ = send.reset(BROKEN);
            return Err(Error::file(name.path(), error).into());
        }
    }
    send.write_all(&0_u32.to_be_bytes()).await?;
    Ok(format!("listed {name}: {count} entries"))
}

async fn get(
    share: &Share,
    send: &mut SendStream,
    name: Name,
    have: u64,
    digest: Option<Digest>,
) -> Result<String, Stop> {
    let opened = blocking({
        let (root, name) = (Arc::clone(&share.root), name.clone());
        move || tree::read(&root, &name)
    });
    let (file, entry) = opened.await.map_err(|error| refusal(&name, &error))?;
    let mut source = Source::new(File::from_std(file), entry.size);
    if let Some(digest) = digest {
        let same = source.begins_with(have, digest).await;
        same.map_err(|error| refusal(&name, &error))?;
    }
    let from = source.at();
    // Some schedulers plan for the end of a transfer. Without the hint, it works as well.
    let _ = send.set_hints(StreamHints {
        size: Some(entry.size - from),
        ..StreamHints::default()
    });
    let answer = Answer::Content {
        size: entry.size,
        from,
        modified: entry.modified,
    };
    wire::send(send, &answer).await?;
    match source.send(send, |_| {}).await {
        Ok(()) => Ok(format!(
            "sent {name}: {} of {} bytes",
            entry.size - from,
            entry.size
        )),
        Err(NotSent::File(error)) => Err(Error::file(name.path(), error).into()),
        Err(NotSent::Stream(error)) => Err(error.into()),
    }
}

fn check_writable(share: &Share, name: &Name) -> Result<(), Refusal> {
    if !share.writable {
        let why = "this server is read-only";
        return Err(Refusal::new(RefusalKind::Denied, why));
    }
    if name.last().is_none() {
        let why = "a file needs a name";
        return Err(Refusal::new(RefusalKind::Malformed, why));
    }
    Ok(())
}

async fn put(
    share: &Share,
    send: &mut SendStream,
    recv: &mut RecvStream,
    name: Name,
    size: u64,
    modified: Option<u64>,
) -> Result<String, Stop> {
    check_writable(share, &name)?;
    let disk = |error: &io::Error| refusal(&name, error);
    let complete = whole(share, &name, size)
        .await
        .map_err(|error| disk(&error))?;
    let mut part = match complete {
        Some(digest) => {
            let answer = Answer::Resume {
                have: size,
                digest,
                complete: true,
            };
            wire::send(send, &answer).await?;
            if offset(recv).await?.is_none() {
                return Ok(format!("has {name} already"));
            }
            let mut part = open_part(share, &name).await?;
            part.restart().await.map_err(|error| disk(&error))?;
            part
        }
        None => {
            let mut part = open_part(share, &name).await?;
            let answer = Answer::Resume {
                have: part.len(),
                digest: part.digest(),
                complete: false,
            };
            wire::send(send, &answer).await?;
            match offset(recv).await {
                Ok(Some(at)) if at == part.len() => {}
                Ok(Some(0)) => part.restart().await.map_err(|error| disk(&error))?,
                Ok(Some(at)) => {
                    part.keep().await;
                    let why = format!("it has no byte {at} to go on from");
                    return Err(Refusal::new(RefusalKind::Malformed, why).into());
                }
                Ok(None) => {
                    part.keep().await;
                    return Ok(format!("did not get {name} after all"));
                }
                Err(error) => {
                    part.keep().await;
                    return Err(error.into());
                }
            }
            part
        }
    };
    let from = part.len();
    match content::receive(&mut part, size, recv, |_| {}).await {
        Ok(()) => {}
        Err(NotReceived::Stream(error)) => {
            part.keep().await;
            return Err(error.into());
        }
        Err(NotReceived::File(error)) => {
            part.discard().await;
            return Err(disk(&error).into());
        }
        Err(NotReceived::Damaged) => {
            part.discard().await;
            let why = format!("{name}: damaged on its way");
            return Err(Refusal::new(RefusalKind::Damaged, why).into());
        }
    }
    part.commit(modified).await.map_err(|error| disk(&error))?;
    wire::send(send, &Answer::Done).await?;
    Ok(format!(
        "got {name}: {} of {size} bytes",
        size.saturating_sub(from)
    ))
}

/// The digest of the file that is there under its name, if it has this size.
async fn whole(share: &Share, name: &Name, size: u64) -> io::Result<Option<Digest>> {
    let opened = blocking({
        let (root, name) = (Arc::clone(&share.root), name.clone());
        move || match tree::entry(&root, &name) {
            Ok(entry) if entry.kind == Kind::File && entry.size == size => {
                tree::read(&root, &name).map(Some)
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

async fn open_part(share: &Share, name: &Name) -> Result<Part, Refusal> {
    match Part::open(&share.root, name).await {
        Ok(part) => Ok(part),
        Err(NoPart::Io(error)) => Err(refusal(name, &error)),
        Err(NoPart::Busy) => {
            let why = format!("{name}: another transfer writes it");
            Err(Refusal::new(RefusalKind::Busy, why))
        }
    }
}

/// From where on the client sends; `None` if it sends nothing.
async fn offset(recv: &mut RecvStream) -> Result<Option<u64>, Error> {
    let mut at = [0; 8];
    match recv.read_exact(&mut at).await {
        Ok(()) => Ok(Some(u64::from_be_bytes(at))),
        Err(ReadExactError::FinishedEarly(0)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

async fn folder(share: &Share, send: &mut SendStream, name: Name) -> Result<String, Stop> {
    check_writable(share, &name)?;
    let made = blocking({
        let (root, name) = (Arc::clone(&share.root), name.clone());
        move || root.create_dir_all(name.path())
    });
    made.await.map_err(|error| refusal(&name, &error))?;
    wire::send(send, &Answer::Done).await?;
    Ok(format!("has the folder {name}"))
}
