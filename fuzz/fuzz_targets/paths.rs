//! The life of paths against a model.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    mpquic_hostile::fuzz::paths(data);
});
