//! The version-independent part of a packet's header (RFC 8999): what routing needs; no keys.

/// First bytes of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Invariant<'a> {
    Long {
        first: u8,
        /// 0 for version negotiation.
        version: u32,
        dcid: &'a [u8],
        scid: &'a [u8],
    },
    Short {
        first: u8,
        dcid: &'a [u8],
    },
}

/// `None` if truncated. Connection IDs in short headers have the length that we issue.
pub(super) fn parse(datagram: &[u8], local_cid_len: usize) -> Option<Invariant<'_>> {
    let (&first, rest) = datagram.split_first()?;
    if first & 0x80 == 0 {
        let dcid = rest.get(..local_cid_len)?;
        return Some(Invariant::Short { first, dcid });
    }
    let (version, rest) = rest.split_first_chunk()?;
    // Version-specific limits on the lengths must not matter here (RFC 9000 section 17.2.1).
    let (dcid, rest) = prefixed(rest)?;
    let (scid, _) = prefixed(rest)?;
    Some(Invariant::Long {
        first,
        version: u32::from_be_bytes(*version),
        dcid,
        scid,
    })
}

fn prefixed(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&len, rest) = bytes.split_first()?;
    rest.split_at_checked(len.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_truncation_of_a_long_header() {
        let bytes = [0xc3, 0, 0, 0, 1, 3, 1, 2, 3, 2, 4, 5];
        let expected = Invariant::Long {
            first: 0xc3,
            version: 1,
            dcid: &[1, 2, 3],
            scid: &[4, 5],
        };
        assert_eq!(parse(&bytes, 8), Some(expected));
        for len in 0..bytes.len() {
            assert_eq!(parse(&bytes[..len], 8), None);
        }
    }

    #[test]
    fn short_header() {
        let bytes = [0x41, 1, 2, 3, 4];
        let expected = Invariant::Short {
            first: 0x41,
            dcid: &[1, 2, 3, 4],
        };
        assert_eq!(parse(&bytes, 4), Some(expected));
        assert_eq!(parse(&bytes, 5), None);
    }

    proptest! {
        #[test]
        fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            let _ = parse(&bytes, 8);
        }
    }
}
