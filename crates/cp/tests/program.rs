//! The program, as a user runs it: what it prints, and the exit code of each thing that goes wrong.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use mpquic_test_support::held::Held;
use tempfile::TempDir;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_mpquic-cp");
pub(crate) const WRONG_PIN: &str =
    "sha256:0000000000000000000000000000000000000000000000000000000000000000";

/// A server in a process of its own.
pub(crate) struct Served {
    pub(crate) child: Held,
    pub(crate) address: String,
    pub(crate) pin: String,
}

pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["far", "near"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        std::fs::write(folder.path().join("token"), "0123456789abcdef\n").unwrap();
        std::fs::write(folder.path().join("wrong"), "another secret than that\n").unwrap();
        Self(folder)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    pub(crate) fn server(&self, more: &[&str]) -> Served {
        self.server_by(Command::new(PROGRAM), more)
    }

    pub(crate) fn server_by(&self, command: Command, more: &[&str]) -> Served {
        self.server_at(command, "127.0.0.1:0", more)
    }

    /// On this address, at which another one was.
    pub(crate) fn server_on(&self, listen: &str) -> Served {
        self.server_at(Command::new(PROGRAM), listen, &[])
    }

    fn server_at(&self, command: Command, listen: &str, more: &[&str]) -> Served {
        self.server_telling(command, listen, more, Stdio::null())
    }

    /// A server with this standard error.
    pub(crate) fn server_telling(
        &self,
        mut command: Command,
        listen: &str,
        more: &[&str],
        stderr: Stdio,
    ) -> Served {
        command.args(["serve", "--listen", listen]);
        command.arg("--root").arg(self.path("far"));
        command.arg("--identity").arg(self.path("identity"));
        command.args(more).stdout(Stdio::piped()).stderr(stderr);
        let mut child = Held::new(command.spawn().unwrap());
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut after = |what: &str| {
            let line = lines.next().unwrap().unwrap();
            line.strip_prefix(what)
                .unwrap_or_else(|| panic!("{line}"))
                .to_owned()
        };
        Served {
            address: after("listening on "),
            pin: after("fingerprint "),
            child,
        }
    }
}

pub(crate) fn program(arguments: &[&str]) -> Output {
    output(Command::new(PROGRAM).args(arguments))
}

/// What a command prints until it ends.
pub(crate) fn output(command: &mut Command) -> Output {
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    Held::new(piped.spawn().unwrap()).output().unwrap()
}

/// The program under a limit on the size of files, as a disk that is full has.
fn limited(blocks: u32) -> Command {
    let mut command = Command::new("sh");
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    command.args(["-c", &script, PROGRAM]);
    command
}

/// One line that begins with `error: ` and contains `text`, and this code.
#[track_caller]
pub(crate) fn fails(output: &Output, code: i32, text: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    let line = stderr.strip_suffix('\n').unwrap_or(&stderr);
    assert!(
        line.starts_with("error: ") && !line.contains('\n'),
        "{stderr}"
    );
    assert!(line.contains(text), "{stderr}");
}

pub(crate) fn names(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn json(line: &str) -> serde_json::Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))
}

/// What came of it: the last line that `--json` prints.
pub(crate) fn last(printed: &str) -> serde_json::Value {
    let summary = json(printed.lines().next_back().unwrap());
    assert_eq!(summary["event"], "done", "{printed}");
    summary
}

