//! A small network for tests: two links with rate, delay, jitter, losses in time and holes, a transport that schedules by earliest
//! arrival and tells fates, and a call over it. In virtual time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::time::{Duration, Instant};

use mpquic_live::{
    Cause, Config, Fate, Flow, FrameInfo, Learned, PathId, PathView, Receiver, Repair, Sender,
    SenderStats, Transmit, Verdict,
};

pub(crate) fn ms(ms: f64) -> Duration {
    Duration::from_secs_f64(ms / 1_000.0)
}

/// SplitMix64.
#[derive(Debug, Clone)]
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// One link, both directions alike.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    pub(crate) one_way: f64,
    /// Megabits per second.
    pub(crate) rate: f64,
    /// Up to so many milliseconds more, evenly; packets stay in order.
    pub(crate) jitter: f64,
    /// The share of time in which packets are lost, and how long such a time lasts in the mean, in milliseconds.
    pub(crate) loss: f64,
    pub(crate) burst: f64,
    /// From when to when nothing comes through, in milliseconds.
    pub(crate) holes: Vec<(f64, f64)>,
}

impl Link {
    pub(crate) fn new(one_way: f64, rate: f64) -> Self {
        Self {
            one_way,
            rate,
            jitter: 0.0,
            loss: 0.0,
            burst: 1.0,
            holes: Vec::new(),
        }
    }

    pub(crate) fn lossy(self, loss: f64, burst: f64) -> Self {
        Self {
            loss,
            burst,
            ..self
        }
    }
}

struct State {
    link: Link,
    rng: Rng,
    busy: f64,
    last_arrival: f64,
    /// The link is lossy, or not, until then.
    bad: bool,
    until: f64,
    srtt: f64,
    rttvar: f64,
    window: f64,
    /// (order, tag, sent, bytes), what is neither acknowledged nor lost.
    flight: VecDeque<(u64, u64, f64, usize)>,
}

impl State {
    fn in_hole(&self, at: f64) -> Option<f64> {
        self.link
            .holes
            .iter()
            .find(|(from, to)| (*from..*to).contains(&at))
            .map(|(_, to)| *to)
    }

    /// Whether what is sent at this time, which never goes back, is lost.
    fn is_lost(&mut self, at: f64) -> bool {
        if self.link.loss == 0.0 {
            return false;
        }
        while self.until <= at {
            self.bad = !self.bad;
            let mean = if self.bad {
                self.link.burst
            } else {
                self.link.burst * (1.0 / self.link.loss - 1.0)
            };
            self.until += -mean * (1.0 - self.rng.unit()).ln();
        }
        self.bad
    }

    fn in_flight(&self) -> f64 {
        self.flight
            .iter()
            .map(|(_, _, _, bytes)| *bytes as f64)
            .sum()
    }

    fn bytes_per_ms(&self) -> f64 {
        self.link.rate * 125.0
    }
}

/// A call.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) links: Vec<Link>,
    pub(crate) seconds: f64,
    /// Frames per second.
    pub(crate) frames: f64,
    /// Megabits per second of frames; key frames are five times as long, every 2 s.
    pub(crate) rate: f64,
    pub(crate) deadline: f64,
    pub(crate) worth: f64,
    pub(crate) repair: Repair,
    /// Without, nothing is known of silence and lateness: what is lost is sent again, and that is all.
    pub(crate) reacts: bool,
    pub(crate) seed: u64,
    pub(crate) learned: Option<Learned>,
}

impl Call {
    pub(crate) fn new(links: Vec<Link>) -> Self {
        Self {
            links,
            seconds: 60.0,
            frames: 30.0,
            rate: 4.0,
            deadline: 200.0,
            worth: 0.02,
            repair: Repair::Learned,
            reacts: true,
            seed: 1,
            learned: None,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) frames: u64,
    pub(crate) in_time: u64,
    pub(crate) repaired: u64,
    /// The longest time between two new frames, in milliseconds.
    pub(crate) longest_gap: f64,
    pub(crate) stats: SenderStats,
    /// The rate of repair each second.
    pub(crate) rates: Vec<f64>,
    pub(crate) learned: Option<Learned>,
}

impl Outcome {
    pub(crate) fn late(&self) -> f64 {
        1.0 - self.in_time as f64 / self.frames as f64
    }
}

#[derive(Debug, PartialEq, PartialOrd)]
enum Event {
    Frame(u64),
    Arrive {
        path: usize,
        order: u64,
        tag: u64,
        datagram: Vec<u8>,
    },
    Acknowledge {
        path: usize,
        order: u64,
        tag: u64,
    },
    Timer,
    Due,
    Second,
}

#[derive(PartialEq)]
struct At(f64, u64);

impl Eq for At {}
impl PartialOrd for At {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for At {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0).then(self.1.cmp(&other.1))
    }
}

