//! What many connections hold, each with two paths, by a counting allocator: while they idle, while all of them move data
//! at once, and after that. Client and server have a thread each, so that each side's memory is told apart.
//!
//! `IDLE_CONNECTIONS=20000` has so many of them instead of 2,000.

mod common;

use std::cell::Cell;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use common::{client_config, identity, loopback, server_config};
use mpquic::{Connection, Endpoint, TransportConfig};
use mpquic_test_support::allocator::{Change, Counting};
use tokio::task::JoinSet;

/// Bytes that an idle connection may hold beside its paths, and for each path: everything, down to the task and the
/// timer of the runtime. It is 20,600; on a busy machine, some of them still have what they were about to send again.
const CONNECTION: i64 = 22_000;
const PATH: i64 = 4_000;
const PATHS: i64 = 2;

/// Bytes of a request and of its answer, how many connections ask at once, and what one may hold at the peak of that: up to
/// 24 kB of it are datagrams that were read so that no socket overflows, and wait for the task of the connection.
const REQUEST: usize = 64 << 10;
const BUSY: usize = 1_000;
const PEAK: i64 = 150_000;

const SIDES: usize = 3;
const CLIENT: usize = 1;
const SERVER: usize = 2;

/// Sizes are counted in steps of so many bytes; the last class has all that are larger.
const STEP: usize = 64;
const CLASSES: usize = 2048;

thread_local! {
    static SIDE: Cell<usize> = const { Cell::new(0) };
}

static HELD: [AtomicI64; SIDES] = [const { AtomicI64::new(0) }; SIDES];
static PEAKS: [AtomicI64; SIDES] = [const { AtomicI64::new(0) }; SIDES];
static BLOCKS: [[AtomicI64; CLASSES]; SIDES] =
    [const { [const { AtomicI64::new(0) }; CLASSES] }; SIDES];

fn count(change: Change) {
    if let Some(size) = change.freed {
        note(size, -1);
    }
    if let Some(size) = change.allocated {
        note(size, 1);
    }
}

fn note(size: usize, blocks: i64) {
    let side = SIDE.try_with(Cell::get).unwrap_or(0);
    let bytes = blocks * size as i64;
    let held = HELD[side].fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAKS[side].fetch_max(held, Ordering::Relaxed);
    BLOCKS[side][size.div_ceil(STEP).min(CLASSES - 1)].fetch_add(blocks, Ordering::Relaxed);
}

#[global_allocator]
static ALLOCATOR: Counting = Counting::new(count);

/// Runs one side on a thread of its own.
fn spawn<T: Send + 'static, F: Future<Output = T>>(
    side: usize,
    work: impl FnOnce() -> F + Send + 'static,
) -> std::thread::JoinHandle<T> {
    std::thread::spawn(move || {
        SIDE.set(side);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(work())
    })
}

fn held() -> [i64; SIDES] {
    std::array::from_fn(|side| HELD[side].load(Ordering::Relaxed))
}

/// What both sides hold once it does not change any more: for three seconds, since on a busy machine the timers by which
/// connections come to rest are late.
async fn settled() -> [i64; SIDES] {
    let mut before = held();
    let mut same = 0;
    while same < 30 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = held();
        same = if now == before { same + 1 } else { 0 };
        before = now;
    }
    before
}

fn blocks(side: usize) -> Vec<i64> {
    let classes = BLOCKS[side].iter();
    classes.map(|count| count.load(Ordering::Relaxed)).collect()
}

/// Of which sizes each connection holds how much.
fn print_largest(side: usize, before: &[i64], connections: i64) {
    let classes = blocks(side);
    let classes = classes.iter().zip(before).enumerate();
    let mut more: Vec<_> = classes
        .map(|(class, (now, before))| (class * STEP, now - before))
        .collect();
    more.sort_by_key(|(size, count)| std::cmp::Reverse(*size as i64 * count));
    for (size, count) in more.iter().take(16) {
        let each = *size as i64 * count / connections;
        println!(
            "    {each:>7} = {:.2} x {size}",
            *count as f64 / connections as f64
        );
    }
}

/// What the system counts for the process, bytes.
fn resident() -> Option<i64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: i64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * 4096)
}

/// Answers each stream with as much as came.
async fn serve(connection: Connection) {
    let answer = Bytes::from_static(&[7; REQUEST]);
    while let Ok((mut send, mut recv)) = connection.accept_bi().await {
        while recv.read_chunk(usize::MAX).await.unwrap().is_some() {}
        send.write_chunk(answer.clone()).await.unwrap();
        send.finish().unwrap();
    }
}

async fn ask(connection: Connection) {
    let request = Bytes::from_static(&[9; REQUEST]);
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    send.write_chunk(request).await.unwrap();
    send.finish().unwrap();
    let mut received = 0;
    while let Some(chunk) = recv.read_chunk(usize::MAX).await.unwrap() {
        received += chunk.len();
    }
    assert_eq!(received, REQUEST);
}

