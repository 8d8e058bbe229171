//! mpquic, measured.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use mpquic::{
    ClientConfig, CongestionControl, Connection, ConnectionStats, Endpoint, FullMesh, RecvStream,
    SendStream, ServerConfig, TransportConfig, VarInt,
};
use serde_json::json;
use tokio::runtime::Handle;

use crate::stack::{
    Calls, Counted, IDLE, Identity, NAME, PIECE, Result, Stack, UP, Variant, ZEROS, client_tls,
};

pub(crate) struct Ours(Endpoint);

/// What the connections of a server count. Those that are over are not kept: their memory would not be used again.
#[derive(Default)]
struct Sums {
    open: BTreeMap<u64, Connection>,
    count: u64,
    over: Counts,
}

/// By the names under which they are told.
type Counts = BTreeMap<&'static str, u64>;

fn add(counts: &mut Counts, stats: &ConnectionStats) {
    for (name, count) in [
        ("sent_bytes", stats.sent_bytes),
        ("sent_datagrams", stats.sent_datagrams),
        ("sent_packets", stats.sent_packets),
        ("lost_packets", stats.lost_packets),
        ("retransmitted_bytes", stats.retransmitted_bytes),
        ("copied_bytes", stats.copied_bytes),
    ] {
        *counts.entry(name).or_default() += count;
    }
}

impl Sums {
    /// The number of the connection.
    fn begin(&mut self, connection: &Connection) -> u64 {
        self.count += 1;
        self.open.insert(self.count, connection.clone());
        self.count
    }

    fn end(&mut self, number: u64) {
        if let Some(connection) = self.open.remove(&number) {
            add(&mut self.over, &connection.stats());
        }
    }
}

fn transport(calls: Calls) -> Result<Arc<TransportConfig>> {
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(Duration::from_secs(IDLE)));
    transport.segmentation_offload(!calls.one_by_one);
    match calls.variant {
        Variant::Usual => {}
        Variant::AllAcks => {
            transport.ack_frequency_config(None);
        }
        Variant::Bbr3 => {
            transport.congestion(CongestionControl::Bbr);
        }
    }
    if let Some(mtu) = calls.mtu {
        transport.max_mtu(mtu)?;
    }
    Ok(Arc::new(transport))
}

impl Stack for Ours {
    type Connection = Connection;

    fn serve(
        runtimes: &[Handle],
        certificate: &Path,
        calls: Calls,
    ) -> Result<(SocketAddr, Counted)> {
        let identity = Identity::new(certificate)?;
        let mut config = ServerConfig::new(Arc::new(identity.server()?))?;
        config.transport(transport(calls)?);
        if !calls.guarded {
            config.retry_above(usize::MAX).max_half_open(usize::MAX);
        }
        let endpoint = Endpoint::builder()
            .bind((Ipv4Addr::UNSPECIFIED, 0).into())
            .server(config)
            .shards_on(runtimes.to_vec())
            .build()?;
        let port = endpoint.local_addrs()[0].port();
        let sums = Arc::new(Mutex::new(Sums::default()));
        for runtime in runtimes {
            let (endpoint, sums) = (endpoint.clone(), Arc::clone(&sums));
            runtime.spawn(async move {
                while let Some(incoming) = endpoint.accept().await {
                    let sums = Arc::clone(&sums);
                    // Where the connection is.
                    incoming.runtime().clone().spawn(async move {
                        if let Ok(connection) = incoming.await {
                            let number = sums.lock().unwrap().begin(&connection);
                            answer(&connection, calls).await;
                            sums.lock().unwrap().end(number);
                        }
                    });
                }
            });
        }
        let end = move || {
            let sums = sums.lock().unwrap();
            let mut counts = sums.over.clone();
            for connection in sums.open.values() {
                add(&mut counts, &connection.stats());
            }
            let shards = endpoint.shard_stats();
            let mut told = json!(counts);
            told["forwarded"] = json!(shards.iter().map(|shard| shard.forwarded).sum::<u64>());
            let connections = shards.iter().map(|shard| shard.connections);
            let paths = sums.open.values().flat_map(Connection::paths);
            let mtu = paths.filter_map(|path| Some(path.stats().ok()?.mtu)).max();
            told["mtu"] = json!(mtu);
            told["connections"] = json!(connections.collect::<Vec<_>>());
            told
        };
        Ok(((Ipv4Addr::LOCALHOST, port).into(), Box::new(end)))
    }

