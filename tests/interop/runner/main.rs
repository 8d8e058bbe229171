//! The cases of the QUIC interop runner against other stacks in both roles: quinn and, if `MPQUIC_INTEROP_PEERS`
//! names them, aioquic and quic-go (`tests/interop/peers/README.md`). The network between the two is emulated in
//! real time.
//!
//! Not here: `http3`, since there is no HTTP/3 in this project, and the negotiation of version 2 within a handshake,
//! since rustls binds a session to its version; `v2` begins with version 2 instead. What a peer's library lacks is
//! told as `skipped`, with the reason.

mod case;
mod child;
mod evidence;
mod grease;
mod hq;
mod multipath;
mod nat;
mod picoquic;
#[path = "../stacks/mod.rs"]
#[allow(dead_code, reason = "the other exercises use more of it")]
mod stacks;
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
use stacks::{Answer, Identity, Mpquic, Peer, Quinn, Setup, Stack};
use wire::Wire;

/// How many tests run at once. They wait for emulated links, timers and lost handshakes, and hardly need the processor: one by
/// one on each of two cores they take minutes.
const AT_ONCE: usize = 8;

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
    libtest_mimic::run(&arguments, tests).exit_code()
}

fn test(name: impl Into<String>, run: impl FnOnce() + Send + 'static) -> Trial {
    Trial::test(name, move || {
        run();
        Ok(())
    })
}

/// The tests of each case, and that no case is left out.
macro_rules! cases {
    ($($name:ident: $case:ident,)*) => {
        fn cases() -> Vec<Trial> {
            let all = || assert_eq!([$(Case::$case),*], Case::ALL);
            let mut tests = vec![test("all_cases_are_run", all)];
            $(tests.extend(pairs(stringify!($name), Case::$case));)*
            tests
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
    zerortt: ZeroRtt,
    ecn: Ecn,
    amplificationlimit: AmplificationLimit,
    v2: V2,
    connectionmigration: ConnectionMigration,
    preferredaddress: PreferredAddress,
}

/// A test for each pair of stacks.
fn pairs(name: &str, case: Case) -> [Trial; 6] {
    use Language::{Aioquic, QuicGo};
    let of = |pair: &str| format!("{pair}::{name}");
    [
        test(of("quinn_client"), move || quinn_client_of_ours(case)),
        test(of("quinn_server"), move || quinn_server_of_ours(case)),
        test(of("aioquic_client"), move || child_client(Aioquic, case)),
        test(of("aioquic_server"), move || child_server(Aioquic, case)),
        test(of("quic_go_client"), move || child_client(QuicGo, case)),
        test(of("quic_go_server"), move || child_server(QuicGo, case)),
    ]
}

/// Why quinn cannot do a case, whatever its role.
fn quinn_lacks(case: Case) -> Option<&'static str> {
    (case == Case::V2).then_some("quinn speaks version 1 only")
}

fn quinn_client_of_ours(case: Case) {
    let lacks = || {
        let stays = "quinn's clients stay at the address of the handshake";
        (case == Case::PreferredAddress).then_some(stays)
    };
    match quinn_lacks(case).or_else(lacks) {
        Some(why) => eprintln!("skipped: {why}"),
        None => rust::<Quinn, Mpquic>(case),
    }
}

fn quinn_server_of_ours(case: Case) {
    match quinn_lacks(case) {
        Some(why) => eprintln!("skipped: {why}"),
        None => rust::<Mpquic, Quinn>(case),
    }
}

/// Both stacks are Rust: in this process.
fn rust<C: Stack, S: Stack>(case: Case) {
    run_within(case.time_limit(), async move {
        let wire = case.is_watched().then(Wire::bind);
        let (setup, _) = setup(case, wire.as_ref());
        let server = serve::<S>(case, &setup);
        let network = Network::new(case, server, wire);
        download::<C>(case, &setup, network.address()).await;
        network.check(case, false);
    });
}

/// Our client, and a server of another language.
fn child_server(language: Language, case: Case) {
    run_within(case.time_limit(), async move {
        let wire = case.is_watched().then(Wire::bind);
        let (setup, pem) = setup(case, wire.as_ref());
        let Some(program) = Program::find(language) else {
            return;
        };
        let Some(server) = program.serve(case, &pem) else {
            return;
        };
        let network = Network::new(case, server.address, wire);
        download::<Mpquic>(case, &setup, network.address()).await;
        network.check(case, language.oversteps());
    });
}

/// A client of another language, and our server.
fn child_client(language: Language, case: Case) {
    run_within(case.time_limit(), async move {
        let wire = case.is_watched().then(Wire::bind);
        let (setup, pem) = setup(case, wire.as_ref());
        let Some(program) = Program::find(language) else {
            return;
        };
        let server = serve::<Mpquic>(case, &setup);
        let network = Network::new(case, server, wire);
        let runs = if case.resumes() {
            1
        } else {
            case.connections()
        };
        for _ in 0..runs {
            let (program, pem, remote) = (program.clone(), pem.clone(), network.address());
            let client = move || program.download(case, &pem, remote);
            let Some(said) = tokio::task::spawn_blocking(client).await.unwrap() else {
                return;
            };
            said.check(case);
        }
        network.check(case, false);
    });
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
        early_data: case == Case::ZeroRtt,
        idle_timeout: case.idle_timeout(),
        our_version: match case {
            Case::V2 => mpquic::Version::V2,
            _ => mpquic::Version::V1,
        },
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
    for number in 0..case.connections() {
        if case == Case::ZeroRtt && number > 0 {
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
        hq::download(&peer, case, mid).await;
        if !case.resumes() {
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
    assert!(accepted, "the server rejected the early data");
    assert!(answer == Some(hq::body(size)));
    peer.close(0, b"");
}

/// What lies between the client and the server.
enum Network {
    Nothing(SocketAddr),
    Links(Arc<Relay>),
    Nat(Nat),
    Wire(Wire),
}

impl Network {
    fn new(case: Case, server: SocketAddr, wire: Option<Wire>) -> Self {
        if let Some(wire) = wire {
            wire.start(case, server);
            return Self::Wire(wire);
        }
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
