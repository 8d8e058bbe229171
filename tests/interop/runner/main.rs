//! The cases of the QUIC interop runner, and more, against other stacks in both roles: quinn, noq and, if
//! `MPQUIC_INTEROP_PEERS` names them, other programs (`tests/interop/peers/README.md`). The network between
//! the two is emulated in real time. `tests/interop/matrix` runs all that it finds, and writes the page of it.
//!
//! Not here: the negotiation of version 2 within a handshake, since rustls binds a session to its version; `v2` begins with version 2 instead. What a peer's library lacks is
//! told as `not offered`, with the reason.

mod case;
mod child;
mod evidence;
mod grease;
mod hq;
mod http3;
mod multipath;
mod nat;
mod picoquic;
#[path = "../stacks/mod.rs"]
#[allow(dead_code, reason = "the other exercises use more of it")]
mod stacks;
mod verdict;
mod wire;

use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use case::Case;
use child::{Language, Program};
use libtest_mimic::{Arguments, Trial};
use mpquic_sim::Relay;
use mpquic_test_support::runtime::run_within;
use nat::Nat;
use stacks::{Answer, End, Identity, Mpquic, Noq, Peer, Quinn, Setup, Stack};
use verdict::{Left, Verdict, test};
use wire::Wire;

/// How many tests run at once. They wait for emulated links, timers and lost handshakes, and hardly need the processor: one by
/// one on each of two cores they take minutes.
const AT_ONCE: usize = 8;

/// Puts another client in the place of ours, quinn's or noq's: whether a cell that fails is ours.
const CLIENT: &str = "MPQUIC_INTEROP_CLIENT";

/// The harness is not the compiler's, since that runs as many tests at once as there are cores.
fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    let asked = std::env::var("RUST_TEST_THREADS").ok();
    let asked = asked.and_then(|threads| threads.parse().ok());
    let threads = arguments.test_threads.or(asked).unwrap_or(AT_ONCE);
    arguments.test_threads = Some(threads);
    let mut tests = cases();
    tests.extend(grease::tests());
    tests.extend(multipath::tests());
    tests.extend(http3::tests());
    let ended = libtest_mimic::run(&arguments, tests);
    if !arguments.list {
        verdict::write();
    }
    ended.exit_code()
}

/// A test for each case and pair of stacks.
fn cases() -> Vec<Trial> {
    Case::ALL.into_iter().flat_map(pairs).collect()
}

/// A test for each pair of stacks.
fn pairs(case: Case) -> [Trial; 24] {
    use Language::{
        Aiopquic, Aioquic, Msquic, Ngtcp2, QuicGo, Quiche, S2nQuic, Tquic, XNet, Xquic,
    };
    let of = |pair: &str| format!("{pair}::{}", case.name());
    [
        test(of("quinn_client"), move || rust_client::<Quinn>(case)),
        test(of("quinn_server"), move || rust_server::<Quinn>(case)),
        test(of("noq_client"), move || rust_client::<Noq>(case)),
        test(of("noq_server"), move || rust_server::<Noq>(case)),
        test(of("aioquic_client"), move || child_client(Aioquic, case)),
        test(of("aioquic_server"), move || child_server(Aioquic, case)),
        test(of("aiopquic_client"), move || child_client(Aiopquic, case)),
        test(of("aiopquic_server"), move || child_server(Aiopquic, case)),
        test(of("quic_go_client"), move || child_client(QuicGo, case)),
        test(of("quic_go_server"), move || child_server(QuicGo, case)),
        test(of("x_net_client"), move || child_client(XNet, case)),
        test(of("x_net_server"), move || child_server(XNet, case)),
        test(of("s2n_quic_client"), move || child_client(S2nQuic, case)),
        test(of("s2n_quic_server"), move || child_server(S2nQuic, case)),
        test(of("quiche_client"), move || child_client(Quiche, case)),
        test(of("quiche_server"), move || child_server(Quiche, case)),
        test(of("tquic_client"), move || child_client(Tquic, case)),
        test(of("tquic_server"), move || child_server(Tquic, case)),
        test(of("ngtcp2_client"), move || child_client(Ngtcp2, case)),
        test(of("ngtcp2_server"), move || child_server(Ngtcp2, case)),
        test(of("xquic_client"), move || child_client(Xquic, case)),
        test(of("xquic_server"), move || child_server(Xquic, case)),
        test(of("msquic_client"), move || child_client(Msquic, case)),
        test(of("msquic_server"), move || child_server(Msquic, case)),
    ]
}