    fn client(certificate: &Path, locals: &[Ipv4Addr], calls: Calls) -> Result<Self> {
        let mut config = ClientConfig::new(Arc::new(client_tls(certificate, calls)?))?;
        config.transport(transport(calls)?);
        let mut builder = Endpoint::builder().default_client(config);
        for local in locals {
            builder = builder.bind((*local, 0).into());
        }
        if locals.len() > 1 {
            builder = builder.path_manager(FullMesh::new());
        }
        Ok(Self(builder.build()?))
    }

    async fn connect(&self, server: SocketAddr) -> Result<Connection> {
        let connection = self.0.connect(server, NAME)?.await?;
        let wanted = self.0.local_addrs().len();
        if wanted > 1 {
            let mut events = connection.path_events();
            while connection.paths().len() < wanted {
                events.recv().await;
            }
        }
        Ok(connection)
    }

    async fn fetch(connection: &Connection, bytes: u64, calls: Calls) -> Result<()> {
        let (mut send, mut receive) = connection.open_bi().await?;
        send.write_all(&bytes.to_be_bytes()).await?;
        send.finish()?;
        let got = read(&mut receive, calls).await?;
        if got == bytes {
            Ok(())
        } else {
            Err("a short answer".into())
        }
    }

    async fn give(connection: &Connection, bytes: u64, calls: Calls) -> Result<()> {
        let (mut send, mut receive) = connection.open_bi().await?;
        send.write_all(&(bytes | UP).to_be_bytes()).await?;
        write(&mut send, bytes, calls).await?;
        receive.read_exact(&mut [0; 8]).await?;
        Ok(())
    }

    fn datagrams(connection: &Connection) -> f64 {
        connection.stats().sent_datagrams as f64
    }
}

async fn read(receive: &mut RecvStream, calls: Calls) -> Result<u64> {
    let mut got = 0;
    if calls.chunks {
        while let Some(chunk) = receive.read_chunk(usize::MAX).await? {
            got += chunk.len() as u64;
        }
    } else {
        let mut buffer = vec![0; PIECE];
        while let Some(len) = receive.read(&mut buffer).await? {
            got += len as u64;
        }
    }
    Ok(got)
}

async fn answer(connection: &Connection, calls: Calls) {
    while let Ok((send, receive)) = connection.accept_bi().await {
        tokio::spawn(async move {
            // If it breaks off, the client says so.
            let _ = serve(send, receive, calls).await;
        });
    }
    connection.close(VarInt::from_u32(0), b"");
}

async fn serve(mut send: SendStream, mut receive: RecvStream, calls: Calls) -> Result<()> {
    let mut wanted = [0; 8];
    receive.read_exact(&mut wanted).await?;
    let wanted = u64::from_be_bytes(wanted);
    if wanted & UP == 0 {
        return write(&mut send, wanted, calls).await;
    }
    let got = read(&mut receive, calls).await?;
    send.write_all(&got.to_be_bytes()).await?;
    send.finish()?;
    Ok(())
}

async fn write(send: &mut SendStream, mut left: u64, calls: Calls) -> Result<()> {
    while left > 0 {
        let len = left.min(PIECE as u64);
        let piece = &ZEROS[..len as usize];
        if calls.chunks {
            send.write_chunk(Bytes::from_static(piece)).await?;
        } else {
            send.write_all(piece).await?;
        }
        left -= len;
    }
    send.finish()?;
    Ok(())
}
