//! The receiving end: datagrams of a connection in, frames out.

use std::future::pending;
use std::time::Instant;

use mpquic::{Connection, ConnectionError};

use crate::{Limits, Receiver, ReceiverStats, Verdict};

/// What became of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Received {
    /// It is whole.
    Frame {
        /// Whose frame: the number that the sender's `LiveFlow::id` gives.
        flow: u32,
        /// Its number, from 0 on.
        id: u64,
        /// Whether it is a key frame.
        key: bool,
        /// Whether a part of it was brought back by a repair packet.
        repaired: bool,
        /// Its bytes.
        data: Vec<u8>,
    },
    /// It is due, and not whole.
    Missing {
        /// Whose frame.
        flow: u32,
        /// Its number.
        id: u64,
    },
    /// So many in a row are missing that they were given up together.
    Skipped {
        /// Whose frames.
        flow: u32,
        /// The first one's number.
        first: u64,
        /// The last one's number.
        last: u64,
    },
}

/// Takes the frames that a [`LiveSender`](crate::LiveSender) at the other end sends.
///
/// It reads all datagrams of the connection: an application that has others drives a [`Receiver`] itself. It has no task: it does
/// what it does within [`recv`](Self::recv), and what is not asked for waits in the transport's buffer.
#[derive(Debug)]
pub struct LiveReceiver {
    connection: Connection,
    receiver: Receiver,
    frame: Vec<u8>,
    refused: u64,
}

impl LiveReceiver {
    /// The frames of this connection's peer.
    pub fn new(connection: &Connection, limits: Limits) -> Self {
        Self {
            connection: connection.clone(),
            receiver: Receiver::new(limits),
            frame: Vec::new(),
            refused: 0,
        }
    }

    /// What became of the next frame: each has one verdict, whole as soon as it is, missing when it is due. Cancel-safe.
    ///
    /// # Errors
    ///
    /// If the connection is over. Frames that were not whole then have no verdict.
    pub async fn recv(&mut self) -> Result<Received, ConnectionError> {
        loop {
            if let Some(verdict) = self.receiver.poll(now(), &mut self.frame) {
                return Ok(self.received(verdict));
            }
            let due = self.receiver.poll_timeout();
            let due = async {
                match due {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                // What has come before its frame was due is not missing.
                biased;
                datagram = self.connection.read_datagram() => {
                    if self.receiver.receive(now(), &datagram?).is_err() {
                        self.refused += 1;
                    }
                }
                () = due => {}
            }
        }
    }

    fn received(&mut self, verdict: Verdict) -> Received {
        match verdict {
            Verdict::Frame {
                flow,
                id,
                key,
                repaired,
            } => Received::Frame {
                flow,
                id,
                key,
                repaired,
                data: std::mem::take(&mut self.frame),
            },
            Verdict::Missing { flow, id } => Received::Missing { flow, id },
            Verdict::Skipped { flow, first, last } => Received::Skipped { flow, first, last },
        }
    }

    /// What it has seen.
    pub fn stats(&self) -> ReceiverStats {
        self.receiver.stats()
    }

    /// Datagrams that were not taken: of another format, or beyond [`Limits`].
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    /// Forgets a flow, with what of it has no verdict yet.
    pub fn close(&mut self, flow: u32) {
        self.receiver.close(flow);
    }
}

/// Of the runtime's clock, which a test may pause.
pub(super) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
