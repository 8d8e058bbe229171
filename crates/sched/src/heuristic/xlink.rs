//! XLINK: minRTT, and copies of what is in flight once nothing waits, as long as the player needs them.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::support::{Fastest, has_new_data, nanos};
use crate::{
    Context, Data, Decision, InvalidConfig, Scheduler, StreamHints, StreamId, StreamUpdate,
    StreamUpdateKind,
};

/// Streams whose deadlines are known at a time, at most: those with the earliest ones.
const STREAMS: usize = 16;

/// Sends as minRTT does, and reinjects when its queue is empty and little play time is left.
///
/// **Rule.** The path with room and the smallest smoothed RTT. Once nothing waits that the peer's window
/// allows, that path carries a copy of the oldest data in flight on other paths that it has not
/// carried ([`Data::Reinject`]), then the next path with room, if the play time left asks for it: with
/// Δt the time to the earliest deadline of the streams that are not fully acknowledged,
///
/// ```text
/// Δt < T1            copies
/// Δt > T2            no copies
/// T1 ≤ Δt ≤ T2       copies if Δt < max (R_i + s_i)   over the paths with something in flight
/// ```
///
/// where R are the smoothed RTTs and s their variations: copies are for what may come too late.
///
/// **Source.** Zheng et al., "XLINK: QoE-Driven Multi-Path QUIC Transport in Large-scale Video
/// Services" (SIGCOMM 2021), section 5 (the double threshold), read in two summaries of it; xquic, `src/transport/reinjection_control/`,
/// for what is copied and when: only with an empty send queue, not a second time, and not on the same path.
/// Read in two ways: the paper's Δt is what the player has buffered, from frames and bytes in the
/// client's feedback. Here it is a deadline that the application hints for each stream
/// ([`StreamHints::deadline`]), which for a chunk of video is when the buffer runs dry. The paper
/// takes T1 and T2 from the distribution of Δt among its users and prints no times: the defaults are ours.
///
/// **What is left out.** The priorities: XLINK puts the copies of an urgent stream, or of a video's first
/// frame, ahead of new data of a less urgent one, but [`Data::Reinject`] takes the oldest data of
/// any stream. The choice of the first path by the radio, and acknowledgements on the fastest path,
/// which the transport decides. With more than two paths, data may be copied once to each.
///
/// **Defects.** Copies are of no use to bulk data, which never runs dry, and at the end of each
/// object they are all that is in flight: without deadlines the cost is as large as the windows. The
/// transport's own copies of the last bytes do the same job under a budget; to look at XLINK alone, switch
/// them off.
///
/// **Cost.** Two walks over the slots, and one over 16 streams when nothing waits; 400 bytes of state.
///
/// ```
/// use std::time::{Duration, Instant};
/// use mpquic_sched::{Context, Data, Decision, PathView, QueueView, Scheduler, Xlink};
///
/// let paths = [80, 20].map(Duration::from_millis);
/// let paths = [PathView::of(0, paths[0]), PathView::of(1, paths[1])];
/// let mut queue = QueueView::default();
/// queue.in_flight = 10_000;
/// let decision = Xlink::default().decide(&Context::new(Instant::now(), &paths, &queue, 0));
/// assert_eq!(decision, Decision::send_data(paths[1].index, Data::Reinject));
///
/// (queue.unsent, queue.window_left) = (1000, 100_000);
/// let decision = Xlink::default().decide(&Context::new(Instant::now(), &paths, &queue, 1));
/// assert_eq!(decision, Decision::send(paths[1].index));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Xlink {
    config: XlinkConfig,
    deadlines: [Option<(StreamId, Instant)>; STREAMS],
    /// When copies may be called for that are not now.
    wakeup: Option<Instant>,
}

/// Settings of [`Xlink`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct XlinkConfig {
    /// T1, milliseconds: with less play time left, there are always copies. At most 3,600,000, default
    /// 500.
    pub always_below_ms: u64,
    /// T2, milliseconds: with more play time left, there are none. From T1 to 3,600,000, default 2000.
    pub never_above_ms: u64,
    /// Whether there are copies while no stream has a deadline. Default true: XLINK without the
    /// control by play time.
    pub unhinted: bool,
}

impl Default for XlinkConfig {
    fn default() -> Self {
        Self {
            always_below_ms: 500,
            never_above_ms: 2000,
            unhinted: true,
        }
    }
}

