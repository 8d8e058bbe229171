//! Sockets that the application brings: in memory, with room for little, that fail, that lose datagrams.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::common::{Identity, client_config, identity, loopback, pattern, run, server_config};
use mpquic::sched::RoundRobin;
use mpquic::udp::{EcnCodepoint, RecvMeta, Transmit};
use mpquic::{
    AsyncUdpSocket, Connection, DatagramOptions, Endpoint, EndpointBuilder, Fate, PathEvent,
    PathId, SocketEvent, SystemSocket, TransportConfig, UdpPoller,
};

/// Datagrams that a direction of a pair of sockets has room for.
const ROOM: usize = 24;

/// Every so many times, a socket in memory says that there is no room, whether the other end is slow or not.
const REFUSALS: usize = 50;

/// What a system says of a datagram that its link does not take: EMSGSIZE.
const TOO_LONG: i32 = if cfg!(windows) {
    10_040
} else if cfg!(any(target_os = "linux", target_os = "android")) {
    90
} else {
    40
};

/// One direction of a pair.
#[derive(Debug, Default)]
struct Pipe {
    datagrams: VecDeque<(Vec<u8>, Option<EcnCodepoint>)>,
    reader: Option<Waker>,
    writers: Vec<Waker>,
}

/// One end of a pair; whoever is not the other end is not reached.
#[derive(Debug)]
struct Memory {
    local: SocketAddr,
    peer: SocketAddr,
    incoming: Arc<Mutex<Pipe>>,
    outgoing: Arc<Mutex<Pipe>>,
    may_fragment: bool,
    failing: AtomicBool,
    /// The largest datagram that it takes.
    limit: AtomicUsize,
    too_long: AtomicUsize,
    asked: AtomicUsize,
    sent: AtomicUsize,
    largest: AtomicUsize,
    blocked: AtomicUsize,
}

impl Memory {
    fn pair(here: &str, there: &str, may_fragment: bool) -> (Arc<Self>, Arc<Self>) {
        let (one, other) = (Arc::default(), Arc::default());
        let end = |local: &str, peer: &str, incoming: &Arc<_>, outgoing: &Arc<_>| {
            Arc::new(Self {
                local: local.parse().unwrap(),
                peer: peer.parse().unwrap(),
                incoming: Arc::clone(incoming),
                outgoing: Arc::clone(outgoing),
                may_fragment,
                failing: AtomicBool::new(false),
                limit: AtomicUsize::new(usize::MAX),
                too_long: AtomicUsize::new(0),
                asked: AtomicUsize::new(0),
                sent: AtomicUsize::new(0),
                largest: AtomicUsize::new(0),
                blocked: AtomicUsize::new(0),
            })
        };
        (
            end(here, there, &one, &other),
            end(there, here, &other, &one),
        )
    }

    fn sent(&self) -> usize {
        self.sent.load(Ordering::Relaxed)
    }

    /// From now on it neither sends nor receives.
    fn fail(&self) {
        self.failing.store(true, Ordering::Relaxed);
        let mut incoming = self.incoming.lock().unwrap();
        if let Some(reader) = incoming.reader.take() {
            reader.wake();
        }
    }

    fn check(&self) -> io::Result<()> {
        if self.failing.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::NetworkDown.into());
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Room {
    socket: Arc<Memory>,
    waited: bool,
}

impl UdpPoller for Room {
    fn poll_writable(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !std::mem::replace(&mut self.waited, true) {
            // Whoever is not woken, or does not come back then, hangs.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let mut outgoing = self.socket.outgoing.lock().unwrap();
        if outgoing.datagrams.len() < ROOM || self.socket.check().is_err() {
            return Poll::Ready(Ok(()));
        }
        outgoing.writers.push(cx.waker().clone());
        Poll::Pending
    }
}

impl AsyncUdpSocket for Memory {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Room {
            socket: self,
            waited: false,
        })
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.check()?;
        assert_eq!(transmit.segment_size, None, "one datagram at a time");
        let mut outgoing = self.outgoing.lock().unwrap();
        let asked = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        if outgoing.datagrams.len() >= ROOM || asked.is_multiple_of(REFUSALS) {
            self.blocked.fetch_add(1, Ordering::Relaxed);
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let len = transmit.contents.len();
        if len > self.limit.load(Ordering::Relaxed) {
            self.too_long.fetch_add(1, Ordering::Relaxed);
            return Err(io::Error::from_raw_os_error(TOO_LONG));
        }
        self.sent.fetch_add(len, Ordering::Relaxed);
        self.largest.fetch_max(len, Ordering::Relaxed);
        if transmit.destination == self.peer {
            let datagram = (transmit.contents.to_vec(), transmit.ecn);
            outgoing.datagrams.push_back(datagram);
        }
        if let Some(reader) = outgoing.reader.take() {
            reader.wake();
        }
        Ok(())
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let mut incoming = self.incoming.lock().unwrap();
        self.check()?;
        let mut count = 0;
        for (buf, meta) in bufs.iter_mut().zip(meta) {
            let Some((datagram, ecn)) = incoming.datagrams.pop_front() else {
                break;
            };
            let len = datagram.len();
            buf[..len].copy_from_slice(&datagram);
            *meta = RecvMeta {
                addr: self.peer,
                len,
                stride: len,
                ecn,
                dst_ip: None,
            };
            count += 1;
        }
        if count == 0 {
            incoming.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        for writer in incoming.writers.drain(..) {
            writer.wake();
        }
        Poll::Ready(Ok(count))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.local)
    }

