//! Handshakes with anything in between, to clients and servers.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    mpquic_hostile::fuzz::handshake(data);
});
