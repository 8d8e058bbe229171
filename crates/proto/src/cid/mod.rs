//! Connection IDs per path ID, ours and the peer's, and stateless reset tokens; routes nothing and
//! knows no path state beyond "in use".

mod generator;
mod local;
mod quic_lb;
#[cfg(feature = "quic-lb")]
mod quic_lb_cipher;
mod remote;
#[cfg(test)]
mod remote_tests;
mod reset;
mod steering;

pub(crate) use generator::CidGenerator;
pub use generator::ConnectionIdGenerator;
pub(crate) use local::LocalCids;
pub use quic_lb::{QuicLb, QuicLbConfig, QuicLbError};
pub(crate) use remote::{OnNew, RemoteCids, Rotation};
pub(crate) use reset::{ResetKey, ResetToken, TOKEN_LEN, is_reset, tail};
pub use steering::{Steering, SteeringPiece};
