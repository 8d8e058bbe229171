//! The two processes that are measured: a server and a client, told by lines what to do.

use std::io::{BufRead, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use clap::Args;
use rustix::thread::{CpuSet, sched_setaffinity};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Handle, Runtime};

use crate::stack::{Calls, Result, Stack, Variant};
use crate::storm::Storm;

/// Bytes of a small request's answer.
const SMALL: u64 = 1 << 10;

/// Bytes of a large request's answer.
const LARGE: u64 = 64 << 10;

/// Handshakes before a storm.
const BEFORE: usize = 200;

/// Bytes that a connection has under way at most when requests come at a rate, but two requests; and requests at most.
const UNDER_WAY_BYTES: u64 = 64 << 10;
const UNDER_WAY: u64 = 64;

/// So long those that are under way at the end of a measurement may take.
const LATE: Duration = Duration::from_secs(2);

/// Handshakes that a client has under way at once when it makes many connections.
const AT_ONCE: usize = 16;

#[derive(Debug, Clone, Args)]
pub(crate) struct ServerOptions {
    /// A thread on each of these cores
    #[arg(long, value_delimiter = ',')]
    pub(crate) cores: Vec<usize>,
    #[arg(long)]
    pub(crate) certificate: PathBuf,
    #[arg(long)]
    pub(crate) chunks: bool,
    /// With its default limits for half-open connections
    #[arg(long)]
    pub(crate) guarded: bool,
    /// The largest datagram, if not the default
    #[arg(long)]
    pub(crate) mtu: Option<u16>,
    /// Without segmentation offload
    #[arg(long)]
    pub(crate) one_by_one: bool,
    /// What is other than the stack has it
    #[arg(long, value_enum, default_value_t)]
    pub(crate) variant: Variant,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ClientOptions {
    /// A thread with a client on each of these cores
    #[arg(long, value_delimiter = ',')]
    pub(crate) cores: Vec<usize>,
    #[arg(long)]
    pub(crate) certificate: PathBuf,
    #[arg(long)]
    pub(crate) server: SocketAddr,
    #[arg(long)]
    pub(crate) chunks: bool,
    /// The local addresses, each with a path
    #[arg(long, value_delimiter = ',', default_values_t = [Ipv4Addr::LOCALHOST])]
    pub(crate) bind: Vec<Ipv4Addr>,
    /// bulk, up, requests, paced, handshakes, storm, many or idle
    #[arg(long)]
    pub(crate) work: String,
    /// Bytes, requests, handshakes or connections
    #[arg(long)]
    pub(crate) amount: u64,
    /// Bytes of an answer, for `requests` and `paced`
    #[arg(long, default_value_t = SMALL)]
    pub(crate) size: u64,
    /// Requests a second on all connections, for `paced`
    #[arg(long, default_value_t = 1000)]
    pub(crate) rate: u64,
    /// Resume sessions
    #[arg(long)]
    pub(crate) resume: bool,
    /// Seconds, for `storm`, `paced`, `many` and `idle`
    #[arg(long, default_value_t = 5)]
    pub(crate) seconds: u64,
    /// The largest datagram, if not the default
    #[arg(long)]
    pub(crate) mtu: Option<u16>,
    /// Without segmentation offload
    #[arg(long)]
    pub(crate) one_by_one: bool,
    /// What is other than the stack has it
    #[arg(long, value_enum, default_value_t)]
    pub(crate) variant: Variant,
}

fn pin(core: usize) -> Result<()> {
    let mut cores = CpuSet::new();
    cores.set(core);
    Ok(sched_setaffinity(None, &cores)?)
}

fn runtime() -> Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

fn say(line: &Value) {
    println!("{line}");
    // The other end of the pipe may be gone.
    let _ = std::io::stdout().flush();
}

/// Waits for the next line; false at the end of all.
fn hear() -> bool {
    let mut line = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut line)
        .is_ok_and(|read| read > 0)
}

/// Serves; says with each line that comes what it counted, and ends when no more can come.
pub(crate) fn serve<S: Stack>(options: &ServerOptions) -> Result<()> {
    let runtimes: Vec<Runtime> = options
        .cores
        .iter()
        .map(|_| runtime())
        .collect::<Result<_>>()?;
    let handles: Vec<Handle> = runtimes.iter().map(|one| one.handle().clone()).collect();
    let calls = Calls {
        chunks: options.chunks,
        guarded: options.guarded,
        mtu: options.mtu,
        one_by_one: options.one_by_one,
        variant: options.variant,
        resume: false,
    };
    let (address, counted) = S::serve(&handles, &options.certificate, calls)?;
    for (runtime, core) in runtimes.into_iter().zip(options.cores.clone()) {
        std::thread::spawn(move || {
            pin(core).expect("a core of this machine");
            runtime.block_on(std::future::pending::<()>());
        });
    }
    say(&json!({ "address": address.to_string(), "pid": std::process::id() }));
    while hear() {
        say(&counted());
    }
    std::process::exit(0);
}

