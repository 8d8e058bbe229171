//! The server for `perf_client`: returns as many bytes as each stream requests.
#![deny(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
#[path = "transfer/lines.rs"]
mod lines;

mod perf_common;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use mpquic::{
    Connection, Endpoint, Incoming, ReadExactError, RecvStream, SendStream, ServerConfig, rustls,
};
use perf_common::{ALPN, Result, TransportOptions, ZEROS, context};
use rustls::pki_types::PrivateKeyDer;

/// Serves bulk transfers, requests and handshakes to perf_client.
#[derive(Debug, Parser)]
#[command(after_help = "\
Examples:
  perf_server                                     all addresses, port 4433
  perf_server --listen 192.0.2.7:4433 --listen 198.51.100.7:4433
  perf_server --cert-out cert.pem                 for perf_client --ca cert.pem
  perf_server --scheduler roundrobin --max-mtu 9000

Exit status:
  1  cannot serve
  2  the command line is wrong")]
struct Options {
    /// Address to listen on; repeat for more
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:4433")]
    listen: Vec<SocketAddr>,
    /// Name in the certificate, which is generated at each start
    #[arg(long, value_name = "NAME", default_value = "localhost")]
    name: String,
    /// Write the certificate to this file (PEM)
    #[arg(long, value_name = "FILE")]
    cert_out: Option<PathBuf>,
    /// Print who connects and how connections end
    #[arg(long, short)]
    verbose: bool,
    #[command(flatten)]
    transport: TransportOptions,
}

fn main() -> ExitCode {
    let options = Options::parse();
    options.transport.run("perf_server", serve(&options))
}

async fn serve(options: &Options) -> Result<()> {
    let endpoint = Endpoint::server(config(options)?, &options.listen)?;
    for local in endpoint.local_addrs() {
        note!("listening on {local}");
    }
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(connection(incoming, options.verbose));
    }
    Ok(())
}

fn config(options: &Options) -> Result<ServerConfig> {
    let made = rcgen::generate_simple_self_signed(vec![options.name.clone()])
        .map_err(context("making the certificate"))?;
    if let Some(file) = &options.cert_out {
        std::fs::write(file, made.cert.pem()).map_err(context(file.display()))?;
    }
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)?;
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let mut config = ServerConfig::new(Arc::new(tls))?;
    config.transport(options.transport.transport()?);
    Ok(config)
}

async fn connection(incoming: Incoming, verbose: bool) {
    let remote = incoming.remote_address();
    let result = async {
        let connection = incoming.await?;
        if verbose {
            note!("{remote}: connected");
        }
        streams(&connection).await
    };
    let error = result.await;
    if verbose {
        let reason = error.map_or_else(|error| error.to_string(), |()| "done".to_owned());
        note!("{remote}: {reason}");
    }
}

async fn streams(connection: &Connection) -> std::result::Result<(), mpquic::ConnectionError> {
    loop {
        let (send, recv) = connection.accept_bi().await?;
        // If a stream breaks off, the client reports it.
        tokio::spawn(async move {
            let _ = answer(send, recv).await;
        });
    }
}

async fn answer(mut send: SendStream, mut recv: RecvStream) -> Result<()> {
    let mut wanted = [0; 8];
    match recv.read_exact(&mut wanted).await {
        Ok(()) => {}
        // The client measures how fast streams open and close.
        Err(ReadExactError::FinishedEarly(_)) => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    while recv.read_chunk(usize::MAX).await?.is_some() {}
    let mut left = u64::from_be_bytes(wanted);
    while left > 0 {
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(ZEROS.len());
        send.write_chunk(bytes::Bytes::from_static(&ZEROS[..len]))
            .await?;
        left -= len as u64;
    }
    send.finish()?;
    Ok(())
}
