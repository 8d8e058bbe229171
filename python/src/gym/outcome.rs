//! How a run went, in figures with the lab's names, and as a Python dictionary.

use std::collections::BTreeMap;

use mpquic_proto::Side;
use mpquic_sched::LearnedPolicy;
use mpquic_sim::workload::{ResultError, Workload};
use mpquic_sim::{Measurements, Network, Report};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// What a run came to.
pub(crate) struct Outcome {
    /// The name of the workload's primary metric.
    primary: &'static str,
    values: BTreeMap<String, f64>,
    series: BTreeMap<&'static str, Vec<f64>>,
    policy: Option<LearnedPolicy>,
    trace_hash: u128,
}

impl Outcome {
    /// Of a run that is complete.
    pub(crate) fn of(
        workload: &Workload,
        network: &Network,
        report: &Report,
    ) -> Result<Self, ResultError> {
        let result = workload.result(network)?;
        let mut values = of_transport(&network.measurements());
        values.insert("simulated".into(), report.completed.as_secs_f64());
        let of_workload = result.values.into_iter();
        values.extend(of_workload.map(|(name, value)| (name.to_owned(), value)));
        let learned = network
            .connection(Side::Server)
            .and_then(|connection| connection.scheduler().learned());
        Ok(Self {
            primary: workload.primary().name,
            values,
            series: result.series,
            policy: learned.and_then(|learned| learned.policy),
            trace_hash: report.trace_hash,
        })
    }

    /// `{"primary", "values", "series", "policy", "trace_hash"}`.
    pub(crate) fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let outcome = PyDict::new(py);
        outcome.set_item("primary", self.primary)?;
        outcome.set_item("values", &self.values)?;
        outcome.set_item("series", &self.series)?;
        let policy = match &self.policy {
            None => None,
            Some(policy) => {
                let told = PyDict::new(py);
                told.set_item("engine", &*policy.engine)?;
                told.set_item("decisions", policy.decisions)?;
                told.set_item("unanswered", policy.fallbacks.unanswered)?;
                told.set_item("not_finite", policy.fallbacks.not_finite)?;
                told.set_item("out_of_range", policy.fallbacks.out_of_range)?;
                told.set_item("unusable", policy.fallbacks.unusable)?;
                Some(told)
            }
        };
        outcome.set_item("policy", policy)?;
        outcome.set_item("trace_hash", format!("{:032x}", self.trace_hash))?;
        Ok(outcome)
    }
}

/// What the lab calls the transport's figures, as far as training looks at them.
fn of_transport(measured: &Measurements) -> BTreeMap<String, f64> {
    let mut values = BTreeMap::new();
    let mut set = |name: String, value: f64| {
        values.insert(name, value);
    };
    let (receiver, sender) = (&measured.client, &measured.server);
    if let Some(queue) = receiver.out_of_order {
        let kilobytes = |bytes: u64| bytes as f64 / 1e3;
        set("oqs_mean".into(), queue.by_arrival.mean / 1e3);
        set("oqs_p50".into(), kilobytes(queue.by_arrival.p50));
        set("oqs_p95".into(), kilobytes(queue.by_arrival.p95));
        set("oqs_p99".into(), kilobytes(queue.by_arrival.p99));
        set("oqs_max".into(), kilobytes(queue.by_arrival.max));
        set("oqs_time_mean".into(), queue.by_time.mean / 1e3);
    }
    let all = sender.total();
    set("retransmitted".into(), all.retransmitted_bytes as f64 / 1e3);
    let percent = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
    set("lost".into(), percent(all.lost_packets, all.sent_packets));
    set("wait_time".into(), sender.wait_time.as_secs_f64());
    set("decisions".into(), sender.decisions as f64);
    set("waits".into(), sender.waits as f64);
    for (number, path) in receiver.paths.iter().enumerate() {
        let share = 100.0 * path.received_share;
        set(format!("path{}_share", number + 1), share);
    }
    values
}
