//! A sender over a connection of mpquic-proto: shows it the paths, hands its datagrams over, tells it their fates. No I/O.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mpquic_proto::{
    AckFrequencyConfig, DatagramFate, DatagramOptions, PathStats, PathStatus, TransportConfig,
    VarInt,
};

use crate::{Config, Fate, PathId, PathView, Sender, SenderStats};

/// The longest datagram that fits the smallest packet that QUIC has (1,200 bytes), whatever its path.
pub const MAX_PAYLOAD: usize = 1_150;

/// A round trip that is longer than the shortest by this, and by half of that, is longer by a queue.
const QUEUE: Duration = Duration::from_millis(25);

/// Sets what the side that sends frames wants of its transport: an acknowledgement of each packet at once, so that silence is told
/// from one that waits for a second packet. It needs nothing of the other side but the extension, which mpquic has.
///
/// ```
/// let mut transport = mpquic_proto::TransportConfig::default();
/// mpquic_live::tune(&mut transport);
/// ```
pub fn tune(transport: &mut TransportConfig) {
    let mut each = AckFrequencyConfig::default();
    each.ack_eliciting_threshold(VarInt::from_u32(0));
    transport.ack_frequency_config(Some(each));
}

/// A [`Sender`] and what of it waits in a transport's queues. Whoever has the connection tells it of paths and fates, and takes the
/// datagrams; its tests and [`LiveSender`](crate) show how.
///
/// ```
/// use std::time::{Duration, Instant};
/// use mpquic_live::{Config, Flow, FrameInfo, Outlet};
/// use mpquic_proto::Connection;
///
/// /// Something happened, or the time of `outlet.sender().poll_timeout()` has come.
/// fn pump(outlet: &mut Outlet, connection: &mut Connection, now: Instant) {
///     while let Some(news) = connection.datagrams().fate() {
///         outlet.fate(now, &news);
///     }
///     outlet.set_paths(connection.paths().iter().map(|path| (path.id(), path.status(), path.stats())));
///     while let Some((datagram, options)) = outlet.poll_transmit(now) {
///         let tag = outlet.last_tag();
///         if connection.datagrams().send_with(datagram, options, true).is_err() {
///             outlet.refused(now, tag);
///         }
///     }
/// }
///
/// let mut outlet = Outlet::new(Config::default(), Instant::now());
/// let camera = outlet.sender().flow(Instant::now(), Flow::new(Duration::from_millis(200)));
/// outlet.sender().send(Instant::now(), camera, b"a frame", FrameInfo { key: true })?;
/// # let _ = pump;
/// # Ok::<(), mpquic_live::SendError>(())
/// ```
#[derive(Debug)]
pub struct Outlet {
    sender: Sender,
    /// Datagrams for one path that have not left: their path and length, by tag.
    waiting: BTreeMap<u64, (PathId, usize)>,
    last_tag: u64,
    views: Vec<PathView>,
    datagram: Vec<u8>,
}

const fn of_path(id: mpquic_proto::PathId) -> PathId {
    PathId(id.0)
}

/// What a path can carry, in bytes per second; 0 if it is not known.
fn rate(stats: &PathStats) -> u64 {
    let rtt = stats.rtt.as_secs_f64();
    // Before the first sample, the RTT is a guess.
    if !stats.has_rtt || rtt == 0.0 {
        return 0;
    }
    let window = (stats.cwnd as f64 / rtt) as u64;
    // A window that is not filled does not shrink when the link fades: where a queue stands, what is delivered is what the link
    // carries. Repair that went by the window would make that queue longer.
    if stats.delivery_rate > 0 && stats.rtt > stats.min_rtt + QUEUE.max(stats.min_rtt / 2) {
        return window.min(stats.delivery_rate);
    }
    window
}

