//! Random interaction: 500 seeds, a fifth of them a day, each with its own paths, links, schedulers, applications and
//! failures; in every second one the client's addresses change. Every stream arrives intact, or the
//! connection ends for a legitimate reason. All invariants hold at every step.

mod adversary;
mod app;
mod early;
mod invariants;
mod motion;
mod plan;
use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mpquic_proto::{ConnectionError, DatagramOptions, PathEvent, Side, TransportErrorCode, VarInt};
use mpquic_sim::{Action, Network, SimError};

use crate::support::{self, for_seeds, keep_hashes, median};
use app::Chaos;
use invariants::{History, MAX_ACK_DELAY, Watch, Wire};
use motion::Places;
use plan::{ABANDONED, Deed, Plan};

/// The application's close code.
const GOODBYE: u32 = 42;
/// Far longer than any run: the slowest take a few minutes of virtual time.
const LIMIT: Duration = Duration::from_secs(3600);

/// The default of servers.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The address that the server prefers, if it has one: the simulator's second one.
const PREFERRED: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 2), 4433);

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Intact,
    /// All paths were dead, or all attempts were lost.
    TimedOut,
    /// The last path was abandoned.
    NoPath,
}

struct Run {
    network: Network,
    wire: Rc<RefCell<Wire>>,
    history: Rc<RefCell<History>>,
    places: Rc<RefCell<Places>>,
    plan: Rc<Plan>,
}

fn act(network: &mut Network, deed: Deed) {
    let now = network.instant();
    let connection = |network: &'_ mut Network, side, f: &dyn Fn(&mut mpquic_proto::Connection)| {
        if let Some(connection) = network.connection_mut(side) {
            f(connection);
        }
    };
    match deed {
        Deed::Open { client } => {
            let path = network.four_tuple(client, 0).unwrap();
            // May be refused for many reasons: too early, too many, closed.
            connection(network, Side::Client, &|c| {
                let _ = c.open_path(now, path);
            });
        }
        Deed::Close { side, nth } => connection(network, side, &|c| {
            let open: Vec<_> = c.paths().ids().collect();
            if let Some(id) = open.get(nth % open.len().max(1)) {
                let _ = c.path_mut(*id).close(now, ABANDONED);
            }
        }),
        Deed::Cross => {
            for side in [Side::Client, Side::Server] {
                connection(network, side, &|c| {
                    let mut open: Vec<_> = c.paths().ids().collect();
                    if side == Side::Client {
                        open.reverse();
                    }
                    for id in open {
                        let _ = c.path_mut(id).close(now, ABANDONED);
                    }
                });
            }
        }
        Deed::Status { side, nth, status } => connection(network, side, &|c| {
            let open: Vec<_> = c.paths().ids().collect();
            if let Some(id) = open.get(nth % open.len().max(1)) {
                let _ = c.path_mut(*id).set_status(status);
            }
        }),
        Deed::KeyUpdate { side } => connection(network, side, &|c| c.force_key_update(now)),
        Deed::Ping { side } => connection(network, side, &mpquic_proto::Connection::ping),
        Deed::Datagram { side, size } => connection(network, side, &|c| {
            let (data, options) = (Bytes::from(vec![7; size]), DatagramOptions::new());
            let _ = c
                .datagrams()
                .send_with(data, options.tag(size as u64), false);
        }),
        // Planned as actions.
        Deed::Rate { .. } | Deed::Delay { .. } | Deed::Loss { .. } => {}
    }
}

