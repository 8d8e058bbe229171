//! Reads recordings of rates: one line per interval, in columns.

use std::time::Duration;

use clap::{Args, ValueEnum};
use mpquic_sim::MahimahiTrace;

use super::MAX_BYTES;

/// Which columns have what.
#[derive(Debug, Args)]
pub(crate) struct Columns {
    /// The column of the rate, by its name in the first line or by its number from 1, as DL_bitrate.
    #[arg(
        long,
        value_name = "COLUMN",
        required_unless_present = "bytes",
        conflicts_with = "bytes"
    )]
    rate: Option<String>,
    /// The unit of the rate.
    #[arg(long, value_enum, default_value_t = Unit::Kbit)]
    unit: Unit,
    /// The column of the bytes that came in the interval, in place of a rate.
    #[arg(long, value_name = "COLUMN")]
    bytes: Option<String>,
    /// The column of the interval's length in ms [default: all are as long as --interval].
    #[arg(long, value_name = "COLUMN")]
    millis: Option<String>,
    /// The length of an interval without --millis.
    #[arg(long, default_value = "1s", value_parser = mpquic_sim::units::time::parse)]
    interval: Duration,
}

/// A unit of rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Unit {
    /// bit/s
    Bit,
    /// kbit/s
    Kbit,
    /// Mbit/s
    Mbit,
}

impl Unit {
    const fn bits(self) -> f64 {
        match self {
            Self::Bit => 1.0,
            Self::Kbit => 1e3,
            Self::Mbit => 1e6,
        }
    }
}

/// A recording as intervals.
#[derive(Debug)]
pub(super) struct Recording {
    /// The length in s and the bytes of each interval.
    pub(super) intervals: Vec<(f64, f64)>,
    /// Lines without a number in the column.
    empty: usize,
}

impl Recording {
    /// Parses a recording. The first line may name the columns. A line whose value is missing (empty or `-`) counts as one
    /// without data.
    ///
    /// # Errors
    ///
    /// The number of a line and what is wrong with it.
    pub(super) fn parse(text: &str, columns: &Columns) -> Result<Self, String> {
        let mut lines = text
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty())
            .peekable();
        let Some(&(_, first)) = lines.peek() else {
            return Err("1: no lines".into());
        };
        let heads = fields(first);
        let value_column = columns.rate.as_ref().or(columns.bytes.as_ref());
        let value_column = value_column.ok_or("1: expected --rate or --bytes")?;
        let (value, named) = column(&heads, value_column)?;
        let length = columns.millis.as_ref().map(|name| column(&heads, name));
        let length = length.transpose()?.map(|found| found.0);
        // A first line that names columns has no numbers.
        if named
            || heads.get(value).is_none_or(|head| number(head).is_none()) && heads.len() > value
        {
            let is_missing = heads.get(value).is_some_and(|head| is_empty(head));
            if named || !is_missing {
                lines.next();
            }
        }
        let (mut intervals, mut empty, mut all) = (Vec::new(), 0, 0.0);
        for (at, line) in lines {
            let fields = fields(line);
            let get = |column: usize| match fields.get(column) {
                None => Err(format!(
                    "{}: has {} columns, expected {}",
                    at + 1,
                    fields.len(),
                    column + 1
                )),
                Some(text) if is_empty(text) => Ok(None),
                Some(text) => match number(text) {
                    Some(number) => Ok(Some(number)),
                    None => Err(format!("{}: `{text}` is not a number of 0 and up", at + 1)),
                },
            };
            let seconds = match length {
                None => columns.interval.as_secs_f64(),
                Some(column) => get(column)?.unwrap_or(0.0) / 1e3,
            };
            let found = get(value)?;
            empty += usize::from(found.is_none());
            let found = found.unwrap_or(0.0);
            let bytes = match columns.rate {
                Some(_) => found * columns.unit.bits() / 8.0 * seconds,
                None => found,
            };
            // A terabyte per interval is a wrong unit, and would be a trace that fills the memory.
            if !(0.0..=86_400.0).contains(&seconds) || bytes > 1e12 {
                return Err(format!(
                    "{}: {bytes} bytes in {seconds} s, expected less: the unit may be another one",
                    at + 1
                ));
            }
            all += bytes;
            if all > MAX_BYTES {
                return Err(format!(
                    "{}: more than {} GB in all lines so far, expected less: the unit may be another one",
                    at + 1,
                    MAX_BYTES / 1e9
                ));
            }
            if seconds > 0.0 {
                intervals.push((seconds, bytes));
            }
        }
        Ok(Self { intervals, empty })
    }

    /// What was converted, for people.
    pub(super) fn summary(&self, trace: &MahimahiTrace) -> String {
        let missing = match self.empty {
            0 => String::new(),
            lines => format!(", {lines} of them without a value, which count as none"),
        };
        format!(
            "{} intervals{missing}; {:.1} s, {:.2} Mbit/s",
            self.intervals.len(),
            trace.period_millis() as f64 / 1e3,
            trace.mean_rate() as f64 / 1e6
        )
    }
}

