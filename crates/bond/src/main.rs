//! The command line: a server, or a client with its local port.
#![deny(clippy::print_stdout, clippy::print_stderr)]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use mpquic_bond::{
    AllowList, Client, ClientSettings, Error, Fingerprint, Identity, Local, Rule, Server,
    ServerSettings, Token, Transport, Trust, client_tls, screen, server_tls,
};
use mpquic_peer::{KeyLog, Stop, note, report, say};
use tokio::net::TcpListener;

/// The name of the program, for its identity.
const NAME: &str = "mpquic-bond";
/// The server's port without one.
const PORT: u16 = 4433;
/// How long the program waits at its end for the terminal, and for who reads its lines.
const PARTING: Duration = Duration::from_secs(1);

const EXAMPLES: &str = "\
Examples:
  On a host with a public address; it prints its fingerprint:
    head -c 32 /dev/urandom | base64 > token
    mpquic-bond serve --token-file token --allow '*:443' --allow '*:80'
  On the machine with several links:
    mpquic-bond connect server.example --token-file token --pin sha256:9f86d0... --screen
    curl --socks5-hostname 127.0.0.1:1080 https://example.com/
    curl --proxytunnel --proxy http://127.0.0.1:1080 https://example.com/

Exit code:
  0    stopped, by Ctrl-C, SIGTERM, the end of its terminal or the key q
  1    another error, such as an address that cannot be listened on
  2    wrong arguments
  3    the server's name is unknown
  4    the server cannot be reached
  5    the server's certificate is not the one that is trusted, or it does not trust the client's
  6    the server does not take this client (token)
  8    a file cannot be read or written: token, certificate, key
  9    the connection is lost before the server has greeted
  129  stopped by the end of its terminal before there was a connection; 130: by Ctrl-C; 143: by SIGTERM";

/// Bonds the links of a machine: one TCP connection through it has the sum of them, and survives the loss of any.
#[derive(Parser)]
#[command(version, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
    /// Runs on a host with a public address, and connects to what clients ask for.
    Serve(Serve),
    /// Runs on the machine with several links, and is a SOCKS5 and HTTP CONNECT proxy there.
    Connect(Connect),
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
    /// Give up a TCP connection on which nothing has moved for so many seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 3600, value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    idle: u64,
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

    fn key_log(&self) -> Result<Option<Arc<dyn rustls::KeyLog>>, Error> {
        let Some(path) = &self.keylog else {
            return Ok(None);
        };
        Ok(Some(Arc::new(KeyLog::open(path)?)))
    }

    const fn idle(&self) -> Duration {
        Duration::from_secs(self.idle)
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
    /// Where to listen; several times for several addresses.
    #[arg(long, value_name = "ADDR", default_values = ["0.0.0.0:4433", "[::]:4433"], value_parser = mpquic_peer::socket_address)]
    listen: Vec<SocketAddr>,
    /// What clients may reach, HOST:PORT; several times. The host is a name, *.suffix, *, an address or a network; the port a
    /// number or *. Names and * reach public addresses only, and not this machine's own. Without a rule, nothing can be reached.
    #[arg(long, value_name = "HOST:PORT")]
    allow: Vec<Rule>,
    /// Take clients with a certificate of this authority (PEM) only.
    #[arg(long, value_name = "FILE")]
    client_ca: Option<PathBuf>,
    /// Where the certificate is kept that is made without --cert [default: mpquic-bond in the folder for the user's data].
    #[arg(long, value_name = "DIR")]
    identity: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
struct Connect {
    /// The server, HOST or HOST:PORT (default 4433); a link-local address with its zone, as in [fe80::1%eth0]:4433.
    server: String,
    /// Trust the server with this fingerprint, as it prints it.
    #[arg(
        long,
        value_name = "FINGERPRINT",
        visible_alias = "fingerprint",
        conflicts_with = "ca"
    )]
    pin: Option<Fingerprint>,
    /// Trust a server with a certificate of this authority (PEM) for its name, and not the system's authorities.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// The local port: SOCKS5 and HTTP CONNECT.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:1080", value_parser = mpquic_peer::socket_address)]
    proxy: SocketAddr,
    /// A local address, one per link; several times for several. Without any, all links of this machine, as they come and go.
    #[arg(long = "local", value_name = "IP")]
    locals: Vec<Local>,
    /// An interface that costs money by the byte, such as wwan0: a backup for the others; several times for several.
    #[arg(long, value_name = "INTERFACE", conflicts_with = "locals")]
    metered: Vec<String>,
    /// Show what each link does, with keys to take one out.
    #[arg(long, conflicts_with = "json")]
    screen: bool,
    /// Print what each link did so far as a line of JSON, every second.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    common: Common,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    mpquic_peer::log_to_stderr();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            note!("error: no runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let ended = runtime.block_on(async {
        match arguments.role {
            Role::Serve(serve) => run_server(serve).await.map(|()| ExitCode::SUCCESS),
            Role::Connect(connect) => run_client(connect).await,
        }
    });
    // A screen that cannot be left, on a terminal that is stopped, does not keep the program.
    runtime.shutdown_timeout(PARTING);
    mpquic_peer::drain_lines(PARTING);
    match ended {
        Ok(code) => code,
        Err(error) => {
            note!("error: {error}");
            ExitCode::from(error.exit())
        }
    }
}

