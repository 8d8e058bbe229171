//! Says where the time of a download went: what each path's capacity was used for, or why it was
//! not used. Does not change the run.
//!
//! Each path weighs as much as its share of the rate of all paths. At each moment of the download,
//! each path is in one state. A part of the time is the sum over the paths of weight times time in
//! that state, so that all parts add up to the download's time, and a part is in seconds of all
//! paths together.

use std::time::Duration;

use mpquic_proto::{Connection, PathId, Side};
use serde::{Deserialize, Serialize};

use crate::bound::FluidPath;
use crate::fabric::{Fabric, index};

/// The parts of a download's time in seconds, from the client's first packet to the last byte. They
/// add up to [`total`](Self::total).
///
/// A path counts from the server's side: what it could have sent at a moment. When several reasons
/// hold, the first one in this list counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LostTime {
    /// Until the client sends its request.
    pub handshake: f64,
    /// The request on its way to the server, and on each path the propagation delay at the end:
    /// what is sent later than that arrives too late to matter.
    pub request: f64,
    /// The useful part of the time in which links were busy: the time that all paths together need
    /// for the download's bytes at their full rates, with the smallest headers. It is the same for
    /// all runs on a network.
    pub carrying: f64,
    /// The server may not yet send data on the path: it does not know the path, or has not
    /// validated it.
    pub opening: f64,
    /// The link is idle and there is data to send, but the path's congestion window is full, or
    /// smaller than what the path carries in a round trip. The window was never reduced before.
    pub startup: f64,
    /// Losses: the same after the window was first reduced; the time of the link that carried data
    /// again because it was taken for lost; and the time in which the link is idle and all data was
    /// sent once, until the last data that was lost was sent again.
    pub recovery: f64,
    /// The time of the link that carried copies of data that was not taken for lost, as the
    /// scheduler wanted.
    pub copies: f64,
    /// The link is idle, there is data to send, and the window has room: the scheduler waits or
    /// takes another path, or flow control or the pacer holds the data back.
    pub waiting: f64,
    /// The link is idle and there is no data to send, because other paths carry the last of it.
    pub tail: f64,
    /// The rest of the time in which links were busy: longer headers, acknowledgements, control
    /// frames, packets that were lost on the way, other connections, and rates below the highest
    /// one.
    pub overhead: f64,
}

impl LostTime {
    /// The names of the parts, in the order of time as far as there is one.
    pub const NAMES: [&'static str; 10] = [
        "handshake",
        "request",
        "carrying",
        "opening",
        "startup",
        "recovery",
        "copies",
        "waiting",
        "tail",
        "overhead",
    ];

    /// The parts, in the order of [`NAMES`](Self::NAMES).
    pub const fn parts(&self) -> [f64; 10] {
        [
            self.handshake,
            self.request,
            self.carrying,
            self.opening,
            self.startup,
            self.recovery,
            self.copies,
            self.waiting,
            self.tail,
            self.overhead,
        ]
    }

    /// The sum of all parts: the time of the download.
    pub fn total(&self) -> f64 {
        self.parts().iter().sum()
    }
}

/// What a path does at a moment after the server has the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Opening,
    Busy,
    Startup,
    Recovery,
    Waiting,
    /// All data was sent once.
    Sent,
}

/// Stream bytes that the server sent on a path.
#[derive(Debug, Clone, Copy, Default)]
struct Sent {
    all: u64,
    /// Because they were taken for lost.
    repaired: u64,
    /// Because the scheduler wanted it.
    copied: u64,
}

struct PathMeter {
    /// Its share of the rate of all paths.
    weight: f64,
    /// Stream bytes per second.
    goodput: f64,
    /// From the server to the client.
    delay: Duration,
    /// The bytes on the link in a round trip, headers included. Infinite without a rate.
    carries: f64,
    /// Header bytes per packet below QUIC.
    overhead: f64,
    /// Each state with the time at which it began.
    states: Vec<(Duration, State)>,
}

impl PathMeter {
    fn enter(&mut self, now: Duration, state: State) {
        if let Some(last) = self.states.last_mut()
            && last.0 == now
        {
            // Nothing takes time within a moment: the state after it counts.
            last.1 = state;
            return;
        }
        if self.states.last().is_none_or(|last| last.1 != state) {
            self.states.push((now, state));
        }
    }
}

/// Watches the server's paths during one download.
pub(crate) struct LostTimeMeter {
    paths: Vec<PathMeter>,
    bytes: u64,
    asked: Option<Duration>,
    /// By path ID: the path, and what was sent on it.
    sent: Vec<(PathId, usize, Sent)>,
    decisions: u64,
    waits: u64,
    /// The scheduler's last answer was to wait.
    declined: bool,
    repaired: u64,
    /// When data was last sent again because it was taken for lost.
    last_repair: Duration,
}

impl LostTimeMeter {
    /// A meter for a download of this size. The paths are those of the fluid bound.
    pub(crate) fn new(paths: &[FluidPath], bytes: u64) -> Self {
        let goodputs: Vec<_> = paths.iter().map(FluidPath::goodput).collect();
        let sum: f64 = goodputs.iter().sum();
        let unlimited = goodputs.iter().filter(|rate| rate.is_infinite()).count();
        let weight = |goodput: f64| match unlimited {
            0 if sum > 0.0 => goodput / sum,
            0 => 1.0 / paths.len().max(1) as f64,
            // Beside a link without a limit, the others carry nothing.
            _ if goodput.is_infinite() => 1.0 / unlimited as f64,
            _ => 0.0,
        };
        let paths = paths.iter().zip(&goodputs).map(|(path, &goodput)| {
            let round_trip = path.up.delay + path.down.delay;
            PathMeter {
                weight: weight(goodput),
                goodput,
                delay: Duration::from_secs_f64(path.down.delay),
                carries: if round_trip > 0.0 {
                    path.down.rate / 8.0 * round_trip
                } else {
                    0.0
                },
                overhead: path.down.overhead,
                states: Vec::new(),
            }
        });
        Self {
            paths: paths.collect(),
            bytes,
            asked: None,
            sent: Vec::new(),
            decisions: 0,
            waits: 0,
            declined: false,
            repaired: 0,
            last_repair: Duration::ZERO,
        }
    }

