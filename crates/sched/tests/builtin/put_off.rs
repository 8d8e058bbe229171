//! Rewards that are learned no sooner than the next decision: nothing else shows that they were put off.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use mpquic_sched::memory::{Recall, Store};
use mpquic_sched::{
    Acked, Context, Falcon, FalconConfig, Linucb, LinucbConfig, PathId, PathIndex, PathKey,
    PathUpdate, PathUpdateKind, PathView, QueueView, Reward, Scheduler, Sent, StreamId,
    StreamUpdate, StreamUpdateKind, VarInt,
};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

/// What happens to a connection.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// So many questions, each with a packet that leaves; the fast path has room or not.
    Decisions(u16, bool),
    /// So many packets leave unasked.
    Packets(u16),
    /// So many packets are acknowledged, with so much time between them, microseconds.
    Acks(u16, u64),
    Pause(u64),
    Reset,
    /// A path ends, and comes back.
    PathEnds(bool),
    Report,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => (1..100_u16, any::<bool>()).prop_map(|(count, room)| Event::Decisions(count, room)),
        2 => (1..600_u16).prop_map(Event::Packets),
        1 => (4000..5000_u16).prop_map(Event::Packets),
        8 => (1..200_u16, 0..3000_u64).prop_map(|(count, apart)| Event::Acks(count, apart)),
        1 => (1..400_u64).prop_map(Event::Pause),
        1 => Just(Event::Reset),
        1 => any::<bool>().prop_map(Event::PathEnds),
        2 => Just(Event::Report),
    ]
}

struct Connection {
    scheduler: Box<dyn Scheduler>,
    now: Instant,
    number: u64,
    /// Packets that are under way: the decision, the path, when.
    sent: VecDeque<(u64, PathIndex, Instant)>,
}

fn slot(index: usize) -> PathIndex {
    PathIndex::new(index).unwrap()
}

impl Connection {
    fn new(scheduler: Box<dyn Scheduler>, now: Instant) -> Self {
        let mut connection = Self {
            scheduler,
            now,
            number: 0,
            sent: VecDeque::new(),
        };
        connection.open(0);
        connection.open(1);
        connection
    }

    fn path(&mut self, index: usize, kind: PathUpdateKind) {
        let event = PathUpdate::new(slot(index), PathId(index as u32), self.now, kind);
        let key = PathKey::new(100 + index as u64);
        self.scheduler.on_path(&event.with_key(key));
    }

    fn open(&mut self, index: usize) {
        self.path(index, PathUpdateKind::Opened);
        self.path(index, PathUpdateKind::Validated);
    }

    fn views(&self, room: bool) -> [PathView; 2] {
        [(0, 40), (1, 100)].map(|(index, rtt)| {
            let mut view = PathView::of(index, Duration::from_millis(rtt));
            view.can_send = index == 1 || room;
            view.pto = Duration::from_millis(rtt + 45);
            view.cwnd = 100_000 + 10 * (self.number % 977) * index as u64;
            view.in_flight = 1000 * (self.number % 89);
            view
        })
    }

    fn decide(&mut self, room: bool) -> String {
        self.number += 1;
        self.now += Duration::from_micros(150);
        let mut queue = QueueView::default();
        (queue.unsent, queue.window_left, queue.flow_control_window) = (1 << 20, 400_000, 400_000);
        let paths = self.views(room);
        let cx = Context::new(self.now, &paths, &queue, self.number);
        format!("{:?}", self.scheduler.decide(&cx))
    }

    fn send(&mut self) {
        let path = slot(self.number as usize % 2);
        let sent = Sent::new(path, self.now, 1235, self.number, false, 1000);
        self.scheduler.on_sent(&sent);
        self.sent.push_back((self.number, path, self.now));
    }

    /// What it shows to the outside.
    fn take(&mut self, event: Event) -> String {
        match event {
            Event::Decisions(count, room) => {
                let mut decisions = String::new();
                for _ in 0..count {
                    decisions += &self.decide(room);
                    self.send();
                }
                return decisions;
            }
            Event::Packets(count) => (0..count).for_each(|_| self.send()),
            Event::Acks(count, apart) => {
                for _ in 0..count {
                    self.now += Duration::from_micros(apart);
                    // Now and then what the next ones bring is contiguous by this one.
                    let Some((decision, path, sent)) = self.sent.pop_front() else {
                        break;
                    };
                    let contiguous = [0, 2000, 1000, 1000, 500, 1500][decision as usize % 6];
                    let acked =
                        Acked::new(path, self.now, sent, 1235, None, Some(decision), contiguous);
                    self.scheduler.on_acked(&acked);
                }
            }
            Event::Pause(millis) => self.now += Duration::from_millis(millis),
            Event::Reset => {
                let id = StreamId::from(VarInt::from_u32(0));
                let reset = StreamUpdate::new(id, StreamUpdateKind::Reset);
                self.scheduler.on_stream(&reset);
            }
            Event::PathEnds(first) => {
                self.path(usize::from(first), PathUpdateKind::Abandoned);
                self.open(usize::from(first));
            }
            Event::Report => return format!("{:?}", self.scheduler.learned()),
        }
        String::new()
    }
}

/// Two of a kind, of which the first has an observer and puts nothing off: what they do, report and leave behind.
fn compare(
    make: impl Fn(Recall, bool) -> Box<dyn Scheduler>,
    events: &[Event],
) -> Result<(), TestCaseError> {
    let start = Instant::now();
    let stores = [Store::new(), Store::new()];
    let recall = |store: &Store| store.recall("learner", &json!({}));
    let mut at_once = Connection::new(make(recall(&stores[0]), true), start);
    let mut put_off = Connection::new(make(recall(&stores[1]), false), start);
    for event in events {
        prop_assert_eq!(at_once.take(*event), put_off.take(*event), "{:?}", event);
    }
    let (learned, late) = (at_once.scheduler.learned(), put_off.scheduler.learned());
    prop_assert_eq!(learned, late);
    drop((at_once, put_off));
    let folder = tempfile::tempdir().unwrap();
    let [at_once, put_off] = stores.map(|store| {
        let file = folder.path().join("memory");
        store.save(&file).unwrap();
        std::fs::read_to_string(file).unwrap()
    });
    // To the last bit: models are written down exactly.
    prop_assert_eq!(at_once, put_off);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn rewards_of_linucb(
        events in vec(event(), 1..60),
        reward in prop_oneof![
            3 => Just(Reward::Discounted),
            1 => Just(Reward::OwnAck),
            1 => Just(Reward::Packet),
            1 => Just(Reward::Deadline),
            1 => Just(Reward::Goodput),
        ],
        discount in prop_oneof![Just(1.0), Just(0.99)],
    ) {
        let config = LinucbConfig { reward, discount, p_tx: 0.9, ..Default::default() };
        compare(|memory, watched| {
            let scheduler = Linucb::with_memory(&config, memory);
            match watched {
                true => Box::new(scheduler.with_observer(Box::new(|_| {}))),
                false => Box::new(scheduler),
            }
        }, &events)?;
    }

    #[test]
    fn rewards_of_falcon(events in vec(event(), 1..60)) {
        let config = FalconConfig::default();
        compare(|memory, watched| {
            let scheduler = Falcon::with_memory(&config, memory);
            match watched {
                true => Box::new(scheduler.with_observer(Box::new(|_| {}))),
                false => Box::new(scheduler),
            }
        }, &events)?;
    }
}
