//! The contract of a congestion controller: what it is asked, and what it is told, one struct per event; how a connection gets
//! one; and the states of paths that one keeps.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mpquic_sched_core::{PathIndex, SavedPath};
use rand::Rng;
use rand::rngs::StdRng;

use super::{CongestionControl, InitialWindow, LossCauses, ResumeStep, SlowStart};
use crate::{RateSample, RttEstimator};

/// A congestion controller of a connection (RFC 9002 section 7).
///
/// One controller serves all paths of the connection, so that coupled algorithms need no other
/// interface. A path is named by its slot, a [`PathIndex`]: use it as an index into an array of
/// [`MAX_PATHS`](mpquic_sched_core::MAX_PATHS) states. Slots are used again after
/// [`remove_path`](Self::remove_path).
///
/// For a slot without a path the window is 0, and events are ignored.
///
/// All methods run on the hot path: they should neither allocate nor block. The connection sends no
/// packet that would put more than the window in flight, and it paces packets by the window or by
/// [`pacing_rate`](Self::pacing_rate).
///
/// # Order of the calls
///
/// For an ACK frame: [`on_spurious_loss`](Self::on_spurious_loss), then
/// [`on_packet_acked`](Self::on_packet_acked) for each newly acknowledged packet, then
/// [`on_congestion_event`](Self::on_congestion_event) for ECN, then
/// [`on_packet_lost`](Self::on_packet_lost) for each lost packet and `on_congestion_event` for all of
/// them, and at last [`on_ack_end`](Self::on_ack_end).
///
/// # Example
///
/// A window of a fixed size, as satellite links with a reserved rate use it:
///
/// ```
/// use mpquic_congestion::{
///     AckedPacket, CongestionEvent, Controller, ControllerContext, ControllerFactory, NewPath,
///     PathIndex,
/// };
///
/// #[derive(Clone, Copy)]
/// struct FixedWindow(u64);
///
/// impl Controller for FixedWindow {
///     fn add_path(&mut self, _path: &NewPath) {}
///     fn remove_path(&mut self, _path: PathIndex) {}
///     fn on_packet_acked(&mut self, _packet: &AckedPacket<'_>) {}
///     fn on_congestion_event(&mut self, _event: &CongestionEvent) {}
///     fn on_mtu_update(&mut self, _path: PathIndex, _mtu: u16) {}
///     fn window(&self, _path: PathIndex) -> u64 {
///         self.0
///     }
/// }
///
/// impl ControllerFactory for FixedWindow {
///     fn build(&self, _context: &mut ControllerContext<'_>) -> Box<dyn Controller> {
///         Box::new(*self)
///     }
/// }
///
/// // In mpquic: `TransportConfig::congestion(FixedWindow(256 * 1024))`.
/// let factory: &dyn ControllerFactory = &FixedWindow(256 * 1024);
/// # let _ = factory;
/// ```
pub trait Controller: Send {
    /// A path begins. Its window is the initial one: [`NewPath::initial_window`], or else that of all,
    /// [`ControllerContext::initial_window`].
    fn add_path(&mut self, path: &NewPath);

    /// A path has ended.
    fn remove_path(&mut self, path: PathIndex);

    /// A path continues over other addresses, so that nothing is known of it any more (RFC 9000
    /// section 9.4).
    fn on_path_changed(&mut self, path: &NewPath) {
        self.add_path(path);
    }

    /// A packet that counts as in flight was sent.
    fn on_packet_sent(&mut self, _packet: &SentPacket) {}

