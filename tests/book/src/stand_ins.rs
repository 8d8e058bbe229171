//! What stands in for programs while a page's blocks run: they find these before the programs of the system.
//!
//! A block is given to bash as it stands. The programs of this repository, and what cannot run everywhere, are links to this
//! one, which runs what the tests have built. Everything that is not done as it is written is in the tables of this file, with
//! its reason; the runner prints which of them a block met.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::cargo::{self, Asked, Workspace};
use crate::world::THERE;

/// The code with which a stand-in says that this machine cannot run the block, and has said why.
pub const LEFT_OUT: u8 = 77;
/// How long a service may take until it says that it is there.
const READY: Duration = Duration::from_secs(30);

/// A command that does not end: its block goes on when it has said that it is ready, as a reader goes on in another
/// terminal. It runs until the page ends, or until the same is started again, before which a reader would stop it.
struct Service {
    program: &'static str,
    /// Its first argument; empty for any.
    role: &'static str,
    there: bool,
    ready: &'static str,
}

const SERVICES: [Service; 4] = [
    Service {
        program: "mpquic-cp",
        role: "serve",
        there: true,
        ready: "fingerprint ",
    },
    Service {
        program: "mpquic-bond",
        role: "serve",
        there: true,
        ready: "fingerprint ",
    },
    Service {
        program: "mpquic-bond",
        role: "connect",
        there: false,
        ready: "proxy on ",
    },
    Service {
        program: "h3_server",
        role: "",
        there: false,
        ready: "listening on ",
    },
];

/// Arguments that are added so that a command takes seconds: program, first words, what is added.
const SHORTER: [(&str, &[&str], &[&str]); 5] = [
    ("download", &[], &["--size", "8MiB"]),
    ("mpquic-lab", &["run"], &["--seeds", "1"]),
    ("mine", &["run"], &["--seeds", "1"]),
    (
        "mine",
        &["arena", "arena.toml"],
        &[
            "--seeds",
            "1",
            "--schedulers",
            "mine,minrtt",
            "--only",
            "prior/00[123]",
        ],
    ),
    (
        "mine",
        &["arena"],
        &[
            "--seeds",
            "1",
            "--schedulers",
            "mine,minrtt",
            "--only",
            "prior/00[12]",
        ],
    ),
];

/// What a reader copies from a server's output, and a page can only abbreviate: `9f86d0...`.
const FINGERPRINT: &str = "9f86d0";

/// Programs of the system that not every machine has, and what the page's block is without them: left out.
const OPTIONAL: [&str; 2] = ["chromium", "jupyter"];

/// All names that lead here.
pub const NAMES: [&str; 12] = [
    "cargo",
    "mpquic-cp",
    "mpquic-bond",
    "mpquic-lab",
    "curl",
    "ip",
    "sysctl",
    "pip",
    "python",
    "server",
    "chromium",
    "jupyter",
];

/// Why something is not done as it is written.
#[derive(Debug, Clone, Copy)]
pub enum Why {
    Built,
    Shorter,
    Background,
    Fingerprint,
    OfTests,
    WholeMachine,
    Install,
    Readers,
    Stranger,
    Root,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Built => {
                "the program that the tests built, in place of a release build that takes minutes"
            }
            Self::Shorter => "a shorter run",
            Self::Background => "in a terminal of its own",
            Self::Fingerprint => "the fingerprint is the one that the server printed",
            Self::OfTests => "checked only: it is a step of .ci/run by itself",
            Self::WholeMachine => "checked only: it would change the whole machine",
            Self::Install => "checked only: it would build for minutes; what it installs is there",
            Self::Readers => "a program of the reader's, which is `mpquic-cp --help` here",
            Self::Root => "as root, it does not start otherwise",
            Self::Stranger => "as the tests are built, so that what it depends on is there",
        })
    }
}

/// The page whose block is running.
pub struct Page {
    pub root: PathBuf,
    pub target: PathBuf,
    pub folder: PathBuf,
    /// Why there are no namespaces, if there are none.
    pub alone: Option<String>,
}

