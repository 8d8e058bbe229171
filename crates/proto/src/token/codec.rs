//! What a token says, before it is sealed: reads and writes it.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use mpquic_sched_core::ConnectionId;
use mpquic_wire::packet::MAX_CID_LEN;
use mpquic_wire::packet::varint::Reader;
use smallvec::SmallVec;

use crate::limits;

/// How the server gave a token to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Retry,
    New,
}

impl Kind {
    /// A token's first byte. It can be read without a key, so that a Retry token that fails is known for
    /// one whatever the reason.
    //= specs/rfc9000.txt#section-8.1.1
    //# A token sent in a NEW_TOKEN frame or a Retry packet MUST be constructed in a way that allows
    //# the server to identify how it was provided to a client.
    pub(crate) const fn byte(self) -> u8 {
        match self {
            Self::Retry => 0xb5,
            Self::New => 0x3a,
        }
    }

    /// The kind of a token that may be one of ours.
    pub(crate) const fn of(token: &[u8]) -> Option<Self> {
        match token.first() {
            Some(0xb5) => Some(Self::Retry),
            Some(0x3a) => Some(Self::New),
            _ => None,
        }
    }
}

/// The IPs that a token of a NEW_TOKEN frame validates.
pub(crate) type Addresses = SmallVec<[IpAddr; 2]>;

/// What a token says. Times count from the Unix epoch, in whole milliseconds; IPs are canonical: never
/// IPv4-mapped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Token {
    /// Of a Retry packet.
    //= specs/rfc9000.txt#section-8.1.4
    //# Tokens sent in Retry packets SHOULD include information that allows the server to verify that
    //# the source IP address and port in client packets remain constant.
    Retry {
        issued: Duration,
        remote: SocketAddr,
        original_dcid: ConnectionId,
    },
    /// Of a NEW_TOKEN frame.
    //= specs/rfc9000.txt#section-8.1.4
    //# Tokens sent in NEW_TOKEN frames MUST include information that allows the server to verify that
    //# the client IP address has not changed from when the token was issued.
    New {
        issued: Duration,
        addresses: Addresses,
    },
}

impl Token {
    pub(crate) const fn kind(&self) -> Kind {
        match self {
            Self::Retry { .. } => Kind::Retry,
            Self::New { .. } => Kind::New,
        }
    }

    /// Appends what is to be sealed.
    pub(crate) fn encode(&self, buf: &mut Vec<u8>) {
        match self {
            Self::Retry {
                issued,
                remote,
                original_dcid,
            } => {
                put_time(buf, *issued);
                put_ip(buf, remote.ip());
                buf.extend_from_slice(&remote.port().to_be_bytes());
                buf.push(original_dcid.len() as u8);
                buf.extend_from_slice(original_dcid);
            }
            Self::New { issued, addresses } => {
                put_time(buf, *issued);
                let addresses = &addresses[..addresses.len().min(limits::MAX_TOKEN_ADDRESSES)];
                buf.push(addresses.len() as u8);
                for ip in addresses {
                    put_ip(buf, *ip);
                }
            }
        }
    }

    /// Reads what was sealed as this kind. `None` if it is not exactly that.
    pub(crate) fn decode(kind: Kind, data: &[u8]) -> Option<Self> {
        let mut r = Reader::new(data);
        let issued = take_time(&mut r)?;
        let token = match kind {
            Kind::Retry => {
                let ip = take_ip(&mut r)?;
                let port = r.u16().ok()?;
                let len = usize::from(r.u8().ok()?);
                if len > MAX_CID_LEN {
                    return None;
                }
                Self::Retry {
                    issued,
                    remote: SocketAddr::new(ip, port),
                    original_dcid: ConnectionId::new(r.bytes(len).ok()?),
                }
            }
            Kind::New => {
                let count = usize::from(r.u8().ok()?);
                if count > limits::MAX_TOKEN_ADDRESSES {
                    return None;
                }
                let addresses = (0..count).map(|_| take_ip(&mut r));
                Self::New {
                    issued,
                    addresses: addresses.collect::<Option<_>>()?,
                }
            }
        };
        (r.remaining() == 0).then_some(token)
    }
}

