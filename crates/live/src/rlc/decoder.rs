//! The decoder: source symbols that are known, repair symbols that still wait for others, and elimination as each comes.
//!
//! Its memory and the work for one symbol are bounded whatever comes: it holds [`REACH`] symbols and [`MAX_ROWS`] equations.

use super::field::{LANE, add_multiples, combine, first_not_zero, inverse, is_zero, padded, scale};
use super::{MAX_SYMBOL, MAX_WINDOW, coefficients};

/// How far back from the newest symbol the decoder remembers: room for [`MAX_WINDOW`] and for what comes late over a slower path.
pub const REACH: usize = 512;

/// The most repair symbols that wait for others. A window of 128 symbols never needs more.
pub const MAX_ROWS: usize = MAX_WINDOW;

/// The bytes in front of a symbol's content that say how long this is. They are coded with it.
pub(crate) const LENGTH: usize = 2;

/// What became of a repair symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepairOutcome {
    /// It waits for others, or has brought back symbols: [`Decoder::recovered`] says which.
    Taken,
    /// All that it covers is known, or follows from what is known.
    Redundant,
    /// It covers symbols that the decoder has forgotten.
    TooOld,
    /// It is none: no symbols or more than [`MAX_WINDOW`], too short or too long, or it contradicts what is known.
    Invalid,
    /// [`MAX_ROWS`] others wait already.
    Full,
}

/// An equation: the sum of coefficient times symbol over columns that are not known, and what it amounts to.
#[derive(Debug)]
struct Row {
    /// First the coefficients by column, which is a symbol's number modulo [`REACH`], then the data, padded: all that is done to
    /// a row is done to both.
    bytes: Vec<u8>,
    /// Bytes of the data before its padding.
    len: usize,
    /// The column with coefficient 1 here, and 0 in all other rows.
    pivot: usize,
}

/// Decodes source and repair symbols in any order, each as it comes.
///
/// Contents go in as they are; the decoder adds the two bytes of length that are coded with each (see the page on the format).
///
/// ```
/// use mpquic_live::rlc::{Decoder, Encoder, RepairOutcome};
///
/// let (mut encoder, mut decoder) = (Encoder::new(8), Decoder::new());
/// for content in [&b"first"[..], b"second"] {
///     encoder.push(content)?;
/// }
/// let mut symbol = Vec::new();
/// encoder.encode(0, 2, 77, 15, &mut symbol);
///
/// assert!(decoder.source(0, b"first"));
/// assert_eq!(decoder.repair(0, 2, 77, 15, &symbol), RepairOutcome::Taken);
/// assert_eq!(decoder.recovered(), Some(1));
/// assert_eq!(decoder.content(1), Some(&b"second"[..]));
/// # Ok::<(), mpquic_live::rlc::TooLong>(())
/// ```
#[derive(Debug)]
pub struct Decoder {
    /// By column: symbols with their length in front, padded.
    symbols: Vec<Vec<u8>>,
    /// By column: whose symbol is there.
    numbers: Vec<Option<u64>>,
    /// One more than the highest number seen.
    top: u64,
    rows: Vec<Row>,
    /// Rows that are not in use.
    spare: Vec<Row>,
    terms: Vec<(u16, u8)>,
    recovered: Vec<u64>,
    contradictions: u64,
}

const _: () = assert!(REACH.is_multiple_of(LANE));

const fn column(number: u64) -> usize {
    (number % REACH as u64) as usize
}

/// A full number from its lowest 32 bits: the one next to `near`.
pub(crate) fn expand(low: u32, near: u64) -> u64 {
    let ahead = i64::from(low.wrapping_sub(near as u32) as i32);
    near.checked_add_signed(ahead)
        .unwrap_or_else(|| u64::from(low))
}

impl Decoder {
    /// The most bytes that a decoder takes of the allocator, whatever comes: what [`memory_use`](Self::memory_use) never exceeds if
    /// what is [`recovered`](Self::recovered) is asked for after each symbol. Vectors that grow may have room for twice as much as is in them.
    pub const MAX_MEMORY: usize = REACH
        * (size_of::<Vec<u8>>()
            + 2 * padded(MAX_SYMBOL)
            + size_of::<Option<u64>>()
            + 2 * size_of::<u64>())
        + (MAX_ROWS + 1) * (4 * size_of::<Row>() + 2 * (REACH + padded(MAX_SYMBOL)))
        + MAX_WINDOW * size_of::<(u16, u8)>();

    /// A decoder that knows nothing. It allocates as symbols come, and no more once its rows were all in use.
    pub fn new() -> Self {
        Self {
            symbols: (0..REACH).map(|_| Vec::new()).collect(),
            numbers: vec![None; REACH],
            top: 0,
            rows: Vec::with_capacity(MAX_ROWS),
            spare: Vec::with_capacity(MAX_ROWS + 1),
            terms: Vec::with_capacity(MAX_WINDOW),
            recovered: Vec::with_capacity(REACH),
            contradictions: 0,
        }
    }

