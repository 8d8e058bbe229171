//! Tests of what comes between the transport and its scheduler: waits, their ends, and what is asked when.

use super::*;

impl Schedule {
    /// Has this many slots in use.
    pub(super) fn show(&mut self, slots: usize) {
        self.used = slots;
        self.view_mut(PathIndex::new(slots - 1).unwrap());
    }
}

struct Never;

impl Scheduler for Never {
    fn decide(&mut self, _: &Context<'_>) -> Decision {
        Decision::Wait { until: None }
    }
}

#[test]
fn an_endless_wait_is_overridden_after_one_pto() {
    let mut schedule = Schedule::new(Box::new(Never));
    schedule.show(2);
    schedule.views[1].open = true;
    schedule.views[1].can_send = true;
    schedule.queue.unsent = 1;
    let start = Instant::now();
    let pto = Duration::from_millis(100);
    assert_eq!(schedule.next(start, &|| true), None);
    assert_eq!(schedule.next_timeout(|| pto), Some(start + pto));
    assert_eq!(schedule.next(start + pto / 2, &|| true), None);
    assert_eq!(schedule.next_timeout(|| pto), Some(start + pto));
    schedule.on_timeout(start + pto, pto);
    let planned = schedule.next(start + pto, &|| true).unwrap();
    assert_eq!((planned.path.get(), planned.data), (1, Data::Next));
    assert_eq!(schedule.overridden, 1);
}

/// The fast path, of 40 ms and a window of 100 packets, has no room; the other one has, and this RTT.
fn late_at(rtt: u64, in_flight: u64, waits: u64) -> bool {
    let mut schedule = Schedule::new(Box::new(Never));
    schedule.show(2);
    for (view, rtt) in schedule.views.iter_mut().zip([40, rtt]) {
        view.open = true;
        (view.smoothed_rtt, view.latest_rtt) = (Duration::from_millis(rtt), Duration::ZERO);
        (view.cwnd, view.mtu) = (120_000, 1200);
    }
    schedule.views[0].in_flight = in_flight;
    schedule.views[1].can_send = true;
    let late = schedule.late(waits);
    assert!(!late.contains(schedule.views[0].index));
    late.contains(schedule.views[1].index)
}

#[test]
fn lost_data_waits_where_it_arrives_first() {
    // Half an RTT to arrive, a quarter and a hundredth until there is room: 30.4 ms, an RTT of 61.
    assert!(!late_at(40, 120_000, 0) && !late_at(60, 120_000, 0));
    assert!(late_at(61, 120_000, 0));
    // After a loss, half a window must be acknowledged first: 50.4 ms.
    assert!(!late_at(100, 180_000, 0));
    assert!(late_at(101, 180_000, 0));
    // However much is in flight, an RTT is enough.
    assert!(late_at(141, u64::MAX, 0));
    // Half a window of lost data takes half an RTT more there: 50.4 ms. A thousand packets are sooner on any path with room.
    assert!(!late_at(100, 120_000, 60_000));
    assert!(late_at(101, 120_000, 60_000));
    assert!(!late_at(600, 120_000, 1_200_000));
    assert!(!late_at(600, 120_000, u64::MAX));
}

/// Waits for so long at a time.
struct Patient(Duration);

impl Scheduler for Patient {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        Decision::Wait {
            until: Some(cx.now + self.0),
        }
    }
}

#[test]
fn a_wait_is_asked_again_at_its_time_and_whenever_something_happens() {
    let wait = Duration::from_millis(7);
    let mut schedule = Schedule::new(Box::new(Patient(wait)));
    schedule.show(1);
    (schedule.views[0].open, schedule.views[0].can_send) = (true, true);
    let start = Instant::now();
    let pto = Duration::from_millis(100);
    assert_eq!(schedule.next(start, &|| false), None);
    assert_eq!(schedule.next_timeout(|| pto), Some(start + wait));
    // An acknowledgement or anything else: asked again, and the timer is that of the newest answer.
    assert_eq!(schedule.next(start + wait / 2, &|| false), None);
    assert_eq!(schedule.decisions(), 2);
    let until = start + wait / 2 + wait;
    assert_eq!(schedule.next_timeout(|| pto), Some(until));
    schedule.on_timeout(until, pto);
    assert_eq!(schedule.next_timeout(|| pto), None);
    assert_eq!(schedule.next(until, &|| false), None);
    assert_eq!((schedule.decisions(), schedule.waits), (3, 3));
    assert_eq!(schedule.next_timeout(|| pto), Some(until + wait));
}

/// Asks for data that there is not.
struct Fruitless;

impl Scheduler for Fruitless {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        Decision::Send {
            path: cx.paths[1].index,
            data: Data::Ahead(1 << 40),
            copies: PathSet::EMPTY,
        }
    }
}

