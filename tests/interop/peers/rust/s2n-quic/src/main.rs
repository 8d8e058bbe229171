//! A peer of the interop cases by s2n-quic with rustls: see `README.md` two folders above.

use std::collections::BTreeSet;
use std::error::Error;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use peer_common::{
    ALPN, CLOSE_BY_CLIENT, Call, DATAGRAM_LEN, DATAGRAMS, Download, RESET, RESET_LEN, Request,
    STOP, STOPPED_LEN, body, comes_back, exit_with_stdin, id_len, patience,
};
use s2n_quic::application::Error as Code;
use s2n_quic::client::Connect;
use s2n_quic::connection::{Error as End, Handle};
use s2n_quic::provider::datagram::default::{Endpoint as Datagrams, Receiver, Sender};
use s2n_quic::provider::endpoint_limits::{ConnectionAttempt, Limiter, Outcome};
use s2n_quic::provider::tls::rustls;
use s2n_quic::provider::{connection_id, io, limits};
use s2n_quic::stream::{BidirectionalStream, Error as StreamEnd, ReceiveStream};
use s2n_quic::{Client, Connection, Server};
use tokio::sync::watch;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

fn lacks(case: &str, is_client: bool) -> Option<&'static str> {
    match case {
        "v2" => Some("the library speaks version 1 only"),
        "versionnegotiation" if is_client => {
            Some("the library begins with version 1, the only one that it speaks")
        }
        "versionnegotiation" => Some(
            "its servers answer another version only in packets whose type is that of version 1's Initial; our other version is 2, whose type differs (RFC 9000 section 5.2.2: SHOULD)",
        ),
        "cid-0" => Some("the library needs connection IDs"),
        "resumption" => Some("with rustls, the library neither sends nor takes tickets"),
        "zerortt" | "zerortt-refused" => Some("the library has no 0-RTT"),
        "keyupdate" if is_client => Some("the library updates keys by itself only"),
        "connectionmigration" if is_client => Some("the library has no call for it"),
        "stop" if !is_client => Some(
            "in 1 of 200 runs its server was stopped while the stream's limit held it up, and its RESET_STREAM told a final size beyond all that it had sent (RFC 9000 section 4.5), 848 bytes beyond our limit: a connection error (section 4.1)",
        ),
        "preferredaddress" => Some("the library has no preferred addresses"),
        _ => None,
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    match peer_common::call("s2n-quic", lacks) {
        Call::Server {
            case,
            certificate,
            key,
            host,
        } => server(&case, &certificate, &key, host).await,
        Call::Client {
            case,
            authority,
            remote,
            sizes,
        } => client(&case, &authority, remote, &sizes).await,
    }
}

fn limits(case: &str) -> Result<limits::Limits> {
    let patience = Duration::from_secs(patience(case));
    Ok(limits::Limits::new()
        .with_max_idle_timeout(patience)?
        .with_max_handshake_duration(patience)?
        .with_max_open_remote_bidirectional_streams(1_000)?
        .with_max_open_local_bidirectional_streams(1_000)?)
}

fn io(case: &str, host: IpAddr) -> Result<io::tokio::Provider> {
    let io = io::tokio::Builder::default().with_receive_address(SocketAddr::new(host, 0))?;
    let io = if case == "mtu1280" {
        io.with_max_mtu(1_280)?
    } else {
        io
    };
    Ok(io.build()?)
}

fn ids(case: &str) -> Result<connection_id::default::Format> {
    let ids = connection_id::default::Format::builder();
    let ids = match id_len(case) {
        Some(len) => ids.with_len(len).map_err(|error| format!("{error:?}"))?,
        None => ids,
    };
    Ok(ids.build().map_err(|error| format!("{error:?}"))?)
}

fn datagrams() -> Result<Datagrams> {
    let datagrams = Datagrams::builder()
        .with_send_capacity(100)?
        .with_recv_capacity(100)?;
    Ok(datagrams.build()?)
}

/// Asks every client to prove its address, or none.
struct Retry(bool);

impl Limiter for Retry {
    fn on_connection_attempt(&mut self, _: &ConnectionAttempt) -> Outcome {
        if self.0 {
            Outcome::retry()
        } else {
            Outcome::allow()
        }
    }
}

/// Codes that a server was told, on any connection.
#[derive(Default)]
struct Heard {
    stopped: watch::Sender<Option<u64>>,
    closed: watch::Sender<Option<u64>>,
}

async fn heard(from: &watch::Sender<Option<u64>>) -> Option<u64> {
    let mut there = from.subscribe();
    *there.wait_for(Option::is_some).await.ok()?
}

