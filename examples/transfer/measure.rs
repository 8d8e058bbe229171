//! Measures one download from the start of the handshake to the last byte: its time, and the bytes per path.

use std::pin::pin;
use std::time::{Duration, Instant};

use mpquic::VarInt;
use thiserror::Error;
use tokio::io::AsyncWrite;

use crate::fetch::{Counter, FetchError, Fetched, fetch};
use crate::progress::Bars;
use crate::protocol::{DONE, Request};
use crate::session::{Client, Session, SessionError};

/// How often the progress bars are updated.
const TICK: Duration = Duration::from_millis(100);

/// Why a download failed.
#[derive(Debug, Error)]
pub(crate) enum DownloadError {
    /// The connection, or one of its paths, could not be opened.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The transfer failed after the connection was open.
    #[error(transparent)]
    Fetch(#[from] FetchError),
}

/// The error code with which a client closes the connection after a failure.
const FAILED: VarInt = VarInt::from_u32(2);

/// A completed download.
#[derive(Debug)]
pub(crate) struct Download {
    pub(crate) fetched: Fetched,
    /// The time from the first packet of the handshake to the last byte of the content, which is
    /// how long a user waits.
    pub(crate) took: Duration,
    /// Stream bytes received on each of the client's routes.
    pub(crate) per_route: Vec<u64>,
}

/// Connects, opens all paths, and fetches the content. A path that cannot be opened is an error,
/// even if the other paths work: the user asked for a download over all of them.
pub(crate) async fn download(
    client: &Client,
    request: &Request,
    sink: &mut (impl AsyncWrite + Unpin),
    bars: &Bars,
) -> Result<Download, DownloadError> {
    let start = Instant::now();
    let session = Session::connect(client).await?;
    let counter = Counter::default();
    let result = {
        // The request leaves at once: the first path need not wait for the others.
        let fetch = async {
            let fetched = fetch(&session.connection, request, sink, &counter).await?;
            Ok::<_, DownloadError>((fetched, start.elapsed()))
        };
        let open = async { Ok(session.open_paths().await?) };
        let mut work = pin!(async { tokio::try_join!(fetch, open) });
        let mut tick = tokio::time::interval(TICK);
        loop {
            tokio::select! {
                result = &mut work => break result,
                _ = tick.tick() => bars.show(&counter, &session.received()),
            }
        }
    };
    let per_route = session.received();
    bars.show(&counter, &per_route);
    match &result {
        Ok(_) => session.close(DONE, b"done").await,
        Err(error) => session.close(FAILED, error.to_string().as_bytes()).await,
    }
    let ((fetched, took), ()) = result?;
    Ok(Download {
        fetched,
        took,
        per_route,
    })
}
