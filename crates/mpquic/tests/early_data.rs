//! Resumption and early data over loopback.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::common::{client_tls, identity, loopback, run, server_tls};
use mpquic::{
    ClientConfig, Connection, Endpoint, ReadError, RecvStream, SendStream, ServerConfig,
    StoppedError, WriteError, ZeroRttAccepted, rustls,
};

/// Ends that can resume sessions with early data.
struct Ends {
    client: Endpoint,
    server: Endpoint,
    addr: SocketAddr,
    tls: rustls::ServerConfig,
}

impl Ends {
    fn new() -> Self {
        let identity = identity();
        let mut tls = server_tls(&identity);
        tls.max_early_data_size = u32::MAX;
        let config = ServerConfig::new(Arc::new(tls.clone())).unwrap();
        let server = Endpoint::server(config, &[loopback(1)]).unwrap();
        let client = Endpoint::client(&[loopback(1)]).unwrap();
        let mut client_tls = client_tls(&identity);
        client_tls.enable_early_data = true;
        client.set_default_client_config(ClientConfig::new(Arc::new(client_tls)).unwrap());
        Self {
            addr: server.local_addrs()[0],
            client,
            server,
            tls,
        }
    }

    /// The client has tickets of the server.
    async fn with_tickets() -> Self {
        let ends = Self::new();
        ends.get_tickets().await;
        ends
    }

    /// A connection of the client that can send before its handshake.
    fn connect_early(&self) -> (Connection, ZeroRttAccepted) {
        let connecting = self.client.connect(self.addr, "localhost").unwrap();
        connecting.into_0rtt().unwrap()
    }

    /// From now on early data is rejected; sessions are still resumed.
    fn reject(&self) {
        let mut tls = self.tls.clone();
        tls.max_early_data_size = 0;
        self.server
            .set_server_config(Some(ServerConfig::new(Arc::new(tls)).unwrap()));
    }

    /// A connection whose tickets the client has when this returns: they are sent before what follows.
    async fn get_tickets(&self) {
        let accepting = async {
            let connection = self.server.accept().await.unwrap().await.unwrap();
            let mut stream = connection.open_uni().await.unwrap();
            stream.write_all(b"x").await.unwrap();
            stream.finish().unwrap();
            connection.closed().await;
        };
        let connecting = async {
            let connecting = self.client.connect(self.addr, "localhost").unwrap();
            let connection = match connecting.into_0rtt() {
                Ok(_) => panic!("there is no ticket"),
                Err(connecting) => connecting.await.unwrap(),
            };
            assert!(!connection.is_resumed());
            let mut stream = connection.accept_uni().await.unwrap();
            assert_eq!(stream.read_to_end(9).await.unwrap(), b"x");
            assert!(!stream.is_0rtt());
            connection.close(0u32.into(), b"");
        };
        tokio::join!(accepting, connecting);
    }
}

async fn echo_one(connection: &Connection) -> bool {
    let (mut send, mut recv) = connection.accept_bi().await.unwrap();
    let data = recv.read_to_end(1 << 20).await.unwrap();
    send.write_all(&data).await.unwrap();
    send.finish().unwrap();
    // Still known when the protocol has forgotten the stream.
    recv.is_0rtt()
}

async fn write(connection: &Connection, data: &[u8]) -> (SendStream, RecvStream) {
    let (mut send, recv) = connection.open_bi().await.unwrap();
    send.write_all(data).await.unwrap();
    send.finish().unwrap();
    (send, recv)
}

async fn ask(connection: &Connection) -> Vec<u8> {
    let (_send, mut recv) = write(connection, b"hello").await;
    recv.read_to_end(1 << 20).await.unwrap()
}

/// Writes, and waits until that has left: a client that is slow to send would have the server's answer before, and send in
/// 1-RTT packets. No server has answered yet.
async fn write_early(connection: &Connection, data: &[u8]) -> (SendStream, RecvStream) {
    let hello = sent_more_than(connection, 0).await;
    let streams = write(connection, data).await;
    sent_more_than(connection, hello).await;
    streams
}

/// How many packets have left, once they are more than this.
async fn sent_more_than(connection: &Connection, packets: u64) -> u64 {
    loop {
        let sent = connection.stats().sent_packets;
        if sent > packets {
            return sent;
        }
        tokio::task::yield_now().await;
    }
}

