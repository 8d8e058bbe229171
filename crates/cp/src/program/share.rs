//! `share`: one file or folder for those who have a ticket.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use mpquic_cp::{Error, Name, Server, ServerSettings, server_tls};
use mpquic_peer::invitation::{after, duration_or_never};
use mpquic_peer::{
    Identity, Right, Ticket, User, UserSecret, Users, log, note, own_addresses, qr_code, say,
    with_port,
};

use crate::program::arguments::ShareOne;
use crate::program::session::{PORT, PROGRAM, Stopping, TICKET};

/// Addresses in a ticket, at most.
const ADDRESSES: usize = 8;
/// The longest time that a timer is set for; the end is looked at then.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

pub(crate) async fn share(given: &ShareOne, stop: Stopping<'_>) -> Result<u8, Error> {
    let time = duration_or_never(&given.valid).map_err(Error::Argument)?;
    let wrong = |error| Error::File {
        path: given.path.display().to_string(),
        source: error,
    };
    // Whatever links lead there.
    let whole = given.path.canonicalize().map_err(wrong)?;
    let (root, name) = match (whole.parent(), whole.file_name()) {
        (Some(root), Some(name)) => (root, name.to_str()),
        _ => {
            return Err(Error::Argument(
                "this has no name to be shared by".to_owned(),
            ));
        }
    };
    let name = name.ok_or_else(|| Error::Argument("its name is not UTF-8".to_owned()))?;
    let name: Name = name.parse()?;
    // Nobody knows this one yet: it lives as long as the ticket.
    let identity = Identity::passing(PROGRAM)?;
    let fingerprint = identity.fingerprint();
    let fingerprint = fingerprint.ok_or_else(|| Error::Argument("no certificate".to_owned()))?;
    let secret = UserSecret::random()?;
    let user = User {
        expires: after(time),
        devices: (given.devices > 0).then_some(given.devices),
        rights: Some(vec![Right::Get]),
        ..User::new("ticket", secret.key())
    };
    let settings = ServerSettings {
        root: root.to_owned(),
        allow_put: false,
        allow_remove: false,
        client_certificates: false,
        token: None,
        users: Some(Users::these([user])),
        only: Some(name.clone()),
        announce: Vec::new(),
        transport: given.common.transport(),
        patience: ServerSettings::PATIENCE,
    };
    let tls = server_tls(identity, None, given.common.keylog.as_deref())?;
    let server = listening(given, tls, settings)?;
    let ticket = Ticket {
        servers: addresses(given, &server.local_addrs())?,
        fingerprint,
        secret,
        what: name.as_str().to_owned(),
    };
    let text = ticket.encode(TICKET)?;
    if given.qr {
        say!("{}", qr_code(&text)?);
    }
    note!(
        "sharing {} for as long as this runs; whoever has the ticket can get it: mpquic-cp get TICKET",
        whole.display()
    );
    say!("{text}");
    let until = async {
        let end = time.map(|time| tokio::time::Instant::now() + time);
        loop {
            match end.map(|end| end.saturating_duration_since(tokio::time::Instant::now())) {
                Some(Duration::ZERO) => return,
                left => tokio::time::sleep(left.unwrap_or(LONGEST).min(LONGEST)).await,
            }
        }
    };
    let stop = async {
        tokio::select! {
            _ = stop => {}
            () = until => note!("the time of the ticket is over"),
        }
    };
    server.run(stop, |line| log!("{line}")).await;
    Ok(0)
}

/// On what was given, or on both families.
fn listening(
    given: &ShareOne,
    tls: rustls::ServerConfig,
    settings: ServerSettings,
) -> Result<Server, Error> {
    if !given.listen.is_empty() {
        return Server::bind(tls, &given.listen, settings);
    }
    let any: [SocketAddr; 2] = [
        (Ipv4Addr::UNSPECIFIED, 0).into(),
        (Ipv6Addr::UNSPECIFIED, 0).into(),
    ];
    Server::bind(tls, &any, settings)
}

/// Where others find this machine.
fn addresses(given: &ShareOne, bound: &[SocketAddr]) -> Result<Vec<String>, Error> {
    let port = bound.first().map_or(PORT, SocketAddr::port);
    let mut found: Vec<String> = given
        .address
        .iter()
        .map(|one| with_port(one, port))
        .collect();
    if found.is_empty() {
        for local in bound {
            if !local.ip().is_unspecified() {
                found.push(local.to_string());
                continue;
            }
            let same = |own: &SocketAddr| own.is_ipv4() == local.is_ipv4();
            let own = own_addresses(local.port()).into_iter().filter(same);
            found.extend(own.map(|own| own.to_string()));
        }
    }
    if found.is_empty() {
        // Nobody else can come, but programs of this machine can.
        let ip = IpAddr::V4(Ipv4Addr::LOCALHOST);
        found.push(SocketAddr::new(ip, port).to_string());
    }
    found.truncate(ADDRESSES);
    Ok(found)
}
