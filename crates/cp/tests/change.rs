//! `mkdir`, `mv` and `rm`: by right, and nothing outside.

use std::fs;
use std::os::unix::fs::symlink;

use crate::program::{Place, Served, fails, names, program};

fn run(server: &Served, token: &str, words: &[&str]) -> std::process::Output {
    let known = ["--pin", &server.pin, "--token-file", token];
    program(&[&[words[0], &server.address][..], &words[1..], &known].concat())
}

#[test]
fn what_is_there_is_changed_by_right() {
    let place = Place::new();
    let token = place.text("token");
    fs::create_dir_all(place.path("far/old/deep")).unwrap();
    fs::write(place.path("far/old/a"), "1").unwrap();
    fs::write(place.path("outside"), "2").unwrap();
    symlink("../outside", place.path("far/link")).unwrap();
    symlink("..", place.path("far/up")).unwrap();
    let server = place.server(&["--token-file", &token, "--allow-put", "--allow-remove"]);
    let does = |words: &[&str]| {
        let done = run(&server, &token, words);
        assert!(done.status.success(), "{words:?}: {done:?}");
        String::from_utf8(done.stdout).unwrap()
    };
    does(&["mkdir", "new/deeper"]);
    does(&["mkdir", "new/deeper"]);
    does(&["mv", "old/a", "new/deeper/"]);
    does(&["mv", "new/deeper/a", "new/b"]);
    assert_eq!(does(&["mv", "old", "newer", "--json"]), "{\"done\":true}\n");
    assert_eq!(names(&place.path("far")), ["link", "new", "newer", "up"]);
    assert_eq!(names(&place.path("far/new")), ["b", "deeper"]);
    let refused = |words: &[&str], code, why: &str| fails(&run(&server, &token, words), code, why);
    refused(&["mv", "new/b", "newer"], 7, "newer is there already");
    refused(
        &["mv", "new", "new/inside"],
        7,
        "a folder does not go into itself",
    );
    refused(&["mv", "none", "other"], 7, "no such file or folder");
    refused(&["rm", "newer"], 7, "it is not empty: --recursive");
    refused(
        &["rm", ".", "--recursive"],
        7,
        "the folder that is served stays",
    );
    refused(&["rm", "../outside"], 2, "..");
    // Links go, and not what they lead to.
    does(&["rm", "link"]);
    assert!(!run(&server, &token, &["rm", "up/outside"]).status.success());
    assert!(
        !run(&server, &token, &["mv", "up/outside", "stolen"])
            .status
            .success()
    );
    does(&["rm", "up", "--recursive"]);
    does(&["rm", "newer", "-r"]);
    does(&["rm", "new/b"]);
    assert_eq!(names(&place.path("far")), ["new"]);
    assert_eq!(fs::read_to_string(place.path("outside")).unwrap(), "2");
}

#[test]
fn without_the_right_nothing_changes() {
    let place = Place::new();
    let token = place.text("token");
    fs::write(place.path("far/a"), "1").unwrap();
    let server = place.server(&["--token-file", &token]);
    let refused = |words: &[&str], why: &str| fails(&run(&server, &token, words), 7, why);
    refused(&["rm", "a"], "this server lets nobody remove anything");
    refused(&["mv", "a", "b"], "this server lets nobody remove anything");
    refused(&["mkdir", "c"], "this server is read-only");
    drop(server);
    let server = place.server(&["--token-file", &token, "--allow-remove"]);
    let moved = run(&server, &token, &["mv", "a", "b"]);
    fails(&moved, 7, "this server is read-only");
    assert_eq!(names(&place.path("far")), ["a"]);
    fails(
        &program(&["serve", "--allow-remove"]),
        2,
        "anybody could write here",
    );
}
