//! A client that is not ours, quinn with h3-quinn: requests, early data, and the figures as Prometheus asks for them.

use std::future::poll_fn;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use axum::Router;
use axum::routing::{get, post};
use bytes::{Buf as _, Bytes};
use quinn::rustls::pki_types::CertificateDer;
use quinn::rustls::pki_types::pem::PemObject as _;
use quinn::rustls::{self, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::oneshot;

type Requests = h3::client::SendRequest<h3_quinn::OpenStreams, Bytes>;
type Stream = h3::client::RequestStream<h3_quinn::BidiStream<Bytes>, Bytes>;

/// Between client and server: what the server says waits until it may pass.
struct Gate {
    address: SocketAddr,
    is_shut: Arc<AtomicBool>,
}

impl Gate {
    fn before(server: SocketAddr) -> Self {
        let bound = || UdpSocket::bind("127.0.0.1:0").unwrap();
        let (front, back) = (bound(), bound());
        back.connect(server).unwrap();
        let address = front.local_addr().unwrap();
        let is_shut = Arc::new(AtomicBool::new(false));
        let client = Arc::new(std::sync::Mutex::new(None));
        let (to, from) = (front.try_clone().unwrap(), back.try_clone().unwrap());
        let (known, shut) = (Arc::clone(&client), Arc::clone(&is_shut));
        // Both end with the process.
        std::thread::spawn(move || {
            let mut datagram = [0; 65_536];
            while let Ok((len, sender)) = front.recv_from(&mut datagram) {
                *client.lock().unwrap() = Some(sender);
                let _ = back.send(&datagram[..len]);
            }
        });
        std::thread::spawn(move || {
            let mut datagram = [0; 65_536];
            while let Ok(len) = from.recv(&mut datagram) {
                while shut.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
                let client = *known.lock().unwrap();
                let _ = client.map(|client| to.send_to(&datagram[..len], client));
            }
        });
        Self { address, is_shut }
    }
}

async fn requests(connection: quinn::Connection) -> Requests {
    let transport = h3_quinn::Connection::new(connection);
    let (mut driver, requests) = h3::client::new(transport).await.unwrap();
    tokio::spawn(async move { poll_fn(|cx| driver.poll_close(cx)).await });
    requests
}

async fn send(requests: &mut Requests, method: &str, path: &str, body: &'static str) -> Stream {
    let request = http::Request::builder().method(method);
    let request = request.uri(format!("https://localhost{path}"));
    let request = request.body(()).unwrap();
    let mut stream = requests.send_request(request).await.unwrap();
    if !body.is_empty() {
        stream.send_data(Bytes::from(body)).await.unwrap();
    }
    stream.finish().await.unwrap();
    stream
}

async fn answer(mut stream: Stream) -> (u16, String) {
    let head = stream.recv_response().await.unwrap();
    let mut body = Vec::new();
    while let Some(mut piece) = stream.recv_data().await.unwrap() {
        body.extend_from_slice(&piece.copy_to_bytes(piece.remaining()));
    }
    (head.status().as_u16(), String::from_utf8(body).unwrap())
}

#[tokio::test]
async fn early_requests_are_done_if_they_are_safe_and_all_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let cert = folder.path().join("cert.pem");
    let figures = mpquic_example_axum::figures(mpquic_example_axum::count().unwrap());
    let looking = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let look = looking.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(looking, figures).await });

    let posted = Arc::new(AtomicU32::new(0));
    let (begun, mut has_begun) = tokio::sync::mpsc::unbounded_channel();
    let hello = get(async move || {
        begun.send(()).unwrap();
        "hello"
    });
    let count = Arc::clone(&posted);
    let echo = post(async move |body: String| {
        count.fetch_add(1, Ordering::SeqCst);
        body
    });
    let router = Router::new().route("/", hello).route("/echo", echo);
    let any = "127.0.0.1:0".parse::<SocketAddr>().unwrap();
    let endpoint = mpquic_example_axum::listen(&[any], &cert).unwrap();
    let gate = Gate::before(endpoint.local_addrs()[0]);
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = mpquic_example_axum::serve(&endpoint, router, async { drop(stopped.await) });
    let asking = async {
        let mut roots = RootCertStore::empty();
        let pem = CertificateDer::from_pem_file(&cert).unwrap();
        roots.add(pem).unwrap();
        let versions = [&rustls::version::TLS13];
        let tls = rustls::ClientConfig::builder_with_protocol_versions(&versions);
        let mut tls = tls.with_root_certificates(roots).with_no_client_auth();
        tls.alpn_protocols = vec![b"h3".to_vec()];
        tls.enable_early_data = true;
        let tls = quinn::crypto::rustls::QuicClientConfig::try_from(tls).unwrap();
        let config = quinn::ClientConfig::new(Arc::new(tls));
        let mut client = quinn::Endpoint::client(any).unwrap();
        client.set_default_client_config(config);
        let connect = || client.connect(gate.address, "localhost").unwrap();

        // The first time, with a whole handshake, which brings a ticket.
        let connection = connect().await.unwrap();
        let mut first = requests(connection.clone()).await;
        let hello = send(&mut first, "GET", "/", "").await;
        assert_eq!(answer(hello).await, (200, "hello".to_owned()));
        let echo = send(&mut first, "POST", "/echo", "once").await;
        assert_eq!(answer(echo).await, (200, "once".to_owned()));
        has_begun.recv().await.unwrap();
        drop(first);
        connection.close(0_u32.into(), b"");

        // The second time, the server has heard the first packets only when it must decide.
        gate.is_shut.store(true, Ordering::SeqCst);
        let Ok((connection, accepted)) = connect().into_0rtt() else {
            panic!("there is no ticket");
        };
        let mut early = requests(connection.clone()).await;
        let unsafe_one = send(&mut early, "POST", "/echo", "twice").await;
        let safe_one = send(&mut early, "GET", "/", "").await;
        has_begun.recv().await.unwrap();
        gate.is_shut.store(false, Ordering::SeqCst);
        assert_eq!(answer(safe_one).await, (200, "hello".to_owned()));
        assert_eq!(answer(unsafe_one).await.0, 425);
        assert_eq!(posted.load(Ordering::SeqCst), 1);
        assert!(accepted.await);
        // As RFC 8470 has it, the client asks again.
        let again = send(&mut early, "POST", "/echo", "twice").await;
        assert_eq!(answer(again).await, (200, "twice".to_owned()));
        drop(early);
        connection.close(0_u32.into(), b"");
        client.wait_idle().await;

        let mut asked = tokio::net::TcpStream::connect(look).await.unwrap();
        let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        asked.write_all(request).await.unwrap();
        let mut text = String::new();
        asked.read_to_string(&mut text).await.unwrap();
        for line in [
            r#"http_requests_total{status="2xx"} 4"#,
            r#"http_requests_total{status="4xx"} 1"#,
            r#"mpquic_connections_total{side="server"} 2"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        stop.send(()).unwrap();
    };
    tokio::join!(serving, asking);
}