impl Run {
    fn new(seed: u64, keep_trace: bool) -> Self {
        let plan = Rc::new(Plan::new(seed));
        let (mut client, mut server) = (plan.transport(Side::Client), plan.transport(Side::Server));
        let watch = Watch::new([&mut client, &mut server]);
        let mut builder = Network::builder(seed);
        // However long it takes until a packet of the client gets through: an idle timeout needs silence, and the
        // deadline of a handshake would end the connection without.
        let (long, retry) = (Duration::from_secs(24 * 3600), plan.retry);
        let preferred = plan.motions.preferred.then_some(PREFERRED);
        builder = builder.configure_client(move |config| {
            config.handshake_timeout(long);
        });
        builder = builder.configure_server(move |config| {
            config
                .handshake_timeout(long)
                .preferred_address_v4(preferred);
            if retry {
                config.retry_above(0).retry_token_lifetime(long);
            }
        });
        if keep_trace {
            builder = builder.keep_trace();
        }
        if let Some(early) = plan.early {
            let (client, server) = early::tls(seed, plan.transport(Side::Server), early);
            builder = builder.client_tls(client).server_tls(server);
        }
        if plan.motions.preferred {
            // The links lead to both addresses of the server.
            let links: Vec<_> = plan
                .links
                .iter()
                .map(|link| link.clone().map(|link| builder.shared_link(link)))
                .collect();
            for server in 0..2 {
                for (client, [up, down]) in links.iter().enumerate() {
                    builder = builder.path_between_through(client, server, [*up], [*down]);
                }
            }
        } else {
            for [up, down] in &plan.links {
                builder = builder.path(up.clone(), down.clone());
            }
        }
        let mut network = builder
            .client_transport(client)
            .server_transport(server)
            .client(Chaos::new(&plan, Side::Client))
            .server(Chaos::new(&plan, Side::Server))
            .max_datagrams(plan.max_datagrams)
            .build()
            .unwrap();
        let places = Places::new(&network, plan.links.len());
        let wire = watch.attach(&mut network, plan.links.len(), &places);
        let history = History::attach(&mut network, &places);
        plan.motions.plan(&mut network, &places);
        for dark in &plan.dark {
            let link = |up| Action::SetLinkUp {
                path: dark.path,
                from: None,
                up,
            };
            network.at(dark.from, link(false));
            if let Some(to) = dark.to {
                network.at(to, link(true));
            }
        }
        for (at, deed) in plan.deeds.iter().copied() {
            let action = match deed {
                Deed::Rate { path, rate } => Action::SetLinkRate {
                    path,
                    from: None,
                    rate: Some(rate),
                },
                Deed::Delay { path, delay } => Action::SetLinkDelay {
                    path,
                    from: None,
                    delay,
                },
                Deed::Loss { path, loss } => Action::SetLinkLoss {
                    path,
                    from: None,
                    loss,
                },
                deed => Action::call(move |network| act(network, deed)),
            };
            network.at(at, action);
        }
        Self {
            network,
            wire,
            history,
            places,
            plan,
        }
    }

    /// Runs to the end, and checks how it ended.
    fn run(&mut self) -> (End, u128, Duration) {
        let end = match self.network.run_to_completion(LIMIT) {
            Ok(_) => {
                let now = self.network.instant();
                let closer = match self.plan.seed % 2 {
                    0 => Side::Client,
                    _ => Side::Server,
                };
                if let Some(connection) = self.network.connection_mut(closer) {
                    connection.close(now, VarInt::from_u32(GOODBYE), Bytes::new());
                }
                let wake = self.network.now();
                self.network.at(wake, Action::call(|_| ()));
                End::Intact
            }
            Err(SimError::ConnectionLost { side, at, reason }) => self.judge(side, at, &reason),
            Err(error) => self.describe_and_panic(&error.to_string()),
        };
        let completed = self.network.now();
        let limit = completed + LIMIT;
        let drained = match self.plan.idle_timeout {
            Some(_) => self.network.run_until_drained(limit).map(|_| ()),
            // Without an idle timeout, a side that misses the close waits for ever.
            None => self.network.run_until(limit),
        };
        if let Err(error) = drained {
            self.describe_and_panic(&format!("after {end:?}: {error}"));
        }
        for side in [Side::Client, Side::Server] {
            if let Some((at, reason)) = self.network.lost(side).cloned() {
                self.judge_second(end, side, at, &reason);
            }
        }
        (end, self.network.trace_hash(), completed)
    }

