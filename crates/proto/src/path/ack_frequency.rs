//! How often packets are acknowledged (QUIC Acknowledgment Frequency): what we ask of the peer, and what it asks of us;
//! sends and counts nothing.

use std::time::Duration;

use mpquic_wire::frame::AckFrequencyFrame;
use mpquic_wire::transport_parameters::TransportParameters;

use crate::TransportError;
use crate::config::AckFrequencyConfig;
use crate::space::AckPolicy;

/// The least time that we wait before an acknowledgement, if we wait at all: what timers can keep.
const MIN_ACK_DELAY: Duration = Duration::from_millis(1);

/// Values of 2^14 milliseconds or more are invalid (RFC 9000 section 18.2).
const MAX_ACK_DELAY_LIMIT: Duration = Duration::from_millis(1 << 14);

/// Paths with a shorter RTT are not asked for a shorter delay while little is sent.
const MIN_REQUESTED_DELAY: Duration = Duration::from_millis(25);

/// So many acknowledgements per round trip, so that the window grows, and losses and the times of round trips show in time. Ours:
/// with four, files took 0.8 % longer in simulated networks, and with eight, no kind of transfer did by more than 0.2 %.
const ACKS_PER_ROUND: u32 = 8;

/// Where nobody asked for it, so many packets share an acknowledgement, or each second one has its own. Ours: fewer would save
/// little, and what sends little is told of its losses and round trips by each of them.
const WORTH: u64 = 4;

/// The paths that a request has to suit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PathsInUse {
    /// The shortest smoothed RTT.
    pub(crate) rtt: Duration,
    /// The fewest packets of full size that a path delivered in its last round trip.
    pub(crate) round: u64,
    /// The most packets that one acknowledgement may let go at once.
    pub(crate) burst: u64,
    /// A path is in slow start, which lives from acknowledgements: it doubles its window by them, and sees by the times of
    /// eight of a round trip when to end (RFC 9406 section 4.3).
    pub(crate) starting: bool,
    /// The controller of a path paces by the rate that it measures, as BBR does, which acknowledgements tell: beside a flow with all
    /// of them, one with fewer had half as much.
    pub(crate) by_rate: bool,
    /// The connection has more than one path: beside flows of others, OLIA had 12 % less with fewer acknowledgements.
    pub(crate) several: bool,
}

impl PathsInUse {
    /// What suits these, too.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            rtt: self.rtt.min(other.rtt),
            round: self.round.min(other.round),
            burst: self.burst.min(other.burst),
            starting: self.starting || other.starting,
            by_rate: self.by_rate || other.by_rate,
            several: true,
        }
    }
}

/// Both roles of one connection. The extension knows no paths: what is asked for holds in each packet number space, and
/// each space counts its own packets.
#[derive(Debug)]
pub(crate) struct AckFrequency {
    /// What we do.
    policy: AckPolicy,
    /// How late our timers go off.
    alarm_delay: Duration,
    /// The shortest delay that we announced to take.
    min: Duration,
    /// The largest sequence number of the frames that were processed.
    processed: Option<u64>,
    /// What we want, if anything.
    config: Option<AckFrequencyConfig>,
    /// The peer's min_ack_delay, if it takes ACK_FREQUENCY frames.
    peer_min: Option<Duration>,
    /// The peer's max_ack_delay by its transport parameters.
    initial: Duration,
    /// The peer's max_ack_delay, as far as that is known.
    current: Duration,
    /// The longest max_ack_delay among the requests that the peer may have taken since.
    unacked: Duration,
    /// Ack-eliciting packets that the peer may receive without acknowledging them at once: the most that it was asked for since
    /// the request that it has taken.
    threshold: u64,
    /// What the peer was last asked for; before that, what it does without.
    asked: AckPolicy,
    /// The sequence number of the next frame.
    next_sequence: u64,
    /// The newest frame is neither acknowledged nor lost.
    in_flight: bool,
    /// A frame is to be sent.
    pending: bool,
}

/// What to set a timer to that must not go off later than `delay`, of a host whose timers are late. At least half of the
/// delay, lest a short one leave nothing to wait for.
fn until_alarm(delay: Duration, late: Duration) -> Duration {
    //= specs/rfc9000.txt#section-18.2
    //# This value
    //# SHOULD include the receiver's expected delays in alarms firing.
    delay - late.min(delay / 2)
}

