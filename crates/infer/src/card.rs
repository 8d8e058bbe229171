//! The model card: what a policy takes, gives and comes from. Checked here on its own; against the ONNX file in
//! `load`.

use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};

/// What a policy takes, gives and comes from: the JSON file beside the ONNX file.
///
/// ```
/// let card = mpquic_infer::Card::from_json(
///     br#"{
///         "format": 1,
///         "name": "two-path chooser",
///         "onnx_sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
///         "inputs": [{
///             "name": "state", "shape": [1, 2], "axis": 1,
///             "features": [
///                 {"name": "rtt of the fast path", "unit": "ms",
///                  "normalisation": {"offset": 0.0, "scale": 100.0, "clip": {"low": 0.0, "high": 10.0}}},
///                 {"name": "window of the fast path", "unit": "bytes",
///                  "normalisation": {"offset": 0.0, "scale": 100000.0}}
///             ]
///         }],
///         "outputs": [{"name": "q", "shape": [1, 2], "meaning": ["value of sending", "value of waiting"]}],
///         "provenance": {"source": "doc example", "training": "python -m training dqn", "seed": 7}
///     }"#,
/// )?;
/// assert_eq!(card.inputs[0].features[1].unit, "bytes");
/// # Ok::<(), mpquic_infer::CardError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    /// Version of this format: 1.
    pub format: u32,
    /// What people call the policy.
    pub name: String,
    /// SHA-256 of the ONNX file, 64 hexadecimal digits.
    pub onnx_sha256: String,
    /// The network's inputs in their order in the ONNX file.
    pub inputs: Vec<Input>,
    /// The network's outputs in their order in the ONNX file.
    pub outputs: Vec<Output>,
    /// Where the weights come from.
    pub provenance: Provenance,
}

/// One input tensor, f32.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Its name in the ONNX file.
    pub name: String,
    /// Its dimensions, each at least 1. A symbolic dimension of the ONNX file takes the size given here.
    pub shape: Vec<usize>,
    /// The dimension along which the features lie.
    pub axis: usize,
    /// One for each index along `axis`.
    pub features: Vec<Feature>,
}

/// One quantity that the policy looks at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Feature {
    /// What it is.
    pub name: String,
    /// The unit in which it is handed to [`Policy::run`](crate::Policy::run).
    pub unit: String,
    /// How it becomes what the network sees; as it is, where absent.
    #[serde(default)]
    pub normalisation: Normalisation,
}

/// `(x - offset) / scale`, then held within `clip`, all in f32.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Normalisation {
    /// Subtracted first, in the feature's unit.
    pub offset: f32,
    /// Divides what is left, in the feature's unit; not 0.
    pub scale: f32,
    /// Bounds of the result, none by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clip: Option<Clip>,
}

impl Default for Normalisation {
    fn default() -> Self {
        Self {
            offset: 0.0,
            scale: 1.0,
            clip: None,
        }
    }
}

/// Bounds of a normalised feature.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clip {
    /// The least that the network is shown.
    pub low: f32,
    /// The most that the network is shown.
    pub high: f32,
}

/// One output tensor, f32.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Output {
    /// Its name in the ONNX file.
    pub name: String,
    /// Its dimensions.
    pub shape: Vec<usize>,
    /// What each element means, or all of them where there is one text.
    pub meaning: Vec<String>,
}

/// Where the weights come from. What is not known of them is left out of the card.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// The paper, specification or project that the policy follows.
    pub source: String,
    /// The command that trained it.
    pub training: String,
    /// The seed of that command.
    pub seed: u64,
    /// The commit whose recipe that command followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The versions of the libraries that computed the weights, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub versions: BTreeMap<String, String>,
    /// How many networks it was trained on, and where they are listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub networks: Option<String>,
    /// The file with its learning curve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub curve: Option<String>,
    /// What it is worth on networks that it was not trained on, and where all of that is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_out: Option<String>,
}

