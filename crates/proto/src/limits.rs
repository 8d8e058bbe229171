//! Every collection that a peer can grow has its cap here, with the attack that it stops; no code enforces anything here.

/// Shards of an endpoint. No attack: the connection IDs that lead to a shard are found by trial.
pub const MAX_SHARDS: u16 = 256;

/// Ranges of received packet numbers kept per space. Stops: a peer that sends every second packet
/// number to grow our ACKs (quiche 953cf96e). The oldest ranges go first.
pub const MAX_ACK_RANGES: usize = 64;

/// Bytes of the token that a Retry or NEW_TOKEN may carry. Stops: one that leaves no room for anything else in our
/// Initial packets of 1200 bytes, which all repeat it. Longer ones are dropped.
pub const MAX_RETRY_TOKEN: usize = 1024;

/// IPs that a token of a NEW_TOKEN frame validates. Stops: a peer that validates address after address to make
/// tokens longer than its Initial packets can carry.
pub const MAX_TOKEN_ADDRESSES: usize = 8;

/// Tokens that a server's connection gives its client. Stops: a peer that validates address after address to have
/// tokens made and kept.
pub const MAX_NEW_TOKENS: u32 = 16;

/// Servers whose tokens the default store of a client keeps. The one that was used least recently goes first.
pub const MAX_TOKEN_SERVERS: usize = 256;

/// Tokens of one server that it keeps. Stops: servers that send tokens without end. The oldest go first.
pub const MAX_TOKENS_PER_SERVER: usize = 2;

/// Used tokens that the default log remembers per lifetime of a token. Stops: clients that collect tokens and use
/// them. Beyond it, tokens do not count.
pub const MAX_USED_TOKENS: usize = 1 << 17;

/// CRYPTO bytes buffered out of order per encryption level. Stops: sparse CRYPTO frames
/// (CVE-2024-1765). Over it: CRYPTO_BUFFER_EXCEEDED.
pub const MAX_CRYPTO_BUFFER: u64 = 64 * 1024;

/// Gaps in the CRYPTO stream per encryption level. Stops: one-byte CRYPTO frames.
pub const MAX_CRYPTO_GAPS: usize = 128;

/// The smallest cap on gaps in one stream's reassembly buffer.
pub const MIN_STREAM_GAPS: usize = 4096;

/// Gaps in one stream's reassembly buffer, for a receive window of so many bytes. Stops: one-byte
/// STREAM frames at every second offset (RUSTSEC-2026-0185), without breaking a transfer whose
/// full-size packets alternate between unequal paths: those leave at most one gap per two
/// packets of 1,200 bytes, retransmissions one more each; this allows one per 512 bytes.
pub const fn max_stream_gaps(window: u64) -> usize {
    let scaled = (window / 512) as usize;
    if scaled > MIN_STREAM_GAPS {
        scaled
    } else {
        MIN_STREAM_GAPS
    }
}

/// RETIRE_CONNECTION_ID and PATH_RETIRE_CONNECTION_ID frames waiting to be sent or acknowledged,
/// over all paths. Stops: NEW_CONNECTION_ID floods with rising Retire Prior To (CVE-2024-22189).
pub const MAX_PENDING_RETIRE: usize = 256;

/// Connection IDs of the peer kept per path ID: our active_connection_id_limit.
//= specs/rfc9000.txt#section-18.2
//= type=implication
//# The value of the active_connection_id_limit parameter MUST be at least 2.
pub const ACTIVE_CONNECTION_ID_LIMIT: u64 = 5;

/// Connection IDs issued per path ID, whatever the peer's active_connection_id_limit. Stops: a
/// peer that asks for 2^62 of them.
pub const MAX_ISSUED_CIDS_PER_PATH: u64 = 5;

/// PATH_CHALLENGEs to be answered per path. Stops: challenge floods (CVE-2023-6193). The newest are kept.
pub const MAX_PENDING_PATH_RESPONSES: usize = 4;

