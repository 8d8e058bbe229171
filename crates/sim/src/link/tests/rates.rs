//! Rates that change: steps, scheduled changes, commands.

use super::*;

const fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// When each of `n` packets of 1000 bytes that come at 0 is through.
fn departures(config: LinkConfig, n: usize) -> Vec<Duration> {
    let config = config.with_queue(QueueLimit::Packets(u64::MAX));
    let mut link = Link::new(config, 1).unwrap();
    for i in 0..n {
        link.enqueue(ms(0), 1000, i).unwrap();
    }
    drain(&mut link).iter().map(|exit| exit.at).collect()
}

#[test]
fn a_change_of_rate_holds_for_the_rest_of_a_packet() {
    let mut link = Link::new(bare(8_000_000, ms(0)), 1).unwrap();
    link.enqueue(ms(0), 1000, 0).unwrap();
    link.enqueue(ms(0), 1000, 1).unwrap();
    // Half of the first packet is through; the other half takes ten times as long.
    link.set_rate(us(500), Some(800_000)).unwrap();
    let at: Vec<_> = drain(&mut link).iter().map(|exit| exit.at).collect();
    assert_eq!(at, [us(5500), us(15_500)]);

    link.enqueue(ms(100), 1000, 2).unwrap();
    link.set_rate(ms(101), None).unwrap();
    assert_eq!(drain(&mut link)[0].at, ms(101));
}

#[test]
fn steps_come_at_their_times_and_the_last_holds() {
    // 1 ms a packet, from 2.5 ms on 0.5 ms, from 4 ms on 2 ms.
    let steps = [(us(2500), 16_000_000), (ms(4), 4_000_000)];
    let config = bare(8_000_000, ms(0)).with_rate_steps(steps, None);
    assert_eq!(
        departures(config, 8),
        // The third is half through at 2.5 ms; then 0.25 ms. The sixth has half done at 4 ms.
        [1000, 2000, 2750, 3250, 3750, 5000, 7000, 9000].map(us)
    );
}

#[test]
fn steps_come_over_and_over() {
    // Ten packets in the first 10 ms of each 20 ms, five in the other 10.
    let steps = [(ms(0), 8_000_000), (ms(10), 4_000_000)];
    let config = bare(1, ms(0)).with_rate_steps(steps, Some(ms(20)));
    let at = departures(config, 150);
    for (i, at) in at.into_iter().enumerate() {
        let (round, place) = (i as u64 / 15, i as u64 % 15 + 1);
        let expected = match place {
            ..=10 => place,
            _ => 10 + 2 * (place - 10),
        };
        assert_eq!(at, ms(20 * round + expected), "packet {i}");
    }
}

#[test]
fn an_idle_link_knows_its_step() {
    // The last rate holds into the next round, whose first step is late.
    let steps = [(ms(4), 8_000_000), (ms(6), 4_000_000)];
    let config = bare(2_000_000, ms(0)).with_rate_steps(steps, Some(ms(10)));
    for (at, takes) in [
        (ms(0), ms(4)),
        (ms(4), ms(1)),
        (ms(7), ms(2)),
        (ms(11), ms(2)),
        (ms(10_000_014), ms(1)),
        (ms(10_000_011), ms(2)),
        (ms(10_000_003), us(1500)),
    ] {
        let mut link = Link::new(config.clone(), 1).unwrap();
        link.enqueue(at, 1000, ()).unwrap();
        assert_eq!(drain(&mut link)[0].at, at + takes, "{at:?}");
    }
}

#[test]
fn at_rate_zero_packets_wait() {
    let steps = [(us(500), 0), (ms(10), 8_000_000)];
    let config = bare(8_000_000, ms(3)).with_rate_steps(steps, None);
    // Half before, half after.
    assert_eq!(departures(config, 2), [us(13_500), us(14_500)]);
}

#[test]
fn a_command_ends_the_steps() {
    let steps = [(ms(10), 4_000_000)];
    let config = bare(8_000_000, ms(0)).with_rate_steps(steps, Some(ms(20)));
    let mut link = Link::new(config, 1).unwrap();
    link.set_rate(ms(5), Some(16_000_000)).unwrap();
    link.enqueue(ms(15), 1000, ()).unwrap();
    assert_eq!(drain(&mut link)[0].at, us(15_500));
}

