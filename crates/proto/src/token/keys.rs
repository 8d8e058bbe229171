//! Seals tokens and opens them again: keys that rotate, the clock, lifetimes; what a token says is `codec`'s.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mpquic_sched_core::ConnectionId;
use mpquic_wire::packet::TAG_LEN;
use rand::RngExt;
use rand::rngs::StdRng;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hmac;

use super::codec::{Addresses, Kind, Token};

/// Random bytes of each token. They make its key, and name it in the log of used ones.
const NONCE_LEN: usize = 16;

/// Before what is sealed: the kind and the nonce.
const HEADER_LEN: usize = 1 + NONCE_LEN;

/// How far the clocks of processes that share keys may be apart: a token may seem to come from the future
/// by this much.
const CLOCK_SKEW: Duration = Duration::from_secs(60);

/// A key of tokens.
struct TokenKey(hmac::Key);

impl TokenKey {
    /// A label separates it from other uses of the same secret.
    fn new(secret: &[u8; 32]) -> Self {
        let root = hmac::Key::new(hmac::HMAC_SHA256, secret);
        let key = hmac::sign(&root, b"address validation tokens");
        Self(hmac::Key::new(hmac::HMAC_SHA256, key.as_ref()))
    }

    /// The key of one token. Under a key of its own, each token can have the same AEAD nonce: random nonces
    /// of 96 bits under one key would begin to repeat after 2^32 tokens, which a flood reaches.
    fn of_token(&self, nonce: &[u8; NONCE_LEN]) -> LessSafeKey {
        #[cfg(test)]
        crate::crypto::count_key();
        let key = hmac::sign(&self.0, nonce);
        let key = UnboundKey::new(&AES_256_GCM, key.as_ref()).expect("HMAC-SHA256 gives 32 bytes");
        LessSafeKey::new(key)
    }
}

/// What a token in an Initial packet proves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing: there is none, or none that this server can read or still accepts.
    Nothing,
    /// The client got a Retry packet at its address, in answer to a packet to this ID.
    Retry { original_dcid: ConnectionId },
    /// It is a Retry token that does not count here and now: the client accepts no other.
    InvalidRetry,
    /// The client had its IP in a connection before. The token is known to the log by its nonce.
    New {
        nonce: u128,
        issued: Duration,
        addresses: Addresses,
    },
}

/// How long tokens count.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lifetimes {
    /// Of Retry packets.
    pub(crate) retry: Duration,
    /// Of NEW_TOKEN frames.
    pub(crate) new: Duration,
}

/// Seals and opens tokens. Shared by an endpoint and its connections.
pub(crate) struct AddressTokens(Mutex<Inner>);

struct Inner {
    current: TokenKey,
    previous: Option<TokenKey>,
    /// At this instant, so much time had passed since the Unix epoch.
    clock: Option<(Instant, Duration)>,
}

impl Inner {
    /// Without a clock, the first instant that is seen is the epoch.
    fn time(&mut self, now: Instant) -> Duration {
        let (at, since_epoch) = *self.clock.get_or_insert((now, Duration::ZERO));
        match now.checked_duration_since(at) {
            Some(after) => since_epoch.saturating_add(after),
            None => since_epoch.saturating_sub(at.saturating_duration_since(now)),
        }
    }
}

impl AddressTokens {
    pub(crate) fn new(key: &[u8; 32], clock: Option<(Instant, Duration)>) -> Self {
        Self(Mutex::new(Inner {
            current: TokenKey::new(key),
            previous: None,
            clock,
        }))
    }

    /// Seals with this key from now on. What the key before it sealed is still accepted, what one before
    /// that sealed is not.
    pub(crate) fn rotate(&self, key: &[u8; 32]) {
        let mut inner = self.lock();
        inner.previous = Some(std::mem::replace(&mut inner.current, TokenKey::new(key)));
    }

    pub(crate) fn set_clock(&self, now: Instant, since_epoch: Duration) {
        self.lock().clock = Some((now, time_of_day(since_epoch)));
    }

