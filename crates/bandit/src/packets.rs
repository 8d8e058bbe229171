//! The packets that rewards are made of, and the sum of their rates by weight.

use core::hint::black_box;

#[cfg(doc)]
use crate::Horizon;
use crate::reward::{MOST_PACKETS, WEIGHTS};
use crate::vectors::{Work, widest};

/// Room for one packet. The numbers of all packets are in three columns, one behind the other, over all of the memory.
pub type PacketSlot = [f64; 3];

/// The column of when packets were sent; once they are released, of when that was.
pub(crate) const TIME: u64 = 0;
/// With [`Horizon::Goodput`], of all so far.
pub(crate) const AMOUNT: u64 = 1;
/// What a packet counts for until it is released, if that is by then; after that, its rate. With
/// [`Horizon::OwnAck`], until it is released, when it was acknowledged, infinite if it was not. With
/// [`Horizon::Goodput`], since when nothing is under way, if so.
pub(crate) const DUE_OR_RATE: u64 = 2;

/// A queue of packets in a slice, by columns: rates next to each other are summed up in vectors. Places are counted
/// through and never reused.
#[derive(Debug, Clone)]
pub(crate) struct Packets<P> {
    slots: P,
    mask: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl<P: AsRef<[PacketSlot]> + AsMut<[PacketSlot]>> Packets<P> {
    pub(crate) fn new(slots: P) -> Self {
        let len = slots.as_ref().len();
        assert!(len > 0, "expected at least one slot");
        Self {
            slots,
            mask: (1 << len.ilog2()) - 1,
            start: 0,
            end: 0,
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.start == self.end
    }

    pub(crate) const fn is_full(&self) -> bool {
        self.end - self.start > self.mask
    }

    #[inline(always)]
    const fn index(&self, column: u64, place: u64) -> usize {
        index(self.mask, column, place)
    }

    /// All columns, for a loop: with those of the queue itself, the compiler takes a number that is written for what
    /// may be its mask.
    #[inline(always)]
    pub(crate) fn columns(&mut self) -> Columns<'_> {
        Columns {
            numbers: self.slots.as_mut().as_flattened_mut(),
            mask: self.mask,
        }
    }

    #[inline(always)]
    pub(crate) fn at(&self, column: u64, place: u64) -> f64 {
        self.slots.as_ref().as_flattened()[self.index(column, place)]
    }

    #[inline(always)]
    pub(crate) fn at_mut(&mut self, column: u64, place: u64) -> &mut f64 {
        let index = self.index(column, place);
        &mut self.slots.as_mut().as_flattened_mut()[index]
    }

    #[inline]
    pub(crate) fn push(&mut self, time: f64, amount: f64, due_or_rate: f64) {
        *self.at_mut(TIME, self.end) = time;
        *self.at_mut(AMOUNT, self.end) = amount;
        *self.at_mut(DUE_OR_RATE, self.end) = due_or_rate;
        self.end += 1;
    }

    /// The rates of so many packets, if they are next to each other.
    #[inline(always)]
    pub(crate) fn in_one_part<const N: usize>(&self, place: u64) -> Option<&[f64; N]> {
        let fits = (place & self.mask) + N as u64 <= self.mask + 1;
        let rates = self.slots.as_ref().as_flattened();
        let rates = rates.get(self.index(DUE_OR_RATE, place)..)?;
        rates.first_chunk().filter(|_| fits)
    }

    /// The rates of so many, up to the end of the ring, and from its beginning.
    #[inline]
    pub(crate) fn two_parts(&self, place: u64, count: usize) -> (&[f64], &[f64]) {
        let rates = &self.slots.as_ref().as_flattened()[self.index(DUE_OR_RATE, 0)..];
        let rates = &rates[..=self.mask as usize];
        let start = (place & self.mask) as usize;
        let until_end = count.min(rates.len() - start);
        (
            &rates[start..start + until_end],
            &rates[..count - until_end],
        )
    }
}

/// The columns of a queue.
pub(crate) struct Columns<'a> {
    numbers: &'a mut [f64],
    mask: u64,
}

impl Columns<'_> {
    #[inline(always)]
    pub(crate) fn at(&mut self, column: u64, place: u64) -> &mut f64 {
        &mut self.numbers[index(self.mask, column, place)]
    }
}

#[inline(always)]
const fn index(mask: u64, column: u64, place: u64) -> usize {
    (column * (mask + 1) + (place & mask)) as usize
}

/// [`weighted`] of rates that are in one part: the same sums in the same order, so that rounding is the same.
#[inline(always)]
pub(crate) fn weighted_at_once(rates: &[f64; MOST_PACKETS - 1]) -> f64 {
    widest::<AtOnce, _, _, _>(rates, (), ())
}

struct AtOnce;

impl Work<&[f64; MOST_PACKETS - 1], (), ()> for AtOnce {
    type Output = f64;

    #[inline(always)]
    fn run(rates: &[f64; MOST_PACKETS - 1], (): (), (): ()) -> f64 {
        let mut sums = [0.0; 4];
        let (weights, _) = WEIGHTS[1..].as_chunks::<4>();
        let (fours, rest) = rates.as_chunks::<4>();
        for (weights, rates) in weights.iter().zip(fours) {
            for place in 0..4 {
                sums[place] += weights[place] * rates[place];
            }
        }
        // Written down: one vector, instead of as many parts as the sum of the four has.
        let mut sums = black_box(sums);
        for rate in rest {
            sums[0] += WEIGHTS[MOST_PACKETS - 1] * rate;
        }
        (sums[0] + sums[1]) + (sums[2] + sums[3])
    }
}

/// Σ WEIGHTS[1 + i] · rate i, of rates in two parts.
#[inline(never)]
pub(crate) fn weighted((head, tail): (&[f64], &[f64])) -> f64 {
    const { assert!((MOST_PACKETS - 1) % 4 == 1) };
    // Four sums, which do not wait for each other.
    let mut sums = [0.0; 4];
    let (first, second) = WEIGHTS[1..].split_at(head.len());
    for (weights, rates) in [(first, head), (second, tail)] {
        let (weights, rest) = weights[..rates.len()].as_chunks::<4>();
        let (rates, others) = rates.as_chunks::<4>();
        for (weights, rates) in weights.iter().zip(rates) {
            for place in 0..4 {
                sums[place] += weights[place] * rates[place];
            }
        }
        for (weight, rate) in rest.iter().zip(others) {
            sums[0] += weight * rate;
        }
    }
    (sums[0] + sums[1]) + (sums[2] + sums[3])
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        // To the last bit: runs are replayed.
        #[test]
        fn one_part_is_summed_up_as_by_the_general_way(
            rates in vec(prop_oneof![0.0..5000.0_f64, Just(0.0)], MOST_PACKETS - 1),
        ) {
            let at_once = AtOnce::run(rates.first_chunk().unwrap(), (), ());
            let in_vectors = widest::<AtOnce, _, _, _>(rates.first_chunk().unwrap(), (), ());
            let in_general = weighted((&rates, &[]));
            prop_assert_eq!(at_once.to_bits(), in_general.to_bits());
            prop_assert_eq!(in_vectors.to_bits(), in_general.to_bits());
        }
    }
}
