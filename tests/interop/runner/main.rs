//! The cases of the QUIC interop runner, as far as this crate has their features, against other
//! stacks in both roles: quinn and, if `MPQUIC_INTEROP_PEERS` names them, aioquic and quic-go
//! (`tests/interop/peers/README.md`). The network between the two is emulated in real time.

mod case;
mod child;
mod hq;
mod nat;
#[path = "../stacks/mod.rs"]
#[allow(dead_code, reason = "the other exercises use more of it")]
mod stacks;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use case::Case;
use child::{Language, Program};
use mpquic_sim::Relay;
use nat::Nat;
use stacks::{Answer, Identity, Mpquic, Quinn, Setup, Stack, run};

/// A test for each case and each pair of stacks.
macro_rules! cases {
    ($($name:ident: $case:ident,)*) => {
        mod quinn_client {
            use super::*;
            $(#[test] fn $name() { rust::<Quinn, Mpquic>(Case::$case); })*
        }
        mod quinn_server {
            use super::*;
            $(#[test] fn $name() { rust::<Mpquic, Quinn>(Case::$case); })*
        }
        mod aioquic_client {
            use super::*;
            $(#[test] fn $name() { child_client(Language::Aioquic, Case::$case); })*
        }
        mod aioquic_server {
            use super::*;
            $(#[test] fn $name() { child_server(Language::Aioquic, Case::$case); })*
        }
        mod quic_go_client {
            use super::*;
            $(#[test] fn $name() { child_client(Language::QuicGo, Case::$case); })*
        }
        mod quic_go_server {
            use super::*;
            $(#[test] fn $name() { child_server(Language::QuicGo, Case::$case); })*
        }
        /// No case is left out above.
        #[test]
        fn all_cases_are_run() {
            assert_eq!([$(Case::$case),*], Case::ALL);
        }
    };
}

cases! {
    handshake: Handshake,
    transfer: Transfer,
    longrtt: LongRtt,
    chacha20: ChaCha20,
    multiplexing: Multiplexing,
    retry: Retry,
    resumption: Resumption,
    keyupdate: KeyUpdate,
    blackhole: Blackhole,
    handshakeloss: HandshakeLoss,
    transferloss: TransferLoss,
    handshakecorruption: HandshakeCorruption,
    transfercorruption: TransferCorruption,
    ipv6: Ipv6,
    rebind_port: RebindPort,
    rebind_addr: RebindAddr,
}

/// Both stacks are Rust: in this process.
fn rust<C: Stack, S: Stack>(case: Case) {
    run(async move {
        let (setup, _) = setup(case);
        let server = serve::<S>(case, &setup);
        let network = Network::new(case, server);
        download::<C>(case, &setup, network.address()).await;
        network.check(case);
    });
}

/// Our client, and a server of another language.
fn child_server(language: Language, case: Case) {
    run(async move {
        let (setup, pem) = setup(case);
        let Some(program) = Program::find(language) else {
            return;
        };
        let Some(server) = program.serve(case, &pem) else {
            return;
        };
        let network = Network::new(case, server.address);
        download::<Mpquic>(case, &setup, network.address()).await;
        network.check(case);
    });
}

/// A client of another language, and our server.
fn child_client(language: Language, case: Case) {
    run(async move {
        let (setup, pem) = setup(case);
        let Some(program) = Program::find(language) else {
            return;
        };
        let server = serve::<Mpquic>(case, &setup);
        let network = Network::new(case, server);
        for _ in 0..case.connections() {
            let (program, pem, remote) = (program.clone(), pem.clone(), network.address());
            let client = move || program.download(case, &pem, remote);
            let Some(said) = tokio::task::spawn_blocking(client).await.unwrap() else {
                return;
            };
            said.check(case);
        }
        network.check(case);
    });
}

/// A certificate that is its own root, and the settings of both stacks.
fn setup(case: Case) -> (Setup, child::Pem) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let root = made.cert.der().clone();
    let setup = Setup {
        identity: Identity {
            chain: vec![root.clone()],
            key: rustls::pki_types::PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into()),
            root,
        },
        client_alpn: hq::ALPN.to_vec(),
        server_alpn: hq::ALPN.to_vec(),
        suite: case.suite(),
        ..Setup::default()
    };
    let pem = child::Pem::write(&made.cert.pem(), &made.signing_key.serialize_pem());
    (setup, pem)
}

/// Starts a server that answers until the test ends.
fn serve<S: Stack>(case: Case, setup: &Setup) -> SocketAddr {
    let socket = std::net::UdpSocket::bind((case.host(), 0)).unwrap();
    let endpoint = S::server(setup, socket);
    let address = S::local_address(&endpoint);
    let answer = if case == Case::Retry {
        Answer::Retry
    } else {
        Answer::Accept
    };
    tokio::spawn(async move {
        loop {
            // A handshake may fail: the network of some cases garbles it.
            if let Ok(peer) = S::answer(&endpoint, answer).await {
                tokio::spawn(hq::serve(peer));
            }
        }
    });
    address
}

async fn download<C: Stack>(case: Case, setup: &Setup, remote: SocketAddr) {
    let client = || C::client_from(setup, SocketAddr::new(case.host(), 0));
    let mut endpoint = client();
    for _ in 0..case.connections() {
        let peer = C::connect(&endpoint, remote).await.unwrap();
        hq::download(&peer, case).await;
        if case != Case::Resumption {
            // Sessions belong to an endpoint: the next connection begins without one.
            endpoint = client();
        }
    }
    let checks = setup.certificate_checks.load(Ordering::Relaxed);
    let resumed = case == Case::Resumption;
    assert_eq!(checks, if resumed { 1 } else { case.connections() });
}

/// What lies between the client and the server.
enum Network {
    Nothing(SocketAddr),
    Links(Arc<Relay>),
    Nat(Nat),
}

impl Network {
    fn new(case: Case, server: SocketAddr) -> Self {
        if let Some((up, down)) = case.links() {
            let listen = SocketAddr::new(case.host(), 0);
            let relay = Relay::spawn(listen, server, up, down, case as u64 + 1).unwrap();
            return Self::Links(Arc::new(relay));
        }
        match case.rebinding() {
            Some(hosts) => Self::Nat(Nat::new(server, hosts)),
            None => Self::Nothing(server),
        }
    }

    fn address(&self) -> SocketAddr {
        match self {
            Self::Nothing(address) => *address,
            Self::Links(relay) => relay.addr(),
            Self::Nat(nat) => nat.address,
        }
    }

    /// That the network did what the case is about.
    fn check(&self, case: Case) {
        match self {
            Self::Nothing(_) => {}
            Self::Links(relay) => {
                let stats = relay.stats();
                assert!(stats.down.delivered > 0, "{stats:?}");
                assert!(case.links_did_it(&stats), "{case:?}: {stats:?}");
            }
            Self::Nat(nat) => assert_eq!(nat.rebindings(), nat.hosts, "not all rebindings"),
        }
    }
}

/// Loopback addresses for NATs that change theirs.
fn loopback(last: u8) -> IpAddr {
    std::net::Ipv4Addr::new(127, 0, 0, last).into()
}
