//! quinn 0.11, measured.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use quinn::PathStats;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{
    ClientConfig, Connection, Endpoint, EndpointConfig, MtuDiscoveryConfig, RecvStream, SendStream,
    ServerConfig, TokioRuntime, TransportConfig, VarInt,
};
use serde_json::{Value, json};
use tokio::runtime::Handle;

use crate::stack::{
    Calls, IDLE, Identity, NAME, PIECE, RECEIVE_BUFFER, Result, SEND_BUFFER, Stack, ZEROS,
    client_tls,
};

pub(crate) struct Quinn(Endpoint);

fn transport(calls: Calls) -> Result<Arc<TransportConfig>> {
    let mut transport = TransportConfig::default();
    let idle = Duration::from_secs(IDLE);
    transport.max_idle_timeout(Some(idle.try_into()?));
    transport.enable_segmentation_offload(!calls.one_by_one);
    if let Some(mtu) = calls.mtu {
        let mut discovery = MtuDiscoveryConfig::default();
        discovery.upper_bound(mtu);
        transport.mtu_discovery_config(Some(discovery));
    }
    Ok(Arc::new(transport))
}

/// It receives into memory for as many datagrams of the largest size as offload joins: no more than what is probed for.
fn endpoint(calls: Calls) -> Result<EndpointConfig> {
    let mut config = EndpointConfig::default();
    if let Some(mtu) = calls.mtu {
        config.max_udp_payload_size(mtu)?;
    }
    Ok(config)
}

fn socket(local: SocketAddr) -> Result<UdpSocket> {
    let socket = UdpSocket::bind(local)?;
    let options = socket2::SockRef::from(&socket);
    // What the system grants of it.
    options.set_send_buffer_size(SEND_BUFFER)?;
    options.set_recv_buffer_size(RECEIVE_BUFFER)?;
    Ok(socket)
}

impl Stack for Quinn {
    type Connection = Connection;

    fn serve(
        runtimes: &[Handle],
        certificate: &Path,
        calls: Calls,
    ) -> Result<(SocketAddr, Box<dyn FnOnce() -> Value + Send>)> {
        let [runtime] = runtimes else {
            return Err("quinn has no shards".into());
        };
        let identity = Identity::new(certificate)?;
        let crypto = QuicServerConfig::try_from(identity.server()?)?;
        let mut config = ServerConfig::with_crypto(Arc::new(crypto));
        config.transport_config(transport(calls)?);
        let _context = runtime.enter();
        let endpoint = Endpoint::new(
            endpoint(calls)?,
            Some(config),
            socket((Ipv4Addr::UNSPECIFIED, 0).into())?,
            Arc::new(TokioRuntime),
        )?;
        let port = endpoint.local_addr()?.port();
        let all = Arc::new(Mutex::new(Vec::<Connection>::new()));
        let open = Arc::clone(&all);
        runtime.spawn(async move {
            while let Some(incoming) = endpoint.accept().await {
                let open = Arc::clone(&open);
                tokio::spawn(async move {
                    if let Ok(connection) = incoming.await {
                        open.lock().unwrap().push(connection.clone());
                        answer(&connection, calls).await;
                    }
                });
            }
        });
        let end = move || {
            let all = all.lock().unwrap();
            let paths: Vec<_> = all.iter().map(|one| one.stats().path).collect();
            let sum = |of: fn(&PathStats) -> u64| paths.iter().map(of).sum::<u64>();
            json!({
                "mtu": paths.iter().map(|path| path.current_mtu).max(),
                "sent_packets": sum(|path| path.sent_packets),
                "lost_packets": sum(|path| path.lost_packets),
                "black_holes": sum(|path| path.black_holes_detected),
            })
        };
        Ok(((Ipv4Addr::LOCALHOST, port).into(), Box::new(end)))
    }

    fn client(certificate: &Path, addresses: u8, calls: Calls) -> Result<Self> {
        if addresses != 1 {
            return Err("quinn has one path".into());
        }
        let crypto = QuicClientConfig::try_from(client_tls(certificate)?)?;
        let mut config = ClientConfig::new(Arc::new(crypto));
        config.transport_config(transport(calls)?);
        let mut endpoint = Endpoint::new(
            endpoint(calls)?,
            None,
            socket((Ipv4Addr::LOCALHOST, 0).into())?,
            Arc::new(TokioRuntime),
        )?;
        endpoint.set_default_client_config(config);
        Ok(Self(endpoint))
    }

    async fn connect(&self, server: SocketAddr) -> Result<Connection> {
        Ok(self.0.connect(server, NAME)?.await?)
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
}

async fn read(receive: &mut RecvStream, calls: Calls) -> Result<u64> {
    let mut got = 0;
    if calls.chunks {
        while let Some(chunk) = receive.read_chunk(usize::MAX, true).await? {
            got += chunk.bytes.len() as u64;
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
            let _ = write(send, receive, calls).await;
        });
    }
    connection.close(VarInt::from_u32(0), b"");
}

async fn write(mut send: SendStream, mut receive: RecvStream, calls: Calls) -> Result<()> {
    let mut wanted = [0; 8];
    receive.read_exact(&mut wanted).await?;
    let mut left = u64::from_be_bytes(wanted);
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
