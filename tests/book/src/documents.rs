//! Runs what the pages say: each page's blocks in order, in a folder and on machines of the page's own.
//!
//! A page's folder looks like a checkout: its blocks find what a reader finds, and what they write stays there. `sh` blocks go
//! to bash as they stand, `rust` blocks that the tests of documentation do not run are called ([`crate::rust_blocks`]),
//! `toml` and `json` blocks are read. What is not done as written says so ([`crate::stand_ins`]).

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::blocks::{self, Block, Inline};
use crate::cargo::{self, Workspace};
use crate::stand_ins::{self, LEFT_OUT, Page, Why};
use crate::{rust_blocks, world};

/// How long a block may take; one may build a crate of its own from nothing.
const LIMIT: Duration = Duration::from_secs(600);

/// The page of the blocks in the crates' documentation that say that they are run here.
const RUSTDOC: &str = "rustdoc";

fn of_rustdoc(root: &Path) -> Result<Vec<Block>, String> {
    let mut all =
        blocks::of_sources(root).map_err(|error| format!("the sources cannot be read: {error}"))?;
    all.retain(|block| {
        blocks::reason(block).is_some_and(|reason| reason.starts_with("tests/book runs it"))
    });
    for block in &mut all {
        // To rustdoc, what has no language is Rust.
        block.info = format!("rust,{}", block.info);
    }
    Ok(all)
}

/// What became of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    AsItStands(Vec<String>),
    /// With what stood in for what.
    WithStandIns(Vec<String>),
    /// What it names exists; it was not run.
    Checked(Vec<String>),
    LeftOut(String),
    Failed(String),
}

pub const AS_IT_STANDS: Outcome = Outcome::AsItStands(Vec::new());

impl Outcome {
    const NAMES: [&str; 5] = [
        "run as it stands",
        "run with stand-ins",
        "checked only",
        "left out",
        "failed",
    ];

    const fn kind(&self) -> usize {
        match self {
            Self::AsItStands(_) => 0,
            Self::WithStandIns(_) => 1,
            Self::Checked(_) => 2,
            Self::LeftOut(_) => 3,
            Self::Failed(_) => 4,
        }
    }
}

fn text(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The folder where cargo builds.
pub fn target(root: &Path) -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |folder| root.join(folder))
}

