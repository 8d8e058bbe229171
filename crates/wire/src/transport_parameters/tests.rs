//! Transport parameters there and back, cut off everywhere, out of bounds, and against a handshake.

use std::net::{SocketAddrV4, SocketAddrV6};

use mpquic_sched_core::{Side, TransportErrorCode};
use proptest::collection::vec;
use proptest::prelude::*;
use rand::{SeedableRng, rngs::StdRng};

use super::*;
use crate::TransportError;
use crate::frame::MAX_STREAM_COUNT;
use crate::packet::Version;
use crate::packet::varint::{self, Reader};

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..1u64 << 14, 0..=varint::MAX, Just(varint::MAX)]
}

fn cid(min: usize) -> impl Strategy<Value = ConnectionId> {
    vec(any::<u8>(), min..=20).prop_map(|bytes| ConnectionId::new(&bytes))
}

fn preferred_address() -> impl Strategy<Value = PreferredAddress> {
    (
        prop::option::of((any::<[u8; 4]>(), 1..=u16::MAX)),
        prop::option::of((any::<[u8; 16]>(), 1..=u16::MAX)),
        cid(1),
        any::<[u8; 16]>(),
    )
        .prop_map(
            |(v4, v6, connection_id, stateless_reset_token)| PreferredAddress {
                ipv4: v4.map(|(ip, port)| SocketAddrV4::new(ip.into(), port)),
                ipv6: v6.map(|(ip, port)| SocketAddrV6::new(ip.into(), port, 0, 0)),
                connection_id,
                stateless_reset_token,
            },
        )
}

fn parameters(side: Side) -> impl Strategy<Value = TransportParameters> {
    let numbers = (
        number(),
        1200..=varint::MAX,
        number(),
        number(),
        number(),
        number(),
        0..=MAX_STREAM_COUNT,
        0..=MAX_STREAM_COUNT,
        0..=20u8,
        0..1u64 << 14,
        any::<bool>(),
        2..=varint::MAX,
    );
    let ids = (
        prop::option::of(cid(0)),
        prop::option::of(cid(0)),
        prop::option::of(cid(0)),
    );
    let options = (
        prop::option::of(any::<[u8; 16]>()),
        prop::option::of(preferred_address()),
        prop::option::of(1..=varint::MAX),
        prop::option::of(any::<u32>()),
        prop::option::of(0..1u64 << 24),
        prop::option::of(any::<u64>()),
        any::<bool>(),
    );
    (numbers, ids, options).prop_map(move |(n, ids, options)| {
        let mut params = TransportParameters {
            max_idle_timeout_ms: n.0,
            max_udp_payload_size: n.1,
            initial_max_data: n.2,
            initial_max_stream_data_bidi_local: n.3,
            initial_max_stream_data_bidi_remote: n.4,
            initial_max_stream_data_uni: n.5,
            initial_max_streams_bidi: n.6,
            initial_max_streams_uni: n.7,
            ack_delay_exponent: n.8,
            max_ack_delay_ms: n.9,
            disable_active_migration: n.10,
            active_connection_id_limit: n.11,
            initial_source_connection_id: ids.0,
            original_destination_connection_id: ids.1,
            retry_source_connection_id: ids.2,
            stateless_reset_token: options.0,
            preferred_address: options.1,
            max_datagram_frame_size: options.2,
            initial_max_path_id: options.3,
            min_ack_delay_us: options.4.map(|us| us.min(n.9 * 1000)),
            grease_quic_bit: options.6,
            version_information: options.5.map(|seed| {
                let mut rng = StdRng::seed_from_u64(seed);
                VersionInformation::new(Version::V2, Version::ALL, &mut rng)
            }),
            grease: None,
        };
        if side == Side::Client {
            params.original_destination_connection_id = None;
            params.retry_source_connection_id = None;
            params.stateless_reset_token = None;
            params.preferred_address = None;
        }
        params
    })
}

fn encode(params: &TransportParameters, side: Side) -> Vec<u8> {
    let mut buf = Vec::new();
    params.encode(side, &mut buf);
    buf
}

fn any_side() -> impl Strategy<Value = Side> {
    prop_oneof![Just(Side::Client), Just(Side::Server)]
}

/// The encoding of one parameter.
fn parameter(id: u64, value: &[u8]) -> Vec<u8> {
    let mut buf = Vec::new();
    varint::put(&mut buf, id);
    varint::put(&mut buf, value.len() as u64);
    buf.extend_from_slice(value);
    buf
}

