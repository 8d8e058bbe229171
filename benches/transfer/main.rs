//! 64 MiB from a server to a client, both in memory, in virtual time: what the protocol code of both
//! sides costs, and quinn-proto's on the same in-memory pair beside it. The same in datagrams, without tags and with: who
//! sends those with a tag is told what became of each.

mod ours;
mod quinn_pair;

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

/// Bytes per transfer.
const SIZE: usize = 64 << 20;

/// Bytes of a datagram: one fits into a packet, two do not.
const DATAGRAM: usize = 1024;

/// Every application write and read moves at most so many bytes.
const CHUNK: usize = 64 << 10;

/// One way, of every path.
const DELAY: Duration = Duration::from_micros(200);

/// UDP payload of every packet: both stacks send the same number of packets.
const MTU: u16 = 1452;

/// Both stacks have these windows.
const WINDOW: u64 = 16 << 20;

fn transfer(c: &mut Criterion) {
    let mut group = c.benchmark_group("transfer");
    group
        .throughput(Throughput::Bytes(SIZE as u64))
        .sample_size(20)
        .measurement_time(Duration::from_secs(15));
    for paths in [1, 2] {
        group.bench_function(BenchmarkId::new("mpquic", format!("{paths}path")), |b| {
            b.iter_batched(
                || ours::pair(paths),
                ours::transfer,
                criterion::BatchSize::PerIteration,
            );
        });
    }
    group.bench_function(BenchmarkId::new("mpquic-qlog", "2path"), |b| {
        b.iter_batched(
            || ours::written_pair(2),
            ours::written_transfer,
            criterion::BatchSize::PerIteration,
        );
    });
    for (name, tagged) in [("mpquic-datagrams", false), ("mpquic-tagged", true)] {
        group.bench_function(BenchmarkId::new(name, "2path"), |b| {
            b.iter_batched(
                || ours::pair(2),
                |pair| ours::datagrams(pair, tagged),
                criterion::BatchSize::PerIteration,
            );
        });
    }
    group.bench_function(BenchmarkId::new("quinn-proto", "1path"), |b| {
        b.iter_batched(
            quinn_pair::pair,
            quinn_pair::transfer,
            criterion::BatchSize::PerIteration,
        );
    });
    group.finish();
}

criterion_group!(benches, transfer);
criterion_main!(benches);
