//! 1-RTT keys: sealing and opening on any path, key update (RFC 9001 section 6, RFC 10069, Key Phase Update Process), AEAD limits over all paths.

use std::time::{Duration, Instant};

use mpquic_sched_core::TransportErrorCode;
use rustls::quic::{HeaderProtectionKey, Keys, PacketKey, PacketKeySet, Secrets};

use crate::packet::seal_packet;
use crate::{PathId, TransportError};

/// A decrypted packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// Bytes of payload, tag not included.
    pub payload_len: usize,
    /// The peer has updated the keys with this packet; what is sent from now on uses the new ones.
    pub updated: bool,
}

/// Why a packet could not be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenError {
    /// Not authentic, or of keys that are gone: dropped silently.
    Decrypt,
    /// The connection is to be closed.
    Transport(TransportError),
}

/// A packet number per path: the lowest of something. Plain numbers of different paths cannot be
/// compared. Holds no more entries than there are paths in use.
#[derive(Default)]
struct Lowest(Vec<(u32, u64)>);

impl Lowest {
    #[inline]
    fn key(path: Option<PathId>) -> u32 {
        path.unwrap_or(PathId::ZERO).0
    }

    #[inline]
    fn get(&self, path: Option<PathId>) -> Option<u64> {
        let key = Self::key(path);
        let entry = self.0.iter().find(|(path, _)| *path == key);
        entry.map(|&(_, pn)| pn)
    }

    #[inline]
    fn note(&mut self, path: Option<PathId>, pn: u64) {
        let key = Self::key(path);
        match self.0.iter_mut().find(|(path, _)| *path == key) {
            Some((_, lowest)) => *lowest = pn.min(*lowest),
            None => self.0.push((key, pn)),
        }
    }
}

/// Receive keys of the phase before, for packets that were overtaken.
struct Previous {
    key: Box<dyn PacketKey>,
    /// Three PTOs after the first packet of the current phase; `None` before that packet.
    expires: Option<Instant>,
}

/// The keys of 1-RTT packets.
pub struct OneRttKeys {
    local_header: Box<dyn HeaderProtectionKey>,
    remote_header: Box<dyn HeaderProtectionKey>,
    current: PacketKeySet,
    /// Made ahead, so that an update costs nothing when it arrives: the time that a packet takes
    /// must not tell its key phase (RFC 9001 section 6.3).
    //= specs/rfc9001.txt#section-6.3
    //# For this reason, endpoints MUST be able to retain two sets of packet protection keys for
    //# receiving packets: the current and the next.
    ///
    /// `None` until the handshake is confirmed, unless a packet asks for them: nobody updates keys before that
    /// (section 6), so that there is no phase to be told.
    next: Option<PacketKeySet>,
    previous: Option<Previous>,
    secrets: Secrets,
    phase: bool,
    updates: u64,
    /// The lowest packet number opened with the current keys, kept while there are previous ones.
    received: Lowest,
    /// The lowest packet number sealed with the current keys, kept until one is acknowledged.
    sent: Lowest,
    /// A packet sealed with the current keys was acknowledged.
    acked: bool,
    /// Not before this may we update again.
    update_from: Option<Instant>,
    /// Packets sealed with the current keys, over all paths.
    sealed: u64,
    /// Packets that failed to open, over all keys and paths.
    failed: u64,
    confidentiality_limit: u64,
    integrity_limit: u64,
}

impl OneRttKeys {
    /// From what TLS hands out with `KeyChange::OneRtt`.
    pub fn new(keys: Keys, secrets: Secrets) -> Self {
        let confidentiality_limit = keys.local.packet.confidentiality_limit();
        let integrity_limit = keys.remote.packet.integrity_limit();
        Self {
            local_header: keys.local.header,
            remote_header: keys.remote.header,
            current: PacketKeySet {
                local: keys.local.packet,
                remote: keys.remote.packet,
            },
            next: None,
            previous: None,
            secrets,
            phase: false,
            updates: 0,
            received: Lowest::default(),
            sent: Lowest::default(),
            acked: false,
            update_from: None,
            sealed: 0,
            failed: 0,
            confidentiality_limit,
            integrity_limit,
        }
    }

    /// Smaller AEAD limits than the cipher suite's, to see them reached.
    #[cfg(test)]
    pub fn set_limits(&mut self, confidentiality: u64, integrity: u64) {
        self.confidentiality_limit = confidentiality;
        self.integrity_limit = integrity;
    }