fn integer(id: u64, value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    varint::put(&mut bytes, value);
    parameter(id, &bytes)
}

fn assert_refused(data: &[u8]) {
    let error = TransportParameters::decode(Side::Server, data).unwrap_err();
    assert_eq!(
        error.code,
        TransportErrorCode::TRANSPORT_PARAMETER_ERROR,
        "{data:x?}"
    );
}

proptest! {
    #[test]
    fn round_trip(
        (side, params) in any_side().prop_flat_map(|side| (Just(side), parameters(side))),
        seed in prop::option::of(any::<u64>()),
    ) {
        let mut sent = params.clone();
        sent.grease = seed.map(|seed| Grease::new(&mut StdRng::seed_from_u64(seed)));
        let buf = encode(&sent, side);
        prop_assert_eq!(TransportParameters::decode(side, &buf), Ok(params));
    }

    /// CVE-2026-31812: every prefix of a valid encoding. It is valid at the ends of parameters only.
    #[test]
    fn truncation_never_panics(params in parameters(Side::Server)) {
        let buf = encode(&params, Side::Server);
        let mut ends = vec![0];
        let mut r = Reader::new(&buf);
        while !r.is_empty() {
            r.varint().unwrap();
            r.varint_bytes().unwrap();
            ends.push(buf.len() - r.remaining());
        }
        for cut in 0..=buf.len() {
            let decoded = TransportParameters::decode(Side::Server, &buf[..cut]);
            prop_assert_eq!(decoded.is_ok(), ends.contains(&cut), "{} of {}", cut, buf.len());
            if let Err(error) = decoded {
                prop_assert_eq!(error.code, TransportErrorCode::TRANSPORT_PARAMETER_ERROR);
            }
        }
    }

    /// Each parameter cut off inside, with a length that says so.
    #[test]
    fn short_and_long_values_never_panic(params in parameters(Side::Server), side in any_side()) {
        let buf = encode(&params, Side::Server);
        let mut r = Reader::new(&buf);
        while !r.is_empty() {
            let id = r.varint().unwrap();
            let value = r.varint_bytes().unwrap();
            for cut in 0..value.len() {
                let _ = TransportParameters::decode(side, &parameter(id, &value[..cut]));
            }
            let longer = [value, &[0]].concat();
            let decoded = TransportParameters::decode(Side::Server, &parameter(id, &longer));
            let is_cid = matches!(id, 0x00 | 0x0f | 0x10) && longer.len() <= 20;
            prop_assert_eq!(decoded.is_ok(), is_cid, "parameter {:#x}", id);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..200), side in any_side()) {
        if let Ok(params) = TransportParameters::decode(side, &bytes) {
            let again = TransportParameters::decode(side, &encode(&params, side));
            prop_assert_eq!(again, Ok(params));
        }
    }

    #[test]
    fn grease_is_of_a_reserved_id(seed in any::<u64>()) {
        let grease = Grease::new(&mut StdRng::seed_from_u64(seed));
        let params = TransportParameters { grease: Some(grease), ..Default::default() };
        let buf = encode(&params, Side::Client);
        let id = Reader::new(&buf).varint().unwrap();
        prop_assert_eq!(id % 31, 27);
    }
}

#[test]
fn nothing_means_the_defaults_of_the_rfc() {
    let params = TransportParameters::decode(Side::Client, &[]).unwrap();
    assert_eq!(params, TransportParameters::default());
    assert_eq!(params.max_udp_payload_size, 65527);
    assert_eq!(params.ack_delay_exponent, 3);
    assert_eq!(params.max_ack_delay_ms, 25);
    assert_eq!(params.active_connection_id_limit, 2);
    assert_eq!(params.initial_max_path_id, None);
    assert!(encode(&params, Side::Server).is_empty());
}

