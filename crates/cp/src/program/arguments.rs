//! The command line.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use mpquic_cp::{CopyOptions, Error, Select};
use mpquic_peer::status::StatusServer;
use mpquic_peer::{Fingerprint, Identity, Local, LogFormat, Rate, Right, Token, Transport, say};

const EXAMPLES: &str = "\
Examples:
  On the host that has the files; it prints its fingerprint:
    mpquic-cp serve --root /srv/files
  On the other machine, over Wi-Fi and LTE at once:
    mpquic-cp ls  files.example --pin sha256:9f86d0...
    mpquic-cp get files.example photos . --pin sha256:9f86d0...
  To put files, both sides need a secret:
    head -c 32 /dev/urandom | base64 > token
    mpquic-cp serve --root /srv/files --allow-put --token-file token
    mpquic-cp put files.example videos incoming/ --pin sha256:9f86d0... --token-file token
  To keep a folder the same as that of the server, and the other way round:
    mpquic-cp sync files.example :photos photos --delete --pin sha256:9f86d0...
  From one program to another:
    tar c videos | mpquic-cp put files.example - videos.tar --pin sha256:9f86d0... --token-file token
  One file or folder, from any machine to any other, with no more than a word:
    mpquic-cp share holiday.mp4
    mpquic-cp get mpcp1qyq...
  With a file instead of flags, which a server reads again on SIGHUP:
    mpquic-cp check serve --config cp.toml
    mpquic-cp serve --config cp.toml

A transfer that was interrupted goes on where it stopped: give the same command again, or give --retry beforehand.

Exit code:
  0    success; a server: stopped, by Ctrl-C, SIGTERM or the end of its terminal
  1    another error, such as an address that cannot be listened on
  2    wrong arguments
  3    the server's name is unknown
  4    the server cannot be reached
  5    the server's certificate is not the one that is trusted, or it does not trust the client's
  6    the server does not take this client (token, too many connections), or no longer (revoked)
  7    the server has no such file, or does not let it be read or written
  8    a file cannot be read or written, on either side: a full disk, permissions; token, certificate, key
  9    the connection is lost
  10   the contents arrived damaged
  23   something was left out: a line on standard error names each; all else is there
  24   something was gone before it was copied; all else is there
  129  stopped by the end of its terminal; 130: by Ctrl-C; 143: by SIGTERM";

/// Copies files over all links of a machine at once, over multipath QUIC.
#[derive(Debug, Parser)]
#[command(version, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) role: Role,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Role {
    /// Serves a folder. Read-only, unless --allow-put is given.
    Serve(Serve),
    /// Gets files, or folders with all that is below them.
    Get {
        #[command(flatten)]
        connect: Connect,
        #[command(flatten)]
        copy: Copy,
        /// The file or folder on the server, `.` for all, and behind it where it goes [default: .]: into a folder, if that is `.` or ends with
        /// `/`; else to that name. A file goes into a folder that is there, too; to standard output, if it is `-`. With three and more, the
        /// last is a folder, into which all others go. With a ticket of `share`, which says what it is for, only where it goes.
        #[arg(value_name = "NAME")]
        names: Vec<String>,
    },
    /// Puts files, or folders with all that is below them.
    Put {
        #[command(flatten)]
        connect: Connect,
        #[command(flatten)]
        copy: Copy,
        /// The file or folder of this machine, and behind it its name on the server, or with `/` at the end the folder there; without one,
        /// its own name. With three and more, the last is a folder, into which all others go. `-` is standard input.
        #[arg(value_name = "NAME", required = true)]
        names: Vec<PathBuf>,
    },
    /// Makes one file or folder like another one, of which one is on the server: its name begins with `:`. What is newer there is replaced, and what is of
    /// the same size and time of change is not read.
    Sync {
        #[command(flatten)]
        connect: Connect,
        #[command(flatten)]
        choice: Choice,
        /// Remove what the copy has and the folder that is copied has not. What --include and --exclude leave out stays.
        #[arg(long)]
        delete: bool,
        /// Compare the contents of files of the same size and time of change, too.
        #[arg(long)]
        checksum: bool,
        /// What is copied, such as photos or :photos.
        from: String,
        /// What becomes like it, such as :photos or photos; `:` is all that is served.
        to: String,
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
        /// Symbolic links as links; else as the files that they lead to.
        #[arg(long)]
        links: bool,
    },
    /// Makes a folder on the server, and those that lead to it.
    Mkdir {
        #[command(flatten)]
        connect: Connect,
        /// Its name.
        remote: String,
    },
    /// Gives a file or folder on the server another name, which nothing has.
    Mv {
        #[command(flatten)]
        connect: Connect,
        /// The file or folder.
        from: String,
        /// Its other name; into that folder, if it ends with `/`.
        to: String,
    },
    /// Removes a file or an empty folder on the server.
    Rm {
        #[command(flatten)]
        connect: Connect,
        /// Its name.
        remote: String,
        /// A folder with all that is below it.
        #[arg(short, long)]
        recursive: bool,
    },
    /// Serves one file or folder to those who have the ticket that it prints, for as long as it runs.
    Share(ShareOne),
    /// Adds a user to the file of users, and prints a ticket, which takes the place of the server's name.
    Invite(Invite),
    /// Removes a user from the file of users; a server that runs closes the user's connections.
    Revoke(Revoke),
    /// Writes the manual pages and the completions of shells into a folder.
    #[command(hide = true)]
    Manual {
        /// The folder.
        folder: PathBuf,
    },
    /// Says what a command would do with its flags and its file, and whether the files that it needs are right.
    Check {
        /// The command, with its flags: `check serve --config cp.toml`.
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<OsString>,
    },
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Common {
    /// A TOML file with settings: each flag is a key, in the table of its command, such as [serve], or before all tables. Flags win.
    #[arg(long, value_name = "FILE", env = "MPQUIC_CP_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// A file with the secret that server and clients share, at least 16 bytes. Without it, the environment variable MPQUIC_CP_TOKEN has the
    /// secret itself, if it is set.
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
    /// The packet scheduler for what this side sends.
    #[arg(long, value_name = "NAME")]
    pub(crate) scheduler: Option<String>,
    /// The congestion controller for what this side sends.
    #[arg(long, value_name = "NAME")]
    pub(crate) congestion: Option<String>,
}

