//! What each case of the interop runner asks for: downloads, links, settings.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::time::Duration;

use mpquic_sim::{LinkConfig, QueueLimit, RelayStats};
use rustls::CipherSuite;

use crate::loopback;

/// Named as the interop runner names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Case {
    Handshake,
    Transfer,
    LongRtt,
    ChaCha20,
    Multiplexing,
    Retry,
    Resumption,
    KeyUpdate,
    Blackhole,
    HandshakeLoss,
    TransferLoss,
    HandshakeCorruption,
    TransferCorruption,
    Ipv6,
    RebindPort,
    RebindAddr,
    ZeroRtt,
    Ecn,
    AmplificationLimit,
    /// Version 2 from the first packet on. The runner's case goes from version 1 to version 2 within a handshake
    /// (RFC 9368 section 2.3), which rustls rules out.
    V2,
    /// The client moves to another address of its own.
    ConnectionMigration,
    /// The client moves to the address that the server prefers: the runner's `connectionmigration`.
    PreferredAddress,
    /// 20 MiB.
    Bulk,
    /// 200 streams at once.
    Streams,
    /// Datagrams of the client come back (RFC 9221).
    Datagrams,
    /// The server resets a stream.
    Reset,
    /// The client stops one.
    Stop,
    CloseByClient,
    CloseByServer,
    /// A ticket of another server, as after a restart without its keys.
    ZeroRttRefused,
    /// The client begins with a version that the server does not speak.
    VersionNegotiation,
    /// The other stack's connection IDs are empty.
    NoIds,
    /// The shortest connection IDs that ours may be, on both sides.
    ShortIds,
    /// The longest.
    LongIds,
    /// 5 % of the datagrams are lost.
    Loss,
    Reordering,
    /// Nothing larger than IPv6's least MTU gets through.
    Mtu,
}

