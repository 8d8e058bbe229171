//! What an idle connection holds: after its handshake and after a transfer, with one path and with two.

mod pair;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use mpquic_proto::{Connection, Dir, ReadError, TransportConfig};
use mpquic_test_support::allocator::{Change, Counting};
use pair::{Pair, tuple};

/// Bytes that an idle connection may hold beside its paths, and for each path.
const CONNECTION: i64 = 16_500;
const PATH: i64 = 4_200;

thread_local! {
    static HELD: Cell<i64> = const { Cell::new(0) };
    static WATCH: Cell<bool> = const { Cell::new(false) };
    static FREED: RefCell<BTreeMap<usize, usize>> = const { RefCell::new(BTreeMap::new()) };
}

fn count(change: Change) {
    HELD.set(HELD.get() + change.growth());
    if change.allocated.is_none()
        && let Some(size) = change.freed
    {
        note_freed(size);
    }
}

fn note_freed(size: usize) {
    // What the map itself allocates is not what is looked for.
    if WATCH.replace(false) {
        FREED.with(|freed| *freed.borrow_mut().entry(size).or_default() += 1);
        WATCH.set(true);
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting::new(count);

/// A pair of idle connections.
fn idle(paths: u8, transfer: usize) -> Pair {
    let mut pair = Pair::new(TransportConfig::default(), TransportConfig::default());
    pair.connect();
    for path in 1..paths {
        let now = pair.now;
        let id = pair.c().open_path(now, tuple(path)).unwrap();
        let validated = |pair: &mut Pair| pair.both_validated(id);
        assert!(pair.run_until(Duration::from_secs(5), validated));
    }
    if transfer > 0 {
        let id = pair.s().streams().open(Dir::Uni).unwrap();
        let (mut written, mut buf) = (0, vec![0; 10_000]);
        let done = pair.run_until(Duration::from_secs(60), |pair| {
            while written < transfer
                && let Ok(n) = pair
                    .s()
                    .send_stream(id)
                    .write(&buf[..(transfer - written).min(10_000)])
            {
                written += n;
                if written == transfer {
                    pair.s().send_stream(id).finish().unwrap();
                }
            }
            loop {
                match pair.c().recv_stream(id).read(&mut buf) {
                    Ok(Some(_)) => {}
                    Ok(None) => return true,
                    Err(ReadError::Blocked | ReadError::ClosedStream) => return false,
                    Err(error) => panic!("{error}"),
                }
            }
        });
        assert!(done);
    }
    pair.run_until(Duration::from_secs(10), |_| false);
    pair
}

/// What the connection holds: what its end frees, and its own struct.
fn held(connection: Connection) -> i64 {
    assert!(!connection.is_closed());
    FREED.take();
    let before = HELD.get();
    WATCH.set(true);
    drop(connection);
    WATCH.set(false);
    before - HELD.get() + size_of::<Connection>() as i64
}

#[test]
fn an_idle_connection_holds_little() {
    let mut too_much = Vec::new();
    for (paths, transfer) in [(1, 0), (1, 1 << 20), (2, 0), (2, 1 << 20)] {
        let mut pair = idle(paths, transfer);
        for (side, name) in [(&mut pair.client, "client"), (&mut pair.server, "server")] {
            let connection = side.connection.take().unwrap().1;
            let bytes = held(connection);
            println!(
                "{name}, {paths} path(s), {transfer} bytes moved: {bytes} bytes, {} in the struct",
                size_of::<Connection>()
            );
            let freed = FREED.take();
            let mut largest: Vec<_> = freed
                .into_iter()
                .map(|(size, n)| (size * n, n, size))
                .collect();
            largest.sort_unstable_by(|a, b| b.cmp(a));
            for (total, count, size) in largest.iter().take(14) {
                println!("    {total:>7} = {count} x {size}");
            }
            if bytes > CONNECTION + i64::from(paths) * PATH {
                too_much.push((name, paths, transfer, bytes));
            }
        }
    }
    assert!(too_much.is_empty(), "{too_much:?}");
}
