//! The largest UDP payload that a path takes (RFC 8899, RFC 9000 section 14.3); builds no probe.

use std::time::{Duration, Instant};

/// BASE_PLPMTU (RFC 9000 section 14.1): what every path takes.
//= specs/rfc9000.txt#section-14
//= type=implication
//# QUIC MUST NOT be used if the network path cannot support a maximum datagram size of at least
//# 1200 bytes.
//= specs/rfc9000.txt#section-14.3
//= type=implication
//# Endpoints SHOULD set the initial value of BASE_PLPMTU (Section 5.1 of [DPLPMTUD]) to be
//# consistent with QUIC's smallest allowed maximum datagram size.
pub(crate) const BASE_MTU: u16 = 1200;

/// MAX_PROBES (RFC 8899 section 5.1.2): losses of one size after which it counts as too large.
const MAX_PROBES: u8 = 3;

/// The search ends when the next step would be smaller: within twice that, 1 % of a packet.
const MIN_GAIN: u16 = 8;

/// Time after a lost probe: what lost it may pass.
const RETRY_DELAY: Duration = Duration::from_millis(250);

/// PMTU_RAISE_TIMER (RFC 8899 section 5.1.1): the path may have changed.
const RAISE_INTERVAL: Duration = Duration::from_secs(600);

/// Time after a black hole until larger sizes are tried again.
const BLACK_HOLE_DELAY: Duration = Duration::from_secs(60);

/// Loss events in a row that took only packets above the base, none of which came through meanwhile.
const BLACK_HOLE_LOSSES: u8 = 4;

/// Probe timeouts in a row with larger packets than the base. More than one congested moment, less
/// than the patience of an application.
const BLACK_HOLE_PTOS: u32 = 3;

#[derive(Debug, Clone, Copy)]
struct Probe {
    pn: u64,
    size: u16,
}

/// DPLPMTUD of one network path. A probe is a packet of its own with PING and PADDING.
#[derive(Debug)]
pub(crate) struct MtuDiscovery {
    /// When there was a path first, and the size assumed to pass on every one.
    since: Instant,
    initial: u16,
    /// MAX_PLPMTU.
    max: u16,
    /// The largest size known to pass.
    current: u16,
    /// The smallest size held to be too large.
    too_large: u16,
    in_flight: Option<Probe>,
    /// Losses of the size under test.
    losses: u8,
    /// When the next probe may go; `None` while nothing is left to try.
    next_probe: Option<Instant>,
    /// Losses of large packets since one came through.
    black_hole: u8,
    /// Nothing came through when the size was last reduced: as soon as something does, larger sizes are tried.
    silent: bool,
}

impl MtuDiscovery {
    /// A new network path. With `max` at or below `initial`, nothing is probed.
    pub(crate) fn new(now: Instant, initial: u16, max: u16) -> Self {
        let initial = initial.max(BASE_MTU);
        let max = max.max(initial);
        Self {
            since: now,
            initial,
            max,
            current: initial,
            too_large: max.saturating_add(1),
            in_flight: None,
            losses: 0,
            next_probe: (max > initial).then_some(now),
            black_hole: 0,
            silent: false,
        }
    }

    /// Another network path, of which nothing is known but what the peer takes.
    //= specs/rfc9000.txt#section-14.2
    //# In the absence of these mechanisms, QUIC endpoints SHOULD NOT send datagrams larger than the
    //# smallest allowed maximum datagram size.
    pub(crate) fn restart(&mut self) {
        *self = Self::new(self.since, self.initial.min(self.max), self.max);
    }

    /// The largest UDP payload to send now.
    pub(crate) const fn current(&self) -> u16 {
        self.current
    }

    /// The peer's max_udp_payload_size (RFC 9000 section 18.2); at least 1200. Whether
    /// [`current`](Self::current) has changed.
    pub(crate) fn set_peer_limit(&mut self, limit: u16) -> bool {
        let limit = limit.max(BASE_MTU);
        self.max = self.max.min(limit);
        self.too_large = self.too_large.min(limit.saturating_add(1));
        let before = self.current;
        self.current = before.min(limit);
        if self.target().is_none() {
            self.next_probe = None;
        }
        self.current != before
    }

    /// The size to try next.
    fn target(&self) -> Option<u16> {
        if self.too_large > self.max {
            // Most paths take the largest size: try that first.
            return (self.max > self.current).then_some(self.max);
        }
        //= specs/rfc8899.txt#section-5.3.2
        //# Implementations SHOULD select the set of probe packet sizes to maximize the gain in
        //# PLPMTU from each search step.
        let size = self.current + (self.too_large - self.current) / 2;
        (size >= self.current.saturating_add(MIN_GAIN)).then_some(size)
    }