    /// A panic elsewhere is no reason to panic here: every change is a single assignment.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A token for a Retry packet from `retry_scid` that answers a packet from `remote` to `original_dcid`.
    pub(crate) fn retry(
        &self,
        now: Instant,
        rng: &mut StdRng,
        remote: SocketAddr,
        original_dcid: ConnectionId,
        retry_scid: &ConnectionId,
    ) -> Vec<u8> {
        let mut inner = self.lock();
        let issued = inner.time(now);
        let token = Token::Retry {
            issued,
            remote: canonical(remote),
            original_dcid,
        };
        seal(&inner.current, rng.random(), &token, retry_scid)
    }

    /// A token for a NEW_TOKEN frame to a client that has proven to receive at these IPs.
    pub(crate) fn new_token(
        &self,
        now: Instant,
        rng: &mut StdRng,
        addresses: Addresses,
    ) -> Vec<u8> {
        let mut inner = self.lock();
        let issued = inner.time(now);
        let token = Token::New { issued, addresses };
        seal(&inner.current, rng.random(), &token, &[])
    }

    /// What a token proves of a client whose Initial packet came from `remote` and went to `dcid`.
    pub(crate) fn check(
        &self,
        now: Instant,
        token: &[u8],
        remote: SocketAddr,
        dcid: &ConnectionId,
        lifetimes: Lifetimes,
    ) -> Verdict {
        let Some(kind) = Kind::of(token) else {
            return Verdict::Nothing;
        };
        // What a Retry token is bound to besides what it says: the ID that the Retry told the client to use. So
        // a token makes no second connection beside the first.
        let bound: &[u8] = match kind {
            Kind::Retry => dcid,
            Kind::New => &[],
        };
        let mut inner = self.lock();
        let opened = open(&inner.current, token, bound)
            .or_else(|| open(inner.previous.as_ref()?, token, bound));
        let time = inner.time(now);
        drop(inner);
        //= specs/rfc9000.txt#section-8.1.4
        //# Servers SHOULD ensure that tokens sent in Retry packets are only accepted for a short
        //# time, as they are returned immediately by clients.
        //= specs/rfc9000.txt#section-8.1.3
        //# Thus, a token SHOULD have an expiration time, which could be either an explicit expiration
        //# time or an issued timestamp that can be used to dynamically calculate the expiration time.
        let fresh = |issued: Duration, lifetime: Duration| match time.checked_sub(issued) {
            Some(age) => age <= lifetime,
            None => issued - time <= CLOCK_SKEW,
        };
        let remote = canonical(remote);
        match (kind, opened) {
            (
                _,
                Some((
                    _,
                    Token::Retry {
                        issued,
                        remote: expected,
                        original_dcid,
                    },
                )),
            ) if expected == remote && fresh(issued, lifetimes.retry) => {
                Verdict::Retry { original_dcid }
            }
            //= specs/rfc9000.txt#section-8.1.4
            //# If the client IP address has changed, the server MUST adhere to the anti-amplification
            //# limit; see Section 8.
            // The client counts as unvalidated then.
            (_, Some((nonce, Token::New { issued, addresses })))
                if addresses.contains(&remote.ip()) && fresh(issued, lifetimes.new) =>
            {
                Verdict::New {
                    nonce,
                    issued,
                    addresses,
                }
            }
            (Kind::Retry, _) => Verdict::InvalidRetry,
            //= specs/rfc9000.txt#section-8.1.3
            //# If the token is invalid, then the server SHOULD proceed as if the client did not have
            //# a validated address, including potentially sending a Retry packet.
            (Kind::New, _) => Verdict::Nothing,
        }
    }
}

impl std::fmt::Debug for AddressTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AddressTokens")
    }
}

/// The same client, whichever way the socket writes its IP.
fn canonical(remote: SocketAddr) -> SocketAddr {
    SocketAddr::new(remote.ip().to_canonical(), remote.port())
}

/// The AEAD's nonce, which only has to differ under one key.
fn no_nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

