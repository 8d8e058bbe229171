//! Clients of HTTP/3 that people have: curl and Chromium, where they are on this machine, fetch from `h3_server`, the example of
//! `mpquic-h3`.

use std::env;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use libtest_mimic::Trial;
use mpquic_test_support::runtime::run_within;
use rcgen::PublicKeyData;
use sha2::{Digest, Sha256};

use crate::child::{Pem, is_wanted};
use crate::hq;
use crate::verdict::{Left, Verdict, test};

/// What is fetched, bytes.
const SIZE: usize = 1 << 20;
/// What a browser shows.
const PAGE: &str = "<p id=\"it\">from the other side</p>";
/// No client takes longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// For readers: the name in those of tests, and what is asked of the client.
pub(crate) const CLIENTS: [(&str, &str); 3] = [
    ("curl", "GET of 1 MiB"),
    ("chromium", "a page"),
    ("firefox", "a page"),
];

/// The versions that clients told.
static VERSIONS: Mutex<Vec<(&str, String)>> = Mutex::new(Vec::new());

/// The version of a client that ran.
pub(crate) fn version(name: &str) -> Option<String> {
    let versions = VERSIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let found = versions.iter().find(|(client, _)| *client == name);
    found.map(|(_, version)| version.clone())
}

pub(crate) fn tests() -> [Trial; 3] {
    [
        test("http3::curl", curl),
        test("http3::chromium", chromium),
        test("http3::firefox", firefox),
    ]
}

/// What a client says of its version, if it is there.
fn ask(client: &'static str) -> Result<String, Left> {
    is_wanted(client)?;
    let missing = || Left::Skipped(format!("{client} is not on this machine"));
    let output = Command::new(client).arg("--version").output();
    let output = output.ok().filter(|output| output.status.success());
    let said = output.ok_or_else(missing)?.stdout;
    let said = String::from_utf8_lossy(&said).into_owned();
    let number = said
        .split_whitespace()
        .find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    let number = number.unwrap_or_default().to_owned();
    let mut versions = VERSIONS.lock().unwrap_or_else(PoisonError::into_inner);
    versions.push((client, number));
    Ok(said)
}

fn curl() -> Verdict {
    if !ask("curl")?.contains("HTTP3") {
        let why = "the curl of this machine was built without HTTP/3";
        return Err(Left::Skipped(why.into()));
    }
    let server = Server::start()?;
    let mut command = Command::new("curl");
    command
        .args(["--http3-only", "--silent", "--show-error", "--cacert"])
        .arg(server.pem.path("root.pem"))
        .arg(format!("https://localhost:{}/body", server.port));
    let output = finish(command);
    assert!(output.status.success(), "{output:?}");
    assert!(output.stdout == hq::body(SIZE), "the body is garbled");
    Ok(())
}

fn chromium() -> Verdict {
    ask("chromium")?;
    let server = Server::start()?;
    let profile = tempfile::tempdir().unwrap();
    // Nothing listens for TCP at that port: what is shown came over QUIC.
    let mut command = Command::new("chromium");
    command
        // Its sandbox does not run as root.
        .args(["--headless", "--no-sandbox", "--disable-gpu"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!(
            "--origin-to-force-quic-on=localhost:{}",
            server.port
        ))
        .arg("--host-resolver-rules=MAP localhost 127.0.0.1")
        .arg(format!(
            "--ignore-certificate-errors-spki-list={}",
            server.key
        ))
        .arg("--dump-dom")
        .arg(format!("https://localhost:{}/page.html", server.port));
    let output = finish(command);
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.contains(PAGE), "{output:?}");
    Ok(())
}

fn firefox() -> Verdict {
    ask("firefox")?;
    let why = "firefox takes neither a certificate nor a page's text by its command line";
    Err(Left::Skipped(why.into()))
}

/// Runs a client to its end.
fn finish(mut command: Command) -> Output {
    run_within(PATIENCE, async move {
        let run = move || command.stdin(Stdio::null()).output();
        tokio::task::spawn_blocking(run).await.unwrap().unwrap()
    })
}

/// `h3_server`, with a folder of its own.
struct Server {
    process: Child,
    port: u16,
    pem: Pem,
    /// The hash of its key, as Chromium is told it.
    key: String,
    _folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

impl Server {
    fn start() -> Result<Self, Left> {
        let program = program().ok_or_else(|| {
            let build = "cargo build -p mpquic-h3 --example h3_server";
            Left::Skipped(format!("h3_server is not built ({build})"))
        })?;
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("body"), hq::body(SIZE)).unwrap();
        std::fs::write(folder.path().join("page.html"), PAGE).unwrap();
        let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        let hash = Sha256::digest(made.signing_key.subject_public_key_info());
        let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let pem = Pem::write(&chain, &chain, &key);
        let mut process = Command::new(program)
            .args(["--listen", "127.0.0.1:0", "--root"])
            .arg(folder.path())
            .arg("--cert")
            .arg(pem.path("cert.pem"))
            .arg("--key")
            .arg(pem.path("key.pem"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let port = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let address = line.strip_prefix("listening on https://")?.to_owned();
            address
                .trim_end_matches('/')
                .rsplit(':')
                .next()?
                .parse()
                .ok()
        });
        // It goes on to tell of requests.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(Self {
            process,
            port: port.expect("the server says no port"),
            pem,
            key: base64::engine::general_purpose::STANDARD.encode(hash),
            _folder: folder,
        })
    }
}

/// Beside this program, if it is built.
fn program() -> Option<PathBuf> {
    let here = env::current_exe().ok()?;
    let profile = here.parent()?.parent()?;
    Some(profile.join("examples/h3_server")).filter(|program| program.exists())
}
