//! An axum `Router` over HTTP/3 on all paths of a connection: what is between `mpquic_h3` and axum, to be copied.
//!
//! - Each connection and each request has a task. Bodies pass piece by piece in both directions.
//! - At the end, connections take no new requests (GOAWAY, RFC 9114 section 5.2), and those that run have time to finish.
//! - Early data is not accepted: `rustls::ServerConfig::max_early_data_size` stays 0. Whoever turns it on answers 425 (RFC 8470) to all
//!   that may not be done twice.

use std::error::Error;
use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use bytes::{Buf as _, Bytes};
use futures_util::{StreamExt as _, stream};
use mpquic::{Connection, Endpoint, ServerConfig, TransportConfig};
use rustls::pki_types::PrivateKeyDer;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tower::ServiceExt as _;

type Failure = Box<dyn Error + Send + Sync>;
type Requests = h3::server::Connection<mpquic_h3::Connection, Bytes>;
type Resolver = h3::server::RequestResolver<mpquic_h3::Connection, Bytes>;

/// What the fields of a request may take, bytes.
const MAX_FIELDS: u64 = 64 * 1024;
/// How long requests have to finish when the server stops.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a client has to take the ends of its answers, and to close, once all requests have finished.
const GRACE: Duration = Duration::from_secs(1);

/// Opens the sockets, with a certificate that is made here and left in `cert`. A real server has one of an authority.
///
/// # Errors
///
/// If an address cannot be bound, or the file not be written.
pub fn listen(addresses: &[SocketAddr], cert: &Path) -> Result<Endpoint, Failure> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
    std::fs::write(cert, made.cert.pem())?;
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let mut tls = rustls::ServerConfig::builder_with_protocol_versions(&[&rustls::version::TLS13])
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)?;
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let mut transport = TransportConfig::default();
    // A client that takes less of what waits for it holds memory, and gets nowhere.
    transport.min_peer_rate(1_000, Duration::from_secs(30));
    let mut config = ServerConfig::new(Arc::new(tls))?;
    config.transport(Arc::new(transport));
    Ok(Endpoint::server(config, addresses)?)
}

/// Serves `router` until `stop` is done, then lets requests finish.
pub async fn serve(endpoint: &Endpoint, router: Router, stop: impl Future<Output = ()>) {
    let stopping = watch::Sender::new(false);
    let mut connections = JoinSet::new();
    let accepting = async {
        while let Some(incoming) = endpoint.accept().await {
            let (router, stopping) = (router.clone(), stopping.subscribe());
            connections.spawn(async move {
                let remote = incoming.remote_address();
                let served = async { connection(incoming.await?, router, stopping).await };
                if let Err(error) = served.await {
                    eprintln!("{remote}: {error}");
                }
            });
            // Those that have ended.
            while connections.try_join_next().is_some() {}
        }
    };
    tokio::select! {
        () = accepting => {}
        () = stop => {}
    }
    stopping.send_replace(true);
    let finishing = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(PATIENCE, finishing).await;
    let no_error = h3::error::Code::H3_NO_ERROR.value();
    endpoint.close(
        u32::try_from(no_error).unwrap_or(0).into(),
        b"the server stops",
    );
    endpoint.wait_idle().await;
}

async fn connection(
    connection: Connection,
    router: Router,
    mut stopping: watch::Receiver<bool>,
) -> Result<(), Failure> {
    let transport = mpquic_h3::Connection::new(connection.clone());
    let mut builder = h3::server::builder();
    let builder = builder.max_field_section_size(MAX_FIELDS);
    let mut requests: Requests = builder.build(transport).await?;
    let mut running = JoinSet::new();
    loop {
        let resolver = tokio::select! {
            accepted = requests.accept() => match accepted {
                Ok(Some(resolver)) => resolver,
                Ok(None) => return Ok(()),
                Err(error) if error.is_h3_no_error() => return Ok(()),
                Err(error) => return Err(error.into()),
            },
            _ = stopping.wait_for(|is| *is) => break,
        };
        let router = router.clone();
        running.spawn(async move {
            // An error leaves the stream, which resets it: the client does not take a part for the whole.
            if let Err(error) = request(resolver, router).await {
                eprintln!("a request: {error}");
            }
        });
        while running.try_join_next().is_some() {}
    }
    requests.shutdown(0).await?;
    let finishing = async {
        while running.join_next().await.is_some() {}
        // What closes the connection now would overtake what was just sent.
        let _ = tokio::time::timeout(GRACE, connection.closed()).await;
    };
    // They need the connection to be driven, which may come to its end before they do.
    let driving = async {
        while let Ok(Some(_)) = requests.accept().await {}
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = finishing => {}
        () = driving => {}
    }
    Ok(())
}

/// One request: to axum, and its answer back.
async fn request(resolver: Resolver, router: Router) -> Result<(), Failure> {
    let (head, stream) = resolver.resolve_request().await?;
    let (mut send, recv) = stream.split();
    let body = stream::try_unfold(recv, |mut recv| async move {
        let piece = recv.recv_data().await?;
        let piece = piece.map(|mut piece| (piece.copy_to_bytes(piece.remaining()), recv));
        Ok::<_, h3::error::StreamError>(piece)
    });
    let (parts, ()) = head.into_parts();
    let asked = Request::from_parts(parts, Body::from_stream(body));
    let answer = match router.oneshot(asked).await {
        Ok(answer) => answer,
        Err(never) => match never {},
    };
    let (parts, body) = answer.into_parts();
    let head = Response::from_parts(parts, ());
    send.send_response(head).await?;
    let mut body = body.into_data_stream();
    while let Some(piece) = body.next().await {
        send.send_data(piece?).await?;
    }
    Ok(send.finish().await?)
}
