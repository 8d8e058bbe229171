//! Paths: outside the path ID with its number space, recovery and status, inside the 4-tuple
//! (RFC 10069); congestion windows live in the connection's controller.

mod limit;
mod retired;
mod set;
mod status;
mod validation;

use std::time::{Duration, Instant};

use mpquic_sched_core::PathIndex;

pub(crate) use limit::PathLimits;
pub(crate) use retired::RetiredPath;
pub(crate) use set::{PathState, Paths};
pub(crate) use status::StatusState;
pub(crate) use validation::{ChallengeTimeout, NetworkPath};

use crate::mtu::MtuDiscovery;
use crate::recovery::{DeliveryRate, EcnValidator, Pacer, RttEstimator, Suspect};
use crate::space::PacketSpace;
use crate::{FourTuple, PathId, TransportConfig};

/// A path that is open: validated, or being validated.
pub(crate) struct Path {
    pub(crate) id: PathId,
    pub(crate) index: PathIndex,
    pub(crate) network: NetworkPath,
    /// Other addresses at which the peer is or was seen: those before it moved, while the new ones
    /// are not validated, or those that it tries before it moves (RFC 9000 section 9).
    pub(crate) aside: Option<NetworkPath>,
    /// It was validated once: a later answer to a challenge is not news of a path.
    pub(crate) opened: bool,
    /// The addresses that RTT, congestion window and MTU were measured over.
    pub(crate) measured: FourTuple,
    pub(crate) status: StatusState,
    /// The 1-RTT packet number space of this path ID.
    pub(crate) space: PacketSpace,
    pub(crate) rtt: RttEstimator,
    pub(crate) pacer: Pacer,
    pub(crate) ecn: EcnValidator,
    pub(crate) delivery: DeliveryRate,
    pub(crate) suspect: Suspect,
    pub(crate) mtu: MtuDiscovery,
    /// Probe timeouts in a row (RFC 9002 section 6.2.1).
    pub(crate) pto_count: u32,
    /// Loss probes to be sent now.
    pub(crate) probes: u8,
    /// A PING is to be sent now.
    pub(crate) ping: bool,
    /// When something was last received on this path, for keep-alive.
    pub(crate) last_activity: Instant,
    pub(crate) counters: PathCounters,
}

/// What is counted per path.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct PathCounters {
    pub(crate) sent_datagrams: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) received_datagrams: u64,
    pub(crate) received_bytes: u64,
    pub(crate) sent_stream_bytes: u64,
    pub(crate) received_stream_bytes: u64,
    pub(crate) sent_packets: u64,
    pub(crate) lost_packets: u64,
    pub(crate) spurious_losses: u64,
    pub(crate) retransmitted_packets: u64,
    pub(crate) retransmitted_bytes: u64,
    pub(crate) copied_packets: u64,
    pub(crate) copied_bytes: u64,
    pub(crate) reinjected_bytes: u64,
    pub(crate) delivered_bytes: u64,
}

impl Path {
    pub(crate) fn new(
        now: Instant,
        id: PathId,
        index: PathIndex,
        tuple: FourTuple,
        validated: bool,
        space: PacketSpace,
        config: &TransportConfig,
    ) -> Self {
        Self {
            id,
            index,
            network: NetworkPath::new(tuple, validated),
            aside: None,
            opened: id == PathId::ZERO,
            measured: tuple,
            status: StatusState::default(),
            space,
            rtt: RttEstimator::new(config.initial_rtt),
            pacer: Pacer::default(),
            ecn: EcnValidator::new(config.ecn),
            delivery: DeliveryRate::default(),
            suspect: Suspect::default(),
            mtu: MtuDiscovery::new(now, config.initial_mtu, config.max_mtu),
            pto_count: 0,
            probes: 0,
            ping: false,
            last_activity: now,
            counters: PathCounters::default(),
        }
    }

    /// Forgets what was measured: the path leads over other addresses now (RFC 9000 section 9.4). The
    /// delivery rate goes by packets in flight, and finds its way by itself.
    pub(crate) fn measure_anew(&mut self, now: Instant, config: &TransportConfig) {
        self.measured = self.network.tuple;
        self.rtt = RttEstimator::new(config.initial_rtt);
        self.pacer = Pacer::default();
        self.ecn = EcnValidator::new(config.ecn);
        self.mtu = MtuDiscovery::new(now, config.initial_mtu, config.max_mtu);
        self.pto_count = 0;
    }

    /// The probe timeout without back-off (RFC 9002 section 6.2.1).
    pub(crate) fn pto(&self, max_ack_delay: Duration) -> Duration {
        self.rtt.pto_base(max_ack_delay)
    }
}
