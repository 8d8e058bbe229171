//! Headers there and back, cut off everywhere; packet numbers as in RFC 9000 appendix A.

use mpquic_sched_core::{ConnectionId, Side};
use proptest::collection::vec;
use proptest::prelude::*;

use super::decode::PacketDecodeError;
use super::protection::protect_header;
use super::*;
use crate::crypto::{initial_keys, open_long, seal_long};

const CID_LEN: usize = 8;

/// RFC 9000 appendix A.2.
//= specs/rfc9000.txt#section-17.1
//= type=test
//# After an acknowledgment is received for a packet number space, the sender MUST use a packet
//# number size able to represent more than twice as large a range as the difference between the
//# largest acknowledged packet number and the packet number being sent.
#[test]
fn sample_packet_number_lengths() {
    assert_eq!(pn_len(0xac5c02, Some(0xabe8b3)), 2);
    assert_eq!(pn_len(0xace8fe, Some(0xabe8b3)), 3);
    assert_eq!(pn_len(0, None), 1);
    assert_eq!(pn_len(126, None), 1);
    assert_eq!(pn_len(127, None), 2);
    assert_eq!(pn_len(varint::MAX, None), 4);
}

/// RFC 9000 appendix A.3.
#[test]
fn sample_packet_number_decoding() {
    assert_eq!(expand_pn(0x9b32, 2, 0xa82f30ea + 1), 0xa82f9b32);
}

#[test]
fn packet_numbers_at_the_edges() {
    assert_eq!(expand_pn(0, 1, 0), 0);
    assert_eq!(
        expand_pn(0xff, 1, 0),
        0xff,
        "nothing below zero to choose instead"
    );
    assert_eq!(expand_pn(0xff, 1, 0x100), 0xff);
    assert_eq!(expand_pn(0x00, 1, 0xff), 0x100);
    // Near 2^62 there is no higher window to choose.
    assert_eq!(expand_pn(0, 1, varint::MAX), varint::MAX - 0xff);
    assert_eq!(expand_pn(0xffff_ffff, 4, varint::MAX), varint::MAX);
}

proptest! {
    #[test]
    fn packet_number_round_trip(acked in prop::option::of(0..1u64 << 61), ahead in 1..1u64 << 30, behind in 0..1u64 << 30) {
        let base = acked.map_or(0, |acked| acked + 1);
        let pn = base + ahead - 1;
        let len = pn_len(pn, acked);
        let truncated = pn & ((1u64 << (8 * len)) - 1);
        // The receiver has received all that we know of, and perhaps some that we do not.
        let expected = pn.saturating_sub(behind).max(base);
        prop_assert_eq!(expand_pn(truncated, len, expected), pn);
    }

    #[test]
    fn expanding_anything_is_close_and_in_range(truncated in any::<u32>(), len in 1usize..=4, expected in 0..=varint::MAX) {
        let window = 1u64 << (8 * len);
        let truncated = u64::from(truncated) & (window - 1);
        let pn = expand_pn(truncated, len, expected);
        prop_assert!(pn <= varint::MAX);
        prop_assert_eq!(pn & (window - 1), truncated);
        let is_close = pn.abs_diff(expected) <= window / 2;
        prop_assert!(is_close || expected < window || expected > varint::MAX - window);
    }
}

fn cid(max: usize) -> impl Strategy<Value = ConnectionId> {
    vec(any::<u8>(), 0..=max).prop_map(|bytes| ConnectionId::new(&bytes))
}

fn long_type() -> impl Strategy<Value = PacketType> {
    prop_oneof![
        Just(PacketType::Initial),
        Just(PacketType::ZeroRtt),
        Just(PacketType::Handshake)
    ]
}

/// Decoding a prefix never panics; if it succeeds, everything it points at is inside.
fn check_prefixes(packet: &[u8]) -> Result<(), TestCaseError> {
    for cut in 0..packet.len() {
        let _ = parse_invariant(&packet[..cut], CID_LEN);
        match decode_next(&packet[..cut], CID_LEN) {
            Err(_) => {}
            Ok(ProtectedPacket::Long { .. }) => {
                prop_assert!(false, "a long packet of {cut} bytes of {}", packet.len());
            }
            Ok(decoded) => check_offsets(&decoded, cut)?,
        }
    }
    Ok(())
}

