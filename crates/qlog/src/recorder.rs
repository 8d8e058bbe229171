//! The observer of a connection: makes records of what it is told, without allocating, and hands them to a sink.

use std::time::{Duration, Instant};

use mpquic_proto::congestion::{LossCause, LossCauses};
use mpquic_proto::{
    CongestionControl, FrameInfo, Frames, NumberSpace, Observation, Observer, PacketReceived,
    PacketSent, PathChange, PathChangeKind, PathMetrics,
};

use crate::record::{
    Chosen, Decision, Frame, MAX_PIECES, Metrics, Packet, PacketType, Rare, Record, Timed,
};

/// The out-of-order queue is told no more often than this, but for its being empty.
const OUT_OF_ORDER_INTERVAL: Duration = Duration::from_millis(1);

/// Where records go.
pub(crate) trait Sink: Send {
    /// Takes all records or none: a packet and its frames belong together.
    fn put(&mut self, records: &mut Vec<Timed>);
}

/// Makes records of what a connection tells.
pub(crate) struct Recorder<S> {
    sink: S,
    /// Times count from here; from the connection's beginning if not given.
    origin: Option<Instant>,
    last: u64,
    /// Never larger than a packet and its pieces.
    scratch: Vec<Timed>,
    decision: Option<Decision>,
    out_of_order: u64,
    out_of_order_at: u64,
    /// Of paths that lose packets or have gone to another controller.
    judged: Vec<Judged>,
}

/// What was told of a path's losses so far.
struct Judged {
    path: u32,
    causes: LossCauses,
    steered_by: CongestionControl,
}

impl<S: Sink> Recorder<S> {
    pub(crate) fn new(sink: S, origin: Option<Instant>) -> Self {
        Self {
            sink,
            origin,
            last: 0,
            scratch: Vec::with_capacity(MAX_PIECES + 1),
            decision: None,
            out_of_order: 0,
            out_of_order_at: 0,
            judged: Vec::new(),
        }
    }

    /// Nanoseconds since the origin. Never goes back: a log is read in the order of its times.
    #[inline]
    fn time(&mut self, now: Instant) -> u64 {
        let origin = *self.origin.get_or_insert(now);
        let since = now.saturating_duration_since(origin).as_nanos();
        self.last = self.last.max(u64::try_from(since).unwrap_or(u64::MAX));
        self.last
    }

    #[inline]
    fn put(&mut self, now: Instant, record: Record) {
        let at = self.time(now);
        self.scratch.clear();
        self.scratch.push(Timed { at, record });
        self.sink.put(&mut self.scratch);
    }

    /// A packet with its frames; `sent`: whether it is ours.
    #[inline]
    fn put_packet(&mut self, now: Instant, mut packet: Packet, frames: Frames<'_>, sent: bool) {
        let at = self.time(now);
        let out = &mut self.scratch;
        out.clear();
        out.push(Timed {
            at,
            record: Record::HandshakeComplete,
        });
        let full = MAX_PIECES + 1;
        for frame in frames {
            if out.len() == full {
                packet.left_out = packet.left_out.saturating_add(1);
                continue;
            }
            let mut push = |record| out.push(Timed { at, record });
            let FrameInfo::Ack {
                path,
                delay,
                ranges,
                ecn,
            } = frame
            else {
                push(Record::Frame(Frame::of(&frame)));
                continue;
            };
            let place = out.len();
            let mut written = 0_usize;
            let mut left_out = 0_u16;
            let mut push = |record| out.push(Timed { at, record });
            push(Record::HandshakeComplete);
            let room = full - (place + 1) - usize::from(ecn.is_some());
            for range in ranges.iter() {
                if written < room {
                    push(Record::Range(*range.start(), *range.end()));
                    written += 1;
                } else {
                    left_out = left_out.saturating_add(1);
                }
            }
            if let Some(counts) = ecn
                && out.len() < full
            {
                out.push(Timed {
                    at,
                    record: Record::Frame(Frame::Ecn(counts)),
                });
            }
            let path = path.map(|path| u32::try_from(path).unwrap_or(u32::MAX));
            out[place].record = Record::Frame(Frame::Ack {
                path,
                delay,
                left_out,
            });
        }
        packet.pieces = (out.len() - 1) as u16;
        out[0].record = if sent {
            Record::Sent(packet)
        } else {
            Record::Received(packet)
        };
        self.sink.put(&mut self.scratch);
    }

    /// Nothing is kept of a path that is over.
    fn forget(&mut self, change: &PathChange) {
        if change.kind == PathChangeKind::Discarded {
            self.judged.retain(|judged| judged.path != change.id.0);
        }
    }

    /// Acknowledged packets, as runs of numbers.
    fn put_acked(&mut self, now: Instant, space: NumberSpace, numbers: impl Iterator<Item = u64>) {
        let (ty, path) = (PacketType::new(space, false), space.path().0);
        let mut run: Option<(u64, u32)> = None;
        for number in numbers {
            run = match run {
                Some((first, count)) if first + u64::from(count) == number => {
                    Some((first, count + 1))
                }
                Some((first, count)) => {
                    self.put(now, acked(ty, path, first, count));
                    Some((number, 1))
                }
                None => Some((number, 1)),
            };
        }
        if let Some((first, count)) = run {
            self.put(now, acked(ty, path, first, count));
        }
    }

