//! What came of each test beside passing and failing, and the page of all of them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use libtest_mimic::Trial;

use crate::case::Case;
use crate::child::{self, Language};

/// The file that the page is written to. With it, every peer is asked for.
const PAGE: &str = "MPQUIC_INTEROP_PAGE";
/// What the tests of multipath with noq said: the output of `interop_noq`.
const NOQ: &str = "MPQUIC_INTEROP_NOQ";

/// Why a test was not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Left {
    /// The peer's library, or its role here, has no such thing.
    NotOffered(String),
    /// A program is missing, or was not asked for.
    Skipped(String),
}

pub(crate) type Verdict = Result<(), Left>;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    Yes,
    No(String),
    Left(Left),
}

static OUTCOMES: Mutex<BTreeMap<String, Outcome>> = Mutex::new(BTreeMap::new());

thread_local! {
    static CURRENT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Where the page goes, if it is to be written.
pub(crate) fn page() -> Option<PathBuf> {
    std::env::var_os(PAGE).map(PathBuf::from)
}

/// A test whose outcome is remembered.
pub(crate) fn test(
    name: impl Into<String>,
    run: impl FnOnce() -> Verdict + Send + 'static,
) -> Trial {
    let name = name.into();
    Trial::test(name.clone(), move || {
        CURRENT.set(name.clone());
        let ended = catch_unwind(AssertUnwindSafe(run));
        let outcome = match &ended {
            Ok(Ok(())) => Outcome::Yes,
            Ok(Err(left)) => {
                match left {
                    Left::NotOffered(why) => eprintln!("not offered: {why}"),
                    Left::Skipped(why) => eprintln!("skipped: {why}"),
                }
                Outcome::Left(left.clone())
            }
            Err(panic) => {
                let said = panic.downcast_ref::<String>().map(String::as_str);
                let said = said.or_else(|| panic.downcast_ref::<&str>().copied());
                Outcome::No(said.unwrap_or("it panicked").to_owned())
            }
        };
        if let (Some(log), Outcome::No(why)) = (log("us"), &outcome) {
            std::fs::write(log, why).ok();
        }
        let mut outcomes = OUTCOMES.lock().unwrap_or_else(PoisonError::into_inner);
        outcomes.insert(name, outcome);
        drop(outcomes);
        match ended {
            Ok(_) => Ok(()),
            Err(panic) => resume_unwind(panic),
        }
    })
}

/// A file for what one side of the test of this thread says, if logs are kept: when the page is written.
pub(crate) fn log(side: &str) -> Option<PathBuf> {
    page()?;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/interop/logs");
    std::fs::create_dir_all(&folder).ok()?;
    let name = CURRENT.with_borrow(|name| name.replace("::", "."));
    Some(folder.join(format!("{name}.{side}.log")))
}

/// Peers of the first table: the name in those of tests, the name for readers, and what it is.
const PEERS: [(&str, &str, &str); 12] = [
    ("quinn", "quinn", "Rust, rustls"),
    ("noq", "noq", "Rust, rustls; multipath below"),
    ("aioquic", "aioquic", "Python"),
    ("aiopquic", "aiopquic", "picoquic for Python"),
    ("quic_go", "quic-go", "Go, crypto/tls"),
    ("x_net", "golang.org/x/net/quic", "Go, crypto/tls"),
    ("s2n_quic", "s2n-quic", "Rust, rustls with AWS-LC"),
    ("quiche", "quiche", "Rust, BoringSSL"),
    ("tquic", "TQUIC", "Rust, BoringSSL"),
    ("ngtcp2", "ngtcp2", "C, GnuTLS"),
    ("xquic", "xquic", "C, BoringSSL; its demo programs"),
    ("msquic", "msquic", "C, quictls"),
];

/// Writes the page, if it is asked for.
pub(crate) fn write() {
    let Some(file) = page() else {
        return;
    };
    let outcomes = OUTCOMES.lock().unwrap_or_else(PoisonError::into_inner);
    let mut text = String::from(HEAD);
    peers(&mut text);
    cases(&mut text, &outcomes);
    multipath(&mut text, &outcomes);
    http3(&mut text, &outcomes);
    reasons(&mut text, &outcomes);
    std::fs::write(&file, text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
}

const HEAD: &str = "\
# Other stacks, in both roles

Made by `tests/interop/matrix`, which runs every peer that it finds on the machine, each as a client of our server and as a server of our client, over
real sockets of one machine. *yes*: the exercise passed, which asserts bytes, codes and, where the case is about the wire, what came by
(`tests/interop/runner`). **no**: it failed. *not offered*: the peer's library, or the program around it, has no such thing in this role, or a fault of
its own that was proven; the reasons are below.
*skipped*: a program is missing. The page speaks of our side only: an exercise that a peer cannot do says nothing about its worth.

CI runs the columns of quinn and noq.
";

/// What was tried in November 2026.
const ABSENT: &str = "
Not here: neqo, which needs NSS 3.126 (`nss-rs`), where Debian 12 has 3.87, and is not on crates.io.
";

fn peers(text: &mut String) {
    text.push_str("\n## Peers\n\n| peer | version | what it is |\n|---|---|---|\n");
    for (key, name, what) in PEERS {
        let version = match key {
            "quinn" | "noq" => locked(name),
            "aioquic" => child::version(Language::Aioquic),
            "aiopquic" => child::version(Language::Aiopquic),
            "quic_go" => child::version(Language::QuicGo),
            "x_net" => child::version(Language::XNet),
            "s2n_quic" => child::version(Language::S2nQuic),
            "quiche" => child::version(Language::Quiche),
            "tquic" => child::version(Language::Tquic),
            "ngtcp2" => child::version(Language::Ngtcp2),
            "xquic" => child::version(Language::Xquic),
            _ => child::version(Language::Msquic),
        };
        let version = version.unwrap_or_else(|| "not on this machine".into());
        writeln!(text, "| {name} | {version} | {what} |").unwrap();
    }
    let picoquic = crate::picoquic::version().unwrap_or_else(|| "not on this machine".into());
    writeln!(text, "| picoquicdemo | {picoquic} | C; multipath only |").unwrap();
    text.push_str(ABSENT);
}

/// A crate's version in the lock file.
fn locked(name: &str) -> Option<String> {
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
    let lock = std::fs::read_to_string(lock).ok()?;
    let (_, after) = lock.split_once(&format!("name = \"{name}\"\nversion = \""))?;
    Some(after.split_once('"')?.0.to_owned())
}

fn cell(outcomes: &BTreeMap<String, Outcome>, name: &str) -> &'static str {
    match outcomes.get(name) {
        Some(Outcome::Yes) => "yes",
        Some(Outcome::No(_)) => "**no**",
        Some(Outcome::Left(Left::NotOffered(_))) => "not offered",
        Some(Outcome::Left(Left::Skipped(_))) => "skipped",
        None => "not run",
    }
}

fn cases(text: &mut String, outcomes: &BTreeMap<String, Outcome>) {
    text.push_str("\n## Cases\n\nEach cell: the peer as client / as server.\n\n| case |");
    for (_, name, _) in PEERS {
        write!(text, " {name} |").unwrap();
    }
    text.push_str("\n|---|");
    text.push_str(&"---|".repeat(PEERS.len()));
    text.push('\n');
    for case in Case::ALL {
        write!(text, "| {} |", case.title()).unwrap();
        for (key, ..) in PEERS {
            let of = |role: &str| cell(outcomes, &format!("{key}_{role}::{}", case.name()));
            let (client, server) = (of("client"), of("server"));
            let both = if client == server {
                client.to_owned()
            } else {
                format!("{client} / {server}")
            };
            write!(text, " {both} |").unwrap();
        }
        text.push('\n');
    }
    for role in ["client", "server"] {
        let grease = cell(outcomes, &format!("grease::quinn_{role}"));
        writeln!(
            text,
            "\nThe QUIC bit (RFC 9287) with quinn as {role}: {grease}."
        )
        .unwrap();
    }
}

fn multipath(text: &mut String, outcomes: &BTreeMap<String, Outcome>) {
    text.push_str(
        "\n## Multipath (RFC 10069)\n\nEach cell: the peer as client / as server.\n\n| case | ours | picoquic |\n|---|---|---|\n",
    );
    for act in ["handshake", "transfer", "abandon", "status"] {
        let of = |pair: &str| cell(outcomes, &format!("multipath::{pair}::{act}"));
        writeln!(
            text,
            "| {act} | {} / {} | {} / {} |",
            of("our_client_acts"),
            of("our_server_acts"),
            of("picoquic_client"),
            of("picoquic_server"),
        )
        .unwrap();
    }
    let said = std::env::var_os(NOQ).and_then(|file| std::fs::read_to_string(file).ok());
    let Some(said) = said else {
        text.push_str("\nWith noq: not run.\n");
        return;
    };
    let mut rows: BTreeMap<&str, BTreeMap<&str, &str>> = BTreeMap::new();
    for line in said.lines() {
        let Some((name, result)) = line
            .strip_prefix("test ")
            .and_then(|rest| rest.split_once(" ... "))
        else {
            continue;
        };
        let Some((client, exercise)) = name.split_once("::") else {
            continue;
        };
        let result = if result == "ok" { "yes" } else { "**no**" };
        rows.entry(exercise).or_default().insert(client, result);
    }
    text.push_str("\n| with noq | noq is the client | noq is the server |\n|---|---|---|\n");
    for (exercise, by) in rows {
        let of = |client: &str| by.get(client).copied().unwrap_or("not run");
        let title = exercise.replace('_', " ");
        writeln!(
            text,
            "| {title} | {} | {} |",
            of("noq_client"),
            of("our_client")
        )
        .unwrap();
    }
}

fn http3(text: &mut String, outcomes: &BTreeMap<String, Outcome>) {
    text.push_str("\n## HTTP/3 (RFC 9114)\n\nFrom `h3_server` of `mpquic-h3`.\n\n| client | version | what | |\n|---|---|---|---|\n");
    for (client, what) in crate::http3::CLIENTS {
        let version = crate::http3::version(client).unwrap_or_else(|| "not on this machine".into());
        let came = cell(outcomes, &format!("http3::{client}"));
        writeln!(text, "| {client} | {version} | {what} | {came} |").unwrap();
    }
}

/// Why cells are not "yes".
fn reasons(text: &mut String, outcomes: &BTreeMap<String, Outcome>) {
    let mut why: BTreeMap<(&str, &str), BTreeSet<String>> = BTreeMap::new();
    for (name, outcome) in outcomes {
        let (kind, said) = match outcome {
            Outcome::Yes => continue,
            Outcome::No(said) => ("no", said.lines().next().unwrap_or_default()),
            Outcome::Left(Left::NotOffered(said)) => ("not offered", said.trim()),
            Outcome::Left(Left::Skipped(said)) => ("skipped", said.trim()),
        };
        let name = name.replace("::", " ").replace('_', " ");
        why.entry((kind, said)).or_default().insert(name);
    }
    text.push_str("\n## Reasons\n\n| cells | what | why |\n|---|---|---|\n");
    for ((kind, said), names) in why {
        let names = Vec::from_iter(names);
        let cells = match names.len() {
            1..=4 => names.join(", "),
            count => format!("{}, and {} more", names[..3].join(", "), count - 3),
        };
        writeln!(text, "| {cells} | {kind} | {} |", said.replace('|', "/")).unwrap();
    }
}
