//! The trace of a run: a hash of what happened to each datagram and each delivered byte. Equal runs have equal hashes.

use std::time::Duration;

use mpquic_proto::{Side, StreamId};

use crate::fold::Fold;
use crate::link::{Fate, Loss, nanos};

/// An event of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatagramInfo {
    /// The time of the event.
    pub at: Duration,
    /// When it was sent.
    pub sent: Duration,
    /// The flow of the datagram: 0 is the connection under test, cross traffic counts from 1.
    pub flow: usize,
    /// The side that sent it.
    pub from: Side,
    /// The path's number in the order of [`NetworkBuilder::path`](crate::NetworkBuilder::path);
    /// `None` if no path joins its addresses.
    pub path: Option<usize>,
    /// UDP payload bytes.
    pub size: usize,
    /// What happened.
    pub what: DatagramStep,
}

/// What happened to a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DatagramStep {
    /// It entered the first link of its path.
    Sent,
    /// It left the last link of its path, or was lost on the way.
    Left(Fate),
    /// No path joins its addresses.
    NoRoute,
}

/// The application read bytes of a stream, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery {
    /// The time of the read.
    pub at: Duration,
    /// The flow: 0 is the connection under test, cross traffic counts from 1.
    pub flow: usize,
    /// The side of the application.
    pub side: Side,
    /// The stream.
    pub stream: StreamId,
    /// The offset of the first byte.
    pub offset: u64,
    /// The number of bytes; 0 is the end of the stream.
    pub len: usize,
}

/// One record of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TraceRecord {
    /// An event of a datagram.
    Datagram(DatagramInfo),
    /// A read of the application.
    Delivery(Delivery),
}

/// Hashes the records of a run, and keeps them if requested.
///
/// The hash does not cover the bytes on the wire. TLS takes its randomness from the system, so
/// ciphertext differs between runs of one seed, while times, sizes and fates do not.
pub(crate) struct Trace {
    fold: Fold,
    records: Option<Vec<TraceRecord>>,
}

impl Trace {
    pub(crate) fn new(keep_records: bool) -> Self {
        Self {
            fold: Fold::new(),
            records: keep_records.then(Vec::new),
        }
    }

    pub(crate) fn datagram(&mut self, info: &DatagramInfo) {
        let (kind, bit) = match info.what {
            DatagramStep::Sent => (0, 0),
            DatagramStep::Left(Fate::Delivered) => (1, 0),
            DatagramStep::Left(Fate::Duplicate) => (2, 0),
            DatagramStep::Left(Fate::Corrupted { bit }) => (3, bit),
            DatagramStep::Left(Fate::Lost(Loss::Queue)) => (4, 0),
            DatagramStep::Left(Fate::Lost(Loss::Random)) => (5, 0),
            DatagramStep::Left(Fate::Lost(Loss::Outage)) => (6, 0),
            DatagramStep::NoRoute => (7, 0),
        };
        self.fold.add([
            1,
            nanos(info.at),
            side_number(info.from),
            info.path.map_or(u64::MAX, |path| path as u64),
            info.size as u64,
            kind,
            bit,
            info.flow as u64,
        ]);
        if let Some(records) = &mut self.records {
            records.push(TraceRecord::Datagram(*info));
        }
    }

    pub(crate) fn delivery(&mut self, delivery: &Delivery) {
        self.fold.add([
            2,
            nanos(delivery.at),
            side_number(delivery.side),
            delivery.stream.into(),
            delivery.offset,
            delivery.len as u64,
            delivery.flow as u64,
            0,
        ]);
        if let Some(records) = &mut self.records {
            records.push(TraceRecord::Delivery(*delivery));
        }
    }

    pub(crate) fn hash(&self) -> u128 {
        self.fold.finish()
    }

    pub(crate) fn records(&self) -> &[TraceRecord] {
        self.records.as_deref().unwrap_or_default()
    }
}

const fn side_number(side: Side) -> u64 {
    match side {
        Side::Client => 0,
        Side::Server => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_counts() {
        let base = DatagramInfo {
            at: Duration::from_millis(5),
            sent: Duration::ZERO,
            flow: 0,
            from: Side::Client,
            path: Some(0),
            size: 1200,
            what: DatagramStep::Sent,
        };
        let hash = |infos: &[DatagramInfo]| {
            let mut trace = Trace::new(true);
            infos.iter().for_each(|info| trace.datagram(info));
            assert_eq!(trace.records().len(), infos.len());
            trace.hash()
        };
        let lost = DatagramStep::Left(Fate::Lost(Loss::Queue));
        let variants = [
            base,
            DatagramInfo {
                at: Duration::from_millis(6),
                ..base
            },
            DatagramInfo {
                from: Side::Server,
                ..base
            },
            DatagramInfo {
                path: Some(1),
                ..base
            },
            DatagramInfo { path: None, ..base },
            DatagramInfo { size: 1201, ..base },
            DatagramInfo { flow: 1, ..base },
            DatagramInfo { what: lost, ..base },
        ];
        let mut hashes: Vec<_> = variants.iter().map(|info| hash(&[*info])).collect();
        assert_eq!(hash(&[base]), hashes[0]);
        hashes.push(hash(&[base, base]));
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), variants.len() + 1);
    }
}
