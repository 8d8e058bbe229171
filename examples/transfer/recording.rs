//! Records what schedulers experience to a file for training.

use std::path::Path;

use mpquic::sched::record::{RecordError, Recorder, RecorderConfig};

/// Starts a recording to this file.
pub(crate) fn begin(file: &Path) -> Result<Recorder, RecordError> {
    Recorder::create(file, &RecorderConfig::default())
}

/// Writes the remaining records, and prints warnings to stderr.
pub(crate) fn end(recorder: &Recorder) -> Result<(), RecordError> {
    let written = recorder.flush()?;
    let file = recorder.path().display();
    if written.connections == 0 {
        note!(
            "warning: nothing was recorded in {file}: only schedulers that learn tell what they do"
        );
    }
    if written.dropped > 0 {
        let (dropped, records) = (written.dropped, written.records);
        note!("warning: {dropped} records are missing in {file} beside {records} that are there");
    }
    Ok(())
}
