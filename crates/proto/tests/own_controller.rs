//! A congestion controller written outside the crate: what it says is done, and what happens it is told.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::pair::{Pair, tuple};
use mpquic_proto::congestion::{
    AckSummary, AckedPacket, CongestionControl, CongestionEvent, Controller, ControllerContext,
    ControllerFactory, LostPacket, NewPath, PathIndex, SentPacket,
};
use mpquic_proto::{Dir, PathErrorCode, ReadError, TransportConfig};

const WINDOW: u64 = 20_000;

/// What the controller was told, on all paths.
#[derive(Debug, Default, Clone)]
struct Told {
    added: Vec<PathIndex>,
    removed: Vec<PathIndex>,
    sent: u64,
    acked: u64,
    lost: u64,
    lost_bytes: u64,
    events: u64,
    summaries: u64,
    most_in_flight: u64,
}

/// A window of a fixed size on every path.
struct FixedWindow {
    told: Arc<Mutex<Told>>,
}

impl FixedWindow {
    fn tell(&self, note: impl FnOnce(&mut Told)) {
        note(&mut self.told.lock().unwrap());
    }
}

impl Controller for FixedWindow {
    fn add_path(&mut self, new: &NewPath) {
        assert_eq!(new.mtu, 1200);
        self.tell(|told| told.added.push(new.path));
    }

    fn remove_path(&mut self, path: PathIndex) {
        self.tell(|told| told.removed.push(path));
    }

    fn on_packet_sent(&mut self, packet: &SentPacket) {
        assert!(packet.size > 0 && packet.size <= packet.in_flight);
        self.tell(|told| {
            told.sent += packet.size;
            told.most_in_flight = told.most_in_flight.max(packet.in_flight);
        });
    }

    fn on_packet_acked(&mut self, packet: &AckedPacket<'_>) {
        assert!(packet.sent <= packet.now);
        assert!(packet.rtt.smoothed() >= packet.rtt.min());
        self.tell(|told| told.acked += packet.size);
    }

    fn on_packet_lost(&mut self, packet: &LostPacket) {
        self.tell(|told| {
            told.lost += 1;
            told.lost_bytes += packet.size;
        });
    }

    fn on_congestion_event(&mut self, event: &CongestionEvent) {
        assert!(!event.ecn && event.lost_bytes > 0);
        self.tell(|told| told.events += 1);
    }

    fn on_ack_end(&mut self, ack: &AckSummary<'_>) -> bool {
        assert!(ack.newest_sent <= ack.now);
        assert!(ack.sample.newly_acked > 0);
        self.tell(|told| told.summaries += 1);
        false
    }

    fn on_mtu_update(&mut self, _path: PathIndex, _mtu: u16) {}

    fn window(&self, _path: PathIndex) -> u64 {
        WINDOW
    }
}

#[derive(Clone, Default)]
struct FixedWindows {
    told: Arc<Mutex<Told>>,
}

impl FixedWindows {
    fn told(&self) -> Told {
        self.told.lock().unwrap().clone()
    }
}

impl ControllerFactory for FixedWindows {
    fn build(&self, _context: &mut ControllerContext<'_>) -> Box<dyn Controller> {
        Box::new(FixedWindow {
            told: self.told.clone(),
        })
    }
}

fn pair() -> (Pair, FixedWindows) {
    let factory = FixedWindows::default();
    let mut client = TransportConfig::default();
    client.congestion(factory.clone());
    let mut pair = Pair::new(client, TransportConfig::default());
    pair.connect();
    (pair, factory)
}

/// Sends so many bytes from the client to the server.
fn transfer(pair: &mut Pair, len: usize) {
    let id = pair.c().streams().open(Dir::Uni).unwrap();
    let data = vec![7; len];
    let (mut written, mut received) = (0, 0);
    let done = pair.run_until(Duration::from_secs(60), |pair| {
        while written < len {
            match pair.c().send_stream(id).write(&data[written..]) {
                Ok(count) => written += count,
                Err(_) => break,
            }
            if written == len {
                pair.c().send_stream(id).finish().unwrap();
            }
        }
        pair.s().streams().accept(Dir::Uni);
        let mut buf = [0; 65536];
        loop {
            match pair.s().recv_stream(id).read(&mut buf) {
                Ok(Some(count)) => received += count,
                Ok(None) => return true,
                Err(ReadError::Blocked | ReadError::ClosedStream) => return false,
                Err(error) => panic!("{error}"),
            }
        }
    });
    assert!(done, "stuck at {received} of {len}");
}

#[test]
fn its_window_is_kept() {
    let (mut pair, factory) = pair();
    transfer(&mut pair, 1_000_000);
    let told = factory.told();
    assert!(told.most_in_flight <= WINDOW, "{told:?}");
    assert!(told.most_in_flight + 2 * 1452 > WINDOW, "{told:?}");
    assert_eq!((told.lost, told.events), (0, 0));
    assert!(told.acked > 1_000_000 && told.acked <= told.sent);
    assert!(told.summaries > 0);
    let path = pair.c().paths().ids().next().unwrap();
    let stats = pair.c().path(path).unwrap().stats();
    assert_eq!((stats.cwnd, stats.congestion_events), (WINDOW, 0));
}

#[test]
fn it_is_told_of_losses() {
    let (mut pair, factory) = pair();
    let mut count = 0_u64;
    pair.filter = Box::new(move |from_client, _, _| {
        count += u64::from(from_client);
        !(from_client && count.is_multiple_of(37))
    });
    transfer(&mut pair, 500_000);
    let told = factory.told();
    assert_eq!(told.lost, pair.c().stats().lost_packets);
    assert!(told.lost > 5 && told.lost_bytes > 5 * 1000, "{told:?}");
    assert!(told.events > 0 && told.events <= told.lost, "{told:?}");
}

#[test]
fn it_is_told_of_paths() {
    let (mut pair, factory) = pair();
    let now = pair.now;
    let second = pair.c().open_path(now, tuple(1)).unwrap();
    assert!(pair.run_until(Duration::from_secs(2), |pair| pair.both_validated(second)));
    let told = factory.told();
    let slots = [0, 1].map(|slot| PathIndex::new(slot).unwrap());
    assert_eq!((&told.added[..], &told.removed[..]), (&slots[..], &[][..]));
    let now = pair.now;
    pair.c()
        .path_mut(second)
        .close(now, PathErrorCode::NO_ERROR)
        .unwrap();
    assert_eq!(factory.told().removed, [slots[1]]);
}

/// A function is a factory as well, and may wrap a controller of the crate.
#[test]
fn closures_make_controllers() {
    let mut client = TransportConfig::default();
    client.congestion(|context: &mut ControllerContext<'_>| {
        assert_ne!(context.seed(), context.seed());
        CongestionControl::NewReno.build(context)
    });
    assert!(format!("{client:?}").contains("own_controller"));
    let mut pair = Pair::new(client, TransportConfig::default());
    pair.connect();
    transfer(&mut pair, 100_000);
    let path = pair.c().paths().ids().next().unwrap();
    assert!(pair.c().path(path).unwrap().stats().cwnd > 12_000);
}
