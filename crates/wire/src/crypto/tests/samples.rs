//! The samples of RFC 9001 appendix A, and the nonce of RFC 10069, Nonce Calculation.

use mpquic_sched_core::Side;
use ring::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use rustls::quic::Algorithm;

use super::*;
use crate::packet::{
    PacketType, ProtectedPacket, Version, decode_next, encode_long_header, encode_retry_header,
    seal_packet,
};

fn original_dcid() -> ConnectionId {
    ConnectionId::new(&hex("8394c8f03e515708"))
}

fn server_scid() -> ConnectionId {
    ConnectionId::new(&hex("f067a5502a4262b5"))
}

fn quic(suite: SupportedCipherSuite) -> &'static dyn Algorithm {
    suite.tls13().and_then(|suite| suite.quic).unwrap()
}

/// Appendix A.1: what the derived keys seal is what the keys in the RFC seal.
//= specs/rfc9001.txt#section-5.2
//= type=test
//# The HKDF-Expand-Label function defined in TLS 1.3 MUST be used for Initial packets even where
//# the TLS versions offered do not include TLS 1.3.
#[test]
fn initial_keys_are_those_of_the_rfc() {
    let client = initial_keys(Version::V1, &original_dcid(), Side::Client);
    let server = initial_keys(Version::V1, &original_dcid(), Side::Server);
    for (derived, key, iv) in [
        (
            &client.local,
            "1f369613dd76d5467730efcbe3b1a22d",
            "fa044b2f42a3fd3b46fb255c",
        ),
        (
            &server.local,
            "cf3a5331653c364c88f0f379b6067e37",
            "0ac1493ca1905853b0bba03e",
        ),
    ] {
        let mut payload = *b"some payload";
        let tag = derived
            .packet
            .encrypt_in_place(0, b"header", &mut payload)
            .unwrap();
        // Packet number 0: the nonce is the IV.
        let nonce = Nonce::try_assume_unique_for_key(&hex(iv)).unwrap();
        let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &hex(key)).unwrap());
        let mut sealed = [&payload[..], tag.as_ref()].concat();
        let plain = key
            .open_in_place(nonce, Aad::from(b"header"), &mut sealed)
            .unwrap();
        assert_eq!(plain, b"some payload");
    }
}

