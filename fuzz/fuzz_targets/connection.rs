//! Any frames, packets, addresses, times and application calls on a whole connection with several paths.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    mpquic_hostile::fuzz::connection(data);
});
