//! The server's side of a stream: one request, and what is done about it.

mod fresh;
mod store;

use std::io;
use std::io::ErrorKind::{
    AlreadyExists, DirectoryNotEmpty, InvalidFilename, InvalidInput, IsADirectory, NotADirectory,
    NotFound, PermissionDenied,
};
use std::sync::Arc;
use std::time::Duration;

use cap_std::fs::Dir;
use mpquic::{ReadExactError, RecvStream, SendStream, StreamHints, VarInt};
use mpquic_peer::{Admitted, Right};
use sha2::{Digest as _, Sha256};
use tokio::time::timeout;

use self::fresh::Fresh;
use self::store::Offer;
use crate::content::{NotReceived, NotSent, SMALL, Source};
use crate::error::{Error, is_full};
use crate::limits::{self, Stamp};
use crate::name::Name;
use crate::part::NoPart;
use crate::tree::{self, Hidden, Walk, Want, blocking};
use crate::wire::{self, Answer, Digest, Listed, Refusal, RefusalKind, Request, Unread};

/// The code with which streams are stopped that the server does not read to their end; the answer says why.
const ENOUGH: VarInt = VarInt::from_u32(3);
/// How long a client may take for a request.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most of what is wrong with a request that the answer tells, characters.
const QUOTED: usize = 200;

/// What a server offers.
#[derive(Debug, Clone)]
pub(crate) struct Share {
    pub(crate) root: Arc<Dir>,
    pub(crate) hidden: Hidden,
    pub(crate) rights: Rights,
    /// If there is one, nothing but this and what is below it.
    pub(crate) only: Option<Name>,
}

/// What a client may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rights {
    pub(crate) get: bool,
    pub(crate) put: bool,
    pub(crate) remove: bool,
}

impl Rights {
    pub(crate) fn of(rights: &[Right]) -> Self {
        Self {
            get: rights.contains(&Right::Get),
            put: rights.contains(&Right::Put),
            remove: rights.contains(&Right::Remove),
        }
    }
}

impl Share {
    fn has(&self, name: &Name) -> bool {
        self.only.as_ref().is_none_or(|only| {
            let below = name.as_str().strip_prefix(only.as_str());
            below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
        })
    }
}

/// What became of a request, for the server's log.
pub(crate) type Outcome = Result<String, Error>;

/// Answers one stream: a request, or several files that are asked for one after another. `told` is told what became of each.
pub(crate) async fn answer(
    share: &Share,
    limits: &limits::Share,
    user: Option<&Admitted>,
    mut send: SendStream,
    mut recv: RecvStream,
    mut told: impl FnMut(Outcome),
) {
    let mut job = Job {
        share,
        limits,
        user,
        send: &mut send,
        recv: &mut recv,
    };
    let mut next = next_request(job.recv, true).await;
    while let Some(request) = next {
        let request = match Fresh::of(request) {
            Ok(fresh) => {
                next = match job.take_several(fresh, &mut told).await {
                    Some(next) => next,
                    None => return,
                };
                continue;
            }
            Err(request) => request,
        };
        // Others may follow on the stream.
        let goes_on = matches!(&request, Ok(Ok(Request::Get { .. })));
        let outcome = match request {
            Ok(request) => job.answer(request, goes_on).await,
            Err(gone) => Err(gone),
        };
        let is_over =
            !goes_on || matches!(&outcome, Err(error) if !matches!(error, Error::Refused { .. }));
        told(outcome);
        if is_over {
            return;
        }
        next = next_request(job.recv, false).await;
    }
    // It fails only if it is ended already.
    let _ = send.finish();
}

/// A request, or what is wrong with it in words for the client; an error if nobody would read them.
type Asked = Result<Result<Request, String>, Error>;

