//! A scheduler that is replaced in the middle of a transfer: nothing is lost, and the new one decides, and is told what was there before it.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};

use crate::common::{Pair, loopback, pattern, run};
use mpquic::sched::{
    ConnectionFacts, Context, Decision, MinRtt, PathUpdate, PathUpdateKind, Registry, Scheduler,
    SchedulerFactory, Side, StreamUpdate, StreamUpdateKind,
};
use mpquic::{Connection, PathId, PathStatus, SendStream, StreamHints, VarInt};

const SECOND: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// What a scheduler was told, and how often it decided.
#[derive(Default)]
struct Told {
    paths: Vec<(PathId, PathUpdateKind)>,
    streams: Vec<StreamUpdateKind>,
    decisions: u64,
}

/// The first path that can send, with notes.
struct Notes(Arc<Mutex<Told>>);

impl Scheduler for Notes {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        self.0.lock().unwrap().decisions += 1;
        match cx.sendable().next() {
            Some(path) => Decision::send(path.index),
            None => Decision::Wait { until: None },
        }
    }

    fn on_path(&mut self, event: &PathUpdate) {
        self.0.lock().unwrap().paths.push((event.id, event.kind));
    }

    fn on_stream(&mut self, event: &StreamUpdate) {
        self.0.lock().unwrap().streams.push(event.kind);
    }
}

async fn two_paths() -> (Pair, Connection, Connection) {
    let pair = Pair::with(&[loopback(1), loopback(2)], |_| ());
    let (client, server) = pair.connect().await;
    client.open_path(SECOND, pair.server_addr).await.unwrap();
    (pair, client, server)
}

/// Sends `data`, and calls `middle` when half of it is written.
async fn send(mut stream: SendStream, data: &[u8], middle: impl FnOnce()) {
    let (first, second) = data.split_at(data.len() / 2);
    stream.write_all(first).await.unwrap();
    middle();
    stream.write_all(second).await.unwrap();
    stream.finish().unwrap();
    stream.stopped().await.unwrap();
}

#[test]
fn the_new_one_decides_and_is_told_of_paths_and_streams() {
    run(async {
        let (_pair, client, server) = two_paths().await;
        let second = client.path(PathId(1)).unwrap();
        second.set_status(PathStatus::Backup).unwrap();
        let told = Arc::<Mutex<Told>>::default();
        let data = pattern(4 << 20);
        let stream = client.open_uni().await.unwrap();
        let hints = StreamHints {
            size: Some(data.len() as u64),
            tag: Some(17),
            priority: Some(3),
            ..StreamHints::default()
        };
        stream.set_hints(hints).unwrap();
        assert_eq!(stream.priority(), Ok(3));
        let notes = Arc::clone(&told);
        let switch = || client.set_scheduler(move || Box::new(Notes(Arc::clone(&notes))));
        let sending = send(stream, &data, switch);
        let receiving = async {
            let mut stream = server.accept_uni().await.unwrap();
            stream.read_to_end(data.len()).await.unwrap()
        };
        let ((), received) = tokio::join!(sending, receiving);
        assert!(received == data);
        let told = told.lock().unwrap();
        assert!(told.decisions > 100, "{}", told.decisions);
        use PathUpdateKind::{Opened, Status, Validated};
        let paths: Vec<_> = told.paths.iter().take(6).copied().collect();
        let expected = [(0, PathStatus::Available), (1, PathStatus::Backup)].map(|(id, status)| {
            let id = PathId(id);
            [(id, Opened), (id, Validated), (id, Status(status))]
        });
        assert_eq!(paths, expected.concat());
        assert_eq!(told.streams[0], StreamUpdateKind::Opened);
        assert_eq!(told.streams[1], StreamUpdateKind::Hint(hints));
        assert_eq!(told.streams[2], StreamUpdateKind::Written(2 << 20));
        let written = told.streams.iter().filter_map(|kind| match kind {
            StreamUpdateKind::Written(bytes) => Some(*bytes),
            _ => None,
        });
        assert_eq!(written.sum::<u64>(), 4 << 20);
        assert!(told.streams.contains(&StreamUpdateKind::Finished));
        let last = told.streams.last();
        assert_eq!(last, Some(&StreamUpdateKind::FullyAcked));
    });
}

#[test]
fn every_scheduler_can_take_the_place_of_another_one_in_the_middle() {
    run(async {
        let (_pair, client, server) = two_paths().await;
        let registry = Registry::new();
        let names: Vec<_> = registry.names().map(str::to_owned).collect();
        let data = pattern(300_000);
        for name in &names {
            let factory = registry.factory(name, &Default::default()).unwrap();
            let stream = client.open_uni().await.unwrap();
            let sending = send(stream, &data, || client.set_scheduler(factory));
            let receiving = async {
                let mut stream = server.accept_uni().await.unwrap();
                stream.read_to_end(data.len()).await.unwrap()
            };
            let ((), received) = tokio::join!(sending, receiving);
            assert!(received == data, "{name}");
        }
        assert!(names.len() > 10, "{names:?}");
        // Of a connection that is over, nothing is made new.
        client.close(VarInt::from_u32(0), b"");
        let told = Arc::<Mutex<Told>>::default();
        let notes = Arc::clone(&told);
        client.set_scheduler(move || Box::new(Notes(Arc::clone(&notes))));
        assert!(told.lock().unwrap().paths.is_empty());
    });
}

#[test]
fn a_factory_knows_the_connection() {
    run(async {
        let seen = Arc::<Mutex<Vec<ConnectionFacts>>>::default();
        let pair = Pair::with(&[loopback(1)], |transport| {
            let seen = Arc::clone(&seen);
            transport.scheduler(SchedulerFactory::for_each(move |facts| {
                seen.lock().unwrap().push(facts.clone());
                Box::new(MinRtt::default())
            }));
        });
        let (client, _server) = pair.connect().await;
        let near = pair.client.local_addrs()[0];
        let from_client = ConnectionFacts::new(Side::Client, pair.server_addr);
        let from_server = ConnectionFacts::new(Side::Server, near);
        assert_eq!(*seen.lock().unwrap(), [from_client.clone(), from_server]);
        // The one that takes its place knows the same.
        let notes = Arc::clone(&seen);
        client.set_scheduler(SchedulerFactory::for_each(move |facts| {
            notes.lock().unwrap().push(facts.clone());
            Box::new(MinRtt::default())
        }));
        assert_eq!(seen.lock().unwrap().last(), Some(&from_client));
    });
}