    fn may_fragment(&self) -> bool {
        self.may_fragment
    }
}

/// A socket of the system that sends one datagram at a time and loses every 20th, or all while its link is dark.
#[derive(Debug)]
struct Lossy {
    inner: Arc<SystemSocket>,
    /// The most datagrams that it says it takes at once, and how often it was given several.
    segments: usize,
    joined: AtomicUsize,
    asked: AtomicU64,
    dark: AtomicBool,
}

impl Lossy {
    fn bind(local: SocketAddr) -> Arc<Self> {
        Arc::new(Self::new(local, 1))
    }

    fn new(local: SocketAddr, segments: usize) -> Self {
        let socket = std::net::UdpSocket::bind(local).unwrap();
        Self {
            inner: Arc::new(SystemSocket::new(socket).unwrap()),
            segments,
            joined: AtomicUsize::new(0),
            asked: AtomicU64::new(0),
            dark: AtomicBool::new(false),
        }
    }

    fn lost(&self) -> u64 {
        self.asked.load(Ordering::Relaxed) / 20
    }
}

impl AsyncUdpSocket for Lossy {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Arc::clone(&self.inner).create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let dark = self.dark.load(Ordering::Relaxed);
        if dark || (self.asked.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(20) {
            return Ok(());
        }
        let Some(segment) = transmit.segment_size else {
            return self.inner.try_send(transmit);
        };
        self.joined.fetch_add(1, Ordering::Relaxed);
        assert!(transmit.contents.len().div_ceil(segment) <= self.segments);
        let mut datagrams = transmit.contents.chunks(segment);
        datagrams.try_for_each(|contents| {
            self.inner.try_send(&Transmit {
                contents,
                segment_size: None,
                ..*transmit
            })
        })
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.inner.poll_recv(cx, bufs, meta)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.segments
    }

