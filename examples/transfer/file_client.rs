//! The file download client: its command line, its errors, and its work.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Parser;
use mpquic::rustls::RootCertStore;
use mpquic::rustls::pki_types::CertificateDer;
use mpquic::rustls::pki_types::pem::PemObject;
use mpquic::{ConfigError, TransportConfig};
use thiserror::Error;

use crate::arguments::USAGE;
use crate::measure::{DownloadError, download};
use crate::progress::Bars;
use crate::protocol::Request;
use crate::report::{Report, goodput_mbps};
use crate::routes::{PathArgument, RouteError, routes};
use crate::save::PartialFile;
use crate::schedulers::{Choice, ChoiceError};
use crate::session::{Client, client_config};
use crate::shares::shares;

const EXAMPLES: &str = "\
Examples:
  Over the path that the system chooses:
    file_download --server 192.0.2.1:4433 --ca server.pem video.mp4

  Over two networks of this machine, to the same address of the server:
    file_download --server 192.0.2.1:4433 --ca server.pem \\
                  --path 192.168.1.23 --path 10.64.3.9 video.mp4

  To two addresses of the server, five times, with JSON output:
    file_download --server 192.0.2.1:4433 --ca server.pem --json --repeat 5 \\
                  --path 192.168.1.23 --path 10.64.3.9=198.51.100.1:4433 video.mp4

Each side of a connection schedules the packets that it sends. This side uses --scheduler, and asks
the server to use it as well. The server's scheduler is the one that matters for a download.

The content goes to a temporary file in the same directory. It gets the final name when it is
complete and its digest is right. If anything fails, the temporary file is removed.

Exit status:
  0    success
  2    the command line is wrong
  3    cannot connect, or cannot open a path
  4    the transfer failed (no such file, connection lost, cannot write)
  5    the digest is wrong
  130  stopped by Ctrl-C or SIGTERM";

/// Downloads a file from `file_server` over multipath QUIC.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The server's address, for all paths that do not specify another one.
    #[arg(long, value_name = "ADDR")]
    server: SocketAddr,

    /// The certificate to trust (PEM), as written by `file_server --cert-out`.
    #[arg(long, value_name = "FILE")]
    ca: PathBuf,

    /// The name or IP address that the server's certificate must have.
    #[arg(long, value_name = "NAME", default_value = "localhost")]
    server_name: String,

    /// A path: a local IP or IP:port, and the server's address if it differs on this path. Repeat
    /// the option for more paths; the first path carries the handshake. By default, there is one
    /// path from an address that the system chooses.
    #[arg(long = "path", value_name = "LOCAL[=REMOTE]")]
    paths: Vec<PathArgument>,

    /// The packet scheduler of both sides.
    #[arg(long, value_name = "NAME", default_value = "minrtt")]
    scheduler: String,

    /// The scheduler's configuration, a JSON object.
    #[arg(long, value_name = "JSON", default_value = "{}")]
    scheduler_config: String,

    /// Where to save the file [default: under its own name in the current directory].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// How often to download the file, each time over a new connection.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,

    /// Print one JSON object per download instead of a table, without progress bars.
    #[arg(long)]
    pub(crate) json: bool,

    /// The file, relative to the server's root.
    #[arg(value_name = "REMOTE_FILE")]
    file: String,
}

#[derive(Debug, Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Scheduler(#[from] ChoiceError),
    #[error("--ca {path}: {problem}", path = path.display())]
    Ca { path: PathBuf, problem: String },
    #[error(transparent)]
    Route(#[from] RouteError),
    #[error("{0:?} is not the name of a file")]
    FileName(String),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("cannot write {path}: {source}", path = path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Download(#[from] DownloadError),
    #[error("the SHA-256 digest is wrong: {0:?} was damaged on its way")]
    Digest(String),
}

impl Error {
    /// The exit codes that `--help` documents.
    pub(crate) const fn exit_code(&self) -> u8 {
        match self {
            Self::Scheduler(_) | Self::Ca { .. } | Self::Route(_) | Self::FileName(_) => USAGE,
            Self::Config(_) | Self::Download(DownloadError::Session(_)) => 3,
            Self::Write { .. } | Self::Download(DownloadError::Fetch(_)) => 4,
            Self::Digest(_) => 5,
        }
    }
}

/// Downloads the file as often as requested. Calls `show` with the report of each download.
pub(crate) async fn run(arguments: &Arguments, show: impl Fn(&Report)) -> Result<(), Error> {
    let scheduler = Choice::parse(&arguments.scheduler, &arguments.scheduler_config)?;
    let target = match &arguments.out {
        Some(out) => out.clone(),
        None => Path::new(&arguments.file)
            .file_name()
            .ok_or_else(|| Error::FileName(arguments.file.clone()))?
            .into(),
    };
    if arguments.file.contains('\n') {
        // The request is one line.
        return Err(Error::FileName(arguments.file.clone()));
    }
    let mut transport = TransportConfig::default();
    transport.scheduler(scheduler.factory(None, None)?);
    let client = Client {
        config: client_config(read_ca(&arguments.ca)?, transport)?,
        server_name: arguments.server_name.clone(),
        routes: routes(arguments.server, &arguments.paths)?,
    };
    let request = Request {
        name: arguments.file.clone(),
        scheduler: Some(scheduler),
    };
    for _ in 0..arguments.repeat {
        let report = save(&client, &request, &target, !arguments.json).await?;
        show(&report);
        if !report.sha256_ok {
            return Err(Error::Digest(request.name));
        }
    }
    Ok(())
}

/// Downloads the file to `target`, where it appears only if its digest is right.
async fn save(
    client: &Client,
    request: &Request,
    target: &Path,
    progress: bool,
) -> Result<Report, Error> {
    let write_error = |source| Error::Write {
        path: target.to_owned(),
        source,
    };
    let mut partial = PartialFile::create(target).map_err(write_error)?;
    let names = client.routes.iter().map(|route| route.name.as_str());
    let bars = Bars::new(progress, &request.name, names);
    let done = download(client, request, &mut partial.file, &bars).await?;
    if done.fetched.sha256_ok {
        partial.commit().await.map_err(write_error)?;
    }
    let routes = client.routes.iter().zip(&done.per_route);
    Ok(Report {
        scheduler: request
            .scheduler
            .as_ref()
            .map_or_else(String::new, |choice| choice.name().to_owned()),
        bytes: done.fetched.bytes,
        seconds: done.took.as_secs_f64(),
        goodput_mbps: goodput_mbps(done.fetched.bytes, done.took),
        sha256_ok: done.fetched.sha256_ok,
        paths: shares(routes.map(|(route, bytes)| (route.name.clone(), None, *bytes))),
        again: None,
        alone: Vec::new(),
        // The sender's scheduler learns, and the server does not report what.
        learned: None,
    })
}

/// Reads the certificates of a PEM file, which must have at least one.
fn read_ca(path: &Path) -> Result<RootCertStore, Error> {
    let error = |problem: String| Error::Ca {
        path: path.to_owned(),
        problem,
    };
    let pem = std::fs::read(path).map_err(|problem| error(problem.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|problem| error(problem.to_string()))?;
        roots
            .add(certificate)
            .map_err(|problem| error(problem.to_string()))?;
    }
    if roots.is_empty() {
        return Err(error("no certificate in it (expected PEM)".to_owned()));
    }
    Ok(roots)
}
