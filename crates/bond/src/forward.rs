//! Local ports that lead to one target each, as users write them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

use crate::wire::Target;

/// `[ADDR:]PORT:HOST:PORT`: a local port, and where its connections go. As `ssh -L` has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forward {
    /// Where to listen; on 127.0.0.1 without an address.
    pub listen: SocketAddr,
    /// Where to.
    pub target: Target,
}

impl FromStr for Forward {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = || {
            format!(
                "{text:?} is no forward: [ADDR:]PORT:HOST:PORT is expected, such as 8080:example.com:80"
            )
        };
        let (rest, port) = text.rsplit_once(':').ok_or_else(wanted)?;
        let port: u16 = port.parse().map_err(|_| wanted())?;
        // An IPv6 address has brackets.
        let (listen, host) = match rest.strip_suffix(']') {
            Some(rest) => rest.rsplit_once(":[").ok_or_else(wanted)?,
            None => rest.rsplit_once(':').ok_or_else(wanted)?,
        };
        let target = match host.parse::<IpAddr>() {
            Ok(ip) => Target::Address((ip, port).into()),
            Err(_)
                if host.is_empty() || host.len() > 255 || host.contains([' ', '[', ']', '/']) =>
            {
                return Err(wanted());
            }
            Err(_) => Target::Name(host.to_owned(), port),
        };
        let listen = match listen.parse::<u16>() {
            Ok(port) => (Ipv4Addr::LOCALHOST, port).into(),
            Err(_) => mpquic_peer::socket_address(listen).map_err(|_| wanted())?,
        };
        Ok(Self { listen, target })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forwards_as_they_are_written() {
        let name = |name: &str, port| Target::Name(name.to_owned(), port);
        for (text, listen, target) in [
            (
                "8080:example.com:80",
                "127.0.0.1:8080",
                name("example.com", 80),
            ),
            (
                "0.0.0.0:1:10.0.0.1:22",
                "0.0.0.0:1",
                Target::Address("10.0.0.1:22".parse().unwrap()),
            ),
            (
                "[::1]:1:[2001:db8::1]:22",
                "[::1]:1",
                Target::Address("[2001:db8::1]:22".parse().unwrap()),
            ),
            (
                "1:[::1]:2",
                "127.0.0.1:1",
                Target::Address("[::1]:2".parse().unwrap()),
            ),
        ] {
            let forward: Forward = text.parse().unwrap();
            assert_eq!(
                (forward.listen, forward.target),
                (listen.parse().unwrap(), target),
                "{text}"
            );
        }
        for text in [
            "",
            "80",
            "80:a",
            "a:b:1",
            "1::2",
            "1:a:x",
            "1:[::1:2",
            "x y:1:a:2",
            "1:a b:2",
        ] {
            assert!(text.parse::<Forward>().is_err(), "{text}");
        }
    }
}
