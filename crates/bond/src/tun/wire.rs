//! What a server gives a client that asks for a tunnel.
//!
//! ```text
//! MTU (2)  addresses: count (1), each: type (1) address prefix (1)  DNS servers: count (1), each: type (1) address
//! ```

use std::net::IpAddr;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use ipnet::IpNet;

use crate::error::StreamFailure;
use crate::wire::Malformed;

/// Of each, at most.
const MOST: u8 = 8;
/// The least that IPv6 asks of a link (RFC 8200 section 5).
pub(crate) const LEAST_MTU: u16 = 1280;

/// The addresses of a client, and what else it is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) mtu: u16,
    pub(crate) addresses: Vec<IpNet>,
    pub(crate) dns: Vec<IpAddr>,
}

impl Lease {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        out.put_u16(self.mtu);
        out.put_u8(self.addresses.len() as u8);
        for address in &self.addresses {
            put(&mut out, address.addr());
            out.put_u8(address.prefix_len());
        }
        out.put_u8(self.dns.len() as u8);
        for server in &self.dns {
            put(&mut out, *server);
        }
        let mut framed = BytesMut::new();
        framed.put_u16(out.len() as u16);
        framed.put_slice(&out);
        framed.freeze()
    }

    pub(crate) async fn read(recv: &mut mpquic::RecvStream) -> Result<Self, StreamFailure> {
        let mut len = [0; 2];
        recv.read_exact(&mut len).await?;
        let mut bytes = vec![0; u16::from_be_bytes(len).into()];
        recv.read_exact(&mut bytes).await?;
        Ok(Self::decode(&mut &bytes[..]).ok_or(Malformed)?)
    }

    fn decode(from: &mut &[u8]) -> Option<Self> {
        let mtu = from.try_get_u16().ok()?;
        let count = from.try_get_u8().ok()?;
        let addresses: Option<_> = (0..count.min(MOST))
            .map(|_| {
                let ip = take(from)?;
                IpNet::new(ip, from.try_get_u8().ok()?).ok()
            })
            .collect();
        let dns = from.try_get_u8().ok()?;
        let dns: Option<_> = (0..dns.min(MOST)).map(|_| take(from)).collect();
        (mtu >= LEAST_MTU).then_some(())?;
        Some(Self {
            mtu,
            addresses: addresses?,
            dns: dns?,
        })
    }
}

fn put(out: &mut BytesMut, ip: IpAddr) {
    match ip {
        IpAddr::V4(ip) => {
            out.put_u8(4);
            out.put_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            out.put_u8(6);
            out.put_slice(&ip.octets());
        }
    }
}

fn take(from: &mut &[u8]) -> Option<IpAddr> {
    match from.try_get_u8().ok()? {
        4 => Some(from.try_get_u32().ok()?.to_be_bytes().into()),
        6 => Some(from.try_get_u128().ok()?.to_be_bytes().into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_survive_and_parts_of_them_are_refused() {
        let lease = Lease {
            mtu: 1400,
            addresses: vec![
                "10.66.0.2/24".parse().unwrap(),
                "fd66::2/64".parse().unwrap(),
            ],
            dns: vec!["10.66.0.1".parse().unwrap(), "fd66::1".parse().unwrap()],
        };
        let bytes = lease.encode();
        let whole = &bytes[2..];
        assert_eq!(Lease::decode(&mut &whole[..]), Some(lease));
        for len in 0..whole.len() {
            assert_eq!(Lease::decode(&mut &whole[..len]), None);
        }
        assert_eq!(Lease::decode(&mut &[0, 9, 0, 0][..]), None);
    }
}
