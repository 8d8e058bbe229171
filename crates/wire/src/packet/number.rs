//! Packet numbers: how few bytes are enough, and back (RFC 9000 section 17.1, appendix A.2 and A.3).

/// Bytes that the number of a packet needs on the wire: enough for more than twice the distance
/// to the largest acknowledged one.
#[inline]
pub const fn pn_len(pn: u64, largest_acked: Option<u64>) -> usize {
    //= specs/rfc9000.txt#section-17.1
    //# After an acknowledgment is received for a packet number space, the sender MUST use a packet
    //# number size able to represent more than twice as large a range as the difference between the
    //# largest acknowledged packet number and the packet number being sent.
    let unacked = match largest_acked {
        Some(acked) => pn.saturating_sub(acked),
        //= specs/rfc9000.txt#section-17.1
        //# Prior to receiving an acknowledgment for a packet number space, the full packet number
        //# MUST be included; it is not to be truncated, as described below.
        None => pn.saturating_add(1),
    };
    if unacked < 1 << 7 {
        1
    } else if unacked < 1 << 15 {
        2
    } else if unacked < 1 << 23 {
        3
    } else {
        4
    }
}

/// The packet number whose low `pn_len` bytes are `truncated` and which is closest to `expected`,
/// one more than the largest received (0 if none was).
#[inline]
pub const fn expand_pn(truncated: u64, pn_len: usize, expected: u64) -> u64 {
    let window = 1u64 << (8 * pn_len);
    let half = window / 2;
    let candidate = (expected & !(window - 1)) | truncated;
    if candidate + half <= expected && candidate < (1 << 62) - window {
        candidate + window
    } else if candidate > expected + half && candidate >= window {
        candidate - window
    } else {
        candidate
    }
}
