//! Several sources, and `-` for standard input and output: as the guide types them.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use mpquic_test_support::held::Held;

use crate::program::{PROGRAM, Place, Served, arrived, fails, names, program, relay};

fn tried(server: &Served, token: &str, words: &[&str]) -> Output {
    let known = ["--pin", &server.pin, "--token-file", token];
    program(&[&[words[0], &server.address][..], &words[1..], &known].concat())
}

/// With this as its standard input.
fn fed(server: &Served, token: &str, words: &[&str], input: &[u8]) -> Output {
    let known = ["--pin", &server.pin, "--token-file", token];
    let mut command = Command::new(PROGRAM);
    command.args([&[words[0], &server.address][..], &words[1..], &known].concat());
    let piped = Stdio::piped;
    command.stdin(piped()).stdout(piped()).stderr(piped());
    let mut child = Held::new(command.spawn().unwrap());
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    // It may refuse to read.
    let feeding = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.output().unwrap();
    feeding.join().unwrap();
    output
}

#[test]
fn several_go_into_one_folder() {
    let place = Place::new();
    let token = place.text("token");
    fs::create_dir_all(place.path("far/d/e")).unwrap();
    for name in ["a", "b", "d/c", "d/e/f"] {
        fs::write(place.path("far").join(name), name).unwrap();
    }
    let server = place.server(&["--token-file", &token, "--allow-put"]);
    let near = place.path("near");
    let to = place.text("near/all");
    let done = tried(&server, &token, &["get", "a", "d", "b", &to]);
    assert!(done.status.success(), "{done:?}");
    assert_eq!(names(&near.join("all")), ["a", "b", "d"]);
    assert_eq!(fs::read_to_string(near.join("all/d/e/f")).unwrap(), "d/e/f");
    let printed = String::from_utf8(done.stdout).unwrap();
    assert!(printed.starts_with("4 files, 10 B"), "{printed}");
    // One that there is not leaves the others as they are.
    let more = place.text("near/more");
    let done = tried(&server, &token, &["get", "a", "none", "b", &more]);
    assert_eq!(done.status.code(), Some(23), "{done:?}");
    assert_eq!(names(&near.join("more")), ["a", "b"]);
    let told = String::from_utf8(done.stderr).unwrap();
    assert_eq!(told, "left out: none: no such file or folder\n");
    // Back, with the order of a plan.
    let (a, d) = (place.text("near/all/a"), place.text("near/all/d"));
    let plan = tried(&server, &token, &["put", &a, &d, "back/", "-n"]);
    let plan = String::from_utf8(plan.stdout).unwrap();
    assert_eq!(plan.lines().count(), 3, "{plan}");
    let done = tried(&server, &token, &["put", &a, &d, "back/"]);
    assert!(done.status.success(), "{done:?}");
    assert_eq!(names(&place.path("far/back")), ["a", "d"]);
    assert_eq!(names(&place.path("far/back/d")), ["c", "e"]);
    let twice = tried(&server, &token, &["get", "a", "back/a", &more]);
    fails(&twice, 2, "two are called a");
    let twice = tried(&server, &token, &["put", &a, &more, &a, "back"]);
    fails(&twice, 2, "two are called a");
}

#[test]
fn contents_come_from_a_program_and_go_to_one() {
    let place = Place::new();
    let token = place.text("token");
    let server = place.server(&["--token-file", &token, "--allow-put"]);
    let data: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    for (input, name) in [
        (&data[..], "in/large"),
        (b"", "empty"),
        (b"other", "in/large"),
    ] {
        let done = fed(&server, &token, &["put", "-", name], input);
        assert!(done.status.success(), "{done:?}");
        assert_eq!(fs::read(place.path("far").join(name)).unwrap(), input);
    }
    assert_eq!(
        names(&place.path("far/in")),
        ["large"],
        "nothing else is left"
    );
    fs::write(place.path("far/in/large"), &data).unwrap();
    let got = tried(&server, &token, &["get", "in/large", "-"]);
    assert!(
        got.status.success() && got.stdout == data,
        "{:?}",
        got.stderr
    );
    let told = String::from_utf8(got.stderr).unwrap();
    assert!(told.starts_with("1 file, 2.86 MiB"), "{told}");
    let refused = |words: &[&str], code, why: &str| {
        fails(&fed(&server, &token, words, b"x"), code, why);
    };
    refused(&["get", "in", "-"], 7, "it is a folder");
    refused(&["get", "in/large", "-", "--json"], 2, "no --json");
    refused(&["put", "-"], 2, "standard input has no name");
    refused(&["put", "-", "in"], 7, "it is a folder");
    refused(&["put", "-", "../x"], 2, "not a name below");
    drop(server);
    let server = place.server(&["--token-file", &token]);
    let done = fed(&server, &token, &["put", "-", "in/new"], &data);
    fails(&done, 7, "this server is read-only");
    assert_eq!(names(&place.path("far/in")), ["large"]);
}

#[test]
fn what_was_written_is_not_written_again_and_what_was_read_is_not_left() {
    let place = Place::new();
    let token = place.text("token");
    let data: Vec<u8> = (0..12_000_000_u32).map(|at| (at / 7 % 251) as u8).collect();
    fs::write(place.path("far/large"), &data).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _inside = runtime.enter();
    let free = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let listen = free.local_addr().unwrap().to_string();
    drop(free);
    let more = ["--token-file", &token, "--allow-put"];
    let by = |listen| place.server_telling(Command::new(PROGRAM), listen, &more, Stdio::null());
    let mut server = by(&listen);
    let relay = relay(&server);
    let at = relay.addr().to_string();
    let known = ["--pin", &server.pin.clone(), "--token-file", &token];
    let out = fs::File::create(place.path("near/out")).unwrap();
    let mut get = Command::new(PROGRAM);
    get.args([&["get", &at, "large", "-", "--retry", "1m"][..], &known].concat());
    get.stdout(out).stderr(Stdio::piped());
    let get = Held::new(get.spawn().unwrap());
    arrived(&place.path("near"), 3_000_000);
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let server = by(&listen);
    let got = get.output().unwrap();
    assert!(got.status.success(), "{got:?}");
    assert!(fs::read(place.path("near/out")).unwrap() == data);
    // A program that is stopped in the middle leaves nothing.
    let mut put = Command::new(PROGRAM);
    put.args([&["put", &at, "-", "piped"][..], &known].concat());
    put.stdin(Stdio::piped())
        .stderr(Stdio::null())
        .stdout(Stdio::null());
    let mut put = Held::new(put.spawn().unwrap());
    let mut stdin = put.stdin.take().unwrap();
    stdin.write_all(&data[..2_000_000]).unwrap();
    stdin.flush().unwrap();
    arrived_hidden(&place, 1_000_000);
    put.kill().unwrap();
    put.wait().unwrap();
    drop(stdin);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while names(&place.path("far")) != ["large"] {
        assert!(
            std::time::Instant::now() < until,
            "{:?}",
            names(&place.path("far"))
        );
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    drop(server);
}

/// Waits until what is not complete has so many bytes.
fn arrived_hidden(place: &Place, len: u64) {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let has = || {
        let hidden = names(&place.path("far"))
            .into_iter()
            .find(|name| name.starts_with(".mpquic-"));
        hidden.is_some_and(|name| {
            fs::metadata(place.path("far").join(name)).is_ok_and(|found| found.len() >= len)
        })
    };
    while !has() {
        assert!(std::time::Instant::now() < until, "nothing arrives");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
