//! What the user says of links, kept on both sides of a connection: rates, weights, and how much may be used in a month.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path as FilePath;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use mpquic::sched::SchedulerFactory;
use mpquic::{Connection, Path, PathId, PathStats, PathStatus};
use mpquic_peer::{LinkRule, Usage, size_text};
use serde_json::json;
use tokio::time::sleep;

use crate::client::{Client, NotOpened, Uplink};
use crate::error::Error;
use crate::interfaces;
use crate::journal::Journal;
use crate::wire::Request;

/// How often bytes are counted.
const LOOK: Duration = Duration::from_secs(1);
/// How many looks pass until what was counted is written.
const KEEP: u32 = 5;
/// How often a server is asked that does not know the path yet.
const ASKED: u32 = 5;
/// What a link without a weight weighs beside those that have one.
const WEIGHT: u32 = 1;

/// The rules of a client, and what its links carried.
#[derive(Debug, Default)]
pub(crate) struct Links {
    rules: Vec<LinkRule>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    usage: Option<Usage>,
    paths: BTreeMap<PathId, Seen>,
    /// For which paths the weights were set.
    weighed: Vec<PathId>,
}

/// A path of the connection that there is now.
#[derive(Debug)]
struct Seen {
    path: Path,
    local: IpAddr,
    /// Which rule is about it.
    rule: Option<usize>,
    counted: u64,
    /// What the rules last made of it.
    status: PathStatus,
    /// How often the server was asked to keep to the rate.
    asked: u32,
    is_told: Arc<Mutex<bool>>,
}