//= specs/rfc9000.txt#section-7.4
//= type=test
//# An endpoint MUST treat receipt of a transport parameter with an invalid value as a connection
//# error of type TRANSPORT_PARAMETER_ERROR.
#[test]
fn bounds() {
    for (id, largest_bad, smallest_good) in [
        (id::MAX_UDP_PAYLOAD_SIZE, 1199, 1200),
        //= specs/rfc9000.txt#section-18.2
        //= type=test
        //# An endpoint that receives a value less than 2 MUST close the connection with an error of
        //# type TRANSPORT_PARAMETER_ERROR.
        (id::ACTIVE_CONNECTION_ID_LIMIT, 1, 2),
    ] {
        assert_refused(&integer(id, largest_bad));
        TransportParameters::decode(Side::Client, &integer(id, smallest_good)).unwrap();
    }
    for (id, largest_good) in [
        //= specs/rfc9000.txt#section-4.6
        //= type=test
        //# If either is received, the connection MUST be closed immediately with a connection error
        //# of type TRANSPORT_PARAMETER_ERROR if the offending value was received in a transport
        //# parameter or of type FRAME_ENCODING_ERROR if it was received in a frame; see Section
        //# 10.2.
        (id::INITIAL_MAX_STREAMS_BIDI, 1 << 60),
        (id::INITIAL_MAX_STREAMS_UNI, 1 << 60),
        (id::ACK_DELAY_EXPONENT, 20),
        (id::MAX_ACK_DELAY, (1 << 14) - 1),
        //= specs/rfc10069-draft.md#nego
        //= type=test
        //# If an initial_max_path_id transport parameter value higher than 2<sup>32</sup>-1 is
        //# received, the receiver MUST close the connection with an error of type
        //# TRANSPORT_PARAMETER_ERROR.
        (id::INITIAL_MAX_PATH_ID, u32::MAX.into()),
    ] {
        TransportParameters::decode(Side::Client, &integer(id, largest_good)).unwrap();
        assert_refused(&integer(id, largest_good + 1));
        assert_refused(&integer(id, varint::MAX));
    }
    for id in [
        id::ORIGINAL_DESTINATION_CONNECTION_ID,
        id::INITIAL_SOURCE_CONNECTION_ID,
        id::RETRY_SOURCE_CONNECTION_ID,
    ] {
        assert_refused(&parameter(id, &[0; 21]));
        TransportParameters::decode(Side::Server, &parameter(id, &[0; 20])).unwrap();
    }
    assert_refused(&parameter(id::STATELESS_RESET_TOKEN, &[0; 15]));
    assert_refused(&parameter(id::STATELESS_RESET_TOKEN, &[0; 17]));
    assert_refused(&parameter(id::DISABLE_ACTIVE_MIGRATION, &[0]));
    // The length of the connection ID is at 24.
    for (len, size) in [(0, 41), (21, 62), (255, 296)] {
        let mut address = vec![1; size];
        address[24] = len;
        assert_refused(&parameter(id::PREFERRED_ADDRESS, &address));
    }
}

#[test]
fn initial_max_path_id_on_the_wire() {
    let params = TransportParameters {
        initial_max_path_id: Some(7),
        ..Default::default()
    };
    assert_eq!(encode(&params, Side::Client), [0x3e, 1, 7]);
    // 0 is not the same as absent: multipath, but no further path yet (RFC 10069, initial_max_path_id).
    let zero = TransportParameters::decode(Side::Client, &[0x3e, 1, 0]).unwrap();
    assert_eq!(zero.initial_max_path_id, Some(0));
    assert_eq!(encode(&zero, Side::Client), [0x3e, 1, 0]);
}

//= specs/quic-ack-frequency.md#nego
//= type=test
//# Endpoints that support this extension MUST treat receipt of a min_ack_delay that
//# is greater than the max_ack_delay as a connection error of type
//# TRANSPORT_PARAMETER_ERROR.
#[test]
fn min_ack_delay_is_not_above_max_ack_delay() {
    let decode = |data: &[u8]| TransportParameters::decode(Side::Server, data);
    let wire = [0xc0, 0, 0, 0, 0xff, 0x04, 0xde, 0x1b, 2, 0x43, 0xe8];
    assert_eq!(integer(id::MIN_ACK_DELAY, 1000), wire);
    assert_eq!(decode(&wire).unwrap().min_ack_delay_us, Some(1000));
    assert_eq!(decode(&[]).unwrap().min_ack_delay_us, None);
    // The default of max_ack_delay is 25 ms.
    assert!(decode(&integer(id::MIN_ACK_DELAY, 25_000)).is_ok());
    assert_refused(&integer(id::MIN_ACK_DELAY, 25_001));
    let (min, max) = (
        integer(id::MIN_ACK_DELAY, 25_001),
        integer(id::MAX_ACK_DELAY, 26),
    );
    assert!(decode(&[min.clone(), max.clone()].concat()).is_ok());
    assert!(decode(&[max, min].concat()).is_ok(), "in whichever order");
}

