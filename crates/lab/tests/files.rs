//! Files that are not what a program hopes for: endless, huge, no files at all, with texts that steer terminals. Each is refused in
//! one line that says where and why, soon, and nothing steers.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use mpquic_lab::cli;

/// Endless loops and waits end the test by this. What is refused takes milliseconds.
const SOON: Duration = Duration::from_secs(10);

/// The exit status, standard output and standard error of a command line.
fn lab(arguments: &[&str]) -> (u8, String, String) {
    let given: Vec<_> = arguments.iter().map(ToString::to_string).collect();
    let (done, result) = mpsc::channel();
    std::thread::spawn(move || {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let arguments = std::iter::once("mpquic-lab".into()).chain(given.iter().map(Into::into));
        let code = cli::main(arguments, &mut out, &mut err);
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let _ = done.send((code, text(out), text(err)));
    });
    let result = result.recv_timeout(SOON);
    result.unwrap_or_else(|_| panic!("{arguments:?} is not refused"))
}

/// Executes a command that fails, and returns its one line.
fn refused(arguments: &[&str]) -> String {
    let (code, _, err) = lab(arguments);
    assert!(code == 1 || code == 2, "{arguments:?}: {code}: {err}");
    assert_eq!(err.lines().count(), 1, "{arguments:?}: {err}");
    assert!(err.len() < 1000, "{arguments:?}: {} bytes", err.len());
    err
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// An experiment with this line for its paths.
fn experiment(folder: &Path, name: &str, paths: &str) -> PathBuf {
    let file = folder.join(name);
    let text = format!(
        "title = \"t\"\nseeds = 2\nworkloads = [\"file:20kB\"]\nschedulers = [\"minrtt\"]\n[[network]]\nname = \"a\"\npaths = {paths}\n"
    );
    fs::write(&file, text).unwrap();
    file
}

#[cfg(unix)]
#[test]
fn what_is_no_regular_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let pipe = folder.join("pipe.toml");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let (zero, out) = (PathBuf::from("/dev/zero"), folder.join("out"));
    for odd in [&pipe, &zero] {
        let name = text(odd);
        let paths = format!("[{{ trace = \"{name}\", owd = 10 }}, {{ rate = 5, owd = 10 }}]");
        let traced = experiment(folder, "traced.toml", &paths);
        let shared = format!(
            "[{{ rate = 5, owd = 10, through = \"s\" }}]\nshared = [{{ name = \"s\", trace = \"{name}\" }}]"
        );
        let shared = experiment(folder, "shared.toml", &shared);
        let including = folder.join("including.toml");
        let taking =
            format!("title = \"t\"\nschedulers = [\"minrtt\"]\n[[include]]\nfile = \"{name}\"\n");
        fs::write(&including, taking).unwrap();
        for arguments in [
            &["run", name][..],
            &["run", text(&traced)],
            &["run", text(&shared)],
            &["run", text(&including)],
            &["arena", name],
            &["look", name],
            &["table", name],
            &["report", name],
            &["time", name],
            &["adapt", name],
            &["curves", name],
            &["compare", name, name],
            &["merge", name, name],
            &["trace", "show", name],
            &["trace", "convert", name, text(&out), "--rate", "1"],
        ] {
            let err = refused(arguments);
            assert!(
                err.contains("a pipe or a device, expected a regular file") && err.contains(name),
                "{arguments:?}: {err}"
            );
        }
    }
    // Where and what, in an experiment.
    let err = refused(&["run", text(&folder.join("traced.toml"))]);
    assert!(
        err.contains("traced.toml:7: network[1].paths[1].trace: trace file /dev/zero: "),
        "{err}"
    );
    // A folder of experiments: the others are listed.
    let list = folder.join("list");
    fs::create_dir(&list).unwrap();
    experiment(&list, "good.toml", "[{ rate = 5, owd = 10 }]");
    fs::rename(&pipe, list.join("pipe.toml")).unwrap();
    let (code, out, err) = lab(&["list", text(&list)]);
    assert!(code == 2 && out.contains("good.toml"), "{out}{err}");
    assert!(err.contains("pipe.toml: cannot be read: a pipe"), "{err}");
    // A results folder whose files are none.
    let results = folder.join("results");
    fs::create_dir(&results).unwrap();
    fs::rename(list.join("pipe.toml"), results.join("results.jsonl")).unwrap();
    let good = list.join("good.toml");
    let err = refused(&["run", text(&good), "--out", text(&results)]);
    assert!(err.contains("a pipe or a device"), "{err}");
}

