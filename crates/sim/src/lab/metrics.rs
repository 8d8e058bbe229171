//! The names, units and directions of what runs are measured by, beyond what the workload itself measures.

use serde::{Deserialize, Serialize};

use crate::workload::{Better, Metric};

/// A metric as results carry it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricInfo {
    /// Its key in the values.
    pub name: String,
    /// Its unit; empty for a number.
    pub unit: String,
    /// Whether less of it is better.
    pub lower_is_better: bool,
}

impl From<&Metric> for MetricInfo {
    fn from(metric: &Metric) -> Self {
        Self {
            name: metric.name.to_owned(),
            unit: metric.unit.to_owned(),
            lower_is_better: metric.better == Better::Lower,
        }
    }
}

/// Metrics of the transport, which every workload has: name, unit, whether less is better.
const TRANSPORT: &[(&str, &str, bool)] = &[("waits", "%", true)];

/// A metric by name: the workload's, the transport's.
pub(crate) fn find(of_workload: &[MetricInfo], name: &str) -> Option<MetricInfo> {
    if let Some(metric) = of_workload.iter().find(|metric| metric.name == name) {
        return Some(metric.clone());
    }
    transport().find(|metric| metric.name == name)
}

/// All metrics of the transport.
pub(crate) fn transport() -> impl Iterator<Item = MetricInfo> {
    TRANSPORT
        .iter()
        .map(|&(name, unit, lower_is_better)| MetricInfo {
            name: name.to_owned(),
            unit: unit.to_owned(),
            lower_is_better,
        })
}
