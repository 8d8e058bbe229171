//! The load: a server that returns what it gets, and clients that send one request after the other.

use std::time::{Duration, Instant};

use mpquic::{Connection, Endpoint};

/// What became of one connection.
#[derive(Debug)]
pub(crate) struct Tally {
    /// Requests that came back whole.
    pub(crate) requests: u64,
    /// The longest request.
    pub(crate) longest: Duration,
    /// Why it ended early, if it did.
    pub(crate) error: Option<String>,
}

pub(crate) async fn serve(endpoint: Endpoint) {
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            let Ok(connection) = incoming.await else {
                return;
            };
            while let Ok((mut send, mut recv)) = connection.accept_bi().await {
                tokio::spawn(async move {
                    // A client that goes away in the middle of a request tells so itself.
                    if let Ok(request) = recv.read_to_end(1 << 24).await
                        && send.write_all(&request).await.is_ok()
                    {
                        send.finish().ok();
                    }
                });
            }
        });
    }
}

/// Sends requests of `size` bytes until `end`.
pub(crate) async fn request_until(connection: Connection, size: usize, end: Instant) -> Tally {
    let mut tally = Tally {
        requests: 0,
        longest: Duration::ZERO,
        error: None,
    };
    let payload: Vec<u8> = (0..size).map(|i| (i % 251) as u8).collect();
    while Instant::now() < end {
        let begin = Instant::now();
        match request(&connection, &payload).await {
            Ok(()) => tally.requests += 1,
            Err(error) => {
                tally.error = Some(error.to_string());
                break;
            }
        }
        tally.longest = tally.longest.max(begin.elapsed());
    }
    tally
}

async fn request(
    connection: &Connection,
    payload: &[u8],
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let (mut send, mut recv) = connection.open_bi().await?;
    send.write_all(payload).await?;
    send.finish()?;
    let answer = recv.read_to_end(payload.len()).await?;
    if answer == payload {
        Ok(())
    } else {
        Err("the answer is not the request".into())
    }
}