/// Connects, says so, does its work at the next line, says what came of it, and ends with the line after that.
pub(crate) fn drive<S: Stack>(options: &ClientOptions) -> Result<()> {
    let mut threads = Vec::new();
    for core in options.cores.clone() {
        let options = options.clone();
        let (go, gone) = mpsc::channel();
        let (ready, is_ready) = mpsc::channel();
        let (done, is_done) = mpsc::channel();
        std::thread::spawn(move || {
            let result = pin(core).and_then(|()| runtime()).and_then(|runtime| {
                // As a task: each waking of the future that a runtime of one thread blocks on costs tokio a system call.
                let result = runtime
                    .block_on(async { tokio::spawn(work::<S>(options, ready, gone)).await? });
                // Taking it down is not to be measured.
                std::mem::forget(runtime);
                result
            });
            let _ = done.send(result);
            // The system forgets what a thread has used when it ends.
            loop {
                std::thread::park();
            }
        });
        threads.push((go, is_ready, is_done));
    }
    for (_, ready, _) in &threads {
        // An error comes with the results.
        let _ = ready.recv();
    }
    say(&json!({ "ready": true, "pid": std::process::id() }));
    hear();
    let begin = Instant::now();
    for (go, _, _) in &threads {
        let _ = go.send(());
    }
    let mut results = Vec::new();
    for (_, _, done) in &threads {
        results.extend(done.recv()??);
    }
    say(&json!({ "seconds": begin.elapsed().as_secs_f64(), "results": results }));
    hear();
    std::process::exit(0);
}

async fn work<S: Stack>(
    options: ClientOptions,
    ready: mpsc::Sender<()>,
    go: mpsc::Receiver<()>,
) -> Result<Vec<Value>> {
    let calls = Calls {
        chunks: options.chunks,
        guarded: false,
        mtu: options.mtu,
        one_by_one: options.one_by_one,
        variant: options.variant,
        resume: options.resume,
    };
    let client = Arc::new(S::client(&options.certificate, &options.bind, calls)?);
    let (server, amount) = (options.server, options.amount);
    // Blocks the thread: nothing is to happen until all are ready.
    let start = move || {
        let _ = ready.send(());
        let _ = go.recv();
    };
    match options.work.as_str() {
        "bulk" => {
            let connection = client.connect(server).await?;
            // The window opens, and memory is there.
            S::fetch(&connection, amount / 8, calls).await?;
            let before = S::datagrams(&connection);
            start();
            S::fetch(&connection, amount, calls).await?;
            let sent = S::datagrams(&connection) - before;
            Ok(vec![json!({ "datagrams": sent })])
        }
        "up" => {
            let connection = client.connect(server).await?;
            S::give(&connection, amount / 8, calls).await?;
            let before = S::datagrams(&connection);
            start();
            S::give(&connection, amount, calls).await?;
            let sent = S::datagrams(&connection) - before;
            Ok(vec![json!({ "datagrams": sent })])
        }
        "requests" => {
            let connection = client.connect(server).await?;
            for _ in 0..amount / 10 {
                S::fetch(&connection, options.size, calls).await?;
            }
            let before = S::datagrams(&connection);
            start();
            let mut times = Vec::new();
            for _ in 0..amount {
                let begin = Instant::now();
                S::fetch(&connection, options.size, calls).await?;
                times.push(begin.elapsed());
            }
            let mut told = quantiles(times);
            told["datagrams"] = json!(S::datagrams(&connection) - before);
            Ok(vec![told])
        }
        "paced" => {
            let connections = connect_all::<S>(&client, server, amount).await?;
            for connection in &connections {
                S::fetch(connection, options.size, calls).await?;
            }
            start();
            Ok(vec![paced::<S>(&connections, &options, calls).await?])
        }
        "handshakes" => {
            drop(client.connect(server).await?);
            start();
            let mut times = Vec::new();
            for _ in 0..amount {
                let begin = Instant::now();
                let connection = client.connect(server).await?;
                times.push(begin.elapsed());
                if options.resume {
                    // The tickets come with the first answer.
                    S::fetch(&connection, 1, calls).await?;
                }
            }
            Ok(vec![quantiles(times)])
        }
        "storm" => {
            let storm = Storm::new(&options.certificate, server, amount as usize).await?;
            let handshake = async || {
                let begin = Instant::now();
                drop(client.connect(server).await?);
                Ok::<_, crate::stack::Error>(begin.elapsed().as_secs_f64() * 1e6)
            };
            let mut before = Vec::new();
            for _ in 0..BEFORE {
                before.push(handshake().await?);
            }
            before.sort_by(f64::total_cmp);
            start();
            let end = Instant::now() + Duration::from_secs(options.seconds);
            storm.send(server)?;
            let first = handshake().await?;
            let mut all = vec![first];
            while Instant::now() < end {
                all.push(handshake().await?);
            }
            all.sort_by(f64::total_cmp);
            Ok(vec![json!({
                "before_us": before[BEFORE / 2],
                "first_us": first,
                "median_us": all[all.len() / 2],
                "slowest_us": all[all.len() - 1],
            })])
        }
        "many" => {
            let connections = connect_all::<S>(&client, server, amount).await?;
            for connection in &connections {
                S::fetch(connection, LARGE, calls).await?;
            }
            start();
            let end = Instant::now() + Duration::from_secs(options.seconds);
            let tasks: Vec<_> = connections
                .into_iter()
                .map(|connection| {
                    tokio::spawn(async move {
                        let mut count = 0_u64;
                        while Instant::now() < end {
                            S::fetch(&connection, LARGE, calls).await?;
                            count += 1;
                        }
                        Ok::<_, crate::stack::Error>(count)
                    })
                })
                .collect();
            let mut counts = Vec::new();
            for task in tasks {
                counts.push(json!(task.await??));
            }
            Ok(counts)
        }
        "idle" => {
            let connections = connect_all::<S>(&client, server, amount).await?;
            // Until the last acknowledgement and the last probe of the path MTU have been sent.
            tokio::time::sleep(Duration::from_secs(5)).await;
            start();
            tokio::time::sleep(Duration::from_secs(options.seconds)).await;
            Ok(vec![json!(connections.len())])
        }
        other => Err(format!("no such work: {other}").into()),
    }
}

