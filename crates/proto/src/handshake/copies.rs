//! The local addresses that one attempt begins on, and the copies of its first datagrams that go out from them.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use mpquic_sched_core::EcnCodepoint;
use smallvec::SmallVec;

use crate::{FourTuple, Transmit, limits};

/// Packets of which it is remembered when a copy of them left, per address: what a first flight has.
const REMEMBERED: usize = 4;

/// An address that the attempt may begin on.
#[derive(Debug)]
struct Candidate {
    tuple: FourTuple,
    /// When its first copy leaves.
    start: Instant,
    /// The number of the datagram that is to be copied next.
    next: u64,
    /// Why nothing can be sent from there.
    refused: Option<String>,
    /// When which packets left from there.
    sent: SmallVec<[(u64, Instant); REMEMBERED]>,
}

/// A datagram that is to be copied.
#[derive(Debug)]
struct Datagram {
    packet: u64,
    ecn: Option<EcnCodepoint>,
    bytes: Vec<u8>,
}

/// The addresses, and the datagrams that are not copied to all of them yet.
#[derive(Debug)]
pub(crate) struct Copies {
    /// In the order in which they were given.
    candidates: SmallVec<[Candidate; 2]>,
    /// The index of the one that the path has.
    current: usize,
    /// The server's first answer came there.
    answered: bool,
    flight: VecDeque<Datagram>,
    /// The number of the first in `flight`.
    first: u64,
}

/// What the first answer of the server tells.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) tuple: FourTuple,
    /// When which packets left from there.
    pub(crate) sent: SmallVec<[(u64, Instant); REMEMBERED]>,
}

impl Copies {
    /// `lead`: how much later all others begin than the first address; `stagger`: how much later each begins than the one before it,
    /// in addition.
    pub(crate) fn new(
        now: Instant,
        tuples: &[FourTuple],
        lead: Duration,
        stagger: Duration,
    ) -> Self {
        let tuples = tuples.iter().take(limits::MAX_RACE_ADDRESSES);
        let candidates = tuples.enumerate().map(|(number, tuple)| Candidate {
            tuple: *tuple,
            start: now + lead * u32::from(number > 0) + stagger * number as u32,
            next: 0,
            refused: None,
            sent: SmallVec::new(),
        });
        Self {
            candidates: candidates.collect(),
            current: 0,
            answered: false,
            flight: VecDeque::new(),
            first: 0,
        }
    }

    /// Whether the server's first answer has decided on an address.
    pub(crate) fn is_answered(&self) -> bool {
        self.answered
    }

    /// The addresses from which something can be sent.
    fn live(&self) -> impl Iterator<Item = (usize, &Candidate)> {
        let all = self.candidates.iter().enumerate();
        all.filter(|(_, candidate)| candidate.refused.is_none())
    }

    /// A datagram leaves from the address of the path: the others are to send it, too.
    pub(crate) fn push(
        &mut self,
        now: Instant,
        packet: u64,
        ecn: Option<EcnCodepoint>,
        bytes: &[u8],
    ) {
        let end = self.first + self.flight.len() as u64;
        if let Some(current) = self.candidates.get_mut(self.current) {
            current.note(packet, now);
            if current.next == end {
                current.next = end + 1;
            }
        }
        self.flight.push_back(Datagram {
            packet,
            ecn,
            bytes: bytes.to_vec(),
        });
        if self.flight.len() > limits::MAX_RACE_DATAGRAMS {
            self.flight.pop_front();
            self.first += 1;
        }
        self.forget_copied();
    }

