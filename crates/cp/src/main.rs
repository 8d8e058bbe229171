//! The command line: a server, or a client that gets, puts or lists.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, Parser, Subcommand};
use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};
use mpquic_cp::{
    Client, ClientSettings, Entry, Error, Exit, Kind, Locals, Name, Progress, Server,
    ServerSettings, Summary, client_tls, server_tls,
};
use mpquic_peer::{Fingerprint, Identity, Token, Transport, Trust};
use serde_json::json;

/// The port without one.
const PORT: u16 = 4433;
/// How often the bar is drawn.
const DRAW: Duration = Duration::from_millis(100);

const EXAMPLES: &str = "\
Examples:
  On the host that has the files; it prints its fingerprint:
    mpquic-cp serve --root /srv/files
  On the other machine, over Wi-Fi and LTE at once:
    mpquic-cp ls  files.example --pin sha256:9f86d0...
    mpquic-cp get files.example photos . --pin sha256:9f86d0... --all-interfaces
  To put files, both sides need a secret:
    head -c 32 /dev/urandom | base64 > token
    mpquic-cp serve --root /srv/files --allow-put --token-file token
    mpquic-cp put files.example videos incoming/ --pin sha256:9f86d0... --token-file token

A transfer that was interrupted goes on where it stopped: give the same command again.

Exit code:
  0    success
  1    another error, such as an address that cannot be listened on
  2    wrong arguments
  3    the server's name is unknown
  4    the server cannot be reached
  5    the server's certificate is not the one that is trusted, or it does not trust the client's
  6    the server does not take this client (token)
  7    the server has no such file, or does not let it be read or written
  8    a file cannot be read or written, on either side: a full disk, permissions
  9    the connection is lost
  10   the contents arrived damaged
  130  stopped by Ctrl-C";

/// Copies files over all links of a machine at once, over multipath QUIC.
#[derive(Parser)]
#[command(version, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
    /// Serves a folder. Read-only, unless --allow-put is given.
    Serve(Serve),
    /// Gets a file, or a folder with all that is below it.
    Get {
        #[command(flatten)]
        connect: Connect,
        /// The file or folder on the server; `.` for all.
        remote: String,
        /// Where it goes: into a folder, if it is `.` or ends with `/`; else to that name. A file goes into a folder that is there, too.
        #[arg(default_value = ".")]
        local: PathBuf,
    },
    /// Puts a file, or a folder with all that is below it.
    Put {
        #[command(flatten)]
        connect: Connect,
        /// The file or folder of this machine.
        local: PathBuf,
        /// Its name on the server, or with `/` at the end the folder there; without it, its own name.
        remote: Option<String>,
    },
    /// Lists a folder.
    Ls {
        #[command(flatten)]
        connect: Connect,
        /// The folder on the server.
        #[arg(default_value = ".")]
        remote: String,
        /// All that is below it, too.
        #[arg(short, long)]
        recursive: bool,
    },
}

#[derive(Args)]
struct Common {
    /// A file with the secret that server and clients share, at least 16 bytes.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// A certificate chain, PEM; with --key.
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Its private key, PEM.
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Append the secrets of connections to this file, for Wireshark.
    #[arg(long, value_name = "FILE")]
    keylog: Option<PathBuf>,
    /// The packet scheduler for what this side sends.
    #[arg(long, value_name = "NAME")]
    scheduler: Option<String>,
    /// The congestion controller for what this side sends.
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
}

impl Common {
    fn token(&self) -> Result<Option<Token>, Error> {
        Ok(self
            .token_file
            .as_deref()
            .map(Token::from_file)
            .transpose()?)
    }

    fn identity(&self) -> Result<Option<Identity>, Error> {
        match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => Ok(Some(Identity::from_files(cert, key)?)),
            _ => Ok(None),
        }
    }

    fn transport(&self) -> Transport {
        Transport {
            scheduler: self.scheduler.clone(),
            congestion: self.congestion.clone(),
        }
    }
}

