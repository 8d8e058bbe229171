//! The plan of one run, generated from its seed: links, settings, events of paths and their times,
//! and the content of each stream.

use std::time::Duration;

use mpquic_proto::{CongestionControl, Dir, PathErrorCode, PathStatus, Side, StreamId};
use mpquic_proto::{TransportConfig, VarInt};
use mpquic_sim::{LinkConfig, QueueLimit, content};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::adversary::Adversary;
use super::motion::Motions;
use crate::support::ms;

/// Something that an application or the network does to paths.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Deed {
    Open {
        client: usize,
    },
    /// The path with this index among the open paths, modulo their number.
    Close {
        side: Side,
        nth: usize,
    },
    /// Each side closes all paths but one, and they keep different ones.
    Cross,
    Status {
        side: Side,
        nth: usize,
        status: PathStatus,
    },
    KeyUpdate {
        side: Side,
    },
    Ping {
        side: Side,
    },
    Datagram {
        side: Side,
        size: usize,
    },
    Rate {
        path: usize,
        rate: u64,
    },
    Delay {
        path: usize,
        delay: Duration,
    },
    Loss {
        path: usize,
        loss: f64,
    },
}

/// When a link is down.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dark {
    pub(crate) path: usize,
    pub(crate) from: Duration,
    /// `None`: for ever.
    pub(crate) to: Option<Duration>,
}

/// The scheduler of a side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scheduling {
    /// The built-in scheduler of this name with its default settings.
    BuiltIn(String),
    Adversary,
}

/// What becomes of early data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Early {
    Accepted,
    Rejected,
}

/// The plan of a run.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    /// Both sides send before the handshake is complete, if they do.
    pub(crate) early: Option<Early>,
    /// Client to server, server to client.
    pub(crate) links: Vec<[LinkConfig; 2]>,
    pub(crate) dark: Vec<Dark>,
    /// The latest time of an event of paths, in milliseconds.
    script: u64,
    pub(crate) deeds: Vec<(Duration, Deed)>,
    pub(crate) scheduling: [Scheduling; 2],
    pub(crate) idle_timeout: Option<Duration>,
    windows: [u64; 3],
    streams_at_a_time: u64,
    keep_alive: Option<Duration>,
    congestion: [CongestionControl; 2],
    pub(crate) max_datagrams: usize,
    /// Streams that each side opens: bidirectional, unidirectional.
    streams: [[u64; 2]; 2],
    /// Whether a side reads only now and then.
    pub(crate) lazy: [Option<Duration>; 2],
    /// Whether the server has the client prove its address first.
    pub(crate) retry: bool,
    /// How the client's addresses change.
    pub(crate) motions: Motions,
}

const SIDES: [Side; 2] = [Side::Client, Side::Server];

/// From `low` to `high`, with the same probability for each order of magnitude.
fn log_uniform(rng: &mut StdRng, low: f64, high: f64) -> f64 {
    low * (high / low).powf(rng.random_range(0.0..1.0))
}

/// `value` with this probability, otherwise zero.
fn sometimes(rng: &mut StdRng, chance: f64, most: f64) -> f64 {
    if rng.random_bool(chance) {
        rng.random_range(0.0..most)
    } else {
        0.0
    }
}

fn link(rng: &mut StdRng, rate: u64, delay: Duration) -> LinkConfig {
    LinkConfig {
        delay_sd: delay.mul_f64(sometimes(rng, 0.3, 0.2)),
        loss: sometimes(rng, 0.6, 0.3),
        queue: match rng.random_range(0..3) {
            0 => QueueLimit::Packets(rng.random_range(5..50)),
            _ => QueueLimit::Auto,
        },
        reordering: sometimes(rng, 0.3, 0.1),
        reordering_delay: ms(rng.random_range(1..100)),
        duplication: sometimes(rng, 0.3, 0.1),
        corruption: sometimes(rng, 0.3, 0.05),
        ..LinkConfig::new(rate, delay)
    }
}

