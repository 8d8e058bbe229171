//! An honest client: how long its handshakes take, and how many 64 KiB requests it gets answered.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mpquic::{ClientConfig, Connection, Endpoint, VarInt};

use super::server::Error;
use crate::tls;

/// Bytes of one answer.
pub const ANSWER: u32 = 64 * 1024;

/// How long anything may take before it counts as failed.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long after a handshake the next one begins.
const PAUSE: Duration = Duration::from_millis(20);

/// What was measured in one phase.
#[derive(Debug, Clone, Default)]
pub struct Measured {
    /// How long each handshake took, in milliseconds.
    pub handshakes: Vec<f64>,
    /// Handshakes that failed, or took too long.
    pub failed_handshakes: u64,
    /// Requests that were answered.
    pub requests: u64,
    /// Requests that failed.
    pub failed_requests: u64,
    /// How long the phase lasted.
    pub time: Duration,
}

impl Measured {
    /// A quantile of the handshakes in milliseconds; a failed one counts as the longest.
    pub fn quantile(&self, q: f64) -> f64 {
        let mut all = self.handshakes.clone();
        let patience = 1000.0 * PATIENCE.as_secs_f64();
        all.extend((0..self.failed_handshakes).map(|_| patience));
        all.sort_by(f64::total_cmp);
        let last = all.len().saturating_sub(1);
        let at = (q * last as f64).ceil() as usize;
        all.get(at).copied().unwrap_or(f64::NAN)
    }

    /// Answered requests per second.
    pub fn rate(&self) -> f64 {
        self.requests as f64 / self.time.as_secs_f64().max(1e-9)
    }
}

/// A client that works until it is dropped.
#[derive(Debug)]
pub struct Honest {
    measured: Arc<Mutex<Measured>>,
    since: Instant,
}

impl Honest {
    /// Begins to work, on the runtime that this is called on.
    ///
    /// # Errors
    ///
    /// If there is no socket to be had.
    pub fn start(server: SocketAddr) -> Result<Self, Error> {
        let measured = Arc::new(Mutex::new(Measured::default()));
        tokio::spawn(handshakes(client()?, server, Arc::clone(&measured)));
        tokio::spawn(requests(client()?, server, Arc::clone(&measured)));
        Ok(Self {
            measured,
            since: Instant::now(),
        })
    }

    /// What was measured since the last time.
    pub fn take(&mut self) -> Measured {
        let mut measured = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken = std::mem::take(&mut *measured);
        taken.time = self.since.elapsed();
        self.since = Instant::now();
        taken
    }
}

fn client() -> Result<Endpoint, Error> {
    let endpoint = Endpoint::client(&[SocketAddr::from(([127, 0, 0, 1], 0))])?;
    endpoint.set_default_client_config(ClientConfig::new(tls::credulous_client())?);
    Ok(endpoint)
}

async fn connect(endpoint: &Endpoint, server: SocketAddr) -> Option<Connection> {
    let connecting = endpoint.connect(server, "localhost").ok()?;
    tokio::time::timeout(PATIENCE, connecting).await.ok()?.ok()
}

fn note(measured: &Mutex<Measured>, f: impl FnOnce(&mut Measured)) {
    f(&mut measured.lock().unwrap_or_else(PoisonError::into_inner));
}

async fn handshakes(endpoint: Endpoint, server: SocketAddr, measured: Arc<Mutex<Measured>>) {
    loop {
        let begin = Instant::now();
        match connect(&endpoint, server).await {
            Some(connection) => {
                let took = 1000.0 * begin.elapsed().as_secs_f64();
                note(&measured, |measured| measured.handshakes.push(took));
                connection.close(VarInt::from_u32(0), b"");
            }
            None => note(&measured, |measured| measured.failed_handshakes += 1),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn requests(endpoint: Endpoint, server: SocketAddr, measured: Arc<Mutex<Measured>>) {
    loop {
        let Some(connection) = connect(&endpoint, server).await else {
            note(&measured, |measured| measured.failed_requests += 1);
            continue;
        };
        loop {
            match tokio::time::timeout(PATIENCE, request(&connection)).await {
                Ok(Ok(())) => note(&measured, |measured| measured.requests += 1),
                _ => {
                    note(&measured, |measured| measured.failed_requests += 1);
                    break;
                }
            }
        }
        connection.close(VarInt::from_u32(1), b"");
    }
}

async fn request(connection: &Connection) -> Result<(), Error> {
    let (mut send, mut recv) = connection.open_bi().await?;
    send.write_all(&ANSWER.to_be_bytes()).await?;
    send.finish()?;
    let answer = recv.read_to_end(ANSWER as usize).await?;
    if answer.len() == ANSWER as usize {
        Ok(())
    } else {
        Err("a short answer".into())
    }
}
