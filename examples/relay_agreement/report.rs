//! The results as a table and as JSON.

use std::fmt;
use std::time::Duration;

use serde_json::json;

/// The times of one scenario with one scheduler.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) scheduler: String,
    pub(crate) simulated: Vec<Duration>,
    pub(crate) real: Vec<Duration>,
}

/// The times of all scenarios.
pub(crate) struct Report {
    /// By scenario, then by scheduler.
    pub(crate) rows: Vec<Vec<Row>>,
    pub(crate) tolerance: f64,
    pub(crate) ratio_tolerance: f64,
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

/// The first scheduler's median over the second one's, of one scenario: simulated and real. `None` with one scheduler.
fn schedulers(rows: &[Row]) -> Option<[f64; 2]> {
    let [first, second] = rows else { return None };
    let ratio = |a: &[Duration], b: &[Duration]| spread(a)[1] / spread(b)[1];
    Some([
        ratio(&first.simulated, &second.simulated),
        ratio(&first.real, &second.real),
    ])
}

impl Report {
    /// Whether all medians agree, and all ratios of two schedulers.
    pub(crate) fn agrees(&self) -> bool {
        let mut rows = self.rows.iter().flatten();
        let medians = rows.all(|row| (row.ratio() - 1.0).abs() <= self.tolerance);
        let mut ratios = self.rows.iter().filter_map(|rows| schedulers(rows));
        medians && ratios.all(|ratios| self.is_near(ratios))
    }

    fn is_near(&self, [simulated, real]: [f64; 2]) -> bool {
        (simulated / real - 1.0).abs() <= self.ratio_tolerance
    }

    pub(crate) fn to_json(&self) -> serde_json::Value {
        let row = |row: &Row| {
            json!({
                "scenario": row.name,
                "what": row.what,
                "scheduler": row.scheduler,
                "runs": row.real.len(),
                "simulated_s": spread(&row.simulated),
                "real_s": spread(&row.real),
                "ratio_of_medians": row.ratio(),
            })
        };
        let rows: Vec<_> = self.rows.iter().flatten().map(row).collect();
        let pair = |rows: &Vec<Row>| {
            let [simulated, real] = schedulers(rows)?;
            Some(json!({
                "scenario": rows.first()?.name,
                "schedulers": rows.iter().map(|row| &row.scheduler).collect::<Vec<_>>(),
                "simulated": simulated,
                "real": real,
            }))
        };
        let pairs: Vec<_> = self.rows.iter().filter_map(pair).collect();
        json!({
            "rows": rows,
            "ratios": pairs,
            "tolerance": self.tolerance,
            "ratio_tolerance": self.ratio_tolerance,
            "agrees": self.agrees(),
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<12} {:<12} {:>8} {:>8}   {:>17} {:>17}  ratio",
            "scenario", "scheduler", "sim [s]", "real [s]", "sim range", "real range"
        )?;
        for row in self.rows.iter().flatten() {
            let (sim, real) = (spread(&row.simulated), spread(&row.real));
            let verdict = if (row.ratio() - 1.0).abs() <= self.tolerance {
                ""
            } else {
                "  too far"
            };
            writeln!(
                f,
                "{:<12} {:<12} {:>8.3} {:>8.3}   {:>8.3}-{:<8.3} {:>8.3}-{:<8.3}  {:.3}{verdict}",
                row.name,
                row.scheduler,
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
        for rows in &self.rows {
            let (Some(ratios), [first, second]) = (schedulers(rows), &rows[..]) else {
                continue;
            };
            let verdict = if self.is_near(ratios) {
                ""
            } else {
                "  too far"
            };
            writeln!(
                f,
                "{:<12} {}/{}: {:.3} simulated, {:.3} real{verdict}",
                first.name, first.scheduler, second.scheduler, ratios[0], ratios[1],
            )?;
        }
        for row in self.rows.iter().filter_map(|rows| rows.first()) {
            writeln!(f, "{:<12} {}", row.name, row.what)?;
        }
        writeln!(
            f,
            "\nMedians of {} runs each; {} within {:.0} %.",
            self.rows
                .iter()
                .flatten()
                .next()
                .map_or(0, |row| row.real.len()),
            if self.agrees() { "all" } else { "not all" },
            self.tolerance * 100.0
        )
    }
}
