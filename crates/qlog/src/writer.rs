//! The thread that empties the rings of all connections and writes their files.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, SystemTime};

use mpquic_proto::Started;
use rtrb::Consumer;

use crate::encode::Encoder;
use crate::folder::{Folder, Open};
use crate::record::{Rare, Record, Timed};
use crate::schema::stem;

/// How long records wait at most, where nobody hurries: the file grows while the connection lives.
const INTERVAL: Duration = Duration::from_millis(50);

/// Text is handed to the system in pieces of about this size, bytes.
const CHUNK: usize = 64 * 1024;

/// What the thread and those who made it share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// Nobody makes connections any more: the thread writes what there is, and ends.
    pub(crate) closing: AtomicBool,
    /// Records that were left out, over all connections.
    pub(crate) left_out: AtomicU64,
}

/// One connection.
pub(crate) struct Source {
    pub(crate) ring: Consumer<Timed>,
    encoder: Encoder,
    file: Option<Open>,
    /// Nothing more is written: the file could not be made or written.
    failed: bool,
}

impl Source {
    pub(crate) fn new(ring: Consumer<Timed>) -> Self {
        Self {
            ring,
            encoder: Encoder::new(),
            file: None,
            failed: false,
        }
    }

    /// Writes all records that are there; whether the connection is over.
    fn drain(&mut self, folder: &mut Folder) -> bool {
        // Asked first: what is pushed before the producer goes is then seen below.
        let over = self.ring.is_abandoned();
        while let Ok(timed) = self.ring.pop() {
            if self.failed {
                continue;
            }
            if let Record::Rare(rare) = &timed.record
                && let Rare::Started(started) = &**rare
            {
                self.open(folder, started);
            }
            self.encoder.record(&timed);
            if self.encoder.output().len() >= CHUNK {
                self.flush(folder);
            }
        }
        self.flush(folder);
        if over && let Some(file) = self.file.take() {
            folder.close(file);
        }
        over
    }

    fn open(&mut self, folder: &mut Folder, started: &Started) {
        match folder.create(&stem(started)) {
            Ok(file) => {
                self.file = Some(file);
                let now = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
                self.encoder.begin(started, Some(&now));
            }
            Err(error) => self.fail(&error, folder),
        }
    }

    fn flush(&mut self, folder: &mut Folder) {
        let text = self.encoder.output();
        let written = match &mut self.file {
            Some(file) if !text.is_empty() => folder.write(file, text),
            _ => Ok(()),
        };
        text.clear();
        if let Err(error) = written {
            self.fail(&error, folder);
        }
    }

    fn fail(&mut self, error: &io::Error, folder: &mut Folder) {
        tracing::warn!(%error, place = %folder.dir().display(), "qlog ends: cannot write");
        self.failed = true;
        if let Some(file) = self.file.take() {
            folder.close(file);
        }
    }
}

/// The thread's work, until nobody makes connections any more and what there is was written.
pub(crate) fn run(mut folder: Folder, new: &Receiver<Source>, shared: &Arc<Shared>) {
    let mut sources: Vec<Source> = Vec::new();
    loop {
        // Asked first: what came before is then seen below.
        let closing = shared.closing.load(Ordering::Acquire);
        sources.extend(new.try_iter());
        sources.retain_mut(|source| !source.drain(&mut folder));
        if closing {
            return;
        }
        if sources.is_empty() {
            thread::park();
        } else {
            thread::park_timeout(INTERVAL);
        }
    }
}
