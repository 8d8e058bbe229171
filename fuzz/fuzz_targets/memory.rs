//! The file in which endpoints keep what they know of paths.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    mpquic_hostile::fuzz::memory(data);
});