#[derive(Args)]
struct Serve {
    /// The folder.
    #[arg(long, value_name = "DIR", default_value = ".")]
    root: PathBuf,
    /// Where to listen; several times for several addresses.
    #[arg(long, value_name = "ADDR", default_values = ["0.0.0.0:4433", "[::]:4433"])]
    listen: Vec<SocketAddr>,
    /// Let clients put files; with --token-file or --client-ca.
    #[arg(long)]
    allow_put: bool,
    /// Take clients with a certificate of this authority (PEM) only.
    #[arg(long, value_name = "FILE")]
    client_ca: Option<PathBuf>,
    /// Another address of this server, which clients are told to open paths to; several times for several.
    #[arg(long, value_name = "ADDR")]
    announce: Vec<SocketAddr>,
    /// Where the certificate is kept that is made without --cert [default: mpquic-cp in the folder for the user's data].
    #[arg(long, value_name = "DIR")]
    identity: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
struct Connect {
    /// The server, HOST or HOST:PORT (default 4433).
    server: String,
    /// Trust the server with this fingerprint, as it prints it.
    #[arg(long, value_name = "FINGERPRINT", conflicts_with = "ca")]
    pin: Option<Fingerprint>,
    /// Trust a server with a certificate of this authority (PEM) for its name, and not the system's authorities.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// A local address, one per link; several times for several. Without any, the system chooses one.
    #[arg(long = "local", value_name = "IP")]
    locals: Vec<IpAddr>,
    /// Connect from all links of this machine, as they come and go.
    #[arg(long, conflicts_with = "locals")]
    all_interfaces: bool,
    /// An interface that costs money by the byte, such as wwan0: a backup for the others; several times for several.
    #[arg(long, value_name = "INTERFACE", requires = "all_interfaces")]
    metered: Vec<String>,
    /// Print JSON lines, and no bar.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    common: Common,
}

impl Connect {
    async fn client(&self) -> Result<Client, Error> {
        let trust = match (self.pin, &self.ca) {
            (Some(fingerprint), _) => Trust::Fingerprint(fingerprint),
            (None, Some(ca)) => Trust::Authorities(ca.clone()),
            (None, None) => Trust::System,
        };
        let tls = client_tls(
            &trust,
            self.common.identity()?,
            self.common.keylog.as_deref(),
        )?;
        let locals = if self.all_interfaces {
            Locals::All {
                metered: self.metered.clone(),
            }
        } else if self.locals.is_empty() {
            Locals::System
        } else {
            Locals::These(self.locals.clone())
        };
        let settings = ClientSettings {
            server: with_port(&self.server),
            token: self.common.token()?,
            locals,
            transport: self.common.transport(),
        };
        Client::connect(tls, settings, |event| eprintln!("{event}")).await
    }
}

/// `HOST:PORT` of what may have no port.
fn with_port(server: &str) -> String {
    let is_v6 = server.parse::<std::net::Ipv6Addr>().is_ok();
    if is_v6 {
        return format!("[{server}]:{PORT}");
    }
    let after = server.rsplit_once(']').map_or(server, |(_, after)| after);
    if after.contains(':') {
        server.to_owned()
    } else {
        format!("{server}:{PORT}")
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    mpquic_peer::log_to_stderr();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: no runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let ended = runtime.block_on(run(arguments.role));
    // Files may be open that nobody waits for.
    runtime.shutdown_background();
    match ended {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(exit)) => ExitCode::from(exit as u8),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(error.exit() as u8)
        }
    }
}

/// Does it. An exit code, if it was stopped.
async fn run(role: Role) -> Result<Option<Exit>, Error> {
    match role {
        Role::Serve(serve) => run_server(serve).await.map(|()| None),
        Role::Get {
            connect,
            remote,
            local,
        } => {
            let name: Name = remote.parse()?;
            transfer(&connect, async |client, progress| {
                client.get(&name, &local, progress).await
            })
            .await
        }
        Role::Put {
            connect,
            local,
            remote,
        } => {
            let skip = |text: String| eprintln!("left out: {text}");
            transfer(&connect, async |client, progress| {
                client.put(&local, remote.as_deref(), progress, skip).await
            })
            .await
        }
        Role::Ls {
            connect,
            remote,
            recursive,
        } => list(&connect, &remote, recursive).await.map(|()| None),
    }
}

/// Until Ctrl-C.
async fn stopped() {
    if let Err(error) = tokio::signal::ctrl_c().await {
        eprintln!("Ctrl-C is not heard: {error}");
        std::future::pending::<()>().await;
    }
}

async fn run_server(arguments: Serve) -> Result<(), Error> {
    let common = &arguments.common;
    let identity = match common.identity()? {
        Some(identity) => identity,
        None => {
            let folder = identity_folder(arguments.identity.as_deref())?;
            let identity = Identity::kept_in(&folder, "mpquic-cp")?;
            keep_apart(&folder, &arguments.root)?;
            identity
        }
    };
    let fingerprint = identity.fingerprint();
    let settings = ServerSettings {
        root: arguments.root.clone(),
        allow_put: arguments.allow_put,
        client_certificates: arguments.client_ca.is_some(),
        token: common.token()?,
        announce: arguments.announce.clone(),
        transport: common.transport(),
    };
    let tls = server_tls(
        identity,
        arguments.client_ca.as_deref(),
        common.keylog.as_deref(),
    )?;
    let server = Server::bind(tls, &arguments.listen, settings)?;
    for local in server.local_addrs() {
        println!("listening on {local}");
    }
    if let Some(fingerprint) = fingerprint {
        println!("fingerprint sha256:{fingerprint}");
    }
    server.run(stopped(), |line| eprintln!("{line}")).await;
    Ok(())
}

