//! Figures of a connection and of its paths; counted elsewhere.

use std::time::Duration;

use crate::congestion::{CongestionControl, ResumeState};

/// Statistics of one path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct PathStats {
    /// Smoothed RTT (RFC 9002 section 5.3).
    pub rtt: Duration,
    /// The smallest RTT sample.
    pub min_rtt: Duration,
    /// RTT variation.
    pub rtt_var: Duration,
    /// Whether there was an RTT sample. Without one, the RTTs are the configured initial RTT.
    pub has_rtt: bool,
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Largest UDP payload known to pass, bytes.
    pub mtu: u16,
    /// Consecutive probe timeouts.
    pub pto_count: u32,
    /// UDP datagrams sent.
    pub sent_datagrams: u64,
    /// UDP payload bytes sent.
    pub sent_bytes: u64,
    /// UDP datagrams received.
    pub received_datagrams: u64,
    /// UDP payload bytes received.
    pub received_bytes: u64,
    /// Stream bytes sent, retransmissions and copies included.
    pub sent_stream_bytes: u64,
    /// Stream bytes received, duplicates included.
    pub received_stream_bytes: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Packets declared lost.
    pub lost_packets: u64,
    /// Packets declared lost and acknowledged after all.
    pub spurious_losses: u64,
    /// Packets that carried data that had been sent before, for any reason.
    pub retransmitted_packets: u64,
    /// Stream bytes sent again because they were taken for lost: declared so, in flight only on paths
    /// in trouble, or sent again when a probe timeout expired.
    pub retransmitted_bytes: u64,
    /// Packets that carried a copy asked for by the scheduler together with the original.
    pub copied_packets: u64,
    /// Stream bytes of these copies.
    pub copied_bytes: u64,
    /// Stream bytes sent again while they were in flight on another path, because the scheduler asked
    /// for data not yet acknowledged.
    pub reinjected_bytes: u64,
    /// How often loss or ECN reduced the congestion window.
    pub congestion_events: u64,
    /// Loss events that a full queue explains, as far as the controller judges them (`auto` does).
    pub losses_by_overflow: u32,
    /// Loss events that chance explains.
    pub losses_by_chance: u32,
    /// Loss events that either may explain.
    pub losses_unclear: u32,
    /// Which controller steers the path, if it may change: with `auto` CUBIC or BBRv3, once the path has carried a few packets.
    pub steered_by: Option<CongestionControl>,
    /// How often losses were taken for chance and were none; those that a memory knows of count by half.
    pub refusals: u32,
    /// Delivery rate estimate, bytes per second.
    pub delivery_rate: u64,
    /// Whether the path is suspect: it does not deliver, and its data goes to other paths.
    pub suspect: bool,
    /// Whether a [memory](crate::TransportConfig::path_memory) knew the path when it began.
    pub remembered: bool,
    /// How far careful resume is (RFC 9959), or how it ended.
    pub careful_resume: ResumeState,
    /// The window that careful resume has jumped to, bytes; 0 if it has not.
    pub jump_window: u64,
}

/// Stream bytes sent once more although nobody took them for lost, by what that was for. Of all but the first, no more is sent than
/// [`copy_budget`](crate::TransportConfig::copy_budget) allows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct CopyStats {
    /// The scheduler asked for them for a reason of its own.
    pub asked: u64,
    /// They might have missed their deadlines on one path.
    pub deadlines: u64,
    /// To see whether what was believed of a path still held.
    pub probes: u64,
    /// Requests and ends of messages: so little that it costs nothing, and might be sooner.
    pub least: u64,
    /// They were late on another path.
    pub late: u64,
    /// Nothing was left to send, and they arrived sooner on this path.
    pub tails: u64,
}

/// Statistics of a connection over all its paths, closed ones included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ConnectionStats {
    /// UDP datagrams sent.
    pub sent_datagrams: u64,
    /// UDP payload bytes sent.
    pub sent_bytes: u64,
    /// UDP datagrams received.
    pub received_datagrams: u64,
    /// UDP payload bytes received.
    pub received_bytes: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Packets declared lost.
    pub lost_packets: u64,
    /// How often the scheduler was asked.
    pub decisions: u64,
    /// How often it answered "wait".
    pub waits: u64,
    /// How often its wait was overridden.
    pub overridden_waits: u64,
    /// Time during which data waited to be sent, a path could have sent it, and the scheduler's last
    /// answer was "wait"; up to when it was asked last.
    pub wait_time: Duration,
    /// Stream bytes sent again because they were taken for lost.
    pub retransmitted_bytes: u64,
    /// Stream bytes sent again as a copy or reinjection.
    pub reinjected_bytes: u64,
    /// Of these, the bytes of copies that the scheduler asked for together with the original.
    pub copied_bytes: u64,
    /// Stream bytes sent as copies, by what they were for.
    pub copies: CopyStats,
    /// Stream bytes received, duplicates included.
    pub received_stream_bytes: u64,
    /// The peak number of gaps in a stream's reassembly buffer.
    pub max_receive_gaps: usize,
    /// Bytes that are received and not readable for a gap before them, over all streams: the
    /// receiver's out-of-order queue.
    pub out_of_order: u64,
    /// The peak of these bytes.
    pub max_out_of_order: u64,
    /// Received datagrams (RFC 9221) that were dropped because the application did not read them in time.
    pub dropped_datagrams: u64,
    /// Datagrams to send (RFC 9221) that were dropped because their deadline passed before there was room for them. Each is
    /// counted when its turn comes.
    pub expired_datagrams: u64,
    /// Datagrams to send (RFC 9221) that were dropped because the path that they were for ended before they left; of one
    /// for all paths, each copy counts.
    pub stranded_datagrams: u64,
    /// News of datagrams with a [tag](crate::DatagramOptions::tag) that were dropped because the application did not take them
    /// in time.
    pub dropped_fates: u64,
    /// Received packets with stream data that were dropped, and not acknowledged, because the endpoint's
    /// memory for received data was used up.
    pub refused_packets: u64,
    /// Received packets that did not decrypt.
    pub undecryptable_packets: u64,
    /// Updates of the packet keys (RFC 9001 section 6), whichever side began.
    pub key_updates: u64,
}
