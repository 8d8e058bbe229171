//! What the program shows while it runs: the page, figures for Prometheus, and lines of the log as JSON.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::common::process::*;

/// What an HTTP request of a browser or of Prometheus gets.
fn get(url: &str, path: &str, host: Option<&str>) -> String {
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    let host = host.unwrap_or(address);
    write!(socket, "GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

fn url_of(process: &Process) -> String {
    let line = line_with(&process.out, "status on ");
    line.strip_prefix("status on ").unwrap().to_owned()
}

#[test]
fn both_sides_show_what_they_do() {
    let place = Place::new();
    let mut command = place.serve_by(bond());
    let shown = ["--metrics", "127.0.0.1:0", "--log-format", "json"];
    let server = Process::start(command.args(shown));
    let line = line_with(&server.out, "fingerprint ");
    let pin = line.strip_prefix("fingerprint ").unwrap().to_owned();
    let far = url_of(&server);
    let mut command = place.connect_by(bond(), &pin);
    let client = Process::start(command.args(["--metrics", "127.0.0.1:0"]));
    let line = line_with(&client.out, "proxy on ");
    let proxy = line.strip_prefix("proxy on ").unwrap().parse().unwrap();
    let near = url_of(&client);
    let (code, mut socket) = socks(proxy, echo());
    assert_eq!(code, 0);
    let mut back = [0; 5];
    socket.write_all(b"hello").unwrap();
    socket.read_exact(&mut back).unwrap();

    for (url, role) in [(&far, "serve"), (&near, "connect")] {
        let figures = get(url, "/metrics", None);
        assert!(figures.starts_with("HTTP/1.1 200 OK"), "{figures}");
        assert!(figures.contains("mpquic_connections 1\n"), "{figures}");
        let has = |begin: &str, end: &str| {
            let found = figures
                .lines()
                .any(|line| line.starts_with(begin) && line.ends_with(end));
            assert!(found, "{begin} {end}: {figures}");
        };
        has("mpquic_open{", "kind=\"tcp\"} 1");
        has("mpquic_path_rtt_seconds{", "");
        has("mpquic_path_received_bytes_total{", "");
        let json = get(url, "/status.json", None);
        let (_, body) = json.split_once("\r\n\r\n").unwrap();
        let status: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(status["role"], role);
        let path = &status["peers"][0]["paths"][0];
        assert!(path["sent"].as_u64().unwrap() > 0, "{status}");
        let page = get(url, "/", None);
        assert!(
            page.contains("default-src 'none'") && page.contains("<!doctype html>"),
            "{page}"
        );
        // Nothing comes from elsewhere.
        assert!(
            !page.contains("src=") && !page.contains("@import"),
            "{page}"
        );
        // A page of the web whose name was made to lead here.
        let rebound = get(url, "/status.json", Some("evil.example"));
        assert!(rebound.starts_with("HTTP/1.1 421"), "{rebound}");
    }
    let line = line_with(&server.err, "TCP to");
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["level"], "info");
    assert!(line["time"].as_str().unwrap().ends_with('Z'), "{line}");
}

#[test]
fn others_are_shown_nothing_without_a_token() {
    let place = Place::new();
    let mut command = place.serve_by(bond());
    let (code, error) = ended(command.args(["--metrics", "0.0.0.0:0"]));
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("give --metrics-token-file"), "{error}");
    let mut command = place.serve_by(bond());
    command.args(["--metrics", "0.0.0.0:0", "--metrics-token-file"]);
    let server = Process::start(command.arg(place.path().join("token")));
    let url = url_of(&server).replace("0.0.0.0", "127.0.0.1");
    let refused = get(&url, "/metrics", None);
    assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
    assert!(!refused.contains("mpquic_"), "{refused}");
}

/// A page of the web in a browser of this machine can send requests here, by a name of its own that leads here or by the address. It is shown nothing.
#[test]
fn a_page_of_the_web_is_shown_nothing() {
    let place = Place::new();
    let mut command = place.serve_by(bond());
    let server = Process::start(command.args(["--metrics", "127.0.0.1:0"]));
    let url = url_of(&server);
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    let port = address.rsplit(':').next().unwrap();
    let asked = |method: &str, fields: &str| {
        let mut socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(DEADLINE)).unwrap();
        let head = format!("{method} /status.json HTTP/1.1\r\n{fields}\r\n");
        socket.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        answer
    };
    // Names that were made to lead here (DNS rebinding).
    for host in [
        format!("Host: evil.example:{port}\r\n"),
        format!("Host: 127.0.0.1.evil.example:{port}\r\n"),
        format!("Host: evil.example:{port}\r\nSec-Fetch-Site: same-origin\r\n"),
        format!("Host: {address}\r\nHost: evil.example\r\n"),
        format!("Host: {address}, evil.example\r\n"),
        "Host: [evil.example]\r\n".to_owned(),
        "Host: \r\n".to_owned(),
        String::new(),
    ] {
        let answer = asked("GET", &host);
        assert!(answer.starts_with("HTTP/1.1 421"), "{host}: {answer}");
        assert!(!answer.contains("mpquic-bond"), "{host}: {answer}");
    }
    // By the address, as what a page can load from elsewhere.
    for dest in [
        "empty", "script", "image", "iframe", "object", "style", "worker",
    ] {
        let fields = format!(
            "Host: {address}\r\nOrigin: https://evil.example\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Dest: {dest}\r\n"
        );
        let answer = asked("GET", &fields);
        assert!(answer.starts_with("HTTP/1.1 403"), "{dest}: {answer}");
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT"] {
        let answer = asked(method, &format!("Host: {address}\r\n"));
        assert!(answer.starts_with("HTTP/1.1 405"), "{method}: {answer}");
    }
    // A browser that does not say where a request is from keeps the answer from the page.
    let answer = asked(
        "GET",
        &format!("Host: {address}\r\nOrigin: http://localhost:1\r\n"),
    );
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let head = answer.split("\r\n\r\n").next().unwrap();
    for field in [
        "Cross-Origin-Resource-Policy: same-origin",
        "X-Content-Type-Options: nosniff",
        "X-Frame-Options: DENY",
    ] {
        assert!(head.contains(field), "{field}: {head}");
    }
    assert!(!head.contains("Access-Control"), "{head}");
}

/// Those that ask and say no more have 16 descriptors together, and lose them after their time.
#[cfg(target_os = "linux")]
#[test]
fn slow_askers_hold_little_and_not_for_long() {
    let place = Place::new();
    let mut command = place.serve_by(bond());
    let server = Process::start(command.args(["--metrics", "127.0.0.1:0"]));
    // All that it opens at the start is open then.
    line_with(&server.out, "fingerprint ");
    let url = url_of(&server);
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    let files = format!("/proc/{}/fd", server.child.id());
    let open = || std::fs::read_dir(&files).unwrap().count();
    let before = open();
    let begin = b"GET /metrics HTTP/1.1\r\nX: ";
    let slow = |number: usize| {
        let mut socket = TcpStream::connect(address).unwrap();
        socket.write_all(&begin[..number % begin.len()]).unwrap();
        socket
    };
    let held: Vec<_> = (0..40).map(slow).collect();
    let asking = std::thread::spawn({
        let url = url.clone();
        move || get(&url, "/metrics", None)
    });
    let mut most = 0;
    while !asking.is_finished() {
        most = most.max(open());
    }
    let answer = asking.join().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // One more is taken while another is given up.
    assert!(most > before + 10 && most <= before + 18, "{before} {most}");
    drop(held);
}
