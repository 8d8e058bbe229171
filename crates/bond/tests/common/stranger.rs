//! A client whose greeting and requests are made by the test.

use std::net::SocketAddr;
use std::sync::Arc;

use mpquic::{ClientConfig, Connection, Endpoint, RecvStream, SendStream};
use mpquic_bond::{Fingerprint, Trust, client_tls};

use super::{FIRST, Far, SECRET, token};

pub(crate) const LABEL: &str = "EXPORTER-mpquic-bond";

/// A connection to a server that has not greeted.
pub(crate) async fn stranger(far: &Far) -> (Endpoint, Connection) {
    try_stranger(far).await.unwrap()
}

pub(crate) async fn try_stranger(far: &Far) -> Result<(Endpoint, Connection), String> {
    connected((FIRST, 0).into(), far.address, far.fingerprint).await
}

/// A connection from a local address to a server that has not greeted.
pub(crate) async fn connected(
    local: SocketAddr,
    server: SocketAddr,
    fingerprint: Fingerprint,
) -> Result<(Endpoint, Connection), String> {
    let tls = client_tls(&Trust::Fingerprint(fingerprint), None).unwrap();
    let config = ClientConfig::new(Arc::new(tls.config)).unwrap();
    let endpoint = Endpoint::client(&[local]).unwrap();
    let connecting = endpoint.connect_with(config, server, "mpquic-bond");
    let connection = connecting.unwrap().await;
    let connection = connection.map_err(|error| error.to_string())?;
    Ok((endpoint, connection))
}

/// Greets with these bytes; why the connection was closed if they are not taken.
pub(crate) async fn greet_with(connection: &Connection, greeting: &[u8]) -> Result<(), String> {
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    send.write_all(greeting).await.unwrap();
    match recv.read_exact(&mut [9]).await {
        Ok(()) => Ok(()),
        Err(_) => Err(connection.closed().await.to_string()),
    }
}

/// Greets with the token of the tests.
pub(crate) async fn greet(connection: &Connection) {
    let greeting = token(SECRET).greeting(connection, 1, LABEL).unwrap();
    assert_eq!(greet_with(connection, &greeting).await, Ok(()));
}

/// Asks with these bytes; the first byte of the answer, and what is left of the stream.
pub(crate) async fn ask(
    connection: &Connection,
    request: &[u8],
) -> (Option<u8>, SendStream, RecvStream) {
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    send.write_all(request).await.unwrap();
    let mut answer = [9];
    let came = recv.read_exact(&mut answer).await.is_ok();
    (came.then_some(answer[0]), send, recv)
}
