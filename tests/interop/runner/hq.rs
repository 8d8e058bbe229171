//! HTTP/0.9 over QUIC, the application of the interop runner, over any of our Rust stacks.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::case::Case;
use crate::stacks::{End, Peer, RecvHalf, SendHalf, StreamEnd};

pub(crate) const ALPN: &[u8] = b"hq-interop";

/// Error codes of the application. Programs of other languages know them.
const RESET: u32 = 17;
const STOP: u32 = 18;
const CLOSE_BY_SERVER: u32 = 19;
const CLOSE_BY_CLIENT: u32 = 20;

/// Datagrams that are to come back, and their size.
const DATAGRAMS: u8 = 20;
const DATAGRAM_LEN: usize = 1_000;

/// Byte i of every answer is i modulo this.
const PERIOD: usize = 251;

pub(crate) fn body(size: usize) -> Vec<u8> {
    (0..size).map(|i| (i % PERIOD) as u8).collect()
}

/// What a server heard, on any connection.
#[derive(Default)]
pub(crate) struct Heard {
    stopped: watch::Sender<Option<u64>>,
    closed: watch::Sender<Option<u64>>,
}

/// The value, as soon as there is one.
async fn heard(from: &watch::Sender<Option<u64>>) -> u64 {
    let mut there = from.subscribe();
    let value = there.wait_for(Option::is_some).await.unwrap();
    value.unwrap()
}

/// Answers requests until the connection ends, and sends datagrams back.
pub(crate) async fn serve<P: Peer>(peer: P, heard: Arc<Heard>) {
    let (echo, ends, hears) = (peer.clone(), peer.clone(), Arc::clone(&heard));
    tokio::spawn(async move {
        while let Ok(datagram) = echo.read_datagram().await {
            echo.send_datagram(datagram).ok();
        }
    });
    tokio::spawn(async move {
        if let End::Application(code, _) = ends.closed().await {
            hears.closed.send_replace(Some(code));
        }
    });
    while let Ok((mut send, mut recv)) = peer.accept_bi().await {
        let (peer, heard) = (peer.clone(), Arc::clone(&heard));
        tokio::spawn(async move {
            if let Ok(request) = read_to_end(&mut recv).await {
                let request = String::from_utf8(request).unwrap();
                answer(&request, &peer, &mut send, &heard).await;
            }
        });
    }
}

/// The connection may end early: tests look at the client.
async fn answer<P: Peer>(request: &str, peer: &P, send: &mut P::Send, heard: &Heard) {
    let (verb, number) = request.trim_end().split_once(" /").unwrap();
    let number: usize = number.parse().unwrap();
    let whole = match verb {
        "GET" | "RESET" => body(number),
        "STOPPED" => self::heard(&heard.stopped).await.to_string().into_bytes(),
        "CLOSED" => self::heard(&heard.closed).await.to_string().into_bytes(),
        "CLOSE" => return peer.close(u32::try_from(number).unwrap(), b"bye"),
        _ => panic!("{request}"),
    };
    match send.write_all(&whole).await {
        Ok(()) if verb == "RESET" => send.reset(RESET),
        Ok(()) => {
            send.finish();
            send.stopped().await.ok();
        }
        Err(StreamEnd::Stopped(code)) => {
            heard.stopped.send_replace(Some(code));
        }
        Err(_) => {}
    }
}

/// The request for so many bytes.
pub(crate) fn request(size: usize) -> Vec<u8> {
    format!("GET /{size}\r\n").into_bytes()
}

/// Downloads all files of a case at once. Calls `mid` in the middle of the first one, if the case is about that.
/// `number`: which connection of the case it is, from 0.
pub(crate) async fn download<P: Peer>(
    peer: &P,
    case: Case,
    number: usize,
    mid: impl FnOnce() + Send + 'static,
) {
    let mut mid = Some(mid);
    let mut tasks = JoinSet::new();
    for (file, size) in case.sizes().into_iter().enumerate() {
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
                assert!(whole == body(size), "file {file} is garbled");
            }
        });
    }
    while let Some(result) = tasks.join_next().await {
        result.unwrap();
    }
    match case {
        Case::KeyUpdate => {
            if peer.key_updates() == Some(0) {
                // All of it was there before the application had read a quarter: what is sent next has new keys.
                let (_send, mut recv) = ask(peer, "GET", 1).await;
                assert!(read_to_end(&mut recv).await == Ok(body(1)));
            }
            assert!(peer.key_updates().is_none_or(|updates| updates > 0));
        }
        Case::Datagrams => datagrams(peer).await,
        Case::Reset => {
            let (_send, mut recv) = ask(peer, "RESET", 100_000).await;
            let end = read_to_end(&mut recv).await;
            assert_eq!(end, Err(StreamEnd::Reset(RESET.into())));
        }
        Case::Stop => {
            let (_send, mut recv) = ask(peer, "GET", 20 << 20).await;
            recv.read(&mut [0; 1_000]).await.unwrap();
            recv.stop(STOP);
            assert_eq!(told(peer, "STOPPED").await, STOP.to_string());
        }
        Case::CloseByServer => {
            let _stream = ask(peer, "CLOSE", CLOSE_BY_SERVER as usize).await;
            let ended = peer.closed().await;
            let End::Application(code, _) = ended else {
                panic!("{ended:?}");
            };
            assert_eq!(code, u64::from(CLOSE_BY_SERVER));
        }
        Case::CloseByClient if number > 0 => {
            assert_eq!(told(peer, "CLOSED").await, CLOSE_BY_CLIENT.to_string());
        }
        _ => {}
    }
    let code = if case == Case::CloseByClient {
        CLOSE_BY_CLIENT
    } else {
        0
    };
    peer.close(code, b"bye");
}

async fn ask<P: Peer>(peer: &P, verb: &str, number: usize) -> (P::Send, P::Recv) {
    let (mut send, recv) = peer.open_bi().await;
    let request = format!("{verb} /{number}\r\n");
    send.write_all(request.as_bytes()).await.unwrap();
    send.finish();
    (send, recv)
}

/// What the server heard.
async fn told<P: Peer>(peer: &P, verb: &str) -> String {
    let (_send, mut recv) = ask(peer, verb, 0).await;
    String::from_utf8(read_to_end(&mut recv).await.unwrap()).unwrap()
}

/// Sends datagrams until all are back: those that got lost, again.
async fn datagrams<P: Peer>(peer: &P) {
    let mut missing: BTreeSet<u8> = (0..DATAGRAMS).collect();
    while !missing.is_empty() {
        for number in &missing {
            let datagram = vec![*number; DATAGRAM_LEN];
            peer.send_datagram(datagram.into()).unwrap();
        }
        let wait = Duration::from_millis(300);
        while let Ok(datagram) = tokio::time::timeout(wait, peer.read_datagram()).await {
            let datagram = datagram.unwrap();
            assert!(datagram.len() == DATAGRAM_LEN && datagram.iter().all(|b| *b == datagram[0]));
            missing.remove(&datagram[0]);
            if missing.is_empty() {
                break;
            }
        }
    }
}

pub(crate) async fn read_to_end(recv: &mut impl RecvHalf) -> Result<Vec<u8>, StreamEnd> {
    let mut all = Vec::new();
    let mut buf = vec![0; 64 << 10];
    while let Some(count) = recv.read(&mut buf).await? {
        all.extend_from_slice(&buf[..count]);
    }
    Ok(all)
}
