//! Sends back what comes on each stream: the server to begin with. `echo_client` is its other half.
//!
//! Arguments: the addresses to listen on, else port 4433 of all of IPv4. It makes a certificate and leaves it in `echo_cert.pem` of the folder
//! that it runs in; the client trusts that file.

use std::error::Error;
use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;

use mpquic::rustls::pki_types::PrivateKeyDer;
use mpquic::{Connection, Endpoint, RecvStream, SendStream, ServerConfig, VarInt};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments = std::env::args().skip(1);
    let mut addresses: Vec<SocketAddr> = arguments
        .map(|text| text.parse())
        .collect::<Result<_, _>>()?;
    if addresses.is_empty() {
        addresses.push("0.0.0.0:4433".parse()?);
    }
    let endpoint = listen(&addresses, Path::new("echo_cert.pem"))?;
    for address in endpoint.local_addrs() {
        println!("listening on {address}");
    }
    serve(&endpoint, async { drop(tokio::signal::ctrl_c().await) }).await;
    Ok(())
}

/// Opens the sockets, with a certificate that is made here. A real server has one of an authority.
pub(crate) fn listen(addresses: &[SocketAddr], cert: &Path) -> Result<Endpoint, Box<dyn Error>> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
    std::fs::write(cert, made.cert.pem())?;
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let config = ServerConfig::with_single_cert(vec![made.cert.der().clone()], key)?;
    Ok(Endpoint::server(config, addresses)?)
}

/// Serves all who come, until `stop` is done.
pub(crate) async fn serve(endpoint: &Endpoint, stop: impl Future<Output = ()>) {
    let serving = async {
        while let Some(incoming) = endpoint.accept().await {
            // Each connection has a task, so that a slow handshake holds up nobody.
            tokio::spawn(async move {
                let from = incoming.remote_address();
                match incoming.await {
                    Ok(connection) => println!("{from}: {}", answer(connection).await),
                    Err(error) => println!("{from}: no handshake: {error}"),
                }
            });
        }
    };
    tokio::select! {
        () = serving => {}
        () = stop => {}
    }
    // Clients are told.
    endpoint.close(VarInt::from_u32(0), b"the server stops");
    endpoint.wait_idle().await;
}

/// Answers on all streams of a connection until it ends; says why it did.
async fn answer(connection: Connection) -> mpquic::ConnectionError {
    loop {
        match connection.accept_bi().await {
            // So has each stream. One that breaks concerns nobody else.
            Ok((send, recv)) => drop(tokio::spawn(echo(send, recv))),
            Err(ended) => return ended,
        }
    }
}

async fn echo(
    mut send: SendStream,
    mut recv: RecvStream,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    // Piece by piece: nothing is held that the client does not take back.
    while let Some(piece) = recv.read_chunk(64 * 1024).await? {
        send.write_chunk(piece).await?;
    }
    send.finish()?;
    Ok(())
}
