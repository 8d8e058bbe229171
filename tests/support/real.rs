//! Downloads in real time: endpoints on real sockets, and for each path a relay with a modelled link.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mpquic::{
    ClientConfig, Connection, Endpoint, PathId, RecvStream, SendStream, ServerConfig,
    TransportConfig,
};
use mpquic_sim::{LinkConfig, Relay, content, identity};

/// The seed of the content.
const SEED: u64 = 1;
const CHUNK: usize = 64 * 1024;
/// Long enough for any machine. Only a test that hangs waits this long.
const PATIENCE: Duration = Duration::from_secs(120);

const fn loopback(last: u8) -> SocketAddr {
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(127, 0, 0, last)), 0)
}

pub(crate) fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        tokio::time::timeout(PATIENCE, test)
            .await
            .expect("the test hangs");
    });
}

/// A client with a path through each relay to a server.
pub(crate) struct Setup {
    pub(crate) relays: Vec<Relay>,
    pub(crate) client: Connection,
    endpoints: [Endpoint; 2],
}

impl Setup {
    pub(crate) async fn new(links: &[LinkConfig], transport: TransportConfig) -> Self {
        let transport = Arc::new(transport);
        let mut config = ServerConfig::new(identity::server_tls().unwrap()).unwrap();
        config.transport(Arc::clone(&transport));
        let server = Endpoint::server(config, &[loopback(1)]).unwrap();
        let address = server.local_addrs()[0];
        let relays: Vec<_> = (0..)
            .zip(links)
            .map(|(seed, link)| {
                Relay::spawn(loopback(1), address, link.clone(), link.clone(), seed).unwrap()
            })
            .collect();

        let locals: Vec<_> = (1..=links.len() as u8).map(loopback).collect();
        let client = Endpoint::client(&locals).unwrap();
        let mut config = ClientConfig::new(identity::client_tls().unwrap()).unwrap();
        config.transport(transport);
        let locals = client.local_addrs();
        let accepting = tokio::spawn({
            let server = server.clone();
            async move { server.accept().await.unwrap().await.unwrap() }
        });
        let connection = client
            .connect_from(
                locals[0],
                Some(config),
                relays[0].addr(),
                identity::SERVER_NAME,
            )
            .unwrap()
            .await
            .unwrap();
        tokio::spawn(serve(accepting.await.unwrap()));
        for (number, relay) in relays.iter().enumerate().skip(1) {
            let path = connection
                .open_path_from(locals[number], relay.addr())
                .await;
            assert_eq!(path.unwrap().id(), PathId(number as u32));
        }
        Self {
            relays,
            client: connection,
            endpoints: [client, server],
        }
    }

    /// Stream bytes that the client received over a path.
    pub(crate) fn received(&self, path: PathId) -> u64 {
        let stats = self.client.path(path).and_then(|path| path.stats());
        stats.unwrap().received_stream_bytes
    }

    /// Requests this many bytes; [`Download::enough`] can end it early.
    pub(crate) async fn download(&self, bytes: u64) -> Download {
        let (mut send, recv) = self.client.open_bi().await.unwrap();
        send.write_all(&bytes.to_be_bytes()).await.unwrap();
        Download {
            send: Some(send),
            recv,
            received: 0,
            last: Instant::now(),
            longest_stall: Duration::ZERO,
        }
    }

    pub(crate) async fn close(self) {
        self.client.close(0_u32.into(), b"");
        for endpoint in self.endpoints {
            endpoint.wait_idle().await;
        }
    }
}

/// Sends as much as each stream requests, or until the client ends its half.
async fn serve(connection: Connection) {
    while let Ok((mut send, mut recv)) = connection.accept_bi().await {
        tokio::spawn(async move {
            let mut request = [0; 8];
            recv.read_exact(&mut request).await.unwrap();
            let bytes = u64::from_be_bytes(request);
            let enough = tokio::spawn(async move { recv.read_to_end(0).await });
            let mut buffer = vec![0; CHUNK];
            let mut sent = 0;
            while sent < bytes && !enough.is_finished() {
                buffer.truncate((bytes - sent).min(CHUNK as u64) as usize);
                content::fill(SEED, sent, &mut buffer);
                if send.write_all(&buffer).await.is_err() {
                    return;
                }
                sent += buffer.len() as u64;
            }
            send.finish().unwrap();
            // Not dropped before everything has arrived, since that would reset the stream.
            let _ = send.stopped().await;
        });
    }
}

/// A download in progress.
pub(crate) struct Download {
    send: Option<SendStream>,
    recv: RecvStream,
    pub(crate) received: u64,
    last: Instant,
    pub(crate) longest_stall: Duration,
}

impl Download {
    /// Receives the next chunk and verifies it. Returns false at the end.
    pub(crate) async fn more(&mut self) -> bool {
        let chunk = self.recv.read_chunk(CHUNK).await.unwrap();
        self.longest_stall = self.longest_stall.max(self.last.elapsed());
        self.last = Instant::now();
        let Some(chunk) = chunk else {
            return false;
        };
        content::verify(SEED, self.received, &chunk).expect("the byte that was sent");
        self.received += chunk.len() as u64;
        true
    }

    /// Receives until this many bytes have arrived.
    pub(crate) async fn until(&mut self, bytes: u64) {
        while self.received < bytes {
            assert!(self.more().await);
        }
    }

    /// Ends the request, and receives what is in flight.
    pub(crate) async fn enough(&mut self) {
        self.send.take().unwrap().finish().unwrap();
        while self.more().await {}
    }
}
