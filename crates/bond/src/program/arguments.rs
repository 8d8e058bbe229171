//! The command line.

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use ipnet::IpNet;
use mpquic_bond::{
    Error, Fingerprint, Forward, Identity, LIVE_DEADLINE, Local, Rule, Token, Transport,
};
use mpquic_peer::status::StatusServer;
use mpquic_peer::{KeyLog, LinkRule, LogFormat, Rate, say};

/// Servers of a client, at most.
const MOST_SERVERS: usize = 8;

const EXAMPLES: &str = "\
Examples:
  On a host with a public address; it prints its fingerprint:
    head -c 32 /dev/urandom | base64 > token
    mpquic-bond serve --token-file token --allow '*:443' --allow '*:80'
  On the machine with several links:
    mpquic-bond connect server.example --token-file token --pin sha256:9f86d0... --screen
    curl --socks5-hostname 127.0.0.1:1080 https://example.com/
    curl --proxytunnel --proxy http://127.0.0.1:1080 https://example.com/
  For each user a ticket, which is all that the user needs:
    mpquic-bond serve --users users.toml --allow '*:443'
    mpquic-bond invite alice --users users.toml --address server.example --qr
    mpquic-bond connect mpbond1qyq...
  For all packets of the machine, on Linux (the server: sysctl -w net.ipv4.ip_forward=1, and NAT):
    mpquic-bond serve --token-file token --tun 10.66.0.0/24 --allow '*:*'
    mpquic-bond connect server.example --token-file token --pin sha256:9f86d0... --tun --kill-switch
  With a file instead of flags, which is read again on SIGHUP:
    mpquic-bond check serve --config bond.toml
    mpquic-bond serve --config bond.toml

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
#[derive(Debug, Parser)]
#[command(version, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) role: Role,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Role {
    /// Runs on a host with a public address, and connects to what clients ask for.
    Serve(Serve),
    /// Runs on the machine with several links, and is a SOCKS5 and HTTP CONNECT proxy there.
    Connect(Connect),
    /// Adds a user to the file of users, and prints a ticket: all that `connect` needs.
    Invite(Invite),
    /// Removes a user from the file of users; a server that runs closes the user's connections.
    Revoke(Revoke),
    /// Puts back routes and DNS servers as they were before `connect --tun`, after a crash.
    Restore,
    /// Writes the manual pages and the completions of shells into a folder.
    #[command(hide = true)]
    Manual {
        /// The folder.
        folder: PathBuf,
    },
    /// Says what a command would do with its flags and its file, and whether the files that it needs are right.
    Check {
        /// The command, with its flags: `check serve --config bond.toml`.
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<OsString>,
    },
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Common {
    /// A TOML file with settings: each flag is a key, in the table of its command, such as [serve], or before all tables. Flags win.
    #[arg(long, value_name = "FILE", env = "MPQUIC_BOND_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// A file with the secret that server and clients share, at least 16 bytes. Without it, the environment variable MPQUIC_BOND_TOKEN
    /// has the secret itself, if it is set.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// A certificate chain, PEM; with --key.
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) cert: Option<PathBuf>,
    /// Its private key, PEM.
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// Append the secrets of connections to this file, for Wireshark.
    #[arg(long, value_name = "FILE")]
    pub(crate) keylog: Option<PathBuf>,
    /// Show what it does at this address, as a page with charts (/) and for Prometheus (/metrics), such as 127.0.0.1:9433.
    #[arg(long, value_name = "ADDR", value_parser = mpquic_peer::socket_address)]
    pub(crate) metrics: Option<SocketAddr>,
    /// A file with the token that whoever looks must have: a password with any name, or a bearer token.
    #[arg(long, value_name = "FILE", requires = "metrics")]
    pub(crate) metrics_token_file: Option<PathBuf>,
    /// How lines of the log are written: text or json.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) log_format: LogFormat,
    /// Give up a TCP connection on which nothing has moved for so many seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 3600, value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    pub(crate) idle: u64,
    /// The packet scheduler for what this side sends.
    #[arg(long, value_name = "NAME")]
    pub(crate) scheduler: Option<String>,
    /// The congestion controller for what this side sends.
    #[arg(long, value_name = "NAME")]
    pub(crate) congestion: Option<String>,
    /// Send UDP, that of --tun too, so that it is in time, as calls and games want it: copies on the other link of what is overdue, both
    /// links when one falls silent, repair ahead of loss where it pays. Both ends need it. What is too late is dropped.
    #[arg(long)]
    pub(crate) live: bool,
    /// With --live: for how many milliseconds a datagram is of use.
    #[arg(long, value_name = "MS", default_value_t = LIVE_DEADLINE.as_millis() as u64, value_parser = clap::value_parser!(u64).range(10..=10_000))]
    pub(crate) live_deadline: u64,
}

