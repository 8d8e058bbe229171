//! Reads a recording back, believing nothing that is in it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use super::codec::{self, CRATE, FORMAT, MAGIC};
use super::segment::older;
use super::{Damage, Event, MAX_BYTES, ReadError, Schema};

/// What is left of a recording: its newest segments.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Recording {
    /// What tells it apart from others.
    pub id: u64,
    /// The numbers of the segments it was read from. If the first is not 0, the beginning was let go.
    pub segments: Vec<u64>,
    /// The records, in the order in which they were written, which for each connection is that of time. Schemas, and
    /// which connection has which, are not among them.
    pub events: Vec<Event>,
    /// The schema of each connection.
    pub connections: BTreeMap<u64, Arc<Schema>>,
    /// Where it could not be read; at most one place in each segment.
    pub damage: Vec<Damage>,
}

/// Reads the recording in this file, together with the segment before it, if that is there and of the same recording.
///
/// Bounded by the size of the files, of which [`MAX_BYTES`]`/ 2` each is the most that is read; takes several times their
/// size in memory.
///
/// # Errors
///
/// If there is none, or it was not written by a recorder of this format.
pub fn read(path: impl AsRef<Path>) -> Result<Recording, ReadError> {
    let path = path.as_ref();
    let before = older(path);
    let newest = match file(path) {
        // A crash between two segments.
        Err(ReadError::Read { source, .. })
            if source.kind() == io::ErrorKind::NotFound && before.exists() =>
        {
            return Recording::from_segments([file(&before)?]);
        }
        newest => newest?,
    };
    match file(&before) {
        // What cannot be read is not of the same recording, as far as can be told.
        Ok(bytes) if follows(&bytes, &newest) => Recording::from_segments([bytes, newest]),
        _ => Recording::from_segments([newest]),
    }
}

fn file(path: &Path) -> Result<Vec<u8>, ReadError> {
    let bytes = bounded(path).map_err(|source| ReadError::Read {
        path: path.to_owned(),
        source,
    })?;
    check_length(&bytes)?;
    Ok(bytes)
}

/// The bytes of a regular file, one more than allowed at most.
fn bounded(path: &Path) -> io::Result<Vec<u8>> {
    // Before it is opened: opening a pipe waits for whoever writes to it.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a regular file",
        ));
    }
    let mut bytes = Vec::new();
    File::open(path)?
        .take(MAX_BYTES / 2 + 1)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn check_length(bytes: &[u8]) -> Result<(), ReadError> {
    let (found, limit) = (bytes.len() as u64, MAX_BYTES / 2);
    if found > limit {
        return Err(ReadError::TooLarge { found, limit });
    }
    Ok(())
}

/// Whether the second segment is the one after the first.
fn follows(first: &[u8], second: &[u8]) -> bool {
    match (open(first), open(second)) {
        (Ok(first), Ok(second)) => {
            (first.recording, first.number.wrapping_add(1)) == (second.recording, second.number)
        }
        _ => false,
    }
}

/// A segment whose header was read.
struct Segment<'a> {
    recording: u64,
    number: u64,
    records: &'a [u8],
}

fn open(bytes: &[u8]) -> Result<Segment<'_>, ReadError> {
    check_length(bytes)?;
    let foreign = |problem: String| ReadError::Foreign { problem };
    let records = bytes
        .strip_prefix(MAGIC)
        .ok_or_else(|| foreign("it does not begin with \"MPQTRAJ\"".into()))?;
    let (payload, records) =
        codec::unframe(records).ok_or_else(|| foreign("it has no whole header".into()))?;
    let header = codec::decode_header(payload).map_err(foreign)?;
    if header.name != CRATE {
        return Err(foreign(format!(
            "written by {:?}, expected {CRATE:?}",
            header.name
        )));
    }
    if header.format != FORMAT {
        return Err(ReadError::Format {
            found: header.format,
            expected: FORMAT,
        });
    }
    let recording = u64::from_str_radix(&header.recording, 16)
        .map_err(|_| foreign(format!("its number is {:?}", header.recording)))?;
    Ok(Segment {
        recording,
        number: header.segment,
        records,
    })
}

