//! The settlement ring against a reference that keeps all of history and recomputes every reward from it.

use mpquic_bandit::{DecisionSlot, FirstPacket, Horizon, PacketSlot, Settled, Settlement};
use proptest::collection::vec;
use proptest::prelude::*;

/// What happens, each so many milliseconds after the last.
#[derive(Debug, Clone, Copy)]
enum Event {
    Open {
        reference: f64,
    },
    Sent {
        amount: u32,
        due_in: Option<f64>,
    },
    /// So much of what is under way, and for how long it had been there.
    Arrived {
        share: f64,
        age: f64,
    },
    /// The packet that was sent so many before the last one, by itself.
    Acknowledged {
        back: usize,
    },
    Settle,
}

fn event() -> impl Strategy<Value = (f64, Event)> {
    let reference = prop_oneof![1.0..20.0, 100.0..5000.0];
    let open = reference.prop_map(|reference| Event::Open { reference });
    let due_in = prop::option::weighted(0.3, 0.0..60.0);
    let sent = (1..3000_u32, due_in).prop_map(|(amount, due_in)| Event::Sent { amount, due_in });
    let share = prop_oneof![Just(1.0), 0.0..0.5];
    let arrived = (share, 0.0..10.0).prop_map(|(share, age)| Event::Arrived { share, age });
    let acknowledged = (0..6_usize).prop_map(|back| Event::Acknowledged { back });
    let event = prop_oneof![2 => open, 6 => sent, 3 => arrived, 3 => acknowledged, 3 => Just(Event::Settle)];
    (prop_oneof![Just(0.0), 0.0..8.0], event)
}

/// All that ever happened.
#[derive(Debug, Default)]
struct History {
    /// Time, reference time, how many packets were sent and how many arrivals were told before it.
    decisions: Vec<(f64, f64, usize, usize)>,
    /// Time, amount, and until when it counts.
    sent: Vec<(f64, u64, f64)>,
    /// Time, when it is thought to have been, amount, what was still under way then.
    arrived: Vec<(f64, f64, u64, u64)>,
    /// When each packet was acknowledged itself, if it was not released before.
    acknowledged: Vec<Option<f64>>,
    numbers: Vec<Option<u64>>,
    horizon: Horizon,
    first: FirstPacket,
}

impl History {
    fn under_way(&self) -> u64 {
        let sent: u64 = self.sent.iter().map(|sent| sent.1).sum();
        sent - self.arrived.iter().map(|arrived| arrived.2).sum::<u64>()
    }

    /// When a packet was released, and what counts of it.
    fn release(&self, packet: usize) -> Option<(f64, f64)> {
        let up_to: u64 = self.sent[..=packet].iter().map(|sent| sent.1).sum();
        let mut sum = 0;
        let (at, thought, ..) = self.arrived.iter().find(|arrived| {
            sum += arrived.2;
            sum >= up_to
        })?;
        let (_, amount, due) = self.sent[packet];
        let in_time = *thought <= due || self.horizon == Horizon::OwnAck;
        Some((*at, if in_time { amount as f64 } else { 0.0 }))
    }

    /// The same of what arrives in its window; the number of packets is not looked at.
    fn goodput(&self, decision: usize, now: f64) -> (f64, u32, bool) {
        let (made, reference, _, told) = self.decisions[decision];
        let window = 1.5 * reference;
        let (mut sum, mut time) = (0, window);
        for (at, _, amount, under_way) in &self.arrived[told..] {
            if at - made <= window && *amount > 0 {
                sum += amount;
                time = if *under_way == 0 { at - made } else { window };
            }
        }
        let reward = sum as f64 / time.max(1e-3);
        (reward, 0, now - made >= window)
    }

    /// The reward of a decision as of now, of how many packets it is, and whether it is complete.
    fn reward(&self, decision: usize, now: f64) -> (f64, u32, bool) {
        let horizon = self.horizon;
        if horizon == Horizon::Goodput {
            return self.goodput(decision, now);
        }
        let (made, reference, first, _) = self.decisions[decision];
        let (mut reward, mut gamma, mut packets, mut released) = (0.0, 1.0_f64, 0, 0);
        for packet in first..self.sent.len() {
            let Some((at, amount)) = self.release(packet) else {
                break;
            };
            released += 1;
            let since = if packet == first && self.first == FirstPacket::Decision {
                made
            } else {
                self.sent[packet].0
            };
            let own = self.acknowledged[packet].filter(|_| horizon == Horizon::OwnAck);
            let rate = match own {
                // No packet is under way for less than a microsecond, however long it was waited for.
                Some(own) => {
                    let sent = self.sent[packet].0;
                    amount / ((own - sent).max(1e-3) + (sent - since)).max(1e-3)
                }
                None if horizon == Horizon::OwnAck => {
                    let sent = self.sent[packet].0;
                    amount / ((at - sent).max(1e-3) + (sent - since)).max(1e-3)
                }
                None => amount / (at - since).max(1e-3),
            };
            if horizon == Horizon::FirstPacket {
                return (rate, 1, true);
            }
            let factor = match ((at - made) / reference).floor() {
                0.0 => 0.9,
                1.0 => 0.7,
                2.0 => 0.5,
                _ => continue,
            };
            if gamma >= 1e-3 {
                packets += 1;
                reward += gamma * rate;
                gamma *= factor;
            }
        }
        let over = now - made >= 3.0 * reference;
        let complete = horizon != Horizon::FirstPacket && (released >= 66 || over);
        (reward, packets, complete)
    }
}

