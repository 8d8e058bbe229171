//! Fuzz targets on whole connections: each completes a handshake by itself, and holds what comes back against
//! invariants or a model. A target returns what was new in the run's behaviour, so that a runner without coverage can
//! tell interesting inputs.

mod cids;
mod connection;
mod handshake;
mod input;
mod live;
mod memory;
mod paths;
mod tokens;

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::OnceLock;

use mpquic_proto::{CollectionSize, FourTuple, TransportConfig};

use crate::duel::Duel;
use crate::params::Params;
use crate::peer::Opened;
use crate::tls::Identity;
use crate::victim::Victim;
use crate::wire::Frame;

pub use self::cids::cids;
pub use self::connection::connection;
pub use self::handshake::handshake;
pub use self::live::live;
pub use self::memory::memory;
pub use self::paths::paths;
pub use self::tokens::tokens;

/// What a run did, as numbers: two runs that differ in one of them behaved differently.
pub type Features = BTreeSet<u32>;

/// A target by its name: all of this module, and those of `mpquic_proto::fuzzing`.
pub fn target(name: &str) -> Option<fn(&[u8]) -> Features> {
    use mpquic_proto::fuzzing;
    Some(match name {
        "connection" => connection,
        "paths" => paths,
        "cids" => cids,
        "handshake" => handshake,
        "tokens" => tokens,
        "memory" => memory,
        "live" => live,
        "frame" => |data| {
            fuzzing::frames(data);
            shape(data)
        },
        "packet" => |data| {
            fuzzing::datagram(data);
            shape(data)
        },
        "token_codec" => |data| {
            fuzzing::token(std::time::Instant::now(), data);
            shape(data)
        },
        "transport_parameters" => |data| {
            fuzzing::transport_parameters(data);
            shape(data)
        },
        "assembler" => |data| {
            fuzzing::assembler(data);
            shape(data)
        },
        "server" => {
            |data| Features::from([u32::from(fuzzing::server(std::time::Instant::now(), data))])
        }
        _ => return None,
    })
}

/// The names of all targets.
pub const TARGETS: &[&str] = &[
    "connection",
    "paths",
    "cids",
    "handshake",
    "tokens",
    "memory",
    "live",
    "frame",
    "packet",
    "token_codec",
    "transport_parameters",
    "assembler",
    "server",
];

/// Of a target that says nothing: how long the input is and how it begins.
fn shape(data: &[u8]) -> Features {
    let length = u32::from((data.len() as u16).leading_zeros() as u8);
    let first = data.first().copied().unwrap_or(0);
    Features::from([length, 0x100 | u32::from(first)])
}

fn feature(kind: u32, value: impl Hash) -> u32 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    kind << 24 | hasher.finish() as u32 & 0x00ff_ffff
}

fn identity() -> &'static Identity {
    static IDENTITY: OnceLock<Identity> = OnceLock::new();
    IDENTITY.get_or_init(Identity::generate)
}

fn config() -> TransportConfig {
    let mut config = TransportConfig::default();
    config.send_window(1 << 18).max_paths(6);
    config
}

/// A confirmed connection; the bits of `kind` say against whom, and whether with multipath.
fn begin(kind: u8) -> Duel {
    let params = Params::generous((kind & 1 == 0).then_some(9));
    let mut duel = if kind & 2 == 0 {
        Duel::between(Victim::server(identity(), config()), params)
    } else {
        Duel::with_client_of(identity(), config(), params)
    };
    duel.connect();
    duel
}

/// The kinds of the frames that came, and how the connection ended.
fn note(features: &mut Features, came: &[(FourTuple, Opened)]) {
    for (_, opened) in came {
        for frame in &opened.frames {
            features.insert(feature(1, std::mem::discriminant(frame)));
            if let Frame::Close { app, code, reason } = frame {
                features.insert(feature(2, (app, code, reason)));
            }
        }
    }
}

/// Where the connection is, roughly.
fn observe(features: &mut Features, duel: &mut Duel) {
    for event in duel.victim.events.drain(..) {
        let kind = match event {
            mpquic_proto::Event::Path(event) => feature(5, std::mem::discriminant(&event)),
            mpquic_proto::Event::Stream(event) => feature(6, std::mem::discriminant(&event)),
            event => feature(7, std::mem::discriminant(&event)),
        };
        features.insert(kind);
    }
    let Some((_, connection)) = duel.victim.connections.first() else {
        return;
    };
    let size = |value: u64| 64 - value.leading_zeros();
    let stats = connection.stats();
    features.insert(feature(8, size(stats.lost_packets)));
    features.insert(feature(9, size(stats.max_receive_gaps as u64)));
    features.insert(feature(10, size(stats.key_updates)));
    for path in connection.paths().iter() {
        let stats = path.stats();
        let kind = (
            path.id().0.min(3),
            stats.pto_count.min(8),
            stats.suspect,
            size(stats.cwnd),
        );
        features.insert(feature(11, kind));
    }
    CollectionSize::for_each(connection, |collection| {
        features.insert(feature(12, (collection.what, size(collection.size))));
    });
}

/// What holds at every moment.
fn check(duel: &mut Duel) {
    assert_eq!(duel.victim.over_caps(), Vec::<String>::new());
    if duel.against_server {
        for (to, sent) in &duel.victim.sent_to {
            let received = duel
                .victim
                .received_from
                .get(to)
                .map_or(0, |received| received.bytes);
            assert!(
                duel.validated.contains(to) || sent.bytes <= 3 * received,
                "{} bytes to {to}, {received} from it",
                sent.bytes
            );
        }
    }
    let Some((_, connection)) = duel.victim.connections.first_mut() else {
        return;
    };
    let paths = connection.paths().iter();
    let in_flight: u64 = paths.map(|path| path.stats().in_flight).sum();
    let timer = connection.poll_timeout();
    assert!(
        in_flight == 0 || timer.is_some(),
        "{in_flight} bytes in flight and no timer"
    );
}