async fn connect(client: &Endpoint, server: SocketAddr, second: SocketAddr) -> Connection {
    let connection = client.connect(server, "localhost").unwrap().await.unwrap();
    connection.handshake_confirmed().await.unwrap();
    connection.open_path_from(second, server).await.unwrap();
    connection
}

/// So many connections more, some of them at a time.
async fn connect_all(
    client: &Endpoint,
    server: SocketAddr,
    connections: &mut Vec<Connection>,
    count: usize,
) {
    let second = client.local_addrs()[1];
    let mut tasks = JoinSet::new();
    for started in 0..count {
        if started >= 16 {
            connections.push(tasks.join_next().await.unwrap().unwrap());
        }
        let client = client.clone();
        tasks.spawn(async move { connect(&client, server, second).await });
    }
    while let Some(connection) = tasks.join_next().await {
        connections.push(connection.unwrap());
    }
}

#[test]
fn connections_hold_little_and_give_back_what_a_burst_took() {
    let count = std::env::var("IDLE_CONNECTIONS").map_or(2_000, |count| count.parse().unwrap());
    let identity = identity();
    let transport = || {
        let mut transport = TransportConfig::default();
        // However long it takes to make all of them, the first ones are still there.
        transport.max_idle_timeout(None);
        transport
    };
    let server = server_config(&identity, transport());
    let client = client_config(&identity, transport());
    drop(identity);

    let (address, addresses) = std::sync::mpsc::channel();
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let serving = spawn(SERVER, move || async move {
        let endpoint = Endpoint::server(server, &[loopback(1)]).unwrap();
        address.send(endpoint.local_addrs()[0]).unwrap();
        let accepting = endpoint.clone();
        tokio::spawn(async move {
            while let Some(incoming) = accepting.accept().await {
                tokio::spawn(async move {
                    // Where the machine stood still for a quarter of a second, clients made further attempts: those end.
                    if let Ok(connection) = incoming.await {
                        serve(connection).await;
                    }
                });
            }
        });
        ended.await.unwrap();
    });
    let address = addresses.recv().unwrap();

    let asking = spawn(CLIENT, move || async move {
        let endpoint = Endpoint::client(&[loopback(1), loopback(1)]).unwrap();
        endpoint.set_default_client_config(client);
        let mut connections = Vec::with_capacity(count + 64);
        // What the endpoints have however many connections there are.
        connect_all(&endpoint, address, &mut connections, 64).await;
        let before = settled().await;
        let before_blocks = [CLIENT, SERVER].map(blocks);
        let before_resident = resident();

        connect_all(&endpoint, address, &mut connections, count).await;
        let idle = settled().await;
        let each =
            |held: [i64; SIDES], side: usize, n: usize| (held[side] - before[side]) / n as i64;
        for (side, name) in [(CLIENT, "client"), (SERVER, "server")] {
            println!(
                "{name}: an idle connection holds {} bytes",
                each(idle, side, count)
            );
            print_largest(side, &before_blocks[side - 1], count as i64);
        }
        if let (Some(before), Some(now)) = (before_resident, resident()) {
            println!(
                "resident, both sides: {} bytes for each",
                (now - before) / count as i64
            );
        }

        let idle_blocks = [CLIENT, SERVER].map(blocks);
        for (side, held) in idle.iter().enumerate() {
            PEAKS[side].store(*held, Ordering::Relaxed);
        }
        let mut tasks = JoinSet::new();
        for connection in connections.iter().take(BUSY) {
            tasks.spawn(ask(connection.clone()));
        }
        let mut done = 0;
        while let Some(asked) = tasks.join_next().await {
            asked.unwrap();
            done += 1;
            if done == BUSY / 4 {
                for (side, name) in [(CLIENT, "client"), (SERVER, "server")] {
                    println!("{name}, while a quarter has its answer, beside the above:");
                    print_largest(side, &idle_blocks[side - 1], BUSY as i64);
                }
            }
        }
        drop(tasks);
        let peaks: [i64; SIDES] = std::array::from_fn(|side| PEAKS[side].load(Ordering::Relaxed));
        let after = settled().await;
        for (side, name) in [(CLIENT, "client"), (SERVER, "server")] {
            let idle_each = each(idle, side, count);
            let peak = idle_each + (peaks[side] - idle[side]) / BUSY.min(connections.len()) as i64;
            println!(
                "{name}: {peak} bytes each at the peak, {} after it",
                each(after, side, count)
            );
            assert!(
                idle_each <= CONNECTION + PATHS * PATH,
                "{name}: {idle_each}"
            );
            assert!(peak <= PEAK, "{name}: {peak}");
            let now = idle_each + (after[side] - idle[side]) / BUSY.min(connections.len()) as i64;
            assert!(
                now * 10 <= idle_each * 12,
                "{name}: {now}, idle {idle_each}"
            );
        }
        end.send(()).unwrap();
    });
    asking.join().unwrap();
    serving.join().unwrap();
}
