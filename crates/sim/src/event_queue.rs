//! A queue of events in virtual time, in a total order.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::time::Duration;

struct Entry<E> {
    at: Duration,
    sequence: u64,
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    /// Reversed, since `BinaryHeap` pops the greatest element.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.sequence).cmp(&(self.at, self.sequence))
    }
}

/// Events sorted by time. Simultaneous events run in insertion order.
pub(crate) struct EventQueue<E> {
    heap: BinaryHeap<Entry<E>>,
    next: u64,
}

impl<E> EventQueue<E> {
    pub(crate) fn new() -> Self {
        Self {
            heap: BinaryHeap::new(),
            next: 0,
        }
    }

    pub(crate) fn push(&mut self, at: Duration, event: E) {
        let sequence = self.next;
        self.next += 1;
        self.heap.push(Entry {
            at,
            sequence,
            event,
        });
    }

    pub(crate) fn next_time(&self) -> Option<Duration> {
        self.heap.peek().map(|entry| entry.at)
    }

    pub(crate) fn pop(&mut self) -> Option<(Duration, E)> {
        self.heap.pop().map(|entry| (entry.at, entry.event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_time_then_by_entry() {
        let mut queue = EventQueue::new();
        for (at, event) in [(3, 'd'), (1, 'a'), (3, 'e'), (2, 'b'), (2, 'c')] {
            queue.push(Duration::from_millis(at), event);
        }
        assert_eq!(queue.next_time(), Some(Duration::from_millis(1)));
        let order: String = std::iter::from_fn(|| queue.pop())
            .map(|(_, event)| event)
            .collect();
        assert_eq!(order, "abcde");
        assert_eq!(queue.next_time(), None);
    }
}
