//! The networks that clients come from: whom a server takes for one when it shares out what it has.

use std::net::{IpAddr, SocketAddr};

/// Who may come from one place: whoever has one address of it can have the others. Prefixes of 24 bits with IPv4, as they
/// are routed; of 56 bits with IPv6, as sites get them (RFC 6177).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Network {
    V4([u8; 3]),
    V6([u8; 7]),
}

impl Network {
    pub(crate) fn of(remote: SocketAddr) -> Self {
        match remote.ip().to_canonical() {
            IpAddr::V4(ip) => {
                let [a, b, c, _] = ip.octets();
                Self::V4([a, b, c])
            }
            IpAddr::V6(ip) => {
                let [a, b, c, d, e, f, g, ..] = ip.octets();
                Self::V6([a, b, c, d, e, f, g])
            }
        }
    }
}