/// A client of another stack in Rust.
fn rust_client<C: Stack>(case: Case) -> Verdict {
    match case {
        Case::V2 => not_offered("the library speaks version 1 only"),
        Case::PreferredAddress => not_offered("its clients stay at the address of the handshake"),
        _ => rust::<C, Mpquic>(case),
    }
}

/// A server of another stack in Rust.
fn rust_server<S: Stack>(case: Case) -> Verdict {
    match case {
        Case::V2 => not_offered("the library speaks version 1 only"),
        _ => rust::<Mpquic, S>(case),
    }
}

fn not_offered(why: &str) -> Verdict {
    Err(Left::NotOffered(why.into()))
}

/// Both stacks are Rust: in this process.
fn rust<C: Stack, S: Stack>(case: Case) -> Verdict {
    run_within(case.time_limit(), async move {
        let wire = case.is_watched().then(Wire::bind);
        let (mut setup, _) = setup(case, wire.as_ref());
        let servers: Vec<_> = (0..case.servers())
            .map(|_| serve::<S>(case, &setup))
            .collect();
        let network = Network::new(case, &servers, wire, Moves::AtOnce);
        if case == Case::VersionNegotiation {
            refused_version::<C>(&mut setup, network.address()).await;
        }
        download::<C>(case, &setup, network.address()).await;
        network.check(case, false);
    });
    Ok(())
}

/// Our client, and a server of another language; or quinn's client, or noq's, if [`CLIENT`] asks for it.
fn child_server(language: Language, case: Case) -> Verdict {
    match std::env::var(CLIENT).as_deref() {
        Ok("quinn") => child_server_of::<Quinn>(language, case),
        Ok("noq") => child_server_of::<Noq>(language, case),
        _ => child_server_of::<Mpquic>(language, case),
    }
}

fn child_server_of<C: Stack>(language: Language, case: Case) -> Verdict {
    run_within(case.time_limit(), async move {
        let wire = case.is_watched().then(Wire::bind);
        let (mut setup, pem) = setup(case, wire.as_ref());
        let program = Program::find(language)?;
        let servers = (0..case.servers()).map(|_| program.serve(case, &pem));
        let servers = servers.collect::<Result<Vec<_>, _>>()?;
        let addresses: Vec<_> = servers.iter().map(|server| server.address).collect();
        let network = Network::new(case, &addresses, wire, Moves::AtOnce);
        if case == Case::VersionNegotiation {
            refused_version::<C>(&mut setup, network.address()).await;
        }
        download::<C>(case, &setup, network.address()).await;
        network.check(case, language.oversteps());
        Ok(())
    })
}

/// A client of another language, and our server.
fn child_client(language: Language, case: Case) -> Verdict {
    run_within(case.time_limit(), async move {
        let wire = case.is_watched().then(Wire::bind);
        let (setup, pem) = setup(case, wire.as_ref());
        let program = Program::find(language)?;
        let servers: Vec<_> = (0..case.servers())
            .map(|_| serve::<Mpquic>(case, &setup))
            .collect();
        let network = Network::new(case, &servers, wire, Moves::WhenProven);
        // Those that go on with what an earlier connection brought make both in one run.
        let runs = match case {
            Case::CloseByClient => 1,
            _ if case.keeps_tickets() => 1,
            _ => case.connections(),
        };
        for _ in 0..runs {
            let (program, pem, remote) = (program.clone(), pem.clone(), network.address());
            let client = move || program.download(case, &pem, remote);
            let said = tokio::task::spawn_blocking(client).await.unwrap()?;
            said.check(case);
        }
        network.check(case, false);
        Ok(())
    })
}

/// A client that begins with a version that the server does not speak is told so, and then begins with another one.
async fn refused_version<C: Stack>(setup: &mut Setup, remote: SocketAddr) {
    setup.our_version = mpquic::Version::V2;
    // A draft version that other stacks in Rust still know.
    setup.version = Some(0xff00_001d);
    let client = C::client_from(setup, stacks::LOOPBACK);
    let refused = C::connect(&client, remote).await;
    assert_eq!(refused.err(), Some(End::Version));
    setup.our_version = mpquic::Version::V1;
    setup.version = None;
}

