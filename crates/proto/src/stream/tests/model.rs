//! Random sending over several paths against a model that knows each byte's packets.
//!
//! At any time every written byte is acknowledged, queued, or in at least one packet in flight;
//! copies never repeat on a path; in the end everything arrives intact.

use std::collections::BTreeMap;

use mpquic_sched_core::PathSet;
use proptest::prelude::*;

use super::*;
use crate::sent_frame::StreamRange;
use crate::stream::counters::Tally;

const PATHS: usize = 3;
const STREAMS: usize = 3;

#[derive(Debug, Clone)]
enum Op {
    Write(usize, usize),
    Finish(usize),
    Send(usize, usize),
    SendStream(usize, usize, usize),
    Ahead(usize, usize, u64),
    /// A copy of packet so-and-so on this path; the flag makes it a probe.
    Copy(usize, usize, usize, bool),
    Ack(usize),
    Lose(usize),
    /// Arrives, but is declared lost.
    Spurious(usize),
    /// A spuriously lost packet's acknowledgement comes after all.
    LateAck(usize),
    Suspect(usize),
    Recover(usize),
    Priority(usize, i32),
    Reset(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let size = || 30usize..400;
    let any = || 0usize..1000;
    prop_oneof![
        4 => (0..STREAMS, 1usize..1500).prop_map(|(s, n)| Op::Write(s, n)),
        1 => (0..STREAMS).prop_map(Op::Finish),
        8 => (0..PATHS, size()).prop_map(|(p, n)| Op::Send(p, n)),
        2 => (0..STREAMS, 0..PATHS, size()).prop_map(|(s, p, n)| Op::SendStream(s, p, n)),
        4 => (0..PATHS, size(), 0u64..1200).prop_map(|(p, n, gap)| Op::Ahead(p, n, gap)),
        4 => (any(), 0..PATHS, size(), prop::bool::weighted(0.2))
            .prop_map(|(i, p, n, probe)| Op::Copy(i, p, n, probe)),
        6 => any().prop_map(Op::Ack),
        4 => any().prop_map(Op::Lose),
        1 => any().prop_map(Op::Spurious),
        1 => any().prop_map(Op::LateAck),
        1 => (0..PATHS).prop_map(Op::Suspect),
        1 => (0..PATHS).prop_map(Op::Recover),
        1 => (0..STREAMS, -1i32..2).prop_map(|(s, p)| Op::Priority(s, p)),
        1 => (0..STREAMS * 8).prop_map(Op::Reset),
    ]
}

#[derive(Debug, Clone)]
struct Sent {
    path: usize,
    probe: bool,
    packet: Packet,
}

impl Sent {
    fn ranges(&self) -> impl Iterator<Item = &StreamRange> {
        self.packet.frames.iter().filter_map(|f| match f {
            SentFrame::Stream(r) => Some(r),
            _ => None,
        })
    }
}

struct Model {
    sender: Streams,
    receiver: Streams,
    now: Instant,
    ids: Vec<StreamId>,
    written: BTreeMap<StreamId, u64>,
    flying: Vec<Sent>,
    declared_lost: Vec<Sent>,
    suspects: PathSet,
    ever_suspect: bool,
    reset: Vec<StreamId>,
    /// Paths that carried each offset.
    carried: BTreeMap<(StreamId, u64), PathSet>,
}

impl Model {
    fn new() -> Self {
        let (mut sender, receiver) = pair(&TransportConfig::default());
        let ids: Vec<_> = (0..STREAMS)
            .map(|_| sender.open(Dir::Uni).unwrap())
            .collect();
        Self {
            sender,
            receiver,
            now: Instant::now(),
            written: ids.iter().map(|id| (*id, 0)).collect(),
            ids,
            flying: Vec::new(),
            declared_lost: Vec::new(),
            suspects: PathSet::EMPTY,
            ever_suspect: false,
            reset: Vec::new(),
            carried: BTreeMap::new(),
        }
    }

    fn on_sent(&mut self, packet: Option<Packet>, on: usize, probe: bool) {
        let Some(packet) = packet else { return };
        let sent = Sent {
            path: on,
            probe,
            packet,
        };
        for r in sent.ranges() {
            assert!(r.carried.contains(path(on)));
            for at in r.start..r.end + u64::from(r.fin) {
                // Except by probes, a path never has the same data in flight twice.
                let twice = self.flying.iter().any(|f| {
                    f.path == on
                        && !f.probe
                        && f.ranges()
                            .any(|x| x.id == r.id && x.start <= at && at < x.end + u64::from(x.fin))
                });
                assert!(probe || !twice, "offset {at} of {r:?}");
                let carried = self.carried.entry((r.id, at)).or_default();
                carried.insert(path(on));
            }
        }
        self.flying.push(sent);
    }

    fn take(list: &mut Vec<Sent>, index: usize) -> Option<Sent> {
        (!list.is_empty()).then(|| list.remove(index % list.len()))
    }

