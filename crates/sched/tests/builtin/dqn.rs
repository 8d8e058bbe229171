//! The chunk scheduler: what each action does, when it decides, and what decisions earn, worked out by hand.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mpquic_sched::neural::{Dqn, DqnConfig, Experience, Policy, Run, Unanswered};
use mpquic_sched::{
    Acked, Data, Decision, Fallbacks, Learned, Lost, PathId, PathIndex, PathStatus, PathUpdate,
    PathUpdateKind, PathView, QueueView, Scheduler, StreamHints, StreamId, StreamUpdate,
    StreamUpdateKind,
};
use serde_json::{Value, json};

use crate::{Asked, PACKET, loaded, path, unsent};

type Said = Result<Vec<f32>, Unanswered>;

/// Answers with the largest value for the one action, or what else it is told to, and then for that action again.
struct Says {
    action: usize,
    instead: VecDeque<Said>,
    answer: Vec<f32>,
}

impl Policy for Says {
    fn answer(&mut self, state: &[f32]) -> Result<&[f32], Unanswered> {
        assert_eq!(state.len(), Dqn::STATE);
        self.answer = match self.instead.pop_front() {
            Some(instead) => instead?,
            None => {
                let mut values = vec![-1.0; Dqn::OUTPUTS];
                values[self.action] = -0.5;
                values
            }
        };
        Ok(&self.answer)
    }
}

/// What an observer was told, with times in milliseconds.
#[derive(Debug, Clone, PartialEq)]
enum Told {
    Decided {
        number: u64,
        at: u128,
        state: Vec<f32>,
        action: Vec<f32>,
        fell_back: bool,
    },
    Rewarded {
        number: u64,
        at: u128,
        reward: f32,
        done: bool,
    },
}

struct Fixture {
    asked: Asked<Dqn>,
    told: Arc<Mutex<Vec<Told>>>,
}

fn slot(index: usize) -> PathIndex {
    PathIndex::new(index).unwrap()
}

fn stream(number: u32) -> StreamId {
    mpquic_sched::VarInt::from_u32(number).into()
}

impl Fixture {
    /// A policy that says this, and a chunk of 100 packets, asked for at 0 ms.
    fn new(action: usize) -> Self {
        Self::says(action, vec![], json!({})).with_chunk(0, 100)
    }

    /// A policy that says these things first.
    fn says(action: usize, first: Vec<Said>, config: Value) -> Self {
        let config: DqnConfig = serde_json::from_value(config).unwrap();
        let policy = Says {
            action,
            instead: first.into(),
            answer: vec![],
        };
        let told = Arc::<Mutex<Vec<Told>>>::default();
        let into = Arc::clone(&told);
        let scheduler = Dqn::new(&config, Box::new(policy));
        let mut asked = Asked::new(scheduler);
        let start = asked.start;
        let observer = move |experience: &Experience<'_>| {
            into.lock().unwrap().push(match *experience {
                Experience::Decided {
                    number,
                    now,
                    state,
                    action,
                    fell_back,
                    ..
                } => Told::Decided {
                    number,
                    at: (now - start).as_millis(),
                    state: state.to_vec(),
                    action: action.to_vec(),
                    fell_back,
                },
                Experience::Rewarded {
                    number,
                    now,
                    reward,
                    done,
                    ..
                } => Told::Rewarded {
                    number,
                    at: (now - start).as_millis(),
                    reward,
                    done,
                },
                _ => unreachable!("no other experience"),
            });
        };
        asked.scheduler = asked.scheduler.with_observer(Box::new(observer));
        let mut fixture = Self { asked, told };
        for path in 0..3 {
            fixture.path(path, PathUpdateKind::Opened);
        }
        fixture
    }

    fn with_chunk(mut self, number: u32, packets: u64) -> Self {
        self.chunk(number, packets);
        self
    }

    /// A stream with so many packets' worth of data, written at once, is a chunk.
    fn chunk(&mut self, number: u32, packets: u64) {
        let hints = StreamHints {
            chunk: Some(number.into()),
            size: Some(packets * PACKET),
            ..StreamHints::default()
        };
        self.stream(number, StreamUpdateKind::Opened);
        self.stream(number, StreamUpdateKind::Hint(hints));
        self.stream(number, StreamUpdateKind::Written(packets * PACKET));
    }

    fn stream(&mut self, number: u32, kind: StreamUpdateKind) {
        let event = StreamUpdate::new(stream(number), kind);
        self.asked.scheduler.on_stream(&event);
    }

    fn path(&mut self, path: usize, kind: PathUpdateKind) {
        let event = PathUpdate::new(slot(path), PathId(path as u32), self.asked.now, kind);
        self.asked.scheduler.on_path(&event);
    }

    fn at(&mut self, ms: u64) -> &mut Self {
        self.asked.at(ms);
        self
    }

    fn next(&mut self, paths: &[PathView], queue: &QueueView) -> Option<(usize, Data)> {
        self.asked.next(paths, queue)
    }

    /// The packet of this decision, sent at `sent` ms, is acknowledged now; so many packets became contiguous.
    fn acked(&mut self, path: usize, decision: u64, sent: u64, contiguous: u64) {
        let sent = self.asked.start + Duration::from_millis(sent);
        let bytes = contiguous * PACKET;
        let now = self.asked.now;
        let acked = Acked::new(slot(path), now, sent, 1235, None, Some(decision), bytes);
        self.asked.scheduler.on_acked(&acked);
    }

    fn lost(&mut self, path: usize, decision: u64) {
        let (now, sent) = (self.asked.now, self.asked.start);
        let lost = Lost::new(slot(path), now, sent, 1235, Some(decision));
        self.asked.scheduler.on_lost(&lost);
    }

    fn told(&self) -> Vec<Told> {
        std::mem::take(&mut self.told.lock().unwrap())
    }

    /// Number, action and time of the decisions, and the rewards, since it was asked last.
    fn short(&self) -> Vec<(u64, u128, &'static str, f32)> {
        let short = |told| match told {
            Told::Decided {
                number, at, action, ..
            } => (number, at, "does", action[0]),
            Told::Rewarded {
                number,
                at,
                reward,
                done,
            } => (number, at, if done { "ends" } else { "earns" }, reward),
        };
        self.told().into_iter().map(short).collect()
    }

    fn learned(&self) -> Learned {
        self.asked.scheduler.learned().unwrap()
    }
}