/// RFC 9368 section 4: what cannot be read, and versions of 0.
#[test]
fn version_information_on_the_wire() {
    let decode = |value: &[u8]| {
        let data = parameter(id::VERSION_INFORMATION, value);
        TransportParameters::decode(Side::Server, &data).map(|p| p.version_information)
    };
    let v2 = [0x6b, 0x33, 0x43, 0xcf];
    assert_eq!(decode(&v2).unwrap().unwrap().chosen, Version::V2.number());
    let information = decode(&v2).unwrap().unwrap();
    assert_eq!(information.check(Version::V2), Ok(()));
    let error = information.check(Version::V1).unwrap_err();
    assert_eq!(u64::from(error.code), 0x11, "VERSION_NEGOTIATION_ERROR");
    let many = [0, 0, 0, 1].repeat(1000);
    assert_eq!(decode(&many).unwrap().unwrap().chosen, 1);
    for wrong in [
        &[][..],
        &v2[..3],
        &[0; 4],
        &[0, 0, 0, 1, 0, 0, 0, 0],
        &[0, 0, 0, 1, 1],
    ] {
        assert_refused(&parameter(id::VERSION_INFORMATION, wrong));
    }
}

/// RFC 9287 section 3.
#[test]
fn grease_quic_bit_on_the_wire() {
    let decode = |data: &[u8]| TransportParameters::decode(Side::Server, data);
    assert_eq!(
        decode(&[0x6a, 0xb2, 0]).map(|p| p.grease_quic_bit),
        Ok(true)
    );
    assert_eq!(decode(&[]).map(|p| p.grease_quic_bit), Ok(false));
    assert_refused(&parameter(id::GREASE_QUIC_BIT, &[1]));
}

#[test]
fn datagrams_of_size_0_are_none() {
    let params = TransportParameters::decode(Side::Client, &[0x20, 1, 0]).unwrap();
    assert_eq!(params.max_datagram_frame_size, None);
}

//= specs/rfc9000.txt#section-7.4
//= type=test
//# An endpoint SHOULD treat receipt of duplicate transport parameters as a connection error of type
//# TRANSPORT_PARAMETER_ERROR.
#[test]
fn duplicates_are_refused() {
    for id in (0..=0x10).chain([0x20, 0x3e, 0x3f, 0x40, 0x1234_5678, varint::MAX]) {
        // Of a value that is valid, whatever the parameter.
        let value: &[u8] = match id {
            id::STATELESS_RESET_TOKEN => &[0; 16],
            id::MAX_UDP_PAYLOAD_SIZE => &[0x45, 0],
            id::DISABLE_ACTIVE_MIGRATION => &[],
            id::PREFERRED_ADDRESS => {
                let mut address = vec![0; 42];
                address[24] = 1;
                address.leak()
            }
            _ => &[5],
        };
        let one = parameter(id, value);
        TransportParameters::decode(Side::Server, &one).unwrap();
        assert_refused(&[&one[..], &one].concat());
        let between = integer(0x7777, 1);
        assert_refused(&[&one[..], &between, &one].concat());
    }
}

//= specs/rfc9000.txt#section-18.2
//= type=test
//# A server MUST treat receipt of any of these transport parameters as a connection error of type
//# TRANSPORT_PARAMETER_ERROR.
#[test]
fn a_client_may_not_send_what_is_the_servers() {
    let mut address = vec![0; 42];
    address[24] = 1;
    for (id, value) in [
        (id::ORIGINAL_DESTINATION_CONNECTION_ID, &[1][..]),
        (id::RETRY_SOURCE_CONNECTION_ID, &[1]),
        (id::STATELESS_RESET_TOKEN, &[0; 16]),
        (id::PREFERRED_ADDRESS, &address),
    ] {
        let buf = parameter(id, value);
        TransportParameters::decode(Side::Server, &buf).unwrap();
        let error = TransportParameters::decode(Side::Client, &buf).unwrap_err();
        assert_eq!(error.code, TransportErrorCode::TRANSPORT_PARAMETER_ERROR);
    }
}

fn id8(byte: u8) -> ConnectionId {
    ConnectionId::new(&[byte; 8])
}

fn validate(
    change: impl FnOnce(&mut TransportParameters, &mut ExpectedConnectionIds),
) -> Result<(), TransportError> {
    let mut params = TransportParameters {
        initial_source_connection_id: Some(id8(1)),
        original_destination_connection_id: Some(id8(2)),
        retry_source_connection_id: Some(id8(3)),
        initial_max_path_id: Some(3),
        ..Default::default()
    };
    let mut expected = ExpectedConnectionIds {
        initial_source: id8(1),
        original_destination: Some(id8(2)),
        retry_source: Some(id8(3)),
    };
    change(&mut params, &mut expected);
    params.validate(&expected)
}