impl Common {
    pub(crate) fn token(&self) -> Result<Option<Token>, Error> {
        Ok(match &self.token_file {
            Some(path) => Some(Token::from_file(path)?),
            None => Token::from_env("MPQUIC_BOND_TOKEN")?,
        })
    }

    pub(crate) fn identity(&self) -> Result<Option<Identity>, Error> {
        match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => Ok(Some(Identity::from_files(cert, key)?)),
            _ => Ok(None),
        }
    }

    /// What shows the figures, if they are to be shown; the log is in its format from here on.
    pub(crate) async fn status(&self) -> Result<Option<StatusServer>, Error> {
        mpquic_peer::log_in(self.log_format);
        let Some(address) = self.metrics else {
            return Ok(None);
        };
        let server = StatusServer::bind(address, self.metrics_token_file.as_deref()).await?;
        say!("status on http://{}/", server.local_addr()?);
        Ok(Some(server))
    }

    pub(crate) fn key_log(&self) -> Result<Option<Arc<dyn rustls::KeyLog>>, Error> {
        let Some(path) = &self.keylog else {
            return Ok(None);
        };
        Ok(Some(Arc::new(KeyLog::open(path)?)))
    }

    pub(crate) const fn idle(&self) -> Duration {
        Duration::from_secs(self.idle)
    }

    /// For how long UDP datagrams are of use, if that is asked for.
    pub(crate) fn live(&self) -> Option<Duration> {
        self.live.then(|| Duration::from_millis(self.live_deadline))
    }

    pub(crate) fn transport(&self) -> Transport {
        Transport {
            scheduler: self.scheduler.clone(),
            congestion: self.congestion.clone(),
        }
    }
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Serve {
    /// Where to listen; several times for several addresses.
    #[arg(long, value_name = "ADDR", default_values = ["0.0.0.0:4433", "[::]:4433"], value_parser = mpquic_peer::socket_address)]
    pub(crate) listen: Vec<SocketAddr>,
    /// A file of users who may come by name, as `invite` makes it. It is followed while the server runs.
    #[arg(long, value_name = "FILE")]
    pub(crate) users: Option<PathBuf>,
    /// What clients may reach, HOST:PORT; several times. The host is a name, *.suffix, *, an address or a network; the port a
    /// number or *. Names and * reach public addresses only, and not this machine's own. Without a rule, nothing can be reached.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) allow: Vec<Rule>,
    /// Take clients with a certificate of this authority (PEM) only.
    #[arg(long, value_name = "FILE")]
    pub(crate) client_ca: Option<PathBuf>,
    /// Where the certificate is kept that is made without --cert [default: mpquic-bond in the folder for the user's data].
    #[arg(long, value_name = "DIR")]
    pub(crate) identity: Option<PathBuf>,
    /// Give clients that ask for it a tunnel for all of their packets, with addresses of this network, such as 10.66.0.0/24; once for IPv4 and once for
    /// IPv6. What they reach is up to --allow. Linux, with CAP_NET_ADMIN.
    #[arg(long, value_name = "NETWORK")]
    pub(crate) tun: Vec<IpNet>,
    /// A DNS server that clients of the tunnel are told to use; several times for several.
    #[arg(long, value_name = "IP", requires = "tun")]
    pub(crate) tun_dns: Vec<IpAddr>,
    /// The largest packet of the tunnel, bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 1400, value_parser = clap::value_parser!(u16).range(1280..=9000))]
    pub(crate) tun_mtu: u16,
    /// The name of the tunnel's device.
    #[arg(long, value_name = "NAME", default_value = "mpbond0")]
    pub(crate) tun_name: String,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Connect {
    /// A ticket, or - to read one from standard input; or the server, HOST or HOST:PORT (default 4433), a link-local address with its zone, as in
    /// [fe80::1%eth0]:4433; several addresses of one with commas between them. Of several servers, the first that can be reached is taken.
    #[arg(required = true, num_args = 1..=MOST_SERVERS)]
    pub(crate) server: Vec<String>,
    /// Trust the server with this fingerprint, as it prints it; several times for several servers, in their order.
    #[arg(
        long,
        value_name = "FINGERPRINT",
        visible_alias = "fingerprint",
        conflicts_with = "ca"
    )]
    pub(crate) pin: Vec<Fingerprint>,
    /// Trust a server with a certificate of this authority (PEM) for its name, and not the system's authorities.
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Trust a server that is met for the first time without asking, and know it from then on.
    #[arg(long)]
    pub(crate) accept_new: bool,
    /// The local port: SOCKS5 and HTTP CONNECT.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:1080", value_parser = mpquic_peer::socket_address)]
    pub(crate) proxy: SocketAddr,
    /// A file with lines of NAME:PASSWORD: programs that use the local port must give one of them.
    #[arg(long, value_name = "FILE")]
    pub(crate) proxy_auth_file: Option<PathBuf>,
    /// A local port that leads to one target, [ADDR:]PORT:HOST:PORT, for programs that know no proxy; several times for several.
    #[arg(short = 'L', long, value_name = "FORWARD")]
    pub(crate) forward: Vec<Forward>,
    /// A local address, one per link; several times for several. Without any, all links of this machine, as they come and go.
    #[arg(long = "local", value_name = "IP")]
    pub(crate) locals: Vec<Local>,
    /// An interface that costs money by the byte, such as wwan0: a backup for the others; several times for several.
    #[arg(long, value_name = "INTERFACE", conflicts_with = "locals")]
    pub(crate) metered: Vec<String>,
    /// What a link may be used for, LINK:RULE,RULE...: the link is an interface or a local address; the rules are metered,
    /// rate=10Mbit (in each direction), quota=5GB (in a month; a backup then) and weight=3 (its share, beside those of others);
    /// several times for several. In a file, tables such as [link.wwan0].
    #[arg(long, value_name = "RULES")]
    pub(crate) link: Vec<LinkRule>,
    /// Lead all packets of this machine through the server, which must have --tun. Linux, with CAP_NET_ADMIN.
    #[arg(long)]
    pub(crate) tun: bool,
    /// Let nothing out past the tunnel but to networks that this machine is in, from before the start; after a crash, too, until the
    /// next start, or `restore`.
    #[arg(long, requires = "tun", conflicts_with = "tun_no_routes")]
    pub(crate) kill_switch: bool,
    /// Ask for names as before, and not where the server says.
    #[arg(long, requires = "tun")]
    pub(crate) tun_no_dns: bool,
    /// Make the tunnel's device, and change neither routes nor DNS servers.
    #[arg(long, requires = "tun")]
    pub(crate) tun_no_routes: bool,
    /// The name of the tunnel's device.
    #[arg(long, value_name = "NAME", default_value = "mpbond0")]
    pub(crate) tun_name: String,
    /// Show what each link does, with keys to take one out.
    #[arg(long, conflicts_with = "json")]
    pub(crate) screen: bool,
    /// Print what each link did so far as a line of JSON, every second.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Invite {
    /// The user's name, which the server's log has: letters, digits, `.`, `_`, `@`, `-`.
    pub(crate) name: String,
    /// A TOML file with settings, as of `serve`.
    #[arg(long, value_name = "FILE", env = "MPQUIC_BOND_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// The file of users, which is made if there is none.
    #[arg(long, value_name = "FILE")]
    pub(crate) users: PathBuf,
    /// Where the server is reached, HOST or HOST:PORT; several times for several [default: this machine's addresses, port 4433].
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) address: Vec<String>,
    /// How long the ticket can be used for the first time on a device, such as 90m, 24h, 7d or never.
    #[arg(long, value_name = "TIME", default_value = "24h")]
    pub(crate) valid: String,
    /// On how many devices it can be used; 0 for any number.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) devices: u32,
    /// When the user's time is over, from now on, such as 30d.
    #[arg(long, value_name = "TIME", default_value = "never")]
    pub(crate) expires: String,
    /// How fast data may go to the user, and how fast it may come, such as 10Mbit or 2MB.
    #[arg(long, value_name = "RATE")]
    pub(crate) rate: Option<Rate>,
    /// How many clients the user may run at a time.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) connections: Option<u32>,
    /// What the user may reach, instead of what the server's --allow has; several times.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) allow: Vec<String>,
    /// Where the server's certificate is kept [default: mpquic-bond in the folder for the user's data].
    #[arg(long, value_name = "DIR")]
    pub(crate) identity: Option<PathBuf>,
    /// The server's certificate, if it is not kept there.
    #[arg(long, value_name = "FILE")]
    pub(crate) cert: Option<PathBuf>,
    /// Show the ticket as a QR code, too.
    #[arg(long)]
    pub(crate) qr: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Revoke {
    /// The user's name.
    pub(crate) name: String,
    /// A TOML file with settings, as of `serve`.
    #[arg(long, value_name = "FILE", env = "MPQUIC_BOND_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// The file of users.
    #[arg(long, value_name = "FILE")]
    pub(crate) users: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory as _;
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
            assert_eq!(connect.pin, [pin.parse().unwrap()]);
        }
    }
}