    /// The key that removes header protection from the peer's packets.
    #[inline]
    pub fn remote_header(&self) -> &dyn HeaderProtectionKey {
        self.remote_header.as_ref()
    }

    /// The key phase bit of packets sealed now.
    #[inline]
    pub const fn phase(&self) -> bool {
        self.phase
    }

    /// Whether keys of before an update are kept still.
    #[inline]
    pub const fn keeps_previous(&self) -> bool {
        self.previous.is_some()
    }

    /// Key updates so far, whoever initiated them.
    #[inline]
    pub const fn updates(&self) -> u64 {
        self.updates
    }

    /// Seals the packet that starts at `start` of `buf` and ends at its end: encrypts, appends the
    /// tag, protects the header. `pn_offset` counts from the start of `buf`. `path` is `None` unless
    /// multipath was negotiated (RFC 10069, Nonce Calculation).
    ///
    /// # Errors
    ///
    /// AEAD_LIMIT_REACHED once the keys have sealed as many packets as they may, over all paths.
    #[inline]
    pub fn seal_packet(
        &mut self,
        buf: &mut Vec<u8>,
        start: usize,
        pn_offset: usize,
        pn_len: usize,
        path: Option<PathId>,
        pn: u64,
    ) -> Result<(), TransportError> {
        //= specs/rfc9001.txt#section-6.6
        //# If the total number of encrypted packets with the same key exceeds the confidentiality
        //# limit for the selected AEAD, the endpoint MUST stop using those keys.
        // The connection ends with the error, and its CONNECTION_CLOSE finds the same limit.
        //= specs/rfc9001.txt#section-6.6
        //# If a key update is not possible or integrity limits are reached, the endpoint MUST stop
        //# using the connection and only send stateless resets in response to receiving packets.
        if self.sealed >= self.confidentiality_limit {
            return Err(aead_limit_reached("too many packets with the same keys"));
        }
        let key = self.current.local.as_ref();
        let hp = self.local_header.as_ref();
        seal_packet(buf, start, pn_offset, pn_len, hp, |header, payload| {
            let tag = match path {
                Some(path) => key.encrypt_in_place_for_path(path.0, pn, header, payload),
                None => key.encrypt_in_place(pn, header, payload),
            };
            tag.map_err(|_| TransportError::internal("packet too long to encrypt"))
        })?;
        //= specs/rfc9001.txt#section-6.6
        //# Endpoints MUST count the number of encrypted packets for each set of keys.
        self.sealed += 1;
        if !self.acked {
            self.sent.note(path, pn);
        }
        Ok(())
    }

    /// Decrypts a payload, tag included, in place. `key_phase` is the bit of the unprotected
    /// header; `pto` the largest of all paths, read only when keys change.
    ///
    /// A failed attempt leaves `payload` unspecified: keys are chosen, not tried in turn.
    #[inline]
    pub fn open(
        &mut self,
        path: Option<PathId>,
        pn: u64,
        key_phase: bool,
        header: &[u8],
        payload: &mut [u8],
        now: Instant,
        pto: Duration,
    ) -> Result<Opened, OpenError> {
        // Nearly always, no update is under way.
        if self.previous.is_none() && key_phase == self.phase {
            let key = self.current.remote.as_ref();
            return match decrypt(key, path, pn, header, payload) {
                Some(payload_len) => Ok(Opened {
                    payload_len,
                    updated: false,
                }),
                None => Err(self.on_failure()),
            };
        }
        self.open_around_update(path, pn, key_phase, header, payload, now, pto)
    }

