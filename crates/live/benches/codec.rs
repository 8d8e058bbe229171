//! What encoding and decoding cost per source packet of 1,200 bytes: windows and losses as in the plan.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use mpquic_live::rlc::{DENSE, Decoder, Encoder};

fn codec(c: &mut Criterion) {
    let content = [0x5a; 1_190];
    for (sources, lost) in [(16, 2), (32, 4), (64, 16), (128, 16)] {
        let mut group = c.benchmark_group(format!("{sources} sources, {lost} lost"));
        group.throughput(Throughput::Elements(sources as u64));
        let mut encoder = Encoder::new(256);
        let mut symbol = Vec::with_capacity(2_048);
        group.bench_function("encode", |b| {
            b.iter(|| {
                let mut first = 0;
                for i in 0..sources {
                    let number = encoder.push(black_box(&content)).unwrap();
                    if i == 0 {
                        first = number;
                    }
                }
                for key in 0..lost as u16 {
                    symbol.clear();
                    encoder.encode(first, sources, key, DENSE, &mut symbol);
                    black_box(&symbol);
                }
            });
        });
        let mut encoder = Encoder::new(256);
        for _ in 0..sources {
            encoder.push(&content).unwrap();
        }
        let symbols: Vec<Vec<u8>> = (0..lost as u16)
            .map(|key| {
                let mut symbol = Vec::new();
                encoder.encode(0, sources, key, DENSE, &mut symbol);
                symbol
            })
            .collect();
        // Each time further on in the stream, so that buffers are those of the steady state.
        let mut decoder = Decoder::new();
        let mut begin = 0_u32;
        group.bench_function("decode", |b| {
            b.iter_batched(
                || (),
                |()| {
                    for i in 0..sources {
                        // The lost ones lie apart.
                        if i % (sources / lost) != 0 || i / (sources / lost) >= lost {
                            decoder.source(begin.wrapping_add(i as u32), black_box(&content));
                        }
                    }
                    for (key, symbol) in symbols.iter().enumerate() {
                        decoder.repair(begin, sources, key as u16, DENSE, symbol);
                    }
                    let mut back = 0;
                    while decoder.recovered().is_some() {
                        back += 1;
                    }
                    assert_eq!(back, lost);
                    begin = begin.wrapping_add(sources as u32);
                },
                BatchSize::SmallInput,
            );
        });
        group.finish();
    }
}

criterion_group!(benches, codec);
criterion_main!(benches);
