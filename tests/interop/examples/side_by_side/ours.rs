//! A download by this crate.

use std::net::SocketAddr;
use std::sync::Arc;

use mpquic::congestion::SlowStart;
use mpquic::sched::Registry;
use mpquic::{
    ClientConfig, CongestionControl, Endpoint, FullMesh, PathStart, ServerConfig, TransportConfig,
};

use crate::cli::Congestion;
use crate::network::{CHUNK, CLIENT, LOOPBACK, Network};
use crate::report::Options;
use crate::{Fault, Took, clock, tls, took};

fn transport(options: Options, congestion: Congestion) -> Result<TransportConfig, Fault> {
    let mut transport = TransportConfig::default();
    transport
        .scheduler(Registry::new().factory(options.scheduler, &serde_json::Value::Null)?)
        .congestion(match congestion {
            Congestion::Cubic => CongestionControl::Cubic,
            Congestion::Bbr => CongestionControl::Bbr,
            Congestion::Auto => CongestionControl::Auto,
        })
        .tail_copies(options.tail_copies)
        .path_start(match options.old_start {
            true => PathStart::Confirmed,
            false => PathStart::Complete,
        });
    if options.old_start {
        transport.slow_start(SlowStart::HyStartPlusPlus);
    }
    Ok(transport)
}

pub(crate) async fn download(
    network: &Network,
    options: Options,
    congestion: Congestion,
    bytes: u64,
    seed: u64,
) -> Result<Took, Fault> {
    let (client_tls, server_tls) = tls::configurations()?;
    let transport = Arc::new(transport(options, congestion)?);
    let mut config = ServerConfig::new(Arc::new(server_tls))?;
    config.transport(Arc::clone(&transport));
    let server = Endpoint::server(config, &[LOOPBACK])?;
    let links = network.before(server.local_addrs()[0], seed)?;
    let serving = tokio::spawn({
        let server = server.clone();
        async move {
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
            Ok::<_, Fault>(())
        }
    });

    let locals: Vec<_> = match options.alone {
        true => vec![SocketAddr::new(CLIENT[network.better].into(), 0)],
        false => CLIENT.map(|ip| SocketAddr::new(ip.into(), 0)).to_vec(),
    };
    let client = Endpoint::builder()
        .bind_all(&locals)
        .path_manager(FullMesh::new())
        .build()?;
    let mut config = ClientConfig::new(Arc::new(client_tls))?;
    config.transport(transport);
    let begin = clock();
    let connecting = match options.old_start {
        true => {
            let first = client.local_addrs()[0];
            client.connect_from(first, Some(config), links.address(), tls::NAME)?
        }
        false => client.connect_with(config, links.address(), tls::NAME)?,
    };
    let connection = connecting.await?;
    let asked = clock();
    let (mut send, mut recv) = connection.open_bi().await?;
    send.write_all(b"get").await?;
    send.finish()?;
    let mut received = 0;
    while let Some(chunk) = recv.read_chunk(CHUNK).await? {
        received += chunk.len() as u64;
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
