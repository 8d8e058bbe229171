//! Invariants of every step of every run, checked from outside between two events. They compare
//! what was on the wire with what the connections report.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mpquic_proto::{
    CollectionSize, Connection, NumberSpace, Observer, PacketReceived, PacketSent, PathId, Side,
    TransportConfig,
};
use mpquic_sim::{DatagramInfo, DatagramStep, Network, StepView};

use super::motion::Places;

/// The default of both sides.
pub(crate) const MAX_ACK_DELAY: Duration = Duration::from_millis(25);

/// No packet number is used twice in a space: the nonce would be the same (RFC 9001 section 5.3,
/// RFC 10069, Nonce Calculation).
#[derive(Debug, Default)]
struct Numbers {
    largest: BTreeMap<NumberSpace, u64>,
    broken: Option<String>,
    /// When the last packet arrived that was processed.
    heard: Option<Instant>,
}

#[derive(Debug, Clone, Default)]
struct NumberWatch(Arc<Mutex<Numbers>>);

impl Observer for NumberWatch {
    fn on_packet_sent(&mut self, packet: &PacketSent<'_>) {
        let mut numbers = self.0.lock().unwrap();
        //= specs/rfc9000.txt#section-12.3
        //= type=test
        //# A QUIC endpoint MUST NOT reuse a packet number within the same packet number space in
        //# one connection.
        //= specs/rfc9000.txt#section-12.3
        //= type=test
        //# Subsequent packets sent in the same packet number space MUST increase the packet number
        //# by at least one.
        let before = numbers.largest.insert(packet.space, packet.number);
        if before.is_some_and(|before| before >= packet.number) {
            numbers.broken = Some(format!("{packet:?} after number {before:?}"));
        }
    }

    fn on_packet_received(&mut self, packet: &PacketReceived) {
        self.0.lock().unwrap().heard = Some(packet.now);
    }
}

/// Bytes on each path's links, as seen on the wire.
#[derive(Debug, Default, Clone, Copy)]
struct Traffic {
    /// By the server.
    sent: u64,
    /// By the server, corrupted or not.
    received: u64,
    /// A datagram of the server arrived at the client.
    reached: bool,
}

/// A datagram that was sent, for the check of idle timeouts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempt {
    pub(crate) at: Duration,
    pub(crate) path: usize,
}

/// What was on the wire, and what the connections received.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    /// For each link.
    traffic: Vec<Traffic>,
    pub(crate) attempts: Vec<Attempt>,
    numbers: [NumberWatch; 2],
}

impl Wire {
    fn enter(&mut self, info: &DatagramInfo) {
        let links = self.traffic.len();
        // Beyond the links' numbers are the paths to the address that the server prefers.
        let Some(path) = info.path.map(|path| path % links) else {
            return;
        };
        let traffic = &mut self.traffic[path];
        match (info.what, info.from) {
            (DatagramStep::Sent, from) => {
                if from == Side::Server {
                    traffic.sent += info.size as u64;
                }
                self.attempts.push(Attempt { at: info.at, path });
            }
            (DatagramStep::Left(fate), Side::Client) if fate.arrives() => {
                traffic.received += info.size as u64;
            }
            (DatagramStep::Left(fate), Side::Server) if fate.arrives() => traffic.reached = true,
            _ => {}
        }
    }

    /// When a side last processed a packet.
    pub(crate) fn heard(&self, side: Side) -> Option<Instant> {
        self.numbers[side as usize].0.lock().unwrap().heard
    }
}

/// Attaches all checks to a run. Returns what was on the wire for later checks.
pub(crate) struct Watch {
    numbers: [NumberWatch; 2],
    wire: Rc<RefCell<Wire>>,
}

impl Watch {
    pub(crate) fn new(configs: [&mut TransportConfig; 2]) -> Self {
        let numbers = [(); 2].map(|()| NumberWatch::default());
        for (config, watch) in configs.into_iter().zip(&numbers) {
            let watch = watch.clone();
            config.observer(move |_| Some(Box::new(watch.clone())));
        }
        let wire = Wire {
            numbers: numbers.clone(),
            ..Wire::default()
        };
        Self {
            numbers,
            wire: Rc::new(RefCell::new(wire)),
        }
    }

    pub(crate) fn attach(
        self,
        network: &mut Network,
        links: usize,
        places: &Rc<RefCell<Places>>,
    ) -> Rc<RefCell<Wire>> {
        let Self { numbers, wire } = self;
        wire.borrow_mut().traffic.resize(links, Traffic::default());
        let seen = Rc::clone(&wire);
        network.on_datagram(move |info| seen.borrow_mut().enter(info));
        let (seen, places) = (Rc::clone(&wire), Rc::clone(places));
        // Clients' addresses that the server has validated on any path.
        let mut validated = vec![false; links];
        let mut changes = vec![0; links];
        network.on_step(move |view| {
            for watch in &numbers {
                if let Some(broken) = watch.0.lock().unwrap().broken.take() {
                    return Err(broken);
                }
            }
            let sides = [view.client, view.server];
            for (connection, timer) in sides.into_iter().zip(view.timers) {
                if let Some(connection) = connection {
                    armed(connection, timer, view.now)?;
                    caps(connection)?;
                    amplification(connection)?;
                }
            }
            let Some(server) = view.server else {
                return Ok(());
            };
            let places = places.borrow();
            for (link, changes) in changes.iter_mut().enumerate() {
                // The address is another one, to which nothing was sent and of which nothing is known.
                if *changes != places.changes(link) {
                    *changes = places.changes(link);
                    validated[link] = false;
                    seen.borrow_mut().traffic[link] = Traffic::default();
                }
            }
            // Not only those that the paths use: a client's PATH_RESPONSE proves the address that it probes from, though the
            // path's size there is still to be proven by a second one (RFC 9000 section 8.2.1).
            let proven = server
                .paths()
                .amplification()
                .filter(|(_, limit)| limit.is_none());
            for (tuple, _) in proven {
                let Some(link) = places.link_to(tuple.remote) else {
                    continue;
                };
                // A token may have proven the handshake's address. What proves another one is an answer.
                let first = link == 0 && places.changes(link) == 0;
                if !validated[link] && !first && !seen.borrow().traffic[link].reached {
                    return Err(format!(
                        "{tuple} is proven, and the client heard nothing there"
                    ));
                }
                validated[link] = true;
            }
            for (link, traffic) in seen.borrow().traffic.iter().enumerate() {
                if !validated[link] && traffic.sent > 3 * traffic.received {
                    return Err(format!("wire: {traffic:?} on path {link}"));
                }
            }
            Ok(())
        });
        wire
    }
}

