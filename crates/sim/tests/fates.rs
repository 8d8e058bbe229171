//! What is told of datagrams with a tag, beside what arrived: over links that lose, reorder and duplicate, while one of them
//! goes dark and its path is closed.

use std::collections::BTreeMap;
use std::time::Duration;

use mpquic_proto::{
    DatagramFate, DatagramOptions, Fate, PathErrorCode, PathEvent, PathId, Side, TransportConfig,
    Unsendable,
};
use mpquic_sim::{Action, LinkConfig, Network};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const SECOND: PathId = PathId(1);
const SIZE: usize = 900;
/// The second path is dark from then on, and closed later.
const DARK: u64 = 3000;
const CLOSED: u64 = 3600;
const END: u64 = 5000;

/// What became of a datagram.
#[derive(Default)]
struct Story {
    sent: usize,
    ends: Vec<Fate>,
    found: usize,
    arrived: usize,
}

fn link(rate: u64, delay: u64, impaired: bool) -> LinkConfig {
    let mut link = LinkConfig::new(rate, ms(delay));
    if impaired {
        link.loss = 0.03;
        link.reordering = 0.02;
        link.reordering_delay = ms(30);
        link.duplication = 0.01;
    }
    link
}

fn network(seed: u64, impaired: bool) -> Network {
    let mut network = Network::builder(seed)
        .symmetric_path(link(8_000_000, 10, impaired))
        .symmetric_path(link(5_000_000, 35, impaired))
        .transport(TransportConfig::default())
        .open_all_paths()
        .null_aead()
        .build()
        .unwrap();
    network.run_until(ms(1000)).unwrap();
    network
}

/// Takes what the sender is told, and what the receiver has got.
fn drain(network: &mut Network, stories: &mut BTreeMap<u64, Story>) {
    let client = network.connection_mut(Side::Client).unwrap();
    while let Some(DatagramFate { tag, fate }) = client.datagrams().fate() {
        let story = stories.get_mut(&tag).unwrap();
        match fate {
            Fate::Sent { .. } => story.sent += 1,
            Fate::Acknowledged {
                after_loss: true, ..
            } => story.found += 1,
            _ => story.ends.push(fate),
        }
    }
    let server = network.connection_mut(Side::Server).unwrap();
    while let Some(data) = server.datagrams().recv() {
        let tag = u64::from_be_bytes(data[..8].try_into().unwrap());
        stories.get_mut(&tag).unwrap().arrived += 1;
    }
}

/// Sends from the client at this time.
fn send(network: &mut Network, at: u64, data: Vec<u8>, options: DatagramOptions) {
    let send = Action::call(move |network| {
        let client = network.connection_mut(Side::Client).unwrap();
        // A path may be closed by then.
        let _ = client.datagrams().send_with(data.into(), options, true);
    });
    network.at(ms(at), send);
}

/// A datagram each 2 ms of each kind in turn: by the scheduler, on a path, on all, with a deadline. Until the second path is
/// closed, or to the end.
fn chat(network: &mut Network, end: u64) -> BTreeMap<u64, Story> {
    let mut stories = BTreeMap::new();
    let start = network.instant() - network.now();
    for number in 0..(end - 1000) / 2 {
        let at = 1000 + 2 * number;
        let options = match number % 5 {
            0 => DatagramOptions::new(),
            1 => DatagramOptions::new().path(PathId::ZERO),
            2 => DatagramOptions::new().path(SECOND),
            3 => DatagramOptions::new().all_paths(),
            _ => DatagramOptions::new().deadline(start + ms(at + 4)),
        };
        let mut data = vec![7; SIZE];
        data[..8].copy_from_slice(&number.to_be_bytes());
        send(network, at, data, options.tag(number));
        stories.insert(number, Story::default());
    }
    for step in 100..END / 10 {
        network.run_until(ms(10 * step)).unwrap();
        drain(network, &mut stories);
    }
    network.run_until(ms(END + 10_000)).unwrap();
    drain(network, &mut stories);
    stories
}

