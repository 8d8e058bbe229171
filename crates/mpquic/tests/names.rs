//! What users extend the library with, written with the names that `mpquic` itself gives: no other crate is needed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use crate::common;
use mpquic::congestion::{
    AckSummary, AckedPacket, CongestionEvent, Controller, ControllerContext, ControllerFactory,
    InitialWindow, LostPacket, MAX_PATHS, NewPath, RttEstimator, SentPacket, SpuriousLoss,
    minimum_window,
};
use mpquic::sched::{
    Acked, Context, Data, Decision, Lost, PathIndex, PathUpdate, Registry, Scheduler,
    SchedulerFactory, Sent, StreamUpdate, serde_json,
};
use mpquic::{
    Bytes, ConnectError, NumberSpace, Observer, ObserverFactory, PacketReceived, PacketSent, Side,
    StartError, StreamPiece, TransportConfig,
};

/// Counts what it sees.
#[derive(Clone, Default)]
struct Counts {
    packets: Arc<AtomicU64>,
    stream_bytes: Arc<AtomicU64>,
}

impl Observer for Counts {
    fn on_packet_sent(&mut self, packet: &PacketSent<'_>) {
        if let NumberSpace::Path(_) = packet.space {
            let size = |piece: StreamPiece| piece.end - piece.start;
            let bytes: u64 = packet.stream_data().map(size).sum();
            self.stream_bytes.fetch_add(bytes, Relaxed);
        }
    }

    fn on_packet_received(&mut self, _packet: &PacketReceived) {
        self.packets.fetch_add(1, Relaxed);
    }
}

/// A window that grows by what is acknowledged and is halved on loss.
struct Halving {
    initial: InitialWindow,
    paths: [(u64, u16); MAX_PATHS],
    recovery: [Option<Instant>; MAX_PATHS],
}

impl Controller for Halving {
    fn add_path(&mut self, new: &NewPath) {
        self.paths[new.path.get()] = (self.initial.bytes(new.mtu), new.mtu);
    }

    fn remove_path(&mut self, path: PathIndex) {
        self.paths[path.get()] = (0, 0);
    }

    fn on_packet_sent(&mut self, _packet: &SentPacket) {}

    fn on_packet_acked(&mut self, packet: &AckedPacket<'_>) {
        if !packet.app_limited {
            self.paths[packet.path.get()].0 += packet.size;
        }
    }

    fn on_packet_lost(&mut self, _packet: &LostPacket) {}

    fn on_congestion_event(&mut self, event: &CongestionEvent) {
        let slot = event.path.get();
        if self.recovery[slot].is_none_or(|start| event.newest_sent > start) {
            self.recovery[slot] = Some(event.now);
            let (window, mtu) = &mut self.paths[slot];
            *window = (*window / 2).max(minimum_window(*mtu));
        }
    }

    fn on_spurious_loss(&mut self, _loss: &SpuriousLoss) {}

    fn on_ack_end(&mut self, _ack: &AckSummary<'_>) -> bool {
        false
    }

    fn pacing_rate(&self, _path: PathIndex, _rtt: &RttEstimator) -> Option<f64> {
        None
    }

    fn on_mtu_update(&mut self, path: PathIndex, mtu: u16) {
        let (window, own) = &mut self.paths[path.get()];
        *own = mtu;
        *window = (*window).max(minimum_window(mtu));
    }

    fn window(&self, path: PathIndex) -> u64 {
        self.paths[path.get()].0
    }
}

struct Halvings;

impl ControllerFactory for Halvings {
    fn build(&self, context: &mut ControllerContext<'_>) -> Box<dyn Controller> {
        Box::new(Halving {
            initial: context.initial_window(),
            paths: [(0, 0); MAX_PATHS],
            recovery: [None; MAX_PATHS],
        })
    }
}

/// The first path that can send.
struct First;

impl Scheduler for First {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        match cx.sendable().next() {
            Some(path) => Decision::send_data(path.index, Data::Next),
            None => Decision::Wait { until: None },
        }
    }

    fn on_sent(&mut self, _event: &Sent) {}
    fn on_acked(&mut self, _event: &Acked) {}
    fn on_lost(&mut self, _event: &Lost) {}
    fn on_path(&mut self, _event: &PathUpdate) {}
    fn on_stream(&mut self, _event: &StreamUpdate) {}
}

#[test]
fn everything_of_ones_own_in_one_connection() {
    common::run(async {
        let counts = Counts::default();
        let observers: ObserverFactory = {
            let counts = counts.clone();
            Arc::new(move |side| (side == Side::Client).then(|| Box::new(counts.clone()) as _))
        };
        let pair = common::Pair::with(&[common::loopback(1)], |transport: &mut TransportConfig| {
            let observers = observers.clone();
            transport
                .congestion(Halvings)
                .scheduler(|| Box::new(First))
                .observer(move |side| observers(side));
        });
        let (client, server) = pair.connect().await;
        let data = Bytes::from(vec![7; 100_000]);
        let mut send = client.open_uni().await.unwrap();
        send.write_chunk(data.clone()).await.unwrap();
        send.finish().unwrap();
        let mut recv = server.accept_uni().await.unwrap();
        assert_eq!(recv.read_to_end(data.len()).await.unwrap(), data);
        assert!(counts.packets.load(Relaxed) > 0);
        assert!(counts.stream_bytes.load(Relaxed) >= data.len() as u64);
    });
}

#[test]
fn registries_and_errors_are_named() {
    let config = serde_json::json!({"burst": 2});
    let factory: SchedulerFactory = Registry::new().factory("roundrobin", &config).unwrap();
    TransportConfig::default().scheduler(factory);
    let error = ConnectError::from(StartError::InvalidServerName("a b".into()));
    assert!(matches!(
        error,
        ConnectError::Start(StartError::InvalidServerName(_))
    ));
}