fn put_time(buf: &mut Vec<u8>, time: Duration) {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    buf.extend_from_slice(&millis.to_be_bytes());
}

fn take_time(r: &mut Reader<'_>) -> Option<Duration> {
    Some(Duration::from_millis(r.u64().ok()?))
}

fn put_ip(buf: &mut Vec<u8>, ip: IpAddr) {
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            buf.push(4);
            buf.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            buf.push(6);
            buf.extend_from_slice(&ip.octets());
        }
    }
}

fn take_ip(r: &mut Reader<'_>) -> Option<IpAddr> {
    match r.u8().ok()? {
        4 => Some(IpAddr::from(r.array::<4>().ok()?)),
        6 => {
            let ip = IpAddr::from(r.array::<16>().ok()?);
            // One form for each address: anything else is not ours.
            (ip.to_canonical() == ip).then_some(ip)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;

    fn ip() -> impl Strategy<Value = IpAddr> {
        prop_oneof![
            any::<u32>().prop_map(|bits| IpAddr::from(Ipv4Addr::from(bits))),
            any::<u128>().prop_map(|bits| IpAddr::from(Ipv6Addr::from(bits)).to_canonical()),
        ]
    }

    fn token() -> impl Strategy<Value = Token> {
        let time = any::<u64>().prop_map(Duration::from_millis);
        let cid = prop::collection::vec(any::<u8>(), 0..=MAX_CID_LEN);
        let ips = prop::collection::vec(ip(), 0..=limits::MAX_TOKEN_ADDRESSES);
        prop_oneof![
            (time.clone(), ip(), any::<u16>(), cid).prop_map(|(issued, ip, port, cid)| {
                Token::Retry {
                    issued,
                    remote: SocketAddr::new(ip, port),
                    original_dcid: ConnectionId::new(&cid),
                }
            }),
            (time, ips).prop_map(|(issued, ips)| Token::New {
                issued,
                addresses: ips.into(),
            }),
        ]
    }

    proptest! {
        /// What is written is read again, and neither a part of it nor more than it.
        #[test]
        fn round_trip(token in token(), at in any::<prop::sample::Index>()) {
            let mut buf = Vec::new();
            token.encode(&mut buf);
            prop_assert_eq!(Token::decode(token.kind(), &buf), Some(token.clone()));
            prop_assert_eq!(Token::decode(token.kind(), &buf[..at.index(buf.len())]), None);
            buf.push(0);
            prop_assert_eq!(Token::decode(token.kind(), &buf), None);
        }

        /// Whatever is read is written again as the same bytes: each token has one form.
        #[test]
        fn one_form(bytes in prop::collection::vec(prop_oneof![0..9_u8, any::<u8>()], 0..80)) {
            for kind in [Kind::Retry, Kind::New] {
                if let Some(token) = Token::decode(kind, &bytes) {
                    let mut again = Vec::new();
                    token.encode(&mut again);
                    prop_assert_eq!(&again, &bytes);
                }
            }
        }
    }

    //= specs/rfc9000.txt#section-8.1.1
    //= type=test
    //# A token sent in a NEW_TOKEN frame or a Retry packet MUST be constructed in a way that allows
    //# the server to identify how it was provided to a client.
    #[test]
    fn the_kind_is_in_the_first_byte() {
        for kind in [Kind::Retry, Kind::New] {
            assert_eq!(Kind::of(&[kind.byte(), 1, 2]), Some(kind));
        }
        let others = (0..=255).filter(|first| Kind::of(&[*first]).is_some());
        assert_eq!(others.count(), 2);
        assert_eq!(Kind::of(&[]), None);
    }
}
