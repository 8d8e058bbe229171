//! The search for the path MTU on paths that take sizes of all kinds, and on those that stop taking them.

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
        let size = mtu.poll(*now, || u64::MAX).unwrap();
        assert!(size > mtu.current());
        mtu.on_probe_sent(u64::from(probes), size);
        assert_eq!(mtu.poll(*now, || u64::MAX), None, "one at a time");
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
    let mut mtu = MtuDiscovery::new(now, 1200, 1452, false);
    assert_eq!(mtu.current(), 1200);
    assert_eq!(search(&mut mtu, &mut now, 1472), 1);
    assert_eq!(mtu.current(), 1452);
    assert_eq!(mtu.timer(), None);
}

#[test]
fn a_narrow_path_is_found_by_bisection_and_tried_again_later() {
    let mut now = Instant::now();
    let mut mtu = MtuDiscovery::new(now, 1200, 1452, false);
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

//= specs/rfc8899.txt#section-3
//= type=test
//# The PL is REQUIRED to be robust in the case where probe packets are lost due to other reasons
//# (including link transmission error, congestion).
#[test]
fn a_probe_that_chance_took_is_sent_again() {
    let mut now = Instant::now();
    let mut mtu = MtuDiscovery::new(now, 1200, 1452, false);
    for pn in 0..2 {
        assert_eq!(mtu.poll(now, || u64::MAX), Some(1452), "{pn}");
        mtu.on_probe_sent(pn, 1452);
        now += Duration::from_millis(50);
        mtu.on_probe_lost(now, pn);
        assert_eq!(mtu.current(), 1200);
        now = mtu.timer().unwrap();
    }
    mtu.on_probe_sent(2, 1452);
    assert!(mtu.on_probe_acked(now, 2));
    assert_eq!(mtu.current(), 1452);
}

//= specs/rfc8899.txt#section-3
//= type=test
//# When the transmission of probe packets is not controlled by the congestion controller, the
//# interval between probe packets MUST be at least one RTT.
//= specs/rfc8899.txt#section-3
//= type=test
//# * Datagram reordering: A method is REQUIRED to be robust to the possibility that a flow
//# encounters reordering or that the traffic (including probe packets) is divided over more than
//# one network path.
//= specs/rfc8899.txt#section-3
//= type=test
//# * Datagram delay and duplication: The feedback mechanism is REQUIRED to be robust to the
//# possibility that packets could be significantly delayed or duplicated along a network path.
//= specs/rfc8899.txt#section-4.1
//= type=test
//# Probe messages sent by a PL MUST contain enough information to uniquely identify the probe
//# within the Maximum Segment Lifetime (e.g., including a unique identifier from the PL or the
//# DPLPMTUD implementation), while being robust to reordering and replay of probe response and PTB
//# messages.
#[test]
fn only_what_becomes_of_the_probe_itself_tells_of_it() {
    let now = Instant::now();
    let mut mtu = MtuDiscovery::new(now, 1200, 1452, false);
    mtu.on_probe_sent(7, 1452);
    // A round trip or more passes before the next one.
    assert_eq!(mtu.poll(now + RAISE_INTERVAL, || u64::MAX), None);
    // Packets before and behind it, in any order.
    assert!(!mtu.on_probe_acked(now, 8));
    assert!(!mtu.on_probe_acked(now, 6));
    mtu.on_probe_lost(now, 6);
    assert_eq!(mtu.current(), 1200);
    assert!(mtu.on_probe_acked(now, 7));
    assert_eq!(mtu.current(), 1452);
    // Once more, and what was held to be lost.
    assert!(!mtu.on_probe_acked(now, 7));
    mtu.on_probe_lost(now, 7);
    assert_eq!(mtu.current(), 1452);
}

#[test]
fn nothing_to_probe() {
    let now = Instant::now();
    assert_eq!(
        MtuDiscovery::new(now, 1400, 1300, false).poll(now, || u64::MAX),
        None
    );
    let mut mtu = MtuDiscovery::new(now, 1350, 1452, false);
    assert!(mtu.set_peer_limit(1300));
    assert_eq!(
        (mtu.current(), mtu.poll(now, || u64::MAX), mtu.timer()),
        (1300, None, None)
    );
    assert!(!mtu.set_peer_limit(1400));
    let mut mtu = MtuDiscovery::new(now, 1200, 1452, false);
    assert!(!mtu.set_peer_limit(1400));
    assert_eq!(mtu.poll(now, || u64::MAX), Some(1400));
}

#[test]
fn a_black_hole_leads_back_to_the_base() {
    let mut now = Instant::now();
    let mut mtu = MtuDiscovery::new(now, 1200, 1452, false);
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
    assert_eq!(mtu.poll(now, || u64::MAX), None);
    now += BLACK_HOLE_DELAY;
    assert_eq!(mtu.poll(now, || u64::MAX), Some(1452));
    search(&mut mtu, &mut now, 1500);
    assert!(!mtu.on_pto(now, 2));
    assert!(mtu.on_pto(now, 3));
    assert!(!mtu.on_pto(now, 4), "already at the base");
    // Nothing is tried into the silence, and at once after it.
    assert_eq!(mtu.poll(now + BLACK_HOLE_DELAY, || u64::MAX), None);
    mtu.on_acked(1200);
    assert_eq!(mtu.poll(now, || u64::MAX), Some(1452));
    mtu.on_probe_sent(0, 1452);
    mtu.on_acked(1200);
    mtu.on_probe_lost(now, 0);
    assert_eq!(
        mtu.poll(now, || u64::MAX),
        None,
        "the search goes on as ever"
    );
}

#[test]
fn another_network_path_is_searched_from_the_start() {
    let mut now = Instant::now();
    let mut mtu = MtuDiscovery::new(now, 1200, 1452, false);
    assert!(!mtu.set_peer_limit(1400));
    search(&mut mtu, &mut now, 1500);
    assert_eq!((mtu.current(), mtu.poll(now, || u64::MAX)), (1400, None));
    for _ in 0..3 {
        mtu.on_lost(now, 1400);
    }
    mtu.restart();
    assert_eq!(mtu.current(), 1200);
    assert!(!mtu.on_lost(now, 1400), "lost on the path before");
    assert_eq!(
        mtu.poll(now, || u64::MAX),
        Some(1400),
        "the peer takes no more"
    );
    mtu.on_probe_sent(7, 1400);
    mtu.restart();
    assert!(!mtu.on_probe_acked(now, 7), "arrived by the path before");
    search(&mut mtu, &mut now, 1300);
    assert!((1284..=1300).contains(&mtu.current()));
    // An initial size above what the peer takes.
    let mut mtu = MtuDiscovery::new(now, 1440, 1452, false);
    mtu.set_peer_limit(1300);
    mtu.restart();
    assert_eq!((mtu.current(), mtu.poll(now, || u64::MAX)), (1300, None));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn finds_what_passes(initial in 1200u16..1500, max in 1200u16.., limit in 1500u16..) {
        let mut now = Instant::now();
        let mut mtu = MtuDiscovery::new(now, initial, max, false);
        search(&mut mtu, &mut now, limit);
        let best = limit.min(max.max(initial));
        prop_assert!(mtu.current() <= best && mtu.current() + 2 * MIN_GAIN >= best, "{} for {}", mtu.current(), best);
    }
}

/// A path whose ordinary search is over, and that has carried enough for larger sizes.
fn carried(limit: u16) -> (MtuDiscovery, Instant) {
    let mut now = Instant::now();
    let mut mtu = MtuDiscovery::new(now, 1200, 1452, true);
    assert!(!mtu.wants_link(now));
    assert_eq!(search(&mut mtu, &mut now, limit), 1);
    carry(&mut mtu, now);
    (mtu, now)
}

/// Packets of the present size are acknowledged, until the link is asked for.
fn carry(mtu: &mut MtuDiscovery, now: Instant) {
    let size = mtu.current();
    mtu.carried = 0;
    for _ in 0..LINK_AFTER / u32::from(size) {
        mtu.on_acked(size);
        assert!(!mtu.wants_link(now));
    }
    mtu.on_acked(size);
}

#[test]
fn a_jumbo_link_takes_one_more_probe_once_the_path_has_carried_something() {
    for (link, limit, probes, found) in [
        (8972, 9000, 1, 8972),
        // Loopback: as much as an Ethernet switch takes.
        (65_508, 65_508, 1, MAX_LINK),
        // A router on the way takes less.
        (8972, 8500, 4, 8452),
        (8972, 1500, 6, 1452),
        (MAX_LINK, 9000, 4, 8952),
        // No jumbo frames.
        (1472, 1500, 0, 1452),
        (0, 1500, 0, 1452),
    ] {
        let (mut mtu, mut now) = carried(limit);
        assert_eq!(mtu.poll(now, || u64::MAX), None);
        assert!(mtu.wants_link(now));
        mtu.set_link(now, link);
        assert!(!mtu.wants_link(now));
        assert_eq!(search(&mut mtu, &mut now, limit), probes, "{link}, {limit}");
        assert_eq!(mtu.current(), found, "{link}, {limit}");
        assert!(!mtu.wants_link(now + RAISE_INTERVAL));
        // RFC 8899 section 5.1.1: tried again after ten minutes, if there is anything to gain.
        assert_eq!(mtu.timer().is_some(), probes > 1);
        if let Some(again) = mtu.timer() {
            assert!(again > now + Duration::from_secs(500));
            now = again;
            search(&mut mtu, &mut now, 9200);
            assert_eq!(mtu.current(), link);
        }
    }
}

#[test]
fn nobody_asks_for_the_link_of_a_configured_size_or_of_a_peer_that_takes_no_more() {
    let mut now = Instant::now();
    let mut mtu = MtuDiscovery::new(now, 1200, 1452, false);
    search(&mut mtu, &mut now, 9000);
    mtu.carried = u32::MAX;
    assert!(!mtu.wants_link(now));
    mtu.set_link(now, 8972);
    assert_eq!((mtu.poll(now, || u64::MAX), mtu.current()), (None, 1452));

    // quinn's default.
    let mut mtu = MtuDiscovery::new(now, 1200, 1452, true);
    mtu.set_peer_limit(1472);
    search(&mut mtu, &mut now, 9000);
    mtu.carried = u32::MAX;
    assert!(!mtu.wants_link(now));

    let mut mtu = MtuDiscovery::new(now, 1200, 1452, true);
    mtu.set_peer_limit(4000);
    search(&mut mtu, &mut now, 9000);
    mtu.carried = u32::MAX;
    assert!(mtu.wants_link(now));
    mtu.set_link(now, 8972);
    search(&mut mtu, &mut now, 9000);
    assert_eq!(mtu.current(), 4000);
}

/// A probe that would be long in the queues of the path waits until the path carries more; data leave it room then.
#[test]
fn a_large_probe_waits_for_a_window_of_ten() {
    let (mut mtu, mut now) = carried(9000);
    assert_eq!(mtu.reserved(now, u64::MAX), 0);
    mtu.set_link(now, 8972);
    assert_eq!(mtu.poll(now, || 89_719), None);
    assert_eq!(mtu.reserved(now, 89_719), 0);
    assert_eq!(mtu.poll(now, || 89_720), Some(8972));
    assert_eq!(mtu.reserved(now, 89_720), 8972);
    mtu.on_probe_sent(9, 8972);
    assert_eq!(mtu.reserved(now, u64::MAX), 0);
    mtu.on_probe_lost(now, 9);
    assert_eq!(mtu.reserved(now, u64::MAX), 0, "not at once");
    now += RETRY_DELAY;
    assert_eq!(mtu.reserved(now, u64::MAX), 8972);
}

/// RFC 8899 section 4.3, from a jumbo link: an Ethernet's size is back soon, the link's after a minute and as much data as before.
#[test]
fn a_black_hole_for_jumbo_frames_leads_back_to_the_base_and_soon_to_an_ethernet() {
    let (mut mtu, mut now) = carried(9000);
    mtu.set_link(now, 8972);
    search(&mut mtu, &mut now, 9000);
    for _ in 0..3 {
        assert!(!mtu.on_lost(now, 8972));
    }
    assert!(mtu.on_lost(now, 8972));
    assert_eq!(mtu.current(), BASE_MTU);
    assert_eq!(mtu.timer(), Some(now + RETRY_DELAY));
    let hole = now;
    search(&mut mtu, &mut now, 1500);
    assert_eq!(mtu.current(), 1452);
    carry(&mut mtu, now);
    assert!(!mtu.wants_link(now));
    assert!(mtu.wants_link(hole + BLACK_HOLE_DELAY));

    // Silence is none: all of it is searched again as soon as something comes through.
    now = hole + BLACK_HOLE_DELAY;
    mtu.set_link(now, 8972);
    search(&mut mtu, &mut now, 9000);
    assert_eq!(mtu.current(), 8972);
    assert!(mtu.on_pto(now, 3));
    assert_eq!(mtu.poll(now + BLACK_HOLE_DELAY, || u64::MAX), None);
    mtu.on_acked(1200);
    assert_eq!(search(&mut mtu, &mut now, 9000), 1);
    assert_eq!(mtu.current(), 1452);
    carry(&mut mtu, now);
    assert!(mtu.wants_link(now));

    // And another path is searched from the start.
    mtu.set_link(now, 8972);
    mtu.restart();
    assert_eq!((mtu.current(), mtu.wants_link(now)), (1200, false));
    search(&mut mtu, &mut now, 9000);
    assert_eq!(mtu.current(), 1452);
    carry(&mut mtu, now);
    assert!(mtu.wants_link(now));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    /// Never more than the link, the peer and the cap take; few probes; what passes is not below what passed before.
    #[test]
    fn a_search_beyond_the_configured_size_ends_soon(
        peer in 1200u16..,
        link in 0u16..,
        limit in 1452u16..,
    ) {
        let (mut mtu, mut now) = (MtuDiscovery::new(Instant::now(), 1200, 1452, true), Instant::now());
        mtu.set_peer_limit(peer);
        search(&mut mtu, &mut now, limit);
        let before = mtu.current();
        mtu.carried = u32::MAX;
        if mtu.wants_link(now) {
            mtu.set_link(now, link);
        }
        let probes = search(&mut mtu, &mut now, limit);
        prop_assert!(probes <= 3 * 3);
        prop_assert!(mtu.current() >= before);
        prop_assert!(mtu.current() <= peer.min(limit).min(MAX_LINK.max(1452)));
        if mtu.current() > before {
            prop_assert!(mtu.current() <= link);
        }
    }
}
