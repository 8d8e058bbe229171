//! Feature `aws-lc-rs`: the same connections with either implementation of cryptography, and with one at each end.

mod common;

use std::sync::Arc;

use common::{Identity, identity, loopback, pattern, run};
use mpquic::rustls::crypto::{CryptoProvider, aws_lc_rs, ring};
use mpquic::{ClientConfig, Endpoint, FullMesh, ServerConfig, rustls};

/// A user's own configurations, with the provider that they bring.
fn configs(
    identity: &Identity,
    client: CryptoProvider,
    server: CryptoProvider,
) -> (ClientConfig, ServerConfig) {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(identity.certificate.clone()).unwrap();
    let client = rustls::ClientConfig::builder_with_provider(Arc::new(client))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let server = rustls::ServerConfig::builder_with_provider(Arc::new(server))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![identity.certificate.clone()], identity.key.clone_key())
        .unwrap();
    (
        ClientConfig::new(Arc::new(client)).unwrap(),
        ServerConfig::new(Arc::new(server)).unwrap(),
    )
}

/// A handshake, a second path, and a megabyte there and back.
async fn transfer(client_config: ClientConfig, server_config: ServerConfig) {
    let server = Endpoint::server(server_config, &[loopback(1)]).unwrap();
    let client = Endpoint::client(&[loopback(1), loopback(2)]).unwrap();
    client.set_default_client_config(client_config);
    client.set_path_manager(FullMesh::new());
    let connecting = client
        .connect(server.local_addrs()[0], "localhost")
        .unwrap();
    let accepting = async { server.accept().await.unwrap().await.unwrap() };
    let (client, server) = tokio::join!(connecting, accepting);
    let client = client.unwrap();

    let mut events = client.path_events();
    while client.paths().len() < 2 {
        assert!(events.recv().await.is_some(), "the connection is over");
    }
    let data = pattern(1 << 20);
    let there = async {
        let (mut send, mut recv) = client.open_bi().await.unwrap();
        let write = async {
            send.write_all(&data).await.unwrap();
            send.finish().unwrap();
        };
        let (back, ()) = tokio::join!(recv.read_to_end(2 << 20), write);
        assert_eq!(back.unwrap(), data);
    };
    let echo = async {
        let (mut send, mut recv) = server.accept_bi().await.unwrap();
        while let Some(chunk) = recv.read_chunk(usize::MAX).await.unwrap() {
            send.write_all(&chunk).await.unwrap();
        }
        send.finish().unwrap();
    };
    tokio::join!(there, echo);
}

#[test]
fn the_convenient_configurations_use_aws_lc() {
    run(async {
        let identity = identity();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(identity.certificate.clone()).unwrap();
        let client = ClientConfig::with_root_certificates(roots).unwrap();
        let server = ServerConfig::with_single_cert(
            vec![identity.certificate.clone()],
            identity.key.clone_key(),
        );
        transfer(client, server.unwrap()).await;
    });
}

#[test]
fn either_provider_talks_to_either() {
    run(async {
        let identity = identity();
        let providers = [ring::default_provider, aws_lc_rs::default_provider];
        for client in providers {
            for server in providers {
                let (client, server) = configs(&identity, client(), server());
                transfer(client, server).await;
            }
        }
    });
}