fn fields(line: &str) -> Vec<&str> {
    let separator = [',', ';', '\t'].into_iter().find(|c| line.contains(*c));
    match separator {
        Some(c) => line
            .split(c)
            .map(|field| field.trim().trim_matches('"'))
            .collect(),
        None => line.split_whitespace().collect(),
    }
}

fn is_empty(field: &str) -> bool {
    ["", "-", "NA", "NaN", "nan"].contains(&field)
}

fn number(field: &str) -> Option<f64> {
    let number: f64 = field.parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some(number)
}

/// A column by its name or its number from 1, and whether it was a name.
fn column(heads: &[&str], wanted: &str) -> Result<(usize, bool), String> {
    if let Some(at) = heads.iter().position(|head| *head == wanted) {
        return Ok((at, true));
    }
    match wanted.parse::<usize>() {
        Ok(number) if (1..=heads.len()).contains(&number) => Ok((number - 1, false)),
        _ => Err(format!(
            "1: no column `{wanted}`, there are: {}",
            heads.join(", ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(rate: Option<&str>, bytes: Option<&str>, millis: Option<&str>) -> Columns {
        Columns {
            rate: rate.map(str::to_owned),
            unit: Unit::Kbit,
            bytes: bytes.map(str::to_owned),
            millis: millis.map(str::to_owned),
            interval: Duration::from_secs(1),
        }
    }

    #[test]
    fn a_table_with_a_named_column_is_read() {
        let text = "Timestamp,Speed,DL_bitrate\n2020.01.01_10.00.00,5,8000\n2020.01.01_10.00.01,5,-\n2020.01.01_10.00.02,5,16\n";
        let read = Recording::parse(text, &columns(Some("DL_bitrate"), None, None)).unwrap();
        assert_eq!(read.intervals, [(1.0, 1e6), (1.0, 0.0), (1.0, 2e3)]);
        assert_eq!(read.empty, 1);
        let missing = Recording::parse(text, &columns(Some("bitrate"), None, None)).unwrap_err();
        assert_eq!(
            missing,
            "1: no column `bitrate`, there are: Timestamp, Speed, DL_bitrate"
        );
    }

    #[test]
    fn bytes_and_lengths_are_read_from_lines_without_names() {
        let text = "1453121790686 39287 51.0 3.7 2493100 1000\n1453121791687 40288 51.0 3.7 2763504 1001\n";
        let read = Recording::parse(text, &columns(None, Some("5"), Some("6"))).unwrap();
        assert_eq!(read.intervals, [(1.0, 2_493_100.0), (1.001, 2_763_504.0)]);
    }

    #[test]
    fn what_is_no_recording_is_refused() {
        for (text, fault) in [
            ("", "1: no lines"),
            ("a b\n1 x\n", "2: `x` is not a number"),
            ("a b\n1 2\n3\n", "3: has 1 columns, expected 2"),
            ("a b\n1 -5\n", "2: `-5` is not a number"),
            ("a b\n1 1e300\n", "expected less"),
        ] {
            let error = Recording::parse(text, &columns(Some("2"), None, None)).unwrap_err();
            assert!(error.contains(fault), "{error}");
        }
    }
}
