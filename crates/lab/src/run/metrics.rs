//! The names, units and directions of metrics, except those that only a workload has.

use std::collections::BTreeMap;
use std::time::Duration;

use mpquic_proto::congestion::ResumeState;
use mpquic_proto::{Connection, PathId};
use mpquic_sim::workload::{Better, Metric};
use mpquic_sim::{Measurements, Report};
use serde::{Deserialize, Serialize};

use crate::run::learned;
use crate::run::time_lost;

/// A metric in results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricInfo {
    /// The key in the values.
    pub name: String,
    /// The unit; empty for a plain number.
    pub unit: String,
    /// Which direction is better; `None` if neither is.
    pub better: Option<Better>,
}

impl MetricInfo {
    pub(crate) fn new(name: &str, unit: &str, better: Option<Better>) -> Self {
        Self {
            name: name.to_owned(),
            unit: unit.to_owned(),
            better,
        }
    }
}

impl From<&Metric> for MetricInfo {
    fn from(metric: &Metric) -> Self {
        Self {
            name: metric.name.to_owned(),
            unit: metric.unit.to_owned(),
            better: Some(metric.better),
        }
    }
}

const LOWER: Option<Better> = Some(Better::Lower);

/// Metrics of the transport, which every workload has. The client receives the data, the server
/// sends it.
const TRANSPORT: &[(&str, &str, Option<Better>)] = &[
    // The out-of-order queue, sampled at each arrival.
    ("oqs_mean", "kB", LOWER),
    ("oqs_p50", "kB", LOWER),
    ("oqs_p95", "kB", LOWER),
    ("oqs_p99", "kB", LOWER),
    ("oqs_max", "kB", LOWER),
    // The same over time.
    ("oqs_time_mean", "kB", LOWER),
    ("retransmitted", "kB", LOWER),
    ("duplicated", "kB", None),
    ("reinjected", "kB", None),
    // What was sent twice, of all that was sent for the first time, and for what.
    ("copied", "%", None),
    ("copied_deadlines", "kB", None),
    ("copied_probes", "kB", None),
    ("copied_least", "kB", None),
    ("copied_late", "kB", None),
    ("copied_tails", "kB", None),
    ("lost", "%", LOWER),
    ("wait_time", "s", None),
    ("decisions", "", None),
    ("waits", "", None),
    ("simulated", "s", None),
    // Beside cross traffic.
    ("own_rate", "Mbit/s", None),
    ("jain", "", Some(Better::Higher)),
];

/// Metrics of each path, named `path1_share` and so on.
const OF_PATHS: &[(&str, &str, Option<Better>)] = &[
    ("share", "%", None),
    ("rate", "Mbit/s", None),
    ("lost", "%", LOWER),
    // Careful resume: the window that the server jumped to, and whether it had to retreat.
    ("jump", "kB", None),
    ("retreated", "", LOWER),
    // It did not jump because its round trip told of a queue, or was another one.
    ("refused", "", LOWER),
];

/// The values of the transport's metrics in a run that ended at `end`.
pub(crate) fn of_transport(measured: &Measurements, end: Duration) -> BTreeMap<String, f64> {
    let mut values = BTreeMap::new();
    let mut set = |name: &str, value: f64| {
        values.insert(name.to_owned(), value);
    };
    let (receiver, sender) = (&measured.client, &measured.server);
    if let Some(queue) = receiver.out_of_order {
        let kilobytes = |bytes: u64| bytes as f64 / 1e3;
        set("oqs_mean", queue.by_arrival.mean / 1e3);
        set("oqs_p50", kilobytes(queue.by_arrival.p50));
        set("oqs_p95", kilobytes(queue.by_arrival.p95));
        set("oqs_p99", kilobytes(queue.by_arrival.p99));
        set("oqs_max", kilobytes(queue.by_arrival.max));
        set("oqs_time_mean", queue.by_time.mean / 1e3);
    }
    let percent = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
    let all = sender.total();
    set("retransmitted", all.retransmitted_bytes as f64 / 1e3);
    set("duplicated", all.duplicated_bytes as f64 / 1e3);
    set("reinjected", all.reinjected_bytes as f64 / 1e3);
    let copies = sender.copies;
    let twice = all.duplicated_bytes + all.reinjected_bytes;
    let once = all
        .sent_stream_bytes
        .saturating_sub(twice + all.retransmitted_bytes);
    set("copied", percent(twice, once));
    for (name, bytes) in [
        ("copied_deadlines", copies.deadlines),
        ("copied_probes", copies.probes),
        ("copied_least", copies.least),
        ("copied_late", copies.late),
        ("copied_tails", copies.tails),
    ] {
        set(name, bytes as f64 / 1e3);
    }
    set("lost", percent(all.lost_packets, all.sent_packets));
    set("wait_time", sender.wait_time.as_secs_f64());
    set("decisions", sender.decisions as f64);
    set("waits", sender.waits as f64);
    set("simulated", end.as_secs_f64());
    for (number, path) in receiver.paths.iter().enumerate() {
        let seconds = end.as_secs_f64().max(1e-9);
        let number = number + 1;
        set(&format!("path{number}_share"), 100.0 * path.received_share);
        let rate = path.received_bytes as f64 * 8.0 / seconds / 1e6;
        set(&format!("path{number}_rate"), rate);
    }
    for (number, path) in sender.paths.iter().enumerate() {
        let lost = percent(path.lost_packets, path.sent_packets);
        set(&format!("path{}_lost", number + 1), lost);
    }
    values
}

