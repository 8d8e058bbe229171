//! Named users with folders and rights, tickets, and servers that a user has met.

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use mpquic_test_support::held::Held;

use crate::program::{PROGRAM, Place, arrived, fails, names, output, signal};

/// A command of a user, whose data is in a folder of this name.
fn of_user(place: &Place, user: &str, words: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.env("XDG_DATA_HOME", place.path(user)).args(words);
    output(command.stdin(Stdio::null()))
}

fn succeeds(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Shares something; gives the ticket.
fn share(place: &Place, words: &[&str]) -> (Held, String) {
    let mut command = Command::new(PROGRAM);
    command
        .arg("share")
        .args(words)
        .args(["--listen", "127.0.0.1:0"]);
    command.env("XDG_DATA_HOME", place.path("sharer"));
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = Held::new(piped.spawn().unwrap());
    let mut ticket = String::new();
    let out = child.stdout.take().unwrap();
    BufReader::new(out).read_line(&mut ticket).unwrap();
    (child, ticket.trim().to_owned())
}

#[test]
fn what_is_shared_needs_a_ticket_and_no_more() {
    let place = Place::new();
    std::fs::write(place.path("far/film"), vec![3; 300_000]).unwrap();
    std::fs::write(place.path("far/film2"), "not shared").unwrap();
    let (_sharing, ticket) = share(&place, &[&place.text("far/film")]);
    assert!(ticket.starts_with("mpcp1"), "{ticket}");
    let target = place.text("near/film");
    succeeds(&of_user(&place, "me", &["get", &ticket, &target]));
    assert_eq!(std::fs::read(&target).unwrap(), vec![3; 300_000]);
    // Once more on the same device, under its own name in the folder where one is.
    let mut again = Command::new(PROGRAM);
    again
        .env("XDG_DATA_HOME", place.path("me"))
        .current_dir(place.path(""));
    succeeds(&output(again.args(["get", &ticket])));
    assert_eq!(std::fs::read(place.path("film")).unwrap(), vec![3; 300_000]);
    // Nothing else of its folder.
    for name in [".", "film2"] {
        let listed = of_user(&place, "me", &["ls", &ticket, name]);
        fails(&listed, 7, "no such file or folder");
    }
    assert!(succeeds(&of_user(&place, "me", &["ls", &ticket, "film"])).contains("300000"));
    let put = of_user(&place, "me", &["put", &ticket, &target, "film"]);
    fails(&put, 7, "this server is read-only");
    // Whoever comes later with it.
    let thief = of_user(
        &place,
        "thief",
        &["get", &ticket, &place.text("near/stolen")],
    );
    fails(&thief, 6, "used already, and is good on 1 device only");
    assert!(!place.path("near/stolen").exists());
    fails(
        &of_user(&place, "me", &["get", &ticket, "film", "here"]),
        2,
        "says what it is for",
    );
    let (mut sharing, _) = share(&place, &[&place.text("far"), "--valid", "100ms", "--qr"]);
    assert!(sharing.wait().unwrap().success());
}

fn invite(place: &Place, address: &str, name: &str, more: &[&str]) -> String {
    let (users, identity) = (place.text("users.toml"), place.text("identity"));
    let flags = [
        "--users",
        &users,
        "--identity",
        &identity,
        "--address",
        address,
    ];
    let invited = of_user(
        place,
        "admin",
        &[&["invite", name][..], &flags, more].concat(),
    );
    succeeds(&invited).trim().to_owned()
}

#[test]
fn a_user_has_a_folder_rights_and_an_end() {
    let place = Place::new();
    for (file, text) in [("far/alice/a", "of alice"), ("far/bob/b", "of bob")] {
        std::fs::create_dir_all(place.path(file).parent().unwrap()).unwrap();
        std::fs::write(place.path(file), text).unwrap();
    }
    std::fs::write(place.path("users.toml"), "# ours\n").unwrap();
    let log = place.path("log");
    let mut command = Command::new("sh");
    let script = format!("exec \"$0\" \"$@\" 2>\"{}\"", log.display());
    command.args(["-c", &script, PROGRAM]);
    let server = place.server_by(command, &["--users", &place.text("users.toml")]);
    // Both are added while it runs.
    let alice = invite(&place, &server.address, "alice", &["--folder", "alice"]);
    let rights = [
        "--folder", "bob", "--right", "get", "--right", "put", "--rate", "1MB",
    ];
    let bob = invite(&place, &server.address, "bob", &rights);

    let listed = succeeds(&of_user(&place, "alice", &["ls", &alice, "--recursive"]));
    assert_eq!(listed.split_whitespace().collect::<Vec<_>>(), ["8", "a"]);
    let outside = of_user(
        &place,
        "alice",
        &["get", &alice, "../bob/b", &place.text("near/b")],
    );
    assert_eq!(outside.status.code(), Some(2), "{outside:?}");
    let source = place.text("near/c");
    std::fs::write(&source, vec![1; 1_500_000]).unwrap();
    let put = of_user(&place, "alice", &["put", &alice, &source, "c"]);
    fails(&put, 7, "read-only");
    let begun = Instant::now();
    succeeds(&of_user(&place, "bob", &["put", &bob, &source, "c"]));
    // A tenth of a second passes at once.
    assert!(
        begun.elapsed().as_secs_f64() > 1.35,
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(
        std::fs::read(place.path("far/bob/c")).unwrap().len(),
        1_500_000
    );
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(
        text.contains("(bob): got c: 1500000 of 1500000 bytes"),
        "{text}"
    );
    assert!(!text.contains(&bob) && !text.contains(&alice), "{text}");

    let users = place.text("users.toml");
    let revoked = of_user(&place, "admin", &["revoke", "alice", "--users", &users]);
    assert!(revoked.status.success(), "{revoked:?}");
    signal(&server.child, "HUP");
    let refused = of_user(&place, "alice", &["ls", &alice]);
    fails(&refused, 6, "wrong token, or one that was revoked");
    let text = std::fs::read_to_string(&users).unwrap();
    assert!(
        text.contains("# ours\n") && text.contains("[users.bob]"),
        "{text}"
    );
    assert!(!text.contains("alice"), "{text}");
    // A folder outside of the one that is served.
    let identity = place.text("identity");
    let wrong = of_user(
        &place,
        "admin",
        &[
            "invite",
            "eve",
            "--users",
            &users,
            "--folder",
            "..",
            "--identity",
            &identity,
            "--address",
            "a",
        ],
    );
    fails(&wrong, 2, "is not below the folder that is served");
}

#[test]
fn who_is_revoked_in_the_middle_of_a_transfer_is_told_and_nothing_has_its_name() {
    let place = Place::new();
    for name in ["alice", "bob", "carol"] {
        for side in ["far", "near"] {
            std::fs::create_dir(place.path(side).join(name)).unwrap();
        }
    }
    let large = vec![7; 30_000_000];
    std::fs::write(place.path("large"), &large).unwrap();
    std::fs::write(place.path("far/carol/large"), &large).unwrap();
    std::fs::write(place.path("far/bob/file"), &large[..3_000_000]).unwrap();
    let users = place.text("users.toml");
    std::fs::write(&users, "").unwrap();
    let log = place.path("log");
    let mut command = Command::new("sh");
    let script = format!("exec \"$0\" \"$@\" 2>\"{}\"", log.display());
    command.args(["-c", &script, PROGRAM]);
    let server = place.server_by(command, &["--users", &users]);
    let ticket = |name: &str, right: &str| {
        let words = ["--folder", name, "--right", right, "--rate", "1MB"];
        invite(&place, &server.address, name, &words)
    };
    let (alice, bob, carol) = (
        ticket("alice", "put"),
        ticket("bob", "get"),
        ticket("carol", "get"),
    );
    let (source, target, of_bob) = (
        place.text("large"),
        place.text("near/carol/large"),
        place.text("near/bob/file"),
    );

    std::thread::scope(|threads| {
        let run = |user: &'static str, words: Vec<String>| {
            let place = &place;
            threads.spawn(move || {
                let words: Vec<_> = words.iter().map(String::as_str).collect();
                of_user(place, user, &words)
            })
        };
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        let putting = run("alice", words(&["put", &alice, &source, "large"]));
        let getting = run(
            "carol",
            words(&["get", &carol, "large", &target, "--retry", "1m"]),
        );
        let unharmed = run("bob", words(&["get", &bob, "file", &of_bob]));
        for folder in ["far/alice", "near/carol", "near/bob"] {
            arrived(&place.path(folder), 200_000);
        }
        for name in ["alice", "carol"] {
            succeeds(&of_user(
                &place,
                "admin",
                &["revoke", name, "--users", &users],
            ));
        }
        signal(&server.child, "HUP");
        // No other attempt either, whatever --retry says.
        for ended in [putting, getting] {
            let told = "the server takes this client no longer: this token was revoked";
            fails(&ended.join().unwrap(), 6, told);
        }
        succeeds(&unharmed.join().unwrap());
    });
    for folder in ["far/alice", "near/carol"] {
        // What came is hidden, for the same command with another ticket.
        let left = names(&place.path(folder));
        let is_hidden = |name: &String| name.starts_with(".mpquic-") && name.ends_with(".part");
        assert!(
            left.len() == 1 && left.iter().all(is_hidden),
            "{folder}: {left:?}"
        );
    }
    assert_eq!(std::fs::read(of_bob).unwrap(), &large[..3_000_000]);
    let text = std::fs::read_to_string(&log).unwrap();
    for name in ["alice", "carol"] {
        let told = format!("({name}): closed: this token was revoked");
        assert!(text.contains(&told), "{text}");
    }
}

#[test]
fn a_server_is_known_after_it_was_met() {
    let place = Place::new();
    std::fs::write(place.path("far/a"), "1").unwrap();
    let server = place.server(&[]);
    let ls = |more: &[&str]| of_user(&place, "me", &[&["ls", &server.address][..], more].concat());
    fails(&ls(&[]), 5, "or --accept-new");
    assert!(succeeds(&ls(&["--accept-new"])).contains('a'));
    assert!(succeeds(&ls(&[])).contains('a'));
    let address = server.address.clone();
    drop(server);
    std::fs::remove_dir_all(place.path("identity")).unwrap();
    let other = place.server_on(&address);
    for more in [&[][..], &["--accept-new"]] {
        fails(
            &ls_of(&place, &other.address, more),
            5,
            "THE SERVER IS NOT THE ONE THAT IT WAS",
        );
    }
}

fn ls_of(place: &Place, address: &str, more: &[&str]) -> Output {
    of_user(place, "me", &[&["ls", address][..], more].concat())
}

#[test]
fn a_limit_of_the_rate_is_kept() {
    let place = Place::new();
    std::fs::write(place.path("far/a"), vec![1; 1_500_000]).unwrap();
    let server = place.server(&[]);
    let begun = Instant::now();
    let target = place.text("near/a");
    let words = [
        "get",
        &server.address,
        "a",
        &target,
        "--pin",
        &server.pin,
        "--bwlimit",
        "8Mbit",
    ];
    succeeds(&of_user(&place, "me", &words));
    assert!(
        begun.elapsed().as_secs_f64() > 1.35,
        "{:?}",
        begun.elapsed()
    );
    let wrong = of_user(&place, "me", &["get", "x", "y", "--bwlimit", "fast"]);
    assert_eq!(wrong.status.code(), Some(2));
}
