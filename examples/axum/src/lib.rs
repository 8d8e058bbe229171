//! An axum `Router` over HTTP/3 on all paths of a connection: what is between `mpquic_h3` and axum, to be copied.
//!
//! - Each connection and each request has a task. Bodies pass piece by piece in both directions.
//! - At the end, connections take no new requests (GOAWAY, RFC 9114 section 5.2), and those that run have time to finish.
//! - A client that comes again asks with its first packet (early data). Somebody who recorded that can send it again, so that until the handshake
//!   is complete only what is safe to do twice is done; all else is answered with 425 (RFC 8470 section 5.2), and the client asks again.
//! - What connections, paths and requests do is counted for Prometheus, and served by plain HTTP at an address of its own.

use std::error::Error;
use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response, StatusCode};
use axum::routing::get;
use bytes::{Buf as _, Bytes};
use futures_util::{StreamExt as _, stream};
use metrics::{counter, histogram};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use mpquic::metrics::Metrics;
use mpquic::{Connection, Endpoint, Incoming, ServerConfig, TransportConfig};
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
/// Sessions that are kept: a client that comes again without one has a whole handshake.
const SESSIONS: usize = 10_000;
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
    // The only value beside 0 that QUIC knows; a session is taken out of the store when its ticket is used.
    tls.max_early_data_size = u32::MAX;
    tls.session_storage = rustls::server::ServerSessionMemoryCache::new(SESSIONS);
    let mut transport = TransportConfig::default();
    // A client that takes less of what waits for it holds memory, and gets nowhere.
    transport.min_peer_rate(1_000, Duration::from_secs(30));
    Metrics::new().attach(&mut transport);
    let mut config = ServerConfig::new(Arc::new(tls))?;
    config.transport(Arc::new(transport));
    Ok(Endpoint::server(config, addresses)?)
}

/// Counts from here on what connections and requests do; once in a process, before connections are there.
///
/// # Errors
///
/// If something else counts already.
pub fn count() -> Result<PrometheusHandle, Failure> {
    Ok(PrometheusBuilder::new().install_recorder()?)
}

/// What was counted, as Prometheus reads it: to be served where nobody else looks, such as at 127.0.0.1 (`axum::serve`).
pub fn figures(counted: PrometheusHandle) -> Router {
    Router::new().route("/metrics", get(async move || counted.render()))
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
                let served = connection(incoming, router, stopping);
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
    incoming: Incoming,
    router: Router,
    stopping: watch::Receiver<bool>,
) -> Result<(), Failure> {
    // A server has the connection at once; whose it is shows when the handshake is complete.
    let (connection, complete) = match incoming.accept()?.into_0rtt() {
        Ok(early) => early,
        Err(connecting) => {
            return requests(
                connecting.await?,
                router,
                stopping,
                &watch::Sender::new(true),
            )
            .await;
        }
    };
    let known = watch::Sender::new(false);
    let knowing = async {
        known.send_replace(complete.await);
        std::future::pending::<()>().await;
    };
    let serving = requests(connection, router, stopping, &known);
    tokio::select! {
        biased;
        () = knowing => Ok(()),
        served = serving => served,
    }
}

/// The requests of a connection. Until its client is `known`, only those that are safe are done.
async fn requests(
    connection: Connection,
    router: Router,
    mut stopping: watch::Receiver<bool>,
    known: &watch::Sender<bool>,
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
        let (router, known) = (router.clone(), known.subscribe());
        running.spawn(async move {
            // An error leaves the stream, which resets it: the client does not take a part for the whole.
            if let Err(error) = request(resolver, router, &known).await {
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
async fn request(
    resolver: Resolver,
    router: Router,
    known: &watch::Receiver<bool>,
) -> Result<(), Failure> {
    let (head, stream) = resolver.resolve_request().await?;
    let begun = Instant::now();
    let (mut send, recv) = stream.split();
    let body = stream::try_unfold(recv, |mut recv| async move {
        let piece = recv.recv_data().await?;
        let piece = piece.map(|mut piece| (piece.copy_to_bytes(piece.remaining()), recv));
        Ok::<_, h3::error::StreamError>(piece)
    });
    let (parts, ()) = head.into_parts();
    let is_replay = !parts.method.is_safe() && !*known.borrow();
    let answer = if is_replay {
        let mut answer = Response::new(Body::empty());
        *answer.status_mut() = StatusCode::TOO_EARLY;
        answer
    } else {
        let asked = Request::from_parts(parts, Body::from_stream(body));
        match router.oneshot(asked).await {
            Ok(answer) => answer,
            Err(never) => match never {},
        }
    };
    // By class, as clients choose what they ask for.
    let class = format!("{}xx", answer.status().as_u16() / 100);
    counter!("http_requests_total", "status" => class).increment(1);
    let (parts, body) = answer.into_parts();
    let head = Response::from_parts(parts, ());
    send.send_response(head).await?;
    let mut body = body.into_data_stream();
    while let Some(piece) = body.next().await {
        send.send_data(piece?).await?;
    }
    let finished = send.finish().await;
    histogram!("http_request_seconds").record(begun.elapsed());
    Ok(finished?)
}