/// The median, and what one in a hundred exceeds.
fn quantiles(mut times: Vec<Duration>) -> Value {
    times.sort_unstable();
    let at = |share: f64| times[(times.len() as f64 * share) as usize].as_secs_f64() * 1e6;
    json!({ "p50_us": at(0.5), "p99_us": at(0.99), "count": times.len() })
}

/// Requests at a rate, on one connection after the other, whether or not those before are answered. Those that find too many
/// under way are left out, and counted.
async fn paced<S: Stack>(
    connections: &[S::Connection],
    options: &ClientOptions,
    calls: Calls,
) -> Result<Value> {
    let (size, rate) = (options.size, options.rate);
    let total = rate * options.seconds;
    let most = (UNDER_WAY_BYTES / size.max(1)).clamp(2, UNDER_WAY) * connections.len() as u64;
    let under_way = Arc::new(AtomicU64::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    let (mut begun, mut left_out) = (0, 0_u64);
    let sent = || connections.iter().map(S::datagrams).sum::<f64>();
    let before = sent();
    let begin = tokio::time::Instant::now();
    while begun < total {
        let due = (begin.elapsed().as_secs_f64() * rate as f64) as u64;
        while begun < due.min(total) {
            let connection = &connections[(begun % connections.len() as u64) as usize];
            begun += 1;
            if under_way.load(Ordering::Relaxed) >= most {
                left_out += 1;
                continue;
            }
            under_way.fetch_add(1, Ordering::Relaxed);
            let (connection, under_way) = (connection.clone(), Arc::clone(&under_way));
            tasks.spawn(async move {
                let begin = Instant::now();
                let fetched = S::fetch(&connection, size, calls).await;
                under_way.fetch_sub(1, Ordering::Relaxed);
                fetched.map(|()| begin.elapsed())
            });
        }
        let next = Duration::from_secs_f64((begun + 1) as f64 / rate as f64);
        tokio::time::sleep_until(begin + next).await;
    }
    let mut times = Vec::new();
    let end = tokio::time::Instant::now() + LATE;
    while let Ok(Some(task)) = tokio::time::timeout_at(end, tasks.join_next()).await {
        times.push(task??);
    }
    left_out += tasks.len() as u64;
    let mut told = quantiles(times);
    told["left_out"] = json!(left_out);
    told["datagrams"] = json!(sent() - before);
    Ok(told)
}

async fn connect_all<S: Stack>(
    client: &Arc<S>,
    server: SocketAddr,
    count: u64,
) -> Result<Vec<S::Connection>> {
    let mut connections = Vec::new();
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..count {
        if waiting.len() == AT_ONCE
            && let Some(done) = waiting.join_next().await
        {
            connections.push(done??);
        }
        let client = Arc::clone(client);
        waiting.spawn(async move { client.connect(server).await });
    }
    while let Some(done) = waiting.join_next().await {
        connections.push(done??);
    }
    Ok(connections)
}
