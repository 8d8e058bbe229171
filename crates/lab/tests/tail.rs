//! The end of a download over two unlike paths: with copies of its last bytes, the slow path costs nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use mpquic_lab::runner::{self, Options};
use mpquic_lab::{Experiment, Plan};
use mpquic_proto::congestion::SlowStart;
use mpquic_proto::{
    Connection, Dir, PathId, ReadError, Side, StreamHints, StreamId, TransportConfig,
};
use mpquic_sched::{Context, Data, Decision, Scheduler};
use mpquic_sim::{BackToBack, LinkConfig, Network, TransferClient, TransferServer};

/// How long a download of 2 MB takes, with and without copies of its last bytes.
fn download(scheduler: &str, control: &str, tail_copies: bool) -> f64 {
    let network = "50Mbit 20ms | 2Mbit 100ms";
    run(network, "file:2MB", scheduler, control, tail_copies)["completion"]
}

/// What is measured in a run.
fn run(
    network: &str,
    workload: &str,
    scheduler: &str,
    control: &str,
    tail_copies: bool,
) -> BTreeMap<String, f64> {
    let [schedulers, controls] = [scheduler, control].map(|name| [name.to_owned()]);
    let experiment = Experiment::of_one_network(network, workload, &schedulers, &controls);
    let mut experiment = experiment.unwrap();
    experiment.seeds.count = 1;
    experiment.networks[0].slow_start = SlowStart::Rapid;
    experiment.networks[0].tail_copies = tail_copies;
    let plan = Plan::new(&experiment, None);
    let mut values = None;
    let options = Options {
        jobs: 1,
        ..Options::default()
    };
    runner::run(
        &plan,
        options,
        |_, _| false,
        |record| {
            values = record.measured().map(|run| run.values.clone());
            Ok(())
        },
    )
    .unwrap();
    values.unwrap()
}

#[test]
fn a_slow_path_costs_nothing_at_the_end() {
    for control in ["cubic", "bbr3"] {
        let alone = download("single", control, true);
        for scheduler in ["minrtt", "ecf", "rr"] {
            let [without, with] = [false, true].map(|tail| download(scheduler, control, tail));
            let context =
                format!("{scheduler} {control}: {without}, {with} with copies, {alone} alone");
            // With BBRv3, the better path's window holds what is left before the slow path is asked.
            let costs = without > 1.02 * alone;
            assert!(costs || control == "bbr3", "{context}");
            assert!(!costs || with < 0.9 * without, "{context}");
            assert!(with < 1.005 * alone, "{context}");
        }
    }
}

/// Sends packet by packet on the paths of `turns` that have room, data of this kind.
#[derive(Clone)]
struct Turns {
    turns: &'static [usize],
    bound: bool,
    next: usize,
}

impl Scheduler for Turns {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        for _ in self.turns {
            let slot = self.turns[self.next % self.turns.len()];
            self.next += 1;
            let Some(path) = cx.sendable().find(|path| path.index.get() == slot) else {
                continue;
            };
            return match cx.queue.head.filter(|_| self.bound) {
                Some(head) => Decision::send_data(path.index, Data::Stream(head.id)),
                None => Decision::send(path.index),
            };
        }
        Decision::Wait { until: None }
    }
}

/// The copies of a download of 200 kB: on which path the data was sent, and what a scheduler bound.
fn copies(turns: &'static [usize], bound: bool) -> [u64; 2] {
    let [slow, fast] = [(2_000_000, 100), (50_000_000, 20)]
        .map(|(rate, owd)| LinkConfig::new(rate, Duration::from_millis(owd)));
    let mut server = TransportConfig::default();
    let scheduler = Turns {
        turns,
        bound,
        next: 0,
    };
    server.scheduler(move || Box::new(scheduler.clone()));
    let mut network = Network::builder(1)
        .symmetric_path(slow)
        .symmetric_path(fast)
        .server_transport(server)
        .client(TransferClient::download(200_000))
        .server(TransferServer::new())
        .open_all_paths()
        .null_aead()
        .build()
        .unwrap();
    network.run_to_completion(Duration::from_secs(30)).unwrap();
    let server = network.connection(Side::Server).unwrap();
    [0, 1].map(|path| server.path(PathId(path)).unwrap().stats().copied_packets)
}

/// The scheduler stays master: copies go where it sends data itself, and none goes anywhere once it has said which stream
/// goes where.
#[test]
fn a_path_that_is_left_alone_gets_no_copies() {
    let [to_slow, to_fast] = copies(&[0, 1], false);
    assert!(to_slow == 0 && to_fast > 0, "{to_slow} {to_fast}");
    assert_eq!(copies(&[0], false), [0, 0]);
    assert_eq!(copies(&[0, 1], true), [0, 0]);
}