impl Page {
    fn from_environment() -> Option<Self> {
        let path = |name| env::var_os(name).map(PathBuf::from);
        Some(Self {
            root: path("BOOK_ROOT")?,
            target: path("BOOK_TARGET")?,
            folder: path("BOOK_PAGE")?,
            alone: env::var("BOOK_ALONE").ok(),
        })
    }

    fn note(&self, why: Why, what: &str) {
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(self.folder.join("notes"));
        // A note that is lost makes no block fail; the runner counts by them.
        let _ = file.and_then(|mut file| writeln!(file, "{what}: {why}"));
    }

    fn built(&self, program: &str, example: bool) -> Result<PathBuf, Failed> {
        let folder = if example { "debug/examples" } else { "debug" };
        let path = self.target.join(folder).join(program);
        if path.exists() {
            return Ok(path);
        }
        Err(Failed::Wrong(format!(
            "{} is not built: cargo test --workspace --no-run builds it",
            path.display()
        )))
    }
}

#[derive(Debug)]
pub enum Failed {
    LeftOut(String),
    Wrong(String),
    Code(i32),
}

impl From<String> for Failed {
    fn from(said: String) -> Self {
        Self::Wrong(said)
    }
}

/// If this program was called by the name of another: stands in for it.
pub fn main() -> Option<ExitCode> {
    let mut arguments = env::args_os();
    let called = PathBuf::from(arguments.next()?);
    let name = called.file_name()?.to_str()?.to_owned();
    let name = NAMES.into_iter().find(|known| *known == name)?;
    let page = Page::from_environment()?;
    let arguments: Vec<String> = arguments
        .map(OsString::into_string)
        .collect::<Result<_, _>>()
        .ok()?;
    Some(match stand_in(&page, name, &arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failed::LeftOut(why)) => {
            eprintln!("left out: {why}");
            let _ = fs::write(page.folder.join("left_out"), why);
            ExitCode::from(LEFT_OUT)
        }
        Err(Failed::Wrong(why)) => {
            eprintln!("{name}: {why}");
            ExitCode::FAILURE
        }
        Err(Failed::Code(code)) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
    })
}

fn stand_in(page: &Page, name: &str, arguments: &[String]) -> Result<(), Failed> {
    match name {
        "cargo" => cargo_command(page, arguments),
        "mpquic-cp" | "mpquic-bond" => {
            needs_machines(page)?;
            run(page, name, &page.built(name, false)?, arguments)
        }
        "mpquic-lab" if arguments.first().is_some_and(|command| command == "shell") => {
            needs_machines(page)?;
            run(page, name, &page.built(name, false)?, arguments)
        }
        "mpquic-lab" => run(page, name, &page.built(name, false)?, arguments),
        "server" => {
            let library = env::var("LD_PRELOAD").unwrap_or_default();
            if !Path::new(&library).exists() {
                return Err(Failed::LeftOut(format!("{library} is not on this machine")));
            }
            page.note(Why::Readers, name);
            exec(Command::new(page.built("mpquic-cp", false)?).arg("--help"))
        }
        "sysctl" => {
            page.note(Why::WholeMachine, "sysctl");
            let names = arguments
                .iter()
                .filter_map(|argument| argument.split_once('='));
            for (key, _) in names {
                let file = Path::new("/proc/sys").join(key.replace('.', "/"));
                if !file.exists() {
                    return Err(Failed::Wrong(format!("there is no {}", file.display())));
                }
            }
            Ok(())
        }
        "pip" => pip(page, arguments),
        "python" => match arguments {
            // Its options are those of the module's own tests.
            [m, module, ..] if m == "-m" && module == "mpquic_lab.sweep" => {
                Err(Failed::LeftOut("there is no cluster of Ray".to_owned()))
            }
            _ => exec(system(name).args(arguments)),
        },
        "ip" | "curl" => {
            needs_machines(page)?;
            exec(system(name).args(arguments))
        }
        name => {
            debug_assert!(OPTIONAL.contains(&name));
            let path = env::var_os("PATH").unwrap_or_default();
            let mut arguments = arguments.to_vec();
            if name == "chromium" && fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0) {
                page.note(Why::Root, "chromium with --no-sandbox");
                arguments.insert(0, "--no-sandbox".to_owned());
            }
            let found = env::split_paths(&path).skip(1);
            if !found
                .map(|folder| folder.join(name))
                .any(|path| path.exists())
            {
                return Err(Failed::LeftOut(format!("{name} is not on this machine")));
            }
            exec(system(name).args(arguments))
        }
    }
}

