//! A NAT gives the client of a transfer another outside address, once or four times: the download goes on within three
//! probe timeouts, and no rebinding is taken for congestion. `SEEDS=0..200` runs as many seeds.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use crate::support::{MEGABYTE, for_seeds, median, ms, seeds_or};
use mpquic_proto::{CongestionControl, PathId, Side, TransportConfig};
use mpquic_sim::{Action, LinkConfig, Network, TransferClient, TransferServer, content};

/// What a NAT may make of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outside {
    /// Another port: RFC 9000 section 9.4 keeps what is known of the path.
    Port,
    /// Another address, too.
    Host,
}

#[derive(Debug, Clone, Copy)]
struct Case {
    paths: usize,
    congestion: CongestionControl,
    rebindings: u8,
    outside: Outside,
}

/// What a run showed.
#[derive(Debug, Clone, Copy)]
struct Outcome {
    took: Duration,
    /// The longest time without data, in probe timeouts of the server when it began.
    stall: f64,
    congestion_events: u64,
}

fn wifi() -> LinkConfig {
    LinkConfig::new(20_000_000, ms(20))
}

fn lte() -> LinkConfig {
    LinkConfig::new(10_000_000, ms(40))
}

fn draw(seed: u64, number: u64, bound: u64) -> u64 {
    let mut bytes = [0; 8];
    content::fill(seed, 8 * number, &mut bytes);
    u64::from_le_bytes(bytes) % bound
}

/// What the NAT makes of the client's address after so many rebindings.
fn outside(case: Case, inside: SocketAddr, number: u8) -> SocketAddr {
    match case.outside {
        Outside::Port => SocketAddr::new(inside.ip(), 6000 + u16::from(number)),
        Outside::Host => SocketAddr::from(([203, 0, 113, number], inside.port())),
    }
}

/// The path's PTO without back-off (RFC 9002 section 6.2.1), with the default max_ack_delay.
fn pto(connection: &mpquic_proto::Connection, id: PathId) -> Duration {
    connection.path(id).map_or(ms(1000), |path| {
        let stats = path.stats();
        stats.rtt + (4 * stats.rtt_var).max(ms(1)) + ms(25)
    })
}

fn run(case: Case, seed: u64) -> Outcome {
    let bytes = 20 * MEGABYTE;
    let mut transport = TransportConfig::default();
    transport.congestion(case.congestion);
    let mut builder = Network::builder(seed).symmetric_path(wifi());
    if case.paths > 1 {
        builder = builder.symmetric_path(lte()).open_all_paths();
    } else {
        transport.max_paths(1);
    }
    let mut network = builder
        .transport(transport)
        .client(TransferClient::download(bytes))
        .server(TransferServer::new())
        .build()
        .unwrap();
    let inside: Vec<_> = (0..case.paths)
        .map(|path| network.client_address(path).unwrap())
        .collect();
    for number in 0..case.rebindings {
        let at = ms(700 + 1100 * u64::from(number) + draw(seed, number.into(), 600));
        for (client, address) in inside.iter().enumerate() {
            // Another network before each of them.
            let outside = outside(case, *address, 4 * client as u8 + number + 1);
            network.at(at, Action::Rebind { client, outside });
        }
    }
    // The longest time without data, in PTOs of the server when it began.
    let worst = Rc::new(Cell::new(0.0_f64));
    let seen = Rc::clone(&worst);
    let mut state = (0, Duration::ZERO, ms(1000));
    network.on_step(move |view| {
        let (Some(client), Some(server)) = (view.client, view.server) else {
            return Ok(());
        };
        let received = client.stats().received_stream_bytes;
        if received > state.0 {
            // Data that was on the way when the NAT moved still comes.
            if state.1 + ms(60) < view.now {
                let stall = (view.now - state.1).as_secs_f64() / state.2.as_secs_f64();
                seen.set(seen.get().max(stall));
            }
            let ids = [PathId::ZERO, PathId(1)];
            let ptos = ids.into_iter().filter(|id| server.path(*id).is_ok());
            state = (
                received,
                view.now,
                ptos.map(|id| pto(server, id)).max().unwrap_or(ms(1000)),
            );
        }
        Ok(())
    });
    let report = network.run_to_completion(Duration::from_secs(60)).unwrap();
    assert_eq!(report.delivered[0], bytes);
    let server = network.connection(Side::Server).unwrap();
    let events = server
        .paths()
        .iter()
        .map(|path| path.stats().congestion_events)
        .sum();
    Outcome {
        took: network.now(),
        stall: worst.get(),
        congestion_events: events,
    }
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for paths in [1, 2] {
        for congestion in [CongestionControl::Cubic, CongestionControl::Bbr] {
            for rebindings in [0, 1, 4] {
                for outside in [Outside::Port, Outside::Host] {
                    cases.push(Case {
                        paths,
                        congestion,
                        rebindings,
                        outside,
                    });
                }
            }
        }
    }
    cases
}

#[test]
fn a_download_goes_on_after_its_nat_moved_it() {
    let seeds = seeds_or(0..4);
    let mut undisturbed = None;
    for case in cases() {
        let outcomes = for_seeds(seeds.clone(), |seed| run(case, seed));
        let stall = outcomes
            .iter()
            .map(|outcome| outcome.stall)
            .fold(0.0, f64::max);
        let took: Vec<_> = outcomes.iter().map(|outcome| outcome.took).collect();
        let events: Vec<_> = outcomes
            .iter()
            .map(|outcome| outcome.congestion_events)
            .collect();
        println!(
            "{case:?}: median {:?}, longest {:?}, longest stall {stall:.2} PTO, congestion events {} (at most {:?})",
            median(&took),
            took.iter().max(),
            median(&events),
            events.iter().max(),
        );
        if case.rebindings == 0 {
            undisturbed = Some((median(&took), median(&events)));
            continue;
        }
        let (time, losses) = undisturbed.unwrap();
        assert!(stall <= 3.0, "{case:?}: a stall of {stall:.2} PTO");
        let (slowest, most) = (took.iter().max(), events.iter().max());
        // Data waits for a round trip with a full queue; the window of a new host begins anew.
        let late = u32::from(case.rebindings) * ms(500);
        assert!(slowest <= Some(&(time + late)), "{case:?}: {slowest:?}");
        // The window may meet the full queue another time, hardly more.
        let further = 1 + u64::from(case.rebindings);
        assert!(
            most <= Some(&(losses + further)),
            "{case:?}: {most:?} congestion events"
        );
    }
}
