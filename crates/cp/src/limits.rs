//! How much a server does at a time, for one client and for all: so that none of them can take what the others need.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sha2::Sha256;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::wire::{Refusal, RefusalKind};

/// Streams of a client at a time, and with them its transfers: a client copies 14 files at a time, beside listings.
pub(crate) const STREAMS: u32 = 16;
/// Listings of a client at a time.
const LISTINGS: usize = 2;
/// Listings of all clients, if the system lets the process have so many files open: each has a folder open. One network cannot take
/// them all, nor the transfers.
const ALL_LISTINGS: u64 = 256;
/// Transfers of all clients, likewise.
const ALL_TRANSFERS: u64 = 1024;
/// Files that are kept in reserve, for sockets, and what libraries open.
const RESERVE: u64 = 256;
/// How long a request waits for its turn.
const TURN: Duration = Duration::from_secs(10);
/// Digests that are remembered.
const DIGESTS: usize = 256;

/// Connections of all clients.
pub(crate) const CLIENTS: usize = 512;
/// Connections from one network: its streams are half of all transfers.
pub(crate) const CLIENTS_OF_ONE: usize = 32;

/// What is counted: how many at a time, and what it is called.
#[derive(Debug, Clone)]
struct Slots {
    what: &'static str,
    most: usize,
    turn: Duration,
    free: Arc<Semaphore>,
}

impl Slots {
    fn new(what: &'static str, most: usize, turn: Duration) -> Self {
        Self {
            what,
            most,
            turn,
            free: Arc::new(Semaphore::new(most)),
        }
    }

    /// Waits for its turn, for as long as it takes.
    async fn wait(&self) -> Option<OwnedSemaphorePermit> {
        // It is never closed.
        Arc::clone(&self.free).acquire_owned().await.ok()
    }

    /// Waits for its turn, for a while.
    async fn take(&self) -> Result<Option<OwnedSemaphorePermit>, Refusal> {
        timeout(self.turn, self.wait()).await.map_err(|_| {
            let (most, what) = (self.most, self.what);
            let why = format!("at most {most} {what} are served at a time: try again later");
            Refusal::new(RefusalKind::Limit, why)
        })
    }
}

/// Turns that are held for as long as this lives.
#[derive(Debug)]
pub(crate) struct Turn {
    _held: [Option<OwnedSemaphorePermit>; 2],
}

/// What all clients share.
#[derive(Debug)]
pub(crate) struct Limits {
    turn: Duration,
    transfers: Slots,
    listings: Slots,
    hashes: Slots,
    pub(crate) digests: Digests,
}

impl Limits {
    /// For a process that may have so many files open.
    pub(crate) fn new(open_files: Option<u64>) -> Self {
        Self::with_turn(open_files, TURN)
    }

    fn with_turn(open_files: Option<u64>, turn: Duration) -> Self {
        let files = open_files.unwrap_or(u64::MAX);
        let listings = (files / 8).clamp(u64::from(STREAMS), ALL_LISTINGS);
        let transfers = files.saturating_sub(RESERVE + listings);
        let transfers = transfers.clamp(u64::from(STREAMS), ALL_TRANSFERS);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            turn,
            transfers: Slots::new("transfers", transfers as usize, turn),
            listings: Slots::new("listings", listings as usize, turn),
            // Half of the machine, so that the other half sends.
            hashes: Slots::new("files to compare", cores.div_ceil(2), turn),
            digests: Digests::default(),
        }
    }
}

/// What a client may have.
#[derive(Debug, Clone)]
pub(crate) struct Share {
    all: Arc<Limits>,
    listings: Slots,
    hashes: Slots,
}

impl Share {
    pub(crate) fn new(all: Arc<Limits>) -> Self {
        let turn = all.turn;
        Self {
            all,
            listings: Slots::new("listings of a client", LISTINGS, turn),
            hashes: Slots::new("files to compare for a client", 1, turn),
        }
    }

    pub(crate) fn digests(&self) -> &Digests {
        &self.all.digests
    }

    /// A client's own transfers are as many as its streams.
    pub(crate) async fn transfer(&self) -> Result<Turn, Refusal> {
        let all = self.all.transfers.take().await?;
        Ok(Turn { _held: [all, None] })
    }

