//! What the datagrams that came by must show for each case, as the interop runner reads it off its captures.

use std::collections::HashSet;

use crate::case::Case;
use crate::wire::{Kind, Record};

/// RFC 9000 section 8.1.
const AMPLIFICATION: usize = 3;
/// So many datagrams on its new addresses show that a connection goes on there.
const GOES_ON: usize = 100;

pub(crate) fn check(case: Case, records: &[Record], oversteps: bool) {
    match case {
        Case::V2 => version_2(records),
        Case::ZeroRtt | Case::ZeroRttRefused => early_data(records),
        Case::NoIds | Case::ShortIds | Case::LongIds => id_lens(case, records),
        Case::Ecn => ecn(records),
        Case::AmplificationLimit => amplification(records, oversteps),
        Case::ConnectionMigration | Case::PreferredAddress => migration(case, records),
        _ => {}
    }
}

fn summary(records: &[Record]) -> String {
    let all = records.iter().map(|record| {
        let Record {
            up,
            route,
            len,
            marked,
            dropped,
            long,
            ..
        } = record;
        let to = if *up { "up" } else { "down" };
        format!("{to} {route:?} {len} bytes, marked: {marked}, dropped: {dropped}, {long:x?}\n")
    });
    all.take(60).collect()
}

/// All packets of both sides that say their version say version 2.
fn version_2(records: &[Record]) {
    for up in [true, false] {
        let mut long = records
            .iter()
            .filter(|record| record.up == up)
            .flat_map(|record| &record.long);
        assert!(long.clone().count() > 1, "{}", summary(records));
        assert!(
            long.all(|(version, _)| *version == 0x6b33_43cf),
            "{}",
            summary(records)
        );
    }
}

/// Both sides had connection IDs of the lengths that were asked for.
fn id_lens(case: Case, records: &[Record]) {
    let of = |up: bool| {
        let sent = records.iter().filter(move |record| record.up == up);
        let lens: HashSet<_> = sent.filter_map(|record| record.scid_len).collect();
        assert_eq!(lens.len(), 1, "{lens:?}");
        lens.into_iter().next().unwrap()
    };
    let (theirs, ours) = case.id_lens().unwrap();
    let (up, down) = (of(true), of(false));
    assert!(
        (up, down) == (theirs, ours) || (up, down) == (ours, theirs),
        "{up} and {down} bytes"
    );
}

/// The request travelled in 0-RTT packets.
fn early_data(records: &[Record]) {
    let is_early = |record: &Record| record.long.iter().any(|(_, kind)| *kind == Kind::ZeroRtt);
    assert!(
        records.iter().any(|record| record.up && is_early(record)),
        "{}",
        summary(records)
    );
    assert!(!records.iter().any(|record| !record.up && is_early(record)));
}

/// Both sides go on marking, which they do only while the other one reports the right counts (RFC 9000 section
/// 13.4.2).
fn ecn(records: &[Record]) {
    for up in [true, false] {
        let sent: Vec<_> = records.iter().filter(|record| record.up == up).collect();
        let late = &sent[sent.len() / 2..];
        let marked = late.iter().filter(|record| record.marked).count();
        assert!(
            marked > 0,
            "up: {up}, {} datagrams: {}",
            late.len(),
            summary(records)
        );
    }
}

/// Nothing but the client's first datagram arrives for a while; the server has more to send than it may.
fn amplification(records: &[Record], oversteps: bool) {
    let dropped = records.iter().filter(|record| record.dropped).count();
    let drops = Case::AmplificationLimit.drops();
    assert_eq!(dropped, drops.count(), "{}", summary(records));
    let (mut received, mut sent, mut proven) = (0, 0, false);
    let (mut first, mut flight) = (0, 0);
    for record in records.iter().filter(|record| !record.dropped) {
        if record.up {
            received += record.len;
            first = if first == 0 { record.len } else { first };
            proven |= record.long.iter().any(|(_, kind)| *kind == Kind::Handshake);
        } else {
            let before = sent;
            sent += record.len;
            flight += if record.long.is_empty() {
                0
            } else {
                record.len
            };
            let limit = AMPLIFICATION * received;
            let fits = sent <= limit || (oversteps && before < limit);
            assert!(proven || fits, "{}", summary(records));
        }
    }
    assert!(
        proven && flight > AMPLIFICATION * first,
        "the limit did not matter: {}",
        summary(records)
    );
}

/// The connection goes on at other addresses, with other connection IDs (RFC 9000 section 9.5).
fn migration(case: Case, records: &[Record]) {
    let up = || records.iter().filter(|record| record.up);
    let (Some(old), Some(new)) = (up().next(), up().next_back()) else {
        panic!("nothing was sent");
    };
    let (old, new) = (old.route, new.route);
    assert_ne!(old, new, "{}", summary(records));
    let follows = case == Case::PreferredAddress;
    assert_eq!(new.0, usize::from(follows), "{}", summary(records));
    for up in [true, false] {
        let on = records
            .iter()
            .filter(|record| record.up == up && record.route == new);
        let least = if up { GOES_ON / 10 } else { GOES_ON };
        assert!(on.count() >= least, "{}", summary(records));
    }
    let ids = |route| -> HashSet<_> {
        up().filter(|record| record.route == route)
            .filter_map(|record| record.short_dcid)
            .collect()
    };
    assert!(
        ids(old).is_disjoint(&ids(new)),
        "a connection ID went to both: {}",
        summary(records)
    );
}
