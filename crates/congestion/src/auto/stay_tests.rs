//! What ends a stay with BBRv3, and what does not.

use super::*;

const MIN: Duration = Duration::from_millis(40);
const PACKET: u64 = 1200;

/// A stay whose rounds of a hundred packets are told one after the other.
struct Run {
    stay: Stay,
    now: Instant,
    share: f32,
}

impl Run {
    /// So many runs were lost among so many packets before.
    fn new(runs: u32, packets: u64) -> Self {
        let before = Tally {
            runs,
            bytes: packets * PACKET,
        };
        let mut run = Self {
            stay: Stay::new(before, 20 * PACKET, 0.04 / PACKET as f64),
            now: Instant::now(),
            share: 1.0,
        };
        run.search(50);
        run
    }

    fn ack(&mut self, rtt: Duration, round: Round) -> Option<Reason> {
        let sent = self.now;
        self.now += rtt;
        let times = (self.now, sent);
        let round_trip = (MIN, Duration::ZERO);
        self.stay.on_ack(
            times,
            100 * PACKET,
            Some(rtt),
            round_trip,
            round,
            self.share,
        )
    }

    /// A round of the first search in which so many losses are known.
    fn search(&mut self, lost: u32) {
        for _ in 0..lost {
            self.stay.on_lost(self.now, PACKET, true);
        }
        let round = Round {
            started: true,
            cruising: false,
            settled: false,
        };
        assert_eq!(self.ack(MIN, round), None);
        // The acknowledgement that ends it.
        let settled = Round {
            settled: true,
            ..round
        };
        assert_eq!(self.ack(MIN, settled), None);
    }

    fn round(&mut self, lost: u32, rtt: Duration, cruising: bool) -> Option<Reason> {
        for _ in 0..lost {
            self.stay.on_lost(self.now, PACKET, true);
        }
        let round = Round {
            started: true,
            cruising,
            settled: true,
        };
        self.ack(rtt, round)
    }

    fn rounds(&mut self, count: u32, lost: u32, rtt: Duration) -> Option<Reason> {
        (0..count).find_map(|_| self.round(lost, rtt, true))
    }
}

#[test]
fn losses_as_frequent_as_before_change_nothing() {
    for (runs, packets) in [(1, 100), (3, 300), (10, 1000)] {
        assert_eq!(Run::new(runs, packets).rounds(500, 1, MIN), None, "{runs}");
    }
}

#[test]
fn losses_that_become_more_frequent_end_it() {
    for (runs, packets) in [(1, 1000), (3, 3000), (10, 10_000)] {
        let mut run = Run::new(runs, packets);
        assert_eq!(run.rounds(100, 3, MIN), Some(Reason::Losses), "{runs}");
    }
}

/// The first search asks for losses.
#[test]
fn losses_of_the_search_do_not_count() {
    let mut run = Run::new(10, 10_000);
    assert_eq!(run.rounds(5, 0, MIN), None);
    assert_eq!(run.stay.seen.runs, 0);
}

/// Where the application sends too little, the search never ends by itself.
#[test]
fn losses_of_a_search_without_end_count() {
    for (lost, ends) in [(0, None), (8, Some(Reason::Losses))] {
        let mut run = Run::new(3, 3000);
        run.stay.counts_from = None;
        let searching = Round {
            started: true,
            cruising: false,
            settled: false,
        };
        let mut round = || {
            for _ in 0..lost {
                run.stay.on_lost(run.now, PACKET, true);
            }
            run.ack(MIN, searching)
        };
        assert_eq!((0..16).find_map(|_| round()), None);
        assert_eq!((0..5).find_map(|_| round()), ends);
    }
}

#[test]
fn a_queue_that_stands_in_the_cruise_ends_it() {
    let long = MIN * 2;
    assert_eq!(Run::new(10, 1000).rounds(20, 1, long), Some(Reason::Queue));
    // One that comes and goes, and one of probes, do not.
    let mut run = Run::new(10, 1000);
    for i in 0..50 {
        let rtt = if i % 2 == 0 { long } else { MIN };
        assert_eq!(run.round(1, rtt, true), None);
    }
    for _ in 0..50 {
        assert_eq!(run.round(1, long, false), None);
    }
}

#[test]
fn overflows_outside_of_probes_end_it() {
    let mut run = Run::new(10, 1000);
    (run.stay.events, run.share) = (LEAST_EVENTS, 0.2);
    assert_eq!(run.round(1, MIN, true), Some(Reason::Overflow));
}

#[test]
fn a_path_that_loses_no_more_is_handed_back() {
    let mut run = Run::new(10, 1000);
    let mut rounds = 0;
    let reason = loop {
        rounds += 1;
        if let Some(reason) = run.round(0, MIN, true) {
            break reason;
        }
    };
    assert_eq!((reason, rounds), (Reason::NoLosses, 16));
}

/// Bursts of the application overflow a short queue: a run each, and many packets.
#[test]
fn long_rows_of_lost_packets_end_it() {
    for (row, ends) in [(20, None), (30, Some(Reason::Losses))] {
        let mut run = Run::new(10, 1000);
        let mut round = || {
            for i in 0..row {
                run.stay.on_lost(run.now, PACKET, i == 0);
            }
            run.round(0, MIN, true)
        };
        assert_eq!((0..100).find_map(|_| round()), ends, "{row}");
    }
}