//= specs/rfc9000.txt#section-7.3
//= type=test
//# Endpoints MUST validate that received transport parameters match received connection ID values.
//= specs/rfc9000.txt#section-7.3
//= type=test
//# An endpoint MUST treat the absence of the initial_source_connection_id transport parameter from
//# either endpoint or the absence of the original_destination_connection_id transport parameter
//# from the server as a connection error of type TRANSPORT_PARAMETER_ERROR.
#[test]
fn connection_ids_of_the_handshake() {
    const ERROR: TransportErrorCode = TransportErrorCode::TRANSPORT_PARAMETER_ERROR;
    let code = |result: Result<(), TransportError>| result.unwrap_err().code;
    validate(|_, _| {}).unwrap();
    // At a server, or without a Retry, and the client did not claim one.
    validate(|p, e| {
        p.original_destination_connection_id = None;
        p.retry_source_connection_id = None;
        e.original_destination = None;
        e.retry_source = None;
    })
    .unwrap();
    assert_eq!(
        code(validate(|p, _| p.initial_source_connection_id = None)),
        ERROR
    );
    assert_eq!(code(validate(|_, e| e.initial_source = id8(9))), ERROR);
    assert_eq!(
        code(validate(|p, _| p.original_destination_connection_id = None)),
        ERROR
    );
    assert_eq!(
        code(validate(|_, e| e.original_destination = Some(id8(9)))),
        ERROR
    );
    assert_eq!(
        code(validate(|p, _| p.retry_source_connection_id = None)),
        ERROR
    );
    assert_eq!(code(validate(|_, e| e.retry_source = None)), ERROR);
    assert_eq!(code(validate(|_, e| e.retry_source = Some(id8(9)))), ERROR);
}

#[test]
fn zero_length_connection_ids() {
    let empty = ConnectionId::new(&[]);
    let zero_length = |p: &mut TransportParameters, e: &mut ExpectedConnectionIds| {
        p.initial_source_connection_id = Some(empty);
        e.initial_source = empty;
    };
    //= specs/rfc10069-draft.md#nego
    //= type=test
    //# If an initial_max_path_id transport parameter is received and the carrying packet contains a
    //# zero-length connection ID, the receiver MUST treat this as a connection error of type
    //# PROTOCOL_VIOLATION and close the connection.
    let error = validate(zero_length).unwrap_err();
    assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION);
    validate(|p, e| {
        zero_length(p, e);
        p.initial_max_path_id = None;
    })
    .unwrap();
    //= specs/rfc9000.txt#section-18.2
    //= type=test
    //# A client MUST treat a violation of these requirements as a connection error of type
    //# TRANSPORT_PARAMETER_ERROR.
    let error = validate(|p, e| {
        zero_length(p, e);
        p.initial_max_path_id = None;
        p.preferred_address = Some(PreferredAddress {
            ipv4: None,
            ipv6: None,
            connection_id: id8(4),
            stateless_reset_token: [0; 16],
        });
    });
    let error = error.unwrap_err();
    assert_eq!(error.code, TransportErrorCode::TRANSPORT_PARAMETER_ERROR);
}

/// The parameters in the ClientHello of RFC 9001 appendix A.2.
#[test]
fn sample_of_a_client() {
    let bytes = [
        0x04, 0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, // initial_max_data
        0x05, 0x04, 0x80, 0x00, 0xff, 0xff, // initial_max_stream_data_bidi_local
        0x07, 0x04, 0x80, 0x00, 0xff, 0xff, // initial_max_stream_data_uni
        0x08, 0x01, 0x10, // initial_max_streams_bidi
        0x01, 0x04, 0x80, 0x00, 0x75, 0x30, // max_idle_timeout
        0x09, 0x01, 0x10, // initial_max_streams_uni
        0x0f, 0x08, 0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08, // initial_source_cid
        0x06, 0x04, 0x80, 0x00, 0xff, 0xff, // initial_max_stream_data_bidi_remote
    ];
    let params = TransportParameters::decode(Side::Client, &bytes).unwrap();
    let cid = ConnectionId::new(&[0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08]);
    assert_eq!(
        params,
        TransportParameters {
            max_idle_timeout_ms: 30_000,
            initial_max_data: varint::MAX,
            initial_max_stream_data_bidi_local: 65535,
            initial_max_stream_data_bidi_remote: 65535,
            initial_max_stream_data_uni: 65535,
            initial_max_streams_bidi: 16,
            initial_max_streams_uni: 16,
            initial_source_connection_id: Some(cid),
            ..Default::default()
        }
    );
}
