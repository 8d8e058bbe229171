//! What the world around the program does to it: readers that stop, terminals that close, names and files of every kind.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use mpquic_test_support::held::Held;

use crate::program::{
    PROGRAM, Place, WRONG_PIN, arrived, fails, in_background, lines_of, names, program, relay,
    signal,
};

/// Longer than anything here takes.
const DEADLINE: Duration = Duration::from_secs(60);

/// Waits for the end of a program that must end.
fn ended(child: &mut Child) -> ExitStatus {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if begun.elapsed() > DEADLINE {
            child.kill().unwrap();
            panic!("it does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The output of a program that must end, and says little.
fn output(command: &mut Command) -> Output {
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = Held::new(piped.spawn().unwrap());
    ended(&mut child);
    child.output().unwrap()
}

#[test]
fn a_log_that_nobody_reads_holds_up_nothing() {
    let place = Place::new();
    // A line for each of them: more than a pipe takes.
    for number in 0..400 {
        let name = format!("far/{number}{}", "n".repeat(240));
        std::fs::write(place.path(&name), "contents").unwrap();
    }
    let command = Command::new(PROGRAM);
    let mut server = place.server_telling(command, "127.0.0.1:0", &[], Stdio::piped());
    let unread = server.child.stderr.take();
    let near = place.text("near");
    let mut get = Command::new(PROGRAM);
    get.args(["get", &server.address, ".", &near, "--pin", &server.pin]);
    let got = output(&mut get);
    assert_eq!(got.status.code(), Some(0), "{got:?}");
    assert_eq!(names(&place.path("near")).len(), 400);
    let first = format!("0{}", "n".repeat(240));
    let mut ls = Command::new(PROGRAM);
    ls.args(["ls", &server.address, &first, "--pin", &server.pin]);
    let listed = output(&mut ls);
    assert_eq!(listed.status.code(), Some(0), "{listed:?}");
    signal(&server.child, "TERM");
    assert_eq!(ended(&mut server.child).code(), Some(0));
    drop(unread);
}

/// Whether this process, and so its children, outlive their terminal.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.is_none_or(|bits| {
        !bits
            .trim()
            .ends_with(['0', '2', '4', '6', '8', 'a', 'c', 'e'])
    })
}

#[test]
fn the_end_of_a_terminal_is_a_stop_unless_it_is_ignored() {
    let place = Place::new();
    let mut lasting = Command::new("nohup");
    lasting.arg(PROGRAM).stdin(Stdio::null());
    let mut server = place.server_by(lasting, &[]);
    signal(&server.child, "HUP");
    let listed = program(&["ls", &server.address, "--pin", &server.pin]);
    assert_eq!(listed.status.code(), Some(0), "{listed:?}");
    signal(&server.child, "TERM");
    assert_eq!(ended(&mut server.child).code(), Some(0));

    if ignores_hangup() {
        println!("the rest is not run: these tests themselves outlive their terminal");
        return;
    }
    std::fs::write(place.path("far/large"), vec![7; 10_000_000]).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _inside = runtime.enter();
    let mut server = place.server(&[]);
    let relay = relay(&server);
    let (at, to) = (relay.addr().to_string(), place.text("out"));
    let client = in_background(&["get", &at, "large", &to, "--pin", &server.pin]);
    arrived(&place.path(""), 1_000_000);
    signal(&server.child, "HUP");
    assert_eq!(ended(&mut server.child).code(), Some(0));
    fails(&client.join().unwrap(), 9, "(the server stops)");
}

#[test]
fn a_listing_that_is_lost_is_told() {
    let place = Place::new();
    std::fs::write(place.path("far/file"), "contents").unwrap();
    let server = place.server(&[]);
    let ls = |stdout: Stdio| {
        let mut command = Command::new(PROGRAM);
        command.args(["ls", &server.address, "--pin", &server.pin]);
        let child = command.stdout(stdout).stderr(Stdio::piped()).spawn();
        Held::new(child.unwrap()).output().unwrap()
    };
    let full = std::fs::File::options().write(true).open("/dev/full");
    let lost = ls(full.unwrap().into());
    fails(&lost, 8, "standard output: No space left on device");
    // As `head` leaves it.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let unread = ls(writer.into());
    assert_eq!(
        (unread.status.code(), lines_of(&unread.stderr)),
        (Some(0), Vec::new())
    );
}

#[test]
fn who_needs_a_certificate_is_told() {
    let place = Place::new();
    let authority = {
        let _made = place.server(&[]);
        place.text("identity/cert.pem")
    };
    let server = place.server(&["--client-ca", &authority]);
    let listed = program(&["ls", &server.address, "--pin", &server.pin]);
    let told = "it does not trust this client: give --cert and --key";
    fails(&listed, 5, told);
}

