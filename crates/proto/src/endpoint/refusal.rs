//! Refuses a connection without making one: an Initial packet with CONNECTION_CLOSE (RFC 9000 sections 5.2.2 and 8.1.2).

use mpquic_sched_core::{ConnectionId, Side, TransportErrorCode};
use mpquic_wire::crypto::{open_long, seal_long};
use mpquic_wire::packet::{
    PacketType, ProtectedPacket, Version, decode_next, encode_long_header, unprotect_header,
};

use crate::crypto::initial_keys;
use crate::{ConnectionClose, TransportError};

/// Appends the packet and returns its size: number 0, on one byte. It is not ack-eliciting and thus
/// needs no padding to 1200 bytes (RFC 9000 section 14.1).
pub(super) fn write(
    buf: &mut Vec<u8>,
    version: Version,
    client_dcid: &ConnectionId,
    client_scid: &ConnectionId,
    own: &ConnectionId,
    code: TransportErrorCode,
) -> Result<usize, TransportError> {
    let start = buf.len();
    let ty = PacketType::Initial;
    let marks = encode_long_header(buf, ty, version, client_scid, own, &[], 0, 1);
    // Four bytes: enough for the header protection sample (RFC 9001 section 5.4.2).
    let close = ConnectionClose {
        error_code: code,
        frame_type: 0,
        reason: bytes::Bytes::new(),
    };
    close.encode(buf, usize::MAX);
    let keys = initial_keys(version, client_dcid, Side::Server);
    seal_long(&keys.local, buf, &marks, 0).inspect_err(|_| buf.truncate(start))?;
    Ok(buf.len() - start)
}

/// Whether the first packet of a datagram, an Initial packet to this connection ID, is as its client sealed it: the header
/// with the token is authenticated, too.
pub(super) fn is_genuine(datagram: &[u8], version: Version, client_dcid: &ConnectionId) -> bool {
    // Decrypted in place, and the datagram is needed as it is.
    let mut packet = datagram.to_vec();
    let decoded = decode_next(&packet, client_dcid.len());
    let Ok(ProtectedPacket::Long { pn_offset, len, .. }) = decoded else {
        return false;
    };
    packet.truncate(len);
    let keys = initial_keys(version, client_dcid, Side::Server).remote;
    let unprotected = unprotect_header(&mut packet, pn_offset, keys.header.as_ref());
    let Some((_, truncated, pn_len)) = unprotected else {
        return false;
    };
    // A client's first packets: none of their numbers was truncated.
    let (header, payload) = packet.split_at_mut(pn_offset + pn_len);
    open_long(&keys, truncated, header, payload).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_can_read_it() {
        let dcid = ConnectionId::new(&[1; 8]);
        let scid = ConnectionId::new(&[2; 5]);
        let own = ConnectionId::new(&[3; 8]);
        let mut buf = vec![0xff; 7];
        let size = write(
            &mut buf,
            Version::V1,
            &dcid,
            &scid,
            &own,
            TransportErrorCode::CONNECTION_REFUSED,
        )
        .unwrap();
        let packet = &mut buf[7..];
        assert_eq!(packet.len(), size);
        assert!(size < 1200);

        let decoded = decode_next(packet, 5).unwrap();
        let ProtectedPacket::Long {
            ty,
            dcid: to,
            scid: from,
            pn_offset,
            len,
            ..
        } = decoded
        else {
            panic!("{decoded:?}");
        };
        assert_eq!((ty, to, from), (PacketType::Initial, scid, own));
        assert_eq!(len, size);
        let keys = initial_keys(Version::V1, &dcid, Side::Client).remote;
        let unprotected = unprotect_header(packet, pn_offset, keys.header.as_ref());
        assert_eq!(unprotected, Some((0xc0, 0, 1)));
        let (header, payload) = packet.split_at_mut(pn_offset + 1);
        assert_eq!(open_long(&keys, 0, header, payload), Some(4));
        // CONNECTION_CLOSE of the transport, CONNECTION_REFUSED, frame type 0, no reason (RFC 9000
        // sections 19.19 and 20.1).
        assert_eq!(payload[..4], [0x1c, 0x02, 0x00, 0x00]);
    }
}
