//! Sends stateless resets (RFC 9000 section 10.3): size rule and rate; tokens come from `cid`.

use std::time::{Duration, Instant};

use mpquic_wire::packet::{FIXED_BIT, MIN_RESETTABLE};
use rand::rngs::StdRng;
use rand::{Rng, RngExt};

use crate::cid::{ResetToken, TOKEN_LEN};

/// Shorter resets are not sent. Below 41 bytes they can be told from packets (RFC 9000 section
/// 10.3.3); a packet of 43 bytes gets an answer one byte shorter, as section 10.3 wants it.
const MIN_SIZE: usize = MIN_RESETTABLE - 1;

/// Up to here the size is random; a reset has no reason to be longer.
const MAX_SIZE: usize = 96;

/// One answer more may be sent each time that this has passed.
const INTERVAL: Duration = Duration::from_millis(5);

/// Answers that may be sent at once.
const BURST: u32 = 64;

/// A bucket of answers of one sort: stateless resets, closes for invalid tokens. Stops: floods of packets that
/// belong nowhere, made to have us compute and send, and what is left of reset loops (RFC 9000 section
/// 10.3.3).
#[derive(Debug)]
pub(super) struct AnswerRate {
    left: u32,
    /// Up to when the refill is accounted for.
    since: Option<Instant>,
}

impl AnswerRate {
    pub(super) const fn new() -> Self {
        Self {
            left: BURST,
            since: None,
        }
    }

    /// Takes one out, if there is one.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        let passed = now.saturating_duration_since(since);
        let intervals = passed.as_nanos() / INTERVAL.as_nanos();
        if intervals >= u128::from(BURST - self.left) {
            self.left = BURST;
            self.since = Some(since.max(now));
        } else {
            // Less than BURST, so it fits.
            let earned = intervals as u32;
            self.left += earned;
            self.since = Some(since + INTERVAL * earned);
        }
        let take = self.left > 0;
        self.left -= u32::from(take);
        take
    }
}

/// Whether a packet of this size may be answered at all: the answer must be smaller (RFC 9000
/// section 10.3.3), so that two endpoints that reset each other come to an end.
pub(super) const fn answers(trigger: usize) -> bool {
    //= specs/rfc9000.txt#section-10.3.3
    //# An endpoint MUST ensure that every Stateless Reset that it sends is smaller than the packet
    //# that triggered it, unless it maintains state sufficient to prevent looping.
    trigger > MIN_SIZE
}