#[test]
fn what_cannot_be_read_before_anything_is_tried() {
    let place = Place::new();
    let none = place.text("none");
    for option in ["--token-file", "--ca"] {
        let refused = program(&["ls", "127.0.0.1:1", option, &none]);
        fails(&refused, 8, "none: ");
    }
    let retried = program(&["ls", "host.invalid", "--pin", WRONG_PIN, "--retry", "1s"]);
    assert_eq!(retried.status.code(), Some(3), "{retried:?}");
    let told = String::from_utf8_lossy(&retried.stderr).into_owned();
    let told: Vec<_> = told.lines().collect();
    assert!(
        told.len() == 2
            && told[0].starts_with("cannot resolve host.invalid:4433: ")
            && told[0].ends_with("; trying again for 1s")
            && told[1].starts_with("error: cannot resolve host.invalid:4433: "),
        "{told:?}"
    );
}

#[test]
fn a_secret_may_come_by_a_pipe() {
    let place = Place::new();
    std::fs::write(place.path("far/file"), "contents").unwrap();
    let token = place.text("token");
    let by_pipe = || {
        let mut cat = Command::new("cat");
        let cat = cat.arg(&token).stdout(Stdio::piped()).spawn();
        Stdio::from(cat.unwrap().stdout.take().unwrap())
    };
    let mut command = Command::new(PROGRAM);
    command.stdin(by_pipe());
    let server = place.server_by(command, &["--token-file", "/dev/stdin"]);
    let mut ls = Command::new(PROGRAM);
    ls.args(["ls", &server.address, "file", "--pin", &server.pin]);
    let listed = output(ls.args(["--token-file", "/dev/stdin"]).stdin(by_pipe()));
    assert_eq!(listed.status.code(), Some(0), "{listed:?}");
}

#[test]
fn names_may_be_longer_on_this_side() {
    let place = Place::new();
    let far = Dir::open_ambient_dir(place.path("far"), ambient_authority()).unwrap();
    let deep = vec!["d".repeat(254); 16].join("/");
    far.create_dir_all(format!("t/{deep}")).unwrap();
    far.write("t/file", "contents").unwrap();
    // As long as a name may be there.
    let last = "n".repeat(4090 - "t/".len() - deep.len() - "/".len());
    far.open_dir(format!("t/{deep}"))
        .unwrap()
        .write(&last, "")
        .unwrap();
    let server = place.server(&[]);
    let (out, known) = (place.text("near/longer-name"), ["--pin", &server.pin]);
    let got = program(&[&["get", &server.address, "t", &out][..], &known].concat());
    let told = [format!(
        "left out: t/{deep}/{last}: the name has 4100 bytes, at most 4096 are allowed"
    )];
    assert_eq!(
        (lines_of(&got.stderr), got.status.code()),
        (told.to_vec(), Some(23))
    );
    let found = std::fs::read(place.path("near/longer-name/file")).unwrap();
    assert_eq!(found, b"contents");
}

#[test]
fn a_folder_that_is_gone_is_not_an_empty_one() {
    let place = Place::new();
    std::fs::write(place.path("far/file"), "contents").unwrap();
    let (server, run) = writable(&place);
    std::fs::remove_dir_all(place.path("far")).unwrap();
    let near = place.text("near/");
    let gone = "no such file or folder";
    fails(&run(&["ls", &server.address]), 7, gone);
    fails(&run(&["get", &server.address, ".", &near]), 7, gone);
    let put = run(&["put", &server.address, &place.text("token"), "new"]);
    fails(&put, 7, "its folder is gone");
}

/// A server that takes files, and what a client needs for that.
fn writable(place: &Place) -> (crate::program::Served, impl Fn(&[&str]) -> Output) {
    let token = place.text("token");
    let server = place.server(&["--allow-put", "--token-file", &token]);
    let pin = server.pin.clone();
    let run = move |arguments: &[&str]| {
        let known = ["--pin", &pin, "--token-file", &token];
        program(&[arguments, &known].concat())
    };
    (server, run)
}

