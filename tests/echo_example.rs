//! The examples `echo_server` and `echo_client`, in process: people copy them.

use std::net::SocketAddr;

#[expect(dead_code, reason = "the test has no command line of its own")]
#[path = "../examples/echo_client.rs"]
mod echo_client;
#[expect(dead_code, reason = "the test has no command line of its own")]
#[path = "../examples/echo_server.rs"]
mod echo_server;

#[tokio::test]
async fn what_is_sent_comes_back_over_both_paths() {
    let folder = tempfile::tempdir().unwrap();
    let cert = folder.path().join("cert.pem");
    let local = |text: &str| text.parse::<SocketAddr>().unwrap();
    let endpoint = echo_server::listen(&[local("127.0.0.1:0")], &cert).unwrap();
    let server = endpoint.local_addrs()[0];
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = echo_server::serve(&endpoint, async { drop(stopped.await) });
    let asking = async {
        let data: Vec<u8> = (0..8_000_000).map(|at| (at % 251) as u8).collect();
        let mut back = Vec::new();
        let locals = [local("127.0.0.1:0"), local("127.0.0.2:0")];
        let shares = echo_client::run(server, &locals, &cert, &data[..], &mut back).await;
        let shares = shares.unwrap();
        assert!(back == data);
        assert_eq!(shares.len(), 2);
        stop.send(()).unwrap();
    };
    tokio::join!(serving, asking);
}