/// What is wrong with a card.
#[derive(Debug, thiserror::Error, PartialEq)]
#[non_exhaustive]
pub enum CardError {
    /// Not JSON, or not of a card's form.
    #[error("line {line}, column {column}: {expected}")]
    Json {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What was expected there.
        expected: String,
    },
    /// A format that this version does not read.
    #[error("format is {found}, this version reads {expected}")]
    Format {
        /// What the card says.
        found: u32,
        /// What is read here.
        expected: u32,
    },
    /// A hash that is not one.
    #[error("onnx_sha256 has to be 64 hexadecimal digits, found {found:?}")]
    Hash {
        /// What stands there.
        found: String,
    },
    /// A list or text that has to have something in it.
    #[error("{at} is empty")]
    Empty {
        /// Where.
        at: String,
    },
    /// A name used twice.
    #[error("{at} is {name:?} again: names have to differ")]
    Duplicate {
        /// Where.
        at: String,
        /// The name.
        name: String,
    },
    /// A shape without a dimension, with one of 0, or too large.
    #[error(
        "{at} is {shape:?}: it needs 1 to {max_rank} dimensions of at least 1 and at most {max_elements} elements"
    )]
    Shape {
        /// Where.
        at: String,
        /// The shape.
        shape: Vec<usize>,
        /// Most dimensions allowed.
        max_rank: usize,
        /// Most elements allowed.
        max_elements: usize,
    },
    /// An axis that the shape lacks.
    #[error("{at} is {axis}, the shape has {rank} dimensions")]
    Axis {
        /// Where.
        at: String,
        /// The axis.
        axis: usize,
        /// The number of dimensions.
        rank: usize,
    },
    /// Not as many descriptions as there are things to describe.
    #[error("{at} has {found} entries, expected {expected}")]
    Count {
        /// Where.
        at: String,
        /// How many there are.
        found: usize,
        /// How many it takes.
        expected: usize,
    },
    /// A number out of its range.
    #[error("{at} is {found}, expected {expected}")]
    Range {
        /// Where.
        at: String,
        /// The number.
        found: f32,
        /// What it has to be.
        expected: &'static str,
    },
}

/// The format that is read and written here.
const FORMAT: u32 = 1;
/// Most dimensions of a tensor. Ours: the largest graphs here have 4.
pub(crate) const MAX_RANK: usize = 8;
/// Most elements of an input or output. Ours: SAILfish's state has 48, GAPS's at most 56.
const MAX_ELEMENTS: usize = 1 << 16;

impl Card {
    /// Reads and checks a card.
    ///
    /// # Errors
    ///
    /// Says what is wrong and where; see [`CardError`].
    pub fn from_json(json: &[u8]) -> Result<Self, CardError> {
        let card: Self = serde_json::from_slice(json).map_err(|error| CardError::Json {
            line: error.line(),
            column: error.column(),
            expected: without_position(&error),
        })?;
        card.check()?;
        Ok(card)
    }

    /// Whether the card is whole and sane; see [`CardError`] for what is looked at.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), CardError> {
        if self.format != FORMAT {
            return Err(CardError::Format {
                found: self.format,
                expected: FORMAT,
            });
        }
        if self.onnx_sha256.len() != 64 || !self.onnx_sha256.bytes().all(|b| b.is_ascii_hexdigit())
        {
            return Err(CardError::Hash {
                found: self.onnx_sha256.chars().take(80).collect(),
            });
        }
        not_empty(&self.name, || "name".into())?;
        not_empty(&self.provenance.source, || "provenance.source".into())?;
        not_empty(&self.provenance.training, || "provenance.training".into())?;
        if self.inputs.is_empty() {
            return Err(CardError::Empty {
                at: "inputs".into(),
            });
        }
        if self.outputs.is_empty() {
            return Err(CardError::Empty {
                at: "outputs".into(),
            });
        }
        let mut names = HashSet::new();
        for (i, input) in self.inputs.iter().enumerate() {
            input.check(&format!("inputs[{i}]"))?;
            distinct(&mut names, &input.name, || format!("inputs[{i}].name"))?;
        }
        names.clear();
        for (i, output) in self.outputs.iter().enumerate() {
            output.check(&format!("outputs[{i}]"))?;
            distinct(&mut names, &output.name, || format!("outputs[{i}].name"))?;
        }
        Ok(())
    }

    /// Elements of all inputs.
    pub fn input_len(&self) -> usize {
        self.inputs.iter().map(|input| volume(&input.shape)).sum()
    }

    /// Elements of all outputs.
    pub fn output_len(&self) -> usize {
        self.outputs
            .iter()
            .map(|output| volume(&output.shape))
            .sum()
    }
}

