//! Refuses a connection without making one: an Initial packet with CONNECTION_CLOSE (RFC 9000 section 5.2.2).

use quinn_proto::ConnectionId;
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::quic::{DirectionalKeys, Keys, Version};

/// CONNECTION_CLOSE of the transport: CONNECTION_REFUSED, frame type 0, no reason (RFC 9000
/// sections 19.19 and 20.1). Four bytes: enough for the header protection sample (RFC 9001
/// section 5.4.2), which starts four bytes after the packet number's first.
const PAYLOAD: [u8; 4] = [0x1c, 0x02, 0x00, 0x00];

/// Appends the packet: number 0, on one byte. It is not ack-eliciting and thus needs no padding to
/// 1200 bytes (RFC 9000 section 14.1). `None`, and nothing written, if TLS lacks the cipher suite
/// of Initial packets.
pub(super) fn write(
    buf: &mut Vec<u8>,
    version: u32,
    client_dcid: &ConnectionId,
    client_scid: &ConnectionId,
    own: &ConnectionId,
) -> Option<usize> {
    let keys = server_keys(client_dcid)?;
    let start = buf.len();
    buf.push(0xc0);
    buf.extend_from_slice(&version.to_be_bytes());
    for id in [client_scid, own] {
        buf.push(id.len() as u8);
        buf.extend_from_slice(id);
    }
    // No token; the length of what follows: packet number, payload, tag.
    let length = 1 + PAYLOAD.len() + keys.packet.tag_len();
    buf.extend_from_slice(&[0, 0x40 | (length >> 8) as u8, length as u8]);
    let number = buf.len() - start;
    buf.push(0);
    let sealed = seal(buf, start, number, &keys);
    if sealed.is_none() {
        buf.truncate(start);
    }
    sealed
}

fn seal(buf: &mut Vec<u8>, start: usize, number: usize, keys: &DirectionalKeys) -> Option<usize> {
    let mut payload = PAYLOAD;
    let header = &buf[start..];
    let tag = keys.packet.encrypt_in_place(0, header, &mut payload).ok()?;
    buf.extend_from_slice(&payload);
    buf.extend_from_slice(tag.as_ref());
    let packet = &mut buf[start..];
    let (header, sample) = packet.split_at_mut(number + 4);
    let (first, rest) = header.split_first_mut()?;
    let sample = sample.get(..keys.header.sample_len())?;
    keys.header
        .encrypt_in_place(sample, first, &mut rest[number - 1..number])
        .ok()?;
    Some(packet.len())
}

/// RFC 9001 section 5.2.
fn server_keys(client_dcid: &ConnectionId) -> Option<DirectionalKeys> {
    let suite = TLS13_AES_128_GCM_SHA256.tls13()?.quic_suite()?;
    let keys: Keys = suite.keys(client_dcid, rustls::Side::Server, Version::V1);
    Some(keys.local)
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
        let size = write(&mut buf, 1, &dcid, &scid, &own).unwrap();
        let packet = &mut buf[7..];
        assert_eq!(packet.len(), size);
        assert!(size < 1200);

        let suite = TLS13_AES_128_GCM_SHA256.tls13().unwrap();
        let keys = suite
            .quic_suite()
            .unwrap()
            .keys(&dcid, rustls::Side::Client, Version::V1)
            .remote;
        let number = 1 + 4 + 1 + 5 + 1 + 8 + 1 + 2;
        let sample: [u8; 16] = packet[number + 4..][..16].try_into().unwrap();
        let (first, rest) = packet.split_first_mut().unwrap();
        keys.header
            .decrypt_in_place(&sample, first, &mut rest[number - 1..number])
            .unwrap();
        assert_eq!((packet[0], packet[number]), (0xc0, 0));
        let length = usize::from(packet[number - 1]);
        assert_eq!(length, packet.len() - number);
        let (header, payload) = packet.split_at_mut(number + 1);
        assert_eq!(header[5..11], [5, 2, 2, 2, 2, 2]);
        let plain = keys.packet.decrypt_in_place(0, header, payload).unwrap();
        assert_eq!(plain, PAYLOAD);
    }
}
