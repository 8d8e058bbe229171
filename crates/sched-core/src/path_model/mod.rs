//! What is known of a path's way, estimated in one place from what is sent and acknowledged; the views show it to all.

mod base;
mod others;

use std::time::{Duration, Instant};

use crate::PathView;
use base::Base;
use others::{Others, is_fresh};

/// What an acknowledgement shows of a path that gave an RTT sample.
#[derive(Debug, Clone, Copy)]
pub struct RoundTrip {
    /// When it came.
    pub now: Instant,
    /// When the newest packet that it acknowledges left.
    pub sent: Instant,
    /// Bytes that came on the path so far.
    pub received: u64,
    /// The RTT sample as it was measured (RFC 9002 section 5.1).
    pub rtt: Duration,
    /// How long the peer says that it held the acknowledgement back.
    pub ack_delay: Duration,
    /// The smoothed RTT.
    pub smoothed_rtt: Duration,
    /// Bytes in flight before the packet that it acknowledges, when that left.
    pub ahead: u64,
    /// The estimate of the delivery rate, bytes per second; 0 before the first.
    pub delivery_rate: u64,
    /// The congestion window, bytes.
    pub window: u64,
    /// If the acknowledgement came on another path (RFC 10069, Computing Path RTT): the round trip of that one without a queue;
    /// zero if nothing is known of it.
    pub back: Option<Duration>,
}

/// What is known of one path's way: the round trip without a queue, and the queue that others have put there.
///
/// The transport keeps one for each path, tells it of each round trip, and shows what it says in the path's [`PathView`].
#[derive(Debug, Clone, Default)]
pub struct PathModel {
    base: Base,
    others: Others,
    /// One packet at a time: when it left, and the bytes that had come on the path until then.
    followed: Option<(Instant, u64)>,
    /// When one of them came on whose way hardly anything came on the path, and the queue of others then.
    foreign: Option<(Instant, Duration)>,
}

/// So many bytes of the peer put no queue on a path that is worth telling.
const QUIET: u64 = 4 * 1500;

impl PathModel {
    /// A packet left that will be acknowledged; `received`: bytes that came on the path so far.
    #[inline]
    pub fn on_sent(&mut self, now: Instant, received: u64) {
        self.followed.get_or_insert((now, received));
    }

    /// An acknowledgement gave an RTT sample.
    #[inline]
    pub fn on_round_trip(&mut self, event: &RoundTrip) {
        let heard = self.followed.filter(|(sent, _)| event.sent >= *sent);
        self.sample(event);
        if let Some((sent, received)) = heard {
            self.followed = None;
            if event.sent == sent && event.received.saturating_sub(received) <= QUIET {
                let queue = self.others.at(event.now, event.smoothed_rtt).0;
                self.foreign = Some((event.now, queue));
            }
        }
    }

    #[inline]
    fn sample(&mut self, event: &RoundTrip) {
        let Some(back) = event.back else {
            let base = self.base.update(event.now, event.rtt);
            self.others.update(event, base);
            return;
        };
        let base = self.base.get();
        if base.is_zero() || back.is_zero() {
            return;
        }
        // Nothing stands on the other way back, or it would not be used: what is above the two halves is in our direction.
        let rtt = (event.rtt + base / 2).saturating_sub(back / 2);
        self.others.update(&RoundTrip { rtt, ..*event }, base);
    }

    /// The round trip without a queue; zero before the first sample.
    #[inline]
    pub fn base(&self) -> Duration {
        self.base.get()
    }

    /// The queue that others are believed to have put there, and not the peer's own data: when it was seen, hardly anything came
    /// on the path.
    #[inline]
    pub fn foreign(&self, now: Instant, smoothed_rtt: Duration) -> Duration {
        match self.foreign {
            Some((at, queue)) if !queue.is_zero() && is_fresh(now, at, smoothed_rtt) => queue,
            _ => Duration::ZERO,
        }
    }

    /// An acknowledgement of a handshake packet gave an RTT sample. It says how long the path is, but not what stands on it: who
    /// answers it has work to do first.
    pub fn on_handshake(&mut self, now: Instant, rtt: Duration) {
        self.base.update(now, rtt);
    }

    /// Shows what is known.
    #[inline]
    pub fn show(&self, now: Instant, view: &mut PathView) {
        view.base_rtt = self.base.get();
        (view.others_queue, view.others_seen) = self.others.at(now, view.smoothed_rtt);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// What a path of 20 ms shows whose acknowledgements take so long, over another path of 32 ms since the third.
    fn seen(rtts: [u64; 6], back: u64) -> Duration {
        let mut model = PathModel::default();
        let mut event = RoundTrip {
            now: Instant::now(),
            sent: Instant::now(),
            received: 0,
            rtt: ms(20),
            ack_delay: ms(0),
            smoothed_rtt: ms(20),
            ahead: 0,
            delivery_rate: 1_000_000,
            window: 20_000,
            back: None,
        };
        for (number, rtt) in rtts.into_iter().enumerate() {
            event.now += ms(20);
            event.rtt = ms(rtt);
            event.back = (number >= 3).then_some(ms(back));
            model.on_round_trip(&event);
        }
        assert_eq!(model.base(), ms(20));
        let (queue, _) = model.others.at(event.now, ms(20));
        // A float of 24 bits rounds.
        Duration::from_millis((queue.as_secs_f64() * 1e3).round() as u64)
    }

    #[test]
    fn what_the_peer_sends_meanwhile_is_a_queue_of_its_own() {
        for (received, foreign) in [(QUIET, ms(40)), (QUIET + 1, ms(0))] {
            let mut model = PathModel::default();
            let mut now = Instant::now();
            for rtt in [20, 20, 20, 60] {
                model.on_sent(now, 1000);
                // Of one packet at a time.
                model.on_sent(now + ms(1), 500_000);
                let sent = now;
                now += ms(rtt);
                model.on_round_trip(&RoundTrip {
                    now,
                    sent,
                    received: 1000 + received,
                    rtt: ms(rtt),
                    ack_delay: ms(0),
                    smoothed_rtt: ms(20),
                    ahead: 0,
                    delivery_rate: 1_000_000,
                    window: 20_000,
                    back: None,
                });
            }
            let seen = model.foreign(now, ms(20)).as_secs_f64() * 1e3;
            assert_eq!(ms(seen.round() as u64), foreign);
        }
    }

    #[test]
    fn a_queue_in_the_other_direction_is_none_once_acknowledgements_take_another_path() {
        // 40 ms stand in the peer's direction: 10 ms there, and 16 back.
        assert_eq!(seen([20, 20, 60, 26, 26, 26], 32), ms(0));
        // In ours: 50 ms there, and 16 back.
        assert_eq!(seen([20, 20, 60, 66, 66, 66], 32), ms(40));
        // Of a path of which nothing is known, nothing follows.
        assert_eq!(seen([20, 20, 60, 26, 26, 26], 0), ms(40));
    }
}