    /// Looks at the server after a step. `requested`: whether its application has read the request.
    pub(crate) fn look(
        &mut self,
        now: Duration,
        requested: bool,
        server: &Connection,
        fabric: &Fabric,
    ) {
        let total = server.stats();
        if total.decisions != self.decisions {
            self.declined = total.waits != self.waits;
            (self.decisions, self.waits) = (total.decisions, total.waits);
        }
        if total.retransmitted_bytes != self.repaired {
            self.repaired = total.retransmitted_bytes;
            self.last_repair = now;
        }
        if requested {
            self.asked.get_or_insert(now);
        }
        if self.asked.is_none() {
            return;
        }
        let busy = |number| fabric.queued_bytes(number, index(Side::Server)) > 0;
        let mut states: Vec<_> = vec![State::Opening; self.paths.len()];
        let mut stats = Vec::new();
        for open in server.paths().iter() {
            let (id, of_path) = (open.id(), open.stats());
            let known = self.sent.iter().position(|entry| entry.0 == id);
            let known = known.or_else(|| {
                let number = fabric.path_of(Side::Server, open.network_path())?;
                self.sent.push((id, number, Sent::default()));
                Some(self.sent.len() - 1)
            });
            let Some(entry) = known.and_then(|at| self.sent.get_mut(at)) else {
                continue;
            };
            entry.2 = Sent {
                all: of_path.sent_stream_bytes,
                repaired: of_path.retransmitted_bytes,
                copied: of_path.copied_bytes + of_path.reinjected_bytes,
            };
            if open.is_validated() {
                stats.push((entry.1, of_path));
            }
        }
        let sent = self.sent.iter().map(|(_, _, sent)| sent);
        let once: u64 = sent
            .map(|sent| sent.all.saturating_sub(sent.repaired + sent.copied))
            .sum();
        for (number, stats) in stats {
            let Some(path) = self.paths.get(number) else {
                continue;
            };
            let packets = stats.cwnd as f64 / f64::from(stats.mtu.max(1));
            let window = stats.cwnd as f64 + packets * path.overhead;
            let full = stats.in_flight + u64::from(stats.mtu) > stats.cwnd;
            states[number] = if once >= self.bytes {
                State::Sent
            } else if full || (window < path.carries && !self.declined) {
                match stats.congestion_events {
                    0 => State::Startup,
                    _ => State::Recovery,
                }
            } else {
                State::Waiting
            };
        }
        for (number, (path, state)) in self.paths.iter_mut().zip(states).enumerate() {
            let state = match state {
                State::Opening => state,
                _ if busy(number) => State::Busy,
                _ => state,
            };
            path.enter(now, state);
        }
    }

    /// The parts of a download that the client requested and completed at these times.
    pub(crate) fn lost_time(&self, requested: Duration, completed: Duration) -> LostTime {
        let mut lost = LostTime::default();
        let asked = self.asked.unwrap_or(completed).clamp(requested, completed);
        let (mut busy, mut repairs, mut copies, mut ideal) = (0.0, 0.0, 0.0, 0.0);
        for (number, path) in self.paths.iter().enumerate() {
            let weight = path.weight;
            // The last moment at which what is sent can still arrive.
            let end = completed.saturating_sub(path.delay).max(asked);
            lost.handshake += weight * requested.as_secs_f64();
            lost.request += weight * ((asked - requested) + (completed - end)).as_secs_f64();
            let ends = path.states.iter().skip(1).map(|state| state.0);
            let mut until = asked;
            for (&(from, state), to) in path.states.iter().zip(ends.chain([end])) {
                let (from, to) = (from.clamp(asked, end), to.clamp(asked, end));
                let time =
                    |from: Duration, to: Duration| weight * to.saturating_sub(from).as_secs_f64();
                until = until.max(to);
                match state {
                    State::Opening => lost.opening += time(from, to),
                    State::Busy => busy += time(from, to),
                    State::Startup => lost.startup += time(from, to),
                    State::Recovery => lost.recovery += time(from, to),
                    State::Waiting => lost.waiting += time(from, to),
                    State::Sent => {
                        let repaired = self.last_repair.clamp(from, to);
                        lost.recovery += time(from, repaired);
                        lost.tail += time(repaired, to);
                    }
                }
            }
            // A path that was never looked at was never there.
            lost.opening += weight * end.saturating_sub(until).as_secs_f64();
            if path.goodput > 0.0 && path.goodput.is_finite() {
                let of_path = self.sent.iter().filter(|entry| entry.1 == number);
                for (_, _, sent) in of_path {
                    repairs += weight * sent.repaired as f64 / path.goodput;
                    copies += weight * sent.copied as f64 / path.goodput;
                }
            }
        }
        let sum: f64 = self.paths.iter().map(|path| path.goodput).sum();
        if sum > 0.0 {
            ideal = self.bytes as f64 / sum;
        }
        // With varying delays, the last byte may have left the link later than its mean delay says.
        lost.carrying = ideal.min(busy);
        let rest = busy - lost.carrying;
        let again = repairs + copies;
        // Data that was dropped before the link has taken none of its time.
        let share = if again > rest { rest / again } else { 1.0 };
        lost.recovery += share * repairs;
        lost.copies = share * copies;
        lost.overhead = (rest - share * again).max(0.0);
        lost
    }
}
