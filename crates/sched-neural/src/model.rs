//! Finds the network that a configuration names, and checks that it fits its scheduler.

use std::sync::{Mutex, PoisonError};

use mpquic_infer::{Card, LoadError, Options};
use mpquic_sched::InvalidConfig;
use mpquic_sched::neural::{Model, Policy, Random};

use crate::Network;

/// A model that is part of the crate, and what its scheduler hands over and takes back.
pub(crate) struct Shipped {
    /// The ONNX file.
    pub(crate) onnx: &'static [u8],
    /// Its card.
    pub(crate) card: &'static [u8],
    /// The one input: its shape, the axis of its features, and each one's name and unit.
    pub(crate) shape: &'static [usize],
    pub(crate) axis: usize,
    pub(crate) features: &'static [(&'static str, &'static str)],
    /// Elements of all outputs.
    pub(crate) outputs: usize,
}

/// A policy that was found and checked, to make instances of for connections.
pub(crate) enum Loaded {
    Random {
        outputs: usize,
    },
    /// Locked for as long as it takes to copy it for a connection: what tract keeps between runs may not be looked at
    /// from two threads.
    Network(Box<Mutex<mpquic_infer::Policy>>),
}

impl Shipped {
    /// Finds the policy and holds it against what the scheduler hands over.
    ///
    /// # Errors
    ///
    /// For the field `model`: why the file or its card is refused, or what the card expects that this scheduler does not
    /// hand over.
    pub(crate) fn load(&self, model: &Model) -> Result<Loaded, InvalidConfig> {
        let problem = |problem: String| InvalidConfig::field("model", problem);
        let policy = match model {
            Model::Random => {
                return Ok(Loaded::Random {
                    outputs: self.outputs,
                });
            }
            Model::Shipped => Card::from_json(self.card)
                .map_err(LoadError::from)
                .and_then(|card| {
                    mpquic_infer::Policy::from_bytes(self.onnx, card, &Options::default())
                })
                .map_err(|error| problem(error.to_string()))?,
            Model::File(path) => mpquic_infer::Policy::load(path)
                .map_err(|error| problem(format!("{}: {error}", path.display())))?,
        };
        self.fits(policy.card()).map_err(problem)?;
        Ok(Loaded::Network(Box::new(Mutex::new(policy))))
    }

    /// What a card expects that the scheduler does not hand over, or the other way round.
    fn fits(&self, card: &Card) -> Result<(), String> {
        let name = &card.name;
        let [input] = &*card.inputs else {
            let found = card.inputs.len();
            return Err(format!("`{name}` has {found} inputs, expected 1"));
        };
        if (&*input.shape, input.axis) != (self.shape, self.axis) {
            return Err(format!(
                "`{name}` takes a state of shape {:?} with features along axis {}, expected {:?} and {}",
                input.shape, input.axis, self.shape, self.axis,
            ));
        }
        for (number, (feature, (name, unit))) in
            input.features.iter().zip(self.features).enumerate()
        {
            if (&*feature.name, &*feature.unit) != (name, unit) {
                return Err(format!(
                    "feature {number} of `{}` is {:?} in {:?}, this scheduler gives {name:?} in {unit:?}",
                    card.name, feature.name, feature.unit,
                ));
            }
        }
        if card.output_len() != self.outputs {
            let (found, expected) = (card.output_len(), self.outputs);
            return Err(format!("`{name}` has {found} outputs, expected {expected}"));
        }
        Ok(())
    }
}

impl Loaded {
    /// An instance for one connection.
    pub(crate) fn policy(&self, seed: u64) -> Box<dyn Policy> {
        match self {
            Self::Random { outputs } => Box::new(Random::new(*outputs, seed)),
            Self::Network(policy) => {
                // Copying changes nothing that could be left half done.
                let policy = policy.lock().unwrap_or_else(PoisonError::into_inner);
                Box::new(Network::from(policy.clone()))
            }
        }
    }
}