impl Case {
    pub(crate) const ALL: [Self; 37] = [
        Self::Handshake,
        Self::Transfer,
        Self::LongRtt,
        Self::ChaCha20,
        Self::Multiplexing,
        Self::Retry,
        Self::Resumption,
        Self::KeyUpdate,
        Self::Blackhole,
        Self::HandshakeLoss,
        Self::TransferLoss,
        Self::HandshakeCorruption,
        Self::TransferCorruption,
        Self::Ipv6,
        Self::RebindPort,
        Self::RebindAddr,
        Self::ZeroRtt,
        Self::Ecn,
        Self::AmplificationLimit,
        Self::V2,
        Self::ConnectionMigration,
        Self::PreferredAddress,
        Self::Bulk,
        Self::Streams,
        Self::Datagrams,
        Self::Reset,
        Self::Stop,
        Self::CloseByClient,
        Self::CloseByServer,
        Self::ZeroRttRefused,
        Self::VersionNegotiation,
        Self::NoIds,
        Self::ShortIds,
        Self::LongIds,
        Self::Loss,
        Self::Reordering,
        Self::Mtu,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Handshake => "handshake",
            Self::Transfer => "transfer",
            Self::LongRtt => "longrtt",
            Self::ChaCha20 => "chacha20",
            Self::Multiplexing => "multiplexing",
            Self::Retry => "retry",
            Self::Resumption => "resumption",
            Self::KeyUpdate => "keyupdate",
            Self::Blackhole => "blackhole",
            Self::HandshakeLoss => "handshakeloss",
            Self::TransferLoss => "transferloss",
            Self::HandshakeCorruption => "handshakecorruption",
            Self::TransferCorruption => "transfercorruption",
            Self::Ipv6 => "ipv6",
            Self::RebindPort => "rebind-port",
            Self::RebindAddr => "rebind-addr",
            Self::ZeroRtt => "zerortt",
            Self::Ecn => "ecn",
            Self::AmplificationLimit => "amplificationlimit",
            Self::V2 => "v2",
            Self::ConnectionMigration => "connectionmigration",
            Self::PreferredAddress => "preferredaddress",
            Self::Bulk => "bulk",
            Self::Streams => "streams",
            Self::Datagrams => "datagrams",
            Self::Reset => "reset",
            Self::Stop => "stop",
            Self::CloseByClient => "close-client",
            Self::CloseByServer => "close-server",
            Self::ZeroRttRefused => "zerortt-refused",
            Self::VersionNegotiation => "versionnegotiation",
            Self::NoIds => "cid-0",
            Self::ShortIds => "cid-4",
            Self::LongIds => "cid-20",
            Self::Loss => "loss5",
            Self::Reordering => "reordering",
            Self::Mtu => "mtu1280",
        }
    }

    /// For readers.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Handshake => "handshake",
            Self::Transfer => "3 files over 10 Mbit/s and 15 ms",
            Self::LongRtt => "a round trip of 1.5 s",
            Self::ChaCha20 => "ChaCha20-Poly1305",
            Self::Multiplexing => "500 small files at once",
            Self::Retry => "Retry",
            Self::Resumption => "resumption",
            Self::KeyUpdate => "key update in mid-transfer",
            Self::Blackhole => "an outage of 2 s",
            Self::HandshakeLoss => "5 handshakes, 30 % lost",
            Self::TransferLoss => "2 % lost",
            Self::HandshakeCorruption => "5 handshakes, 30 % garbled",
            Self::TransferCorruption => "2 % garbled",
            Self::Ipv6 => "IPv6",
            Self::RebindPort => "a NAT changes the port, 3 times",
            Self::RebindAddr => "a NAT changes the address, 3 times",
            Self::ZeroRtt => "0-RTT, taken",
            Self::Ecn => "ECN in both directions",
            Self::AmplificationLimit => "a certificate beyond the amplification limit",
            Self::V2 => "version 2 from the first packet",
            Self::ConnectionMigration => "the client migrates",
            Self::PreferredAddress => "the server's preferred address",
            Self::Bulk => "20 MiB",
            Self::Streams => "200 streams at once",
            Self::Datagrams => "datagrams",
            Self::Reset => "a reset stream, its code",
            Self::Stop => "a stopped stream, its code",
            Self::CloseByClient => "the client's close code",
            Self::CloseByServer => "the server's close code",
            Self::ZeroRttRefused => "0-RTT, refused",
            Self::VersionNegotiation => "version negotiation",
            Self::NoIds => "connection IDs of 0 bytes at the peer",
            Self::ShortIds => "connection IDs of 4 bytes",
            Self::LongIds => "connection IDs of 20 bytes",
            Self::Loss => "5 % lost",
            Self::Reordering => "20 % reordered",
            Self::Mtu => "packets of at most 1,280 bytes",
        }
    }

    /// What a client of another language says that it learnt.
    pub(crate) const fn fact(self) -> Option<&'static str> {
        match self {
            Self::Datagrams => Some("datagrams 20"),
            Self::Reset => Some("reset 17"),
            Self::Stop => Some("stopped 18"),
            Self::CloseByServer => Some("closed 19"),
            Self::CloseByClient => Some("closed 20"),
            _ => None,
        }
    }

    /// How long connection IDs are: the other stack's, and ours.
    pub(crate) const fn id_lens(self) -> Option<(usize, usize)> {
        match self {
            Self::NoIds => Some((0, 8)),
            Self::ShortIds => Some((4, 4)),
            Self::LongIds => Some((20, 20)),
            _ => None,
        }
    }

    /// The largest datagram that gets through: with the headers of IPv4 and UDP, 1,280 bytes.
    pub(crate) const fn largest_datagram(self) -> usize {
        match self {
            Self::Mtu => 1_280 - 28,
            _ => usize::MAX,
        }
    }

    /// Whether a request goes out before the handshake is complete.
    pub(crate) const fn asks_early(self) -> bool {
        matches!(self, Self::ZeroRtt | Self::ZeroRttRefused)
    }

    /// Whether the last connection has a ticket of the first one.
    pub(crate) const fn keeps_tickets(self) -> bool {
        matches!(
            self,
            Self::Resumption | Self::ZeroRtt | Self::ZeroRttRefused
        )
    }

    /// Servers, of which the first connection goes to the first, and later ones to the last.
    pub(crate) const fn servers(self) -> usize {
        match self {
            Self::ZeroRttRefused => 2,
            _ => 1,
        }
    }

    /// The files that a client downloads on one connection.
    pub(crate) fn sizes(self) -> Vec<usize> {
        match self {
            Self::Multiplexing => vec![32; 500],
            Self::Bulk => vec![20 << 20],
            Self::Streams => vec![20_000; 200],
            Self::Transfer
            | Self::TransferLoss
            | Self::TransferCorruption
            | Self::Loss
            | Self::Reordering
            | Self::Mtu => {
                vec![600_000, 300_000, 100_000]
            }
            Self::Blackhole | Self::KeyUpdate | Self::ChaCha20 | Self::Ecn => vec![1_500_000],
            Self::RebindPort
            | Self::RebindAddr
            | Self::ConnectionMigration
            | Self::PreferredAddress => vec![3_000_000],
            _ => vec![1_024],
        }
    }

    /// How long the peers of this crate wait for each other. A client that takes an acknowledgement of what had to wait
    /// for the server's keys for a round trip of seconds probes as seldom as that afterwards, and a third of its probes
    /// get lost (quinn counts no more than max_ack_delay as delayed: RFC 9002 section 5.3). And a client whose first round trip
    /// took 0.7 s, since the server was late to begin, has sent its first six probes after 16 s and the next one after 34 s.
    pub(crate) const fn idle_timeout(self) -> Duration {
        match self {
            Self::HandshakeLoss | Self::HandshakeCorruption | Self::AmplificationLimit => {
                Duration::from_secs(120)
            }
            _ => Duration::from_secs(30),
        }
    }

    /// The runner's limit for the cases that take long.
    pub(crate) const fn time_limit(self) -> Duration {
        match self {
            Self::HandshakeLoss | Self::HandshakeCorruption | Self::AmplificationLimit => {
                Duration::from_secs(300)
            }
            _ => Duration::from_secs(60),
        }
    }

    /// Connections, one after the other. A program of another language makes those of cases that resume itself.
    pub(crate) const fn connections(self) -> usize {
        match self {
            Self::HandshakeLoss | Self::HandshakeCorruption => 5,
            Self::Resumption | Self::ZeroRtt | Self::ZeroRttRefused | Self::CloseByClient => 2,
            _ => 1,
        }
    }

    /// Whether the last connection resumes the session of the one before it.
    pub(crate) const fn resumes(self) -> bool {
        matches!(self, Self::Resumption | Self::ZeroRtt)
    }

    /// The version of QUIC.
    pub(crate) const fn version(self) -> u32 {
        match self {
            Self::V2 => 0x6b33_43cf,
            _ => 1,
        }
    }

    /// Certificates in the server's chain beside the one that is needed.
    pub(crate) const fn spare_certificates(self) -> usize {
        match self {
            Self::AmplificationLimit => 20,
            _ => 0,
        }
    }

    /// Whether what goes by is looked at.
    pub(crate) const fn is_watched(self) -> bool {
        matches!(
            self,
            Self::ZeroRtt
                | Self::ZeroRttRefused
                | Self::NoIds
                | Self::ShortIds
                | Self::LongIds
                | Self::Mtu
                | Self::Ecn
                | Self::AmplificationLimit
                | Self::V2
                | Self::ConnectionMigration
                | Self::PreferredAddress
        )
    }

    /// Which datagrams to the server are dropped, counted from 1.
    pub(crate) fn drops(self) -> RangeInclusive<usize> {
        match self {
            Self::AmplificationLimit => 2..=7,
            _ => RangeInclusive::new(1, 0),
        }
    }

    pub(crate) const fn host(self) -> IpAddr {
        match self {
            Self::Ipv6 => IpAddr::V6(Ipv6Addr::LOCALHOST),
            _ => IpAddr::V4(Ipv4Addr::LOCALHOST),
        }
    }

    pub(crate) fn suite(self) -> Option<CipherSuite> {
        (self == Self::ChaCha20).then_some(CipherSuite::TLS13_CHACHA20_POLY1305_SHA256)
    }

    /// The links from and to the client. The runner's: 10 Mbit/s, 15 ms, a queue of 25 packets.
    pub(crate) fn links(self) -> Option<(LinkConfig, LinkConfig)> {
        let simple = LinkConfig::new(10_000_000, Duration::from_millis(15))
            .with_queue(QueueLimit::Packets(25));
        // The runner's, too: no more of them in a row are lost or garbled.
        let simple = simple.with_max_burst(const { NonZeroU32::new(3).unwrap() });
        let link = match self {
            Self::LongRtt => LinkConfig::new(10_000_000, Duration::from_millis(750))
                .with_queue(QueueLimit::Packets(25)),
            Self::Blackhole => {
                simple.with_outage(Duration::from_millis(600), Duration::from_millis(2_000))
            }
            Self::HandshakeLoss => simple.with_loss(0.3),
            Self::TransferLoss => simple.with_loss(0.02),
            Self::HandshakeCorruption => LinkConfig {
                corruption: 0.3,
                ..simple
            },
            Self::TransferCorruption => LinkConfig {
                corruption: 0.02,
                ..simple
            },
            Self::Loss => simple.with_loss(0.05),
            Self::Reordering => LinkConfig {
                reordering: 0.2,
                ..simple
            },
            Self::Transfer => simple,
            _ => return None,
        };
        Some((link.clone(), link))
    }

    /// Whether the links lost or garbled what they were to lose or garble.
    pub(crate) fn links_did_it(self, stats: &RelayStats) -> bool {
        let (up, down) = (&stats.up, &stats.down);
        match self {
            Self::HandshakeLoss | Self::TransferLoss | Self::Loss => {
                up.dropped_loss + down.dropped_loss > 0
            }
            Self::HandshakeCorruption | Self::TransferCorruption => {
                up.corrupted + down.corrupted > 0
            }
            _ => true,
        }
    }

    /// The addresses that the client's NAT takes, one after the other.
    pub(crate) fn rebinding(self) -> Option<Vec<IpAddr>> {
        match self {
            Self::RebindPort => Some(vec![loopback(1); 3]),
            Self::RebindAddr => Some(vec![loopback(2), loopback(3), loopback(4)]),
            _ => None,
        }
    }
}
