//! What `everyday` measures: the rows of its table, and who stands in each.

use crate::Kind;
use crate::links::Network;
use crate::stack::Variant;

/// What the client does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// One long transfer to the client, or from it.
    Down,
    Up,
    /// Requests of so many bytes, one after another.
    Requests(u64),
    /// Requests of so many bytes, so many a second on so many connections.
    Paced {
        size: u64,
        rate: u64,
        connections: u64,
    },
    /// One after another.
    Handshakes {
        resume: bool,
    },
}

/// An implementation with its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stack {
    pub(crate) kind: Kind,
    pub(crate) name: &'static str,
    /// With its own default for the largest datagram; else 1,452 bytes.
    pub(crate) defaults: bool,
    pub(crate) variant: Variant,
}

const fn stack(kind: Kind, name: &'static str) -> Stack {
    Stack {
        kind,
        name,
        defaults: false,
        variant: Variant::Usual,
    }
}

const MPQUIC: Stack = stack(Kind::Mpquic, "mpquic");
const QUINN: Stack = stack(Kind::Quinn, "quinn");
const NOQ: Stack = stack(Kind::Noq, "noq");
const TLS: Stack = stack(Kind::Tls, "TCP, rustls");

const ALL: [Stack; 4] = [MPQUIC, QUINN, NOQ, TLS];
const ALL_ACKS: Stack = Stack {
    variant: Variant::AllAcks,
    ..stack(Kind::Mpquic, "mpquic, all ACKs")
};
const BBR3: Stack = Stack {
    variant: Variant::Bbr3,
    ..stack(Kind::Mpquic, "mpquic, BBRv3")
};
const MULTIPATH: [Stack; 2] = [MPQUIC, NOQ];
const DEFAULTS: [Stack; 2] = [
    Stack {
        kind: Kind::Mpquic,
        name: "mpquic, its defaults",
        defaults: true,
        variant: Variant::Usual,
    },
    Stack {
        kind: Kind::Quinn,
        name: "quinn, its defaults",
        defaults: true,
        variant: Variant::Usual,
    },
];

/// A row of the table.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) network: Network,
    pub(crate) work: Work,
    pub(crate) offload: bool,
    pub(crate) stacks: Vec<Stack>,
    /// Measured if no rows are named.
    pub(crate) chosen: bool,
}

impl Row {
    /// Bytes, requests or handshakes of a run, or its connections.
    pub(crate) fn amount(&self) -> u64 {
        let rate: u32 = self.network.rates.iter().sum();
        match self.work {
            Work::Down | Work::Up if rate == 0 => 400_000_000,
            // So long that what a transfer begins with is a small part of it.
            Work::Down | Work::Up => (u64::from(rate) * 125_000 * 3 / 2).min(150_000_000),
            Work::Requests(size) => 8_000_000 / (size + 1_000).max(2_000),
            Work::Paced { connections, .. } => connections,
            Work::Handshakes { .. } => 600,
        }
    }

    /// Seconds of a run, where it is not the amount that ends it.
    pub(crate) const fn seconds(&self) -> u64 {
        match self.work {
            Work::Paced { rate, .. } if rate < 100 => 4,
            _ => 2,
        }
    }

    /// How many units the figures are per, and what such a unit is.
    pub(crate) fn units(&self, count: f64) -> (f64, &'static str) {
        match self.work {
            Work::Down | Work::Up => (self.amount() as f64 / 1e6, "MB"),
            Work::Requests(_) => (self.amount() as f64, "request"),
            Work::Paced { size, .. } if size > 50_000 => (count * size as f64 / 1e6, "MB"),
            Work::Paced { .. } => (count, "request"),
            Work::Handshakes { .. } => (self.amount() as f64, "handshake"),
        }
    }
}

fn network(rates: &[u32], rtt: u32) -> Network {
    Network {
        rates: rates.to_vec(),
        rtt,
    }
}

fn bulk(rates: &[u32], rtt: u32, up: bool, offload: bool, chosen: bool) -> Row {
    let network = network(rates, rtt);
    let way = if up { "up" } else { "down" };
    let without = if offload { "" } else { ", no offload" };
    let mut stacks = if rates.len() > 1 {
        MULTIPATH.to_vec()
    } else {
        ALL.to_vec()
    };
    if rates.iter().all(|rate| *rate > 0) {
        stacks.insert(1, ALL_ACKS);
    }
    if let ([20 | 100 | 300], 0, false) = (rates, rtt, up) {
        stacks.insert(2, BBR3);
    }
    if rates == [0] && offload && !up {
        stacks.extend(DEFAULTS);
    }
    Row {
        name: format!("{way}, {network}{without}"),
        network,
        work: if up { Work::Up } else { Work::Down },
        offload,
        stacks,
        chosen,
    }
}

fn small(name: String, work: Work, offload: bool, chosen: bool) -> Row {
    let without = if offload { "" } else { ", no offload" };
    Row {
        name: format!("{name}{without}"),
        network: network(&[0], 0),
        work,
        offload,
        stacks: ALL.to_vec(),
        chosen,
    }
}

/// All rows, those with much to say first.
pub(crate) fn all() -> Vec<Row> {
    let mut rows = Vec::new();
    for offload in [true, false] {
        for rtt in [0, 20, 80] {
            for up in [false, true] {
                for rate in [5, 20, 100, 300, 1000, 0] {
                    // The lab's relay is in user space.
                    if rtt > 0 && !(1..=100).contains(&rate) {
                        continue;
                    }
                    let chosen = match (up, rtt, offload) {
                        (false, 0, true) => true,
                        (false, 0, false) => (20..=300).contains(&rate),
                        (true, 0, true) => rate == 100,
                        (false, 20, true) => rate == 20 || rate == 100,
                        _ => false,
                    };
                    rows.push(bulk(&[rate], rtt, up, offload, chosen));
                }
                for rates in [[20, 8], [100, 25], [100, 100], [0, 0]] {
                    if rtt > 0 && rates[0] == 0 {
                        continue;
                    }
                    let chosen = !up && rtt == 0 && offload;
                    rows.push(bulk(&rates, rtt, up, offload, chosen));
                }
            }
        }
        for (kib, name) in [(1, "1 KiB"), (16, "16 KiB")] {
            let size = kib << 10;
            let row = |name, work, chosen| small(name, work, offload, chosen && offload);
            rows.push(row(
                format!("{name}, one at a time"),
                Work::Requests(size),
                true,
            ));
            let paced = |rate, connections| Work::Paced {
                size,
                rate,
                connections,
            };
            rows.push(row(format!("{name}, 50 a second"), paced(50, 1), kib == 1));
            for connections in [1, 100, 1000] {
                let name = format!("{name}, 10,000 a second on {connections} connections");
                let chosen = kib == 1 && connections > 1;
                rows.push(row(
                    name.replace("on 1 connections", "on 1 connection"),
                    paced(10_000, connections),
                    chosen,
                ));
            }
        }
        for (resume, name) in [(false, "full handshakes"), (true, "resumed handshakes")] {
            rows.push(small(
                name.into(),
                Work::Handshakes { resume },
                offload,
                offload,
            ));
        }
        // 62,500 bytes each tenth of a second.
        for (connections, name) in [(100, "100"), (1000, "1,000")] {
            let viewers = Work::Paced {
                size: 62_500,
                rate: 10 * connections,
                connections,
            };
            let name = format!("{name} viewers of 5 Mbit/s");
            rows.push(small(name, viewers, offload, offload));
        }
    }
    rows
}
