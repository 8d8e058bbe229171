//! The public face: a policy that was loaded, asked for a decision. Owns normalisation; the arithmetic is the engines'.

use std::{fmt, path::Path};

use crate::{
    Card, Engine, Limits, LoadError, Prefer, Unplanned, Vectors,
    card::Normalisation,
    engine::Tract,
    load,
    plan::{self, Plan},
};

/// How to load a policy.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// What loading may take.
    pub limits: Limits,
    /// Which engine to load it for.
    pub prefer: Prefer,
}

/// Why a run gave no decision.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The wrong number of inputs.
    #[error("{found} inputs, the card says {expected}")]
    InputCount {
        /// How many were given.
        found: usize,
        /// How many the card says.
        expected: usize,
    },
    /// An input that is not a finite number, as it is or once it is normalised.
    #[error("input {index} is {found}, expected a finite number")]
    Input {
        /// Which, counted over all inputs.
        index: usize,
        /// What was given.
        found: f32,
    },
    /// The network's answer is not a finite number.
    #[error("output {index} came out as {found}")]
    Output {
        /// Which, counted over all outputs.
        index: usize,
        /// What it is.
        found: f32,
    },
    /// tract failed.
    #[error("tract: {message}")]
    Tract {
        /// Its reason.
        message: String,
    },
}

/// A network that decides: a checked ONNX file, its card, and what runs it.
///
/// A clone is an instance of its own for another thread or connection: compiled weights are shared, the values of a
/// run are not.
#[derive(Clone)]
pub struct Policy {
    card: Card,
    runner: Runner,
    why_no_plan: Option<Unplanned>,
    normalise: Normalise,
}

#[derive(Clone)]
enum Runner {
    Plan(Plan),
    Tract(Box<Tract>, Vec<f32>),
}

impl Policy {
    /// Loads `path`, an ONNX file, and the card beside it: the same name with the ending `json`.
    ///
    /// # Errors
    ///
    /// Whatever is wrong with either file; see [`LoadError`].
    pub fn load(path: impl AsRef<Path>) -> Result<Self, LoadError> {
        Self::load_with(path, &Options::default())
    }

    /// [`load`](Self::load) with limits and an engine of the caller's choice.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load), and [`LoadError::NoPlan`] where a plan is asked for and the graph has none.
    pub fn load_with(path: impl AsRef<Path>, options: &Options) -> Result<Self, LoadError> {
        let path = path.as_ref();
        // Of two files that are not there, the one that was named.
        let onnx = load::read_bounded(path, options.limits.file_bytes)?;
        let card = load::read_bounded(&path.with_extension("json"), options.limits.card_bytes)?;
        let card = Card::from_json(&card)?;
        Self::from_bytes(&onnx, card, options)
    }

    /// A policy from an ONNX file and a card that are in memory already.
    ///
    /// # Errors
    ///
    /// As [`load_with`](Self::load_with).
    pub fn from_bytes(onnx: &[u8], card: Card, options: &Options) -> Result<Self, LoadError> {
        card.check()?;
        let graph = load::graph(onnx, &card, &options.limits)?;
        let normalise = Normalise::new(&card);
        let mut why_no_plan = None;
        let widest = match options.prefer {
            Prefer::Fastest => Some(Vectors::Avx512),
            Prefer::Plan(vectors) => Some(vectors),
            Prefer::Tract => None,
        };
        let planned = match widest {
            Some(widest) => match Plan::compile(&graph, plan::available(widest)) {
                Ok(plan) => Some(plan),
                Err(why) if options.prefer == Prefer::Fastest => {
                    why_no_plan = Some(why);
                    None
                }
                Err(why) => return Err(why.into()),
            },
            None => None,
        };
        let runner = match planned {
            Some(plan) => Runner::Plan(plan),
            None => {
                let inputs = vec![0.0; card.input_len()];
                // One run now: what tract's operators find wrong only when they run should not wait for a decision.
                let tract = load::guarded(|| {
                    let mut tract = Tract::new(graph, &card)?;
                    tract.run(&inputs)?;
                    Ok(tract)
                })?;
                Runner::Tract(Box::new(tract), inputs)
            }
        };
        Ok(Self {
            card,
            runner,
            why_no_plan,
            normalise,
        })
    }

    /// What the policy takes, gives and comes from.
    pub fn card(&self) -> &Card {
        &self.card
    }

    /// What runs it.
    pub fn engine(&self) -> Engine {
        match &self.runner {
            Runner::Plan(plan) => Engine::Plan {
                vectors: plan.vectors(),
            },
            Runner::Tract(..) => Engine::Tract,
        }
    }

    /// Why tract runs it where a plan was wanted.
    pub fn why_no_plan(&self) -> Option<&Unplanned> {
        self.why_no_plan.as_ref()
    }

