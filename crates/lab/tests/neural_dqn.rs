//! Tests of the chunk scheduler end to end: with one or more paths, with losses and dead paths,
//! each chunk arrives and ends its episode, whatever the policy answers.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mpquic_proto::TransportConfig;
use mpquic_sched::Scheduler;
use mpquic_sched_neural::{Dqn, DqnConfig, Experience, Policy, Random, Unanswered};
use mpquic_sim::workload::Workload;
use mpquic_sim::{Action, LinkConfig, Network, NetworkBuilder, Report};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A policy that always takes the same action.
struct Always([f32; Dqn::OUTPUTS]);

impl Policy for Always {
    fn answer(&mut self, state: &[f32]) -> Result<&[f32], Unanswered> {
        assert!(state.iter().all(|element| element.is_finite()), "{state:?}");
        Ok(&self.0)
    }
}

/// What happened in the server's scheduler.
#[derive(Debug, Default, Clone, PartialEq)]
struct Seen {
    decided: Vec<(u64, Instant)>,
    /// Number, reward, and whether it ends the chunk.
    rewarded: Vec<(u64, f32, bool)>,
}

impl Seen {
    fn take_in(&mut self, experience: &Experience<'_>) {
        match *experience {
            Experience::Decided { number, now, .. } => self.decided.push((number, now)),
            Experience::Rewarded {
                number,
                reward,
                done,
                ..
            } => self.rewarded.push((number, reward, done)),
            _ => unreachable!("no other experience"),
        }
    }

    fn ended(&self) -> usize {
        self.rewarded.iter().filter(|(.., done)| *done).count()
    }
}

/// The policy.
#[derive(Debug, Clone, Copy)]
enum Who {
    Action(usize),
    Random(u64),
}

impl Who {
    fn all() -> impl Iterator<Item = Self> {
        (0..Dqn::OUTPUTS).map(Self::Action).chain([Self::Random(7)])
    }

    fn scheduler(self, seen: &Arc<Mutex<Seen>>) -> Dqn {
        let mut config = DqnConfig::default();
        let policy: Box<dyn Policy> = match self {
            Self::Action(action) => {
                let mut values = [0.0; Dqn::OUTPUTS];
                values[action] = 1.0;
                Box::new(Always(values))
            }
            Self::Random(seed) => {
                config.seed = seed;
                Box::new(Random::new(Dqn::OUTPUTS, seed))
            }
        };
        let seen = Arc::clone(seen);
        let observer = move |experience: &Experience<'_>| {
            seen.lock().unwrap().take_in(experience);
        };
        Dqn::new(&config, policy).with_observer(Box::new(observer))
    }
}

/// 20, 15 and 5 Mbit/s, each with losses and jitter.
fn lossy(count: usize) -> Vec<LinkConfig> {
    let links = [
        LinkConfig::new(20_000_000, ms(5)).with_loss(0.01),
        LinkConfig::new(15_000_000, ms(40)).with_loss(0.02),
        LinkConfig::new(5_000_000, ms(80)).with_loss(0.01),
    ];
    let links = links.into_iter().map(|link| link.with_rtt_variation(5.0));
    links.take(count).collect()
}

fn network<S: Scheduler + 'static>(
    links: &[LinkConfig],
    workload: &Workload,
    seed: u64,
    make: impl Fn() -> S + Send + Sync + 'static,
) -> Network {
    let mut server = TransportConfig::default();
    // All that is sent is what the policy decides.
    server.tail_copies(false);
    server.scheduler(move || Box::new(make()));
    let builder = Network::builder(seed)
        .server_transport(server)
        .client_boxed(workload.client(seed))
        .server_boxed(workload.server(seed))
        .open_all_paths()
        .null_aead();
    let add = |builder: NetworkBuilder, link: &LinkConfig| builder.symmetric_path(link.clone());
    links.iter().fold(builder, add).build().unwrap()
}

/// Runs the download to its end. One path may die.
fn run(
    links: &[LinkConfig],
    form: &str,
    seed: u64,
    who: Who,
    dies: Option<(Duration, usize)>,
) -> (Report, Seen) {
    let workload: Workload = form.parse().unwrap();
    let seen = Arc::<Mutex<Seen>>::default();
    let into = Arc::clone(&seen);
    let mut network = network(links, &workload, seed, move || who.scheduler(&into));
    if let Some((time, path)) = dies {
        let dead = Action::SetLinkUp {
            path,
            from: None,
            up: false,
        };
        network.at(time, dead);
    }
    let report = network
        .run_to_completion(Duration::from_secs(60))
        .unwrap_or_else(|error| panic!("{form} {who:?} {seed}: {error}"));
    workload.result(&network).unwrap();
    let seen = seen.lock().unwrap().clone();
    (report, seen)
}

const CHUNKS: usize = 5;

