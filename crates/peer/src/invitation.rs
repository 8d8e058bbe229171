//! Invitations: a new user in the file of users, and a ticket for that user.

use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::error::Error;
use crate::identity::{Fingerprint, Identity, identity_folder};
use crate::name::own_addresses;
use crate::ticket::Ticket;
use crate::user_key::UserSecret;
use crate::users::{self, User};

/// Addresses in a ticket, at most.
const ADDRESSES: usize = 8;

/// A time that a user writes: a duration such as `24h`, or `never`.
///
/// # Errors
///
/// If it is none.
pub fn duration_or_never(text: &str) -> Result<Option<Duration>, String> {
    match text {
        "never" => Ok(None),
        text => humantime::parse_duration(text).map(Some).map_err(|error| {
            format!("{error}: a time is expected, such as 90m, 24h or 30d, or never")
        }),
    }
}

/// In so long, from now on.
pub fn after(time: Option<Duration>) -> Option<SystemTime> {
    time.and_then(|time| SystemTime::now().checked_add(time))
}

/// Where a server of this machine is reached: what was given, each with this port if it has none, or the machine's own addresses.
///
/// # Errors
///
/// If there are none.
pub fn servers(given: &[String], port: u16) -> Result<Vec<String>, Error> {
    let mut servers: Vec<String> = match given {
        [] => own_addresses(port)
            .iter()
            .map(ToString::to_string)
            .collect(),
        given => given
            .iter()
            .map(|server| crate::with_port(server, port))
            .collect(),
    };
    servers.truncate(ADDRESSES);
    if servers.is_empty() {
        let why = "this machine has no address that others could reach: give --address";
        return Err(Error::Setting(why.to_owned()));
    }
    Ok(servers)
}

/// By what clients are to know a server: the certificate in a file, or else the one in a folder (that of the program, if none is given), which is
/// made there if the server was not started yet.
///
/// # Errors
///
/// If there is no certificate, or it cannot be read or made.
pub fn fingerprint(
    cert: Option<&Path>,
    folder: Option<&Path>,
    program: &str,
) -> Result<Fingerprint, Error> {
    if let Some(cert) = cert {
        return Fingerprint::of_file(cert);
    }
    let folder = match folder {
        Some(folder) => folder.to_owned(),
        None => identity_folder(program)?,
    };
    let identity = Identity::kept_in(&folder, program)?;
    identity
        .fingerprint()
        .ok_or_else(|| Error::file(&folder, "no certificate"))
}

/// Adds a user, whom `user` makes of the key of a new secret, to a file, and gives the user's ticket.
///
/// # Errors
///
/// If the file cannot be changed or has a user of this name.
pub fn invite(
    path: &Path,
    servers: Vec<String>,
    fingerprint: Fingerprint,
    what: &str,
    user: impl FnOnce(crate::UserKey) -> User,
) -> Result<Ticket, Error> {
    let secret = UserSecret::random()?;
    users::add(path, &user(secret.key()))?;
    Ok(Ticket {
        servers,
        fingerprint,
        secret,
        what: what.to_owned(),
    })
}