    /// A packet in flight was newly acknowledged. Called for each packet of an ACK frame.
    fn on_packet_acked(&mut self, packet: &AckedPacket<'_>);

    /// A packet in flight was declared lost. Called for each packet, before the
    /// [`on_congestion_event`](Self::on_congestion_event) that stands for all of them.
    fn on_packet_lost(&mut self, _packet: &LostPacket) {}

    /// Packets were lost, or the peer reported new ECN-CE marks.
    fn on_congestion_event(&mut self, event: &CongestionEvent);

    /// Packets that were declared lost were acknowledged after all.
    fn on_spurious_loss(&mut self, _loss: &SpuriousLoss) {}

    /// An ACK frame was processed: its packets, and those that were declared lost because of it.
    ///
    /// Returns whether the controller itself holds sending back from now on, below what it takes the
    /// path to carry, as BBR does in ProbeRTT. Delivery rates measured in that time count as
    /// limited by the application.
    fn on_ack_end(&mut self, _ack: &AckSummary<'_>) -> bool {
        false
    }

    /// Sending resumes on a path after the application had nothing to send: nothing is in flight,
    /// and the next packet is about to be sent.
    fn on_restart(&mut self, _path: PathIndex, _now: Instant) {}

    /// Careful resume on a path that is remembered (RFC 9959): a jump of the window, and what follows
    /// from it. Returns whether the controller takes the step.
    ///
    /// The default takes none, and so no path begins with more than the initial window. A controller that
    /// takes the jump takes all other steps, too.
    fn on_resume(&mut self, _path: PathIndex, _now: Instant, _step: &ResumeStep) -> bool {
        false
    }

    /// The rate to pace at, bytes per second. `None` lets the connection pace by window and RTT
    /// (RFC 9002 section 7.7).
    fn pacing_rate(&self, _path: PathIndex, _rtt: &RttEstimator) -> Option<f64> {
        None
    }

    /// The largest UDP payload that the path takes has changed. The window must stay at or above
    /// [`minimum_window`](super::minimum_window).
    fn on_mtu_update(&mut self, path: PathIndex, mtu: u16);

    /// The congestion window, bytes; at most [`MAX_WINDOW`](super::MAX_WINDOW).
    fn window(&self, path: PathIndex) -> u64;

    /// The slow start threshold, bytes; `u64::MAX` before the first congestion event. A controller
    /// without slow start keeps the default, which is the window.
    fn ssthresh(&self, path: PathIndex) -> u64 {
        self.window(path)
    }

    /// Whether the window grows exponentially. Pacing is faster then.
    fn in_slow_start(&self, path: PathIndex) -> bool {
        self.window(path) < self.ssthresh(path)
    }

    /// Whether more is sent just now than the path was seen to carry, so that losses may be those of a queue that is full.
    /// Losses at other times may be told to a `PathMemory` as the path's own. A controller whose
    /// window grows until a loss always probes, and keeps the default: there, a loss is the path's own if the round-trip time
    /// tells of no queue.
    fn is_probing(&self, _path: PathIndex) -> bool {
        false
    }

    /// How many congestion events reduced the window, for
    /// `PathStats::congestion_events`.
    fn congestion_events(&self, _path: PathIndex) -> u64 {
        0
    }

    /// What loss events were judged to be, for `PathStats::losses_by_overflow` and those beside it. Zeros if the controller does not judge them.
    fn loss_causes(&self, _path: PathIndex) -> LossCauses {
        LossCauses::default()
    }

    /// Which of several controllers steers the path now, and what that rests on. `None` if there is one for all paths and times, or
    /// nothing is known of the path yet.
    fn steering(&self, _path: PathIndex) -> Option<Steering> {
        None
    }

    /// What the transport asks of a path before each packet, in one call. It is what the methods above say, and need not be
    /// written anew.
    fn path_state(&self, path: PathIndex, rtt: &RttEstimator) -> ControllerState {
        ControllerState {
            window: self.window(path),
            ssthresh: self.ssthresh(path),
            in_slow_start: self.in_slow_start(path),
            pacing_rate: self.pacing_rate(path, rtt),
        }
    }
}

/// How a path is steered that may go from one controller to another: [`Controller::steering`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Steering {
    /// What steers it now.
    pub by: CongestionControl,
    /// How often losses were taken for chance, and were none; earlier connections count by half.
    pub refusals: u32,
    /// The newest loss events, in tenths, each of which weighs nine tenths of the one after it.
    pub loss_events: u32,
    /// Those of them that chance explains.
    pub chance_events: u32,
    /// Runs of packets that were lost by chance, as far as the controller can tell, per million packets.
    pub chance_loss: u32,
}