#[test]
fn scheduled_changes_hold_from_their_times_on() {
    let config = bare(8_000_000, ms(10))
        .with_change(PlannedChange {
            rate: Some(4_000_000),
            ..PlannedChange::at(ms(100))
        })
        .with_change(PlannedChange {
            delay: Some(ms(40)),
            ..PlannedChange::at(ms(200))
        })
        .with_change(PlannedChange {
            loss: Some(1.0),
            ..PlannedChange::at(ms(300))
        })
        .with_change(PlannedChange {
            loss: Some(0.0),
            gilbert_elliott: Some(GilbertElliott::new(1.0, 0.0)),
            ..PlannedChange::at(ms(400))
        })
        .with_change(PlannedChange {
            gilbert_elliott: Some(GilbertElliott::new(0.0, 1.0)),
            delay_sd: Some(ms(2)),
            ..PlannedChange::at(ms(500))
        });
    let mut link = Link::new(config, 1).unwrap();
    let mut took = Vec::new();
    for at in [0, 89, 100, 200, 300, 400] {
        link.enqueue(ms(at), 1000, ()).unwrap();
        let exit = drain(&mut link).remove(0);
        took.push((exit.fate.arrives(), exit.at - ms(at)));
    }
    assert_eq!(
        took,
        [
            (true, ms(11)),
            (true, ms(11)),
            (true, ms(12)),
            (true, ms(42)),
            (false, ms(2)),
            (false, ms(2)),
        ]
    );
    // The chain is in its bad state, from which the new numbers let it out after one packet.
    link.enqueue(ms(500), 1000, ()).unwrap();
    assert!(!drain(&mut link)[0].fate.arrives());
    link.enqueue(ms(600), 1000, ()).unwrap();
    let exit = drain(&mut link).remove(0);
    assert!(exit.fate.arrives());
    assert_ne!(exit.at, ms(642));
}

#[test]
fn a_change_meets_what_is_being_serialised() {
    let config = bare(8_000_000, ms(0)).with_change(PlannedChange {
        rate: Some(2_000_000),
        ..PlannedChange::at(us(1500))
    });
    assert_eq!(departures(config, 3), [us(1000), us(3500), us(7500)]);
}

#[test]
fn the_automatic_queue_is_that_of_the_best_times() {
    let steps = [(ms(0), 1_000_000), (ms(10), 50_000_000)];
    let stepped = bare(2_000_000, ms(100)).with_rate_steps(steps, None);
    assert_eq!(stepped.peak_rate(), Some(50_000_000));
    assert_eq!(stepped.queue_limit(), QueueLimit::Packets(926));
    let changed = bare(2_000_000, ms(50)).with_change(PlannedChange {
        rate: Some(50_000_000),
        delay: Some(ms(100)),
        ..PlannedChange::at(ms(1))
    });
    assert_eq!(changed.queue_limit(), QueueLimit::Packets(926));
    let unlimited = LinkConfig::default().with_rate_steps([(ms(1), 5)], None);
    assert_eq!(unlimited.peak_rate(), None);
    let limited = LinkConfig::default().with_rate_steps([(ms(0), 5)], None);
    assert_eq!(limited.peak_rate(), Some(5));
}

