//! Random scenarios: 10,000 seeds, a fifth of them a day, each with its own network, workload, scheduler and congestion
//! controller, from all that exist. Each run ends within bounded virtual time with verified
//! content, repeats exactly, and leaks no memory.

mod memory;
mod plan;
#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mpquic_proto::{Side, VarInt};
use mpquic_sim::{Action, Network};

use plan::Plan;
use support::{for_seeds, keep_hashes, median};

/// Within this time, both sides discard a closed connection. They need three probe timeouts on each
/// path (RFC 9000 section 10.2), which queues may have raised to many seconds, but far less than
/// this.
const DRAINED: Duration = Duration::from_secs(1800);

/// The results of a run.
struct Run {
    hash: u128,
    completed: Duration,
}

fn network(plan: &Plan) -> Network {
    plan.build()
        .unwrap_or_else(|error| panic!("{plan:#?}: {error}"))
}

/// Runs to the end, and until both sides have discarded the connection.
fn run(plan: &Plan) -> Run {
    let mut network = network(plan);
    let limit = plan.workload.time_limit();
    if let Err(error) = network.run_to_completion(limit) {
        panic!("{error}\n{plan:#?}");
    }
    let completed = network.now();
    if let Err(error) = plan.workload.result(&network) {
        panic!("no result: {error}\n{plan:#?}");
    }
    // A bulk transfer never ends, so its server would report an error.
    if !plan.is_endless() {
        close(&mut network, plan);
    }
    Run {
        hash: network.trace_hash(),
        completed,
    }
}

/// Closes the connection, and runs until both sides have discarded it.
fn close(network: &mut Network, plan: &Plan) {
    let instant = network.instant();
    if let Some(connection) = network.connection_mut(Side::Client) {
        connection.close(instant, VarInt::from_u32(0), Bytes::new());
    }
    let now = network.now();
    network.at(now, Action::call(|_| ()));
    if let Err(error) = network.run_until_drained(now + DRAINED) {
        panic!("after the end: {error}\n{plan:#?}");
    }
}

fn seeds() -> std::ops::Range<u64> {
    support::seeds_of_today(0..10_000)
}

#[test]
fn every_scenario_comes_to_its_end() {
    let began = Instant::now();
    let seeds = seeds();
    let verbose = seeds.end - seeds.start == 1;
    let results = for_seeds(seeds.clone(), |seed| {
        let plan = Plan::new(seed);
        if verbose {
            println!("{plan:#?}");
        }
        let first = run(&plan);
        if seed % 20 == 0 {
            // Everything that is created once and kept (keys, tables, thread locals) exists by now.
            let before = memory::live();
            let second = run(&plan);
            let left = memory::live() - before;
            assert!(
                first.hash == second.hash && first.completed == second.completed,
                "two runs of seed {seed} differ"
            );
            assert!(
                left < memory::SLACK,
                "seed {seed} leaves {left} bytes behind\n{plan:#?}"
            );
        }
        (plan.kind(), first.completed, first.hash)
    });
    keep_hashes(
        "random_scenarios",
        seeds.zip(results.iter().map(|result| result.2)),
    );
    let mut kinds = BTreeMap::<_, Vec<_>>::new();
    for (kind, completed, _) in &results {
        kinds.entry(*kind).or_default().push(*completed);
    }
    for (kind, times) in kinds {
        let (count, longest) = (times.len(), times.iter().max());
        println!(
            "{count} x {kind}: after {:?}, at most {longest:?}",
            median(&times)
        );
    }
    println!("{} seeds in {:?}", results.len(), began.elapsed());
}