    /// The size of the probe to be sent now, if one is due. Only on a validated path whose handshake
    /// is confirmed; a probe counts as in flight but its loss is no congestion.
    pub(crate) fn poll(&self, now: Instant) -> Option<u16> {
        if self.in_flight.is_some() || self.next_probe.is_none_or(|at| at > now) {
            return None;
        }
        self.target()
    }

    /// When [`poll`](Self::poll) is worth asking again.
    #[cfg(test)]
    pub(crate) fn timer(&self) -> Option<Instant> {
        self.next_probe.filter(|_| self.in_flight.is_none())
    }

    /// A probe of the size that [`poll`](Self::poll) gave left.
    pub(crate) const fn on_probe_sent(&mut self, pn: u64, size: u16) {
        self.in_flight = Some(Probe { pn, size });
    }

    /// A packet of this number was acknowledged. Whether it was the probe, and
    /// [`current`](Self::current) has risen.
    pub(crate) fn on_probe_acked(&mut self, now: Instant, pn: u64) -> bool {
        let Some(probe) = self.in_flight.take_if(|probe| probe.pn == pn) else {
            return false;
        };
        self.losses = 0;
        self.black_hole = 0;
        let raised = probe.size.min(self.max) > self.current;
        self.current = self.current.max(probe.size.min(self.max));
        self.continue_at(now);
        raised
    }

    /// The probe was lost.
    pub(crate) fn on_probe_lost(&mut self, now: Instant, pn: u64) {
        let Some(probe) = self.in_flight.take_if(|probe| probe.pn == pn) else {
            return;
        };
        self.losses += 1;
        if self.losses >= MAX_PROBES {
            self.losses = 0;
            self.too_large = self.too_large.min(probe.size);
        }
        self.continue_at(now + RETRY_DELAY);
    }

    /// Plans the next probe; once the search is over, a new one much later.
    fn continue_at(&mut self, at: Instant) {
        self.next_probe = if self.target().is_some() {
            Some(at)
        } else if self.current < self.max {
            self.too_large = self.max.saturating_add(1);
            Some(at + RAISE_INTERVAL)
        } else {
            None
        };
    }

    /// A packet of this size, no probe, was acknowledged.
    pub(crate) const fn on_acked(&mut self, size: u16) {
        if self.silent {
            self.silent = false;
            self.next_probe = Some(self.since);
        }
        if size > BASE_MTU {
            self.black_hole = 0;
        }
    }

    /// A look for losses found some; the largest packet lost, probes excluded, had this size. Told
    /// after the acknowledgements of the same ACK frame. Whether the path is a black hole for large
    /// packets (RFC 8899 section 4.3), so that [`current`](Self::current) has fallen to the base.
    pub(crate) fn on_lost(&mut self, now: Instant, largest_size: u16) -> bool {
        if largest_size <= BASE_MTU || self.current <= BASE_MTU {
            return false;
        }
        self.black_hole += 1;
        self.black_hole >= BLACK_HOLE_LOSSES && self.fall_back(now)
    }

    /// So many probe timeouts have passed in a row. True as for [`on_lost`](Self::on_lost): where
    /// all large packets vanish, no acknowledgement ever tells of their loss. Where all packets do, it
    /// is no black hole, and the first one that comes through starts the search again.
    pub(crate) fn on_pto(&mut self, now: Instant, pto_count: u32) -> bool {
        if pto_count < BLACK_HOLE_PTOS || self.current <= BASE_MTU {
            return false;
        }
        self.fall_back(now);
        self.silent = self.next_probe.take().is_some();
        true
    }

