//! The plot of a link's rates over time.

use super::regrets::standalone;
use super::svg::{Anchor, Scale, Svg};

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 830.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 216.0;
/// The most points of a line: what the width can show.
const POINTS: usize = 1500;

/// Lines of rates in Mbit/s, in slots of so many seconds, as a picture that stands alone.
pub(crate) fn rates_over_time(title: &str, slot: f64, lines: &[(&str, &[f64])]) -> String {
    let mut svg = Svg::new(WIDTH, HEIGHT);
    let seconds = lines.iter().map(|line| line.1.len()).max().unwrap_or(1) as f64 * slot;
    let most = lines
        .iter()
        .flat_map(|line| line.1)
        .copied()
        .fold(0.1, f64::max);
    let across = Scale::linear(0.0, seconds, LEFT, RIGHT);
    let up = Scale::linear(0.0, most, BOTTOM, TOP);
    svg.y_axis(&up, LEFT, RIGHT, 5);
    svg.x_axis(&across, TOP, BOTTOM, 8);
    let middle = f64::midpoint(LEFT, RIGHT);
    svg.text("label", Anchor::Middle, middle, BOTTOM + 34.0, "time, s");
    svg.text(
        "label",
        Anchor::Start,
        4.0,
        TOP - 12.0,
        &format!("{title}, Mbit/s"),
    );
    for (number, (name, rates)) in lines.iter().enumerate() {
        let every = rates.len().div_ceil(POINTS).max(1);
        // The mean of what falls on one point.
        let points = rates.chunks(every).enumerate().map(|(at, part)| {
            let mean = part.iter().sum::<f64>() / part.len() as f64;
            (across.at((at * every) as f64 * slot), up.at(mean))
        });
        svg.polyline(
            &format!("line c{number}"),
            &points.collect::<Vec<_>>(),
            true,
            name,
        );
        let y = TOP + 14.0 + 18.0 * number as f64;
        svg.line(&format!("line c{number}"), RIGHT + 8.0, y, RIGHT + 26.0, y);
        svg.text("name", Anchor::Start, RIGHT + 30.0, y + 4.0, name);
    }
    standalone(&svg.finish(&format!("Rates of {title} over time")), WIDTH)
}