fn needs_machines(page: &Page) -> Result<(), Failed> {
    page.alone
        .clone()
        .map_or(Ok(()), |why| Err(Failed::LeftOut(why)))
}

/// A program of the system, and all that it calls: without these stand-ins.
fn system(name: &str) -> Command {
    let path = env::var_os("PATH").unwrap_or_default();
    let rest = env::join_paths(env::split_paths(&path).skip(1)).unwrap_or(path);
    let mut command = Command::new(name);
    for folder in env::split_paths(&rest) {
        if folder.join(name).exists() {
            command = Command::new(folder.join(name));
            break;
        }
    }
    command.env("PATH", rest);
    command
}

fn exec(command: &mut Command) -> Result<(), Failed> {
    let status = command
        .status()
        .map_err(|error| format!("{:?}: {error}", command.get_program()))?;
    match status.code() {
        Some(0) => Ok(()),
        // `| head` ends a program so, and bash judges as it does without a stand-in.
        None => Err(Failed::Code(128 + status.signal().unwrap_or(0))),
        Some(code) => Err(Failed::Code(code)),
    }
}

/// `pip install ./FOLDER[EXTRA]`: the package and what it is asked for exist.
fn pip(page: &Page, arguments: &[String]) -> Result<(), Failed> {
    page.note(Why::Install, "pip");
    let [install, what] = arguments else {
        return Err(Failed::Wrong(format!(
            "expected `pip install FOLDER`, not {arguments:?}"
        )));
    };
    if install != "install" {
        return Err(Failed::Wrong(format!(
            "pip {install} is not known to the runner"
        )));
    }
    let (folder, extra) = what.split_once('[').unwrap_or((what, "]"));
    let file = Path::new(folder).join("pyproject.toml");
    let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let table: toml::Table = text
        .parse()
        .map_err(|error| format!("{}: {error}", file.display()))?;
    let extra = extra.trim_end_matches(']');
    let extras = table
        .get("project")
        .and_then(|project| project.get("optional-dependencies"));
    if !extra.is_empty() && extras.and_then(|extras| extras.get(extra)).is_none() {
        return Err(Failed::Wrong(format!(
            "{} has no extra `{extra}`",
            file.display()
        )));
    }
    Ok(())
}

fn cargo_command(page: &Page, arguments: &[String]) -> Result<(), Failed> {
    let here = env::current_dir().map_err(|error| format!("no folder: {error}"))?;
    let own = here
        .ancestors()
        .take_while(|folder| folder.starts_with(&page.folder));
    let own = own
        .into_iter()
        .find(|folder| folder.join("Cargo.toml").exists());
    let in_repository = own.is_some_and(|folder| folder.join("crates").exists());
    if !in_repository {
        return strangers_cargo(page, own, arguments);
    }
    let workspace = Workspace::read(&page.root)?;
    match workspace.check(&page.root, arguments)? {
        Asked::Run {
            program,
            example,
            arguments,
        } => {
            page.note(Why::Built, &format!("cargo run, {program}"));
            run(page, &program, &page.built(&program, example)?, &arguments)
        }
        Asked::Install => {
            page.note(Why::Install, "cargo install");
            Ok(())
        }
        Asked::Checked => {
            page.note(Why::OfTests, &format!("cargo {}", arguments.join(" ")));
            Ok(())
        }
    }
}

