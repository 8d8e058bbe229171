//! An endpoint over all links of this machine, as they come and go.

use std::collections::BTreeSet;
use std::net::{Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::{Mutex, PoisonError};

use mpquic::{Endpoint, LinkEvent, LinkManager, LinkPolicy, LinkTask, SystemInterfaces};

use crate::error::Error;
use crate::name::resolve;

/// An endpoint for connections to `server`, with a socket on each link of this machine that is up. Links that come and go are followed for as
/// long as the task lives; `on` is told. Interfaces that are named `metered` are backups; a name that no interface has now is told on
/// standard error, since one may come later. Those that are `ignored` are no links, now and later.
///
/// A link-local server can be reached over its own link only: there is one socket then, and no task.
///
/// # Errors
///
/// If the server's name is unknown, or no link is up.
pub async fn all_links(
    server: &str,
    metered: &[String],
    ignored: &[String],
    on: impl FnMut(LinkEvent) + Send + 'static,
) -> Result<(Endpoint, Option<LinkTask>), Error> {
    for name in news(metered) {
        crate::note!(
            "warning: no interface is named {name} now: --metered {name} has no effect until there is one"
        );
    }
    let addresses = resolve(server).await?;
    if !addresses.is_empty() && addresses.iter().all(is_link_local) {
        let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
        let endpoint = Endpoint::client(&[any]).map_err(Error::NoLinks)?;
        return Ok((endpoint, None));
    }
    // A socket that is bound to an interface does not reach this very machine.
    let is_here = addresses
        .iter()
        .any(|address| UdpSocket::bind((address.ip(), 0)).is_ok());
    let policy = LinkPolicy::new().guess_metered(false).bind_device(!is_here);
    let policy = metered.iter().fold(policy, LinkPolicy::metered);
    let policy = ignored.iter().fold(policy, LinkPolicy::ignore);
    let started =
        async { LinkManager::start(Endpoint::builder(), SystemInterfaces::new()?, policy).await };
    let (endpoint, links) = started.await.map_err(Error::NoLinks)?;
    Ok((endpoint, Some(links.spawn(on))))
}

fn is_link_local(address: &SocketAddr) -> bool {
    matches!(address, SocketAddr::V6(address) if address.ip().is_unicast_link_local())
}

/// Those that no interface has, and that were not told of yet: each is told once, however often connections are made.
fn news(metered: &[String]) -> Vec<&String> {
    static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    let mut unknown = unknown(metered);
    unknown.retain(|name| told.insert((*name).clone()));
    unknown
}

/// Those that no interface has.
fn unknown(names: &[String]) -> Vec<&String> {
    // Where the system does not tell its interfaces, nothing is known to be wrong.
    let Ok(interfaces) = if_addrs::get_if_addrs() else {
        return Vec::new();
    };
    let is_unknown = |name: &&String| !interfaces.iter().any(|there| there.name == **name);
    names.iter().filter(is_unknown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_no_interface_has_is_unknown() {
        let names = ["lo".to_owned(), "none9".to_owned()];
        let unknown = unknown(&names);
        assert!(unknown.contains(&&names[1]));
        if cfg!(target_os = "linux") {
            assert_eq!(unknown.len(), 1);
        }
    }

    #[test]
    fn each_unknown_name_is_told_once() {
        let twice = ["none8".to_owned(), "none8".to_owned()];
        assert_eq!(news(&twice), ["none8"]);
        assert!(news(&twice).is_empty());
    }
}
