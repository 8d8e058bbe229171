//! Predicted and measured times as a table and as JSON.

use std::fmt;

use mpquic_lab::statistics::median;
use serde_json::json;

/// Who downloaded over kernel links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Our endpoints: what the lab predicts.
    Ours,
    /// Kernel TCP on one path, beside the lab's connection with this path only.
    Tcp,
    /// Kernel MPTCP, beside the lab's connection with all paths.
    Mptcp,
}

impl Kind {
    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Tcp => "TCP",
            Self::Mptcp => "MPTCP",
        }
    }
}

/// The times of one cell.
#[derive(Debug, Clone)]
pub struct Row {
    /// The network's name.
    pub network: String,
    /// Its paths in words.
    pub paths: String,
    /// The workload's short form.
    pub workload: String,
    /// The congestion control.
    pub congestion: String,
    /// The scheduler's label.
    pub scheduler: String,
    /// Who downloaded.
    pub kind: Kind,
    /// The lab's seconds, one per seed.
    pub predicted: Vec<f64>,
    /// The seconds over kernel links.
    pub measured: Vec<f64>,
}

/// Smallest, median, largest; not a number if there are none.
fn spread(times: &[f64]) -> [f64; 3] {
    let extreme =
        |nearer: fn(f64, f64) -> f64| times.iter().copied().reduce(nearer).unwrap_or(f64::NAN);
    [extreme(f64::min), median(times), extreme(f64::max)]
}

impl Row {
    /// The lab's median over the measured one.
    pub fn ratio(&self) -> f64 {
        spread(&self.predicted)[1] / spread(&self.measured)[1]
    }
}

/// All rows.
#[derive(Debug, Clone)]
pub struct Report {
    /// In the order of the experiment.
    pub rows: Vec<Row>,
    /// The largest relative difference that counts as agreement.
    pub tolerance: f64,
    /// Why there is no MPTCP, if there is none.
    pub no_mptcp: Option<String>,
}

impl Report {
    /// Whether something was compared, and all predictions for our endpoints hold. What is said of TCP is no prediction.
    pub fn agrees(&self) -> bool {
        let mut ours = self
            .rows
            .iter()
            .filter(|row| row.kind == Kind::Ours)
            .peekable();
        ours.peek().is_some() && ours.all(|row| self.holds(row))
    }

    fn holds(&self, row: &Row) -> bool {
        (row.ratio() - 1.0).abs() <= self.tolerance
    }

    /// All rows with the smallest, median and largest seconds.
    pub fn to_json(&self) -> serde_json::Value {
        let rows = self.rows.iter().map(|row| {
            json!({
                "network": row.network,
                "paths": row.paths,
                "workload": row.workload,
                "congestion": row.congestion,
                "scheduler": row.scheduler,
                "who": row.kind.name(),
                "runs": row.measured.len(),
                "predicted_s": spread(&row.predicted),
                "measured_s": spread(&row.measured),
                "ratio": row.ratio(),
            })
        });
        json!({
            "rows": rows.collect::<Vec<_>>(),
            "tolerance": self.tolerance,
            "agrees": self.agrees(),
            "no_mptcp": self.no_mptcp,
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<10} {:<10} {:<6} {:<8} {:<6} {:>8} {:>12} {:>17}  ratio",
            "network", "workload", "cc", "paths", "who", "lab [s]", "measured [s]", "range"
        )?;
        for row in &self.rows {
            let [_, predicted, _] = spread(&row.predicted);
            let [first, median, last] = spread(&row.measured);
            let verdict = match row.kind {
                Kind::Ours if !self.holds(row) => "  too far",
                _ => "",
            };
            let range = format!("{first:.3}-{last:.3}");
            writeln!(
                f,
                "{:<10} {:<10} {:<6} {:<8} {:<6} {predicted:>8.3} {median:>12.3} {range:>17}  {:.3}{verdict}",
                row.network,
                row.workload,
                row.congestion,
                row.scheduler,
                row.kind.name(),
                row.ratio(),
            )?;
        }
        if let Some(why) = &self.no_mptcp {
            writeln!(f, "no MPTCP: {why}")?;
        }
        let verdict = if self.agrees() { "all" } else { "not all" };
        let percent = self.tolerance * 100.0;
        writeln!(
            f,
            "\n{verdict} predictions for ours within {percent:.0} % of the median"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(kind: Kind, predicted: &[f64], measured: &[f64]) -> Report {
        let row = Row {
            network: "n".into(),
            paths: "p".into(),
            workload: "w".into(),
            congestion: "c".into(),
            scheduler: "s".into(),
            kind,
            predicted: predicted.to_vec(),
            measured: measured.to_vec(),
        };
        Report {
            rows: vec![row],
            tolerance: 0.05,
            no_mptcp: None,
        }
    }

    #[test]
    fn medians_are_compared() {
        assert!(report(Kind::Ours, &[1.04, 1.0, 9.0], &[1.0]).agrees());
        assert!(!report(Kind::Ours, &[1.06], &[1.0]).agrees());
        assert!(!report(Kind::Ours, &[0.94], &[1.0, 1.0, 5.0]).agrees());
        assert_eq!(report(Kind::Ours, &[1.0, 2.0], &[1.0]).rows[0].ratio(), 1.5);
    }

    #[test]
    fn nothing_compared_is_no_agreement() {
        assert!(!report(Kind::Tcp, &[1.0], &[1.0]).agrees());
        assert!(!report(Kind::Ours, &[1.0], &[]).agrees());
    }
}
