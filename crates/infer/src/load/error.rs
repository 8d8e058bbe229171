//! What can be wrong with a model: each error says what and where.

use std::path::PathBuf;

use crate::CardError;

/// Why a policy could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A file could not be read.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A file is larger than allowed; no more than the limit was read.
    #[error("{path} is larger than {limit} bytes", path = path.display())]
    FileSize {
        /// The file.
        path: PathBuf,
        /// Most bytes.
        limit: usize,
    },
    /// The card is not sound.
    #[error("card: {0}")]
    Card(#[from] CardError),
    /// The ONNX file is not the one that the card describes.
    #[error("the ONNX file's SHA-256 is {found}, the card says {expected}")]
    Hash {
        /// The card's.
        expected: String,
        /// The file's.
        found: String,
    },
    /// The bytes are not a protobuf message, or end too early.
    #[error("byte {offset}, in {within}: {problem}")]
    Wire {
        /// Where in the file.
        offset: usize,
        /// The message that was being read.
        within: &'static str,
        /// What is wrong there.
        problem: &'static str,
    },
    /// The bytes are a protobuf message, but not an ONNX model.
    #[error("not an ONNX model: {message}")]
    Decode {
        /// The decoder's reason.
        message: String,
    },
    /// More than allowed of something.
    #[error("{at}: {found} {what}, the limit is {limit}")]
    Limit {
        /// Where.
        at: String,
        /// Of what.
        what: &'static str,
        /// How many, or the least that it would take.
        found: u64,
        /// Most allowed.
        limit: u64,
    },
    /// An operator set that is not read here.
    #[error(
        "operator set {found} of domain {domain:?}: versions {oldest} to {newest} of the standard domain are read"
    )]
    Opset {
        /// The domain; the standard one is "".
        domain: String,
        /// The version.
        found: i64,
        /// Oldest version read.
        oldest: i64,
        /// Newest version read.
        newest: i64,
    },
    /// Something that ONNX knows and a policy may not have.
    #[error("{at}: {what} not supported")]
    Unsupported {
        /// Where.
        at: String,
        /// What, with its verb.
        what: String,
    },
    /// Something that has to be there is not.
    #[error("{at}: {what} missing")]
    Missing {
        /// Where.
        at: String,
        /// What, with its verb.
        what: &'static str,
    },
    /// A name that is made twice.
    #[error("{at}: {name:?} exists already")]
    Duplicate {
        /// Where.
        at: String,
        /// The name.
        name: String,
    },
    /// A value that nothing makes, or only a later node: a cycle, or nodes out of order.
    #[error("{at} reads {name:?}, which {why}")]
    Dangling {
        /// The node or output.
        at: String,
        /// The value.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A weight that is not a finite number.
    #[error("{at}: element {index} is {found}")]
    NotFinite {
        /// The tensor.
        at: String,
        /// Which of its elements.
        index: usize,
        /// What it is.
        found: f64,
    },
    /// A tensor whose data does not fit its dimensions.
    #[error("{at}: {found} {unit} of data, dimensions {dims:?} take {expected}")]
    DataLength {
        /// The tensor.
        at: String,
        /// Its dimensions.
        dims: Vec<i64>,
        /// "bytes" or "elements".
        unit: &'static str,
        /// How many there are.
        found: usize,
        /// How many there should be.
        expected: u64,
    },
    /// A shape that does not fit another.
    #[error("{at}: shape {found}, expected {expected}")]
    Shape {
        /// Where.
        at: String,
        /// What it is.
        found: String,
        /// What it should be.
        expected: String,
    },
    /// An attribute out of its range.
    #[error("{at}: attribute {name} {problem}")]
    Attribute {
        /// The node.
        at: String,
        /// The attribute.
        name: &'static str,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Card and file differ in their inputs or outputs.
    #[error("{at}: the card says {card}, the ONNX file {file}")]
    Mismatch {
        /// Where.
        at: String,
        /// The card's side.
        card: String,
        /// The file's side.
        file: String,
    },
    /// tract refused the graph: an operator's own rules are broken.
    #[error("building the graph: {message}")]
    Graph {
        /// tract's reason.
        message: String,
    },
    /// The caller asked for a compiled plan and the graph has none.
    #[error("no compiled plan: {0}")]
    NoPlan(#[from] crate::Unplanned),
}
