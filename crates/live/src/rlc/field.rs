//! Arithmetic in GF(2^8) as RFC 8681 has it, on bytes and on rows of bytes. It allocates nothing.

/// x^8 + x^4 + x^3 + x^2 + 1 without its highest term (RFC 8681 section 3.7, as RFC 5510).
const POLYNOMIAL: u8 = 0x1d;

/// Rows are padded with zeros to a multiple of this many bytes, so that loops have a fixed length and become vectors.
pub(crate) const LANE: usize = 64;

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

type Lane = [u8; LANE];

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

/// How long a row of `len` bytes is with its padding.
pub(crate) const fn padded(len: usize) -> usize {
    len.next_multiple_of(LANE)
}

/// `to` += `factor` `from`. Both are padded, `from` is not longer.
pub(crate) fn add_multiple(to: &mut [u8], factor: u8, from: &[u8]) {
    let (to, _) = to.as_chunks_mut::<LANE>();
    let (from, _) = from.as_chunks::<LANE>();
    for (to, from) in to.iter_mut().zip(from) {
        let (mut sum, mut power) = (*to, *from);
        let mut rest = factor;
        while rest != 0 {
            if rest & 1 != 0 {
                add(&mut sum, &power);
            }
            double_all(&mut power);
            rest >>= 1;
        }
        *to = sum;
    }
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
/// Not one multiplication for each term, but Horner's rule over the factors' bits: seven doublings of the sum in all, and for each
/// term as many additions as its factor has bits.
pub(crate) fn combine(to: &mut [u8], rows: &[Vec<u8>], terms: &[(u16, u8)]) {
    let mut with_bit = [[0_u16; MAX_TERMS]; 8];
    let mut counts = [0_usize; 8];
    for (row, factor) in terms {
        for bit in 0..8 {
            if factor >> bit & 1 != 0 {
                with_bit[bit][counts[bit]] = *row;
                counts[bit] += 1;
            }
        }
    }
    let (to, _) = to.as_chunks_mut::<LANE>();
    for (place, to) in to.iter_mut().enumerate() {
        let mut sum = [0; LANE];
        for bit in (0..8).rev() {
            double_all(&mut sum);
            for row in &with_bit[bit][..counts[bit]] {
                let (row, _) = rows[usize::from(*row)].as_chunks::<LANE>();
                if let Some(lane) = row.get(place) {
                    add(&mut sum, lane);
                }
            }
        }
        add(to, &sum);
    }
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
            let mut sum = vec![0x5a; 256];
            add_multiple(&mut sum, factor, &row);
            let mut scaled = row.clone();
            scale(&mut scaled, factor);
            for (i, byte) in row.iter().enumerate() {
                assert_eq!(scaled[i], slow(*byte, factor));
                assert_eq!(sum[i], 0x5a ^ slow(*byte, factor));
            }
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
        let mut slow = vec![3; 3 * LANE];
        for (row, factor) in terms {
            let row = &rows[usize::from(row)];
            add_multiple(&mut slow, factor, &row[..row.len().min(3 * LANE)]);
        }
        assert_eq!(fast, slow);
    }
}