type Boxed = Settlement<usize, Box<[DecisionSlot<usize>]>, Box<[PacketSlot]>>;

/// Plays the events to both; what was settled, and whether it was what the reference says.
fn play(
    events: &[(f64, Event)],
    (horizon, first): (Horizon, FirstPacket),
    decisions: usize,
    packets: usize,
    mut check: impl FnMut(&History, f64, &mut Boxed) -> Result<(), TestCaseError>,
) -> Result<(History, Boxed), TestCaseError> {
    let mut settlement: Boxed = Settlement::new(
        horizon,
        vec![DecisionSlot::default(); decisions].into_boxed_slice(),
        vec![PacketSlot::default(); packets].into_boxed_slice(),
    )
    .counting_from(first);
    let mut history = History {
        horizon,
        first,
        ..History::default()
    };
    let mut now = 1000.0;
    for (after, event) in events {
        now += after;
        match *event {
            Event::Open { reference } => {
                let place = history.decisions.len();
                settlement.open(7 * place as u64, now, reference, place);
                let (sent, arrived) = (history.sent.len(), history.arrived.len());
                history.decisions.push((now, reference, sent, arrived));
            }
            Event::Sent { amount, due_in } => {
                let due = due_in.map_or(f64::INFINITY, |due_in| now + due_in);
                let number = settlement.sent_until(now, f64::from(amount), due);
                history.sent.push((now, amount.into(), due));
                history.acknowledged.push(None);
                history.numbers.push(number);
            }
            Event::Acknowledged { back } => {
                let Some(packet) = history.sent.len().checked_sub(1 + back) else {
                    continue;
                };
                if let Some(number) = history.numbers[packet] {
                    settlement.acknowledged(number, now);
                    if history.release(packet).is_none() {
                        history.acknowledged[packet].get_or_insert(now);
                    }
                }
            }
            Event::Arrived { share, age } => {
                let amount = (history.under_way() as f64 * share).round() as u64;
                settlement.arrived_at(now, now - age, amount as f64);
                let left = history.under_way() - amount;
                history.arrived.push((now, now - age, amount, left));
            }
            Event::Settle => check(&history, now, &mut settlement)?,
        }
        prop_assert_eq!(settlement.under_way(), history.under_way() as f64);
    }
    check(&history, now + 20_000.0, &mut settlement)?;
    Ok((history, settlement))
}

fn same(settled: &Settled<usize>, history: &History, now: f64) -> Result<(), TestCaseError> {
    let place = settled.what;
    prop_assert_eq!(settled.key, 7 * place as u64);
    prop_assert_eq!(settled.made, history.decisions[place].0);
    let (reward, packets, complete) = history.reward(place, now);
    prop_assert!(complete);
    if history.horizon != Horizon::Goodput {
        prop_assert_eq!(settled.packets, packets);
    }
    let near = (settled.reward - reward).abs() <= 1e-12 * reward;
    prop_assert!(near, "{} {}", settled.reward, reward);
    Ok(())
}

fn horizon() -> impl Strategy<Value = (Horizon, FirstPacket)> {
    let horizon = prop_oneof![
        3 => Just(Horizon::Discounted),
        3 => Just(Horizon::OwnAck),
        1 => Just(Horizon::FirstPacket),
        2 => Just(Horizon::Goodput)
    ];
    let first = prop_oneof![Just(FirstPacket::Decision), Just(FirstPacket::Sending)];
    (horizon, first)
}