/// A certificate that is its own root, and the settings of both stacks.
fn setup(case: Case, wire: Option<&Wire>) -> (Setup, child::Pem) {
    let make = || rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let made = make();
    let root = made.cert.der().clone();
    let spare: Vec<_> = (0..case.spare_certificates())
        .map(|_| make().cert)
        .collect();
    let chain = std::iter::once(&made.cert).chain(&spare);
    let names = case == Case::PreferredAddress;
    let setup = Setup {
        identity: Identity {
            chain: chain.clone().map(|one| one.der().clone()).collect(),
            key: rustls::pki_types::PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into()),
            root,
        },
        client_alpn: hq::ALPN.to_vec(),
        server_alpn: hq::ALPN.to_vec(),
        suite: case.suite(),
        early_data: case.asks_early(),
        idle_timeout: case.idle_timeout(),
        our_version: match case {
            Case::V2 => mpquic::Version::V2,
            _ => mpquic::Version::V1,
        },
        our_server_knows_v1_only: case == Case::VersionNegotiation,
        cid_len: case.id_lens().map_or(8, |(theirs, _)| theirs),
        our_cid_len: case.id_lens().map(|(_, ours)| ours),
        preferred_address: wire.filter(|_| names).map(Wire::preferred),
        ..Setup::default()
    };
    let chain: String = chain.map(|one| one.pem()).collect();
    let key = made.signing_key.serialize_pem();
    let pem = child::Pem::write(&chain, &made.cert.pem(), &key);
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
    let heard = Arc::new(hq::Heard::default());
    tokio::spawn(async move {
        loop {
            // A handshake may fail: the network of some cases garbles it.
            if let Ok(peer) = S::answer(&endpoint, answer).await {
                tokio::spawn(hq::serve(peer, Arc::clone(&heard)));
            }
        }
    });
    address
}

async fn download<C: Stack>(case: Case, setup: &Setup, remote: SocketAddr) {
    let client = || C::client_from(setup, SocketAddr::new(case.host(), 0));
    let mut endpoint = client();
    for number in 0..case.connections() {
        if case.asks_early() && number > 0 {
            C::move_client(&endpoint);
            early_download::<C>(case, &endpoint, remote).await;
            continue;
        }
        let peer = C::connect(&endpoint, remote).await.unwrap();
        let (moving, updating) = (endpoint.clone(), peer.clone());
        let mid = move || match case {
            Case::ConnectionMigration => C::move_client(&moving),
            _ => updating.force_key_update(),
        };
        hq::download(&peer, case, number, mid).await;
        if !case.keeps_tickets() {
            // Sessions belong to an endpoint: the next connection begins without one.
            endpoint = client();
        }
    }
    let checks = setup.certificate_checks.load(Ordering::Relaxed);
    assert_eq!(
        checks,
        if case.resumes() {
            1
        } else {
            case.connections()
        }
    );
}

/// Asks before the handshake is complete.
async fn early_download<C: Stack>(case: Case, endpoint: &C::Endpoint, remote: SocketAddr) {
    let size = case.sizes()[0];
    let early = C::ask_early(endpoint, remote, hq::request(size)).await;
    let (peer, accepted, answer) = early.expect("no ticket");
    if case == Case::ZeroRtt {
        assert!(accepted, "the server rejected the early data");
        assert!(answer == Some(hq::body(size)));
        peer.close(0, b"");
    } else {
        assert!(!accepted && answer.is_none());
        hq::download(&peer, case, 1, || {}).await;
    }
}

/// How clients migrate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moves {
    /// Those of this process, by a new socket in the place of the one that they had. Whether they still read that one makes no
    /// difference here: what is on its way to an address that a host has left is lost.
    AtOnce,
    /// Those of other languages, as soon as the new address is proven.
    WhenProven,
}

/// What lies between the client and the server.
enum Network {
    Nothing(SocketAddr),
    Links(Arc<Relay>),
    Nat(Nat),
    Wire(Wire),
}

impl Network {
    fn new(case: Case, servers: &[SocketAddr], wire: Option<Wire>, client: Moves) -> Self {
        if let Some(wire) = wire {
            if client == Moves::AtOnce && case == Case::ConnectionMigration {
                wire.client_leaves();
            }
            wire.start_with(case, servers);
            return Self::Wire(wire);
        }
        let server = servers[0];
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
            Self::Wire(wire) => wire.address(),
        }
    }

    /// That the network did what the case is about, and that both sides did what it asks of them. `oversteps`: the
    /// server's last datagram may go beyond what an unproven address allows.
    fn check(&self, case: Case, oversteps: bool) {
        match self {
            Self::Nothing(_) => {}
            Self::Links(relay) => {
                let stats = relay.stats();
                assert!(stats.down.delivered > 0, "{stats:?}");
                assert!(case.links_did_it(&stats), "{case:?}: {stats:?}");
            }
            Self::Nat(nat) => assert_eq!(nat.rebindings(), nat.hosts, "not all rebindings"),
            Self::Wire(wire) => evidence::check(case, &wire.records(), oversteps),
        }
    }
}

/// Loopback addresses for NATs that change theirs.
fn loopback(last: u8) -> IpAddr {
    std::net::Ipv4Addr::new(127, 0, 0, last).into()
}