fn check_offsets(packet: &ProtectedPacket, datagram: usize) -> Result<(), TestCaseError> {
    let len = packet.size();
    prop_assert!(len <= datagram);
    match packet {
        ProtectedPacket::Long {
            token, pn_offset, ..
        } => {
            prop_assert!(token.start <= token.end && token.end <= *pn_offset && *pn_offset <= len);
        }
        ProtectedPacket::Short { pn_offset, .. } => prop_assert!(*pn_offset <= len),
        ProtectedPacket::Retry { token, tag, .. } => {
            prop_assert!(token.start < token.end && token.end == tag.start);
            prop_assert_eq!((tag.len(), tag.end), (TAG_LEN, len));
        }
        ProtectedPacket::VersionNegotiation { versions, .. } => {
            prop_assert!(versions.start < versions.end && versions.end == len);
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn long_header_round_trip(
        ty in long_type(),
        dcid in cid(20),
        scid in cid(20),
        token in vec(any::<u8>(), 0..80),
        pn in 0..=varint::MAX,
        pn_len in 1usize..=4,
        payload in vec(any::<u8>(), 0..100),
        before in vec(any::<u8>(), 0..5),
        after in vec(any::<u8>(), 0..5),
    ) {
        let mut buf = before.clone();
        let marks = encode_long_header(&mut buf, ty, Version::V1, &dcid, &scid, &token, pn, pn_len);
        prop_assert_eq!(marks.start, before.len());
        prop_assert_eq!(marks.pn_offset + pn_len, buf.len());
        buf.extend_from_slice(&payload);
        let end = buf.len();
        patch_length(&mut buf, &marks, end);
        check_prefixes(&buf[marks.start..])?;
        buf.extend_from_slice(&after);

        let packet = &buf[marks.start..];
        let decoded = decode_next(packet, CID_LEN).unwrap();
        check_offsets(&decoded, packet.len())?;
        let ProtectedPacket::Long { ty: t, version, dcid: d, scid: s, token: range, pn_offset, len } = decoded else {
            return Err(TestCaseError::fail("not long"));
        };
        prop_assert_eq!((t, version, d, s), (ty, Version::V1, dcid, scid));
        prop_assert_eq!(pn_offset + marks.start, marks.pn_offset);
        prop_assert_eq!(len + marks.start, end, "the rest is the next packet");
        let expected = if ty == PacketType::Initial { &token[..] } else { &[] };
        prop_assert_eq!(&packet[range], expected);
        let wire_pn = packet[pn_offset..pn_offset + pn_len].iter().fold(0, |n, &b| (n << 8) | u64::from(b));
        prop_assert_eq!(wire_pn, pn & ((1u64 << (8 * pn_len)) - 1));

        let invariant = parse_invariant(packet, CID_LEN).unwrap();
        let expected = Invariant::Long { first: packet[0], version: Version::V1.number(), dcid: &dcid, scid: &scid };
        prop_assert_eq!(invariant, expected);
    }

    #[test]
    fn short_header_round_trip(
        dcid in any::<[u8; CID_LEN]>(),
        phase in any::<bool>(),
        pn in 0..=varint::MAX,
        pn_len in 1usize..=4,
        payload in vec(any::<u8>(), 0..50),
    ) {
        let mut buf = Vec::new();
        let dcid = ConnectionId::new(&dcid);
        let pn_offset = encode_short_header(&mut buf, &dcid, phase, pn, pn_len);
        prop_assert_eq!(pn_offset + pn_len, buf.len());
        prop_assert_eq!(key_phase(buf[0]), phase);
        prop_assert!(reserved_bits_are_zero(buf[0]));
        buf.extend_from_slice(&payload);
        let decoded = decode_next(&buf, CID_LEN).unwrap();
        prop_assert_eq!(&decoded, &ProtectedPacket::Short { dcid, pn_offset, len: buf.len() });
        check_prefixes(&buf)?;
    }

    #[test]
    fn retry_round_trip(dcid in cid(20), scid in cid(20), token in vec(any::<u8>(), 1..80), tag in any::<[u8; TAG_LEN]>()) {
        let mut buf = Vec::new();
        encode_retry_header(&mut buf, Version::V1, &dcid, &scid, &token);
        let tag_at = buf.len();
        buf.extend_from_slice(&tag);
        let len = buf.len();
        prop_assert_eq!(decode_next(&buf, CID_LEN).unwrap(), ProtectedPacket::Retry {
            version: Version::V1, dcid, scid, token: tag_at - token.len()..tag_at, tag: tag_at..len, len,
        });
        check_prefixes(&buf)?;
    }

    #[test]
    fn version_negotiation_round_trip(dcid in cid(20), scid in cid(20), versions in vec(any::<u32>(), 1..9), random in any::<u8>()) {
        let mut buf = Vec::new();
        encode_version_negotiation(&mut buf, &dcid, &scid, &versions, random);
        let ProtectedPacket::VersionNegotiation { dcid: d, scid: s, versions: range, len } = decode_next(&buf, CID_LEN).unwrap() else {
            return Err(TestCaseError::fail("not version negotiation"));
        };
        prop_assert_eq!((d, s, len), (dcid, scid, buf.len()));
        prop_assert_eq!(version_list(&buf[range]).collect::<Vec<_>>(), versions);
        check_prefixes(&buf)?;
    }

    #[test]
    fn arbitrary_datagrams_never_panic(bytes in vec(any::<u8>(), 0..150), long in any::<bool>(), v1 in any::<bool>()) {
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() && long {
            *first |= LONG_HEADER_FORM;
        }
        if v1 && bytes.len() >= 7 {
            bytes[1..5].copy_from_slice(&Version::V1.number().to_be_bytes());
            bytes[5] &= 0x0f;
        }
        if let Ok(packet) = decode_next(&bytes, CID_LEN) {
            check_offsets(&packet, bytes.len())?;
        }
    }

    /// Seals and opens, with every packet number length; a truncated packet is not opened.
    #[test]
    fn protection_round_trip(
        dcid in cid(20),
        pn in 0..=u64::from(u32::MAX),
        pn_len in 1usize..=4,
        payload in vec(any::<u8>(), 3..60),
    ) {
        let client = initial_keys(Version::V1, &dcid, Side::Client);
        let server = initial_keys(Version::V1, &dcid, Side::Server);
        let scid = ConnectionId::new(b"us");
        let mut buf = Vec::new();
        let marks = encode_long_header(&mut buf, PacketType::Initial, Version::V1, &dcid, &scid, b"token", pn, pn_len);
        buf.extend_from_slice(&payload);
        seal_long(&client.local, &mut buf, &marks, pn).unwrap();

        let decoded = decode_next(&buf, CID_LEN).unwrap();
        prop_assert_eq!(decoded.size(), buf.len());
        let mask = (1u64 << (8 * pn_len)) - 1;
        for cut in 0..buf.len() {
            let mut short = buf[..cut].to_vec();
            let unprotected = unprotect_header(&mut short, marks.pn_offset, server.remote.header.as_ref());
            let enough = cut >= marks.pn_offset + 4 + 16;
            prop_assert_eq!(unprotected.is_some(), enough);
            if let Some((_, truncated, len)) = unprotected {
                prop_assert_eq!((truncated, len), (pn & mask, pn_len));
                let (header, body) = short.split_at_mut(marks.pn_offset + len);
                prop_assert_eq!(open_long(&server.remote, pn, header, body), None);
            }
        }
        let (first, truncated, len) = unprotect_header(&mut buf, marks.pn_offset, server.remote.header.as_ref()).unwrap();
        prop_assert!(reserved_bits_are_zero(first));
        prop_assert_eq!((truncated, len), (pn & mask, pn_len));
        let (header, body) = buf.split_at_mut(marks.pn_offset + len);
        let plain = open_long(&server.remote, pn, header, body);
        prop_assert_eq!(plain, Some(payload.len()));
        prop_assert_eq!(&body[..payload.len()], &payload[..]);
    }
}

#[test]
fn packets_too_short_to_protect_are_an_error_not_a_panic() {
    let keys = initial_keys(Version::V1, &ConnectionId::new(&[1; 8]), Side::Client);
    let hp = keys.local.header.as_ref();
    for len in 0..40 {
        for pn_offset in 0..45 {
            let mut packet = vec![0x40; len];
            let fits = pn_offset > 0 && len >= pn_offset + 20;
            assert_eq!(protect_header(&mut packet, pn_offset, 1, hp).is_ok(), fits);
            let mut packet = vec![0x40; len];
            assert_eq!(unprotect_header(&mut packet, pn_offset, hp).is_some(), fits);
        }
    }
    assert!(unprotect_header(&mut [0; 64], usize::MAX, hp).is_none());
}

/// What a decoder must refuse, and why.
#[test]
fn malformed_headers() {
    use PacketDecodeError as E;
    let long = |first: u8, version: u32, rest: &[u8]| {
        let mut buf = vec![first];
        buf.extend_from_slice(&version.to_be_bytes());
        buf.extend_from_slice(rest);
        decode_next(&buf, CID_LEN).unwrap_err()
    };
    assert_eq!(decode_next(&[], CID_LEN), Err(E::Truncated));
    assert_eq!(decode_next(&[0x40; CID_LEN], CID_LEN), Err(E::Truncated));
    assert_eq!(long(0xc0, 2, &[0, 0]), E::UnsupportedVersion(2));
    // Nor of any other version, whatever the bit that version 1 fixes.
    assert_eq!(
        long(0x80, 0xface_b00c, &[0, 0]),
        E::UnsupportedVersion(0xface_b00c)
    );
    let mut long_cid = vec![21];
    long_cid.extend_from_slice(&[7; 80]);
    assert_eq!(
        long(0xc0, Version::V1.number(), &long_cid),
        E::ConnectionIdTooLong(21)
    );
    // Lengths of token and packet beyond the end.
    let huge = [0xff; 8];
    assert_eq!(
        long(
            0xc0,
            Version::V1.number(),
            &[&[0, 0][..], &huge, &[0; 9]].concat()
        ),
        E::Truncated
    );
    assert_eq!(
        long(
            0xe0,
            Version::V1.number(),
            &[&[0, 0][..], &huge, &[0; 9]].concat()
        ),
        E::Truncated
    );
    // neqo GHSA-hvhj-4r52-8568: a Retry shorter than its tag.
    for len in 0..16 {
        assert_eq!(
            long(0xf0, Version::V1.number(), &vec![0; 2 + len]),
            E::Truncated,
            "{len}"
        );
    }
    assert_eq!(
        long(0xf0, Version::V1.number(), &[0; 18]),
        E::EmptyRetryToken
    );
    for len in [0, 1, 2, 3, 5] {
        assert_eq!(long(0x80, 0, &vec![0; 2 + len]), E::VersionList, "{len}");
    }
}

/// An endpoint must be able to answer versions whose connection IDs are longer than ours.
//= specs/rfc9000.txt#section-17.2
//= type=test
//# In order to properly form a Version Negotiation packet, servers SHOULD be able to read longer
//# connection IDs from other QUIC versions.
#[test]
fn invariants_of_unknown_versions() {
    let mut buf = vec![0x80, 0xfa, 0xce, 0xb0, 0x0c, 255];
    buf.extend_from_slice(&[1; 255]);
    buf.push(30);
    buf.extend_from_slice(&[2; 30]);
    let Ok(Invariant::Long {
        version: 0xface_b00c,
        dcid,
        scid,
        ..
    }) = parse_invariant(&buf, CID_LEN)
    else {
        panic!("not of a long header");
    };
    assert_eq!((dcid.len(), scid.len()), (255, 30));
    let mut answer = Vec::new();
    encode_version_negotiation(&mut answer, scid, dcid, &[Version::V1.number()], 0x0f);
    let answer = parse_invariant(&answer, CID_LEN).unwrap();
    assert!(matches!(answer, Invariant::Long { version: 0, scid, .. } if scid == dcid));
}

#[test]
fn reserved_bits() {
    assert!(reserved_bits_are_zero(0xc3) && reserved_bits_are_zero(0x67));
    for first in [0xc4, 0xc8, 0x48, 0x50] {
        assert!(!reserved_bits_are_zero(first), "{first:#x}");
    }
}
