//! Small files that a client puts without offering them first, one behind the other on a stream: several are put on the disk together.

use std::pin::pin;

use mpquic::{RecvStream, SendStream};
use mpquic_peer::Admitted;

use super::{Asked, Job, Outcome, Share, Stop, next_request, no_part, not_received};
use crate::content::{DIGEST, SMALL, receive_whole};
use crate::error::Error;
use crate::limits::Turn;
use crate::name::Name;
use crate::place::{Gathered, TOGETHER, Whole, place};
use crate::wire::{self, Answer, Refusal, RefusalKind, Request};

/// A small file whose contents and their SHA-256 are next on the stream.
pub(super) struct Fresh {
    name: Name,
    size: u64,
    modified: Option<u64>,
    mode: Option<u32>,
}

impl Fresh {
    /// A request for one, or the request as it was.
    pub(super) fn of(asked: Asked) -> Result<Self, Asked> {
        match asked {
            Ok(Ok(Request::Fresh {
                name,
                size,
                modified,
                mode,
            })) if size <= SMALL => Ok(Self {
                name,
                size,
                modified,
                mode,
            }),
            // Of a large one, the contents are not read.
            other => Err(other),
        }
    }
}

/// One that came, or is refused.
struct Came {
    fresh: Fresh,
    contents: Result<Vec<u8>, Refusal>,
    /// For as long as its contents are in memory, and it is open.
    _turn: Option<Turn>,
}

impl Job<'_> {
    /// Takes a small file, and those that come behind it. Returns the request after them; nothing if nobody is there any more.
    pub(super) async fn take_several(
        &mut self,
        mut fresh: Fresh,
        told: &mut impl FnMut(Outcome),
    ) -> Option<Option<Asked>> {
        let mut gathered = Gathered::new();
        loop {
            let turn = match self.check_fresh(&fresh) {
                Ok(()) => match self.limits.transfer_now() {
                    Some(turn) => Ok(turn),
                    // Those that are here give theirs back first.
                    None => {
                        keep(self.share, self.send, gathered.take(), told).await?;
                        self.limits.transfer().await
                    }
                },
                Err(refusal) => Err(refusal),
            };
            let came = {
                let mut coming = pin!(take(self.recv, self.user, fresh, turn));
                match gathered.before(coming.as_mut()).await {
                    Some(came) => came,
                    None => {
                        keep(self.share, self.send, gathered.take(), told).await?;
                        coming.await
                    }
                }
            };
            match came {
                Ok(came) => gathered.push(came),
                Err(error) => {
                    keep(self.share, self.send, gathered.take(), told).await?;
                    told(Err(error));
                    return None;
                }
            }
            if gathered.files.len() == TOGETHER {
                keep(self.share, self.send, gathered.take(), told).await?;
            }
            let next = {
                let mut coming = pin!(next_request(self.recv, false));
                match gathered.before(coming.as_mut()).await {
                    Some(next) => next,
                    None => {
                        keep(self.share, self.send, gathered.take(), told).await?;
                        coming.await
                    }
                }
            };
            match next.map(Fresh::of) {
                Some(Ok(next)) => fresh = next,
                other => {
                    keep(self.share, self.send, gathered.take(), told).await?;
                    return Some(other.and_then(Result::err));
                }
            }
        }
    }

    fn check_fresh(&self, fresh: &Fresh) -> Result<(), Refusal> {
        if !self.share.has(&fresh.name) {
            let why = "no such file or folder";
            return Err(Refusal::new(RefusalKind::Missing, why));
        }
        self.check_writable(&fresh.name)
    }
}

/// Reads a file from the stream. Of one that is refused, nothing is kept.
async fn take(
    recv: &mut RecvStream,
    user: Option<&Admitted>,
    fresh: Fresh,
    turn: Result<Turn, Refusal>,
) -> Result<Came, Error> {
    let (contents, turn) = match turn {
        Ok(turn) => match receive_whole(fresh.size, recv, user.map(Admitted::from)).await {
            Ok(contents) => (Ok(contents), Some(turn)),
            Err(error) => match not_received(&fresh.name, error) {
                Stop::Refused(refusal) => (Err(refusal), None),
                Stop::Broken(error) => return Err(error),
            },
        },
        Err(refusal) => {
            let mut left = fresh.size as usize + DIGEST;
            while left > 0 {
                match recv.read_chunk(left).await? {
                    Some(chunk) => left -= chunk.len(),
                    None => break,
                }
            }
            (Err(refusal), None)
        }
    };
    Ok(Came {
        fresh,
        contents,
        _turn: turn,
    })
}

/// Puts on the disk those that came, and answers all. Nothing if nobody is there any more.
async fn keep(
    share: &Share,
    send: &mut SendStream,
    mut all: Vec<Came>,
    told: &mut impl FnMut(Outcome),
) -> Option<()> {
    if all.is_empty() {
        return Some(());
    }
    let came = all.iter_mut().filter_map(
        |Came {
             fresh, contents, ..
         }| {
            let contents = std::mem::take(contents.as_mut().ok()?);
            Some(Whole {
                name: fresh.name.clone(),
                contents,
                modified: fresh.modified,
                mode: fresh.mode,
            })
        },
    );
    let wholes = came.collect();
    let mut placed = place(&share.root, wholes).await.into_iter();
    let (mut answers, mut outcomes) = (Vec::new(), Vec::new());
    for Came {
        fresh, contents, ..
    } in all
    {
        let Fresh { name, size, .. } = fresh;
        let done = contents.and_then(|_| match placed.next() {
            Some(Ok(true)) => Ok(()),
            Some(Err(why)) => match no_part(why) {
                Stop::Refused(refusal) => Err(refusal),
                Stop::Broken(error) => Err(Refusal::new(RefusalKind::Storage, error.to_string())),
            },
            Some(Ok(false)) | None => {
                let why = "it is there already";
                Err(Refusal::new(RefusalKind::Present, why))
            }
        });
        let (answer, outcome) = match done {
            Ok(()) => (
                Answer::Done,
                Ok(format!("got {name}: {size} of {size} bytes")),
            ),
            Err(refusal) => {
                let outcome = match refusal.kind {
                    // As a client finds out that did not look first.
                    RefusalKind::Present => Ok(format!("has {name} already")),
                    _ => Err(Error::refused(&name, refusal.clone())),
                };
                (Answer::Refused(refusal), outcome)
            }
        };
        answers.extend(wire::encode(&answer));
        outcomes.push(outcome);
    }
    let answered = send.write_chunk(answers.into()).await;
    outcomes.into_iter().for_each(&mut *told);
    match answered {
        Ok(()) => Some(()),
        Err(error) => {
            told(Err(error.into()));
            None
        }
    }
}
