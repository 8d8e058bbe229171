//! qlog of live connections: a folder, the thread that writes into it, and the observers of connections.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle, Thread};

use mpquic_proto::{EndpointConfig, Observer, TransportConfig};
use rtrb::RingBuffer;

use crate::folder::{Folder, Limits};
use crate::record::Timed;
use crate::recorder::Recorder;
use crate::ring::Ring;
use crate::writer::{self, Shared, Source};

/// Records that a connection may be ahead of the thread that writes: a tenth of a second at a gigabit per second.
const DEFAULT_CAPACITY: usize = 1 << 15;

/// What the folder may hold: weeks of a small server, and a fraction of most disks.
const DEFAULT_LIMITS: Limits = Limits {
    files: 10_000,
    bytes: 4 << 30,
};

/// A ring holds a packet with all its frames, and more.
const MIN_CAPACITY: usize = 256;

/// The environment variable that names the folder (main schema, section 13.1).
pub const QLOGDIR: &str = "QLOGDIR";

/// Writes a qlog file per connection into a folder.
///
/// The file is named after the original destination connection ID and the side, as `89ab01cd23ef4567_client.sqlog`. It is
/// never written over. The folder holds 10,000 of them and 4 GiB by default ([`with_limits`](Self::with_limits)); the oldest make
/// room for new ones, and a connection whose file alone would be larger is written no further. A thread writes; a connection hands it small records through a ring, and never waits for it. What
/// does not fit into the ring is left out, and the file says how much (`mpquic:records_left_out`).
///
/// Clones share the folder and the thread. The thread ends with the last of them and of the configurations that were
/// given them, once it has written what there is.
///
/// ```
/// use mpquic_proto::TransportConfig;
/// use mpquic_qlog::Qlog;
///
/// # let dir = tempfile::tempdir()?;
/// # let dir = dir.path();
/// let qlog = Qlog::to_dir(dir)?;
/// let mut transport = TransportConfig::default();
/// qlog.attach(&mut transport); // every connection with this configuration
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Qlog(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    dir: PathBuf,
    capacity: usize,
    new: Sender<Source>,
    shared: Arc<Shared>,
    thread: Thread,
    running: Option<JoinHandle<()>>,
}

impl Qlog {
    /// Writes into this folder, which is made if it is not there.
    ///
    /// # Errors
    ///
    /// If the folder cannot be made, or the thread not started.
    pub fn to_dir(dir: impl AsRef<Path>) -> io::Result<Self> {
        Self::start(dir.as_ref(), DEFAULT_CAPACITY, DEFAULT_LIMITS)
    }

    /// The same with a ring of so many records per connection; a packet is one and one more per frame. Default 32768,
    /// which are 2.3 MB. At least 256.
    ///
    /// # Errors
    ///
    /// As [`to_dir`](Self::to_dir).
    pub fn with_capacity(dir: impl AsRef<Path>, capacity: usize) -> io::Result<Self> {
        Self::start(dir.as_ref(), capacity, DEFAULT_LIMITS)
    }

    /// The same with so many files in the folder, and so many bytes in all of them. Files of earlier runs count, if their names
    /// are those of qlog files of this crate; nothing else in the folder is touched. At least one file.
    ///
    /// # Errors
    ///
    /// As [`to_dir`](Self::to_dir).
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// let qlog = mpquic_qlog::Qlog::with_limits(dir.path(), 100, 50_000_000)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn with_limits(dir: impl AsRef<Path>, files: usize, bytes: u64) -> io::Result<Self> {
        let limits = Limits {
            files: files.max(1),
            bytes,
        };
        Self::start(dir.as_ref(), DEFAULT_CAPACITY, limits)
    }

    fn start(dir: &Path, capacity: usize, limits: Limits) -> io::Result<Self> {
        let dir = dir.to_owned();
        std::fs::create_dir_all(&dir)?;
        let (new, sources) = mpsc::channel();
        let shared = Arc::new(Shared::default());
        let (folder, thread_shared) = (Folder::new(&dir, limits), Arc::clone(&shared));
        let running = thread::Builder::new()
            .name("mpquic-qlog".into())
            .spawn(move || writer::run(folder, &sources, &thread_shared))?;
        Ok(Self(Arc::new(Inner {
            dir,
            capacity: capacity.max(MIN_CAPACITY),
            new,
            shared,
            thread: running.thread().clone(),
            running: Some(running),
        })))
    }

    /// Writes into the folder that the environment variable `QLOGDIR` names; `None` if it is not set, or empty.
    ///
    /// # Errors
    ///
    /// As [`to_dir`](Self::to_dir).
    pub fn from_env() -> io::Result<Option<Self>> {
        match std::env::var_os(QLOGDIR) {
            Some(dir) if !dir.is_empty() => Self::to_dir(PathBuf::from(dir)).map(Some),
            _ => Ok(None),
        }
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.0.dir
    }

    /// Records that did not fit into the rings of connections so far.
    pub fn left_out(&self) -> u64 {
        self.0.shared.left_out.load(Ordering::Relaxed)
    }

    /// An observer that writes of one connection.
    pub fn observer(&self) -> Box<dyn Observer> {
        let (producer, consumer) = RingBuffer::<Timed>::new(self.0.capacity);
        // The thread lives for as long as this.
        let _ = self.0.new.send(Source::new(consumer));
        self.0.thread.unpark();
        let ring = Ring::new(producer, self.0.thread.clone(), Arc::clone(&self.0.shared));
        Box::new(Recorder::new(ring, None))
    }

    /// Every connection with this configuration is written.
    pub fn attach(&self, transport: &mut TransportConfig) {
        let qlog = self.clone();
        transport.observer(move |_| Some(qlog.observer()));
    }

    /// Every connection of an endpoint with this configuration is written.
    pub fn attach_endpoint(&self, endpoint: &mut EndpointConfig) {
        let qlog = self.clone();
        endpoint.observer(move |_| Some(qlog.observer()));
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Release);
        self.thread.unpark();
        if let Some(running) = self.running.take() {
            // It panics on nothing that comes from a connection; if it did, there is nothing to save.
            let _ = running.join();
        }
    }
}
