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

/// Whether bytes begin with this connection ID: as `starts_with`, without a call for eight bytes, as most IDs have. Each
/// datagram is asked.
#[inline]
pub(crate) fn begins_with(bytes: &[u8], id: &[u8]) -> bool {
    match (bytes.split_first_chunk::<8>(), id.split_first_chunk::<8>()) {
        (Some((bytes, rest)), Some((id, more))) => {
            bytes == id && (more.is_empty() || rest.starts_with(more))
        }
        _ => bytes.starts_with(id),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn begins_with_an_id(bytes in prop::collection::vec(0_u8..2, 0..24), cut in 0_usize..24, other in prop::collection::vec(0_u8..2, 0..21)) {
            let id = &bytes[..cut.min(bytes.len())];
            prop_assert!(super::begins_with(&bytes, id));
            prop_assert_eq!(super::begins_with(&bytes, &other), bytes.starts_with(&other));
            let mut longer = id.to_vec();
            longer.push(7);
            prop_assert!(!super::begins_with(&bytes, &longer));
        }
    }
}