    /// A source symbol came, of which the number has 32 bits. False if it is known, too old or too long.
    pub fn source(&mut self, number: u32, content: &[u8]) -> bool {
        let number = expand(number, self.top);
        if content.len() + LENGTH > MAX_SYMBOL || !self.reach(number) || self.knows(number) {
            return false;
        }
        let symbol = &mut self.symbols[column(number)];
        write_symbol(symbol, content);
        self.numbers[column(number)] = Some(number);
        self.substitute(column(number));
        self.harvest();
        true
    }

    /// A repair symbol came, over `count` source symbols from number `first` on.
    pub fn repair(
        &mut self,
        first: u32,
        count: usize,
        key: u16,
        density: u8,
        symbol: &[u8],
    ) -> RepairOutcome {
        if count == 0 || count > MAX_WINDOW || symbol.len() <= LENGTH || symbol.len() > MAX_SYMBOL {
            return RepairOutcome::Invalid;
        }
        let first = expand(first, self.top);
        let last = first + (count as u64 - 1);
        if !self.reach(last) || first + (REACH as u64) < self.top {
            return RepairOutcome::TooOld;
        }
        if (first..=last).all(|number| self.knows(number)) {
            return RepairOutcome::Redundant;
        }
        if self.rows.len() == MAX_ROWS {
            return RepairOutcome::Full;
        }
        let mut factors = [0; MAX_WINDOW];
        coefficients(key, density, &mut factors[..count]);
        let mut row = self.spare.pop().unwrap_or_else(Row::new);
        row.begin(symbol);
        self.terms.clear();
        for (number, factor) in (first..=last).zip(factors) {
            let column = column(number);
            if self.numbers[column] != Some(number) {
                row.bytes[column] = factor;
            } else if factor != 0 {
                if content_len(&self.symbols[column]) + LENGTH > row.len {
                    self.spare.push(row);
                    return RepairOutcome::Invalid;
                }
                self.terms.push((column as u16, factor));
            }
        }
        combine(&mut row.bytes[REACH..], &self.symbols, &self.terms);
        // No row has another's pivot: what each is taken times does not depend on the others.
        self.terms.clear();
        for (place, other) in self.rows.iter().enumerate() {
            let factor = row.bytes[other.pivot];
            if factor != 0 {
                row.grow(other.len);
                self.terms.push((place as u16, factor));
            }
        }
        combine(&mut row.bytes, &self.rows, &self.terms);
        if !row.choose_pivot() {
            let outcome = self.judge_empty(&row);
            self.spare.push(row);
            return outcome;
        }
        self.admit(row);
        self.harvest();
        RepairOutcome::Taken
    }

    /// A symbol that was brought back, by its full number; each once.
    pub fn recovered(&mut self) -> Option<u64> {
        self.recovered.pop()
    }

    /// The content of a symbol that came or was brought back, by its full number.
    pub fn content(&self, number: u64) -> Option<&[u8]> {
        if !self.knows(number) {
            return None;
        }
        let symbol = &self.symbols[column(number)];
        symbol.get(LENGTH..LENGTH + content_len(symbol))
    }

    /// How many equations wait for symbols.
    pub fn waiting(&self) -> usize {
        self.rows.len()
    }

    /// How many symbols and equations contradicted others: what an honest peer sends never does.
    pub fn contradictions(&self) -> u64 {
        self.contradictions
    }

    /// Bytes that it has of the allocator. It looks at all that is held: not for each symbol.
    pub fn memory_use(&self) -> usize {
        let symbols: usize = self.symbols.iter().map(Vec::capacity).sum();
        let rows: usize = self
            .rows
            .iter()
            .chain(&self.spare)
            .map(Row::memory_use)
            .sum();
        symbols
            + self.symbols.capacity() * size_of::<Vec<u8>>()
            + self.numbers.capacity() * size_of::<Option<u64>>()
            + rows
            + (self.rows.capacity() + self.spare.capacity()) * size_of::<Row>()
            + self.terms.capacity() * size_of::<(u16, u8)>()
            + self.recovered.capacity() * size_of::<u64>()
    }

    fn knows(&self, number: u64) -> bool {
        self.numbers[column(number)] == Some(number)
    }

    /// Moves on so that the number is within reach. False if it is too old for that.
    fn reach(&mut self, number: u64) -> bool {
        if number < self.top {
            return number + REACH as u64 >= self.top;
        }
        let ahead = number + 1 - self.top;
        if ahead >= REACH as u64 {
            self.numbers.fill(None);
            self.spare.append(&mut self.rows);
        } else {
            for gone in self.top..=number {
                let column = column(gone);
                self.numbers[column] = None;
                // What a symbol that will not come is part of has lost its use. That can leave out an equation that others
                // would have made good without it; it is `REACH` symbols old.
                for row in self.rows.extract_if(.., |row| row.bytes[column] != 0) {
                    self.spare.push(row);
                }
            }
        }
        self.top = number + 1;
        true
    }