#[test]
fn a_folder_there_and_back() {
    let place = Place::new();
    std::fs::create_dir(place.path("near/tree")).unwrap();
    std::fs::write(place.path("near/tree/one"), vec![1; 300_000]).unwrap();
    std::fs::write(place.path("near/tree/two"), "2").unwrap();
    let token = place.text("token");
    let server = place.server(&["--allow-put", "--token-file", &token]);
    let known = ["--pin", &server.pin, "--token-file", &token];
    let with = |arguments: &[&str]| {
        let done = program(&[arguments, &known].concat());
        let stderr = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{stderr}");
        String::from_utf8(done.stdout).unwrap()
    };
    let printed = with(&["put", &server.address, &place.text("near/tree")]);
    assert!(printed.starts_with("2 files, 292.97 KiB"), "{printed}");
    let listed = with(&["ls", &server.address, "--recursive"]);
    let lines: Vec<_> = listed.lines().map(str::trim).collect();
    assert_eq!(lines, ["tree/", "300000  tree/one", "1  tree/two"]);
    let keys = place.text("keys");
    let back = place.text("back");
    let got = with(&[
        "get",
        &server.address,
        "tree",
        &back,
        "--json",
        "--keylog",
        &keys,
        "--local",
        "127.0.0.1",
    ]);
    let events: Vec<_> = got.lines().map(json).collect();
    let files = events.iter().filter(|event| event["event"] == "file");
    let mut files: Vec<_> = files
        .map(|event| (event["name"].as_str(), event["size"].as_u64()))
        .collect();
    files.sort_unstable();
    assert_eq!(
        files,
        [
            (Some("tree/one"), Some(300_000)),
            (Some("tree/two"), Some(1))
        ]
    );
    let got = last(&got);
    assert_eq!((&got["files"], &got["moved"]), (&2.into(), &300_001.into()));
    assert_eq!(
        std::fs::read(place.path("back/one")).unwrap(),
        vec![1; 300_000]
    );
    assert_eq!(names(&place.path("back")), ["one", "two"]);
    // The same command again means the same place.
    let again = with(&["get", &server.address, "tree", &back, "--json"]);
    let again = last(&again);
    assert_eq!(
        (&again["unchanged"], &again["moved"]),
        (&2.into(), &0.into())
    );
    assert_eq!(names(&place.path("back")), ["one", "two"]);
    let keys = std::fs::read_to_string(keys).unwrap();
    assert!(keys.contains("CLIENT_TRAFFIC_SECRET_0 "), "{keys}");
}

#[test]
fn a_server_that_cannot_be_reached() {
    let unknown = program(&["ls", "host.invalid", "--pin", WRONG_PIN]);
    fails(&unknown, 3, "cannot resolve host.invalid:4433: ");
    // Nobody may send to all of a network without asking for it: the system says so at once.
    let nowhere = program(&["ls", "255.255.255.255:1", "--pin", WRONG_PIN]);
    fails(&nowhere, 4, "no route to 255.255.255.255:1: ");
    // A socket that takes all and says nothing.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    fails(
        &program(&["ls", &address, "--pin", WRONG_PIN]),
        4,
        "it does not answer",
    );
}

#[test]
fn a_server_or_a_client_that_is_not_trusted() {
    let place = Place::new();
    let token = place.text("token");
    let server = place.server(&["--token-file", &token]);
    let pinned = ["ls", &server.address, "--pin", WRONG_PIN];
    let expected = format!("fingerprint {}, and --pin expects {WRONG_PIN}", server.pin);
    fails(&program(&pinned), 5, &expected);
    // A certificate of its own is no authority for another name.
    let ca = place.text("identity/cert.pem");
    fails(
        &program(&["ls", &server.address, "--ca", &ca]),
        5,
        &format!("give --pin {}", server.pin),
    );
    let known = ["ls", &server.address, "--pin", &server.pin];
    let needed = "refuses this client: this server needs a token: give --token-file";
    fails(&program(&known), 6, needed);
    let wrong = place.text("wrong");
    let arguments = [&known[..], &["--token-file", &wrong]].concat();
    fails(&program(&arguments), 6, "refuses this client: wrong token");
}

#[test]
fn what_a_server_does_not_give_or_take() {
    let place = Place::new();
    std::os::unix::fs::symlink("/etc/passwd", place.path("far/link")).unwrap();
    std::fs::write(place.path("near/file"), "contents").unwrap();
    let server = place.server(&[]);
    let (near, file) = (place.text("near"), place.text("near/file"));
    let known = ["--pin", &server.pin];
    let denied = |arguments: &[&str], code, text: &str| {
        fails(&program(&[arguments, &known].concat()), code, text);
    };
    denied(
        &["put", &server.address, &file],
        7,
        "error: this server is read-only",
    );
    denied(
        &["get", &server.address, "none", &near],
        7,
        "error: none: no such file or folder",
    );
    denied(
        &["ls", &server.address, "--local", "203.0.113.7"],
        1,
        "error: cannot send from 203.0.113.7: ",
    );
    denied(
        &["get", &server.address, "link", &near],
        7,
        "error: link: permission denied",
    );
    denied(
        &["get", &server.address, "../file", &near],
        2,
        "not a name below the folder",
    );
    denied(
        &["get", &server.address, "/etc/passwd", &near],
        2,
        "not a name below",
    );
    assert_eq!(names(&place.path("near")), ["file"]);
    assert_eq!(names(&place.path("far")), ["link"]);
}

