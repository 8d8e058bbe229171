//! Stateless reset tokens: makes ours, recognises the peer's.

use std::hint::black_box;

use mpquic_sched_core::ConnectionId;
use ring::hmac;

/// Bytes of a stateless reset token (RFC 9000 section 10.3).
pub(crate) const TOKEN_LEN: usize = 16;

/// A stateless reset token.
pub(crate) type ResetToken = [u8; TOKEN_LEN];

/// The smallest datagram that can be a stateless reset: 5 bytes and a token (RFC 9000 section 10.3).
const MIN_RESET: usize = 5 + TOKEN_LEN;

/// The static key of RFC 9000 section 10.3.2: token = HMAC(key, connection ID), truncated.
pub(crate) struct ResetKey(hmac::Key);

impl ResetKey {
    /// The key that a secret gives: the operator's, or the endpoint's seed. A label separates it from the secret's
    /// other uses.
    pub(crate) fn new(secret: &[u8; 32]) -> Self {
        let root = hmac::Key::new(hmac::HMAC_SHA256, secret);
        let key = hmac::sign(&root, b"stateless reset");
        Self(hmac::Key::new(hmac::HMAC_SHA256, key.as_ref()))
    }

    /// The token of a connection ID that this endpoint chose.
    pub(crate) fn token(&self, id: &ConnectionId) -> ResetToken {
        //= specs/rfc9000.txt#section-10.3.2
        //# The stateless reset token MUST be difficult to guess.
        //= specs/rfc9000.txt#section-10.3.2
        //# The same stateless reset token MUST NOT be used for multiple connection IDs.
        let tag = hmac::sign(&self.0, id);
        let mut token = [0; TOKEN_LEN];
        token.copy_from_slice(&tag.as_ref()[..TOKEN_LEN]);
        token
    }
}

impl std::fmt::Debug for ResetKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ResetKey")
    }
}

/// Whether a datagram that could not be decrypted, or routed, ends in one of these tokens
/// (RFC 9000 section 10.3.1). The time that it takes depends on the number of tokens only.
pub(crate) fn is_reset<'a>(
    tokens: impl IntoIterator<Item = &'a ResetToken>,
    datagram: &[u8],
) -> bool {
    let Some(tail) = tail(datagram) else {
        return false;
    };
    let mut found = false;
    for token in tokens {
        //= specs/rfc9000.txt#section-10.3.1
        //# When comparing a datagram to stateless reset token values, endpoints MUST perform the
        //# comparison without leaking information about the value of the token.
        // So every byte of every token is looked at, whatever the outcome so far.
        let difference = token
            .iter()
            .zip(tail)
            .fold(0_u8, |all, (a, b)| black_box(all | (a ^ b)));
        found |= black_box(difference == 0);
    }
    found
}

/// The bytes that would be the token, if the datagram is long enough to be a stateless reset.
pub(crate) fn tail(datagram: &[u8]) -> Option<&ResetToken> {
    (datagram.len() >= MIN_RESET).then_some(())?;
    datagram.last_chunk()
}

#[cfg(test)]
mod tests {
    use super::*;

    //= specs/rfc9000.txt#section-10.3.2
    //= type=test
    //# The same stateless reset token MUST NOT be used for multiple connection IDs.
    #[test]
    fn tokens_depend_on_key_and_id() {
        let (a, b) = (ResetKey::new(&[1; 32]), ResetKey::new(&[2; 32]));
        let (x, y) = (ConnectionId::new(&[1; 8]), ConnectionId::new(&[2; 8]));
        assert_eq!(a.token(&x), ResetKey::new(&[1; 32]).token(&x));
        assert_ne!(a.token(&x), a.token(&y));
        assert_ne!(a.token(&x), b.token(&x));
        // Not the plain HMAC under the seed itself.
        let plain = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &[1; 32]), &x);
        assert_ne!(&a.token(&x), &plain.as_ref()[..16]);
    }

    #[test]
    fn detects_any_of_several_tokens_at_the_end_only() {
        let tokens = [[1; 16], [2; 16], [3; 16]];
        for token in tokens {
            let mut datagram = vec![0x40; 10];
            datagram.extend(token);
            assert!(is_reset(&tokens, &datagram));
            datagram.push(0);
            assert!(!is_reset(&tokens, &datagram));
        }
        assert!(!is_reset(&[], &[0; 100]));
    }

    #[test]
    fn too_short_is_no_reset() {
        for len in 0..21 {
            assert!(!is_reset(&[[7; 16]], &vec![7; len]));
        }
        assert!(is_reset(&[[7; 16]], &[7; 21]));
    }
}