    fn arrive(&mut self, sent: &Sent) {
        deliver(&mut self.receiver, self.now, &sent.packet.payload).unwrap();
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Write(s, n) => {
                let id = self.ids[s];
                let at = self.written[&id];
                if let Ok(n) = self.sender.write(id, &pattern(id, at, n)) {
                    *self.written.get_mut(&id).unwrap() += n as u64;
                }
            }
            Op::Finish(s) => {
                let _ = self.sender.finish(self.ids[s]);
            }
            Op::Send(p, size) => {
                let packet = data_packet(&mut self.sender, size, Data::Next, p);
                self.on_sent(packet, p, false);
            }
            Op::SendStream(s, p, size) => {
                let id = self.ids[s];
                let packet = data_packet(&mut self.sender, size, Data::Stream(id), p);
                if let Some(packet) = &packet {
                    let only = packet
                        .frames
                        .iter()
                        .all(|f| matches!(f, SentFrame::Stream(r) if r.id == id));
                    assert!(only);
                }
                self.on_sent(packet, p, false);
            }
            Op::Ahead(p, size, gap) => {
                let before = self.unsent();
                let packet = data_packet(&mut self.sender, size, Data::Ahead(gap), p);
                self.check_gap(gap, &before, packet.as_ref());
                self.on_sent(packet, p, false);
            }
            Op::Copy(i, p, size, probe) => self.copy(i, p, size, probe),
            Op::Ack(i) => {
                if let Some(sent) = Self::take(&mut self.flying, i) {
                    self.arrive(&sent);
                    acked(&mut self.sender, &sent.packet.frames);
                }
            }
            Op::Lose(i) => {
                if let Some(sent) = Self::take(&mut self.flying, i) {
                    lost(&mut self.sender, &sent.packet.frames, sent.path);
                }
            }
            Op::Spurious(i) => {
                if let Some(sent) = Self::take(&mut self.flying, i) {
                    self.arrive(&sent);
                    lost(&mut self.sender, &sent.packet.frames, sent.path);
                    self.declared_lost.push(sent);
                }
            }
            Op::LateAck(i) => {
                if let Some(sent) = Self::take(&mut self.declared_lost, i) {
                    acked(&mut self.sender, &sent.packet.frames);
                }
            }
            Op::Suspect(p) => {
                self.suspects.insert(path(p));
                self.ever_suspect = true;
                self.sender.set_suspects(self.suspects);
                for sent in self.flying.iter().filter(|f| f.path == p) {
                    for r in sent.ranges() {
                        self.sender.make_sendable(r);
                        self.sender.make_sendable(r);
                    }
                }
            }
            Op::Recover(p) => {
                self.suspects.remove(path(p));
                self.sender.set_suspects(self.suspects);
            }
            Op::Priority(s, priority) => {
                let _ = self.sender.set_priority(self.ids[s], priority);
            }
            Op::Reset(s) => {
                if let Some(id) = self.ids.get(s)
                    && self.sender.reset(*id, code(1)).is_ok()
                {
                    self.reset.push(*id);
                }
            }
        }
    }

    /// What was never sent of each stream: its priority, and the offsets of its bytes.
    fn unsent(&self) -> BTreeMap<StreamId, (i32, Vec<u64>)> {
        let live = self.sender.sends.iter().filter(|(_, s)| !s.is_reset());
        live.map(|(id, stream)| {
            let offsets = (0..self.written[&id])
                .filter(|at| matches!(stream.inspect(*at), Some((true, ..))))
                .collect();
            (id, (stream.priority, offsets))
        })
        .collect()
    }

    /// Where a packet behind a gap begins: all of more urgent streams and equally much of equal
    /// ones come before it, and that is as many bytes as the gap.
    fn check_gap(
        &self,
        gap: u64,
        before: &BTreeMap<StreamId, (i32, Vec<u64>)>,
        packet: Option<&Packet>,
    ) {
        let all: usize = before.values().map(|(_, offsets)| offsets.len()).sum();
        let Some(packet) = packet else { return };
        let SentFrame::Stream(first) = packet.frames[0] else {
            panic!("{packet:?}");
        };
        if gap == 0 {
            return;
        }
        assert!(gap < all as u64);
        let (priority, offsets) = &before[&first.id];
        let own = offsets.iter().position(|at| *at == first.start).unwrap();
        let mut ahead = 0;
        for (other, offsets) in before.values() {
            ahead += match other.cmp(priority) {
                std::cmp::Ordering::Greater => offsets.len(),
                std::cmp::Ordering::Equal => offsets.len().min(own),
                std::cmp::Ordering::Less => 0,
            };
        }
        // In step, to the byte.
        assert!(
            (gap.saturating_sub(STREAMS as u64)..=gap).contains(&(ahead as u64)),
            "{ahead} for {gap}"
        );
    }

