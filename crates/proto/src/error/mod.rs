//! Why a connection ends or a call fails, and who is at fault.

mod attempt;
mod connection;
mod escaped;
mod path;
mod transport;

pub use attempt::{AttemptError, FailedAttempt};
pub use connection::{ApplicationClose, ConnectionClose, ConnectionError};
pub use escaped::Escaped;
pub use path::{PathError, PathErrorCode};
pub use transport::TransportError;