impl Input {
    fn check(&self, at: &str) -> Result<(), CardError> {
        not_empty(&self.name, || format!("{at}.name"))?;
        shape_in_bounds(&self.shape, at)?;
        let Some(&along) = self.shape.get(self.axis) else {
            return Err(CardError::Axis {
                at: format!("{at}.axis"),
                axis: self.axis,
                rank: self.shape.len(),
            });
        };
        if self.features.len() != along {
            return Err(CardError::Count {
                at: format!("{at}.features"),
                found: self.features.len(),
                expected: along,
            });
        }
        for (j, feature) in self.features.iter().enumerate() {
            not_empty(&feature.name, || format!("{at}.features[{j}].name"))?;
            not_empty(&feature.unit, || format!("{at}.features[{j}].unit"))?;
            feature
                .normalisation
                .check(&format!("{at}.features[{j}].normalisation"))?;
        }
        Ok(())
    }

    /// The normalisation of each element in row-major order.
    pub(crate) fn by_element(&self) -> impl Iterator<Item = Normalisation> + '_ {
        let inner: usize = self.shape[self.axis + 1..].iter().product();
        (0..volume(&self.shape))
            .map(move |i| self.features[i / inner % self.features.len()].normalisation)
    }
}

impl Output {
    fn check(&self, at: &str) -> Result<(), CardError> {
        not_empty(&self.name, || format!("{at}.name"))?;
        shape_in_bounds(&self.shape, at)?;
        let elements = volume(&self.shape);
        if self.meaning.len() != 1 && self.meaning.len() != elements {
            return Err(CardError::Count {
                at: format!("{at}.meaning"),
                found: self.meaning.len(),
                expected: elements,
            });
        }
        for (j, meaning) in self.meaning.iter().enumerate() {
            not_empty(meaning, || format!("{at}.meaning[{j}]"))?;
        }
        Ok(())
    }
}

impl Normalisation {
    fn check(&self, at: &str) -> Result<(), CardError> {
        let range = |field: &str, found, expected| {
            Err(CardError::Range {
                at: format!("{at}.{field}"),
                found,
                expected,
            })
        };
        if !self.offset.is_finite() {
            return range("offset", self.offset, "a finite number");
        }
        if !self.scale.is_normal() || !self.scale.recip().is_normal() {
            return range("scale", self.scale, "a number that can be divided by");
        }
        if let Some(clip) = self.clip {
            if !clip.low.is_finite() {
                return range("clip.low", clip.low, "a finite number");
            }
            if !clip.high.is_finite() || clip.high < clip.low {
                return range("clip.high", clip.high, "a finite number not below clip.low");
            }
        }
        Ok(())
    }
}

/// The product of the dimensions of a shape that was checked.
pub(crate) fn volume(shape: &[usize]) -> usize {
    shape.iter().product()
}

fn not_empty(text: &str, at: impl FnOnce() -> String) -> Result<(), CardError> {
    if text.trim().is_empty() {
        return Err(CardError::Empty { at: at() });
    }
    Ok(())
}

fn distinct<'a>(
    names: &mut HashSet<&'a str>,
    name: &'a str,
    at: impl FnOnce() -> String,
) -> Result<(), CardError> {
    if names.insert(name) {
        return Ok(());
    }
    Err(CardError::Duplicate {
        at: at(),
        name: name.to_owned(),
    })
}

fn shape_in_bounds(shape: &[usize], at: &str) -> Result<(), CardError> {
    let elements = shape
        .iter()
        .try_fold(1_usize, |all, &dim| all.checked_mul(dim));
    if shape.is_empty()
        || shape.len() > MAX_RANK
        || elements.is_none_or(|elements| elements == 0 || elements > MAX_ELEMENTS)
    {
        return Err(CardError::Shape {
            at: format!("{at}.shape"),
            shape: shape.iter().copied().take(MAX_RANK + 1).collect(),
            max_rank: MAX_RANK,
            max_elements: MAX_ELEMENTS,
        });
    }
    Ok(())
}

/// serde_json's message without the position at its end, which the error gives apart.
fn without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let end = text.rfind(" at line ").unwrap_or(text.len());
    text[..end].to_owned()
}
