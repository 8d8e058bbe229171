//! Frames over connections of mpquic, on tokio: one task per sender, none per receiver.

mod memory;
mod receiver;
mod sender;

pub use receiver::{LiveReceiver, Received};
pub use sender::{LiveConfig, LiveError, LiveFlow, LiveSender};
