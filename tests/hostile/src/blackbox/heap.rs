//! An allocator that counts what the whole process holds, by the size of the blocks.

use std::fmt::Write;
use std::sync::atomic::{AtomicI64, Ordering};

use mpquic_test_support::allocator::{Change, Counting};

/// Sizes are counted in steps of so many bytes; the last class has all that are larger.
const STEP: usize = 16;
const CLASSES: usize = 8192;

static BYTES: AtomicI64 = AtomicI64::new(0);
static BLOCKS: [AtomicI64; CLASSES] = [const { AtomicI64::new(0) }; CLASSES];

/// The system's allocator, and a count. A program installs it with `#[global_allocator]`.
pub const HEAP: Counting = Counting::new(count);

fn count(change: Change) {
    if let Some(size) = change.freed {
        note(size, -1);
    }
    if let Some(size) = change.allocated {
        note(size, 1);
    }
}

fn note(size: usize, blocks: i64) {
    BYTES.fetch_add(blocks * size as i64, Ordering::Relaxed);
    BLOCKS[(size.div_ceil(STEP)).min(CLASSES - 1)].fetch_add(blocks, Ordering::Relaxed);
}

/// What is allocated and not freed.
#[derive(Debug, Clone, Default)]
pub struct Held {
    /// All of it.
    pub bytes: i64,
    /// How many blocks there are of each size, sizes rounded up; those of no block are left out.
    pub blocks: Vec<(usize, i64)>,
}

impl Held {
    /// What this process holds; nothing where [`HEAP`] is not the allocator.
    pub fn now() -> Self {
        let classes = BLOCKS.iter().enumerate();
        Self {
            bytes: BYTES.load(Ordering::Relaxed),
            blocks: classes
                .map(|(class, count)| (class * STEP, count.load(Ordering::Relaxed)))
                .filter(|(_, count)| *count != 0)
                .collect(),
        }
    }

    /// As one line, for another process.
    pub fn to_line(&self) -> String {
        let mut line = self.bytes.to_string();
        for (size, count) in &self.blocks {
            // A string takes all.
            let _ = write!(line, " {size} {count}");
        }
        line
    }

    /// From such a line; `None` if it is not one.
    pub fn from_line(line: &str) -> Option<Self> {
        let numbers: Option<Vec<i64>> = line.split_whitespace().map(|n| n.parse().ok()).collect();
        let numbers = numbers?;
        let (bytes, blocks) = numbers.split_first()?;
        let blocks = blocks.chunks_exact(2);
        Some(Self {
            bytes: *bytes,
            blocks: blocks.map(|pair| (pair[0] as usize, pair[1])).collect(),
        })
    }

    /// Of which sizes there are more than before, most bytes first: size, and how many more.
    pub fn more_than(&self, before: &Self) -> Vec<(usize, i64)> {
        let had = |size| {
            let at = before.blocks.binary_search_by_key(&size, |(size, _)| *size);
            at.map_or(0, |at| before.blocks[at].1)
        };
        let blocks = self.blocks.iter();
        let mut more: Vec<_> = blocks
            .map(|(size, count)| (*size, count - had(*size)))
            .filter(|(_, count)| *count > 0)
            .collect();
        more.sort_by_key(|(size, count)| std::cmp::Reverse(*size as i64 * count));
        more
    }
}

#[cfg(test)]
mod tests {
    use super::Held;

    #[test]
    fn a_line_has_all() {
        let before = Held {
            bytes: 640,
            blocks: vec![(16, 20), (320, 1)],
        };
        let after = Held {
            bytes: 1600,
            blocks: vec![(16, 10), (320, 4), (160, 1)],
        };
        let after = Held::from_line(&after.to_line()).unwrap();
        assert_eq!(after.bytes, 1600);
        assert_eq!(after.more_than(&before), [(320, 3), (160, 1)]);
        assert!(Held::from_line("12 x").is_none());
    }
}
