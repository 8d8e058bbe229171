//! The examples, in process: people copy them.

use std::path::Path;

use crate::common::raw::{control, ended, frame, ok, post};
use crate::common::{loopback, our_server, pattern, run, tls};
use clap::Parser;
use mpquic::TransportConfig;
use mpquic_test_support::tls::Identity;
use tokio::sync::oneshot;

#[expect(dead_code, reason = "the test has no command line of its own")]
#[path = "../examples/h3_client.rs"]
mod h3_client;
#[expect(dead_code, reason = "the test has no command line of its own")]
#[path = "../examples/h3_server.rs"]
mod h3_server;

/// What the client with these arguments ends with: whether the server did it.
async fn client(ca: &Path, url: &str, more: &[&str]) -> Result<bool, String> {
    let ca = ca.to_str().unwrap();
    let arguments = ["h3_client", url, "--ca", ca, "--local", "127.0.0.1"];
    let arguments = h3_client::Arguments::try_parse_from(arguments.iter().chain(more)).unwrap();
    h3_client::run(arguments)
        .await
        .map_err(|error| error.to_string())
}

#[test]
fn the_server_serves_and_takes_files() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir(path("root")).unwrap();
        std::fs::create_dir(path("uploads")).unwrap();
        std::fs::write(path("root/file"), pattern(300_000)).unwrap();
        std::fs::write(path("large"), pattern(30_000_000)).unwrap();
        let arguments = h3_server::Arguments::try_parse_from([
            "h3_server".as_ref(),
            "--listen=127.0.0.1:0".as_ref(),
            "--root".as_ref(),
            path("root").as_os_str(),
            "--cert-out".as_ref(),
            path("ca").as_os_str(),
            "--uploads".as_ref(),
            path("uploads").as_os_str(),
            "--upload-limit=1000000".as_ref(),
        ])
        .unwrap();
        let endpoint = h3_server::listen(&arguments).unwrap();
        let port = endpoint.local_addrs()[0].port();
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = async {
            let stop = async {
                stopped.await.unwrap();
                Ok(())
            };
            h3_server::run(endpoint, arguments, stop).await.unwrap();
        };
        let asking = async {
            let (ca, out) = (path("ca"), path("out"));
            let url = |name: &str| format!("https://localhost:{port}/{name}");
            let file = path("root/file");
            let large = path("large");
            let (file, large, to) = (
                file.to_str().unwrap(),
                large.to_str().unwrap(),
                out.to_str().unwrap(),
            );
            let got = client(&ca, &url("file"), &["-o", to]).await;
            assert_eq!(got, Ok(true));
            assert!(std::fs::read(&out).unwrap() == pattern(300_000)[..]);
            // HEAD: the fields, and no body.
            let got = client(&ca, &url("file"), &["-I", "-o", to]).await;
            assert_eq!(got, Ok(true));
            assert_eq!(
                std::fs::read_to_string(&out).unwrap(),
                "content-length: 300000\n"
            );
            for missing in ["nothing", "", "../large", "root/../../large"] {
                assert_eq!(
                    client(&ca, &url(missing), &[]).await,
                    Ok(false),
                    "{missing}"
                );
            }
            assert_eq!(client(&ca, &url("copy"), &["-T", file]).await, Ok(true));
            assert!(std::fs::read(path("uploads/copy")).unwrap() == pattern(300_000)[..]);
            // An early answer: it says 413, and the client reads that.
            assert_eq!(client(&ca, &url("large"), &["-T", large]).await, Ok(false));
            let names = std::fs::read_dir(path("uploads")).unwrap();
            assert_eq!(names.count(), 1, "parts of files are left");
            methods(&ca, port).await;
            stop.send(()).unwrap();
        };
        tokio::join!(serving, asking);
    });
}

