//! What a server holds for a client before its greeting.

use std::future::poll_fn;
use std::task::Poll;

use crate::common::stranger::stranger;
use crate::common::{HOUR, SECRET, far, run, token};

#[test]
fn a_client_has_one_stream_until_it_has_greeted() {
    run(async {
        let far = far(&["127.0.0.0/8:*"], HOUR);
        let (_endpoint, connection) = stranger(&far).await;
        let (mut send, mut recv) = connection.open_bi().await.unwrap();
        // The limit came with the handshake: nothing raises it but a greeting.
        let second = poll_fn(|cx| Poll::Ready(connection.poll_open_bi(cx).is_ready())).await;
        assert!(!second, "a second stream before the greeting");
        let mut greeting = vec![1];
        let proof = token(SECRET).proof(&connection, "EXPORTER-mpquic-bond");
        greeting.extend_from_slice(&proof.unwrap());
        send.write_all(&greeting).await.unwrap();
        let mut answer = [9];
        recv.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer, [0]);
        // As many as a machine has connections.
        for _ in 0..300 {
            drop(connection.open_bi().await.unwrap());
        }
    });
}
