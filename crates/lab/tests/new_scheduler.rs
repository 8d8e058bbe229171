//! A stranger's scheduler: the crate that `new-scheduler` writes, and its scheduler in an arena. That the crate builds as it is
//! written is seen where the guide's commands are run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use mpquic_lab::cli;

const ARENA: &str = r#"
title = "A tiny arena"
workloads = ["file:200kB"]
seeds = 2
schedulers = ["my_scheduler", { name = "my_scheduler", label = "eager", config = { margin = 9 } }, "minrtt"]

[[network]]
name = "uneven"
paths = [{ rate = 2, owd = 100 }, { rate = 20, owd = 10 }]
"#;

fn lab(arguments: &[&str]) -> (u8, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let arguments = ["mpquic-lab"].iter().chain(arguments).map(Into::into);
    let code = cli::main(arguments, &mut out, &mut err);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (code, text(out), text(err))
}

/// The unit tests of the scheduler that is written run here.
#[path = "../src/command/scaffold/lib.rs"]
#[allow(
    unreachable_pub,
    dead_code,
    clippy::disallowed_methods,
    reason = "it is the root of a library where it is written"
)]
mod my_scheduler;

/// Runs a program in a folder; what it printed.
fn run(command: &mut Command, folder: &Path) -> String {
    let done = command.current_dir(folder).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&done.stdout), text(&done.stderr));
    assert!(done.status.success(), "{command:?}\n{out}\n{err}");
    out
}

/// The lab with the scheduler that `new-scheduler` writes: the tests build the example beside their own programs.
fn own_lab(folder: &Path, arguments: &[&str]) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_mpquic-lab"))
        .with_file_name("examples")
        .join(format!("own_scheduler{}", std::env::consts::EXE_SUFFIX));
    run(Command::new(program).args(arguments), folder)
}

fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stranger");
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    folder
}

/// Its dependencies are in no registry: wherever it is written, it names folders that are there.
#[test]
fn outside_of_a_checkout_it_builds_against_that_of_the_program() {
    let outside = tempfile::tempdir().unwrap();
    let done = Command::new(env!("CARGO_BIN_EXE_mpquic-lab"))
        .args(["new-scheduler", "mine"])
        .current_dir(outside.path())
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&done.stdout);
    assert!(
        done.status.success() && out.contains("It builds against "),
        "{out}"
    );
    let manifest = fs::read_to_string(outside.path().join("mine/Cargo.toml")).unwrap();
    let paths: Vec<_> = manifest
        .split("path = '")
        .skip(1)
        .filter_map(|rest| rest.split('\'').next())
        .collect();
    assert_eq!(paths.len(), 2, "{manifest}");
    for path in paths {
        assert!(Path::new(path).join("Cargo.toml").is_file(), "{path}");
    }
}

#[test]
fn a_strangers_crate_is_written() {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = folder();
    let out = folder.display().to_string();
    let checkout_text = checkout.display().to_string();
    let arguments = [
        "new-scheduler",
        "stranger",
        "--folder",
        &*out,
        "--checkout",
        &*checkout_text,
    ];
    let (code, out, err) = lab(&arguments);
    assert_eq!((code, &*err), (0, ""));
    assert!(
        out.contains("cargo run --release -- arena arena.toml"),
        "{out}"
    );
    let (code, _, err) = lab(&arguments);
    assert!(
        code == 2 && err.contains("exists, expected a new folder"),
        "{err}"
    );

    // Cargo takes it as it is written, with the versions of the workspace.
    fs::copy(checkout.join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let tree = run(Command::new(cargo).args(["tree", "--offline"]), &folder);
    assert!(tree.starts_with("stranger v0.1.0"), "{tree}");
    // What is written is what is compiled here, under another name.
    let written = |file: &str| fs::read_to_string(folder.join("src").join(file)).unwrap();
    let own = include_str!("../src/command/scaffold/lib.rs")
        .replace("my_scheduler", "stranger")
        .replace("MyScheduler", "Stranger");
    assert_eq!(written("lib.rs"), own);
    assert!(written("main.rs").contains("mpquic_lab::cli::program(stranger::register)"));

    // The arena that comes with it has the scheduler, which the lab without it does not know.
    let file = folder.join("arena.toml").display().to_string();
    let (code, _, err) = lab(&["arena", &file]);
    assert!(
        code == 2 && err.contains("unknown scheduler `stranger`"),
        "{err}"
    );
}

#[test]
fn its_scheduler_runs_in_the_arena() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(
        folder.join("arena.toml"),
        include_str!("../src/command/scaffold/arena.toml.txt"),
    )
    .unwrap();
    let shipped = ["arena", "arena.toml", "--seeds", "1", "--out", "shipped"];
    let part = [
        "--schedulers",
        "my_scheduler,minrtt",
        "--only",
        "prior/00[123]",
    ];
    let said = own_lab(folder, &[&shipped[..], &part[..]].concat());
    assert!(said.contains("2 schedulers in 3 scenarios"), "{said}");

    fs::write(folder.join("tiny.toml"), ARENA).unwrap();
    let said = own_lab(folder, &["arena", "tiny.toml", "--out", "results"]);
    assert!(said.contains("Leaderboard: results"), "{said}");
    let read = |file: &str| fs::read_to_string(folder.join("results").join(file)).unwrap();
    let document: serde_json::Value = serde_json::from_str(&read("arena.json")).unwrap();
    let ranked: Vec<_> = document["schedulers"].as_array().unwrap().iter().collect();
    let names: Vec<_> = ranked
        .iter()
        .filter_map(|row| row["scheduler"].as_str())
        .collect();
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(names.contains(&"my_scheduler"), "{names:?}");
    // Its code is a part of the build's name: the lab's own results would be of another one.
    assert!(document["build"].as_str().unwrap().contains('+'));
    let page = read("arena.html");
    assert!(
        page.contains("<td class=\"l\">my_scheduler</td>") && page.contains("<svg "),
        "{page}"
    );
    assert!(
        !page.contains("http://") || !page.contains("src="),
        "self-contained"
    );
}