pub(crate) fn bytes_of(frame: u64, len: usize) -> Vec<u8> {
    (0..len as u64)
        .map(|i| (frame.wrapping_mul(0x9e37) >> (i % 8)).wrapping_add(i * i) as u8)
        .collect()
}

struct Network {
    begin: Instant,
    paths: Vec<State>,
    events: BTreeMap<u64, Event>,
    times: BinaryHeap<Reverse<At>>,
    number: u64,
}

impl Network {
    fn push(&mut self, at: f64, event: Event) {
        self.number += 1;
        self.times.push(Reverse(At(at, self.number)));
        self.events.insert(self.number, event);
    }

    fn at(&self, now: f64) -> Instant {
        self.begin + ms(now)
    }

    fn views(&self) -> Vec<PathView> {
        let view = |(id, path): (usize, &State)| PathView {
            id: PathId(id as u32),
            rtt: ms(path.srtt),
            rttvar: ms(path.rttvar),
            room: (path.window - path.in_flight()).max(0.0) as u64,
            rate: (path.bytes_per_ms() * 1_000.0) as u64,
            backup: false,
        };
        self.paths.iter().enumerate().map(view).collect()
    }

    /// Sends a datagram; the scheduler takes the path with the earliest arrival of those with room.
    fn send(&mut self, now: f64, transmit: &Transmit, datagram: &[u8]) -> usize {
        let arrival = |path: &State| path.busy.max(now) + path.srtt / 2.0;
        let place = match transmit.path {
            Some(PathId(path)) => path as usize,
            None => (0..self.paths.len())
                .min_by(|a, b| {
                    let key = |place: usize| {
                        let path = &self.paths[place];
                        (path.in_flight() + 1_200.0 > path.window, arrival(path))
                    };
                    key(*a).partial_cmp(&key(*b)).unwrap()
                })
                .unwrap(),
        };
        let bytes = datagram.len() + 60;
        let path = &mut self.paths[place];
        path.busy = path.busy.max(now) + bytes as f64 / path.bytes_per_ms();
        let left = path.busy;
        let jitter = path.link.jitter * path.rng.unit();
        let arrival = (left + path.link.one_way + jitter).max(path.last_arrival);
        self.number += 1;
        let order = self.number;
        path.flight.push_back((order, transmit.tag, now, bytes));
        if !path.is_lost(left) && path.in_hole(left).is_none() && path.in_hole(arrival).is_none() {
            path.last_arrival = arrival;
            self.push(
                arrival,
                Event::Arrive {
                    path: place,
                    order,
                    tag: transmit.tag,
                    datagram: datagram.to_vec(),
                },
            );
        }
        place
    }
}

