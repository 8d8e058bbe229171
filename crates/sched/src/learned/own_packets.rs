//! Finds the packet of a ledger that an acknowledgement is for.

use crate::PathIndex;

/// The newest packets of new data, by the decision that asked for them: a ring in the order of the decisions.
#[derive(Debug, Clone)]
pub(super) struct OwnPackets {
    slots: Box<[Packet]>,
    /// Where the next one goes, counted through.
    end: usize,
}

#[derive(Debug, Clone, Copy)]
struct Packet {
    decision: u64,
    path: PathIndex,
    /// The ledger's.
    number: u64,
}

impl OwnPackets {
    /// Room for so many, at least one.
    pub(super) fn new(room: usize) -> Self {
        const NONE: Packet = Packet {
            decision: 0,
            path: PathIndex::new(0).unwrap(),
            number: 0,
        };
        Self {
            slots: vec![NONE; room.max(1)].into_boxed_slice(),
            end: 0,
        }
    }

    /// A packet left that has this number in the ledger. Decisions come in their order.
    #[inline]
    pub(super) fn push(&mut self, decision: u64, path: PathIndex, number: u64) {
        let place = self.end % self.slots.len();
        self.slots[place] = Packet {
            decision,
            path,
            number,
        };
        self.end += 1;
    }

    /// The number of the packet that this decision sent on this path. A copy on another path is not it.
    #[inline]
    pub(super) fn number(&self, decision: u64, path: PathIndex) -> Option<u64> {
        let at = |place: usize| &self.slots[place % self.slots.len()];
        let (mut low, mut high) = (self.end.saturating_sub(self.slots.len()), self.end);
        while low < high {
            let middle = low + (high - low) / 2;
            if at(middle).decision < decision {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let packet = (low < self.end).then(|| at(low))?;
        (packet.decision == decision && packet.path == path).then_some(packet.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_found_by_its_decision_and_path_while_there_is_room() {
        let slot = |slot| PathIndex::new(slot).unwrap();
        let mut own = OwnPackets::new(3);
        assert_eq!(own.number(0, slot(0)), None);
        for (number, decision) in [(10, 4), (11, 5), (12, 8), (13, 9)] {
            own.push(decision, slot(decision as usize % 2), number);
        }
        let found =
            [4, 5, 6, 8, 9, 10].map(|decision| own.number(decision, slot(decision as usize % 2)));
        assert_eq!(found, [None, Some(11), None, Some(12), Some(13), None]);
        // Its copy on the other path.
        assert_eq!(own.number(8, slot(1)), None);
    }
}
