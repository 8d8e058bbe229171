//! The server: answers what clients ask for, and looks at what they send.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mpquic::{Connection, Endpoint, RecvStream, SendStream, ServerConfig};
use mpquic_test_support::tls::Identity;

use crate::Error;
use crate::control::{Order, orders};
use crate::faulty::{Faulty, Plan};
use crate::holdings::{Holdings, tasks};
use crate::pattern::Pattern;

/// The port with sockets that fail when told, and the one with the system's.
pub(crate) const FAULTY_PORT: u16 = 4433;
pub(crate) const SYSTEM_PORT: u16 = 4434;

/// What a request asks for; a seed and a length follow.
pub(crate) const DOWNLOAD: u8 = 1;
pub(crate) const UPLOAD: u8 = 2;
pub(crate) const ECHO: u8 = 3;
pub(crate) const REQUEST: usize = 17;

/// How much is written or read at once.
pub(crate) const CHUNK: usize = 16 << 10;

/// What clients sent that is not what they said.
#[derive(Debug, Default)]
struct Seen {
    wrong: AtomicU64,
    datagrams: AtomicU64,
}

pub(crate) fn run() -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(serve())
}

async fn serve() -> Result<(), Error> {
    let identity = Identity::new();
    let config = || -> Result<ServerConfig, Error> {
        let (chain, key) = (vec![identity.certificate.clone()], identity.key.clone_key());
        Ok(ServerConfig::with_single_cert(chain, key)?)
    };
    let plan = Arc::new(Plan::default());
    let any = |port| SocketAddr::from(([0, 0, 0, 0], port));
    let endpoints = [
        Endpoint::builder()
            .server(config()?)
            .abstract_socket(Faulty::bind(any(FAULTY_PORT), &plan)?)
            .build()?,
        Endpoint::builder()
            .server(config()?)
            .bind(any(SYSTEM_PORT))
            .shards(2)
            .build()?,
    ];
    let seen = Arc::new(Seen::default());
    for endpoint in &endpoints {
        let (endpoint, seen) = (endpoint.clone(), Arc::clone(&seen));
        tokio::spawn(async move {
            while let Some(incoming) = endpoint.accept().await {
                let seen = Arc::clone(&seen);
                tokio::spawn(async move {
                    if let Ok(connection) = incoming.await {
                        answer_all(connection, &seen).await;
                    }
                });
            }
        });
    }
    let digits = identity
        .certificate
        .iter()
        .map(|byte| format!("{byte:02x}"));
    println!("{}", digits.collect::<String>());
    let mut orders = orders();
    while let Some(order) = orders.recv().await {
        match order {
            Order::Fail(fault) => plan.set(fault),
            Order::Rest => {
                for endpoint in &endpoints {
                    endpoint.wait_idle().await;
                }
                // The allocator is asked for memory three seconds later.
                tokio::time::sleep(Duration::from_secs(4)).await;
                let wrong = seen.wrong.load(Ordering::Relaxed);
                let datagrams = seen.datagrams.load(Ordering::Relaxed);
                let failed = plan.failed.load(Ordering::Relaxed);
                println!("wrong {wrong}");
                println!("datagrams {datagrams}");
                println!("failed-calls {failed}");
                println!("rested {}", Holdings::now(tasks()));
            }
            Order::Work | Order::Stand(_) => {}
        }
    }
    Ok(())
}

async fn answer_all(connection: Connection, seen: &Arc<Seen>) {
    let echoes = async {
        while let Ok(datagram) = connection.read_datagram().await {
            seen.datagrams.fetch_add(1, Ordering::Relaxed);
            // It may have become too large for the path meanwhile.
            let _ = connection.send_datagram(datagram);
        }
    };
    let streams = async {
        while let Ok((send, recv)) = connection.accept_bi().await {
            let seen = Arc::clone(seen);
            // A client that goes away gets no answer.
            tokio::spawn(async move { answer(send, recv, &seen).await });
        }
    };
    tokio::join!(echoes, streams);
}

async fn answer(mut send: SendStream, mut recv: RecvStream, seen: &Seen) -> Result<(), Error> {
    let mut request = [0; REQUEST];
    recv.read_exact(&mut request).await?;
    let number = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&request[at..at + 8]);
        u64::from_be_bytes(bytes)
    };
    let (mut pattern, mut left) = (Pattern::new(number(1)), number(9) as usize);
    match request[0] {
        DOWNLOAD => {
            let mut chunk = vec![0; CHUNK];
            while left > 0 {
                let len = left.min(CHUNK);
                pattern.fill(&mut chunk[..len]);
                send.write_all(&chunk[..len]).await?;
                left -= len;
            }
        }
        UPLOAD => {
            let (mut chunk, mut scratch, mut wrong) = (vec![0; CHUNK], Vec::new(), 0);
            while let Some(count) = recv.read(&mut chunk).await? {
                wrong += pattern.wrong(&chunk[..count], &mut scratch);
                left = left.wrapping_sub(count);
            }
            // Not as long as it was said to be: all of it is wrong.
            wrong += u64::from(left != 0);
            seen.wrong.fetch_add(wrong, Ordering::Relaxed);
            send.write_all(&wrong.to_be_bytes()).await?;
        }
        _ => send.write_all(&request).await?,
    }
    send.finish()?;
    Ok(())
}