impl Common {
    pub(crate) fn token(&self) -> Result<Option<Token>, Error> {
        Ok(match &self.token_file {
            Some(path) => Some(Token::from_file(path)?),
            None => Token::from_env("MPQUIC_CP_TOKEN")?,
        })
    }

    pub(crate) fn identity(&self) -> Result<Option<Identity>, Error> {
        match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => Ok(Some(Identity::from_files(cert, key)?)),
            _ => Ok(None),
        }
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
    /// The folder.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) root: PathBuf,
    /// Where to listen; several times for several addresses [default: 0.0.0.0:4433 and [::]:4433].
    #[arg(long, value_name = "ADDR", value_parser = mpquic_peer::socket_address)]
    pub(crate) listen: Vec<SocketAddr>,
    /// A file of users who may come by name, as `invite` makes it. It is followed while the server runs.
    #[arg(long, value_name = "FILE")]
    pub(crate) users: Option<PathBuf>,
    /// Let clients put files; with --token-file, --users or --client-ca.
    #[arg(long)]
    pub(crate) allow_put: bool,
    /// Let clients remove and rename; with --token-file, --users or --client-ca. Renaming needs --allow-put, too.
    #[arg(long)]
    pub(crate) allow_remove: bool,
    /// Take clients with a certificate of this authority (PEM) only.
    #[arg(long, value_name = "FILE")]
    pub(crate) client_ca: Option<PathBuf>,
    /// Show what it does at this address, as a page with charts (/) and for Prometheus (/metrics), such as 127.0.0.1:9433.
    #[arg(long, value_name = "ADDR", value_parser = mpquic_peer::socket_address)]
    pub(crate) metrics: Option<SocketAddr>,
    /// A file with the token that whoever looks must have: a password with any name, or a bearer token.
    #[arg(long, value_name = "FILE", requires = "metrics")]
    pub(crate) metrics_token_file: Option<PathBuf>,
    /// How lines of the log are written: text or json.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) log_format: LogFormat,
    /// Another address of this server, which clients are told to open paths to; several times for several.
    #[arg(long, value_name = "ADDR", value_parser = mpquic_peer::socket_address)]
    pub(crate) announce: Vec<SocketAddr>,
    /// Where the certificate is kept that is made without --cert [default: mpquic-cp in the folder for the user's data].
    #[arg(long, value_name = "DIR")]
    pub(crate) identity: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) common: Common,
}

