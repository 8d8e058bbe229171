//! A fingerprint of the program, so that results of different builds are not mixed.

use std::hash::Hasher as _;

use siphasher::sip128::{Hasher128 as _, SipHasher13};

/// A hash of the running program's file; only the version if the file cannot be read.
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
