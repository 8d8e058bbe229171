//! A peer that says HTTP/3 byte by byte, over mpquic's own streams: it sends what no client would, and sees the codes.

use bytes::{BufMut, Bytes, BytesMut};
use mpquic::{Connection, ReadError, RecvStream, SendStream, TransportConfig, VarInt};

use super::{loopback, our_client, our_server, tls};

/// An integer of variable length (RFC 9000 section 16), in its longest form.
pub(crate) fn integer(value: u64) -> [u8; 8] {
    (0xc000_0000_0000_0000 | value).to_be_bytes()
}

/// A frame.
pub(crate) fn frame(ty: u64, payload: &[u8]) -> Bytes {
    let mut bytes = frame_header(ty, payload.len() as u64);
    bytes.put_slice(payload);
    bytes.freeze()
}

/// The beginning of a frame that says how long it is.
pub(crate) fn frame_header(ty: u64, length: u64) -> BytesMut {
    let mut bytes = BytesMut::new();
    bytes.put_slice(&integer(ty));
    bytes.put_slice(&integer(length));
    bytes
}

/// The fields of `POST https://localhost/`, with lines of the static table of QPACK (RFC 9204 appendix A), and one more field whose
/// value has so many bytes.
pub(crate) fn post(more: usize) -> Bytes {
    let mut fields = BytesMut::from(&b"\0\0\xd4\xd7\xc1\x50\x09localhost\x21x"[..]);
    // RFC 9204 section 4.1.1: an integer after a prefix of seven bits.
    if more < 127 {
        fields.put_u8(more as u8);
    } else {
        fields.put_u8(127);
        let mut rest = more - 127;
        while rest >= 128 {
            fields.put_u8(0x80 | rest as u8);
            rest >>= 7;
        }
        fields.put_u8(rest as u8);
    }
    fields.put_bytes(b'v', more);
    frame(1, &fields)
}

/// `200` without any other field.
pub(crate) fn ok() -> Bytes {
    frame(1, b"\0\0\xd9")
}

/// The ends of a connection, and the endpoints that it needs.
pub(crate) struct Pair {
    pub(crate) server: Connection,
    pub(crate) client: Connection,
    pub(crate) endpoints: [mpquic::Endpoint; 2],
}

/// A connection over loopback.
pub(crate) async fn pair(server: TransportConfig, client: TransportConfig) -> Pair {
    let (client_tls, server_tls) = tls();
    let listening = our_server(server_tls, server);
    let calling = our_client(client_tls.clone(), &[loopback(1)]);
    let mut config = mpquic::ClientConfig::new(std::sync::Arc::new(client_tls)).unwrap();
    config.transport(std::sync::Arc::new(client));
    let address = listening.local_addrs()[0];
    let accepting = async { listening.accept().await.unwrap().await.unwrap() };
    let connecting = async {
        let connecting = calling.connect_with(config, address, "localhost").unwrap();
        connecting.await.unwrap()
    };
    let (server, client) = tokio::join!(accepting, connecting);
    Pair {
        server,
        client,
        endpoints: [listening, calling],
    }
}

/// Opens a control stream with empty settings.
pub(crate) async fn control(connection: &Connection) -> SendStream {
    let mut control = connection.open_uni().await.unwrap();
    control.write_all(b"\0\x04\0").await.unwrap();
    control
}

/// How a stream that the other side sends ended: with all its bytes, or with a code.
pub(crate) async fn ended(recv: &mut RecvStream) -> Result<Vec<u8>, u64> {
    let mut all = Vec::new();
    loop {
        match recv.read_chunk(usize::MAX).await {
            Ok(Some(chunk)) => all.extend_from_slice(&chunk),
            Ok(None) => return Ok(all),
            Err(ReadError::Reset(code)) => return Err(code.into_inner()),
            Err(error) => panic!("{error}"),
        }
    }
}

/// The code with which the other side stopped what is sent to it; `None` if it got all.
pub(crate) async fn stopped(send: &SendStream) -> Option<u64> {
    send.stopped().await.unwrap().map(VarInt::into_inner)
}

/// A request as it should be, and its answer.
pub(crate) async fn honest(connection: &Connection) {
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    send.write_all(&post(0)).await.unwrap();
    send.finish().unwrap();
    assert!(!ended(&mut recv).await.unwrap().is_empty());
}
