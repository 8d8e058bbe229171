//! The end of a download over two unlike paths: with copies of its last bytes, the slow path costs nothing.
#![cfg(feature = "lab")]

use mpquic_proto::congestion::SlowStart;
use mpquic_sim::lab::runner::{self, Options};
use mpquic_sim::lab::{Experiment, Plan};

/// How long a download of 2 MB takes, with and without copies of its last bytes.
fn download(scheduler: &str, control: &str, tail_copies: bool) -> f64 {
    let network = "50Mbit 20ms | 2Mbit 100ms";
    let [schedulers, controls] = [scheduler, control].map(|name| [name.to_owned()]);
    let experiment = Experiment::of_one_network(network, "file:2MB", &schedulers, &controls);
    let mut experiment = experiment.unwrap();
    experiment.seeds.count = 1;
    experiment.networks[0].slow_start = SlowStart::Rapid;
    experiment.networks[0].tail_copies = tail_copies;
    let plan = Plan::new(&experiment, None);
    let mut completion = None;
    let options = Options {
        jobs: 1,
        progress: false,
    };
    runner::run(
        &plan,
        options,
        |_, _| false,
        |record| {
            completion = record.measured().map(|run| run.values["completion"]);
            Ok(())
        },
    )
    .unwrap();
    completion.unwrap()
}

#[test]
fn a_slow_path_costs_nothing_at_the_end() {
    for control in ["cubic", "bbr3"] {
        let alone = download("single", control, true);
        for scheduler in ["minrtt", "ecf", "rr"] {
            let [without, with] = [false, true].map(|tail| download(scheduler, control, tail));
            let context =
                format!("{scheduler} {control}: {without}, {with} with copies, {alone} alone");
            // ECF with BBRv3 leaves the slow path out.
            let costs = without > 1.02 * alone;
            assert!(
                costs || (scheduler, control) == ("ecf", "bbr3"),
                "{context}"
            );
            assert!(!costs || with < 0.9 * without, "{context}");
            assert!(with < 1.005 * alone, "{context}");
        }
    }
}
