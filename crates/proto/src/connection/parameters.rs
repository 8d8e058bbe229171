//! What this side says of itself in its transport parameters.

use mpquic_sched_core::ConnectionId;
use mpquic_wire::transport_parameters::{Grease, TransportParameters, VersionInformation};
use rand::rngs::StdRng;

use crate::cid::{CidGenerator, ResetKey};
use crate::datagram::Datagrams;
use crate::handshake::{AddressProof, FirstFlight};
use crate::path::{ACK_DELAY_EXPONENT, AckFrequency};
use crate::stream::Streams;
use crate::{ClientConfig, EndpointConfig, ServerConfig, TransportConfig};

/// Of a client.
pub(super) fn of_client(
    config: &ClientConfig,
    endpoint: &EndpointConfig,
    scid: ConnectionId,
    rng: &mut StdRng,
) -> TransportParameters {
    let mut parameters = of_either(&config.transport, endpoint, scid, rng);
    // RFC 9368 section 3: what the server may turn this first flight into. TLS is bound to the version that it began
    // with, so that is nothing else.
    let version = config.version;
    parameters.version_information = Some(VersionInformation::new(version, [version], rng));
    parameters
}

/// Of a server, for the client that began like this.
pub(super) fn of_server(
    config: &ServerConfig,
    endpoint: &EndpointConfig,
    attempt: &FirstFlight,
    scid: ConnectionId,
    cids: &CidGenerator,
    reset_key: &ResetKey,
    rng: &mut StdRng,
) -> TransportParameters {
    let mut parameters = of_either(&config.transport, endpoint, scid, rng);
    //= specs/rfc9000.txt#section-7.3
    //# A server includes the Destination Connection ID field from the first Initial packet it
    //# received from the client in the original_destination_connection_id transport parameter; if
    //# the server sent a Retry packet, this refers to the first Initial packet received before
    //# sending the Retry packet.
    parameters.original_destination_connection_id = Some(attempt.dcid);
    if let AddressProof::Retry { original_dcid } = attempt.proof {
        parameters.original_destination_connection_id = Some(original_dcid);
        //= specs/rfc9000.txt#section-7.3
        //# If it sends a Retry packet, a server also includes the Source Connection ID field
        //# from the Retry packet in the retry_source_connection_id transport parameter.
        parameters.retry_source_connection_id = Some(attempt.dcid);
    }
    //= specs/rfc10069-draft.md#nego
    //# When advertising the initial_max_path_id transport parameter, endpoints MUST use Source and
    //# Destination Connection IDs with non-zero lengths.
    // A client that takes packets without an ID can have no second path.
    if attempt.scid.is_empty() {
        parameters.initial_max_path_id = None;
    }
    parameters.stateless_reset_token = Some(reset_key.token(&scid));
    parameters.disable_active_migration = !config.migration;
    parameters.preferred_address = config.preferred_address(cids, reset_key, rng);
    let versions = endpoint.versions();
    parameters.version_information = Some(VersionInformation::new(attempt.version, versions, rng));
    parameters
}

fn of_either(
    config: &TransportConfig,
    endpoint: &EndpointConfig,
    scid: ConnectionId,
    rng: &mut StdRng,
) -> TransportParameters {
    let streams = Streams::local_params(config);
    TransportParameters {
        max_idle_timeout_ms: config
            .max_idle_timeout
            .map_or(0, |timeout| timeout.as_millis().min(1 << 60) as u64),
        max_udp_payload_size: endpoint.max_udp_payload_size.into(),
        initial_max_data: streams.max_data,
        initial_max_stream_data_bidi_local: streams.max_stream_data_bidi_local,
        initial_max_stream_data_bidi_remote: streams.max_stream_data_bidi_remote,
        initial_max_stream_data_uni: streams.max_stream_data_uni,
        initial_max_streams_bidi: streams.max_streams_bidi,
        initial_max_streams_uni: streams.max_streams_uni,
        ack_delay_exponent: ACK_DELAY_EXPONENT,
        max_ack_delay_ms: config.max_ack_delay.as_millis() as u64,
        active_connection_id_limit: crate::limits::ACTIVE_CONNECTION_ID_LIMIT,
        initial_source_connection_id: Some(scid),
        max_datagram_frame_size: Datagrams::local_max_frame_size(config),
        min_ack_delay_us: Some(AckFrequency::min_ack_delay_us(config.max_ack_delay)),
        initial_max_path_id: (config.max_paths > 1).then(|| config.max_paths - 1),
        grease_quic_bit: endpoint.grease_quic_bit,
        grease: Some(Grease::new(rng)),
        ..TransportParameters::default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mpquic_test_support::tls::Identity;
    use rand::SeedableRng;

    use super::*;
    use crate::{FourTuple, Version};

    //= specs/rfc10069-draft.md#nego
    //= type=test
    //# When advertising the initial_max_path_id transport parameter, endpoints MUST use Source and
    //# Destination Connection IDs with non-zero lengths.
    #[test]
    fn a_server_offers_paths_only_to_clients_that_have_connection_ids() {
        let config = ServerConfig::new(Arc::new(Identity::new().server())).unwrap();
        let endpoint = EndpointConfig::new([1; 32]);
        let mut rng = StdRng::seed_from_u64(1);
        let cids = CidGenerator::new(8);
        let offered = |client_cid: &[u8], rng: &mut StdRng| {
            let attempt = FirstFlight {
                network_path: FourTuple {
                    local: "192.0.2.2:443".parse().unwrap(),
                    remote: "192.0.2.1:443".parse().unwrap(),
                },
                version: Version::V1,
                dcid: ConnectionId::new(&[3; 8]),
                scid: ConnectionId::new(client_cid),
                proof: AddressProof::None,
            };
            let scid = cids.generate(rng);
            let key = ResetKey::new(&[2; 32]);
            of_server(&config, &endpoint, &attempt, scid, &cids, &key, rng).initial_max_path_id
        };
        assert!(offered(&[1], &mut rng).is_some());
        assert_eq!(offered(&[], &mut rng), None);
    }
}
