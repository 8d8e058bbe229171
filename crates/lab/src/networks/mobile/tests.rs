//! What the models draw has the statistics of the sources that they cite.

use std::f64::consts::PI;

use super::radio::{self, SHADOWING};
use super::satellite;
use super::wifi;
use super::*;

const HOUR: Duration = Duration::from_secs(3600);

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    sum / count
}

#[track_caller]
fn near(found: f64, expected: f64, percent: f64) {
    let difference = 100.0 * (found / expected - 1.0).abs();
    assert!(difference < percent, "{found}, expected {expected}");
}

#[test]
fn a_seed_is_a_channel() {
    for model in Model::ALL {
        let minute = Duration::from_secs(60);
        let first = model.draw(1, minute);
        assert_eq!(first, model.draw(1, minute), "{model}");
        assert_ne!(first.down, model.draw(2, minute).down, "{model}");
        assert_eq!(first.length(), minute, "{model}");
        assert_eq!(first.up.len(), first.down.len());
        assert_eq!(model.name().parse(), Ok(model));
    }
    let unknown = "lte".parse::<Model>().unwrap_err().to_string();
    assert!(
        unknown.contains("`lte`") && unknown.contains("lte-car, 5g-blockage"),
        "{unknown}"
    );
}

#[test]
fn mean_rates_are_what_is_said() {
    for model in Model::ALL {
        let channels: Vec<_> = (0..16).map(|seed| model.draw(seed, HOUR)).collect();
        let rate = |of: fn(&Channel) -> &Vec<u64>| {
            mean(channels.iter().flat_map(of).map(|rate| *rate as f64))
        };
        near(
            rate(|channel| &channel.down),
            model.mean_rates()[0] as f64,
            5.0,
        );
        near(
            rate(|channel| &channel.up),
            model.mean_rates()[1] as f64,
            5.0,
        );
    }
}

#[test]
fn shadowing_has_the_deviation_and_the_distance_of_the_standard() {
    let draws = &mut Draws::new(1);
    let step = Duration::from_millis(100);
    let speed = 50.0 / 3.6;
    let memory = SHADOWING[1] / speed;
    let mut process = GaussMarkov::new(draws, SHADOWING[0], memory, step);
    let values: Vec<_> = (0..400_000).map(|_| process.next(draws)).collect();
    let variance = mean(values.iter().map(|value| value * value));
    near(variance.sqrt(), 8.0, 3.0);
    assert!(mean(values.iter().copied()).abs() < 0.3);
    // After 50 m, which are 3.6 s.
    let steps = (memory / step.as_secs_f64()) as usize;
    let product = mean(values.iter().zip(&values[steps..]).map(|(a, b)| a * b));
    near(product / variance, 1.0 / std::f64::consts::E, 6.0);
}

/// A truncated Shannon bound: nothing, in between, and the most.
#[test]
fn rates_follow_the_signal_as_in_the_standard() {
    assert_eq!(radio::efficiency(-10.1, radio::DOWN), 0.0);
    near(radio::efficiency(0.0, radio::DOWN), 0.6, 0.01);
    near(
        radio::efficiency(10.0, radio::UP),
        0.4 * 11_f64.log2(),
        0.01,
    );
    // 4.4 bit/s per Hz are reached at 22 dB.
    assert!(radio::efficiency(21.5, radio::DOWN) < 4.4);
    assert_eq!(radio::efficiency(22.5, radio::DOWN), 4.4);
}

#[test]
fn the_others_in_a_cell_are_poisson() {
    let draws = &mut Draws::new(1);
    let mut cell = radio::Cell::new(draws);
    let mut counts = [0.0; 4];
    let (mut share, slots) = (0.0, 1_000_000);
    for _ in 0..slots {
        let others = cell.next(draws);
        share += radio::share(others) / f64::from(slots);
        if let Some(count) = counts.get_mut(others as usize) {
            *count += 1.0 / f64::from(slots);
        }
    }
    let mean = radio::OTHERS[0];
    let mut expected = (-mean).exp();
    for (others, found) in counts.into_iter().enumerate() {
        near(found, expected, 7.0);
        expected *= mean / (others + 1) as f64;
    }
    // The mean of 1 / (1 + others).
    near(share, (1.0 - (-mean).exp()) / mean, 3.0);
}

#[test]
fn a_tunnel_lets_nothing_through_for_its_share_of_the_way() {
    let channels: Vec<_> = (0..30)
        .map(|seed| Model::CommuterTunnel.draw(seed, HOUR))
        .collect();
    let rates = || channels.iter().flat_map(|channel| &channel.down);
    let slow = rates().filter(|rate| **rate < 1_000_000).count() as f64 / rates().count() as f64;
    let [open, tunnel] = radio::TUNNEL;
    // The ramps at both ends cost some of it, deep shadows in the open add some.
    near(slow, tunnel / (open + tunnel), 20.0);
}

