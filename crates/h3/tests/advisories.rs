//! The rows about HTTP/3 of a year of advisories against QUIC stacks, tried on h3 over this crate: a test for each, named after its
//! public identifier where it has one. `docs/results/advisories.md` has the table; `--nocapture` prints the figures. They count bytes
//! of both ends and polls, never time.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use crate::common::raw::{Pair, control, ended, frame, honest, integer, pair, post, stopped};
use bytes::{Buf, Bytes, BytesMut};
use http::Response;
use mpquic::{Connection, ConnectionError, TransportConfig};
use mpquic_test_support::runtime::run_on_one_thread;

const FRAME_UNEXPECTED: u64 = 0x105;
const STREAM_CREATION_ERROR: u64 = 0x103;
const CLOSED_CRITICAL_STREAM: u64 = 0x104;
const EXCESSIVE_LOAD: u64 = 0x107;
const ID_ERROR: u64 = 0x108;
const SETTINGS_ERROR: u64 = 0x109;
const MISSING_SETTINGS: u64 = 0x10a;

const DATA: u64 = 0;
const HEADERS: u64 = 1;
const CANCEL_PUSH: u64 = 3;
const SETTINGS: u64 = 4;
const GOAWAY: u64 = 7;
const MAX_PUSH_ID: u64 = 13;
/// What HTTP/3 reserves for nothing (RFC 9114 section 7.2.8).
const RESERVED: u64 = 0x21;

/// A test that hangs fails then.
const DEADLINE: Duration = Duration::from_secs(60);

const ENCODER: u8 = 2;
const DECODER: u8 = 3;

/// What this thread holds. A test has one thread, with both ends.
pub(crate) mod meter {
    use std::cell::Cell;

    use mpquic_test_support::allocator::Change;

    thread_local! {
        static HELD: Cell<i64> = const { Cell::new(0) };
        static PEAK: Cell<i64> = const { Cell::new(0) };
    }

    pub(crate) fn count(change: Change) {
        HELD.set(HELD.get() + change.growth());
        PEAK.set(PEAK.get().max(HELD.get()));
    }

    pub(crate) fn held() -> i64 {
        HELD.get()
    }

    /// From here on the peak is counted; gives what is held.
    pub(crate) fn start() -> i64 {
        PEAK.set(HELD.get());
        HELD.get()
    }

    pub(crate) fn peak() -> i64 {
        PEAK.get()
    }
}

/// Notes a figure of a row, and that it is within its limit.
fn figure(row: &str, what: &str, value: f64, limit: f64) {
    println!("{row:<26} {what:<60} {value:>12.2} {limit:>12.2}");
    assert!(
        value <= limit,
        "{row}: {what}: {value}, at most {limit} are allowed"
    );
}

/// How often a server's connection was polled.
type Polls = Rc<Cell<u64>>;

async fn counted<F: Future>(polls: &Polls, future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|cx| {
        polls.set(polls.get() + 1);
        future.as_mut().poll(cx)
    })
    .await
}

/// A server that answers each request once it is complete; `fields`: its limit for them, decoded.
async fn serve(connection: Connection, fields: Option<u64>, polls: Polls) {
    let mut server = h3::server::builder();
    if let Some(fields) = fields {
        server.max_field_section_size(fields);
    }
    let transport = mpquic_h3::Connection::new(connection);
    let mut requests = server.build::<_, Bytes>(transport).await.unwrap();
    let mut answers = tokio::task::JoinSet::new();
    while let Ok(Some(resolver)) = counted(&polls, requests.accept()).await {
        answers.spawn(async move {
            let Ok((_, mut stream)) = resolver.resolve_request().await else {
                return;
            };
            while let Ok(Some(mut data)) = stream.recv_data().await {
                data.advance(data.remaining());
            }
            if stream.recv_trailers().await.is_ok() {
                // The client may be gone.
                let _ = stream.send_response(Response::new(())).await;
                let _ = stream.finish().await;
            }
        });
    }
    while let Some(answered) = answers.join_next().await {
        answered.unwrap();
    }
}

/// Runs a client that says what it likes, and an honest server.
fn duel<F: Future<Output = ()>>(
    fields: Option<u64>,
    client: impl FnOnce(Connection, Polls) -> F + 'static,
) {
    let duel = async {
        let Pair {
            server,
            client: connection,
            endpoints: _endpoints,
        } = pair(TransportConfig::default(), TransportConfig::default()).await;
        let polls = Polls::default();
        let attack = async {
            client(connection.clone(), Rc::clone(&polls)).await;
            connection.close(0x100_u32.into(), b"");
        };
        tokio::join!(serve(server, fields, Rc::clone(&polls)), attack);
    };
    run_on_one_thread(async {
        let ended = tokio::time::timeout(DEADLINE, duel).await;
        ended.expect("the test hangs");
    });
}

/// The code with which the server closes the connection.
async fn closed(connection: &Connection) -> u64 {
    match connection.closed().await {
        ConnectionError::ApplicationClosed(close) => close.error_code.into_inner(),
        other => panic!("{other}"),
    }
}