/// Addresses of the peer that a path remembers: those that it uses, and others that were used before or are tried. Stops:
/// probes from ever new addresses (quiche 439795b0). The newest tried ones are kept.
pub const MAX_ADDRESSES_PER_PATH: usize = 2;

/// Packets with PATH_CHALLENGE or PATH_RESPONSE in flight per path, whatever the congestion window is. Stops: probes from
/// ever new addresses by a peer that acknowledges nothing. Beyond it, one for each probe timeout takes the place of the
/// oldest.
pub const MAX_PATH_PROBES_IN_FLIGHT: usize = 16;

/// Paths open at a time, handshake path included: the scheduler contract's number of slots.
pub const MAX_OPEN_PATHS: usize = mpquic_sched_core::MAX_PATHS;

/// Path IDs above the largest abandoned one for which connection IDs are issued ahead. Stops: a
/// peer that raises MAX_PATH_ID to 2^32-1 to make us issue without end.
pub const MAX_PATH_IDS_ISSUED_AHEAD: u32 = MAX_OPEN_PATHS as u32;

/// Path IDs for which a server issues connection IDs before the handshake is complete. Stops: spoofed Initials that cost
/// more than they must.
pub const MAX_PATH_IDS_ISSUED_EARLY: u32 = 3;

/// Full datagrams by which a client that wants data on a path before it is validated raises what the server may send
/// there, beside its challenge: three times five of them are as much as an initial window.
pub const EARLY_CREDIT_DATAGRAMS: u8 = 4;

/// Abandoned paths whose state is kept for its three PTOs. Stops: open-and-abandon churn.
pub const MAX_ABANDONED_PATHS: usize = 32;

/// PATH_ABANDON frames kept until they are acknowledged. An honest peer cannot use up more path IDs than that while our
/// frames are lost. Stops: open-and-abandon churn by a peer that acknowledges nothing. The oldest go first.
pub const MAX_PENDING_ABANDONS: usize = 2 * MAX_ABANDONED_PATHS;

/// Packets that came before their keys, and are kept. Stops: floods of undecryptable packets.
pub const MAX_UNDECRYPTABLE_PACKETS: usize = 10;

/// Bytes of such packets: as many as fit into full-size Ethernet frames. Stops: the same with datagrams of
/// 64 KiB.
pub const MAX_UNDECRYPTABLE_BYTES: usize = MAX_UNDECRYPTABLE_PACKETS * 1500;

/// Such packets of each further path that a client may open with its Finished, kept beside those of the first path:
/// its challenge, and the datagrams by which it may ask for data before the path is validated. Stops: data of the first
/// path that takes all places. Such paths are [`MAX_PATH_IDS_ISSUED_EARLY`].
pub const MAX_UNDECRYPTABLE_PER_FURTHER_PATH: usize = 5;

/// Bytes of such a packet of a further path. Stops: the same with datagrams of 64 KiB.
pub const MAX_UNDECRYPTABLE_FURTHER_PACKET: usize = 1500;

pub use mpquic_wire::frame::MAX_CLOSE_REASON;

/// Connections that an endpoint holds in the state "incoming", neither accepted nor refused.
/// Stops: Initial floods. Beyond it, Initials are dropped before any key is derived.
pub const MAX_INCOMING: usize = 1 << 12;

/// Connections of a server whose handshake is not complete, those that wait to be accepted included,
/// unless configured otherwise. Stops: Initial floods from made-up addresses. Beyond it, Initials are
/// dropped before any key is derived.
pub const MAX_HALF_OPEN: usize = 1 << 13;

/// Bytes that those hold together, unless configured otherwise.
pub const MAX_HALF_OPEN_BYTES: usize = 128 << 20;

/// Half-open connections from which on a client must prove its address, unless configured otherwise. Stops:
/// Initial floods from made-up addresses, long before they use up what honest clients need. Beyond it, the
/// endpoint answers with Retry packets.
pub const RETRY_ABOVE: usize = 256;