#[test]
fn chunks_arrive_over_any_number_of_lossy_paths() {
    for paths in 1..=3 {
        for who in Who::all() {
            let (report, seen) = run(&lossy(paths), "video:5:5Mbit/s", 1, who, None);
            assert_eq!(report.server.overridden_waits, 0, "{paths} {who:?}");
            // The last acknowledgement may or may not be seen.
            assert!(seen.ended() >= CHUNKS - 1, "{paths} {who:?} {seen:?}");
            // Each decision is reported once, in order. All but the last one earn one reward each:
            // at the next decision, or when their chunk is complete, which may be after the first
            // decisions on the next chunk.
            let numbers: Vec<_> = seen.decided.iter().map(|(number, _)| *number).collect();
            let expected: Vec<_> = (0..numbers.len() as u64).collect();
            assert_eq!(numbers, expected);
            let mut earned: Vec<_> = seen.rewarded.iter().map(|(number, ..)| *number).collect();
            earned.sort_unstable();
            assert_eq!(earned, expected[..earned.len()]);
            assert!(numbers.len() - earned.len() <= 1);
            // 100 and up to 0.7 of 1000 ms for 625 kB, over 100; packets of a part of a second.
            for &(number, reward, done) in &seen.rewarded {
                let range = if done { 0.0..8.0 } else { 0.0..10.0 };
                assert!(range.contains(&reward), "{number} {reward} {done}");
            }
        }
    }
}

/// Decisions on a chunk are at least 50 ms apart, and few are much further apart.
#[test]
fn decisions_come_every_50_ms() {
    let links = [
        LinkConfig::new(8_000_000, ms(10)),
        LinkConfig::new(6_000_000, ms(20)),
    ];
    let (_, seen) = run(&links, "video:5:5Mbit/s", 1, Who::Action(6), None);
    let apart: Vec<_> = seen
        .rewarded
        .iter()
        .filter(|(_, _, done)| !done)
        .map(|&(number, ..)| {
            let at = |number: u64| seen.decided[number as usize].1;
            at(number + 1) - at(number)
        })
        .collect();
    // 625 kB at 14 Mbit/s take some 360 ms, of which the last window needs no decision.
    assert!(apart.len() >= 4 * CHUNKS, "{apart:?}");
    assert!(apart.iter().all(|apart| *apart >= ms(50)), "{apart:?}");
    let timely = apart.iter().filter(|apart| **apart < ms(60)).count();
    assert!(timely * 10 >= apart.len() * 9, "{apart:?}");
}

/// The fast or the slow path dies in the middle of a chunk.
#[test]
fn a_path_that_dies_holds_nothing_up() {
    for who in Who::all() {
        for (dead, paths) in [(0, 2), (1, 2), (0, 3)] {
            let dies = Some((ms(300), dead));
            let (report, seen) = run(&lossy(paths), "video:5:5Mbit/s", 2, who, dies);
            assert!(seen.ended() >= CHUNKS - 1, "{dead} {who:?} {seen:?}");
            // 3.1 MB over 15 Mbit/s at 2 % loss, plus a timeout or two.
            let limit = Duration::from_secs(30);
            assert!(report.completed < limit, "{dead} {who:?} {report:?}");
        }
    }
}

/// A download without chunk hints is one chunk.
#[test]
fn a_plain_download_is_one_chunk() {
    for who in Who::all() {
        let (report, seen) = run(&lossy(2), "file:1MB", 3, who, None);
        assert_eq!(report.server.overridden_waits, 0, "{who:?}");
        assert!(seen.decided.len() > 3, "{who:?} {seen:?}");
        assert!(seen.ended() <= 1, "{who:?} {seen:?}");
    }
}

#[test]
fn equal_seeds_give_equal_runs() {
    let run = |seed, draws| {
        let (report, seen) = run(&lossy(3), "video:3:5Mbit/s", seed, Who::Random(draws), None);
        (report.trace_hash, seen.rewarded)
    };
    assert_eq!(run(1, 1), run(1, 1));
    assert_ne!(run(1, 1), run(1, 2));
    // The same with the policy in the crate.
    let shipped = || {
        let workload: Workload = "video:3:5Mbit/s".parse().unwrap();
        let factory = mpquic_sched_neural::registry()
            .factory("dqn", &serde_json::json!({"seed": 1}))
            .unwrap();
        let mut network = Network::builder(1)
            .transport({
                let mut transport = TransportConfig::default();
                transport.scheduler(factory);
                transport
            })
            .client_boxed(workload.client(1))
            .server_boxed(workload.server(1))
            .symmetric_path(lossy(2)[0].clone())
            .symmetric_path(lossy(2)[1].clone())
            .open_all_paths()
            .null_aead()
            .build()
            .unwrap();
        let report = network.run_to_completion(Duration::from_secs(60)).unwrap();
        report.trace_hash
    };
    assert_eq!(shipped(), shipped());
}
