//! Schedulers that break their contract, and those that only strain it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::pair::{Pair, download, tuple};
use mpquic_proto::TransportErrorCode;
use mpquic_proto::sched::{Context, Data, Decision, PathIndex, PathSet, Scheduler};
use mpquic_proto::{ConnectionError, Event, PathErrorCode, PathId, TransportConfig};
use mpquic_proto::{Dir, Side, StreamId};

/// Chooses a path that it must not choose, once it is armed.
struct Faulty {
    choose: fn(&Context<'_>) -> Option<PathIndex>,
    armed: Arc<AtomicBool>,
}

impl Scheduler for Faulty {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        let armed = self.armed.load(Ordering::Relaxed);
        let fault = (self.choose)(cx).filter(|_| armed);
        match fault.or_else(|| Some(cx.sendable().next()?.index)) {
            Some(path) => Decision::send(path),
            None => Decision::Wait { until: None },
        }
    }
}

fn server_with(scheduler: impl Fn() -> Box<dyn Scheduler> + Send + Sync + 'static) -> Pair {
    let mut server = TransportConfig::default();
    server.scheduler(scheduler);
    let mut pair = Pair::new(TransportConfig::default(), server);
    pair.connect();
    pair
}

/// Opens a path and waits until both sides know it.
fn open(pair: &mut Pair, number: u8) -> PathId {
    let now = pair.now;
    let id = pair.c().open_path(now, tuple(number)).unwrap();
    assert!(pair.run_until(Duration::from_secs(5), |pair| pair.both_validated(id)));
    id
}

fn lost(events: &std::collections::VecDeque<Event>) -> Option<&ConnectionError> {
    events.iter().find_map(|event| match event {
        Event::ConnectionLost { reason } => Some(reason),
        _ => None,
    })
}

/// Which path a scheduler that makes mistakes chooses.
type Choose = fn(&Context<'_>) -> Option<PathIndex>;

#[test]
fn a_decision_for_a_path_that_cannot_send_closes_the_connection_and_names_the_scheduler() {
    let cases: [(Choose, &str); 3] = [
        (|_| PathIndex::new(9), "slot 9, which does not exist"),
        (|_| PathIndex::new(1), "slot 1, which is not open"),
        // The others have room still.
        (
            |cx| {
                cx.paths
                    .iter()
                    .find(|path| path.open && !path.can_send)
                    .map(|path| path.index)
            },
            "which has no room",
        ),
    ];
    for (choose, text) in cases {
        let armed = Arc::new(AtomicBool::new(false));
        let arm = Arc::clone(&armed);
        let mut pair = server_with(move || {
            Box::new(Faulty {
                choose,
                armed: Arc::clone(&armed),
            })
        });
        let first = open(&mut pair, 1);
        open(&mut pair, 2);
        let now = pair.now;
        let code = PathErrorCode::APPLICATION_ABANDON_PATH;
        pair.c().path_mut(first).close(now, code).unwrap();
        pair.run_until(Duration::from_secs(5), |pair| {
            pair.s().paths().ids().count() == 2
        });
        arm.store(true, Ordering::Relaxed);
        let id = pair.s().streams().open(Dir::Uni).unwrap();
        pair.s().send_stream(id).write(&[7; 1_000_000]).unwrap();
        let over = pair.run_until(Duration::from_secs(5), |pair| pair.c().is_closed());
        assert!(over, "{text}");
        let Some(ConnectionError::TransportError(here)) = lost(&pair.server.events) else {
            panic!("{:?}", lost(&pair.server.events));
        };
        assert_eq!(here.code, TransportErrorCode::INTERNAL_ERROR);
        assert!(here.reason.contains("the scheduler Faulty chose"), "{here}");
        assert!(here.reason.contains(text), "{here}");
        let Some(ConnectionError::ConnectionClosed(there)) = lost(&pair.client.events) else {
            panic!("{:?}", lost(&pair.client.events));
        };
        assert_eq!(there.error_code, TransportErrorCode::INTERNAL_ERROR);
        assert_eq!(there.reason, here.reason.as_bytes());
    }
}

/// Says everything that a scheduler may say, with the most extreme values.
#[derive(Default)]
struct Extreme(u64);

impl Scheduler for Extreme {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        self.0 += 1;
        let stream = StreamId::new(Side::Client, Dir::Bi, self.0);
        let Some(path) = cx.sendable().next() else {
            return Decision::Wait { until: None };
        };
        let data = match self.0 % 8 {
            0 => Data::Ahead(u64::MAX),
            1 => Data::Stream(stream),
            2 => Data::Reinject,
            3 => Data::Redundant,
            4 => Data::Retransmit,
            5 => Data::Control,
            6 => {
                return Decision::Wait {
                    until: Some(cx.now),
                };
            }
            _ => Data::Next,
        };
        let all = (0..16).filter_map(PathIndex::new).collect::<PathSet>();
        Decision::Send {
            path: path.index,
            data,
            copies: all,
        }
    }

    fn run(&self) -> u32 {
        match self.0 % 3 {
            0 => 0,
            1 => u32::MAX,
            _ => 1,
        }
    }
}

#[test]
fn whatever_a_scheduler_may_say_does_no_harm() {
    let mut pair = server_with(|| Box::new(Extreme::default()));
    open(&mut pair, 1);
    open(&mut pair, 2);
    assert!(download(&mut pair, 1_000_000));
    assert_eq!(lost(&pair.server.events), None);
}

/// Waits, and wants to be woken at a time that has passed.
struct Sleepless(Option<Instant>);

impl Scheduler for Sleepless {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        self.0.get_or_insert(cx.now);
        Decision::Wait { until: None }
    }

    fn next_wakeup(&self) -> Option<Instant> {
        self.0
    }
}

/// The pair panics if a connection asks to be called again without end.
#[test]
fn a_time_that_has_come_wakes_a_scheduler_once() {
    let mut pair = server_with(|| Box::new(Sleepless(None)));
    assert!(download(&mut pair, 20_000), "its waits are overridden");
}
