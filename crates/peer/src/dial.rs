//! From a server's name to a connection: all of its addresses, from all local ones.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use mpquic::{ClientConfig, Connection, ConnectionError, Endpoint};

use crate::error::Error;

/// The host of `HOST:PORT`, without the brackets of an IPv6 address.
pub fn host_of(name: &str) -> &str {
    let host = name.rsplit_once(':').map_or(name, |(host, _)| host);
    host.trim_matches(['[', ']'])
}

/// The addresses of `HOST:PORT`.
///
/// # Errors
///
/// If the name is unknown, or has no address.
pub async fn resolve(name: &str) -> Result<Vec<SocketAddr>, Error> {
    let unresolved = |why: String| Error::Resolve {
        name: name.to_owned(),
        why,
    };
    let found = tokio::net::lookup_host(name).await;
    let found: Vec<_> = found
        .map_err(|error| unresolved(error.to_string()))?
        .collect();
    if found.is_empty() {
        return Err(unresolved("it has no address".to_owned()));
    }
    Ok(found)
}

/// Connects to `HOST:PORT`: to all of its addresses that the endpoint's sockets can reach, one after another (RFC 8305), from all of
/// these sockets at once.
///
/// # Errors
///
/// If the name is unknown, no address can be reached, or one side does not trust the other.
pub async fn dial(
    endpoint: &Endpoint,
    config: ClientConfig,
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
    connecting.await.map_err(|source| match source {
        ConnectionError::TimedOut => Error::NoAnswer {
            name: name.to_owned(),
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
    fn hosts() {
        for (name, host) in [
            ("example.com:443", "example.com"),
            ("[2001:db8::1]:443", "2001:db8::1"),
            ("192.0.2.1:1", "192.0.2.1"),
            ("example.com", "example.com"),
        ] {
            assert_eq!(host_of(name), host);
        }
    }

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

    #[tokio::test]
    async fn a_name_that_nobody_has_is_told() {
        // RFC 6761 section 6.4: never resolved.
        let refused = resolve("host.invalid:1").await.unwrap_err().to_string();
        assert!(
            refused.starts_with("cannot resolve host.invalid:1: "),
            "{refused}"
        );
    }
}