/// Where the certificate is kept: beside other data of the user.
fn identity_folder(given: Option<&Path>) -> Result<PathBuf, Error> {
    if let Some(folder) = given {
        return Ok(folder.to_owned());
    }
    let data = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from);
    let data = data.or_else(|| Some(std::env::home_dir()?.join(".local/share")));
    let data = data.ok_or_else(|| {
        Error::Argument(
            "there is no home folder to keep a certificate in: give --identity".to_owned(),
        )
    })?;
    Ok(data.join("mpquic-cp"))
}

/// The private key is not among the files that are served.
fn keep_apart(identity: &Path, root: &Path) -> Result<(), Error> {
    if let (Ok(identity), Ok(root)) = (identity.canonicalize(), root.canonicalize())
        && identity.starts_with(root)
    {
        let why = "the server's key would be among the files that it serves: give --identity";
        return Err(Error::Argument(why.to_owned()));
    }
    Ok(())
}

/// Connects, runs `work` with a bar, and tells what came of it.
async fn transfer(
    connect: &Connect,
    work: impl AsyncFnOnce(&Client, &Arc<Progress>) -> Result<(), Error>,
) -> Result<Option<Exit>, Error> {
    let progress = Arc::new(Progress::new());
    let begun = Instant::now();
    let working = async {
        let client = connect.client().await?;
        let bar = Bar::new(connect.json);
        let worked = tokio::select! {
            worked = work(&client, &progress) => worked,
            never = bar.follow(&client, &progress) => match never {},
            () = stopped() => {
                bar.clear();
                client.close().await;
                return Ok(Some(Exit::Stopped));
            }
        };
        bar.clear();
        let summary = progress.summary(begun.elapsed(), client.paths());
        client.close().await;
        worked?;
        tell(&summary, connect.json);
        Ok(None)
    };
    let done: Result<_, Error> = tokio::select! {
        done = working => done,
        () = stopped() => Ok(Some(Exit::Stopped)),
    };
    if let (Err(error), true) = (&done, connect.json) {
        println!(
            "{}",
            json!({ "error": error.to_string(), "exit": error.exit() as u8 })
        );
    }
    done
}

fn tell(summary: &Summary, json: bool) {
    if json {
        println!("{}", json!(summary));
        return;
    }
    let rate = summary.moved as f64 * 8e-6 / summary.seconds.max(1e-3);
    println!(
        "{} files, {}: {} in {:.1} s, {rate:.1} Mbit/s; {} were there, {} files unchanged",
        summary.files,
        HumanBytes(summary.bytes),
        HumanBytes(summary.moved),
        summary.seconds,
        HumanBytes(summary.resumed),
        summary.unchanged,
    );
    let carried = |path: &mpquic_cp::PathShare| path.received + path.sent;
    let all: u64 = summary.paths.iter().map(carried).sum();
    for path in &summary.paths {
        let share = 100.0 * carried(path) as f64 / all.max(1) as f64;
        println!("  {} to {}: {share:.0} %", path.local.ip(), path.remote);
    }
}

/// A bar for people, on the standard error output.
struct Bar(Option<ProgressBar>);

impl Bar {
    fn new(json: bool) -> Self {
        if json {
            return Self(None);
        }
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        let style = "{bar:30} {bytes}/{total_bytes} {binary_bytes_per_sec} {eta} {msg}";
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        Self(Some(bar))
    }

    /// Draws for as long as it is polled.
    async fn follow(&self, client: &Client, progress: &Progress) -> std::convert::Infallible {
        let Some(bar) = &self.0 else {
            return std::future::pending().await;
        };
        let mut ticks = tokio::time::interval(DRAW);
        loop {
            ticks.tick().await;
            bar.set_length(progress.total());
            bar.set_position(progress.done());
            bar.set_message(format!(
                "{} files, {} paths",
                progress.files(),
                client.paths().len()
            ));
        }
    }

    fn clear(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

async fn list(connect: &Connect, remote: &str, recursive: bool) -> Result<(), Error> {
    let name: Name = remote.parse()?;
    let client = connect.client().await?;
    let mut out = std::io::stdout().lock();
    let mut text = String::new();
    let listed = client
        .list(&name, recursive, |entry| {
            // The folder itself is what was asked for.
            if entry.kind == Kind::Folder && entry.name == name {
                return;
            }
            text.push_str(&line(&entry, connect.json));
            text.push('\n');
        })
        .await;
    client.close().await;
    // Nobody reads it any more, as behind `head`.
    let _ = out.write_all(text.as_bytes());
    listed
}

fn line(entry: &Entry, json: bool) -> String {
    if json {
        return json!(entry).to_string();
    }
    match entry.kind {
        Kind::File => format!("{:>14}  {}", entry.size, entry.name),
        Kind::Folder => format!("{:>14}  {}/", "", entry.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_a_port() {
        for (given, whole) in [
            ("host", "host:4433"),
            ("host:1", "host:1"),
            ("::1", "[::1]:4433"),
            ("[::1]", "[::1]:4433"),
            ("[::1]:2", "[::1]:2"),
            ("192.0.2.1", "192.0.2.1:4433"),
        ] {
            assert_eq!(with_port(given), whole);
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }
}
