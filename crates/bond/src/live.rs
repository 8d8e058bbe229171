//! UDP as frames in time: which datagrams of a connection, the proxy's and the tunnel's, go by `mpquic-live`, and those that come so.
//!
//! Both ends have to be set to it; the client asks. A datagram of `mpquic-live` begins with the version of its format, a plain one with a
//! flow's number, which is smaller.

use std::future::pending;
use std::sync::OnceLock;
#[cfg(target_os = "linux")]
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use mpquic::{Connection, ConnectionError};
use mpquic_live::wire::VERSION;
use mpquic_live::{Flow, FrameInfo, Limits, LiveConfig, LiveFlow, LiveSender, Receiver, Verdict};
use tokio::time::{Duration, Instant, sleep_until};

use crate::wire::Datagram;

/// For how long a datagram is of use, if nothing else is set: a call's picture and sound are in step, and a jitter buffer has them,
/// up to about here (ITU-T G.114 has 150 ms as good, 400 ms as the limit).
pub const DEADLINE: Duration = Duration::from_millis(200);

/// Flows that send fewer bytes per second are calls: even all of their bytes once more are few. Ours: 256 kbit/s.
const CALL: f64 = 32_000.0;
/// Flows that send more are downloads, which are better served by speed. Ours: 10 Mbit/s.
const BULK: f64 = 1_250_000.0;
/// The prices of bytes of calls, and of what is between: see `mpquic_live::Flow::worth`.
const PRICE_OF_CALL: f64 = 0.002;
const PRICE: f64 = 0.02;
/// Places for the flows of a tunnel: 24 KiB. Ours.
#[cfg(target_os = "linux")]
const PLACES: usize = 1_024;
/// What a peer can make a receiver hold: its sender has two flows.
const LIMITS: Limits = Limits {
    flows: 2,
    bytes: 1 << 20,
};

/// What a flow has sent of late, in bytes per second: the mean of about a second.
#[derive(Debug)]
pub(crate) struct Load {
    rate: f64,
    at: Instant,
}

impl Default for Load {
    fn default() -> Self {
        Self {
            rate: 0.0,
            at: Instant::now(),
        }
    }
}

impl Load {
    fn add(&mut self, now: Instant, bytes: usize) -> f64 {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.rate = self.rate * (-passed).exp() + bytes as f64;
        self.at = now;
        self.rate
    }
}

/// What the flows of a tunnel have sent of late, of which nobody says when they begin and end: each has a place by its hash. Flows that
/// share one count together, so that both may go as a download does, which is without `--live`.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub(crate) struct Loads(Mutex<Vec<Load>>);

#[cfg(target_os = "linux")]
impl Default for Loads {
    fn default() -> Self {
        let loads = std::iter::repeat_with(Load::default);
        Self(Mutex::new(loads.take(PLACES).collect()))
    }
}

#[cfg(target_os = "linux")]
impl Loads {
    fn add(&self, now: Instant, flow: u64, bytes: usize) -> f64 {
        let mut loads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        loads[flow as usize % PLACES].add(now, bytes)
    }
}

/// The datagrams of one connection, in both directions.
#[derive(Debug)]
pub(crate) struct Lane {
    /// `None`: this end is not set to it.
    deadline: Option<Duration>,
    sending: OnceLock<Option<Sending>>,
}

#[derive(Debug)]
struct Sending {
    calls: LiveFlow,
    others: LiveFlow,
}

impl Lane {
    pub(crate) const fn new(deadline: Option<Duration>) -> Self {
        Self {
            deadline,
            sending: OnceLock::new(),
        }
    }

    /// Whether this end wants it.
    pub(crate) const fn is_wanted(&self) -> bool {
        self.deadline.is_some()
    }

    /// The other end wants it, too. Returns whether it is so from now on.
    pub(crate) fn begin(&self, connection: &Connection) -> bool {
        let Some(deadline) = self.deadline else {
            return false;
        };
        let sending = || {
            let sender = LiveSender::new(connection, LiveConfig::default()).ok()?;
            let flow = |price| sender.flow(Flow::new(deadline).worth(price));
            Some(Sending {
                calls: flow(PRICE_OF_CALL),
                others: flow(PRICE),
            })
        };
        self.sending.get_or_init(sending).is_some()
    }

    /// Whether both ends want it.
    #[cfg(target_os = "linux")]
    pub(crate) fn has_begun(&self) -> bool {
        self.sending().is_some()
    }

    fn sending(&self) -> Option<&Sending> {
        self.sending.get()?.as_ref()
    }

    /// Sends a datagram of a flow with this load. One that is too large for the paths goes in parts by `mpquic-live`, and is lost
    /// without it.
    pub(crate) fn send(&self, connection: &Connection, load: &mut Load, datagram: &Datagram) {
        let bytes = datagram.encode();
        let rate = load.add(Instant::now(), bytes.len());
        if !self.takes(connection, rate, &bytes) {
            // One that cannot be sent is lost, as datagrams are.
            let _ = connection.send_datagram(bytes);
        }
    }

    /// The same for a packet of the tunnel's UDP, whose flow has this hash. Returns whether it went so: else it is to go as it would
    /// without.
    #[cfg(target_os = "linux")]
    pub(crate) fn send_packet(
        &self,
        connection: &Connection,
        loads: &Loads,
        flow: u64,
        bytes: &[u8],
    ) -> bool {
        let rate = loads.add(Instant::now(), flow, bytes.len());
        self.takes(connection, rate, bytes)
    }

