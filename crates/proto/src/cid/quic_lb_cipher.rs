//! What QUIC-LB encrypts connection IDs with: AES-128, and nonces that never repeat.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use aes::Aes128;
use aes::cipher::{BlockEncrypt, KeyInit};

use super::quic_lb::MAX_PLAINTEXT;

/// So many bytes are encrypted at once; other lengths take four passes.
const BLOCK: usize = 16;

/// The key.
pub(super) struct Cipher(Aes128);

impl Cipher {
    pub(super) fn new(key: &[u8; 16]) -> Self {
        Self(Aes128::new(key.into()))
    }

    /// AES-128-ECB of 16 bytes; of any other number, four rounds of a Feistel network (section "General Case: Four-Pass
    /// Encryption").
    pub(super) fn encrypt(&self, block: &mut [u8]) {
        if let Ok(whole) = <&mut [u8; BLOCK]>::try_from(&mut *block) {
            self.0.encrypt_block(whole.into());
            return;
        }
        let len = block.len();
        let half = len.div_ceil(2);
        // The byte in the middle of an odd number belongs to both halves, four bits each.
        let (last, first) = if len % 2 == 1 {
            (0xf0, 0x0f)
        } else {
            (0xff, 0xff)
        };
        let mut left = [0; BLOCK];
        let mut right = [0; BLOCK];
        left[..half].copy_from_slice(&block[..half]);
        right[..half].copy_from_slice(&block[len - half..]);
        left[half - 1] &= last;
        right[0] &= first;
        for pass in 1..=4 {
            let (from, to) = if pass % 2 == 1 {
                (&left, &mut right)
            } else {
                (&right, &mut left)
            };
            let mut expanded = *from;
            expanded[BLOCK - 2] = len as u8;
            expanded[BLOCK - 1] = pass;
            self.0.encrypt_block((&mut expanded).into());
            for (to, by) in to[..half].iter_mut().zip(expanded) {
                *to ^= by;
            }
            left[half - 1] &= last;
            right[0] &= first;
        }
        block[..half].copy_from_slice(&left[..half]);
        block[len - half] = if len % 2 == 1 {
            left[half - 1] | right[0]
        } else {
            right[0]
        };
        block[len - half + 1..].copy_from_slice(&right[1..half]);
    }
}

/// Nonces that count up from a random one, so that none comes twice.
#[derive(Default)]
pub(super) struct Nonces {
    first: OnceLock<[u8; MAX_PLAINTEXT]>,
    used: AtomicU64,
}

impl Nonces {
    /// Writes the next one in place of random bytes; false if there is none left.
    pub(super) fn next(&self, nonce: &mut [u8]) -> bool {
        let mut start = [0; MAX_PLAINTEXT];
        let len = nonce.len().min(MAX_PLAINTEXT);
        start[..len].copy_from_slice(&nonce[..len]);
        let first = self.first.get_or_init(|| start);
        nonce[..len].copy_from_slice(&first[..len]);
        let count = self.used.fetch_add(1, Ordering::Relaxed);
        if len < 8 && count >> (8 * len) != 0 {
            return false;
        }
        // The sum, from the last byte on.
        let mut carry = u128::from(count);
        for byte in nonce[..len].iter_mut().rev() {
            carry += u128::from(*byte);
            *byte = carry as u8;
            carry >>= 8;
        }
        true
    }

    /// So many were used.
    #[cfg(test)]
    pub(super) fn skip(&self, count: u64) {
        self.used.store(count, Ordering::Relaxed);
    }
}