/// In a crate that a page's blocks have made: real, with what is on this machine.
fn strangers_cargo(page: &Page, own: Option<&Path>, arguments: &[String]) -> Result<(), Failed> {
    let Some(own) = own else {
        return Err(Failed::Wrong("there is no Cargo.toml here".to_owned()));
    };
    let name = own
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    page.note(Why::Stranger, &format!("cargo in {name}"));
    let lock = own.join("Cargo.lock");
    if !lock.exists() {
        let from = page.root.join("Cargo.lock");
        fs::copy(&from, &lock).map_err(|error| format!("{}: {error}", from.display()))?;
    }
    let (of_cargo, of_program) = cargo::split(arguments);
    let mut of_cargo: Vec<&str> = of_cargo.iter().map(String::as_str).collect();
    of_cargo.retain(|argument| *argument != "--release");
    let mut command = system("cargo");
    cargo::forget_own_package(&mut command);
    command.arg("--config").arg(profile(page)?).args(of_cargo);
    let longer = shorter(page, &name, of_program);
    if !longer.is_empty() {
        command.arg("--").args(longer);
    }
    command
        .env("CARGO_TARGET_DIR", &page.target)
        .env("CARGO_INCREMENTAL", "0")
        .env("CARGO_NET_OFFLINE", "true");
    exec(&mut command)
}

/// A file of configuration with the profile of this repository's builds, in which the libraries of others are built by then. Ours
/// are built anew, and not optimised: these runs are short.
fn profile(page: &Page) -> Result<PathBuf, Failed> {
    let manifest = page.root.join("Cargo.toml");
    let text = fs::read_to_string(&manifest)
        .map_err(|error| format!("{}: {error}", manifest.display()))?;
    let read: toml::Table = text
        .parse()
        .map_err(|error| format!("{}: {error}", manifest.display()))?;
    let dev = read
        .get("profile")
        .and_then(|profiles| profiles.get("dev"))
        .ok_or_else(|| format!("{}: there is no profile.dev", manifest.display()))?;
    let mut dev = dev.clone();
    let of_packages = dev
        .as_table_mut()
        .and_then(|dev| dev.get_mut("package"))
        .and_then(toml::Value::as_table_mut)
        .ok_or_else(|| format!("{}: there is no profile.dev.package", manifest.display()))?;
    for name in Workspace::read(&page.root)?.names() {
        let level = toml::Table::from_iter([("opt-level".to_owned(), 0.into())]);
        of_packages.insert(name.to_owned(), level.into());
    }
    let table = |name: &str, value: toml::Value| toml::Table::from_iter([(name.to_owned(), value)]);
    let text = table("profile", table("dev", dev).into()).to_string();
    let path = page.folder.join("profile.toml");
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}

/// The arguments with those of [`SHORTER`].
fn shorter(page: &Page, program: &str, arguments: &[String]) -> Vec<String> {
    let fits = |words: &[&str]| {
        words
            .iter()
            .enumerate()
            .all(|(at, word)| arguments.get(at).is_some_and(|a| a == word))
    };
    let mut all = arguments.to_vec();
    if let Some((_, _, more)) = SHORTER
        .iter()
        .find(|(of, words, _)| *of == program && fits(words))
    {
        page.note(Why::Shorter, &format!("{program} with {}", more.join(" ")));
        all.extend(more.iter().map(|&word| word.to_owned()));
    }
    all
}

fn run(page: &Page, name: &str, program: &Path, arguments: &[String]) -> Result<(), Failed> {
    let mut arguments = shorter(page, name, arguments);
    for argument in &mut arguments {
        if argument.contains(FINGERPRINT) && argument.ends_with("...") {
            page.note(Why::Fingerprint, name);
            let prefix = argument.split(FINGERPRINT).next().unwrap_or_default();
            *argument = format!("{prefix}{}", fingerprint(page, name)?);
        }
    }
    let role = arguments.first().map_or("", String::as_str);
    let service = SERVICES
        .iter()
        .find(|known| known.program == name && (known.role.is_empty() || known.role == role));
    let Some(service) = service.filter(|_| !arguments.iter().any(|argument| argument == "--help"))
    else {
        return exec(Command::new(program).args(&arguments));
    };
    start(page, service, program, &arguments)
}