impl AckFrequency {
    /// `max_ack_delay`: our own. `config`: what to ask of the peer. `alarm_delay`: how late our timers go off.
    pub(crate) fn new(
        max_ack_delay: Duration,
        config: Option<AckFrequencyConfig>,
        alarm_delay: Duration,
    ) -> Self {
        let mut this = Self {
            policy: AckPolicy::new(until_alarm(max_ack_delay, alarm_delay)),
            alarm_delay,
            min: Duration::from_micros(Self::min_ack_delay_us(max_ack_delay)),
            processed: None,
            config,
            peer_min: None,
            initial: Duration::ZERO,
            current: Duration::ZERO,
            unacked: Duration::ZERO,
            threshold: 0,
            asked: AckPolicy::new(Duration::ZERO),
            next_sequence: 0,
            in_flight: false,
            pending: false,
        };
        this.set_peer(&TransportParameters::default());
        this
    }

    /// The min_ack_delay that we announce, microseconds.
    pub(crate) fn min_ack_delay_us(max_ack_delay: Duration) -> u64 {
        //= specs/quic-ack-frequency.md#nego
        //# An endpoint's min_ack_delay MUST NOT be greater than its max_ack_delay.
        // The parameter max_ack_delay has whole milliseconds.
        let max_ack_delay = Duration::from_millis(max_ack_delay.as_millis() as u64);
        MIN_ACK_DELAY.min(max_ack_delay).as_micros() as u64
    }

    /// The peer's transport parameters are known.
    pub(crate) fn set_peer(&mut self, peer: &TransportParameters) {
        self.initial = Duration::from_millis(peer.max_ack_delay_ms);
        self.current = self.initial;
        self.asked = AckPolicy::new(self.current);
        self.threshold = self.asked.ack_eliciting_threshold;
        self.peer_min = peer.min_ack_delay_us.map(Duration::from_micros);
    }

    /// Ack-eliciting packets that the peer may receive without acknowledging them at once, as far as that is known.
    pub(crate) const fn peer_threshold(&self) -> u64 {
        self.threshold
    }

    // As the receiver of data.

    /// When to acknowledge.
    pub(crate) const fn policy(&self) -> AckPolicy {
        self.policy
    }

    /// An ACK_FREQUENCY frame came.
    ///
    /// # Errors
    ///
    /// PROTOCOL_VIOLATION for a delay that is longer or shorter than may be asked for.
    pub(crate) fn on_frame(&mut self, frame: &AckFrequencyFrame) -> Result<(), TransportError> {
        let requested = Duration::from_micros(frame.max_ack_delay);
        //= specs/quic-ack-frequency.md#ack-frequency-frame
        //# Note that values
        //# of 2^14 milliseconds or greater are invalid for max_ack_delay, as specified in
        //# {{Section 18.2 of QUIC-TRANSPORT}}. A value smaller than the min_ack_delay
        //# advertised by the peer is also invalid. Receipt of an invalid value MUST be
        //# treated as a connection error of type PROTOCOL_VIOLATION.
        if requested >= MAX_ACK_DELAY_LIMIT || requested < self.min {
            return Err(TransportError::protocol_violation(
                "ACK_FREQUENCY with an invalid max_ack_delay",
            ));
        }
        //= specs/quic-ack-frequency.md#ack-frequency-frame
        //# A receiving endpoint MUST ignore a received ACK_FREQUENCY frame unless the
        //# Sequence Number value in the frame is greater than the largest processed
        //# value.
        if self
            .processed
            .is_some_and(|largest| frame.sequence <= largest)
        {
            return Ok(());
        }
        self.processed = Some(frame.sequence);
        self.policy = AckPolicy {
            max_ack_delay: until_alarm(requested, self.alarm_delay),
            ack_eliciting_threshold: frame.ack_eliciting_threshold,
            reordering_threshold: frame.reordering_threshold,
        };
        Ok(())
    }

    // As the sender of data.