#[test]
fn blockages_are_as_long_as_measured() {
    // A blockage takes 15.8 dB away in the mean, and the street's shadowing has 4 dB: what is below half of the median
    // rate is nearly always blocked.
    let channels: Vec<_> = (0..10)
        .map(|seed| Model::FiveGBlockage.draw(seed, HOUR))
        .collect();
    let (mut blocked, mut runs, mut slots) = (0.0, 0.0, 0.0);
    for channel in &channels {
        let mut before = false;
        for rate in &channel.down {
            let now = *rate < 170_000_000;
            blocked += f64::from(u8::from(now));
            runs += f64::from(u8::from(now && !before));
            slots += 1.0;
            before = now;
        }
    }
    // 0.299 s, but for the shortest that fall between slots and for shallow ones.
    near(0.02 * blocked / runs, radio::BLOCKED, 15.0);
    near(
        blocked / slots,
        radio::BLOCKED / (radio::BLOCKED + radio::CLEAR),
        20.0,
    );
    // The depth itself: the mean of what is taken away.
    assert_eq!(radio::DEPTH, 15.8);
}

#[test]
fn another_satellite_comes_every_15_seconds() {
    let channel = Model::LeoSatellite.draw(3, HOUR);
    let times: Vec<_> = channel
        .delays
        .iter()
        .skip(1)
        .map(|delay| delay.0.as_secs_f64())
        .collect();
    assert!(
        times
            .windows(2)
            .all(|pair| (pair[1] - pair[0] - satellite::INTERVAL).abs() < 1e-3)
    );
    assert_eq!(times.len(), 240);
    assert_eq!(channel.outages.len(), 240);
    // Round-trip times of many satellites: the quartiles of the measurement.
    let many = (0..20).map(|seed| Model::LeoSatellite.draw(seed, HOUR));
    let mut round_trips: Vec<f64> = many
        .flat_map(|channel| channel.delays)
        .map(|(_, delay)| 2e3 * delay.as_secs_f64())
        .collect();
    round_trips.sort_by(f64::total_cmp);
    for (quarter, expected) in [1, 2, 3].into_iter().zip(satellite::ROUND_TRIP) {
        near(round_trips[round_trips.len() * quarter / 4], expected, 3.0);
    }
    assert!(round_trips[0] >= 20.0);
    // The mean difference of neighbours, of a round trip over both directions.
    let of_round_trip = 1e3 * channel.delay_sd.as_secs_f64() * std::f64::consts::SQRT_2;
    near(2.0 / PI.sqrt() * of_round_trip, satellite::JITTER, 0.1);
    let mut rates: Vec<_> = (0..20)
        .flat_map(|seed| Model::LeoSatellite.draw(seed, HOUR).down)
        .collect();
    rates.sort_unstable();
    near(rates[rates.len() / 2] as f64, satellite::RATES[0], 3.0);
    assert!(rates[0] as f64 >= satellite::RANGE[0]);
    assert!(*rates.last().unwrap() as f64 <= satellite::RANGE[1]);
}

/// Rice's closed forms for a Rayleigh channel (Bell System Technical Journal 27, 1948; Jakes, Microwave Mobile Communications, 1974):
/// how often the envelope falls below a level, and for how long.
#[test]
fn fading_crosses_levels_as_often_as_rice_says() {
    let step = 1e-3;
    for level_db in [-10.0, -5.0, 0.0] {
        let level = 10_f64.powf(level_db / 10.0);
        let (mut crossings, mut below, mut samples) = (0.0, 0.0, 0.0);
        for seed in 0..30 {
            let mut fading = wifi::Rayleigh::new(&mut Draws::new(seed), step);
            let mut before = false;
            for _ in 0..40_000 {
                let now = fading.next() < level;
                crossings += f64::from(u8::from(now && !before));
                below += f64::from(u8::from(now));
                samples += 1.0;
                before = now;
            }
        }
        let amplitude = level.sqrt();
        let rate = (2.0 * PI).sqrt() * wifi::DOPPLER * amplitude * (-level).exp();
        near(crossings / (samples * step), rate, 6.0);
        let duration = (level.exp() - 1.0) / (amplitude * wifi::DOPPLER * (2.0 * PI).sqrt());
        // Wider: the sum of 32 waves is not quite normal, which is seen at the mean power.
        near(below * step / crossings, duration, 10.0);
    }
}

#[test]
fn modulations_are_used_as_often_as_the_signal_allows() {
    let channels: Vec<_> = (0..20)
        .map(|seed| Model::WifiWalk.draw(seed, HOUR / 12))
        .collect();
    let rates: Vec<_> = channels.iter().flat_map(|channel| &channel.down).collect();
    for (least, rate) in wifi::MODULATIONS {
        let at_least = (wifi::AIR[0] * rate * 1e6) as u64;
        let share = rates
            .iter()
            .filter(|found| ***found + 500_000 >= at_least)
            .count() as f64
            / rates.len() as f64;
        // The power of a Rayleigh channel is exponential.
        let expected = (-10_f64.powf((least - wifi::MEAN) / 10.0)).exp();
        near(share, expected, 5.0);
    }
    assert_eq!(wifi::rate(-82.1), 0.0);
}

