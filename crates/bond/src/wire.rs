//! What the two ends say to each other: the greeting, requests on streams, and the head of a UDP datagram.
//!
//! ```text
//! greeting, first stream of the client:  version (1)  proof (32)      answer: status (1)
//! request, every further stream:         kind (1)  [address]          answer: status (1), then the data of both sides
//! request for a scheduler:               kind (1)  length (1)  name   answer: status (1)
//! limit of a path:                       kind (1)  path (4)  bytes per second (8)             answer: status (1)
//! shares of paths:                       kind (1)  count (1)  each: path (4)  share (4)       answer: status (1)
//! request for a tunnel:                  kind (1)  cookie (16)        answer: status (1)  lease: see `tun`
//! lane of the tunnel:                    kind (1)  number (1)         answer: status (1), then the packets of both sides
//! request for frames in time:            kind (1)                     answer: status (1)
//! address:                               type (1)  host  port (2)     host: 4 bytes, 16 bytes, or a length (1) and a name
//! datagram:                              flow (4)  address  payload   flow: the stream that asked for it, less than 2^28;
//!                                        or one of `mpquic-live`, whose frames are such datagrams, or those of the tunnel
//! ```

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use mpquic::{RecvStream, StreamId};
use mpquic_peer::Escaped;
use thiserror::Error;

use crate::error::StreamFailure;

/// The application protocol (ALPN).
pub const ALPN: &[u8] = b"mpquic-bond/1";
/// The version in the greeting.
pub(crate) const VERSION: u8 = 1;
/// The length of the proof in the greeting, bytes.
pub(crate) const PROOF: usize = mpquic_peer::PROOF;
/// What the proof is derived for.
pub(crate) const LABEL: &str = "EXPORTER-mpquic-bond";

/// With what the datagrams of a tunnel begin, in the place of a flow. No flow has this number.
pub(crate) const TUNNEL: [u8; 4] = [0xff; 4];

const TCP: u8 = 1;
const UDP: u8 = 2;
const SCHEDULER: u8 = 3;
const LIMIT: u8 = 4;
const SHARES: u8 = 5;
const TUN: u8 = 6;
const LANE: u8 = 7;
const LIVE: u8 = 8;
const NAME: u8 = 0;
const V4: u8 = 4;
const V6: u8 = 6;

/// Where to connect to: what a client of the proxy asked for. Names are resolved by the server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target {
    /// An address.
    Address(SocketAddr),
    /// A name of at most 255 bytes, and a port.
    Name(String, u16),
}

impl Target {
    /// Its port.
    pub const fn port(&self) -> u16 {
        match self {
            Self::Address(address) => address.port(),
            Self::Name(_, port) => *port,
        }
    }

    fn encode(&self, out: &mut impl BufMut) {
        match self {
            Self::Address(address) => match address.ip() {
                IpAddr::V4(ip) => {
                    out.put_u8(V4);
                    out.put_slice(&ip.octets());
                }
                IpAddr::V6(ip) => {
                    out.put_u8(V6);
                    out.put_slice(&ip.octets());
                }
            },
            Self::Name(name, _) => {
                // Longer names do not exist (RFC 1035 section 2.3.4); a cut one is not found.
                let name = &name.as_bytes()[..name.len().min(255)];
                out.put_u8(NAME);
                out.put_u8(name.len() as u8);
                out.put_slice(name);
            }
        }
        out.put_u16(self.port());
    }

