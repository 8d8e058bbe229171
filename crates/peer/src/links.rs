//! An endpoint over all links of this machine, as they come and go.

use std::net::UdpSocket;

use mpquic::{Endpoint, LinkEvent, LinkManager, LinkPolicy, LinkTask, SystemInterfaces};

use crate::dial::resolve;
use crate::error::Error;

/// An endpoint for connections to `server`, with a socket on each link of this machine that is up. Links that come and go are followed for as
/// long as the task lives; `on` is told. Interfaces that are named `metered` are backups.
///
/// # Errors
///
/// If the server's name is unknown, or no link is up.
pub async fn all_links(
    server: &str,
    metered: &[String],
    on: impl FnMut(LinkEvent) + Send + 'static,
) -> Result<(Endpoint, LinkTask), Error> {
    let addresses = resolve(server).await?;
    // A socket that is bound to an interface does not reach this very machine.
    let is_here = addresses
        .iter()
        .any(|address| UdpSocket::bind((address.ip(), 0)).is_ok());
    let policy = LinkPolicy::new().guess_metered(false).bind_device(!is_here);
    let policy = metered.iter().fold(policy, LinkPolicy::metered);
    let started =
        async { LinkManager::start(Endpoint::builder(), SystemInterfaces::new()?, policy).await };
    let (endpoint, links) = started.await.map_err(Error::NoLinks)?;
    Ok((endpoint, links.spawn(on)))
}