/// A request with so many fields of one byte each, `content-type: text/html;charset=utf-8`, which the static table of QPACK has.
fn fields(count: usize) -> Bytes {
    let mut fields = BytesMut::from(&b"\0\0\xd4\xd7\xc1\x50\x09localhost"[..]);
    fields.resize(fields.len() + count, 0xc0 | 52);
    frame(HEADERS, &fields)
}

/// quic-go CVE-2025-64702, CVE-2026-40898: fields of a byte each, which are 70 bytes once they are decoded. Nothing is decoded beyond
/// the limit that the server has (RFC 9114 section 4.2.2).
#[test]
fn quic_go_cve_2025_64702_fields_that_grow_when_they_are_decoded() {
    duel(Some(16 * 1024), async |connection: Connection, _| {
        let _control = control(&connection).await;
        honest(&connection).await;
        let before = meter::start();
        let request = fields(24_000);
        let mut streams = Vec::new();
        for _ in 0..20 {
            let (mut send, recv) = connection.open_bi().await.unwrap();
            send.write_all(&request).await.unwrap();
            streams.push((send, recv));
        }
        for (_, recv) in &mut streams {
            // 431, and the request is not asked for any more.
            assert!(ended(recv).await.unwrap().ends_with(b"\x83\x69\x90\xff"));
        }
        let sent = (20 * request.len()) as f64;
        let more = (meter::peak() - before) as f64;
        figure(
            "CVE-2025-64702",
            "bytes held at most per byte sent, both ends",
            more / sent,
            8.0,
        );
        honest(&connection).await;
    });
}

/// The same with more fields than a `HeaderMap` has room for, in a request and as trailers, to a server without a limit.
#[test]
fn quic_go_cve_2026_40898_more_fields_than_a_map_has_room_for() {
    duel(None, async |connection: Connection, _| {
        let _control = control(&connection).await;
        // The most that is taken.
        let (mut send, mut recv) = connection.open_bi().await.unwrap();
        send.write_all(&fields(24_576 - 4)).await.unwrap();
        send.finish().unwrap();
        assert!(!ended(&mut recv).await.unwrap().is_empty());
        for count in [24_577 - 4, 30_000, 65_000] {
            let (mut send, mut recv) = connection.open_bi().await.unwrap();
            // It may be stopped before all is written.
            let _ = send.write_all(&fields(count)).await;
            assert_eq!(ended(&mut recv).await, Err(EXCESSIVE_LOAD), "{count}");
            let (mut send, mut recv) = connection.open_bi().await.unwrap();
            send.write_all(&post(0)).await.unwrap();
            let mut trailers = BytesMut::from(&b"\0\0"[..]);
            trailers.resize(2 + count + 4, 0xc0 | 52);
            let _ = send.write_all(&frame(HEADERS, &trailers)).await;
            assert_eq!(ended(&mut recv).await, Err(EXCESSIVE_LOAD), "{count}");
        }
        honest(&connection).await;
    });
}

/// nginx CVE-2026-42530: the streams of which there is one each (RFC 9114 section 6.2.1, RFC 9204 section 4.2), opened twice.
#[test]
fn nginx_cve_2026_42530_streams_that_are_opened_twice() {
    for ty in [0, ENCODER, DECODER] {
        duel(None, async move |connection: Connection, _| {
            let _control = control(&connection).await;
            let mut streams = Vec::new();
            for _ in 0..2 {
                let mut stream = connection.open_uni().await.unwrap();
                stream.write_all(&[ty]).await.unwrap();
                streams.push(stream);
            }
            assert_eq!(closed(&connection).await, STREAM_CREATION_ERROR, "{ty}");
        });
    }
}

/// Q3Fuzz 9: the end of a QPACK stream, with and without data before it, which made one server turn for ever.
#[test]
fn q3fuzz_09_qpack_streams_that_end() {
    for ty in [ENCODER, DECODER] {
        for data in [&b""[..], b"\0", &[0x3f; 500]] {
            duel(None, async move |connection: Connection, polls: Polls| {
                let _control = control(&connection).await;
                let mut stream = connection.open_uni().await.unwrap();
                stream.write_all(&[ty]).await.unwrap();
                stream.write_all(data).await.unwrap();
                stream.finish().unwrap();
                honest(&connection).await;
                // Nothing comes: there is nothing to do.
                let before = polls.get();
                tokio::time::sleep(Duration::from_millis(20)).await;
                let polls = (polls.get() - before) as f64;
                figure(
                    "Q3Fuzz 9",
                    "polls of the connection in 20 ms of rest",
                    polls,
                    20.0,
                );
                honest(&connection).await;
            });
        }
    }
}

/// The control stream ends (RFC 9114 section 6.2.1), or is reset.
#[test]
fn the_end_of_the_control_stream() {
    for reset in [false, true] {
        duel(None, async move |connection: Connection, _| {
            let mut control = control(&connection).await;
            honest(&connection).await;
            match reset {
                true => _ = control.reset(7_u32.into()),
                false => control.finish().unwrap(),
            }
            assert_eq!(closed(&connection).await, CLOSED_CRITICAL_STREAM);
        });
    }
}