    #[inline(never)]
    fn open_around_update(
        &mut self,
        path: Option<PathId>,
        pn: u64,
        key_phase: bool,
        header: &[u8],
        payload: &mut [u8],
        now: Instant,
        pto: Duration,
    ) -> Result<Opened, OpenError> {
        if self.previous.is_some() {
            self.on_timeout(now);
        }
        if key_phase == self.phase {
            let key = self.current.remote.as_ref();
            let Some(payload_len) = decrypt(key, path, pn, header, payload) else {
                return Err(self.on_failure());
            };
            if let Some(previous) = &mut self.previous {
                //= specs/rfc9001.txt#section-6.5
                //# An endpoint SHOULD retain old read keys for no more than three times the PTO
                //# after having received a packet protected using the new keys.
                previous.expires.get_or_insert(now + 3 * pto);
                self.received.note(path, pn);
            }
            return Ok(Opened {
                payload_len,
                updated: false,
            });
        }
        // Of the higher number, old keys are not tried: nobody can remove protection with them there.
        //= specs/rfc9001.txt#section-5.5
        //# Once an endpoint successfully receives a packet with a given packet number, it MUST
        //# discard all packets in the same packet number space with higher packet numbers if they
        //# cannot be successfully unprotected with either the same key, or -- if there is a key
        //# update -- a subsequent packet protection key; see Section 6.
        //= specs/rfc9001.txt#section-6.4
        //= type=implication
        //# An endpoint that successfully removes protection with old keys when newer keys were used
        //# for packets with lower packet numbers MUST treat this as a connection error of type
        //# KEY_UPDATE_ERROR.
        match &self.previous {
            Some(previous) if self.is_older(path, pn) => {
                match decrypt(previous.key.as_ref(), path, pn, header, payload) {
                    Some(payload_len) => Ok(Opened {
                        payload_len,
                        updated: false,
                    }),
                    None => Err(self.on_failure()),
                }
            }
            _ => self.open_next(path, pn, header, payload, now, pto),
        }
    }

    /// While previous keys are kept, whether a packet of the other key phase is of the phase before
    /// and not of the next (RFC 9001 section 6.5): it is if it was sent before some packet of the
    /// current phase on the same path. A path that brought no packet of the current phase yet cannot
    /// tell; the peer must then have been waiting for three PTOs to update again, so it is.
    #[inline]
    fn is_older(&self, path: Option<PathId>, pn: u64) -> bool {
        self.received.get(path).is_none_or(|lowest| pn < lowest)
    }

    /// Opens what looks like the first packet after an update by the peer (RFC 9001 section 6.2).
    #[cold]
    fn open_next(
        &mut self,
        path: Option<PathId>,
        pn: u64,
        header: &[u8],
        payload: &mut [u8],
        now: Instant,
        pto: Duration,
    ) -> Result<Opened, OpenError> {
        //= specs/rfc9001.txt#section-5.5
        //# Similarly, a packet that appears to trigger a key update but cannot be unprotected
        //# successfully MUST be discarded.
        let next = self
            .next
            .get_or_insert_with(|| self.secrets.next_packet_keys());
        let Some(payload_len) = decrypt(next.remote.as_ref(), path, pn, header, payload) else {
            return Err(self.on_failure());
        };
        // The peer may update only after an acknowledgment of a packet of the current phase, and
        // that acknowledgment we must have sealed with the current keys. RFC 9001 section 6.2 lets us end the connection
        // only for a further update: some peers count their packets from the first on and make their first update after few
        // of them, which may arrive together with the end of the handshake.
        if self.sealed == 0 && self.updates > 0 {
            return Err(OpenError::Transport(TransportError::new(
                TransportErrorCode::KEY_UPDATE_ERROR,
                "keys updated again before the last update was acknowledged",
            )));
        }
        //= specs/rfc9001.txt#section-6.2
        //# The endpoint MUST update its send keys to the corresponding key phase in response, as
        //# described in Section 6.1.
        //= specs/rfc9001.txt#section-6.2
        //# Sending keys MUST be updated before sending an acknowledgment for the packet that was
        //# received with updated keys.
        //= specs/rfc9001.txt#section-6.4
        //# Packets with higher packet numbers MUST be protected with either the same or newer
        //# packet protection keys than packets with lower packet numbers.
        self.roll(Some(now + 3 * pto));
        self.received.note(path, pn);
        Ok(Opened {
            payload_len,
            updated: true,
        })
    }

    /// The handshake is confirmed: keys may be updated.
    pub fn make_next(&mut self) {
        self.next
            .get_or_insert_with(|| self.secrets.next_packet_keys());
    }

    /// Makes the next keys current in both directions.
    fn roll(&mut self, expires: Option<Instant>) {
        let next = self.next.take();
        let current = next.unwrap_or_else(|| self.secrets.next_packet_keys());
        // Made with the update before, so that a packet of the other phase costs what any packet costs.
        //= specs/rfc9001.txt#section-6.3
        //# Endpoints responding to an apparent key update MUST NOT generate a timing side-channel
        //# signal that might indicate that the Key Phase bit was invalid (see Section 9.5).
        self.next = Some(self.secrets.next_packet_keys());
        let previous = std::mem::replace(&mut self.current, current);
        self.previous = Some(Previous {
            key: previous.remote,
            expires,
        });
        self.phase = !self.phase;
        self.updates += 1;
        self.received.0.clear();
        self.sent.0.clear();
        self.acked = false;
        self.update_from = None;
        self.sealed = 0;
    }