    /// Takes a new row's pivot out of all others.
    fn admit(&mut self, row: Row) {
        self.terms.clear();
        for (place, other) in self.rows.iter_mut().enumerate() {
            let factor = other.bytes[row.pivot];
            if factor != 0 {
                other.grow(row.len);
                self.terms.push((place as u16, factor));
            }
        }
        add_multiples(&mut self.rows, &self.terms, 0, &row.bytes);
        self.rows.push(row);
    }

    /// A symbol is known now: takes it out of the equations.
    fn substitute(&mut self, column: usize) {
        let symbol = &self.symbols[column];
        let len = content_len(symbol) + LENGTH;
        self.terms.clear();
        for (place, row) in self.rows.iter_mut().enumerate() {
            let factor = std::mem::take(&mut row.bytes[column]);
            if factor != 0 {
                row.grow(len);
                self.terms.push((place as u16, factor));
            }
        }
        add_multiples(&mut self.rows, &self.terms, REACH, symbol);
        // If it was a row's pivot, no other had it.
        if let Some((place, _)) = self.terms.first()
            && self.rows[usize::from(*place)].pivot == column
        {
            let mut row = self.rows.swap_remove(usize::from(*place));
            if row.choose_pivot() {
                self.admit(row);
            } else {
                self.judge_empty(&row);
                self.spare.push(row);
            }
        }
    }

    /// Takes out the equations that have one symbol left: this is known then.
    fn harvest(&mut self) {
        let mut place = 0;
        while place < self.rows.len() {
            if !self.rows[place].is_solved() {
                place += 1;
                continue;
            }
            let row = self.rows.swap_remove(place);
            let column = row.pivot;
            // The one number with this column that is within reach.
            let newest = self.top - 1;
            let number = newest - (newest + REACH as u64 - column as u64) % REACH as u64;
            let data = row.data();
            let len = content_len(data);
            if len + LENGTH <= row.len && data[len + LENGTH..].iter().all(|byte| *byte == 0) {
                let symbol = &mut self.symbols[column];
                symbol.clear();
                symbol.extend_from_slice(&data[..padded(len + LENGTH)]);
                self.numbers[column] = Some(number);
                self.recovered.push(number);
            } else {
                self.contradictions += 1;
            }
            self.spare.push(row);
        }
    }

    fn judge_empty(&mut self, row: &Row) -> RepairOutcome {
        if first_not_zero(row.data()).is_none() {
            RepairOutcome::Redundant
        } else {
            self.contradictions += 1;
            RepairOutcome::Invalid
        }
    }
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Row {
    fn new() -> Self {
        Self {
            bytes: Vec::new(),
            len: 0,
            pivot: 0,
        }
    }

    fn memory_use(&self) -> usize {
        self.bytes.capacity()
    }

    fn begin(&mut self, symbol: &[u8]) {
        self.bytes.clear();
        self.bytes.resize(REACH, 0);
        self.bytes.extend_from_slice(symbol);
        self.bytes.resize(REACH + padded(symbol.len()), 0);
        self.len = symbol.len();
    }

    fn grow(&mut self, len: usize) {
        self.len = self.len.max(len);
        let len = REACH + padded(self.len);
        if len > self.bytes.len() {
            self.bytes.resize(len, 0);
        }
    }

    fn data(&self) -> &[u8] {
        &self.bytes[REACH..]
    }

    /// Takes the first column that differs from 0 as pivot, and makes it 1. False if there is none.
    fn choose_pivot(&mut self) -> bool {
        let Some(pivot) = first_not_zero(&self.bytes[..REACH]) else {
            return false;
        };
        self.pivot = pivot;
        let factor = inverse(self.bytes[pivot]);
        scale(&mut self.bytes, factor);
        true
    }

    /// Whether it has no column but its pivot.
    fn is_solved(&self) -> bool {
        let (lanes, _) = self.bytes[..REACH].as_chunks::<LANE>();
        lanes.iter().enumerate().all(|(place, lane)| {
            let mut lane = *lane;
            if place == self.pivot / LANE {
                lane[self.pivot % LANE] = 0;
            }
            is_zero(&lane)
        })
    }
}

impl AsRef<[u8]> for Row {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl AsMut<[u8]> for Row {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

/// Writes a content with its length in front, padded.
pub(super) fn write_symbol(symbol: &mut Vec<u8>, content: &[u8]) {
    symbol.clear();
    symbol.extend_from_slice(&(content.len() as u16).to_be_bytes());
    symbol.extend_from_slice(content);
    symbol.resize(padded(symbol.len()), 0);
}

pub(super) fn content_len(symbol: &[u8]) -> usize {
    match symbol {
        [high, low, ..] => usize::from(u16::from_be_bytes([*high, *low])),
        _ => 0,
    }
}