/// Other methods than the client's.
async fn methods(ca: &Path, port: u16) {
    use rustls::pki_types::pem::PemObject;
    let mut roots = rustls::RootCertStore::empty();
    let trusted = rustls::pki_types::CertificateDer::from_pem_file(ca).unwrap();
    roots.add(trusted).unwrap();
    let mut tls = rustls::ClientConfig::builder_with_protocol_versions(&[&rustls::version::TLS13])
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let endpoint = crate::common::our_client(tls, &[loopback(1)]);
    let address = ([127, 0, 0, 1], port).into();
    let connection = endpoint
        .connect(address, "localhost")
        .unwrap()
        .await
        .unwrap();
    let transport = mpquic_h3::Connection::new(connection.clone());
    let (mut driver, mut send_request) = h3::client::new(transport).await.unwrap();
    let asking = async move {
        for method in ["DELETE", "POST", "OPTIONS"] {
            let request = http::Request::builder()
                .method(method)
                .uri("https://localhost/file");
            let mut stream = send_request
                .send_request(request.body(()).unwrap())
                .await
                .unwrap();
            // The body does not end: the answer comes before.
            let response = stream.recv_response().await.unwrap();
            assert_eq!(response.status(), http::StatusCode::METHOD_NOT_ALLOWED);
            assert_eq!(response.headers()["allow"], "GET, HEAD, PUT");
        }
        // As Chromium: the answer is looked at when all of the body is sent.
        let request = http::Request::post("https://localhost/file");
        let mut stream = send_request
            .send_request(request.body(()).unwrap())
            .await
            .unwrap();
        for _ in 0..5 {
            stream.send_data(pattern(1_000_000)).await.unwrap();
        }
        stream.finish().await.unwrap();
        let response = stream.recv_response().await.unwrap();
        assert_eq!(response.status(), http::StatusCode::METHOD_NOT_ALLOWED);
        // 17 kB of fields are too many; h3's client would not send them, if it knew the server's limit already.
        let (mut send, mut recv) = connection.open_bi().await.unwrap();
        send.write_all(&post(16_300)).await.unwrap();
        send.finish().unwrap();
        let answer = ended(&mut recv).await.unwrap();
        assert_eq!(answer.len(), 10, "431 and nothing else");
    };
    let (error, ()) = tokio::join!(std::future::poll_fn(|cx| driver.poll_close(cx)), asking);
    assert!(error.is_h3_no_error(), "{error}");
}

/// Serves one request of the client with these bytes; gives what the client said.
async fn answered(answer: &[u8]) -> (Result<bool, String>, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let (ca, out) = (folder.path().join("ca"), folder.path().join("out"));
    let identity = Identity::new();
    std::fs::write(&ca, &identity.pem).unwrap();
    let (_, mut server_tls) = tls();
    server_tls.cert_resolver = identity.server().cert_resolver;
    let server = our_server(server_tls, TransportConfig::default());
    let url = format!("https://localhost:{}/", server.local_addrs()[0].port());
    let serving = async {
        let connection = server.accept().await.unwrap().await.unwrap();
        let _control = control(&connection).await;
        let (mut send, _recv) = connection.accept_bi().await.unwrap();
        send.write_all(answer).await.unwrap();
        send.finish().unwrap();
        connection.closed().await;
    };
    let more = ["-o", out.to_str().unwrap()];
    let ((), got) = tokio::join!(serving, client(&ca, &url, &more));
    (got, std::fs::read(&out).unwrap_or_default())
}

#[test]
fn the_client_waits_for_the_final_answer() {
    run(async {
        // 103 is line 24 of QPACK's static table (RFC 9204 appendix A).
        let early = frame(1, b"\0\0\xd8");
        let body = frame(0, b"body");
        let (got, body) = answered(&[&early[..], &early, &ok(), &body].concat()).await;
        assert_eq!((got, &body[..]), (Ok(true), &b"body"[..]));
    });
}

#[test]
fn the_client_knows_a_part_from_the_whole() {
    run(async {
        // `content-length: 9`, by the name in line 4.
        let head = frame(1, b"\0\0\xd9\x54\x019");
        let (got, _) = answered(&[&head[..], &frame(0, b"body")].concat()).await;
        assert_eq!(got, Err("4 bytes came of 9".to_owned()));
    });
}