proptest! {
    /// With room for all: each decision settles, in order, as soon as it and all before it are
    /// complete, and with the reward that the whole of history says.
    #[test]
    fn rewards_are_those_of_the_whole_history(
        events in vec(event(), 1..400),
        horizon in horizon(),
    ) {
        let mut next = 0;
        let (history, settlement) = play(&events, horizon, 512, 512, |history, now, settlement| {
            while next < history.decisions.len() && history.reward(next, now).2 {
                let settled = settlement.settle(now);
                prop_assert_eq!(settled.map(|settled| settled.what), Some(next));
                same(&settled.unwrap(), history, now)?;
                next += 1;
            }
            prop_assert_eq!(settlement.settle(now), None);
            prop_assert_eq!(settlement.open_decisions(), history.decisions.len() - next);
            Ok(())
        })?;
        prop_assert_eq!(settlement.dropped(), 0);
        // Some time after the end, none is open but for want of a packet.
        if horizon.0 != Horizon::FirstPacket {
            prop_assert_eq!(next, history.decisions.len());
        }
    }

    /// With little room, decisions are missing, and no reward is wrong.
    #[test]
    fn what_is_pushed_out_is_missing_and_counted(
        events in vec(event(), 1..400),
        horizon in horizon(),
        decisions in 1..12_usize,
        packets in 1..40_usize,
    ) {
        let (mut next, mut count) = (0, 0);
        let check = |history: &History, now, settlement: &mut Boxed| {
            while let Some(settled) = settlement.settle(now) {
                prop_assert!(settled.what >= next);
                next = settled.what + 1;
                count += 1;
                same(&settled, history, now)?;
            }
            Ok(())
        };
        let (history, settlement) = play(&events, horizon, decisions, packets, check)?;
        let open = settlement.open_decisions() as u64;
        prop_assert!(open <= decisions as u64);
        prop_assert_eq!(count + settlement.dropped() + open, history.decisions.len() as u64);
    }
}

fn settlement() -> Settlement<char, [DecisionSlot<char>; 4], [PacketSlot; 8]> {
    Settlement::new(
        Horizon::Discounted,
        [DecisionSlot::default(); 4],
        [PacketSlot::default(); 8],
    )
}

#[test]
fn a_hole_holds_back_what_is_behind_it() {
    let mut settlement = settlement();
    settlement.open(0, 0.0, 100.0, 'a');
    settlement.sent(0.0, 1000.0);
    settlement.sent(0.0, 1000.0);
    // The first is lost; the second was there after 50 ms, but nobody can use it. At 120 ms, what
    // was sent in place of the first fills the hole.
    settlement.arrived(120.0, 2000.0);
    let settled = settlement.settle(300.0).unwrap();
    assert_eq!(settled.packets, 2);
    let expected = 1000.0 / 120.0 + 0.7 * 1000.0 / 120.0;
    assert!((settled.reward - expected).abs() < 1e-12);
}

/// By its own acknowledgement, a packet behind a hole is as fast as it was; it still has to wait for the hole to count.
#[test]
fn an_acknowledgement_of_its_own_tells_how_long_a_packet_took() {
    let play = |first, acknowledged: bool| {
        let mut settlement = Settlement::new(
            Horizon::OwnAck,
            [DecisionSlot::default(); 4],
            [PacketSlot::default(); 8],
        )
        .counting_from(first);
        settlement.open(0, 0.0, 100.0, 'a');
        let slow = settlement.sent(10.0, 1000.0).unwrap();
        let fast = settlement.sent(20.0, 1000.0).unwrap();
        settlement.acknowledged(fast, 60.0);
        // Once is enough: a second report changes nothing.
        settlement.acknowledged(fast, 90.0);
        if acknowledged {
            settlement.acknowledged(slow, 120.0);
        }
        settlement.arrived(130.0, 2000.0);
        settlement.acknowledged(slow, 140.0);
        assert_eq!(settlement.settle(299.0), None);
        settlement.settle(300.0).unwrap().reward
    };
    // Released at 130 ms, in the second reference time.
    let fast = 0.7 * 1000.0 / 40.0;
    for (first, acknowledged, slow) in [
        (FirstPacket::Decision, true, 1000.0 / 120.0),
        (FirstPacket::Sending, true, 1000.0 / 110.0),
        // Lost, and filled by what was sent in its place.
        (FirstPacket::Decision, false, 1000.0 / 130.0),
        (FirstPacket::Sending, false, 1000.0 / 120.0),
    ] {
        let reward = play(first, acknowledged);
        assert!((reward - (slow + fast)).abs() < 1e-9, "{first:?} {reward}");
    }
}