impl XlinkConfig {
    pub(crate) fn check(&self) -> Result<(), InvalidConfig> {
        const HOUR_MS: u64 = 3_600_000;
        let (low, high) = (self.always_below_ms, self.never_above_ms);
        if low > HOUR_MS {
            let expected = format!("expected 0 to {HOUR_MS}, got {low}");
            return Err(InvalidConfig::field("always_below_ms", expected));
        }
        if !(low..=HOUR_MS).contains(&high) {
            let expected = format!("expected {low} to {HOUR_MS}, got {high}");
            return Err(InvalidConfig::field("never_above_ms", expected));
        }
        Ok(())
    }
}

impl Xlink {
    /// A scheduler with these settings.
    pub fn new(config: &XlinkConfig) -> Self {
        Self {
            config: config.clone(),
            ..Self::default()
        }
    }

    /// Whether copies are called for now; if not, when they may be.
    fn wants_copies(&self, cx: &Context<'_>) -> (bool, Option<Instant>) {
        let deadlines = self.deadlines.iter().flatten();
        let Some(deadline) = deadlines.map(|(_, deadline)| *deadline).min() else {
            return (self.config.unhinted, None);
        };
        let low = Duration::from_millis(self.config.always_below_ms);
        let high = Duration::from_millis(self.config.never_above_ms);
        let busy = cx.open().filter(|path| path.in_flight > 0);
        let delivery = busy.map(|path| nanos(path.smoothed_rtt) + nanos(path.rtt_var));
        let delivery = Duration::from_nanos(delivery.fold(0.0, f64::max) as u64);
        let left = deadline.saturating_duration_since(cx.now);
        // Less than this is little enough, one way or the other.
        let enough = low.max(delivery.min(high));
        if left < enough {
            return (true, None);
        }
        // A little later than at the threshold itself, where nothing changes yet.
        let until = left - enough + Duration::from_micros(1);
        (false, cx.now.checked_add(until))
    }

    fn forget(&mut self, stream: StreamId) {
        for place in &mut self.deadlines {
            if place.is_some_and(|(id, _)| id == stream) {
                *place = None;
            }
        }
    }

    fn hinted(&mut self, stream: StreamId, hints: &StreamHints) {
        self.forget(stream);
        let Some(deadline) = hints.deadline else {
            return;
        };
        // A free place, or that of the latest deadline.
        let place = self.deadlines.iter_mut().max_by_key(|place| {
            place.map_or((true, None), |(_, deadline)| (false, Some(deadline)))
        });
        if let Some(place) = place
            && place.is_none_or(|(_, latest)| deadline < latest)
        {
            *place = Some((stream, deadline));
        }
    }
}

