//! The transfer over mpquic's protocol crate.

use bytes::Bytes;
use mpquic_proto::{DatagramOptions, Dir, Fate, ReadError, Side, TransportConfig};
use mpquic_qlog::Qlog;
use mpquic_sim::BackToBack;
use tempfile::TempDir;

use crate::{CHUNK, DATAGRAM, DELAY, MTU, SIZE, WINDOW};

/// Records that a connection may be ahead of the thread that writes: all of a transfer, which takes no time here.
const RECORDS: usize = 1 << 19;

pub(crate) fn pair(paths: u8) -> BackToBack {
    pair_with(paths, TransportConfig::default())
}

/// The same with both sides' qlog written; the folder goes last.
pub(crate) fn written_pair(paths: u8) -> (BackToBack, Qlog, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let qlog = Qlog::with_capacity(folder.path(), RECORDS).expect("a thread");
    let mut transport = TransportConfig::default();
    qlog.attach(&mut transport);
    (pair_with(paths, transport), qlog, folder)
}

pub(crate) fn written_transfer(
    (pair, qlog, folder): (BackToBack, Qlog, TempDir),
) -> (BackToBack, Qlog, TempDir) {
    let pair = transfer(pair);
    assert_eq!(qlog.left_out(), 0, "all is written");
    (pair, qlog, folder)
}

fn pair_with(paths: u8, mut transport: TransportConfig) -> BackToBack {
    transport
        .initial_mtu(MTU)
        .expect("a valid MTU")
        .stream_receive_window(WINDOW)
        .receive_window(WINDOW)
        .send_window(WINDOW);
    if paths > 1 {
        transport.scheduler(|| Box::new(mpquic_sched::RoundRobin::default()));
    }
    BackToBack::connect(transport, paths, DELAY, |_| {}).expect("a handshake")
}

pub(crate) fn transfer(mut pair: BackToBack) -> BackToBack {
    let data = vec![7; CHUNK];
    let mut buf = vec![0; CHUNK];
    let server = pair.side(Side::Server).expect("connected");
    let id = server.streams().open(Dir::Uni).expect("a stream");
    let mut left = SIZE;
    let mut received = 0;
    pair.run_while(|pair| {
        let server = pair.side(Side::Server).expect("connected");
        while left > 0 {
            match server.send_stream(id).write(&data[..left.min(CHUNK)]) {
                Ok(written) => left -= written,
                Err(_) => break,
            }
            if left == 0 {
                server.send_stream(id).finish().expect("open");
            }
        }
        let client = pair.side(Side::Client).expect("connected");
        client.streams().accept(Dir::Uni);
        loop {
            match client.recv_stream(id).read(&mut buf) {
                Ok(Some(read)) => received += read,
                Ok(None) => return false,
                Err(ReadError::Blocked | ReadError::ClosedStream) => return true,
                Err(error) => panic!("{error}"),
            }
        }
    })
    .expect("a transfer");
    assert_eq!(received, SIZE);
    pair
}

/// All of it in datagrams; with a tag on each, what became of them is drained.
pub(crate) fn datagrams(mut pair: BackToBack, tagged: bool) -> BackToBack {
    static DATA: [u8; DATAGRAM] = [7; DATAGRAM];
    let count = (SIZE / DATAGRAM) as u64;
    let (mut number, mut received, mut acked) = (0, 0, 0);
    pair.run_while(|pair| {
        let server = pair.side(Side::Server).expect("connected");
        while number < count {
            let options = match tagged {
                true => DatagramOptions::new().tag(number),
                false => DatagramOptions::new(),
            };
            let data = Bytes::from_static(&DATA);
            if server.datagrams().send_with(data, options, false).is_err() {
                break;
            }
            number += 1;
        }
        while let Some(news) = server.datagrams().fate() {
            acked += u64::from(matches!(news.fate, Fate::Acknowledged { .. }));
        }
        let client = pair.side(Side::Client).expect("connected");
        while client.datagrams().recv().is_some() {
            received += 1;
        }
        received < count || (tagged && acked < count)
    })
    .expect("a transfer");
    pair
}
