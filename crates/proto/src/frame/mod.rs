//! The frames of RFC 9000, 9221 and 10069 as values; codec only: no state, no policy.

pub(crate) mod writer;