#[test]
fn a_disk_that_is_full() {
    let place = Place::new();
    std::fs::write(place.path("far/large"), vec![7; 2_000_000]).unwrap();
    std::fs::write(place.path("near/large"), vec![7; 2_000_000]).unwrap();
    let token = place.text("token");
    let arguments = ["--allow-put", "--token-file", &token];
    // Its log, its certificate and its key fit into 64 kB.
    let server = place.server_by(limited(128), &arguments);
    let known = ["--pin", &server.pin, "--token-file", &token];

    std::fs::create_dir(place.path("out")).unwrap();
    let out = place.text("out");
    let mut get = limited(128);
    get.args(["get", &server.address, "large", &out])
        .args(known);
    fails(&get.output().unwrap(), 8, "large: ");
    assert_eq!(names(&place.path("out")), [""; 0], "nothing is left of it");

    let near = place.text("near/large");
    let put = [&["put", &server.address, &near, "there"][..], &known].concat();
    fails(&program(&put), 8, "the server's disk");
    assert_eq!(names(&place.path("far")), ["large"]);

    // A file system that is really full, where one can be made.
    let small = place.path("small");
    std::fs::create_dir(&small).unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"])
        .arg(&small)
        .stderr(Stdio::null())
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        eprintln!("no tmpfs can be mounted here: the limit on files stands for it");
        return;
    }
    let get = ["get", &server.address, "large", &place.text("small")];
    let got = program(&[&get[..], &known].concat());
    let left = names(&small);
    assert!(
        Command::new("umount")
            .arg(&small)
            .status()
            .unwrap()
            .success()
    );
    fails(&got, 8, "No space left on device");
    assert_eq!(left, [""; 0], "nothing is left of it");
}

#[test]
fn servers_that_cannot_start() {
    let place = Place::new();
    let identity = place.text("identity");
    let serve = |more: &[&str]| {
        let first = ["serve", "--identity", &identity, "--listen", "127.0.0.1:0"];
        program(&[&first[..], more].concat())
    };
    let far = place.text("far");
    fails(
        &serve(&["--root", &far, "--allow-put"]),
        2,
        "anybody could write here",
    );
    fails(&serve(&["--root", &place.text("none")]), 8, "none: ");
    fails(
        &serve(&["--root", &place.text("")]),
        2,
        "the server's key would be among the files",
    );
    fails(
        &serve(&["--root", &far, "--scheduler", "nope"]),
        2,
        "unknown scheduler `nope`",
    );
    // An address for documentation, which no machine has.
    let output = program(&[
        "serve",
        "--identity",
        &identity,
        "--root",
        &far,
        "--listen",
        "203.0.113.7:1",
    ]);
    fails(&output, 1, "cannot listen on 203.0.113.7:1");
    let usage = program(&["serve", "--cert", "file"]);
    assert_eq!(usage.status.code(), Some(2));
    let help = program(&["--help"]);
    let help = String::from_utf8(help.stdout).unwrap();
    assert!(
        help.contains("Examples:") && help.contains("Exit code:"),
        "{help}"
    );
}

pub(crate) fn signal(child: &Child, name: &str) {
    let id = child.id().to_string();
    let sent = Command::new("kill").args(["-s", name, &id]).status();
    assert!(sent.unwrap().success());
}

/// What a client has printed, which runs in a thread.
pub(crate) type Run = std::thread::JoinHandle<Output>;

pub(crate) fn in_background(arguments: &[&str]) -> Run {
    let mut command = Command::new(PROGRAM);
    command.args(arguments);
    std::thread::spawn(move || output(&mut command))
}

/// A link before a server, slow enough for something to happen in the middle of a transfer.
pub(crate) fn relay(server: &Served) -> mpquic_sim::Relay {
    let link = mpquic_sim::LinkConfig::new(20_000_000, std::time::Duration::from_millis(5));
    let listen = "127.0.0.1:0".parse().unwrap();
    let server = server.address.parse().unwrap();
    mpquic_sim::Relay::spawn(listen, server, link.clone(), link, 1).unwrap()
}