    /// RFC 8899 section 4.3.
    fn fall_back(&mut self, now: Instant) -> bool {
        self.current = BASE_MTU;
        self.too_large = self.max.saturating_add(1);
        self.in_flight = None;
        self.losses = 0;
        self.black_hole = 0;
        self.next_probe = (self.max > BASE_MTU).then_some(now + BLACK_HOLE_DELAY);
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Probes until nothing is due within a minute; the number of probes.
    fn search(mtu: &mut MtuDiscovery, now: &mut Instant, limit: u16) -> u32 {
        let mut probes = 0;
        while let Some(at) = mtu
            .timer()
            .filter(|at| *at < *now + Duration::from_secs(30))
        {
            *now = at.max(*now);
            let size = mtu.poll(*now).unwrap();
            assert!(size > mtu.current());
            mtu.on_probe_sent(u64::from(probes), size);
            assert_eq!(mtu.poll(*now), None, "one at a time");
            *now += Duration::from_millis(50);
            if size <= limit {
                assert!(mtu.on_probe_acked(*now, u64::from(probes)));
                assert_eq!(mtu.current(), size);
            } else {
                mtu.on_probe_lost(*now, u64::from(probes));
            }
            probes += 1;
            assert!(probes < 100);
        }
        probes
    }

    #[test]
    fn an_ethernet_path_takes_one_probe() {
        let mut now = Instant::now();
        let mut mtu = MtuDiscovery::new(now, 1200, 1452);
        assert_eq!(mtu.current(), 1200);
        assert_eq!(search(&mut mtu, &mut now, 1472), 1);
        assert_eq!(mtu.current(), 1452);
        assert_eq!(mtu.timer(), None);
    }

    #[test]
    fn a_narrow_path_is_found_by_bisection_and_tried_again_later() {
        let mut now = Instant::now();
        let mut mtu = MtuDiscovery::new(now, 1200, 1452);
        let probes = search(&mut mtu, &mut now, 1372);
        assert!(
            (1372 - 2 * MIN_GAIN..=1372).contains(&mtu.current()),
            "{}",
            mtu.current()
        );
        assert!(probes < 20);
        let again = mtu.timer().unwrap();
        assert!(again > now + Duration::from_secs(500));
        now = again;
        search(&mut mtu, &mut now, 1500);
        assert_eq!(mtu.current(), 1452);
    }

    #[test]
    fn nothing_to_probe() {
        let now = Instant::now();
        assert_eq!(MtuDiscovery::new(now, 1400, 1300).poll(now), None);
        let mut mtu = MtuDiscovery::new(now, 1350, 1452);
        assert!(mtu.set_peer_limit(1300));
        assert_eq!(
            (mtu.current(), mtu.poll(now), mtu.timer()),
            (1300, None, None)
        );
        assert!(!mtu.set_peer_limit(1400));
        let mut mtu = MtuDiscovery::new(now, 1200, 1452);
        assert!(!mtu.set_peer_limit(1400));
        assert_eq!(mtu.poll(now), Some(1400));
    }

    #[test]
    fn a_black_hole_leads_back_to_the_base() {
        let mut now = Instant::now();
        let mut mtu = MtuDiscovery::new(now, 1200, 1452);
        search(&mut mtu, &mut now, 1500);
        // Congestion: losses, but large packets come through in between.
        for _ in 0..100 {
            assert!(!mtu.on_lost(now, 1452));
            mtu.on_acked(1452);
        }
        assert!(!mtu.on_lost(now, 1200));
        for _ in 0..3 {
            assert!(!mtu.on_lost(now, 1452));
            mtu.on_acked(60);
        }
        assert!(mtu.on_lost(now, 1452));
        assert_eq!(mtu.current(), 1200);
        assert_eq!(mtu.poll(now), None);
        now += BLACK_HOLE_DELAY;
        assert_eq!(mtu.poll(now), Some(1452));
        search(&mut mtu, &mut now, 1500);
        assert!(!mtu.on_pto(now, 2));
        assert!(mtu.on_pto(now, 3));
        assert!(!mtu.on_pto(now, 4), "already at the base");
        // Nothing is tried into the silence, and at once after it.
        assert_eq!(mtu.poll(now + BLACK_HOLE_DELAY), None);
        mtu.on_acked(1200);
        assert_eq!(mtu.poll(now), Some(1452));
        mtu.on_probe_sent(0, 1452);
        mtu.on_acked(1200);
        mtu.on_probe_lost(now, 0);
        assert_eq!(mtu.poll(now), None, "the search goes on as ever");
    }

    #[test]
    fn another_network_path_is_searched_from_the_start() {
        let mut now = Instant::now();
        let mut mtu = MtuDiscovery::new(now, 1200, 1452);
        assert!(!mtu.set_peer_limit(1400));
        search(&mut mtu, &mut now, 1500);
        assert_eq!((mtu.current(), mtu.poll(now)), (1400, None));
        for _ in 0..3 {
            mtu.on_lost(now, 1400);
        }
        mtu.restart();
        assert_eq!(mtu.current(), 1200);
        assert!(!mtu.on_lost(now, 1400), "lost on the path before");
        assert_eq!(mtu.poll(now), Some(1400), "the peer takes no more");
        mtu.on_probe_sent(7, 1400);
        mtu.restart();
        assert!(!mtu.on_probe_acked(now, 7), "arrived by the path before");
        search(&mut mtu, &mut now, 1300);
        assert!((1284..=1300).contains(&mtu.current()));
        // An initial size above what the peer takes.
        let mut mtu = MtuDiscovery::new(now, 1440, 1452);
        mtu.set_peer_limit(1300);
        mtu.restart();
        assert_eq!((mtu.current(), mtu.poll(now)), (1300, None));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn finds_what_passes(initial in 1200u16..1500, max in 1200u16.., limit in 1500u16..) {
            let mut now = Instant::now();
            let mut mtu = MtuDiscovery::new(now, initial, max);
            search(&mut mtu, &mut now, limit);
            let best = limit.min(max.max(initial));
            prop_assert!(mtu.current() <= best && mtu.current() + 2 * MIN_GAIN >= best, "{} for {}", mtu.current(), best);
        }
    }
}
