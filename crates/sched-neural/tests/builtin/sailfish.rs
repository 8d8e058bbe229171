//! SAILfish: what its policy is asked, what becomes of the answers, and what they earn; worked out by hand.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use mpquic_sched::{
    Acked, Context, Data, Decision, PathId, PathUpdate, PathUpdateKind, PathView, Scheduler,
    StreamId, StreamUpdate, StreamUpdateKind, StreamView,
};
use mpquic_sched_neural::registry;
use mpquic_sched_neural::{Experience, Policy, Rates, Run, Sailfish, SailfishConfig, Unanswered};
use serde_json::json;

use crate::{Asked, loaded, unsent};

/// The elements of a row.
const ROW: usize = Sailfish::STATE / Sailfish::OUTPUTS;

fn id(index: u32) -> StreamId {
    StreamId::from(mpquic_sched::VarInt::from_u32(4 * index))
}

fn stream(index: u32) -> StreamView {
    StreamView::new(id(index), 0, 10_000)
}

fn both() -> [PathView; 2] {
    [loaded(0, 20, 10, 0), loaded(1, 60, 10, 0)]
}

fn three() -> [PathView; 3] {
    let [fast, slow] = both();
    [fast, slow, loaded(2, 90, 10, 0)]
}

/// Without room.
fn busy(mut view: PathView) -> PathView {
    view.can_send = false;
    view.in_flight = view.cwnd;
    view
}

/// Prefers a slot, or has no answer, by turns.
struct Prefers {
    slots: Vec<Option<usize>>,
    asked: usize,
    outputs: [f32; Sailfish::OUTPUTS],
}

fn prefers(slots: &[Option<usize>]) -> Box<Prefers> {
    Box::new(Prefers {
        slots: slots.to_vec(),
        asked: 0,
        outputs: [0.0; Sailfish::OUTPUTS],
    })
}

impl Policy for Prefers {
    fn answer(&mut self, state: &[f32]) -> Result<&[f32], Unanswered> {
        assert_eq!(state.len(), Sailfish::STATE);
        let slot = self.slots[self.asked % self.slots.len()].ok_or(Unanswered);
        self.asked += 1;
        self.outputs = [0.0; Sailfish::OUTPUTS];
        self.outputs[slot?] = 50.0;
        Ok(&self.outputs)
    }
}

/// Says the same at all times.
struct Says(Vec<f32>);

