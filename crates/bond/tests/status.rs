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
