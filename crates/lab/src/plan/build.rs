//! The identity of the build, so that results of different code are not mixed.

use std::hash::Hasher as _;

use siphasher::sip128::{Hasher128 as _, SipHasher13};

/// The version, a hash of the sources that decide what a run does, and the features that add schedulers. Equal on all machines
/// and for all optimisation levels, which change no result.
pub(crate) fn identity() -> String {
    let neural = if cfg!(feature = "neural") {
        "+neural"
    } else {
        ""
    };
    let (version, sources) = (env!("CARGO_PKG_VERSION"), env!("MPQUIC_SOURCES"));
    format!("{version}-{sources}{neural}")
}

/// A hash of the running program's file, for programs with schedulers of their own; empty if the file cannot be read.
pub(crate) fn program() -> String {
    let bytes = std::env::current_exe().and_then(std::fs::read);
    bytes.map_or_else(
        |_| String::new(),
        |bytes| {
            let mut hasher = SipHasher13::new();
            hasher.write(&bytes);
            format!("{:016x}", hasher.finish128().h1)
        },
    )
}