    /// What the controller has made of losses since it was told last.
    fn put_judged(&mut self, now: Instant, metrics: &PathMetrics) {
        let (path, causes) = (metrics.id.0, metrics.loss_causes);
        let steered_by = metrics.steered_by.unwrap_or(CongestionControl::Cubic);
        let place = self.judged.iter().position(|judged| judged.path == path);
        let before = place.map(|place| {
            let judged = &self.judged[place];
            (judged.causes, judged.steered_by)
        });
        let (told, by) =
            before.unwrap_or_else(|| (LossCauses::default(), CongestionControl::Cubic));
        if (told, by) == (causes, steered_by) {
            return;
        }
        let judged = Judged {
            path,
            causes,
            steered_by,
        };
        match place {
            Some(place) => self.judged[place] = judged,
            None => self.judged.push(judged),
        }
        for (cause, before, after) in [
            (LossCause::Overflow, told.overflow, causes.overflow),
            (LossCause::Chance, told.chance, causes.chance),
            (LossCause::Unclear, told.unclear, causes.unclear),
        ] {
            // Figures of a path that goes over other addresses begin anew.
            for _ in before..after {
                self.put(now, Record::Judged(path, cause));
            }
        }
        if by != steered_by {
            self.put(now, Record::Steered(path, steered_by));
        }
    }

    /// The out-of-order queue has changed: thinned out, since it may with every packet.
    fn put_out_of_order(&mut self, now: Instant, bytes: u64) {
        if bytes == self.out_of_order {
            return;
        }
        let at = self.time(now);
        let due = self.out_of_order_at + OUT_OF_ORDER_INTERVAL.as_nanos() as u64;
        if at >= due || bytes == 0 || self.out_of_order == 0 {
            self.out_of_order = bytes;
            self.out_of_order_at = at;
            self.put(now, Record::OutOfOrder(bytes));
        }
    }
}

fn acked(ty: PacketType, path: u32, first: u64, count: u32) -> Record {
    Record::Acked {
        ty,
        path,
        first,
        count,
    }
}

impl<S: Sink> Observer for Recorder<S> {
    fn on_packet_sent(&mut self, sent: &PacketSent<'_>) {
        let packet = Packet {
            ty: PacketType::new(sent.space, sent.early),
            path: sent.space.path().0,
            number: sent.number,
            size: sent.size,
            pieces: 0,
            left_out: 0,
            mtu_probe: sent.mtu_probe,
            retransmission: sent.retransmission,
            decision: sent.decision,
        };
        self.put_packet(sent.now, packet, sent.frames(), true);
    }

    fn on_packet_received(&mut self, received: &PacketReceived<'_>) {
        let packet = Packet {
            ty: PacketType::new(received.space, received.early),
            path: received.space.path().0,
            number: received.number,
            size: u16::try_from(received.size()).unwrap_or(u16::MAX),
            pieces: 0,
            left_out: 0,
            mtu_probe: false,
            retransmission: false,
            decision: None,
        };
        self.put_packet(received.now, packet, received.frames(), false);
    }

    fn on_event(&mut self, now: Instant, event: &Observation<'_>) {
        let rare = |rare| Record::Rare(Box::new(rare));
        let record = match event {
            Observation::Acked(acked) => {
                return self.put_acked(now, acked.space(), acked.numbers());
            }
            Observation::OutOfOrder { bytes } => return self.put_out_of_order(now, *bytes),
            Observation::Decided(decided) => {
                let decision = Decision {
                    choice: Chosen::of(&decided.choice),
                    why: decided.why,
                };
                // Most are as the one before. Packets name the decision that asked for them.
                if self.decision.replace(decision) == Some(decision) {
                    return;
                }
                Record::Decided(decided.number, decision)
            }
            Observation::Metrics(metrics) => {
                self.put_judged(now, metrics);
                Record::Metrics(Metrics::of(metrics))
            }
            Observation::Lost(lost) => Record::Lost {
                ty: PacketType::new(lost.space, false),
                path: lost.space.path().0,
                number: lost.number,
                size: lost.size,
                mtu_probe: lost.mtu_probe,
                abandoned: lost.abandoned,
            },
            Observation::KeyUpdate { phase, by_peer } => Record::KeyUpdate {
                phase: *phase,
                by_peer: *by_peer,
            },
            Observation::Undecryptable { space } => Record::Undecryptable {
                ty: PacketType::new(*space, false),
                path: space.path().0,
            },
            Observation::HandshakeComplete => Record::HandshakeComplete,
            Observation::HandshakeConfirmed => Record::HandshakeConfirmed,
            Observation::Started(started) => rare(Rare::Started(*started)),
            Observation::Parameters(parameters) => rare(Rare::Parameters(*parameters)),
            Observation::Path(change) => {
                self.forget(change);
                rare(Rare::Path(*change))
            }
            Observation::Closed(reason) => rare(Rare::Closed((*reason).clone())),
            _ => return,
        };
        self.put(now, record);
    }
}