    #[cold]
    fn on_failure(&mut self) -> OpenError {
        //= specs/rfc9001.txt#section-6.6
        //# In addition to counting packets sent, endpoints MUST count the number of received
        //# packets that fail authentication during the lifetime of a connection.
        self.failed += 1;
        //= specs/rfc9001.txt#section-6.6
        //# If the total number of received packets that fail authentication within the connection,
        //# across all keys, exceeds the integrity limit for the selected AEAD, the endpoint MUST
        //# immediately close the connection with a connection error of type AEAD_LIMIT_REACHED and
        //# not process any more packets.
        if self.failed > self.integrity_limit {
            return OpenError::Transport(aead_limit_reached("too many packets were not authentic"));
        }
        OpenError::Decrypt
    }

    /// Whether no packet that the current keys sealed was acknowledged so far.
    #[inline]
    pub const fn awaits_ack(&self) -> bool {
        !self.acked
    }

    /// An ACK for this packet number has come. `pto` is the largest of all paths.
    #[inline]
    pub fn on_acked(&mut self, path: Option<PathId>, pn: u64, now: Instant, pto: Duration) {
        if self.acked || self.sent.get(path).is_none_or(|lowest| pn < lowest) {
            return;
        }
        self.acked = true;
        self.sent.0.clear();
        //= specs/rfc10069-draft.md#multipath-key-update
        //# When this specification is used, endpoints SHOULD wait for at least three times the
        //# largest Probe Timeout (PTO) (see {{Section 6.2 of QUIC-RECOVERY}}) among all the paths
        //# before initiating a new key update after receiving an acknowledgment that confirms the
        //# receipt of the previous key update.
        self.update_from = Some(if self.updates == 0 {
            now
        } else {
            now + 3 * pto
        });
    }

    /// Whether the current keys have sealed enough packets that they should be updated soon.
    #[inline]
    pub const fn update_due(&self) -> bool {
        //= specs/rfc9001.txt#section-6.6
        //# Endpoints MUST initiate a key update before sending more protected packets than the
        //# confidentiality limit for the selected AEAD permits.
        //= specs/rfc9001.txt#section-5.3
        //# An endpoint MUST initiate a key update (Section 6) prior to exceeding any limit set for
        //# the AEAD that is in use.
        self.sealed >= self.confidentiality_limit / 2
    }

    /// Updates the keys if that is allowed by now (RFC 9001 sections 6.1 and 6.5): a packet of the
    /// current phase was acknowledged, after an update three PTOs ago. The caller must know that the
    /// handshake is confirmed.
    pub fn initiate_update(&mut self, now: Instant) -> bool {
        //= specs/rfc9001.txt#section-6.1
        //# An endpoint MUST NOT initiate a subsequent key update unless it has received an
        //# acknowledgment for a packet that was sent protected with keys from the current key
        //# phase.
        //= specs/rfc9001.txt#section-6.5
        //# Endpoints SHOULD wait three times the PTO before initiating a key update after receiving
        //# an acknowledgment that confirms that the previous key update was received.
        if !self.acked || self.update_from.is_none_or(|from| now < from) {
            return false;
        }
        //= specs/rfc9001.txt#section-6.1
        //# An endpoint MUST retain old keys until it has successfully unprotected a packet sent
        //# using the new keys.
        self.roll(None);
        true
    }

    /// When [`OneRttKeys::on_timeout`] has something to do. Not urgent: `open` sees to it as well.
    #[inline]
    pub fn timer(&self) -> Option<Instant> {
        self.previous.as_ref().and_then(|previous| previous.expires)
    }

    /// Forgets the previous keys when their time is over.
    pub fn on_timeout(&mut self, now: Instant) {
        if self.timer().is_some_and(|expires| now >= expires) {
            self.previous = None;
            self.received.0.clear();
        }
    }
}

#[inline]
fn decrypt(
    key: &dyn PacketKey,
    path: Option<PathId>,
    pn: u64,
    header: &[u8],
    payload: &mut [u8],
) -> Option<usize> {
    let plain = match path {
        Some(path) => key.decrypt_in_place_for_path(path.0, pn, header, payload),
        None => key.decrypt_in_place(pn, header, payload),
    };
    plain.ok().map(<[u8]>::len)
}

fn aead_limit_reached(reason: &'static str) -> TransportError {
    TransportError::new(TransportErrorCode::AEAD_LIMIT_REACHED, reason)
}
