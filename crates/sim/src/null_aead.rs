//! Packet protection without encryption, for speed. It has the sizes and limits of AES-128-GCM; the
//! handshake and TLS itself are real.

use std::sync::LazyLock;

use rustls::crypto::CipherSuiteCommon;
use rustls::crypto::cipher::{AeadKey, Iv};
use rustls::crypto::ring::cipher_suite;
use rustls::quic::{Algorithm, HeaderProtectionKey, PacketKey, Tag};
use rustls::{Error, SupportedCipherSuite, Tls13CipherSuite};

/// The tag length of AES-128-GCM (RFC 9001 section 5.3).
const TAG_LEN: usize = 16;
/// The length of AES-128's key and of the header protection sample (RFC 9001 section 5.4.3).
const KEY_LEN: usize = 16;
const SAMPLE_LEN: usize = 16;
/// The limit of AES-128-GCM (RFC 9001 section 6.6), so that keys are updated as often.
const CONFIDENTIALITY_LIMIT: u64 = 1 << 23;
const INTEGRITY_LIMIT: u64 = 1 << 52;
/// The odd constant of SplitMix64.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// Which properties of AES-128-GCM the null cipher keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Integrity {
    /// A packet opens only with the key, path and packet number that it was sealed with. For links
    /// that do not corrupt packets.
    /// change no bit.
    Keys,
    /// In addition, a checksum detects changed bits. For links that corrupt packets.
    Bits,
}

/// The TLS 1.3 suite TLS_AES_128_GCM_SHA256, by name and for TLS, but its QUIC packets are in the
/// clear: no encryption, no header protection (a mask of zeros), and a tag of 16 bytes.
pub(crate) fn suite(integrity: Integrity) -> SupportedCipherSuite {
    static KEYS: LazyLock<Option<Tls13CipherSuite>> =
        LazyLock::new(|| clear(&NullAead(Integrity::Keys)));
    static BITS: LazyLock<Option<Tls13CipherSuite>> =
        LazyLock::new(|| clear(&NullAead(Integrity::Bits)));
    let suite = match integrity {
        Integrity::Keys => KEYS.as_ref(),
        Integrity::Bits => BITS.as_ref(),
    };
    // The real suite is a TLS 1.3 suite. If it were not, everything would still work, only slower.
    suite.map_or(
        cipher_suite::TLS13_AES_128_GCM_SHA256,
        SupportedCipherSuite::Tls13,
    )
}

fn clear(quic: &'static NullAead) -> Option<Tls13CipherSuite> {
    let real = cipher_suite::TLS13_AES_128_GCM_SHA256.tls13()?;
    Some(Tls13CipherSuite {
        common: CipherSuiteCommon {
            suite: real.common.suite,
            hash_provider: real.common.hash_provider,
            confidentiality_limit: real.common.confidentiality_limit,
        },
        hkdf_provider: real.hkdf_provider,
        aead_alg: real.aead_alg,
        quic: Some(quic),
    })
}

struct NullAead(Integrity);

impl Algorithm for NullAead {
    fn packet_key(&self, _key: AeadKey, iv: Iv) -> Box<dyn PacketKey> {
        let id = iv
            .as_ref()
            .iter()
            .fold(0, |id: u32, byte| id.rotate_left(8) ^ u32::from(*byte));
        Box::new(NullPacketKey {
            id,
            integrity: self.0,
        })
    }

    fn header_protection_key(&self, _key: AeadKey) -> Box<dyn HeaderProtectionKey> {
        Box::new(NullMask)
    }

    fn aead_key_len(&self) -> usize {
        KEY_LEN
    }
}

/// A mask of zeros.
struct NullMask;

impl HeaderProtectionKey for NullMask {
    fn encrypt_in_place(&self, _: &[u8], _: &mut u8, _: &mut [u8]) -> Result<(), Error> {
        Ok(())
    }

    fn decrypt_in_place(&self, _: &[u8], _: &mut u8, _: &mut [u8]) -> Result<(), Error> {
        Ok(())
    }

    fn sample_len(&self) -> usize {
        SAMPLE_LEN
    }
}

struct NullPacketKey {
    /// Derived from the secret, so that a packet does not open with the keys of another phase,
    /// direction or connection.
    id: u32,
    integrity: Integrity,
}

impl NullPacketKey {
    fn tag(&self, path: u32, packet_number: u64, header: &[u8], payload: &[u8]) -> [u8; TAG_LEN] {
        let sum = match self.integrity {
            Integrity::Keys => 0,
            Integrity::Bits => check_sum(payload, check_sum(header, GAMMA)),
        };
        let mut tag = [0; TAG_LEN];
        tag[..8].copy_from_slice(&(packet_number ^ sum).to_le_bytes());
        tag[8..12].copy_from_slice(&path.to_le_bytes());
        tag[12..].copy_from_slice(&self.id.to_le_bytes());
        tag
    }
}

