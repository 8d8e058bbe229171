//! Runs the Rust blocks of the pages: written by the runner from this file and a module per block (`BLOCKS` lists them).
//!
//! `blocks serve` answers at the address that the pages name. `blocks PAGE:LINE` runs a block: its `main`, or its functions with
//! the arguments that their types ask for, over a connection to that server.

#![allow(dead_code, reason = "not every choice of pages has a block of each kind")]

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use mpquic::rustls::pki_types::pem::PemObject;
use mpquic::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use mpquic::rustls::{self, RootCertStore};
use mpquic::{ClientConfig, Connection, Endpoint, FullMesh, ServerConfig, VarInt};

include!("blocks.rs");

type Error = Box<dyn std::error::Error + Send + Sync>;
type Running = Pin<Box<dyn Future<Output = Result<(), String>>>>;

/// What a block waits for, and with that, how it ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waits {
    /// For nothing: it ends by itself.
    Nothing,
    /// For a client of the endpoint that it was given: until that endpoint is closed.
    Clients,
    /// For clients at a port of its own: for ever.
    ClientsOfPort,
    /// For events of the connection that it was given: until that is closed.
    Events,
}

/// How long a block may take that ends by itself.
const LIMIT: Duration = Duration::from_secs(30);
/// The server of the pages.
const SERVER: &str = "203.0.113.5:4433";
const NAME: &str = "example.com";

/// What a function of a block may ask for.
struct Fixture {
    connection: Connection,
    endpoint: Endpoint,
    local: SocketAddr,
}

trait Make {
    fn make(fixture: &Fixture) -> Self;
}

macro_rules! make {
    ($($of:ty: |$fixture:ident| $value:expr;)*) => {
        $(impl Make for $of {
            fn make($fixture: &Fixture) -> Self {
                $value
            }
        })*
    };
}

fn leaked<T: Make>(fixture: &Fixture) -> &'static mut T {
    Box::leak(Box::new(T::make(fixture)))
}

make! {
    Connection: |fixture| fixture.connection.clone();
    &Connection: |fixture| leaked(fixture);
    Endpoint: |fixture| fixture.endpoint.clone();
    &Endpoint: |fixture| leaked(fixture);
    ClientConfig: |_fixture| client_config();
    &mut ClientConfig: |fixture| leaked(fixture);
    ServerConfig: |_fixture| server_config();
    &mut ServerConfig: |fixture| leaked(fixture);
    rustls::ServerConfig: |_fixture| server_tls();
    rustls::ClientConfig: |_fixture| client_tls();
    Vec<CertificateDer<'static>>: |_fixture| vec![certificate()];
    PrivateKeyDer<'static>: |_fixture| key();
    mpquic::Bytes: |_fixture| mpquic::Bytes::from_static(b"frame");
    IpAddr: |fixture| fixture.local.ip();
    mpquic::sched::memory::Store: |_fixture| mpquic::sched::memory::Store::new();
    &mpquic::sched::memory::Store: |fixture| leaked(fixture);
    [u8; 32]: |_fixture| [7; 32];
    u8: |_fixture| 1;
    &[u64]: |_fixture| &[1_000_000, 5_000_000];
}

/// What a block answers: an error fails it.
trait Ended {
    fn ended(self) -> Result<(), String>;
}

impl<T: Ended, E: std::fmt::Display> Ended for Result<T, E> {
    fn ended(self) -> Result<(), String> {
        self.map_err(|error| error.to_string())?.ended()
    }
}

macro_rules! ended {
    ($($of:ty),*) => {
        $(impl Ended for $of {
            fn ended(self) -> Result<(), String> {
                Ok(())
            }
        })*
    };
}

ended!((), Connection, Endpoint, ClientConfig, ServerConfig, Vec<u8>, u64, mpquic::TransportConfig, mpquic::EndpointConfig);

fn certificate() -> CertificateDer<'static> {
    CertificateDer::from_pem_file("authority.pem").expect("the runner makes it")
}

fn key() -> PrivateKeyDer<'static> {
    PrivateKeyDer::from_pem_file("authority.key").expect("the runner makes it")
}

fn roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add(certificate()).expect("a certificate");
    roots
}

fn client_tls() -> rustls::ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .with_root_certificates(roots())
        .with_no_client_auth()
}

fn server_tls() -> rustls::ServerConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .with_no_client_auth()
        .with_single_cert(vec![certificate()], key())
        .expect("a certificate and its key")
}

fn client_config() -> ClientConfig {
    ClientConfig::with_root_certificates(roots()).expect("roots")
}

fn server_config() -> ServerConfig {
    ServerConfig::with_single_cert(vec![certificate()], key()).expect("a certificate and its key")
}