/// A file of this size that takes no space, and begins with a text.
fn sparse(path: &Path, begin: &str, size: u64) {
    fs::write(path, begin).unwrap();
    let file = File::options().write(true).open(path).unwrap();
    file.set_len(size).unwrap();
}

#[test]
fn what_is_too_large_is_refused_before_it_is_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("large.toml");
    let (name, out) = (text(&file), text(dir.path()).to_owned() + "/out");
    let header = "\x1e{\"trace\":{}}\n\x1e{\"time\":1,\"name\":\"";
    for (begin, size, arguments, why) in [
        ("", 1 << 40, &["run", name][..], "larger than 4 MB"),
        ("", 1 << 40, &["look", name], "larger than 1000 MB"),
        (
            header,
            950_000_000,
            &["look", name],
            "line 2: longer than 1 MB",
        ),
        ("", 1 << 40, &["table", name], "larger than 16000 MB"),
        (
            "{}\n",
            2_000_000_000,
            &["merge", name, name],
            "not a results file",
        ),
        (
            "",
            2_000_000_000,
            &["table", name],
            "line 1: longer than 256 MB",
        ),
        ("", 1 << 40, &["trace", "show", name], "larger than 1000 MB"),
        (
            "1\n2\n",
            900_000_000,
            &["trace", "show", name],
            "line 3: longer than 1000 bytes",
        ),
        (
            "a,b\n1,",
            200_000_000,
            &["trace", "convert", name, &out, "--rate", "1"],
            "line 2: longer than 1 MB",
        ),
    ] {
        sparse(&file, begin, size);
        let err = refused(arguments);
        assert!(err.contains(why) && err.contains(name), "{why}: {err}");
    }
}

#[test]
fn a_line_of_a_trace_that_is_wrong_is_named_with_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("car.trace");
    fs::write(&trace, "1\n4000000000\n").unwrap();
    let why = format!(
        "trace file {}: trace line 2: 4000000000 ms, expected at most 2147483648 ms",
        text(&trace)
    );
    let err = refused(&["trace", "show", text(&trace)]);
    assert_eq!(err.trim_end(), why);
    let paths = "[{ trace = \"car.trace\", owd = 10 }]";
    let err = refused(&["run", text(&experiment(dir.path(), "t.toml", paths))]);
    assert!(
        err.ends_with(&format!("t.toml:7: network[1].paths[1].trace: {why}\n")),
        "{err}"
    );
}

#[test]
fn a_recording_that_would_be_an_endless_trace_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (recording, out) = (dir.path().join("r.csv"), dir.path().join("out"));
    fs::write(&recording, "1e8\n".repeat(1000)).unwrap();
    let convert = ["trace", "convert", text(&recording), text(&out)];
    let err = refused(&[&convert[..], &["--rate", "1", "--unit", "kbit"]].concat());
    assert!(err.contains("r.csv:9: more than 100 GB"), "{err}");
}

