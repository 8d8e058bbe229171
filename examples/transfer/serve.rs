//! The server's half of a transfer: answers requests on a connection.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mpquic::{Connection, ConnectionError, RecvStream, SendStream, StreamHints, VarInt};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::protocol::{DIGEST_LEN, DONE, MAX_HEADER, Request};
use crate::schedulers::Choice;

/// Bytes that are read, hashed and written at a time.
const CHUNK: usize = 128 * 1024;

/// Stream error code: the content could not be read to its promised end.
const CONTENT_LOST: VarInt = VarInt::from_u32(1);

/// The content that a server offers, and the server's other decisions.
pub(crate) trait Service: Send + Sync + 'static {
    /// A reader of the content.
    type Body: AsyncRead + Send + Unpin;

    /// Finds content and returns its length, or an error for the client.
    fn open(&self, name: &str) -> impl Future<Output = Result<(Self::Body, u64), String>> + Send;

    /// The client asks for a scheduler. An error is the reason why it cannot have it.
    fn choose(&self, choice: &Choice) -> Result<(), String>;

    /// Called after each request.
    fn answered(&self, answer: &Answer);
}

/// The result of a request.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The requested name, if it could be parsed.
    pub(crate) name: Option<String>,
    pub(crate) took: Duration,
    /// Bytes of content that the client has received, or the error.
    pub(crate) result: Result<u64, String>,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.as_deref().unwrap_or("(unreadable request)");
        let seconds = self.took.as_secs_f64();
        match &self.result {
            Ok(bytes) => write!(f, "GET {name:?}: {bytes} bytes in {seconds:.3} s"),
            Err(reason) => write!(f, "GET {name:?}: failed after {seconds:.3} s: {reason}"),
        }
    }
}

/// Answers requests concurrently until the connection ends. Returns why it ended.
pub(crate) async fn serve<S: Service>(connection: Connection, service: Arc<S>) -> ConnectionError {
    loop {
        match connection.accept_bi().await {
            Ok((send, recv)) => {
                let service = Arc::clone(&service);
                tokio::spawn(async move {
                    let start = Instant::now();
                    let (name, result) = answer(&*service, send, recv).await;
                    service.answered(&Answer {
                        name,
                        took: start.elapsed(),
                        result,
                    });
                });
            }
            Err(reason) => return reason,
        }
    }
}

/// Answers one request. Returns the requested name and the result.
async fn answer<S: Service>(
    service: &S,
    mut send: SendStream,
    mut recv: RecvStream,
) -> (Option<String>, Result<u64, String>) {
    let text = match recv.read_to_end(MAX_HEADER).await {
        Ok(text) => text,
        Err(error) => {
            return (
                None,
                refuse(&mut send, format!("bad request: {error}")).await,
            );
        }
    };
    let request = match parse_request(&text) {
        Ok(request) => request,
        Err(reason) => {
            return (
                None,
                refuse(&mut send, format!("bad request: {reason}")).await,
            );
        }
    };
    let name = Some(request.name.clone());
    if let Some(choice) = &request.scheduler
        && let Err(reason) = service.choose(choice)
    {
        return (name, refuse(&mut send, reason).await);
    }
    match service.open(&request.name).await {
        Ok((body, length)) => (name, send_content(&mut send, body, length).await),
        Err(reason) => (name, refuse(&mut send, reason).await),
    }
}

/// Parses the lines of a request; see [`crate::protocol`].
fn parse_request(text: &[u8]) -> Result<Request, String> {
    let text = std::str::from_utf8(text).map_err(|_| "not UTF-8")?;
    let lines = text.strip_suffix('\n').ok_or("no end of line")?;
    let mut lines = lines.split('\n');
    let name = lines.next().and_then(|line| line.strip_prefix("GET "));
    let name = name.ok_or("expected `GET <name>`")?.to_owned();
    let scheduler = match lines.next() {
        Some(line) => {
            let choice = line.strip_prefix("SCHEDULER ");
            let choice = choice.ok_or("expected `SCHEDULER <name> <configuration>`")?;
            let (scheduler, config) = choice.split_once(' ').unwrap_or((choice, ""));
            Some(Choice::parse(scheduler, config).map_err(|error| error.to_string())?)
        }
        None => None,
    };
    match lines.next() {
        Some(_) => Err("more lines than there should be".to_owned()),
        None => Ok(Request { name, scheduler }),
    }
}

