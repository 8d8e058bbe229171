//! Transport parameters that must be refused, through a whole handshake. `transport_parameters::tests`
//! has every parameter by itself.

use std::time::Duration;

use bytes::BytesMut;
use mpquic_sched_core::{Side, TransportErrorCode};

use super::forge;
use super::pair::Pair;
use crate::{ConnectionError, DatagramEvent, TransportConfig};

const ERROR: TransportErrorCode = TransportErrorCode::TRANSPORT_PARAMETER_ERROR;

/// A connection of which `sender` sends a max_ack_delay of this many milliseconds.
fn with_max_ack_delay(sender: Side, milliseconds: u64) -> Pair {
    // Not through a method: there is none that allows it.
    let strange = TransportConfig {
        max_ack_delay: Duration::from_millis(milliseconds),
        ..TransportConfig::default()
    };
    match sender {
        Side::Client => Pair::new(strange, TransportConfig::default()),
        Side::Server => Pair::new(TransportConfig::default(), strange),
    }
}

//= specs/rfc9000.txt#section-18.2
//= type=test
//# Values of 2^14 or greater are invalid.
//= specs/rfc9000.txt#section-7.4
//= type=test
//# An endpoint MUST treat receipt of a transport parameter with an
//# invalid value as a connection error of type TRANSPORT_PARAMETER_ERROR.
#[test]
fn invalid_values_end_the_handshake() {
    for sender in [Side::Client, Side::Server] {
        with_max_ack_delay(sender, (1 << 14) - 1).connect();
        let mut pair = with_max_ack_delay(sender, 1 << 14);
        if sender == Side::Client {
            pair.step();
            refuse_first_datagram(&mut pair);
        } else {
            let accepted = |pair: &mut Pair| pair.server.connection.is_some();
            assert!(pair.run_until(Duration::from_secs(5), accepted));
        }
        let told = pair.run_until(Duration::from_secs(5), |pair| {
            forge::side_of(pair, sender).is_closed()
        });
        assert!(told, "{sender:?}");
        match forge::side_of(&mut pair, sender).lost_reason() {
            Some(ConnectionError::ConnectionClosed(close)) => {
                assert_eq!(close.error_code, ERROR, "{sender:?}");
            }
            other => panic!("{sender:?}: {other:?}"),
        }
    }
}

/// The parameters are in the client's first datagram: the server answers with a close, and has no
/// connection.
fn refuse_first_datagram(pair: &mut Pair) {
    let first = pair.server.inbound.pop_front().unwrap();
    let mut answer = Vec::new();
    let endpoint = &mut pair.server.endpoint;
    let event = endpoint.handle(
        first.at,
        first.tuple,
        None,
        BytesMut::from(&first.data[..]),
        &mut answer,
    );
    let Some(DatagramEvent::NewConnection(incoming)) = event else {
        panic!("{event:?}");
    };
    let error = endpoint
        .accept(incoming, first.at, &mut answer, None)
        .map(|(handle, _)| handle)
        .unwrap_err();
    match error.cause {
        ConnectionError::TransportError(error) => assert_eq!(error.code, ERROR),
        other => panic!("{other:?}"),
    }
    assert_eq!(endpoint.open_connections(), 0);
    assert_eq!(
        error.response.map(|response| response.size),
        Some(answer.len())
    );
    forge::hand_over(pair, Side::Client, &answer);
}
