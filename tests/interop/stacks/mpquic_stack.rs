//! Implements the interface of the exercises for this crate.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use mpquic::{
    ConnectionIdGenerator, Endpoint, EndpointConfig, HandshakeData, TransportConfig, Version,
};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::pki_types::CertificateDer;

use super::{Answer, Setup, Stack, stack};

pub(crate) struct Mpquic;

#[derive(Debug, Clone)]
pub(crate) struct Connection(pub(crate) mpquic::Connection);

stack::peer!(mpquic, Connection);

fn handshake_data(connection: &mpquic::Connection) -> HandshakeData {
    connection.handshake_data()
}

fn peer_identity(connection: &mpquic::Connection) -> Option<Vec<CertificateDer<'static>>> {
    connection.peer_identity()
}

fn key_updates(connection: &mpquic::Connection) -> Option<u64> {
    Some(connection.stats().key_updates)
}

fn remote_address(connection: &mpquic::Connection) -> SocketAddr {
    connection.remote_address()
}

fn transport(setup: &Setup, takes_datagrams: bool) -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(setup.idle_timeout));
    if let Some(limits) = setup.limits {
        transport
            .max_concurrent_bidi_streams(limits.streams.into())
            .max_concurrent_uni_streams(limits.streams.into())
            .stream_receive_window(limits.stream_window.into())
            .receive_window(limits.window.into())
            .send_window(limits.window.into());
    }
    if !takes_datagrams {
        transport.datagram_receive_buffer(None);
    }
    Arc::new(transport)
}

/// Connection IDs of so many random bytes.
#[derive(Debug)]
struct CidsOf(usize);

impl ConnectionIdGenerator for CidsOf {
    fn id_len(&self) -> usize {
        self.0
    }

    fn write_id(&self, _: &mut [u8]) {}
}

fn endpoint_config(setup: &Setup, seed: [u8; 32]) -> EndpointConfig {
    let mut config = EndpointConfig::new(seed);
    config.grease_quic_bit(setup.our_quic_bit_greased);
    if let Some(len) = setup.our_cid_len {
        config.connection_ids(Arc::new(CidsOf(len)));
    }
    if setup.our_server_knows_v1_only {
        config.supported_versions(&[Version::V1]);
    }
    config
}

/// Connections are plain QUIC, because the other stack has no multipath.
fn established(connection: mpquic::Connection) -> Connection {
    assert!(!connection.is_multipath());
    Connection(connection)
}

impl Stack for Mpquic {
    type Endpoint = Endpoint;
    type Peer = Connection;

    fn client_from(setup: &Setup, local: SocketAddr) -> Endpoint {
        let mut config = mpquic::ClientConfig::new(Arc::new(setup.client_tls())).unwrap();
        config.transport(transport(setup, true));
        config.handshake_timeout(setup.idle_timeout);
        config.version(setup.our_version);
        let mut seed = [0; 32];
        SystemRandom::new().fill(&mut seed).unwrap();
        Endpoint::builder()
            .bind(local)
            .default_client(config)
            .endpoint_config(endpoint_config(setup, seed))
            .build()
            .unwrap()
    }

    fn server(setup: &Setup, socket: UdpSocket) -> Endpoint {
        let mut config = mpquic::ServerConfig::new(Arc::new(setup.server_tls())).unwrap();
        config.transport(transport(setup, setup.server_takes_datagrams));
        config.handshake_timeout(setup.idle_timeout);
        config.preferred_address_v4(setup.preferred_address);
        // The same for all servers, so that one can send a reset for another one's connection.
        let endpoint = endpoint_config(setup, [7; 32]);
        Endpoint::builder()
            .socket(socket)
            .server(config)
            .endpoint_config(endpoint)
            .build()
            .unwrap()
    }

    fn local_address(endpoint: &Endpoint) -> SocketAddr {
        endpoint.local_addrs()[0]
    }

    async fn connect(endpoint: &Endpoint, remote: SocketAddr) -> Result<Connection, End> {
        let connecting = endpoint.connect(remote, "localhost").unwrap();
        connecting.await.map(established).map_err(end)
    }

    async fn answer(endpoint: &Endpoint, answer: Answer) -> Result<Connection, End> {
        let mut incoming = endpoint.accept().await.unwrap();
        match answer {
            Answer::Accept => {}
            Answer::Refuse => {
                incoming.refuse();
                return Err(End::Local);
            }
            Answer::Retry => {
                // A first flight of several datagrams may ask twice.
                while !incoming.remote_address_validated() {
                    incoming.retry().unwrap();
                    incoming = endpoint.accept().await.unwrap();
                }
            }
        }
        incoming.await.map(established).map_err(end)
    }

    super::early_data!();

    fn move_client(endpoint: &Endpoint) {
        let old = Self::local_address(endpoint);
        endpoint.rebind(old, SocketAddr::new(old.ip(), 0)).unwrap();
    }

    async fn wait_idle(endpoint: &Endpoint) {
        endpoint.wait_idle().await;
    }
}
