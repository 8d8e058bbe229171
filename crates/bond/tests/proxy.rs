//! Programs behind the proxy: what they ask for, what they get, and how it ends.

use std::io::ErrorKind;
use std::time::Duration;

use crate::common::{
    FIRST, Far, Near, SECOND, client_settings, echo, echoes_udp, far, near, pattern, run, socks,
    target, token,
};
use mpquic_bond::{Error, Fingerprint};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

const LOCAL: &[&str] = &["127.0.0.0/8:*"];
const HOUR: Duration = Duration::from_secs(3600);

async fn pair(allow: &[&str], idle: Duration) -> (Far, Near) {
    let far = far(allow, idle);
    let settings = client_settings(far.address, &[FIRST]);
    let near = near(far.fingerprint, settings).await.unwrap();
    (far, near)
}

#[test]
fn socks_and_connect_carry_data_both_ways() {
    run(async {
        let (_far, near) = pair(LOCAL, HOUR).await;
        let echo = target(echo).await;
        let data = pattern(3_000_000);

        let (code, _, mut by_socks) = socks(near.proxy, 1, echo).await;
        assert_eq!(code, 0);
        let mut by_http = TcpStream::connect(near.proxy).await.unwrap();
        // The first data comes with the head.
        let head = format!("CONNECT {echo} HTTP/1.1\r\nHost: {echo}\r\n\r\nfirst");
        by_http.write_all(head.as_bytes()).await.unwrap();
        let mut answer = [0; 19];
        by_http.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200 OK\r\n\r\n");
        let mut first = [0; 5];
        by_http.read_exact(&mut first).await.unwrap();
        assert_eq!(&first, b"first");

        for socket in [&mut by_socks, &mut by_http] {
            let (mut reader, mut writer) = socket.split();
            let writing = async {
                writer.write_all(&data).await.unwrap();
                writer.shutdown().await.unwrap();
            };
            let mut back = Vec::new();
            let ((), read) = tokio::join!(writing, reader.read_to_end(&mut back));
            read.unwrap();
            assert!(back == data);
        }
        near.stop().await;
    });
}

#[test]
fn a_half_closed_connection_stays_half_closed() {
    run(async {
        let (_far, near) = pair(LOCAL, HOUR).await;
        // It answers when the question has ended.
        let asked = target(|mut socket| async move {
            let mut question = Vec::new();
            socket.read_to_end(&mut question).await.unwrap();
            question.reverse();
            socket.write_all(&question).await.unwrap();
        })
        .await;
        let (_, _, mut socket) = socks(near.proxy, 1, asked).await;
        socket.write_all(b"abc").await.unwrap();
        socket.shutdown().await.unwrap();
        let mut answer = Vec::new();
        socket.read_to_end(&mut answer).await.unwrap();
        assert_eq!(answer, b"cba");
    });
}

#[test]
fn resets_pass_in_both_directions() {
    run(async {
        let (_far, near) = pair(LOCAL, HOUR).await;
        // The target resets after the first byte.
        let resets = target(|mut socket| async move {
            socket.read_u8().await.unwrap();
            let zero = Some(Duration::ZERO);
            socket2::SockRef::from(&socket).set_linger(zero).unwrap();
        })
        .await;
        let (_, _, mut socket) = socks(near.proxy, 1, resets).await;
        socket.write_u8(1).await.unwrap();
        let error = socket.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);

        // The program resets; the target sees it.
        let (told, mut tell) = mpsc::channel(1);
        let sees = target(move |mut socket| {
            let told = told.clone();
            async move {
                let first = socket.read_u8().await.unwrap();
                socket.write_u8(first).await.unwrap();
                let error = socket.read_u8().await.unwrap_err();
                told.send(error.kind()).await.unwrap();
            }
        })
        .await;
        let (_, _, mut socket) = socks(near.proxy, 1, sees).await;
        socket.write_u8(1).await.unwrap();
        // A reset overtakes what is not read yet.
        assert_eq!(socket.read_u8().await.unwrap(), 1);
        let zero = Some(Duration::ZERO);
        socket2::SockRef::from(&socket).set_linger(zero).unwrap();
        drop(socket);
        assert_eq!(tell.recv().await, Some(ErrorKind::ConnectionReset));
    });
}

