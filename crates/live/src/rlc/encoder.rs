//! The encoder: the last source symbols, and repair symbols over windows of them.

use super::decoder::{LENGTH, content_len, write_symbol};
use super::{MAX_SYMBOL, MAX_WINDOW, coefficients, combine, padded};

/// A source symbol's content is longer than a symbol may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the content has {len} bytes, of {max} that a symbol has room for")]
pub struct TooLong {
    len: usize,
    max: usize,
}

/// Keeps the newest source symbols and makes repair symbols of them. [`Decoder`](super::Decoder) has an example.
#[derive(Debug)]
pub struct Encoder {
    /// By number modulo their count: symbols with their length in front, padded.
    symbols: Vec<Vec<u8>>,
    next: u64,
    terms: Vec<(u16, u8)>,
}

impl Encoder {
    /// The most bytes of a source symbol's content.
    pub const MAX_CONTENT: usize = MAX_SYMBOL - LENGTH;

    /// An encoder that remembers so many symbols, from 1 to 65,536; what is beyond counts as the nearest of these.
    pub fn new(capacity: usize) -> Self {
        Self {
            symbols: (0..capacity.clamp(1, 1 << 16))
                .map(|_| Vec::new())
                .collect(),
            next: 0,
            terms: Vec::with_capacity(MAX_WINDOW),
        }
    }

    /// Remembers the next source symbol, and forgets the oldest in its place. Returns its number.
    ///
    /// # Errors
    ///
    /// If it is longer than [`MAX_CONTENT`](Self::MAX_CONTENT).
    pub fn push(&mut self, content: &[u8]) -> Result<u64, TooLong> {
        if content.len() > Self::MAX_CONTENT {
            return Err(TooLong {
                len: content.len(),
                max: Self::MAX_CONTENT,
            });
        }
        let place = self.place(self.next);
        write_symbol(&mut self.symbols[place], content);
        self.next += 1;
        Ok(self.next - 1)
    }

    /// The number of the next symbol.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The oldest symbol that is remembered.
    pub fn oldest(&self) -> u64 {
        self.next.saturating_sub(self.symbols.len() as u64)
    }

    /// A symbol's content, while it is remembered.
    pub fn content(&self, number: u64) -> Option<&[u8]> {
        if number < self.oldest() || number >= self.next {
            return None;
        }
        let symbol = &self.symbols[self.place(number)];
        symbol.get(LENGTH..LENGTH + content_len(symbol))
    }

    /// Appends to `out` the repair symbol with this key and density over `count` symbols from `first` on. It is as long as the
    /// longest of them.
    ///
    /// # Panics
    ///
    /// If one of them is not remembered, or there are none or more than [`MAX_WINDOW`].
    pub fn encode(&mut self, first: u64, count: usize, key: u16, density: u8, out: &mut Vec<u8>) {
        assert!(
            (1..=MAX_WINDOW).contains(&count),
            "1 to {MAX_WINDOW} symbols"
        );
        assert!(
            first >= self.oldest() && first + count as u64 <= self.next,
            "symbols that are remembered"
        );
        let mut factors = [0; MAX_WINDOW];
        coefficients(key, density, &mut factors[..count]);
        self.terms.clear();
        let mut len = 0;
        for (number, factor) in (first..).zip(&factors[..count]) {
            let place = self.place(number);
            len = len.max(content_len(&self.symbols[place]) + LENGTH);
            if *factor != 0 {
                self.terms.push((place as u16, *factor));
            }
        }
        let begin = out.len();
        out.resize(begin + padded(len), 0);
        combine(&mut out[begin..], &self.symbols, &self.terms);
        out.truncate(begin + len);
    }

    fn place(&self, number: u64) -> usize {
        (number % self.symbols.len() as u64) as usize
    }
}