//= specs/rfc9000.txt#section-8.1.4
//# An address validation token MUST be difficult to guess.
//= specs/rfc9000.txt#section-8.1.4
//# For this design to work, the token MUST be covered by integrity protection against modification
//# or falsification by clients.
//= specs/rfc9000.txt#section-8.1.3
//# A server MUST ensure that every NEW_TOKEN frame it sends is unique across all clients, with the
//# exception of those sent to repair losses of previously sent NEW_TOKEN frames.
// Each has 128 random bits of its own.
fn seal(key: &TokenKey, nonce: [u8; NONCE_LEN], token: &Token, bound: &[u8]) -> Vec<u8> {
    let mut buf = Vec::with_capacity(HEADER_LEN + 64 + TAG_LEN);
    buf.push(token.kind().byte());
    buf.extend_from_slice(&nonce);
    //= specs/rfc9000.txt#section-8.1.3
    //# A token issued with NEW_TOKEN MUST NOT include information that would allow values to be
    //# linked by an observer to the connection on which it was issued.
    // All but the kind and the random bytes is encrypted.
    token.encode(&mut buf);
    let aad = [&[token.kind().byte()], bound].concat();
    let sealed = key.of_token(&nonce).seal_in_place_separate_tag(
        no_nonce(),
        Aad::from(aad),
        &mut buf[HEADER_LEN..],
    );
    buf.extend_from_slice(sealed.expect("far below the AEAD's limit").as_ref());
    buf
}

fn open(key: &TokenKey, token: &[u8], bound: &[u8]) -> Option<(u128, Token)> {
    let kind = Kind::of(token)?;
    let (nonce, sealed) = token[1..].split_first_chunk::<NONCE_LEN>()?;
    if sealed.len() < TAG_LEN {
        return None;
    }
    let aad = [&[kind.byte()], bound].concat();
    let mut sealed = sealed.to_vec();
    let opened = key
        .of_token(nonce)
        .open_in_place(no_nonce(), Aad::from(aad), &mut sealed)
        .ok()?;
    Some((u128::from_be_bytes(*nonce), Token::decode(kind, opened)?))
}