    /// Asks the policy. `inputs` are the card's inputs one after another, each in row-major order and in the card's
    /// units; they are normalised here. The answer is the outputs one after another.
    ///
    /// With a compiled plan: no allocation, no lock, no system call.
    ///
    /// # Errors
    ///
    /// The wrong number of inputs, one that is not finite, an answer that is not finite.
    pub fn run(&mut self, inputs: &[f32]) -> Result<&[f32], RunError> {
        self.check_count(inputs.len())?;
        let to = self.runner.inputs();
        let finite = self.normalise.apply(inputs, to);
        if !finite && let Some(index) = first_not_finite(to) {
            return Err(RunError::Input {
                index,
                found: inputs[index],
            });
        }
        self.answer()
    }

    /// With the feature `ndarray`: [`run`](Self::run) with a view, of any shape and stride that has as many elements as
    /// the card's inputs, taken in row-major order. The answer is a view of where it lies; with a compiled plan,
    /// nothing is allocated.
    ///
    /// ```no_run
    /// # // no_run: the file is in the root of the repository
    /// use mpquic_infer::Policy;
    /// use ndarray::Array2;
    ///
    /// let mut policy = Policy::load("models/dqn.onnx")?;
    /// let states = Array2::<f32>::zeros((100, 10));
    /// for state in states.rows() {
    ///     println!("{}", policy.run_view(state)?);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    #[cfg(feature = "ndarray")]
    pub fn run_view<D: ndarray::Dimension>(
        &mut self,
        inputs: ndarray::ArrayView<'_, f32, D>,
    ) -> Result<ndarray::ArrayView1<'_, f32>, RunError> {
        self.check_count(inputs.len())?;
        let to = self.runner.inputs();
        for (index, (to, from)) in to.iter_mut().zip(inputs.iter()).enumerate() {
            *to = self.normalise.of(index, *from);
            if !to.is_finite() {
                return Err(RunError::Input {
                    index,
                    found: *from,
                });
            }
        }
        self.answer().map(ndarray::ArrayView1::from)
    }

    fn check_count(&self, found: usize) -> Result<(), RunError> {
        let expected = self.normalise.offset.len();
        if found == expected {
            return Ok(());
        }
        Err(RunError::InputCount { found, expected })
    }

    /// The answer to the inputs that are in place.
    fn answer(&mut self) -> Result<&[f32], RunError> {
        let outputs = match &mut self.runner {
            Runner::Plan(plan) => plan.run(),
            Runner::Tract(tract, inputs) => tract.run(inputs).map_err(|error| RunError::Tract {
                message: format!("{error:#}"),
            })?,
        };
        match first_not_finite(outputs) {
            None => Ok(outputs),
            Some(index) => Err(RunError::Output {
                index,
                found: outputs[index],
            }),
        }
    }
}

impl Runner {
    /// Where normalised inputs go.
    fn inputs(&mut self) -> &mut [f32] {
        match self {
            Self::Plan(plan) => plan.inputs(),
            Self::Tract(_, inputs) => inputs,
        }
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy")
            .field("name", &self.card.name)
            .field("engine", &self.engine())
            .finish_non_exhaustive()
    }
}

/// The card's normalisation, element by element.
#[derive(Clone)]
struct Normalise {
    offset: Vec<f32>,
    scale: Vec<f32>,
    low: Vec<f32>,
    high: Vec<f32>,
}

impl Normalise {
    fn new(card: &Card) -> Self {
        let all: Vec<Normalisation> = card
            .inputs
            .iter()
            .flat_map(|input| input.by_element())
            .collect();
        Self {
            offset: all.iter().map(|it| it.offset).collect(),
            scale: all.iter().map(|it| it.scale).collect(),
            low: all
                .iter()
                .map(|it| it.clip.map_or(f32::NEG_INFINITY, |clip| clip.low))
                .collect(),
            high: all
                .iter()
                .map(|it| it.clip.map_or(f32::INFINITY, |clip| clip.high))
                .collect(),
        }
    }

    /// One element.
    #[cfg(feature = "ndarray")]
    fn of(&self, i: usize, x: f32) -> f32 {
        let x = (x - self.offset[i]) / self.scale[i];
        let x = if x < self.low[i] { self.low[i] } else { x };
        if x > self.high[i] { self.high[i] } else { x }
    }

    /// All elements; whether they came out as finite numbers. The comparisons are written so that what is not a number
    /// stays so, and is noticed.
    fn apply(&self, from: &[f32], to: &mut [f32]) -> bool {
        let n = to.len();
        let (from, offset, scale) = (&from[..n], &self.offset[..n], &self.scale[..n]);
        let (low, high) = (&self.low[..n], &self.high[..n]);
        let mut odd = 0_u32;
        for i in 0..n {
            let x = (from[i] - offset[i]) / scale[i];
            let x = if x < low[i] { low[i] } else { x };
            to[i] = if x > high[i] { high[i] } else { x };
            odd |= u32::from(!to[i].is_finite());
        }
        odd == 0
    }
}

fn first_not_finite(numbers: &[f32]) -> Option<usize> {
    // One pass without a branch for the usual answer.
    let odd = numbers
        .iter()
        .fold(0_u32, |odd, x| odd | u32::from(!x.is_finite()));
    if odd == 0 {
        return None;
    }
    numbers.iter().position(|x| !x.is_finite())
}
