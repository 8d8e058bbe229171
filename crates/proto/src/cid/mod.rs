//! Connection IDs per path ID, ours and the peer's, and stateless reset tokens; routes nothing and
//! knows no path state beyond "in use".
#![allow(
    dead_code,
    unused_imports,
    reason = "called by the connection's glue, which is written on top"
)]

mod generator;
mod local;
mod ranges;
mod remote;
#[cfg(test)]
mod remote_tests;
mod reset;
mod wire;

pub(crate) use generator::{CidGenerator, MAX_CID_LEN};
pub(crate) use local::LocalCids;
pub(crate) use remote::{OnNew, RemoteCids, Rotation};
pub(crate) use reset::{ResetKey, ResetToken, TOKEN_LEN, is_reset, tail};
