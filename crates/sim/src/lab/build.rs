//! Tells one build of the program from another, so that results of different code are not mixed; knows no version control.

use std::hash::Hasher as _;

use siphasher::sip128::{Hasher128 as _, SipHasher13};

/// A hash of the running program's file; the version alone if it cannot be read.
pub(crate) fn fingerprint() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let bytes = std::env::current_exe().and_then(std::fs::read);
    match bytes {
        Ok(bytes) => {
            let mut hasher = SipHasher13::new();
            hasher.write(&bytes);
            format!("{version}-{:016x}", hasher.finish128().h1)
        }
        Err(_) => version.to_owned(),
    }
}
