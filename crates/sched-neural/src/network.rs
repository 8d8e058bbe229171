//! A network of `mpquic-infer` as the policy of a scheduler.

use std::borrow::Cow;

use mpquic_sched::neural::{Policy, Unanswered};

/// A network from a file, as the [`Policy`] of a neural scheduler.
///
/// ```
/// use mpquic_sched_neural::{Gaps, GapsConfig, Network};
///
/// let network = mpquic_infer::Policy::load("models/gaps.onnx")?;
/// let scheduler = Gaps::new(&GapsConfig::default(), Box::new(Network::from(network)));
/// # drop(scheduler);
/// # Ok::<(), mpquic_infer::LoadError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Network(mpquic_infer::Policy);

impl From<mpquic_infer::Policy> for Network {
    fn from(policy: mpquic_infer::Policy) -> Self {
        Self(policy)
    }
}

impl Policy for Network {
    fn answer(&mut self, state: &[f32]) -> Result<&[f32], Unanswered> {
        self.0.run(state).map_err(|_| Unanswered)
    }

    fn engine(&self) -> Cow<'static, str> {
        Cow::Owned(self.0.engine().to_string())
    }
}
