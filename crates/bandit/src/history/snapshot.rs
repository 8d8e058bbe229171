//! How a history is written down and read again; checked on the way in, nothing computed.

use core::fmt;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeSeq, SerializeStruct, SerializeTuple, Serializer};

use super::History;
use super::whitening::Whitening;
const FIELDS: [&str; 4] = ["seen", "samples", "mean", "factor"];

/// The samples as they are kept, each its features and its reward, and once frozen the mean and the
/// rows of the factor's lower triangle with inverses on its diagonal.
impl<const D: usize, const N: usize> Serialize for History<D, N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut form = serializer.serialize_struct("History", FIELDS.len())?;
        form.serialize_field("seen", &self.seen)?;
        form.serialize_field("samples", &Samples(self))?;
        let whitening = self.whitening.as_ref();
        form.serialize_field("mean", &whitening.map(|w| Row(w.mean)))?;
        form.serialize_field("factor", &whitening.map(|w| Square(w.factor)))?;
        form.end()
    }
}

struct Samples<'a, const D: usize, const N: usize>(&'a History<D, N>);

impl<const D: usize, const N: usize> Serialize for Samples<'_, D, N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut samples = serializer.serialize_seq(Some(self.0.len))?;
        for place in 0..self.0.len {
            let features = core::array::from_fn(|d| self.0.columns[d][place]);
            samples.serialize_element(&(Row::<f32, D>(features), self.0.rewards[place]))?;
        }
        samples.end()
    }
}

/// An array of any length, as a tuple.
#[derive(Clone, Copy)]
struct Row<T, const D: usize>([T; D]);

impl<T: Serialize, const D: usize> Serialize for Row<T, D> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut row = serializer.serialize_tuple(D)?;
        for element in &self.0 {
            row.serialize_element(element)?;
        }
        row.end()
    }
}

impl<'de, T: Deserialize<'de> + Default + Copy, const D: usize> Deserialize<'de> for Row<T, D> {
    fn deserialize<S: Deserializer<'de>>(deserializer: S) -> Result<Self, S::Error> {
        let mut row = [T::default(); D];
        let read = deserializer.deserialize_seq(Fill(&mut row))?;
        if read != D {
            return Err(Error::invalid_length(read, &Count(D)));
        }
        Ok(Self(row))
    }
}

#[derive(Clone, Copy)]
struct Square<const D: usize>([[f64; D]; D]);

impl<const D: usize> Serialize for Square<D> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Row(self.0.map(Row)).serialize(serializer)
    }
}

impl<'de, const D: usize> Deserialize<'de> for Square<D> {
    fn deserialize<S: Deserializer<'de>>(deserializer: S) -> Result<Self, S::Error> {
        let rows: Row<Maybe<D>, D> = Row::deserialize(deserializer)?;
        Ok(Self(rows.0.map(|row| row.0)))
    }
}

/// A row of numbers that has a default.
#[derive(Clone, Copy)]
struct Maybe<const D: usize>([f64; D]);

impl<const D: usize> Default for Maybe<D> {
    fn default() -> Self {
        Self([0.0; D])
    }
}

impl<'de, const D: usize> Deserialize<'de> for Maybe<D> {
    fn deserialize<S: Deserializer<'de>>(deserializer: S) -> Result<Self, S::Error> {
        Ok(Self(Row::deserialize(deserializer)?.0))
    }
}

struct Count(usize);

impl serde::de::Expected for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} elements", self.0)
    }
}

/// Fills a slice from the front; how many came. More than fit are an error.
struct Fill<'a, T>(&'a mut [T]);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Fill<'_, T> {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {} elements", self.0.len())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<usize, A::Error> {
        let mut read = 0;
        while let Some(element) = list.next_element()? {
            let Some(place) = self.0.get_mut(read) else {
                return Err(Error::invalid_length(read + 1, &Count(self.0.len())));
            };
            *place = element;
            read += 1;
        }
        Ok(read)
    }
}

/// As it is read: everything of the right size, nothing checked yet.
struct Read<const D: usize, const N: usize> {
    samples: [(Row<f32, D>, f32); N],
    len: usize,
}

impl<'de, const D: usize, const N: usize> Deserialize<'de> for Read<D, N> {
    fn deserialize<S: Deserializer<'de>>(deserializer: S) -> Result<Self, S::Error> {
        let mut samples = [(Row([0.0; D]), 0.0); N];
        let len = deserializer.deserialize_seq(Fill(&mut samples))?;
        Ok(Self { samples, len })
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, bound = "")]
struct Form<const D: usize, const N: usize> {
    seen: u64,
    samples: Read<D, N>,
    mean: Option<Row<f64, D>>,
    factor: Option<Square<D>>,
}