async fn server(case: &str, certificate: &str, key: &str, host: IpAddr) -> Result<()> {
    let tls = rustls::Server::builder()
        .with_certificate(Path::new(certificate), Path::new(key))?
        .with_application_protocols([ALPN].into_iter())?
        .with_prefer_server_cipher_suite_order(false)?
        .build()?;
    let mut server = Server::builder()
        .with_tls(tls)?
        .with_io(io(case, host)?)?
        .with_limits(limits(case)?)?
        .with_connection_id(ids(case)?)?
        .with_datagram(datagrams()?)?
        .with_endpoint_limits(Retry(case == "retry"))?
        .start()?;
    println!("listening {}", server.local_addr()?.port());
    exit_with_stdin();
    let heard = Arc::new(Heard::default());
    while let Some(connection) = server.accept().await {
        tokio::spawn(serve(connection, Arc::clone(&heard)));
    }
    Ok(())
}

async fn serve(mut connection: Connection, heard: Arc<Heard>) {
    let handle = connection.handle();
    tokio::spawn(async move {
        while let Some(datagram) = receive_datagram(&handle).await {
            send_datagram(&handle, datagram);
        }
    });
    loop {
        match connection.accept_bidirectional_stream().await {
            Ok(Some(stream)) => {
                tokio::spawn(answer(stream, connection.handle(), Arc::clone(&heard)))
            }
            Ok(None) => return,
            Err(End::Application { error, .. }) => {
                heard.closed.send_replace(Some(*error));
                return;
            }
            Err(_) => return,
        };
    }
}

/// The connection may end early: tests look at the client.
async fn answer(stream: BidirectionalStream, handle: Handle, heard: Arc<Heard>) -> Option<()> {
    let (mut receive, mut send) = stream.split();
    let mut request = Vec::new();
    while let Some(data) = receive.receive().await.ok()? {
        request.extend_from_slice(&data);
    }
    let Request { verb, number } = Request::parse(&request)?;
    let whole = match verb.as_str() {
        "STOPPED" => self::heard(&heard.stopped).await?.to_string().into_bytes(),
        "CLOSED" => self::heard(&heard.closed).await?.to_string().into_bytes(),
        "CLOSE" => {
            handle.close(Code::new(number as u64).ok()?);
            return None;
        }
        _ => body(0, number),
    };
    // The library takes all of it at once: that the client stopped the stream may come out at either of them.
    let sent = match send.send(whole.into()).await {
        Ok(()) if verb == "RESET" => send.reset(code(RESET)),
        Ok(()) => send.close().await,
        Err(error) => Err(error),
    };
    if let Err(StreamEnd::StreamReset { error, .. }) = sent {
        heard.stopped.send_replace(Some(*error));
    }
    None
}

fn code(code: u64) -> Code {
    Code::new(code).expect("it fits a variable-length integer")
}

fn send_datagram(handle: &Handle, datagram: Bytes) {
    let sent = handle.datagram_mut(|sender: &mut Sender| sender.send_datagram_forced(datagram));
    // The connection may be gone.
    sent.map(drop).ok();
}

async fn receive_datagram(handle: &Handle) -> Option<Bytes> {
    std::future::poll_fn(|context| {
        let received = handle.datagram_mut(|receiver: &mut Receiver| {
            receiver
                .poll_recv_datagram(context)
                .map(|received| received.ok())
        });
        received.unwrap_or(std::task::Poll::Ready(None))
    })
    .await
}

/// The builder of the library's TLS has no choice of suites.
#[expect(
    deprecated,
    reason = "what the library would have instead lacks the setting"
)]
fn only_chacha(authority: &str) -> Result<rustls::Client> {
    use rustls::rustls::pki_types::{CertificateDer, pem::PemObject};
    use rustls::rustls::{CipherSuite, ClientConfig, RootCertStore, crypto};
    let mut provider = crypto::aws_lc_rs::default_provider();
    let wanted = [
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
        // Protects Initial packets.
        CipherSuite::TLS13_AES_128_GCM_SHA256,
    ];
    provider
        .cipher_suites
        .retain(|one| wanted.contains(&one.suite()));
    provider
        .cipher_suites
        .sort_by_key(|one| one.suite() != wanted[0]);
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority)?)?;
    let mut tls = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&rustls::rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![ALPN.to_vec()];
    Ok(rustls::Client::new(tls))
}

