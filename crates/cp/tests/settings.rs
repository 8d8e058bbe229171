//! The program with a file of settings: what is in it, and what changes while it runs.

use std::process::{Command, Stdio};

use crate::program::{PROGRAM, Place, signal};

fn write(place: &Place, more: &str) {
    let text = format!(
        "token-file = \"token\"\n\n[serve]\nroot = \"far\"\nidentity = \"identity\"\n{more}\n[get]\nlocal = [\"127.0.0.1\"]\n"
    );
    std::fs::write(place.path("cp.toml"), text).unwrap();
}

fn by_file(place: &Place, words: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command
        .args(words)
        .arg("--config")
        .arg(place.path("cp.toml"));
    command
}

fn code(command: &mut Command) -> (Option<i32>, String) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), error)
}

#[test]
fn a_file_takes_the_place_of_flags() {
    let place = Place::new();
    write(&place, "");
    std::fs::write(place.path("far/a"), "a text").unwrap();
    let config = place.text("cp.toml");
    let server = place.server(&["--config", &config]);
    let target = place.text("near/a");
    let get = ["get", &server.address, "a", &target, "--pin", &server.pin];
    let (ended, error) = code(&mut by_file(&place, &get));
    assert_eq!(ended, Some(0), "{error}");
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "a text");
}

#[test]
fn settings_are_read_again() {
    let place = Place::new();
    write(&place, "");
    std::fs::write(place.path("near/b"), "another text").unwrap();
    let config = place.text("cp.toml");
    let log = place.path("log");
    let mut command = Command::new("sh");
    let script = format!("exec \"$0\" \"$@\" 2>\"{}\"", log.display());
    command.args(["-c", &script, PROGRAM]);
    let server = place.server_by(command, &["--config", &config]);
    let source = place.text("near/b");
    let put = || {
        let words = ["put", &server.address, &source, "b", "--pin", &server.pin];
        code(&mut by_file(&place, &words))
    };
    let hang_up = |told: &str| {
        signal(&server.child, "HUP");
        let begun = std::time::Instant::now();
        while !std::fs::read_to_string(&log).unwrap().contains(told) {
            assert!(begun.elapsed().as_secs() < 60, "{told}");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    };
    assert_eq!(put().0, Some(7));
    write(&place, "allow-put = true");
    hang_up("the settings are read again");
    let (ended, error) = put();
    assert_eq!(ended, Some(0), "{error}");
    write(&place, "alow-put = true");
    hang_up("unknown key `alow-put`, did you mean `allow-put`?");
    let (ended, error) = put();
    assert_eq!(ended, Some(2), "{error}");
}

#[test]
fn check_says_what_would_be_in_force() {
    let place = Place::new();
    write(&place, "");
    let output = by_file(&place, &["check", "serve"]).output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    let root = format!(
        "root = \"{}\" # {}:4",
        place.text("far"),
        place.text("cp.toml")
    );
    assert!(shown.contains(&root), "{shown}");
    assert!(!place.path("identity").exists() && !shown.contains("0123456789abcdef"));
    let words = ["check", "get", "files.example", "photos"];
    assert!(by_file(&place, &words).output().unwrap().status.success());
    // Half of a pair.
    write(&place, "cert = \"cert.pem\"");
    let (ended, error) = code(&mut by_file(&place, &["check", "serve"]));
    assert_eq!(ended, Some(2), "{error}");
}
