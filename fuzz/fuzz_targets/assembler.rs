//! Received stream data in any order, with any overlap, read at any time: it comes out as it is.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mpquic_proto::fuzzing::assembler(data));
