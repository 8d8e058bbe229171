//! The server's preferred address (RFC 9000 section 18.2, figure 22): codec only.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};

use mpquic_sched_core::ConnectionId;

use crate::packet::MAX_CID_LEN;
use crate::packet::varint::{Reader, UnexpectedEnd};

/// Where a server would rather be reached, with the connection ID (sequence number 1) for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PreferredAddress {
    /// Where to reach the server over IPv4.
    pub ipv4: Option<SocketAddrV4>,
    /// Where to reach the server over IPv6.
    pub ipv6: Option<SocketAddrV6>,
    /// Never empty.
    pub connection_id: ConnectionId,
    /// The stateless reset token of that connection ID.
    pub stateless_reset_token: [u8; 16],
}

impl PreferredAddress {
    pub(super) fn encode(&self, buf: &mut Vec<u8>) {
        // An address of all zeros is none.
        let ipv4 = self.ipv4.unwrap_or(NO_IPV4);
        let ipv6 = self.ipv6.unwrap_or(NO_IPV6);
        buf.extend_from_slice(&ipv4.ip().octets());
        buf.extend_from_slice(&ipv4.port().to_be_bytes());
        buf.extend_from_slice(&ipv6.ip().octets());
        buf.extend_from_slice(&ipv6.port().to_be_bytes());
        buf.push(self.connection_id.len() as u8);
        buf.extend_from_slice(&self.connection_id);
        buf.extend_from_slice(&self.stateless_reset_token);
    }

    pub(super) fn size(&self) -> usize {
        4 + 2 + 16 + 2 + 1 + self.connection_id.len() + 16
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self, UnexpectedEnd> {
        let ipv4 = SocketAddrV4::new(Ipv4Addr::from(r.array::<4>()?), r.u16()?);
        let ipv6 = SocketAddrV6::new(Ipv6Addr::from(r.array::<16>()?), r.u16()?, 0, 0);
        let len = usize::from(r.u8()?);
        //= specs/rfc9000.txt#section-18.2
        //# A client MUST treat a violation of these requirements as a connection error of type
        //# TRANSPORT_PARAMETER_ERROR.
        if !(1..=MAX_CID_LEN).contains(&len) {
            return Err(UnexpectedEnd);
        }
        Ok(Self {
            ipv4: (ipv4 != NO_IPV4).then_some(ipv4),
            ipv6: (ipv6 != NO_IPV6).then_some(ipv6),
            connection_id: ConnectionId::new(r.bytes(len)?),
            stateless_reset_token: r.array()?,
        })
    }
}

const NO_IPV4: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
const NO_IPV6: SocketAddrV6 = SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, 0, 0, 0);