    fn describe_and_panic(&self, message: &str) -> ! {
        if seeds().count() == 1 {
            for side in [Side::Client, Side::Server] {
                println!("{side:?}: lost {:?}", self.network.lost(side));
                println!("{:?}", self.network.app::<Chaos>(side));
                for (at, event) in self.network.path_events(side) {
                    println!("  {at:?} {event:?}");
                }
                if let Some(connection) = self.network.connection(side) {
                    for path in connection.paths().iter() {
                        println!("  {} {:?}", path.id(), path.stats());
                    }
                }
            }
        }
        panic!("{message}");
    }

    /// Checks that the connection had a legitimate reason to end.
    fn judge(&self, side: Side, at: Duration, reason: &ConnectionError) -> End {
        match reason {
            ConnectionError::TimedOut => {
                self.check_silence(side, at);
                End::TimedOut
            }
            ConnectionError::TransportError(error)
                if error.code == TransportErrorCode::NO_ERROR =>
            {
                self.check_abandoned(side);
                End::NoPath
            }
            ConnectionError::ConnectionClosed(close)
                if close.error_code == TransportErrorCode::NO_ERROR =>
            {
                self.check_abandoned(!side);
                End::NoPath
            }
            _ => self.fail(side, at, reason),
        }
    }

    /// The end of the other side, or the end after the application's close.
    fn judge_second(&self, end: End, side: Side, at: Duration, reason: &ConnectionError) {
        match (end, reason) {
            // The close may be lost, and a side that hears nothing any more must time out.
            (_, ConnectionError::TimedOut | ConnectionError::Reset) => {}
            // Nobody is left to answer the challenges of a server whose client has moved (RFC 9000 section 9.3.2).
            (_, ConnectionError::NoValidatedPath) if side == Side::Server => {}
            (End::Intact, ConnectionError::ApplicationClosed(close))
                if close.error_code == VarInt::from_u32(GOODBYE) => {}
            (End::Intact, ConnectionError::LocallyClosed) => {}
            // The server has given up the handshake, and takes one connection only.
            (End::TimedOut, ConnectionError::ConnectionClosed(close))
                if close.error_code == TransportErrorCode::CONNECTION_REFUSED
                    && self.network.handshake(Side::Server).0.is_none() => {}
            (End::NoPath, _) => {
                self.judge(side, at, reason);
            }
            _ => self.fail(side, at, reason),
        }
    }

    fn fail(&self, side: Side, at: Duration, reason: &ConnectionError) -> ! {
        self.describe_and_panic(&format!("{side:?} ended at {at:?}: {reason}"));
    }

    /// An idle timeout needs silence (RFC 9000 section 10.1), and the silence needs a cause: no
    /// path was open at both ends and alive all the time, or all attempts on such paths were lost.
    fn check_silence(&self, side: Side, at: Duration) {
        // A server gives up a handshake that is not complete in ten seconds.
        let incomplete = self.network.handshake(side).0.is_none();
        if side == Side::Server && incomplete && at >= HANDSHAKE_TIMEOUT {
            return;
        }
        let idle = self.plan.idle_timeout.expect("an idle timeout");
        let since = at.saturating_sub(idle);
        let wire = self.wire.borrow();
        if let Some(heard) = wire.heard(side) {
            let silence = (self.network.instant() - (self.network.now() - at)) - heard;
            assert!(
                silence >= idle,
                "{side:?} at {at:?}: timed out after {silence:?}"
            );
        }
        let open = self.history.borrow().open_throughout(since, at);
        for links in open {
            let excused = links.iter().any(|link| {
                let dark = self.plan.dark.iter().any(|dark| {
                    dark.path == *link && dark.from < at && dark.to.is_none_or(|to| to > since)
                });
                let tried = wire.attempts.iter().filter(|attempt| {
                    attempt.path == *link && attempt.at > since && attempt.at <= at
                });
                let lossy = self.plan.is_lossy(*link);
                dark || (lossy && (tried.count() > 3 || self.is_backing_off(*link)))
            });
            if !excused {
                self.describe_and_panic(&format!(
                    "{side:?} timed out at {at:?}, a path alive on links {links:?}"
                ));
            }
        }
    }

