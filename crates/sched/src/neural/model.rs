//! Which network a scheduler asks, as its configuration says it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Which policy a neural scheduler asks. In configurations a text.
///
/// ```
/// use mpquic_sched::neural::Model;
///
/// let model = |text: &str| serde_json::from_value::<Model>(text.into()).unwrap();
/// assert_eq!(model("shipped"), Model::Shipped);
/// assert_eq!(model("random"), Model::Random);
/// assert_eq!(model("models/mine.onnx"), Model::File("models/mine.onnx".into()));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Model {
    /// `"shipped"`: the one that comes with `mpquic-sched-neural`.
    #[default]
    Shipped,
    /// `"random"`: `Random` answers, to compare with.
    Random,
    /// Anything else: the path of an ONNX file, its card beside it.
    File(PathBuf),
}

impl From<String> for Model {
    fn from(text: String) -> Self {
        match text.as_str() {
            "shipped" => Self::Shipped,
            "random" => Self::Random,
            _ => Self::File(text.into()),
        }
    }
}

impl From<Model> for String {
    fn from(model: Model) -> Self {
        match model {
            Model::Shipped => "shipped".into(),
            Model::Random => "random".into(),
            Model::File(path) => path.to_string_lossy().into_owned(),
        }
    }
}