/// Sends an error to the client. Always returns that error.
async fn refuse(send: &mut SendStream, reason: String) -> Result<u64, String> {
    // The reason takes one line, so text that it quotes from the request must not break it.
    let line = format!("ERROR {}\n", reason.replace(['\n', '\r'], " "));
    // If the client is gone, there is nothing to do.
    let _ = send.write_all(line.as_bytes()).await;
    let _ = send.finish();
    Err(reason)
}

/// Sends `length` bytes of content and their digest. Returns when the client has received
/// everything.
async fn send_content(
    send: &mut SendStream,
    body: impl AsyncRead + Unpin,
    length: u64,
) -> Result<u64, String> {
    let header = format!("OK {length}\n");
    // Some schedulers plan for the end of a transfer and need its size. If the hints cannot be set,
    // the transfer still works.
    let _ = send.set_hints(StreamHints {
        size: Some(header.len() as u64 + length + DIGEST_LEN as u64),
        ..StreamHints::default()
    });
    let write_error = |error: mpquic::WriteError| error.to_string();
    send.write_all(header.as_bytes())
        .await
        .map_err(write_error)?;

    let mut body = body.take(length);
    let mut hasher = Sha256::new();
    let mut chunk = vec![0; CHUNK];
    let mut sent = 0;
    loop {
        let count = match body.read(&mut chunk).await {
            // The stream must not end normally, since the client would take it for complete.
            Err(error) => {
                let _ = send.reset(CONTENT_LOST);
                return Err(format!("cannot read the content: {error}"));
            }
            Ok(0) if sent < length => {
                let _ = send.reset(CONTENT_LOST);
                return Err(format!("the content ended after {sent} of {length} bytes"));
            }
            Ok(0) => break,
            Ok(count) => count,
        };
        hasher.update(&chunk[..count]);
        send.write_all(&chunk[..count]).await.map_err(write_error)?;
        sent += count as u64;
    }
    send.write_all(&hasher.finalize())
        .await
        .map_err(write_error)?;
    send.finish().map_err(|error| error.to_string())?;
    match send.stopped().await {
        Ok(None) => Ok(length),
        Ok(Some(code)) => Err(format!("the client gave up: code {code}")),
        // A client that has everything may close before its last acknowledgement arrives.
        Err(mpquic::StoppedError::ConnectionLost(ConnectionError::ApplicationClosed(close)))
            if close.error_code == DONE =>
        {
            Ok(length)
        }
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests() {
        let request = parse_request(b"GET a b/c\n").unwrap();
        assert_eq!((request.name.as_str(), request.scheduler), ("a b/c", None));

        let request = parse_request(b"GET x\nSCHEDULER roundrobin {\"burst\":2}\n").unwrap();
        let choice = request.scheduler.unwrap();
        assert_eq!(choice.name(), "roundrobin");
        assert_eq!(choice.config()["burst"], 2);
        assert!(parse_request(b"GET x\nSCHEDULER minrtt\n").is_ok());

        for (text, expected) in [
            (&b""[..], "no end of line"),
            (b"GET x", "no end of line"),
            (b"\n", "expected `GET <name>`"),
            (b"PUT x\n", "expected `GET <name>`"),
            (b"GET \xff\n", "not UTF-8"),
            (b"GET x\n\n", "expected `SCHEDULER"),
            (b"GET x\nSCHEDULER nope {}\n", "unknown scheduler `nope`"),
            (
                b"GET x\nSCHEDULER minrtt {\n",
                "the scheduler's configuration is not JSON",
            ),
            (b"GET x\nSCHEDULER minrtt {}\nMORE\n", "more lines"),
        ] {
            let error = parse_request(text).unwrap_err();
            assert!(error.starts_with(expected), "{text:?}: {error}");
        }
    }
}
