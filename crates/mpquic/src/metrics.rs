//! The figures of connections and paths for monitoring, through the `metrics` facade: an observer that counts.

use std::time::Instant;

use metrics::{Counter, Gauge, Histogram, Label};
use proto::{
    Observation, Observer, PacketReceived, PacketSent, PathChangeKind, PathId, Side,
    TransportConfig,
};

/// Counts what connections do, for the recorder that the program has installed (for Prometheus, StatsD and the like).
///
/// | metric | kind | labels |
/// |---|---|---|
/// | `mpquic_connections` | gauge: open now | `side` |
/// | `mpquic_connections_total` | counter | `side` |
/// | `mpquic_handshake_seconds` | histogram | `side` |
/// | `mpquic_paths` | gauge: validated and not abandoned | `side` |
/// | `mpquic_packets_sent_total`, `mpquic_bytes_sent_total` | counter | `side`, `path` |
/// | `mpquic_packets_received_total`, `mpquic_bytes_received_total` | counter | `side`, `path` |
/// | `mpquic_packets_lost_total`, `mpquic_packets_retransmitted_total` | counter | `side`, `path` |
/// | `mpquic_path_suspect_total` | counter: how often a path did not deliver | `side`, `path` |
/// | `mpquic_path_rtt_seconds` | histogram of RTT samples | `side`, `path` |
/// | `mpquic_path_congestion_window_bytes`, `mpquic_path_in_flight_bytes`, `mpquic_path_delivery_rate_bytes` | gauge | `side`, `path`, `connection` |
///
/// `side` is ours, client or server; `path` the path ID. The last row is there with
/// [`per_connection`](Self::per_connection) only, which adds `connection` to all rows that have a path. Bytes are those of QUIC packets.
///
/// ```
/// use mpquic::TransportConfig;
/// use mpquic::metrics::Metrics;
///
/// let mut transport = TransportConfig::default();
/// Metrics::new().attach(&mut transport);
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Metrics {
    per_connection: bool,
}

impl Metrics {
    /// Counts over all connections.
    pub const fn new() -> Self {
        Self {
            per_connection: false,
        }
    }

    /// Whether each connection has metrics of its own, by the label `connection`: its original destination connection ID.
    /// Default false: most recorders keep what they know of a label for ever, so this is for few connections.
    pub const fn per_connection(mut self, apart: bool) -> Self {
        self.per_connection = apart;
        self
    }

    /// Counts every connection with this configuration, beside other observers that it has.
    pub fn attach(self, transport: &mut TransportConfig) {
        transport.observer(move |side| Some(Box::new(Meter::new(self, side))));
    }
}

/// One connection's.
struct Meter {
    settings: Metrics,
    side: Side,
    connection: Option<String>,
    began: Option<Instant>,
    paths: Vec<PathMeter>,
    connections: Gauge,
    live_paths: Gauge,
}

struct PathMeter {
    id: PathId,
    live: bool,
    packets_sent: Counter,
    bytes_sent: Counter,
    packets_received: Counter,
    bytes_received: Counter,
    packets_lost: Counter,
    packets_retransmitted: Counter,
    suspect: Counter,
    rtt: Histogram,
    /// Window, in flight, delivery rate: per connection only.
    own: Option<[Gauge; 3]>,
}

const fn name(side: Side) -> &'static str {
    match side {
        Side::Client => "client",
        Side::Server => "server",
    }
}

impl Meter {
    fn new(settings: Metrics, side: Side) -> Self {
        let labels = || vec![Label::new("side", name(side))];
        Self {
            settings,
            side,
            connection: None,
            began: None,
            paths: Vec::new(),
            connections: metrics::gauge!("mpquic_connections", labels()),
            live_paths: metrics::gauge!("mpquic_paths", labels()),
        }
    }

    /// A path's counters. They are looked up once per path.
    #[inline]
    fn path(&mut self, id: PathId) -> &mut PathMeter {
        let place = self.paths.iter().position(|path| path.id == id);
        let place = place.unwrap_or_else(|| self.add_path(id));
        &mut self.paths[place]
    }