    fn copy(&mut self, i: usize, p: usize, size: usize, probe: bool) {
        if self.flying.is_empty() {
            return;
        }
        let original = self.flying[i % self.flying.len()].clone();
        let mut written = Vec::new();
        let made = packet(size, |w| {
            for r in original.ranges() {
                written.extend(if probe {
                    self.sender.fill_probe(w, r, path(p))
                } else {
                    self.sender.fill_range(w, r, path(p))
                });
            }
        });
        assert_eq!(written.len(), made.frames.len());
        for r in &written {
            assert!(made.resent.any);
            assert!(made.frames.contains(&SentFrame::Stream(*r)));
            for at in r.start..r.end + u64::from(r.fin) {
                let before = self.carried[&(r.id, at)];
                assert!(probe || !before.contains(path(p)), "offset {at} of {r:?}");
            }
        }
        let bytes = written.iter().map(|r| r.end - r.start).sum();
        let counted = (made.resent.retransmitted, made.resent.copied);
        assert_eq!(counted, if probe { (bytes, 0) } else { (0, bytes) });
        if !written.is_empty() {
            self.on_sent(Some(made), p, probe);
        }
    }

    /// Compares every offset with the packets in flight.
    fn check(&self) {
        let mut counts: BTreeMap<StreamId, Vec<u16>> = BTreeMap::new();
        for (id, len) in &self.written {
            counts.insert(*id, vec![0; *len as usize + 1]);
        }
        for r in self.flying.iter().flat_map(Sent::ranges) {
            let end = (r.end + u64::from(r.fin)) as usize;
            for n in &mut counts.get_mut(&r.id).unwrap()[r.start as usize..end] {
                *n += 1;
            }
        }
        let (mut unsent, mut again, mut flying) = (0, 0, 0);
        for (id, counts) in &counts {
            let Some(stream) = self.sender.sends.get(*id).filter(|s| !s.is_reset()) else {
                continue;
            };
            let len = counts.len() - usize::from(stream.is_open());
            for (at, &count) in counts[..len].iter().enumerate() {
                let Some((new, recorded, queued)) = stream.inspect(at as u64) else {
                    continue;
                };
                if new {
                    assert_eq!(count, 0);
                    unsent += 1;
                    continue;
                }
                assert_eq!(recorded.unwrap_or(1), count, "offset {at} of {id}");
                assert!(queued || count > 0, "offset {at} of {id} is nowhere");
                assert!(
                    !queued || count == 0 || self.ever_suspect,
                    "requeued in flight"
                );
                if queued {
                    again += 1;
                } else {
                    flying += 1;
                }
            }
        }
        let mut totals = Tally::default();
        for stream in self.sender.sends.values() {
            totals.replace(&Tally::default(), &stream.tally());
        }
        assert_eq!(self.sender.totals, totals);
        let queue = self.sender.queue();
        assert!(queue.credit <= queue.window_left);
        assert!(!queue.blocked || queue.unsent == 0 || queue.window_left == 0);
        assert_eq!((queue.unsent, queue.retransmittable), (unsent, again));
        assert_eq!(queue.in_flight, flying);
        let ahead = self.receiver.recvs.values();
        let ahead: u64 = ahead.map(|s| s.assembler.out_of_order()).sum();
        assert_eq!(self.receiver.out_of_order(), ahead);
        assert!(self.receiver.max_out_of_order_seen() >= ahead);
    }

    /// Lets everything through.
    fn settle(&mut self) {
        for id in self.ids.clone() {
            let _ = self.sender.finish(id);
        }
        self.sender.set_suspects(PathSet::EMPTY);
        for _ in 0..20 {
            while let Some(sent) = Self::take(&mut self.flying, 0) {
                self.arrive(&sent);
                acked(&mut self.sender, &sent.packet.frames);
            }
            while let Some(control) = control_packet(&mut self.sender) {
                deliver(&mut self.receiver, self.now, &control.payload).unwrap();
                acked(&mut self.sender, &control.frames);
            }
            while let Some(packet) = data_packet(&mut self.sender, 1200, Data::Next, 0) {
                self.on_sent(Some(packet), 0, false);
            }
            if self.flying.is_empty() {
                break;
            }
        }
        self.check();
        assert_eq!(self.sender.open_halves().0, 0);
        assert!(!self.sender.has_unacked() && !self.sender.can_send_data());
        assert_eq!(self.sender.queue().out_of_order, 0);
        assert_eq!(self.sender.buffered_send(), 0);
        assert_eq!(self.sender.head(), None);
        for id in &self.ids {
            let mut got = Vec::new();
            let end = loop {
                match self.receiver.read_chunk(*id, 500) {
                    Ok(Some(chunk)) => got.extend_from_slice(&chunk),
                    other => break other,
                }
            };
            if self.reset.contains(id) {
                assert!(end.is_ok() || end == Err(crate::ReadError::Reset(code(1))));
            } else {
                assert_eq!(end, Ok(None));
                assert_eq!(got, pattern(*id, 0, self.written[id] as usize));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn every_byte_is_somewhere_and_arrives(ops in prop::collection::vec(op(), 20..250)) {
        let mut model = Model::new();
        for (n, op) in ops.into_iter().enumerate() {
            model.apply(op);
            if n % 8 == 0 {
                model.check();
            }
        }
        model.check();
        model.settle();
    }
}
