//! The order of paths that most rules start from: usable ones, fastest first.

use crate::{Context, PathView};

/// Bytes of a full packet that are not stream data: short header with an 8-byte connection ID and a
/// packet number of 2, a STREAM frame's header with an offset of 4, and the AEAD's tag of 16. What
/// differs from that by a few bytes makes a gap of packets a little longer or shorter.
const OVERHEAD: u16 = 35;

/// The open paths with the best standing, with room or without, in ascending order of their slots:
/// of these, [`Context::sendable`] are the ones with room.
pub fn usable<'a>(cx: &Context<'a>) -> impl Iterator<Item = &'a PathView> + Clone + use<'a> {
    let best = cx.open().map(PathView::standing).min();
    let is_usable = move |path: &&PathView| path.open && Some(path.standing()) == best;
    cx.paths.iter().filter(is_usable)
}

/// The fast path and the slow one: the fastest of all paths that are usable, and the fastest of those with
/// room, which is the same one if it has room. Fast means a small smoothed RTT, as
/// [`PathView::rtt_rank`] orders them; of equals, the lowest slot.
#[derive(Debug, Clone, Copy)]
pub struct Fastest<'a> {
    /// With room or without.
    pub overall: &'a PathView,
    /// With room, if any has.
    pub sendable: Option<&'a PathView>,
}

impl<'a> Fastest<'a> {
    /// One walk over the slots. `None` if no path is open.
    #[inline]
    pub fn of(cx: &Context<'a>) -> Option<Self> {
        let (_, overall, _, sendable) = cx.fold_usable(
            || (u64::MAX, None, u64::MAX, None),
            |(least, overall, least_ready, sendable), path| {
                let rank = path.rtt_rank();
                if rank < *least {
                    *least = rank;
                    *overall = Some(path);
                }
                let rank = if path.can_send { rank } else { u64::MAX };
                if rank < *least_ready {
                    *least_ready = rank;
                    *sendable = Some(path);
                }
            },
        );
        let overall = overall?;
        Some(Self { overall, sendable })
    }
}

/// About how much stream data a full packet carries on a path, bytes; never 0.
pub const fn payload(path: &PathView) -> u64 {
    let bytes = path.mtu.saturating_sub(OVERHEAD);
    if bytes == 0 { 1 } else { bytes as u64 }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::{PathStatus, QueueView};

    #[test]
    fn the_fastest_with_room_and_without() {
        let view = |slot, rtt, can_send| {
            changed!(
                PathView::of(slot, Duration::from_millis(rtt)),
                can_send = can_send
            )
        };
        let queue = QueueView::default();
        let fastest = |paths: &[PathView]| {
            let cx = Context::new(Instant::now(), paths, &queue, 0);
            Fastest::of(&cx).map(|fastest| {
                let sendable = fastest.sendable.map(|path| path.index.get());
                (fastest.overall.index.get(), sendable)
            })
        };
        assert_eq!(fastest(&[]), None);
        let mut paths = [view(0, 30, true), view(1, 10, false), view(2, 20, true)];
        assert_eq!(fastest(&paths), Some((1, Some(2))));
        paths[1].can_send = true;
        assert_eq!(fastest(&paths), Some((1, Some(1))));
        paths[1].status = PathStatus::Backup;
        assert_eq!(fastest(&paths), Some((2, Some(2))));
        for path in &mut paths {
            path.can_send = false;
        }
        assert_eq!(fastest(&paths), Some((2, None)));
    }
}
