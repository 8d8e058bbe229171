//! Named users: tickets, what each user may, and servers that a user has met.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

use mpquic_test_support::held::Held;

use crate::common::process::*;

/// A command of a user, whose data is in a folder of this name.
fn of_user(place: &Place, user: &str, words: &[&str]) -> Command {
    let mut command = bond();
    command
        .env("XDG_DATA_HOME", place.path().join(user))
        .args(words);
    command
}

fn connect(place: &Place, user: &str, to: &str) -> Command {
    let flags = ["--local", "127.0.0.1", "--proxy", "127.0.0.1:0"];
    let mut command = of_user(place, user, &["connect", to]);
    command.args(flags);
    command
}

fn proxy_of(client: &Process) -> std::net::SocketAddr {
    let line = line_with(&client.out, "proxy on ");
    line.strip_prefix("proxy on ").unwrap().parse().unwrap()
}

fn users(place: &Place) -> String {
    place.path().join("users.toml").display().to_string()
}

fn invite(place: &Place, name: &str, more: &[&str]) -> String {
    let identity = place.path().join("identity").display().to_string();
    let (users, address) = (users(place), place.server.to_string());
    let flags = [
        "--users",
        &users,
        "--identity",
        &identity,
        "--address",
        &address,
    ];
    let mut command = bond();
    command.args(["invite", name]).args(flags).args(more);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().last().unwrap().to_owned()
}

fn serve(place: &Place) -> Process {
    let identity = place.path().join("identity").display().to_string();
    let (users, address) = (users(place), place.server.to_string());
    let mut command = bond();
    let flags = [
        "--users",
        &users,
        "--identity",
        &identity,
        "--listen",
        &address,
    ];
    command
        .args(["serve", "--allow", "127.0.0.0/8:*"])
        .args(flags);
    let server = Process::start(&mut command);
    line_with(&server.out, "listening on");
    server
}

#[test]
fn a_ticket_is_all_that_a_client_needs_and_good_on_one_device() {
    let place = Place::new();
    let ticket = invite(&place, "alice", &[]);
    assert!(ticket.starts_with("mpbond1"), "{ticket}");
    let server = serve(&place);
    let mut client = Process::start(&mut connect(&place, "laptop", &ticket));
    let echo = echo();
    assert!(works(proxy_of(&client), echo));
    // Who it was is in each line.
    let line = line_with(&server.err, &format!("TCP to {echo}"));
    assert!(line.contains(" (alice): TCP to"), "{line}");

    // The same one elsewhere, as if somebody had seen it.
    let (code, error) = ended(&mut connect(&place, "thief", &ticket));
    assert_eq!(code, Some(6), "{error}");
    assert!(
        error.contains("used already, and is good on 1 device only"),
        "{error}"
    );
    assert!(!error.contains(&ticket), "{error}");
    // The device itself comes again, from standard input and in capital letters, and after the server's next start.
    client.signal("-TERM");
    client.wait();
    drop(server);
    let _server = serve(&place);
    let mut command = connect(&place, "laptop", "-");
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = Held::new(piped.spawn().unwrap());
    let capitals = format!("{}\n", ticket.to_uppercase());
    child
        .stdin
        .take()
        .unwrap()
        .write_all(capitals.as_bytes())
        .unwrap();
    let mut first = [0; 8];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    assert_eq!(&first, b"proxy on");
    drop(child);
    let (code, error) = ended(&mut connect(&place, "thief", &ticket));
    assert_eq!(code, Some(6), "{error}");

    // Nothing of the secret is on the server's disk: its file has a public key.
    let text = std::fs::read_to_string(users(&place)).unwrap();
    assert!(
        text.contains("[users.alice]") && text.contains("devices = 1"),
        "{text}"
    );
}

#[test]
fn tokens_that_are_guessed_revoked_or_late_are_refused() {
    let place = Place::new();
    let alice = invite(&place, "alice", &[]);
    let server = serve(&place);
    // Added while it runs.
    let bob = invite(&place, "bob", &["--devices", "0"]);
    let client = Process::start(&mut connect(&place, "bob", &bob));
    assert!(works(proxy_of(&client), echo()));
    let mut revoke = bond();
    revoke.args(["revoke", "bob", "--users", &users(&place)]);
    assert!(revoke.stderr(Stdio::null()).status().unwrap().success());
    // At once, or by itself.
    server.signal("-HUP");
    let line = line_with(&client.err, "connection lost");
    assert!(line.contains("this token was revoked"), "{line}");
    let line = line_with(&server.err, "(bob): closed");
    assert!(line.contains("revoked"), "{line}");
    line_with(&client.err, "wrong token, or one that was revoked");
    let (code, _) = ended(&mut connect(&place, "bob", &bob));
    assert_eq!(code, Some(6));

    // A ticket of the same server with a secret that it never gave out: that of a user of another file.
    let other = Place::new();
    let flags = [
        "--identity",
        &place.path().join("identity").display().to_string(),
    ];
    let users = users(&other);
    let address = place.server.to_string();
    let mut forge = bond();
    forge
        .args(["invite", "alice", "--users", &users, "--address", &address])
        .args(flags);
    let forged = String::from_utf8(forge.output().unwrap().stdout).unwrap();
    let (code, error) = ended(&mut connect(&place, "eve", forged.trim()));
    assert_eq!(code, Some(6), "{error}");
    assert!(
        error.contains("wrong token, or one that was revoked"),
        "{error}"
    );
    // One without any.
    let mut none = connect(&place, "eve", &address);
    let (code, error) = ended(none.arg("--accept-new"));
    assert_eq!(code, Some(6), "{error}");
    assert!(error.contains("this server needs a ticket"), "{error}");
    // A letter that was copied wrong.
    let at = alice.len() - 3;
    let letter = if &alice[at..=at] == "q" { "p" } else { "q" };
    let wrong = format!("{}{letter}{}", &alice[..at], &alice[at + 1..]);
    let (code, error) = ended(&mut connect(&place, "alice", &wrong));
    assert_eq!(code, Some(2), "{error}");
    assert!(
        error.contains("copy it once more") && !error.contains(&wrong),
        "{error}"
    );

    let late = invite(&place, "late", &["--valid", "1ms"]);
    let (code, error) = ended(&mut connect(&place, "late", &late));
    assert_eq!(code, Some(6), "{error}");
    assert!(error.contains("this ticket has expired"), "{error}");
    let over = invite(&place, "over", &["--expires", "1ms"]);
    let (code, error) = ended(&mut connect(&place, "over", &over));
    assert_eq!(code, Some(6), "{error}");
    assert!(error.contains("the time of this user is over"), "{error}");
    // Alice is untouched by all that.
    let client = Process::start(&mut connect(&place, "alice", &alice));
    assert!(works(proxy_of(&client), echo()));
}

