//! A datagram: whatever it holds, it splits into packets or is refused.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mpquic_proto::fuzzing::datagram(data));