impl Outlet {
    /// A sender without flows and paths. Datagrams have at most [`MAX_PAYLOAD`] bytes.
    pub fn new(config: Config, now: Instant) -> Self {
        let config = Config {
            max_datagram: config.max_datagram.min(MAX_PAYLOAD),
            ..config
        };
        Self {
            sender: Sender::new(config, now),
            waiting: BTreeMap::new(),
            last_tag: 0,
            views: Vec::with_capacity(8),
            datagram: Vec::with_capacity(2_048),
        }
    }

    /// The sender, for flows, frames, figures and times.
    pub const fn sender(&mut self) -> &mut Sender {
        &mut self.sender
    }

    /// What the sender has done.
    pub fn stats(&self) -> SenderStats {
        self.sender.stats()
    }

    /// The open paths as they are now, with what we want of each. Those without an RTT sample are left out if there are others.
    pub fn set_paths(
        &mut self,
        paths: impl IntoIterator<Item = (mpquic_proto::PathId, PathStatus, PathStats)>,
    ) {
        self.views.clear();
        let mut measured = false;
        for (id, status, stats) in paths {
            if measured && !stats.has_rtt {
                continue;
            }
            if stats.has_rtt && !measured {
                self.views.clear();
                measured = true;
            }
            let id = of_path(id);
            let queued: usize = self
                .waiting
                .values()
                .filter(|(path, _)| *path == id)
                .map(|(_, len)| len)
                .sum();
            // What streams have in the window makes way as it is acknowledged, and frames go before it: half of the window is theirs.
            let free = stats.cwnd.saturating_sub(stats.in_flight);
            let own = self.sender.in_flight(id);
            let room = own.map_or(free, |own| free.max((stats.cwnd / 2).saturating_sub(own)));
            self.views.push(PathView {
                id,
                rtt: stats.rtt,
                rttvar: stats.rtt_var,
                room: room.saturating_sub(queued as u64),
                rate: rate(&stats),
                backup: status == PathStatus::Backup,
            });
        }
        self.sender.set_paths(&self.views);
    }

    /// The next datagram for the transport, with where it is to go and until when.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<(Bytes, DatagramOptions)> {
        let transmit = self.sender.poll_transmit(now, &mut self.datagram)?;
        self.last_tag = transmit.tag;
        let mut options = DatagramOptions::new()
            .tag(transmit.tag)
            .deadline(transmit.deadline);
        if let Some(path) = transmit.path {
            options = options.path(mpquic_proto::PathId(path.0));
            // Of more than this, the transport forgets fates.
            if self.waiting.len() == mpquic_proto::limits::MAX_DATAGRAM_FATES {
                self.waiting.pop_first();
            }
            self.waiting
                .insert(transmit.tag, (path, self.datagram.len()));
        }
        Some((Bytes::copy_from_slice(&self.datagram), options))
    }

    /// The tag of the newest datagram of [`poll_transmit`](Self::poll_transmit).
    pub const fn last_tag(&self) -> u64 {
        self.last_tag
    }

    /// The transport did not take a datagram.
    pub fn refused(&mut self, now: Instant, tag: u64) {
        self.waiting.remove(&tag);
        self.sender.fate(tag, Fate::Unsent { at: now });
    }

    /// The transport says what became of a datagram.
    pub fn fate(&mut self, now: Instant, news: &DatagramFate) {
        use mpquic_proto::Fate as Told;

        self.waiting.remove(&news.tag);
        let fate = match news.fate {
            Told::Sent { path, at } => Fate::Sent {
                path: of_path(path),
                at,
            },
            Told::Acknowledged { path, sent, at, .. } => Fate::Acknowledged {
                path: of_path(path),
                sent,
                at,
            },
            Told::Lost { path, at, .. } => Fate::Lost {
                path: of_path(path),
                at,
            },
            Told::Unsent { .. } => Fate::Unsent { at: now },
            // The connection is over.
            _ => return,
        };
        self.sender.fate(news.tag, fate);
    }
}
