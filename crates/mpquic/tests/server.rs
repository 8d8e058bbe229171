//! A server under load and in trouble: handshakes that cost, clients that nobody accepts, sockets that fail, a
//! task that ends before its time.

use std::future::IntoFuture;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::common::{
    ALPN, Identity, Pair, client_config, client_hello, identity, loopback, run, run_on_one_thread,
    server_config,
};
use mpquic::udp::{RecvMeta, Transmit};
use mpquic::{
    AsyncUdpSocket, ConnectError, ConnectionError, Endpoint, ServerConfig, SystemSocket,
    TransportConfig, UdpPoller, rustls,
};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// Called in the middle of each handshake, where TLS looks for the certificate.
type Hook = Box<dyn Fn() + Send + Sync>;

struct Hooked {
    key: Arc<CertifiedKey>,
    hook: Hook,
}

impl std::fmt::Debug for Hooked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hooked")
    }
}

impl ResolvesServerCert for Hooked {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        (self.hook)();
        Some(Arc::clone(&self.key))
    }
}

fn hooked_config(identity: &Identity, hook: impl Fn() + Send + Sync + 'static) -> ServerConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = provider
        .key_provider
        .load_private_key(identity.key.clone_key())
        .unwrap();
    let key = CertifiedKey::new(vec![identity.certificate.clone()], key);
    let mut tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(Hooked {
            key: Arc::new(key),
            hook: Box::new(hook),
        }));
    tls.alpn_protocols = vec![ALPN.to_vec()];
    ServerConfig::new(Arc::new(tls)).unwrap()
}

/// The header of an Initial packet and nothing that could be decrypted.
fn spoofed_initial(number: u64) -> Vec<u8> {
    let mut datagram = vec![0xc0, 0, 0, 0, 1, 8];
    datagram.extend(number.to_be_bytes());
    // No source connection ID, no token, a length that fills the datagram.
    datagram.extend([0, 0, 0x44, 0x90]);
    datagram.resize(1200, 0);
    datagram
}

/// While TLS works, other threads get at the endpoint: it routes, and tells how it is.
#[test]
fn tls_works_without_the_endpoint() {
    static SERVER: OnceLock<Endpoint> = OnceLock::new();
    static FREE: AtomicUsize = AtomicUsize::new(0);
    run(async {
        let identity = identity();
        let config = hooked_config(&identity, || {
            let (tell, told) = mpsc::channel();
            std::thread::spawn(move || {
                let half_open = SERVER.get().unwrap().half_open();
                let _ = tell.send(half_open.connections);
            });
            // The time is there to fail the test: with the endpoint locked, no answer ever comes.
            if told.recv_timeout(Duration::from_secs(10)) == Ok(1) {
                FREE.fetch_add(1, Ordering::Relaxed);
            }
        });
        let server = Endpoint::server(config, &[loopback(1)]).unwrap();
        SERVER.set(server.clone()).unwrap();
        let client = Endpoint::client(&[loopback(1)]).unwrap();
        client.set_default_client_config(client_config(&identity, TransportConfig::default()));
        let connecting = client
            .connect(server.local_addrs()[0], "localhost")
            .unwrap();
        let accepting = async { server.accept().await.unwrap().await.unwrap() };
        let (connection, _accepted) = tokio::join!(connecting, accepting);
        connection.unwrap();
        assert_eq!(FREE.load(Ordering::Relaxed), 1);
    });
}

