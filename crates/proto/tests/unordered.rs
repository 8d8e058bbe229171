//! Streams that are read out of order, over two paths that lose packets.

use std::time::Duration;

use crate::pair::{Pair, client_addr, tuple};
use mpquic_proto::{CollectionSize, Dir, PathId, ReadError, StreamId, TransportConfig, VarInt};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

const SECOND: PathId = PathId(1);
const LEN: usize = 2 << 20;

fn two_paths(config: impl Fn(&mut TransportConfig)) -> Pair {
    let transport = || {
        let mut transport = TransportConfig::default();
        transport.keep_alive_interval(Some(Duration::from_millis(100)));
        config(&mut transport);
        transport
    };
    let mut pair = Pair::new(transport(), transport());
    pair.connect();
    let now = pair.now;
    pair.c().open_path(now, tuple(1)).unwrap();
    assert!(pair.run_until(Duration::from_secs(5), |pair| pair.both_validated(SECOND)));
    pair
}

fn content(seed: u64) -> Vec<u8> {
    let mut data = vec![0; LEN];
    StdRng::seed_from_u64(seed).fill_bytes(&mut data);
    data
}

/// What a reader has, and how many chunks came ahead of a gap.
struct Reader {
    data: Vec<u8>,
    read: Vec<bool>,
    ahead: usize,
    next: u64,
}

impl Reader {
    fn new() -> Self {
        Self {
            data: vec![0; LEN],
            read: vec![false; LEN],
            ahead: 0,
            next: 0,
        }
    }

    /// Reads what is there; whether that was the end.
    fn read(&mut self, pair: &mut Pair, id: StreamId, max: usize) -> bool {
        loop {
            match pair.c().recv_stream(id).read_unordered(max) {
                Ok(Some(chunk)) => {
                    assert!(!chunk.bytes.is_empty() && chunk.bytes.len() <= max);
                    let at = chunk.offset as usize;
                    let range = at..at + chunk.bytes.len();
                    assert!(!self.read[range.clone()].contains(&true), "twice: {at}");
                    self.read[range.clone()].fill(true);
                    self.data[range].copy_from_slice(&chunk.bytes);
                    self.ahead += usize::from(chunk.offset > self.next);
                    self.next = self.next.max(chunk.offset + chunk.bytes.len() as u64);
                }
                Ok(None) => return true,
                Err(error) => {
                    // Nothing more for now, or not yet open.
                    assert!(
                        matches!(error, ReadError::Blocked | ReadError::ClosedStream),
                        "{error}"
                    );
                    return false;
                }
            }
        }
    }
}

/// Each seed loses other packets; windows are small, so that the transfer ends only if reads give credit back.
#[test]
fn every_byte_comes_once_over_two_paths_with_loss() {
    for seed in 0..6 {
        let mut pair = two_paths(|config| {
            config
                .stream_receive_window(200_000)
                .receive_window(200_000);
        });
        let mut rng = StdRng::seed_from_u64(seed);
        pair.filter = Box::new(move |from_client, tuple, _| {
            let client = if from_client {
                tuple.local
            } else {
                tuple.remote
            };
            let path = usize::from(client == client_addr(1));
            !rng.random_bool([0.03, 0.08][path])
        });
        let id = pair.s().streams().open(Dir::Uni).unwrap();
        let (data, mut written) = (content(seed), 0);
        let mut reader = Reader::new();
        let max = if seed % 2 == 0 { usize::MAX } else { 1000 };
        let done = pair.run_until(Duration::from_secs(120), |pair| {
            while written < LEN {
                match pair.s().send_stream(id).write(&data[written..]) {
                    Ok(n) => written += n,
                    Err(_) => break,
                }
                if written == LEN {
                    pair.s().send_stream(id).finish().unwrap();
                }
            }
            pair.c().streams().accept(Dir::Uni);
            CollectionSize::for_each(pair.c(), |held| {
                assert!(held.size <= held.cap, "{held:?}");
            });
            reader.read(pair, id, max)
        });
        assert!(done, "seed {seed}: {} bytes", reader.next);
        assert!(reader.data == data, "seed {seed}");
        assert!(reader.ahead > 10, "seed {seed}: {} ahead", reader.ahead);
        for path in [PathId::ZERO, SECOND] {
            let stats = pair.s().path(path).unwrap().stats();
            assert!(stats.lost_packets > 0 && stats.sent_stream_bytes > 0);
        }
        assert_eq!(
            pair.c().recv_stream(id).read_unordered(1),
            Err(ReadError::ClosedStream)
        );
    }
}

/// Out of order after in order, never the other way round; a reset is told in either.
#[test]
fn order_is_not_mixed() {
    let mut pair = two_paths(|_| ());
    let id = pair.s().streams().open(Dir::Uni).unwrap();
    assert_eq!(pair.s().send_stream(id).write(&[7; 5000]), Ok(5000));
    // All of it arrives.
    pair.run_until(Duration::from_secs(1), |_| false);
    pair.c().streams().accept(Dir::Uni);
    assert_eq!(
        pair.c().recv_stream(id).read(&mut [0; 1000]),
        Ok(Some(1000))
    );
    let chunk = pair.c().recv_stream(id).read_unordered(0).unwrap().unwrap();
    assert_eq!((chunk.offset, chunk.bytes.len()), (1000, 1));
    let wrong = Err(ReadError::IllegalOrderedRead);
    assert_eq!(pair.c().recv_stream(id).read(&mut [0; 1000]), wrong);
    assert_eq!(
        pair.c().recv_stream(id).read_chunk(1000).map(|_| None),
        wrong
    );
    let chunk = pair
        .c()
        .recv_stream(id)
        .read_unordered(usize::MAX)
        .unwrap()
        .unwrap();
    assert_eq!((chunk.offset, chunk.bytes.len()), (1001, 3999));
    assert_eq!(
        pair.c().recv_stream(id).read_unordered(1),
        Err(ReadError::Blocked)
    );
    pair.s().send_stream(id).reset(VarInt::from_u32(9)).unwrap();
    let reset = Err(ReadError::Reset(VarInt::from_u32(9)));
    assert!(pair.run_until(Duration::from_secs(5), |pair| {
        pair.c().recv_stream(id).read_unordered(1) == reset
    }));
}
