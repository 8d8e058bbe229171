//! Parses `--path LOCAL[=REMOTE]`, and combines it with `--server`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use mpquic::limits::MAX_OPEN_PATHS;
use thiserror::Error;

use crate::session::Route;

/// One `--path`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathArgument {
    /// The original text without the remote address.
    name: String,
    local: SocketAddr,
    remote: Option<SocketAddr>,
}

/// Why the paths are invalid.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum RouteError {
    #[error("`{0}` is neither an IP nor an IP:port")]
    Local(String),
    #[error("`{0}` is not an IP:port")]
    Remote(String),
    #[error("path from {local} to {remote}: one is IPv4 and the other IPv6")]
    Families {
        local: SocketAddr,
        remote: SocketAddr,
    },
    #[error("{0} paths are too many: there can be {MAX_OPEN_PATHS}")]
    TooMany(usize),
}

impl FromStr for PathArgument {
    type Err = RouteError;

    fn from_str(text: &str) -> Result<Self, RouteError> {
        let (local, remote) = match text.split_once('=') {
            Some((local, remote)) => {
                let parsed = remote.parse();
                let parsed = parsed.map_err(|_| RouteError::Remote(remote.to_owned()))?;
                (local, Some(parsed))
            }
            None => (text, None),
        };
        let parsed = match local.parse::<IpAddr>() {
            Ok(ip) => SocketAddr::new(ip, 0),
            Err(_) => local
                .parse()
                .map_err(|_| RouteError::Local(local.to_owned()))?,
        };
        Ok(Self {
            name: local.to_owned(),
            local: parsed,
            remote,
        })
    }
}

/// The routes of a client: the given ones, or one from an address that the system chooses.
pub(crate) fn routes(server: SocketAddr, paths: &[PathArgument]) -> Result<Vec<Route>, RouteError> {
    if paths.is_empty() {
        let any: IpAddr = match server {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        return Ok(vec![Route {
            name: "default".to_owned(),
            local: SocketAddr::new(any, 0),
            remote: server,
        }]);
    }
    if paths.len() > MAX_OPEN_PATHS {
        return Err(RouteError::TooMany(paths.len()));
    }
    let route = |path: &PathArgument| {
        let (local, remote) = (path.local, path.remote.unwrap_or(server));
        if local.is_ipv4() != remote.is_ipv4() {
            return Err(RouteError::Families { local, remote });
        }
        let shared = paths.iter().filter(|other| other.name == path.name).count() > 1;
        let name = if shared {
            format!("{}={remote}", path.name)
        } else {
            path.name.clone()
        };
        Ok(Route {
            name,
            local,
            remote,
        })
    };
    paths.iter().map(route).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(texts: &[&str]) -> Result<Vec<Route>, RouteError> {
        let server = "192.0.2.1:4433".parse().unwrap();
        let paths: Result<Vec<PathArgument>, _> = texts.iter().map(|text| text.parse()).collect();
        routes(server, &paths?)
    }

    #[test]
    fn addresses() {
        let routes = parse(&["10.0.0.1", "10.0.0.2:7", "10.0.0.3=192.0.2.2:1"]).unwrap();
        let addresses: Vec<_> = routes
            .iter()
            .map(|route| format!("{} {} {}", route.name, route.local, route.remote))
            .collect();
        assert_eq!(
            addresses,
            [
                "10.0.0.1 10.0.0.1:0 192.0.2.1:4433",
                "10.0.0.2:7 10.0.0.2:7 192.0.2.1:4433",
                "10.0.0.3 10.0.0.3:0 192.0.2.2:1",
            ]
        );
        let routes = parse(&["10.0.0.1", "10.0.0.1=192.0.2.2:1"]).unwrap();
        assert_eq!(routes[0].name, "10.0.0.1=192.0.2.1:4433");
        assert_eq!(routes[1].name, "10.0.0.1=192.0.2.2:1");
        assert_eq!(parse(&[]).unwrap()[0].local, "0.0.0.0:0".parse().unwrap());
        let v6 = parse(&["::1=[2001:db8::1]:1"]).unwrap();
        assert_eq!(v6[0].local, "[::1]:0".parse().unwrap());
    }

    #[test]
    fn mistakes() {
        for (text, expected) in [
            ("wlan0", "`wlan0` is neither an IP nor an IP:port"),
            ("", "`` is neither an IP nor an IP:port"),
            ("10.0.0.1=192.0.2.2", "`192.0.2.2` is not an IP:port"),
            (
                "::1",
                "path from [::1]:0 to 192.0.2.1:4433: one is IPv4 and the other IPv6",
            ),
        ] {
            assert_eq!(parse(&[text]).unwrap_err().to_string(), expected);
        }
        let many = vec!["10.0.0.1"; MAX_OPEN_PATHS + 1];
        assert_eq!(parse(&many), Err(RouteError::TooMany(many.len())));
    }
}
