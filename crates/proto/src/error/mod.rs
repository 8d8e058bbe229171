//! Why a connection ends or a call fails, and who is at fault.

mod attempt;
mod connection;
mod path;

pub use attempt::{AttemptError, FailedAttempt};
pub use connection::ConnectionError;
pub use path::PathError;
