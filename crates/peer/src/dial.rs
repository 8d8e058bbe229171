//! From a server's name to a connection: all of its addresses, from all local ones.

use std::net::SocketAddr;

use mpquic::{ClientConfig, Connection, Endpoint};

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
    let reached = |address: &SocketAddr| {
        let mut locals = locals.iter();
        locals.any(|local| local.is_ipv4() == address.is_ipv4())
    };
    let addresses: Vec<_> = resolve(name).await?.into_iter().filter(reached).collect();
    if addresses.is_empty() {
        return Err(Error::Resolve {
            name: name.to_owned(),
            why: "it has no address of a family that the local ones have".to_owned(),
        });
    }
    let connecting = endpoint
        .connect_any_with(config, &addresses, host_of(name))
        .map_err(|source| Error::Start {
            name: name.to_owned(),
            source,
        })?;
    connecting.await.map_err(|source| Error::Connect {
        name: name.to_owned(),
        source,
    })
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
