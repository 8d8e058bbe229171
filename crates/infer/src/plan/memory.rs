//! Where a plan keeps its numbers: f32 storage that begins on a cache line. A vector load that crosses a line costs
//! two, and a panel of weights is nothing but such loads.

use std::ops::{Deref, DerefMut};

/// Floats in a cache line.
pub(super) const LINE: usize = 16;

/// A fixed number of floats, the first of them at the start of a cache line.
pub(super) struct Aligned {
    floats: Box<[f32]>,
    start: usize,
    len: usize,
}

impl Aligned {
    pub(super) fn new(content: &[f32]) -> Self {
        let mut floats = vec![0.0_f32; content.len() + LINE].into_boxed_slice();
        // Alignment is for speed only, so an allocator that cannot say is no reason to fail.
        let start = floats
            .as_ptr()
            .align_offset(LINE * size_of::<f32>())
            .min(LINE);
        floats[start..start + content.len()].copy_from_slice(content);
        Self {
            floats,
            start,
            len: content.len(),
        }
    }
}

impl Clone for Aligned {
    fn clone(&self) -> Self {
        Self::new(self)
    }
}

impl Deref for Aligned {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.floats[self.start..self.start + self.len]
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.floats[self.start..self.start + self.len]
    }
}
