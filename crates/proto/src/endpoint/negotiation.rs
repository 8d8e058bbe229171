//! Version Negotiation packets (RFC 9000 section 6): writes them; a client's reaction is the connection's.

use rand::RngExt;
use rand::rngs::StdRng;
use smallvec::SmallVec;

use mpquic_wire::packet::{Version, encode_version_negotiation, reserved_version};

/// Appends the answer to a packet of an unknown version. The connection IDs change places
/// (RFC 9000 section 17.2.1). At most 527 bytes, while the packet answered has at least 1200.
pub(super) fn write(
    buf: &mut Vec<u8>,
    rng: &mut StdRng,
    spoken: impl IntoIterator<Item = Version>,
    dcid: &[u8],
    scid: &[u8],
) {
    let random = rng.random();
    // Section 6.3: a reserved version, so that clients learn to skip what they do not know.
    let mut versions: SmallVec<[u32; 4]> = spoken.into_iter().map(Version::number).collect();
    versions.insert(rng.random_range(0..=versions.len()), reserved_version(rng));
    //= specs/rfc9000.txt#section-17.2.1
    //# The server MUST include the value from the Source Connection ID field of the packet it
    //# receives in the Destination Connection ID field.
    //= specs/rfc9000.txt#section-17.2.1
    //# The value for Source Connection ID MUST be copied from the Destination Connection ID of the
    //# received packet, which is initially randomly selected by a client.
    encode_version_negotiation(buf, scid, dcid, &versions, random);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn layout() {
        for seed in 0..100 {
            let mut buf = Vec::new();
            write(
                &mut buf,
                &mut StdRng::seed_from_u64(seed),
                [Version::V1],
                &[1; 255],
                &[2; 3],
            );
            //= specs/rfc9000.txt#section-17.2.1
            //= type=test
            //# Where QUIC might be multiplexed with other protocols (see [RFC7983]), servers SHOULD
            //# set the most significant bit of this field (0x40) to 1 so that Version Negotiation
            //# packets appear to have the Fixed Bit field.
            assert_eq!(buf[0] & 0xc0, 0xc0);
            //= specs/rfc9000.txt#section-17.2.1
            //= type=test
            //# The Version field of a Version Negotiation packet MUST be set to 0x00000000.
            assert_eq!(buf[1..5], [0; 4]);
            //= specs/rfc9000.txt#section-17.2.1
            //= type=test
            //# The server MUST include the value from the Source Connection ID field of the packet
            //# it receives in the Destination Connection ID field.
            assert_eq!(buf[5..9], [3, 2, 2, 2]);
            //= specs/rfc9000.txt#section-17.2.1
            //= type=test
            //# The value for Source Connection ID MUST be copied from the Destination Connection ID
            //# of the received packet, which is initially randomly selected by a client.
            assert_eq!((buf[9], &buf[10..265]), (255, &[1; 255][..]));
            let mut versions: Vec<_> = buf[265..]
                .chunks(4)
                .map(|v| u32::from_be_bytes(v.try_into().unwrap()))
                .collect();
            versions.sort_unstable();
            assert_eq!(versions[0], Version::V1.number());
            assert_eq!(versions[1] & 0x0f0f_0f0f, 0x0a0a_0a0a);
            assert_eq!(versions.len(), 2);
        }
    }
}
