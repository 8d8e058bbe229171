//! qlog of simulated connections: written at once, by whoever steps the simulation, in its own time.

use std::io::Write;
use std::time::Instant;

use mpquic_proto::{Observer, Started};

use crate::encode::Encoder;
use crate::record::{Rare, Record, Timed};
use crate::recorder::{Recorder, Sink};
use crate::schema::stem;

/// Text is handed on in pieces of about this size, bytes.
const CHUNK: usize = 64 * 1024;

/// An observer that writes as the connection goes, on the caller's thread, with times since `origin`. What it writes
/// follows from the connection alone: the same run gives the same bytes. For simulations; live connections have
/// [`Qlog`](crate::Qlog).
///
/// `open` is given the name of the file without its ending when the connection begins, and returns what to write to;
/// nothing is written if it returns `None`, or after a failure to write.
pub fn direct<W: Write + Send + 'static>(
    origin: Instant,
    open: impl FnOnce(&str) -> Option<W> + Send + 'static,
) -> Box<dyn Observer> {
    let sink = Direct {
        open: Some(open),
        to: None,
        encoder: Encoder::new(),
    };
    Box::new(Recorder::new(sink, Some(origin)))
}

struct Direct<W: Write, F> {
    open: Option<F>,
    to: Option<W>,
    encoder: Encoder,
}

impl<W: Write, F> Direct<W, F> {
    fn flush(&mut self) {
        let text = self.encoder.output();
        let written = match &mut self.to {
            Some(to) => to.write_all(text),
            None => Ok(()),
        };
        text.clear();
        if let Err(error) = written {
            tracing::warn!(%error, "qlog ends: cannot write");
            self.to = None;
        }
    }
}

impl<W: Write, F: FnOnce(&str) -> Option<W>> Direct<W, F> {
    fn begin(&mut self, started: &Started) {
        if let Some(open) = self.open.take() {
            self.to = open(&stem(started));
            self.encoder.begin(started, None);
        }
    }
}

impl<W: Write + Send, F: FnOnce(&str) -> Option<W> + Send> Sink for Direct<W, F> {
    fn put(&mut self, records: &mut Vec<Timed>) {
        for timed in records.drain(..) {
            if let Record::Rare(rare) = &timed.record
                && let Rare::Started(started) = &**rare
            {
                self.begin(started);
            }
            if self.to.is_some() {
                self.encoder.record(&timed);
            }
        }
        if self.encoder.output().len() >= CHUNK {
            self.flush();
        }
    }
}

impl<W: Write, F> Drop for Direct<W, F> {
    fn drop(&mut self) {
        self.flush();
        if let Some(to) = &mut self.to
            && let Err(error) = to.flush()
        {
            tracing::warn!(%error, "qlog is not whole: cannot write");
        }
    }
}
