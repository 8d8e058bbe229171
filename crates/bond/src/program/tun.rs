//! Tunnels: what the flags of `serve` and `connect` ask for.

#[cfg(target_os = "linux")]
pub(crate) use linux::{begin, check, open, restore, run};
#[cfg(not(target_os = "linux"))]
pub(crate) use other::{begin, check, open, restore, run};

#[cfg(target_os = "linux")]
mod linux {
    use mpquic_bond::tun::{self, Near, Pool, TunSettings};
    use mpquic_bond::{Client, Error, Server, Trust};
    use mpquic_peer::{Way, identity_folder, note};

    use crate::program::NAME;
    use crate::program::arguments::{Connect, Serve};

    fn pool(given: &Serve) -> Option<Pool> {
        (!given.tun.is_empty()).then(|| Pool {
            device: given.tun_name.clone(),
            networks: given.tun.clone(),
            mtu: given.tun_mtu,
            dns: given.tun_dns.clone(),
        })
    }

    pub(crate) fn check(given: &Serve) -> Result<(), Error> {
        pool(given).map_or(Ok(()), |pool| pool.check())
    }

    pub(crate) fn open(given: &Serve, server: &Server) -> Result<(), Error> {
        pool(given).map_or(Ok(()), |pool| server.open_tunnels(pool))
    }

    /// Before the first connection. Servers are known by their addresses from here on: nobody could be asked for their names while the tunnel is away.
    pub(crate) async fn begin(given: &Connect, ways: &mut [Way]) -> Result<Option<Near>, Error> {
        if !given.tun {
            return Ok(None);
        }
        let mut servers = Vec::new();
        for way in ways {
            let addresses = mpquic_peer::resolve(&way.server).await?;
            let texts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            match &way.trust {
                Trust::Fingerprint(_) | Trust::Known { .. } => way.server = texts.join(","),
                Trust::Authorities(_) | Trust::System => note!(
                    "{}: its name cannot be asked for while the tunnel is away; with --pin, it need not be",
                    way.server
                ),
            }
            servers.extend(addresses);
        }
        let begun = Near::begin(TunSettings {
            device: given.tun_name.clone(),
            kill_switch: given.kill_switch,
            dns: !given.tun_no_dns,
            no_routes: given.tun_no_routes,
            servers,
            folder: identity_folder(NAME)?.join("tun"),
        })?;
        Ok(Some(begun))
    }

    /// Carries packets, if there is a tunnel.
    pub(crate) async fn run(client: &Client, begun: Option<&Near>) -> Result<(), Error> {
        match begun {
            Some(begun) => client.tunnel(begun).await,
            None => std::future::pending().await,
        }
    }

    pub(crate) fn restore() -> Result<(), Error> {
        tun::restore(&identity_folder(NAME)?.join("tun"))
    }
}

#[cfg(not(target_os = "linux"))]
mod other {
    use mpquic_bond::{Client, Error, Server};
    use mpquic_peer::Way;

    use crate::program::arguments::{Connect, Serve};

    fn refused(is_asked: bool) -> Result<(), Error> {
        let why = "tunnels are there on Linux only";
        match is_asked {
            true => Err(Error::Argument(why.to_owned())),
            false => Ok(()),
        }
    }

    pub(crate) fn check(given: &Serve) -> Result<(), Error> {
        refused(!given.tun.is_empty())
    }

    pub(crate) fn open(given: &Serve, _: &Server) -> Result<(), Error> {
        check(given)
    }

    pub(crate) async fn begin(given: &Connect, _: &mut [Way]) -> Result<Option<()>, Error> {
        refused(given.tun).map(|()| None)
    }

    pub(crate) async fn run(_: &Client, _: Option<&()>) -> Result<(), Error> {
        std::future::pending().await
    }

    pub(crate) fn restore() -> Result<(), Error> {
        Ok(())
    }
}
