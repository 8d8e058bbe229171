//! 1-RTT packets: their protection removed.

use std::ops::Range;
use std::time::{Duration, Instant};

use mpquic_wire::crypto::OpenError;
use mpquic_wire::packet::{expand_pn, key_phase, reserved_bits_are_zero, unprotect_header};

use super::Handshake;
use crate::{PathId, TransportError};

/// A packet that is decrypted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OpenedShort {
    pub(crate) number: u64,
    /// Where its frames are.
    pub(crate) payload: Range<usize>,
    /// Its sender sets bits that must be zero.
    pub(crate) reserved_bits: bool,
    /// How often the keys were updated, if the packet has updated them.
    pub(crate) updated: Option<u64>,
}

/// Why a packet is not decrypted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotOpened {
    /// It is too short, or there are no keys.
    NoPacket,
    /// It does not decrypt.
    Undecryptable,
    /// It must not have been sent like that.
    Error(TransportError),
}

impl Handshake {
    /// Removes the protection of a packet with this path in its nonce. `expected`: the number that is next on its path.
    /// `pto`: the largest of all paths, asked for only around a key update.
    #[inline]
    pub(crate) fn open_short(
        &mut self,
        now: Instant,
        nonce_path: Option<PathId>,
        expected: u64,
        pn_offset: usize,
        bytes: &mut [u8],
        pto: impl Fn() -> Duration,
    ) -> Result<OpenedShort, NotOpened> {
        let keys = self.session.one_rtt.as_mut().ok_or(NotOpened::NoPacket)?;
        let (first, truncated, pn_len) =
            unprotect_header(bytes, pn_offset, keys.remote_header()).ok_or(NotOpened::NoPacket)?;
        let number = expand_pn(truncated, pn_len, expected);
        let phase = key_phase(first);
        // Only around a key update does it matter how long old keys are kept.
        let updating = keys.keeps_previous() || phase != keys.phase();
        let keep = if updating { pto() } else { Duration::ZERO };
        let start = pn_offset + pn_len;
        let (header, payload) = bytes.split_at_mut(start);
        // Nothing of the header is looked at before the packet is authentic but what finds its key.
        //= specs/rfc9001.txt#section-9.5
        //# For authentication to be free from side channels, the entire process of header
        //# protection removal, packet number recovery, and packet protection removal MUST be
        //# applied together without timing and other side channels.
        let opened = keys.open(nonce_path, number, phase, header, payload, now, keep);
        let opened = opened.map_err(|error| match error {
            OpenError::Decrypt => NotOpened::Undecryptable,
            OpenError::Transport(error) => NotOpened::Error(error),
        })?;
        let updated = opened.updated.then(|| keys.updates());
        Ok(OpenedShort {
            number,
            payload: start..start + opened.payload_len,
            reserved_bits: !reserved_bits_are_zero(first),
            updated,
        })
    }
}
