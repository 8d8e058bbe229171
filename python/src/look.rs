//! One run with its time lines: what paths, packets and decisions did, as arrays.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mpquic_lab::{Measured, Sweep};
use mpquic_proto::{
    Choice, FourTuple, Observation, Observer, PacketReceived, PacketSent, PathId, Side,
};
use mpquic_sim::{Network, PathTimeline, Series, SideTimeline, Timeline};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::error::value_error;

/// An interval given in seconds.
pub(crate) fn interval(seconds: f64) -> PyResult<Duration> {
    let interval = Duration::try_from_secs_f64(seconds).ok();
    interval
        .filter(|interval| !interval.is_zero())
        .ok_or_else(|| value_error(format!("interval {seconds}, expected a time above 0 s")))
}

/// Executes a run, with its time lines if an interval is given.
pub(crate) fn run(
    sweep: &Sweep,
    run: usize,
    stop: &Arc<AtomicBool>,
    interval: Option<Duration>,
) -> Result<(Measured, Option<Seen>), String> {
    let logs: [Arc<Mutex<Log>>; 2] = Default::default();
    let (measured, network) = sweep.watch(run, stop, |builder| match interval {
        None => builder,
        Some(interval) => {
            let logs = logs.clone();
            builder.timeline(interval).observer(move |side, origin| {
                let log = Arc::clone(&logs[number(side)]);
                Some(Box::new(Watcher { origin, log }))
            })
        }
    })?;
    let seen = network.timeline().map(|timeline| {
        let logs = logs.each_ref().map(|log| {
            let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *log)
        });
        Seen::new(&network, timeline, logs)
    });
    Ok((measured, seen))
}

const fn number(side: Side) -> usize {
    match side {
        Side::Client => 0,
        Side::Server => 1,
    }
}

/// Packets or decisions, a column each. `what` is bytes, or what was decided.
#[derive(Debug, Default)]
struct Events {
    at: Vec<f64>,
    path: Vec<i64>,
    what: Vec<i64>,
}

impl Events {
    fn push(&mut self, at: f64, path: i64, what: i64) {
        self.at.push(at);
        self.path.push(path);
        self.what.push(what);
    }
}

/// What one side did. Paths are path IDs.
#[derive(Debug, Default)]
struct Log {
    tuples: BTreeMap<u32, FourTuple>,
    sent: Events,
    received: Events,
    lost: Events,
    decided: Events,
}

/// Writes a log.
struct Watcher {
    origin: Instant,
    log: Arc<Mutex<Log>>,
}

impl Watcher {
    fn note(&self, now: Instant, note: impl FnOnce(&mut Log, f64)) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        note(
            &mut log,
            now.saturating_duration_since(self.origin).as_secs_f64(),
        );
    }
}

impl Observer for Watcher {
    fn on_packet_sent(&mut self, packet: &PacketSent<'_>) {
        let path = packet.space.path().0.into();
        self.note(packet.now, |log, at| {
            log.sent.push(at, path, packet.size.into())
        });
    }

    fn on_packet_received(&mut self, packet: &PacketReceived<'_>) {
        let path = packet.space.path().0.into();
        let size = packet.size() as i64;
        self.note(packet.now, |log, at| log.received.push(at, path, size));
    }

    fn on_event(&mut self, now: Instant, event: &Observation<'_>) {
        self.note(now, |log, at| match event {
            Observation::Started(started) => {
                log.tuples.insert(PathId::ZERO.0, started.tuple);
            }
            Observation::Path(change) => {
                if let Some(tuple) = change.tuple {
                    log.tuples.entry(change.id.0).or_insert(tuple);
                }
            }
            Observation::Lost(lost) => {
                let path = lost.space.path().0.into();
                log.lost.push(at, path, lost.size.into());
            }
            Observation::Decided(decided) => match decided.choice {
                Choice::Send { path, .. } => log.decided.push(at, path.0.into(), 1),
                Choice::Overridden { path } => log.decided.push(at, path.0.into(), 2),
                _ => log.decided.push(at, -1, 0),
            },
            _ => {}
        });
    }
}

