//! Addresses that are no public host: the registries of special-purpose addresses, and what clouds serve to their own machines.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};

const fn v4(a: u8, b: u8, c: u8, d: u8, len: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), len)
}

const fn v6(first: [u16; 4], len: u8) -> Ipv6Net {
    let [a, b, c, d] = first;
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0), len)
}

/// IANA's IPv4 Special-Purpose Address Registry (RFC 6890 and what updates it), whole, whether it calls an entry reachable or
/// not: nobody has a service for others there. Then multicast, and addresses of clouds that are not in it.
const SPECIAL_V4: [Ipv4Net; 21] = [
    v4(0, 0, 0, 0, 8),        // this network, RFC 791
    v4(10, 0, 0, 0, 8),       // private, RFC 1918
    v4(100, 64, 0, 0, 10),    // shared by carriers, RFC 6598; 100.100.100.200 is Alibaba's metadata
    v4(127, 0, 0, 0, 8),      // loopback, RFC 1122
    v4(169, 254, 0, 0, 16),   // link-local, RFC 3927; the metadata of most clouds
    v4(172, 16, 0, 0, 12),    // private, RFC 1918
    v4(192, 0, 0, 0, 24),     // IETF protocols, RFC 6890; 192.0.0.192 is Oracle's metadata
    v4(192, 0, 2, 0, 24),     // documentation, RFC 5737
    v4(192, 31, 196, 0, 24),  // AS112, RFC 7535
    v4(192, 52, 193, 0, 24),  // AMT, RFC 7450
    v4(192, 88, 99, 0, 24),   // 6to4 relays, RFC 7526
    v4(192, 168, 0, 0, 16),   // private, RFC 1918
    v4(192, 175, 48, 0, 24),  // AS112, RFC 7534
    v4(198, 18, 0, 0, 15),    // benchmarks, RFC 2544
    v4(198, 51, 100, 0, 24),  // documentation, RFC 5737
    v4(203, 0, 113, 0, 24),   // documentation, RFC 5737
    v4(224, 0, 0, 0, 4),      // multicast, RFC 5771
    v4(240, 0, 0, 0, 4),      // reserved, and the broadcast address, RFC 1112
    v4(168, 63, 129, 16, 32), // Azure's wire server and resolver
    v4(192, 80, 8, 124, 32),  // Equinix Metal's metadata
    v4(161, 26, 0, 0, 16),    // IBM Cloud's services for its own machines
];

/// Global unicast addresses (RFC 4291 section 2.4): IANA has given out nothing else. What lies outside has loopback, unique local,
/// link-local and multicast addresses, and with ::ffff:0:0/96, 64:ff9b::/96 and 64:ff9b:1::/48 those that hold an IPv4 address.
const GLOBAL_V6: Ipv6Net = v6([0x2000, 0, 0, 0], 3);

/// What IANA's IPv6 Special-Purpose Address Registry (RFC 6890 and what updates it) has among them, whole as above.
const SPECIAL_V6: [Ipv6Net; 5] = [
    v6([0x2001, 0, 0, 0], 23), // IETF protocols, RFC 2928: Teredo, benchmarks, ORCHID, AS112, drones and others
    v6([0x2001, 0xdb8, 0, 0], 32), // documentation, RFC 3849
    v6([0x2002, 0, 0, 0], 16), // 6to4, which holds an IPv4 address, RFC 3056
    v6([0x2620, 0x4f, 0x8000, 0], 48), // AS112, RFC 7534
    v6([0x3fff, 0, 0, 0], 20), // documentation, RFC 9637
];

/// Whether it may be the address of a host for all the world.
pub(crate) fn is_public(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => !SPECIAL_V4.iter().any(|special| special.contains(&ip)),
        IpAddr::V6(ip) => {
            GLOBAL_V6.contains(&ip) && !SPECIAL_V6.iter().any(|special| special.contains(&ip))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn public(text: &str) -> bool {
        is_public(text.parse().unwrap())
    }

    #[test]
    fn hosts_for_all_the_world() {
        for text in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "93.184.216.34",
            "100.63.255.255",
            "100.128.0.0",
            "168.63.129.15",
            "168.63.129.17",
            "172.15.255.255",
            "172.32.0.0",
            "191.255.255.255",
            "192.0.1.0",
            "192.0.3.0",
            "192.88.98.255",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2001:200::1",
            "2001:4860:4860::8888",
            "2606:2800:220:1::1",
            "2a00:1450::1",
            "3ffe::1",
            "::ffff:1.1.1.1",
        ] {
            assert!(public(text), "{text}");
        }
    }

    #[test]
    fn both_ends_of_each_special_network_are_no_public_hosts() {
        for network in SPECIAL_V4 {
            assert!(!is_public(network.network().into()), "{network}");
            assert!(!is_public(network.broadcast().into()), "{network}");
            assert!(!is_public(network.network().to_ipv6_mapped().into()));
        }
        for network in SPECIAL_V6 {
            assert!(!is_public(network.network().into()), "{network}");
            assert!(!is_public(network.broadcast().into()), "{network}");
        }
    }

    #[test]
    fn what_serves_a_machine_or_its_network_is_no_public_host() {
        for text in [
            // Metadata of clouds.
            "169.254.169.254",
            "169.254.170.2",
            "100.100.100.200",
            "168.63.129.16",
            "192.0.0.192",
            "fd00:ec2::254",
            "fd20:ce::254",
            "fe80::a9fe:a9fe",
            // The registries.
            "192.0.0.9",
            "192.0.0.170",
            "192.88.99.1",
            "255.255.255.255",
            "239.255.255.250",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:0:127.0.0.1",
            "64:ff9b::127.0.0.1",
            "64:ff9b::1.1.1.1",
            "64:ff9b:1::a00:1",
            "100::1",
            "100:0:0:1::1",
            "2001::1",
            "2001:0:4136:e378:8000:63bf:3fff:fdd2",
            "2001:1::1",
            "2001:2::1",
            "2001:3::1",
            "2001:4:112::1",
            "2001:10::1",
            "2001:20::1",
            "2001:30::1",
            "2001:1ff:ffff::1",
            "2001:db8::1",
            "2002:7f00:1::1",
            "2620:4f:8000::1",
            "3fff::1",
            "3fff:fff:ffff::1",
            "5f00::1",
            "fc00::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "ff0e::1",
        ] {
            assert!(!public(text), "{text}");
        }
    }
}