#[test]
fn a_link_gets_rates_delays_and_outages() {
    let channel = Channel {
        slot: Duration::from_millis(100),
        down: vec![2_000_000, 2_000_000, 0, 1_000_000],
        up: vec![0; 4],
        delays: vec![
            (Duration::ZERO, Duration::from_millis(9)),
            (Duration::from_millis(250), Duration::from_millis(7)),
        ],
        delay_sd: Duration::from_millis(1),
        outages: vec![mpquic_sim::Outage {
            at: Duration::from_millis(250),
            lasting: Duration::from_millis(20),
        }],
    };
    let mut link = mpquic_sim::LinkConfig::new(1, Duration::from_millis(1));
    channel.apply(&mut link, &channel.down, 2.0);
    let steps: Vec<_> = link
        .rate_steps
        .iter()
        .map(|step| (step.at.as_millis(), step.rate))
        .collect();
    assert_eq!(steps, [(0, 4_000_000), (200, 0), (300, 2_000_000)]);
    assert_eq!(link.rate_period, Some(Duration::from_millis(400)));
    assert_eq!(link.delay, Duration::from_millis(9));
    assert_eq!(link.changes.len(), 1);
    link.validate().unwrap();
    // A link on which nothing ever passes would be refused.
    let mut dead = mpquic_sim::LinkConfig::new(1, Duration::from_millis(1));
    channel.apply(&mut dead, &channel.up, 1.0);
    dead.validate().unwrap();
}

/// The networks of a file with these paths.
fn parsed(paths: &str) -> Result<Vec<crate::NetworkSpec>, String> {
    let text = format!(
        "title = \"a\"\nworkloads = [\"file:1MB\"]\nschedulers = [\"minrtt\"]\n\
         [[network]]\nname = \"one\"\nhandshake = [1, 2]\npaths = [{paths}]\n"
    );
    let experiment = crate::Experiment::parse("x.toml", &text);
    Ok(experiment.map_err(|fault| fault.to_string())?.networks)
}

#[test]
fn each_run_has_a_channel_of_its_own_which_all_schedulers_and_orders_meet() {
    let networks = parsed(
        "{ trace = { model = \"lte-car\", rate = 8, length = \"60s\" } }, { trace = { model = \"lte-car\", seed = 3 }, owd = 40 }",
    )
    .unwrap();
    let [first, second] = &*networks else {
        panic!("{}", networks.len())
    };
    // What is known beforehand.
    assert_eq!(first.paths[0].down.rate, Some(8_000_000));
    assert_eq!(first.paths[0].down.delay, Model::LteCar.delay());
    assert_eq!(first.paths[1].up.delay, Duration::from_millis(40));
    let drawn = first.drawn(1).unwrap();
    assert_eq!(drawn.paths, second.drawn(1).unwrap().paths);
    let other = first.drawn(2).unwrap();
    assert_ne!(drawn.paths[0], other.paths[0]);
    assert_eq!(drawn.paths[1], other.paths[1], "its seed is given");
    assert_ne!(drawn.paths[0].down, drawn.paths[0].up);
    let mean_rate = |network: &crate::NetworkSpec| {
        let link = &network.paths[0].down;
        let times = link.rate_steps.iter().map(|step| step.at.as_secs_f64());
        let ends = times.clone().skip(1).chain([60.0]);
        let areas = link.rate_steps.iter().zip(times.zip(ends));
        areas
            .map(|(step, (from, to))| step.rate as f64 * (to - from))
            .sum::<f64>()
            / 60.0
    };
    // Of many drives, half of the model's rate.
    near(
        mean((0..300).map(|seed| mean_rate(&first.drawn(seed).unwrap()))),
        8e6,
        8.0,
    );
    assert!(
        parsed("{ rate = 5, owd = 20 }, { rate = 5, owd = 20 }").unwrap()[0]
            .drawn(1)
            .is_none()
    );
}

#[test]
fn what_a_model_does_not_take_is_refused() {
    let other = ", { rate = 5, owd = 20 }";
    for (path, fault) in [
        (
            "{ trace = { model = \"lte\" } }",
            "unknown model `lte`, there are: lte-car",
        ),
        (
            "{ trace = { model = \"lte-car\" }, rate = 5 }",
            "a model is given as well",
        ),
        (
            "{ trace = { model = \"lte-car\" }, up = { rate = 5 } }",
            "a model draws both directions",
        ),
        (
            "{ rate = 5, owd = 20, up = { trace = { model = \"lte-car\" } } }",
            "a model draws both directions",
        ),
        (
            "{ trace = { model = \"lte-car\", length = \"10ms\" } }",
            "expected a length from 1 s",
        ),
        ("{ trace = { model = \"lte-car\", speed = 5 } }", "speed"),
        ("{ trace = { seed = 1 } }", "model"),
    ] {
        let error = parsed(&format!("{path}{other}")).unwrap_err();
        assert!(error.contains(fault), "{path}: {error}");
    }
}
