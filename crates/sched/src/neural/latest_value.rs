//! One place for a list of numbers, from one thread to another, the newest wins; nobody ever waits. Runs nothing.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// A sequence lock over atomics: one thread writes, one reads. Writing always succeeds; a reading that a writing runs
/// into comes back empty-handed, and is tried again at the reader's leisure.
#[derive(Debug)]
pub(crate) struct LatestValue {
    /// Even: what lies here is whole. Odd: it is being written. 0: nothing yet.
    sequence: AtomicU64,
    /// Belongs to the content: which decision it is about.
    number: AtomicU64,
    /// Whether there are values.
    full: AtomicU32,
    values: Box<[AtomicU32]>,
}

impl LatestValue {
    /// A place for so many values.
    pub(crate) fn new(values: usize) -> Self {
        Self {
            sequence: AtomicU64::new(0),
            number: AtomicU64::new(0),
            full: AtomicU32::new(0),
            values: (0..values).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    /// Tells contents apart; 0 before the first.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence.load(Ordering::Acquire)
    }

    /// Replaces the content. From one thread only. Values beyond the place's size are left out, and without `values`, or
    /// with fewer than there is place for, it holds none.
    pub(crate) fn write(&self, number: u64, values: Option<&[f32]>) {
        let sequence = self.sequence.load(Ordering::Relaxed);
        self.sequence.store(sequence + 1, Ordering::Relaxed);
        // What follows is not seen before the odd number is.
        fence(Ordering::Release);
        self.number.store(number, Ordering::Relaxed);
        let values = values.filter(|values| values.len() == self.values.len());
        self.full
            .store(u32::from(values.is_some()), Ordering::Relaxed);
        for (to, from) in self.values.iter().zip(values.unwrap_or(&[])) {
            to.store(from.to_bits(), Ordering::Relaxed);
        }
        self.sequence.store(sequence + 2, Ordering::Release);
    }

    /// Copies the content out: its sequence, its decision, and whether it has values. `None` if there is none yet, or it
    /// was written at the same time.
    pub(crate) fn read(&self, values: &mut [f32]) -> Option<(u64, u64, bool)> {
        let sequence = self.sequence.load(Ordering::Acquire);
        if sequence == 0 || sequence % 2 == 1 {
            return None;
        }
        let number = self.number.load(Ordering::Relaxed);
        let full = self.full.load(Ordering::Relaxed) != 0;
        for (to, from) in values.iter_mut().zip(&self.values) {
            *to = f32::from_bits(from.load(Ordering::Relaxed));
        }
        // What was read before is not read after the number is.
        fence(Ordering::Acquire);
        (self.sequence.load(Ordering::Relaxed) == sequence).then_some((sequence, number, full))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_never_sees_half_a_content() {
        let latest = LatestValue::new(16);
        let mut values = [0.0; 16];
        assert_eq!(latest.read(&mut values), None);
        const LAST: u64 = 200_000;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 1..=LAST {
                    latest.write(number, Some(&[number as f32; 16]));
                }
            });
            let mut newest = 0;
            while newest < LAST {
                let Some((_, number, full)) = latest.read(&mut values) else {
                    std::hint::spin_loop();
                    continue;
                };
                assert!(full && number >= newest);
                assert_eq!(values, [number as f32; 16]);
                newest = number;
            }
        });
        latest.write(7, None);
        assert_eq!(
            latest
                .read(&mut values)
                .map(|(_, number, full)| (number, full)),
            Some((7, false))
        );
        latest.write(8, Some(&[1.0; 3]));
        assert_eq!(
            latest
                .read(&mut values)
                .map(|(_, number, full)| (number, full)),
            Some((8, false))
        );
    }
}
