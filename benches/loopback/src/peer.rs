//! quinn and noq, measured: their types share only their names, so the code is a macro.

macro_rules! stack {
    ($name:ident, $library:ident, $transport:expr, $open:expr, $chunk:expr, $counts:expr) => {
        pub(crate) mod $name {
            use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
            use std::path::Path;
            use std::sync::{Arc, Mutex};
            use std::time::Duration;

            use bytes::Bytes;
            use $library::crypto::rustls::{QuicClientConfig, QuicServerConfig};
            use $library::{
                ClientConfig, Connection, Endpoint, EndpointConfig, MtuDiscoveryConfig, RecvStream, SendStream,
                ServerConfig, TokioRuntime, TransportConfig, VarInt,
            };
            use serde_json::{Value, json};
            use tokio::runtime::Handle;

            use crate::stack::{
                Calls, Counted, IDLE, Identity, NAME, PIECE, RECEIVE_BUFFER, Result, SEND_BUFFER, Stack, UP, ZEROS, client_tls,
            };

            pub(crate) struct Peer(Endpoint, Vec<Ipv4Addr>);

            fn transport(calls: Calls) -> Result<Arc<TransportConfig>> {
                let mut transport = TransportConfig::default();
                let idle = Duration::from_secs(IDLE);
                transport.max_idle_timeout(Some(idle.try_into()?));
                transport.enable_segmentation_offload(!calls.one_by_one);
                $transport(&mut transport);
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

            impl Stack for Peer {
                type Connection = Connection;

                fn serve(
                    runtimes: &[Handle],
                    certificate: &Path,
                    calls: Calls,
                ) -> Result<(SocketAddr, Counted)> {
                    let [runtime] = runtimes else {
                        return Err("it has no shards".into());
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
                        let sent = all.iter().map(|one| one.stats().udp_tx.datagrams);
                        let mut told = json!({ "sent_datagrams": sent.sum::<u64>() });
                        let more: fn(&[Connection], &mut Value) = $counts;
                        more(&all, &mut told);
                        told
                    };
                    Ok(((Ipv4Addr::LOCALHOST, port).into(), Box::new(end)))
                }

                fn client(certificate: &Path, locals: &[Ipv4Addr], calls: Calls) -> Result<Self> {
                    let crypto = QuicClientConfig::try_from(client_tls(certificate, calls)?)?;
                    let mut config = ClientConfig::new(Arc::new(crypto));
                    config.transport_config(transport(calls)?);
                    // From several addresses, it is said with each datagram from which.
                    let local = match locals {
                        [only] => *only,
                        _ => Ipv4Addr::UNSPECIFIED,
                    };
                    #[allow(unused_mut, reason = "one of the two libraries needs it")]
                    let mut endpoint = Endpoint::new(
                        endpoint(calls)?,
                        None,
                        socket((local, 0).into())?,
                        Arc::new(TokioRuntime),
                    )?;
                    endpoint.set_default_client_config(config);
                    Ok(Self(endpoint, locals.to_vec()))
                }

                async fn connect(&self, server: SocketAddr) -> Result<Connection> {
                    let connection = self.0.connect(server, NAME)?.await?;
                    for local in &self.1[1..] {
                        $open(&connection, server, *local).await?;
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
                    connection.stats().udp_tx.datagrams as f64
                }
            }

            async fn read(receive: &mut RecvStream, calls: Calls) -> Result<u64> {
                let mut got = 0;
                if calls.chunks {
                    while let Some(len) = $chunk(receive).await? {
                        got += len as u64;
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
        }
    };
}

stack!(
    quinn_stack,
    quinn,
    |_: &mut TransportConfig| {},
    async |_: &Connection, _: SocketAddr, _: Ipv4Addr| -> Result<()> {
        Err("quinn has one path".into())
    },
    async |receive: &mut RecvStream| -> Result<Option<usize>> {
        let chunk = receive.read_chunk(usize::MAX, true).await?;
        Ok(chunk.map(|chunk| chunk.bytes.len()))
    },
    |all, told| {
        let paths: Vec<_> = all.iter().map(|one| one.stats().path).collect();
        let sum = |of: fn(&quinn::PathStats) -> u64| paths.iter().map(of).sum::<u64>();
        told["mtu"] = json!(paths.iter().map(|path| path.current_mtu).max());
        told["sent_packets"] = json!(sum(|path| path.sent_packets));
        told["lost_packets"] = json!(sum(|path| path.lost_packets));
        told["black_holes"] = json!(sum(|path| path.black_holes_detected));
    }
);

stack!(
    noq_stack,
    noq,
    |transport: &mut TransportConfig| {
        transport.max_concurrent_multipath_paths(4);
    },
    async |connection: &Connection, server: SocketAddr, local: Ipv4Addr| -> Result<()> {
        let path = noq::FourTuple::new(server, Some(local.into()));
        // It opens no path before connection IDs for it are there, and does not tell when they come.
        loop {
            match connection.open_path(path, noq::PathStatus::Available).await {
                Err(noq::PathError::RemoteCidsExhausted | noq::PathError::MaxPathIdReached) => {
                    tokio::task::yield_now().await;
                }
                opened => return Ok(opened.map(drop)?),
            }
        }
    },
    async |receive: &mut RecvStream| -> Result<Option<usize>> {
        let chunk = receive.read_chunk(usize::MAX).await?;
        Ok(chunk.map(|chunk| chunk.len()))
    },
    |all, told| {
        let lost = all.iter().map(|one| one.stats().lost_packets);
        told["lost_packets"] = json!(lost.sum::<u64>());
    }
);

pub(crate) use noq_stack::Peer as Noq;
pub(crate) use quinn_stack::Peer as Quinn;