impl Scheduler for Xlink {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        self.wakeup = None;
        let Some(path) = Fastest::of(cx).and_then(|fastest| fastest.sendable) else {
            return Decision::Wait { until: None };
        };
        let waiting = has_new_data(cx) || cx.queue.retransmittable > 0 || cx.queue.control;
        if waiting || cx.queue.in_flight == 0 {
            return Decision::send(path.index);
        }
        let (copies, wakeup) = self.wants_copies(cx);
        self.wakeup = wakeup;
        let data = if copies { Data::Reinject } else { Data::Next };
        Decision::send_data(path.index, data)
    }

    fn on_stream(&mut self, event: &StreamUpdate) {
        match &event.kind {
            StreamUpdateKind::Hint(hints) => self.hinted(event.id, hints),
            StreamUpdateKind::FullyAcked | StreamUpdateKind::Reset => self.forget(event.id),
            _ => {}
        }
    }

    fn next_wakeup(&self) -> Option<Instant> {
        self.wakeup
    }

    fn on_wakeup(&mut self, _cx: &Context<'_>) {
        self.wakeup = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PathView, QueueView, VarInt};

    const MS: Duration = Duration::from_millis(1);

    fn stream(number: u32) -> StreamId {
        VarInt::from_u32(number).into()
    }

    struct Player {
        scheduler: Xlink,
        now: Instant,
        paths: [PathView; 2],
        queue: QueueView,
    }

    impl Player {
        /// Nothing waits, 100 ms and 700 ms until what is in flight is acknowledged.
        fn new() -> Self {
            let path = |slot, rtt, var| {
                changed!(
                    PathView::of(slot, MS * rtt),
                    rtt_var = MS * var,
                    in_flight = 10_000
                )
            };
            Self {
                scheduler: Xlink::default(),
                now: Instant::now(),
                paths: [path(0, 600, 100), path(1, 80, 20)],
                queue: changed!(QueueView::default(), in_flight = 20_000),
            }
        }

        fn hint(&mut self, number: u32, after_ms: u32) -> &mut Self {
            let hints = StreamHints {
                deadline: Some(self.now + MS * after_ms),
                ..StreamHints::default()
            };
            let hint = StreamUpdateKind::Hint(hints);
            self.tell(number, hint)
        }

        fn tell(&mut self, number: u32, kind: StreamUpdateKind) -> &mut Self {
            let event = StreamUpdate::new(stream(number), kind);
            self.scheduler.on_stream(&event);
            self
        }

        fn decide(&mut self) -> (usize, Data) {
            let cx = Context::new(self.now, &self.paths, &self.queue, 0);
            match self.scheduler.decide(&cx) {
                Decision::Send { path, data, .. } => (path.get(), data),
                Decision::Wait { .. } => panic!("waits"),
            }
        }
    }

    #[test]
    fn copies_only_once_nothing_waits() {
        let mut player = Player::new();
        assert_eq!(player.decide(), (1, Data::Reinject));
        player.paths[1].can_send = false;
        assert_eq!(player.decide(), (0, Data::Reinject));
        player.queue.retransmittable = 1;
        assert_eq!(player.decide(), (0, Data::Next));
        (player.queue.retransmittable, player.queue.control) = (0, true);
        assert_eq!(player.decide(), (0, Data::Next));
        player.queue.control = false;
        (player.queue.unsent, player.queue.window_left) = (1000, 1);
        assert_eq!(player.decide(), (0, Data::Next));
        // Held back by the peer's window, it does not wait in the send queue.
        player.queue.window_left = 0;
        assert_eq!(player.decide(), (0, Data::Reinject));
        player.queue.in_flight = 0;
        assert_eq!(player.decide(), (0, Data::Next));
    }

    #[test]
    fn the_play_time_left_decides_by_two_thresholds() {
        let data = |after_ms| Player::new().hint(1, after_ms).decide().1;
        assert_eq!(data(499), Data::Reinject);
        assert_eq!(data(2001), Data::Next);
        // In between, what the slower of the busy paths needs: 600 + 100 ms.
        assert_eq!(data(699), Data::Reinject);
        assert_eq!(data(700), Data::Next);
        let mut player = Player::new();
        player.paths[0].in_flight = 0;
        assert_eq!(player.hint(1, 501).decide().1, Data::Next);
        assert_eq!(player.hint(1, 499).decide().1, Data::Reinject);
        // Nor do long delays count above the upper threshold.
        let mut player = Player::new();
        player.paths[0].smoothed_rtt = MS * 5000;
        assert_eq!(player.hint(1, 2001).decide().1, Data::Next);
        assert_eq!(player.hint(1, 1999).decide().1, Data::Reinject);
    }

    #[test]
    fn it_wakes_up_when_the_time_has_come() {
        let mut player = Player::new();
        player.hint(1, 1000).decide();
        let wakeup = player.scheduler.next_wakeup().expect("later");
        assert_eq!(wakeup, player.now + 300 * MS + Duration::from_micros(1));
        player.now = wakeup;
        assert_eq!(player.decide().1, Data::Reinject);
        assert_eq!(player.scheduler.next_wakeup(), None);
    }

    #[test]
    fn the_earliest_deadline_counts_until_its_stream_is_through() {
        let mut player = Player::new();
        player.hint(1, 5000).hint(2, 100);
        assert_eq!(player.decide().1, Data::Reinject);
        assert_eq!(
            player.tell(2, StreamUpdateKind::FullyAcked).decide().1,
            Data::Next
        );
        assert_eq!(player.hint(1, 100).decide().1, Data::Reinject);
        assert_eq!(player.hint(1, 5000).decide().1, Data::Next);
        // Without any, the setting decides.
        assert_eq!(
            player.tell(1, StreamUpdateKind::Reset).decide().1,
            Data::Reinject
        );
        player.scheduler.config.unhinted = false;
        assert_eq!(player.decide().1, Data::Next);
        // Of more than there is room for, the latest go.
        for number in 0..40 {
            player.hint(number, 40_000 - number);
        }
        player.hint(50, 100);
        assert_eq!(player.decide().1, Data::Reinject);
        player.tell(50, StreamUpdateKind::FullyAcked);
        for number in 26..40 {
            player.tell(number, StreamUpdateKind::FullyAcked);
        }
        assert_eq!(player.scheduler.deadlines.iter().flatten().count(), 1);
    }
}