impl Recording {
    /// Reads segments, the oldest first.
    ///
    /// # Errors
    ///
    /// As [`read`]; also if they are not of one recording, or not in order.
    pub fn from_segments<B: AsRef<[u8]>>(
        segments: impl IntoIterator<Item = B>,
    ) -> Result<Self, ReadError> {
        let mut recording: Option<Self> = None;
        for bytes in segments {
            let bytes = bytes.as_ref();
            let segment = open(bytes)?;
            let into = recording.get_or_insert_with(|| Self {
                id: segment.recording,
                segments: Vec::new(),
                events: Vec::new(),
                connections: BTreeMap::new(),
                damage: Vec::new(),
            });
            let in_order = into
                .segments
                .last()
                .is_none_or(|last| *last < segment.number);
            if into.id != segment.recording || !in_order {
                return Err(ReadError::Foreign {
                    problem: format!("segment {} is of another recording", segment.number),
                });
            }
            into.take_in(&segment, bytes.len())?;
        }
        recording.ok_or_else(|| ReadError::Foreign {
            problem: "no segments".into(),
        })
    }

    fn take_in(&mut self, segment: &Segment<'_>, length: usize) -> Result<(), ReadError> {
        self.segments.push(segment.number);
        // Of this segment: each introduces again whom it tells of.
        let mut schemas = BTreeMap::<u32, Arc<Schema>>::new();
        let mut open = BTreeMap::<u64, Arc<Schema>>::new();
        let mut rest = segment.records;
        while !rest.is_empty() {
            let offset = (length - rest.len()) as u64;
            let Some((payload, behind)) = codec::unframe(rest) else {
                self.damage.push(Damage {
                    segment: segment.number,
                    offset,
                    left: rest.len() as u64,
                    torn: codec::is_torn(rest),
                });
                break;
            };
            rest = behind;
            let event = codec::decode(payload).and_then(|event| {
                let told = sort_in(event, &mut schemas, &mut open, &mut self.connections)?;
                Ok(told)
            });
            let event = event.map_err(|problem| ReadError::Malformed {
                segment: segment.number,
                offset,
                problem,
            })?;
            self.events.extend(event);
        }
        Ok(())
    }
}

/// Holds a record against those before it. Gives it back if it is one that tells of what happened.
fn sort_in(
    event: Event,
    schemas: &mut BTreeMap<u32, Arc<Schema>>,
    open: &mut BTreeMap<u64, Arc<Schema>>,
    connections: &mut BTreeMap<u64, Arc<Schema>>,
) -> Result<Option<Event>, String> {
    let of = |open: &BTreeMap<u64, Arc<Schema>>, connection: u64| {
        let schema = open.get(&connection).cloned();
        schema.ok_or_else(|| format!("connection {connection} is not open here"))
    };
    match event {
        Event::Schema { id, schema } => {
            if schemas.insert(id, Arc::new(schema)).is_some() {
                return Err(format!("schema {id} is there twice"));
            }
            Ok(None)
        }
        Event::Opened { connection, schema } => {
            let schema = schemas
                .get(&schema)
                .ok_or_else(|| format!("connection {connection} has schema {schema}, unknown"))?;
            if open.insert(connection, Arc::clone(schema)).is_some() {
                return Err(format!("connection {connection} is opened twice"));
            }
            let known = connections
                .entry(connection)
                .or_insert_with(|| Arc::clone(schema));
            if *known != *schema {
                return Err(format!("connection {connection} changes its schema"));
            }
            Ok(None)
        }
        Event::Decided(ref decided) => {
            let schema = of(open, decided.connection)?;
            let found = (decided.state.len(), decided.action.len());
            let expected = (schema.state_len(), schema.action_len());
            if found != expected {
                return Err(format!(
                    "a state and an action of {found:?} numbers, expected {expected:?}"
                ));
            }
            Ok(Some(event))
        }
        Event::Rewarded(ref rewarded) => of(open, rewarded.connection).map(|_| Some(event)),
        Event::Ended { connection, .. } => {
            of(open, connection)?;
            // Nothing more can be told of it.
            open.remove(&connection);
            Ok(Some(event))
        }
    }
}