/// A connection of many requests comes to many ends.
#[test]
fn many_requests_pay_little() {
    let network = "50Mbit 10ms | 10Mbit 70ms";
    let duplicated = |copies| {
        let values = run(network, "requests:40:500kB", "minrtt", "bbr3", copies);
        values["duplicated"]
    };
    let copied = duplicated(true) - duplicated(false);
    // 256 KiB, 2 % of what paths carried with headers and copies, and the last packet.
    let most = 262.1 + 0.02 * 20_000.0 * 1.08 + 1.5;
    assert!((100.0..most).contains(&copied), "{copied} kB");
}

/// The server writes 16 MB on one stream, and what it has written is sent before it goes on: copied bytes.
fn piece_by_piece(finished: bool, delay: Duration) -> u64 {
    const PIECE: usize = 200_000;
    let mut transport = TransportConfig::default();
    transport.scheduler(|| Box::new(mpquic_sched::RoundRobin::default()));
    let mut pair = BackToBack::connect(transport, 2, delay, |_| {}).unwrap();
    let data = vec![0; PIECE];
    let (mut sent, mut read) = (0, 0);
    let (mut stream, mut opened) = (None, Vec::new());
    pair.run_while(|pair| {
        let server = pair.side(Side::Server).unwrap();
        if sent == read && sent < 80 * PIECE {
            let id = *stream.get_or_insert_with(|| server.streams().open(Dir::Uni).unwrap());
            sent += server.send_stream(id).write(&data).unwrap();
            if finished {
                server.send_stream(id).finish().unwrap();
                stream = None;
            }
        }
        read += read_all(pair.side(Side::Client).unwrap(), &mut opened);
        read < 80 * PIECE
    })
    .unwrap();
    copied(&mut pair)
}

/// Reads what has come on streams of the server, and keeps those in `opened` on which more is to come.
fn read_all(client: &mut Connection, opened: &mut Vec<StreamId>) -> usize {
    let (mut buf, mut read) = ([0; 4096], 0);
    opened.extend(std::iter::from_fn(|| client.streams().accept(Dir::Uni)));
    opened.retain(|id| {
        loop {
            match client.recv_stream(*id).read(&mut buf) {
                Ok(Some(bytes)) => read += bytes,
                result => return result == Err(ReadError::Blocked),
            }
        }
    });
    read
}

/// The bytes that the server has sent on a second path.
fn copied(pair: &mut BackToBack) -> u64 {
    let server = pair.side(Side::Server).unwrap();
    let of_path = |path| server.path(PathId(path)).unwrap().stats().copied_bytes;
    (0..2).map(of_path).sum()
}

/// A stream that is not finished pauses. Pauses take less, and leave the end its share.
#[test]
fn pauses_pay_less_than_ends() {
    let delay = Duration::from_millis(1);
    let [pauses, ends] = [false, true].map(|finished| piece_by_piece(finished, delay));
    let most = |budget: f64, part: f64| (budget + part * 16_000_000.0 * 1.05) as u64 + 1500;
    assert!(pauses <= most(65_536.0, 0.01), "{pauses}");
    assert!(ends > pauses && ends <= most(262_144.0, 0.02), "{ends}");
}

/// Between paths within a host, what is late is late because of the host: copies would cost it more of what it lacks.
#[test]
fn the_shortest_paths_get_no_copies() {
    assert_eq!(piece_by_piece(true, Duration::from_micros(200)), 0);
}

/// The server writes 50 kB, and behind it 5 kB, each in time for its deadline or without one: copied bytes.
fn two_streams(deadlines: [bool; 2]) -> u64 {
    let mut transport = TransportConfig::default();
    transport.scheduler(|| Box::new(mpquic_sched::RoundRobin::default()));
    let mut pair = BackToBack::connect(transport, 2, Duration::from_millis(1), |_| {}).unwrap();
    let sizes = [50_000, 5000];
    let late = pair.now() + Duration::from_secs(10);
    let server = pair.side(Side::Server).unwrap();
    for (order, (size, deadline)) in (0..).zip(sizes.into_iter().zip(deadlines)) {
        let id = server.streams().open(Dir::Uni).unwrap();
        let mut stream = server.send_stream(id);
        stream.set_priority(-order).unwrap();
        let hints = StreamHints {
            deadline: deadline.then_some(late),
            ..StreamHints::default()
        };
        stream.set_hints(hints).unwrap();
        assert_eq!(stream.write(&vec![0; size]), Ok(size));
        stream.finish().unwrap();
    }
    let (mut opened, mut read) = (Vec::new(), 0);
    pair.run_while(|pair| {
        read += read_all(pair.side(Side::Client).unwrap(), &mut opened);
        read < sizes.iter().sum()
    })
    .unwrap();
    copied(&mut pair)
}

/// What is in time for its deadline is not copied, and does not hide the end of another stream that was sent before it.
#[test]
fn an_end_without_a_deadline_is_copied_though_a_message_follows() {
    let [none, message, both] = [[false, false], [false, true], [true, true]].map(two_streams);
    assert!(0 < message && message < none, "{message} of {none}");
    assert_eq!(both, 0);
}
