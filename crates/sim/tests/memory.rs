//! The memory of a simulation does not grow with its virtual time. This test is alone in its
//! process because it measures the process's memory.
#![cfg(target_os = "linux")]

use std::time::Duration;

use mpquic_sim::{LinkConfig, Network, TransferClient, TransferServer};

/// The resident memory of this process.
fn kilobytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.unwrap().trim().split(' ').next().unwrap();
    number.parse().unwrap()
}

#[test]
fn memory_is_flat_over_simulated_time() {
    let link = |rate| LinkConfig::new(rate, Duration::from_millis(20)).with_loss(0.0001);
    let mut network = Network::builder(1)
        .symmetric_path(link(20_000_000))
        .symmetric_path(link(5_000_000))
        .client(TransferClient::download(u64::MAX / 2))
        .server(TransferServer::new())
        .open_all_paths()
        .null_aead()
        .build()
        .unwrap();
    network.run_until(Duration::from_secs(10)).unwrap();
    let before = kilobytes();
    network.run_until(Duration::from_secs(50)).unwrap();
    let after = kilobytes();
    let packets = network.report().server.sent_datagrams;
    assert!(packets > 50_000, "{packets}");
    // 16 bytes per packet would be more than this.
    assert!(
        after.saturating_sub(before) * 1024 < packets * 16,
        "{before} kB, then {after} kB after {packets} datagrams"
    );
}