/// A flood of handshakes and an established connection take turns, on the one thread that there is: between
/// two of its round trips there are few handshakes, however many wait.
#[test]
fn a_flood_of_handshakes_lets_established_connections_have_their_turns() {
    const FLOOD: u32 = 60;
    run_on_one_thread(async {
        let identity = identity();
        let handshakes = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&handshakes);
        let config = hooked_config(&identity, move || {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        let server = Endpoint::server(config, &[loopback(1)]).unwrap();
        let address = server.local_addrs()[0];
        let client = Endpoint::client(&[loopback(1)]).unwrap();
        let config = client_config(&identity, TransportConfig::default());
        client.set_default_client_config(config.clone());
        let acceptor = server.clone();
        tokio::spawn(async move {
            while let Some(incoming) = acceptor.accept().await {
                tokio::spawn(async move {
                    let Ok(connection) = incoming.await else {
                        return;
                    };
                    while let Ok((mut send, mut recv)) = connection.accept_bi().await {
                        while let Ok(Some(chunk)) = recv.read_chunk(100).await {
                            send.write_chunk(chunk).await.unwrap();
                        }
                    }
                });
            }
        });
        let connection = client.connect(address, "localhost").unwrap().await.unwrap();
        let (mut send, mut recv) = connection.open_bi().await.unwrap();
        let mut echo = [0];
        send.write_all(b"x").await.unwrap();
        recv.read_exact(&mut echo).await.unwrap();
        let before = handshakes.load(Ordering::Relaxed);

        let flood = UdpSocket::bind(loopback(1)).unwrap();
        for number in 0..FLOOD {
            flood
                .send_to(&client_hello(&config, 3, number), address)
                .unwrap();
        }
        let (mut last, mut rounds, mut most) = (before, 0, 0);
        while last < before + FLOOD as usize {
            send.write_all(b"x").await.unwrap();
            recv.read_exact(&mut echo).await.unwrap();
            rounds += 1;
            let now = handshakes.load(Ordering::Relaxed);
            most = most.max(now - last);
            last = now;
            assert!(rounds < 1_000_000, "{last} handshakes");
        }
        assert!(
            most <= 25,
            "{most} handshakes between two round trips, {rounds} in all"
        );
    });
}

/// Clients that have proven their address do not wait behind those that may be made up.
#[test]
fn who_has_proven_its_address_goes_first() {
    run(async {
        const MADE_UP: usize = 3;
        let identity = identity();
        let mut config = server_config(&identity, TransportConfig::default());
        config.retry_above(MADE_UP);
        let server = Endpoint::server(config, &[loopback(1)]).unwrap();
        let address = server.local_addrs()[0];
        let socket = UdpSocket::bind(loopback(1)).unwrap();
        for number in 0..MADE_UP as u64 {
            socket.send_to(&spoofed_initial(number), address).unwrap();
        }
        while server.half_open().connections < MADE_UP {
            tokio::task::yield_now().await;
        }
        let client = Endpoint::client(&[loopback(1)]).unwrap();
        client.set_default_client_config(client_config(&identity, TransportConfig::default()));
        let connecting = client.connect(address, "localhost").unwrap();
        while server.half_open().connections == MADE_UP {
            tokio::task::yield_now().await;
        }
        let first = server.accept().await.unwrap();
        assert!(first.remote_address_validated());
        let (client, server) = tokio::join!(connecting, first.into_future());
        client.unwrap();
        server.unwrap();
    });
}

/// A socket that counts the Retry packets that it sends.
#[derive(Debug)]
struct CountingRetries(Arc<SystemSocket>, AtomicUsize);

impl AsyncUdpSocket for CountingRetries {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Arc::clone(&self.0).create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        // RFC 9000 section 17.2.5.
        let is_retry = transmit.contents[0] & 0xf0 == 0xf0;
        self.1.fetch_add(usize::from(is_retry), Ordering::Relaxed);
        self.0.try_send(transmit)
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_recv(cx, buffers, metas)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// A flood of first packets fills the socket before an honest client begins. Between two looks at the socket few of them are
/// answered, and of these the newest first: the handshake is over before most of them are.
#[test]
fn who_comes_after_a_flood_does_not_wait_for_all_of_it() {
    // As many as fit into the buffer of a socket that nobody has enlarged.
    const FLOOD: u64 = 150;
    const UNPROVEN: usize = 10;
    run_on_one_thread(async {
        let identity = identity();
        let mut config = server_config(&identity, TransportConfig::default());
        config.retry_above(UNPROVEN);
        let socket = SystemSocket::new(UdpSocket::bind(loopback(1)).unwrap()).unwrap();
        let socket = Arc::new(CountingRetries(Arc::new(socket), AtomicUsize::new(0)));
        let server = Endpoint::builder().abstract_socket(socket.clone());
        let server = server.server(config).build().unwrap();
        let address = server.local_addrs()[0];
        let client = Endpoint::client(&[loopback(1)]).unwrap();
        client.set_default_client_config(client_config(&identity, TransportConfig::default()));
        let acceptor = server.clone();
        tokio::spawn(async move {
            while let Some(incoming) = acceptor.accept().await {
                tokio::spawn(async move {
                    if let Ok(connection) = incoming.await {
                        connection.closed().await;
                    }
                });
            }
        });
        let flood = UdpSocket::bind(loopback(1)).unwrap();
        for number in 0..FLOOD {
            flood.send_to(&spoofed_initial(number), address).unwrap();
        }
        let connection = client.connect(address, "localhost").unwrap().await.unwrap();
        let retries = socket.1.load(Ordering::Relaxed);
        assert!(retries > 0, "the client had no need to prove its address");
        assert!(retries <= 100, "{retries} Retry packets before");
        drop(connection);
    });
}

#[test]
fn who_is_not_accepted_is_forgotten() {
    run(async {
        let mut config = server_config(&identity(), TransportConfig::default());
        config.handshake_timeout(Duration::from_millis(50));
        let server = Endpoint::server(config, &[loopback(1)]).unwrap();
        let socket = UdpSocket::bind(loopback(1)).unwrap();
        // It lives for 50 ms: on a machine that is busy for longer than that, this may not see it, and tries again.
        'seen: for number in 0.. {
            let address = server.local_addrs()[0];
            socket.send_to(&spoofed_initial(number), address).unwrap();
            let until = Instant::now() + Duration::from_secs(1);
            while Instant::now() < until {
                if server.half_open().connections > 0 {
                    break 'seen;
                }
                tokio::task::yield_now().await;
            }
        }
        // Nothing else comes: the endpoint's own timer sees to it.
        while server.half_open().connections > 0 {
            tokio::task::yield_now().await;
        }
        // Nor are they given out any more.
        let accepting = server.accept();
        tokio::select! {
            biased;
            _ = accepting => panic!("accepted what was forgotten"),
            () = async { for _ in 0..100 { tokio::task::yield_now().await } } => {}
        }
    });
}

/// When the runtime of an endpoint ends under it, whoever waits in another one is told.
#[test]
fn the_end_of_the_endpoints_task_ends_all_waits() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let pair = {
        let _context = runtime.enter();
        Pair::new()
    };
    let (client, server) = runtime.block_on(pair.connect());
    let address = pair.server_addr;
    let endpoint = pair.server.clone();
    let (tell, told) = mpsc::channel();
    let waiting = std::thread::spawn(move || {
        run(async move {
            let accept = async { assert!(endpoint.accept().await.is_none()) };
            let closed = async { server.closed().await };
            let stream = async { server.accept_uni().await.map(drop).unwrap_err() };
            tell.send(()).unwrap();
            let ((), reason, error) = tokio::join!(accept, closed, stream);
            assert_eq!(reason, error);
            endpoint.wait_idle().await;
            drop(server);
        });
    });
    told.recv().unwrap();
    runtime.shutdown_background();
    waiting.join().unwrap();
    // The client's task ends at a time of its own.
    let endpoint = pair.client.clone();
    run(async move { assert!(endpoint.accept().await.is_none()) });
    let error = pair.client.connect(address, "localhost").unwrap_err();
    assert_eq!(error, ConnectError::EndpointClosed);
    assert!(matches!(
        client.close_reason(),
        Some(ConnectionError::TransportError(_) | ConnectionError::LocallyClosed)
    ));
}

/// Empty datagrams are datagrams: a flood of them gives way like any other.
#[test]
fn a_flood_of_empty_datagrams_gives_way() {
    run_on_one_thread(async {
        let pair = Pair::new();
        let address: SocketAddr = pair.server_addr;
        let stop = Arc::new(Mutex::new(false));
        let stopped = Arc::clone(&stop);
        let flood = std::thread::spawn(move || {
            let socket = UdpSocket::bind(loopback(1)).unwrap();
            while !*stopped.lock().unwrap() {
                socket.send_to(&[], address).unwrap();
            }
        });
        let connected = tokio::time::timeout(Duration::from_secs(60), pair.connect()).await;
        *stop.lock().unwrap() = true;
        flood.join().unwrap();
        connected.expect("the flood has the thread for itself");
    });
}