/// Answers each stream with what came on it, and opens one of its own.
async fn serve(endpoint: Endpoint) {
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            let connection = incoming.await?;
            let mut own = connection.open_uni().await?;
            own.write_all(b"hello").await?;
            own.finish()?;
            loop {
                let (mut send, mut recv) = connection.accept_bi().await?;
                send.write_all(&recv.read_to_end(1 << 20).await?).await?;
                send.finish()?;
            }
            #[expect(unreachable_code, reason = "says what the errors are")]
            Ok::<(), Error>(())
        });
    }
}

/// A client of a block that serves.
async fn ask(server: SocketAddr) -> Result<(), Error> {
    let endpoint = Endpoint::client(&["127.0.0.1:0".parse()?])?;
    let connection = endpoint.connect_with(client_config(), server, NAME)?.await?;
    let (mut send, mut recv) = connection.open_bi().await?;
    send.write_all(b"GET /").await?;
    send.finish()?;
    if recv.read_to_end(1 << 20).await?.is_empty() {
        return Err("an empty answer".into());
    }
    connection.close(VarInt::from_u32(0), b"done");
    endpoint.wait_idle().await;
    Ok(())
}

async fn fixture(machines: bool) -> Result<Fixture, Error> {
    let server = if machines {
        SERVER.parse()?
    } else {
        let endpoint = Endpoint::server(server_config(), &["127.0.0.1:0".parse()?])?;
        let address = endpoint.local_addrs()[0];
        tokio::spawn(serve(endpoint));
        address
    };
    let links: &[&str] = if machines { &["192.168.1.23:0", "10.64.3.9:0"] } else { &["127.0.0.1:0", "127.0.0.2:0"] };
    let mut builder = Endpoint::builder().server(server_config()).default_client(client_config());
    for link in links {
        builder = builder.bind(link.parse()?);
    }
    let endpoint = builder.path_manager(FullMesh::new()).build()?;
    let connection = endpoint.connect(server, NAME)?.await?;
    let mut events = connection.path_events();
    while connection.paths().len() < 2 {
        tokio::time::timeout(LIMIT, events.recv()).await?;
    }
    let local = endpoint.local_addrs()[0];
    Ok(Fixture { connection, endpoint, local })
}

/// Gives a block what it waits for.
async fn meet(waits: Waits, fixture: &Fixture) -> Result<(), Error> {
    match waits {
        Waits::Nothing => std::future::pending().await,
        Waits::Clients => {
            ask(fixture.local).await?;
            fixture.endpoint.close(VarInt::from_u32(0), b"done");
        }
        Waits::ClientsOfPort => {
            // It may not be listening yet: a client asks again by itself.
            ask("127.0.0.1:4433".parse()?).await?;
        }
        Waits::Events => {
            tokio::time::sleep(Duration::from_millis(300)).await;
            fixture.connection.close(VarInt::from_u32(0), b"done");
        }
    }
    Ok(())
}

async fn run(waits: Waits, block: fn(&'static Fixture) -> Running, machines: bool) -> Result<(), String> {
    let fixture: &'static Fixture = Box::leak(Box::new(fixture(machines).await.map_err(|error| error.to_string())?));
    let mut running = block(fixture);
    tokio::select! {
        ended = &mut running => return ended,
        met = meet(waits, fixture) => met.map_err(|error| format!("what it waits for: {error}"))?,
        () = tokio::time::sleep(LIMIT) => return Err(format!("has not ended after {} s", LIMIT.as_secs())),
    }
    if waits == Waits::ClientsOfPort {
        return Ok(());
    }
    let ended = tokio::time::timeout(LIMIT, running).await;
    ended.map_err(|_| "goes on after what it waited for has ended".to_owned())?
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let wanted = arguments.first().map_or("", String::as_str);
    if wanted == "serve" {
        runtime().block_on(async {
            let listen = ["0.0.0.0:4433".parse().expect("an address")];
            let endpoint = Endpoint::server(server_config(), &listen).expect("a free port");
            println!("ready");
            serve(endpoint).await;
        });
        return ExitCode::SUCCESS;
    }
    let Some((_, block)) = BLOCKS.iter().find(|(name, _)| *name == wanted) else {
        eprintln!("there is no block {wanted}");
        return ExitCode::FAILURE;
    };
    let ended = match *block {
        Block::Main(main) => main(),
        Block::Functions(waits, block) => {
            let machines = arguments.iter().any(|argument| argument == "--machines");
            runtime().block_on(run(waits, block, machines))
        }
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{wanted}: {error}");
            ExitCode::FAILURE
        }
    }
}

enum Block {
    Main(fn() -> Result<(), String>),
    Functions(Waits, fn(&'static Fixture) -> Running),
}