#[test]
fn asking_for_nothing_is_waiting() {
    let mut schedule = Schedule::new(Box::new(Fruitless));
    schedule.show(2);
    schedule.views[1].open = true;
    schedule.views[1].can_send = true;
    let start = Instant::now();
    let pto = Duration::from_millis(100);
    let fruitless = schedule.next(start, &|| true).unwrap();
    assert_eq!(schedule.instead(start, &fruitless, &|| true), None);
    assert_eq!(schedule.next_timeout(|| pto), Some(start + pto));
    schedule.on_timeout(start + pto, pto);
    let offer = |schedule: &mut Schedule| {
        schedule.exhausted = PathSet::EMPTY;
        schedule.views[1].can_send = true;
    };
    offer(&mut schedule);
    let fruitless = schedule.next(start + pto, &|| true).unwrap();
    let planned = schedule.instead(start + pto, &fruitless, &|| true).unwrap();
    assert_eq!((planned.path.get(), planned.data), (1, Data::Next));
    schedule.on_progress(&planned);
    assert_eq!(schedule.next_timeout(|| pto), None);
    assert_eq!((schedule.waits, schedule.overridden), (2, 1));
}

/// Asks each path in turn for what there is not, but the last one.
struct Choosy;

impl Scheduler for Choosy {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        let Some(path) = cx.sendable().next() else {
            return Decision::Wait { until: None };
        };
        let data = match path.index.get() {
            2 => Data::Redundant,
            _ => Data::Ahead(1 << 40),
        };
        Decision::Send {
            path: path.index,
            data,
            copies: PathSet::EMPTY,
        }
    }
}

#[test]
fn a_path_with_nothing_to_send_does_not_hold_up_the_others() {
    let mut schedule = Schedule::new(Box::new(Choosy));
    schedule.show(3);
    for view in &mut schedule.views[..3] {
        (view.open, view.can_send) = (true, true);
    }
    let now = Instant::now();
    let first = schedule.next(now, &|| false).unwrap();
    let second = schedule.instead(now, &first, &|| false).unwrap();
    let third = schedule.instead(now, &second, &|| false).unwrap();
    assert_eq!([first, second, third].map(|p| p.path.get()), [0, 1, 2]);
    assert!(!schedule.is_copying());
    schedule.on_progress(&third);
    assert!(schedule.is_copying());
    assert_eq!(schedule.waits, 0);
    let fourth = schedule.next(now, &|| false).unwrap();
    assert_eq!(fourth.path.get(), 2);
    assert_eq!(schedule.instead(now, &fourth, &|| false), None);
    assert!(!schedule.is_copying());
    assert_eq!(schedule.waits, 1);
}

/// Insists on the first path.
struct Stubborn;

impl Scheduler for Stubborn {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        Decision::send(cx.paths[0].index)
    }
}

#[test]
fn sending_on_a_path_in_trouble_is_waiting_too() {
    let mut schedule = Schedule::new(Box::new(Stubborn));
    schedule.show(2);
    for view in &mut schedule.views[..2] {
        (view.open, view.can_send) = (true, true);
    }
    let start = Instant::now();
    let pto = Duration::from_millis(100);
    let next = |schedule: &mut Schedule, now| {
        let planned = schedule.next(now, &|| true).unwrap();
        schedule.on_progress(&planned);
        planned.path.get()
    };
    assert_eq!(next(&mut schedule, start), 0);
    assert_eq!(schedule.next_timeout(|| pto), None);
    schedule.views[0].suspect = true;
    assert_eq!(next(&mut schedule, start), 0);
    assert_eq!(schedule.next_timeout(|| pto), Some(start + pto));
    schedule.on_timeout(start + pto, pto);
    assert_eq!(next(&mut schedule, start + pto), 1);
    assert_eq!(schedule.next_timeout(|| pto), None);
    // Where there is no better path, there is nothing to override.
    schedule.views[1].suspect = true;
    assert_eq!(next(&mut schedule, start + pto), 0);
    assert_eq!(schedule.next_timeout(|| pto), None);
}

#[test]
fn waiting_with_data_in_flight_is_not_overridden() {
    let mut schedule = Schedule::new(Box::new(Never));
    schedule.show(1);
    schedule.views[0].open = true;
    schedule.views[0].can_send = true;
    let start = Instant::now();
    assert_eq!(schedule.next(start, &|| false), None);
    assert_eq!(schedule.next_timeout(|| Duration::from_millis(1)), None);
}

/// Only time in which a path could send counts, and only until there is another answer.
#[test]
fn time_spent_waiting_is_added_up() {
    let ms = Duration::from_millis;
    let mut schedule = Schedule::new(Box::new(Never));
    schedule.show(1);
    schedule.views[0].open = true;
    schedule.views[0].can_send = true;
    let start = Instant::now();
    assert_eq!(schedule.next(start, &|| false), None);
    assert_eq!(schedule.next(start + ms(3), &|| false), None);
    assert_eq!(schedule.wait_clock.total(), ms(3));
    // From here on, the window is full.
    schedule.views[0].can_send = false;
    assert_eq!(schedule.next(start + ms(5), &|| false), None);
    assert_eq!(schedule.next(start + ms(50), &|| false), None);
    assert_eq!(schedule.wait_clock.total(), ms(5));
    schedule.views[0].can_send = true;
    assert_eq!(schedule.next(start + ms(100), &|| true), None);
    schedule.on_timeout(start + ms(110), ms(10));
    assert!(schedule.next(start + ms(110), &|| true).is_some());
    assert_eq!(schedule.wait_clock.total(), ms(15));
    assert!(!schedule.wait_clock.is_running());
}