    /// The next copy that is due, written to the end of `buf`.
    pub(crate) fn poll_transmit(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Transmit> {
        let (first, end) = (self.first, self.first + self.flight.len() as u64);
        let mut candidates = self.candidates.iter_mut();
        let candidate = candidates
            .find(|one| one.refused.is_none() && one.start <= now && one.next.max(first) < end)?;
        let number = candidate.next.max(first);
        let datagram = self.flight.get((number - first) as usize)?;
        candidate.next = number + 1;
        candidate.note(datagram.packet, now);
        buf.extend_from_slice(&datagram.bytes);
        let transmit = Transmit {
            network_path: candidate.tuple,
            ecn: datagram.ecn,
            size: datagram.bytes.len(),
            segment_size: None,
        };
        self.forget_copied();
        Some(transmit)
    }

    /// When the next copy is due.
    pub(crate) fn timer(&self) -> Option<Instant> {
        let end = self.first + self.flight.len() as u64;
        let waiting = self.live().filter(|(_, one)| one.next < end);
        waiting.map(|(_, one)| one.start).min()
    }

    /// The server's first answer came to this address: from now on, the attempt is there, and no copies wait. `None` if
    /// it is none of ours, or if this was known.
    pub(crate) fn answer(&mut self, to: &FourTuple) -> Option<Answered> {
        if self.answered {
            return None;
        }
        self.answered = true;
        self.stop();
        let mut candidates = self.candidates.iter();
        let current = candidates.position(|candidate| candidate.tuple.matches(to))?;
        self.current = current;
        let winner = self.candidates.get_mut(current)?;
        Some(Answered {
            tuple: winner.tuple,
            sent: std::mem::take(&mut winner.sent),
        })
    }

    /// No copies any more of what has left.
    pub(crate) fn stop(&mut self) {
        self.first += self.flight.len() as u64;
        self.flight.clear();
        for candidate in &mut self.candidates {
            candidate.next = self.first;
        }
    }

    /// The system refuses to send from this address. The address that the attempt goes on from, if it was on that one.
    pub(crate) fn refuse(&mut self, tuple: &FourTuple, why: &str) -> Option<FourTuple> {
        let mut candidates = self.candidates.iter_mut();
        let candidate = candidates.find(|one| one.tuple == *tuple && one.refused.is_none())?;
        candidate.refused = Some(why.to_owned());
        let current = self.candidates.get(self.current)?;
        if self.answered || current.refused.is_none() {
            return None;
        }
        let (next, candidate) = self.live().next()?;
        let tuple = candidate.tuple;
        self.current = next;
        // It has no time to lose any more.
        let start = self.candidates[0].start;
        self.candidates[next].start = start;
        Some(tuple)
    }

    /// Whether the system refuses to send from every address.
    pub(crate) fn all_refused(&self) -> bool {
        self.live().next().is_none()
    }

    /// The addresses from which a further attempt may be worth it: all that can send, but for the one on which the server
    /// answered.
    pub(crate) fn others(&self) -> SmallVec<[FourTuple; 2]> {
        let live = self.live();
        let others = live.filter(|(index, _)| !self.answered || *index != self.current);
        others.map(|(_, candidate)| candidate.tuple).collect()
    }

    /// All addresses, each with whether the server answered there, and why nothing could be sent from it.
    pub(crate) fn outcome(&self) -> impl Iterator<Item = (FourTuple, bool, Option<&str>)> {
        let candidates = self.candidates.iter().enumerate();
        candidates.map(|(index, candidate)| {
            let answered = self.answered && index == self.current;
            (candidate.tuple, answered, candidate.refused.as_deref())
        })
    }

    /// Forgets the datagrams that all have sent.
    fn forget_copied(&mut self) {
        let end = self.first + self.flight.len() as u64;
        let least = self.live().map(|(_, candidate)| candidate.next).min();
        let least = least.unwrap_or(end);
        while self.first < least && self.flight.pop_front().is_some() {
            self.first += 1;
        }
    }
}

impl Candidate {
    fn note(&mut self, packet: u64, now: Instant) {
        if self.sent.len() < REMEMBERED {
            self.sent.push((packet, now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn tuple(number: u8) -> FourTuple {
        FourTuple {
            local: ([10, 0, number, 1], 5000).into(),
            remote: ([192, 0, 2, 1], 443).into(),
        }
    }

    fn drain(copies: &mut Copies, now: Instant) -> Vec<(FourTuple, Vec<u8>)> {
        let mut sent = Vec::new();
        let mut buf = Vec::new();
        while let Some(transmit) = copies.poll_transmit(now, &mut buf) {
            assert_eq!(transmit.size, buf.len());
            sent.push((transmit.network_path, std::mem::take(&mut buf)));
        }
        sent
    }

    #[test]
    fn each_address_sends_each_datagram_once_and_in_its_turn() {
        let now = Instant::now();
        let tuples = [tuple(0), tuple(1), tuple(2)];
        let mut copies = Copies::new(now, &tuples, Duration::ZERO, 10 * MS);
        copies.push(now, 0, None, b"a");
        copies.push(now, 1, None, b"b");
        assert!(drain(&mut copies, now).is_empty());
        assert_eq!(copies.timer(), Some(now + 10 * MS));
        let both = |number| {
            vec![
                (tuple(number), b"a".to_vec()),
                (tuple(number), b"b".to_vec()),
            ]
        };
        assert_eq!(drain(&mut copies, now + 10 * MS), both(1));
        assert_eq!(copies.timer(), Some(now + 20 * MS));
        assert_eq!(drain(&mut copies, now + 25 * MS), both(2));
        assert_eq!(copies.timer(), None);
        assert!(copies.flight.is_empty());
        // The samples of the last one count from when its copies left.
        let answered = copies.answer(&tuple(2)).unwrap();
        let at = now + 25 * MS;
        assert_eq!(answered.sent.as_slice(), [(0, at), (1, at)]);
        assert!(copies.answer(&tuple(1)).is_none());
        assert_eq!(copies.others().as_slice(), [tuple(0), tuple(1)]);
    }

    #[test]
    fn the_first_address_may_have_a_lead() {
        let now = Instant::now();
        let tuples = [tuple(0), tuple(1), tuple(2)];
        let mut copies = Copies::new(now, &tuples, 5 * MS, MS);
        copies.push(now, 0, None, b"a");
        assert!(drain(&mut copies, now + 5 * MS).is_empty());
        let sent = drain(&mut copies, now + 6 * MS);
        assert_eq!(sent, [(tuple(1), b"a".to_vec())]);
        assert_eq!(copies.timer(), Some(now + 7 * MS));
        // If nothing can be sent there, the others wait no longer.
        let mut copies = Copies::new(now, &tuples, 5 * MS, Duration::ZERO);
        copies.push(now, 0, None, b"a");
        assert_eq!(copies.refuse(&tuple(0), "no route"), Some(tuple(1)));
        assert_eq!(drain(&mut copies, now), [(tuple(1), b"a".to_vec())]);
    }

    #[test]
    fn an_address_that_cannot_send_holds_up_nothing() {
        let now = Instant::now();
        let mut copies = Copies::new(now, &[tuple(0), tuple(1)], Duration::ZERO, 100 * MS);
        copies.push(now, 0, None, b"a");
        assert_eq!(copies.refuse(&tuple(0), "no route"), Some(tuple(1)));
        // At once: nothing else is under way.
        assert_eq!(drain(&mut copies, now), [(tuple(1), b"a".to_vec())]);
        assert!(copies.flight.is_empty() && !copies.all_refused());
        assert_eq!(copies.refuse(&tuple(1), "no route"), None);
        assert!(copies.all_refused());
        assert!(copies.outcome().all(|(_, _, why)| why == Some("no route")));
    }

    #[test]
    fn what_is_kept_for_a_late_address_is_bounded() {
        let now = Instant::now();
        let mut copies = Copies::new(now, &[tuple(0), tuple(1)], Duration::ZERO, 100 * MS);
        for packet in 0..100 {
            copies.push(now, packet, None, &[packet as u8]);
        }
        let sent = drain(&mut copies, now + 100 * MS);
        assert_eq!(sent.len(), limits::MAX_RACE_DATAGRAMS);
        assert_eq!(sent.last().unwrap().1, [99]);
        assert!(drain(&mut copies, now + 100 * MS).is_empty());
    }
}
