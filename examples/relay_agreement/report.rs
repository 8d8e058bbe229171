//! The results as a table and as JSON.

use std::fmt;
use std::time::Duration;

use serde_json::json;

/// The times of one scenario.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) simulated: Vec<Duration>,
    pub(crate) real: Vec<Duration>,
}

/// The times of all scenarios.
pub(crate) struct Report {
    pub(crate) rows: Vec<Row>,
    pub(crate) tolerance: f64,
}

/// Seconds: smallest, median, largest.
fn spread(times: &[Duration]) -> [f64; 3] {
    let mut sorted: Vec<_> = times.iter().map(Duration::as_secs_f64).collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let median = if sorted.len() % 2 == 0 {
        (sorted[middle - 1] + sorted[middle]) / 2.0
    } else {
        sorted[middle]
    };
    [sorted[0], median, sorted[sorted.len() - 1]]
}

impl Row {
    /// The simulated median divided by the real one.
    fn ratio(&self) -> f64 {
        spread(&self.simulated)[1] / spread(&self.real)[1]
    }
}

impl Report {
    /// Whether all medians agree.
    pub(crate) fn agrees(&self) -> bool {
        self.rows
            .iter()
            .all(|row| (row.ratio() - 1.0).abs() <= self.tolerance)
    }

    pub(crate) fn to_json(&self) -> serde_json::Value {
        let rows: Vec<_> = self
            .rows
            .iter()
            .map(|row| {
                json!({
                    "scenario": row.name,
                    "what": row.what,
                    "runs": row.real.len(),
                    "simulated_s": spread(&row.simulated),
                    "real_s": spread(&row.real),
                    "ratio_of_medians": row.ratio(),
                })
            })
            .collect();
        json!({ "rows": rows, "tolerance": self.tolerance, "agrees": self.agrees() })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<12} {:>8} {:>8}   {:>17} {:>17}  ratio",
            "scenario", "sim [s]", "real [s]", "sim range", "real range"
        )?;
        for row in &self.rows {
            let (sim, real) = (spread(&row.simulated), spread(&row.real));
            let verdict = if (row.ratio() - 1.0).abs() <= self.tolerance {
                ""
            } else {
                "  too far"
            };
            writeln!(
                f,
                "{:<12} {:>8.3} {:>8.3}   {:>8.3}-{:<8.3} {:>8.3}-{:<8.3}  {:.3}{verdict}",
                row.name,
                sim[1],
                real[1],
                sim[0],
                sim[2],
                real[0],
                real[2],
                row.ratio(),
            )?;
        }
        writeln!(f)?;
        for row in &self.rows {
            writeln!(f, "{:<12} {}", row.name, row.what)?;
        }
        writeln!(
            f,
            "\nMedians of {} runs each; {} within {:.0} %.",
            self.rows.first().map_or(0, |row| row.real.len()),
            if self.agrees() { "all" } else { "not all" },
            self.tolerance * 100.0
        )
    }
}
