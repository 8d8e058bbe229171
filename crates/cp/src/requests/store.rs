//! What a client puts: files that are offered first, small ones that come at once, and what has no known size.

use std::io;

use mpquic::ReadExactError;
use mpquic_peer::Admitted;
use sha2::{Digest as _, Sha256};
use tokio::fs::File;

use super::{Job, Stop, disk, no_part, not_received, not_written};
use crate::content::{self, NotReceived, hash};
use crate::error::Error;
use crate::name::Name;
use crate::part::Part;
use crate::tree;
use crate::wire::{self, Answer, Digest, Kind, Refusal, RefusalKind};

/// A file or link that a client offers.
pub(super) struct Offer {
    pub(super) size: u64,
    pub(super) modified: Option<u64>,
    pub(super) mode: Option<u32>,
    pub(super) keep_newer: bool,
}

impl Job<'_> {
    pub(super) async fn put(&mut self, name: &Name, offer: &Offer) -> Result<String, Stop> {
        self.check_writable(name)?;
        let _turn = self.limits.transfer().await?;
        let size = offer.size;
        let begun = Part::begin(&self.share.root, name, offer.mode.is_some()).await;
        let begun = begun.map_err(no_part)?;
        let complete = match begun {
            Some(_) => None,
            None => {
                let complete = self.while_wanted(self.whole(name, size)).await?;
                complete.map_err(disk)?
            }
        };
        let mut part = match complete {
            Some(digest) => {
                let answer = Answer::Resume {
                    have: size,
                    digest,
                    complete: true,
                };
                wire::send(self.send, &answer).await?;
                if self.offset().await?.is_none() {
                    let (mode, modified) = (offer.mode, offer.modified);
                    let set = self.blocking(name, move |root, name| {
                        if let Some(seconds) = modified {
                            tree::set_modified_of(root, name, seconds);
                        }
                        mode.map_or(Ok(()), |mode| tree::set_mode_of(root, name, mode))
                    });
                    set.await.map_err(disk)?;
                    return Ok(format!("has {name} already"));
                }
                self.check_older(name, offer).await?;
                let mut part = self.open_part(name, offer).await?;
                part.restart().await.map_err(disk)?;
                part
            }
            None => {
                let mut part = match begun {
                    Some(part) => part,
                    None => {
                        self.check_older(name, offer).await?;
                        self.open_part(name, offer).await?
                    }
                };
                let answer = Answer::Resume {
                    have: part.len(),
                    digest: part.digest(),
                    complete: false,
                };
                wire::send(self.send, &answer).await?;
                match self.offset().await {
                    Ok(Some(at)) if at == part.len() => {}
                    Ok(Some(0)) => part.restart().await.map_err(disk)?,
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
        let throttle = self.user.map(Admitted::from);
        match content::receive(&mut part, size, self.recv, throttle, |_| {}).await {
            Ok(()) => {}
            Err(error @ (NotReceived::Stream(_) | NotReceived::Cut)) => {
                part.keep().await;
                return Err(not_received(name, error));
            }
            Err(error) => {
                part.discard().await;
                return Err(not_received(name, error));
            }
        }
        let committed = part.commit(offer.modified, offer.mode).await;
        committed.map_err(not_written)?;
        wire::send(self.send, &Answer::Done).await?;
        let moved = size.saturating_sub(from);
        Ok(format!("got {name}: {moved} of {size} bytes"))
    }

    /// Takes what the client does not know the size of. Nothing is left of it if it is interrupted: nobody could send the rest.
    pub(super) async fn stream(&mut self, name: &Name) -> Result<String, Stop> {
        self.check_writable(name)?;
        let _turn = self.limits.transfer().await?;
        let offer = Offer {
            size: 0,
            modified: None,
            mode: None,
            keep_newer: false,
        };
        let mut part = self.open_part(name, &offer).await?;
        if let Err(error) = part.restart().await {
            part.discard().await;
            return Err(disk(error));
        }
        let throttle = self.user.map(Admitted::from);
        let received = match wire::send(self.send, &Answer::Ready).await {
            Ok(()) => content::receive_pieces(&mut part, self.recv, throttle).await,
            Err(error) => Err(NotReceived::Stream(error.into())),
        };
        let size = part.len();
        if let Err(error) = received {
            part.discard().await;
            return Err(not_received(name, error));
        }
        let committed = part.commit(None, None).await;
        committed.map_err(not_written)?;
        wire::send(self.send, &Answer::Done).await?;
        Ok(format!("got {name}: {size} bytes"))
    }

    /// Refuses to replace what was changed later, if the client wants that kept.
    pub(super) async fn check_older(&self, name: &Name, offer: &Offer) -> Result<(), Stop> {
        let (than, keep) = (offer.modified, offer.keep_newer);
        let newer = self.blocking(name, move |root, name| {
            Ok(keep && tree::is_newer(root, name, than))
        });
        if newer.await.map_err(disk)? {
            let why = "the file there is newer";
            return Err(Refusal::new(RefusalKind::Newer, why).into());
        }
        Ok(())
    }

    /// The digest of the file that is there under its name, if it has this size.
    async fn whole(&self, name: &Name, size: u64) -> io::Result<Option<Digest>> {
        let hidden = self.share.hidden.clone();
        let opened = self.blocking(name, move |root, name| match tree::entry(root, name) {
            Ok(entry) if entry.kind == Kind::File && entry.size == size => {
                tree::read(root, name, &hidden).map(Some)
            }
            // What is there is in the way, or nothing is: this shows when the file is to be written.
            _ => Ok(None),
        });
        let Some((file, _)) = opened.await? else {
            return Ok(None);
        };
        let _turn = self.limits.hash().await;
        let mut sum = Sha256::new();
        let len = hash(&mut File::from_std(file), u64::MAX, &mut sum).await?;
        Ok((len == size).then(|| Digest(sum.finalize().into())))
    }

    async fn open_part(&self, name: &Name, offer: &Offer) -> Result<Part, Stop> {
        let opening = async {
            let _turn = self.limits.hash().await;
            Part::open(&self.share.root, name, offer.mode.is_some()).await
        };
        self.while_wanted(opening).await?.map_err(no_part)
    }

    /// From where on the client sends; `None` if it sends nothing.
    async fn offset(&mut self) -> Result<Option<u64>, Error> {
        let mut at = [0; 8];
        match self.recv.read_exact(&mut at).await {
            Ok(()) => Ok(Some(u64::from_be_bytes(at))),
            Err(ReadExactError::FinishedEarly(0)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}
