//! Who downloads, and what came out: a table or JSON.

use std::fmt;

use rand::{RngExt, SeedableRng, rngs::SmallRng};

use crate::cli::Congestion;
use crate::network::Network;
use crate::{Fault, Took};

const RESAMPLES: usize = 4000;

/// How this crate downloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) scheduler: &'static str,
    /// Over the better path only.
    pub(crate) alone: bool,
    /// The handshake on the first path, further paths when it is confirmed.
    pub(crate) old_start: bool,
    /// What a slow path would deliver last goes on a faster one, too.
    pub(crate) tail_copies: bool,
}

/// Who downloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variant {
    Ours(Options),
    /// Over the better path only.
    Quinn,
    /// The same with the initial window that this crate has.
    QuinnTen,
    Noq,
}

const SCHEDULERS: [&str; 3] = ["minrtt", "ecf", "stms"];

impl Variant {
    /// Those of these names; all of them where there are none. `alone` is always there: the others are held
    /// against it.
    pub(crate) fn all(names: &[String]) -> Result<Vec<Self>, Fault> {
        let both = |scheduler| Options {
            scheduler,
            alone: false,
            old_start: false,
            tail_copies: true,
        };
        let alone = Options {
            alone: true,
            ..both("minrtt")
        };
        let mut all = vec![Self::Ours(alone)];
        for scheduler in SCHEDULERS {
            let ours = both(scheduler);
            let bare = Options {
                tail_copies: false,
                ..ours
            };
            let old = Options {
                old_start: true,
                ..bare
            };
            all.extend([ours, bare, old].map(Self::Ours));
        }
        all.extend([Self::Quinn, Self::QuinnTen, Self::Noq]);
        if let Some(name) = names.iter().find(|n| all.iter().all(|v| v.name() != **n)) {
            let known: Vec<_> = all.iter().map(|variant| variant.name()).collect();
            return Err(format!("{name:?} is none of {}", known.join(", ")).into());
        }
        if !names.is_empty() {
            all.retain(|v| v.name() == "alone" || names.contains(&v.name()));
        }
        Ok(all)
    }

    pub(crate) fn name(self) -> String {
        match self {
            Self::Ours(Options { alone: true, .. }) => "alone".to_owned(),
            Self::Ours(Options {
                scheduler,
                old_start: true,
                ..
            }) => format!("old:{scheduler}"),
            Self::Ours(Options {
                scheduler,
                tail_copies: false,
                ..
            }) => format!("bare:{scheduler}"),
            Self::Ours(Options { scheduler, .. }) => format!("ours:{scheduler}"),
            Self::Quinn => "quinn".to_owned(),
            Self::QuinnTen => "quinn:10".to_owned(),
            Self::Noq => "noq".to_owned(),
        }
    }
}

/// What came out of one variant on one network.
#[derive(Debug)]
pub(crate) struct Row {
    network: String,
    congestion: Congestion,
    variant: Variant,
    bound: Option<f64>,
    took: Vec<Took>,
}

impl Row {
    pub(crate) fn new(
        network: &Network,
        variant: Variant,
        congestion: Congestion,
        bound: Option<f64>,
        took: Vec<Took>,
    ) -> Self {
        Self {
            network: network.name.clone(),
            congestion,
            variant,
            bound,
            took,
        }
    }

    fn totals(&self) -> Vec<f64> {
        self.took.iter().map(|t| t.total.as_secs_f64()).collect()
    }

    fn since_request(&self) -> Vec<f64> {
        let took = self.took.iter();
        took.map(|t| t.since_request.as_secs_f64()).collect()
    }

    fn dropped(&self) -> f64 {
        median(self.took.iter().map(|t| t.dropped as f64).collect())
    }
}

/// All rows.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) rows: Vec<Row>,
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match (values.len() % 2, values.get(middle)) {
        (_, None) => f64::NAN,
        (0, Some(upper)) => (values[middle - 1] + upper) / 2.0,
        (_, Some(value)) => *value,
    }
}

/// The median of the ratios within rounds, and its 95 % bootstrap interval.
fn paired(of: &[f64], to: &[f64]) -> (f64, f64, f64) {
    let ratios: Vec<_> = of.iter().zip(to).map(|(of, to)| of / to).collect();
    // The same resamples for everybody.
    let mut rng = SmallRng::seed_from_u64(1);
    let mut medians: Vec<_> = (0..RESAMPLES)
        .map(|_| {
            let drawn = ratios
                .iter()
                .map(|_| ratios[rng.random_range(0..ratios.len())]);
            median(drawn.collect())
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    let at = |share: f64| medians[(share * (RESAMPLES - 1) as f64).round() as usize];
    (median(ratios), at(0.025), at(0.975))
}

impl Report {
    /// The row of this crate over the better path, on the same network.
    fn alone(&self, row: &Row) -> Option<&Row> {
        let same =
            |other: &&Row| other.network == row.network && other.congestion == row.congestion;
        self.rows
            .iter()
            .filter(same)
            .find(|other| matches!(other.variant, Variant::Ours(Options { alone: true, .. })))
    }

    fn against_alone(&self, row: &Row) -> Option<(f64, f64, f64)> {
        let alone = self.alone(row)?;
        (!row.took.is_empty()).then(|| paired(&row.totals(), &alone.totals()))
    }

    pub(crate) fn to_json(&self) -> String {
        let rows = self.rows.iter().map(|row| {
            let against = self.against_alone(row);
            serde_json::json!({
                "network": row.network,
                "congestion": row.congestion.to_string(),
                "variant": row.variant.name(),
                "runs": row.took.len(),
                "total_s": median(row.totals()),
                "since_request_s": median(row.since_request()),
                "fluid_bound_s": row.bound,
                "dropped": row.dropped(),
                "to_alone": against.map(|(ratio, low, high)| [ratio, low, high]),
                "totals_s": row.totals(),
            })
        });
        serde_json::json!({ "rows": rows.collect::<Vec<_>>() }).to_string()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| network | controller | who | from the first packet [s] | from the request [s] | / fluid bound | dropped | \
             total / alone (95 %) |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|---|---|")?;
        for row in &self.rows {
            let since = median(row.since_request());
            write!(
                f,
                "| {} | {} | {} | {:.3} | {since:.3} | ",
                row.network,
                row.congestion,
                row.variant.name(),
                median(row.totals()),
            )?;
            match row.bound {
                Some(bound) => write!(f, "{:.2}", since / bound)?,
                None => write!(f, "-")?,
            }
            write!(f, " | {:.0} | ", row.dropped())?;
            match self.against_alone(row) {
                Some((ratio, low, high)) => writeln!(f, "{ratio:.3} ({low:.3} .. {high:.3}) |")?,
                None => writeln!(f, "- |")?,
            }
        }
        Ok(())
    }
}
