//! `--include`, `--exclude` and `--dry-run`: as the guide types them.

use std::fs;

use crate::program::{Place, Served, fails, names, program};

fn run(server: &Served, token: &str, words: &[&str]) -> String {
    let done = tried(server, token, words);
    assert!(done.status.success(), "{words:?}: {done:?}");
    String::from_utf8(done.stdout).unwrap()
}

fn tried(server: &Served, token: &str, words: &[&str]) -> std::process::Output {
    let known = ["--pin", &server.pin, "--token-file", token];
    program(&[&[words[0], &server.address][..], &words[1..], &known].concat())
}

#[test]
fn patterns_choose_what_is_copied() {
    let place = Place::new();
    let token = place.text("token");
    fs::create_dir_all(place.path("far/photos/raw")).unwrap();
    for name in ["a.jpg", "b.png", "c.tmp", "raw/d.jpg", "raw/e.dng"] {
        fs::write(place.path("far/photos").join(name), name).unwrap();
    }
    let server = place.server(&["--token-file", &token, "--allow-put"]);
    let here = place.path("near");
    let to = |name: &str| here.join(name).display().to_string();
    run(
        &server,
        &token,
        &[
            "get",
            "photos",
            &to("one"),
            "--exclude",
            "*.tmp",
            "--exclude",
            "raw/",
        ],
    );
    assert_eq!(names(&here.join("one")), ["a.jpg", "b.png"]);
    run(
        &server,
        &token,
        &["get", "photos", &to("two"), "--include", "*.jpg"],
    );
    assert_eq!(names(&here.join("two")), ["a.jpg", "raw"]);
    assert_eq!(names(&here.join("two/raw")), ["d.jpg"]);
    // The other way, with the place from the top of what is copied.
    run(
        &server,
        &token,
        &["put", &to("two"), "back", "--exclude", "/a.*"],
    );
    assert_eq!(names(&place.path("far/back")), ["raw"]);
    let wrong = tried(
        &server,
        &token,
        &["get", "photos", &to("three"), "--include", "["],
    );
    fails(&wrong, 2, "the pattern \"[\"");
}

#[test]
fn a_dry_run_says_what_would_be_done_and_does_nothing() {
    let place = Place::new();
    let token = place.text("token");
    fs::create_dir_all(place.path("far/d")).unwrap();
    for (name, text) in [("new", "1"), ("other", "22"), ("same", "333")] {
        fs::write(place.path("far/d").join(name), text).unwrap();
    }
    let server = place.server(&["--token-file", &token, "--allow-put"]);
    let local = place.text("near/d");
    let words = ["get", "d", &local, "--dry-run"];
    let actions = |text: String| -> Vec<String> {
        let lines = text.lines();
        lines
            .map(|line| line.split_whitespace().next().unwrap().to_owned())
            .collect()
    };
    assert_eq!(actions(run(&server, &token, &words)), ["new", "new", "new"]);
    assert!(!place.path("near/d").exists());
    fs::create_dir(place.path("near/d")).unwrap();
    fs::write(place.path("near/d/other"), "longer").unwrap();
    fs::write(place.path("near/d/same"), "444").unwrap();
    let over = [&words[..], &["--overwrite"]].concat();
    assert_eq!(
        actions(run(&server, &token, &over)),
        ["new", "replace", "compare"]
    );
    let future = std::time::SystemTime::now() + std::time::Duration::from_secs(3600);
    let file = fs::File::options()
        .append(true)
        .open(place.path("near/d/other"))
        .unwrap();
    file.set_modified(future).unwrap();
    assert_eq!(
        actions(run(&server, &token, &words)),
        ["new", "keep", "compare"]
    );
    let json = run(&server, &token, &[&words[..], &["--json"]].concat());
    let first = json.lines().next().unwrap();
    assert_eq!(
        first,
        r#"{"plan":{"action":"new","name":"d/new","size":1}}"#
    );
    let there = run(&server, &token, &["put", &local, "d", "-n", "--overwrite"]);
    assert_eq!(actions(there), ["replace", "compare"]);
    let absent = run(&server, &token, &["put", &local, "other", "-n"]);
    assert_eq!(actions(absent), ["new", "new"]);
    assert_eq!(names(&place.path("far")), ["d"]);
    assert_eq!(fs::read_to_string(place.path("far/d/other")).unwrap(), "22");
}
