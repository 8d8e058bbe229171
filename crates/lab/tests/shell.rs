//! `mpquic-lab shell` with programs of the system. Needs root and Linux; elsewhere it says why it does nothing.
#![cfg(target_os = "linux")]

use std::io::Write as _;
use std::net::TcpListener;
use std::thread;

use mpquic_lab::cli;
use serde_json::Value;

/// The exit status, the last line of standard output as JSON, and standard error.
fn shell(arguments: &[&str]) -> (u8, Value, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let arguments = ["mpquic-lab", "shell"].iter().chain(arguments);
    let code = cli::main(arguments.map(Into::into), &mut out, &mut err);
    let json = serde_json::from_slice(&out).unwrap_or_default();
    (code, json, String::from_utf8(err).unwrap())
}

#[test]
fn a_program_uses_the_links_that_it_is_told() {
    const SIZE: usize = 300_000;
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            // A client that went has what it wanted.
            let _ = stream.and_then(|mut stream| stream.write_all(&[7; SIZE]));
        }
    });
    // The other link leads to another address outside, the one beside its own inside.
    let program = format!(
        "second=${{LAB_ADDRESSES#*,}}; second=${{second%2}}1
        for host in $LAB_OUTSIDE $second; do
            [[ $(cat </dev/tcp/$host/{port} | wc -c) = {SIZE} ]] || exit 9
        done
        exit 7"
    );
    let network = "20Mbit 5ms | 8Mbit 20ms";
    let (code, json, err) = shell(&["--network", network, "--json", "--", "bash", "-c", &program]);
    if code == 1 && err.contains("the links cannot be made") {
        return eprintln!("not tested: {err}");
    }
    assert_eq!(code, 7, "{err}");
    assert_eq!(json["status"], 7);
    let seconds = json["seconds"].as_f64().unwrap();
    for (link, rate) in [(0, 20e6), (1, 8e6)] {
        let bytes = |direction: &str| json["links"][link][direction]["bytes"].as_f64().unwrap();
        assert!(bytes("down") > SIZE as f64, "{json}");
        assert!(bytes("up") > 40.0, "{json}");
        // No faster than the link.
        assert!(seconds > bytes("down") * 8.0 / rate, "{json}");
    }
}

#[test]
fn what_cannot_be_run_is_said() {
    let (code, _, err) = shell(&["--network", "20Mbit", "--", "true"]);
    assert_eq!(code, 2, "{err}");
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/quick.toml");
    let (code, _, err) = shell(&[file, "--only", "nowhere", "--", "true"]);
    assert!(
        code == 2 && err.contains("--only matches none of the networks: "),
        "{err}"
    );
    let (code, _, err) = shell(&[file, "--", "true"]);
    assert!(
        code == 2 && err.contains("say which one with --only"),
        "{err}"
    );
    let (code, _, err) = shell(&["--network", "20Mbit 5ms", "--", "/no/such/program"]);
    assert!(
        code == 2 && err.contains("/no/such/program") || err.contains("the links cannot be made"),
        "{err}"
    );
}
