//! What a half-open connection holds, by a counting allocator: whoever sends one datagram from an address that is not
//! theirs makes the server keep no more than this.

mod common;

use std::net::UdpSocket;
use std::sync::atomic::{AtomicI64, Ordering};

use common::{client_config, client_hello, identity, loopback, run_on_one_thread, server_config};
use mpquic::{Endpoint, TransportConfig, limits};
use mpquic_test_support::allocator::{Change, Counting};

/// Bytes that are allocated.
static HELD: AtomicI64 = AtomicI64::new(0);

fn count(change: Change) {
    HELD.fetch_add(change.growth(), Ordering::Relaxed);
}

#[global_allocator]
static ALLOCATOR: Counting = Counting::new(count);

/// One thread, and everything that is there to be done is done when nothing is ready any more.
#[test]
fn a_half_open_connection_holds_what_it_is_charged() {
    const WARM_UP: u32 = 20;
    const COUNT: u32 = 100;
    run_on_one_thread(async {
        let identity = identity();
        let server = Endpoint::server(
            server_config(&identity, TransportConfig::default()),
            &[loopback(1)],
        )
        .unwrap();
        let config = client_config(&identity, TransportConfig::default());
        let acceptor = server.clone();
        tokio::spawn(async move {
            while let Some(incoming) = acceptor.accept().await {
                tokio::spawn(async move {
                    let _ = incoming.await;
                });
            }
        });
        let socket = UdpSocket::bind(loopback(1)).unwrap();
        socket.connect(server.local_addrs()[0]).unwrap();
        let mut answer = vec![0; 2000];
        let mut before = (0, server.half_open());
        for number in 0..WARM_UP + COUNT {
            if number == WARM_UP {
                before = (HELD.load(Ordering::Relaxed), server.half_open());
            }
            let hello = client_hello(&config, 7, number);
            let sent = hello.len();
            socket.send(&hello).unwrap();
            drop(hello);
            // The server's whole first flight: what it may send to an address that is not validated.
            socket.set_nonblocking(true).unwrap();
            let mut received = 0;
            while received == 0 || server.half_open().connections <= number as usize {
                tokio::task::yield_now().await;
                while let Ok(bytes) = socket.recv(&mut answer) {
                    received += bytes;
                }
            }
            assert!(received <= 3 * sent);
        }
        for _ in 0..1000 {
            tokio::task::yield_now().await;
            while socket.recv(&mut answer).is_ok() {}
        }
        let held = usize::try_from(HELD.load(Ordering::Relaxed) - before.0).unwrap();
        let charged = server.half_open().bytes - before.1.bytes;
        let each = held / COUNT as usize;
        println!("{each} bytes held, {} charged", charged / COUNT as usize);
        assert_eq!(server.half_open().connections, (WARM_UP + COUNT) as usize);
        assert!(held <= charged, "{each} bytes held by each");
        // Per byte that was sent.
        assert!(each <= 1200 * 30, "{each} bytes held by each");
        assert!(charged <= COUNT as usize * (limits::HALF_OPEN_COST + 8192));
    });
}