/// The next request. None if there are no more.
async fn next_request(recv: &mut RecvStream, is_first: bool) -> Option<Asked> {
    let received = timeout(PATIENCE, wire::receive::<Request>(recv)).await;
    Some(Ok(match received {
        Ok(Ok(Some(request))) => Ok(request),
        Ok(Ok(None)) => Err("an empty request".to_owned()),
        // The client has given it up, or is gone: nobody would read why.
        Ok(Err(error @ Unread::Stream(ReadExactError::ReadError(_)))) => {
            return Some(Err(error.into()));
        }
        Ok(Err(Unread::Stream(ReadExactError::FinishedEarly(0)))) if !is_first => return None,
        Ok(Err(Unread::Stream(_))) => Err("a request that ends too soon".to_owned()),
        // What is wrong may be quoted in it.
        Ok(Err(error)) => Err(error.to_string().chars().take(QUOTED).collect()),
        Err(_) => Err("a request that does not come to its end".to_owned()),
    }))
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
fn refusal(error: &io::Error) -> Refusal {
    let (kind, why) = match error.kind() {
        NotFound | NotADirectory => (RefusalKind::Missing, "no such file or folder".to_owned()),
        PermissionDenied => (RefusalKind::Denied, "permission denied".to_owned()),
        IsADirectory => (RefusalKind::Denied, "it is a folder".to_owned()),
        InvalidFilename => (
            RefusalKind::Denied,
            "the server's disk takes no such name".to_owned(),
        ),
        _ if is_full(error) => (RefusalKind::Full, "the server's disk is full".to_owned()),
        _ => (RefusalKind::Storage, format!("the server's disk: {error}")),
    };
    Refusal::new(kind, why)
}

fn disk(error: io::Error) -> Stop {
    refusal(&error).into()
}

/// Why nothing can be written.
fn no_part(why: NoPart) -> Stop {
    match why {
        NoPart::Io(error) => not_written(error),
        NoPart::Busy => {
            let why = "another transfer writes it";
            Refusal::new(RefusalKind::Busy, why).into()
        }
    }
}

/// The same for what is to be written: what is not there is no file of the client's.
fn not_written(error: io::Error) -> Stop {
    let why = match error.kind() {
        AlreadyExists | NotADirectory => "a file is where a folder of it should be",
        NotFound => "its folder is gone",
        _ => return disk(error),
    };
    Refusal::new(RefusalKind::Denied, why).into()
}

/// Contents that did not arrive.
fn not_received(name: &Name, error: NotReceived) -> Stop {
    match error {
        NotReceived::Stream(error) => error.into(),
        NotReceived::Cut => Error::Cut(name.clone()).into(),
        NotReceived::File(error) => disk(error),
        NotReceived::Damaged => Refusal::new(RefusalKind::Damaged, "damaged on its way").into(),
    }
}

/// A request that is carried out.
struct Job<'a> {
    share: &'a Share,
    limits: &'a limits::Share,
    user: Option<&'a Admitted>,
    send: &'a mut SendStream,
    recv: &'a mut RecvStream,
}

