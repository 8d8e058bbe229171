//! What users write, parsed and checked: experiment files, networks, patterns, names. And the most that is read of such a file.

pub(crate) mod experiment;
pub(crate) mod network;
pub(crate) mod pattern;
pub(crate) mod renamed;
pub(crate) mod scheduler_set;

use mpquic_sim::file::Limits;

pub(crate) use mpquic_sim::file::{Pieces, lines, pieces, read};

const MEGABYTE: u64 = 1_000_000;

/// An experiment: those of the papers have 6 kB.
pub(crate) const EXPERIMENT: Limits = Limits {
    file: 4 * MEGABYTE,
    line: 4 * MEGABYTE,
};

/// A recording of rates.
pub(crate) const RECORDING: Limits = Limits {
    file: 256 * MEGABYTE,
    line: MEGABYTE,
};

/// Results and time lines. A line has all chunks of a run, or all networks of an experiment.
pub(crate) const RESULTS: Limits = Limits {
    file: 16_000 * MEGABYTE,
    line: 256 * MEGABYTE,
};

/// A qlog: some hundred bytes a packet.
pub(crate) const QLOG: Limits = Limits {
    file: 1000 * MEGABYTE,
    line: MEGABYTE,
};