    /// The longest that the peer may wait before an acknowledgement: for probe timeouts.
    //= specs/quic-ack-frequency.md#computation-of-probe-timeout-period
    //# Until the packet carrying the ACK_FREQUENCY frame is acknowledged, the endpoint
    //# MUST use the greater of the current max_ack_delay and the value that is in flight
    //# when computing the PTO period.
    //= specs/quic-ack-frequency.md#computation-of-probe-timeout-period
    //# When using max_ack_delay for PTO computations, endpoints MUST use
    //# the maximum of the current value and all those in flight.
    pub(crate) fn peer_max_ack_delay(&self) -> Duration {
        match self.config {
            // What we ask for by ourselves leaves the peer's timers no time to be late.
            Some(config) if config.max_ack_delay.is_none() => self.held_back().max(self.initial),
            _ => self.held_back(),
        }
    }

    /// The longest that the peer holds an acknowledgement back by what it was asked for.
    pub(crate) fn held_back(&self) -> Duration {
        self.current.max(self.unacked)
    }

    /// Whether requests are to be kept up to date.
    pub(crate) const fn is_wanted(&self) -> bool {
        self.config.is_some() && self.peer_min.is_some()
    }

    /// Whether the peer was asked for fewer acknowledgements, so that those needed at once have to be asked for.
    pub(crate) const fn is_in_use(&self) -> bool {
        self.next_sequence > 0
    }

    /// What would suit these paths.
    fn wish(&self, paths: PathsInUse) -> Option<AckPolicy> {
        let (config, min) = (self.config?, self.peer_min?);
        let by_round = paths.round / u64::from(ACKS_PER_ROUND);
        let by_round = by_round.min(paths.burst).max(1);
        let threshold = config.ack_eliciting_threshold.min(by_round);
        let delay = config.max_ack_delay.unwrap_or(self.initial);
        let limit = MAX_ACK_DELAY_LIMIT - Duration::from_micros(1);
        let careful = config.careful && (paths.by_rate || paths.several || by_round < WORTH);
        if paths.starting || by_round == 1 || careful {
            // As without the extension.
            let longest = paths.rtt.max(MIN_REQUESTED_DELAY);
            return Some(AckPolicy {
                ack_eliciting_threshold: threshold.min(1),
                ..AckPolicy::new(delay.min(longest).max(min).min(limit))
            });
        }
        Some(AckPolicy {
            max_ack_delay: delay.min(paths.rtt / ACKS_PER_ROUND).max(min).min(limit),
            ack_eliciting_threshold: threshold,
            reordering_threshold: config.reordering_threshold,
        })
    }

    /// The paths have changed, or what is known of them: asks again if that matters, at most once per round trip.
    pub(crate) fn update(&mut self, paths: PathsInUse) {
        if self.in_flight || self.pending {
            return;
        }
        let Some(wish) = self.wish(paths) else {
            return;
        };
        let asked = self.asked;
        let (delay, threshold) = (asked.max_ack_delay, asked.ack_eliciting_threshold);
        if delay.abs_diff(wish.max_ack_delay) > delay / 4
            || threshold.abs_diff(wish.ack_eliciting_threshold) > threshold / 4
            || asked.reordering_threshold != wish.reordering_threshold
        {
            self.asked = wish;
            self.pending = true;
        }
    }

    /// Whether a frame waits to be sent.
    pub(crate) const fn can_send(&self) -> bool {
        self.pending
    }

    /// Whether it is worth a packet of its own: the application wants to know at once of each packet.
    pub(crate) const fn is_urgent(&self) -> bool {
        self.pending && self.asked.ack_eliciting_threshold == 0
    }

    /// The frame to be sent, if any; [`on_sent`](Self::on_sent) follows if it fitted.
    pub(crate) fn pending(&self) -> Option<AckFrequencyFrame> {
        self.pending.then_some(AckFrequencyFrame {
            //= specs/quic-ack-frequency.md#ack-frequency-frame
            //# A sending endpoint MUST send monotonically increasing values in
            //# the Sequence Number field to allow obsolete ACK_FREQUENCY frames to be
            //# ignored when packets are processed out of order.
            sequence: self.next_sequence,
            ack_eliciting_threshold: self.asked.ack_eliciting_threshold,
            max_ack_delay: self.asked.max_ack_delay.as_micros() as u64,
            reordering_threshold: self.asked.reordering_threshold,
        })
    }

    /// The frame of [`pending`](Self::pending) left.
    pub(crate) fn on_sent(&mut self) {
        self.next_sequence += 1;
        self.pending = false;
        self.in_flight = true;
        self.unacked = self.unacked.max(self.asked.max_ack_delay);
        self.threshold = self.threshold.max(self.asked.ack_eliciting_threshold);
    }

