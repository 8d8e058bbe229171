//! The largest UDP payload that a path takes (RFC 8899, RFC 9000 section 14.3).

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

/// Bytes that a path has to deliver before sizes beyond `max_mtu` are tried (ours): most connections send less, and a probe is
/// a thirtieth of it.
const LINK_AFTER: u32 = 256 << 10;

/// And so many packets of the size have to fit into its window, as they do into a new path's (RFC 9002 section 7.2): on a path
/// that carries less, a probe would be long in its queues, and there is nothing to gain.
const LINK_WINDOW: u64 = 10;

/// What a path has to take more than `max_mtu`, of that, to be worth further probes.
const LINK_GAIN: u16 = 4;

/// The largest size that is looked for because of a link's MTU: with the headers of IPv4 9,216 bytes, the largest frames that
/// switches commonly take. Beyond that are links within a host, on which twice the size gains a fourteenth of the CPU time; at four
/// times, the sockets begin to overflow.
const MAX_LINK: u16 = 9216 - 28;

/// What is tried where the link's own size does not pass: jumbo frames, and what the routers of clouds take, both with IPv6.
const COMMON: [u16; 2] = [9000 - 48, 8500 - 48];

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

/// What is known of the link by which the path leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    /// Nothing, and nothing is to be known: the configuration says how large datagrams may be.
    Off,
    /// Nothing; from this moment on, it helps to know.
    Unknown(Instant),
    /// What it takes.
    Known,
}

#[derive(Debug, Clone, Copy)]
struct Probe {
    pn: u64,
    size: u16,
}

