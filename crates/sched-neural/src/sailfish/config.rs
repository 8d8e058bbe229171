//! The settings of SAILfish, and their ranges.

use std::fmt;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use mpquic_sched::neural::{Model, Run};
use mpquic_sched::{InvalidConfig, MAX_PATHS};

/// Settings of [`Sailfish`](super::Sailfish).
///
/// ```
/// use mpquic_sched_neural::{Rates, SailfishConfig};
/// use serde_json::json;
///
/// let config: SailfishConfig = serde_json::from_value(json!({"rates": [15, 5]}))?;
/// assert_eq!(config.rates, Rates::Oracle(vec![15.0, 5.0]));
/// assert!(config.sample && !config.all_have_room);
///
/// let wrong = mpquic_sched_neural::registry().build("sailfish", &json!({"loss_weight": -1})).err().unwrap();
/// assert_eq!(
///     wrong.to_string(),
///     "scheduler `sailfish`, field `loss_weight`: expected 0 to 1000, got -1",
/// );
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SailfishConfig {
    /// Which policy is asked. Default `"shipped"`.
    pub model: Model,
    /// Where it runs. Default `"inline"`.
    ///
    /// With `"thread"` a stream is not kept waiting for the answer to its own state: it is bound by the newest answer
    /// that there is, which is to the state of a stream before it.
    pub run: Run,
    /// Seed of the draws. Default 0.
    pub seed: u64,
    /// Whether the path is drawn from the softmax of the logits, as the source does after training, too. Default true;
    /// false takes the largest, of equals the one with the lowest slot.
    pub sample: bool,
    /// Where the paths' rates in the state come from. Default `"estimate"`.
    pub rates: Rates,
    /// Whether a stream is only bound while all paths that it may be bound to have room in their windows, so that the
    /// first that waits for that holds up all that come after it: the source's rule. Default false, ours: it may be
    /// bound to a path that is full, and waits there.
    pub all_have_room: bool,
    /// What a normalised lost or retransmitted packet takes off the reward, 0 to 1000. Default 0.6, the thesis's; its
    /// code has 1.
    pub loss_weight: f64,
}

impl Default for SailfishConfig {
    fn default() -> Self {
        Self {
            model: Model::default(),
            run: Run::default(),
            seed: 0,
            sample: true,
            rates: Rates::default(),
            all_have_room: false,
            loss_weight: 0.6,
        }
    }
}

/// Where the rates in SAILfish's state come from. In configurations `"estimate"` or a list of numbers.
///
/// In the source's own figures, the rates are those that its test driver had set the links to. Figures of a scheduler
/// that knows them are not to be compared with those of one that has to find out. A file of `mpquic-lab` may say
/// `"oracle"`, which becomes the list of each network's rates.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Rates {
    /// `"estimate"`: what the transport has measured, [`PathView::delivery_rate`](mpquic_sched::PathView::delivery_rate).
    #[default]
    Estimate,
    /// `[15, 5]`: known beforehand, Mbit/s, the path in slot 0 first, at most one for each of
    /// [`MAX_PATHS`](mpquic_sched::MAX_PATHS) slots. Those of paths beyond the list are estimated.
    Oracle(Vec<f64>),
}

impl SailfishConfig {
    /// Whether the settings are within their ranges.
    pub(crate) fn check(&self) -> Result<(), InvalidConfig> {
        let weight = self.loss_weight;
        if !(0.0..=1000.0).contains(&weight) {
            let problem = format!("expected 0 to 1000, got {weight}");
            return Err(InvalidConfig::field("loss_weight", problem));
        }
        let Rates::Oracle(rates) = &self.rates else {
            return Ok(());
        };
        let problem = |problem: String| Err(InvalidConfig::field("rates", problem));
        if rates.is_empty() || rates.len() > MAX_PATHS {
            let found = rates.len();
            return problem(format!("expected 1 to {MAX_PATHS} rates, got {found}"));
        }
        match rates.iter().find(|rate| !(0.0..=1e6).contains(*rate)) {
            Some(rate) => problem(format!("expected Mbit/s, 0 to 1e6, got {rate}")),
            None => Ok(()),
        }
    }
}

impl Serialize for Rates {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Estimate => serializer.serialize_str("estimate"),
            Self::Oracle(rates) => rates.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Rates {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RatesVisitor)
    }
}

struct RatesVisitor;

impl<'de> Visitor<'de> for RatesVisitor {
    type Value = Rates;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"estimate\" or a list of rates in Mbit/s")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Rates, E> {
        match text {
            "estimate" => Ok(Rates::Estimate),
            other => Err(E::invalid_value(serde::de::Unexpected::Str(other), &self)),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Rates, A::Error> {
        let mut rates = Vec::new();
        while let Some(rate) = list.next_element()? {
            rates.push(rate);
        }
        Ok(Rates::Oracle(rates))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rates_are_read_as_they_are_written() {
        for (rates, value) in [
            (Rates::Estimate, json!("estimate")),
            (Rates::Oracle(vec![1.5, 20.0]), json!([1.5, 20.0])),
        ] {
            assert_eq!(serde_json::to_value(&rates).unwrap(), value);
            assert_eq!(serde_json::from_value::<Rates>(value).unwrap(), rates);
        }
        let error = serde_json::from_value::<Rates>(json!("oracle")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "invalid value: string \"oracle\", expected \"estimate\" or a list of rates in Mbit/s"
        );
        assert!(serde_json::from_value::<Rates>(json!(["1"])).is_err());
    }

    #[test]
    fn what_is_out_of_range_is_refused() {
        let with_rates = |rates| SailfishConfig {
            rates: Rates::Oracle(rates),
            ..SailfishConfig::default()
        };
        assert_eq!(SailfishConfig::default().check(), Ok(()));
        assert_eq!(with_rates(vec![0.0; MAX_PATHS]).check(), Ok(()));
        for wrong in [
            with_rates(vec![]),
            with_rates(vec![1.0; MAX_PATHS + 1]),
            with_rates(vec![1.0, -1.0]),
            with_rates(vec![f64::NAN]),
            with_rates(vec![f64::INFINITY]),
        ] {
            let error = wrong.check().unwrap_err();
            assert_eq!(error.field_name(), Some("rates"), "{wrong:?}");
        }
        let wrong = SailfishConfig {
            loss_weight: f64::NAN,
            ..SailfishConfig::default()
        };
        assert!(wrong.check().is_err());
    }
}
