//! How the client's addresses change during a run: NATs rebind them, networks number them anew, the client moves its
//! paths between them, and a server prefers to be reached at another address.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use mpquic_proto::{Connection, PathId, Side};
use mpquic_sim::{Action, Network};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::plan::Dark;
use crate::support::ms;

/// How often a motion that came before the handshake was confirmed is tried again.
const RETRY: Duration = ms(100);
/// How often the client looks whether a path is at an address that it has no more.
const LOOK: Duration = ms(1000);

/// Something that happens to an address of the client.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Motion {
    /// A NAT gives it another port outside, or another host, too.
    Rebind { client: usize, host: bool },
    /// Another port or another host takes its place. The client's paths move there.
    Renumber { client: usize, host: bool },
    /// The client moves one of its open paths, by their index modulo their number, to this address.
    Migrate { nth: usize, client: usize },
}

/// The motions of a run.
#[derive(Debug, Default)]
pub(crate) struct Motions {
    /// The connection is without multipath.
    pub(crate) single: bool,
    /// The server has another address that it prefers.
    pub(crate) preferred: bool,
    pub(crate) script: Vec<(Duration, Motion)>,
}

impl Motions {
    /// Every second seed has some. Drawn by a generator of their own: all else in a seed's plan stays what it was.
    pub(crate) fn draw(seed: u64, links: usize, script: u64, dark: &[Dark]) -> Self {
        let rng = &mut StdRng::seed_from_u64(seed ^ 0x0900_0933);
        let mut motions = Self::default();
        if rng.random_bool(0.5) {
            return motions;
        }
        motions.single = rng.random_bool(0.3);
        motions.preferred = rng.random_bool(0.15);
        for _ in 0..rng.random_range(1..=5) {
            // At any time, or while a link is down.
            let at = match dark.get(rng.random_range(0..=2 * dark.len())) {
                Some(Dark { from, to, .. }) => {
                    let length = to.map_or(ms(2000), |to| to - *from);
                    *from + length.mul_f64(rng.random_range(0.0..1.0))
                }
                None => ms(rng.random_range(10..script)),
            };
            let client = rng.random_range(0..links);
            // The first one carries the connection without multipath.
            let client = match rng.random_bool(0.4) {
                true => 0,
                false => client,
            };
            let host = rng.random_bool(0.5);
            let motion = match rng.random_range(0..5) {
                0..=2 => Motion::Rebind { client, host },
                3 => Motion::Renumber { client, host },
                _ => Motion::Migrate {
                    nth: rng.random_range(0..4),
                    client: rng.random_range(0..links),
                },
            };
            motions.script.push((at, motion));
        }
        motions
    }

    /// Plans the motions of a run.
    pub(crate) fn plan(&self, network: &mut Network, places: &Rc<RefCell<Places>>) {
        for (at, motion) in self.script.iter().copied() {
            let places = Rc::clone(places);
            network.at(
                at,
                Action::call(move |network| perform(network, places, motion)),
            );
        }
        let renumbers =
            |(_, motion): &(Duration, Motion)| matches!(motion, Motion::Renumber { .. });
        if self.script.iter().any(renumbers) {
            let places = Rc::clone(places);
            network.at(LOOK, Action::call(move |network| look(network, places)));
        }
    }
}

/// The client's addresses: those that it has, and those that it had.
#[derive(Debug)]
pub(crate) struct Places {
    /// Inside and outside.
    now: Vec<[SocketAddr; 2]>,
    /// Each that there ever was, and the number of the link that it belongs to.
    ever: Vec<(SocketAddr, usize)>,
    /// How often each of them has changed.
    changes: Vec<u64>,
    /// Addresses that were made up.
    made: u8,
}

impl Places {
    pub(crate) fn new(network: &Network, links: usize) -> Rc<RefCell<Self>> {
        let now: Vec<_> = (0..links)
            .filter_map(|link| network.client_address(link))
            .map(|address| [address; 2])
            .collect();
        let ever = now.iter().enumerate();
        Rc::new(RefCell::new(Self {
            ever: ever.map(|(link, [inside, _])| (*inside, link)).collect(),
            changes: vec![0; now.len()],
            now,
            made: 0,
        }))
    }

    /// The link of an address that the client has or had.
    pub(crate) fn link_of(&self, address: SocketAddr) -> Option<usize> {
        let known = self.ever.iter().find(|(known, _)| *known == address);
        known.map(|(_, link)| *link)
    }