/// Clients that wait for a Retry packet, unless configured otherwise. Stops: Initial floods that come faster than Retry
/// packets can be sent. Who has waited longest goes first.
pub const MAX_RETRIES_WAITING: usize = 1 << 12;

/// What one connection whose handshake is under way is charged beside the handshake data that it keeps:
/// its own state, TLS's, and what a driver has per connection. A test measures that it is enough.
pub const HALF_OPEN_COST: usize = 38 << 10;

/// Connections that were closed before they began, and whose last packet is kept to be sent again. Stops:
/// floods of Initials that are refused. The oldest go first.
pub const MAX_CLOSED_KEPT: usize = 256;

/// Connection IDs of handshakes that were just completed, or given up, for which packets may still come: copies of a
/// client's first packets that come late, over slower links, are nobody's attempt to connect. The oldest go first.
pub const MAX_LATE_KEPT: usize = 4096;

/// Addresses of its own from which a client begins an attempt. What a machine has beyond is not tried until the
/// connection is there.
pub const MAX_RACE_ADDRESSES: usize = 8;

/// Datagrams that a client keeps for addresses from which they are to leave later: a first flight, and its repetitions.
pub const MAX_RACE_DATAGRAMS: usize = 8;

/// Attempts of one connection that are under way at a time. Stops: a long list of dead addresses from costing more than
/// they are worth.
pub const MAX_RACE_ATTEMPTS: usize = 16;

/// Bytes of datagrams kept for one incoming connection before it is accepted.
pub const MAX_INCOMING_BUFFER: usize = 10 * 1500;

/// Datagrams with 0-RTT packets kept for connections whose Initial packet has not come. Stops: floods of 0-RTT packets
/// from nowhere. The oldest go first.
pub const MAX_EARLY_DATAGRAMS: usize = 32;

/// Bytes of such a datagram; larger ones are dropped.
pub const MAX_EARLY_DATAGRAM: usize = 1500;

/// Bytes of datagrams kept for all incoming connections together.
pub const MAX_INCOMING_BUFFER_TOTAL: usize = 16 << 20;

/// Bytes that each connection may hold of written data, of received data, and of datagrams in each direction,
/// whatever the other connections of its endpoint hold.
pub const GUARANTEED_MEMORY: u64 = 64 << 10;

/// Bytes of data that was written and not acknowledged, over all connections of an endpoint, unless configured
/// otherwise. Stops: readers that never read.
pub const DEFAULT_SEND_MEMORY: u64 = 256 << 20;

/// Bytes of data that was received and not read, over all connections of an endpoint, unless configured
/// otherwise. Stops: peers that fill many windows behind a gap.
pub const DEFAULT_RECEIVE_MEMORY: u64 = 256 << 20;

/// Written data of a connection that may wait for its acknowledgement or to be sent, however little its
/// paths carry. Beyond it, what they can use. Where a quarter of the endpoint's memory for written data is lent,
/// the least is [`GUARANTEED_MEMORY`].
pub const MIN_SEND_BUFFER: u64 = 512 << 10;

/// Bytes of received DATAGRAM frames kept unless configured otherwise; the oldest go first.
pub const DEFAULT_DATAGRAM_BUFFER: usize = 1 << 20;

/// News of datagrams with a tag that wait for the application, two for each datagram as a rule. Stops: an application that
/// tags its datagrams and never asks what became of them. The oldest go first.
pub const MAX_DATAGRAM_FATES: usize = 1 << 12;

/// Datagrams with a tag that were declared lost and whose acknowledgement is still waited for, per path. Stops: a peer that
/// acknowledges every second packet. The oldest go first: they stay lost.
pub const MAX_LOST_DATAGRAMS: usize = 256;

/// Streams of each direction that the peer may have open unless configured otherwise.
pub const DEFAULT_MAX_CONCURRENT_STREAMS: u64 = 128;
