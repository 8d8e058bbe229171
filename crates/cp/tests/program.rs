//! The program, as a user runs it: what it prints, and the exit code of each thing that goes wrong.
#![cfg(unix)]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_mpquic-cp");
const WRONG_PIN: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";

/// A server in a process of its own.
struct Served {
    child: Child,
    address: String,
    pin: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        // It has ended by itself, if not.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["far", "near"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        std::fs::write(folder.path().join("token"), "0123456789abcdef\n").unwrap();
        std::fs::write(folder.path().join("wrong"), "another secret than that\n").unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn server(&self, more: &[&str]) -> Served {
        self.server_by(Command::new(PROGRAM), more)
    }

    fn server_by(&self, mut command: Command, more: &[&str]) -> Served {
        command.args(["serve", "--listen", "127.0.0.1:0"]);
        command.arg("--root").arg(self.path("far"));
        command.arg("--identity").arg(self.path("identity"));
        command
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
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

fn program(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).output().unwrap()
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
fn fails(output: &Output, code: i32, text: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    let line = stderr.strip_suffix('\n').unwrap_or(&stderr);
    assert!(
        line.starts_with("error: ") && !line.contains('\n'),
        "{stderr}"
    );
    assert!(line.contains(text), "{stderr}");
}

fn names(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
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
    let got: serde_json::Value = serde_json::from_str(&got).unwrap();
    assert_eq!((&got["files"], &got["moved"]), (&2.into(), &300_001.into()));
    assert_eq!(
        std::fs::read(place.path("back/one")).unwrap(),
        vec![1; 300_000]
    );
    assert_eq!(names(&place.path("back")), ["one", "two"]);
    // The same command again means the same place.
    let again = with(&["get", &server.address, "tree", &back, "--json"]);
    let again: serde_json::Value = serde_json::from_str(&again).unwrap();
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
    fails(&program(&pinned), 5, "cannot connect to ");
    // A certificate of its own is no authority for another name.
    let ca = place.text("identity/cert.pem");
    fails(
        &program(&["ls", &server.address, "--ca", &ca]),
        5,
        "not valid for name",
    );
    let known = ["ls", &server.address, "--pin", &server.pin];
    fails(&program(&known), 6, "refuses this client: wrong token");
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
        "this server is read-only",
    );
    denied(
        &["get", &server.address, "none", &near],
        7,
        "no such file or folder",
    );
    denied(
        &["get", &server.address, "link", &near],
        7,
        "permission denied",
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