/// RTTs of 20 and 80 ms, windows of 10 packets; the fast path has room or is full.
fn pair(room: bool) -> [PathView; 2] {
    [
        loaded(0, 20, 10, if room { 0 } else { 10 }),
        loaded(1, 80, 10, 5),
    ]
}

fn much() -> QueueView {
    unsent(1 << 20)
}

const FAST: Option<(usize, Data)> = Some((0, Data::Next));
const SLOW: Option<(usize, Data)> = Some((1, Data::Next));

#[test]
fn each_action_with_path_1_full() {
    // What is done with path 1 full, in each millisecond at which it is asked.
    for (action, expected) in [
        (3, [(0, SLOW), (14, SLOW), (15, None), (49, None)]),
        (4, [(0, SLOW), (29, SLOW), (30, None), (49, None)]),
        (5, [(0, None), (15, None), (30, None), (49, None)]),
        (6, [(0, SLOW), (15, SLOW), (30, SLOW), (49, SLOW)]),
    ] {
        let mut f = Fixture::new(action);
        for (at, expected) in expected {
            let got = f.at(at).next(&pair(false), &much());
            assert_eq!(got, expected, "action {action} at {at} ms");
            let got = f.next(&pair(true), &much());
            assert_eq!(got, FAST, "action {action} at {at} ms with room");
        }
        assert_eq!(f.short(), [(0, 0, "does", action as f32)]);
        // The phases of actions 3 and 4 begin anew with the next decision.
        assert_eq!(f.at(50).next(&pair(false), &much()), expected[0].1);
    }
}

#[test]
fn shares_come_out_where_there_is_room() {
    for (action, share) in [(0, 0.25), (1, 0.5), (2, 0.75)] {
        let mut f = Fixture::new(action);
        let draws = 4000.0_f64;
        let mut on_first = 0.0;
        for _ in 0..4000 {
            match f.next(&pair(true), &much()) {
                FAST => on_first += 1.0,
                other => assert_eq!(other, SLOW),
            }
        }
        // Five standard deviations.
        let bound = 5.0 * (draws * share * (1.0 - share)).sqrt();
        assert!((on_first - draws * share).abs() < bound, "{on_first}");
    }
}

