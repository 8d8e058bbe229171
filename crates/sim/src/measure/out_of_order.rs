//! Samples a receiver's out-of-order queue, at each arrival of stream data and over time.

use std::time::Duration;

use mpquic_proto::Connection;
use serde::{Deserialize, Serialize};

use super::histogram::{Distribution, Histogram};
use crate::link::nanos;

/// The receiver's out-of-order queue: the bytes received beyond the first gap of their stream,
/// summed over all streams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OutOfOrder {
    /// The bytes after each arrival of a datagram with stream data. The weight is the number of
    /// arrivals.
    pub by_arrival: Distribution,
    /// The bytes over the time from the first of these arrivals to the last. The weight is in
    /// nanoseconds.
    pub by_time: Distribution,
}

#[derive(Debug, Default)]
pub(crate) struct OutOfOrderMeter {
    by_arrival: Histogram,
    by_time: Histogram,
    /// Stream bytes received up to the last sample.
    received: u64,
    /// The last value and its start time.
    current: Option<(u64, Duration)>,
}

impl OutOfOrderMeter {
    /// Samples after a datagram was received, or after the application may have stopped a stream.
    pub(crate) fn look(&mut self, now: Duration, connection: &Connection) {
        let stats = connection.stats();
        self.note(now, stats.received_stream_bytes, stats.out_of_order);
    }

    fn note(&mut self, now: Duration, received: u64, bytes: u64) {
        let arrival = received > self.received;
        self.received = received;
        if arrival {
            self.by_arrival.add(bytes, 1);
        } else if self.current.is_none_or(|(current, _)| current == bytes) {
            return;
        }
        if let Some((current, since)) = self.current {
            self.by_time.add(current, nanos(now.saturating_sub(since)));
        }
        self.current = Some((bytes, now));
    }

    pub(crate) fn figures(&self) -> OutOfOrder {
        OutOfOrder {
            by_arrival: self.by_arrival.distribution(),
            by_time: self.by_time.distribution(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_and_time_are_weighed_apart() {
        let ms = Duration::from_millis;
        let mut meter = OutOfOrderMeter::default();
        assert_eq!(meter.figures(), OutOfOrder::default());
        // Nothing has arrived yet.
        meter.note(ms(1), 0, 0);
        // In order; a gap for 10 ms; a duplicate in it; the gap closed; nothing for 70 ms.
        for (at, received, bytes) in [
            (10, 100, 0),
            (20, 200, 100),
            (25, 250, 100),
            (30, 300, 0),
            (100, 400, 0),
        ] {
            meter.note(ms(at), received, bytes);
            // Sampled again without an arrival.
            meter.note(ms(at), received, bytes);
            meter.note(ms(at + 1), received, bytes);
        }
        // After the last arrival, the application stops a stream. This does not count.
        meter.note(ms(500), 400, 0);
        let OutOfOrder {
            by_arrival,
            by_time,
        } = meter.figures();
        assert_eq!((by_arrival.weight, by_arrival.mean), (5, 40.0));
        assert_eq!(
            (by_arrival.p50, by_arrival.p95, by_arrival.max),
            (0, 100, 100)
        );
        assert_eq!(by_time.weight, 90_000_000);
        assert!((by_time.mean - 100.0 * 10.0 / 90.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_given_up_is_gone_at_once() {
        let ms = Duration::from_millis;
        let mut meter = OutOfOrderMeter::default();
        for (at, received, bytes) in [(0, 10, 50), (4, 10, 0), (10, 20, 0)] {
            meter.note(ms(at), received, bytes);
        }
        let figures = meter.figures();
        assert_eq!(
            (figures.by_arrival.weight, figures.by_arrival.mean),
            (2, 25.0)
        );
        assert!((figures.by_time.mean - 20.0).abs() < 1e-9);
    }
}
