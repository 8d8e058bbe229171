//! A client: downloads, uploads, small requests and datagrams over one connection, and others that come and go beside it.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use mpquic::{
    ClientConfig, Connection, Endpoint, FullMesh, InterfaceWatcher as _, LinkPolicy,
    SystemInterfaces,
};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::Error;
use crate::control::{Order, orders};
use crate::faulty::{Faulty, Plan};
use crate::holdings::{Holdings, tasks};
use crate::pattern::Pattern;
use crate::place::LINKS;
use crate::server::{CHUNK, DOWNLOAD, ECHO, REQUEST, UPLOAD};

/// Longer pauses between two answers to small requests are told.
const PAUSE: Duration = Duration::from_millis(300);

/// How long the system's buffer for what leaves is: so small that it is full.
const SEND_BUFFER: usize = 64 << 10;

/// A handshake that takes longer is given up and begun again.
const PATIENCE: Duration = Duration::from_secs(20);

/// A link that is up has a socket after so long.
const LINKS_BACK: Duration = Duration::from_secs(5);

/// How often another connection begins.
const VISITS: Duration = Duration::from_millis(700);

pub(crate) fn run(sockets: &str, server: SocketAddr, certificate: &str) -> Result<(), Error> {
    let faulty = match sockets {
        "faulty" => true,
        "system" => false,
        _ => return Err(format!("no such sockets: {sockets}").into()),
    };
    let digits = certificate.as_bytes().chunks(2);
    let bytes = digits.map(|pair| Ok(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?));
    let bytes = bytes.collect::<Result<Vec<u8>, Error>>()?;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(bytes.into())?;
    let config = ClientConfig::with_root_certificates(roots)?;
    let (counts, plan) = (Arc::new(Counts::default()), Arc::new(Plan::default()));
    let mut orders = orders();
    println!("ready");
    while let Some(order) = orders.blocking_recv() {
        if order != Order::Work {
            continue;
        }
        // One for each time that there is work: what its threads keep for the next connection goes with them.
        let mut builder = match faulty {
            // The clock of more threads cannot stand still.
            true => tokio::runtime::Builder::new_current_thread(),
            false => tokio::runtime::Builder::new_multi_thread(),
        };
        let runtime = builder.worker_threads(2).enable_all().build()?;
        let sockets = match faulty {
            true => Sockets::Faulty(Arc::clone(&plan)),
            false => Sockets::System,
        };
        let working = obey(sockets, server, config.clone(), &counts, &plan, &mut orders);
        let left = runtime.block_on(working)?;
        drop(runtime);
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        println!("bytes {}", count(&counts.bytes));
        println!("wrong {}", count(&counts.wrong));
        println!("requests {}", count(&counts.requests));
        println!("datagrams {}", count(&counts.datagrams));
        println!("visits {}", count(&counts.visits));
        println!("visits-missed {}", count(&counts.missed));
        println!("failed-calls {}", count(&plan.failed));
        println!("rested {}", Holdings::now(left));
    }
    Ok(())
}

/// What is counted over all of a process.
#[derive(Debug, Default)]
struct Counts {
    bytes: AtomicU64,
    wrong: AtomicU64,
    requests: AtomicU64,
    datagrams: AtomicU64,
    visits: AtomicU64,
    missed: AtomicU64,
}

/// Works until it is to rest. How many tasks are left.
async fn obey(
    sockets: Sockets,
    server: SocketAddr,
    config: ClientConfig,
    counts: &Arc<Counts>,
    plan: &Plan,
    orders: &mut UnboundedReceiver<Order>,
) -> Result<usize, Error> {
    let work = Work::begin(sockets, server, config, counts).await?;
    while let Some(order) = orders.recv().await {
        match order {
            Order::Work => {}
            Order::Rest => break,
            Order::Fail(fault) => plan.set(fault),
            Order::Stand(time) => {
                // While something blocks, the paused clock does not jump to the next timer.
                tokio::time::pause();
                tokio::task::spawn_blocking(move || std::thread::sleep(time)).await?;
                tokio::time::resume();
            }
        }
    }
    work.end().await;
    // The allocator is asked for memory three seconds later, and a thread that watches links looks every two.
    tokio::time::sleep(Duration::from_secs(4)).await;
    Ok(tasks())
}

enum Sockets {
    System,
    Faulty(Arc<Plan>),
}

/// What runs between two rests.
struct Work {
    endpoint: Endpoint,
    ends: watch::Sender<bool>,
    tasks: JoinSet<()>,
    /// Follows the links.
    follower: Option<tokio::task::JoinHandle<()>>,
}

