//! The two hosts: a server that anybody with its fingerprint can play from, and a player over links of its own.

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use mpquic::{CongestionControl, Endpoint, TransportConfig, VarInt};

use crate::lab::LabError;
use crate::pin::{self, Pin};
use crate::playback::Playback;
use crate::protocol::{ALPN, Video};
use crate::report::{Circumstances, Report};
use crate::schedulers::Choice;
use crate::screen::Screen;
use crate::server::{Source, serve as answer};
use crate::session::{Client, Route};
use crate::shares::shares;
use crate::streaming::Error;

/// What a server has, and how it sends.
pub(crate) struct Serve {
    pub(crate) listen: Vec<SocketAddr>,
    pub(crate) scheduler: Choice,
    pub(crate) congestion: CongestionControl,
    pub(crate) video: Video,
    pub(crate) seed: u64,
}

/// What to play, and from where.
pub(crate) struct Play {
    pub(crate) server: SocketAddr,
    pub(crate) pin: Pin,
    /// An address for each path; the first carries the handshake. Empty: the system chooses.
    pub(crate) locals: Vec<IpAddr>,
    pub(crate) congestion: CongestionControl,
    pub(crate) video: Video,
    pub(crate) buffer: u64,
    pub(crate) live: bool,
}

fn io(error: std::io::Error) -> Error {
    Error::Lab(LabError::Io(error))
}

fn config(error: mpquic::ConfigError) -> Error {
    Error::Lab(LabError::Config(error))
}

/// Serves until `stop` is ready. `ready` is told where, and by which pin.
pub(crate) async fn serve(
    options: Serve,
    ready: impl FnOnce(&[SocketAddr], Pin),
    stop: impl Future<Output = ()>,
) -> Result<(), Error> {
    let mut transport = TransportConfig::default();
    let scheduler = options.scheduler.factory(None, None);
    transport.scheduler(scheduler.map_err(LabError::from)?);
    transport.congestion(options.congestion);
    let (mut tls, pin) = pin::server(ALPN).map_err(config)?;
    tls.transport(Arc::new(transport));
    let endpoint = Endpoint::server(tls, &options.listen).map_err(io)?;
    ready(&endpoint.local_addrs(), pin);
    let source = Arc::new(Source {
        video: options.video,
        seed: options.seed,
    });
    let accept = async {
        while let Some(incoming) = endpoint.accept().await {
            let source = Arc::clone(&source);
            tokio::spawn(async move {
                let remote = incoming.remote_address();
                match incoming.await {
                    Ok(connection) => {
                        note!("{remote}: plays");
                        answer(connection.clone(), source).await;
                        let left = connection.closed().await;
                        note!("{remote}: {left}");
                    }
                    Err(error) => note!("{remote}: {error}"),
                }
            });
        }
    };
    tokio::select! {
        () = accept => {}
        () = stop => {}
    }
    endpoint.close(VarInt::from_u32(0), b"");
    Ok(())
}

/// Plays to the end, or until `stop` is ready.
pub(crate) async fn play(options: &Play, stop: impl Future<Output = ()>) -> Result<Report, Error> {
    let mut transport = TransportConfig::default();
    transport.congestion(options.congestion);
    let mut tls = pin::client(ALPN, options.pin).map_err(config)?;
    tls.transport(Arc::new(transport));
    let any = match options.server.ip() {
        IpAddr::V4(_) => IpAddr::from([0; 4]),
        IpAddr::V6(_) => IpAddr::from([0; 16]),
    };
    let locals = if options.locals.is_empty() {
        vec![any]
    } else {
        options.locals.clone()
    };
    let client = Client {
        config: tls,
        server_name: "localhost".to_owned(),
        routes: locals
            .iter()
            .map(|ip| Route {
                name: ip.to_string(),
                local: SocketAddr::new(*ip, 0),
                remote: options.server,
            })
            .collect(),
    };
    let names: Vec<_> = client
        .routes
        .iter()
        .map(|route| route.name.as_str())
        .collect();
    let video = &options.video;
    let chunks = u32::try_from(video.chunks).unwrap_or(u32::MAX);
    let screen = Screen::new(options.live, video.length.saturating_mul(chunks), &names);
    let mut playback = Playback::new(video, options.buffer, names.len());
    let end = playback.run(&client, &screen, stop).await;
    drop(screen);
    let paths = names.iter().zip(&playback.received);
    let circumstances = Circumstances {
        // It is the server's, which does not say.
        scheduler: "the server's".to_owned(),
        config: serde_json::Value::Null,
        congestion: options.congestion.name(),
        chunk_seconds: video.length.as_secs_f64(),
        chunks_wanted: video.chunks,
        paths: shares(paths.map(|(name, bytes)| ((*name).to_owned(), None, *bytes))),
        delays_ms: Vec::new(),
        learned: None,
    };
    Ok(Report::new(&playback, &end, circumstances))
}
