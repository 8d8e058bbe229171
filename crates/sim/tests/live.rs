//! The workload `live`: a camera over modelled paths, by `mpquic-live` and in the ways that it is compared with.

use std::time::Duration;

use mpquic_proto::TransportConfig;
use mpquic_sim::workload::{Workload, WorkloadResult};
use mpquic_sim::{LinkConfig, Network, NetworkBuilder};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn run(links: &[LinkConfig], form: &str, seed: u64) -> WorkloadResult {
    let workload: Workload = form.parse().unwrap();
    let mut transport = TransportConfig::default();
    workload.tune(&mut transport);
    let builder = Network::builder(seed)
        .client_transport(transport.clone())
        .server_transport(transport)
        .client_boxed(workload.client(seed))
        .server_boxed(workload.server(seed))
        .open_all_paths();
    let add = |builder: NetworkBuilder, link: &LinkConfig| builder.symmetric_path(link.clone());
    let mut network: Network = links.iter().fold(builder, add).build().unwrap();
    network.run_to_completion(workload.time_limit()).unwrap();
    workload.result(&network).unwrap()
}

fn home() -> [LinkConfig; 2] {
    [
        LinkConfig::new(50_000_000, ms(8)),
        LinkConfig::new(20_000_000, ms(30)),
    ]
}

#[test]
fn on_a_clean_network_all_frames_are_in_time_and_cost_nothing() {
    for protection in [
        "",
        ":hedge",
        ":rule",
        ":fixed",
        ":retransmit",
        ":bare",
        ":streams",
    ] {
        for form in ["live:4Mbit/s:8s", "live:1Mbit/s:4s:messages"] {
            let form = format!("{form}{protection}:warm");
            let result = run(&home(), &form, 1);
            let extra = result.values["extra"];
            assert_eq!(result.values["in_time"], 100.0, "{form}: {result:?}");
            assert_eq!(result.values["missing"], 0.0, "{form}");
            // Hedge draws among all rates until it knows better.
            let most = if protection == ":hedge" { 60.0 } else { 3.0 };
            assert!(extra < most, "{form}: {extra} %");
        }
    }
    let extra = run(&home(), "live:4Mbit/s:4s:twice:warm", 1).values["extra"];
    assert!((90.0..105.0).contains(&extra), "{extra} %");
}

/// The first link carries nothing for 2 s, again and again, and nobody is told.
#[test]
fn a_silent_hole_is_a_short_freeze() {
    let mut links = home();
    for hole in 0..5 {
        links[0] = links[0]
            .clone()
            .with_outage(ms(4_500 + 4_000 * hole), ms(2_000));
    }
    let freeze = |form: &str| run(&links, form, 3).values["freeze_max"] * 1e3;
    let live = freeze("live:4Mbit/s:25s:warm:fps=20");
    // A frame's interval, the round trip of the first link and 40 ms, the way of the other, and a key frame there.
    let bound = 50.0 + 16.0 + 40.0 + 30.0 + 52.0;
    assert!(live <= bound, "{live} ms of {bound}");
    let bare = freeze("live:4Mbit/s:25s:bare:warm:fps=20");
    assert!(bare > live, "{bare} {live}");
}

/// Where what is sent again comes too late, repair ahead of loss is what helps.
#[test]
fn far_and_lossy_paths_are_repaired_ahead() {
    let links = [60, 65].map(|delay| LinkConfig::new(20_000_000, ms(delay)).with_loss(0.02));
    let late = |form: &str| run(&links, form, 5).values["late"];
    let learned = late("live:4Mbit/s:30s:warm");
    let again = late("live:4Mbit/s:30s:retransmit:warm");
    assert!(learned <= 0.3 * again, "{learned} % of {again} %");
}

/// Where the links carry less than the camera makes, some frames are whole, and not parts of all.
#[test]
fn a_camera_that_is_too_fast_loses_frames_and_not_all_of_them() {
    let links = [1_600_000, 1_200_000].map(|rate| LinkConfig::new(rate, ms(20)));
    let result = run(&links, "live:4Mbit/s:20s:warm:key=1", 1);
    // It was 1 % when parts of all frames left.
    assert!(result.values["in_time"] > 20.0, "{result:?}");
    let bare = run(&links, "live:4Mbit/s:20s:bare:warm:key=1", 1);
    assert!(result.values["in_time"] > 10.0 * bare.values["in_time"]);
}
