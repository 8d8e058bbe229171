//! Retry packets (RFC 9000 section 17.2.5): writes them; whether one is due is decided elsewhere.

use mpquic_sched_core::ConnectionId;

use mpquic_wire::crypto::retry_tag;
use mpquic_wire::packet::{Version, encode_retry_header};

/// Appends a Retry packet with this token, from `own`, in answer to an Initial packet from `client_scid` to
/// `client_dcid`. Returns its size: about 120 bytes, while the packet answered has at least 1200.
pub(super) fn write(
    buf: &mut Vec<u8>,
    version: Version,
    client_dcid: &ConnectionId,
    client_scid: &ConnectionId,
    own: &ConnectionId,
    token: &[u8],
) -> usize {
    let start = buf.len();
    //= specs/rfc9000.txt#section-17.2.5.1
    //# The server populates the Destination Connection ID with the connection ID that the client
    //# included in the Source Connection ID of the Initial packet.
    encode_retry_header(buf, version, client_scid, own, token);
    let tag = retry_tag(version, client_dcid, &buf[start..]);
    buf.extend_from_slice(&tag);
    buf.len() - start
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpquic_wire::crypto::verify_retry_tag;
    use mpquic_wire::packet::{ProtectedPacket, decode_next};

    #[test]
    fn a_client_can_read_it() {
        let dcid = ConnectionId::new(&[1; 8]);
        let scid = ConnectionId::new(&[2; 5]);
        let own = ConnectionId::new(&[3; 8]);
        let mut buf = vec![0xff; 7];
        let size = write(&mut buf, Version::V1, &dcid, &scid, &own, b"a token");
        let packet = &buf[7..];
        assert_eq!(packet.len(), size);
        assert!(verify_retry_tag(Version::V1, &dcid, packet));
        assert!(!verify_retry_tag(Version::V1, &own, packet));
        let Ok(ProtectedPacket::Retry {
            dcid: to,
            scid: from,
            token,
            ..
        }) = decode_next(packet, 5)
        else {
            panic!("no Retry packet");
        };
        //= specs/rfc9000.txt#section-17.2.5.1
        //= type=test
        //# The server populates the Destination Connection ID with the connection ID that the client
        //# included in the Source Connection ID of the Initial packet.
        assert_eq!((to, from, &packet[token]), (scid, own, &b"a token"[..]));
    }
}
