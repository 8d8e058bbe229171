//! Codec and core allocate nothing once their buffers have grown.

use mpquic_live::rlc::{DENSE, Decoder, Encoder};
use mpquic_test_support::allocator::{Counting, allocations};

#[global_allocator]
static ALLOCATOR: Counting = Counting::PER_THREAD;

#[test]
fn the_codec_does_not_allocate() {
    let (mut encoder, mut decoder) = (Encoder::new(256), Decoder::new());
    let mut symbol = Vec::with_capacity(2_048);
    let content = [7; 1_200];
    let mut before = 0;
    let mut back = 0;
    for i in 0..20_000_u64 {
        if i == 5_000 {
            before = allocations();
        }
        encoder.push(&content).unwrap();
        if i % 7 != 0 {
            decoder.source(i as u32, &content);
        }
        if i % 5 == 4 && i > 128 {
            symbol.clear();
            encoder.encode(i - 63, 64, i as u16, DENSE, &mut symbol);
            decoder.repair(i as u32 - 63, 64, i as u16, DENSE, &symbol);
        }
        while decoder.recovered().is_some() {
            back += 1;
        }
    }
    assert_eq!(allocations(), before);
    assert!(back > 2_800, "{back}");
}