impl Plan {
    pub(crate) fn new(seed: u64) -> Self {
        let rng = &mut StdRng::seed_from_u64(seed);
        let count = rng.random_range(2..=4);
        let links = (0..count)
            .map(|_| {
                let rate = log_uniform(rng, 500_000.0, 50_000_000.0) as u64;
                let delay = Duration::from_secs_f64(log_uniform(rng, 0.001, 0.15));
                [link(rng, rate, delay), link(rng, rate, delay)]
            })
            .collect();
        // Without an idle timeout, only success ends a run, so at least one path must live.
        let idle_timeout = rng
            .random_bool(0.75)
            .then(|| ms(rng.random_range(10_000..30_000)));
        // Of its own, so that the other seeds stay as they were.
        let early = &mut StdRng::seed_from_u64(seed ^ 0x0277);
        let mut plan = Self {
            seed,
            early: early
                .random_bool(0.25)
                .then(|| match early.random_bool(0.3) {
                    true => Early::Rejected,
                    false => Early::Accepted,
                }),
            links,
            dark: Vec::new(),
            script: log_uniform(rng, 1000.0, 12_000.0) as u64,
            deeds: Vec::new(),
            scheduling: [(); 2].map(|()| {
                let registry = mpquic_workspace::schedulers();
                let which = rng.random_range(0..registry.names().count());
                match registry.names().nth(which) {
                    Some(name) if rng.random_bool(0.75) => Scheduling::BuiltIn(name.to_owned()),
                    _ => Scheduling::Adversary,
                }
            }),
            idle_timeout,
            windows: [(); 3].map(|()| log_uniform(rng, 20_000.0, 2_000_000.0) as u64),
            streams_at_a_time: rng.random_range(1..=10),
            keep_alive: rng
                .random_bool(0.2)
                .then(|| ms(rng.random_range(100..3000))),
            congestion: [(); 2].map(|()| {
                let all = CongestionControl::ALL;
                all[rng.random_range(0..all.len())]
            }),
            max_datagrams: rng.random_range(1..=10),
            streams: [(); 2].map(|()| [rng.random_range(0..=8), rng.random_range(0..=8)]),
            lazy: [(); 2].map(|()| rng.random_bool(0.2).then(|| ms(rng.random_range(5..200)))),
            // Not drawn: the other choices of a seed stay what they are.
            retry: seed.is_multiple_of(4),
            motions: Motions::default(),
        };
        plan.draw_outages(rng, count);
        plan.draw_deeds(rng, count);
        plan.motions = Motions::draw(seed, count, plan.script, &plan.dark);
        plan
    }

    fn draw_outages(&mut self, rng: &mut StdRng, count: usize) {
        if self.idle_timeout.is_some() && rng.random_bool(0.08) {
            // A link goes down for ever.
            let from = ms(rng.random_range(1..self.script));
            self.dark = (0..count)
                .map(|path| Dark {
                    path,
                    from,
                    to: None,
                })
                .collect();
            return;
        }
        for path in 0..count {
            // None, one, or one after the other.
            let mut from = Duration::ZERO;
            while rng.random_bool(0.4) {
                from += ms(rng.random_range(1..self.script));
                let permanent = self.idle_timeout.is_some() && rng.random_bool(0.2);
                let to = (!permanent).then(|| from + ms(rng.random_range(10..6000)));
                self.dark.push(Dark { path, from, to });
                let Some(to) = to else { break };
                from = to;
            }
        }
    }

    fn draw_deeds(&mut self, rng: &mut StdRng, count: usize) {
        for client in 1..count {
            // Nearly all paths are opened, most of them early, some twice.
            for _ in 0..rng.random_range(1..=2) {
                let latest = if rng.random_bool(0.7) {
                    500
                } else {
                    self.script
                };
                let at = ms(rng.random_range(10..latest));
                self.deeds.push((at, Deed::Open { client }));
            }
        }
        // Without an idle timeout, a side that has lost its last path would not notice the close.
        let closes = self.idle_timeout.is_some() && rng.random_bool(0.6);
        for _ in 0..rng.random_range(0..30) {
            let at = ms(rng.random_range(10..self.script));
            let side = SIDES[rng.random_range(0..2)];
            let nth = rng.random_range(0..6);
            let path = rng.random_range(0..count);
            let deed = match rng.random_range(0..14) {
                0..=2 if closes => Deed::Close { side, nth },
                3 if closes && rng.random_bool(0.3) => Deed::Cross,
                4 | 12 => Deed::Open { client: path },
                5 | 6 => Deed::Status {
                    side,
                    nth,
                    status: match rng.random_bool(0.5) {
                        true => PathStatus::Available,
                        false => PathStatus::Backup,
                    },
                },
                7 => Deed::KeyUpdate { side },
                8 => Deed::Ping { side },
                9 => Deed::Datagram {
                    side,
                    size: rng.random_range(0..1500),
                },
                10 => Deed::Rate {
                    path,
                    rate: log_uniform(rng, 200_000.0, 50_000_000.0) as u64,
                },
                11 => Deed::Loss {
                    path,
                    loss: rng.random_range(0.0..0.3),
                },
                _ => Deed::Delay {
                    path,
                    delay: Duration::from_secs_f64(log_uniform(rng, 0.001, 0.2)),
                },
            };
            self.deeds.push((at, deed));
        }
    }