impl Policy for Says {
    fn answer(&mut self, _state: &[f32]) -> Result<&[f32], Unanswered> {
        Ok(&self.0)
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Seen {
    Decided(u64, Vec<f32>, f32, bool),
    Rewarded(u64, f32, bool),
}

type Watched = Arc<Mutex<Vec<Seen>>>;

/// A scheduler that is asked as a transport asks it, and what it tells its observer.
fn watched(config: &SailfishConfig, policy: Box<dyn Policy>) -> (Asked<Sailfish>, Watched) {
    let watched = Watched::default();
    let into = Arc::clone(&watched);
    let observer = move |experience: &Experience<'_>| {
        let seen = match experience {
            Experience::Decided {
                number,
                state,
                action,
                fell_back,
                ..
            } => {
                assert_eq!(action.len(), 1);
                Seen::Decided(*number, state.to_vec(), action[0], *fell_back)
            }
            Experience::Rewarded {
                number,
                reward,
                done,
                ..
            } => Seen::Rewarded(*number, *reward, *done),
            _ => return,
        };
        into.lock().unwrap().push(seen);
    };
    let scheduler = Sailfish::new(config, policy).with_observer(Box::new(observer));
    (Asked::new(scheduler), watched)
}

fn asked(policy: Box<dyn Policy>) -> (Asked<Sailfish>, Watched) {
    watched(&SailfishConfig::default(), policy)
}

fn ask(
    asked: &mut Asked<Sailfish>,
    paths: &[PathView],
    streams: &[StreamView],
) -> Option<(usize, u64)> {
    match asked.next_of(paths, &unsent(1 << 20), streams) {
        Some((slot, Data::Stream(id))) => Some((slot, id.index())),
        None => None,
        other => panic!("{other:?}"),
    }
}

fn tell(asked: &mut Asked<Sailfish>, index: u32, kinds: &[StreamUpdateKind]) {
    for &kind in kinds {
        asked
            .scheduler
            .on_stream(&StreamUpdate::new(id(index), kind));
    }
}

/// A packet was acknowledged: the time that the scheduler knows goes on.
fn acked(asked: &mut Asked<Sailfish>, ms: u64) {
    let slot = both()[0].index;
    let start = asked.start;
    let now = asked.at(ms).now;
    let acked = Acked::new(slot, now, start, 1235, None, None, 0);
    asked.scheduler.on_acked(&acked);
}

fn decisions(watched: &Watched) -> Vec<(f32, bool)> {
    let seen = watched.lock().unwrap();
    let decided = seen.iter().filter_map(|seen| match seen {
        Seen::Decided(_, _, action, fell_back) => Some((*action, *fell_back)),
        Seen::Rewarded(..) => None,
    });
    decided.collect()
}

#[test]
fn a_stream_is_asked_about_once_and_stays() {
    let (mut asked, watched) = asked(prefers(&[Some(1), Some(0), Some(1)]));
    let streams = [stream(0), stream(1), stream(2)];
    // Those before it in the transport's order are served first, on whichever path they are.
    assert_eq!(ask(&mut asked, &both(), &streams), Some((1, 0)));
    assert_eq!(decisions(&watched), [(1.0, false)]);
    let [fast, slow] = both();
    let without_slow = [fast.clone(), busy(slow.clone())];
    assert_eq!(ask(&mut asked, &without_slow, &streams), Some((0, 1)));
    // It has its answer already, and waits for its path.
    assert_eq!(ask(&mut asked, &without_slow, &streams[..1]), None);
    // So does the third, though the other path has room.
    assert_eq!(ask(&mut asked, &without_slow, &streams[2..]), None);
    let without_fast = [busy(fast), slow];
    assert_eq!(ask(&mut asked, &without_fast, &streams[2..]), Some((1, 2)));
    assert_eq!(ask(&mut asked, &without_fast, &streams[1..2]), None);
    assert_eq!(decisions(&watched).len(), 3);
    let learned = asked.scheduler.learned().unwrap();
    let pulls: Vec<_> = learned.arms.iter().map(|arm| arm.pulls).collect();
    assert_eq!(pulls, [1, 2]);
    let policy = learned.policy.unwrap();
    assert_eq!((&*policy.engine, policy.decisions), ("custom", 3));
    assert_eq!(policy.fallbacks.total(), 0);
}

#[test]
fn as_in_the_source_a_stream_may_hold_up_those_after_it() {
    let config = SailfishConfig {
        all_have_room: true,
        ..SailfishConfig::default()
    };
    let (mut asked, watched) = watched(&config, prefers(&[Some(0)]));
    let [fast, slow] = both();
    assert_eq!(ask(&mut asked, &both(), &[stream(0)]), Some((0, 0)));
    let without_slow = [fast, busy(slow)];
    let streams = [stream(1), stream(2), stream(0)];
    assert_eq!(ask(&mut asked, &without_slow, &streams[..2]), None);
    // One that is bound is not held up.
    assert_eq!(ask(&mut asked, &without_slow, &streams), Some((0, 0)));
    assert_eq!(decisions(&watched).len(), 1);
    assert_eq!(ask(&mut asked, &both(), &streams), Some((0, 1)));
    // What its pacer holds back has room.
    let mut paced = both();
    paced[1].can_send = false;
    paced[1].next_release = Some(asked.now + std::time::Duration::from_millis(1));
    assert_eq!(ask(&mut asked, &paced, &streams[1..]), Some((0, 2)));
}

#[test]
fn the_policy_chooses_among_what_can_be_used() {
    // It wants the last path, which is in trouble.
    let (mut asked, watched) = asked(Box::new(Says(vec![0.0, 60.0, 90.0, 90.0])));
    let mut paths = three();
    paths[2].suspect = true;
    assert_eq!(ask(&mut asked, &paths, &[stream(0)]), Some((1, 0)));
    assert_eq!(decisions(&watched), [(1.0, false)]);
    // With one path left there is nothing to ask.
    paths[1].suspect = true;
    assert_eq!(ask(&mut asked, &paths, &[stream(1)]), Some((0, 1)));
    assert_eq!(decisions(&watched).len(), 1);
    // Nor is one asked about that began before there were two.
    let mut begun = stream(2);
    begun.sent = 1200;
    assert_eq!(ask(&mut asked, &both(), &[begun]), Some((0, 2)));
    let alone = asked.next_of(&both()[1..], &unsent(1 << 20), &[stream(3)]);
    assert_eq!(alone, Some((1, Data::Next)));
    assert_eq!(decisions(&watched).len(), 1);
    assert_eq!(ask(&mut asked, &three(), &[stream(3)]), Some((2, 3)));
    let Seen::Decided(number, state, ..) = watched.lock().unwrap()[0].clone() else {
        panic!("no decision");
    };
    assert_eq!(number, 0);
    let present: Vec<_> = state.chunks(ROW).map(|row| row[0]).collect();
    assert_eq!(present, [1.0, 1.0, 0.0, 0.0]);
}

#[test]
fn slots_beyond_the_fourth_are_for_need() {
    let (mut asked, watched) = asked(Box::new(Says(vec![0.0; 4])));
    let mut paths: Vec<_> = (0..6)
        .map(|slot| loaded(slot, 60 - slot as u64, 10, 0))
        .collect();
    for index in 0..50 {
        let (slot, _) = ask(&mut asked, &paths, &[stream(index)]).unwrap();
        assert!(slot < 4);
    }
    assert_eq!(decisions(&watched).len(), 50);
    for path in &mut paths[..4] {
        path.suspect = true;
    }
    assert_eq!(ask(&mut asked, &paths, &[stream(50)]), Some((5, 50)));
    paths[5] = busy(paths[5].clone());
    assert_eq!(ask(&mut asked, &paths, &[stream(51)]), Some((4, 51)));
    assert_eq!(decisions(&watched).len(), 50);
}

#[test]
fn what_cannot_be_followed_is_the_fastest_path_with_room() {
    let [fast, slow] = both();
    for (policy, expected) in [
        (prefers(&[None]) as Box<dyn Policy>, [1, 0, 0]),
        (Box::new(Says(vec![0.0, f32::NAN, 0.0, 0.0])), [0, 1, 0]),
        // Another number of outputs is no answer to the one who asks.
        (Box::new(Says(vec![0.0; 2])), [1, 0, 0]),
    ] {
        let (mut asked, watched) = asked(policy);
        let paths = [busy(fast.clone()), slow.clone()];
        assert_eq!(ask(&mut asked, &paths, &[stream(0)]), Some((1, 0)));
        assert_eq!(ask(&mut asked, &both(), &[stream(1)]), Some((0, 1)));
        assert_eq!(decisions(&watched), [(1.0, true), (0.0, true)]);
        let policy = asked.scheduler.learned().unwrap().policy.unwrap();
        let fallbacks = policy.fallbacks;
        let counts = [
            fallbacks.unanswered,
            fallbacks.not_finite,
            fallbacks.out_of_range,
        ];
        assert_eq!(counts, expected.map(|count| 2 * count));
        assert_eq!(policy.decisions, 2);
    }
    // The next answer is followed again.
    let (mut asked, watched) = asked(prefers(&[None, Some(1)]));
    assert_eq!(ask(&mut asked, &both(), &[stream(0)]), Some((0, 0)));
    assert_eq!(ask(&mut asked, &both(), &[stream(1)]), Some((1, 1)));
    assert_eq!(decisions(&watched), [(0.0, true), (1.0, false)]);
}

#[test]
fn the_state_tells_of_rates_losses_and_what_is_bound() {
    let config = SailfishConfig {
        rates: Rates::Oracle(vec![15.0]),
        ..SailfishConfig::default()
    };
    let (mut asked, watched) = watched(&config, prefers(&[Some(1)]));
    let mut paths = both();
    paths[1].delivery_rate = 625_000;
    (paths[1].lost_packets, paths[1].retransmitted_packets) = (2, 3);
    paths[1].in_flight = 3000;
    paths[1].can_send = false;
    let mut hinted = stream(2);
    hinted.size = Some(50_000);
    // The first one is finished, the second one may go on.
    tell(
        &mut asked,
        0,
        &[
            StreamUpdateKind::Written(10_000),
            StreamUpdateKind::Finished,
        ],
    );
    tell(&mut asked, 1, &[StreamUpdateKind::Written(10_000)]);
    let streams = [stream(0), stream(1), hinted];
    // All want a path without room: all are asked about at once, each in the light of those before it.
    assert_eq!(ask(&mut asked, &paths, &streams), None);
    let seen = watched.lock().unwrap().clone();
    assert_eq!(seen.len(), 3);
    for (seen, (bound, size)) in seen.iter().zip([(3.0, 10.0), (13.0, 0.0), (23.0, 50.0)]) {
        let Seen::Decided(_, state, ..) = seen else {
            panic!("{seen:?}");
        };
        let rows: Vec<_> = state.chunks(ROW).collect();
        assert_eq!(rows[0][..4], [1.0, 15.0, 0.0, 20.0]);
        assert_eq!(rows[0][11..], [0.0, size]);
        assert_eq!(rows[1][..4], [1.0, 5.0, 5.0, 60.0]);
        assert_eq!(rows[1][11..], [bound, size]);
    }
    // Counted anew at the transport's next question.
    assert_eq!(ask(&mut asked, &paths, &[streams[0], stream(3)]), None);
    let Some(Seen::Decided(3, state, ..)) = watched.lock().unwrap().last().cloned() else {
        panic!("no decision");
    };
    assert_eq!(state[ROW + 11], 13.0);
    // The RTTs of the three decisions before.
    assert_eq!(state[3..8], [20.0, 20.0, 20.0, 20.0, 0.0]);
}

#[test]
fn a_stream_earns_by_its_path_and_by_its_time() {
    let config = SailfishConfig {
        rates: Rates::Oracle(vec![100.0, 1.0]),
        loss_weight: 1.0,
        ..SailfishConfig::default()
    };
    let (mut asked, watched) = watched(&config, prefers(&[Some(0), Some(1), Some(0)]));
    let mut paths = [loaded(0, 1, 10, 0), loaded(1, 121, 10, 0)];
    paths[1].lost_packets = 4;
    let streams: Vec<_> = (0..3).map(stream).collect();
    for index in 0..3 {
        tell(&mut asked, index, &[StreamUpdateKind::Written(10_000)]);
    }
    for (index, slot) in [(0, 0), (1, 1), (2, 0)] {
        asked.at(10 * index as u64);
        let one = &streams[index..=index];
        assert_eq!(ask(&mut asked, &paths, one), Some((slot, index as u64)));
    }
    acked(&mut asked, 500);
    tell(&mut asked, 1, &[StreamUpdateKind::FullyAcked]);
    // One that was reset earns nothing.
    tell(&mut asked, 0, &[StreamUpdateKind::Reset]);
    acked(&mut asked, 2000);
    tell(&mut asked, 2, &[StreamUpdateKind::FullyAcked]);
    tell(&mut asked, 2, &[StreamUpdateKind::FullyAcked]);
    // All were written by the time of the first question: 500 ms and 2 s. The paths: -0.8 of round-trip times, -0.2
    // of losses, and the rate's 0 or 1.
    let rewards: Vec<_> = watched.lock().unwrap()[3..].to_vec();
    let [Seen::Rewarded(1, one, false), Seen::Rewarded(2, two, true)] = rewards[..] else {
        panic!("{rewards:?}");
    };
    assert!((one - (0.0 - 0.5 - 0.8 - 0.2)).abs() < 1e-6, "{one}");
    assert!((two - (1.0 - 2.0 - 0.8 - 0.2)).abs() < 1e-6, "{two}");
    let learned = asked.scheduler.learned().unwrap();
    assert_eq!(learned.dropped, 1);
    let means: Vec<_> = learned.arms.iter().map(|arm| arm.mean.unwrap()).collect();
    assert!((means[0] - f64::from(two)).abs() < 1e-6, "{means:?}");
    assert!((means[1] - f64::from(one)).abs() < 1e-6, "{means:?}");
}

#[test]
fn a_path_that_ends_gives_its_streams_to_the_fastest() {
    let (mut asked, watched) = asked(prefers(&[Some(2)]));
    tell(&mut asked, 0, &[StreamUpdateKind::Written(10_000)]);
    assert_eq!(ask(&mut asked, &three(), &[stream(0)]), Some((2, 0)));
    // A detour, and back.
    let mut broken = three();
    broken[2].suspect = true;
    assert_eq!(ask(&mut asked, &broken, &[stream(0)]), Some((0, 0)));
    assert_eq!(ask(&mut asked, &three(), &[stream(0)]), Some((2, 0)));
    let over = PathUpdate::new(
        three()[2].index,
        PathId(2),
        asked.now,
        PathUpdateKind::Abandoned,
    );
    asked.scheduler.on_path(&over);
    assert_eq!(ask(&mut asked, &both(), &[stream(0)]), Some((0, 0)));
    assert_eq!(ask(&mut asked, &three(), &[stream(0)]), Some((0, 0)));
    // It was asked about once, and earns what that decision does.
    acked(&mut asked, 100);
    tell(&mut asked, 0, &[StreamUpdateKind::FullyAcked]);
    let seen = watched.lock().unwrap().clone();
    assert!(
        matches!(seen[..], [Seen::Decided(0, ..), Seen::Rewarded(0, _, true)]),
        "{seen:?}"
    );
    // The slot's next path begins anew.
    let opened = PathUpdate::new(
        three()[2].index,
        PathId(3),
        asked.now,
        PathUpdateKind::Opened,
    );
    asked.scheduler.on_path(&opened);
    let arms = asked.scheduler.learned().unwrap().arms;
    assert_eq!(
        arms.iter().map(|arm| arm.path.get()).collect::<Vec<_>>(),
        [0]
    );
}

#[test]
fn draws_are_the_seeds() {
    let choices = |seed, sample| {
        let config = SailfishConfig {
            seed,
            sample,
            ..SailfishConfig::default()
        };
        let (mut asked, _) = watched(&config, Box::new(Says(vec![0.0, 0.5, 0.0, 0.0])));
        let choices = (0..64).map(|index| ask(&mut asked, &three(), &[stream(index)]).unwrap().0);
        choices.collect::<Vec<_>>()
    };
    assert_eq!(choices(1, true), choices(1, true));
    assert_ne!(choices(1, true), choices(2, true));
    for slot in 0..3 {
        assert!(choices(1, true).contains(&slot));
    }
    assert_eq!(choices(1, false), [1; 64]);
}

#[test]
fn with_a_thread_the_newest_answer_holds() {
    let config = SailfishConfig {
        run: Run::Thread,
        ..SailfishConfig::default()
    };
    let (mut asked, watched) = watched(&config, prefers(&[Some(1)]));
    let mut index = 0;
    // Sooner or later the answer to an earlier state is there.
    while ask(&mut asked, &both(), &[stream(index)]).unwrap().0 == 0 {
        index += 1;
        std::thread::yield_now();
    }
    // And holds for all that come after it.
    for more in index + 1..index + 10 {
        let bound = ask(&mut asked, &both(), &[stream(more)]);
        assert_eq!(bound, Some((1, u64::from(more))));
    }
    let fell_back = decisions(&watched)
        .iter()
        .filter(|decided| decided.1)
        .count();
    assert_eq!(fell_back, index as usize);
    let policy = asked.scheduler.learned().unwrap().policy.unwrap();
    assert_eq!(policy.fallbacks.unanswered, u64::from(index));
}

#[test]
fn the_shipped_network_runs_as_a_plan() {
    let registry = registry();
    let mut scheduler = registry.build("sailfish", &json!({"seed": 3})).unwrap();
    let (paths, queue) = (both(), unsent(1 << 20));
    for index in 0..100 {
        let streams = [stream(index as u32)];
        let cx = Context::new(Instant::now(), &paths, &queue, index).with_streams(&streams);
        assert_ne!(scheduler.decide(&cx), Decision::Wait { until: None });
    }
    let learned = scheduler.learned().unwrap();
    assert_eq!(learned.arms.iter().map(|arm| arm.pulls).sum::<u64>(), 100);
    let policy = learned.policy.unwrap();
    assert!(policy.engine.starts_with("plan"), "{}", policy.engine);
    assert_eq!((policy.decisions, policy.fallbacks.total()), (100, 0));
}

#[test]
fn a_wrong_configuration_is_refused_with_its_reason() {
    let registry = registry();
    for (config, expected) in [
        (
            json!({"rates": "oracle"}),
            "scheduler `sailfish`, field `rates`: invalid value: string \"oracle\", expected \"estimate\" or a list of \
             rates in Mbit/s",
        ),
        (
            json!({"rates": [1, -2]}),
            "scheduler `sailfish`, field `rates`: expected Mbit/s, 0 to 1e6, got -2",
        ),
        (
            json!({"loss_weight": 1001}),
            "scheduler `sailfish`, field `loss_weight`: expected 0 to 1000, got 1001",
        ),
    ] {
        let error = registry.build("sailfish", &config).err().unwrap();
        assert_eq!(error.to_string(), expected);
    }
    let missing = json!({"model": "no/such.onnx"});
    let error = registry.build("sailfish", &missing).err().unwrap();
    let expected = "scheduler `sailfish`, field `model`: no/such.onnx: ";
    assert!(error.to_string().starts_with(expected), "{error}");
}