/// What a controller says of a path: [`Controller::path_state`].
#[derive(Debug, Clone, Copy)]
pub struct ControllerState {
    /// [`Controller::window`].
    pub window: u64,
    /// [`Controller::ssthresh`].
    pub ssthresh: u64,
    /// [`Controller::in_slow_start`].
    pub in_slow_start: bool,
    /// [`Controller::pacing_rate`].
    pub pacing_rate: Option<f64>,
}

/// Makes a congestion controller for each new connection.
///
/// [`CongestionControl`](super::CongestionControl) implements it for the controllers of this crate,
/// and so does any function or closure with this signature:
///
/// ```
/// use mpquic_congestion::{CongestionControl, Controller, ControllerContext, ControllerFactory};
///
/// fn takes(factory: impl ControllerFactory) {
///     # drop(factory);
/// }
/// takes(CongestionControl::Bbr);
/// takes(|context: &mut ControllerContext<'_>| -> Box<dyn Controller> {
///     CongestionControl::Olia.build(context)
/// });
/// ```
pub trait ControllerFactory: Send + Sync + 'static {
    /// A controller without paths, for a new connection.
    fn build(&self, context: &mut ControllerContext<'_>) -> Box<dyn Controller>;

    /// A name for logs. The default is the name of the type.
    fn label(&self) -> &str {
        std::any::type_name::<Self>()
    }
}

impl<F> ControllerFactory for F
where
    F: Fn(&mut ControllerContext<'_>) -> Box<dyn Controller> + Send + Sync + 'static,
{
    fn build(&self, context: &mut ControllerContext<'_>) -> Box<dyn Controller> {
        self(context)
    }
}

impl ControllerFactory for Arc<dyn ControllerFactory> {
    fn build(&self, context: &mut ControllerContext<'_>) -> Box<dyn Controller> {
        (**self).build(context)
    }

    fn label(&self) -> &str {
        (**self).label()
    }
}

/// What a connection gives to a [`ControllerFactory`].
pub struct ControllerContext<'a> {
    initial_window: InitialWindow,
    slow_start: Option<SlowStart>,
    rng: &'a mut StdRng,
}

impl<'a> ControllerContext<'a> {
    /// What a connection has set: the window with which paths begin, how it grows, and where seeds come from.
    #[inline]
    pub const fn new(
        initial_window: InitialWindow,
        slow_start: Option<SlowStart>,
        rng: &'a mut StdRng,
    ) -> Self {
        Self {
            initial_window,
            slow_start,
            rng,
        }
    }

    /// The window with which each path begins, as set by
    /// `TransportConfig::initial_window`.
    #[inline]
    pub const fn initial_window(&self) -> InitialWindow {
        self.initial_window
    }

    /// How windows grow until the first congestion event, as set by
    /// `TransportConfig::slow_start`. `None`: as the controller thinks best.
    #[inline]
    pub const fn slow_start(&self) -> Option<SlowStart> {
        self.slow_start
    }

    /// A seed for a random number generator of the controller's own. Every call gives another one.
    /// It comes from the seed of the endpoint, so that a simulation replays.
    pub fn seed(&mut self) -> [u8; 32] {
        let mut seed = [0; 32];
        self.rng.fill_bytes(&mut seed);
        seed
    }
}

impl fmt::Debug for ControllerContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The generator is a secret.
        f.debug_struct("ControllerContext")
            .field("initial_window", &self.initial_window)
            .field("slow_start", &self.slow_start)
            .finish_non_exhaustive()
    }
}

/// A path begins, or continues over other addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewPath {
    /// The slot of the path.
    pub path: PathIndex,
    /// The current time.
    pub now: Instant,
    /// The largest UDP payload that the path takes, bytes; it may change later.
    pub mtu: u16,
    /// The window with which this path begins. `None`: as all,
    /// [`ControllerContext::initial_window`](super::ControllerContext::initial_window).
    pub initial_window: Option<InitialWindow>,
    /// What earlier connections knew of the path.
    pub saved: Option<SavedPath>,
}

impl NewPath {
    /// A path in this slot, which begins as all.
    #[inline]
    pub const fn new(path: PathIndex, now: Instant, mtu: u16) -> Self {
        Self {
            path,
            now,
            mtu,
            initial_window: None,
            saved: None,
        }
    }

