//! Mahimahi traces: the format, and deliveries by it.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::*;

fn trace(times: &[u64]) -> MahimahiTrace {
    MahimahiTrace::from_millis(times.iter().copied()).unwrap()
}

/// No headers, so that a packet of 1500 bytes is an opportunity.
fn traced(times: &[u64], delay: Duration) -> LinkConfig {
    LinkConfig {
        overhead: 0,
        ..LinkConfig::from_trace(trace(times), delay)
    }
    .with_queue(QueueLimit::Packets(u64::MAX))
}

/// When packets of these sizes that come at these milliseconds are through.
fn departures(times: &[u64], packets: &[(u64, usize)]) -> Vec<u64> {
    let mut link = Link::new(traced(times, ms(0)), 1).unwrap();
    for (at, size) in packets {
        link.enqueue(ms(*at), *size, ()).unwrap();
    }
    drain(&mut link)
        .iter()
        .map(|exit| {
            assert_eq!(exit.at.as_nanos() % 1_000_000, 0);
            exit.at.as_millis() as u64
        })
        .collect()
}

#[test]
fn each_opportunity_delivers_one_full_packet() {
    let packets = [(0, 1500); 8];
    // The opportunity at 0 is over when the packets come; the round ends at 10.
    let at = departures(&[0, 3, 3, 10], &packets);
    assert_eq!(at, [3, 3, 10, 10, 13, 13, 20, 20]);
}

#[test]
fn small_packets_share_an_opportunity() {
    // Three of 500 bytes fit one; the fourth takes the next.
    assert_eq!(departures(&[4, 9], &[(0, 500); 4]), [4, 4, 4, 9]);
    // 1000 + 500 of the second; its other 500, the third and no more of the fourth.
    assert_eq!(departures(&[4, 9, 20], &[(0, 1000); 4]), [4, 9, 9, 20]);
}

#[test]
fn a_large_packet_takes_several_opportunities() {
    // 4000 bytes: two opportunities and 1000 bytes of the third, whose 500 the next one uses.
    assert_eq!(
        departures(&[1, 2, 5, 7], &[(0, 4000), (0, 500), (0, 1)]),
        [5, 5, 7]
    );
    // More than a round has.
    assert_eq!(departures(&[5], &[(0, 15_000)]), [50]);
}

#[test]
fn an_opportunity_without_a_packet_is_lost() {
    // The one at 4 finds nothing, the rest of the one at 9 as well.
    assert_eq!(
        departures(&[4, 9, 20], &[(6, 100), (9, 100), (15, 1500)]),
        [9, 20, 24]
    );
    // What comes at the very time of an opportunity is too late for it.
    assert_eq!(departures(&[4, 9], &[(4, 100)]), [9]);
    assert_eq!(departures(&[4, 9], &[(9, 100)]), [13]);
    assert_eq!(departures(&[0, 9], &[(9, 100)]), [18]);
}

#[test]
fn rounds_are_counted_in_long_runs() {
    // Idle for 1000 rounds and 3 ms.
    assert_eq!(
        departures(&[2, 4, 10], &[(10_003, 1500), (10_003, 1500)]),
        [10_004, 10_010]
    );
}

#[test]
fn a_busy_link_delivers_exactly_the_trace() {
    // An irregular trace; ten rounds of it, in packets of 100, 1200 and 1500 bytes.
    let times: Vec<_> = (0..500_u64).map(|i| i * i / 250).collect();
    let period = *times.last().unwrap();
    for size in [100, 1200, 1500] {
        let mut link = Link::new(traced(&times, ms(7)), 1).unwrap();
        let total = 10 * times.len() * 1500;
        for i in 0..total / size + 100 {
            link.enqueue(ms(0), size, i).unwrap();
        }
        let exits = drain(&mut link);
        for round in [1, 2, 10] {
            let end = ms(period * round + 7);
            // Those at 0 are gone in the first round; at the end of each, those of the next come.
            let opportunities = times.len() * round as usize;
            let through = exits.iter().filter(|exit| exit.at <= end).count();
            assert_eq!(through, opportunities * 1500 / size);
        }
    }
}

#[test]
fn the_mean_rate_is_that_of_a_round() {
    let trace = trace(&[0, 1, 1, 4]);
    assert_eq!((trace.opportunities(), trace.period_millis()), (4, 4));
    assert_eq!(trace.mean_rate(), 12_000_000);
    let config = LinkConfig::from_trace(trace, ms(100));
    // 12 Mbit/s * 200 ms / 8 / 1350 = 222.2.
    assert_eq!(config.queue_limit(), QueueLimit::Packets(223));
}

