//! Datagrams to a server, some of them Initial packets whose frames are arbitrary: it answers or not,
//! and its connections go on or end, but nothing panics.
#![no_main]

use std::time::Instant;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    mpquic_proto::fuzzing::server(Instant::now(), data);
});