#[test]
fn bad_steps_and_changes_are_named() {
    let error = |config: LinkConfig| config.validate().unwrap_err().to_string();
    let base = || bare(8_000_000, ms(0));
    let rate = |at, rate| PlannedChange {
        rate: Some(rate),
        ..PlannedChange::at(at)
    };
    for (config, expected) in [
        (
            base().with_rate_steps([(ms(5), 1), (ms(5), 2)], None),
            "`rate_steps[1].at_ms` is 5, expected a later time",
        ),
        (
            base().with_rate_steps([(ms(5), 1)], Some(ms(5))),
            "`rate_period_ms` is 5, expected 1 ms at least, and more",
        ),
        (
            base().with_rate_steps([(ms(0), 1)], Some(us(10))),
            "`rate_period_ms` is 0.01, expected 1 ms at least",
        ),
        (
            base().with_rate_steps([], Some(ms(5))),
            "`rate_period_ms` is 5, expected none without `rate_steps`",
        ),
        (
            base().with_rate_steps([(ms(0), 5), (ms(1), 0)], None),
            "`rate_steps[1].rate` is 0, expected a rate above 0 at some later time",
        ),
        (
            base().with_rate_steps([(ms(0), 0)], Some(ms(5))),
            "`rate_steps[0].rate` is 0",
        ),
        (
            base().with_change(rate(ms(1), 0)),
            "`changes[0].rate` is 0, expected a rate above 0 at some later time",
        ),
        (
            base()
                .with_rate_steps([(ms(0), 1)], None)
                .with_change(rate(ms(1), 5)),
            "`changes[0].rate` and `rate_steps` exclude each other",
        ),
        (
            base().with_change(PlannedChange {
                loss: Some(1.5),
                ..PlannedChange::at(ms(1))
            }),
            "`changes[0].loss` is 1.5, expected a probability",
        ),
        (
            base().with_change(PlannedChange {
                delay_sd: Some(Duration::from_secs(4000)),
                ..PlannedChange::at(ms(1))
            }),
            "`changes[0].delay_sd_ms` is 4000000",
        ),
        (
            base().with_change(PlannedChange {
                gilbert_elliott: Some(GilbertElliott::new(0.1, -1.0)),
                ..PlannedChange::at(ms(1))
            }),
            "`changes[0].gilbert_elliott.r` is -1",
        ),
        (
            base().with_gilbert_elliott(GilbertElliott::new(f64::NAN, 1.0)),
            "`gilbert_elliott.p` is NaN",
        ),
    ] {
        let error = error(config);
        assert!(error.contains(expected), "{error}");
    }
    // A pause that ends is fine.
    let pause = base()
        .with_change(rate(ms(1), 0))
        .with_change(rate(ms(5), 9));
    assert_eq!(pause.validate(), Ok(()));
    for (loss, burst) in [(0.1, 0.5), (0.9, 1.0), (f64::NAN, 2.0), (0.1, f64::NAN)] {
        assert!(GilbertElliott::from_mean(loss, burst).is_err());
    }
    assert_eq!(GilbertElliott::from_mean(0.5, 1.0).unwrap().p, 1.0);
}

#[test]
fn changing_links_are_read_from_a_file() {
    let text = r#"
        delay_ms = 20
        rate_steps = [{ at_ms = 0, rate = 50_000_000 }, { at_ms = 2500.5, rate = 0 }]
        rate_period_ms = 4000
        gilbert_elliott = { mean_loss = 0.5, mean_burst = 2 }

        [[changes]]
        at_ms = 60_000
        delay_ms = 35
        delay_sd_ms = 2.5
        loss = 0.01
        gilbert_elliott = { p = 0.1, r = 0.5, loss_good = 0.001 }
    "#;
    let config: LinkConfig = toml::from_str(text).unwrap();
    assert_eq!(config.validate(), Ok(()));
    assert_eq!(config.rate_steps[1].at, us(2_500_500));
    assert_eq!(config.rate_period, Some(ms(4000)));
    assert_eq!(config.gilbert_elliott, Some(GilbertElliott::new(0.5, 0.5)));
    let expected = PlannedChange {
        at: ms(60_000),
        rate: None,
        delay: Some(ms(35)),
        delay_sd: Some(us(2500)),
        loss: Some(0.01),
        gilbert_elliott: Some(GilbertElliott {
            loss_good: 0.001,
            ..GilbertElliott::new(0.1, 0.5)
        }),
    };
    assert_eq!(config.changes, [expected]);
    let again: LinkConfig = toml::from_str(&toml::to_string(&config).unwrap()).unwrap();
    assert_eq!(again, config);

    let error = |text| toml::from_str::<LinkConfig>(text).unwrap_err().to_string();
    let half = error("gilbert_elliott = { p = 0.1 }");
    assert!(half.contains("needs either `p` and `r`"), "{half}");
    let unknown = error("gilbert_elliott = { p = 0.1, q = 0.1 }");
    assert!(unknown.contains("unknown field `q`"), "{unknown}");
    let unknown = error("changes = [{ at_ms = 1, rat = 1 }]");
    assert!(unknown.contains("unknown field `rat`"), "{unknown}");
    assert!(error("changes = [{ rate = 1 }]").contains("at_ms"));
}