/// Metrics of each flow of cross traffic, named `flow1_rate` and so on.
const OF_FLOWS: &[(&str, &str, Option<Better>)] = &[("rate", "Mbit/s", None)];

/// What the flows of cross traffic got, and how evenly they and the connection under test share (Jain's index; 1: each has as
/// much).
pub(crate) fn of_flows(report: &Report) -> Vec<(String, f64)> {
    if report.cross.is_empty() {
        return Vec::new();
    }
    let seconds = report.completed.as_secs_f64().max(1e-9);
    let own = report.delivered[0] as f64 * 8.0 / seconds;
    let others = report
        .cross
        .iter()
        .map(|flow| flow.goodput(report.completed));
    let rates: Vec<_> = std::iter::once(own).chain(others).collect();
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    let jain = sum * sum / (rates.len() as f64 * squares.max(f64::MIN_POSITIVE));
    let others = rates.iter().enumerate().skip(1);
    let mut values: Vec<_> = others
        .map(|(number, rate)| (format!("flow{number}_rate"), rate / 1e6))
        .collect();
    values.push(("own_rate".into(), own / 1e6));
    values.push(("jain".into(), jain));
    values
}

/// What came of careful resume on each path of the server. The paths are in the order in which they were opened:
/// `numbers` are theirs in the file, from 0.
pub(crate) fn of_resume(server: &Connection, numbers: &[usize]) -> Vec<(String, f64)> {
    let mut values = Vec::new();
    for (id, number) in numbers.iter().enumerate() {
        let Ok(stats) = server.path(PathId(id as u32)).map(|path| path.stats()) else {
            continue;
        };
        let number = number + 1;
        let retreated = matches!(
            stats.careful_resume,
            ResumeState::Retreated | ResumeState::SafeRetreat
        );
        values.push((format!("path{number}_jump"), stats.jump_window as f64 / 1e3));
        values.push((
            format!("path{number}_retreated"),
            f64::from(u8::from(retreated)),
        ));
        let refused = matches!(
            stats.careful_resume,
            ResumeState::QueueSeen | ResumeState::RttChanged
        );
        values.push((
            format!("path{number}_refused"),
            f64::from(u8::from(refused)),
        ));
    }
    values
}

/// Finds a metric by name: of the workload, the transport, a path, or a learning scheduler.
pub(crate) fn find(of_workload: &[MetricInfo], name: &str) -> Option<MetricInfo> {
    if let Some(metric) = of_workload.iter().find(|metric| metric.name == name) {
        return Some(metric.clone());
    }
    for (of, most, all) in [("path", 8, OF_PATHS), ("flow", u8::MAX, OF_FLOWS)] {
        if let Some((which, ending)) = name.split_once('_')
            && let Some(Ok(number)) = which.strip_prefix(of).map(str::parse::<u8>)
            && (1..=most).contains(&number)
            && let Some((_, unit, better)) = all.iter().find(|known| known.0 == ending)
        {
            return Some(MetricInfo::new(name, unit, *better));
        }
    }
    transport()
        .chain(learned::all())
        .chain(time_lost::metrics())
        .find(|metric| metric.name == name)
}

/// All metrics of the transport.
pub(crate) fn transport() -> impl Iterator<Item = MetricInfo> {
    let all = TRANSPORT.iter();
    all.map(|&(name, unit, better)| MetricInfo::new(name, unit, better))
}