/// Nothing goes elsewhere; the next event draws anew, and asking twice at a time does not.
#[test]
fn a_draw_for_a_full_path_waits_for_the_next_event() {
    let mut f = Fixture::new(1);
    let (mut sent, mut waited) = (0, 0);
    for at in 0..1000 {
        let before = f.at(at).next(&pair(false), &much());
        if before.is_some() {
            assert_eq!(before, SLOW);
            sent += 1;
        } else {
            assert_eq!(f.next(&pair(false), &much()), None, "at {at} again");
            waited += 1;
        }
    }
    // Five standard deviations.
    let bound = 5.0 * (1000.0_f64 * 0.25).sqrt();
    assert!((f64::from(sent) - 500.0).abs() < bound, "{sent}");
    assert_eq!(sent + waited, 1000);
    // The same for the slow path.
    let mut slow_full = pair(true);
    (slow_full[1].can_send, slow_full[1].in_flight) = (false, slow_full[1].cwnd);
    let fast = (1000..2000).filter(|at| {
        let next = f.at(*at).next(&slow_full, &much());
        assert!([FAST, None].contains(&next));
        next.is_some()
    });
    assert!((fast.count() as f64 - 500.0).abs() < bound);
}

#[test]
fn a_draw_for_a_path_that_its_pacer_holds_stands() {
    let mut f = Fixture::new(2);
    let mut paced = pair(true);
    for at in 0..200 {
        f.at(5 * at);
        (paced[0].can_send, paced[0].next_release) =
            (false, Some(f.asked.now + Duration::from_millis(3)));
        if f.next(&paced, &much()).is_some() {
            continue;
        }
        // Whatever happens meanwhile.
        for later in 1..3 {
            assert_eq!(f.at(5 * at + later).next(&paced, &much()), None);
        }
        (paced[0].can_send, paced[0].next_release) = (true, None);
        assert_eq!(f.at(5 * at + 3).next(&paced, &much()), FAST);
    }
}

#[test]
fn waits_end() {
    let mut f = Fixture::new(5);
    let paths = pair(false);
    // The fast path's probe timeout.
    assert_eq!(f.asked.waits(&paths, &much()), Some(65));
    assert_eq!(f.at(64).asked.waits(&paths, &much()), Some(65));
    assert_eq!(f.at(65).next(&paths, &much()), SLOW);
    assert_eq!(f.asked.waits(&paths, &much()), Some(130));
    // Nothing on its way: nothing will make it open.
    let mut silent = pair(false);
    silent[0].in_flight = 0;
    assert_eq!(f.next(&silent, &much()), SLOW);
    for action in 0..3 {
        let mut f = Fixture::new(action);
        for at in 0..300 {
            assert_eq!(f.at(at).next(&silent, &much()), SLOW, "action {action}");
        }
        // And with nobody to wait for but full ones, the transport is not busied.
        let mut full = pair(false);
        full[1].can_send = false;
        assert_eq!(f.asked.waits(&full, &much()), None);
    }
}

#[test]
fn what_is_lost_waits_for_no_path() {
    let again = Some((1, Data::Retransmit));
    let mut f = Fixture::new(5);
    let mut queue = much();
    queue.retransmittable = PACKET;
    assert_eq!(f.next(&pair(false), &queue), again);
    assert_eq!(f.next(&pair(true), &queue), FAST);
    let mut queue = much();
    queue.control = true;
    assert_eq!(f.next(&pair(false), &queue), again);
    // What waits meanwhile does not wait for longer by it: since 0 ms.
    let mut f = Fixture::new(5);
    assert_eq!(f.asked.waits(&pair(false), &much()), Some(65));
    assert_eq!(f.at(40).next(&pair(false), &queue), again);
    assert_eq!(f.at(64).next(&pair(false), &queue), again);
    assert_eq!(f.at(65).next(&pair(false), &queue), SLOW);
    // Nothing new may go: no rule holds.
    for (new, window) in [(0, u64::MAX), (1 << 20, 0)] {
        let mut queue = unsent(new);
        (queue.window_left, queue.retransmittable) = (window, PACKET);
        for action in 0..7 {
            let mut f = Fixture::new(action);
            assert_eq!(f.next(&pair(false), &queue), SLOW, "action {action}");
        }
    }
}