/// Appendix A.2, there and back.
#[test]
fn client_initial() {
    let mut payload = hex("
            060040f1010000ed0303ebf8fa56f129 39b9584a3896472ec40bb863cfd3e868
            04fe3a47f06a2b69484c000004130113 02010000c000000010000e00000b6578
            616d706c652e636f6dff01000100000a 00080006001d00170018001000070005
            04616c706e0005000501000000000033 00260024001d00209370b2c9caa47fba
            baf4559fedba753de171fa71f50f1ce1 5d43e994ec74d748002b000302030400
            0d0010000e0403050306030203080408 050806002d00020101001c0002400100
            3900320408ffffffffffffffff050480 00ffff07048000ffff08011001048000
            75300901100f088394c8f03e51570806 048000ffff
        ");
    payload.resize(1162, 0);
    let expected = hex("
            c000000001088394c8f03e5157080000 449e7b9aec34d1b1c98dd7689fb8ec11
            d242b123dc9bd8bab936b47d92ec356c 0bab7df5976d27cd449f63300099f399
            1c260ec4c60d17b31f8429157bb35a12 82a643a8d2262cad67500cadb8e7378c
            8eb7539ec4d4905fed1bee1fc8aafba1 7c750e2c7ace01e6005f80fcb7df6212
            30c83711b39343fa028cea7f7fb5ff89 eac2308249a02252155e2347b63d58c5
            457afd84d05dfffdb20392844ae81215 4682e9cf012f9021a6f0be17ddd0c208
            4dce25ff9b06cde535d0f920a2db1bf3 62c23e596d11a4f5a6cf3948838a3aec
            4e15daf8500a6ef69ec4e3feb6b1d98e 610ac8b7ec3faf6ad760b7bad1db4ba3
            485e8a94dc250ae3fdb41ed15fb6a8e5 eba0fc3dd60bc8e30c5c4287e53805db
            059ae0648db2f64264ed5e39be2e20d8 2df566da8dd5998ccabdae053060ae6c
            7b4378e846d29f37ed7b4ea9ec5d82e7 961b7f25a9323851f681d582363aa5f8
            9937f5a67258bf63ad6f1a0b1d96dbd4 faddfcefc5266ba6611722395c906556
            be52afe3f565636ad1b17d508b73d874 3eeb524be22b3dcbc2c7468d54119c74
            68449a13d8e3b95811a198f3491de3e7 fe942b330407abf82a4ed7c1b311663a
            c69890f4157015853d91e923037c227a 33cdd5ec281ca3f79c44546b9d90ca00
            f064c99e3dd97911d39fe9c5d0b23a22 9a234cb36186c4819e8b9c5927726632
            291d6a418211cc2962e20fe47feb3edf 330f2c603a9d48c0fcb5699dbfe58964
            25c5bac4aee82e57a85aaf4e2513e4f0 5796b07ba2ee47d80506f8d2c25e50fd
            14de71e6c418559302f939b0e1abd576 f279c4b2e0feb85c1f28ff18f58891ff
            ef132eef2fa09346aee33c28eb130ff2 8f5b766953334113211996d20011a198
            e3fc433f9f2541010ae17c1bf202580f 6047472fb36857fe843b19f5984009dd
            c324044e847a4f4a0ab34f719595de37 252d6235365e9b84392b061085349d73
            203a4a13e96f5432ec0fd4a1ee65accd d5e3904df54c1da510b0ff20dcc0c77f
            cb2c0e0eb605cb0504db87632cf3d8b4 dae6e705769d1de354270123cb11450e
            fc60ac47683d7b8d0f811365565fd98c 4c8eb936bcab8d069fc33bd801b03ade
            a2e1fbc5aa463d08ca19896d2bf59a07 1b851e6c239052172f296bfb5e724047
            90a2181014f3b94a4e97d117b4381303 68cc39dbb2d198065ae3986547926cd2
            162f40a29f0c3c8745c0f50fba3852e5 66d44575c29d39a03f0cda721984b6f4
            40591f355e12d439ff150aab7613499d bd49adabc8676eef023b15b65bfc5ca0
            6948109f23f350db82123535eb8a7433 bdabcb909271a6ecbcb58b936a88cd4e
            8f2e6ff5800175f113253d8fa9ca8885 c2f552e657dc603f252e1a8e308f76f0
            be79e2fb8f5d5fbbe2e30ecadd220723 c8c0aea8078cdfcb3868263ff8f09400
            54da48781893a7e49ad5aff4af300cd8 04a6b6279ab3ff3afb64491c85194aab
            760d58a606654f9f4400e8b38591356f bf6425aca26dc85244259ff2b19c41b9
            f96f3ca9ec1dde434da7d2d392b905dd f3d1f9af93d1af5950bd493f5aa731b4
            056df31bd267b6b90a079831aaf579be 0a39013137aac6d404f518cfd4684064
            7e78bfe706ca4cf5e9c5453e9f7cfd2b 8b4c8d169a44e55c88d4a9a7f9474241
            e221af44860018ab0856972e194cd934
        ");
    let client = initial_keys(Version::V1, &original_dcid(), Side::Client);
    let mut buf = Vec::new();
    let marks = encode_long_header(
        &mut buf,
        PacketType::Initial,
        Version::V1,
        &original_dcid(),
        &ConnectionId::new(&[]),
        &[],
        2,
        4,
    );
    buf.extend_from_slice(&payload);
    seal_long(&client.local, &mut buf, &marks, 2).unwrap();
    assert_eq!(buf, expected);

    let server = initial_keys(Version::V1, &original_dcid(), Side::Server);
    assert_eq!(open_initial(&mut buf, &server, 2), payload);
}

/// Appendix A.3, there and back.
#[test]
fn server_initial() {
    let payload = hex("
            02000000000600405a020000560303ee fce7f7b37ba1d1632e96677825ddf739
            88cfc79825df566dc5430b9a045a1200 130100002e00330024001d00209d3c94
            0d89690b84d08a60993c144eca684d10 81287c834d5311bcf32bb9da1a002b00
            020304
        ");
    let expected = hex("
            cf000000010008f067a5502a4262b500 4075c0d95a482cd0991cd25b0aac406a
            5816b6394100f37a1c69797554780bb3 8cc5a99f5ede4cf73c3ec2493a1839b3
            dbcba3f6ea46c5b7684df3548e7ddeb9 c3bf9c73cc3f3bded74b562bfb19fb84
            022f8ef4cdd93795d77d06edbb7aaf2f 58891850abbdca3d20398c276456cbc4
            2158407dd074ee
        ");
    let server = initial_keys(Version::V1, &original_dcid(), Side::Server);
    let mut buf = Vec::new();
    let marks = encode_long_header(
        &mut buf,
        PacketType::Initial,
        Version::V1,
        &ConnectionId::new(&[]),
        &server_scid(),
        &[],
        1,
        2,
    );
    buf.extend_from_slice(&payload);
    seal_long(&server.local, &mut buf, &marks, 1).unwrap();
    assert_eq!(buf, expected);

    let client = initial_keys(Version::V1, &original_dcid(), Side::Client);
    assert_eq!(open_initial(&mut buf, &client, 1), payload);
    // The server's own keys do not open it.
    let mut buf = expected;
    let (header, payload) = buf.split_at_mut(20);
    assert_eq!(open_long(&server.remote, 1, header, payload), None);
}

/// The payload of a protected Initial packet.
fn open_initial(packet: &mut [u8], keys: &Keys, pn: u64) -> Vec<u8> {
    let Ok(ProtectedPacket::Long { pn_offset, len, .. }) = decode_next(packet, 8) else {
        panic!("an Initial packet")
    };
    assert_eq!(len, packet.len());
    let hp = keys.remote.header.as_ref();
    let (_, truncated, pn_len) = unprotect_header(packet, pn_offset, hp).unwrap();
    assert_eq!(truncated, pn);
    let (header, payload) = packet.split_at_mut(pn_offset + pn_len);
    let len = open_long(&keys.remote, pn, header, payload).unwrap();
    payload[..len].to_vec()
}

/// RFC 9369 appendix A.4.
#[test]
fn retry_of_version_2() {
    let packet = hex(
        "cf6b3343cf0008f067a5502a4262b574 6f6b656ec8646ce8bfe33952d9555436
         65dcc7b6",
    );
    assert!(verify_retry_tag(Version::V2, &original_dcid(), &packet));
    assert!(!verify_retry_tag(Version::V1, &original_dcid(), &packet));
    let decoded = decode_next(&packet, 0).unwrap();
    assert!(
        matches!(
            decoded,
            ProtectedPacket::Retry {
                version: Version::V2,
                ..
            }
        ),
        "{decoded:?}"
    );
    let mut ours = Vec::new();
    let dcid = ConnectionId::new(&[]);
    encode_retry_header(&mut ours, Version::V2, &dcid, &server_scid(), b"token");
    assert_eq!(ours[0] | 0x0f, packet[0]);
    assert_eq!(ours[1..], packet[1..packet.len() - 16]);
}

/// Appendix A.4. The RFC's packet has 1s in its four unused bits, where ours has 0s.
#[test]
fn retry() {
    let packet = hex(
        "ff000000010008f067a5502a4262b574 6f6b656e04a265ba2eff4d829058fb3f
         0f2496ba",
    );
    assert!(verify_retry_tag(Version::V1, &original_dcid(), &packet));
    assert!(!verify_retry_tag(Version::V1, &server_scid(), &packet));
    for at in 0..packet.len() {
        assert!(!verify_retry_tag(
            Version::V1,
            &original_dcid(),
            &packet[..at]
        ));
        let mut packet = packet.clone();
        packet[at] ^= 1;
        assert!(!verify_retry_tag(Version::V1, &original_dcid(), &packet));
    }
    let mut ours = Vec::new();
    let dcid = ConnectionId::new(&[]);
    encode_retry_header(&mut ours, Version::V1, &dcid, &server_scid(), b"token");
    assert_eq!(ours[0] | 0x0f, packet[0]);
    assert_eq!(ours[1..], packet[1..packet.len() - 16]);
    let tag = retry_tag(Version::V1, &original_dcid(), &ours);
    ours.extend_from_slice(&tag);
    assert!(verify_retry_tag(Version::V1, &original_dcid(), &ours));
}

/// Appendix A.5.
#[test]
fn chacha20_short_header() {
    let algorithm = quic(cipher_suite::TLS13_CHACHA20_POLY1305_SHA256);
    let array32 = |digits| <[u8; 32]>::try_from(hex(digits)).unwrap();
    let key = array32("c6d98ff3441c3fe1b2182094f69caa2e d4b716b65488960a7a984979fb23e1c8");
    let hp = array32("25a282b9e82f06f21f488917a4fc8f1b 73573685608597d0efcb076b0ab7a7a4");
    let iv = <[u8; 12]>::try_from(hex("e0459b3474bdd0e44a41c144")).unwrap();
    let packet_key = algorithm.packet_key(key.into(), iv.into());
    let header_key = algorithm.header_protection_key(hp.into());

    let pn = 654_360_564;
    let mut buf = Vec::new();
    let dcid = ConnectionId::new(&[]);
    let pn_offset = encode_short_header(&mut buf, &dcid, false, pn, 3);
    assert_eq!(buf, hex("4200bff4"));
    buf.push(0x01);
    seal_packet(
        &mut buf,
        0,
        pn_offset,
        3,
        header_key.as_ref(),
        |header, payload| Ok(packet_key.encrypt_in_place(pn, header, payload).unwrap()),
    )
    .unwrap();
    assert_eq!(buf, hex("4cfe4189655e5cd55c41f69080575d7999c25a5bfb"));
}

/// RFC 10069, Nonce Calculation after Handshake Completion: the example's IV, path and number.
#[test]
fn multipath_nonce() {
    // rustls lets only keys of 32 bytes be made from bytes.
    let algorithm = quic(cipher_suite::TLS13_AES_256_GCM_SHA384);
    let iv = <[u8; 12]>::try_from(hex("6b26114b9cba2b63a9e8dd4f")).unwrap();
    let ours = algorithm.packet_key([0x42; 32].into(), iv.into());
    let mut payload = *b"payload";
    let tag = ours
        .encrypt_in_place_for_path(3, 54321, b"header", &mut payload)
        .unwrap();
    let nonce = Nonce::try_assume_unique_for_key(&hex("6b2611489cba2b63a9e8097e")).unwrap();
    let key = UnboundKey::new(&AES_256_GCM, &[0x42; 32]).unwrap();
    let mut sealed = [&payload[..], tag.as_ref()].concat();
    let plain = LessSafeKey::new(key)
        .open_in_place(nonce, Aad::from(b"header"), &mut sealed)
        .unwrap();
    assert_eq!(plain, b"payload");
}