    fn is_newest(&self, sequence: u64) -> bool {
        sequence + 1 == self.next_sequence
    }

    /// The frame with this sequence number has arrived.
    pub(crate) fn on_acked(&mut self, sequence: u64) {
        // An older one says nothing: of those after it, the peer may have taken any.
        if self.is_newest(sequence) {
            self.in_flight = false;
            self.pending = false;
            self.current = self.asked.max_ack_delay;
            self.unacked = Duration::ZERO;
            self.threshold = self.asked.ack_eliciting_threshold;
        }
    }

    /// The frame with this sequence number was lost, or may be.
    pub(crate) fn on_lost(&mut self, sequence: u64) {
        if self.is_newest(sequence) && self.in_flight {
            self.in_flight = false;
            self.pending = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn sender(config: AckFrequencyConfig) -> AckFrequency {
        let mut sender = AckFrequency::new(ms(25), Some(config), ms(0));
        sender.set_peer(&TransportParameters {
            min_ack_delay_us: Some(5000),
            ..TransportParameters::default()
        });
        sender
    }

    const fn paths(rtt: Duration, round: u64) -> PathsInUse {
        PathsInUse {
            rtt,
            round,
            burst: u64::MAX,
            starting: false,
            by_rate: false,
            several: false,
        }
    }

    /// Sends what is pending, and returns it.
    fn send(sender: &mut AckFrequency) -> AckFrequencyFrame {
        let frame = sender.pending().unwrap();
        sender.on_sent();
        assert_eq!(sender.pending(), None);
        frame
    }

    //= specs/quic-ack-frequency.md#computation-of-probe-timeout-period
    //= type=test
    //# Until the packet carrying the ACK_FREQUENCY frame is acknowledged, the endpoint
    //# MUST use the greater of the current max_ack_delay and the value that is in flight
    //# when computing the PTO period.
    //= specs/quic-ack-frequency.md#computation-of-probe-timeout-period
    //= type=test
    //# When using max_ack_delay for PTO computations, endpoints MUST use
    //# the maximum of the current value and all those in flight.
    //= specs/quic-ack-frequency.md#ack-frequency-frame
    //= type=test
    //# A sending endpoint MUST send monotonically increasing values in
    //# the Sequence Number field to allow obsolete ACK_FREQUENCY frames to be
    //# ignored when packets are processed out of order.
    #[test]
    fn the_probe_timeout_counts_on_the_longest_delay_that_may_hold() {
        let mut config = AckFrequencyConfig::default();
        config.max_ack_delay(Some(ms(10)));
        let mut sender = sender(config);
        sender.update(paths(ms(800), 100));
        assert_eq!(sender.peer_max_ack_delay(), ms(25));
        assert_eq!(send(&mut sender).max_ack_delay, 10_000);
        assert_eq!(
            sender.peer_max_ack_delay(),
            ms(25),
            "shorter, not yet known"
        );
        sender.on_acked(0);
        assert_eq!(sender.peer_max_ack_delay(), ms(10));

        sender.config.as_mut().unwrap().max_ack_delay(Some(ms(80)));
        sender.update(paths(ms(800), 100));
        assert_eq!(sender.peer_max_ack_delay(), ms(10), "not sent yet");
        assert_eq!(send(&mut sender).sequence, 1);
        assert_eq!(sender.peer_max_ack_delay(), ms(80), "longer, perhaps");
        sender.on_lost(1);
        sender.on_lost(0);
        assert_eq!(
            sender.peer_max_ack_delay(),
            ms(80),
            "the loss may be spurious"
        );
        let again = send(&mut sender);
        assert_eq!((again.sequence, again.max_ack_delay), (2, 80_000));
        sender.on_acked(1);
        assert!(sender.in_flight, "2 is what counts");
        sender.on_acked(2);
        assert_eq!(sender.peer_max_ack_delay(), ms(80));
    }

    #[test]
    fn asks_for_what_suits_the_paths_and_only_if_it_matters() {
        let mut config = AckFrequencyConfig::default();
        config.ack_eliciting_threshold(20u32.into());
        let mut sender = sender(config);
        sender.update(paths(ms(80), 15));
        assert!(!sender.can_send(), "every second packet is as many");
        let starting = PathsInUse {
            starting: true,
            ..paths(ms(80), 1000)
        };
        sender.update(starting);
        assert!(!sender.can_send(), "slow start has all of them");
        sender.update(paths(ms(80), 24));
        let frame = send(&mut sender);
        assert_eq!(
            (
                frame.ack_eliciting_threshold,
                frame.max_ack_delay,
                frame.reordering_threshold
            ),
            (3, 10_000, 3)
        );
        sender.update(paths(ms(80), 1000));
        assert!(!sender.can_send(), "one at a time");
        sender.on_acked(0);
        sender.update(paths(ms(80), 24));
        sender.update(paths(ms(90), 30));
        assert!(!sender.can_send(), "nothing new");
        sender.update(paths(ms(80), 1000));
        assert_eq!(send(&mut sender).ack_eliciting_threshold, 20);
        sender.on_acked(1);
        sender.update(paths(ms(80), 1));
        let frame = send(&mut sender);
        assert_eq!(
            (
                frame.ack_eliciting_threshold,
                frame.max_ack_delay,
                frame.reordering_threshold
            ),
            (1, 25_000, 1),
            "as without"
        );
        sender.on_acked(2);
        sender.update(starting.and(paths(ms(80), 1000)));
        assert!(!sender.can_send(), "one of the paths starts");
        let short = PathsInUse {
            burst: 7,
            ..paths(ms(80), 1000)
        };
        sender.update(short.and(paths(ms(80), 1000)));
        assert_eq!(
            send(&mut sender).ack_eliciting_threshold,
            7,
            "its queue is short"
        );
        sender.on_acked(3);
        sender.update(PathsInUse { burst: 0, ..short });
        assert_eq!(send(&mut sender).ack_eliciting_threshold, 1, "as without");
    }

    /// What is asked for by itself leaves the peer's timers the time that they had before: probes come no sooner.
    #[test]
    fn probes_come_no_sooner_for_a_delay_that_nobody_chose() {
        let mut sender = sender(AckFrequencyConfig::default());
        sender.update(paths(ms(80), 1000));
        assert_eq!(send(&mut sender).max_ack_delay, 10_000);
        sender.on_acked(0);
        assert_eq!(sender.held_back(), ms(10));
        assert_eq!(sender.peer_max_ack_delay(), ms(25));
    }

    /// Without a word of the application, only what saves much and costs nothing is asked for.
    #[test]
    fn by_default_little_several_paths_and_what_goes_by_the_rate_are_left_alone() {
        let by_rate = PathsInUse {
            by_rate: true,
            ..paths(ms(80), 1000)
        };
        let one_of_two = PathsInUse {
            several: true,
            ..paths(ms(80), 1000)
        };
        let few = paths(ms(80), 31);
        for (careful, others) in [
            (true, [None, None, None]),
            (false, [Some(64), Some(64), Some(3)]),
        ] {
            for (paths, threshold) in [by_rate, one_of_two, few].into_iter().zip(others) {
                let mut sender = sender(AckFrequencyConfig {
                    careful,
                    ..AckFrequencyConfig::default()
                });
                sender.update(paths);
                let asked = sender.pending();
                assert_eq!(asked.map(|frame| frame.ack_eliciting_threshold), threshold);
            }
        }
        let mut sender = sender(AckFrequencyConfig::careful());
        sender.update(paths(ms(80), 32));
        assert_eq!(send(&mut sender).ack_eliciting_threshold, 4);
        sender.on_acked(0);
        sender.update(by_rate.and(paths(ms(80), 32)));
        assert_eq!(send(&mut sender).ack_eliciting_threshold, 1, "as without");
    }

    /// Who wants each packet acknowledged has that from the beginning.
    #[test]
    fn a_threshold_of_nothing_holds_in_slow_start_too() {
        let mut config = AckFrequencyConfig::default();
        config.ack_eliciting_threshold(0u32.into());
        let mut sender = sender(config);
        let starting = PathsInUse {
            starting: true,
            ..paths(ms(80), 4)
        };
        sender.update(starting);
        assert_eq!(send(&mut sender).ack_eliciting_threshold, 0);
        sender.on_acked(0);
        sender.update(paths(ms(80), 1000));
        assert_eq!(send(&mut sender).ack_eliciting_threshold, 0);
    }

    #[test]
    fn the_delay_stays_within_the_limits_of_paths_and_peer() {
        // Of few packets and of many.
        for (wanted, rtt, few, many) in [
            (ms(0), ms(100), ms(5), ms(5)),
            (ms(80), ms(200), ms(80), ms(25)),
            (ms(80), ms(40), ms(40), ms(5)),
            (ms(80), ms(1), ms(25), ms(5)),
            (
                Duration::MAX,
                Duration::MAX,
                MAX_ACK_DELAY_LIMIT - Duration::from_micros(1),
                MAX_ACK_DELAY_LIMIT - Duration::from_micros(1),
            ),
        ] {
            let mut config = AckFrequencyConfig::default();
            config.max_ack_delay(Some(wanted));
            for (round, requested) in [(1, few), (1000, many)] {
                let mut sender = sender(config);
                sender.update(paths(rtt, round));
                let asked = match sender.pending() {
                    Some(frame) => Duration::from_micros(frame.max_ack_delay),
                    // What holds is near enough.
                    None => ms(25),
                };
                assert_eq!(asked, requested);
                // A receiver of ours, whose min_ack_delay is shorter, takes it.
                if let Some(frame) = sender.pending() {
                    let mut receiver = AckFrequency::new(ms(25), None, ms(0));
                    assert_eq!(receiver.on_frame(&frame), Ok(()));
                    assert_eq!(receiver.policy().max_ack_delay, requested);
                }
            }
        }
    }

    #[test]
    fn nothing_is_asked_of_who_does_not_take_it_or_without_a_wish() {
        let mut sender = AckFrequency::new(ms(25), Some(AckFrequencyConfig::default()), ms(0));
        sender.set_peer(&TransportParameters::default());
        sender.update(paths(ms(50), 1000));
        assert!(!sender.is_wanted() && !sender.can_send() && !sender.is_in_use());
        let mut sender = AckFrequency::new(ms(25), None, ms(0));
        sender.set_peer(&TransportParameters {
            min_ack_delay_us: Some(1000),
            ..TransportParameters::default()
        });
        sender.update(paths(ms(50), 1000));
        assert!(!sender.is_wanted() && !sender.can_send() && !sender.is_in_use());
    }

    //= specs/quic-ack-frequency.md#ack-frequency-frame
    //= type=test
    //# A receiving endpoint MUST ignore a received ACK_FREQUENCY frame unless the
    //# Sequence Number value in the frame is greater than the largest processed
    //# value.
    #[test]
    fn an_obsolete_frame_changes_nothing() {
        let mut receiver = AckFrequency::new(ms(25), None, ms(0));
        let frame = |sequence, threshold| AckFrequencyFrame {
            sequence,
            ack_eliciting_threshold: threshold,
            max_ack_delay: 25_000,
            reordering_threshold: 1,
        };
        for (sequence, threshold, holds) in [(4, 10, 10), (4, 20, 10), (3, 30, 10), (5, 40, 40)] {
            receiver.on_frame(&frame(sequence, threshold)).unwrap();
            assert_eq!(receiver.policy().ack_eliciting_threshold, holds);
        }
    }

    //= specs/rfc9000.txt#section-18.2
    //= type=test
    //# This value
    //# SHOULD include the receiver's expected delays in alarms firing.
    #[test]
    fn timers_that_are_late_are_set_early() {
        let mut receiver = AckFrequency::new(ms(25), None, ms(2));
        assert_eq!(receiver.policy().max_ack_delay, ms(23));
        for (sequence, (asked, kept)) in [(100_000, 98_000), (3000, 1500)].into_iter().enumerate() {
            let frame = AckFrequencyFrame {
                sequence: sequence as u64,
                ack_eliciting_threshold: 1,
                max_ack_delay: asked,
                reordering_threshold: 1,
            };
            receiver.on_frame(&frame).unwrap();
            assert_eq!(receiver.policy().max_ack_delay, Duration::from_micros(kept));
        }
    }

    //= specs/quic-ack-frequency.md#nego
    //= type=test
    //# An endpoint's min_ack_delay MUST NOT be greater than its max_ack_delay.
    #[test]
    fn the_announced_minimum_is_below_the_maximum() {
        for us in [0, 1, 999, 1000, 25_999] {
            let max = Duration::from_micros(us);
            assert!(AckFrequency::min_ack_delay_us(max) <= max.as_millis() as u64 * 1000);
        }
    }
}
