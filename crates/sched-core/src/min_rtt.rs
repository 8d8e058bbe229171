//! minRTT: the path with the smallest smoothed RTT; looks at no queue and never waits.

use std::time::Instant;

use crate::{Context, Decision, PathIndex, PathView, Scheduler};

/// Sends on the path with the smallest smoothed RTT that has room.
///
/// **Rule.** Among the paths of [`Context::sendable`], the one with the smallest
/// [`smoothed_rtt`](PathView::smoothed_rtt); of equals, the one with the lowest slot. A path
/// without an RTT sample comes after every path with one; among such paths the one with the
/// fewest packets sent goes first. No path has room: wait for the next event.
///
/// **Pacing.** The kernel's scheduler tests the window alone, and pacing happens below it: what
/// fits the fast path's window has been given to that path, however long the pacer takes over it.
/// Here the pacer is part of [`can_send`](PathView::can_send), and falling through to a slower path
/// whenever it holds for a millisecond would be a spill that the rule does not know. So if faster
/// paths are held back by their pacers only, and their windows have room for all that is to be
/// sent, it waits for the first of them. With more to send than that, the rest would go to the
/// slower path in the kernel, too, and does so here at once. With
/// [`wait_for_pacer`](MinRttConfig::wait_for_pacer) off, a path that its pacer holds back is one without room.
///
/// **Source.** The default scheduler of Linux MPTCP (v0.95, `mptcp_sched.c`), and "lowRTT" of
/// mp-quic. There, ties fall as a hash map happens to be ordered, and packets on paths without a
/// sample are duplicated; path validation (RFC 9000 section 8.2) gives the first sample here, so
/// nothing needs to be.
///
/// **Cost.** One walk over the slots, once for all packets of a batch that go on a path with an RTT sample.
///
/// ```
/// use std::time::{Duration, Instant};
/// use mpquic_sched_core::{Context, Decision, MinRtt, PathView, QueueView, Scheduler};
///
/// let ms = Duration::from_millis;
/// let mut paths = [PathView::of(0, ms(40)), PathView::of(1, ms(15))];
/// let queue = QueueView::default();
///
/// let mut scheduler = MinRtt::default();
/// let decision = scheduler.decide(&Context::new(Instant::now(), &paths, &queue, 0));
/// assert_eq!(decision, Decision::send(paths[1].index));
///
/// paths[1].can_send = false; // its window is full
/// let decision = scheduler.decide(&Context::new(Instant::now(), &paths, &queue, 1));
/// assert_eq!(decision, Decision::send(paths[0].index));
/// ```
#[derive(Debug, Clone, Default)]
pub struct MinRtt {
    config: MinRttConfig,
    /// The last answer was to wait for a pacer.
    waits: bool,
    /// The last decision stands for as long as its path can send.
    stands: bool,
}

/// Settings of [`MinRtt`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields, default)
)]
pub struct MinRttConfig {
    /// Whether a faster path that only its pacer holds back is waited for, if its window has room for all that is to be
    /// sent. Default true. False is the kernel's rule to the letter, where there is no pacer above the scheduler.
    pub wait_for_pacer: bool,
}

impl Default for MinRttConfig {
    fn default() -> Self {
        Self {
            wait_for_pacer: true,
        }
    }
}

impl MinRtt {
    /// A scheduler with these settings.
    pub const fn new(config: &MinRttConfig) -> Self {
        let MinRttConfig { wait_for_pacer } = *config;
        Self {
            config: MinRttConfig { wait_for_pacer },
            waits: false,
            stands: false,
        }
    }

    /// The decision where paths differ in more than what was measured of them: one is a backup or in trouble, has no RTT
    /// sample, or is held back by its pacer.
    ///
    /// Not inlined: a decision without all that would save and restore the registers that this takes.
    #[inline(never)]
    fn decide_otherwise(&mut self, cx: &Context<'_>) -> Decision {
        let nothing = || Best {
            rank: u64::MAX,
            path: None,
            paced: false,
        };
        let best = cx.fold_usable(nothing, |best, path| {
            best.paced |= path.next_release.is_some();
            let rank = if path.can_send {
                path.rtt_rank()
            } else {
                u64::MAX
            };
            if rank < best.rank {
                best.rank = rank;
                best.path = Some(path);
            }
        });
        // What may wait for a pacer depends on the queue.
        self.stands = !best.paced && best.rank < PathView::UNTESTED;
        let Some(path) = best.path else {
            return Decision::Wait { until: None };
        };
        if best.paced {
            return self.decide_paced(cx, path, best.rank);
        }
        Decision::send(path.index)
    }

    /// The decision for `path`, which is the best with room and has this rank, while a pacer holds a path back.
    fn decide_paced(&mut self, cx: &Context<'_>, path: &PathView, rank: u64) -> Decision {
        if self.config.wait_for_pacer
            && let Some(release) = awaited(cx, path.standing(), rank)
        {
            self.waits = true;
            return Decision::Wait {
                until: Some(release),
            };
        }
        Decision::send(path.index)
    }
}

impl Scheduler for MinRtt {
    fn follows_streams(&self) -> bool {
        false
    }

    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        self.waits = false;
        // The minimum over `cx.sendable()`, in one walk, as long as all open paths are available, healthy and measured, and
        // no pacer holds any back.
        let (mut least, mut fastest) = (u64::MAX, PathIndex::FIRST);
        for path in cx.open() {
            let rtt = path.packed_rtt();
            if path.standing() != 0 || rtt == 0 || path.next_release.is_some() {
                return self.decide_otherwise(cx);
            }
            let rank = if path.can_send { rtt } else { u64::MAX };
            if rank < least {
                (least, fastest) = (rank, path.index);
            }
        }
        // Packets change no RTT that was measured.
        self.stands = least < u64::MAX;
        if !self.stands {
            return Decision::Wait { until: None };
        }
        Decision::send(fastest)
    }

    fn why(&self) -> Option<&'static str> {
        Some(match self.waits {
            true => "a faster path's pacer opens soon",
            false => "fastest with room",
        })
    }

    fn run(&self) -> u32 {
        if self.stands { u32::MAX } else { 1 }
    }
}

/// The best path with room so far.
struct Best<'a> {
    rank: u64,
    path: Option<&'a PathView>,
    /// Whether a pacer holds any path back.
    paced: bool,
}

/// When the first of the paths of this standing and of a better rank that only their pacers hold
/// back opens, if their windows have room for all there is to send.
fn awaited(cx: &Context<'_>, standing: u8, best: u64) -> Option<Instant> {
    let mut room = 0_u64;
    let mut release = None;
    for path in cx.open() {
        let Some(opens) = path.next_release else {
            continue;
        };
        if path.can_send || path.standing() != standing || path.rtt_rank() >= best {
            continue;
        }
        room = room.saturating_add(path.window_left());
        release = Some(release.map_or(opens, |other: Instant| other.min(opens)));
    }
    let queue = cx.queue;
    let new = queue.unsent.min(queue.window_left);
    // One that should have opened by now is as good as blocked by something else.
    release.filter(|opens| *opens > cx.now && new.saturating_add(queue.retransmittable) <= room)
}
