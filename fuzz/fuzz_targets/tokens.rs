//! Tokens as they are, changed, elsewhere, later and again.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    mpquic_hostile::fuzz::tokens(data);
});
