//! Names of servers and local addresses, as users write them: with or without a port, with the zone of a link-local address.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use crate::error::Error;

/// The host of `HOST:PORT`, the first one of several, without the brackets of an IPv6 address and without its zone (RFC 6874): no certificate has one.
pub fn host_of(name: &str) -> &str {
    let name = name.split(',').next().unwrap_or(name);
    let host = name.rsplit_once(':').map_or(name, |(host, _)| host);
    let host = host.trim_matches(['[', ']']);
    split_zone(host).map_or(host, |(address, _)| address)
}

/// `HOST:PORT` of what may have no port: `example.com`, `192.0.2.1:4433`, `2001:db8::1`, `[fe80::1%eth0]`.
///
/// Several servers, with commas between them, each get one.
pub fn with_port(server: &str, port: u16) -> String {
    if server.contains(',') {
        let all: Vec<_> = server.split(',').map(|one| with_port(one, port)).collect();
        return all.join(",");
    }
    let address = split_zone(server).map_or(server, |(address, _)| address);
    if address.parse::<Ipv6Addr>().is_ok() {
        return format!("[{server}]:{port}");
    }
    let after = server.rsplit_once(']').map_or(server, |(_, after)| after);
    if after.contains(':') {
        server.to_owned()
    } else {
        format!("{server}:{port}")
    }
}

/// The addresses of `HOST:PORT`. The host is a name, an IPv4 address, or an IPv6 address in brackets, of which a link-local one
/// has a zone: `[fe80::1%eth0]:4433`. Of several, with commas between them, those of all that have some.
///
/// # Errors
///
/// If the name is unknown, or has no address.
pub async fn resolve(name: &str) -> Result<Vec<SocketAddr>, Error> {
    let (mut all, mut failed) = (Vec::new(), None);
    for one in name.split(',') {
        match resolve_one(one).await {
            Ok(mut found) => all.append(&mut found),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    match failed {
        Some(error) if all.is_empty() => Err(error),
        _ => Ok(all),
    }
}

async fn resolve_one(name: &str) -> Result<Vec<SocketAddr>, Error> {
    let unresolved = |why: String| Error::Resolve {
        name: name.to_owned(),
        why,
    };
    if let Some(scoped) = scoped(name) {
        return Ok(vec![scoped.map_err(unresolved)?.into()]);
    }
    // An IPv4 address in the clothes of IPv6 is reached by IPv4 (RFC 4291 section 2.5.5.2).
    let plain = |address: SocketAddr| match address.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::new(ip.into(), address.port()),
        IpAddr::V6(_) => address,
    };
    if name.parse::<SocketAddr>().is_ok() {
        return Ok(vec![plain(socket_address(name).map_err(unresolved)?)]);
    }
    let found = tokio::net::lookup_host(name).await;
    let found = found.map_err(|error| unresolved(error.to_string()))?;
    let found: Vec<_> = found.map(plain).collect();
    if found.is_empty() {
        return Err(unresolved("it has no address".to_owned()));
    }
    Ok(found)
}

/// The addresses of this machine that others may reach, with a port: neither loopback nor link-local ones.
pub fn own_addresses(port: u16) -> Vec<SocketAddr> {
    let interfaces = if_addrs::get_if_addrs().unwrap_or_default();
    let ips = interfaces.iter().map(if_addrs::Interface::ip);
    let is_reached = |ip: &IpAddr| match ip {
        IpAddr::V4(ip) => !ip.is_loopback() && !ip.is_link_local(),
        IpAddr::V6(ip) => !ip.is_loopback() && !ip.is_unicast_link_local(),
    };
    let reached = ips.filter(is_reached);
    reached.map(|ip| SocketAddr::new(ip, port)).collect()
}

/// An address with a port, as users write it: `0.0.0.0:4433`, `[::]:4433`, or with the zone of a link-local address
/// `[fe80::1%eth0]:4433`.
///
/// # Errors
///
/// If it is none, or no interface has this name.
pub fn socket_address(text: &str) -> Result<SocketAddr, String> {
    if let Some(scoped) = scoped(text) {
        return Ok(scoped?.into());
    }
    let address: SocketAddr = text.parse().map_err(|_| {
        format!("{text:?} is no address with a port, such as 192.0.2.1:4433 or [2001:db8::1]:4433")
    })?;
    match address {
        SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() => Err(format!(
            "{} is on each link: say on which, as in [{}%eth0]:{}",
            v6.ip(),
            v6.ip(),
            v6.port()
        )),
        address => Ok(address),
    }
}

/// Of `[fe80::1%eth0]:4433`; `None` without a zone.
fn scoped(name: &str) -> Option<Result<SocketAddrV6, String>> {
    let (host, port) = name.strip_prefix('[')?.rsplit_once("]:")?;
    let (address, zone) = split_zone(host)?;
    Some((|| {
        let address = address
            .parse::<Ipv6Addr>()
            .map_err(|_| format!("{address:?} is no IPv6 address"))?;
        let port = port
            .parse()
            .map_err(|_| format!("{port:?} is no port number"))?;
        Ok(SocketAddrV6::new(address, port, 0, index_of(zone)?))
    })())
}

fn split_zone(host: &str) -> Option<(&str, &str)> {
    let (address, zone) = host.split_once('%')?;
    address.contains(':').then_some((address, zone))
}

/// The number of an interface, from its name or number.
fn index_of(zone: &str) -> Result<u32, String> {
    if let Ok(index) = zone.parse() {
        return Ok(index);
    }
    let interfaces = if_addrs::get_if_addrs()
        .map_err(|error| format!("the system does not tell its interfaces: {error}"))?;
    let of_name = interfaces.iter().find(|interface| interface.name == zone);
    of_name
        .and_then(|interface| interface.index)
        .or_else(|| without_other_addresses(zone))
        .ok_or_else(|| format!("no interface of this machine is named {zone:?}"))
}

/// Of an interface that has link-local addresses only, which is not among those above.
fn without_other_addresses(zone: &str) -> Option<u32> {
    #[cfg(target_os = "linux")]
    {
        let asking = std::net::UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).ok()?;
        rustix::net::netdevice::name_to_index(asking, zone).ok()
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = zone;
        None
    }
}