/// The fingerprint, without a prefix, that the program printed when it began to serve.
fn fingerprint(page: &Page, program: &str) -> Result<String, Failed> {
    let log = page.folder.join(format!("{program}.serve.log"));
    let said = fs::read_to_string(&log).unwrap_or_default();
    let word = said
        .lines()
        .find_map(|line| line.strip_prefix("fingerprint "));
    let word = word.ok_or_else(|| {
        format!(
            "no server of the page has printed a fingerprint: {}",
            log.display()
        )
    })?;
    Ok(word
        .trim()
        .rsplit(':')
        .next()
        .unwrap_or_default()
        .to_owned())
}

fn start(
    page: &Page,
    service: &Service,
    program: &Path,
    arguments: &[String],
) -> Result<(), Failed> {
    let name = format!("{}.{}", service.program, service.role);
    page.note(
        Why::Background,
        &format!("{} {}", service.program, service.role),
    );
    stop(page, &name)?;
    let log = page.folder.join(format!("{name}.log"));
    let file = || File::create(&log).map_err(|error| format!("{}: {error}", log.display()));
    let out = file()?;
    let err = out.try_clone().map_err(|error| error.to_string())?;
    let mut words: Vec<OsString> = Vec::new();
    if service.there {
        words.extend(["ip", "netns", "exec", THERE].map(OsString::from));
    }
    words.push(program.into());
    words.extend(arguments.iter().map(OsString::from));
    if arguments.iter().any(|argument| argument == "--screen") {
        // It wants a terminal.
        let line: Vec<_> = words
            .iter()
            .map(|word| quoted(&word.to_string_lossy()))
            .collect();
        words = ["script", "-qfec", &line.join(" "), "/dev/null"]
            .map(OsString::from)
            .to_vec();
    }
    let mut command = system(&words[0].to_string_lossy());
    command
        .args(&words[1..])
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .process_group(0);
    let mut child = command
        .spawn()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    let pid = page.folder.join(format!("{name}.pid"));
    fs::write(&pid, child.id().to_string())
        .map_err(|error| format!("{}: {error}", pid.display()))?;
    let began = Instant::now();
    loop {
        let said = String::from_utf8_lossy(&fs::read(&log).unwrap_or_default()).into_owned();
        if said.contains(service.ready) {
            print!("{said}");
            return Ok(());
        }
        if let Ok(Some(status)) = child.try_wait() {
            print!("{said}");
            return Err(Failed::Wrong(format!(
                "ended before it was ready: {status}"
            )));
        }
        if began.elapsed() > READY {
            print!("{said}");
            let ready = service.ready;
            return Err(Failed::Wrong(format!(
                "has not said `{ready}` after {} s",
                READY.as_secs()
            )));
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// A word as a shell reads it back.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Ends a service of the page as Ctrl-C does, and waits until it is gone.
fn stop(page: &Page, name: &str) -> Result<(), Failed> {
    let Ok(pid) = fs::read_to_string(page.folder.join(format!("{name}.pid"))) else {
        return Ok(());
    };
    let gone = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z ")
    };
    let signal = |signal| {
        Command::new("kill")
            .args([signal, "--", &format!("-{pid}")])
            .stderr(Stdio::null())
            .status()
    };
    signal("-INT").map_err(|error| format!("kill: {error}"))?;
    let began = Instant::now();
    while !gone() {
        if began.elapsed() > Duration::from_secs(10) {
            return Err(Failed::Wrong(format!(
                "{name} does not end on an interrupt"
            )));
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Ends what a page has left running, where it has no namespace that ends with it.
pub fn stop_all(page: &Page) {
    for service in &SERVICES {
        let _ = stop(page, &format!("{}.{}", service.program, service.role));
    }
}
