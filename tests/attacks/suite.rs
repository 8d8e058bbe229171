//! Attacks by a hostile peer: one test per class of attack, each with a figure and its limit. `--nocapture` prints the
//! table. No figure is a time: they count bytes, packets, allocations and elements. Each test fails if its defence is
//! taken out.
//!
//! Attacks that cannot be made, or whose cost cannot be seen, from the other end of the wire are tested where they are:
//!
//! - a flood of handshakes against established connections and proven clients, TLS without the endpoint's lock, clients
//!   that nobody accepts, empty datagrams: `crates/mpquic/tests/server.rs`;
//! - the memory of a half-open connection: `crates/mpquic/tests/half_open_memory.rs`;
//! - floods of Initials with honest clients among them: `crates/proto/tests/flood.rs`;
//! - datagrams that wait for a connection's task, by the memory that they hold: `crates/mpquic/src/inbox.rs`;
//! - receive offload with strange segment sizes: `crates/mpquic/src/recv_buffers.rs`;
//! - limits of the AEAD over all paths (RFC 9001 section 6.6), which take millions of packets to reach, with smaller ones:
//!   `crates/wire/src/crypto/tests/key_update.rs`;
//! - early data, its replays, floods before the ClientHello, limits, memory, reduced parameters, frames of multipath:
//!   `crates/proto/tests/early_data.rs`, `crates/proto/src/connection/receive/tests/early_data.rs`;
//! - tokens of others and used ones, clients that are refused: `crates/proto/src/endpoint/admission_tests.rs`,
//!   `crates/proto/src/endpoint/accept_tests.rs`;
//! - first packets that somebody else sends from another address, and late copies of them: `crates/proto/tests/race.rs`;
//! - downgrades of the version: `crates/wire/src/transport_parameters/tests.rs`;
//! - addresses that cannot be proven, and connection IDs while a whole client moves: `crates/proto/tests/rebinding.rs`,
//!   `crates/proto/tests/migration.rs`;
//! - an end without any proven address (RFC 9000 section 9.3.2): `crates/proto/src/connection/receive/tests/attacks.rs`;
//! - server Initials with a token (RFC 9000 section 17.2.2): `crates/proto/src/connection/receive/tests/packets.rs`;
//! - work for a stream that ends among many: `crates/proto/src/stream/control_queue.rs`;
//! - learned policies whose answers are not numbers, too few or too many: `crates/sched/tests/builtin/dqn.rs`,
//!   `crates/sched/tests/builtin/sailfish.rs`, `crates/infer/tests/refusals.rs`.

mod acks;
mod admission;
mod cids;
mod handshake;
mod matrix;
mod paths;
mod scheduling;
mod streams;
mod validation;

use std::time::Duration;

use mpquic_hostile::duel::Duel;
use mpquic_hostile::meter::METER;
use mpquic_hostile::params::Params;
use mpquic_hostile::peer::Peer;
use mpquic_hostile::tls;
use mpquic_proto::TransportConfig;
use mpquic_test_support::allocator::Counting;

#[global_allocator]
static ALLOCATOR: Counting = METER;

const NO_ERROR: Option<u64> = Some(0x00);
const FLOW_CONTROL_ERROR: Option<u64> = Some(0x03);
const STREAM_LIMIT_ERROR: Option<u64> = Some(0x04);
const FRAME_ENCODING_ERROR: Option<u64> = Some(0x07);
const TRANSPORT_PARAMETER_ERROR: Option<u64> = Some(0x08);
const CONNECTION_ID_LIMIT_ERROR: Option<u64> = Some(0x09);
const PROTOCOL_VIOLATION: Option<u64> = Some(0x0a);
const CRYPTO_BUFFER_EXCEEDED: Option<u64> = Some(0x0d);
const KEY_UPDATE_ERROR: Option<u64> = Some(0x0e);

/// Notes a figure of an attack, and that it is within its limit.
fn figure(class: &str, what: &str, value: u64, limit: u64) {
    println!("{class:<34} {what:<62} {value:>10} {limit:>10}");
    assert!(
        value <= limit,
        "{class}: {what}: {value}, at most {limit} are allowed"
    );
}

/// The same for what may have become less.
fn growth(class: &str, what: &str, before: i64, after: i64, limit: u64) {
    figure(
        class,
        what,
        u64::try_from(after - before).unwrap_or(0),
        limit,
    );
}

/// Settings that send nothing unasked: no probes for a larger MTU.
fn quiet() -> TransportConfig {
    let mut config = TransportConfig::default();
    config.max_mtu(1200).unwrap();
    config
}

/// A server with a confirmed connection over which up to eight paths can be opened.
fn multipath() -> Duel {
    Duel::established(quiet(), Params::generous(Some(7)))
}

/// A server with a confirmed connection without multipath.
fn single_path() -> Duel {
    Duel::established(quiet(), Params::generous(None))
}

/// A client that multipath could be negotiated with.
fn client(who: u32) -> Peer {
    let dcid = [b"first".as_slice(), &who.to_be_bytes()].concat();
    Peer::client(
        who,
        &dcid,
        Params::generous(Some(7)),
        tls::credulous_client(),
    )
    .unwrap()
}

/// A server that has answered a client's first flight, and the client, which has the answer.
fn begun() -> Duel {
    let mut duel = Duel::with_server(quiet(), Params::generous(Some(7)));
    for datagram in duel.peer.flight() {
        duel.deliver(&datagram);
    }
    duel.collect();
    duel
}

/// The transport parameter of a server that prefers port 8080 of this address.
fn preferred_address(ipv4: [u8; 4]) -> Vec<u8> {
    let mut value = ipv4.to_vec();
    value.extend_from_slice(&8080u16.to_be_bytes());
    value.extend_from_slice(&[0; 18]);
    value.push(12);
    value.extend_from_slice(&[5; 12]);
    value.extend_from_slice(&[6; 16]);
    value
}

const SECOND: Duration = Duration::from_secs(1);
