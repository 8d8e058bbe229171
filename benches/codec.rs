//! What the codecs cost: frames of a bulk packet and of an acknowledgement, packet headers; each way.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use mpquic_proto::fuzzing::samples;

/// Appends what a packet carries.
type Encode = fn(&mut Vec<u8>);

fn codec(c: &mut Criterion) {
    let mut group = c.benchmark_group("codec");
    let kinds: [(&str, Encode); 3] = [
        ("stream_packet", samples::encode_stream_payload),
        ("ack_5_ranges", samples::encode_ack_payload),
        ("control_frames", samples::encode_control_payload),
    ];
    for (name, encode) in kinds {
        let mut payload = Vec::with_capacity(1500);
        encode(&mut payload);
        group.throughput(Throughput::Bytes(payload.len() as u64));
        group.bench_function(format!("encode/{name}"), |b| {
            let mut buf = Vec::with_capacity(1500);
            b.iter(|| {
                buf.clear();
                encode(&mut buf);
                black_box(buf.len())
            });
        });
        group.bench_function(format!("decode/{name}"), |b| {
            b.iter(|| samples::decode_payload(black_box(&payload)));
        });
    }
    let mut datagram = Vec::new();
    samples::encode_short_header(&mut datagram);
    datagram.resize(1452, 0);
    group.throughput(Throughput::Elements(1));
    group.bench_function("encode/short_header", |b| {
        let mut buf = Vec::with_capacity(64);
        b.iter(|| {
            buf.clear();
            samples::encode_short_header(&mut buf);
            black_box(buf.len())
        });
    });
    group.bench_function("decode/short_header", |b| {
        b.iter(|| samples::decode_header(black_box(&datagram)));
    });
    group.finish();
}

criterion_group!(benches, codec);
criterion_main!(benches);
