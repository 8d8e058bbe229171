//! The local port with passwords, and ports that lead to one target.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::common::process::*;

fn started(more: &[&str]) -> (Place, Process, Process, SocketAddr) {
    let place = Place::new();
    let (server, pin) = place.server();
    let mut command = place.connect_by(bond(), &pin);
    let client = Process::start(command.args(more));
    let line = line_with(&client.out, "proxy on ");
    let proxy = line.strip_prefix("proxy on ").unwrap().parse().unwrap();
    (place, server, client, proxy)
}

fn asked(proxy: SocketAddr, text: &[u8], answer: usize) -> Vec<u8> {
    let mut socket = TcpStream::connect(proxy).unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    socket.write_all(text).unwrap();
    let mut back = vec![0; answer];
    socket.read_exact(&mut back).unwrap();
    back
}

#[test]
fn the_local_port_may_need_a_password() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("passwords");
    std::fs::write(&file, "ann:secret\n").unwrap();
    let (_place, _server, _client, proxy) =
        started(&["--proxy-auth-file", &file.display().to_string()]);
    let target = echo();
    // Without the method that is needed (RFC 1928 section 3).
    assert_eq!(asked(proxy, &[5, 1, 0], 2), [5, 255]);
    let login = |password: &str| {
        let mut text = vec![5, 1, 2, 1, 3];
        text.extend(b"ann");
        text.push(password.len() as u8);
        text.extend(password.as_bytes());
        asked(proxy, &text, 4)
    };
    assert_eq!(login("secret"), [5, 2, 1, 0]);
    assert_ne!(login("wrong")[3], 0);
    let http = |field: &str| {
        let text = format!("CONNECT {target} HTTP/1.1\r\n{field}\r\n");
        String::from_utf8(asked(proxy, text.as_bytes(), 12)).unwrap()
    };
    assert_eq!(http(""), "HTTP/1.1 407");
    assert_eq!(
        http("Proxy-Authorization: Basic YW5uOndyb25n\r\n"),
        "HTTP/1.1 407"
    );
    assert_eq!(
        http("Proxy-Authorization: Basic YW5uOnNlY3JldA==\r\n"),
        "HTTP/1.1 200"
    );
}

#[test]
fn a_port_leads_to_one_target() {
    let target = echo();
    // One that the server does not reach.
    let (_place, _server, client, _) = started(&[
        "-L",
        &format!("0:{target}"),
        "-L",
        "127.0.0.1:0:192.0.2.1:80",
    ]);
    let port = |to: &str| -> SocketAddr {
        let line = line_with(&client.out, to);
        let (at, _) = line
            .strip_prefix("forwarding ")
            .unwrap()
            .split_once(' ')
            .unwrap();
        at.parse().unwrap()
    };
    let good = port(&format!("to {target}"));
    let denied = port("to 192.0.2.1:80");
    let mut socket = TcpStream::connect(good).unwrap();
    let mut back = [0; 5];
    socket.write_all(b"hello").unwrap();
    socket.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"hello");
    let mut socket = TcpStream::connect(denied).unwrap();
    assert!(!matches!(socket.read(&mut back), Ok(1..)));
    line_with(&client.err, "TCP to 192.0.2.1:80");
}