/// From here on, signals are heard. One that came already is returned.
async fn heard(stop: Pin<&mut impl Future<Output = Stop>>) -> Option<Stop> {
    tokio::select! {
        biased;
        stop = stop => Some(stop),
        () = std::future::ready(()) => None,
    }
}

async fn run_server(arguments: Serve) -> Result<(), Error> {
    let mut stop = pin!(mpquic_peer::stopped());
    if heard(stop.as_mut()).await.is_some() {
        return Ok(());
    }
    let common = &arguments.common;
    let token = common.token()?;
    if token.is_none() && arguments.client_ca.is_none() {
        let why = "anybody could use this server: give --token-file or --client-ca";
        return Err(Error::Argument(why.to_owned()));
    }
    let identity = match common.identity()? {
        Some(identity) => identity,
        None => {
            let folder = match arguments.identity {
                Some(folder) => folder,
                None => mpquic_peer::identity_folder(NAME)?,
            };
            Identity::kept_in(&folder, NAME)?
        }
    };
    let fingerprint = identity.fingerprint();
    if arguments.allow.is_empty() {
        note!("no --allow: clients can reach nothing");
    }
    let settings = ServerSettings {
        token,
        allow: AllowList::new(arguments.allow.clone()),
        idle: common.idle(),
        transport: common.transport(),
    };
    let keys = identity.endpoint_config(NAME, &arguments.listen)?;
    let mut tls = server_tls(identity, arguments.client_ca.as_deref())?;
    if let Some(log) = common.key_log()? {
        tls.key_log = log;
    }
    let server = Server::bind_with(keys, tls, &arguments.listen, settings)?;
    for local in server.local_addrs() {
        say!("listening on {local}");
    }
    for missing in server.missing_addrs() {
        note!("{missing}");
    }
    if let Some(fingerprint) = fingerprint {
        say!("fingerprint sha256:{fingerprint}");
    }
    server
        .run(async {
            stop.await;
        })
        .await;
    Ok(())
}

async fn run_client(arguments: Connect) -> Result<ExitCode, Error> {
    let mut stop = pin!(mpquic_peer::stopped());
    if let Some(stop) = heard(stop.as_mut()).await {
        return Ok(ExitCode::from(stop.exit_code()));
    }
    // Each program that uses the proxy takes a socket.
    mpquic_peer::raise_open_files();
    let common = &arguments.common;
    let trust = match (arguments.pin, arguments.ca) {
        (Some(fingerprint), _) => Trust::Fingerprint(fingerprint),
        (None, Some(ca)) => Trust::Authorities(ca),
        (None, None) => Trust::System,
    };
    let mut tls = client_tls(&trust, common.identity()?)?;
    if let Some(log) = common.key_log()? {
        tls.config.key_log = log;
    }
    let locals = arguments.locals;
    let settings = ClientSettings {
        server: mpquic_peer::with_port(&arguments.server, PORT),
        token: common.token()?,
        locals: locals.iter().map(|local| local.address().ip()).collect(),
        metered: arguments.metered,
        idle: common.idle(),
        transport: common.transport(),
    };
    // A port that is taken is told before anything is tried.
    let listener = TcpListener::bind(arguments.proxy).await;
    let listener = listener.map_err(|source| Error::Listen {
        address: arguments.proxy.to_string(),
        source,
    })?;
    let client = tokio::select! {
        client = Client::connect_from(tls, settings, &locals) => client?,
        stop = stop.as_mut() => return Ok(ExitCode::from(stop.exit_code())),
    };
    say!("proxy on {}", listener.local_addr()?);
    let quit = async {
        if !arguments.screen {
            return std::future::pending().await;
        }
        let watched = Arc::clone(&client);
        let shown = tokio::task::spawn_blocking(move || screen::show(&watched)).await;
        if let Ok(Err(error)) = shown {
            note!("no screen: {error}; the proxy goes on without");
            std::future::pending::<()>().await;
        }
    };
    let reporting = async {
        if !arguments.json {
            return std::future::pending().await;
        }
        let mut seconds = tokio::time::interval(Duration::from_secs(1));
        loop {
            seconds.tick().await;
            report!("{}", client.report().to_json());
        }
    };
    let until = async {
        tokio::select! {
            _ = stop => {}
            () = quit => {}
            () = reporting => {}
        }
    };
    client.run(listener, until).await?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_pin_may_be_called_a_fingerprint() {
        let pin = format!("sha256:{}", "ab".repeat(32));
        for name in ["--pin", "--fingerprint"] {
            let given = ["mpquic-bond", "connect", "fe80::1%1", name, &pin];
            let Ok(Arguments {
                role: Role::Connect(connect),
            }) = Arguments::try_parse_from(given)
            else {
                panic!("{name}");
            };
            assert_eq!(connect.pin, Some(pin.parse().unwrap()));
        }
    }
}
