//! Arithmetic in GF(2^8) as RFC 8681 has it, on bytes and on rows of bytes. It allocates nothing.

/// x^8 + x^4 + x^3 + x^2 + 1 without its highest term (RFC 8681 section 3.7, as RFC 5510).
const POLYNOMIAL: u8 = 0x1d;

/// Rows are padded with zeros to a multiple of this many bytes, so that loops have a fixed length and become vectors.
pub(crate) const LANE: usize = 128;

/// The most rows that [`combine`] adds up.
pub(crate) const MAX_TERMS: usize = 128;

const fn double(a: u8) -> u8 {
    // All ones where the highest bit is set. Without a branch, so that the compiler makes vectors of it.
    let carry = (a as i8 >> 7) as u8;
    (a << 1) ^ (carry & POLYNOMIAL)
}

/// 1 / a for each a; 0 for 0. The generator 2 to the power of 255 is 1, so that 2^i and 2^(255 - i) are inverse to each other.
static INVERSES: [u8; 256] = {
    let (mut powers, mut inverses) = ([0; 256], [0; 256]);
    let (mut value, mut i) = (1, 0);
    while i < 256 {
        powers[i] = value;
        value = double(value);
        i += 1;
    }
    i = 0;
    while i < 256 {
        inverses[powers[i] as usize] = powers[255 - i];
        i += 1;
    }
    inverses
};

/// 1 / `a`, which must not be 0.
pub(crate) fn inverse(a: u8) -> u8 {
    debug_assert_ne!(a, 0);
    INVERSES[usize::from(a)]
}

pub(crate) type Lane = [u8; LANE];

static ZERO: Lane = [0; LANE];

#[inline(always)]
fn double_all(lane: &mut Lane) {
    for byte in lane {
        *byte = double(*byte);
    }
}

#[inline(always)]
fn add(to: &mut Lane, from: &Lane) {
    for (a, b) in to.iter_mut().zip(from) {
        *a ^= *b;
    }
}

/// Four at once, so that `to` is read and written once for all.
#[inline(always)]
fn add_four(to: &mut Lane, [a, b, c, d]: [&Lane; 4]) {
    for ((((to, a), b), c), d) in to.iter_mut().zip(a).zip(b).zip(c).zip(d) {
        *to ^= *a ^ *b ^ *c ^ *d;
    }
}

/// How long a row of `len` bytes is with its padding.
pub(crate) const fn padded(len: usize) -> usize {
    len.next_multiple_of(LANE)
}

/// `row` *= `factor`. The row is padded.
pub(crate) fn scale(row: &mut [u8], factor: u8) {
    if factor == 1 {
        return;
    }
    let (row, _) = row.as_chunks_mut::<LANE>();
    for lane in row {
        let mut power = std::mem::replace(lane, [0; LANE]);
        let mut rest = factor;
        while rest != 0 {
            if rest & 1 != 0 {
                add(lane, &power);
            }
            double_all(&mut power);
            rest >>= 1;
        }
    }
}

/// `to` += the sum of factor times row over the terms (row, factor), of which there are at most [`MAX_TERMS`]. All rows are padded;
/// of those that are longer than `to`, the rest is left out.
///
/// Not one multiplication for each term, but Horner's rule over the factors' bits: eight doublings of the sum in all. Two bits are
/// taken at a time, so that a row with both of them is added once: three additions for a term in the mean, where bit by bit it
/// were four.
pub(crate) fn combine<R: AsRef<[u8]>>(to: &mut [u8], rows: &[R], terms: &[(u16, u8)]) {
    if terms.is_empty() {
        return;
    }
    // By pair of bits and its value less 1.
    let mut lists = [[[0_u16; MAX_TERMS]; 3]; 4];
    let mut counts = [[0_usize; 3]; 4];
    for (row, factor) in terms {
        for (pair, (lists, counts)) in lists.iter_mut().zip(&mut counts).enumerate() {
            let value = usize::from(factor >> (2 * pair) & 3);
            if value > 0 {
                lists[value - 1][counts[value - 1]] = *row;
                counts[value - 1] += 1;
            }
        }
    }
    let (to, _) = to.as_chunks_mut::<LANE>();
    for (place, to) in to.iter_mut().enumerate() {
        let mut sum = [0; LANE];
        for (lists, counts) in lists.iter().zip(&counts).rev() {
            let [low, high, both] = [0, 1, 2].map(|i| &lists[i][..counts[i]]);
            let mut of_both = ZERO;
            add_all(&mut of_both, rows, both, place);
            double_all(&mut sum);
            add_all(&mut sum, rows, high, place);
            add(&mut sum, &of_both);
            double_all(&mut sum);
            add_all(&mut sum, rows, low, place);
            add(&mut sum, &of_both);
        }
        add(to, &sum);
    }
}

#[inline(always)]
fn add_all<R: AsRef<[u8]>>(sum: &mut Lane, rows: &[R], list: &[u16], place: usize) {
    let lane = |row: u16| {
        let (row, _) = rows[usize::from(row)].as_ref().as_chunks::<LANE>();
        row.get(place).unwrap_or(&ZERO)
    };
    let (fours, rest) = list.as_chunks::<4>();
    for four in fours {
        add_four(sum, four.map(lane));
    }
    for row in rest {
        add(sum, lane(*row));
    }
}

