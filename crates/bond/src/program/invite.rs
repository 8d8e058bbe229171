//! `invite` and `revoke`: users in the file of users, and their tickets.

use mpquic_bond::{AllowList, Error, Rule};
use mpquic_peer::invitation::{self, after, duration_or_never};
use mpquic_peer::{User, note, say, users};

use crate::program::arguments::{Invite, Revoke};
use crate::program::{NAME, PORT, TICKET};

pub(crate) fn invite(given: &Invite) -> Result<(), Error> {
    let time = |text: &str| duration_or_never(text).map_err(Error::Argument);
    let (valid, expires) = (time(&given.valid)?, time(&given.expires)?);
    let rules: Result<Vec<Rule>, String> = given.allow.iter().map(|rule| rule.parse()).collect();
    AllowList::new(rules.map_err(Error::Argument)?);
    let servers = invitation::servers(&given.address, PORT)?;
    let (cert, folder) = (given.cert.as_deref(), given.identity.as_deref());
    let fingerprint = invitation::fingerprint(cert, folder, NAME)?;
    let ticket = invitation::invite(&given.users, servers, fingerprint, "", |key| User {
        expires: after(expires),
        devices: (given.devices > 0).then_some(given.devices),
        ticket_until: after(valid),
        rate: given.rate,
        connections: given.connections,
        allow: (!given.allow.is_empty()).then(|| given.allow.clone()),
        ..User::new(&given.name, key)
    })?;
    let text = ticket.encode(TICKET)?;
    if given.qr {
        say!("{}", mpquic_peer::qr_code(&text)?);
    }
    say!("{text}");
    note!(
        "{} is a user now. Whoever has the ticket can use it: mpquic-bond connect TICKET",
        given.name
    );
    Ok(())
}

pub(crate) fn revoke(given: &Revoke) -> Result<(), Error> {
    users::remove(&given.users, &given.name)?;
    note!("{} is no user any more", given.name);
    Ok(())
}