/// Each step is a bijection of the sum for a given word, and of the word for a given sum. The sum
/// therefore detects every change within one word.
fn check_sum(bytes: &[u8], start: u64) -> u64 {
    let step = |sum: u64, word: u64| (sum ^ word).wrapping_mul(GAMMA).rotate_left(29);
    let (words, rest) = bytes.as_chunks();
    let sum = words
        .iter()
        .fold(start, |sum, word| step(sum, u64::from_le_bytes(*word)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    step(sum, u64::from_le_bytes(last) ^ (bytes.len() as u64) << 56)
}

impl PacketKey for NullPacketKey {
    fn encrypt_in_place(
        &self,
        packet_number: u64,
        header: &[u8],
        payload: &mut [u8],
    ) -> Result<Tag, Error> {
        // Without a path ID, the nonce is that of path 0 (RFC 10069).
        self.encrypt_in_place_for_path(0, packet_number, header, payload)
    }

    fn encrypt_in_place_for_path(
        &self,
        path_id: u32,
        packet_number: u64,
        header: &[u8],
        payload: &mut [u8],
    ) -> Result<Tag, Error> {
        let tag = self.tag(path_id, packet_number, header, payload);
        Ok(Tag::from(tag.as_slice()))
    }

    fn decrypt_in_place<'a>(
        &self,
        packet_number: u64,
        header: &[u8],
        payload: &'a mut [u8],
    ) -> Result<&'a [u8], Error> {
        self.decrypt_in_place_for_path(0, packet_number, header, payload)
    }

    fn decrypt_in_place_for_path<'a>(
        &self,
        path_id: u32,
        packet_number: u64,
        header: &[u8],
        payload: &'a mut [u8],
    ) -> Result<&'a [u8], Error> {
        match payload.split_last_chunk::<TAG_LEN>() {
            Some((plain, tag)) if *tag == self.tag(path_id, packet_number, header, plain) => {
                Ok(plain)
            }
            _ => Err(Error::DecryptError),
        }
    }

    fn tag_len(&self) -> usize {
        TAG_LEN
    }

    fn confidentiality_limit(&self) -> u64 {
        CONFIDENTIALITY_LIMIT
    }

    fn integrity_limit(&self) -> u64 {
        INTEGRITY_LIMIT
    }
}

#[cfg(test)]
mod tests {
    use rustls::Side;
    use rustls::quic::{Keys, Version};

    use super::*;

    fn keys(suite: SupportedCipherSuite, secret: &[u8], side: Side) -> Keys {
        let quic = suite.tls13().unwrap().quic_suite().unwrap();
        quic.keys(secret, side, Version::V1)
    }

    const SUITES: [Integrity; 2] = [Integrity::Keys, Integrity::Bits];

    #[test]
    fn sizes_and_limits_are_those_of_the_real_suite() {
        let real = keys(cipher_suite::TLS13_AES_128_GCM_SHA256, b"x", Side::Client);
        for null in SUITES.map(|integrity| keys(suite(integrity), b"x", Side::Client)) {
            let (null, real) = (&null.local, &real.local);
            assert_eq!(null.packet.tag_len(), real.packet.tag_len());
            assert_eq!(
                null.packet.confidentiality_limit(),
                real.packet.confidentiality_limit()
            );
            assert_eq!(null.packet.integrity_limit(), real.packet.integrity_limit());
            assert_eq!(null.header.sample_len(), real.header.sample_len());
            let tag = null.packet.encrypt_in_place(7, b"header", &mut [1; 50]);
            assert_eq!(tag.unwrap().as_ref().len(), TAG_LEN);
        }
    }

    #[test]
    fn payload_and_header_are_in_the_clear() {
        let keys = keys(suite(Integrity::Bits), b"x", Side::Client);
        let mut payload = *b"in the clear";
        keys.local
            .packet
            .encrypt_in_place_for_path(3, 7, b"header", &mut payload)
            .unwrap();
        assert_eq!(&payload, b"in the clear");
        let (mut first, mut number) = (0x43, [1, 2, 3, 4]);
        keys.local
            .header
            .encrypt_in_place(&[9; 16], &mut first, &mut number)
            .unwrap();
        assert_eq!((first, number), (0x43, [1, 2, 3, 4]));
        keys.remote
            .header
            .decrypt_in_place(&[9; 16], &mut first, &mut number)
            .unwrap();
        assert_eq!((first, number), (0x43, [1, 2, 3, 4]));
    }

    #[test]
    fn a_packet_opens_as_it_was_sealed_and_not_otherwise() {
        for integrity in SUITES {
            let client = keys(suite(integrity), b"secret", Side::Client);
            let server = keys(suite(integrity), b"secret", Side::Server);
            let other = keys(suite(integrity), b"another", Side::Server);
            let mut sealed = b"some payload of a packet".to_vec();
            let tag = client
                .local
                .packet
                .encrypt_in_place_for_path(1, 77, b"header", &mut sealed)
                .unwrap();
            sealed.extend_from_slice(tag.as_ref());
            let open = |keys: &Keys, path, number, header: &[u8], mut packet: Vec<u8>| {
                let plain =
                    keys.remote
                        .packet
                        .decrypt_in_place_for_path(path, number, header, &mut packet);
                plain.map(<[u8]>::to_vec).ok()
            };
            let plain = open(&server, 1, 77, b"header", sealed.clone());
            assert_eq!(plain.unwrap(), b"some payload of a packet");
            assert_eq!(open(&server, 2, 77, b"header", sealed.clone()), None);
            assert_eq!(open(&server, 1, 78, b"header", sealed.clone()), None);
            assert_eq!(open(&other, 1, 77, b"header", sealed.clone()), None);
            // The client's own direction.
            assert_eq!(open(&client, 1, 77, b"header", sealed.clone()), None);
            assert_eq!(open(&server, 1, 77, b"header", sealed[..15].to_vec()), None);
            let changed = open(&server, 1, 77, b"hfader", sealed.clone());
            assert_eq!(changed.is_none(), integrity == Integrity::Bits);
        }
    }

    #[test]
    fn a_check_sum_sees_every_bit() {
        let bytes: Vec<u8> = (0..61).collect();
        let sum = check_sum(&bytes, 1);
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(check_sum(&changed, 1), sum, "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert_ne!(check_sum(&bytes[..len], 1), sum, "{len} bytes");
        }
        assert_ne!(check_sum(&[0; 3], 1), check_sum(&[0; 4], 1));
    }
}