    /// Whether a path ever loses packets at random.
    pub(crate) fn is_lossy(&self, path: usize) -> bool {
        self.links[path].iter().any(|link| link.loss > 0.0)
            || self
                .deeds
                .iter()
                .any(|(_, deed)| matches!(deed, Deed::Loss { path: of, .. } if *of == path))
    }

    pub(crate) fn closes_paths(&self) -> bool {
        let closes = |deed: &Deed| matches!(deed, Deed::Close { .. } | Deed::Cross);
        self.deeds.iter().any(|(_, deed)| closes(deed))
    }

    pub(crate) fn transport(&self, side: Side) -> TransportConfig {
        let number = side as usize;
        let seed = self.seed ^ (number as u64) << 32;
        let mut config = TransportConfig::default();
        let [stream, connection, send] = self.windows;
        config
            .max_idle_timeout(self.idle_timeout)
            .keep_alive_interval(self.keep_alive)
            .stream_receive_window(stream)
            .receive_window(connection)
            .send_window(send)
            .max_concurrent_bidi_streams(self.streams_at_a_time)
            .max_concurrent_uni_streams(self.streams_at_a_time)
            .congestion(self.congestion[number]);
        if self.motions.single {
            config.max_paths(1);
        }
        match &self.scheduling[number] {
            Scheduling::BuiltIn(name) => {
                let factory = mpquic_workspace::schedulers()
                    .factory(name, &serde_json::Value::Null)
                    .unwrap();
                config.scheduler(factory)
            }
            Scheduling::Adversary => config.scheduler(move || Box::new(Adversary::new(seed))),
        };
        config
    }

    /// The number of streams that a side opens.
    pub(crate) fn streams(&self, side: Side, dir: Dir) -> u64 {
        self.streams[side as usize][dir as usize]
    }

    /// What a side sends on a stream.
    pub(crate) fn half(&self, id: StreamId, sender: Side) -> Half {
        let mut seed = [0; 8];
        content::fill(self.seed, u64::from(id) * 16 + 8 * sender as u64, &mut seed);
        let seed = u64::from_le_bytes(seed);
        let rng = &mut StdRng::seed_from_u64(seed);
        let len = match rng.random_range(0..10) {
            0 => 0,
            1..=5 => rng.random_range(0..300_000),
            _ => log_uniform(rng, 1.0, 300_000.0) as u64,
        };
        let mut cut = |chance| {
            let cut = rng.random_bool(chance);
            let at = rng.random_range(0..=len);
            let code = VarInt::from_u32(rng.random_range(0..1000));
            cut.then_some((at, code))
        };
        Half {
            seed,
            len,
            reset: cut(0.1),
            stop: cut(0.1),
        }
    }
}

/// One direction of a stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Half {
    /// The seed of the content.
    pub(crate) seed: u64,
    pub(crate) len: u64,
    /// The sender resets the stream after this many bytes with this code.
    pub(crate) reset: Option<(u64, VarInt)>,
    /// The receiver stops the stream after this many bytes with this code.
    pub(crate) stop: Option<(u64, VarInt)>,
}

/// The error code of paths that applications abandon.
pub(crate) const ABANDONED: PathErrorCode = PathErrorCode::APPLICATION_ABANDON_PATH;
