//! The parser and the receiver of live frames: what they read and hold, whatever comes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    mpquic_hostile::fuzz::live(data);
});
