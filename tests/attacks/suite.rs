//! Attacks by a hostile peer: one test per class of attack, each with a figure and its limit. `--nocapture` prints the
//! table. No figure is a time: they count bytes, packets, allocations and elements.

mod acks;

mod cids;
mod handshake;
mod matrix;
mod paths;
mod streams;
mod validation;

use std::time::Duration;

use mpquic_hostile::duel::Duel;
use mpquic_hostile::meter::Counting;
use mpquic_hostile::params::Params;
use mpquic_proto::TransportConfig;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const NO_ERROR: Option<u64> = Some(0x00);
const FLOW_CONTROL_ERROR: Option<u64> = Some(0x03);
const STREAM_LIMIT_ERROR: Option<u64> = Some(0x04);
const FRAME_ENCODING_ERROR: Option<u64> = Some(0x07);
const TRANSPORT_PARAMETER_ERROR: Option<u64> = Some(0x08);
const CONNECTION_ID_LIMIT_ERROR: Option<u64> = Some(0x09);
const PROTOCOL_VIOLATION: Option<u64> = Some(0x0a);
const CRYPTO_BUFFER_EXCEEDED: Option<u64> = Some(0x0d);

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

const SECOND: Duration = Duration::from_secs(1);