    /// Sends what is of a flow with this rate, if both ends want that and it can be in time.
    fn takes(&self, connection: &Connection, rate: f64, bytes: &[u8]) -> bool {
        let flow = self.sending().and_then(|sending| match rate {
            rate if rate <= CALL => Some(&sending.calls),
            rate if rate <= BULK => Some(&sending.others),
            _ => None,
        });
        let flow = flow.filter(|_| self.is_near(connection));
        // One that is not taken is lost, as datagrams are.
        flow.map(|flow| flow.send(bytes, FrameInfo::default()))
            .is_some()
    }

    /// Whether a datagram can be in time at all: where it cannot, late is better than never.
    fn is_near(&self, connection: &Connection) -> bool {
        let paths = connection.paths();
        let stats = paths.iter().filter_map(|path| path.stats().ok());
        let shortest = stats.filter(|stats| stats.has_rtt).map(|stats| stats.rtt);
        shortest
            .min()
            .is_none_or(|rtt| Some(rtt / 2) <= self.deadline)
    }

    /// What comes of the connection, until it ends.
    pub(crate) fn incoming(&self) -> Incoming<'_> {
        Incoming {
            lane: self,
            receiver: None,
            frame: Vec::new(),
        }
    }
}

/// The datagrams that come, plain or not.
#[derive(Debug)]
pub(crate) struct Incoming<'a> {
    lane: &'a Lane,
    /// From the first datagram of `mpquic-live` on.
    receiver: Option<Receiver>,
    frame: Vec<u8>,
}

impl Incoming<'_> {
    /// The next one. Cancel-safe.
    pub(crate) async fn next(&mut self, connection: &Connection) -> Result<Bytes, ConnectionError> {
        loop {
            if let Some(whole) = self.whole() {
                return Ok(whole);
            }
            let due = self.receiver.as_ref().and_then(Receiver::poll_timeout);
            let due = async {
                match due {
                    Some(at) => sleep_until(at.into()).await,
                    None => pending().await,
                }
            };
            let bytes = tokio::select! {
                // What has come before it was due is not missing.
                biased;
                bytes = connection.read_datagram() => bytes?,
                () = due => continue,
            };
            if let Some(plain) = self.take(bytes) {
                return Ok(plain);
            }
        }
    }

    /// Takes what came. Returns it if it is plain.
    fn take(&mut self, bytes: Bytes) -> Option<Bytes> {
        if !self.lane.is_wanted() || bytes.first().is_none_or(|kind| kind >> 4 != VERSION) {
            return Some(bytes);
        }
        let receiver = self.receiver.get_or_insert_with(|| Receiver::new(LIMITS));
        // One that makes no sense, or is more than a client may have, is as good as lost.
        let _ = receiver.receive(Instant::now().into_std(), &bytes);
        None
    }

    /// What is whole now.
    fn whole(&mut self) -> Option<Bytes> {
        let receiver = self.receiver.as_mut()?;
        let now = Instant::now().into_std();
        while let Some(verdict) = receiver.poll(now, &mut self.frame) {
            if let Verdict::Frame { .. } = verdict {
                return Some(Bytes::copy_from_slice(&self.frame));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_bytes_per_second() {
        let begin = Instant::now();
        let mut load = Load::default();
        let mut rate = 0.0;
        for packet in 0..500 {
            rate = load.add(begin + Duration::from_millis(20 * packet), 200);
        }
        assert!((9_500.0..10_500.0).contains(&rate), "{rate}");
        let quiet = load.add(begin + Duration::from_secs(60), 1);
        assert!((0.9..1.1).contains(&quiet), "{quiet}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn each_flow_of_a_tunnel_has_its_load() {
        let (loads, begin) = (Loads::default(), Instant::now());
        for packet in 0..500 {
            let now = begin + Duration::from_millis(2 * packet);
            loads.add(now, 7, 1_400);
            assert!(loads.add(now, 8 + packet % 2, 200) <= 200_000.0);
        }
        let now = begin + Duration::from_secs(1);
        assert!(loads.add(now, 7, 0) > 400_000.0);
        assert!(loads.add(now, 8, 0) < 40_000.0);
        assert_eq!(loads.add(now, 10, 0), 0.0);
    }

    #[test]
    fn what_a_peer_can_make_it_hold_has_an_end() {
        use mpquic_live::wire::{Body, MAX_FRAME, MAX_PARTS, Packet};

        let lane = Lane::new(Some(DEADLINE));
        let mut incoming = lane.incoming();
        for number in 0..20_000_u32 {
            let (mut body, mut datagram) = (Vec::new(), Vec::new());
            Body {
                key: false,
                frame: u64::from(number),
                sent: u64::from(number),
                budget: u32::MAX,
                length: MAX_FRAME as u32 / (1 + number % 64),
                parts: MAX_PARTS / 64,
                part: 0,
                payload: &[7; 1_024],
            }
            .write(&mut body);
            Packet::Source {
                flow: number % 50,
                symbol: number,
                body: &body,
            }
            .write(&mut datagram);
            assert_eq!(incoming.take(datagram.into()), None);
            assert_eq!(incoming.whole(), None);
        }
        let receiver = incoming.receiver.as_ref().unwrap();
        assert!(receiver.memory_use() <= LIMITS.max_memory());
        // A plain one, and one where this end is not set to it.
        let plain = Bytes::from_static(&[0, 0, 0, 9, 4]);
        assert_eq!(incoming.take(plain.clone()), Some(plain));
        let frames = Bytes::from_static(&[VERSION << 4, 0]);
        let off = Lane::new(None);
        assert_eq!(off.incoming().take(frames.clone()), Some(frames));
    }
}
