//! A download by our endpoints, in the namespaces of a place.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use mpquic::{ClientConfig, Endpoint, ServerConfig, TransportConfig};
use mpquic_sim::identity;

use crate::Fault;
use crate::place::{Host, Place};

const PORT: u16 = 4433;
const CHUNK: usize = 64 * 1024;
/// Far longer than any of the downloads.
const LIMIT: Duration = Duration::from_secs(60);

fn block_on<R>(future: impl Future<Output = Result<R, Fault>>) -> Result<R, Fault> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let ended = runtime.block_on(async { tokio::time::timeout(LIMIT, future).await });
    ended.unwrap_or(Err(Fault::Late(LIMIT.as_secs())))
}

/// The time from the request to the last byte. The handshake is on the first path, and the request leaves when it is complete.
///
/// # Errors
///
/// If a namespace cannot be entered or the download fails.
pub(crate) fn download(
    place: &Place,
    transport: &TransportConfig,
    bytes: u64,
) -> Result<Duration, Fault> {
    let transport = Arc::new(transport.clone());
    let addresses = |ip: fn(&Place, usize) -> std::net::Ipv4Addr, port| -> Vec<SocketAddr> {
        let ips = (0..place.paths()).map(|path| ip(place, path));
        ips.map(|ip| (ip, port).into()).collect()
    };
    let servers = addresses(Place::server_ip, PORT);
    let clients = addresses(Place::client_ip, 0);
    let servers = &servers;
    let (ready, is_ready) = mpsc::channel();
    std::thread::scope(|scope| {
        let server = {
            let transport = Arc::clone(&transport);
            scope.spawn(move || {
                place.inside(Host::Server, || block_on(serve(transport, servers, ready)))
            })
        };
        let client = place.inside(Host::Client, move || {
            // If the server fails to start, its own error tells.
            is_ready.recv().map_err(|_| Fault::NoServer)?;
            block_on(fetch(transport, &clients, servers, bytes))
        });
        let served = match server.join() {
            Ok(served) => served,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        served??;
        client?
    })
}

async fn serve(
    transport: Arc<TransportConfig>,
    addresses: &[SocketAddr],
    ready: mpsc::Sender<()>,
) -> Result<(), Fault> {
    let mut config = ServerConfig::new(identity::server_tls()?)?;
    config.transport(transport);
    let endpoint = Endpoint::server(config, addresses)?;
    // A client that is gone has said why.
    let _ = ready.send(());
    let incoming = endpoint.accept().await.ok_or(Fault::NoServer)?;
    let connection = incoming.await?;
    let (mut send, mut recv) = connection.accept_bi().await?;
    let request = recv.read_to_end(8).await?;
    let bytes =
        <[u8; 8]>::try_from(&request[..]).map_err(|_| Fault::Length(request.len() as u64, 8))?;
    let bytes = u64::from_be_bytes(bytes);
    let buffer = vec![0x5a; CHUNK];
    let mut left = bytes;
    while left > 0 {
        let len = left.min(CHUNK as u64);
        send.write_all(&buffer[..len as usize]).await?;
        left -= len;
    }
    send.finish()?;
    // The client closes when it has all.
    connection.closed().await;
    Ok(())
}

async fn fetch(
    transport: Arc<TransportConfig>,
    clients: &[SocketAddr],
    servers: &[SocketAddr],
    bytes: u64,
) -> Result<Duration, Fault> {
    let endpoint = Endpoint::client(clients)?;
    let locals = endpoint.local_addrs();
    let mut config = ClientConfig::new(identity::client_tls()?)?;
    config.transport(transport);
    let connection = endpoint
        .connect_from(locals[0], Some(config), servers[0], identity::SERVER_NAME)?
        .await?;
    let asked = Instant::now();
    let paths = async {
        for (&local, &server) in locals.iter().zip(servers).skip(1) {
            connection.open_path_from(local, server).await?;
        }
        Ok::<_, Fault>(())
    };
    let body = async {
        let (mut send, mut recv) = connection.open_bi().await?;
        send.write_all(&bytes.to_be_bytes()).await?;
        send.finish()?;
        let mut received = 0;
        while let Some(chunk) = recv.read_chunk(CHUNK).await? {
            received += chunk.len() as u64;
        }
        if received != bytes {
            return Err(Fault::Length(received, bytes));
        }
        Ok::<_, Fault>(asked.elapsed())
    };
    let ((), took) = tokio::try_join!(paths, body)?;
    connection.close(0_u32.into(), b"");
    endpoint.wait_idle().await;
    Ok(took)
}