#[test]
fn path_1_in_trouble_is_replaced_at_once() {
    for change in [
        |path: &mut PathView| path.suspect = true,
        |path: &mut PathView| path.open = false,
        |path: &mut PathView| path.status = PathStatus::Backup,
    ] {
        let mut f = Fixture::new(5);
        assert_eq!(f.asked.waits(&pair(false), &much()), Some(65));
        let mut paths = pair(false);
        change(&mut paths[0]);
        assert_eq!(f.at(1).next(&paths, &much()), SLOW);
        // Until the next decision, it stays replaced.
        assert_eq!(f.at(2).next(&pair(true), &much()), SLOW);
        assert_eq!(f.at(50).next(&pair(true), &much()), FAST);
        // All are in trouble: the one that was path 1 is.
        paths = pair(true);
        paths.iter_mut().for_each(|path| path.suspect = true);
        assert_eq!(f.at(51).next(&paths, &much()), FAST);
    }
}

#[test]
fn one_path_is_used_whatever_is_drawn() {
    for action in 0..7 {
        let mut f = Fixture::new(action);
        for at in 0..200 {
            assert_eq!(f.at(at).next(&[path(0, 20)], &much()), FAST);
        }
        assert_eq!(f.asked.waits(&[loaded(0, 20, 10, 10)], &much()), None);
        assert_eq!(f.asked.waits(&[], &much()), None);
    }
}

#[test]
fn path_2_is_all_others_by_window_over_rtt() {
    let paths = |second: bool, third: bool| {
        let mut paths = [
            loaded(0, 20, 10, 10),
            loaded(1, 40, 10, 1),
            loaded(2, 80, 60, 1),
        ];
        (paths[1].can_send, paths[2].can_send) = (second, third);
        paths
    };
    let mut f = Fixture::new(0);
    let mut count = |paths: &[PathView]| {
        let mut counts = [0_u32; 4];
        for _ in 0..4000 {
            let now = f.asked.now + Duration::from_millis(1);
            f.asked.now = now;
            let next = f.next(paths, &much());
            counts[next.map_or(3, |(slot, _)| slot)] += 1;
        }
        counts.map(f64::from)
    };
    // 3000 draws of path 2; 10/40 against 60/80. Five standard deviations.
    let [first, second, third, waits] = count(&paths(true, true));
    assert_eq!(first, 0.0);
    assert!((waits - 1000.0).abs() < 137.0, "{waits}");
    assert!((third / (second + third) - 0.75).abs() < 0.04);
    // Where one has room, path 2 has room.
    let [first, second, third, waits] = count(&paths(true, false));
    assert_eq!((first, third), (0.0, 0.0));
    assert!((second - 3000.0).abs() < 137.0, "{second} {waits}");
}

/// 100 packets: a decision at the first one, and every 50 ms as long as some are unsent.
#[test]
fn decisions_and_what_they_earn() {
    let mut f = Fixture::new(6);
    let fast = [loaded(0, 20, 1000, 10), loaded(1, 80, 10, 10)];
    let mut queue = much();
    queue.flow_control_window = 300_000;
    let send = |f: &mut Fixture, count: usize| {
        for _ in 0..count {
            assert_eq!(f.next(&fast, &queue), FAST);
        }
    };
    // Something happened before the first packet could leave: the chunk was asked for by then.
    f.at(10).acked(1, 77, 0, 0);
    f.at(20);
    send(&mut f, 5);
    let window = 12_350.0;
    let state = |unsent: f32, unacked: f32, elapsed| {
        [
            20.0,
            100.0 * window,
            window,
            80.0,
            window,
            window,
            300_000.0,
            unsent * PACKET as f32,
            unacked * PACKET as f32,
            elapsed,
        ]
        .to_vec()
    };
    let decided = |number, at, state| Told::Decided {
        number,
        at,
        state,
        action: vec![6.0],
        fell_back: false,
    };
    assert_eq!(f.told(), [decided(0, 20, state(100.0, 100.0, 0.01))]);
    // Acknowledged in the last 50 ms before 71 ms, in order: decisions 1 to 3, 2 being lost and 4 before its time.
    f.at(20).acked(0, 0, 20, 1);
    f.at(21).acked(0, 1, 20, 1);
    f.at(40).acked(0, 3, 20, 0);
    assert_eq!(f.told(), []);
    f.at(45).lost(0, 2);
    f.at(69);
    send(&mut f, 10);
    assert_eq!(f.told(), []);
    f.at(71);
    send(&mut f, 1);
    let earned = |number, at, reward, done| Told::Rewarded {
        number,
        at,
        reward,
        done,
    };
    assert_eq!(
        f.told(),
        [
            earned(0, 71, 0.02, false),
            decided(1, 71, state(85.0, 98.0, 0.061))
        ]
    );
    // The rest is sent: nobody has a use for another decision.
    send(&mut f, 84);
    queue.retransmittable = PACKET;
    assert_eq!(f.at(150).next(&fast, &queue), FAST);
    assert_eq!(f.at(290).next(&fast, &queue), FAST);
    assert_eq!(f.told(), []);
    // Sent at 290, acknowledged at 310: it arrived at 300, 290 ms after the chunk was asked for.
    f.at(310).acked(0, 101, 290, 98);
    assert_eq!(f.told(), []);
    f.stream(0, StreamUpdateKind::FullyAcked);
    let reward = (100.0 + (1000.0 - 290.0) * 0.12) / 100.0;
    assert_eq!(f.told(), [earned(1, 310, reward, true)]);
    // The next chunk has its first decision at its first packet.
    f.at(320).chunk(1, 10);
    queue.retransmittable = 0;
    assert_eq!(f.next(&fast, &queue), FAST);
    assert_eq!(f.told(), [decided(2, 320, state(10.0, 10.0, 0.0))]);
    // Late beyond all measure, it earns nothing, and no less.
    f.at(20_000_000).acked(0, 102, 19_999_990, 10);
    f.stream(1, StreamUpdateKind::FullyAcked);
    assert_eq!(f.told(), [earned(2, 20_000_000, 0.0, true)]);
    assert_eq!(f.learned().dropped, 0);
}

