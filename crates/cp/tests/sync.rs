//! `sync`, with `--delete` and `--checksum`: as the guide types it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::program::{Place, Served, fails, last, names, program};

fn tried(server: &Served, token: &str, words: &[&str]) -> std::process::Output {
    let known = ["--pin", &server.pin, "--token-file", token];
    program(&[&[words[0], &server.address][..], &words[1..], &known].concat())
}

fn run(server: &Served, token: &str, words: &[&str]) -> String {
    let done = tried(server, token, words);
    assert!(done.status.success(), "{words:?}: {done:?}");
    String::from_utf8(done.stdout).unwrap()
}

/// Contents, and a time so many seconds after a fixed one.
fn write(path: &Path, text: &str, at: u64) {
    fs::write(path, text).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + at);
    let file = fs::File::options().append(true).open(path).unwrap();
    file.set_modified(time).unwrap();
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

fn actions(plan: &str) -> Vec<(String, String)> {
    let lines = plan
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines
        .map(|words| (words[0].to_owned(), (*words.last().unwrap()).to_owned()))
        .collect()
}

/// Both ways: `far` becomes like `near`, or the other way round.
#[test]
fn a_copy_becomes_like_what_it_is_of() {
    for is_get in [true, false] {
        let place = Place::new();
        let token = place.text("token");
        let (from, to) = match is_get {
            true => (place.path("far/d"), place.path("near/d")),
            false => (place.path("near/d"), place.path("far/d")),
        };
        let near = place.text("near/d");
        let ends = match is_get {
            true => [":d", near.as_str()],
            false => [near.as_str(), ":d"],
        };
        fs::create_dir_all(from.join("kept/deep")).unwrap();
        fs::create_dir_all(to.join("gone/deep")).unwrap();
        fs::create_dir_all(to.join("file")).unwrap();
        for (at, name) in ["same", "newer", "file", "kept/deep/a"].iter().enumerate() {
            write(&from.join(name), name, at as u64);
        }
        // Of the same size and time, and yet another one.
        write(&to.join("same"), "SAME", 0);
        write(&to.join("newer"), "changed later", 1_000);
        for name in ["gone/deep/b", "gone/c", "extra", "file/inside"] {
            write(&to.join(name), name, 0);
        }
        symlink("extra", to.join("link")).unwrap();
        let all = ["--token-file", &token, "--allow-put", "--allow-remove"];
        let server = place.server(&all);
        let sync = |more: &[&str]| run(&server, &token, &[&["sync"], &ends[..], more].concat());
        let before = names(&to);
        let plan = actions(&sync(&["--delete", "-n"]));
        let of = |what: &str| {
            let found = plan.iter().filter(|(action, _)| action == what);
            found
                .map(|(_, name)| name.rsplit('/').next().unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(of("new"), ["a"], "{plan:?}");
        assert_eq!(of("replace"), ["file", "newer"], "{plan:?}");
        assert_eq!(of("delete"), ["extra", "file", "gone", "link"], "{plan:?}");
        assert_eq!(names(&to), before, "nothing was done");
        // Without --delete, a folder in the way of a file is left out, and all else is done.
        let done = tried(&server, &token, &[&["sync"], &ends[..]].concat());
        assert_eq!(done.status.code(), Some(23), "{done:?}");
        assert_eq!(text(&to.join("newer")), "newer");
        assert_eq!(text(&to.join("same")), "SAME", "its contents are not read");
        assert!(to.join("extra").exists());
        let done = last(&sync(&["--delete", "--json"]));
        assert_eq!(names(&to), ["file", "kept", "newer", "same"]);
        assert_eq!(text(&to.join("file")), "file");
        assert_eq!(
            (&done["removed"], &done["omitted"]),
            (&4.into(), &0.into()),
            "{done}"
        );
        assert_eq!(
            (&done["files"], &done["unchanged"]),
            (&4.into(), &3.into()),
            "{done}"
        );
        let done = last(&sync(&["--checksum", "--json"]));
        assert_eq!(text(&to.join("same")), "same");
        assert_eq!(
            (&done["unchanged"], &done["moved"]),
            (&3.into(), &4.into()),
            "{done}"
        );
        // The right contents of another time are given the time, so that the next look tells.
        write(&to.join("same"), "same", 5_000);
        assert_eq!(actions(&sync(&["-n"]))[0].0, "compare");
        sync(&[]);
        assert_eq!(sync(&["--delete", "-n"]), "");
        let modified = |at: &Path| fs::metadata(at).unwrap().modified().unwrap();
        assert_eq!(modified(&to.join("same")), modified(&from.join("same")));
    }
}

#[test]
fn what_is_left_out_stays() {
    let place = Place::new();
    let token = place.text("token");
    let (from, to) = (place.path("far/d"), place.path("near/d"));
    fs::create_dir_all(from.join("logs")).unwrap();
    fs::create_dir_all(to.join("logs")).unwrap();
    fs::create_dir_all(to.join("old")).unwrap();
    write(&from.join("a"), "a", 0);
    // A link to a folder is left out without --links, and what an earlier copy had of it stays.
    symlink("logs", from.join("way")).unwrap();
    fs::create_dir(to.join("way")).unwrap();
    for name in ["logs/x.log", "old/y.log", "old/z", "way/inside"] {
        write(&to.join(name), name, 0);
    }
    let server = place.server(&["--token-file", &token]);
    let near = place.text("near/d");
    let words = ["sync", ":d", &near, "--delete", "--exclude", "*.log"];
    let done = tried(&server, &token, &words);
    assert_eq!(done.status.code(), Some(23), "{done:?}");
    assert_eq!(names(&to), ["a", "logs", "old", "way"]);
    assert_eq!(names(&to.join("old")), ["y.log"]);
    assert_eq!(names(&to.join("logs")), ["x.log"]);
    assert_eq!(names(&to.join("way")), ["inside"]);
}

#[test]
fn nothing_is_removed_without_the_right_and_nothing_outside() {
    let place = Place::new();
    let token = place.text("token");
    fs::create_dir_all(place.path("far/d")).unwrap();
    fs::create_dir_all(place.path("near/d")).unwrap();
    fs::create_dir(place.path("outside")).unwrap();
    write(&place.path("outside/precious"), "1", 0);
    write(&place.path("far/d/extra"), "2", 0);
    symlink("../../outside", place.path("far/d/way")).unwrap();
    symlink("../../outside", place.path("near/d/way")).unwrap();
    write(&place.path("near/d/mine"), "3", 0);
    let near = place.text("near/d");
    let put = ["sync", near.as_str(), ":d", "--delete"];
    let server = place.server(&["--token-file", &token, "--allow-put"]);
    let done = tried(&server, &token, &put);
    assert_eq!(done.status.code(), Some(23), "{done:?}");
    assert!(
        String::from_utf8_lossy(&done.stderr).contains("lets nobody remove"),
        "{done:?}"
    );
    assert_eq!(names(&place.path("far/d")), ["extra", "mine", "way"]);
    drop(server);
    let server = place.server(&["--token-file", &token, "--allow-put", "--allow-remove"]);
    tried(&server, &token, &put);
    assert_eq!(
        names(&place.path("far/d")),
        ["mine", "way"],
        "a link that leads out is nobody's"
    );
    tried(&server, &token, &["sync", ":d", &near, "--delete"]);
    assert_eq!(names(&place.path("near/d")), ["mine", "way"]);
    assert_eq!(names(&place.path("outside")), ["precious"]);
    let wrong = tried(&server, &token, &["sync", "a", "b"]);
    fails(&wrong, 2, "its name begins with `:`");
    let all = tried(&server, &token, &["sync", ":d", "/", "--delete"]);
    fails(&all, 2, "not all of a machine");
}