/// A point in time that a computer's clock can show: before the year 10,000, in which sums with the times of settings
/// overflow nowhere.
pub(crate) const fn time_of_day(since_epoch: Duration) -> Duration {
    const END: u64 = 253_402_300_799;
    if since_epoch.as_secs() < END {
        since_epoch
    } else {
        Duration::from_secs(END)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::SeedableRng;

    use super::*;

    const RETRY: Duration = Duration::from_secs(15);
    const LIFE: Duration = Duration::from_secs(3600);

    struct Bench {
        tokens: AddressTokens,
        rng: StdRng,
        now: Instant,
    }

    fn addr(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn cid(n: u8) -> ConnectionId {
        ConnectionId::new(&[n; 8])
    }

    impl Bench {
        fn new(key: u8) -> Self {
            Self {
                tokens: AddressTokens::new(&[key; 32], None),
                rng: StdRng::seed_from_u64(key.into()),
                now: Instant::now(),
            }
        }

        /// From 192.0.2.1:5, for an Initial packet to 1, from 2.
        fn retry(&mut self) -> Vec<u8> {
            let remote = addr("192.0.2.1:5");
            self.tokens
                .retry(self.now, &mut self.rng, remote, cid(1), &cid(2))
        }

        fn new_token(&mut self, ips: &[&str]) -> Vec<u8> {
            let ips = ips.iter().map(|ip| ip.parse().unwrap()).collect();
            self.tokens.new_token(self.now, &mut self.rng, ips)
        }

        fn check(&self, token: &[u8], remote: &str, dcid: ConnectionId) -> Verdict {
            let remote = addr(remote);
            let lifetimes = Lifetimes {
                retry: RETRY,
                new: LIFE,
            };
            self.tokens.check(self.now, token, remote, &dcid, lifetimes)
        }
    }

    fn is_valid(verdict: Verdict) -> bool {
        matches!(verdict, Verdict::Retry { original_dcid } if original_dcid == cid(1))
    }

    //= specs/rfc9000.txt#section-8.1.4
    //= type=test
    //# Tokens sent in Retry packets SHOULD include information that allows the server to verify that
    //# the source IP address and port in client packets remain constant.
    #[test]
    fn a_retry_token_counts_for_its_address_and_connection_id_only() {
        let mut bench = Bench::new(1);
        let token = bench.retry();
        assert!(is_valid(bench.check(&token, "192.0.2.1:5", cid(2))));
        assert!(is_valid(bench.check(
            &token,
            "[::ffff:192.0.2.1]:5",
            cid(2)
        )));
        for (remote, dcid) in [
            ("192.0.2.1:6", cid(2)),
            ("192.0.2.2:5", cid(2)),
            ("192.0.2.1:5", cid(3)),
            ("192.0.2.1:5", cid(1)),
        ] {
            let verdict = bench.check(&token, remote, dcid);
            assert_eq!(verdict, Verdict::InvalidRetry, "{remote} {dcid:?}");
        }
    }

    //= specs/rfc9000.txt#section-8.1.4
    //= type=test
    //# Tokens sent in NEW_TOKEN frames MUST include information that allows the server to verify that
    //# the client IP address has not changed from when the token was issued.
    #[test]
    fn a_new_token_counts_for_all_its_ips_and_no_other() {
        let mut bench = Bench::new(1);
        let token = bench.new_token(&["192.0.2.1", "2001:db8::1"]);
        for remote in [
            "192.0.2.1:5",
            "192.0.2.1:6",
            "[2001:db8::1]:7",
            "[::ffff:192.0.2.1]:1",
        ] {
            let verdict = bench.check(&token, remote, cid(9));
            assert!(matches!(verdict, Verdict::New { .. }), "{remote}");
        }
        assert_eq!(bench.check(&token, "192.0.2.2:5", cid(9)), Verdict::Nothing);
    }

    //= specs/rfc9000.txt#section-8.1.4
    //= type=test
    //# Servers SHOULD ensure that tokens sent in Retry packets are only accepted for a short time, as
    //# they are returned immediately by clients.
    //= specs/rfc9000.txt#section-8.1.3
    //= type=test
    //# Thus, a token SHOULD have an expiration time, which could be either an explicit expiration
    //# time or an issued timestamp that can be used to dynamically calculate the expiration time.
    #[test]
    fn tokens_expire() {
        let mut bench = Bench::new(1);
        let (retry, new) = (bench.retry(), bench.new_token(&["192.0.2.1"]));
        let start = bench.now;
        let valid = |bench: &mut Bench, after| {
            bench.now = start + after;
            let retry = bench.check(&retry, "192.0.2.1:5", cid(2));
            let new = bench.check(&new, "192.0.2.1:5", cid(2));
            (is_valid(retry), new != Verdict::Nothing)
        };
        let tick = Duration::from_millis(1);
        assert_eq!(valid(&mut bench, RETRY), (true, true));
        assert_eq!(valid(&mut bench, RETRY + tick), (false, true));
        assert_eq!(valid(&mut bench, LIFE), (false, true));
        assert_eq!(valid(&mut bench, LIFE + tick), (false, false));
    }

    /// The clocks of two processes that share a key.
    #[test]
    fn clocks_may_be_a_little_apart() {
        let (mut a, mut b) = (Bench::new(1), Bench::new(1));
        b.now = a.now;
        let hour = Duration::from_secs(3600);
        for (ahead, valid) in [(0, true), (14, true), (60, true), (61, false)] {
            a.tokens.set_clock(a.now, hour + Duration::from_secs(ahead));
            b.tokens.set_clock(b.now, hour);
            let token = a.retry();
            let verdict = b.check(&token, "192.0.2.1:5", cid(2));
            assert_eq!(is_valid(verdict), valid, "{ahead} s ahead");
        }
        for (behind, valid) in [(15, true), (16, false)] {
            a.tokens
                .set_clock(a.now, hour - Duration::from_secs(behind));
            let token = a.retry();
            let verdict = b.check(&token, "192.0.2.1:5", cid(2));
            assert_eq!(is_valid(verdict), valid, "{behind} s behind");
        }
    }

    #[test]
    fn two_keys_are_accepted_the_newest_and_the_one_before() {
        let mut bench = Bench::new(1);
        let first = bench.retry();
        bench.tokens.rotate(&[2; 32]);
        let second = bench.retry();
        assert!(is_valid(bench.check(&first, "192.0.2.1:5", cid(2))));
        assert!(is_valid(bench.check(&second, "192.0.2.1:5", cid(2))));
        bench.tokens.rotate(&[3; 32]);
        let verdict = bench.check(&first, "192.0.2.1:5", cid(2));
        assert_eq!(verdict, Verdict::InvalidRetry);
        assert!(is_valid(bench.check(&second, "192.0.2.1:5", cid(2))));
        // A process that got the same keys in the same order.
        let other = Bench::new(2);
        other.tokens.rotate(&[3; 32]);
        assert!(is_valid(other.check(&second, "192.0.2.1:5", cid(2))));
    }

    #[test]
    fn another_servers_tokens_prove_nothing() {
        let (mut ours, mut theirs) = (Bench::new(1), Bench::new(2));
        theirs.now = ours.now;
        let (retry, new) = (theirs.retry(), theirs.new_token(&["192.0.2.1"]));
        let check = |token: &[u8]| ours.check(token, "192.0.2.1:5", cid(2));
        assert_eq!(check(&retry), Verdict::InvalidRetry);
        assert_eq!(check(&new), Verdict::Nothing);
        // One kind is not the other.
        let (mut retry, mut new) = (ours.retry(), ours.new_token(&["192.0.2.1"]));
        retry[0] = Kind::New.byte();
        new[0] = Kind::Retry.byte();
        let check = |token: &[u8]| ours.check(token, "192.0.2.1:5", cid(2));
        assert_eq!(check(&retry), Verdict::Nothing);
        assert_eq!(check(&new), Verdict::InvalidRetry);
        assert_eq!(check(&[]), Verdict::Nothing);
    }

    //= specs/rfc9000.txt#section-8.1.3
    //= type=test
    //# A token issued with NEW_TOKEN MUST NOT include information that would allow values to be
    //# linked by an observer to the connection on which it was issued.
    //= specs/rfc9000.txt#section-8.1.3
    //= type=test
    //# A server MUST ensure that every NEW_TOKEN frame it sends is unique across all clients, with
    //# the exception of those sent to repair losses of previously sent NEW_TOKEN frames.
    #[test]
    fn equal_tokens_look_different() {
        let mut bench = Bench::new(1);
        let (a, b) = (
            bench.new_token(&["192.0.2.1"]),
            bench.new_token(&["192.0.2.1"]),
        );
        assert_eq!(a.len(), b.len());
        let same = a.iter().zip(&b).filter(|(a, b)| a == b).count();
        assert!(same < 8, "{same} bytes in common");
        let ip = [192, 0, 2, 1];
        assert!(!a.windows(4).any(|window| window == ip));
    }

    proptest! {
        //= specs/rfc9000.txt#section-8.1.4
        //= type=test
        //# An address validation token MUST be difficult to guess.
        //= specs/rfc9000.txt#section-8.1.4
        //= type=test
        //# For this design to work, the token MUST be covered by integrity protection against
        //# modification or falsification by clients.
        #[test]
        fn no_byte_can_be_changed_or_left_out(
            at in any::<prop::sample::Index>(), by in 1..=255_u8, new in any::<bool>(), cut in any::<bool>(),
        ) {
            let mut bench = Bench::new(1);
            let mut token = match new {
                true => bench.new_token(&["192.0.2.1", "192.0.2.7"]),
                false => bench.retry(),
            };
            let at = at.index(token.len());
            match cut {
                true => token.truncate(at),
                false => token[at] ^= by,
            }
            let verdict = bench.check(&token, "192.0.2.1:5", cid(2));
            prop_assert!(matches!(verdict, Verdict::Nothing | Verdict::InvalidRetry));
        }

        #[test]
        fn noise_proves_nothing(mut token in prop::collection::vec(any::<u8>(), 0..120), kind in 0..3_u8) {
            let kinds = [None, Some(Kind::Retry), Some(Kind::New)];
            if let (Some(kind), Some(first)) = (kinds[usize::from(kind)], token.first_mut()) {
                *first = kind.byte();
            }
            let verdict = Bench::new(1).check(&token, "192.0.2.1:5", cid(2));
            prop_assert!(matches!(verdict, Verdict::Nothing | Verdict::InvalidRetry));
        }
    }
}