impl Work {
    async fn begin(
        sockets: Sockets,
        server: SocketAddr,
        config: ClientConfig,
        counts: &Arc<Counts>,
    ) -> Result<Self, Error> {
        let builder = Endpoint::builder()
            .default_client(config)
            .socket_buffers(SEND_BUFFER, 2 << 20);
        let (endpoint, follower) = match sockets {
            Sockets::System => (builder.links(LinkPolicy::new()).build()?, None),
            Sockets::Faulty(plan) => {
                let mut watcher = SystemInterfaces::new()?;
                let first = ipv4(&watcher.next().await?);
                let mut builder = builder.path_manager(FullMesh::new());
                for ip in &first {
                    // It may be gone already.
                    if let Ok(socket) = Faulty::bind(SocketAddr::new(*ip, 0), &plan) {
                        builder = builder.abstract_socket(socket);
                    }
                }
                let endpoint = builder.build()?;
                let follower = tokio::spawn(follow(endpoint.clone(), watcher, plan));
                (endpoint, Some(follower))
            }
        };
        let (ends, ending) = watch::channel(false);
        let (tell, told) = watch::channel(None);
        let mut tasks = JoinSet::new();
        let common = Common {
            endpoint: endpoint.clone(),
            server,
            ending,
            connection: told,
            counts: Arc::clone(counts),
        };
        tasks.spawn(keep(common.clone(), tell));
        tasks.spawn(move_data(common.clone(), DOWNLOAD, 1));
        tasks.spawn(move_data(common.clone(), DOWNLOAD, 2));
        tasks.spawn(move_data(common.clone(), UPLOAD, 3));
        tasks.spawn(ask(common.clone()));
        tasks.spawn(throw(common.clone()));
        tasks.spawn(visit(common));
        Ok(Self {
            endpoint,
            ends,
            tasks,
            follower,
        })
    }

