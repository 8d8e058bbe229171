//! The addresses of a network path and their name across connections, and the handles of this crate.

use std::fmt;
use std::hash::Hasher;
use std::net::{IpAddr, SocketAddr};

use mpquic_sched_core::{EcnCodepoint, PathKey};
use siphasher::sip::SipHasher24;

/// Any constant will do, and this one must never change: stored memories rest on it.
const FIXED_KEY: [u8; 16] = *b"mpquic path key ";

/// The bits of a client's address that name its network.
const CLIENT_NETWORK_V4: u32 = u32::MAX << 8;
const CLIENT_NETWORK_V6: u128 = u128::MAX << 80;

/// The addresses of a network path, as this endpoint sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FourTuple {
    /// Our address. An unspecified IP (`0.0.0.0`, `::`) means that the system chooses it.
    pub local: SocketAddr,
    /// The peer's address.
    pub remote: SocketAddr,
}

impl FourTuple {
    /// Whether both may be the same network path: they are equal, or they differ only in a local IP
    /// that one of them leaves unspecified.
    pub fn matches(&self, other: &Self) -> bool {
        self.remote == other.remote
            && self.local.port() == other.local.port()
            && (self.local.ip() == other.local.ip()
                || self.local.ip().is_unspecified()
                || other.local.ip().is_unspecified())
    }

    /// The name under which schedulers store what they learn of this network path: the same in every
    /// connection, process, build and machine.
    ///
    /// It is SipHash-2-4 of the two IPs under a fixed, public key. An IPv4-mapped IPv6 address
    /// (`::ffff:192.0.2.1`) counts as the IPv4 address. Unspecified local IPs of both families are
    /// equal: a wildcard socket may not know its local IP.
    ///
    /// ```
    /// use mpquic_proto::FourTuple;
    ///
    /// let key = |local: &str, remote: &str| {
    ///     let (local, remote) = (local.parse().unwrap(), remote.parse().unwrap());
    ///     FourTuple { local, remote }.key()
    /// };
    /// let wifi = key("10.0.0.2:4000", "192.0.2.1:443");
    /// assert_eq!(wifi, key("[::ffff:10.0.0.2]:5000", "192.0.2.1:443"));
    /// assert_eq!(key("0.0.0.0:1", "192.0.2.1:443"), key("[::]:1", "192.0.2.1:443"));
    /// assert_ne!(wifi, key("192.0.2.1:443", "10.0.0.2:4000"));
    /// assert_eq!(wifi.to_string(), "bade38ed6bb14a2a");
    /// ```
    pub fn key(&self) -> PathKey {
        Self::key_of(self.local.ip(), self.remote.ip())
    }

    /// The name under which a server keeps what it knows of the way to a client: the same for all clients of one
    /// network, a /24 of IPv4 or a /48 of IPv6. Clients change their addresses within it, and behind it the way is
    /// mostly the same.
    ///
    /// ```
    /// use mpquic_proto::FourTuple;
    ///
    /// let key = |remote: &str| {
    ///     let (local, remote) = ("192.0.2.1:443".parse().unwrap(), remote.parse().unwrap());
    ///     FourTuple { local, remote }.client_network_key()
    /// };
    /// assert_eq!(key("198.51.100.7:4000"), key("198.51.100.250:5000"));
    /// assert_ne!(key("198.51.100.7:4000"), key("198.51.101.7:4000"));
    /// assert_eq!(key("[2001:db8:1::1]:1"), key("[2001:db8:1:ffff::2]:1"));
    /// assert_ne!(key("[2001:db8:1::1]:1"), key("[2001:db8:2::1]:1"));
    /// ```
    pub fn client_network_key(&self) -> PathKey {
        let network = match self.remote.ip().to_canonical() {
            IpAddr::V4(ip) => IpAddr::from((u32::from(ip) & CLIENT_NETWORK_V4).to_be_bytes()),
            IpAddr::V6(ip) => IpAddr::from((u128::from(ip) & CLIENT_NETWORK_V6).to_be_bytes()),
        };
        Self::key_of(self.local.ip(), network)
    }

    fn key_of(local: IpAddr, remote: IpAddr) -> PathKey {
        let mut hasher = SipHasher24::new_with_key(&FIXED_KEY);
        for ip in [local, remote] {
            // Byte by byte and with a length: the same on machines of either byte order, and no two
            // pairs run into the same bytes.
            match ip.to_canonical() {
                ip if ip.is_unspecified() => hasher.write(&[0]),
                IpAddr::V4(ip) => {
                    hasher.write(&[4]);
                    hasher.write(&ip.octets());
                }
                IpAddr::V6(ip) => {
                    hasher.write(&[16]);
                    hasher.write(&ip.octets());
                }
            }
        }
        PathKey::new(hasher.finish())
    }
}

impl fmt::Display for FourTuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.local, self.remote)
    }
}

/// Names a connection within its [`Endpoint`](crate::Endpoint).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionHandle(pub usize);

/// One UDP payload, or several of equal size for segmentation offload, to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Transmit {
    /// From where to where. If the local IP is unspecified, the system chooses it.
    pub network_path: FourTuple,
    /// The mark for the IP header.
    pub ecn: Option<EcnCodepoint>,
    /// Bytes appended to the caller's buffer.
    pub size: usize,
    /// The size of each datagram but the last, which may be shorter; `None` for one datagram.
    pub segment_size: Option<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(local: &str, remote: &str) -> PathKey {
        let address = |ip: &str| SocketAddr::new(ip.parse().unwrap(), 443);
        let (local, remote) = (address(local), address(remote));
        FourTuple { local, remote }.key()
    }

    #[test]
    fn keys_differ_with_either_host_and_its_place() {
        let hosts = ["10.0.0.2", "10.0.0.3", "2001:db8::1", "::1", "0.0.0.0"];
        let mut keys = Vec::new();
        for local in hosts {
            for remote in hosts {
                keys.push(key(local, remote));
            }
        }
        let all = keys.len();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), all);
    }

    #[test]
    fn a_key_is_the_same_for_ever() {
        // Stored memories are lost if one of these changes.
        assert_eq!(key("::1", "::1").to_string(), "95430171cc08a7ca");
        assert_eq!(key("::", "::1").to_string(), "87b73bbe96ffcbbe");
    }
}
