//! Address validation tokens: as plain text, as what a client sends, and genuine ones that were changed. None is read
//! as anything but what it is, and only a genuine one proves an address.
#![no_main]

use std::time::Instant;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    mpquic_proto::fuzzing::token(Instant::now(), data);
});
