//! Datagrams as large as loopback takes, to and from stacks that say how much they receive.
#![cfg(target_os = "linux")]

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use mpquic_test_support::runtime::run;
use mpquic_test_support::tls::Identity;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

const LEN: usize = 8 << 20;

/// What is looked for where an interface takes more: 9,216 bytes with the headers of IPv4.
const LARGEST: u16 = 9188;

/// What other stacks try here: as much as fits ten times into what the system segments at once, which is how many they send.
const THEIRS: u16 = 6500;

const LOCAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

fn identity() -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
    let identity = Identity::new();
    (identity.certificate, identity.key)
}

/// A client of this stack that says that it receives datagrams of `receives` bytes, or says what it does by default, and our
/// server, which sends until its datagrams have `expected` bytes. They never have more.
macro_rules! we_send {
    ($library:ident, $receives:expr, $expected:expr) => {{
        let (certificate, key) = identity();
        let server =
            mpquic::ServerConfig::with_single_cert(vec![certificate.clone()], key).unwrap();
        let server = mpquic::Endpoint::server(server, &[LOCAL]).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate).unwrap();
        let config = $library::ClientConfig::with_root_certificates(Arc::new(roots)).unwrap();
        let mut endpoint = $library::EndpointConfig::default();
        let receives: Option<u16> = $receives;
        if let Some(bytes) = receives {
            endpoint.max_udp_payload_size(bytes).unwrap();
        }
        let socket = UdpSocket::bind(LOCAL).unwrap();
        let runtime = Arc::new($library::TokioRuntime);
        let client = $library::Endpoint::new(endpoint, None, socket, runtime).unwrap();
        let address = server.local_addrs()[0];
        let connecting = client.connect_with(config, address, "localhost").unwrap();
        let accept = async { server.accept().await.unwrap().await.unwrap() };
        let (theirs, ours) = tokio::join!(async { connecting.await.unwrap() }, accept);
        let transfer = async || {
            let send = async {
                let mut stream = ours.open_uni().await.unwrap();
                stream.write_all(&vec![7; LEN]).await.unwrap();
                stream.finish().unwrap();
                stream.stopped().await.unwrap();
            };
            let receive = async {
                let mut stream = theirs.accept_uni().await.unwrap();
                let data = stream.read_to_end(LEN).await.unwrap();
                assert!(data.len() == LEN && data.iter().all(|byte| *byte == 7));
            };
            tokio::join!(send, receive);
            ours.paths()[0].stats().unwrap().mtu
        };
        while transfer().await < $expected {}
        assert!(transfer().await <= $expected);
    }};
}

#[test]
fn quinn_gets_no_larger_datagrams_than_it_takes() {
    run(async {
        // It takes 1,472 bytes by default.
        we_send!(quinn, None, 1452);
        we_send!(quinn, Some(4000), 4000);
        we_send!(quinn, Some(16_000), LARGEST);
    });
}

#[test]
fn noq_gets_no_larger_datagrams_than_it_takes() {
    run(async {
        we_send!(noq, None, 1452);
        we_send!(noq, Some(16_000), LARGEST);
    });
}

#[test]
fn quinn_may_send_large_datagrams_without_being_told() {
    run(async {
        let (certificate, key) = identity();
        let mut server =
            quinn::ServerConfig::with_single_cert(vec![certificate.clone()], key).unwrap();
        let mut transport = quinn::TransportConfig::default();
        let mut discovery = quinn::MtuDiscoveryConfig::default();
        discovery.upper_bound(THEIRS);
        transport.mtu_discovery_config(Some(discovery));
        server.transport_config(Arc::new(transport));
        let server = quinn::Endpoint::server(server, LOCAL).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate).unwrap();
        let client = mpquic::Endpoint::client(&[LOCAL]).unwrap();
        client.set_default_client_config(
            mpquic::ClientConfig::with_root_certificates(roots).unwrap(),
        );
        let address = server.local_addr().unwrap();
        let connecting = client.connect(address, "localhost").unwrap();
        let accept = async { server.accept().await.unwrap().await.unwrap() };
        let (ours, theirs) = tokio::join!(async { connecting.await.unwrap() }, accept);
        let send = async {
            let mut stream = theirs.open_uni().await.unwrap();
            stream.write_all(&vec![7; LEN]).await.unwrap();
            stream.finish().unwrap();
            stream.stopped().await.unwrap();
        };
        let receive = async {
            let mut stream = ours.accept_uni().await.unwrap();
            let data = stream.read_to_end(LEN).await.unwrap();
            assert!(data.len() == LEN && data.iter().all(|byte| *byte == 7));
        };
        tokio::join!(send, receive);
        assert_eq!(theirs.stats().path.current_mtu, THEIRS);
        assert_eq!(theirs.stats().path.black_holes_detected, 0);
    });
}