/// To each row of the terms (row, factor), from its byte `begin` on, adds factor times `from`. All are padded, `begin` too; what of
/// `from` goes beyond a row is left out.
///
/// One pass over `from`, each lane of which is doubled seven times for all rows.
pub(crate) fn add_multiples<R: AsMut<[u8]>>(
    rows: &mut [R],
    terms: &[(u16, u8)],
    begin: usize,
    from: &[u8],
) {
    if terms.is_empty() {
        return;
    }
    let (from, _) = from.as_chunks::<LANE>();
    let mut multiples = [[[0; LANE]; 4]; 4];
    for (place, from) in from.iter().enumerate() {
        let mut power = *from;
        // Of each pair of bits: what its four values are times `from`.
        for [_, low, high, both] in &mut multiples {
            *low = power;
            double_all(&mut power);
            *high = power;
            *both = *low;
            add(both, high);
            double_all(&mut power);
        }
        for (row, factor) in terms {
            let (row, _) = rows[usize::from(*row)].as_mut().as_chunks_mut::<LANE>();
            if let Some(lane) = row.get_mut(begin / LANE + place) {
                let [a, b, c, d] = &multiples;
                let of = |pair: usize| usize::from(factor >> (2 * pair) & 3);
                add_four(lane, [&a[of(0)], &b[of(1)], &c[of(2)], &d[of(3)]]);
            }
        }
    }
}

/// The first byte that differs from 0.
pub(crate) fn first_not_zero(row: &[u8]) -> Option<usize> {
    let (lanes, _) = row.as_chunks::<LANE>();
    let lane = lanes.iter().position(|lane| !is_zero(lane))?;
    let byte = lanes[lane].iter().position(|byte| *byte != 0)?;
    Some(lane * LANE + byte)
}

/// Without an early end, so that the compiler makes vectors of it.
#[inline(always)]
pub(crate) fn is_zero(lane: &Lane) -> bool {
    lane.iter().fold(0, |all, byte| all | byte) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Multiplication of polynomials and their remainder, bit by bit.
    fn slow(a: u8, b: u8) -> u8 {
        let mut product = 0_u16;
        for bit in 0..8 {
            if b >> bit & 1 != 0 {
                product ^= u16::from(a) << bit;
            }
        }
        for bit in (8..15).rev() {
            if product >> bit & 1 != 0 {
                product ^= 0x11d << (bit - 8);
            }
        }
        product as u8
    }

    #[test]
    fn inverses_are_those_of_polynomials() {
        for a in 1..=255 {
            assert_eq!(slow(a, inverse(a)), 1);
        }
    }

    #[test]
    fn rows_are_multiplied_as_bytes_are() {
        let row: Vec<u8> = (0..256).map(|i| i as u8).collect();
        for factor in 0..=255 {
            // The second row is shorter than what is added, the third left as it is.
            let mut rows = [
                vec![0x5a; LANE + 256],
                vec![0x5a; LANE + 128],
                vec![0x5a; 256],
            ];
            let terms = [(0, factor), (1, factor ^ 0x80)];
            add_multiples(&mut rows, &terms, LANE, &row);
            let mut scaled = row.clone();
            scale(&mut scaled, factor);
            for (i, byte) in row.iter().enumerate() {
                assert_eq!(scaled[i], slow(*byte, factor));
                assert_eq!(rows[0][LANE + i], 0x5a ^ slow(*byte, factor));
                if let Some(sum) = rows[1].get(LANE + i) {
                    assert_eq!(*sum, 0x5a ^ slow(*byte, factor ^ 0x80));
                }
            }
            assert!(rows[..2].iter().all(|row| row[..LANE] == [0x5a; LANE]));
            assert_eq!(rows[2], [0x5a; 256]);
        }
    }

    #[test]
    fn a_combination_is_the_sum_of_multiples() {
        // Rows of different lengths: what is missing is zero, what is beyond the result is left out.
        let rows: Vec<Vec<u8>> = (0..128_usize)
            .map(|row| {
                (0..LANE * (1 + row % 4))
                    .map(|i| (row * 31 + i * 7) as u8)
                    .collect()
            })
            .collect();
        let terms: Vec<(u16, u8)> = (0..128).map(|row| (row, row as u8 ^ 0x93)).collect();
        let mut fast = vec![3; 3 * LANE];
        combine(&mut fast, &rows, &terms);
        let mut sum = vec![3; 3 * LANE];
        for (row, factor) in terms {
            for (sum, byte) in sum.iter_mut().zip(&rows[usize::from(row)]) {
                *sum ^= slow(*byte, factor);
            }
        }
        assert_eq!(fast, sum);
    }

    #[test]
    fn the_first_byte_is_found() {
        let mut row = [0; 3 * LANE];
        assert_eq!(first_not_zero(&row), None);
        for place in (0..3 * LANE).rev() {
            row[place] = 1;
            assert_eq!(first_not_zero(&row), Some(place));
        }
    }
}