#[test]
fn experiments_of_a_size_that_nobody_writes_are_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = "{ rate = 5, owd = 10 }";
    let many = |count: usize| format!("[{}]", vec![path; count].join(","));
    let words: String = (0..50).fold(String::new(), |mut text, n| {
        let _ = write!(text, " k{n}=1");
        text
    });
    let keys = (0..2000).fold(String::new(), |mut text, n| {
        let _ = write!(text, ", k{n} = 1");
        text
    });
    for (paths, why) in [
        (
            many(5000),
            ":7: network[1].paths: found 5000 paths, expected 8 at most",
        ),
        (
            many(9),
            ":7: network[1].paths: found 9 paths, expected 8 at most",
        ),
        (
            format!("\"{}\"", vec!["5 10"; 5000].join("|")),
            ":7: network[1].paths: found 5000 paths, expected 8 at most",
        ),
        (
            format!("\"5 10{words}\""),
            ":7: network[1].paths: found 52 words in a path, expected 32 at most",
        ),
        (
            many(20_000),
            ":7: network[1].paths: found 20000 elements of a list, expected 10000 at most",
        ),
        (
            format!("[{{ rate = 5, owd = 10{keys} }}]"),
            ":7: network[1].paths[1]: found 2002 keys of a table, expected 1000 at most",
        ),
        (
            format!("[{{ rate = \"{}\", owd = 10 }}]", "9".repeat(200_000)),
            ":7: network[1].paths[1].rate: found 200000 bytes of a text, expected 100000 at most",
        ),
        (
            format!(
                "[{path}]\nhandshake = [{0}]\npacing = [{0}]",
                vec!["1"; 400].join(",")
            ),
            "stands for more than 100000 networks",
        ),
    ] {
        let file = experiment(dir.path(), "large.toml", &paths);
        let err = refused(&["run", text(&file)]);
        assert!(err.contains(why), "{why}: {err}");
    }
    let file = experiment(dir.path(), "large.toml", &many(1));
    let good = fs::read_to_string(&file).unwrap();
    let names: Vec<_> = (0..3000)
        .map(|n| format!("{{ name = \"minrtt\", label = \"{n}\" }}"))
        .collect();
    for (from, to, why) in [
        (
            "\"minrtt\"",
            names.join(","),
            ":4: schedulers[2001]: more than 2000 schedulers",
        ),
        (
            "file:20kB",
            format!("file:{}", "9".repeat(90_000)),
            ":3: workloads[1]: workload",
        ),
        (
            "rate = 5",
            format!("rate = 5, {} = 1", "k".repeat(90_000)),
            ":7: network[1].paths[1].k",
        ),
    ] {
        fs::write(&file, good.replace(from, &to)).unwrap();
        let (code, _, err) = lab(&["run", text(&file)]);
        assert!(
            code == 2 && err.lines().count() == 1 && err.len() < 10_000,
            "{err}"
        );
        assert!(err.contains(why), "{why}: {err}");
    }
    // Many of each, so that the product is large.
    let file = dir.path().join("product.toml");
    let owds: Vec<_> = (1..=2000).map(|n| n.to_string()).collect();
    let whole = format!(
        "title = \"t\"\nseeds = 2\nworkloads = [\"file:20kB\"]\nschedulers = [{{ name = \"single\", vary = {{ p = {{ from = 0, to = 999, step = 1 }} }}, config = {{ path = \"$p\" }} }}]\n[[network]]\nname = \"a\"\npaths = [{{ rate = 5, owd = [{}] }}]\n",
        owds.join(",")
    );
    fs::write(&file, whole).unwrap();
    let err = refused(&["run", text(&file)]);
    assert!(
        err.contains("stands for 2000000 combinations") && err.contains("1000000 at most"),
        "{err}"
    );
}

/// A qlog with these events, each with its time in ms, its name and its data.
fn qlog(folder: &Path, title: &str, events: &[(f64, &str, serde_json::Value)]) -> PathBuf {
    let file = folder.join("connection.sqlog");
    let header = serde_json::json!({ "title": title, "trace": { "common_fields": { "group_id": title }, "vantage_point": { "type": title } } });
    let mut text = format!("\x1e{header}\n");
    for (time, name, data) in events {
        let event = serde_json::json!({ "time": time, "name": name, "data": data });
        let _ = writeln!(text, "\x1e{event}");
    }
    fs::write(&file, text).unwrap();
    file
}

#[test]
fn lengths_and_times_of_any_size_are_drawn() {
    let dir = tempfile::tempdir().unwrap();
    let packet = serde_json::json!({
        "path_id": 0, "raw": { "length": u64::MAX }, "frames": [{ "frame_type": "stream" }],
        "header": { "packet_type": "1RTT", "packet_number": 1 }
    });
    let mut second = packet.clone();
    second["header"]["packet_number"] = 2.into();
    let count = serde_json::json!({ "count": u64::MAX });
    let events = [
        (-1e308, "quic:packet_sent", packet.clone()),
        (-1e308, "quic:packet_sent", second),
        (-1e308, "quic:packet_received", packet.clone()),
        (-1e308, "quic:packet_received", packet.clone()),
        (-1e308, "mpquic:records_left_out", count.clone()),
        (-1e308, "mpquic:records_left_out", count),
        (1e308, "quic:packet_sent", packet),
    ];
    let file = qlog(dir.path(), "t", &events);
    let (code, out, err) = lab(&["look", text(&file)]);
    assert_eq!((code, &*err), (0, ""));
    assert!(out.contains("t (t), 0 s, 6 events"), "{out}");
    // 2^64 - 1 bytes in kB.
    assert!(out.contains("18446744073709552"), "{out}");
    let html = fs::read_to_string(file.with_extension("html")).unwrap();
    assert!(!html.contains("NaN") && !html.contains("inf,"));
}

