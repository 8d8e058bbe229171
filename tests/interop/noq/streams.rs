//! Sends and receives on the streams of either implementation, and verifies the data by its hash.

use sha2::{Digest, Sha256};

/// The common operations of both implementations' streams.
pub(crate) trait Write {
    async fn all(&mut self, data: &[u8]);
    async fn end(&mut self);
}

pub(crate) trait Read {
    async fn some(&mut self, buf: &mut [u8]) -> Option<usize>;
}

macro_rules! streams {
    ($crate_name:ident) => {
        impl Write for $crate_name::SendStream {
            async fn all(&mut self, data: &[u8]) {
                self.write_all(data).await.unwrap();
            }

            async fn end(&mut self) {
                self.finish().unwrap();
                assert_eq!(self.stopped().await, Ok(None), "all was acknowledged");
            }
        }

        impl Read for $crate_name::RecvStream {
            async fn some(&mut self, buf: &mut [u8]) -> Option<usize> {
                self.read(buf).await.unwrap()
            }
        }
    };
}

streams!(mpquic);
streams!(noq);

/// Sends this many non-repeating bytes. Returns their hash.
pub(crate) async fn send_all(stream: &mut impl Write, len: usize) -> Vec<u8> {
    let mut hash = Sha256::new();
    let mut state = len as u64;
    let mut left = len;
    let mut block = vec![0; 64 << 10];
    while left > 0 {
        for word in block.chunks_exact_mut(8) {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            word.copy_from_slice(&state.to_be_bytes());
        }
        let part = &block[..left.min(block.len())];
        hash.update(part);
        stream.all(part).await;
        left -= part.len();
    }
    stream.end().await;
    hash.finalize().to_vec()
}

pub(crate) async fn receive(stream: &mut impl Read, len: usize, mid: impl FnOnce()) -> Vec<u8> {
    let mut hash = Sha256::new();
    let mut received = 0;
    let mut mid = Some(mid);
    let mut block = vec![0; 64 << 10];
    while let Some(count) = stream.some(&mut block).await {
        hash.update(&block[..count]);
        received += count;
        if received * 4 >= len
            && let Some(mid) = mid.take()
        {
            mid();
        }
    }
    assert_eq!(received, len);
    hash.finalize().to_vec()
}