#[test]
fn a_user_has_limits() {
    let place = Place::new();
    let (echo, other) = (echo(), echo());
    let allow = format!("127.0.0.1:{}", echo.port());
    let limits = ["--rate", "1MB", "--connections", "1", "--allow", &allow];
    let ticket = invite(&place, "alice", &limits);
    let _server = serve(&place);
    let client = Process::start(&mut connect(&place, "alice", &ticket));
    let proxy = proxy_of(&client);
    assert_eq!(socks(proxy, other).0, 2);
    let (code, error) = ended(&mut connect(&place, "alice", &ticket));
    assert_eq!(code, Some(6), "{error}");
    assert!(
        error.contains("too many connections of this user"),
        "{error}"
    );

    let (code, mut socket) = socks(proxy, echo);
    assert_eq!(code, 0);
    let begun = Instant::now();
    let mut reader = socket.try_clone().unwrap();
    let reading = std::thread::spawn(move || {
        let mut all = vec![0; 1_500_000];
        reader.read_exact(&mut all).unwrap();
    });
    socket.write_all(&vec![7; 1_500_000]).unwrap();
    reading.join().unwrap();
    // A tenth of a second passes at once.
    let took = begun.elapsed().as_secs_f64();
    assert!(took > 1.35, "{took}");
}

#[test]
fn a_server_is_known_after_it_was_met() {
    let place = Place::new();
    let (server, pin) = place.server();
    let address = place.server.to_string();
    let to = |user: &str| {
        let mut command = connect(&place, user, &address);
        command.arg("--token-file").arg(place.path().join("token"));
        command
    };
    // Without a terminal, nobody is asked.
    let (code, error) = ended(&mut to("me"));
    assert_eq!(code, Some(5), "{error}");
    assert!(
        error.contains(&format!("--pin {pin} or --accept-new")),
        "{error}"
    );
    let client = Process::start(to("me").arg("--accept-new"));
    let line = line_with(&client.err, "is known from now on");
    assert!(line.contains(&pin), "{line}");
    line_with(&client.out, "proxy on ");
    let client = Process::start(&mut to("me"));
    line_with(&client.out, "proxy on ");
    drop((client, server));

    std::fs::remove_dir_all(place.path().join("identity")).unwrap();
    let (_server, new) = place.server();
    for more in [&[][..], &["--accept-new"]] {
        let (code, error) = ended(to("me").args(more));
        assert_eq!(code, Some(5), "{error}");
        let known = place.path().join("me/mpquic-bond/known_servers");
        for told in [
            &new,
            &pin,
            "NOT THE ONE",
            &format!("remove line 1 of {}", known.display()),
        ] {
            assert!(error.contains(told), "{told}: {error}");
        }
    }
}

#[test]
fn who_meets_a_server_is_asked() {
    // A terminal of its own, by util-linux.
    if Command::new("script").arg("--version").output().is_err() {
        return println!("left out: there is no `script` here");
    }
    let place = Place::new();
    let (_server, pin) = place.server();
    for (answer, is_known) in [("no", false), (pin.as_str(), true), ("yes", true)] {
        let user = place.path().join(answer.replace(':', "-"));
        let program = format!(
            "echo process $$; exec {} connect {} --local 127.0.0.1 --proxy 127.0.0.1:0 --token-file {}",
            env!("CARGO_BIN_EXE_mpquic-bond"),
            place.server,
            place.path().join("token").display()
        );
        let mut command = Command::new("script");
        command
            .args(["-qec", &program, "/dev/null"])
            .env("XDG_DATA_HOME", &user);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut keys = child.stdin.take().unwrap();
        keys.write_all(format!("what?\n{answer}\n").as_bytes())
            .unwrap();
        let out = lines(child.stdout.take().unwrap());
        let id = line_with(&out, "process ");
        let id = id.trim().strip_prefix("process ").unwrap().parse();
        let child = Held::new(child).with(id.unwrap());
        line_with(&out, "is met for the first time");
        line_with(
            &out,
            if is_known {
                "proxy on "
            } else {
                "cannot trust"
            },
        );
        // The end of its terminal.
        drop((keys, child));
        assert_eq!(
            user.join("mpquic-bond/known_servers").exists(),
            is_known,
            "{answer}"
        );
    }
}
