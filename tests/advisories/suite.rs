//! A year of advisories against QUIC stacks, tried on this one: a test for each row, named after its public identifier. Each says what
//! is sent, which section of an RFC decides, and what is asserted: bytes held, allocations, datagrams out, the error code on the
//! wire. No figure is a time. `docs/results/advisories.md` has the table; `--nocapture` prints the figures.

mod connection_ids;
mod endpoint;
mod handshake;
mod memory;
mod multipath;
mod packets;
mod paths;
mod releases;
mod streams;

use mpquic_hostile::duel::Duel;
use mpquic_hostile::meter::METER;
use mpquic_hostile::params::Params;
use mpquic_hostile::wire::Frame;
use mpquic_proto::TransportConfig;
use mpquic_test_support::allocator::Counting;

#[global_allocator]
static ALLOCATOR: Counting = METER;

const FLOW_CONTROL_ERROR: Option<u64> = Some(0x03);
const STREAM_LIMIT_ERROR: Option<u64> = Some(0x04);
const STREAM_STATE_ERROR: Option<u64> = Some(0x05);
const FINAL_SIZE_ERROR: Option<u64> = Some(0x06);
const FRAME_ENCODING_ERROR: Option<u64> = Some(0x07);
const TRANSPORT_PARAMETER_ERROR: Option<u64> = Some(0x08);
const CONNECTION_ID_LIMIT_ERROR: Option<u64> = Some(0x09);
const PROTOCOL_VIOLATION: Option<u64> = Some(0x0a);

/// Settings that send nothing unasked: no probes for a larger MTU.
fn quiet() -> TransportConfig {
    let mut config = TransportConfig::default();
    config.max_mtu(1200).unwrap();
    config
}

/// A server with a confirmed connection over which up to eight paths can be opened.
fn server() -> Duel {
    Duel::established(quiet(), Params::generous(Some(7)))
}

fn stream(id: u64, offset: u64, data: &[u8]) -> Frame {
    Frame::Stream {
        id,
        offset,
        fin: false,
        data: data.to_vec(),
    }
}

/// Notes a figure of a row, and that it is within its limit.
fn figure(row: &str, what: &str, value: f64, limit: f64) {
    println!("{row:<26} {what:<60} {value:>12.2} {limit:>12.2}");
    assert!(
        value <= limit,
        "{row}: {what}: {value}, at most {limit} are allowed"
    );
}