/// Waits until a file in this folder has so many bytes, complete or not.
pub(crate) fn arrived(folder: &Path, len: u64) {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let has = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.is_ok_and(|entry| entry.metadata().is_ok_and(|found| found.len() >= len))
    };
    while !std::fs::read_dir(folder).is_ok_and(|mut entries| entries.any(has)) {
        assert!(std::time::Instant::now() < until, "nothing arrives");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn both_signals_stop_both_sides_and_the_other_is_told() {
    let place = Place::new();
    std::fs::write(place.path("far/large"), vec![7; 30_000_000]).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _inside = runtime.enter();
    for (name, code) in [("TERM", 143), ("INT", 130)] {
        let mut server = place.server(&[]);
        let relay = relay(&server);
        let (at, to) = (relay.addr().to_string(), place.text(name));
        let client = in_background(&["get", &at, "large", &to, "--pin", &server.pin]);
        arrived(&place.path(""), 1_000_000);
        signal(&server.child, name);
        assert_eq!(server.child.wait().unwrap().code(), Some(0));
        let told = client.join().unwrap();
        fails(&told, 9, "(the server stops); the same command goes on");

        let server = place.server(&[]);
        let relay = self::relay(&server);
        let at = relay.addr().to_string();
        let mut client = Command::new(PROGRAM);
        client.args(["get", &at, "large", &to, "--pin", &server.pin]);
        let mut client = Held::new(client.spawn().unwrap());
        arrived(&place.path(""), 4_000_000);
        signal(&client, name);
        assert_eq!(client.wait().unwrap().code(), Some(code));
        for entry in std::fs::read_dir(place.path("")).unwrap() {
            // What is not complete of the other signal's.
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|end| end == "part") {
                std::fs::remove_file(path).unwrap();
            }
        }
    }
}

#[test]
fn a_server_that_was_killed_is_found_again() {
    let place = Place::new();
    let data = vec![7; 20_000_000];
    std::fs::write(place.path("far/large"), &data).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _inside = runtime.enter();
    // A port that nobody has: the new server must have that of the one before.
    let free = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let listen = free.local_addr().unwrap().to_string();
    drop(free);
    let mut server = place.server_at(Command::new(PROGRAM), &listen, &[]);
    let relay = relay(&server);
    let (at, to) = (relay.addr().to_string(), place.text("out"));
    let get = [
        "get",
        &at,
        "large",
        &to,
        "--pin",
        &server.pin,
        "--retry",
        "1m",
        "--json",
    ];
    let mut client = Command::new(PROGRAM);
    let piped = client
        .args(get)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut client = Held::new(piped.spawn().unwrap());
    let told = BufReader::new(client.stderr.take().unwrap());
    let told = std::thread::spawn(move || -> Vec<_> {
        let lines = told.lines().map(Result::unwrap);
        lines
            .map(|line| (line, std::time::Instant::now()))
            .collect()
    });
    arrived(&place.path(""), 5_000_000);
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let _server = place.server_at(Command::new(PROGRAM), &listen, &[]);
    let back = std::time::Instant::now();
    let done = client.output().unwrap();
    let told = told.join().unwrap();
    let lines: Vec<_> = told.iter().map(|(line, _)| line.as_str()).collect();
    assert!(done.status.success(), "{lines:?}");
    assert!(std::fs::read(place.path("out")).unwrap() == data);
    let expected = [
        "the connection is lost: reset by the peer; trying again for 1m",
        "connected again",
    ];
    assert_eq!(lines, expected);
    // Neither after its idle timeout of 30 s nor after its keep-alive interval of 8 s.
    let [noticed, took] = [0, 1].map(|line: usize| told[line].1.saturating_duration_since(back));
    println!("noticed after {noticed:?}, back after {took:?}");
    assert!(took < std::time::Duration::from_secs(3), "{took:?}");
    let out = String::from_utf8_lossy(&done.stdout);
    // Nothing of it was transferred twice but what was on its way.
    let summary = last(&out);
    assert!(summary["moved"].as_u64().unwrap() < 22_000_000, "{summary}");
}

