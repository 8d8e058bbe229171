//! Transport parameters of either side: whatever they hold, they are parameters or an error.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mpquic_proto::fuzzing::transport_parameters(data));