#[test]
fn a_file_in_the_place_of_a_folder_keeps_its_contents_and_all_else_arrives() {
    let place = Place::new();
    let tree = |of: &str| {
        for name in ["a/b/one", "a/b/two", "c/three"] {
            let path = place.path(of).join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, name).unwrap();
        }
    };
    tree("near/tree");
    tree("far/there");
    std::fs::create_dir(place.path("far/in")).unwrap();
    std::fs::create_dir(place.path("near/out")).unwrap();
    for blocked in ["far/in/a", "near/out/a"] {
        std::fs::write(place.path(blocked), "own").unwrap();
    }
    // Its permissions come last, and are not missed twice.
    let closed = |mode| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(place.path("near/tree/a"), mode).unwrap();
    };
    closed(0o555);
    let (server, run) = writable(&place);
    let put = run(&["put", &server.address, &place.text("near/tree"), "in"]);
    closed(0o755);
    let summary = String::from_utf8_lossy(&put.stdout);
    assert!(summary.contains("  4 left out"), "{summary}");
    let why = "a file is where a folder of it should be";
    let told = ["a/b/one", "a/b/two", "a/b", "a"].map(|name| format!("left out: in/{name}: {why}"));
    assert_eq!(lines_of(&put.stderr), told);
    // Nothing is gone of what was to be copied: that would be 24.
    assert_eq!(put.status.code(), Some(23), "{put:?}");
    let got = run(&["get", &server.address, "there", &place.text("near/out")]);
    assert_eq!(lines_of(&got.stderr).len(), 4, "{got:?}");
    assert_eq!(got.status.code(), Some(23), "{got:?}");
    for of in ["far/in", "near/out"] {
        let read = |name: &str| std::fs::read_to_string(place.path(of).join(name)).unwrap();
        assert_eq!(
            (read("a"), read("c/three")),
            ("own".into(), "c/three".into())
        );
    }
}

#[test]
fn what_vanishes_before_it_is_put_has_the_code_of_that() {
    let place = Place::new();
    let tree = place.path("near/tree");
    std::fs::create_dir(&tree).unwrap();
    let all: Vec<_> = (10..30).map(|number| format!("file{number}")).collect();
    for name in &all {
        std::fs::write(tree.join(name), vec![7; 1_000_000]).unwrap();
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _inside = runtime.enter();
    let token = place.text("token");
    let server = place.server(&["--allow-put", "--token-file", &token]);
    let relay = relay(&server);
    let (at, from) = (relay.addr().to_string(), tree.display().to_string());
    let put = ["put", &at, &from, "--pin", &server.pin, "--token-file"];
    let client = in_background(&[&put[..], &[&token]].concat());
    // Fourteen are copied at a time: they are open. The others wait.
    arrived(&place.path("far/tree"), 100_000);
    for name in &all {
        std::fs::remove_file(tree.join(name)).unwrap();
    }
    let done = client.join().unwrap();
    assert_eq!(done.status.code(), Some(24), "{done:?}");
    let there = names(&place.path("far/tree"));
    assert!((1..=14).contains(&there.len()), "{there:?}");
    let gone = all.iter().filter(|name| !there.contains(name));
    let why = "No such file or directory (os error 2)";
    let told: Vec<_> = gone
        .map(|name| format!("left out: {}: {why}", tree.join(name).display()))
        .collect();
    assert_eq!(lines_of(&done.stderr), told);
}

#[test]
fn a_file_from_before_1970_replaces_nothing_that_was_changed_since() {
    let place = Place::new();
    let old = place.path("far/file");
    std::fs::write(&old, "old").unwrap();
    let before = std::time::SystemTime::UNIX_EPOCH - Duration::from_secs(86_400);
    let file = std::fs::File::options().write(true).open(&old).unwrap();
    file.set_modified(before).unwrap();
    let mine = place.path("near/file");
    std::fs::write(&mine, "changed since").unwrap();
    let server = place.server(&[]);
    let near = place.text("near");
    let get = ["get", &server.address, "file", &near, "--pin", &server.pin];
    fails(&program(&get), 23, "the file here is newer");
    assert_eq!(std::fs::read(&mine).unwrap(), b"changed since");
    let got = program(&[&get[..], &["--overwrite"]].concat());
    assert_eq!(got.status.code(), Some(0), "{got:?}");
    assert_eq!(std::fs::read(&mine).unwrap(), b"old");
}

#[test]
fn what_is_no_file_is_not_replaced_by_one() {
    use std::os::unix::fs::FileTypeExt as _;
    let place = Place::new();
    for name in [
        "far/tree/pipe",
        "far/tree/file",
        "near/other/pipe",
        "near/other/file",
    ] {
        let path = place.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "contents").unwrap();
    }
    let pipes = ["near/tree/pipe", "far/other/pipe"].map(|name| place.path(name));
    for pipe in &pipes {
        std::fs::create_dir_all(pipe.parent().unwrap()).unwrap();
        let made = Command::new("mkfifo").arg(pipe).status();
        assert!(made.unwrap().success());
    }
    let null = place.path("near/null");
    symlink("/dev/null", &null).unwrap();
    let (server, run) = writable(&place);
    let why = "what is there is neither a file nor a folder, and stays";
    let out = [&pipes[0], &null].map(|path| path.display().to_string());
    for local in &out {
        fails(&run(&["get", &server.address, "tree/file", local]), 8, why);
    }
    let near = place.text("near/");
    let other = place.text("near/other");
    for (arguments, name) in [
        (["get", &server.address, "tree", &near], out[0].as_str()),
        (["put", &server.address, &other, "other"], "other/pipe"),
    ] {
        let done = run(&arguments);
        assert_eq!(done.status.code(), Some(23), "{done:?}");
        let told = lines_of(&done.stderr);
        assert!(
            told.len() == 1
                && told[0].starts_with(&format!("left out: {name}: "))
                && told[0].ends_with(why),
            "{told:?}"
        );
    }
    for pipe in &pipes {
        let there = std::fs::symlink_metadata(pipe).unwrap();
        assert!(there.file_type().is_fifo());
        let found = std::fs::read(pipe.with_file_name("file")).unwrap();
        assert_eq!(found, b"contents");
    }
    assert!(null.symlink_metadata().unwrap().is_symlink());
}