/// webtransport-go GO-2026-4483, GO-2026-4485: unidirectional streams of WebTransport, of types that nobody knows, with half a type, and
/// with none. Each is refused or over; nothing is left of it, and the next may come.
#[test]
fn webtransport_go_2026_4483_streams_that_nobody_asked_for() {
    duel(None, async |connection: Connection, _| {
        let _control = control(&connection).await;
        honest(&connection).await;
        let mut held = Vec::new();
        let kinds: [&[u8]; 4] = [b"\x40\x54\x00data", b"\x21data", b"\xc0\0\0", b""];
        for round in 0..30 {
            let mut streams = Vec::new();
            for kind in kinds.iter().cycle().take(48) {
                let mut stream = connection.open_uni().await.unwrap();
                stream.write_all(kind).await.unwrap();
                let whole = kind.len() > 3;
                if !whole {
                    stream.finish().unwrap();
                }
                streams.push((stream, whole));
            }
            for (stream, refused) in &streams {
                assert_eq!(stopped(stream).await.is_some(), *refused);
            }
            if round % 10 == 9 {
                honest(&connection).await;
                held.push(meter::held());
            }
        }
        let more = (held[2] - held[0]).max(0) as f64;
        figure(
            "GO-2026-4483",
            "bytes held more after 1,440 streams than after 480",
            more,
            65_536.0,
        );
    });
}

/// Q3Fuzz 6: HEADERS, and the application's close at once. The request ends, and so do its handler and the connection's loop.
#[test]
fn q3fuzz_06_headers_and_a_close() {
    for _ in 0..10 {
        duel(None, async |connection: Connection, _| {
            let _control = control(&connection).await;
            let (mut send, _recv) = connection.open_bi().await.unwrap();
            send.write_all(&post(0)).await.unwrap();
            connection.close(0x100_u32.into(), b"");
        });
    }
}

/// What must not be on a control stream (RFC 9114 sections 6.2.1, 7.2 and 5.2), and the code of each.
#[test]
fn frames_that_a_control_stream_must_not_have() {
    let settings = |pairs: &[u64]| {
        let payload: Vec<u8> = pairs.iter().flat_map(|value| integer(*value)).collect();
        frame(SETTINGS, &payload)
    };
    let id = |ty, value| frame(ty, &integer(value));
    let all = |frames: &[Bytes]| frames.concat();
    for (name, bytes, code) in [
        (
            "none before SETTINGS",
            all(&[id(GOAWAY, 0)]),
            MISSING_SETTINGS,
        ),
        ("DATA first", all(&[frame(DATA, b"x")]), MISSING_SETTINGS),
        (
            "twice",
            all(&[settings(&[]), settings(&[])]),
            FRAME_UNEXPECTED,
        ),
        (
            "DATA",
            all(&[settings(&[]), frame(DATA, b"x")]),
            FRAME_UNEXPECTED,
        ),
        (
            "HEADERS",
            all(&[settings(&[]), frame(HEADERS, b"\0\0\xd1")]),
            FRAME_UNEXPECTED,
        ),
        (
            "a setting of HTTP/2",
            all(&[settings(&[2, 0])]),
            SETTINGS_ERROR,
        ),
        (
            "a frame of HTTP/2",
            all(&[settings(&[]), frame(8, b"x")]),
            FRAME_UNEXPECTED,
        ),
        (
            "GOAWAY that rises",
            all(&[settings(&[]), id(GOAWAY, 0), id(GOAWAY, 4)]),
            ID_ERROR,
        ),
    ] {
        duel(None, async move |connection: Connection, _| {
            let mut control = connection.open_uni().await.unwrap();
            control.write_all(b"\0").await.unwrap();
            control.write_all(&bytes).await.unwrap();
            assert_eq!(closed(&connection).await, code, "{name}");
        });
    }
}

/// Frames of a control stream without end, each allowed: nothing is kept of them.
#[test]
fn frames_of_a_control_stream_without_end() {
    duel(None, async |connection: Connection, _| {
        let mut control = control(&connection).await;
        honest(&connection).await;
        let mut held = Vec::new();
        let mut numbers = 0_u64..;
        // The first rounds fill the buffers of both ends.
        for _ in 0..16 {
            for value in numbers.by_ref().take(1_000).map(integer) {
                let [push, cancel, unknown] =
                    [MAX_PUSH_ID, CANCEL_PUSH, RESERVED].map(|ty| frame(ty, &value));
                let three = [push, cancel, unknown].concat();
                control.write_all(&three).await.unwrap();
            }
            honest(&connection).await;
            held.push(meter::held());
        }
        figure(
            "control frames",
            "bytes held more after 48,000 than after 39,000",
            (held[15] - held[12]).max(0) as f64,
            65_536.0,
        );
    });
}