/// All pages, or those named. `inside` is for the call within a page's namespaces.
pub fn run(root: &Path, wanted: &[String]) -> Result<ExitCode, String> {
    let all =
        blocks::pages(root).map_err(|error| format!("the pages cannot be listed: {error}"))?;
    for page in wanted {
        if page != RUSTDOC && !all.iter().any(|known| known == Path::new(page)) {
            return Err(format!(
                "{page} is no page whose blocks are run: README.md, docs/guide/*.md, crates/*/README.md, or `rustdoc`"
            ));
        }
    }
    let chosen: Vec<_> = all
        .into_iter()
        .filter(|page| wanted.is_empty() || wanted.iter().any(|w| Path::new(w) == page))
        .collect();
    let target = target(root);
    let mut of_pages = Vec::new();
    let mut inline = Vec::new();
    for page in chosen {
        let (blocks, mut commands) = blocks::of_page(&page, &text(&root.join(&page))?);
        inline.append(&mut commands);
        of_pages.push((page, blocks));
    }
    if wanted.is_empty() || wanted.iter().any(|page| page == RUSTDOC) {
        of_pages.push((RUSTDOC.into(), of_rustdoc(root)?));
    }
    let mut counts = [0_usize; Outcome::NAMES.len()];
    inline.retain(|found| found.text.starts_with("cargo "));
    let mut faults = inline_faults(root, &inline)?;
    let rust: Vec<Block> = of_pages
        .iter()
        .flat_map(|(_, blocks)| blocks)
        .filter(|block| rust_blocks::runs(block))
        .cloned()
        .collect();
    if !rust.is_empty() {
        println!("building the {} Rust blocks", rust.len());
        rust_blocks::build(root, &target, &rust)?;
    }
    let namespaces = world::namespaces();
    if let Err(why) = &namespaces {
        println!("no block that needs two machines or two links is run: {why}");
    }
    let me = env::current_exe().map_err(|error| format!("this program: {error}"))?;
    for (page, blocks) in of_pages {
        if !blocks
            .iter()
            .any(|block| verdict_without_running(root, block).is_none())
        {
            continue;
        }
        let folder = prepare(root, &target, &page, &me)
            .map_err(|error| format!("{}: {error}", page.display()))?;
        let mut command = match &namespaces {
            Ok(arguments) => {
                let mut command = Command::new("unshare");
                command.args(arguments).arg(&me);
                command
            }
            Err(why) => {
                let mut command = Command::new(&me);
                command.env("BOOK_ALONE", why);
                command
            }
        };
        // Within a page, `cargo` is a stand-in.
        command.env("CARGO", cargo::program());
        command
            .arg("inside")
            .arg(&page)
            .env("BOOK_ROOT", root)
            .env("BOOK_TARGET", &target)
            .env("BOOK_PAGE", &folder);
        let status = command
            .stdin(Stdio::null())
            .status()
            .map_err(|error| format!("{command:?}: {error}"))?;
        let said = fs::read_to_string(folder.join("counts")).unwrap_or_default();
        let kinds: Vec<usize> = said
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        for kind in &kinds {
            counts[*kind] += 1;
        }
        if !status.success() && !kinds.contains(&4) {
            faults.push(format!(
                "{}: its blocks were not run: {status}",
                page.display()
            ));
        }
    }
    for fault in &faults {
        eprintln!("{fault}");
    }
    let mut line = String::new();
    for (name, count) in Outcome::NAMES.iter().zip(counts) {
        let _ = write!(
            line,
            "{}{count} {name}",
            if line.is_empty() { "" } else { ", " }
        );
    }
    println!(
        "blocks: {line}; {} commands of cargo within lines checked",
        inline.len()
    );
    Ok(if faults.is_empty() && counts[4] == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Commands of cargo between words and in tables: what they name exists.
fn inline_faults(root: &Path, inline: &[Inline]) -> Result<Vec<String>, String> {
    let workspace = Workspace::read(root)?;
    let mut faults = Vec::new();
    for found in inline {
        let mut words: Vec<String> = found.text.split_whitespace().map(str::to_owned).collect();
        if words.len() < 2 || words[0] != "cargo" {
            continue;
        }
        words.remove(0);
        // `cargo run ... --` in the middle of a sentence, and `[--flag]`.
        words.retain(|word| word != "..." && !word.starts_with('['));
        if let Err(why) = workspace.check(root, &words) {
            faults.push(format!(
                "{}:{}: `{}`: {why}",
                found.page.display(),
                found.line,
                found.text
            ));
        }
    }
    Ok(faults)
}

/// What can be said of a block without a page's folder; `None` if it is to be run.
fn verdict_without_running(root: &Path, block: &Block) -> Option<Outcome> {
    if let Some(reason) = block.said("skip") {
        return Some(Outcome::LeftOut(reason.to_owned()));
    }
    let judged = match block.language() {
        "sh" | "python" => return None,
        "rust" if rust_blocks::runs(block) => return None,
        // With `cargo test`.
        "rust" => Ok(AS_IT_STANDS),
        "text" => Ok(Outcome::Checked(vec![
            "output, or a file of another program".to_owned(),
        ])),
        "toml" => toml_block(root, block).map(|()| AS_IT_STANDS),
        "json" => serde_json::from_str::<serde_json::Value>(&block.text)
            .map(|_| AS_IT_STANDS)
            .map_err(|error| error.to_string()),
        other => Err(format!("the runner does not know the language `{other}`")),
    };
    Some(judged.unwrap_or_else(Outcome::Failed))
}

/// A block of TOML is read. Where it names crates of ours, they are there and have the features.
fn toml_block(root: &Path, block: &Block) -> Result<(), String> {
    let table: toml::Table = block
        .text
        .parse()
        .map_err(|error: toml::de::Error| error.to_string())?;
    let dependencies = table
        .get("dependencies")
        .and_then(toml::Value::as_table)
        .unwrap_or(&table);
    let ours = dependencies
        .iter()
        .filter(|(name, _)| name.starts_with("mpquic"));
    for (name, value) in ours {
        if value.get("git").is_some() {
            continue;
        }
        let path = value.get("path").and_then(toml::Value::as_str);
        let path =
            path.ok_or_else(|| format!("{name} is on no registry: expected a path or git"))?;
        let Some((_, folder)) = path.split_once("crates/") else {
            return Err(format!("{name}: {path} is not below crates/"));
        };
        let workspace = Workspace::read(root)?;
        let package = workspace.package_at(&root.join("crates").join(folder))?;
        for feature in value
            .get("features")
            .and_then(toml::Value::as_array)
            .into_iter()
            .flatten()
        {
            Workspace::feature(package, feature.as_str().unwrap_or_default())?;
        }
    }
    Ok(())
}

/// The page's folder: a checkout by links, in which only what a page's blocks write is new, and the stand-ins.
fn prepare(root: &Path, target: &Path, page: &Path, me: &Path) -> io::Result<PathBuf> {
    let name = page.display().to_string().replace(['/', '.'], "-");
    let folder = target.join("book-run").join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let (checkout, bin) = (folder.join("mpquic"), folder.join("bin"));
    fs::create_dir_all(&checkout)?;
    fs::create_dir_all(&bin)?;
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        if name == "target" || name == ".git" {
            continue;
        }
        if entry.file_type()?.is_dir() {
            symlink(&path, checkout.join(&name))?;
        } else {
            fs::copy(&path, checkout.join(&name))?;
        }
    }
    for name in stand_ins::NAMES {
        symlink(me, bin.join(name))?;
    }
    // What the pages take for given: something to put, a page for the browser, a recorded link.
    let trace: String = (1..=2000).map(|ms| format!("{ms}\n")).collect();
    fs::write(checkout.join("car.trace"), trace)?;
    fs::create_dir_all(checkout.join("videos"))?;
    fs::write(checkout.join("videos/one.mp4"), [7; 100_000])?;
    fs::write(checkout.join("index.html"), "<title>mpquic</title>\n")?;
    Ok(folder)
}

/// The blocks of one page; called within its namespaces.
pub fn inside(page: &Path) -> Result<ExitCode, String> {
    let path = |name: &str| {
        env::var_os(name)
            .map(PathBuf::from)
            .ok_or_else(|| format!("{name} is not set"))
    };
    let state = Page {
        root: path("BOOK_ROOT")?,
        target: path("BOOK_TARGET")?,
        folder: path("BOOK_PAGE")?,
        alone: env::var("BOOK_ALONE").ok(),
    };
    if state.alone.is_none() {
        let me = env::current_exe().map_err(|error| format!("this program: {error}"))?;
        world::make(&[&state.root, &state.target, &me], &state.folder)?;
    }
    // Without its stand-ins, a page would build and install for real.
    let bin = state.folder.join("bin/cargo");
    if !bin.exists() {
        return Err(format!("{} leads nowhere", bin.display()));
    }
    world::certificate(&state.folder)?;
    let blocks = if page == Path::new(RUSTDOC) {
        of_rustdoc(&state.root)?
    } else {
        blocks::of_page(page, &text(&state.root.join(page))?).0
    };
    let mut outcomes = Vec::new();
    let mut python = BTreeMap::new();
    for block in &blocks {
        let began = Instant::now();
        let outcome =
            verdict_without_running(&state.root, block).unwrap_or_else(|| match block.language() {
                "rust" => run_rust(&state, block),
                "python" => {
                    if python.is_empty() {
                        python = crate::python::run(&state, &blocks);
                    }
                    python
                        .remove(&block.line)
                        .unwrap_or_else(|| Outcome::Failed("was not run".to_owned()))
                }
                _ => run_shell(&state, block),
            });
        say(block, &outcome, began.elapsed());
        outcomes.push(outcome);
    }
    stand_ins::stop_all(&state);
    let kinds: Vec<_> = outcomes
        .iter()
        .map(|outcome| outcome.kind().to_string())
        .collect();
    fs::write(state.folder.join("counts"), kinds.join(" "))
        .map_err(|error| format!("the page's folder: {error}"))?;
    let failed = outcomes
        .iter()
        .any(|outcome| matches!(outcome, Outcome::Failed(_)));
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn say(block: &Block, outcome: &Outcome, took: Duration) {
    let mut line = format!(
        "{block} {}: {}",
        block.language(),
        Outcome::NAMES[outcome.kind()]
    );
    match outcome {
        Outcome::AsItStands(notes) | Outcome::WithStandIns(notes) | Outcome::Checked(notes) => {
            for note in notes {
                let _ = write!(line, "\n    {note}");
            }
        }
        Outcome::LeftOut(why) => line += &format!(": {why}"),
        Outcome::Failed(why) => {
            let _ = write!(
                line,
                "\n{}\n    {}",
                block.text,
                why.trim_end().replace('\n', "\n    ")
            );
        }
    }
    if took > Duration::from_secs(1) {
        let _ = write!(line, " ({:.1} s)", took.as_secs_f64());
    }
    let mut out = io::stdout().lock();
    // Whoever reads this may have gone.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Waits for a process and all that it started; ends them after [`LIMIT`].
fn wait(child: &mut Child, limit: Duration) -> Result<ExitStatus, String> {
    let began = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if began.elapsed() < limit => thread::sleep(Duration::from_millis(20)),
            Ok(None) => {
                let group = format!("-{}", child.id());
                let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
                let _ = child.wait();
                return Err(format!("has not ended after {} s", limit.as_secs()));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// Runs a command with its output in a file. The output, and the code or why there is none.
pub fn finish(
    page: &Page,
    command: &mut Command,
    limit: Duration,
) -> (String, Result<Option<i32>, String>) {
    let log = page.folder.join("output.log");
    let ended = File::create(&log).and_then(|out| Ok((out.try_clone()?, out)));
    let ended = ended
        .map_err(|error| format!("{}: {error}", log.display()))
        .and_then(|(out, err)| {
            command
                .stdin(Stdio::null())
                .stdout(out)
                .stderr(err)
                .process_group(0);
            let mut child = command
                .spawn()
                .map_err(|error| format!("{:?}: {error}", command.get_program()))?;
            wait(&mut child, limit).map(|status| status.code())
        });
    let said = fs::read(&log).unwrap_or_default();
    (String::from_utf8_lossy(&said).into_owned(), ended)
}

/// A block of shell, as it stands, where the page's last one ended.
fn run_shell(page: &Page, block: &Block) -> Outcome {
    run_shell_within(page, block, LIMIT)
}

fn run_shell_within(page: &Page, block: &Block, limit: Duration) -> Outcome {
    let (notes, left_out, place) = (
        page.folder.join("notes"),
        page.folder.join("left_out"),
        page.folder.join("place"),
    );
    for old in [&notes, &left_out] {
        let _ = fs::remove_file(old);
    }
    let here = fs::read_to_string(&place).map_or_else(
        |_| page.folder.join("mpquic"),
        |place| place.trim_end().into(),
    );
    let script = format!(
        "set -euo pipefail\ntrap 'pwd > \"$BOOK_PAGE/place\"' EXIT\n{}",
        block.text
    );
    let mut command = Command::new("bash");
    command.args(["-c", &script]).current_dir(here);
    let bin = page.folder.join("bin");
    let old = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths([bin].into_iter().chain(env::split_paths(&old))).unwrap_or(old);
    command
        .env("PATH", path)
        .env("HOME", page.folder.join("home"))
        .envs(world::environment(&page.folder));
    if let Some(home) = env::var_os("HOME").map(PathBuf::from) {
        // Where cargo and its toolchains are, whatever the page's home is.
        for (name, folder) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
            if env::var_os(name).is_none() {
                command.env(name, home.join(folder));
            }
        }
    }
    command
        .env("BOOK_ROOT", &page.root)
        .env("BOOK_TARGET", &page.target)
        .env("BOOK_PAGE", &page.folder);
    if let Some(why) = &page.alone {
        command.env("BOOK_ALONE", why);
    }
    let (said, ended) = finish(page, &mut command, limit);
    let notes: Vec<String> = fs::read_to_string(&notes)
        .unwrap_or_default()
        .lines()
        .map(str::to_owned)
        .collect();
    match ended {
        Ok(Some(0)) => {
            let checked = notes
                .iter()
                .filter(|note| note.contains("checked only"))
                .count();
            if !notes.is_empty() && checked == notes.len() && checked >= commands(&block.text) {
                Outcome::Checked(notes)
            } else if notes
                .iter()
                .all(|note| note.ends_with(&Why::Background.to_string()))
            {
                Outcome::AsItStands(notes)
            } else {
                Outcome::WithStandIns(notes)
            }
        }
        Ok(Some(code)) if code == i32::from(LEFT_OUT) && left_out.exists() => {
            Outcome::LeftOut(fs::read_to_string(&left_out).unwrap_or_default())
        }
        Ok(code) => {
            let code = code.map_or_else(
                || "ended by a signal".to_owned(),
                |code| format!("exit code {code}"),
            );
            Outcome::Failed(format!("{code}\n{said}{}", logs(&page.folder)))
        }
        Err(why) => Outcome::Failed(format!("{why}\n{said}{}", logs(&page.folder))),
    }
}

/// How many commands a block has, each of which may go over several lines.
fn commands(text: &str) -> usize {
    let whole = text.replace("\\\n", " ");
    whole
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
        .count()
}

/// What the page's servers said.
fn logs(folder: &Path) -> String {
    let mut all = String::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|end| end == "log")
            && path.file_name().is_some_and(|name| name != "output.log")
        {
            let said = fs::read(&path).unwrap_or_default();
            let _ = write!(
                all,
                "\n{} has:\n{}",
                path.display(),
                String::from_utf8_lossy(&said)
            );
        }
    }
    all
}

/// A Rust block, by the program of all of them.
fn run_rust(page: &Page, block: &Block) -> Outcome {
    if let Some(why) = page
        .alone
        .as_ref()
        .filter(|_| rust_blocks::needs_machines(block))
    {
        return Outcome::LeftOut(why.clone());
    }
    let program = rust_blocks::program(&page.target);
    let checkout = page.folder.join("mpquic");
    for (from, to) in [("site.pem", "authority.pem"), ("site.key", "authority.key")] {
        if let Err(error) = fs::copy(page.folder.join(from), checkout.join(to)) {
            return Outcome::Failed(format!("{from}: {error}"));
        }
    }
    let mut command = Command::new(&program);
    command.arg(block.to_string()).current_dir(&checkout);
    let mut server = None;
    if page.alone.is_none() {
        // The servers of the page's shell blocks have the same port.
        stand_ins::stop_all(page);
        command.arg("--machines");
        let started = Command::new("ip")
            .args(["netns", "exec", world::THERE])
            .arg(&program)
            .arg("serve")
            .current_dir(&checkout)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn();
        match started {
            Ok(mut started) => {
                let mut ready = String::new();
                if let Some(out) = started.stdout.as_mut() {
                    let _ = io::BufRead::read_line(&mut io::BufReader::new(out), &mut ready);
                }
                server = Some(started);
            }
            Err(error) => return Outcome::Failed(format!("ip netns exec: {error}")),
        }
    }
    let (said, ended) = finish(page, &mut command, LIMIT);
    if let Some(mut server) = server {
        let _ = server.kill();
        let _ = server.wait();
    }
    match ended {
        Ok(Some(0)) => AS_IT_STANDS,
        Ok(code) => Outcome::Failed(format!("exit code {code:?}\n{said}")),
        Err(why) => Outcome::Failed(format!("{why}\n{said}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> (tempfile::TempDir, Page) {
        let folder = tempfile::tempdir().unwrap();
        let me = env::current_exe().unwrap();
        let root = crate::root();
        let made = prepare(&root, folder.path(), Path::new("page.md"), &me).unwrap();
        let page = Page {
            target: target(&root),
            root,
            folder: made,
            alone: Some("a test".to_owned()),
        };
        (folder, page)
    }

    fn block(text: &str) -> Block {
        Block {
            page: "page.md".into(),
            line: 1,
            info: "sh".to_owned(),
            text: text.to_owned(),
            comment: None,
        }
    }

    fn failure(outcome: &Outcome) -> &str {
        match outcome {
            Outcome::Failed(why) => why,
            other => panic!("not failed: {other:?}"),
        }
    }

    #[test]
    fn a_block_with_a_command_that_fails_fails() {
        let (_folder, page) = page();
        for (text, why) in [
            (
                "echo before; no-such-program; echo after\n",
                "exit code 127\nbefore",
            ),
            ("false\necho after\n", "exit code 1\n"),
            ("cat no-such-file | wc -l\n", "exit code 1\n"),
            ("echo \"$not_set\"\n", "exit code 1\n"),
            ("exit 77\n", "exit code 77\n"),
            ("if\n", "exit code 2\n"),
        ] {
            let outcome = run_shell(&page, &block(text));
            assert!(failure(&outcome).starts_with(why), "{text}: {outcome:?}");
            assert!(!failure(&outcome).contains("after\n"), "{outcome:?}");
        }
        assert_eq!(run_shell(&page, &block("true\n")), AS_IT_STANDS);
    }

    #[test]
    fn a_block_that_does_not_end_fails_in_time() {
        let (_folder, page) = page();
        let outcome = run_shell_within(
            &page,
            &block("sleep 1000 &\nwait\n"),
            Duration::from_millis(300),
        );
        assert!(
            failure(&outcome).starts_with("has not ended"),
            "{outcome:?}"
        );
    }

    #[test]
    fn the_next_block_is_where_the_last_one_ended() {
        let (_folder, page) = page();
        assert_eq!(
            run_shell(&page, &block("mkdir here\ncd here\n")),
            AS_IT_STANDS
        );
        assert_eq!(
            run_shell(&page, &block("[[ $(basename \"$PWD\") == here ]]\n")),
            AS_IT_STANDS
        );
    }

    #[test]
    fn a_manifest_names_what_can_be_had() {
        let root = crate::root();
        let judged = |text: &str| {
            toml_block(
                &root,
                &Block {
                    info: "toml".to_owned(),
                    ..block(text)
                },
            )
        };
        assert_eq!(
            judged(
                "[dependencies]\nmpquic = { path = \"../mpquic/crates/mpquic\", features = [\"qlog\"] }\n"
            ),
            Ok(())
        );
        for (text, why) in [
            (
                "[dependencies]\nmpquic = \"0.1\"\n",
                "mpquic is on no registry: expected a path or git",
            ),
            (
                "mpquic = { path = \"../mpquic/crates/mpquic\", features = [\"qlgo\"] }\n",
                "mpquic has no feature `qlgo`",
            ),
        ] {
            assert_eq!(judged(text), Err(why.to_owned()));
        }
        assert!(judged("a = \n").is_err());
    }
}
