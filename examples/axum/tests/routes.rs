//! The example, in process: people copy it.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};
use bytes::{Buf as _, Bytes};
use mpquic::{ClientConfig, Endpoint, FullMesh};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tokio::sync::oneshot;

type Requests = h3::client::SendRequest<mpquic_h3::OpenStreams, Bytes>;

/// Asks, with a body in pieces; gives the answer's status and body.
async fn ask(requests: &mut Requests, method: &str, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
    let request = http::Request::builder().method(method);
    let request = request
        .uri(format!("https://localhost{path}"))
        .body(())
        .unwrap();
    let stream = requests.send_request(request).await.unwrap();
    let (mut send, mut recv) = stream.split();
    let sending = async {
        for piece in body.chunks(100_000) {
            send.send_data(Bytes::copy_from_slice(piece)).await.unwrap();
        }
        send.finish().await.unwrap();
    };
    let receiving = async {
        let answer = recv.recv_response().await.unwrap();
        let mut back = Vec::new();
        while let Some(mut piece) = recv.recv_data().await.unwrap() {
            back.extend_from_slice(&piece.copy_to_bytes(piece.remaining()));
        }
        (answer.status().as_u16(), back)
    };
    tokio::join!(sending, receiving).1
}

#[tokio::test]
async fn a_router_answers_over_two_paths_and_finishes_what_runs() {
    let folder = tempfile::tempdir().unwrap();
    let cert = folder.path().join("cert.pem");
    let local = |text: &str| text.parse::<SocketAddr>().unwrap();
    let (begun, has_begun) = oneshot::channel::<()>();
    let (go_on, goes_on) = oneshot::channel::<()>();
    let once = Arc::new(tokio::sync::Mutex::new(Some((begun, goes_on))));
    let slow = get(async move || {
        let taken = once.lock().await.take();
        if let Some((begun, goes_on)) = taken {
            begun.send(()).unwrap();
            goes_on.await.unwrap();
        }
        "slow"
    });
    let router = Router::new()
        .route("/", get(async || "hello"))
        .route("/echo", post(async |body: axum::body::Body| body))
        .route("/slow", slow);
    let endpoint = mpquic_example_axum::listen(&[local("127.0.0.1:0")], &cert).unwrap();
    let server = endpoint.local_addrs()[0];
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = mpquic_example_axum::serve(&endpoint, router, async { drop(stopped.await) });
    let asking = async {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_file(&cert).unwrap())
            .unwrap();
        let versions = [&rustls::version::TLS13];
        let tls = rustls::ClientConfig::builder_with_protocol_versions(&versions);
        let mut tls = tls.with_root_certificates(roots).with_no_client_auth();
        tls.alpn_protocols = vec![b"h3".to_vec()];
        let config = ClientConfig::new(Arc::new(tls)).unwrap();
        let client = Endpoint::client(&[local("127.0.0.1:0"), local("127.0.0.2:0")]).unwrap();
        client.set_path_manager(FullMesh::new());
        let connection = client.connect_with(config, server, "localhost").unwrap();
        let connection = connection.await.unwrap();
        let transport = mpquic_h3::Connection::new(connection.clone());
        let built = h3::client::builder().build::<_, _, Bytes>(transport).await;
        let (mut driver, mut requests) = built.unwrap();
        let driving = tokio::spawn(async move { poll_fn(|cx| driver.poll_close(cx)).await });
        assert_eq!(
            ask(&mut requests, "GET", "/", b"").await,
            (200, b"hello".to_vec())
        );
        assert_eq!(ask(&mut requests, "GET", "/none", b"").await.0, 404);
        assert_eq!(ask(&mut requests, "GET", "/echo", b"").await.0, 405);
        let body: Vec<u8> = (0..4_000_000).map(|at| (at % 251) as u8).collect();
        let (status, back) = ask(&mut requests, "POST", "/echo", &body).await;
        assert!(status == 200 && back == body);
        assert_eq!(connection.paths().len(), 2);
        // The server stops while a request runs, which has its answer all the same.
        let mut other = requests.clone();
        let slow = async { ask(&mut other, "GET", "/slow", b"").await };
        let stopping = async {
            has_begun.await.unwrap();
            stop.send(()).unwrap();
            go_on.send(()).unwrap();
        };
        let (answer, ()) = tokio::join!(slow, stopping);
        assert_eq!(answer, (200, b"slow".to_vec()));
        drop((requests, other));
        let ended = driving.await.unwrap();
        assert!(ended.is_h3_no_error(), "{ended:?}");
    };
    tokio::join!(serving, asking);
}
