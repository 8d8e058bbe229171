//! What schedulers have in common that leave a gap before what slower paths carry.

use super::{Fastest, Patience};
use crate::{Context, Data, Decision, PathView};

/// The fastest path with room; unless it is the fastest of all, with new data that lies
/// `gap(fastest of all, path)` bytes ahead.
///
/// What was lost is late already and has no gap, and control frames and datagrams have no place in
/// the order. If no more than the gap is left to send, the
/// fastest path is waited for, as long as `patience` lets it.
pub fn decide(
    cx: &Context<'_>,
    patience: &mut Patience,
    gap: impl FnOnce(&PathView, &PathView) -> u64,
) -> Decision {
    decide_between(Fastest::of(cx), cx, patience, gap)
}

/// [`decide`] for who knows the fastest paths already.
pub(crate) fn decide_between(
    fastest: Option<Fastest<'_>>,
    cx: &Context<'_>,
    patience: &mut Patience,
    gap: impl FnOnce(&PathView, &PathView) -> u64,
) -> Decision {
    let Some(Fastest {
        overall: fast,
        sendable: Some(path),
    }) = fastest
    else {
        return Decision::Wait { until: None };
    };
    let queue = cx.queue;
    let again = queue.retransmittable > 0 || queue.control;
    if path.index == fast.index || !path.has_rtt() || queue.unsent == 0 && !again {
        patience.end();
        return Decision::send(path.index);
    }
    if again {
        return Decision::send_data(path.index, Data::Retransmit);
    }
    let gap = gap(fast, path);
    if gap < queue.unsent {
        patience.end();
        return Decision::send_data(path.index, Data::Ahead(gap));
    }
    if let Some(wait) = patience.wait(cx.now, fast) {
        return wait;
    }
    Decision::send(path.index)
}
