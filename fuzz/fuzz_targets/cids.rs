//! Connection IDs in both directions against a model.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    mpquic_hostile::fuzz::cids(data);
});
