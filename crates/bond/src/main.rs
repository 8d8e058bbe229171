//! The command line: a server, or a client with its local port.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use mpquic_bond::{
    AllowList, Client, ClientSettings, Error, Fingerprint, Identity, Rule, Server, ServerSettings,
    Token, Transport, Trust, client_tls, screen, server_tls,
};
use tokio::net::TcpListener;

const EXAMPLES: &str = "\
Examples:
  On a host with a public address; it prints its fingerprint:
    head -c 32 /dev/urandom | base64 > token
    mpquic-bond serve --listen 0.0.0.0:4433 --token-file token --allow '*:443' --allow '*:80'
  On the machine with several links:
    mpquic-bond connect server.example:4433 --token-file token --fingerprint 9f86d0... --screen
    curl --socks5-hostname 127.0.0.1:1080 https://example.com/
    curl --proxytunnel --proxy http://127.0.0.1:1080 https://example.com/

Exit code: 0 after a stop, 1 after an error, 2 for wrong arguments.";

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
    #[arg(long)]
    token_file: Option<PathBuf>,
    /// A certificate chain, PEM; with --key.
    #[arg(long, requires = "key")]
    cert: Option<PathBuf>,
    /// Its private key, PEM.
    #[arg(long, requires = "cert")]
    key: Option<PathBuf>,
    /// Give up a TCP connection on which nothing has moved for so many seconds.
    #[arg(long, default_value_t = 3600, value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    idle: u64,
    /// The packet scheduler for what this side sends.
    #[arg(long)]
    scheduler: Option<String>,
    /// The congestion controller for what this side sends.
    #[arg(long)]
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
    #[arg(long, default_value = "0.0.0.0:4433")]
    listen: Vec<SocketAddr>,
    /// What clients may reach, HOST:PORT; several times. The host is a name, *.suffix, *, an address or a network; the port a
    /// number or *. Names reach public addresses only. Without a rule, nothing can be reached.
    #[arg(long)]
    allow: Vec<Rule>,
    /// Take clients with a certificate of this authority (PEM) only.
    #[arg(long)]
    client_ca: Option<PathBuf>,
    /// Where the certificate is kept that is made without --cert.
    #[arg(long, default_value = "mpquic-bond-identity")]
    identity: PathBuf,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
struct Connect {
    /// The server, HOST:PORT.
    server: String,
    /// The fingerprint that the server prints.
    #[arg(long, required_unless_present = "ca", conflicts_with = "ca")]
    fingerprint: Option<Fingerprint>,
    /// Trust a server with a certificate of this authority (PEM) for its name.
    #[arg(long)]
    ca: Option<PathBuf>,
    /// The local port: SOCKS5 and HTTP CONNECT.
    #[arg(long, default_value = "127.0.0.1:1080")]
    proxy: SocketAddr,
    /// A local address, one per link; without any, all links, as they come and go.
    #[arg(long = "local")]
    locals: Vec<IpAddr>,
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
            eprintln!("error: no runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let ended = runtime.block_on(async {
        match arguments.role {
            Role::Serve(serve) => run_server(serve).await,
            Role::Connect(connect) => run_client(connect).await,
        }
    });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
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
    let token = common.token()?;
    if token.is_none() && arguments.client_ca.is_none() {
        let why = "anybody could use this server: give --token-file or --client-ca";
        return Err(Error::Argument(why.to_owned()));
    }
    let identity = match common.identity()? {
        Some(identity) => identity,
        None => Identity::kept_in(&arguments.identity, "mpquic-bond")?,
    };
    let fingerprint = identity.fingerprint();
    if arguments.allow.is_empty() {
        eprintln!("no --allow: clients can reach nothing");
    }
    let settings = ServerSettings {
        token,
        allow: AllowList::new(arguments.allow.clone()),
        idle: common.idle(),
        transport: common.transport(),
    };
    let tls = server_tls(identity, arguments.client_ca.as_deref())?;
    let server = Server::bind(tls, &arguments.listen, settings)?;
    for local in server.local_addrs() {
        println!("listening on {local}");
    }
    if let Some(fingerprint) = fingerprint {
        println!("fingerprint {fingerprint}");
    }
    server.run(stopped()).await;
    Ok(())
}

async fn run_client(arguments: Connect) -> Result<(), Error> {
    let common = &arguments.common;
    let trust = match (arguments.fingerprint, arguments.ca) {
        (Some(fingerprint), _) => Trust::Fingerprint(fingerprint),
        (None, Some(ca)) => Trust::Authorities(ca),
        // clap asks for one of them.
        (None, None) => return Err(Error::Argument("give --fingerprint or --ca".to_owned())),
    };
    let tls = client_tls(&trust, common.identity()?)?;
    let settings = ClientSettings {
        server: arguments.server,
        token: common.token()?,
        locals: arguments.locals,
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
    let client = Client::connect(tls, settings).await?;
    println!("proxy on {}", listener.local_addr()?);
    if arguments.screen {
        let watched = Arc::clone(&client);
        let shown = tokio::task::spawn_blocking(move || screen::show(&watched));
        let quit = async {
            if let Ok(Err(error)) = shown.await {
                eprintln!("no screen: {error}");
            }
        };
        return client.run(listener, quit).await;
    }
    let reporting = async {
        if !arguments.json {
            return std::future::pending().await;
        }
        let mut seconds = tokio::time::interval(Duration::from_secs(1));
        loop {
            seconds.tick().await;
            println!("{}", client.report().to_json());
        }
    };
    let until = async {
        tokio::select! {
            () = stopped() => {}
            () = reporting => {}
        }
    };
    client.run(listener, until).await
}