    /// The link that leads to the client under this address, as the server sees it.
    pub(crate) fn link_to(&self, outside: SocketAddr) -> Option<usize> {
        self.now.iter().position(|now| now[1] == outside)
    }

    /// The link that the client can use under this address of its own.
    pub(crate) fn link_from(&self, inside: SocketAddr) -> Option<usize> {
        self.now.iter().position(|now| now[0] == inside)
    }

    /// How often the address of a link has changed.
    pub(crate) fn changes(&self, link: usize) -> u64 {
        self.changes[link]
    }

    /// An address that nobody had before: this one with another port, or another host.
    fn make(&mut self, like: SocketAddr, link: usize, host: bool) -> SocketAddr {
        self.made += 1;
        match host {
            true => SocketAddr::from(([203, 0, link as u8, self.made], like.port())),
            false => SocketAddr::new(like.ip(), 20_000 + u16::from(self.made)),
        }
    }

    fn change(&mut self, link: usize, now: [SocketAddr; 2]) {
        self.now[link] = now;
        self.ever.extend(now.map(|address| (address, link)));
        self.changes[link] += 1;
    }
}

/// The client's paths at an address.
fn paths_at(connection: &Connection, local: SocketAddr) -> Vec<PathId> {
    let paths = connection.paths().iter();
    let here = paths.filter(|path| path.network_path().local == local);
    here.map(|path| path.id()).collect()
}

fn perform(network: &mut Network, places: Rc<RefCell<Places>>, motion: Motion) {
    let (now, instant) = (network.now(), network.instant());
    let addresses: Vec<_> = (0..places.borrow().now.len())
        .filter_map(|link| {
            Some([
                network.client_address(link)?,
                network.outside_address(link)?,
            ])
        })
        .collect();
    let Some(connection) = network.connection_mut(Side::Client) else {
        return;
    };
    if connection.is_closed() {
        return;
    }
    // RFC 9000 section 9: an endpoint must not move before, and its peer would not follow a NAT either.
    if !connection.is_handshake_confirmed() {
        let again = Action::call(move |network| perform(network, places, motion));
        network.at(now + RETRY, again);
        return;
    }
    match motion {
        Motion::Rebind { client, host } => {
            let [inside, outside] = addresses[client];
            let outside = places.borrow_mut().make(outside, client, host);
            network.act(Action::Rebind { client, outside }).unwrap();
            places.borrow_mut().change(client, [inside, outside]);
        }
        Motion::Renumber { client, host } => {
            let [inside, _] = addresses[client];
            let address = places.borrow_mut().make(inside, client, host);
            let there = paths_at(connection, inside);
            // For want of a connection ID, for instance. An address that is in use stays then.
            let mut left = there.is_empty();
            for id in there {
                left |= connection.path_mut(id).migrate(instant, address).is_ok();
            }
            if left {
                network.act(Action::Renumber { client, address }).unwrap();
                places.borrow_mut().change(client, [address; 2]);
            }
        }
        Motion::Migrate { nth, client } => {
            let open: Vec<_> = connection.paths().ids().collect();
            if let Some(id) = open.get(nth % open.len().max(1)) {
                // May be refused: no connection ID is left, or it is there already.
                let _ = connection
                    .path_mut(*id)
                    .migrate(instant, addresses[client][0]);
            }
        }
    }
}

/// Moves paths that are at an address that the client has no more, as one does who watches the system's addresses: a
/// path that could not be validated at another one has gone back.
fn look(network: &mut Network, places: Rc<RefCell<Places>>) {
    let (now, instant) = (network.now(), network.instant());
    let addresses: Vec<_> = (0..places.borrow().now.len())
        .filter_map(|link| network.client_address(link))
        .collect();
    let Some(connection) = network.connection_mut(Side::Client) else {
        return;
    };
    if connection.is_closed() {
        return;
    }
    let open = connection.paths().iter();
    let open: Vec<_> = open.map(|path| (path.id(), path.network_path())).collect();
    for (id, path) in open {
        let link = places.borrow().link_of(path.local);
        if let Some(link) = link.filter(|_| places.borrow().link_from(path.local).is_none()) {
            let _ = connection.path_mut(id).migrate(instant, addresses[link]);
        }
    }
    network.at(
        now + LOOK,
        Action::call(move |network| look(network, places)),
    );
}
