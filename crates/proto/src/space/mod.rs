//! One packet number space: what was received, what was sent, what is owed; no frames of its own.

mod sent_frame;

pub(crate) use sent_frame::{SentFrame, SentFrames, StreamRange};