#[test]
fn a_reader_that_takes_nothing_stops_the_writer() {
    run(async {
        let (_far, near) = pair(LOCAL, HOUR).await;
        // It reads when it is told to.
        let (go, gone) = tokio::sync::watch::channel(false);
        let (told, mut tell) = mpsc::channel(1);
        let lazy = target(move |mut socket| {
            let (mut gone, told) = (gone.clone(), told.clone());
            async move {
                gone.wait_for(|go| *go).await.unwrap();
                let mut all = Vec::new();
                socket.read_to_end(&mut all).await.unwrap();
                told.send(all.len()).await.unwrap();
            }
        })
        .await;
        let (_, _, mut socket) = socks(near.proxy, 1, lazy).await;
        let piece = vec![7; 1 << 20];
        let mut taken = 0;
        // Far more than sockets and windows on the way hold: it must come to a stop before.
        while taken < 1 << 30 {
            let writing = socket.write(&piece);
            match tokio::time::timeout(Duration::from_secs(2), writing).await {
                Ok(written) => taken += written.unwrap(),
                Err(_) => break,
            }
        }
        assert!(
            taken < 200 << 20,
            "{taken} bytes were taken and nobody read"
        );
        go.send(true).unwrap();
        socket.shutdown().await.unwrap();
        assert_eq!(tell.recv().await, Some(taken));
    });
}

#[test]
fn what_cannot_be_reached_is_told_why() {
    run(async {
        let (_far, near) = pair(&["127.0.0.1:*", "*:80"], HOUR).await;
        // Nobody listens at a port that was just given back.
        let closed = tokio::net::TcpListener::bind((FIRST, 0)).await.unwrap();
        let nobody = closed.local_addr().unwrap();
        drop(closed);
        assert_eq!(
            socks(near.proxy, 1, nobody).await.0,
            5,
            "connection refused"
        );
        let denied = (SECOND, 80).into();
        assert_eq!(socks(near.proxy, 1, denied).await.0, 2, "not allowed");
        assert_eq!(socks(near.proxy, 2, nobody).await.0, 7, "BIND is not there");
        for (request, status) in [
            (format!("CONNECT {nobody} HTTP/1.1\r\n\r\n"), "502"),
            (format!("CONNECT {denied} HTTP/1.1\r\n\r\n"), "403"),
            (
                "CONNECT no.such.host.invalid:80 HTTP/1.1\r\n\r\n".to_owned(),
                "502",
            ),
            ("GET / HTTP/1.1\r\n\r\n".to_owned(), "405"),
            ("nonsense\r\n\r\n".to_owned(), "400"),
        ] {
            let mut socket = TcpStream::connect(near.proxy).await.unwrap();
            socket.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            socket.read_to_string(&mut answer).await.unwrap();
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status}")),
                "{request}: {answer}"
            );
        }
    });
}

#[test]
fn an_idle_connection_is_given_up() {
    run(async {
        let (_far, near) = pair(LOCAL, Duration::from_millis(300)).await;
        let echo = target(echo).await;
        let (_, _, mut socket) = socks(near.proxy, 1, echo).await;
        socket.write_u8(1).await.unwrap();
        assert_eq!(socket.read_u8().await.unwrap(), 1);
        let error = socket.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    });
}

#[test]
fn udp_goes_there_and_back() {
    run(async {
        let (_far, near) = pair(LOCAL, HOUR).await;
        echoes_udp(&near, &[b"abc", b"defgh"]).await;
        near.stop().await;
    });
}

fn why<T>(refused: Result<T, Error>) -> String {
    match refused {
        Ok(_) => panic!("it was taken"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn who_is_not_trusted_gets_no_connection() {
    run(async {
        let far = far(LOCAL, HOUR);
        let mut wrong = client_settings(far.address, &[FIRST]);
        wrong.token = Some(token("another token, of another"));
        let refused = why(near(far.fingerprint, wrong.clone()).await);
        assert!(refused.ends_with("wrong token"), "{refused}");
        wrong.token = None;
        let refused = why(near(far.fingerprint, wrong).await);
        let needs_one = "this server needs a token: give --token-file";
        assert!(refused.ends_with(needs_one), "{refused}");

        let other: Fingerprint = "ab".repeat(32).parse().unwrap();
        let settings = client_settings(far.address, &[FIRST]);
        let refused = why(near(other, settings).await);
        assert!(refused.starts_with("cannot trust "), "{refused}");
        for expected in [
            format!("fingerprint sha256:{}", far.fingerprint),
            format!("expects sha256:{other}"),
            format!("give --pin sha256:{}", far.fingerprint),
        ] {
            assert!(refused.contains(&expected), "{refused}");
        }

        let mut nowhere = client_settings(far.address, &[FIRST]);
        nowhere.server = "no.such.host.invalid:1".to_owned();
        let refused = why(near(far.fingerprint, nowhere).await);
        assert!(
            refused.contains("cannot resolve no.such.host.invalid:1"),
            "{refused}"
        );
        let mut odd = client_settings(far.address, &[FIRST]);
        odd.transport.scheduler = Some("nonsense".to_owned());
        let refused = why(near(far.fingerprint, odd).await);
        assert!(refused.contains("nonsense"), "{refused}");
    });
}