#[test]
fn what_vanishes_before_its_turn_has_a_code_of_its_own() {
    let place = Place::new();
    let tree = place.path("far/tree");
    std::fs::create_dir(&tree).unwrap();
    let all: Vec<_> = (10..30).map(|number| format!("file{number}")).collect();
    for name in &all {
        std::fs::write(tree.join(name), vec![7; 1_000_000]).unwrap();
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _inside = runtime.enter();
    let server = place.server(&[]);
    let relay = relay(&server);
    let (at, to) = (relay.addr().to_string(), place.text("near/tree"));
    let client = in_background(&["get", &at, "tree", &to, "--pin", &server.pin]);
    // Fourteen are copied at a time: they are open, and arrive. The others wait.
    arrived(&place.path("near/tree"), 100_000);
    for name in &all {
        std::fs::remove_file(tree.join(name)).unwrap();
    }
    let done = client.join().unwrap();
    assert_eq!(done.status.code(), Some(24), "{done:?}");
    let there = names(&place.path("near/tree"));
    assert!((1..=14).contains(&there.len()), "{there:?}");
    for name in &there {
        let found = std::fs::read(place.path("near/tree").join(name)).unwrap();
        assert!(found == vec![7; 1_000_000], "{name}");
    }
    let gone = all.iter().filter(|name| !there.contains(name));
    let told: Vec<_> = gone
        .map(|name| format!("left out: tree/{name}: no such file or folder"))
        .collect();
    assert_eq!(lines_of(&done.stderr), told);
    let summary = String::from_utf8_lossy(&done.stdout).into_owned();
    let left = format!("  {} left out", told.len());
    assert!(summary.contains(&left), "{summary}");
}

#[cfg(target_os = "linux")]
#[test]
fn lines_that_cannot_be_written_end_nothing() {
    let full = || {
        std::fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap()
    };
    let place = Place::new();
    std::fs::write(place.path("far/file"), "contents").unwrap();
    std::os::unix::fs::symlink("none", place.path("far/link")).unwrap();
    let mut serve = Command::new(PROGRAM);
    serve
        .args(["serve", "--listen", "127.0.0.1:0", "--root"])
        .arg(place.path("far"))
        .arg("--identity")
        .arg(place.path("identity"))
        .stdout(Stdio::piped())
        .stderr(full());
    let mut child = Held::new(serve.spawn().unwrap());
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut after = |what: &str| {
        lines
            .next()
            .unwrap()
            .unwrap()
            .strip_prefix(what)
            .unwrap()
            .to_owned()
    };
    let (address, pin) = (after("listening on "), after("fingerprint "));
    // Nor do its lines have a reader any more.
    drop(lines);
    for _ in 0..2 {
        let listed = program(&["ls", &address, "file", "--pin", &pin]);
        assert!(listed.status.success(), "{listed:?}");
    }
    for (role, code) in [("ls", 23), ("get", 23)] {
        let mut client = Command::new(PROGRAM);
        client.args([role, &address, ".", "--pin", &pin]);
        let done = client
            .current_dir(place.path("near"))
            .stdout(full())
            .stderr(full())
            .status();
        assert_eq!(done.unwrap().code(), Some(code), "{role}");
    }
    assert_eq!(names(&place.path("near")), ["file"]);
    let unreachable = Command::new(PROGRAM)
        .args(["ls", "host.invalid"])
        .stderr(full())
        .status();
    assert_eq!(unreachable.unwrap().code(), Some(3));
    signal(&child, "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// The program without root's rights, before which no permission stops.
fn as_nobody() -> Command {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|found| {
        use std::os::unix::fs::MetadataExt as _;
        found.uid() == 0
    });
    if !is_root {
        return Command::new(PROGRAM);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", PROGRAM]);
    command
}

pub(crate) fn lines_of(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines: Vec<_> = text.lines().map(ToOwned::to_owned).collect();
    lines.sort();
    lines
}

/// A tree with all that cannot be copied, and what can be. Returns the names of that.
fn odd_tree(folder: &Path) -> Vec<String> {
    use std::os::unix::ffi::OsStringExt as _;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    std::fs::create_dir_all(folder.join("deep/er")).unwrap();
    std::fs::create_dir(folder.join("locked")).unwrap();
    let long = |last: &str| format!("{}{last}", "n".repeat(255 - last.len()));
    let wide = "\u{65e5}".repeat(85);
    let good = [
        "deep/er/last".to_owned(),
        "deep/own.mpquic.part".to_owned(),
        ".mpquic-own.part".to_owned(),
        long("1"),
        format!("deep/{}", long("2")),
        wide,
        "plain".to_owned(),
    ];
    for name in good
        .iter()
        .map(String::as_str)
        .chain(["secret", "locked/inside"])
    {
        std::fs::write(folder.join(name), name).unwrap();
    }
    let bad = std::ffi::OsString::from_vec(b"bad\xffname".to_vec());
    std::fs::write(folder.join(bad), "").unwrap();
    symlink("nowhere", folder.join("dangling")).unwrap();
    symlink("deep", folder.join("way")).unwrap();
    symlink("/etc/passwd", folder.join("out")).unwrap();
    symlink("plain", folder.join("deep/copy")).unwrap();
    std::fs::remove_file(folder.join("deep/copy")).unwrap();
    symlink("../plain", folder.join("deep/copy")).unwrap();
    let made = Command::new("mkfifo").arg(folder.join("pipe")).status();
    assert!(made.unwrap().success());
    for (name, mode) in [("secret", 0), ("locked", 0)] {
        std::fs::set_permissions(folder.join(name), std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let mut good = good.to_vec();
    good.push("deep/copy".to_owned());
    good
}

#[test]
fn what_cannot_be_copied_is_named_and_all_else_arrives() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new();
    let open = |name: &str, mode| {
        std::fs::set_permissions(place.path(name), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    for name in ["near", "far"] {
        open(name, 0o777);
    }
    open("", 0o777);
    open("token", 0o644);
    let token = place.text("token");
    let server = place.server_by(as_nobody(), &["--allow-put", "--token-file", &token]);
    let known = ["--pin", &server.pin, "--token-file", &token];
    let run = |arguments: &[&str]| as_nobody().args(arguments).args(known).output().unwrap();
    let told = |of: &str| {
        let left = |name: &str, why: &str| format!("left out: {of}{name}: {why}");
        let mut told = vec![
            left("bad\\xffname", "its name is not UTF-8"),
            left("dangling", "a link that leads nowhere"),
            left("locked", "Permission denied (os error 13)"),
            left("out", "a link that leads out of the folder"),
            left("pipe", "neither a file nor a folder"),
            left("way", "a link to a folder: --links copies links as links"),
        ];
        told.sort();
        told
    };
    let complete = |folder: &Path, good: &[String]| {
        for name in good {
            let wanted = if name == "deep/copy" { "plain" } else { name };
            let found = std::fs::read_to_string(folder.join(name));
            assert_eq!(
                found.unwrap_or_else(|error| panic!("{name}: {error}")),
                wanted
            );
        }
        assert!(!folder.join("secret").exists() && !folder.join("out").exists());
    };

    let good = odd_tree(&place.path("far/odd"));
    let (got, there) = (place.text("near/got"), place.text("near/odd"));
    let done = run(&["get", &server.address, "odd", &got]);
    let mut expected = told("odd/");
    expected.push("left out: odd/secret: permission denied".to_owned());
    expected.sort();
    assert_eq!(lines_of(&done.stderr), expected);
    assert_eq!(done.status.code(), Some(23));
    complete(&place.path("near/got"), &good);
    let summary = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(
        summary.starts_with("8 files, ") && summary.contains("  7 left out"),
        "{summary}"
    );

    let listed = run(&["ls", &server.address, "odd", "-r"]);
    assert_eq!(lines_of(&listed.stderr), told("odd/"));
    assert_eq!(listed.status.code(), Some(23));
    assert!(String::from_utf8_lossy(&listed.stdout).contains("odd/deep/er/last"));
    let shallow = run(&["ls", &server.address, "odd"]);
    let not_deep: Vec<_> = told("odd/")
        .into_iter()
        .filter(|line| !line.contains("locked"))
        .collect();
    assert_eq!(lines_of(&shallow.stderr), not_deep);
    assert_eq!(shallow.status.code(), Some(23));

    let good = odd_tree(&place.path("near/odd"));
    let done = run(&["put", &server.address, &there, "in/"]);
    let mut expected = told("");
    expected.push(format!(
        "left out: {there}/secret: Permission denied (os error 13)"
    ));
    expected.sort();
    assert_eq!(lines_of(&done.stderr), expected);
    assert_eq!(done.status.code(), Some(23));
    complete(&place.path("far/in/odd"), &good);

    // What is asked for by itself has the code of before.
    let alone = run(&["get", &server.address, "odd/secret", &got]);
    fails(&alone, 7, "odd/secret: permission denied");
    open("far/odd/locked", 0o755);
    open("near/odd/locked", 0o755);
}

#[test]
fn permissions_links_and_newer_files() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let place = Place::new();
    let tree = place.path("far/tree");
    std::fs::create_dir_all(tree.join("inside")).unwrap();
    let modes = [
        ("run.sh", 0o755),
        ("private", 0o600),
        ("setuid", 0o4755),
        ("inside/read", 0o444),
    ];
    for (name, bits) in modes {
        std::fs::write(tree.join(name), name).unwrap();
        std::fs::set_permissions(tree.join(name), std::fs::Permissions::from_mode(bits)).unwrap();
    }
    symlink("run.sh", tree.join("file link")).unwrap();
    symlink("inside", tree.join("folder link")).unwrap();
    symlink("../run.sh", tree.join("inside/up")).unwrap();
    symlink("../../private", tree.join("inside/out")).unwrap();
    std::fs::set_permissions(tree.join("inside"), std::fs::Permissions::from_mode(0o550)).unwrap();
    let token = place.text("token");
    let server = place.server(&["--allow-put", "--token-file", &token]);
    let known = ["--pin", &server.pin, "--token-file", &token];
    let run = |arguments: &[&str]| program(&[arguments, &known].concat());
    let (links, plain) = (place.text("near/links"), place.text("near/plain"));

    let check = |folder: &Path| {
        for (name, bits) in modes {
            assert_eq!(mode(&folder.join(name)), bits & 0o777, "{name}");
        }
        assert_eq!(mode(&folder.join("inside")), 0o550);
        for (name, target) in [
            ("file link", "run.sh"),
            ("folder link", "inside"),
            ("inside/up", "../run.sh"),
        ] {
            assert_eq!(
                std::fs::read_link(folder.join(name)).unwrap(),
                Path::new(target)
            );
        }
        assert!(std::fs::symlink_metadata(folder.join("inside/out")).is_err());
    };
    for _ in 0..2 {
        let got = run(&["get", &server.address, "tree", &links, "--links"]);
        let told = ["left out: tree/inside/out: a link that leads out of the folder"];
        assert_eq!(lines_of(&got.stderr), told);
        assert_eq!(got.status.code(), Some(23));
        check(&place.path("near/links"));
    }
    let put = run(&["put", &server.address, &links, "back", "--links"]);
    assert_eq!(put.status.code(), Some(0), "{put:?}");
    check(&place.path("far/back"));
    let got = run(&["get", &server.address, "tree", &plain, "--no-perms"]);
    assert_eq!(got.status.code(), Some(23));
    std::fs::write(place.path("near/new"), "").unwrap();
    let usual = mode(&place.path("near/new"));
    assert_eq!(mode(&place.path("near/plain/run.sh")), usual);
    assert!(
        place
            .path("near/plain/file link")
            .symlink_metadata()
            .unwrap()
            .is_file()
    );

    // A file that was changed here stays, and is named, until it may be replaced; likewise on the server.
    let (mine, theirs) = (
        place.path("near/plain/private"),
        place.path("far/back/run.sh"),
    );
    for changed in [&mine, &theirs] {
        std::fs::write(changed, "changed later").unwrap();
    }
    let got = run(&["get", &server.address, "tree/private", &plain]);
    fails(
        &got,
        23,
        "private: the file here is newer: --overwrite replaces it",
    );
    let got = run(&["get", &server.address, "tree", &plain]);
    assert_eq!(got.status.code(), Some(23));
    let told = String::from_utf8_lossy(&got.stderr);
    assert!(
        told.contains("plain/private: the file here is newer: --overwrite replaces it"),
        "{told}"
    );
    assert_eq!(std::fs::read(&mine).unwrap(), b"changed later");
    let put = run(&["put", &server.address, &links, "back", "--links"]);
    let told = ["left out: back/run.sh: the file there is newer: --overwrite replaces it"];
    assert_eq!(
        (lines_of(&put.stderr), put.status.code()),
        (told.map(ToOwned::to_owned).to_vec(), Some(23))
    );
    assert_eq!(std::fs::read(&theirs).unwrap(), b"changed later");
    let got = run(&["get", &server.address, "tree/private", &plain, "--force"]);
    assert_eq!(got.status.code(), Some(0), "{got:?}");
    assert_eq!(std::fs::read(&mine).unwrap(), b"private");
    let put = run(&[
        "put",
        &server.address,
        &links,
        "back",
        "--links",
        "--overwrite",
    ]);
    assert_eq!(put.status.code(), Some(0), "{put:?}");
    assert_eq!(std::fs::read(&theirs).unwrap(), b"run.sh");
}

#[test]
fn secrets_are_not_served() {
    let place = Place::new();
    let made = place.server(&[]);
    drop(made);
    let (cert, key) = (
        place.text("identity/cert.pem"),
        place.text("identity/key.pem"),
    );
    let far = place.text("far");
    for name in ["key.pem", "token"] {
        std::fs::copy(&key, place.path("far").join(name)).unwrap();
    }
    let refused = |more: &[&str], what: &str| {
        let first = ["serve", "--root", &far, "--listen", "127.0.0.1:0"];
        fails(&program(&[&first[..], more].concat()), 2, what);
    };
    let inside = |name: &str| place.text(&format!("far/{name}"));
    refused(
        &["--cert", &cert, "--key", &inside("key.pem")],
        "the server's key would be among",
    );
    let own = ["--cert", &cert, "--key", &key];
    refused(
        &[&own[..], &["--token-file", &inside("token")]].concat(),
        "the token would be among",
    );
    refused(
        &[&own[..], &["--keylog", &inside("new/keys")]].concat(),
        "the secrets of connections would be",
    );
    refused(
        &["--identity", &inside("identity")],
        "the server's key would be among",
    );
    assert_eq!(
        names(&place.path("far")),
        ["key.pem", "token"],
        "nothing was written there"
    );

    let (token, keys) = (place.text("token"), place.text("keys"));
    let server = place.server(&["--token-file", &token, "--keylog", &keys]);
    let known = ["--pin", &server.pin, "--token-file", &token];
    std::fs::hard_link(&key, place.path("far/one")).unwrap();
    std::fs::hard_link(&token, place.path("far/two")).unwrap();
    std::fs::rename(&keys, place.path("far/three")).unwrap();
    let near = place.text("near");
    for name in ["one", "two", "three"] {
        let get = ["get", &server.address, name, &near];
        fails(
            &program(&[&get[..], &known].concat()),
            7,
            "permission denied",
        );
    }
    let all = program(&[&["get", &server.address, ".", &near][..], &known].concat());
    assert_eq!(all.status.code(), Some(23));
    assert_eq!(
        names(&place.path("near")),
        ["key.pem", "token"],
        "those are others"
    );
}

#[test]
fn options_without_effect_are_told() {
    let place = Place::new();
    std::fs::write(place.path("far/file"), "contents").unwrap();
    let server = place.server(&[]);
    let near = place.text("near");
    for arguments in [
        &["ls", &server.address, "--scheduler", "ecf"][..],
        &["get", &server.address, "file", &near, "--scheduler", "ecf"],
    ] {
        let done = program(&[arguments, &["--pin", &server.pin]].concat());
        assert!(done.status.success(), "{done:?}");
        let told = lines_of(&done.stderr);
        assert!(
            told.len() == 1 && told[0].starts_with("warning: --scheduler"),
            "{told:?}"
        );
    }
    let metered = [
        "ls",
        &server.address,
        "--metered",
        "none9",
        "--pin",
        &server.pin,
    ];
    let done = program(&metered);
    let told = lines_of(&done.stderr);
    assert!(
        told.len() == 1 && told[0].contains("no interface is named none9"),
        "{told:?}"
    );
}