    fn max_receive_segments(&self) -> usize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

/// All paths carry data.
fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport.scheduler(|| Box::new(RoundRobin::default()));
    transport
}

fn builder(sockets: &[Arc<Memory>]) -> EndpointBuilder {
    let add = |builder: EndpointBuilder, socket: &Arc<Memory>| {
        builder.abstract_socket(Arc::clone(socket) as Arc<dyn AsyncUdpSocket>)
    };
    sockets.iter().fold(Endpoint::builder(), add)
}

fn server(identity: &Identity, builder: EndpointBuilder) -> Endpoint {
    let server = builder.server(server_config(identity, transport()));
    server.build().unwrap()
}

fn client(identity: &Identity, builder: EndpointBuilder) -> Endpoint {
    let client = builder.default_client(client_config(identity, transport()));
    client.build().unwrap()
}

async fn connect(client: &Endpoint, server: &Endpoint) -> (Connection, Connection) {
    let remote = server.local_addrs()[0];
    let connecting = client.connect(remote, "localhost").unwrap();
    let accepting = async { server.accept().await.unwrap().await.unwrap() };
    let (here, there) = tokio::join!(connecting, accepting);
    (here.unwrap(), there)
}

/// Sends all of `data`; `half` is called when half of it has been read.
async fn transfer(from: &Connection, to: &Connection, data: &[u8], half: impl FnOnce()) {
    let send = async {
        let mut stream = from.open_uni().await.unwrap();
        stream.write_all(data).await.unwrap();
        stream.finish().unwrap();
        stream.stopped().await.unwrap();
    };
    let receive = async {
        let mut stream = to.accept_uni().await.unwrap();
        let mut first = vec![0; data.len() / 2];
        stream.read_exact(&mut first).await.unwrap();
        half();
        first.extend(stream.read_to_end(data.len()).await.unwrap());
        assert!(first == data);
    };
    tokio::join!(send, receive);
}

fn all_paths_carry(connection: &Connection) {
    let paths = connection.paths();
    assert_eq!(paths.len(), 2);
    for path in paths {
        let stats = path.stats().unwrap();
        assert!(stats.sent_stream_bytes > 0, "{stats:?}");
    }
}

const A: [&str; 2] = ["10.0.0.1:1000", "10.0.1.1:1001"];
const B: [&str; 2] = ["10.0.0.2:2000", "10.0.1.2:2001"];

fn two_pairs(may_fragment: bool) -> ([Arc<Memory>; 2], [Arc<Memory>; 2]) {
    let (a0, b0) = Memory::pair(A[0], B[0], may_fragment);
    let (a1, b1) = Memory::pair(A[1], B[1], may_fragment);
    ([a0, a1], [b0, b1])
}

/// Two paths in memory. The second one's socket fails in the middle of a transfer, and the first one carries on.
#[test]
fn one_of_two_sockets_in_memory_fails() {
    run(async {
        let identity = identity();
        let (ours, theirs) = two_pairs(true);
        let server = server(&identity, builder(&theirs));
        let client = client(&identity, builder(&ours));
        assert_eq!(client.local_addrs(), [ours[0].local, ours[1].local]);
        let mut events = client.socket_events();
        let (here, there) = connect(&client, &server).await;
        here.open_path_from(ours[1].local, theirs[1].local)
            .await
            .unwrap();

        let data = pattern(4 << 20);
        transfer(&here, &there, &data, || ()).await;
        transfer(&there, &here, &data, || ()).await;
        all_paths_carry(&here);
        all_paths_carry(&there);
        for socket in ours.iter().chain(&theirs) {
            // None of them says that it does not fragment.
            assert_eq!(socket.largest.load(Ordering::Relaxed), 1200);
        }
        let sum = |of: fn(&Memory) -> &AtomicUsize| -> usize {
            let sockets = ours.iter().chain(&theirs);
            sockets.map(|one| of(one).load(Ordering::Relaxed)).sum()
        };
        // Each of the four may be on its way to the next refusal.
        let refusals = sum(|one| &one.asked) / REFUSALS - 4;
        assert!(refusals > 100);
        assert!(sum(|one| &one.blocked) >= refusals);

        transfer(&here, &there, &data, || ours[1].fail()).await;
        let before = (ours[0].sent(), ours[1].sent());
        transfer(&here, &there, &data, || ()).await;
        assert_eq!(ours[1].sent(), before.1);
        assert!(ours[0].sent() - before.0 > data.len());
        let local = ours[1].local;
        let error = io::ErrorKind::NetworkDown;
        let event = SocketEvent::Failing { local, error };
        assert_eq!(events.recv().await, Some(event));

        // And taken out: what is left goes on without it.
        assert!(client.remove_socket(local));
        transfer(&there, &here, &data, || ()).await;
    });
}

/// On sockets that lose what is too large, the search for the path MTU goes on.
#[test]
fn larger_datagrams_where_nothing_is_fragmented() {
    run(async {
        let identity = identity();
        let (ours, theirs) = two_pairs(false);
        let server = server(&identity, builder(&theirs));
        let client = client(&identity, builder(&ours[..1]));
        let (here, there) = connect(&client, &server).await;
        // The second one comes later.
        let later = Arc::clone(&ours[1]) as Arc<dyn AsyncUdpSocket>;
        assert_eq!(client.adopt_abstract_socket(later).unwrap(), ours[1].local);
        here.open_path_from(ours[1].local, theirs[1].local)
            .await
            .unwrap();
        transfer(&here, &there, &pattern(4 << 20), || ()).await;
        all_paths_carry(&here);
        let largest = |socket: &Arc<Memory>| socket.largest.load(Ordering::Relaxed);
        assert!(ours.iter().map(largest).max() > Some(1200));
    });
}

/// One socket serves all shards of a server: one of them receives for the others.
#[test]
fn one_socket_for_all_shards() {
    run(async {
        let identity = identity();
        let (ours, theirs) = Memory::pair(A[0], B[0], false);
        let server = server(&identity, builder(&[theirs]).shards(2));
        let client = client(&identity, builder(&[ours]));
        let data = pattern(1 << 20);
        for _ in 0..16 {
            let (here, there) = connect(&client, &server).await;
            transfer(&here, &there, &data, || ()).await;
            transfer(&there, &here, &data, || ()).await;
        }
        let stats = server.shard_stats();
        let passed_on: u64 = stats.iter().map(|shard| shard.forwarded).sum();
        let readers = stats.iter().filter(|shard| shard.received > 0).count();
        assert_eq!(readers, 1, "{stats:?}");
        assert!(passed_on > 0, "{stats:?}");
    });
}

/// A link takes 1,300 bytes, and its socket says of larger datagrams that they are too long. Those are probes of the path's
/// MTU, which count as lost: the search goes on below, and nothing else suffers.
#[test]
fn a_probe_that_is_too_long_for_the_link_is_lost_and_no_more() {
    run(async {
        let identity = identity();
        let (ours, theirs) = Memory::pair(A[0], B[0], false);
        ours.limit.store(1300, Ordering::Relaxed);
        let server = server(&identity, builder(&[theirs]));
        let client = client(&identity, builder(&[Arc::clone(&ours)]));
        let (here, there) = connect(&client, &server).await;
        let data = pattern(1 << 20);
        // The search ends within 20 bytes of what the link takes.
        while here.paths()[0].stats().unwrap().mtu <= 1280 {
            transfer(&here, &there, &data, || ()).await;
        }
        transfer(&here, &there, &data, || ()).await;
        let stats = here.paths()[0].stats().unwrap();
        assert!(stats.mtu <= 1300, "{stats:?}");
        assert_eq!(ours.largest.load(Ordering::Relaxed), usize::from(stats.mtu));
        let too_long = ours.too_long.load(Ordering::Relaxed);
        assert!((1..=30).contains(&too_long), "{too_long} probes");
        assert_eq!(stats.lost_packets, 0, "{stats:?}");
    });
}

/// A wrapper around the system's socket that loses datagrams, at both ends and on both paths.
#[test]
fn every_twentieth_datagram_is_lost() {
    run(async {
        let identity = identity();
        let wrap = || [Lossy::bind(loopback(1)), Lossy::bind(loopback(2))];
        let (ours, theirs) = (wrap(), wrap());
        let add = |sockets: &[Arc<Lossy>; 2]| {
            let [first, second] = sockets.clone();
            let builder = Endpoint::builder().abstract_socket(first);
            builder.abstract_socket(second)
        };
        let server = server(&identity, add(&theirs));
        let client = client(&identity, add(&ours));
        let (here, there) = connect(&client, &server).await;
        let remote = theirs[1].local_addr().unwrap();
        here.open_path_from(ours[1].local_addr().unwrap(), remote)
            .await
            .unwrap();
        let data = pattern(2 << 20);
        transfer(&here, &there, &data, || ()).await;
        transfer(&there, &here, &data, || ()).await;
        let lost = |sockets: &[Arc<Lossy>; 2]| sockets.iter().map(|one| one.lost()).sum::<u64>();
        for (connection, sockets) in [(&here, &ours), (&there, &theirs)] {
            let seen = connection.stats().lost_packets;
            // Of lost datagrams, those with acknowledgements alone are not missed.
            let of_data = (data.len() / 1452 / 20) as u64;
            assert!(seen > of_data / 2, "{seen} lost");
            assert!(lost(sockets) > of_data / 2, "{} lost", lost(sockets));
        }
    });
}

/// A socket that says of what it received what cannot be, and one without an address.
#[test]
fn what_a_socket_says_is_not_believed() {
    #[derive(Debug)]
    struct Liar {
        address: Option<SocketAddr>,
        calls: AtomicUsize,
        heard: tokio::sync::Notify,
    }

    impl UdpPoller for Liar {
        fn poll_writable(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncUdpSocket for Liar {
        fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
            Box::pin(Self {
                address: None,
                calls: AtomicUsize::new(0),
                heard: tokio::sync::Notify::new(),
            })
        }

        fn try_send(&self, _: &Transmit<'_>) -> io::Result<()> {
            Ok(())
        }

        fn poll_recv(
            &self,
            _: &mut Context<'_>,
            bufs: &mut [IoSliceMut<'_>],
            meta: &mut [RecvMeta],
        ) -> Poll<io::Result<usize>> {
            let calls = self.calls.fetch_add(1, Ordering::Relaxed);
            match calls {
                0..4 => {
                    for one in meta.iter_mut() {
                        one.len = usize::MAX;
                        one.stride = calls;
                    }
                    Poll::Ready(Ok(bufs.len() + 1))
                }
                4 => Poll::Ready(Ok(usize::MAX)),
                5 => Poll::Ready(Ok(0)),
                _ => {
                    self.heard.notify_one();
                    Poll::Pending
                }
            }
        }

        fn local_addr(&self) -> io::Result<SocketAddr> {
            self.address
                .ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
        }

        fn max_transmit_segments(&self) -> usize {
            0
        }
    }

    run(async {
        let liar = |address| {
            Arc::new(Liar {
                address,
                calls: AtomicUsize::new(0),
                heard: tokio::sync::Notify::new(),
            })
        };
        let build = |liar| Endpoint::builder().abstract_socket(liar).build();
        let error = build(liar(None)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrNotAvailable);

        let socket = liar(Some(A[0].parse().unwrap()));
        let endpoint = build(socket.clone()).unwrap();
        socket.heard.notified().await;
        // Its task lives: it takes and serves another socket.
        let identity = identity();
        let (ours, theirs) = Memory::pair(A[1], B[1], false);
        let server = server(&identity, builder(&[theirs]));
        endpoint.set_default_client_config(client_config(&identity, transport()));
        endpoint.adopt_abstract_socket(ours).unwrap();
        assert!(endpoint.remove_socket(socket.address.unwrap()));
        let (here, there) = connect(&endpoint, &server).await;
        transfer(&here, &there, &pattern(1 << 20), || ()).await;
    });
}

/// What the protocol makes at once is split as the socket wants it, and not joined at all where the application forbids it.
#[test]
fn a_batch_is_split_for_the_socket() {
    run(async {
        let identity = identity();
        for (segments, offload) in [(1, true), (4, true), (4, false)] {
            let server = server(&identity, Endpoint::builder().bind(loopback(1)));
            let ours = Arc::new(Lossy::new(loopback(1), segments));
            let socket = Arc::clone(&ours) as Arc<dyn AsyncUdpSocket>;
            let mut transport = transport();
            transport.segmentation_offload(offload);
            let config = client_config(&identity, transport);
            let client = Endpoint::builder().default_client(config);
            let client = client.abstract_socket(socket).build().unwrap();
            let (here, there) = connect(&client, &server).await;
            transfer(&here, &there, &pattern(1 << 20), || ()).await;
            let joined = ours.joined.load(Ordering::Relaxed);
            assert_eq!(joined > 0, segments > 1 && offload, "{joined} calls");
        }
    });
}

/// An application that watches a path hears of its silence and of its end.
#[test]
fn a_dark_link_is_told_of_and_so_is_its_return() {
    run(async {
        let identity = identity();
        let theirs = Lossy::bind(loopback(1));
        let ours = Lossy::bind(loopback(1));
        let server = server(&identity, Endpoint::builder().abstract_socket(theirs));
        let socket = Arc::clone(&ours) as Arc<dyn AsyncUdpSocket>;
        let client = client(&identity, Endpoint::builder().abstract_socket(socket));
        let (here, _there) = connect(&client, &server).await;
        here.handshake_confirmed().await.unwrap();
        let path = here.path(PathId(0)).unwrap();
        let mut events = here.path_events();
        ours.dark.store(true, Ordering::Relaxed);
        here.send_datagram_with(vec![7; 100].into(), DatagramOptions::new().tag(1))
            .unwrap();
        let sent = here.datagram_fate().await.unwrap();
        assert!(matches!(sent.fate, Fate::Sent { .. }) && sent.tag == 1);
        let left = Instant::now();
        path.watch_silence(Some(Duration::from_millis(20))).unwrap();
        let (mut silent, mut heard) = (false, false);
        while !heard {
            match events.recv().await.unwrap() {
                PathEvent::Silent { id, after } => {
                    assert!(id == path.id() && after >= Duration::from_millis(20));
                    // What left before the link went dark may have been acknowledged since; the datagram has not.
                    let waited = left.elapsed();
                    assert!(path.oldest_unacked().unwrap() >= Some(waited));
                    assert!(path.last_heard().unwrap().is_some());
                    silent = true;
                    ours.dark.store(false, Ordering::Relaxed);
                }
                PathEvent::Heard { .. } => heard = true,
                _ => {}
            }
        }
        assert!(silent);
        // The probe that came through told what became of it.
        let lost = here.datagram_fate().await.unwrap();
        assert!(matches!(lost.fate, Fate::Lost { .. }) && lost.tag == 1);
        path.watch_silence(None).unwrap();
    });
}
