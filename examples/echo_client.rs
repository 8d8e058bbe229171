//! Sends its standard input on a stream and writes what comes back: the client to begin with. `echo_server` is its other half.
//!
//! Arguments: the server's address, then a local address for each link; without any, the system chooses one. It trusts the certificate in
//! `echo_cert.pem` of the folder that it runs in, where the server left it.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use mpquic::rustls::RootCertStore;
use mpquic::rustls::pki_types::CertificateDer;
use mpquic::rustls::pki_types::pem::PemObject;
use mpquic::{ClientConfig, Endpoint, FullMesh, VarInt};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let server = arguments
        .next()
        .ok_or("echo_client SERVER:PORT [LOCAL_IP]...")?;
    let mut locals = Vec::new();
    for ip in arguments {
        locals.push(SocketAddr::new(ip.parse()?, 0));
    }
    if locals.is_empty() {
        locals.push((Ipv4Addr::UNSPECIFIED, 0).into());
    }
    let (input, output) = (tokio::io::stdin(), tokio::io::stdout());
    let cert = Path::new("echo_cert.pem");
    for (local, sent) in run(server.parse()?, &locals, cert, input, output).await? {
        eprintln!("from {local}: {sent} bytes");
    }
    Ok(())
}

/// Sends all of `input`, and writes what comes back; gives what left from which address.
pub(crate) async fn run(
    server: SocketAddr,
    locals: &[SocketAddr],
    cert: &Path,
    mut input: impl AsyncRead + Unpin,
    mut output: impl AsyncWrite + Unpin,
) -> Result<Vec<(SocketAddr, u64)>, Box<dyn Error>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(cert)?)?;
    let config = ClientConfig::with_root_certificates(roots)?;
    let endpoint = Endpoint::client(locals)?;
    // A path from each local address.
    endpoint.set_path_manager(FullMesh::new());
    let connection = endpoint.connect_with(config, server, "localhost")?.await?;

    let (mut send, mut recv) = connection.open_bi().await?;
    let sending = async {
        let mut piece = vec![0; 64 * 1024];
        loop {
            match input.read(&mut piece).await? {
                0 => break,
                len => send.write_all(&piece[..len]).await?,
            }
        }
        send.finish()?;
        Ok::<(), Box<dyn Error>>(())
    };
    let receiving = async {
        while let Some(piece) = recv.read_chunk(64 * 1024).await? {
            output.write_all(&piece).await?;
        }
        output.flush().await?;
        Ok::<(), Box<dyn Error>>(())
    };
    // At the same time: the server sends back before it has all.
    tokio::try_join!(sending, receiving)?;

    let mut shares = Vec::new();
    for path in connection.paths() {
        shares.push((path.network_path()?.local, path.stats()?.sent_bytes));
    }
    connection.close(VarInt::from_u32(0), b"done");
    endpoint.wait_idle().await; // until the server has heard of it
    Ok(shares)
}