/// What the goodput of a decision is made of, over one and a half reference times.
#[test]
fn goodput_is_the_rate_until_all_is_there() {
    let goodput = |sent: f64, arrivals: &[(f64, f64)]| {
        let mut settlement = Settlement::new(
            Horizon::Goodput,
            [DecisionSlot::default(); 4],
            [PacketSlot::default(); 1024],
        );
        settlement.sent(990.0, sent);
        settlement.open(0, 1000.0, 100.0, 'a');
        for (at, amount) in arrivals {
            settlement.arrived(*at, *amount);
        }
        assert_eq!(settlement.settle(1149.0), None);
        settlement.settle(1151.0).unwrap().reward
    };
    // A steady rate of 10 bytes per millisecond is that, smooth or in bursts of 5 ms.
    let smooth: Vec<_> = (0..400)
        .map(|n| (1000.25 + 0.5 * f64::from(n), 5.0))
        .collect();
    let bursts: Vec<_> = (0..40)
        .map(|n| (1002.5 + 5.0 * f64::from(n), 50.0))
        .collect();
    for arrivals in [smooth, bursts] {
        assert!((goodput(1e6, &arrivals) - 10.0).abs() < 1e-9);
    }
    // The last 1500 bytes: soon, later, too late.
    for (at, expected) in [(1010.0, 150.0), (1075.0, 20.0), (1150.5, 0.0)] {
        assert!((goodput(1500.0, &[(at, 1500.0)]) - expected).abs() < 1e-9);
    }
    // Some of them never come: what would have made the rate is not known before the window ends.
    assert!((goodput(3000.0, &[(1010.0, 1500.0)]) - 10.0).abs() < 1e-9);
}

#[test]
fn nothing_in_its_time_is_a_reward_of_nothing() {
    let mut settlement = settlement();
    settlement.open(0, 0.0, 10.0, 'a');
    settlement.sent(0.0, 1000.0);
    assert_eq!(settlement.settle(29.0), None);
    settlement.arrived(30.0, 1000.0);
    let settled = settlement.settle(31.0).unwrap();
    assert_eq!((settled.reward, settled.packets), (0.0, 0));
}

#[test]
fn the_dropped_are_skipped() {
    let mut settlement = settlement();
    for (key, what) in [(0, 'a'), (1, 'b'), (2, 'a')] {
        settlement.open(key, 0.0, 10.0, what);
        settlement.sent(1.0, 600.0);
    }
    settlement.drop_those(|what| *what == 'a');
    settlement.drop_those(|what| *what == 'a');
    assert_eq!((settlement.open_decisions(), settlement.dropped()), (1, 2));
    // What was sent for those that are dropped is still before the rest.
    settlement.arrived(5.0, 600.0);
    settlement.arrived(6.0, 600.0);
    let settled = settlement.settle(30.0).unwrap();
    assert_eq!((settled.key, settled.reward), (1, 100.0));
    assert_eq!(settlement.settle(30.0), None);
    assert_eq!((settlement.open_decisions(), settlement.dropped()), (0, 2));
}

#[test]
fn a_dropped_decision_holds_up_no_other() {
    let mut settlement = settlement();
    // The first one would have had 300 ms.
    settlement.open(0, 0.0, 100.0, 'a');
    settlement.open(1, 0.0, 10.0, 'b');
    assert!(settlement.settle(30.0).is_none());
    settlement.drop_those(|what| *what == 'a');
    assert_eq!(settlement.settle(30.0).unwrap().key, 1);
}

#[test]
fn after_a_restart_the_sums_come_together_again() {
    let mut settlement = settlement();
    settlement.open(0, 0.0, 10.0, 'a');
    settlement.sent(0.0, 5000.0);
    settlement.sent(0.0, 700.0);
    assert_eq!(settlement.under_way(), 5700.0);
    settlement.restart();
    assert_eq!((settlement.open_decisions(), settlement.dropped()), (0, 1));
    assert_eq!(settlement.under_way(), 0.0);
    // 5000 of a stream that was reset never arrive; 700 of another one still do.
    settlement.arrived(1.0, 700.0);
    settlement.open(1, 2.0, 10.0, 'b');
    settlement.sent(2.0, 100.0);
    settlement.arrived(4.0, 100.0);
    assert_eq!(settlement.settle(32.0).unwrap().reward, 50.0);
}

#[test]
fn what_is_no_amount_is_nothing() {
    let mut settlement = settlement();
    settlement.open(0, 0.0, 10.0, 'a');
    for amount in [0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        settlement.sent(0.0, amount);
        settlement.arrived(0.0, amount);
    }
    assert_eq!(settlement.settle(30.0).unwrap().packets, 0);
}

#[test]
#[should_panic(expected = "expected at least one slot")]
fn no_room_at_all() {
    let none: [PacketSlot; 0] = [];
    let _ = Settlement::new(Horizon::Discounted, [DecisionSlot::<()>::default()], none);
}
