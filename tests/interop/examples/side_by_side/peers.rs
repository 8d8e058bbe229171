//! Downloads by quinn and noq: their types share only their names, so the code is a macro.

macro_rules! stack {
    ($name:ident, $library:ident, $bbr:ident, $locals:expr, $paths:expr, $more:expr) => {
        pub(crate) mod $name {
            use std::net::{Ipv4Addr, SocketAddr};
            use std::sync::Arc;

            use $library::congestion::{CubicConfig, $bbr};
            use $library::crypto::rustls::{QuicClientConfig, QuicServerConfig};
            use $library::{Connection, Endpoint, TransportConfig};

            use crate::cli::Congestion;
            use crate::network::{CHUNK, CLIENT, LOOPBACK, Network};
            use crate::{Fault, Took, clock, tls, took};

            /// `window`: the initial congestion window in bytes, instead of the stack's own.
            fn transport(congestion: Congestion, window: Option<u64>) -> TransportConfig {
                let mut transport = TransportConfig::default();
                match congestion {
                    Congestion::Cubic | Congestion::Auto => {
                        let mut cubic = CubicConfig::default();
                        window.map(|window| cubic.initial_window(window));
                        transport.congestion_controller_factory(Arc::new(cubic))
                    }
                    Congestion::Bbr => {
                        let mut bbr = $bbr::default();
                        window.map(|window| bbr.initial_window(window));
                        transport.congestion_controller_factory(Arc::new(bbr))
                    }
                };
                $paths(&mut transport);
                transport
            }

            /// Answers one request.
            async fn serve(server: Endpoint, bytes: u64) -> Result<(), Fault> {
                let incoming = server.accept().await.ok_or("the server ended")?;
                let connection = incoming.await?;
                let (mut send, mut recv) = connection.accept_bi().await?;
                recv.read_to_end(8).await?;
                let block = [0x5a; CHUNK];
                let mut left = bytes;
                while left > 0 {
                    let part = left.min(CHUNK as u64);
                    send.write_all(&block[..part as usize]).await?;
                    left -= part;
                }
                send.finish()?;
                // Ends with the connection.
                let _ = send.stopped().await;
                Ok(())
            }

            pub(crate) async fn download(
                network: &Network,
                congestion: Congestion,
                window: Option<u64>,
                bytes: u64,
                seed: u64,
            ) -> Result<Took, Fault> {
                let (client_tls, server_tls) = tls::configurations()?;
                let transport = Arc::new(transport(congestion, window));
                let crypto = QuicServerConfig::try_from(server_tls)?;
                let mut config = $library::ServerConfig::with_crypto(Arc::new(crypto));
                config.transport_config(Arc::clone(&transport));
                let server = Endpoint::server(config, LOOPBACK)?;
                let links = network.before(server.local_addr()?, seed)?;
                let serving = tokio::spawn(serve(server.clone(), bytes));

                let local: fn(&Network) -> Ipv4Addr = $locals;
                let client = Endpoint::client(SocketAddr::new(local(network).into(), 0))?;
                let crypto = QuicClientConfig::try_from(client_tls)?;
                let mut config = $library::ClientConfig::new(Arc::new(crypto));
                config.transport_config(transport);
                let begin = clock();
                let connecting = client.connect_with(config, links.address(), tls::NAME)?;
                let connection = connecting.await?;
                let asked = clock();
                let more: fn(Connection, SocketAddr) = $more;
                more(connection.clone(), links.address());
                let (mut send, mut recv) = connection.open_bi().await?;
                send.write_all(b"get").await?;
                send.finish()?;
                let mut buffer = vec![0; CHUNK];
                let mut received = 0;
                while let Some(read) = recv.read(&mut buffer).await? {
                    received += read as u64;
                }
                let took = took(begin, asked, &links);
                if received != bytes {
                    return Err(format!("{received} bytes of {bytes} came").into());
                }
                connection.close(0_u32.into(), b"");
                client.wait_idle().await;
                // What it says after the close is of no interest.
                let _ = serving.await;
                Ok(took)
            }
        }
    };
}

// Over the better path only.
stack!(
    quinn_stack,
    quinn,
    BbrConfig,
    |network| CLIENT[network.better],
    |_: &mut TransportConfig| {},
    |_, _| {}
);

// Over both paths, the first address first: an unspecified address sends from 127.0.0.1.
stack!(
    noq_stack,
    noq,
    Bbr3Config,
    |_| Ipv4Addr::UNSPECIFIED,
    |transport: &mut TransportConfig| {
        transport.max_concurrent_multipath_paths(4);
    },
    |connection, address| {
        tokio::spawn(async move {
            let path = noq::FourTuple::new(address, Some(CLIENT[1].into()));
            // It opens no path before connection IDs for it are there, and does not tell when they come. The
            // connection ends with the download.
            while connection.close_reason().is_none() {
                let opening = connection.open_path(path, noq::PathStatus::Available);
                match opening.await {
                    Err(noq::PathError::RemoteCidsExhausted | noq::PathError::MaxPathIdReached) => {
                        tokio::task::yield_now().await
                    }
                    _ => break,
                }
            }
        });
    }
);