#[test]
fn an_outage_spares_later_opportunities() {
    let config = traced(&[2, 4, 6, 8, 10], ms(0)).with_outage(ms(5), ms(2));
    let mut link = Link::new(config, 1).unwrap();
    for i in 0..5 {
        link.enqueue(ms(0), 1500, i).unwrap();
    }
    link.enqueue(ms(7), 1500, 5).unwrap();
    let arrived: Vec<_> = drain(&mut link)
        .iter()
        .filter(|exit| exit.fate.arrives())
        .map(|exit| (exit.payload, exit.at))
        .collect();
    assert_eq!(arrived, [(0, ms(2)), (1, ms(4)), (5, ms(8))]);
}

#[test]
fn a_command_puts_a_rate_in_place_of_a_trace() {
    let mut link = Link::new(traced(&[100], ms(0)), 1).unwrap();
    link.enqueue(ms(0), 1000, ()).unwrap();
    link.enqueue(ms(0), 1000, ()).unwrap();
    link.set_rate(ms(10), Some(8_000_000)).unwrap();
    let at: Vec<_> = drain(&mut link).iter().map(|exit| exit.at).collect();
    assert_eq!(at, [ms(11), ms(12)]);
    assert_eq!(link.config().trace, None);
}

#[test]
fn bad_lines_are_named() {
    let error = |text: &str| text.parse::<MahimahiTrace>().unwrap_err().to_string();
    assert_eq!(
        error("1\n2.5\n"),
        "trace line 2: `2.5` is not a whole number of milliseconds"
    );
    assert_eq!(
        error("1\n\n2\n"),
        "trace line 2: `` is not a whole number of milliseconds"
    );
    assert_eq!(
        error("-1"),
        "trace line 1: `-1` is not a whole number of milliseconds"
    );
    assert_eq!(
        error("1\n1\n7\n6"),
        "trace line 4: 6 ms comes after 7 ms, expected times that never fall"
    );
    assert_eq!(
        error("1\n3000000000"),
        "trace line 2: 3000000000 ms, expected at most 2147483648 ms"
    );
    for text in ["", "0", "0\n0\n"] {
        assert_eq!(
            error(text),
            "a trace needs a time above 0 ms on its last line"
        );
    }
    let long = "x".repeat(5000);
    assert!(error(&long).len() < 120);
}

#[test]
fn a_trace_is_read_from_settings_and_from_files() {
    let config: LinkConfig = toml::from_str("delay_ms = 5\ntrace = [0, 1, 1, 4]").unwrap();
    assert_eq!(config.trace, Some(trace(&[0, 1, 1, 4])));
    let again: LinkConfig = toml::from_str(&toml::to_string(&config).unwrap()).unwrap();
    assert_eq!(again, config);
    let error = |text| toml::from_str::<LinkConfig>(text).unwrap_err().to_string();
    assert!(error("trace = [0, 5, 3]").contains("trace line 3: 3 ms comes after 5 ms"));
    assert!(error("trace = \"here\"").contains("a list of times"));

    let name = format!("mpquic-sim-trace-{}", std::process::id());
    let path = std::env::temp_dir().join(&name);
    let mut file = std::fs::File::create(&path).unwrap();
    file.write_all(b"0\n1\r\n1\n4\n").unwrap();
    drop(file);
    let text = format!("trace_file = \"{name}\"");
    let mut config: LinkConfig = toml::from_str(&text).unwrap();
    let refused = config.validate().unwrap_err();
    assert!(matches!(refused, LinkConfigError::TraceNotLoaded { .. }));
    let loaded = config.load(&std::env::temp_dir());
    std::fs::remove_file(&path).unwrap();
    assert_eq!(loaded, Ok(()));
    assert_eq!(config.trace, Some(trace(&[0, 1, 1, 4])));
    assert_eq!(config.validate(), Ok(()));
    // Nothing more to load.
    assert_eq!(config.load(Path::new("nowhere")), Ok(()));

    config.trace_file = Some(PathBuf::from("not-there"));
    let error = config.load(Path::new("nowhere")).unwrap_err().to_string();
    assert!(error.contains("nowhere/not-there"), "{error}");
}

#[test]
fn a_trace_takes_the_place_of_a_rate() {
    let both = LinkConfig {
        rate: Some(1),
        ..LinkConfig::from_trace(trace(&[1]), ms(0))
    };
    let error = both.validate().unwrap_err().to_string();
    assert_eq!(error, "link settings `rate` and `trace` exclude each other");
    let steps = LinkConfig::from_trace(trace(&[1]), ms(0)).with_rate_steps([(ms(0), 1)], None);
    assert!(matches!(
        steps.validate(),
        Err(LinkConfigError::Conflict { .. })
    ));
    let change = PlannedChange {
        rate: Some(1),
        ..PlannedChange::at(ms(0))
    };
    let changed = LinkConfig::from_trace(trace(&[1]), ms(0)).with_change(change);
    assert!(matches!(
        changed.validate(),
        Err(LinkConfigError::Conflict { .. })
    ));
}