    /// Whether a side's probes of a path have become so rare that an idle timeout sees few of them: the PTO has doubled
    /// often, or it is long. An outage in the midst of the handshake makes for an RTT sample of many seconds, if the
    /// server's answer to it comes once the handshake is confirmed (RFC 9002 section 5.3).
    fn is_backing_off(&self, number: usize) -> bool {
        let idle = self.plan.idle_timeout.expect("an idle timeout");
        let sides = [Side::Client, Side::Server].into_iter();
        let connections = sides.filter_map(|side| self.network.connection(side));
        let places = self.places.borrow();
        connections.into_iter().any(|connection| {
            let mut paths = connection.paths().iter();
            paths.any(|path| {
                let (addresses, stats) = (path.network_path(), path.stats());
                let mut ends = [addresses.local, addresses.remote].into_iter();
                let here = ends.any(|end| places.link_of(end) == Some(number));
                let slack = 4 * stats.rtt_var + MAX_ACK_DELAY;
                let pto = (stats.rtt + slack).saturating_mul(1 << stats.pto_count.min(20));
                here && stats.in_flight > 0 && (stats.pto_count > 3 || 2 * pto > idle)
            })
        })
    }

    /// All paths that this side ever opened are abandoned.
    fn check_abandoned(&self, side: Side) {
        assert!(self.plan.closes_paths());
        let events = self.network.path_events(side);
        for (_, event) in events {
            if let PathEvent::Opened { id } = *event {
                let gone = |event: &PathEvent| matches!(event, PathEvent::Abandoned { id: other, .. } if *other == id);
                let gone = events.iter().any(|(_, event)| gone(event));
                assert!(gone, "{side:?} closed with path {id} open");
            }
        }
    }
}

fn seeds() -> std::ops::Range<u64> {
    support::seeds_of_today(0..500)
}

#[test]
fn every_stream_arrives_or_the_connection_ends_for_a_reason() {
    let began = Instant::now();
    let seeds = seeds();
    let verbose = seeds.end - seeds.start == 1;
    let results = for_seeds(seeds.clone(), |seed| {
        if verbose {
            println!("{:#?}", Plan::new(seed));
        }
        if std::env::var("DUMP").is_ok() {
            let mut run = Run::new(seed, true);
            run.network.on_datagram(|i| {
                println!(
                    "D {:?} {:?} p{:?} {} {:?}",
                    i.at,
                    i.from,
                    i.path.unwrap_or(99),
                    i.size,
                    i.what
                )
            });
            run.run();
        }
        let (end, hash, completed) = Run::new(seed, false).run();
        if seed % 10 == 0 && Run::new(seed, false).run().1 != hash {
            // The first difference is a better message than the fact that they differ.
            let [first, second] = [(); 2].map(|()| {
                let mut run = Run::new(seed, true);
                run.run();
                run.network.trace().to_vec()
            });
            let parted = first.iter().zip(&second).position(|(a, b)| a != b);
            let near = parted.map(|at| (&first[at], &second[at]));
            panic!("two runs of seed {seed} part at {parted:?}: {near:?}");
        }
        (end, completed, hash)
    });
    keep_hashes(
        "random_interaction",
        seeds.zip(results.iter().map(|result| result.2)),
    );
    for end in [End::Intact, End::TimedOut, End::NoPath] {
        let times: Vec<_> = results
            .iter()
            .filter(|result| result.0 == end)
            .map(|result| result.1)
            .collect();
        if let Some(longest) = times.iter().max() {
            let (count, typical) = (times.len(), median(&times));
            println!("{count} runs {end:?}: after {typical:?}, at most {longest:?}");
        }
    }
    println!("{} seeds in {:?}", results.len(), began.elapsed());
    let intact = results.iter().filter(|result| result.0 == End::Intact);
    assert!(intact.count() * 10 > results.len() * 7);
}
