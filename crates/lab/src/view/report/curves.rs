//! Draws means over a number with the bands of their intervals, one line per scheduler: an SVG file of its own.

use super::plots::Trend;
use super::regrets::standalone;
use super::svg::{Anchor, Scale, Svg};

const WIDTH: f64 = 860.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 640.0;
const TOP: f64 = 26.0;
const HEIGHT: f64 = 280.0;
/// From the bottom of one panel to the top of the next.
const GAP: f64 = 66.0;

/// A plot of one network: its title and its lines, whose points are (number, mean, low, high).
#[derive(Debug, Clone)]
pub(crate) struct Curves {
    pub(crate) title: String,
    pub(crate) lines: Vec<(String, Vec<[f64; 4]>)>,
}

/// An SVG file of these plots, one below the other; `over` is the label of the horizontal axis and `value` that of the
/// vertical one.
pub(crate) fn curves(panels: &[Curves], over: &str, value: &str) -> String {
    let mut svg = Svg::new(WIDTH, TOP + panels.len() as f64 * (HEIGHT + GAP));
    for (number, panel) in panels.iter().enumerate() {
        let top = TOP + number as f64 * (HEIGHT + GAP);
        draw(&mut svg, panel, top, over, value);
    }
    let text = svg.finish(&format!("{value} over {over}, one line per scheduler"));
    standalone(&text, WIDTH)
}

fn draw(svg: &mut Svg, panel: &Curves, top: f64, over: &str, value: &str) {
    let bottom = top + HEIGHT;
    let trends: Vec<_> = panel
        .lines
        .iter()
        .enumerate()
        .map(|(colour, (name, points))| Trend {
            name: name.clone(),
            colour,
            points: points.clone(),
        })
        .collect();
    let points = || trends.iter().flat_map(|trend| trend.points.iter());
    let most = points().map(|point| point[0]).fold(1.0, f64::max);
    let across = Scale::linear(0.0, most, LEFT, RIGHT);
    let heights = points().flat_map(|point| point[1..].iter().copied());
    let up = Scale::around(heights, bottom, top);
    svg.y_axis(&up, LEFT, RIGHT, 6);
    svg.x_axis(&across, top, bottom, 8);
    let middle = f64::midpoint(LEFT, RIGHT);
    svg.text("label", Anchor::Middle, middle, bottom + 32.0, over);
    let title = format!("{}: {value}", panel.title);
    svg.text("label", Anchor::Start, 4.0, top - 10.0, &title);
    for trend in &trends {
        let class = format!("c{}", trend.colour % 12);
        let at = |point: &[f64; 4], height: usize| (across.at(point[0]), up.at(point[height]));
        let low = trend.points.iter().map(|point| at(point, 2));
        let high = trend.points.iter().rev().map(|point| at(point, 3));
        svg.area(
            &format!("band {class}"),
            &low.chain(high).collect::<Vec<_>>(),
        );
        let line: Vec<_> = trend.points.iter().map(|point| at(point, 1)).collect();
        svg.polyline(&format!("line {class}"), &line, false, &trend.name);
        let y = top + 14.0 + 20.0 * trend.colour as f64;
        svg.line(&format!("line {class}"), RIGHT + 16.0, y, RIGHT + 40.0, y);
        svg.text("name", Anchor::Start, RIGHT + 46.0, y + 4.0, &trend.name);
    }
}
