//! What goes into the frames that end a connection or a path.

mod close;
mod escaped;
mod path;
mod transport;

pub use close::{ApplicationClose, ConnectionClose};
pub use escaped::Escaped;
pub use path::PathErrorCode;
pub use transport::TransportError;
