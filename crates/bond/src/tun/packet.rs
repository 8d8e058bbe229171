//! What is read of an IP packet: between whom it is, and which flow it belongs to. Nothing of it is changed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const TCP: u8 = 6;
const UDP: u8 = 17;
/// The fragment header of IPv6 (RFC 8200 section 4.5).
const FRAGMENT: u8 = 44;
const V4_HEAD: usize = 20;
const V6_HEAD: usize = 40;

/// The head of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) from: IpAddr,
    pub(crate) to: IpAddr,
    /// Of TCP and UDP, from the ports to those of the other end. Other protocols, fragments but the first, and packets with extension headers have
    /// none.
    pub(crate) ports: Option<(u16, u16)>,
    pub(crate) is_tcp: bool,
    pub(crate) is_udp: bool,
}

impl Head {
    /// Of a whole packet; `None` if it is none of IP, or its lengths are not its length.
    pub(crate) fn of(packet: &[u8]) -> Option<Self> {
        match packet.first()? >> 4 {
            4 => Self::v4(packet),
            6 => Self::v6(packet),
            _ => None,
        }
    }

    fn v4(packet: &[u8]) -> Option<Self> {
        let head: &[u8; V4_HEAD] = packet.first_chunk()?;
        let len = usize::from(head[0] & 15) * 4;
        let total = usize::from(u16::from_be_bytes([head[2], head[3]]));
        if len < V4_HEAD || total != packet.len() || total < len {
            return None;
        }
        let offset = u16::from_be_bytes([head[6], head[7]]) & 0x1fff;
        let [.., a, b, c, d, e, f, g, h] = *head;
        Some(Self::with(
            Ipv4Addr::new(a, b, c, d).into(),
            Ipv4Addr::new(e, f, g, h).into(),
            head[9],
            (offset == 0).then_some(&packet[len..]),
        ))
    }

    fn v6(packet: &[u8]) -> Option<Self> {
        let head: &[u8; V6_HEAD] = packet.first_chunk()?;
        let payload = usize::from(u16::from_be_bytes([head[4], head[5]]));
        if payload + V6_HEAD != packet.len() {
            return None;
        }
        let address = |at: usize| {
            let bytes: Option<&[u8; 16]> = head[at..].first_chunk();
            bytes.map(|bytes| IpAddr::V6(Ipv6Addr::from(*bytes)))
        };
        let (mut protocol, mut rest) = (head[6], Some(&packet[V6_HEAD..]));
        if protocol == FRAGMENT {
            let fragment: &[u8; 8] = packet[V6_HEAD..].first_chunk()?;
            protocol = fragment[0];
            let offset = u16::from_be_bytes([fragment[2], fragment[3]]) >> 3;
            rest = (offset == 0).then_some(&packet[V6_HEAD + 8..]);
        }
        Some(Self::with(address(8)?, address(24)?, protocol, rest))
    }

    fn with(from: IpAddr, to: IpAddr, protocol: u8, rest: Option<&[u8]>) -> Self {
        let ports = || {
            let [a, b, c, d] = *rest?.first_chunk()?;
            Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
        };
        Self {
            from,
            to,
            ports: matches!(protocol, TCP | UDP).then(ports).flatten(),
            is_tcp: protocol == TCP,
            is_udp: protocol == UDP,
        }
    }

    /// The port that it goes to; 0, which no rule for a port has, without one.
    pub(crate) fn port(&self) -> u16 {
        self.ports.map_or(0, |(_, to)| to)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A packet of IPv4: protocol, fragment offset in units of 8 bytes, payload.
    pub(crate) fn v4(
        from: [u8; 4],
        to: [u8; 4],
        protocol: u8,
        offset: u16,
        payload: &[u8],
    ) -> Vec<u8> {
        let mut packet = vec![0x45, 0];
        packet.extend((20 + payload.len() as u16).to_be_bytes());
        packet.extend([0, 0]);
        packet.extend(offset.to_be_bytes());
        packet.extend([64, protocol, 0, 0]);
        packet.extend(from.iter().chain(&to).chain(payload));
        packet
    }

    pub(crate) fn v6(from: u16, to: u16, next: u8, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0];
        packet.extend((payload.len() as u16).to_be_bytes());
        packet.extend([next, 64]);
        for last in [from, to] {
            packet.extend(
                [0xfd, 0x66]
                    .iter()
                    .chain(&[0; 12])
                    .chain(&last.to_be_bytes()),
            );
        }
        packet.extend(payload);
        packet
    }

    const PORTS: [u8; 8] = [0x9c, 0x40, 1, 187, 0, 0, 0, 0];

    #[test]
    fn heads_are_read() {
        let tcp = Head::of(&v4([10, 0, 0, 2], [192, 0, 2, 1], TCP, 0, &PORTS)).unwrap();
        assert_eq!(
            (tcp.from, tcp.to),
            ([10, 0, 0, 2].into(), [192, 0, 2, 1].into())
        );
        assert!(tcp.is_tcp && !tcp.is_udp && tcp.ports == Some((40_000, 443)));
        let ping = Head::of(&v4([10, 0, 0, 2], [192, 0, 2, 1], 1, 0, &PORTS)).unwrap();
        assert_eq!((ping.ports, ping.port()), (None, 0));
        let udp = Head::of(&v6(2, 9, UDP, &PORTS)).unwrap();
        assert!(udp.is_udp && udp.port() == 443 && udp.to == "fd66::9".parse::<IpAddr>().unwrap());
        // Routing headers, hop-by-hop options and the like hide what is behind them.
        for next in [0, 43, 60, 51] {
            assert_eq!(Head::of(&v6(2, 9, next, &PORTS)).unwrap().ports, None);
        }
    }

    #[test]
    fn only_the_first_fragment_has_ports() {
        let first = Head::of(&v4([1; 4], [2; 4], UDP, 0x2000, &PORTS)).unwrap();
        assert_eq!(first.port(), 443);
        let later = Head::of(&v4([1; 4], [2; 4], UDP, 1, &PORTS)).unwrap();
        assert!(later.is_udp && later.ports.is_none());
        let fragment = |offset: u8| [&[UDP, 0, 0, offset, 0, 0, 0, 0], &PORTS[..]].concat();
        assert_eq!(
            Head::of(&v6(1, 2, FRAGMENT, &fragment(1))).unwrap().port(),
            443
        );
        assert_eq!(
            Head::of(&v6(1, 2, FRAGMENT, &fragment(8))).unwrap().ports,
            None
        );
    }

    #[test]
    fn what_lies_about_its_length_is_no_packet() {
        let whole = v4([1; 4], [2; 4], TCP, 0, &PORTS);
        for len in 0..whole.len() {
            assert_eq!(Head::of(&whole[..len]), None);
        }
        assert_eq!(Head::of(&[&whole[..], &[0]].concat()), None);
        let mut short = whole;
        short[0] = 0x44;
        assert_eq!(Head::of(&short), None);
        let whole = v6(1, 2, FRAGMENT, &[UDP, 0, 0, 0]);
        for len in 0..=whole.len() {
            assert_eq!(Head::of(&whole[..len]), None);
        }
    }

    proptest! {
        #[test]
        fn anything_can_be_read(bytes: Vec<u8>) {
            let _ = Head::of(&bytes);
        }
    }
}