// The server accepts the connection only after that: however slow the client is, what it writes first is early.

#[test]
fn early_data_is_answered_before_the_handshake_is_complete() {
    run(async {
        let ends = Ends::with_tickets().await;
        let (client, accepted) = ends.connect_early();
        let (_send, mut recv) = write_early(&client, b"early").await;
        assert!(recv.is_0rtt());
        let serving = async {
            let incoming = ends.server.accept().await.unwrap();
            let (server, complete) = incoming.accept().unwrap().into_0rtt().unwrap();
            assert!(echo_one(&server).await);
            assert!(server.accepted_0rtt());
            assert!(complete.await);
            assert!(!echo_one(&server).await);
            server.closed().await;
        };
        let asking = async {
            assert_eq!(recv.read_to_end(9).await.unwrap(), b"early");
            assert!(accepted.await);
            assert!(client.is_resumed() && client.accepted_0rtt());
            assert_eq!(ask(&client).await, b"hello");
            client.close(0u32.into(), b"");
        };
        tokio::join!(serving, asking);
    });
}

#[test]
fn a_server_that_waits_for_the_handshake_can_tell_early_data_too() {
    run(async {
        let ends = Ends::with_tickets().await;
        let (client, accepted) = ends.connect_early();
        let (_send, mut recv) = write_early(&client, b"early").await;
        let serving = async {
            let server = ends.server.accept().await.unwrap().await.unwrap();
            assert!(echo_one(&server).await);
            server.closed().await;
        };
        let asking = async {
            assert_eq!(recv.read_to_end(9).await.unwrap(), b"early");
            assert!(accepted.await);
            client.close(0u32.into(), b"");
        };
        tokio::join!(serving, asking);
    });
}

#[test]
fn rejected_early_data_is_an_error_of_its_streams() {
    run(async {
        let ends = Ends::with_tickets().await;
        ends.reject();
        let (client, accepted) = ends.connect_early();
        let (mut send, mut recv) = client.open_bi().await.unwrap();
        let mut other = client.open_uni().await.unwrap();
        send.write_all(b"early").await.unwrap();
        let serving = async {
            let server = ends.server.accept().await.unwrap().await.unwrap();
            assert!(!server.accepted_0rtt());
            assert!(!echo_one(&server).await);
            server.closed().await;
        };
        let asking = async {
            // Who waits is told.
            let mut buf = [0; 9];
            let (read, stopped) = tokio::join!(recv.read(&mut buf), send.stopped());
            assert_eq!(read, Err(ReadError::ZeroRttRejected));
            assert_eq!(stopped, Err(StoppedError::ZeroRttRejected));
            assert!(!accepted.await);
            let rejected = Err(WriteError::ZeroRttRejected);
            assert_eq!(send.write(b"more").await, rejected);
            assert_eq!(other.write(b"more").await, rejected);
            assert!(send.finish().is_err() && other.finish().is_err());
            // The handles of old streams leave the new ones with the same IDs alone.
            let (mut again, mut answer) = client.open_bi().await.unwrap();
            assert_eq!(again.id(), send.id());
            drop((send, recv, other));
            assert!(!answer.is_0rtt());
            again.write_all(b"again").await.unwrap();
            again.finish().unwrap();
            assert_eq!(answer.read_to_end(9).await.unwrap(), b"again");
            client.close(0u32.into(), b"");
        };
        tokio::join!(serving, asking);
    });
}

#[test]
fn a_connection_that_fails_accepts_no_early_data() {
    run(async {
        let ends = Ends::with_tickets().await;
        let (client, accepted) = ends.connect_early();
        let mut send = client.open_uni().await.unwrap();
        ends.server.accept().await.unwrap().refuse();
        assert!(!accepted.await);
        assert!(matches!(
            send.write(b"x").await,
            Err(WriteError::ConnectionLost(_))
        ));
    });
}

/// Clients and servers give up a connection whose last handle is dropped, before its handshake too.
#[test]
fn dropping_the_connection_drops_the_attempt() {
    run(async {
        let ends = Ends::with_tickets().await;
        let (client, accepted) = ends.connect_early();
        drop(client);
        assert!(!accepted.await);
        ends.client.wait_idle().await;
    });
}