    /// With a window of its own to begin with.
    #[must_use]
    #[inline]
    pub const fn with_initial_window(mut self, window: Option<InitialWindow>) -> Self {
        self.initial_window = window;
        self
    }

    /// A path of which earlier connections knew this.
    #[must_use]
    #[inline]
    pub const fn with_saved(mut self, saved: Option<SavedPath>) -> Self {
        self.saved = saved;
        self
    }
}

/// A packet that counts as in flight was sent (RFC 9002 appendix B.4, `OnPacketSentCC`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SentPacket {
    /// The path on which it was sent.
    pub path: PathIndex,
    /// The current time.
    pub now: Instant,
    /// The size of the packet, bytes.
    pub size: u64,
    /// Bytes in flight on the path, this packet included.
    pub in_flight: u64,
}

impl SentPacket {
    /// A packet of this size, after which so many bytes are in flight.
    #[inline]
    pub const fn new(path: PathIndex, now: Instant, size: u64, in_flight: u64) -> Self {
        Self {
            path,
            now,
            size,
            in_flight,
        }
    }
}

/// A packet in flight was newly acknowledged (RFC 9002 appendix B.5, `OnPacketAcked`).
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct AckedPacket<'a> {
    /// The path on which it was sent.
    pub path: PathIndex,
    /// The current time.
    pub now: Instant,
    /// When the packet was sent.
    pub sent: Instant,
    /// The size of the packet, bytes.
    pub size: u64,
    /// Whether the window was underused because there was too little to send. The window must not
    /// grow then (RFC 9002 section 7.8). Waiting for the pacer does not count as underuse.
    pub app_limited: bool,
    /// The round-trip time of the path, the newest sample included.
    pub rtt: &'a RttEstimator,
}

impl<'a> AckedPacket<'a> {
    /// A packet of this size, sent at `sent`.
    #[inline]
    pub const fn new(
        path: PathIndex,
        now: Instant,
        sent: Instant,
        size: u64,
        app_limited: bool,
        rtt: &'a RttEstimator,
    ) -> Self {
        Self {
            path,
            now,
            sent,
            size,
            app_limited,
            rtt,
        }
    }
}

/// A packet in flight was declared lost (RFC 9002 section 6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostPacket {
    /// The path on which it was sent.
    pub path: PathIndex,
    /// The current time.
    pub now: Instant,
    /// The packet number.
    pub number: u64,
    /// When the packet was sent.
    pub sent: Instant,
    /// The size of the packet, bytes.
    pub size: u64,
    /// Bytes in flight when the packet had been sent, itself included.
    pub tx_in_flight: u64,
    /// Bytes declared lost on the path since the packet was sent, itself included.
    pub lost: u64,
    /// Bytes delivered on the path so far.
    pub total_delivered: u64,
    /// Whether there was too little to send when the packet was sent.
    pub app_limited: bool,
}

impl LostPacket {
    /// A packet of this number and size, sent at `sent`. The other fields are zero and `false`.
    #[inline]
    pub const fn new(path: PathIndex, now: Instant, number: u64, sent: Instant, size: u64) -> Self {
        Self {
            path,
            now,
            number,
            sent,
            size,
            tx_in_flight: 0,
            lost: 0,
            total_delivered: 0,
            app_limited: false,
        }
    }
}

/// Congestion was detected: packets were lost, or the peer reported new ECN-CE marks (RFC 9002
/// appendix B.6, `OnCongestionEvent`).
///
/// A controller reduces its window at most once per round trip: it ignores events whose
/// [`newest_sent`](Self::newest_sent) is not later than the start of its recovery period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CongestionEvent {
    /// The path on which it was detected.
    pub path: PathIndex,
    /// The current time.
    pub now: Instant,
    /// When the newest of the lost packets was sent. For ECN: when the newest of the packets was
    /// sent that the ACK frame with the report newly acknowledged.
    pub newest_sent: Instant,
    /// Bytes declared lost; 0 for ECN.
    pub lost_bytes: u64,
    /// Whether the losses establish persistent congestion (RFC 9002 section 7.6).
    pub persistent: bool,
    /// Whether the event is a report of ECN-CE marks (RFC 9002 section 7.1) and not a loss.
    pub ecn: bool,
}

