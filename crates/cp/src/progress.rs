//! How far a transfer is, for whoever shows it, and what came of it.

use std::collections::HashSet;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mpquic::Connection;
use serde::Serialize;

use crate::error::Exit;
use crate::name::Name;
use crate::plan::Planned;
use crate::wire::Omission;

type Told = Box<dyn Fn(&Event<'_>) + Send + Sync>;

/// Something that happened in a transfer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event<'a> {
    /// A file or link is where it should be. After a lost connection, those that were there before it are told once more.
    File {
        /// Its name on the server.
        name: &'a str,
        /// Bytes.
        size: u64,
        /// It was there before.
        unchanged: bool,
    },
    /// Something is left out.
    LeftOut(&'a Omission),
    /// Something was removed that is not in what is copied.
    Removed {
        /// Its name in the copy.
        name: &'a str,
    },
}

/// Counts of a transfer that runs. Another task may read them at any time.
#[derive(Default)]
pub struct Progress {
    told: Option<Told>,
    /// What was told, so that a transfer that goes on does not tell it again.
    known: Mutex<HashSet<String>>,
    omitted: AtomicU64,
    vanished: AtomicU64,
    /// Bytes that connections before this one transferred.
    before: AtomicU64,
    files: AtomicU64,
    expected: AtomicU64,
    unchanged: AtomicU64,
    removed: AtomicU64,
    total: AtomicU64,
    moved: AtomicU64,
    resumed: AtomicU64,
    plan: Mutex<Vec<Planned>>,
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            files,
            total,
            moved,
            ..
        } = self;
        write!(f, "Progress({files:?} files, {moved:?} of {total:?} bytes)")
    }
}

impl Progress {
    /// Nothing so far.
    pub fn new() -> Self {
        Self::default()
    }

    /// Nothing so far. `told` is told of each thing that is left out.
    pub fn telling(told: impl Fn(&Omission) + Send + Sync + 'static) -> Self {
        Self::following(move |event| {
            if let Event::LeftOut(omission) = event {
                told(omission);
            }
        })
    }

    /// Nothing so far. `told` is told of each thing that happens.
    pub fn following(told: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Self {
        Self {
            told: Some(Box::new(told)),
            ..Self::default()
        }
    }

    /// Begins again, over another connection.
    pub fn restart(&self) {
        self.before
            .fetch_add(self.moved.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        for count in [
            &self.files,
            &self.expected,
            &self.unchanged,
            &self.total,
            &self.resumed,
            &self.omitted,
            &self.vanished,
        ] {
            count.store(0, Ordering::Relaxed);
        }
        self.plan
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// How much is not where it should be: nothing, [`Exit::Partial`], or [`Exit::Vanished`] if all that is missing was gone before it
    /// was copied.
    pub fn incomplete(&self) -> Option<Exit> {
        let omitted = self.omitted.load(Ordering::Relaxed);
        match omitted - self.vanished.load(Ordering::Relaxed).min(omitted) {
            0 if omitted == 0 => None,
            0 => Some(Exit::Vanished),
            _ => Some(Exit::Partial),
        }
    }

    pub(crate) fn omit(&self, omission: &Omission) {
        self.omitted.fetch_add(1, Ordering::Relaxed);
        self.vanished
            .fetch_add(u64::from(omission.vanished), Ordering::Relaxed);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.insert(omission.omitted.clone()) {
            self.tell(&Event::LeftOut(omission));
        }
    }

    fn tell(&self, event: &Event<'_>) {
        if let Some(told) = &self.told {
            told(event);
        }
    }

    /// What a transfer would do that was asked to do nothing ([`CopyOptions::dry_run`](crate::CopyOptions::dry_run)), by name.
    pub fn plan(&self) -> Vec<Planned> {
        let mut plan = self
            .plan
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        plan.sort_by(|one, other| one.name.cmp(&other.name));
        plan
    }

    pub(crate) fn planned(&self, planned: Vec<Planned>) {
        self.plan
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(planned);
    }

    /// Bytes of all files that are known so far.
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Of these, those that are where they should be.
    pub fn done(&self) -> u64 {
        self.moved.load(Ordering::Relaxed) + self.resumed.load(Ordering::Relaxed)
    }

    /// Files that are complete.
    pub fn files(&self) -> u64 {
        self.files.load(Ordering::Relaxed)
    }

    /// Files and links that are known so far.
    pub fn expected(&self) -> u64 {
        self.expected.load(Ordering::Relaxed)
    }

    /// Bytes that this connection has transferred.
    pub fn moved_now(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    /// A file or link of so many bytes is to be copied.
    pub(crate) fn expect(&self, bytes: u64) {
        self.expected.fetch_add(1, Ordering::Relaxed);
        self.total.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn moved(&self, bytes: u64) {
        self.moved.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So many bytes were there from an earlier transfer.
    pub(crate) fn resumed(&self, bytes: u64) {
        self.resumed.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn file_done(&self, name: &Name, size: u64, unchanged: bool) {
        self.files.fetch_add(1, Ordering::Relaxed);
        self.unchanged
            .fetch_add(u64::from(unchanged), Ordering::Relaxed);
        self.tell(&Event::File {
            name: name.as_str(),
            size,
            unchanged,
        });
    }

    pub(crate) fn removed(&self, name: &Name) {
        self.removed.fetch_add(1, Ordering::Relaxed);
        self.tell(&Event::Removed {
            name: name.as_str(),
        });
    }

    /// What came of it.
    pub fn summary(&self, took: Duration, paths: Vec<PathShare>) -> Summary {
        let before = self.before.load(Ordering::Relaxed);
        let resumed = self.resumed.load(Ordering::Relaxed);
        Summary {
            files: self.files(),
            unchanged: self.unchanged.load(Ordering::Relaxed),
            removed: self.removed.load(Ordering::Relaxed),
            bytes: self.done(),
            omitted: self.omitted.load(Ordering::Relaxed),
            moved: before + self.moved.load(Ordering::Relaxed),
            // What a connection before this one transferred was not there from an earlier transfer.
            resumed: resumed.saturating_sub(before),
            seconds: took.as_secs_f64(),
            paths,
        }
    }
}

/// What a path of the connection carried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PathShare {
    /// Our address.
    pub local: SocketAddr,
    /// The server's.
    pub remote: SocketAddr,
    /// Bytes received on it, with the heads of packets.
    pub received: u64,
    /// Bytes sent on it.
    pub sent: u64,
}

impl PathShare {
    /// Of the paths that are open now.
    pub(crate) fn of(connection: &Connection) -> Vec<Self> {
        let shares = connection.paths().into_iter().filter_map(|path| {
            // One that is closed by now is left out.
            let (addresses, stats) = (path.network_path().ok()?, path.stats().ok()?);
            Some(Self {
                local: addresses.local,
                remote: addresses.remote,
                received: stats.received_bytes,
                sent: stats.sent_bytes,
            })
        });
        shares.collect()
    }
}

/// What a transfer did.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Summary {
    /// Files that are complete now.
    pub files: u64,
    /// Of these, those that were so before.
    pub unchanged: u64,
    /// What was left out.
    pub omitted: u64,
    /// What was removed since it is not in what is copied: files, links and folders.
    pub removed: u64,
    /// Bytes of all of them.
    pub bytes: u64,
    /// Of these, those that were transferred.
    pub moved: u64,
    /// Those that were there from an earlier transfer.
    pub resumed: u64,
    /// How long it took.
    pub seconds: f64,
    /// What each path carried.
    pub paths: Vec<PathShare>,
}