#[test]
fn without_hints_what_is_queued_is_one_chunk() {
    let mut f = Fixture::says(6, vec![], json!({}));
    // Nothing was written yet: no chunk, no decision.
    let mut control = QueueView::default();
    control.control = true;
    let path = slot(0);
    let decision = f.asked.decide(&pair(true), &control, &[]);
    assert_eq!((decision, f.short()), (Decision::send(path), vec![]));
    f.stream(7, StreamUpdateKind::Written(4 * PACKET));
    f.stream(8, StreamUpdateKind::Written(6 * PACKET));
    for _ in 0..8 {
        assert_eq!(f.next(&pair(true), &much()), FAST);
    }
    f.at(50).acked(0, 1, 0, 8);
    assert_eq!(f.next(&pair(true), &much()), FAST);
    assert_eq!(f.next(&pair(true), &much()), FAST);
    f.at(80).acked(0, 10, 50, 1);
    assert_eq!(
        f.short(),
        [
            (0, 0, "does", 6.0),
            (0, 50, "earns", 0.01),
            (1, 50, "does", 6.0)
        ]
    );
    f.at(90).acked(0, 9, 50, 1);
    // Sent at 50 ms and acknowledged at 90: there at 70.
    let reward = (100.0 + (1000.0 - 70.0) * 0.012) / 100.0;
    assert_eq!(f.short(), [(1, 90, "ends", reward)]);
    // More is another chunk.
    f.stream(7, StreamUpdateKind::Written(PACKET));
    assert_eq!(f.at(91).next(&pair(true), &much()), FAST);
    assert_eq!(f.short(), [(2, 91, "does", 6.0)]);
}

#[test]
fn chunks_take_turns_in_the_order_of_their_hints() {
    let mut f = Fixture::new(6).with_chunk(1, 2);
    f.asked.scheduler.on_stream(&StreamUpdate::new(
        stream(9),
        StreamUpdateKind::Written(PACKET),
    ));
    for _ in 0..100 {
        assert_eq!(f.next(&pair(true), &much()), FAST);
    }
    assert_eq!(f.short(), [(0, 0, "does", 6.0)]);
    // All of the first one is sent: the second one has its first packet.
    f.at(1).next(&pair(true), &much());
    f.next(&pair(true), &much());
    assert_eq!(f.short(), [(1, 1, "does", 6.0)]);
    // What is of none comes last.
    f.at(2).next(&pair(true), &much());
    assert_eq!(f.short(), [(2, 2, "does", 6.0)]);
    f.at(40).acked(0, 0, 0, 103);
    assert_eq!(f.told().len(), 1, "what is of no chunk has arrived");
    // They end in any order, each with a reward of its own.
    f.stream(1, StreamUpdateKind::FullyAcked);
    f.stream(0, StreamUpdateKind::FullyAcked);
    let ended: Vec<_> = f.short().iter().map(|told| (told.0, told.2)).collect();
    assert_eq!(ended, [(1, "ends"), (0, "ends")]);
}

