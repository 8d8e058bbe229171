//! From a server's name to a connection: all of its addresses, from all local ones.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use mpquic::{ClientConfig, Connection, Endpoint};

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
    // That of an attempt before this one. The connection runs in a task of its own from here on.
    let _ = tls.verdict.take();
    let connecting = endpoint
        .connect_any_with(config, &addresses, host_of(name))
        .map_err(|source| Error::Start {
            name: name.to_owned(),
            source,
        })?;
    connecting.await.map_err(|source| {
        // Without a verdict of ours, an alert about trust is the server's.
        match tls.verdict.take() {
            Some((why, seen)) => Error::Untrusted {
                name: name.to_owned(),
                why,
                seen: Some(Box::new(seen)),
                source,
            },
            None => Error::ended(name, source),
        }
    })
}

/// Whether the system knows a way from an address to another one; `None` between two families. Sends nothing.
fn route(local: SocketAddr, remote: SocketAddr) -> Option<io::Result<()>> {
    (local.is_ipv4() == remote.is_ipv4()).then(|| {
        // With its zone, which a link-local address cannot do without.
        let mut any_port = local;
        any_port.set_port(0);
        UdpSocket::bind(any_port)?.connect(remote)
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use mpquic::ServerConfig;

    use super::*;
    use crate::identity::{Fingerprint, Identity};
    use crate::trust::{Trust, client_tls, server_tls};

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

    /// Dials a server of this identity that trusts every client, or only those of `client_ca`.
    async fn refused(
        folder: &Path,
        client_ca: Option<&Path>,
        trust: impl FnOnce(Fingerprint) -> Trust,
        alpn: &[u8],
    ) -> (Fingerprint, Error) {
        let identity = Identity::kept_in(folder, "localhost").unwrap();
        let fingerprint = identity.fingerprint().unwrap();
        let tls = server_tls(identity, client_ca, b"test").unwrap();
        let config = ServerConfig::new(Arc::new(tls)).unwrap();
        let any = "127.0.0.1:0".parse().unwrap();
        let server = Endpoint::server(config, &[any]).unwrap();
        let address = server.local_addrs()[0].to_string();
        let tls = client_tls(&trust(fingerprint), None, alpn).unwrap();
        let config = ClientConfig::new(Arc::new(tls.config.clone())).unwrap();
        let client = Endpoint::client(&[any]).unwrap();
        let accepting = tokio::spawn(async move { server.accept().await?.await.ok() });
        let dialled = dial(&client, config, &tls, &address).await;
        let error = match dialled {
            Err(error) => error,
            // A client is done before the server has judged it (RFC 8446 section 4.4.2).
            Ok(connection) => Error::ended(&address, connection.closed().await),
        };
        accepting.abort();
        (fingerprint, error)
    }

    #[tokio::test]
    async fn who_is_not_trusted_is_told_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let other: Fingerprint = "ab".repeat(32).parse().unwrap();
        let (seen, error) =
            refused(folder.path(), None, |_| Trust::Fingerprint(other), b"test").await;
        assert!(error.is_distrust(), "{error:?}");
        let text = error.to_string();
        let told = format!("has the fingerprint sha256:{seen}, and --pin expects sha256:{other};");
        assert!(
            text.contains(&told) && text.contains(&format!("give --pin sha256:{seen}")),
            "{text}"
        );

        let authority = folder.path().join("authority");
        Identity::kept_in(&authority, "authority").unwrap();
        let authority = authority.join("cert.pem");
        let trust = Trust::Authorities(authority.clone());
        let (seen, error) = refused(folder.path(), None, |_| trust, b"test").await;
        assert!(error.is_distrust(), "{error:?}");
        let text = error.to_string();
        let told = format!(
            "its certificate is not from the authorities in {}; it has the fingerprint sha256:{seen}: \
             if that is what the server prints, give --pin sha256:{seen}",
            authority.display()
        );
        assert!(text.ends_with(&told), "{text}");

        let own = Trust::Fingerprint;
        let (_, error) = refused(folder.path(), Some(&authority), own, b"test").await;
        assert!(error.is_distrust(), "{error:?}");
        let told = "it does not trust this client: give --cert and --key";
        assert!(error.to_string().contains(told), "{error}");

        let (_, error) = refused(folder.path(), None, own, b"other").await;
        assert!(!error.is_distrust(), "{error:?}");
        let told = "another program answers there, which does not speak the protocol of this one";
        assert!(error.to_string().ends_with(told), "{error}");
    }
}
