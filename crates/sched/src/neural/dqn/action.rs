//! The seven actions: what each one does with a packet.

use std::time::{Duration, Instant};

use mpquic_bandit::Draw;

use crate::neural::Guard;
use crate::support::{Fastest, Patience, comes_back, usable};
use crate::{Context, Data, Decision, PathIndex, PathView};

/// What a path without an RTT sample is taken to have, seconds: kInitialRtt of RFC 9002, section 6.2.2.
const INITIAL_RTT: f64 = 0.333;

/// A way to place packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Action {
    /// Each packet on path 1 with this probability, else on path 2.
    Share(f64),
    /// As minRTT until so long after the decision, then on path 1.
    Narrow(Duration),
    /// On path 1.
    First,
    /// As minRTT.
    MinRtt,
}

/// In the order of the policy's outputs.
pub(super) const ACTIONS: [Action; 7] = [
    Action::Share(0.25),
    Action::Share(0.5),
    Action::Share(0.75),
    Action::Narrow(Duration::from_millis(15)),
    Action::Narrow(Duration::from_millis(30)),
    Action::First,
    Action::MinRtt,
];

/// The number of [`Action::MinRtt`], which is also what is done instead of an answer that cannot be followed.
pub(super) const MIN_RTT: usize = 6;

/// A draw between path 1 and path 2 whose path was full.
#[derive(Debug, Clone, Copy)]
struct Drawn {
    first: bool,
    at: Instant,
    /// Whether only a pacer held it up.
    paced: bool,
}

/// Does what the action in force says.
#[derive(Debug)]
pub(super) struct Actor {
    action: Action,
    /// Until when [`Action::Narrow`] is minRTT.
    wide_until: Option<Instant>,
    /// Path 1.
    first: Option<PathIndex>,
    drawn: Option<Drawn>,
    draw: Draw,
    patience: Patience,
}

impl Actor {
    /// minRTT until told otherwise; draws from the stream of this seed.
    pub(super) fn new(seed: u64) -> Self {
        Self {
            action: Action::MinRtt,
            wide_until: None,
            first: None,
            drawn: None,
            draw: Draw::new(seed),
            patience: Patience::default(),
        }
    }

    /// From now on it is this action, and `first` is path 1.
    pub(super) fn take_up(&mut self, now: Instant, action: usize, first: PathIndex) {
        self.action = ACTIONS[action];
        self.wide_until = match self.action {
            Action::Narrow(wide) => Some(now + wide),
            _ => None,
        };
        self.first = Some(first);
        self.drawn = None;
    }

    /// The next packet.
    #[inline]
    pub(super) fn decide(&mut self, cx: &Context<'_>, guard: &mut Guard) -> Decision {
        let is_min_rtt = match self.action {
            Action::MinRtt => true,
            Action::Narrow(_) => self.wide_until.is_some_and(|until| cx.now < until),
            Action::First | Action::Share(_) => false,
        };
        // The rules are about new data. What was lost is late already, and waits for no path.
        if is_min_rtt || cx.queue.unsent == 0 || cx.queue.window_left == 0 {
            return guard.decide(cx);
        }
        let Some(first) = self.first(cx) else {
            return Decision::Wait { until: None };
        };
        match self.action {
            Action::Share(share) => self.share(cx, first, share),
            _ if first.can_send => self.send(first),
            _ => self.hold(cx, first),
        }
    }

    /// Path 1: the one that was the fastest at the decision, or is now if that one may not be used any more.
    #[inline]
    fn first<'a>(&mut self, cx: &Context<'a>) -> Option<&'a PathView> {
        let first = self.first.and_then(|first| cx.path(first));
        match first {
            Some(path) if path.open && path.standing() == 0 => Some(path),
            _ => self.another_first(cx),
        }
    }

    #[cold]
    fn another_first<'a>(&mut self, cx: &Context<'a>) -> Option<&'a PathView> {
        let stays = usable(cx).find(|path| Some(path.index) == self.first);
        let first = stays.or_else(|| usable(cx).min_by_key(|path| path.rtt_rank()))?;
        self.first = Some(first.index);
        Some(first)
    }

    #[inline]
    fn share<'a>(&mut self, cx: &Context<'a>, first: &'a PathView, share: f64) -> Decision {
        let mut others = usable(cx).filter(|path| path.index != first.index);
        let Some(other) = others.next() else {
            return match first.can_send {
                true => self.send(first),
                false => self.hold(cx, first),
            };
        };
        let on_first = match self.drawn.take() {
            // What only its pacer holds back is in the path's window as far as the paper's stack knows; and who asks
            // twice at a time has nothing new to offer.
            Some(drawn) if drawn.paced || drawn.at == cx.now => drawn.first,
            _ => self.draw.chance(share),
        };
        let path = if on_first {
            first
        } else if others.next().is_none() {
            other
        } else {
            self.one_of_the_others(cx, first)
        };
        if path.can_send {
            return self.send(path);
        }
        self.drawn = Some(Drawn {
            first: on_first,
            at: cx.now,
            paced: path.next_release.is_some_and(|release| release > cx.now),
        });
        self.hold(cx, path)
    }

    /// Of several paths that are path 2 together, one with room, drawn in proportion to its window over its RTT; if none
    /// has, the one to wait for: the fastest that something is on its way on.
    fn one_of_the_others<'a>(&mut self, cx: &Context<'a>, first: &'a PathView) -> &'a PathView {
        let others = usable(cx).filter(|path| path.index != first.index);
        let rate = |path: &PathView| {
            let rtt = path.smoothed_rtt.as_secs_f64();
            path.cwnd as f64 / if rtt > 0.0 { rtt } else { INITIAL_RTT }
        };
        let with_room = others.clone().filter(|path| path.can_send);
        let sum: f64 = with_room.clone().map(rate).sum();
        let mut point = self.draw.unit() * sum;
        let mut chosen = None;
        for path in with_room {
            chosen = Some(path);
            point -= rate(path);
            if point < 0.0 {
                break;
            }
        }
        chosen
            .or_else(|| others.min_by_key(|path| (!comes_back(path), path.rtt_rank())))
            .unwrap_or(first)
    }

    #[inline]
    fn send(&mut self, path: &PathView) -> Decision {
        self.patience.end();
        self.drawn = None;
        Decision::send(path.index)
    }

    /// New data waits for `full`, as long as that lasts; what else there is goes where it can.
    fn hold(&mut self, cx: &Context<'_>, full: &PathView) -> Decision {
        let Some(Fastest {
            sendable: Some(other),
            ..
        }) = Fastest::of(cx)
        else {
            return Decision::Wait { until: None };
        };
        match self.patience.wait(cx.now, full) {
            Some(_) if cx.queue.retransmittable > 0 || cx.queue.control => {
                Decision::send_data(other.index, Data::Retransmit)
            }
            Some(wait) => wait,
            None => self.send(other),
        }
    }
}
