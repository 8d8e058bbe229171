//! From a server's name to a connection: all of its addresses, from all local ones.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use mpquic::{ClientConfig, Connection, ConnectionError, Endpoint};

use crate::error::Error;
use crate::name::{host_of, resolve};
use crate::trust::ClientTls;

/// Connects to `HOST:PORT`: to all of its addresses that the endpoint's sockets can reach, one after another (RFC 8305), from all of
/// these sockets at once. `config` was made of `tls`, which knows why it did not trust a server.
///
/// # Errors
///
/// If the name is unknown, no address can be reached, or one side does not trust the other.
pub async fn dial(
    endpoint: &Endpoint,
    config: ClientConfig,
    tls: &ClientTls,
    name: &str,
) -> Result<Connection, Error> {
    let locals = endpoint.local_addrs();
    let mut addresses = resolve(name).await?;
    // Without a way from any of them, waiting for an answer would be in vain.
    let mut refused = None;
    addresses.retain(|remote| {
        let routes = locals.iter().filter_map(|local| route(*local, *remote));
        routes.into_iter().any(|route| match route {
            Ok(()) => true,
            Err(error) => {
                refused = Some(error);
                false
            }
        })
    });
    if addresses.is_empty() {
        let name = name.to_owned();
        return Err(match refused {
            Some(source) => Error::NoRoute { name, source },
            None => Error::Resolve {
                name,
                why: "it has no address of a family that the local ones have".to_owned(),
            },
        });
    }
    let connecting = endpoint
        .connect_any_with(config, &addresses, host_of(name))
        .map_err(|source| Error::Start {
            name: name.to_owned(),
            source,
        })?;
    // Of an attempt before this one.
    let _ = tls.verdict.take();
    connecting.await.map_err(|source| match source {
        ConnectionError::TimedOut => Error::NoAnswer {
            name: name.to_owned(),
        },
        source if Error::is_alert_about_trust(&source) => Error::Untrusted {
            name: name.to_owned(),
            // Without a verdict of ours, it is the server's alert.
            why: tls.verdict.take().unwrap_or_else(|| {
                "it does not trust this client: give --cert and --key with a certificate that it knows".to_owned()
            }),
            source,
        },
        source => Error::Connect {
            name: name.to_owned(),
            source,
        },
    })
}

/// Whether the system knows a way from an address to another one; `None` between two families. Sends nothing.
fn route(local: SocketAddr, remote: SocketAddr) -> Option<io::Result<()>> {
    (local.is_ipv4() == remote.is_ipv4()).then(|| UdpSocket::bind((local.ip(), 0))?.connect(remote))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes() {
        let local = |text: &str| text.parse::<SocketAddr>().unwrap();
        let known = route(local("127.0.0.1:0"), local("127.0.0.1:9"));
        assert!(known.unwrap().is_ok());
        // Nobody may send to all of a network without asking for it.
        let refused = route(local("0.0.0.0:0"), local("255.255.255.255:9"));
        assert!(refused.unwrap().is_err());
        assert!(route(local("127.0.0.1:0"), local("[::1]:9")).is_none());
    }
}
