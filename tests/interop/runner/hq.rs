//! HTTP/0.9 over QUIC, the application of the interop runner, over any of our Rust stacks.

use tokio::task::JoinSet;

use crate::case::Case;
use crate::stacks::{Peer, RecvHalf, SendHalf, StreamEnd};

pub(crate) const ALPN: &[u8] = b"hq-interop";

/// Byte i of every answer is i modulo this.
const PERIOD: usize = 251;

pub(crate) fn body(size: usize) -> Vec<u8> {
    (0..size).map(|i| (i % PERIOD) as u8).collect()
}

/// Answers requests until the connection ends.
pub(crate) async fn serve<P: Peer>(peer: P) {
    while let Ok((mut send, mut recv)) = peer.accept_bi().await {
        tokio::spawn(async move {
            let Ok(request) = read_to_end(&mut recv).await else {
                return;
            };
            let request = String::from_utf8(request).unwrap();
            let size = request.trim_end().strip_prefix("GET /").unwrap();
            // The connection may end early: the test looks at the client.
            if send.write_all(&body(size.parse().unwrap())).await.is_ok() {
                send.finish();
                send.stopped().await.ok();
            }
        });
    }
}

/// The request for so many bytes.
pub(crate) fn request(size: usize) -> Vec<u8> {
    format!("GET /{size}\r\n").into_bytes()
}

/// Downloads all files of a case at once. Calls `mid` in the middle of the first one, if the case is about that.
pub(crate) async fn download<P: Peer>(peer: &P, case: Case, mid: impl FnOnce() + Send + 'static) {
    let mut mid = Some(mid);
    let mut tasks = JoinSet::new();
    for (number, size) in case.sizes().into_iter().enumerate() {
        let peer = peer.clone();
        let happens = matches!(case, Case::KeyUpdate | Case::ConnectionMigration);
        let mid = mid.take().filter(|_| happens);
        tasks.spawn(async move {
            let (mut send, mut recv) = peer.open_bi().await;
            send.write_all(&request(size)).await.unwrap();
            send.finish();
            if let Some(mid) = mid {
                let mut first = vec![0; size / 4];
                let count = recv.read(&mut first).await.unwrap().unwrap();
                mid();
                let rest = read_to_end(&mut recv).await.unwrap();
                assert!([&first[..count], &rest[..]].concat() == body(size));
            } else {
                let whole = read_to_end(&mut recv)
                    .await
                    .expect("the answer is cut short");
                assert!(whole == body(size), "file {number} is garbled");
            }
        });
    }
    while let Some(result) = tasks.join_next().await {
        result.unwrap();
    }
    if case == Case::KeyUpdate {
        assert!(peer.key_updates().is_none_or(|updates| updates > 0));
    }
    peer.close(0, b"");
}

async fn read_to_end(recv: &mut impl RecvHalf) -> Result<Vec<u8>, StreamEnd> {
    let mut all = Vec::new();
    let mut buf = vec![0; 64 << 10];
    while let Some(count) = recv.read(&mut buf).await? {
        all.extend_from_slice(&buf[..count]);
    }
    Ok(all)
}
