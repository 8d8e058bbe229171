//! Records to JSON text sequences (RFC 7464), in the order in which they come.

use std::fmt::Write as _;

use mpquic_proto::congestion::LossCause;
use mpquic_proto::sched::Data;
use mpquic_proto::{FourTuple, Parameters, PathChange, PathChangeKind, PathStatus, Side, Started};
use serde::Serialize;

use crate::close::closed;
use crate::events::{
    ConnectionStarted, ConnectionState, ControllerUpdated, Event, Header, KeyUpdated, LossJudged,
    MtuUpdated, OutOfOrderUpdated, Packet, PacketDropped, PacketLost, PacketsAcked, ParametersSet,
    PathUpdated, Raw, RecordsLeftOut, RecoveryMetrics, Run, SchedulerDecided, TupleAssigned,
    TupleEnd, VersionInformation,
};
use crate::frames::WrittenFrame;
use crate::hex::Hex;
use crate::record::{self, Chosen, Decision, Frame, Metrics, PacketType, Rare, Record, Timed};
use crate::schema;

/// Every text begins with it (RFC 7464 section 2.2).
const RECORD_SEPARATOR: u8 = 0x1e;

/// The default of RFC 9000 section 18.2.
const ACK_DELAY_EXPONENT: u8 = 3;

/// What is known of a path.
struct KnownPath {
    id: u32,
    /// Which of the tuples it goes over.
    tuple: Option<usize>,
    metrics: Option<Metrics>,
}

/// Turns the records of one connection into text.
pub(crate) struct Encoder {
    out: Vec<u8>,
    server: bool,
    state: Option<&'static str>,
    tuples: Vec<(FourTuple, String)>,
    paths: Vec<KnownPath>,
    /// Of ACK Delay fields: ours, the peer's.
    exponents: [u8; 2],
    /// A packet whose pieces are still to come.
    packet: Option<(u64, bool, record::Packet)>,
    pieces: u16,
    frames: Vec<WrittenFrame>,
}

impl Encoder {
    pub(crate) fn new() -> Self {
        Self {
            out: Vec::new(),
            server: false,
            state: None,
            tuples: Vec::new(),
            paths: Vec::new(),
            exponents: [ACK_DELAY_EXPONENT; 2],
            packet: None,
            pieces: 0,
            frames: Vec::new(),
        }
    }

