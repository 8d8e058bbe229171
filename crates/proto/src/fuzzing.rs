//! Doors for the fuzz targets into the private decoders; not part of the API.

use quinn_proto::{ConnectionId, Side};

use crate::crypto::initial_keys;
use crate::frame::{Frame, FrameIter};
use crate::packet::{
    ProtectedPacket, VERSION_1, decode_next, parse_invariant, unprotect_header, version_list,
};
use crate::transport_parameters::TransportParameters;

/// Decodes a payload; what is understood must be understood again after encoding.
pub fn frames(payload: &[u8]) {
    let mut again = Vec::new();
    let mut count = 0;
    for frame in FrameIter::new(payload).map_while(Result::ok) {
        let before = again.len();
        frame.encode(&mut again);
        assert_eq!(again.len() - before, frame.size());
        if let Frame::Ack(ack) = &frame {
            let mut below = u64::MAX;
            for range in ack.blocks.iter() {
                assert!(range.start() <= range.end() && *range.end() < below);
                below = *range.start();
            }
        }
        count += 1;
    }
    let decoded: Result<Vec<_>, _> = FrameIter::new(&again).collect();
    assert_eq!(decoded.expect("our own encoding").len(), count);
}

/// Splits a datagram into packets and removes their header protection.
pub fn datagram(datagram: &[u8]) {
    const CID_LEN: usize = 8;
    let keys = initial_keys(&ConnectionId::new(&[7; CID_LEN]), Side::Server);
    let mut datagram = datagram.to_vec();
    let mut rest = &mut datagram[..];
    while let Ok(packet) = decode_next(rest, CID_LEN) {
        parse_invariant(rest, CID_LEN).expect("a packet has invariant fields");
        let (bytes, after) = rest.split_at_mut(packet.len());
        assert!(!bytes.is_empty());
        match packet {
            ProtectedPacket::Long {
                pn_offset, token, ..
            } => {
                let _ = &bytes[token];
                let _ = unprotect_header(bytes, pn_offset, keys.remote.header.as_ref());
            }
            ProtectedPacket::Short { pn_offset, .. } => {
                let _ = unprotect_header(bytes, pn_offset, keys.remote.header.as_ref());
            }
            ProtectedPacket::Retry { token, tag, .. } => {
                let _ = (&bytes[token], &bytes[tag]);
            }
            ProtectedPacket::VersionNegotiation { versions, .. } => {
                assert!(version_list(&bytes[versions]).count() > 0);
            }
        }
        rest = after;
    }
}

/// Decodes transport parameters of both sides; what is accepted must survive a round trip.
pub fn transport_parameters(data: &[u8]) {
    for side in [Side::Client, Side::Server] {
        let Ok(params) = TransportParameters::decode(side, data) else {
            continue;
        };
        let mut again = Vec::new();
        params.encode(side, &mut again);
        let decoded = TransportParameters::decode(side, &again).expect("our own encoding");
        assert_eq!(decoded, params);
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// The targets themselves hold on noise that leans towards small numbers, as types are.
        #[test]
        fn targets_hold_on_noise(bytes in vec(prop_oneof![0..0x40u8, any::<u8>(), Just(0x7e), 0x75..0x7du8], 0..120)) {
            frames(&bytes);
            datagram(&bytes);
            transport_parameters(&bytes);
            let mut long = bytes;
            if long.len() > 6 {
                long[0] |= 0xc0;
                long[1..5].copy_from_slice(&VERSION_1.to_be_bytes());
                long[5] &= 0x07;
                datagram(&long);
            }
        }
    }
}
