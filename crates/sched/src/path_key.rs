//! Names a path across connections, by the hosts at its two ends; keeps no addresses.

use std::fmt;
use std::hash::Hasher;
use std::net::IpAddr;

use siphasher::sip::SipHasher24;

/// Any constant will do, and this one must never change: stored memories rest on it.
const FIXED_KEY: [u8; 16] = *b"mpquic path key ";

/// A name for the way between a local and a remote IP, the same in every connection, process, build
/// and machine. What was learned of a path is stored under it.
///
/// A transport gives it with [`PathEvent::key`](crate::PathEvent::key) and
/// [`PathView::key`](crate::PathView::key).
///
/// Ports do not count: a client has another one each time, and so have most connections behind a NAT.
/// Two paths between the same hosts therefore have one key. An IPv4 address in IPv6's clothes
/// (`::ffff:192.0.2.1`) is the IPv4 address. A local IP that is not known (a wildcard socket on a
/// system that does not tell) counts as unspecified, of either family.
///
/// # What it reveals
///
/// SipHash-2-4 under a fixed, public key: 64 bits that show no address, but whoever has them can
/// try all IPv4 addresses that he cares about. A file of keys says with whom its owner has talked to
/// anyone who makes that effort; store it as you would store a log of addresses.
///
/// ```
/// use mpquic_sched::PathKey;
///
/// let key = |local: &str, remote: &str| PathKey::of(local.parse().unwrap(), remote.parse().unwrap());
/// assert_eq!(key("10.0.0.2", "192.0.2.1"), key("::ffff:10.0.0.2", "192.0.2.1"));
/// assert_eq!(key("0.0.0.0", "192.0.2.1"), key("::", "192.0.2.1"));
/// assert_ne!(key("10.0.0.2", "192.0.2.1"), key("192.0.2.1", "10.0.0.2"));
/// assert_eq!(key("10.0.0.2", "192.0.2.1").to_string(), "bade38ed6bb14a2a");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathKey(u64);

impl PathKey {
    /// The name of the way between these hosts.
    pub fn of(local: IpAddr, remote: IpAddr) -> Self {
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
        Self(hasher.finish())
    }

    /// The key with this number; for tests of schedulers, and for transports that name paths in
    /// another way than by addresses.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// As sixteen hexadecimal digits.
impl fmt::Display for PathKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    #[test]
    fn keys_differ_with_either_host_and_its_place() {
        let hosts = ["10.0.0.2", "10.0.0.3", "2001:db8::1", "::1", "0.0.0.0"];
        let mut keys = Vec::new();
        for local in hosts {
            for remote in hosts {
                keys.push(PathKey::of(local.parse().unwrap(), remote.parse().unwrap()));
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
        let loopback = IpAddr::V6(Ipv6Addr::LOCALHOST);
        let wildcard = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
        assert_eq!(
            PathKey::of(loopback, loopback).to_string(),
            "95430171cc08a7ca"
        );
        assert_eq!(
            PathKey::of(wildcard, loopback).to_string(),
            "87b73bbe96ffcbbe"
        );
    }
}