impl CongestionEvent {
    /// So many bytes were lost; the newest of the packets was sent at `newest_sent`.
    #[inline]
    pub const fn loss(
        path: PathIndex,
        now: Instant,
        newest_sent: Instant,
        lost_bytes: u64,
        persistent: bool,
    ) -> Self {
        Self {
            path,
            now,
            newest_sent,
            lost_bytes,
            persistent,
            ecn: false,
        }
    }

    /// The peer reported new ECN-CE marks with the acknowledgement of a packet sent at
    /// `newest_sent`.
    #[inline]
    pub const fn ecn(path: PathIndex, now: Instant, newest_sent: Instant) -> Self {
        Self {
            path,
            now,
            newest_sent,
            lost_bytes: 0,
            persistent: false,
            ecn: true,
        }
    }
}

/// Packets that were declared lost were acknowledged after all: they were delayed or reordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpuriousLoss {
    /// The path on which they were sent.
    pub path: PathIndex,
    /// The current time.
    pub now: Instant,
    /// When the newest of them was sent.
    pub newest_sent: Instant,
    /// Their size, bytes.
    pub bytes: u64,
}

impl SpuriousLoss {
    /// Packets of so many bytes, the newest of them sent at `newest_sent`.
    #[inline]
    pub const fn new(path: PathIndex, now: Instant, newest_sent: Instant, bytes: u64) -> Self {
        Self {
            path,
            now,
            newest_sent,
            bytes,
        }
    }
}

/// An ACK frame was processed: what all its packets tell together.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct AckSummary<'a> {
    /// The path whose packets it acknowledges.
    pub path: PathIndex,
    /// The current time.
    pub now: Instant,
    /// The sample of the path's delivery rate.
    pub sample: &'a RateSample,
    /// When the newest of the newly acknowledged packets was sent.
    pub newest_sent: Instant,
    /// The RTT sample of the frame, if it gave one (RFC 9002 section 5.1).
    pub rtt_sample: Option<Duration>,
    /// The round-trip time of the path, that sample included.
    pub rtt: &'a RttEstimator,
    /// Bytes in flight, without the packets that the frame acknowledged or caused to be declared
    /// lost.
    pub in_flight: u64,
}

impl<'a> AckSummary<'a> {
    /// An ACK frame without an RTT sample that leaves nothing in flight.
    #[inline]
    pub const fn new(
        path: PathIndex,
        now: Instant,
        newest_sent: Instant,
        sample: &'a RateSample,
        rtt: &'a RttEstimator,
    ) -> Self {
        Self {
            path,
            now,
            sample,
            newest_sent,
            rtt_sample: None,
            rtt,
            in_flight: 0,
        }
    }
}

/// States by slot, as many as were ever needed: most connections have one path or two.
#[derive(Debug)]
pub(super) struct Slots<T> {
    states: Vec<Option<T>>,
    /// One past the highest slot in use.
    used: usize,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self {
            states: Vec::new(),
            used: 0,
        }
    }
}

impl<T> Slots<T> {
    pub(super) fn set(&mut self, path: PathIndex, state: Option<T>) {
        let index = path.get();
        if index >= self.states.len() {
            self.states.reserve_exact(index + 1 - self.states.len());
            self.states.resize_with(index + 1, || None);
        }
        self.states[index] = state;
        let highest = self.states.iter().rposition(Option::is_some);
        self.used = highest.map_or(0, |index| index + 1);
    }

    pub(super) fn get(&self, path: PathIndex) -> Option<&T> {
        self.states.get(path.get())?.as_ref()
    }

    pub(super) fn get_mut(&mut self, path: PathIndex) -> Option<&mut T> {
        self.states.get_mut(path.get())?.as_mut()
    }

    /// One past the highest slot in use.
    pub(super) const fn len(&self) -> usize {
        self.used
    }

    /// The states that there are, in the order of their slots.
    pub(super) fn iter(&self) -> impl Iterator<Item = (PathIndex, &T)> + Clone {
        self.states[..self.used]
            .iter()
            .enumerate()
            .filter_map(|(index, state)| Some((PathIndex::new(index)?, state.as_ref()?)))
    }
}
