//! TinyMT32, the generator of pseudorandom numbers that RFC 8682 prescribes for coefficients. Not for secrets.

const MAT1: u32 = 0x8f70_11ee;
const MAT2: u32 = 0xfc78_ff1f;
const TMAT: u32 = 0x3793_fdff;

/// The generator with the one set of parameters of RFC 8682: the same numbers on every machine.
///
/// ```
/// use mpquic_live::rlc::TinyMt32;
///
/// assert_eq!(TinyMt32::new(1).next(), 2_545_341_989);
/// ```
#[derive(Debug, Clone)]
pub struct TinyMt32 {
    state: [u32; 4],
}

impl TinyMt32 {
    /// The stream of this seed (RFC 8682 section 2, `tinymt32_init`).
    pub fn new(seed: u32) -> Self {
        let mut state = [seed, MAT1, MAT2, TMAT];
        for i in 1..8_usize {
            let before = state[(i - 1) & 3];
            state[i & 3] ^=
                (i as u32).wrapping_add((before ^ before >> 30).wrapping_mul(1_812_433_253));
        }
        let mut made = Self { state };
        for _ in 0..8 {
            made.step();
        }
        made
    }

    fn step(&mut self) {
        let [a, b, c, mut y] = self.state;
        let mut x = (a & 0x7fff_ffff) ^ b ^ c;
        x ^= x << 1;
        y ^= (y >> 1) ^ x;
        let odd = (y & 1).wrapping_neg();
        self.state = [b, c ^ (odd & MAT1), x ^ (y << 10) ^ (odd & MAT2), y];
    }

    /// The next number (`tinymt32_generate_uint32`).
    #[expect(
        clippy::should_implement_trait,
        reason = "it never ends, and is no iterator in the RFC"
    )]
    pub fn next(&mut self) -> u32 {
        self.step();
        let [a, _, c, y] = self.state;
        let t = a.wrapping_add(c >> 8);
        y ^ t ^ ((t & 1).wrapping_neg() & TMAT)
    }

    /// A number from 0 to 15: the lowest 4 bits of the next one (RFC 8681 section 3.5, `tinymt32_rand16`).
    pub fn next_16(&mut self) -> u8 {
        self.next() as u8 & 0xf
    }

    /// A number from 0 to 255: the lowest 8 bits of the next one (RFC 8681 section 3.5, `tinymt32_rand256`).
    pub fn next_256(&mut self) -> u8 {
        self.next() as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8682 figure 2: the first 50 numbers for seed 1.
    const FIRST: [u32; 50] = [
        2545341989, 981918433, 3715302833, 2387538352, 3591001365, 3820442102, 2114400566,
        2196103051, 2783359912, 764534509, 643179475, 1822416315, 881558334, 4207026366,
        3690273640, 3240535687, 2921447122, 3984931427, 4092394160, 44209675, 2188315343,
        2908663843, 1834519336, 3774670961, 3019990707, 4065554902, 1239765502, 4035716197,
        3412127188, 552822483, 161364450, 353727785, 140085994, 149132008, 2547770827, 4064042525,
        4078297538, 2057335507, 622384752, 2041665899, 2193913817, 1080849512, 33160901, 662956935,
        642999063, 3384709977, 1723175122, 3866752252, 521822317, 2292524454,
    ];

    #[test]
    fn numbers_of_the_rfc() {
        let mut numbers = TinyMt32::new(1);
        assert_eq!(FIRST.map(|_| numbers.next()), FIRST);
        // RFC 8681 appendix A maps them to 8 and to 4 bits.
        let (mut bytes, mut nibbles) = (TinyMt32::new(1), TinyMt32::new(1));
        for number in FIRST {
            assert_eq!(u32::from(bytes.next_256()), number % 256);
            assert_eq!(u32::from(nibbles.next_16()), number % 16);
        }
    }
}