    async fn end(mut self) {
        // All links are up: each has a socket again, soon.
        let until = Instant::now() + LINKS_BACK;
        loop {
            let there = match SystemInterfaces::new() {
                Ok(mut now) => now
                    .next()
                    .await
                    .map_or_else(|_| BTreeSet::new(), |now| ipv4(&now)),
                Err(_) => BTreeSet::new(),
            };
            let bound = self.endpoint.local_addrs();
            let bound: BTreeSet<_> = bound.iter().map(SocketAddr::ip).collect();
            if there == bound && there.len() == usize::from(LINKS) {
                break;
            }
            if Instant::now() > until {
                println!("broken sockets on {bound:?}, the links have {there:?}");
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        self.ends.send_replace(true);
        while let Some(done) = self.tasks.join_next().await {
            if let Err(error) = done {
                println!("broken {error}");
            }
        }
        if let Some(follower) = self.follower {
            follower.abort();
            // It was.
            let _ = follower.await;
        }
        self.endpoint.close(0_u32.into(), b"rest");
        self.endpoint.wait_idle().await;
    }
}

fn ipv4(interfaces: &[mpquic::Interface]) -> BTreeSet<IpAddr> {
    let all = interfaces.iter().flat_map(|one| &one.addresses);
    all.filter(|ip| ip.is_ipv4()).copied().collect()
}

/// Keeps the sockets of the endpoint those of the links, as an application does that brings its own.
async fn follow(endpoint: Endpoint, mut watcher: SystemInterfaces, plan: Arc<Plan>) {
    let mut wanted = BTreeSet::new();
    loop {
        // What could not be bound is tried again.
        match tokio::time::timeout(Duration::from_secs(1), watcher.next()).await {
            Ok(Ok(interfaces)) => wanted = ipv4(&interfaces),
            Ok(Err(_)) => return,
            Err(_) => {}
        }
        let had: Vec<SocketAddr> = endpoint.local_addrs();
        for ip in &wanted {
            if !had.iter().any(|address| address.ip() == *ip)
                && let Ok(socket) = Faulty::bind(SocketAddr::new(*ip, 0), &plan)
            {
                // The address may be gone again.
                let _ = endpoint.adopt_abstract_socket(socket);
            }
        }
        if wanted.is_empty() {
            continue;
        }
        for address in had {
            if !wanted.contains(&address.ip()) {
                endpoint.remove_socket(address);
            }
        }
    }
}

#[derive(Clone)]
struct Common {
    endpoint: Endpoint,
    server: SocketAddr,
    ending: watch::Receiver<bool>,
    connection: watch::Receiver<Option<Connection>>,
    counts: Arc<Counts>,
}

impl Common {
    fn is_ending(&self) -> bool {
        *self.ending.borrow()
    }

    async fn connect(&self) -> Result<Connection, String> {
        let connecting = self.endpoint.connect(self.server, "localhost");
        let connecting = connecting.map_err(|error| error.to_string())?;
        match tokio::time::timeout(PATIENCE, connecting).await {
            Ok(done) => done.map_err(|error| error.to_string()),
            Err(_) => Err("no handshake".to_owned()),
        }
    }

    /// The connection, once there is one; `None` at the end.
    async fn current(&mut self) -> Option<Connection> {
        loop {
            if self.is_ending() {
                return None;
            }
            let there = self.connection.borrow_and_update().clone();
            if let Some(connection) = there.filter(|one| one.close_reason().is_none()) {
                return Some(connection);
            }
            tokio::select! {
                _ = self.connection.changed() => {}
                _ = self.ending.changed() => {}
            }
        }
    }

    /// Asks, and looks at the answer.
    async fn request(
        &self,
        connection: &Connection,
        kind: u8,
        seed: u64,
        len: usize,
    ) -> Result<(), Error> {
        let (mut send, mut recv) = connection.open_bi().await?;
        let mut request = [0; REQUEST];
        request[0] = kind;
        request[1..9].copy_from_slice(&seed.to_be_bytes());
        request[9..].copy_from_slice(&(len as u64).to_be_bytes());
        send.write_all(&request).await?;
        let (mut pattern, mut wrong) = (Pattern::new(seed), 0);
        let mut chunk = vec![0; CHUNK];
        match kind {
            DOWNLOAD => {
                send.finish()?;
                let (mut scratch, mut left) = (Vec::new(), len);
                while let Some(count) = recv.read(&mut chunk).await? {
                    wrong += pattern.wrong(&chunk[..count], &mut scratch);
                    left = left.wrapping_sub(count);
                }
                wrong += u64::from(left != 0);
            }
            UPLOAD => {
                let mut left = len;
                while left > 0 {
                    let now = left.min(CHUNK);
                    pattern.fill(&mut chunk[..now]);
                    send.write_all(&chunk[..now]).await?;
                    left -= now;
                }
                send.finish()?;
                let mut answer = [0; 8];
                recv.read_exact(&mut answer).await?;
                wrong += u64::from_be_bytes(answer);
            }
            _ => {
                send.finish()?;
                let answer = recv.read_to_end(CHUNK).await?;
                wrong += u64::from(answer != request);
            }
        }
        self.counts.bytes.fetch_add(len as u64, Ordering::Relaxed);
        self.counts.wrong.fetch_add(wrong, Ordering::Relaxed);
        self.counts.requests.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// Has one connection, for as long as there is work. That it is lost is told.
async fn keep(common: Common, tell: watch::Sender<Option<Connection>>) {
    let mut ending = common.ending.clone();
    while !common.is_ending() {
        let connection = tokio::select! {
            connected = common.connect() => match connected {
                Ok(connection) => connection,
                Err(error) => {
                    println!("unreached {error}");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            },
            _ = ending.changed() => continue,
        };
        tell.send_replace(Some(connection.clone()));
        let reason = tokio::select! {
            reason = connection.closed() => reason,
            // The workers end what they have begun.
            _ = ending.changed() => return,
        };
        println!("lost {reason}");
    }
}

async fn move_data(mut common: Common, kind: u8, worker: u64) {
    let mut round = worker << 32;
    while let Some(connection) = common.current().await {
        round += 1;
        let len = 100_000 + (Pattern::sample(round) % 2_000_000) as usize;
        let done = common.request(&connection, kind, round, len).await;
        if let Err(error) = done
            && connection.close_reason().is_none()
        {
            println!("broken a transfer: {error}");
        }
    }
}

/// Small requests one behind the other: how long nothing comes back.
async fn ask(mut common: Common) {
    // The real clock: another one may stand still.
    let mut last = Instant::now();
    while let Some(connection) = common.current().await {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let done = common.request(&connection, ECHO, 0, 0).await;
        let pause = last.elapsed();
        last = Instant::now();
        if pause > PAUSE {
            println!("paused {}", pause.as_millis());
        }
        if let Err(error) = done
            && connection.close_reason().is_none()
        {
            println!("broken a request: {error}");
        }
    }
}

/// Datagrams there and back. They may be lost, and what comes is right.
async fn throw(mut common: Common) {
    let mut seed = 0_u64;
    while let Some(connection) = common.current().await {
        seed += 1;
        let mut bytes = vec![0; 900];
        Pattern::new(seed).fill(&mut bytes[8..]);
        bytes[..8].copy_from_slice(&seed.to_be_bytes());
        // It may not fit the path of the moment.
        let _ = connection.send_datagram(Bytes::from(bytes));
        let wait = Duration::from_millis(30);
        while let Ok(Ok(came)) = tokio::time::timeout(wait, connection.read_datagram()).await {
            let Some((head, rest)) = came.split_first_chunk::<8>() else {
                common.counts.wrong.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            let mut pattern = Pattern::new(u64::from_be_bytes(*head));
            let wrong = pattern.wrong(rest, &mut Vec::new()) + u64::from(rest.len() != 892);
            common.counts.wrong.fetch_add(wrong, Ordering::Relaxed);
            common.counts.datagrams.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Other connections of the endpoint come, ask once and go.
async fn visit(mut common: Common) {
    while !common.is_ending() {
        tokio::select! {
            () = tokio::time::sleep(VISITS) => {}
            _ = common.ending.changed() => return,
        }
        let counter = match common.connect().await {
            Ok(connection) => {
                let done = common.request(&connection, ECHO, 0, 0).await;
                connection.close(0_u32.into(), b"seen");
                if done.is_ok() {
                    &common.counts.visits
                } else {
                    &common.counts.missed
                }
            }
            Err(_) => &common.counts.missed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