/// A local address to send from, as users write it: `192.0.2.1`, `2001:db8::1`, or with the zone of a link-local address
/// `fe80::1%eth0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Local(SocketAddr);

impl Local {
    /// The address to bind, with any port.
    pub const fn address(self) -> SocketAddr {
        self.0
    }
}

impl From<IpAddr> for Local {
    fn from(ip: IpAddr) -> Self {
        Self(SocketAddr::new(ip, 0))
    }
}

impl std::str::FromStr for Local {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((address, zone)) = split_zone(text) else {
            let ip = text
                .parse::<IpAddr>()
                .map_err(|_| format!("{text:?} is no IP address"))?;
            if let IpAddr::V6(ip) = ip
                && ip.is_unicast_link_local()
            {
                return Err(format!(
                    "{text} is on each link: say on which, as in {text}%eth0"
                ));
            }
            return Ok(ip.into());
        };
        let address = address
            .parse::<Ipv6Addr>()
            .map_err(|_| format!("{address:?} is no IPv6 address"))?;
        Ok(Self(
            SocketAddrV6::new(address, 0, 0, index_of(zone)?).into(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        for (name, host) in [
            ("example.com:443", "example.com"),
            ("[2001:db8::1]:443", "2001:db8::1"),
            ("[fe80::1%eth0]:443", "fe80::1"),
            ("[fe80::1%4]:443", "fe80::1"),
            ("192.0.2.1:1", "192.0.2.1"),
            ("example.com", "example.com"),
        ] {
            assert_eq!(host_of(name), host);
        }
    }

    #[test]
    fn ports() {
        for (server, full) in [
            ("example.com", "example.com:4433"),
            ("example.com:1", "example.com:1"),
            ("192.0.2.1", "192.0.2.1:4433"),
            ("192.0.2.1:1", "192.0.2.1:1"),
            ("2001:db8::1", "[2001:db8::1]:4433"),
            ("[2001:db8::1]", "[2001:db8::1]:4433"),
            ("[2001:db8::1]:1", "[2001:db8::1]:1"),
            ("fe80::1%eth0", "[fe80::1%eth0]:4433"),
            ("[fe80::1%eth0]", "[fe80::1%eth0]:4433"),
            ("[fe80::1%eth0]:1", "[fe80::1%eth0]:1"),
        ] {
            assert_eq!(with_port(server, 4433), full);
        }
    }

    #[tokio::test]
    async fn a_zone_is_a_name_or_a_number() {
        let found = resolve("[fe80::1%7]:4433").await.unwrap();
        let SocketAddr::V6(found) = found[0] else {
            panic!("{found:?}");
        };
        assert_eq!((found.scope_id(), found.port()), (7, 4433));
        for (name, why) in [
            (
                "[fe80::1%none9]:1",
                "no interface of this machine is named \"none9\"",
            ),
            ("[fe80::x%1]:1", "\"fe80::x\" is no IPv6 address"),
            ("[fe80::1%1]:port", "\"port\" is no port number"),
        ] {
            let refused = resolve(name).await.unwrap_err().to_string();
            assert_eq!(refused, format!("cannot resolve {name}: {why}"));
        }
    }

    #[test]
    fn local_addresses() {
        assert_eq!(
            "192.0.2.1".parse::<Local>().unwrap().address(),
            "192.0.2.1:0".parse().unwrap()
        );
        let scoped = "fe80::1%7".parse::<Local>().unwrap().address();
        assert!(matches!(scoped, SocketAddr::V6(address) if address.scope_id() == 7));
        for (text, why) in [
            ("here", "\"here\" is no IP address"),
            (
                "fe80::1",
                "fe80::1 is on each link: say on which, as in fe80::1%eth0",
            ),
            (
                "fe80::1%none9",
                "no interface of this machine is named \"none9\"",
            ),
        ] {
            assert_eq!(text.parse::<Local>().unwrap_err(), why);
        }
    }

    #[test]
    fn addresses_with_ports() {
        for text in ["0.0.0.0:4433", "[::]:4433", "127.0.0.1:0"] {
            assert_eq!(socket_address(text), Ok(text.parse().unwrap()));
        }
        let scoped = socket_address("[fe80::1%7]:4433").unwrap();
        assert!(matches!(scoped, SocketAddr::V6(address) if address.scope_id() == 7));
        for (text, why) in [
            (
                "here",
                "\"here\" is no address with a port, such as 192.0.2.1:4433 or [2001:db8::1]:4433",
            ),
            (
                "[fe80::1]:4433",
                "fe80::1 is on each link: say on which, as in [fe80::1%eth0]:4433",
            ),
            (
                "[fe80::1%none9]:4433",
                "no interface of this machine is named \"none9\"",
            ),
        ] {
            assert_eq!(socket_address(text).unwrap_err(), why);
        }
    }

    #[tokio::test]
    async fn a_mapped_address_is_that_of_ipv4() {
        for name in ["[::ffff:192.0.2.1]:4433", "192.0.2.1:4433"] {
            let found = resolve(name).await.unwrap();
            assert_eq!(found, ["192.0.2.1:4433".parse().unwrap()]);
        }
    }

    #[tokio::test]
    async fn a_server_on_a_link_is_named_with_its_link() {
        let refused = resolve("[fe80::1]:4433").await.unwrap_err().to_string();
        assert_eq!(
            refused,
            "cannot resolve [fe80::1]:4433: fe80::1 is on each link: say on which, as in [fe80::1%eth0]:4433"
        );
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