    fn decode(from: &mut impl Buf) -> Result<Self, Malformed> {
        let port = |from: &mut dyn Buf| from.try_get_u16().map_err(|_| Malformed);
        Ok(match from.try_get_u8().map_err(|_| Malformed)? {
            V4 => {
                let ip = Ipv4Addr::from(from.try_get_u32().map_err(|_| Malformed)?);
                Self::Address((ip, port(from)?).into())
            }
            V6 => {
                let ip = Ipv6Addr::from(from.try_get_u128().map_err(|_| Malformed)?);
                Self::Address((ip, port(from)?).into())
            }
            NAME => {
                let len = usize::from(from.try_get_u8().map_err(|_| Malformed)?);
                if from.remaining() < len {
                    return Err(Malformed);
                }
                let name = from.copy_to_bytes(len);
                let name = std::str::from_utf8(&name).map_err(|_| Malformed)?;
                Self::Name(name.to_owned(), port(from)?)
            }
            _ => return Err(Malformed),
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            // A client chose it.
            Self::Name(name, port) => write!(f, "{}:{port}", Escaped::new(name)),
        }
    }
}

/// What the peer wrote is not of this protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the peer does not speak this version of the protocol")]
pub struct Malformed;

/// What a client asks for on a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Request {
    /// A TCP connection.
    Tcp(Target),
    /// Datagrams for as long as the stream is open.
    Udp,
    /// What the server sends on this connection is scheduled by the scheduler of this name from now on.
    Scheduler(String),
    /// What the server sends on the path of this ID is limited to so many bytes per second from now on; 0: to nothing but what it
    /// carries.
    Limit(u32, u64),
    /// What the server sends is split over paths, by their IDs, in these shares from now on.
    Shares(Vec<(u32, u32)>),
    /// A tunnel for packets, with the addresses that this secret had before.
    Tun([u8; 16]),
    /// A stream for packets of TCP in the tunnel of this connection.
    Lane(u8),
    /// UDP may go by `mpquic-live`, in both directions, from now on.
    Live,
}

impl Request {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        match self {
            Self::Tcp(target) => {
                out.put_u8(TCP);
                target.encode(&mut out);
            }
            Self::Udp => out.put_u8(UDP),
            Self::Live => out.put_u8(LIVE),
            Self::Scheduler(name) => {
                // No scheduler has a longer name; a cut one is unknown.
                let name = &name.as_bytes()[..name.len().min(255)];
                out.put_u8(SCHEDULER);
                out.put_u8(name.len() as u8);
                out.put_slice(name);
            }
            Self::Limit(path, rate) => {
                out.put_u8(LIMIT);
                out.put_u32(*path);
                out.put_u64(*rate);
            }
            Self::Shares(shares) => {
                // No connection has more paths.
                let shares = &shares[..shares.len().min(255)];
                out.put_u8(SHARES);
                out.put_u8(shares.len() as u8);
                for (path, share) in shares {
                    out.put_u32(*path);
                    out.put_u32(*share);
                }
            }
            Self::Tun(cookie) => {
                out.put_u8(TUN);
                out.put_slice(cookie);
            }
            Self::Lane(number) => {
                out.put_u8(LANE);
                out.put_u8(*number);
            }
        }
        out.freeze()
    }

    /// Reads a request from the start of a stream.
    pub(crate) async fn read(stream: &mut RecvStream) -> Result<Self, StreamFailure> {
        match read_byte(stream).await? {
            TCP => {}
            UDP => return Ok(Self::Udp),
            LIVE => return Ok(Self::Live),
            SCHEDULER => {
                let mut name = vec![0; read_byte(stream).await?.into()];
                stream.read_exact(&mut name).await?;
                let name = String::from_utf8(name).map_err(|_| Malformed)?;
                return Ok(Self::Scheduler(name));
            }
            LIMIT => {
                let mut rest = [0; 4 + 8];
                stream.read_exact(&mut rest).await?;
                let mut rest = &rest[..];
                return Ok(Self::Limit(rest.get_u32(), rest.get_u64()));
            }
            SHARES => {
                let mut rest = vec![0; 8 * usize::from(read_byte(stream).await?)];
                stream.read_exact(&mut rest).await?;
                let shares = rest.chunks_exact(8);
                let shares = shares.map(|mut one| (one.get_u32(), one.get_u32()));
                return Ok(Self::Shares(shares.collect()));
            }
            TUN => {
                let mut cookie = [0; 16];
                stream.read_exact(&mut cookie).await?;
                return Ok(Self::Tun(cookie));
            }
            LANE => return Ok(Self::Lane(read_byte(stream).await?)),
            _ => return Err(Malformed.into()),
        }
        // The length is known once the type and, for a name, its length are.
        let mut head = vec![read_byte(stream).await?];
        let rest = match head[0] {
            V4 => 4 + 2,
            V6 => 16 + 2,
            NAME => {
                head.push(read_byte(stream).await?);
                usize::from(head[1]) + 2
            }
            _ => return Err(Malformed.into()),
        };
        let known = head.len();
        head.resize(known + rest, 0);
        stream.read_exact(&mut head[known..]).await?;
        Ok(Self::Tcp(Target::decode(&mut &head[..])?))
    }
}

