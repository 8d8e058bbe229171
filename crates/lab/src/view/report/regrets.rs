//! Draws how often each scheduler's regret is within a limit: one line per scheduler, in a file of its own.

use super::svg::{Anchor, Scale, Svg};

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 430.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 640.0;
const TOP: f64 = 32.0;
const BOTTOM: f64 = 380.0;
/// The largest regret on the axis, in percent.
const MOST: f64 = 40.0;
/// The number of lines, as there are colours.
const LINES: usize = 12;

/// An SVG file with the share of scenarios over the regret in percent. The curves are a scheduler's name
/// and its regrets in ascending order, as ratios. At most twelve are drawn: those that come first, and
/// minRTT and ECF.
pub(crate) fn regrets(curves: &[(&str, &[f64])]) -> String {
    let mut shown: Vec<_> = curves.iter().take(LINES).collect();
    for rival in ["minrtt", "ecf"] {
        let found = curves.iter().skip(LINES).find(|curve| curve.0 == rival);
        if let Some(curve) = found {
            let at = shown
                .iter()
                .rposition(|other| !["minrtt", "ecf"].contains(&other.0));
            if let Some(at) = at {
                shown.remove(at);
            }
            shown.push(curve);
        }
    }
    let mut svg = Svg::new(WIDTH, HEIGHT);
    let across = Scale::linear(-2.0, MOST, LEFT, RIGHT);
    let up = Scale::linear(0.0, 100.0, BOTTOM, TOP);
    svg.y_axis(&up, LEFT, RIGHT, 5);
    svg.x_axis(&across, TOP, BOTTOM, 8);
    svg.line("zero", across.at(2.0), TOP, across.at(2.0), BOTTOM);
    let middle = f64::midpoint(LEFT, RIGHT);
    let label = "regret to the best in hindsight, percent";
    svg.text("label", Anchor::Middle, middle, BOTTOM + 36.0, label);
    svg.text(
        "label",
        Anchor::Start,
        4.0,
        TOP - 18.0,
        "scenarios, percent",
    );
    for (number, (name, regrets)) in shown.iter().enumerate() {
        let count = regrets.len().max(1) as f64;
        let mut points = vec![(LEFT, BOTTOM)];
        for (at, regret) in regrets.iter().enumerate() {
            let excess = (100.0 * (regret - 1.0)).clamp(-2.0, MOST);
            let share = 100.0 * (at + 1) as f64 / count;
            points.push((across.at(excess), up.at(share)));
        }
        svg.polyline(&format!("line c{number}"), &points, true, name);
        let y = TOP + 14.0 + 20.0 * number as f64;
        svg.line(&format!("line c{number}"), RIGHT + 16.0, y, RIGHT + 40.0, y);
        svg.text("name", Anchor::Start, RIGHT + 46.0, y + 4.0, name);
    }
    let text = svg.finish("Share of scenarios over regret, one line per scheduler");
    standalone(&text, WIDTH)
}

/// A drawing as a file of its own, with the style of the report.
pub(super) fn standalone(text: &str, width: f64) -> String {
    let style = include_str!("style.css");
    text.replacen(
        "<svg ",
        &format!("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" "),
        1,
    )
    .replacen(
        '>',
        &format!(
            "><style>{style}</style><rect width=\"100%\" height=\"100%\" fill=\"var(--bg)\"/>"
        ),
        1,
    )
}