async fn client(case: &str, authority: &str, remote: SocketAddr, sizes: &[usize]) -> Result<()> {
    let tls = if case == "chacha20" {
        only_chacha(authority)?
    } else {
        rustls::Client::builder()
            .with_certificate(Path::new(authority))?
            .with_application_protocols([ALPN].into_iter())?
            .build()?
    };
    let host = if remote.is_ipv6() {
        Ipv6Addr::UNSPECIFIED.into()
    } else {
        IpAddr::from([0, 0, 0, 0])
    };
    let mut client = Client::builder()
        .with_tls(tls)?
        .with_io(io(case, host)?)?
        .with_limits(limits(case)?)?
        .with_connection_id(ids(case)?)?
        .with_datagram(datagrams()?)?
        .start()?;
    if comes_back(case) {
        download(&client, "", remote, &[1]).await?;
    }
    for line in download(&client, case, remote, sizes).await? {
        println!("{line}");
    }
    // The only one that the library speaks.
    println!("version 0x1");
    client.wait_idle().await?;
    Ok(())
}

/// The lines to print.
async fn download(
    client: &Client,
    case: &str,
    remote: SocketAddr,
    sizes: &[usize],
) -> Result<Vec<String>> {
    let connect = Connect::new(remote).with_server_name("localhost");
    let mut connection = client.connect(connect).await?;
    connection.keep_alive(false)?;
    let mut tasks = Vec::new();
    for &size in sizes {
        let mut handle = connection.handle();
        tasks.push(tokio::spawn(async move {
            let mut receive = ask(&mut handle, "GET", size).await?;
            let mut download = Download::default();
            while let Some(data) = receive.receive().await? {
                download.add(&data);
            }
            Ok::<_, StreamEnd>(download.line())
        }));
    }
    let mut lines = Vec::new();
    for task in tasks {
        lines.push(task.await??);
    }
    lines.extend(act(&mut connection.handle(), case).await?);
    connection.close(code(CLOSE_BY_CLIENT));
    Ok(lines)
}

async fn ask(
    handle: &mut Handle,
    verb: &str,
    number: usize,
) -> std::result::Result<ReceiveStream, StreamEnd> {
    let (receive, mut send) = handle.open_bidirectional_stream().await?.split();
    send.send(Request::line(verb, number).into()).await?;
    send.finish()?;
    Ok(receive)
}

/// What the server heard.
async fn told(handle: &mut Handle, verb: &str) -> Result<String> {
    let mut receive = ask(handle, verb, 0).await?;
    let mut all = Vec::new();
    while let Some(data) = receive.receive().await? {
        all.extend_from_slice(&data);
    }
    Ok(String::from_utf8(all)?)
}

/// Does what a case is about. The fact that came of it.
async fn act(handle: &mut Handle, case: &str) -> Result<Option<String>> {
    Ok(Some(match case {
        "datagrams" => {
            let mut back = BTreeSet::new();
            while back.len() < usize::from(DATAGRAMS) {
                for number in (0..DATAGRAMS).filter(|number| !back.contains(number)) {
                    send_datagram(handle, vec![number; DATAGRAM_LEN].into());
                }
                // Those that got lost are sent again.
                let wait = Duration::from_millis(300);
                while let Ok(received) = tokio::time::timeout(wait, receive_datagram(handle)).await
                {
                    let datagram = received.ok_or("the connection ended")?;
                    assert_eq!(datagram.len(), DATAGRAM_LEN);
                    back.insert(datagram[0]);
                    if back.len() == usize::from(DATAGRAMS) {
                        break;
                    }
                }
            }
            format!("datagrams {DATAGRAMS}")
        }
        "reset" => {
            let mut receive = ask(handle, "RESET", RESET_LEN).await?;
            loop {
                match receive.receive().await {
                    Ok(Some(_)) => {}
                    Err(StreamEnd::StreamReset { error, .. }) => break format!("reset {}", *error),
                    other => return Err(format!("not reset: {other:?}").into()),
                }
            }
        }
        "stop" => {
            let mut receive = ask(handle, "GET", STOPPED_LEN).await?;
            receive.receive().await?;
            receive.stop_sending(code(STOP))?;
            format!("stopped {}", told(handle, "STOPPED").await?)
        }
        "close-server" => {
            let mut receive = ask(handle, "CLOSE", 19).await?;
            match receive.receive().await {
                Err(StreamEnd::ConnectionError {
                    error: End::Application { error, .. },
                    ..
                }) => format!("closed {}", *error),
                other => return Err(format!("not closed: {other:?}").into()),
            }
        }
        "close-client" => format!("closed {}", told(handle, "CLOSED").await?),
        _ => return Ok(None),
    }))
}
