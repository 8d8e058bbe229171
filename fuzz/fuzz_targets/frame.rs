//! A decrypted payload: whatever it holds, decoding its frames ends in frames or an error.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mpquic_proto::fuzzing::frames(data));