    /// What was written, to be taken away.
    pub(crate) fn output(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    fn text(&mut self, value: &impl Serialize) {
        self.out.push(RECORD_SEPARATOR);
        // Writing to memory cannot fail, and no map has keys that are no strings.
        let written = serde_json::to_writer(&mut self.out, value);
        debug_assert!(written.is_ok(), "{written:?}");
        self.out.push(b'\n');
    }

    fn event(&mut self, at: u64, name: &'static str, path: Option<u32>, data: impl Serialize) {
        // Taken out for as long as it is borrowed from.
        let tuples = std::mem::take(&mut self.tuples);
        let known = path.and_then(|id| self.paths.iter().find(|path| path.id == id));
        let tuple = known.and_then(|path| tuples.get(path.tuple?));
        let event = Event {
            time: at as f64 / 1e6,
            name,
            tuple: tuple.map(|(_, name)| name.as_str()),
            data,
        };
        self.text(&event);
        self.tuples = tuples;
    }

    /// The first text of the file. `wall_clock`: what a clock shows now, as RFC 3339 has it; `title` names the connection.
    pub(crate) fn begin(&mut self, started: &Started, wall_clock: Option<&str>) {
        self.server = started.side == Side::Server;
        let header = schema::Header::new(started, wall_clock);
        self.text(&header);
    }

    /// Writes a record.
    pub(crate) fn record(&mut self, timed: &Timed) {
        let at = timed.at;
        match &timed.record {
            Record::Sent(packet) => self.packet(at, true, *packet),
            Record::Received(packet) => self.packet(at, false, *packet),
            Record::Frame(frame) => self.frame(*frame),
            Record::Range(from, to) => {
                if let Some(frame) = self.frames.last_mut() {
                    frame.ranges.push((*from, *to));
                }
                self.piece();
            }
            Record::Acked {
                ty,
                path,
                first,
                count,
            } => {
                let data = PacketsAcked {
                    packet_number_space: ty.space(),
                    packet_numbers: Run {
                        first: *first,
                        count: *count,
                    },
                    path_id: *path,
                };
                self.event(at, "quic:packets_acked", Some(*path), data);
            }
            Record::Lost {
                ty,
                path,
                number,
                size,
                mtu_probe,
                abandoned,
            } => {
                let data = PacketLost {
                    header: header(*ty, Some(*number)),
                    path_id: *path,
                    size: *size,
                    is_mtu_probe_packet: *mtu_probe,
                    path_abandoned: *abandoned,
                };
                self.event(at, "quic:packet_lost", Some(*path), data);
            }
            Record::Metrics(metrics) => self.metrics(at, *metrics),
            Record::Judged(path, cause) => {
                let cause = match cause {
                    LossCause::Overflow => "overflow",
                    LossCause::Chance => "chance",
                    LossCause::Unclear => "unclear",
                };
                let path_id = *path;
                let data = LossJudged { path_id, cause };
                self.event(at, "mpquic:loss_judged", Some(path_id), data);
            }
            Record::Steered(path, by) => {
                let (path_id, new) = (*path, by.name());
                let data = ControllerUpdated { path_id, new };
                self.event(at, "mpquic:controller_updated", Some(path_id), data);
            }
            Record::OutOfOrder(bytes) => {
                let data = OutOfOrderUpdated { bytes: *bytes };
                self.event(at, "mpquic:out_of_order_updated", None, data);
            }
            Record::Decided(number, decision) => self.decided(at, *number, decision),
            Record::KeyUpdate { phase, by_peer } => self.key_update(at, *phase, *by_peer),
            Record::Undecryptable { ty, path } => {
                let data = PacketDropped {
                    header: header(*ty, None),
                    path_id: *path,
                    trigger: "decryption_failure",
                };
                self.event(at, "quic:packet_dropped", Some(*path), data);
            }
            Record::HandshakeComplete => self.state(at, "handshake_complete"),
            Record::HandshakeConfirmed => self.state(at, "handshake_confirmed"),
            Record::LeftOut(count) => {
                let data = RecordsLeftOut { count: *count };
                self.event(at, "mpquic:records_left_out", None, data);
            }
            Record::Rare(rare) => self.rare(at, rare),
        }
    }

    fn rare(&mut self, at: u64, rare: &Rare) {
        match rare {
            Rare::Started(started) => self.started(at, started),
            Rare::Parameters(parameters) => self.parameters(at, parameters),
            Rare::Path(change) => self.path(at, change),
            Rare::Closed(reason) => {
                self.event(at, "quic:connection_closed", None, closed(reason));
                self.state(at, "closed");
            }
        }
    }

    fn started(&mut self, at: u64, started: &Started) {
        let data = VersionInformation {
            chosen_version: format!("{:08x}", started.version.number()),
        };
        self.event(at, "quic:version_information", None, data);
        let ends = |ids: [Option<String>; 2]| {
            let [local, remote] = ids.map(|id| id.into_iter().collect());
            ConnectionStarted {
                local: TupleEnd {
                    connection_ids: local,
                    ..end(started.tuple.local)
                },
                remote: TupleEnd {
                    connection_ids: remote,
                    ..end(started.tuple.remote)
                },
            }
        };
        // A server does not know the client's connection ID by the name of the attempt.
        let first = (!self.server).then(|| Hex(&started.original_dcid).to_string());
        let data = ends([Some(Hex(&started.scid).to_string()), first]);
        self.event(at, "quic:connection_started", None, data);
        self.assign(at, 0, started.tuple);
        self.state(at, "attempted");
    }

    fn state(&mut self, at: u64, new: &'static str) {
        let old = self.state.replace(new);
        let data = ConnectionState { old, new };
        self.event(at, "quic:connection_state_updated", None, data);
    }

    fn parameters(&mut self, at: u64, parameters: &Parameters) {
        self.exponents[usize::from(parameters.of_peer)] = parameters.ack_delay_exponent;
        let data = ParametersSet {
            initiator: if parameters.of_peer {
                "remote"
            } else {
                "local"
            },
            max_idle_timeout: parameters.max_idle_timeout_ms,
            max_udp_payload_size: parameters.max_udp_payload_size,
            ack_delay_exponent: parameters.ack_delay_exponent.into(),
            max_ack_delay: parameters.max_ack_delay_ms,
            active_connection_id_limit: parameters.active_connection_id_limit,
            initial_max_data: parameters.initial_max_data,
            initial_max_stream_data_bidi_local: parameters.initial_max_stream_data_bidi_local,
            initial_max_stream_data_bidi_remote: parameters.initial_max_stream_data_bidi_remote,
            initial_max_stream_data_uni: parameters.initial_max_stream_data_uni,
            initial_max_streams_bidi: parameters.initial_max_streams_bidi,
            initial_max_streams_uni: parameters.initial_max_streams_uni,
            disable_active_migration: parameters.disable_active_migration,
            max_datagram_frame_size: parameters.max_datagram_frame_size,
            grease_quic_bit: parameters.grease_quic_bit,
            initial_max_path_id: parameters.initial_max_path_id,
        };
        self.event(at, "quic:parameters_set", None, data);
    }

    fn packet(&mut self, at: u64, sent: bool, packet: record::Packet) {
        // One whose pieces never came is written as it is.
        self.finish_packet();
        self.packet = Some((at, sent, packet));
        self.pieces = packet.pieces;
        if packet.pieces == 0 {
            self.finish_packet();
        }
    }

    fn frame(&mut self, frame: Frame) {
        let sent = self.packet.as_ref().is_some_and(|(_, sent, _)| *sent);
        match frame {
            Frame::Ecn(counts) => {
                if let Some(ack) = self.frames.last_mut() {
                    ack.ecn = Some(counts);
                }
            }
            frame => self.frames.push(WrittenFrame {
                frame,
                ranges: Vec::new(),
                ecn: None,
                exponent: self.exponents[usize::from(!sent)],
            }),
        }
        self.piece();
    }

    /// One of the packet's pieces has come.
    fn piece(&mut self) {
        self.pieces = self.pieces.saturating_sub(1);
        if self.pieces == 0 {
            self.finish_packet();
        }
    }

    fn finish_packet(&mut self) {
        let Some((at, sent, packet)) = self.packet.take() else {
            self.frames.clear();
            return;
        };
        let mut frames = std::mem::take(&mut self.frames);
        let data = Packet {
            header: header(packet.ty, Some(packet.number)),
            path_id: packet.path,
            raw: Raw {
                length: packet.size.into(),
            },
            is_mtu_probe_packet: packet.mtu_probe,
            retransmission: packet.retransmission,
            decision: packet.decision,
            frames_left_out: packet.left_out,
            frames: &frames,
        };
        let name = if sent {
            "quic:packet_sent"
        } else {
            "quic:packet_received"
        };
        self.event(at, name, Some(packet.path), data);
        frames.clear();
        self.frames = frames;
    }

    fn known(&mut self, id: u32) -> &mut KnownPath {
        let place = self.paths.iter().position(|path| path.id == id);
        let place = place.unwrap_or_else(|| {
            self.paths.push(KnownPath {
                id,
                tuple: None,
                metrics: None,
            });
            self.paths.len() - 1
        });
        &mut self.paths[place]
    }

    /// Those figures that have changed since they were written last.
    fn metrics(&mut self, at: u64, new: Metrics) {
        let id = new.path;
        let old = self.known(id).metrics.replace(new);
        let ms = |micros: u32| micros as f32 / 1000.0;
        macro_rules! changed {
            ($field:ident) => {
                old.is_none_or(|old| old.$field != new.$field)
                    .then_some(new.$field)
            };
        }
        let data = RecoveryMetrics {
            path_id: id,
            min_rtt: changed!(min_rtt)
                .filter(|_| new.latest_rtt.is_some())
                .map(ms),
            smoothed_rtt: changed!(smoothed_rtt).map(ms),
            latest_rtt: changed!(latest_rtt).flatten().map(ms),
            rtt_variance: changed!(rtt_variation).map(ms),
            pto_count: changed!(pto_count),
            congestion_window: changed!(cwnd),
            bytes_in_flight: changed!(in_flight),
            delivery_rate: changed!(delivery_rate).map(|rate| rate.saturating_mul(8)),
        };
        if old != Some(new) {
            self.event(at, "quic:recovery_metrics_updated", Some(id), data);
        }
        if let Some(mtu) = changed!(mtu) {
            let data = MtuUpdated {
                old: old.map(|old| old.mtu.into()),
                new: mtu.into(),
                path_id: id,
            };
            self.event(at, "quic:mtu_updated", Some(id), data);
        }
    }

    fn decided(&mut self, at: u64, number: u64, decision: &Decision) {
        let base = SchedulerDecided {
            decision: number,
            why: decision.why,
            ..SchedulerDecided::default()
        };
        let (path, data) = match decision.choice {
            Chosen::Wait => (
                None,
                SchedulerDecided {
                    choice: "wait",
                    ..base
                },
            ),
            Chosen::Overridden { path } => (
                Some(path),
                SchedulerDecided {
                    choice: "overridden",
                    path_id: Some(path),
                    ..base
                },
            ),
            Chosen::Send { path, data, copies } => {
                let (name, stream, gap) = match data {
                    Data::Next => ("next", None, None),
                    Data::Retransmit => ("retransmit", None, None),
                    Data::Control => ("control", None, None),
                    Data::Stream(id) => ("stream", Some(id.into()), None),
                    Data::Ahead(gap) => ("ahead", None, Some(gap)),
                    Data::Reinject => ("reinject", None, None),
                    Data::Redundant => ("redundant", None, None),
                };
                let decided = SchedulerDecided {
                    choice: "send",
                    path_id: Some(path),
                    data: Some(name),
                    stream_id: stream,
                    gap,
                    copies: (copies > 0).then_some(copies),
                    ..base
                };
                (Some(path), decided)
            }
        };
        self.event(at, "mpquic:scheduler_decided", path, data);
    }

    fn key_update(&mut self, at: u64, phase: u64, by_peer: bool) {
        for key_type in ["client_1rtt_secret", "server_1rtt_secret"] {
            let data = KeyUpdated {
                key_type,
                key_phase: phase,
                trigger: if by_peer {
                    "remote_update"
                } else {
                    "local_update"
                },
            };
            self.event(at, "quic:key_updated", None, data);
        }
    }

    fn path(&mut self, at: u64, change: &PathChange) {
        let id = change.id.0;
        if let Some(tuple) = change.tuple {
            self.assign(at, id, tuple);
        }
        let (mut initiator, mut error_code) = (None, None);
        let new = match change.kind {
            PathChangeKind::Opened => "opened",
            PathChangeKind::Validated => "validated",
            PathChangeKind::Moved => "moved",
            PathChangeKind::Status(PathStatus::Backup) => "backup",
            PathChangeKind::Status(_) => "available",
            PathChangeKind::Suspect => "suspect",
            PathChangeKind::Recovered => "recovered",
            PathChangeKind::Abandoned {
                error_code: code,
                by_peer,
            } => {
                initiator = Some(if by_peer { "remote" } else { "local" });
                error_code = Some(code.0);
                "abandoned"
            }
            PathChangeKind::Discarded => "discarded",
            _ => return,
        };
        let data = PathUpdated {
            path_id: id,
            new,
            initiator,
            error_code,
        };
        self.event(at, "mpquic:path_updated", Some(id), data);
        if new == "abandoned" {
            self.forget_tuple(at, id);
        }
    }

    /// A path goes over these addresses.
    fn assign(&mut self, at: u64, id: u32, tuple: FourTuple) {
        let place = self.tuples.iter().position(|(known, _)| *known == tuple);
        let place = place.unwrap_or_else(|| {
            let mut name = String::new();
            // Writing to a string does not fail.
            let _ = write!(name, "{}", self.tuples.len());
            self.tuples.push((tuple, name));
            self.tuples.len() - 1
        });
        if self.known(id).tuple.replace(place) == Some(place) {
            return;
        }
        let name = self.tuples[place].1.clone();
        let data = TupleAssigned {
            tuple_id: &name,
            tuple_remote: Some(end(tuple.remote)),
            tuple_local: Some(end(tuple.local)),
            path_id: id,
        };
        self.event(at, "quic:tuple_assigned", Some(id), data);
    }

    /// An abandoned path's tuple is over, unless another path goes over the same addresses.
    fn forget_tuple(&mut self, at: u64, id: u32) {
        let Some(place) = self.known(id).tuple else {
            return;
        };
        let shared = |path: &&KnownPath| path.id != id && path.tuple == Some(place);
        if self.paths.iter().any(|path| shared(&path)) {
            return;
        }
        let name = self.tuples[place].1.clone();
        let data = TupleAssigned {
            tuple_id: &name,
            tuple_remote: None,
            tuple_local: None,
            path_id: id,
        };
        self.event(at, "quic:tuple_assigned", Some(id), data);
    }
}

fn header(ty: PacketType, number: Option<u64>) -> Header {
    Header {
        packet_type: ty.name(),
        packet_number: number,
    }
}

/// One end of a tuple.
fn end(address: std::net::SocketAddr) -> TupleEnd {
    let (ip, port) = (address.ip().to_canonical(), address.port());
    let text = Some(ip.to_string());
    if ip.is_ipv4() {
        TupleEnd {
            ip_v4: text,
            port_v4: Some(port),
            ..TupleEnd::default()
        }
    } else {
        TupleEnd {
            ip_v6: text,
            port_v6: Some(port),
            ..TupleEnd::default()
        }
    }
}