impl Links {
    /// With what was used before, by a file; without one, nothing is counted.
    pub(crate) fn new(rules: Vec<LinkRule>, usage: Option<&FilePath>) -> Result<Self, Error> {
        let has_quota = rules.iter().any(|rule| rule.quota.is_some());
        let usage = usage.filter(|_| has_quota).map(Usage::at).transpose()?;
        Ok(Self {
            rules,
            state: Mutex::new(State {
                usage,
                ..State::default()
            }),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rule_of(&self, local: IpAddr) -> Option<usize> {
        let interface = interfaces::name_of(local);
        self.rules.iter().position(|rule| {
            Some(&rule.link) == interface.as_ref() || rule.link.parse() == Ok(local)
        })
    }

    /// Keeps the rules on a connection, until it ends.
    pub(crate) async fn govern(&self, client: &Client, uplink: Uplink) {
        if self.rules.is_empty() {
            return;
        }
        let mut events = uplink.connection().path_events();
        {
            let mut state = self.state();
            state.paths.clear();
            state.weighed.clear();
        }
        self.tell(&client.journal);
        let mut looks = 0;
        loop {
            self.look(client, &uplink);
            tokio::select! {
                event = events.recv() => if event.is_none() { break },
                () = sleep(LOOK) => looks += 1,
            }
            if looks == KEEP {
                looks = 0;
                self.keep(&client.journal);
            }
        }
        self.keep(&client.journal);
    }

    /// How much was used in this month.
    fn tell(&self, journal: &Journal) {
        let state = self.state();
        let Some(usage) = &state.usage else { return };
        for rule in &self.rules {
            if let Some(quota) = rule.quota {
                let used = size_text(usage.used(&rule.link, SystemTime::now()));
                let quota = size_text(quota);
                journal.line(format_args!("{}: {used} of {quota} are used", rule.link));
            }
        }
    }

    /// Counts, and writes what was counted.
    pub(crate) fn keep(&self, journal: &Journal) {
        let mut state = self.state();
        self.count(&mut state);
        if let Some(usage) = &mut state.usage
            && let Err(error) = usage.keep()
        {
            journal.line(format_args!("what links carried is not kept: {error}"));
        }
    }

    fn count(&self, state: &mut State) {
        let State { usage, paths, .. } = state;
        let Some(usage) = usage else { return };
        for seen in paths.values_mut() {
            let (Some(rule), Ok(stats)) = (seen.rule, seen.path.stats()) else {
                continue;
            };
            let carried = carried(&stats, seen.local);
            let more = carried.saturating_sub(seen.counted);
            seen.counted = seen.counted.max(carried);
            if more > 0 {
                usage.add(&self.rules[rule].link, more, SystemTime::now());
            }
        }
    }

    /// Finds new paths, and what is to change.
    fn look(&self, client: &Client, uplink: &Uplink) {
        let mut state = self.state();
        for path in uplink.connection().paths() {
            let Ok(network) = path.network_path() else {
                continue;
            };
            let local = network.local.ip();
            let seen = state.paths.entry(path.id()).or_insert_with(|| Seen {
                path,
                local,
                rule: self.rule_of(local),
                counted: 0,
                status: PathStatus::Available,
                asked: 0,
                is_told: Arc::default(),
            });
            // It may have moved.
            if seen.local != local {
                seen.local = local;
                seen.rule = self.rule_of(local);
            }
        }
        self.count(&mut state);
        let State {
            usage,
            paths,
            weighed,
        } = &mut *state;
        paths.retain(|_, seen| seen.path.status().is_ok());
        let outs = client.outs().clone();
        for seen in paths.values_mut() {
            let Some(rule) = seen.rule.map(|rule| &self.rules[rule]) else {
                continue;
            };
            let used = usage.as_ref();
            let used = used.map_or(0, |usage| usage.used(&rule.link, SystemTime::now()));
            let is_spent = rule.quota.is_some_and(|quota| used >= quota);
            let status = match rule.metered || is_spent {
                true => PathStatus::Backup,
                false => PathStatus::Available,
            };
            if status != seen.status && !outs.contains(&seen.local) {
                seen.status = status;
                // It may be closed by now.
                let _ = seen.path.set_status(status);
                let quota = size_text(rule.quota.unwrap_or(0));
                let about = match (is_spent, status) {
                    (true, _) => format!("{quota} are used: a backup until the month ends"),
                    (false, PathStatus::Backup) => "metered: a backup".to_owned(),
                    (false, PathStatus::Available) => "a new month: no backup any more".to_owned(),
                };
                client.journal.line(format_args!("{}: {about}", rule.link));
            }
            let is_told = *seen.is_told.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(rate) = rule.rate
                && !is_told
                && seen.asked < ASKED
            {
                seen.asked += 1;
                let rate = rate.bytes_per_second();
                let _ = seen.path.set_max_rate(Some(rate));
                let request = Request::Limit(seen.path.id().0, rate);
                let (told, uplink) = (Arc::clone(&seen.is_told), uplink.clone());
                let journal = (seen.asked == ASKED).then(|| Arc::clone(&client.journal));
                let link = rule.link.clone();
                tokio::spawn(async move {
                    match uplink.open(&request).await {
                        Ok(_) => *told.lock().unwrap_or_else(PoisonError::into_inner) = true,
                        Err(NotOpened::Away) | Err(NotOpened::Refused(_)) => {
                            if let Some(journal) = journal {
                                journal.line(format_args!(
                                    "{link}: the server does not keep to the rate"
                                ));
                            }
                        }
                    }
                });
            }
        }
        let ids: Vec<PathId> = paths.keys().copied().collect();
        let has_weights = self.rules.iter().any(|rule| rule.weight.is_some());
        if has_weights && *weighed != ids && client.scheduler().is_none() {
            let weight = |seen: &Seen| {
                let rule = seen.rule.map(|rule| &self.rules[rule]);
                rule.and_then(|rule| rule.weight).unwrap_or(WEIGHT)
            };
            let shares: Vec<_> = paths
                .iter()
                .map(|(id, seen)| (id.0, weight(seen)))
                .collect();
            weigh(uplink, shares);
            *weighed = ids;
        }
    }
}

/// What a path carried with the heads of IP and UDP, for which operators ask money, too.
fn carried(stats: &PathStats, local: IpAddr) -> u64 {
    let head = if local.is_ipv4() { 28 } else { 48 };
    let packets = stats.sent_datagrams + stats.received_datagrams;
    stats.sent_bytes + stats.received_bytes + head * packets
}

fn weigh(uplink: &Uplink, shares: Vec<(u32, u32)>) {
    if let Some(factory) = by_shares(&shares) {
        uplink.connection().set_scheduler(factory);
        let uplink = uplink.clone();
        // A server that does not know it goes on with its own scheduler.
        tokio::spawn(async move { uplink.open(&Request::Shares(shares)).await.map(drop) });
    }
}

/// The scheduler that gives each path its share; `None` if the shares make no sense.
fn by_shares(shares: &[(u32, u32)]) -> Option<SchedulerFactory> {
    let ids: Vec<u32> = shares.iter().map(|(id, _)| *id).collect();
    let weights: Vec<u32> = shares.iter().map(|(_, weight)| *weight).collect();
    let config = json!({ "mode": "load_balancing", "paths": ids, "shares": weights });
    mpquic_peer::schedulers().factory("atsss", &config).ok()
}

/// The server's part: it sends no faster on a path of this client's.
pub(crate) fn limit(connection: &Connection, path: u32, rate: u64) -> bool {
    let mut paths = connection.paths().into_iter();
    let path = paths.find(|open| open.id().0 == path);
    path.is_some_and(|path| path.set_max_rate((rate > 0).then_some(rate)).is_ok())
}

/// The server's part: it gives each path its share.
pub(crate) fn share(connection: &Connection, shares: &[(u32, u32)]) -> bool {
    let factory = by_shares(shares);
    factory.is_some_and(|factory| {
        connection.set_scheduler(factory);
        true
    })
}