/// The time lines of a run.
pub(crate) struct Seen {
    timeline: Timeline,
    logs: [Log; 2],
}

impl Seen {
    /// Names paths by their place in the network instead of their path IDs.
    fn new(network: &Network, timeline: Timeline, mut logs: [Log; 2]) -> Self {
        let count = timeline.client.paths.len();
        for (side, log) in logs.iter_mut().enumerate() {
            let place = |ip: IpAddr| {
                let of = |place: usize| match side {
                    0 => network.client_address(place),
                    _ => network.outside_address(place),
                };
                (0..count).find(|place| of(*place).is_some_and(|address| address.ip() == ip))
            };
            let places: BTreeMap<i64, i64> = log
                .tuples
                .iter()
                .filter_map(|(id, tuple)| {
                    let client = [tuple.local, tuple.remote][side];
                    Some((i64::from(*id), place(client.ip())? as i64))
                })
                .collect();
            for events in [
                &mut log.sent,
                &mut log.received,
                &mut log.lost,
                &mut log.decided,
            ] {
                for path in &mut events.path {
                    *path = places.get(path).copied().unwrap_or(-1);
                }
            }
        }
        Self { timeline, logs }
    }

    pub(crate) fn into_python<'py>(self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let told = PyDict::new(py);
        let interval = self.timeline.interval_s;
        told.set_item("interval", interval)?;
        told.set_item("end", self.timeline.end_s)?;
        let [client, server] = self.logs;
        told.set_item("client", side(py, interval, &self.timeline.client, client)?)?;
        told.set_item("server", side(py, interval, &self.timeline.server, server)?)?;
        Ok(told)
    }
}

fn side<'py>(
    py: Python<'py>,
    interval: f64,
    timeline: &SideTimeline,
    log: Log,
) -> PyResult<Bound<'py, PyDict>> {
    let told = PyDict::new(py);
    let paths = timeline.paths.iter().map(|line| path(py, interval, line));
    told.set_item(
        "paths",
        PyList::new(py, paths.collect::<PyResult<Vec<_>>>()?)?,
    )?;
    told.set_item(
        "out_of_order",
        series(py, interval, &timeline.out_of_order, 1.0)?,
    )?;
    for (name, what, events) in [
        ("sent", "bytes", log.sent),
        ("received", "bytes", log.received),
        ("lost", "bytes", log.lost),
        ("decisions", "kind", log.decided),
    ] {
        let columns = PyDict::new(py);
        columns.set_item("t", PyArray1::from_vec(py, events.at))?;
        columns.set_item("path", PyArray1::from_vec(py, events.path))?;
        columns.set_item(what, PyArray1::from_vec(py, events.what))?;
        told.set_item(name, columns)?;
    }
    Ok(told)
}

fn path<'py>(py: Python<'py>, interval: f64, line: &PathTimeline) -> PyResult<Bound<'py, PyDict>> {
    let told = PyDict::new(py);
    told.set_item("cwnd", series(py, interval, &line.cwnd, 1.0)?)?;
    let srtt = series(py, interval, &line.smoothed_rtt_us, 1e-6)?;
    told.set_item("smoothed_rtt", srtt)?;
    told.set_item("in_flight", series(py, interval, &line.in_flight, 1.0)?)?;
    told.set_item("queue", series(py, interval, &line.queue, 1.0)?)?;
    Ok(told)
}

fn series<'py>(
    py: Python<'py>,
    interval: f64,
    series: &Series,
    unit: f64,
) -> PyResult<Bound<'py, PyDict>> {
    let told = PyDict::new(py);
    let times = series.slot.iter().map(|slot| f64::from(*slot) * interval);
    told.set_item("t", PyArray1::from_iter(py, times))?;
    for (name, values) in [
        ("min", &series.min),
        ("max", &series.max),
        ("last", &series.last),
    ] {
        let values = values.iter().map(|value| *value as f64 * unit);
        told.set_item(name, PyArray1::from_iter(py, values))?;
    }
    Ok(told)
}