impl Job<'_> {
    /// Answers a request; another one follows if it `goes_on`.
    async fn answer(&mut self, request: Result<Request, String>, goes_on: bool) -> Outcome {
        let name = request.as_ref().ok().map(Request::name).cloned();
        match self.carry_out(request).await {
            Ok(text) => {
                if !goes_on {
                    // It fails only if it is ended already.
                    let _ = self.send.finish();
                }
                Ok(text)
            }
            Err(Stop::Refused(refusal)) => {
                wire::send(self.send, &Answer::Refused(refusal.clone())).await?;
                if !goes_on {
                    let _ = self.send.finish();
                    // Who is still sending reads the answer then.
                    let _ = self.recv.stop(ENOUGH);
                }
                let name = name.unwrap_or_default();
                Err(Error::refused(&name, refusal))
            }
            Err(Stop::Broken(error)) => Err(error),
        }
    }

    async fn carry_out(&mut self, request: Result<Request, String>) -> Result<String, Stop> {
        let request = request.map_err(|why| Refusal::new(RefusalKind::Malformed, why))?;
        if !self.share.has(request.name()) {
            let why = "no such file or folder";
            return Err(Refusal::new(RefusalKind::Missing, why).into());
        }
        match request {
            Request::List {
                name,
                deep,
                links,
                omissions,
            } => self.list(&name, Want { deep, links }, omissions).await,
            Request::Get { name, have, digest } => self.get(&name, have, digest).await,
            Request::Put {
                name,
                size,
                modified,
                mode,
                keep_newer,
            } => {
                let offer = Offer {
                    size,
                    modified,
                    mode,
                    keep_newer,
                };
                self.put(&name, &offer).await
            }
            Request::Fresh { .. } => {
                let why = "so large a file is offered before it is sent";
                Err(Refusal::new(RefusalKind::Malformed, why).into())
            }
            Request::Stream { name } => self.stream(&name).await,
            Request::Folder { name, mode } => self.folder(&name, mode).await,
            Request::Remove { name, deep } => self.remove(&name, deep).await,
            Request::Rename { name, to } => self.rename(&name, &to).await,
            Request::Link {
                name,
                target,
                modified,
                keep_newer,
            } => {
                let offer = Offer {
                    size: 0,
                    modified,
                    mode: None,
                    keep_newer,
                };
                self.link(&name, target, &offer).await
            }
        }
    }

    /// Does what may wait for the disk.
    async fn blocking<T: Send + 'static>(
        &self,
        name: &Name,
        work: impl FnOnce(&Arc<Dir>, &Name) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let (root, name) = (Arc::clone(&self.share.root), name.clone());
        blocking(move || work(&root, &name)).await
    }

    async fn list(&mut self, name: &Name, want: Want, omissions: bool) -> Result<String, Stop> {
        self.check_readable()?;
        let _turn = self.limits.listing().await?;
        let hidden = self.share.hidden.clone();
        let started = self.blocking(name, move |root, name| {
            Walk::start(root, &hidden, name, want)
        });
        let mut walk = started.await.map_err(disk)?;
        wire::send(self.send, &Answer::Listing).await?;
        let (mut count, mut omitted) = (0_u64, 0_u64);
        while !walk.is_over() {
            // No thread waits for the client: what was found is sent before there is more.
            let batch = blocking(move || {
                let batch = walk.batch();
                Ok::<_, io::Error>((batch, walk))
            });
            let (found, rest) = batch.await.map_err(disk)?;
            walk = rest;
            let mut messages = Vec::new();
            for found in found {
                match &found {
                    Listed::Entry(entry) => {
                        count += 1;
                        messages.extend(wire::encode(entry));
                    }
                    Listed::Omitted(_) => {
                        omitted += 1;
                        if omissions {
                            messages.extend(wire::encode(&found));
                        }
                    }
                }
            }
            self.send.write_chunk(messages.into()).await?;
        }
        self.send.write_all(&0_u32.to_be_bytes()).await?;
        let left = match omitted {
            0 => String::new(),
            _ => format!(", {omitted} left out"),
        };
        Ok(format!("listed {name}: {count} entries{left}"))
    }

    async fn get(
        &mut self,
        name: &Name,
        have: u64,
        digest: Option<Digest>,
    ) -> Result<String, Stop> {
        self.check_readable()?;
        let _turn = self.limits.transfer().await?;
        let hidden = self.share.hidden.clone();
        let opened = self.blocking(name, move |root, name| Source::open(root, name, &hidden));
        let (mut source, entry) = opened.await.map_err(disk)?;
        if let Some(digest) = digest {
            self.compare(&mut source, have, digest).await?;
        }
        let from = source.at();
        if entry.size > SMALL {
            // Some schedulers plan for the end of a transfer. Without the hint, it works as well; others may follow a small file.
            let _ = self.send.set_hints(StreamHints {
                size: Some(entry.size - from),
                ..StreamHints::default()
            });
        }
        let answer = Answer::Content {
            size: entry.size,
            from,
            modified: entry.modified,
            mode: entry.mode,
        };
        wire::send(self.send, &answer).await?;
        let throttle = self.user.map(Admitted::to);
        match source.send(self.send, throttle, |_| {}).await {
            Ok(()) => Ok(format!(
                "sent {name}: {} of {} bytes",
                entry.size - from,
                entry.size
            )),
            Err(NotSent::File(error)) => Err(Error::file(name.path(), error).into()),
            Err(NotSent::Stream(error)) => Err(error.into()),
        }
    }

    /// Goes on behind the first `have` bytes of a file if they have this digest: from memory if it was asked lately, else by reading
    /// them, when it is this client's turn, and for no longer than it waits.
    async fn compare(&self, source: &mut Source, have: u64, digest: Digest) -> Result<(), Stop> {
        if have == 0 || have > source.size {
            return Ok(());
        }
        let stamp = Stamp::of(&source.file.metadata().await.map_err(disk)?);
        let known = |stamp: Option<Stamp>| self.limits.digests().get(stamp?, have);
        if let Some(sum) = known(stamp) {
            source.go_on(have, sum, digest).await.map_err(disk)?;
            return Ok(());
        }
        let comparing = async {
            let _turn = self.limits.hash().await;
            // The one before may have had the same question.
            let sum = match known(stamp) {
                Some(sum) => sum,
                None => {
                    let Some(sum) = source.hash_beginning(have).await? else {
                        return source.go_on(0, Sha256::new(), digest).await;
                    };
                    let now = Stamp::of(&source.file.metadata().await?);
                    if let Some(stamp) = stamp.filter(|_| now == stamp) {
                        self.limits.digests().put(stamp, have, sum.clone());
                    }
                    sum
                }
            };
            source.go_on(have, sum, digest).await
        };
        self.while_wanted(comparing).await?.map_err(disk)?;
        Ok(())
    }

    /// Does it for as long as the client waits for the answer.
    async fn while_wanted<T>(&self, work: impl Future<Output = T>) -> Result<T, Error> {
        tokio::select! {
            done = work => Ok(done),
            gone = self.send.stopped() => Err(match gone {
                Ok(_) => Error::Lost("the client does not wait for the answer".to_owned()),
                Err(error) => error.into(),
            }),
        }
    }

    fn check_readable(&self) -> Result<(), Refusal> {
        if !self.share.rights.get {
            let why = "this user may not read here";
            return Err(Refusal::new(RefusalKind::Denied, why));
        }
        Ok(())
    }

    fn check_writable(&self, name: &Name) -> Result<(), Refusal> {
        if !self.share.rights.put {
            let why = match self.user {
                Some(_) => "this user may not write here",
                None => "this server is read-only",
            };
            return Err(Refusal::new(RefusalKind::Denied, why));
        }
        if name.last().is_none() {
            let why = "a file needs a name";
            return Err(Refusal::new(RefusalKind::Malformed, why));
        }
        Ok(())
    }

    async fn folder(&mut self, name: &Name, mode: Option<u32>) -> Result<String, Stop> {
        self.check_writable(name)?;
        let made = self.blocking(name, move |root, name| tree::make_folder(root, name, mode));
        made.await.map_err(not_written)?;
        wire::send(self.send, &Answer::Done).await?;
        Ok(format!("has the folder {name}"))
    }

    fn check_removable(&self, name: &Name) -> Result<(), Refusal> {
        if !self.share.rights.remove {
            let why = match self.user {
                Some(_) => "this user may not remove anything here",
                None => "this server lets nobody remove anything",
            };
            return Err(Refusal::new(RefusalKind::Denied, why));
        }
        if name.last().is_none() {
            let why = "the folder that is served stays";
            return Err(Refusal::new(RefusalKind::Denied, why));
        }
        Ok(())
    }

    async fn remove(&mut self, name: &Name, deep: bool) -> Result<String, Stop> {
        self.check_removable(name)?;
        // It may take as long as a listing.
        let _turn = self.limits.listing().await?;
        let hidden = self.share.hidden.clone();
        let removed = self.blocking(name, move |root, name| {
            tree::remove(root, name, deep, &hidden)
        });
        removed.await.map_err(|error| match error.kind() {
            DirectoryNotEmpty => {
                let why = "it is not empty: --recursive removes all that is in it";
                Refusal::new(RefusalKind::Denied, why).into()
            }
            _ => disk(error),
        })?;
        wire::send(self.send, &Answer::Done).await?;
        Ok(format!("removed {name}"))
    }

    async fn rename(&mut self, name: &Name, to: &Name) -> Result<String, Stop> {
        self.check_removable(name)?;
        self.check_writable(to)?;
        if !self.share.has(to) {
            return Err(Refusal::new(RefusalKind::Denied, "permission denied").into());
        }
        let (hidden, other) = (self.share.hidden.clone(), to.clone());
        let renamed = self.blocking(name, move |root, name| {
            tree::rename(root, name, &other, &hidden)
        });
        renamed.await.map_err(|error| match error.kind() {
            AlreadyExists => {
                let why = format!("{to} is there already");
                Refusal::new(RefusalKind::Denied, why).into()
            }
            InvalidInput => {
                let why = "a folder does not go into itself";
                Refusal::new(RefusalKind::Denied, why).into()
            }
            _ => disk(error),
        })?;
        wire::send(self.send, &Answer::Done).await?;
        Ok(format!("renamed {name} to {to}"))
    }

    async fn link(&mut self, name: &Name, target: String, offer: &Offer) -> Result<String, Stop> {
        self.check_writable(name)?;
        if !tree::leads_inside(name.depth(), &target) {
            let why = "a link that leads out of the folder";
            return Err(Refusal::new(RefusalKind::Denied, why).into());
        }
        self.check_older(name, offer).await?;
        let made = self.blocking(name, move |root, name| tree::make_link(root, name, &target));
        made.await.map_err(not_written)?;
        wire::send(self.send, &Answer::Done).await?;
        Ok(format!("has the link {name}"))
    }
}
