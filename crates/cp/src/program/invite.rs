//! `invite` and `revoke`: users in the file of users, and their tickets.

use mpquic_cp::Error;
use mpquic_peer::invitation::{self, after, duration_or_never};
use mpquic_peer::{User, note, say, users};

use crate::program::arguments::{Invite, Revoke};
use crate::program::session::{PORT, PROGRAM, TICKET};

pub(crate) fn invite(given: &Invite) -> Result<u8, Error> {
    let time = |text: &str| duration_or_never(text).map_err(Error::Argument);
    let (valid, expires) = (time(&given.valid)?, time(&given.expires)?);
    if let Some(folder) = &given.folder
        && !mpquic_cp::is_below(folder)
    {
        let why = format!(
            "{} is not below the folder that is served",
            folder.display()
        );
        return Err(Error::Argument(why));
    }
    let servers = invitation::servers(&given.address, PORT)?;
    let (cert, folder) = (given.cert.as_deref(), given.identity.as_deref());
    let fingerprint = invitation::fingerprint(cert, folder, PROGRAM)?;
    let ticket = invitation::invite(&given.users, servers, fingerprint, "", |key| User {
        expires: after(expires),
        devices: (given.devices > 0).then_some(given.devices),
        ticket_until: after(valid),
        rate: given.rate,
        connections: given.connections,
        folder: given.folder.clone(),
        rights: (!given.right.is_empty()).then(|| given.right.clone()),
        ..User::new(&given.name, key)
    })?;
    let text = ticket.encode(TICKET)?;
    if given.qr {
        say!("{}", mpquic_peer::qr_code(&text)?);
    }
    say!("{text}");
    note!(
        "{} is a user now. Whoever has the ticket can use it: mpquic-cp ls TICKET",
        given.name
    );
    Ok(0)
}

pub(crate) fn revoke(given: &Revoke) -> Result<u8, Error> {
    users::remove(&given.users, &given.name)?;
    note!("{} is no user any more", given.name);
    Ok(0)
}
