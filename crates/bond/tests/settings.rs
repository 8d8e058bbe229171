//! The program with a file of settings: what is in it, what is wrong with it, and what changes while it runs.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use crate::common::process::*;

/// The settings of a server, as a file in its place.
fn write(place: &Place, allow: &str, more: &str) {
    let text = format!(
        "idle = 600\n\n[serve]\nlisten = [\"{}\"]\ntoken-file = \"token\"\nidentity = \"identity\"\nallow = [\"{allow}\"]\n{more}\n\
         [connect]\nserver = \"{}\"\nlocal = [\"127.0.0.1\"]\nproxy = \"127.0.0.1:0\"\ntoken-file = \"token\"\n",
        place.server, place.server
    );
    std::fs::write(place.path().join("bond.toml"), text).unwrap();
}

fn by_file(place: &Place, words: &[&str]) -> Command {
    let mut command = bond();
    command
        .args(words)
        .arg("--config")
        .arg(place.path().join("bond.toml"));
    command
}

fn started(place: &Place) -> (Process, String) {
    let server = Process::start(&mut by_file(place, &["serve"]));
    let line = line_with(&server.out, "fingerprint ");
    (
        server,
        line.strip_prefix("fingerprint ").unwrap().to_owned(),
    )
}

fn echoes(socket: &mut TcpStream) {
    let mut back = [0; 5];
    socket.write_all(b"hello").unwrap();
    socket.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"hello");
}

#[test]
fn a_file_takes_the_place_of_flags() {
    let place = Place::new();
    write(&place, "127.0.0.0/8:*", "");
    let (_server, pin) = started(&place);
    let client = Process::start(&mut by_file(&place, &["connect", "--pin", &pin]));
    let line = line_with(&client.out, "proxy on ");
    let proxy = line.strip_prefix("proxy on ").unwrap().parse().unwrap();
    assert!(works(proxy, echo()));
    // The secret itself from the environment, where no file has it.
    let mut command = place.connect_without_token(bond(), &pin, "127.0.0.1:0");
    let client = Process::start(command.env("MPQUIC_BOND_TOKEN", "a token for the tests\n"));
    line_with(&client.out, "proxy on ");
    let mut command = place.connect_without_token(bond(), &pin, "127.0.0.1:0");
    let (code, error) = ended(command.env("MPQUIC_BOND_TOKEN", "short"));
    assert_eq!(code, Some(2), "{error}");
    assert!(
        error.contains("MPQUIC_BOND_TOKEN: a token has at least 16 bytes"),
        "{error}"
    );
    assert!(!error.contains("short"), "{error}");
}

#[test]
fn settings_are_read_again_and_nobody_is_dropped() {
    let place = Place::new();
    write(&place, "127.0.0.0/8:*", "");
    let (server, pin) = started(&place);
    let (client, proxy) = place.client(&pin);
    let echo = echo();
    let (code, mut socket) = socks(proxy, echo);
    assert_eq!(code, 0);
    echoes(&mut socket);

    write(&place, "127.0.0.0/8:1", "");
    server.signal("-HUP");
    line_with(&server.err, "the settings are read again");
    // What is open goes on; what is new is refused.
    echoes(&mut socket);
    assert_eq!(socks(proxy, echo).0, 2);

    write(&place, "127.0.0.0/8:*", "lisen = 1");
    server.signal("-HUP");
    let line = line_with(&server.err, "the settings stay as they are");
    assert!(
        line.contains("bond.toml:8: unknown key `lisen`, did you mean `listen`?"),
        "{line}"
    );
    assert_eq!(socks(proxy, echo).0, 2);

    write(&place, "127.0.0.0/8:*", "scheduler = \"minrtt\"");
    std::fs::write(place.path().join("token"), "another token for tests").unwrap();
    server.signal("-HUP");
    line_with(&server.err, "at the next start");
    line_with(&server.err, "the settings are read again");
    assert!(works(proxy, echo));
    echoes(&mut socket);
    assert!(client.err.try_iter().all(|line| !line.contains("lost")));
    // The token is another one for those that come now.
    let mut late = place.connect_without_token(bond(), &pin, "127.0.0.1:0");
    let (code, error) = ended(late.env("MPQUIC_BOND_TOKEN", "a token for the tests"));
    assert_eq!(code, Some(6), "{error}");
}

#[test]
fn check_says_what_would_be_in_force() {
    let place = Place::new();
    write(&place, "127.0.0.0/8:*", "");
    let checked = by_file(&place, &["check", "serve", "--idle", "60"])
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&checked.stdout);
    assert_eq!(checked.status.code(), Some(0), "{checked:?}");
    let token = place.path().join("token");
    for told in [
        "[serve]",
        "allow = [\"127.0.0.0/8:*\"] #",
        "bond.toml:7",
        "idle = 60 # command line",
        &format!("token-file = \"{}\"", token.display()),
    ] {
        assert!(shown.contains(told), "{told}: {shown}");
    }
    // Nothing is made, and no secret shown.
    assert!(!place.path().join("identity").exists());
    assert!(!shown.contains("a token for the tests"), "{shown}");
    let mut client = by_file(&place, &["check", "connect"]);
    assert!(client.stdout(Stdio::null()).status().unwrap().success());

    std::fs::write(&token, "short").unwrap();
    let (code, error) = ended(&mut by_file(&place, &["check", "serve"]));
    assert_eq!(code, Some(8), "{error}");
    assert!(error.contains("at least 16 bytes"), "{error}");
    write(&place, "nonsense", "");
    let (code, error) = ended(&mut by_file(&place, &["serve"]));
    assert_eq!(code, Some(2), "{error}");
    assert!(
        error.contains("bond.toml:7: invalid value 'nonsense'"),
        "{error}"
    );
}