async fn read_byte(stream: &mut RecvStream) -> Result<u8, StreamFailure> {
    let mut byte = [0];
    stream.read_exact(&mut byte).await?;
    Ok(byte[0])
}

/// How the server answers a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[repr(u8)]
pub enum Refusal {
    /// The allow list of the server has no rule for it.
    #[error("the server's allow list does not have this target")]
    Denied = 1,
    /// The name could not be resolved.
    #[error("the server cannot resolve the name")]
    Unresolved = 2,
    /// Nothing listens there.
    #[error("the target refuses the connection")]
    Refused = 3,
    /// There is no route to it, or no answer.
    #[error("the target cannot be reached")]
    Unreachable = 4,
    /// The server failed.
    #[error("the server failed")]
    Failed = 5,
    /// The client, or all of them, have as much at a time as they may: connections, flows, names.
    #[error(
        "this client has as many connections or names at a time as the server gives it: try again later"
    )]
    Busy = 6,
}

impl Refusal {
    /// The byte for it; 0 is agreement.
    pub(crate) const fn encode(answer: Result<(), Self>) -> u8 {
        match answer {
            Ok(()) => 0,
            Err(refusal) => refusal as u8,
        }
    }

    /// Reads an answer.
    pub(crate) async fn read(stream: &mut RecvStream) -> Result<Result<(), Self>, StreamFailure> {
        Ok(match read_byte(stream).await? {
            0 => Ok(()),
            1 => Err(Self::Denied),
            2 => Err(Self::Unresolved),
            3 => Err(Self::Refused),
            4 => Err(Self::Unreachable),
            6 => Err(Self::Busy),
            // 5, and what a later version may say.
            _ => Err(Self::Failed),
        })
    }
}

/// The number of the datagrams that belong to a stream: 28 bits, so that what begins with more is of another kind.
pub(crate) fn flow(id: StreamId) -> u32 {
    // A connection does not live to see it wrap.
    (id.index() & 0x0fff_ffff) as u32
}

/// A UDP datagram of a flow: on its way out with the address to send it to, on its way back with where it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Datagram {
    pub(crate) flow: u32,
    pub(crate) target: Target,
    pub(crate) payload: Bytes,
}

impl Datagram {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(4 + 1 + 16 + 2 + self.payload.len());
        out.put_u32(self.flow);
        self.target.encode(&mut out);
        out.put_slice(&self.payload);
        out.freeze()
    }

    pub(crate) fn decode(mut bytes: Bytes) -> Result<Self, Malformed> {
        Ok(Self {
            flow: bytes.try_get_u32().map_err(|_| Malformed)?,
            target: Target::decode(&mut bytes)?,
            payload: bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn target() -> impl Strategy<Value = Target> {
        prop_oneof![
            any::<SocketAddr>().prop_map(|address| match address {
                // The flow label and the scope stay here.
                SocketAddr::V6(v6) => Target::Address((*v6.ip(), v6.port()).into()),
                v4 @ SocketAddr::V4(_) => Target::Address(v4),
            }),
            ("[a-z0-9.-]{0,255}", any::<u16>()).prop_map(|(name, port)| Target::Name(name, port)),
        ]
    }

    proptest! {
        #[test]
        fn datagrams_survive(flow: u32, target in target(), payload: Vec<u8>) {
            let datagram = Datagram { flow, target, payload: payload.into() };
            prop_assert_eq!(Datagram::decode(datagram.encode()), Ok(datagram));
        }

        #[test]
        fn anything_can_be_decoded(bytes: Vec<u8>) {
            let _ = Datagram::decode(bytes.into());
        }

        #[test]
        fn every_prefix_of_a_head_is_refused(target in target()) {
            let whole = Datagram { flow: 7, target, payload: Bytes::new() }.encode();
            for len in 0..whole.len() {
                prop_assert_eq!(Datagram::decode(whole.slice(..len)), Err(Malformed));
            }
        }
    }

    #[test]
    fn a_name_that_is_too_long_is_cut() {
        let datagram = Datagram {
            flow: 0,
            target: Target::Name("n".repeat(300), 1),
            payload: Bytes::from_static(b"payload"),
        };
        let decoded = Datagram::decode(datagram.encode()).unwrap();
        assert_eq!(decoded.target, Target::Name("n".repeat(255), 1));
        assert_eq!(decoded.payload, datagram.payload);
    }
}