    #[cold]
    fn add_path(&mut self, id: PathId) -> usize {
        let labels = || {
            let mut labels = vec![
                Label::new("side", name(self.side)),
                Label::new("path", id.0.to_string()),
            ];
            if let Some(connection) = &self.connection {
                labels.push(Label::new("connection", connection.clone()));
            }
            labels
        };
        let own = self.settings.per_connection.then(|| {
            [
                metrics::gauge!("mpquic_path_congestion_window_bytes", labels()),
                metrics::gauge!("mpquic_path_in_flight_bytes", labels()),
                metrics::gauge!("mpquic_path_delivery_rate_bytes", labels()),
            ]
        });
        let path = PathMeter {
            id,
            live: false,
            packets_sent: metrics::counter!("mpquic_packets_sent_total", labels()),
            bytes_sent: metrics::counter!("mpquic_bytes_sent_total", labels()),
            packets_received: metrics::counter!("mpquic_packets_received_total", labels()),
            bytes_received: metrics::counter!("mpquic_bytes_received_total", labels()),
            packets_lost: metrics::counter!("mpquic_packets_lost_total", labels()),
            packets_retransmitted: metrics::counter!(
                "mpquic_packets_retransmitted_total",
                labels()
            ),
            suspect: metrics::counter!("mpquic_path_suspect_total", labels()),
            rtt: metrics::histogram!("mpquic_path_rtt_seconds", labels()),
            own,
        };
        self.paths.push(path);
        self.paths.len() - 1
    }

    fn on_path(&mut self, id: PathId, kind: PathChangeKind) {
        let path = self.path(id);
        let live = match kind {
            PathChangeKind::Validated => true,
            PathChangeKind::Abandoned { .. } => false,
            PathChangeKind::Suspect => {
                path.suspect.increment(1);
                return;
            }
            PathChangeKind::Discarded => {
                self.paths.retain(|path| path.id != id);
                return;
            }
            _ => return,
        };
        if std::mem::replace(&mut path.live, live) != live {
            self.live_paths.increment(if live { 1.0 } else { -1.0 });
        }
    }
}

impl Observer for Meter {
    fn on_packet_sent(&mut self, packet: &PacketSent<'_>) {
        let path = self.path(packet.space.path());
        path.packets_sent.increment(1);
        path.bytes_sent.increment(packet.size.into());
        if packet.retransmission {
            path.packets_retransmitted.increment(1);
        }
    }

    fn on_packet_received(&mut self, packet: &PacketReceived<'_>) {
        let path = self.path(packet.space.path());
        path.packets_received.increment(1);
        path.bytes_received.increment(packet.size() as u64);
    }

    fn on_event(&mut self, now: Instant, event: &Observation<'_>) {
        match event {
            Observation::Started(started) => {
                self.began = Some(now);
                let apart = self.settings.per_connection;
                self.connection = apart.then(|| started.original_dcid.to_string());
                self.connections.increment(1.0);
                let labels = vec![Label::new("side", name(self.side))];
                metrics::counter!("mpquic_connections_total", labels).increment(1);
            }
            Observation::HandshakeComplete => {
                if let Some(began) = self.began {
                    let labels = vec![Label::new("side", name(self.side))];
                    let took = now.saturating_duration_since(began);
                    metrics::histogram!("mpquic_handshake_seconds", labels).record(took);
                }
            }
            Observation::Lost(lost) if !lost.mtu_probe => {
                self.path(lost.space.path()).packets_lost.increment(1);
            }
            Observation::Metrics(seen) => {
                let path = self.path(seen.id);
                if let Some(rtt) = seen.latest_rtt {
                    path.rtt.record(rtt);
                }
                if let Some([window, in_flight, rate]) = &path.own {
                    window.set(seen.cwnd as f64);
                    in_flight.set(seen.in_flight as f64);
                    rate.set(seen.delivery_rate as f64);
                }
            }
            Observation::Path(change) => self.on_path(change.id, change.kind),
            _ => {}
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if self.began.is_some() {
            self.connections.decrement(1.0);
        }
        let live = self.paths.iter().filter(|path| path.live).count();
        if live > 0 {
            self.live_paths.decrement(live as f64);
        }
    }
}