#[test]
fn texts_of_a_qlog_steer_no_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let odd = "x\n203.0.113.9: sent\u{1b}[2J\u{9b}2J\r\u{202e}\u{7}";
    let address = serde_json::json!({ "ip_v4": odd, "port_v4": 1 });
    let tuple =
        serde_json::json!({ "path_id": 0, "tuple_local": address, "tuple_remote": address });
    let events = [
        (0.0, "quic:tuple_assigned", tuple),
        (
            1.0,
            "mpquic:path_updated",
            serde_json::json!({ "path_id": 0, "new": odd }),
        ),
        (
            2.0,
            "quic:connection_closed",
            serde_json::json!({ "reason": odd }),
        ),
        (3.0, odd, serde_json::json!({})),
    ];
    let file = qlog(dir.path(), odd, &events);
    let (code, out, err) = lab(&["look", text(&file)]);
    assert_eq!((code, &*err), (0, ""));
    is_safe(&out);
    assert!(
        out.contains(r"end: x\n203.0.113.9: sent\u{1b}[2J\u{9b}2J\r\u{202e}\u{7}"),
        "{out}"
    );
    // A title, a head, a path, the end, the picture.
    assert_eq!(out.lines().count(), 6, "{out}");
}

/// Whether nothing but line breaks does something on a terminal.
fn is_safe(text: &str) {
    let steers = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
    assert!(!text.contains(steers), "{text:?}");
}

#[test]
fn texts_of_experiments_and_results_steer_no_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let odd = r"\u001b[2J\u009b2J\u202e";
    let path = "[{ rate = 5, owd = 10 }]";
    // Names with control characters are none.
    let file = experiment(dir.path(), "names.toml", path);
    let good = fs::read_to_string(&file).unwrap();
    for (from, to) in [
        ("name = \"a\"", format!("name = \"a{odd}\"")),
        (
            "[\"minrtt\"]",
            format!("[{{ name = \"minrtt\", label = \"a{odd}\" }}]"),
        ),
        ("[\"minrtt\"]", format!("[\"min{odd}rtt\"]")),
        ("file:20kB", format!("file:{odd}")),
        ("rate = 5", format!("rate = 5, \"{odd}\" = 1")),
        ("seeds = 2", format!("seeds = \"{odd}\"")),
        ("seeds = 2", "seeds = \u{1b}[2J".to_owned()),
    ] {
        assert!(good.contains(from));
        fs::write(&file, good.replace(from, &to)).unwrap();
        is_safe(&refused(&["run", text(&file)]));
    }
    // Results may be of anybody.
    fs::write(&file, &good).unwrap();
    let out = dir.path().join("out");
    let (code, _, err) = lab(&["run", text(&file), "--out", text(&out)]);
    assert_eq!(code, 0, "{err}");
    let results = out.join("results.jsonl");
    let texts = fs::read_to_string(&results).unwrap();
    let texts = texts
        .replace("\"a\"", &format!("\"a\\n{odd}\""))
        .replace("\"minrtt\"", &format!("\"min\\n{odd}\""))
        .replace("\"title\":\"t\"", &format!("\"title\":\"t\\n{odd}\""));
    fs::write(&results, texts).unwrap();
    for arguments in [
        &["table", text(&out)][..],
        &["compare", text(&out), text(&out)],
        &["report", text(&out)],
        &["time", text(&out)],
        &["arena", text(&out)],
    ] {
        let (_, out, err) = lab(arguments);
        is_safe(&out);
        is_safe(&err);
        assert!(!out.lines().any(|line| line.starts_with("\\u")), "{out}");
    }
}