/// Appends a reset, smaller than the packet that it answers. Only if [`answers`] says so.
pub(super) fn write(buf: &mut Vec<u8>, rng: &mut StdRng, token: &ResetToken, trigger: usize) {
    //= specs/rfc9000.txt#section-10.3
    //# An endpoint MUST NOT send a Stateless Reset that is three times or more larger than the
    //# packet it receives to avoid being used for amplification.
    let largest = MAX_SIZE.min(trigger.saturating_sub(1)).max(MIN_SIZE);
    let size = rng.random_range(MIN_SIZE..=largest);
    let start = buf.len();
    buf.resize(start + size - TOKEN_LEN, 0);
    //= specs/rfc9000.txt#section-10.3
    //# The remainder of the first byte and an arbitrary number of bytes following it are set to
    //# values that SHOULD be indistinguishable from random.
    rng.fill_bytes(&mut buf[start..]);
    //= specs/rfc9000.txt#section-10.3
    //# Endpoints MUST send Stateless Resets formatted as a packet with a short header.
    buf[start] = FIXED_BIT | buf[start] & 0x3f;
    buf.extend_from_slice(token);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::endpoint::{DatagramEvent, Endpoint};
    use crate::events::EndpointEvent;
    use crate::{ConnectionHandle, EndpointConfig, FourTuple};
    use rand::SeedableRng;

    #[test]
    fn smaller_than_the_trigger_and_in_form() {
        let mut rng = StdRng::seed_from_u64(0);
        assert!(!answers(42) && answers(43));
        for trigger in (43..1500).chain(43..200) {
            let mut buf = vec![9; 3];
            write(&mut buf, &mut rng, &[7; 16], trigger);
            let reset = &buf[3..];
            //= specs/rfc9000.txt#section-10.3
            //= type=test
            //# An endpoint MUST NOT send a Stateless Reset that is three times or more larger than
            //# the packet it receives to avoid being used for amplification.
            assert!(reset.len() < trigger && (MIN_SIZE..=MAX_SIZE).contains(&reset.len()));
            //= specs/rfc9000.txt#section-10.3
            //= type=test
            //# Endpoints MUST send Stateless Resets formatted as a packet with a short header.
            assert_eq!(reset[0] & 0xc0, 0x40);
            assert_eq!(reset[reset.len() - 16..], [7; 16]);
        }
    }

    //= specs/rfc9000.txt#section-10.3.3
    //= type=test
    //# An endpoint MUST ensure that every Stateless Reset that it sends is smaller than the packet
    //# that triggered it, unless it maintains state sufficient to prevent looping.
    #[test]
    fn a_loop_ends() {
        let mut rng = StdRng::seed_from_u64(1);
        let mut size = 1500;
        let mut rounds = 0;
        while answers(size) {
            let mut buf = Vec::new();
            write(&mut buf, &mut rng, &[7; 16], size);
            size = buf.len();
            rounds += 1;
        }
        assert!(rounds < 60);
    }

    #[test]
    fn rate() {
        let mut rate = AnswerRate::new();
        let start = Instant::now();
        let mut taken = |now, times: usize| (0..times).filter(|_| rate.take(now)).count();
        assert_eq!(taken(start, 1000), 64);
        assert_eq!(taken(start + INTERVAL - Duration::from_nanos(1), 10), 0);
        assert_eq!(taken(start + INTERVAL, 10), 1);
        // Fractions of an interval are not lost.
        assert_eq!(taken(start + INTERVAL * 5 / 2, 10), 1);
        assert_eq!(taken(start + INTERVAL * 3, 10), 1);
        // Nor is time that runs backwards a gift.
        assert_eq!(taken(start, 10), 0);
        assert_eq!(taken(start + Duration::from_secs(3600), 1000), 64);
        // Over 10 seconds: the burst and 200 a second.
        let mut rate = AnswerRate::new();
        let sent = (0..100_000)
            .filter(|n| rate.take(start + Duration::from_micros(100 * n)))
            .count();
        assert!((2050..=2064).contains(&sent), "{sent}");
    }

    /// A stateless reset has a connection ID made up by its sender. It finds the connection by its token, over at most two
    /// other shards, and does not go in circles when there is none.
    #[test]
    fn stateless_resets_find_their_shard() {
        let shards = EndpointConfig::new([9; 32]).into_shards(4).unwrap();
        let steering = shards[0].steering().unwrap().clone();
        let mut endpoints: Vec<_> = shards
            .into_iter()
            .map(|config| Endpoint::new(Arc::new(config), None))
            .collect();
        let handles: Vec<ConnectionHandle> = endpoints
            .iter_mut()
            .map(|endpoint| endpoint.register(None))
            .collect();
        let (now, mut buf) = (Instant::now(), Vec::new());
        let path = FourTuple {
            local: "192.0.2.2:1".parse().unwrap(),
            remote: "192.0.2.1:443".parse().unwrap(),
        };
        let mut deliver = |endpoints: &mut Vec<Endpoint>, first: usize, datagram: &[u8]| {
            let mut hops = 0;
            let mut at = first;
            let mut event = endpoints[at].handle(now, path, None, datagram.into(), &mut buf);
            while let Some(DatagramEvent::Forward(next, datagram)) = event {
                hops += 1;
                assert_ne!(at, usize::from(next));
                at = usize::from(next);
                event = endpoints[at].handle_forwarded(now, path, None, datagram, &mut buf);
            }
            assert!(hops <= 2, "{hops}");
            match event {
                Some(DatagramEvent::ConnectionEvent(handle, _)) => {
                    assert_eq!(handle, handles[at]);
                    Some(at)
                }
                // The shard to which the connection ID leads may answer.
                Some(DatagramEvent::Response(_)) | None => {
                    assert_eq!(at, usize::from(steering.shard_of(datagram)));
                    None
                }
                other => panic!("{other:?}"),
            }
        };
        let token = [0x77; 16];
        for owner in 0..4 {
            for drained in [false, true] {
                let add = EndpointEvent::AddResetToken(path.remote, token);
                endpoints[owner].handle_event(handles[owner], add);
                for (number, first) in (0..40_u8).zip((0..4).cycle()) {
                    let mut datagram = [number.wrapping_mul(37); 60];
                    datagram[0] = 0x40 | number & 0x3f;
                    datagram[44..].copy_from_slice(&token);
                    assert_eq!(deliver(&mut endpoints, first, &datagram), Some(owner));
                    datagram[59] ^= 1;
                    assert_eq!(deliver(&mut endpoints, first, &datagram), None);
                }
                let end = if drained {
                    EndpointEvent::Drained
                } else {
                    EndpointEvent::RemoveResetToken(path.remote, token)
                };
                endpoints[owner].handle_event(handles[owner], end);
                let mut datagram = [1; 60];
                datagram[44..].copy_from_slice(&token);
                assert_eq!(deliver(&mut endpoints, 0, &datagram), None);
            }
        }
    }
}