#[test]
fn streams_that_are_reset_earn_nothing() {
    let mut f = Fixture::new(6);
    f.next(&pair(true), &much());
    f.stream(0, StreamUpdateKind::Reset);
    f.at(60).next(&pair(true), &unsent(0));
    assert_eq!(f.short(), [(0, 0, "does", 6.0)]);
    assert_eq!(f.learned().dropped, 1);
    // The same of data without a chunk; what is left of it is known from the queue.
    f.stream(7, StreamUpdateKind::Written(4 * PACKET));
    f.stream(8, StreamUpdateKind::Written(4 * PACKET));
    f.next(&pair(true), &much());
    f.stream(7, StreamUpdateKind::Reset);
    let mut queue = unsent(3 * PACKET);
    queue.in_flight = PACKET;
    f.at(120).next(&pair(true), &queue);
    assert_eq!(f.learned().dropped, 2);
    f.next(&pair(true), &queue);
    f.next(&pair(true), &queue);
    f.at(160).acked(0, 2, 60, 4);
    let told = f.short();
    let told: Vec<_> = told.iter().map(|told| (told.0, told.1, told.2)).collect();
    assert_eq!(told, [(1, 60, "does"), (2, 120, "does"), (2, 160, "ends")]);
}

#[test]
fn answers_that_cannot_be_followed_are_min_rtt_and_counted() {
    let nan = || {
        let mut values = vec![0.0; 7];
        values[3] = f32::NAN;
        Ok(values)
    };
    let answers = vec![
        nan(),
        Ok(vec![0.0; 6]),
        Err(Unanswered),
        Ok(vec![f32::INFINITY; 7]),
        // Of equals the first.
        Ok(vec![2.0; 7]),
    ];
    let mut f = Fixture::says(5, answers, json!({"seed": 3})).with_chunk(0, 100);
    for round in 0..4 {
        assert_eq!(f.at(50 * round).next(&pair(false), &much()), SLOW);
        let told = f.told();
        let last = told.last().unwrap();
        let Told::Decided {
            action, fell_back, ..
        } = last
        else {
            panic!("{last:?}");
        };
        assert_eq!((&**action, *fell_back), (&[6.0][..], true), "round {round}");
    }
    f.at(200).next(&pair(true), &much());
    f.at(250).next(&pair(true), &much());
    let actions: Vec<_> = f.short().iter().map(|told| (told.2, told.3)).collect();
    let zero = ("earns", 0.0);
    assert_eq!(actions, [zero, ("does", 0.0), zero, ("does", 5.0)]);
    let policy = f.learned().policy.unwrap();
    let Fallbacks {
        unanswered,
        not_finite,
        out_of_range,
        unusable,
        ..
    } = policy.fallbacks;
    // A policy that gives too few values gave no answer.
    assert_eq!(
        (unanswered, not_finite, out_of_range, unusable),
        (2, 2, 0, 0)
    );
    assert_eq!((policy.decisions, &*policy.engine), (6, "custom"));
}

/// Until the first answer it is minRTT; then the answer's action, told with the state that it is about.
#[test]
fn on_a_thread_of_its_own_the_answer_comes_when_it_comes() {
    let mut f = Fixture::says(5, vec![], json!({"run": "thread"})).with_chunk(0, 100_000);
    assert_eq!(
        serde_json::from_value::<DqnConfig>(json!({"run": "thread"}))
            .unwrap()
            .run,
        Run::Thread
    );
    let wait = |f: &mut Fixture| {
        // Time stands still: no other decision comes due.
        while let Some(next) = f.next(&pair(false), &much()) {
            assert_eq!(Some(next), SLOW, "minRTT");
            std::thread::yield_now();
        }
    };
    wait(&mut f);
    assert_eq!(f.short(), [(0, 0, "does", 5.0)]);
    f.at(50);
    while f.told.lock().unwrap().len() < 2 {
        assert_eq!(f.next(&pair(false), &much()), None, "the action before");
        std::thread::yield_now();
    }
    assert_eq!(f.short(), [(0, 50, "earns", 0.0), (1, 50, "does", 5.0)]);
    assert_eq!(f.learned().policy.unwrap().fallbacks.total(), 0);
}

#[test]
fn equal_seeds_draw_alike() {
    let run = |seed: u64| {
        let config = json!({"seed": seed});
        let mut f = Fixture::says(1, vec![], config).with_chunk(0, 100);
        let next = |_| f.next(&pair(true), &much()).unwrap().0;
        (0..100).map(next).collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}