    /// The same, if there is one at once.
    pub(crate) fn transfer_now(&self) -> Option<Turn> {
        let all = Arc::clone(&self.all.transfers.free);
        let all = all.try_acquire_owned().ok()?;
        let _held = [Some(all), None];
        Some(Turn { _held })
    }

    pub(crate) async fn listing(&self) -> Result<Turn, Refusal> {
        let own = self.listings.take().await?;
        let all = self.all.listings.take().await?;
        Ok(Turn { _held: [own, all] })
    }

    /// Reading a large file takes its time: those behind it wait until their streams end.
    pub(crate) async fn hash(&self) -> Turn {
        let own = self.hashes.wait().await;
        let all = self.all.hashes.wait().await;
        Turn { _held: [own, all] }
    }
}

/// Which bytes of which file, as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    /// When it was changed, and when its inode was: seconds and nanoseconds.
    times: [i64; 4],
}

impl Stamp {
    /// That of a file; `None` where the system does not tell, and of a file that was changed just now: it can change again without
    /// another time of change.
    pub(crate) fn of(metadata: &std::fs::Metadata) -> Option<Self> {
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt as _;
            const SETTLED: Duration = Duration::from_secs(2);
            let since = metadata.modified().ok()?.elapsed().ok()?;
            (since > SETTLED).then(|| Self {
                device: metadata.dev(),
                inode: metadata.ino(),
                size: metadata.size(),
                times: [
                    metadata.mtime(),
                    metadata.mtime_nsec(),
                    metadata.ctime(),
                    metadata.ctime_nsec(),
                ],
            })
        }
        #[cfg(not(unix))]
        {
            let _ = metadata;
            None
        }
    }
}

/// What was hashed lately, so that the same question costs nothing the next time.
#[derive(Debug, Default)]
pub(crate) struct Digests(Mutex<VecDeque<(Stamp, u64, Sha256)>>);

impl Digests {
    /// The hash of the first bytes, with which it goes on.
    pub(crate) fn get(&self, stamp: Stamp, len: u64) -> Option<Sha256> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = known
            .iter()
            .position(|(of, bytes, _)| (*of, *bytes) == (stamp, len))?;
        let found = known.remove(at)?;
        let sum = found.2.clone();
        known.push_front(found);
        Some(sum)
    }

    pub(crate) fn put(&self, stamp: Stamp, len: u64, sum: Sha256) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.truncate(DIGESTS - 1);
        known.push_front((stamp, len, sum));
    }
}

#[cfg(test)]
mod tests {
    use sha2::Digest as _;

    use super::*;

    #[test]
    fn files_are_kept_in_reserve() {
        for (files, transfers) in [
            (Some(1024), (640, 128)),
            (Some(1 << 20), (1024, 256)),
            (Some(64), (16, 16)),
            (None, (1024, 256)),
        ] {
            let limits = Limits::new(files);
            assert_eq!((limits.transfers.most, limits.listings.most), transfers);
        }
    }

    #[tokio::test]
    async fn who_gets_no_turn_is_told() {
        let soon = Duration::from_millis(1);
        let share = Share::new(Arc::new(Limits::with_turn(None, soon)));
        let (_first, second) = (
            share.listing().await.unwrap(),
            share.listing().await.unwrap(),
        );
        let refused = share.listing().await.unwrap_err();
        assert_eq!(refused.kind, RefusalKind::Limit);
        assert!(refused.why.contains("2 listings of a client"), "{refused}");
        drop(second);
        assert!(share.listing().await.is_ok());
        // Another client has its own.
        let other = Share::new(Arc::clone(&share.all));
        assert!(other.listing().await.is_ok());
    }

    #[test]
    fn the_digests_of_lately_are_kept() {
        let digests = Digests::default();
        let stamp = |inode| Stamp {
            device: 1,
            inode,
            size: 1,
            times: [0; 4],
        };
        for inode in 0..=DIGESTS as u64 {
            digests.put(stamp(inode), 7, Sha256::new_with_prefix([1]));
            assert!(digests.get(stamp(1), 7).is_some() || inode == 0);
        }
        assert!(digests.get(stamp(0), 7).is_none());
        assert!(digests.get(stamp(1), 8).is_none());
        let known = digests.get(stamp(1), 7).unwrap();
        assert_eq!(known.finalize(), Sha256::digest([1]));
    }
}
