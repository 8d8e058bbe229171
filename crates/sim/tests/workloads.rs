//! The workloads end to end over modelled paths: that they complete, are checked, and are measured as they say.

use std::time::Duration;

use mpquic_sim::workload::{ResultError, Workload, WorkloadResult};
use mpquic_sim::{LinkConfig, Network, NetworkBuilder};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Peekaboo's two paths, the slow one that of the handshake.
fn two_paths(seed: u64) -> NetworkBuilder {
    Network::builder(seed)
        .symmetric_path(LinkConfig::new(2_000_000, ms(100)))
        .symmetric_path(LinkConfig::new(50_000_000, ms(20)))
        .open_all_paths()
}

fn run_on(builder: NetworkBuilder, workload: &Workload, seed: u64) -> (Network, WorkloadResult) {
    let mut network = builder
        .client_boxed(workload.client(seed))
        .server_boxed(workload.server(seed))
        .build()
        .unwrap();
    network.run_to_completion(workload.time_limit()).unwrap();
    let result = workload.result(&network).unwrap();
    for metric in workload.metrics() {
        assert!(
            result.values[metric.name].is_finite(),
            "{workload}: {metric:?}"
        );
    }
    assert_eq!(result.values.len(), workload.metrics().len());
    assert_eq!(
        result.primary.to_bits(),
        result.values[workload.primary().name].to_bits()
    );
    (network, result)
}

fn run(form: &str, seed: u64) -> (Network, WorkloadResult) {
    run_on(two_paths(seed), &form.parse().unwrap(), seed)
}

#[test]
fn a_file_comes_and_is_timed_from_its_request() {
    let (network, result) = run("file:200kB", 1);
    // The handshake takes two times 100 ms, the request 100 ms, the data 20 ms at least.
    let connected = network.report().connected.unwrap().as_secs_f64();
    assert!((0.2..0.3).contains(&connected), "{connected}");
    let completion = result.values["completion"];
    assert!(completion > 0.12, "{result:?}");
    assert!(connected + completion <= network.now().as_secs_f64() + 1e-9);
    assert_eq!(result.values["goodput"], 1.6 / completion);
}

#[test]
fn a_warm_file_waits_for_all_paths_on_both_sides() {
    let (network, _) = run("file:200kB:warm", 1);
    let received = network.received(mpquic_proto::Side::Client);
    assert!(received.total(1) > received.total(0));
    // Cold, the first window goes over the slow path, which alone is open then.
    let cold = run("file:200kB", 1).1.primary;
    let warm = run("file:200kB:warm", 1).1.primary;
    assert!(warm < cold, "{warm} {cold}");
}

#[test]
fn there_is_no_result_of_another_workload_or_of_half_a_one() {
    let workload: Workload = "file:2MB".parse().unwrap();
    let idle = two_paths(1).build().unwrap();
    assert_eq!(workload.result(&idle), Err(ResultError::OtherApp));
    let mut network = two_paths(1)
        .client_boxed(workload.client(1))
        .server_boxed(workload.server(1))
        .build()
        .unwrap();
    network.run_until(ms(500)).unwrap();
    assert_eq!(workload.result(&network), Err(ResultError::Incomplete));
}