/// Runs a call, and holds what comes out against what went in.
pub(crate) fn run(call: &Call) -> Outcome {
    let begin = Instant::now();
    let mut rng = Rng(call.seed.wrapping_mul(0x1234_5678_9abc));
    let paths = call.links.iter().map(|link| State {
        link: link.clone(),
        rng: Rng((rng.unit() * 1e15) as u64),
        busy: 0.0,
        last_arrival: 0.0,
        bad: true,
        until: 0.0,
        srtt: 2.0 * link.one_way + link.jitter,
        rttvar: link.one_way / 4.0,
        // Twice what fills the link.
        window: link.rate * 125.0 * (2.0 * link.one_way + 20.0) * 2.0,
        flight: VecDeque::new(),
    });
    let mut net = Network {
        begin,
        paths: paths.collect(),
        events: BTreeMap::new(),
        times: BinaryHeap::new(),
        number: 0,
    };
    let mut sender = Sender::new(
        Config {
            seed: call.seed,
            ..Config::default()
        },
        begin,
    );
    sender.set_paths(&net.views());
    let flow = sender.flow(
        begin,
        Flow::new(ms(call.deadline))
            .worth(call.worth)
            .repair(call.repair),
    );
    if let Some(learned) = &call.learned {
        sender.go_on_from(flow, learned);
    }
    let mut receiver = Receiver::default();
    let interval = 1_000.0 / call.frames;
    let total = (call.seconds * call.frames) as u64;
    let group = (2.0 * call.frames) as u64;
    // A key frame counts for five; per group as many bytes as the rate says.
    let usual = call.rate * 125.0 * interval * group as f64 / (group as f64 + 4.0);
    let mut lens = Vec::new();
    let mut outcome = Outcome::default();
    let mut verdicts: BTreeMap<u64, bool> = BTreeMap::new();
    let (mut newest, mut last_new) = (None, 0.0);
    let (mut datagram, mut buffer) = (Vec::new(), Vec::new());
    net.push(0.0, Event::Frame(0));
    net.push(1_000.0, Event::Second);
    while let Some(Reverse(At(now, number))) = net.times.pop() {
        let at = net.at(now);
        match net.events.remove(&number).unwrap() {
            Event::Frame(id) => {
                let factor = if id % group == 0 { 5.0 } else { 1.0 };
                let len = (usual * factor * (0.8 + 0.4 * rng.unit())) as usize;
                lens.push(len);
                let info = FrameInfo {
                    key: id % group == 0,
                };
                assert_eq!(sender.send(at, flow, &bytes_of(id, len), info), Ok(id));
                if id + 1 < total {
                    net.push(interval * (id + 1) as f64, Event::Frame(id + 1));
                }
            }
            Event::Arrive {
                path,
                order,
                tag,
                datagram,
            } => {
                receiver.receive(at, &datagram).unwrap();
                // The acknowledgement is not lost; a hole holds it back, and one that follows tells the same.
                let back = now + net.paths[path].link.one_way;
                let back = match net.paths[path]
                    .in_hole(now)
                    .or_else(|| net.paths[path].in_hole(back))
                {
                    Some(end) => end + net.paths[path].link.one_way,
                    None => back,
                };
                net.push(back, Event::Acknowledge { path, order, tag });
            }
            Event::Acknowledge {
                path: place,
                order,
                tag,
            } => {
                let path = &mut net.paths[place];
                let Some(found) = path.flight.iter().position(|(other, ..)| *other == order) else {
                    continue;
                };
                let (_, _, sent, _) = path.flight.remove(found).unwrap();
                let sample = now - sent;
                // What a hole held back makes no sample: it is acknowledged with what is sent later (RFC 9002 section 5.1).
                if sample < 2.0 * path.srtt + 100.0 {
                    path.rttvar += ((path.srtt - sample).abs() - path.rttvar) / 4.0;
                    path.srtt += (sample - path.srtt) / 8.0;
                }
                let id = PathId(place as u32);
                // RFC 9002: three packets later, or 9/8 of a round trip before.
                let mut lost = Vec::new();
                let late = sample.max(path.srtt) * 9.0 / 8.0;
                path.flight.retain(|(other, tag, sent, _)| {
                    let gone = *other < order && (order - other >= 6 || now - sent > late);
                    if gone {
                        lost.push(*tag);
                    }
                    !gone
                });
                sender.set_paths(&net.views());
                sender.fate(
                    tag,
                    Fate::Acknowledged {
                        path: id,
                        sent: net.at(sent),
                        at,
                    },
                );
                for tag in lost {
                    sender.fate(tag, Fate::Lost { path: id, at });
                }
            }
            Event::Timer | Event::Due => {}
            Event::Second => {
                outcome.rates.push(sender.repair_rate(flow).unwrap());
                if now < call.seconds * 1_000.0 {
                    net.push(now + 1_000.0, Event::Second);
                }
            }
        }
        sender.set_paths(&net.views());
        while let Some(transmit) = sender.poll_transmit(at, &mut datagram) {
            let path = PathId(net.send(now, &transmit, &datagram) as u32);
            if call.reacts {
                sender.fate(transmit.tag, Fate::Sent { path, at });
            }
            assert!(transmit.cause != Cause::Probe || transmit.path.is_some());
        }
        if !net.times.is_empty() {
            for (due, event) in [
                (sender.poll_timeout(at), Event::Timer),
                (receiver.poll_timeout(), Event::Due),
            ] {
                if let Some(due) = due {
                    // A little later, so that it is past in floating point, too.
                    let due = due.saturating_duration_since(begin).as_secs_f64() * 1_000.0 + 0.01;
                    let next = net
                        .times
                        .peek()
                        .map_or(f64::MAX, |Reverse(At(next, _))| *next);
                    if due < next {
                        net.push(due.max(now + 0.01), event);
                    }
                }
            }
        }
        while let Some(verdict) = receiver.poll(at, &mut buffer) {
            let (id, whole) = match verdict {
                Verdict::Frame { id, repaired, .. } => {
                    assert_eq!(buffer, bytes_of(id, lens[id as usize]), "frame {id}");
                    outcome.repaired += u64::from(repaired);
                    (id, true)
                }
                Verdict::Missing { id, .. } => (id, false),
                other => panic!("{other:?}"),
            };
            assert!(
                verdicts.insert(id, whole).is_none(),
                "two verdicts on frame {id}"
            );
            // As the deadline has it: from when it was handed over.
            let in_time = whole && now - interval * id as f64 <= call.deadline + 1.0;
            outcome.in_time += u64::from(in_time);
            if whole && newest < Some(id) {
                outcome.longest_gap = outcome.longest_gap.max(now - last_new);
                (newest, last_new) = (Some(id), now);
            }
        }
    }
    outcome.frames = total;
    outcome.stats = sender.stats();
    outcome.learned = sender.learned(flow);
    outcome
}
