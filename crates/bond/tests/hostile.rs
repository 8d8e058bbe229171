//! A client that keeps to no rules: what it is let in with, what it reaches, and what the server holds for it.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;

use mpquic_bond::Token;
use mpquic_peer::{User, UserSecret, Users};

use crate::common::process::{DEADLINE, Place, named, socks_to};
use crate::common::stranger::{LABEL, ask, greet, greet_with, stranger, try_stranger};
use crate::common::{HOUR, SECRET, far, far_of, run, settings, token};

const LOCAL: &[&str] = &["127.0.0.0/8:*"];

/// What one connection says of itself is worth nothing on another: the proof of a token, and the signatures of a user.
#[test]
fn a_greeting_is_good_on_its_own_connection_only() {
    run(async {
        let user = UserSecret::random().unwrap();
        let named = Token::of_user(user.clone(), UserSecret::random().unwrap());
        let with_users = {
            let mut settings = settings(LOCAL, HOUR, None);
            settings.token = None;
            settings.users = Some(Users::these([User::new("alice", user.key())]));
            settings
        };
        let servers = [
            (token(SECRET), far(LOCAL, HOUR), "wrong token"),
            (
                named,
                far_of(with_users),
                "wrong token, or one that was revoked",
            ),
        ];
        for (secret, far, why) in servers {
            let (_first, seen) = stranger(&far).await;
            let (_second, own) = stranger(&far).await;
            let greeting = secret.greeting(&seen, 1, LABEL).unwrap();
            let refused = greet_with(&own, &greeting).await.unwrap_err();
            assert!(refused.contains(why), "{refused}");
            // It is right but for that.
            assert_eq!(greet_with(&seen, &greeting).await, Ok(()));
            // Halves of two greetings.
            let (_third, other) = stranger(&far).await;
            let mut mixed = secret.greeting(&other, 1, LABEL).unwrap();
            let half = mixed.len() - 32;
            mixed[half..].copy_from_slice(&greeting[half..]);
            let refused = greet_with(&other, &mixed).await.unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    });
}

#[test]
fn one_network_has_so_many_connections() {
    run(async {
        let far = far(LOCAL, HOUR);
        let mut held = Vec::new();
        for _ in 0..128 {
            let stranger = stranger(&far).await;
            // Without it, the first ones would be sent away on a slow machine before the last ones come.
            greet(&stranger.1).await;
            held.push(stranger);
        }
        let refused = try_stranger(&far).await.unwrap_err();
        assert!(refused.contains("refused"), "{refused}");
        // One goes, and another one may come.
        let (endpoint, connection) = held.pop().unwrap();
        connection.close(0_u32.into(), b"");
        endpoint.wait_idle().await;
        while try_stranger(&far).await.is_err() {}
    });
}

/// Requests of no kind, cut off, of targets and paths that are none: each costs its stream, and nobody anything else.
#[test]
fn requests_that_make_no_sense_end_their_streams_alone() {
    run(async {
        let far = far(LOCAL, HOUR);
        let (_endpoint, connection) = stranger(&far).await;
        greet(&connection).await;
        let mut requests: Vec<Vec<u8>> = (9..=255).map(|kind| vec![kind, 0, 0]).collect();
        requests.push(vec![0]);
        // Targets of no type; a name that is no text; one of no length.
        requests.extend([
            vec![1, 5, 0, 0],
            vec![1, 0, 2, 0xff, 0xfe, 0, 80],
            vec![1, 0, 0, 0, 80],
        ]);
        // A scheduler that is none, or no text.
        requests.extend([vec![3, 3, b'a', b'b', b'c'], vec![3, 2, 0xff, 0xff]]);
        // A limit for a path that there is not; shares of nothing, and of one path again and again.
        requests.push([&[4][..], &[0xff; 12]].concat());
        requests.push(vec![5, 0]);
        requests.push([&[5, 255][..], &[0; 8 * 255]].concat());
        // Tunnels and lanes, which this server has not.
        requests.extend([[&[6][..], &[7; 16]].concat(), vec![7, 0], vec![7, 255]]);
        for request in &requests {
            let (answer, ..) = ask(&connection, request).await;
            assert_ne!(answer, Some(0), "{request:?}");
        }
        // Cut off, and then silent or over: they wait on nobody.
        let mut open = Vec::new();
        for request in [&[1, 4, 127][..], &[3, 200], &[5, 255, 0], &[6, 1]] {
            let (mut send, recv) = connection.open_bi().await.unwrap();
            send.write_all(request).await.unwrap();
            open.push((send, recv));
        }
        let target = crate::common::target(crate::common::echo).await;
        let request = [&[1, 4, 127, 0, 0, 1][..], &target.port().to_be_bytes()].concat();
        let (answer, mut send, mut recv) = ask(&connection, &request).await;
        assert_eq!(answer, Some(0));
        send.write_all(b"hello").await.unwrap();
        let mut back = [0; 5];
        recv.read_exact(&mut back).await.unwrap();
        assert_eq!(&back, b"hello");
        // Those that never say more are ended after their time.
        for (_send, mut recv) in open {
            assert!(recv.read_exact(&mut [0]).await.is_err());
        }
    });
}

/// A rule for names, or for all, leads to no address inside, whatever a name is resolved to.
#[test]
fn names_lead_nowhere_inside() {
    run(async {
        let far = far(&["*:*", "localhost:*"], HOUR);
        let (_endpoint, connection) = stranger(&far).await;
        greet(&connection).await;
        let target = crate::common::target(crate::common::echo).await;
        let port = target.port().to_be_bytes();
        for host in [&[0, 9][..], &[4, 127, 0, 0, 1], &[4, 0, 0, 0, 0]] {
            let name: &[u8] = if host[0] == 0 { b"localhost" } else { b"" };
            let request = [&[1][..], host, name, &port].concat();
            assert_eq!(ask(&connection, &request).await.0, Some(1), "{host:?}");
        }
    });
}

/// One that does not greet is sent away after its time, and so is one that greets with half of it.
#[test]
fn who_does_not_greet_is_sent_away() {
    run(async {
        let far = far(LOCAL, HOUR);
        let (_one, silent) = stranger(&far).await;
        let (_two, slow) = stranger(&far).await;
        let (mut send, _recv) = slow.open_bi().await.unwrap();
        send.write_all(&[1, 2, 3]).await.unwrap();
        for connection in [silent, slow] {
            let why = connection.closed().await.to_string();
            assert!(why.contains("no greeting came"), "{why}");
        }
    });
}

#[test]
fn a_client_cannot_fill_the_log() {
    let place = Place::new();
    let (mut server, pin) = place.server();
    let (_client, proxy) = place.client(&pin);
    // A name that a terminal would obey.
    socks_to(proxy, 1, &named("\x1b[2Jx\r\nx"), 80);
    for port in 1..=600 {
        let (code, ..) = socks_to(proxy, 1, &[1, 192, 0, 2, 1], port);
        assert_eq!(code, 2);
    }
    server.signal("-TERM");
    assert!(server.wait().success());
    let lines: Vec<String> = server.err.iter().collect();
    let odd = lines.iter().filter(|line| line.contains("x:80 refused"));
    assert_eq!(odd.count(), 1);
    assert!(
        !lines.iter().any(|line| line.contains(char::is_control)),
        "{lines:?}"
    );
    let told: BTreeSet<_> = lines
        .iter()
        .filter(|line| line.contains("refused"))
        .collect();
    // Another ten seconds may have begun in between, on a machine that is slow.
    assert!(told.len() >= 190 && told.len() <= 400, "{}", told.len());
}

/// A page of the web reaches the port of the proxy with requests of a browser, and nothing through it.
#[test]
fn a_page_of_the_web_gets_nothing_through_the_proxy() {
    let place = Place::new();
    let (_server, pin) = place.server();
    let (_client, proxy) = place.client(&pin);
    let target = crate::common::process::echo();
    for request in [
        format!(
            "GET http://{target}/ HTTP/1.1\r\nHost: {target}\r\nOrigin: https://evil.example\r\n\r\n"
        ),
        format!(
            "POST / HTTP/1.1\r\nHost: evil.example:{}\r\nContent-Length: 3\r\n\r\n\x05\x01\x00",
            proxy.port()
        ),
        format!(
            "OPTIONS http://{target}/ HTTP/1.1\r\nHost: {target}\r\nAccess-Control-Request-Method: CONNECT\r\n\r\n"
        ),
    ] {
        let mut socket = TcpStream::connect(proxy).unwrap();
        socket.set_read_timeout(Some(DEADLINE)).unwrap();
        socket.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 405") && !answer.contains("Access-Control"),
            "{answer}"
        );
    }
}
