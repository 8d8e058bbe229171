//! Variable-length integers (RFC 9000 section 16) and a bounded reader over a slice.

/// The largest value that fits (RFC 9000 section 16).
pub const MAX: u64 = (1 << 62) - 1;

/// The input ended inside a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnexpectedEnd;

/// Bytes that [`put`] appends for `x`.
#[inline]
pub const fn size(x: u64) -> usize {
    if x < 1 << 6 {
        1
    } else if x < 1 << 14 {
        2
    } else if x < 1 << 30 {
        4
    } else {
        8
    }
}

/// Appends `x` in its shortest encoding. A value above [`MAX`] is a bug of the caller's; it is
/// written as [`MAX`], so that what follows stays readable.
#[inline]
pub fn put(buf: &mut Vec<u8>, x: u64) {
    debug_assert!(x <= MAX, "{x} does not fit a varint");
    match size(x) {
        1 => buf.push(x as u8),
        2 => buf.extend_from_slice(&(0x4000 | x as u16).to_be_bytes()),
        4 => buf.extend_from_slice(&(0x8000_0000 | x as u32).to_be_bytes()),
        _ => buf.extend_from_slice(&(0xc000_0000_0000_0000 | x.min(MAX)).to_be_bytes()),
    }
}

/// Reads fields off the front of a slice; never past its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads from the start of these bytes.
    #[inline]
    pub const fn new(data: &'a [u8]) -> Self {
        Self { rest: data }
    }

    /// Whether all is read.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Bytes left.
    #[inline]
    pub const fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// What was not read yet.
    #[inline]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Everything that is left.
    #[inline]
    pub fn take_rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// One byte.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, UnexpectedEnd> {
        let (&first, rest) = self.rest.split_first().ok_or(UnexpectedEnd)?;
        self.rest = rest;
        Ok(first)
    }

    /// `N` bytes.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], UnexpectedEnd> {
        let (bytes, rest) = self.rest.split_first_chunk::<N>().ok_or(UnexpectedEnd)?;
        self.rest = rest;
        Ok(*bytes)
    }

    /// Two bytes, big endian.
    #[inline]
    pub fn u16(&mut self) -> Result<u16, UnexpectedEnd> {
        self.array().map(u16::from_be_bytes)
    }

    /// Four bytes, big endian.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, UnexpectedEnd> {
        self.array().map(u32::from_be_bytes)
    }

    /// Eight bytes, big endian.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, UnexpectedEnd> {
        self.array().map(u64::from_be_bytes)
    }

    /// So many bytes.
    #[inline]
    pub fn bytes(&mut self, len: usize) -> Result<&'a [u8], UnexpectedEnd> {
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(UnexpectedEnd)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// A varint, in whatever length the sender chose. Not inlined: frames consist of little else.
    #[inline(never)]
    pub fn varint(&mut self) -> Result<u64, UnexpectedEnd> {
        let Some(bytes) = self.rest.first_chunk::<8>() else {
            return self.varint_near_end();
        };
        // The two highest bits tell the length: cut off what comes before and after.
        let word = u64::from_be_bytes(*bytes);
        let len = 1 << (word >> 62);
        self.rest = &self.rest[len..];
        Ok(word << 2 >> (66 - 8 * len))
    }

    /// A varint that is mostly a single byte.
    #[inline]
    pub fn small_varint(&mut self) -> Result<u64, UnexpectedEnd> {
        match self.rest {
            [first @ 0..0x40, rest @ ..] => {
                self.rest = rest;
                Ok((*first).into())
            }
            _ => self.varint(),
        }
    }

    /// [`varint`](Self::varint) if less is left than the longest takes.
    fn varint_near_end(&mut self) -> Result<u64, UnexpectedEnd> {
        let &first = self.rest.first().ok_or(UnexpectedEnd)?;
        match first >> 6 {
            0 => self.u8().map(u64::from),
            1 => self.u16().map(|x| u64::from(x & 0x3fff)),
            2 => self.u32().map(|x| u64::from(x & 0x3fff_ffff)),
            _ => Err(UnexpectedEnd),
        }
    }

    /// Bytes preceded by their count as a varint. A count beyond the end costs nothing.
    #[inline]
    pub fn varint_bytes(&mut self) -> Result<&'a [u8], UnexpectedEnd> {
        let len = self.varint()?;
        self.bytes(usize::try_from(len).map_err(|_| UnexpectedEnd)?)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// RFC 9000 appendix A.1.
    #[test]
    fn sample_encodings() {
        for (bytes, value) in [
            (
                &[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..],
                151_288_809_941_952_652,
            ),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
        ] {
            assert_eq!(Reader::new(bytes).varint(), Ok(value));
            let mut buf = Vec::new();
            put(&mut buf, value);
            assert_eq!(buf, bytes);
        }
        assert_eq!(
            Reader::new(&[0x40, 0x25]).varint(),
            Ok(37),
            "two bytes for a small value"
        );
    }

    proptest! {
        #[test]
        fn round_trip(bits in 0u32..=62, raw in any::<u64>()) {
            let value = raw & ((1u64 << bits) - 1);
            let mut buf = Vec::new();
            put(&mut buf, value);
            prop_assert_eq!(buf.len(), size(value));
            let mut r = Reader::new(&buf);
            prop_assert_eq!(r.varint(), Ok(value));
            prop_assert!(r.is_empty());
            let mut r = Reader::new(&buf);
            prop_assert_eq!(r.small_varint(), Ok(value));
            prop_assert!(r.is_empty());
            let followed = [&buf[..], &[0xff; 8]].concat();
            let mut r = Reader::new(&followed);
            prop_assert_eq!(r.varint(), Ok(value));
            prop_assert_eq!(r.remaining(), 8);
            for cut in 0..buf.len() {
                prop_assert_eq!(Reader::new(&buf[..cut]).varint(), Err(UnexpectedEnd));
            }
        }
    }
}
