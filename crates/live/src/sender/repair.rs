//! What is done once it is known over which path a frame went: repair takes another, and windows of others are made wide in time.

use std::time::Instant;

use super::datagram::{Cause, Held, Item, Sent, Transmit};
use super::flow::Frame;
use super::path::{Path, Standing};
use super::{MAX_DUE, Sender};
use crate::rlc::DENSE;
use crate::wire::write_repair_header;

/// Frames of fewer packets fit the first window of a path (RFC 9002 section 7.2).
pub(super) const WIDE: u32 = 10;

/// How often a frame goes over a path so that its window grows. Ours: it doubles each time.
const WIDENED: u8 = 6;

impl Sender {
    /// Lets go what has waited for its frame to leave.
    pub(super) fn release(&mut self, now: Instant) {
        while let Some(held) = self.held.front().copied() {
            let frame = self.flows.get_mut(held.flow as usize);
            let frame = frame.and_then(|flow| flow.frame_of(held.last)).copied();
            if held.until > now && frame.is_some_and(|frame| !frame.has_left()) {
                break;
            }
            self.held.pop_front();
            let Held { flow, last, .. } = held;
            match frame {
                _ if held.repairs => self.urgent.push_back(Item::Repair { flow, last }),
                Some(frame) if frame.has_left() => self.widen(now, flow, &frame),
                _ => {}
            }
        }
    }

    /// A path that has carried little has a window that is too small for a frame, and would need round trips for one when another path
    /// falls silent. So that it grows before, some frames also go there, as much of them as it has room for, and only a few times.
    fn widen(&mut self, now: Instant, flow: u32, frame: &Frame) {
        let len = self.config.max_datagram as u64;
        if self.cap(now) < 1.0 {
            return;
        }
        for path in &mut self.paths {
            let window = path.view.room + path.flying;
            let rested = path.widened_at.is_none_or(|at| now >= at + path.view.rtt);
            if frame.carried(path.view.id) > 0
                || path.view.backup
                || path.standing(now) != Standing::Well
                || path.widened == WIDENED
                || !rested
                || window >= u64::from(frame.parts) * len
            {
                continue;
            }
            path.widened += 1;
            path.widened_at = Some(now);
            let count = (path.view.room.saturating_sub(path.given) / len).min(frame.parts.into());
            for symbol in frame.first..frame.first + count {
                let Some(packet) = self.flows[flow as usize].packet(symbol) else {
                    continue;
                };
                packet.live += 1;
                self.urgent.push_back(Item::Again {
                    flow,
                    symbol,
                    path: path.view.id,
                    cause: Cause::Hedge,
                });
            }
        }
    }

    pub(super) fn repair(
        &mut self,
        now: Instant,
        flow: u32,
        last: u64,
        datagram: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let way = self.shortest_way();
        let len = self.config.max_datagram;
        let (first, count, deadline) = self.flows[flow as usize].window(now + way)?;
        let frame = self.flows[flow as usize].frame_of(last).copied();
        let carried = |path: &Path| {
            frame
                .as_ref()
                .map_or(0, |frame| frame.carried(path.view.id))
        };
        let will_do = |path: &Path| path.has_room(len) && path.arrival(now) <= deadline;
        let fewest = self
            .paths
            .iter()
            .filter(|path| path.standing(now) == Standing::Well && will_do(path))
            .map(carried)
            .min()
            .unwrap_or(0);
        let path = self
            .best(now, |path| will_do(path) && carried(path) == fewest)
            .or_else(|| self.best(now, |path| path.has_room(len)));
        let to = &mut self.flows[flow as usize];
        let Some(path) = path else {
            self.stats.repairs_skipped += 1;
            to.due = (to.due + 1.0).min(MAX_DUE);
            return None;
        };
        to.repair_key = to.repair_key.wrapping_add(1);
        write_repair_header(
            datagram,
            flow,
            to.repair_key,
            DENSE,
            count as u16,
            first as u32,
        );
        to.encoder
            .encode(first, count, to.repair_key, DENSE, datagram);
        to.extra_meter.add(now, datagram.len());
        self.stats.repair.add(datagram.len());
        let kind = Sent::beside(Some(flow));
        Some(self.transmit(
            now,
            Some(path),
            deadline - way,
            Cause::Repair,
            kind,
            datagram.len(),
        ))
    }
}