//= specs/rfc8899.txt#section-5.1.1
//= type=implication
//# CONFIRMATION_TIMER: When an acknowledged PL is used, this timer MUST NOT be used.
//= specs/rfc8899.txt#section-4.3
//= type=implication
//# A DPLPMTUD method MUST NOT rely solely on this method.
/// DPLPMTUD of one network path. A probe is a packet of its own with PING and PADDING.
///
/// It goes up to what the configuration says, and from there, if that says nothing of its own and once the path has carried
/// something, to what the link takes.
#[derive(Debug)]
pub(crate) struct MtuDiscovery {
    /// When there was a path first, and the size assumed to pass on every one.
    since: Instant,
    initial: u16,
    /// The largest size that is tried without knowledge of the link.
    near: u16,
    /// MAX_PLPMTU: `near`, or what the link takes beyond that.
    max: u16,
    /// The largest size that the peer takes.
    peer: u16,
    link: Link,
    /// Bytes acknowledged, as long as they are few.
    carried: u32,
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
    /// A new network path. With `max` at or below `initial`, nothing is probed, but what the link takes beyond that if
    /// `link` says so.
    pub(crate) fn new(now: Instant, initial: u16, max: u16, link: bool) -> Self {
        let initial = initial.max(BASE_MTU);
        let max = max.max(initial);
        Self {
            since: now,
            initial,
            near: max,
            max,
            peer: u16::MAX,
            link: if link { Link::Unknown(now) } else { Link::Off },
            carried: 0,
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
        let (initial, link) = (self.initial.min(self.near), self.link != Link::Off);
        *self = Self {
            peer: self.peer,
            ..Self::new(self.since, initial, self.near, link)
        };
    }

    /// The largest UDP payload to send now.
    pub(crate) const fn current(&self) -> u16 {
        self.current
    }

    /// The peer's max_udp_payload_size (RFC 9000 section 18.2); at least 1200. Whether
    /// [`current`](Self::current) has changed.
    pub(crate) fn set_peer_limit(&mut self, limit: u16) -> bool {
        let limit = limit.max(BASE_MTU);
        self.peer = self.peer.min(limit);
        self.near = self.near.min(limit);
        self.max = self.max.min(limit);
        self.too_large = self.too_large.min(limit.saturating_add(1));
        let before = self.current;
        self.current = before.min(limit);
        if self.target().is_none() {
            self.next_probe = None;
        }
        self.current != before
    }

    /// The least size that is worth probes beyond `near`.
    const fn least_gain(&self) -> u16 {
        self.near.saturating_add(self.near / LINK_GAIN)
    }

    /// Whether it would help to know what the link takes. Not where little was sent: there is no need for large packets
    /// (RFC 8899 section 5.1.2).
    pub(crate) fn wants_link(&self, now: Instant) -> bool {
        self.carried >= LINK_AFTER
            && matches!(self.link, Link::Unknown(from) if from <= now)
            && self.current >= self.near
            && self.peer >= self.least_gain()
    }

    /// The link takes UDP payloads of this size; 0 if that is not known. MAX_PLPMTU is what it takes, and the peer
    /// (RFC 8899 section 5.1.2). What the system has heard by PTB messages may be in it: it limits the search and sets no size.
    //= specs/rfc8899.txt#section-3
    //= type=implication
    //# A PTB message MUST NOT be used to increase the PLPMTU [RFC8201] but could trigger a probe to
    //# test for a larger PLPMTU.
    //= specs/rfc8899.txt#section-4.6.2
    //= type=implication
    //# PTB messages that have been validated MAY be utilized by the DPLPMTUD algorithm but MUST NOT
    //# be used directly to set the PLPMTU.
    //= specs/rfc8899.txt#section-6.1.6
    //= type=implication
    //# A validated PTB message MAY be used as input to the DPLPMTUD algorithm but MUST NOT be used
    //# directly to set the PLPMTU.
    pub(crate) fn set_link(&mut self, now: Instant, payload: u16) {
        if self.link == Link::Off {
            return;
        }
        self.link = Link::Known;
        let max = payload.min(self.peer).min(MAX_LINK);
        if max >= self.least_gain() && max > self.max {
            self.max = max;
            self.too_large = max.saturating_add(1);
            self.next_probe = Some(now);
        }
    }

    /// The size to try next.
    fn target(&self) -> Option<u16> {
        if self.too_large > self.max && self.current >= self.near {
            // Most paths take the largest size: try that first.
            return (self.max > self.current).then_some(self.max);
        }
        if self.max > self.near && self.current >= self.near {
            // Between a link's size and an Ethernet's are few that exist: no search for the byte.
            let below = self.too_large - self.too_large / 64;
            let least = self.least_gain().max(self.current + 1);
            return COMMON
                .into_iter()
                .find(|size| (least..=below).contains(size));
        }
        if self.too_large > self.near {
            return (self.near > self.current).then_some(self.near);
        }
        //= specs/rfc8899.txt#section-5.3.2
        //# Implementations SHOULD select the set of probe packet sizes to maximize the gain in
        //# PLPMTU from each search step.
        let size = self.current + (self.too_large - self.current) / 2;
        (size >= self.current.saturating_add(MIN_GAIN)).then_some(size)
    }

    /// The size of the probe to be sent now, if one is due. Only on a validated path whose handshake
    /// is confirmed; a probe counts as in flight but its loss is no congestion. `window`: the congestion window, which limits
    /// sizes beyond `near`.
    pub(crate) fn poll(&self, now: Instant, window: impl FnOnce() -> u64) -> Option<u16> {
        let size = self.due(now)?;
        (size <= self.near || u64::from(size) * LINK_WINDOW <= window()).then_some(size)
    }

    /// The size of the probe that is due, if the window lets it go. Asked by two for each packet: one copy of the code.
    #[inline(never)]
    fn due(&self, now: Instant) -> Option<u16> {
        //= specs/rfc8899.txt#section-3
        //# When the transmission of probe packets is not controlled by the congestion controller,
        //# the interval between probe packets MUST be at least one RTT.
        //= specs/rfc8899.txt#section-8
        //# To avoid excessive load, the interval between individual probe packets MUST be at least
        //# one RTT, and the interval between rounds of probing is determined by the
        //# PMTU_RAISE_TIMER.
        if self.in_flight.is_some() || self.next_probe.is_none_or(|at| at > now) {
            return None;
        }
        self.target()
    }

    /// Bytes of the window that are left to a probe: packets that are smaller would take all room before there is enough for it.
    pub(crate) fn reserved(&self, now: Instant, window: u64) -> u16 {
        if self.max <= self.near {
            return 0;
        }
        match self.due(now) {
            Some(size) if size <= self.near || u64::from(size) * LINK_WINDOW <= window => size,
            _ => 0,
        }
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
    //= specs/rfc8899.txt#section-3
    //# Reception feedback: The destination PL endpoint is REQUIRED to provide a feedback method
    //# that indicates to the DPLPMTUD sender when a probe packet has been received by the
    //# destination PL endpoint.
    //= specs/rfc8899.txt#section-3
    //# * Datagram reordering: A method is REQUIRED to be robust to the possibility that a flow
    //# encounters reordering or that the traffic (including probe packets) is divided over more
    //# than one network path.
    //= specs/rfc8899.txt#section-3
    //# * Datagram delay and duplication: The feedback mechanism is REQUIRED to be robust to the
    //# possibility that packets could be significantly delayed or duplicated along a network path.
    //= specs/rfc8899.txt#section-4.1
    //# Probe messages sent by a PL MUST contain enough information to uniquely identify the probe
    //# within the Maximum Segment Lifetime (e.g., including a unique identifier from the PL or the
    //# DPLPMTUD implementation), while being robust to reordering and replay of probe response and
    //# PTB messages.
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
        //= specs/rfc8899.txt#section-3
        //# The PL is REQUIRED to be robust in the case where probe packets are lost due to other
        //# reasons (including link transmission error, congestion).
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
        self.carried = self.carried.saturating_add(size as u32);
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
        if self.link != Link::Off {
            self.link = Link::Unknown(now);
        }
        true
    }

    /// RFC 8899 section 4.3.
    fn fall_back(&mut self, now: Instant) -> bool {
        // What an Ethernet takes is held to pass: only what is larger was lost.
        let delay = if self.current > self.near {
            RETRY_DELAY
        } else {
            BLACK_HOLE_DELAY
        };
        if self.link != Link::Off {
            self.link = Link::Unknown(now + BLACK_HOLE_DELAY);
        }
        self.carried = 0;
        self.max = self.near;
        self.current = BASE_MTU;
        self.too_large = self.max.saturating_add(1);
        self.in_flight = None;
        self.losses = 0;
        self.black_hole = 0;
        self.next_probe = (self.max > BASE_MTU).then_some(now + delay);
        true
    }
}

#[cfg(test)]
mod tests;