impl Serve {
    /// What shows the figures, if they are to be shown; the log is in its format from here on.
    pub(crate) async fn status(&self) -> Result<Option<StatusServer>, Error> {
        mpquic_peer::log_in(self.log_format);
        let Some(address) = self.metrics else {
            return Ok(None);
        };
        let server = StatusServer::bind(address, self.metrics_token_file.as_deref()).await?;
        let here = server
            .local_addr()
            .map_err(|source| mpquic_peer::Error::Listen {
                address: address.to_string(),
                source,
            })?;
        say!("status on http://{here}/");
        Ok(Some(server))
    }
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Connect {
    /// A ticket, or - to read one from standard input; or the server, HOST or HOST:PORT (default 4433), or [fe80::1%eth0]:PORT on a link; several
    /// with commas between them.
    pub(crate) server: String,
    /// Trust the server with this fingerprint, as it prints it.
    #[arg(long, value_name = "FINGERPRINT", conflicts_with = "ca")]
    pub(crate) pin: Option<Fingerprint>,
    /// Trust a server with a certificate of this authority (PEM) for its name, and not the system's authorities.
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Trust a server that is met for the first time without asking, and know it from then on.
    #[arg(long)]
    pub(crate) accept_new: bool,
    /// Move contents no faster than this, such as 10Mbit or 2MB: a number with bit, kbit, Mbit, Gbit, B, kB, MB or GB, per second.
    #[arg(long, value_name = "RATE")]
    pub(crate) bwlimit: Option<Rate>,
    /// A local address to connect from, such as 192.0.2.1 or fe80::1%eth0; several times for several. Without any, all links of this
    /// machine are used, as they come and go.
    #[arg(long = "local", value_name = "IP")]
    pub(crate) locals: Vec<Local>,
    /// What is done without --local.
    #[arg(long, conflicts_with = "locals", hide = true)]
    pub(crate) all_interfaces: bool,
    /// An interface that costs money by the byte, such as wwan0: a backup for the others; several times for several.
    #[arg(long, value_name = "INTERFACE", conflicts_with = "locals")]
    pub(crate) metered: Vec<String>,
    /// Try again for so long if the server cannot be reached or the connection is lost, such as 90s, 10m, 2h.
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(crate) retry: Option<Duration>,
    /// Print JSON lines, and no bar: one for each file, each second, and for the whole.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// What is copied of files and folders.
#[derive(Debug, Clone, Args)]
pub(crate) struct Choice {
    /// Leave permissions out: files and folders get those of new ones.
    #[arg(long)]
    no_perms: bool,
    /// Copy symbolic links as links, if they lead to something in what is copied; else the files that they lead to are copied.
    #[arg(long)]
    links: bool,
    /// Do nothing, and print what would be done with each file: new, replace, compare (the same size, so that contents decide), keep
    /// (what is there is newer) or delete.
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// Of a folder, copy only what has this name, such as '*.jpg', or is at this place, such as 'photos/**/*.jpg'; several times for
    /// several. A pattern about a folder is about all that is below it.
    #[arg(long, value_name = "PATTERN")]
    include: Vec<String>,
    /// Of a folder, leave out what has this name or is at this place, whatever --include says; several times for several.
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
}

impl Choice {
    /// # Errors
    ///
    /// If a pattern makes no sense.
    pub(crate) fn options(&self) -> Result<CopyOptions, Error> {
        let mut options = CopyOptions::default();
        options.permissions = !self.no_perms;
        options.links = self.links;
        options.dry_run = self.dry_run;
        options.select = Select::new(&self.include, &self.exclude)?;
        Ok(options)
    }
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Copy {
    #[command(flatten)]
    pub(crate) choice: Choice,
    /// Replace files that were changed later than those that are copied.
    #[arg(long, visible_alias = "force")]
    overwrite: bool,
}

impl Copy {
    /// # Errors
    ///
    /// If a pattern makes no sense.
    pub(crate) fn options(&self) -> Result<CopyOptions, Error> {
        let mut options = self.choice.options()?;
        options.overwrite = self.overwrite;
        Ok(options)
    }
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ShareOne {
    /// The file or folder.
    pub(crate) path: PathBuf,
    /// Where to listen; several times for several addresses [default: 0.0.0.0:0 and [::]:0, any port that is free].
    #[arg(long, value_name = "ADDR", value_parser = mpquic_peer::socket_address)]
    pub(crate) listen: Vec<SocketAddr>,
    /// Where this machine is reached, HOST:PORT, if not at its own addresses; several times for several.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) address: Vec<String>,
    /// For how long, such as 90m, 24h, 7d or never; the command ends then.
    #[arg(long, value_name = "TIME", default_value = "24h")]
    pub(crate) valid: String,
    /// On how many devices the ticket can be used; 0 for any number.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) devices: u32,
    /// Show the ticket as a QR code, too.
    #[arg(long)]
    pub(crate) qr: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Invite {
    /// The user's name, which the server's log has: letters, digits, `.`, `_`, `@`, `-`.
    pub(crate) name: String,
    /// A TOML file with settings, as of `serve`.
    #[arg(long, value_name = "FILE", env = "MPQUIC_CP_CONFIG")]
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
    /// The user's folder, below the one that is served: nothing else is seen.
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
    /// What the user may do: get, put, remove; several times for several. Without any, what all may.
    #[arg(long, value_name = "RIGHT")]
    pub(crate) right: Vec<Right>,
    /// Where the server's certificate is kept [default: mpquic-cp in the folder for the user's data].
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
    #[arg(long, value_name = "FILE", env = "MPQUIC_CP_CONFIG")]
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
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }
}
