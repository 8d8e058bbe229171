//! What stays resident of a crowd of connections once it is gone. A program of its own: the process is measured.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

mod common;

use std::time::{Duration, Instant};

use common::{Pair, run};
use mpquic::VarInt;

/// Bytes that each connection of the crowd asks for and does not read.
const UNREAD: usize = 300_000;

/// Anonymous memory of this process that is resident, in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB"));
    number.unwrap().parse::<usize>().unwrap() * 1024
}

/// So many connections at the same time; what is resident meanwhile.
async fn crowd(pair: &Pair, count: usize) -> usize {
    let mut all = Vec::new();
    for _ in 0..count {
        let (client, server) = pair.connect().await;
        let mut stream = server.open_uni().await.unwrap();
        // As much as the connection takes in.
        let _ = tokio::time::timeout(
            Duration::from_millis(20),
            stream.write_all(&vec![7; UNREAD]),
        )
        .await;
        all.push((client, server, stream));
    }
    let most = resident();
    for (client, server, _) in &all {
        client.close(VarInt::from_u32(0), b"");
        server.closed().await;
    }
    drop(all);
    pair.client.wait_idle().await;
    pair.server.wait_idle().await;
    most
}

#[test]
fn the_memory_of_a_crowd_goes_back_to_the_system() {
    run(async {
        let pair = Pair::new();
        // What the first crowds leave stays: sessions that their clients may resume, buffers of threads, what the allocator of a
        // thread that a second crowd was the first to use keeps.
        for _ in 0..2 {
            crowd(&pair, 300).await;
        }
        let limit = Instant::now() + Duration::from_secs(50);
        let mut before = usize::MAX;
        while resident() < before {
            before = resident();
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
        let most = crowd(&pair, 300).await;
        assert!(most > before + (50 << 20), "{before} {most}: no crowd");
        // The deadline is there to fail a test that waits for what does not come.
        while resident() > before + before / 5 {
            assert!(
                Instant::now() < limit,
                "{} of {most}, {before} before",
                resident()
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
}
