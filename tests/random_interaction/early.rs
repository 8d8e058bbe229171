//! Sessions for runs with early data: a connection before the one that is tested brings the tickets.

use std::sync::Arc;
use std::time::Duration;

use mpquic_proto::{Side, TransportConfig};
use mpquic_sim::{LinkConfig, Network, identity};

use super::plan::Early;

/// TLS configurations of a client that has tickets of a server with these settings, and of a server that
/// knows them or not.
pub(crate) fn tls(
    seed: u64,
    settings: TransportConfig,
    early: Early,
) -> (Arc<rustls::ClientConfig>, Arc<rustls::ServerConfig>) {
    let mut client = rustls::ClientConfig::clone(&identity::client_tls().unwrap());
    client.resumption = rustls::client::Resumption::in_memory_sessions(8);
    client.enable_early_data = true;
    let mut server = rustls::ServerConfig::clone(&identity::server_tls().unwrap());
    server.send_tls13_tickets = 1;
    server.max_early_data_size = u32::MAX;
    let (client, known) = (Arc::new(client), Arc::new(server.clone()));
    let mut network = Network::builder(seed)
        .path(LinkConfig::default(), LinkConfig::default())
        .server_transport(settings)
        .client_tls(Arc::clone(&client))
        .server_tls(Arc::clone(&known))
        .build()
        .unwrap();
    network.run_until(Duration::from_secs(2)).unwrap();
    let connection = network.connection(Side::Client).unwrap();
    assert!(connection.is_handshake_confirmed());
    match early {
        Early::Accepted => (client, known),
        Early::Rejected => {
            server.session_storage = rustls::server::ServerSessionMemoryCache::new(8);
            (client, Arc::new(server))
        }
    }
}