/// What no copy takes: each is named, by its kind.
fn kinds(folder: &Path) -> Vec<(&'static str, &'static str)> {
    std::fs::create_dir_all(folder.join("inside")).unwrap();
    std::fs::write(folder.join("inside/file"), "contents").unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(folder.join("socket")).unwrap();
    let pipe = Command::new("mkfifo").arg(folder.join("pipe")).status();
    assert!(pipe.unwrap().success());
    symlink("one", folder.join("two")).unwrap();
    symlink("two", folder.join("one")).unwrap();
    symlink(".", folder.join("itself")).unwrap();
    symlink("inside/file/below", folder.join("through a file")).unwrap();
    let mut kinds = vec![
        ("itself", "a link to a folder"),
        ("one", ""),
        ("pipe", "neither a file nor a folder"),
        ("socket", "neither a file nor a folder"),
        ("through a file", ""),
        ("two", ""),
    ];
    // Only root may make one.
    let mut device = Command::new("mknod");
    device.arg(folder.join("device")).args(["c", "1", "5"]);
    if device
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|made| made.success())
    {
        kinds.insert(0, ("device", "neither a file nor a folder"));
    }
    kinds
}

#[test]
fn whatever_else_is_in_a_folder_is_named_in_both_directions() {
    let place = Place::new();
    let (server, run) = writable(&place);
    let check = |done: Output, kinds: Vec<(&str, &str)>, of: &str| {
        assert_eq!(done.status.code(), Some(23), "{done:?}");
        let told = lines_of(&done.stderr);
        assert_eq!(told.len(), kinds.len(), "{told:?}");
        for (line, (name, why)) in told.iter().zip(kinds) {
            let begin = format!("left out: {of}{name}: {why}");
            assert!(line.starts_with(&begin), "{line}");
        }
    };
    let out = kinds(&place.path("far/tree"));
    let near = place.text("near/");
    check(run(&["get", &server.address, "tree", &near]), out, "tree/");
    let out = kinds(&place.path("near/other"));
    let other = place.text("near/other");
    check(run(&["put", &server.address, &other]), out, "");
    for copied in ["near/tree", "far/other"] {
        assert_eq!(names(&place.path(copied)), ["inside"]);
        let found = std::fs::read(place.path(copied).join("inside/file")).unwrap();
        assert_eq!(found, b"contents");
    }
    // By itself, it is what was asked for.
    let pipe = run(&["put", &server.address, &place.text("near/other/pipe")]);
    fails(&pipe, 8, "neither a file nor a folder");
    // Its own name cannot be told to the server, which needs none if there is another.
    let bad = {
        use std::os::unix::ffi::OsStringExt as _;
        let mut path = place.path("").into_os_string().into_vec();
        path.extend_from_slice(b"bad\xff");
        std::ffi::OsString::from_vec(path)
    };
    std::fs::create_dir(&bad).unwrap();
    std::fs::write(Path::new(&bad).join("file"), "").unwrap();
    let token = place.text("token");
    let put = |name: &[&str]| {
        let mut put = Command::new(PROGRAM);
        put.args(["put", &server.address]).arg(&bad).args(name);
        put.args(["--pin", &server.pin, "--token-file", &token]);
        put.output().unwrap()
    };
    fails(&put(&[]), 2, "its name is not UTF-8");
    assert_eq!(put(&["good"]).status.code(), Some(0));
    assert_eq!(names(&place.path("far/good")), ["file"]);
}
