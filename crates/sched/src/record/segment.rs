//! The files of a recording: made, filled, and the oldest of them let go.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::RecordError;
use super::codec::{self, FRAME, MAGIC};

/// Where the segment before the newest one is.
pub(super) fn older(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".1");
    name.into()
}

/// The newest segment, open, and those before it as far as they are kept.
pub(super) struct Segments {
    path: PathBuf,
    file: File,
    /// Bytes that a segment may have.
    limit: u64,
    /// Bytes that it has, those in the batch included.
    length: u64,
    recording: u64,
    pub(super) number: u64,
    /// The schemas in it, and their numbers.
    schemas: BTreeMap<Arc<str>, u32>,
    /// What goes to the system in one piece.
    batch: Vec<u8>,
}

/// What a record's connection must have had written before it, in the same segment.
pub(super) struct About<'a> {
    pub(super) connection: u64,
    pub(super) schema: &'a Arc<str>,
    /// The segment in which it was introduced last.
    pub(super) introduced: &'a mut Option<u64>,
}

impl Segments {
    /// The first segment of a recording; a recording of this name becomes the segment before it.
    pub(super) fn create(path: &Path, limit: u64, recording: u64) -> Result<Self, RecordError> {
        let write = |source| RecordError::Write {
            path: path.to_owned(),
            source,
        };
        let before = older(path);
        for path in [path, &before] {
            vacant(path)?;
        }
        if path.exists() {
            fs::rename(path, &before).map_err(write)?;
        }
        let mut segments = Self {
            path: path.to_owned(),
            file: new(path).map_err(write)?,
            limit,
            length: 0,
            recording,
            number: 0,
            schemas: BTreeMap::new(),
            batch: Vec::new(),
        };
        segments.begin();
        segments.flush().map_err(write)?;
        Ok(segments)
    }

    /// Puts a record behind the others, in a new segment if this one is full.
    pub(super) fn put(&mut self, about: About<'_>, payload: &[u8]) -> io::Result<()> {
        let needed = |introduction: usize| (introduction + FRAME + payload.len()) as u64;
        // The most that it may take, rather than what it will: one segment more or less does not matter.
        let introduction = match *about.introduced == Some(self.number) {
            true => 0,
            false => 3 * FRAME + about.schema.len() + 32,
        };
        if self.length + needed(introduction) > self.limit {
            self.rotate()?;
        }
        if *about.introduced != Some(self.number) {
            self.introduce(about);
        }
        self.append(payload);
        Ok(())
    }

    fn introduce(&mut self, about: About<'_>) {
        let next = self.schemas.len() as u32;
        let id = match self.schemas.get(about.schema) {
            Some(id) => *id,
            None => {
                self.append(&codec::schema(next, about.schema));
                self.schemas.insert(Arc::clone(about.schema), next);
                next
            }
        };
        self.append(&codec::opened(about.connection, id));
        *about.introduced = Some(self.number);
    }

    fn append(&mut self, payload: &[u8]) {
        codec::frame(&mut self.batch, payload);
        self.length += (FRAME + payload.len()) as u64;
    }

    fn begin(&mut self) {
        self.batch.extend(MAGIC);
        self.length = MAGIC.len() as u64;
        self.append(&codec::header(self.recording, self.number));
    }

    /// Hands to the system what was put so far.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let written = self.file.write_all(&self.batch);
        self.batch.clear();
        written
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.flush()?;
        // Over the one before that. Between this and the next step, a crash leaves a recording without its newest
        // segment, of which nothing is lost since nothing was in it.
        fs::rename(&self.path, older(&self.path))?;
        self.file = new(&self.path)?;
        self.schemas.clear();
        self.number += 1;
        self.begin();
        Ok(())
    }
}

/// Refuses to replace what is not ours, or in use.
fn vacant(path: &Path) -> Result<(), RecordError> {
    let write = |source| RecordError::Write {
        path: path.to_owned(),
        source,
    };
    let in_the_way = |problem| RecordError::InTheWay {
        path: path.to_owned(),
        problem,
    };
    // Before it is opened: opening a pipe waits for whoever writes to it.
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(write(error)),
        Ok(found) if !found.is_file() => return Err(in_the_way("no regular file")),
        Ok(_) => {}
    }
    let file = File::open(path).map_err(write)?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            return Err(RecordError::InUse {
                path: path.to_owned(),
            });
        }
        // A file system without locks: what they would tell is not known.
        Ok(()) | Err(TryLockError::Error(_)) => {}
    }
    let mut beginning = Vec::new();
    let read = file
        .take(MAGIC.len() as u64)
        .read_to_end(&mut beginning)
        .map_err(write)?;
    // An empty file, or one of a recorder that crashed at once, is nobody's loss.
    if beginning == MAGIC[..read] {
        Ok(())
    } else {
        Err(in_the_way("not a recording"))
    }
}

fn new(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    // New: never through a link that somebody has laid out.
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    // For the next recorder to see; where there are no locks, it will not.
    let _ = file.try_lock();
    Ok(file)
}
