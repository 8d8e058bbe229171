//! Implements the interface of the exercises for noq, which takes part in multipath only if it is told to.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use noq::crypto::rustls::{HandshakeData, QuicClientConfig, QuicServerConfig};
use noq::{Endpoint, EndpointConfig, TokioRuntime, TransportConfig};
use noq_proto::RandomConnectionIdGenerator;
use rustls::pki_types::CertificateDer;

use super::{Answer, Setup, Stack, stack};

pub(crate) struct Noq;

#[derive(Debug, Clone)]
pub(crate) struct Connection(pub(crate) noq::Connection);

stack::peer!(noq, Connection);

fn handshake_data(connection: &noq::Connection) -> HandshakeData {
    *connection.handshake_data().unwrap().downcast().unwrap()
}

fn peer_identity(connection: &noq::Connection) -> Option<Vec<CertificateDer<'static>>> {
    Some(*connection.peer_identity()?.downcast().unwrap())
}

fn key_updates(_: &noq::Connection) -> Option<u64> {
    None
}

fn remote_address(connection: &noq::Connection) -> SocketAddr {
    let path = connection.path(noq::PathId::ZERO).unwrap();
    path.remote_address().unwrap()
}

fn transport(setup: &Setup, takes_datagrams: bool) -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    let idle_timeout = setup.idle_timeout.try_into().unwrap();
    transport.max_idle_timeout(Some(idle_timeout));
    if let Some(limits) = setup.limits {
        transport
            .max_concurrent_bidi_streams(limits.streams.into())
            .max_concurrent_uni_streams(limits.streams.into())
            .stream_receive_window(limits.stream_window.into())
            .receive_window(limits.window.into())
            .send_window(limits.window.into());
    }
    if !takes_datagrams {
        transport.datagram_receive_buffer_size(None);
    }
    Arc::new(transport)
}

fn endpoint(setup: &Setup, server: Option<noq::ServerConfig>, socket: UdpSocket) -> Endpoint {
    // The same for all servers, so that one can send a reset for another one's connection.
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &[7; 64]);
    let mut config = EndpointConfig::new(Arc::new(key));
    // Not the default generator, which does not recognise IDs from another endpoint.
    let len = setup.cid_len;
    config.cid_generator(Arc::new(move || {
        Box::new(RandomConnectionIdGenerator::new(len))
    }));
    config.grease_quic_bit(setup.quinn_quic_bit_greased);
    if let Some(version) = setup.version {
        config.supported_versions(vec![version]);
    }
    Endpoint::new(config, server, socket, Arc::new(TokioRuntime)).unwrap()
}

impl Stack for Noq {
    type Endpoint = Endpoint;
    type Peer = Connection;

    fn client_from(setup: &Setup, local: SocketAddr) -> Endpoint {
        let tls = QuicClientConfig::try_from(setup.client_tls()).unwrap();
        let mut config = noq::ClientConfig::new(Arc::new(tls));
        config.transport_config(transport(setup, true));
        if let Some(version) = setup.version {
            config.version(version);
        }
        let endpoint = endpoint(setup, None, UdpSocket::bind(local).unwrap());
        endpoint.set_default_client_config(config);
        endpoint
    }

    fn server(setup: &Setup, socket: UdpSocket) -> Endpoint {
        let tls = QuicServerConfig::try_from(setup.server_tls()).unwrap();
        let mut config = noq::ServerConfig::with_crypto(Arc::new(tls));
        config.transport_config(transport(setup, setup.server_takes_datagrams));
        config.preferred_address_v4(setup.preferred_address);
        endpoint(setup, Some(config), socket)
    }

    fn local_address(endpoint: &Endpoint) -> SocketAddr {
        endpoint.local_addr().unwrap()
    }

    async fn connect(endpoint: &Endpoint, remote: SocketAddr) -> Result<Connection, End> {
        let connecting = endpoint.connect(remote, "localhost").unwrap();
        connecting.await.map(Connection).map_err(end)
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
        incoming.await.map(Connection).map_err(end)
    }

    super::early_data!();

    fn move_client(endpoint: &Endpoint) {
        let host = endpoint.local_addr().unwrap().ip();
        endpoint
            .rebind(UdpSocket::bind((host, 0)).unwrap())
            .unwrap();
    }

    async fn wait_idle(endpoint: &Endpoint) {
        endpoint.wait_idle().await;
    }
}
