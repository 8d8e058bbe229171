//! The program as a service: what it tells systemd, its units, manual pages and completions.

use std::os::unix::net::UnixDatagram;
use std::process::Command;

use crate::common::process::*;

#[test]
fn systemd_is_told() {
    let place = Place::new();
    let path = place.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    let told = || {
        let mut text = [0; 256];
        let len = socket.recv(&mut text).unwrap();
        String::from_utf8_lossy(&text[..len]).trim().to_owned()
    };
    let mut command = bond();
    command
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "150000");
    let (mut server, pin) = place.server_by(command);
    assert_eq!(told(), "READY=1");
    for _ in 0..3 {
        assert_eq!(told(), "WATCHDOG=1");
    }
    server.signal("-TERM");
    while told() != "STOPPING=1" {}
    assert!(server.wait().success());
    drop(server);
    let (_server, _) = place.server();
    let mut command = bond();
    command.env("NOTIFY_SOCKET", &path);
    let (_client, _) = place.client_by(command, &pin);
    assert_eq!(told(), "READY=1");
}

#[test]
fn units_are_hardened() {
    let Ok(version) = Command::new("systemd-analyze").arg("--version").output() else {
        return println!("left out: there is no systemd-analyze here");
    };
    assert!(version.status.success());
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/systemd");
    for unit in [
        "mpquic-bond.service",
        "mpquic-bond-client.service",
        "mpquic-cp.service",
    ] {
        let mut rating = Command::new("systemd-analyze");
        // Rated "OK" (below 5.0 of 10), in tenths.
        rating.args(["security", "--offline=true", "--threshold=30"]);
        let rated = rating.arg(format!("{folder}/{unit}")).output().unwrap();
        let text = String::from_utf8_lossy(&rated.stdout);
        assert!(rated.status.success(), "{unit}: {text}");
    }
}

#[test]
fn manual_pages_and_completions_come_from_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let made = bond().arg("manual").arg(folder.path()).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let page = read("mpquic-bond-serve.1");
    assert!(page.contains(".TH") && page.contains("allow"), "{page}");
    assert!(read("mpquic-bond.1").contains("Exit code"));
    for name in ["mpquic-bond.bash", "_mpquic-bond", "mpquic-bond.fish"] {
        assert!(read(name).contains("metrics"), "{name}");
    }
}