#[test]
fn each_datagram_has_one_end_and_it_is_true() {
    let (mut lost, mut found, mut unsent, mut wrong) = (0, 0, 0, 0);
    for seed in 0..6 {
        let mut network = network(seed, true);
        network.at(
            ms(DARK),
            Action::SetLinkUp {
                path: 1,
                from: None,
                up: false,
            },
        );
        network.at(
            ms(CLOSED),
            Action::ClosePath {
                side: Side::Client,
                id: SECOND,
                code: PathErrorCode::APPLICATION_ABANDON_PATH,
            },
        );
        let stories = chat(&mut network, CLOSED);

        let start = network.instant() - network.now();
        for (tag, story) in &stories {
            let of = format!("seed {seed}, datagram {tag}: {:?}", story.ends);
            assert!(story.found <= 1, "{of}");
            match story.ends[..] {
                [Fate::Acknowledged { sent, at, .. }] => {
                    assert!(story.arrived > 0 && story.sent > 0 && sent < at, "{of}");
                    assert_eq!(story.found, 0, "{of}");
                }
                [Fate::Lost { path, sent, at }] => {
                    assert!(story.sent > 0 && sent < at, "{of}");
                    assert!(story.found == 0 || story.arrived > 0, "{of}");
                    lost += 1;
                    if story.found == 0 && story.arrived > 0 {
                        // Its acknowledgement went down with the path, and nothing else makes a loss wrong.
                        let from = start + ms(DARK - 150);
                        assert!(path == SECOND && sent >= from, "{of}");
                        wrong += 1;
                    }
                }
                [Fate::Unsent { why }] => {
                    assert!(story.found == 0 || story.arrived > 0, "{of}");
                    assert!(story.arrived <= story.sent * 2, "{of}");
                    let whys = [
                        Unsendable::Expired,
                        Unsendable::PathEnded,
                        Unsendable::Displaced,
                    ];
                    assert!(whys.contains(&why), "{of}");
                    unsent += 1;
                }
                _ => panic!("{of}"),
            }
            found += story.found;
        }
        let client = network.connection_mut(Side::Client).unwrap();
        assert_eq!(client.stats().dropped_fates, 0);
    }
    println!(
        "{lost} lost, {found} of them found, {wrong} not though they arrived; {unsent} unsent"
    );
    assert!(lost > 100 && found > 10 && unsent > 10);
}

/// On links without a fault, nothing is lost, and the times are those of the link.
#[test]
fn times_are_those_of_the_path() {
    let mut network = network(1, false);
    let stories = chat(&mut network, END);
    let mut slowest = [Duration::ZERO; 2];
    for (tag, story) in &stories {
        let [Fate::Acknowledged { path, sent, at, .. }] = story.ends[..] else {
            panic!("{tag}: {:?}", story.ends);
        };
        let (took, least) = (at - sent, [ms(20), ms(70)][path.0 as usize]);
        assert!(took >= least, "{took:?}");
        let slowest = &mut slowest[path.0 as usize];
        *slowest = took.max(*slowest);
    }
    // A packet that is acknowledged with the next one, or by the peer's timer.
    assert!(slowest[0] < ms(60) && slowest[1] < ms(110), "{slowest:?}");
}

/// A path that carries 400 datagrams a second goes dark: that is told a round trip and 20 ms later, and so is its return.
#[test]
fn a_black_hole_is_told_of_within_a_round_trip_and_the_time_that_was_asked_for() {
    let mut network = network(1, false);
    let client = network.connection_mut(Side::Client).unwrap();
    for id in [PathId::ZERO, SECOND] {
        client.path_mut(id).watch_silence(Some(ms(20))).unwrap();
    }
    let dark = |up| Action::SetLinkUp {
        path: 1,
        from: None,
        up,
    };
    network.at(ms(3000), dark(false));
    network.at(ms(4000), dark(true));
    // Two at a time, which are acknowledged at once.
    for number in 0..1600 {
        let at = 1000 + 5 * (number / 2);
        for path in [PathId::ZERO, SECOND] {
            let options = DatagramOptions::new().path(path);
            send(&mut network, at, vec![7; SIZE], options);
        }
    }
    network.run_until(ms(END)).unwrap();
    let told = network.path_events(Side::Client).iter();
    let told: Vec<_> = told
        .filter_map(|(at, event)| match event {
            PathEvent::Silent { id, .. } => Some((*at, *id, true)),
            PathEvent::Heard { id } => Some((*at, *id, false)),
            _ => None,
        })
        .collect();
    println!("{told:?}");
    let [(silent, SECOND, true), (heard, SECOND, false)] = told[..] else {
        panic!("{told:?}");
    };
    // The round trip is 70 ms and grows by a queue of a few packets; what was on its way when the link went dark is lost, too.
    assert!((ms(3050)..ms(3110)).contains(&silent), "{silent:?}");
    assert!((ms(4000)..ms(4600)).contains(&heard), "{heard:?}");
}