/// A timer is set whenever something is in flight, and on a path that may send it is due within the path's probe
/// timeout: the idle timeout alone would end the connection and repeat nothing (noq#435: a timer that is orphaned when
/// its path is abandoned).
fn armed(connection: &Connection, timer: Option<Duration>, now: Duration) -> Result<(), String> {
    if connection.is_closed() {
        return Ok(());
    }
    let side = connection.side();
    for open in connection.paths().iter() {
        let (id, path) = (open.id(), open.stats());
        if path.in_flight == 0 {
            continue;
        }
        let Some(timer) = timer else {
            return Err(format!("{side:?}: data in flight and no timer"));
        };
        // RFC 9002 section 6.2.1: not before the handshake is confirmed; section 6.2.2.1: nor at the limit.
        if !connection.is_handshake_confirmed() || open.amplification().is_some() {
            continue;
        }
        let slack = (4 * path.rtt_var).max(Duration::from_millis(1)) + MAX_ACK_DELAY;
        let doublings = path.pto_count.min(20);
        let pto = (path.rtt + slack).saturating_mul(1 << doublings);
        if timer > now.saturating_add(pto) {
            return Err(format!(
                "{side:?}: {} bytes in flight on path {id}, and the timer is due in {:?} only, not in {pto:?}",
                path.in_flight,
                timer - now,
            ));
        }
    }
    Ok(())
}

fn caps(connection: &Connection) -> Result<(), String> {
    let mut broken = Ok(());
    CollectionSize::for_each(connection, |collection| {
        if collection.size > collection.cap {
            broken = Err(format!("{:?}: {collection:?}", connection.side()));
        }
    });
    broken
}

//= specs/rfc9000.txt#section-8.1
//= type=test
//# Prior to validating the client address, servers MUST NOT send more than three times as many
//# bytes as the number of bytes they have received.
fn amplification(connection: &Connection) -> Result<(), String> {
    for (tuple, limit) in connection.paths().amplification() {
        if let Some((sent, received)) = limit
            && sent > received.saturating_mul(3)
        {
            return Err(format!("{sent} for {received} bytes on {tuple}"));
        }
    }
    Ok(())
}

/// Which paths both sides had open and which links they led over, at each change, for the check of idle timeouts.
#[derive(Debug, Default)]
pub(crate) struct History(Vec<(Duration, Vec<(PathId, usize)>)>);

impl History {
    pub(crate) fn attach(network: &mut Network, places: &Rc<RefCell<Places>>) -> Rc<RefCell<Self>> {
        let history = Rc::new(RefCell::new(Self::default()));
        let (kept, places) = (Rc::clone(&history), Rc::clone(places));
        // Paths that a side has validated at some addresses: an address that is not validated yet is no excuse.
        let mut validated = [const { BTreeSet::new() }; 2];
        network.on_step(move |view: &StepView<'_>| {
            let (Some(client), Some(server)) = (view.client, view.server) else {
                return Ok(());
            };
            for (side, validated) in [client, server].into_iter().zip(&mut validated) {
                let proven = side.paths().iter().filter(|path| path.is_validated());
                validated.extend(proven.map(|path| path.id()));
            }
            let theirs: BTreeSet<_> = server.paths().ids().collect();
            let both = client.paths().iter().filter(|path| {
                let id = &path.id();
                theirs.contains(id) && validated.iter().all(|validated| validated.contains(id))
            });
            let open: Vec<_> = both
                .filter_map(|path| {
                    let link = places.borrow().link_from(path.network_path().local)?;
                    Some((path.id(), link))
                })
                .collect();
            let history = &mut kept.borrow_mut().0;
            if history.last().is_none_or(|(_, last)| *last != open) {
                history.push((view.now, open));
            }
            Ok(())
        });
        history
    }

    /// The links of each path that was open all the time from `from` to `to`, and each link that some path led over all
    /// the time.
    pub(crate) fn open_throughout(&self, from: Duration, to: Duration) -> Vec<BTreeSet<usize>> {
        let start = self.0.partition_point(|(at, _)| *at <= from);
        let Some(first) = start.checked_sub(1) else {
            return Vec::new();
        };
        let mut paths: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        let mut links = BTreeSet::new();
        for (id, link) in &self.0[first].1 {
            paths.insert(*id, BTreeSet::from([*link]));
            links.insert(*link);
        }
        for (_, then) in self.0[first..].iter().take_while(|(at, _)| *at < to) {
            paths.retain(|id, links| {
                let link = then.iter().find(|(other, _)| other == id);
                links.extend(link.map(|(_, link)| *link));
                link.is_some()
            });
            links.retain(|link| then.iter().any(|(_, other)| other == link));
        }
        let links = links.into_iter().map(|link| BTreeSet::from([link]));
        paths.into_values().chain(links).collect()
    }
}
