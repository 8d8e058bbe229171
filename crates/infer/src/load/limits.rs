//! How much a model may ask of the machine while it loads and runs; what exceeds it is refused, not shortened.

/// Bounds on what loading a model may take. The defaults fit a policy of up to about a million weights, ten times the
/// largest that decides on a packet's path here.
///
/// Memory while loading stays below about `10 * file_bytes + 512 * records + 16 * elements` bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Size of the ONNX file; 4 MiB.
    pub file_bytes: usize,
    /// Size of the card; 256 KiB.
    pub card_bytes: usize,
    /// Records (nodes, attributes, names, tensors, ...) in the file; 32,768.
    pub records: usize,
    /// Operators in the graph; 1,024.
    pub nodes: usize,
    /// Elements of any one dimension; 65,536.
    pub dimension: usize,
    /// Elements of all weights and of all values between operators together; 8 Mi.
    pub elements: u64,
    /// Multiplications of one run, counting those of constants that are folded at load; 256 Mi, about 0.1 s.
    pub multiplications: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            file_bytes: 4 << 20,
            card_bytes: 256 << 10,
            records: 32_768,
            nodes: 1024,
            dimension: 65_536,
            elements: 8 << 20,
            multiplications: 256 << 20,
        }
    }
}