impl<const D: usize, const N: usize> Form<D, N> {
    fn history(self) -> Result<History<D, N>, &'static str> {
        let Read { samples, len } = self.samples;
        let numbers = samples[..len].iter();
        let finite = |(row, reward): &(Row<f32, D>, f32)| {
            reward.is_finite() && row.0.iter().all(|x| x.is_finite())
        };
        if !numbers.clone().all(finite) {
            return Err("expected samples of finite numbers");
        }
        if self.seen < len as u64 || (len < N && self.seen > len as u64) {
            return Err("expected all samples seen, up to the capacity");
        }
        let whitening = match (self.mean, self.factor) {
            (None, None) => None,
            (Some(mean), Some(factor)) => Some(Whitening {
                mean: mean.0,
                factor: factor.0,
            }),
            _ => return Err("expected both mean and factor, or none"),
        };
        // The draws go on elsewhere than they were, but at the same place whenever it is read.
        let mut history = History::new(self.seen);
        (history.len, history.seen) = (len, self.seen);
        for (place, (features, reward)) in samples[..len].iter().enumerate() {
            let mut half = 0.0;
            for (column, x) in history.columns.iter_mut().zip(features.0) {
                column[place] = x;
                half += 0.5 * f64::from(x) * f64::from(x);
            }
            history.rewards[place] = *reward;
            if whitening.is_some() {
                // Whitened samples are within √(N·D) of their mean, with some room for rounding.
                if half > (N * D) as f64 {
                    return Err("expected whitened samples about their mean");
                }
                history.half_squares[place] = half as f32;
            }
        }
        if let Some(whitening) = &whitening {
            sound(whitening)?;
        }
        history.whitening = whitening;
        Ok(history)
    }
}

/// A lower triangle with a positive diagonal is the factor of a positive definite matrix.
fn sound<const D: usize>(whitening: &Whitening<D>) -> Result<(), &'static str> {
    // What a covariance of f32 samples can come to.
    let fits = |x: &f64| x.is_finite() && x.abs() <= f64::from(f32::MAX);
    if !whitening.mean.iter().all(fits) || !whitening.factor.iter().flatten().all(fits) {
        return Err("expected finite numbers in mean and factor");
    }
    for (i, row) in whitening.factor.iter().enumerate() {
        // The inverse of a square root of 10⁻⁶ or more, and some rounding.
        if row[i] <= 0.0 || row[i] > 1000.1 {
            return Err("expected a positive definite covariance");
        }
        if row[i + 1..].iter().any(|x| *x != 0.0) {
            return Err("expected a lower triangle");
        }
    }
    Ok(())
}

impl<'de, const D: usize, const N: usize> Deserialize<'de> for History<D, N> {
    fn deserialize<S: Deserializer<'de>>(deserializer: S) -> Result<Self, S::Error> {
        Form::deserialize(deserializer)?
            .history()
            .map_err(Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use std::string::{String, ToString};

    use serde_json::{Value, json};

    use super::*;
    use crate::Draw;

    type Small = History<2, 8>;

    fn sample() -> Small {
        let mut history = Small::new(4);
        let mut draw = Draw::new(1);
        for _ in 0..20 {
            history.push(&[draw.unit(), 3.0 * draw.unit()], draw.unit());
        }
        history
    }

    #[test]
    fn what_is_written_is_read_again() {
        let mut history = sample();
        let text = serde_json::to_string(&history).unwrap();
        let mut read: Small = serde_json::from_str(&text).unwrap();
        assert_eq!((read.len(), read.seen()), (8, 20));
        assert!(!read.is_frozen());
        read.freeze();
        history.freeze();
        let text = serde_json::to_string(&history).unwrap();
        let again: Small = serde_json::from_str(&text).unwrap();
        let mut draw = Draw::new(9);
        for _ in 0..100 {
            let query = [2.0 * draw.unit() - 0.5, 4.0 * draw.unit()];
            let expected = history.nearest(&query);
            assert!(expected.is_some());
            assert_eq!(read.nearest(&query), expected);
            assert_eq!(again.nearest(&query), expected);
        }
        assert_eq!(serde_json::to_string(&again).unwrap(), text);
    }

    fn refused(change: impl Fn(&mut Value)) -> String {
        let mut history = sample();
        history.freeze();
        let mut value = serde_json::to_value(&history).unwrap();
        assert!(serde_json::from_value::<Small>(value.clone()).is_ok());
        change(&mut value);
        let error = serde_json::from_value::<Small>(value);
        error.expect_err("a damaged snapshot").to_string()
    }

    #[test]
    fn a_damaged_snapshot_is_refused() {
        refused(|v| v["samples"][3][1] = Value::Null);
        refused(|v| v["samples"][3][0][0] = json!(1e39));
        refused(|v| v["samples"][3][0] = json!([1.0]));
        refused(|v| v["samples"][3][0] = json!([1.0, 2.0, 3.0]));
        refused(|v| v["samples"][3][0][1] = json!(1e6));
        refused(|v| {
            let one = v["samples"][0].clone();
            v["samples"].as_array_mut().unwrap().push(one);
        });
        refused(|v| v["seen"] = json!(7));
        refused(|v| {
            v["samples"].as_array_mut().unwrap().pop();
        });
        refused(|v| v["mean"] = Value::Null);
        refused(|v| v["mean"] = json!([1.0]));
        refused(|v| v["factor"] = json!([[1.0, 0.0]]));
        refused(|v| v["extra"] = json!(1));
        let error = refused(|v| v["factor"][1][1] = json!(-1.0));
        assert_eq!(error, "expected a positive definite covariance");
        let error = refused(|v| v["factor"][0][1] = json!(0.5));
        assert_eq!(error, "expected a lower triangle");
        let error = refused(|v| v["mean"][0] = json!(1e300));
        assert_eq!(error, "expected finite numbers in mean and factor");
    }
}
