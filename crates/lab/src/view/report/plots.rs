//! The kinds of plots: distributions, boxes, lines over a parameter, heat maps, time lines. They
//! take numbers and names.

use super::svg::{Anchor, LINE, Scale, Svg, tick_label, width_of};
use crate::result::statistics::BoxPlot;
use crate::view::text::significant;

/// A named series of values. The number selects its colour.
#[derive(Debug, Clone)]
pub(super) struct Series {
    pub(super) name: String,
    pub(super) colour: usize,
    pub(super) values: Vec<f64>,
    /// A number from a paper.
    pub(super) paper: Option<f64>,
}

/// The colours of the style sheet repeat.
fn class(colour: usize) -> String {
    format!("c{}", colour % 12)
}

/// Empirical distribution functions.
pub(super) fn ecdf(series: &[Series], label: &str, zero: bool) -> String {
    let (width, left, top, height) = (400.0, 38.0, 8.0, 190.0);
    let bottom = top + height;
    let mut svg = Svg::new(width, bottom + 2.0 * LINE + 8.0);
    let values = series
        .iter()
        .flat_map(|series| series.values.iter().copied());
    let values = values.chain(zero.then_some(0.0));
    let x = Scale::around(values, left, width - 10.0);
    let y = Scale::linear(0.0, 1.0, bottom, top);
    svg.y_axis(&y, left, width - 10.0, 4);
    svg.x_axis(&x, top, bottom, 6);
    if zero {
        svg.line("zero", x.at(0.0), top, x.at(0.0), bottom);
    }
    for series in series {
        let mut sorted = series.values.clone();
        sorted.sort_by(f64::total_cmp);
        let Some(&first) = sorted.first() else {
            continue;
        };
        let n = sorted.len() as f64;
        let mut points = vec![(x.at(first), y.at(0.0))];
        points.extend(
            sorted
                .iter()
                .enumerate()
                .map(|(below, &value)| (x.at(value), y.at((below + 1) as f64 / n))),
        );
        let class = format!("line {}", class(series.colour));
        svg.polyline(&class, &points, true, &series.name);
    }
    svg.text(
        "label",
        Anchor::Middle,
        (left + width) / 2.0,
        bottom + 2.0 * LINE + 2.0,
        label,
    );
    svg.finish(&format!("distribution of {label}"))
}

/// Box plots, one below the other, with every value behind them.
pub(super) fn boxes(series: &[Series], label: &str) -> String {
    let row = 26.0;
    let widest = series
        .iter()
        .map(|series| width_of(&series.name))
        .fold(0.0, f64::max);
    let left = (widest * 1.1 + 12.0).clamp(60.0, 190.0);
    let (width, top) = (left + 340.0, 8.0);
    let bottom = top + row * series.len() as f64 + 6.0;
    let mut svg = Svg::new(width, bottom + 2.0 * LINE + 8.0);
    let values = series
        .iter()
        .flat_map(|series| series.values.iter().copied().chain(series.paper));
    let x = Scale::around(values, left, width - 12.0);
    svg.x_axis(&x, top, bottom, 6);
    for (number, series) in series.iter().enumerate() {
        let middle = top + row * (number as f64 + 0.5) + 3.0;
        let colour = class(series.colour);
        svg.text("name", Anchor::End, left - 6.0, middle + 4.0, &series.name);
        for &value in series.values.iter().take(400) {
            svg.circle(&format!("dot {colour}"), x.at(value), middle, 1.8, "");
        }
        if let Some(plot) = BoxPlot::new(&series.values) {
            let [first, median, third] = plot.quartiles;
            let title = format!(
                "{}: median {}, quartiles {} and {}, whiskers {} and {}, {} beyond",
                series.name,
                significant(median, 4),
                significant(first, 4),
                significant(third, 4),
                significant(plot.low, 4),
                significant(plot.high, 4),
                plot.outliers.len(),
            );
            let stroke = format!("whisker {colour}");
            svg.line(&stroke, x.at(plot.low), middle, x.at(first), middle);
            svg.line(&stroke, x.at(third), middle, x.at(plot.high), middle);
            let box_class = format!("box {colour}");
            let box_width = (x.at(third) - x.at(first)).max(1.0);
            svg.rect(
                &box_class,
                x.at(first),
                middle - 8.0,
                box_width,
                16.0,
                &title,
            );
            svg.line(
                &format!("median {colour}"),
                x.at(median),
                middle - 9.0,
                x.at(median),
                middle + 9.0,
            );
        }
        if let Some(paper) = series.paper {
            let title = format!(
                "the paper gives {} for {}",
                significant(paper, 4),
                series.name
            );
            svg.diamond("paper", x.at(paper), middle, &title);
        }
    }
    svg.text(
        "label",
        Anchor::Middle,
        (left + width) / 2.0,
        bottom + 2.0 * LINE + 2.0,
        label,
    );
    svg.finish(&format!("box plots of {label}"))
}

/// A bar of parts, one beside the other.
#[derive(Debug, Clone)]
pub(super) struct Stack {
    pub(super) name: String,
    /// Each part with its tooltip. The place in the list selects the colour.
    pub(super) parts: Vec<(f64, String)>,
}

/// Stacked bars, one below the other, from 0. Marks are values with names, drawn as lines across all
/// bars.
pub(super) fn stacks(stacks: &[Stack], marks: &[(f64, String)], label: &str) -> String {
    let row = 26.0;
    let names = stacks.iter().map(|stack| width_of(&stack.name));
    let left = (names.fold(0.0, f64::max) * 1.1 + 12.0).clamp(60.0, 190.0);
    let (width, top) = (left + 460.0, 8.0);
    let bottom = top + row * stacks.len() as f64 + 6.0;
    let mut svg = Svg::new(width, bottom + 2.0 * LINE + 8.0);
    let sum = |stack: &Stack| stack.parts.iter().map(|part| part.0.max(0.0)).sum::<f64>();
    let most = stacks.iter().map(sum);
    let most = most
        .chain(marks.iter().map(|mark| mark.0))
        .fold(0.0, f64::max);
    let most = if most > 0.0 { most * 1.04 } else { 1.0 };
    let x = Scale::linear(0.0, most, left, width - 12.0);
    svg.x_axis(&x, top, bottom, 8);
    for (number, stack) in stacks.iter().enumerate() {
        let middle = top + row * (number as f64 + 0.5) + 3.0;
        svg.text("name", Anchor::End, left - 6.0, middle + 4.0, &stack.name);
        let mut from = 0.0;
        for (place, (value, title)) in stack.parts.iter().enumerate() {
            let to = from + value.max(0.0);
            let class = format!("point {}", class(place));
            svg.rect(
                &class,
                x.at(from),
                middle - 8.0,
                x.at(to) - x.at(from),
                16.0,
                title,
            );
            from = to;
        }
    }
    for (value, name) in marks {
        svg.line("zero", x.at(*value), top, x.at(*value), bottom);
        let title = format!("{name}: {} s", significant(*value, 4));
        svg.circle("point", x.at(*value), top, 3.0, &title);
    }
    let middle = (left + width) / 2.0;
    svg.text(
        "label",
        Anchor::Middle,
        middle,
        bottom + 2.0 * LINE + 2.0,
        label,
    );
    svg.finish(&format!("stacked bars of {label}"))
}

/// A line over a parameter. Its points are (parameter value, value, low, high).
#[derive(Debug, Clone)]
pub(super) struct Trend {
    pub(super) name: String,
    pub(super) colour: usize,
    pub(super) points: Vec<[f64; 4]>,
}

/// Lines over a parameter, with intervals.
pub(super) fn trends(trends: &[Trend], parameter: &str, label: &str) -> String {
    let (width, left, top, height) = (440.0, 52.0, 14.0, 220.0);
    let bottom = top + height;
    let mut svg = Svg::new(width, bottom + 2.0 * LINE + 8.0);
    let points = || trends.iter().flat_map(|trend| trend.points.iter());
    let xs = points().map(|point| point[0]);
    let (low, high) = xs.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| {
        (low.min(x), high.max(x))
    });
    let room = (high - low).max(1e-9) * 0.04;
    let x = Scale::linear(low - room, high + room, left, width - 10.0);
    let y = Scale::around(
        points().flat_map(|point| point[1..].iter().copied()),
        bottom,
        top,
    );
    svg.y_axis(&y, left, width - 10.0, 5);
    svg.x_axis(&x, top, bottom, 6);
    for (number, trend) in trends.iter().enumerate() {
        let colour = class(trend.colour);
        // Shifted sideways, so that intervals do not hide each other.
        let shift = 2.0 * (number as f64 - (trends.len() as f64 - 1.0) / 2.0);
        let line: Vec<_> = trend
            .points
            .iter()
            .map(|point| (x.at(point[0]) + shift, y.at(point[1])))
            .collect();
        svg.polyline(&format!("line {colour}"), &line, false, &trend.name);
        for (point, at) in trend.points.iter().zip(&line) {
            svg.line(
                &format!("whisker {colour}"),
                at.0,
                y.at(point[2]),
                at.0,
                y.at(point[3]),
            );
            let title = format!(
                "{}: {} at {parameter} {} ({} to {})",
                trend.name,
                significant(point[1], 4),
                significant(point[0], 4),
                significant(point[2], 4),
                significant(point[3], 4),
            );
            svg.circle(&format!("point {colour}"), at.0, at.1, 3.0, &title);
        }
    }
    svg.text(
        "label",
        Anchor::Middle,
        (left + width) / 2.0,
        bottom + 2.0 * LINE + 2.0,
        parameter,
    );
    svg.text("tick", Anchor::Start, 2.0, top - 4.0, label);
    svg.finish(&format!("{label} over {parameter}"))
}

/// The meaning of a heat map's colours.
#[derive(Debug, Clone, Copy)]
pub(super) enum Colours {
    /// The gain in percent, with different colours for gains and losses.
    Gain,
    /// Values between the lowest and the highest of all maps that stand side by side.
    Between(f64, f64),
}

/// A heat map: `values[row][column]`.
#[derive(Debug, Clone)]
pub(super) struct HeatMap {
    pub(super) title: String,
    pub(super) colours: Colours,
    /// The names of both axes.
    pub(super) axes: [String; 2],
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<String>,
    /// Each value with its tooltip.
    pub(super) values: Vec<Vec<Option<(f64, String)>>>,
}

/// The gain with the strongest colour. Larger gains have the same colour.
const FULL_COLOUR: f64 = 50.0;

/// Blue for gains, orange for losses, white in between: colour-blind readers can distinguish these.
fn gain_colour(percent: f64) -> (String, bool) {
    let share = (percent / FULL_COLOUR).clamp(-1.0, 1.0);
    let end = if share < 0.0 {
        [196.0, 78.0, 0.0]
    } else {
        [0.0, 84.0, 158.0]
    };
    // The square root makes small gains easier to distinguish.
    let depth = share.abs().sqrt();
    let mixed = end.map(|end| 250.0 + (end - 250.0) * depth);
    let [r, g, b] = mixed.map(|part| part.round() as u8);
    (format!("#{r:02x}{g:02x}{b:02x}"), depth > 0.62)
}

/// From nearly white to deep green.
fn value_colour(value: f64, low: f64, high: f64) -> (String, bool) {
    let depth = if high > low {
        ((value - low) / (high - low)).clamp(0.0, 1.0)
    } else {
        0.5
    };
    let mixed = [12.0, 92.0, 84.0].map(|end| 244.0 + (end - 244.0) * depth);
    let [r, g, b] = mixed.map(|part| part.round() as u8);
    (format!("#{r:02x}{g:02x}{b:02x}"), depth > 0.55)
}

/// Draws the map.
pub(super) fn heat_map(map: &HeatMap) -> String {
    let (cell_width, cell_height) = (40.0, 22.0);
    let widest = map.rows.iter().map(|row| width_of(row)).fold(0.0, f64::max);
    let (left, top) = ((widest + 12.0).max(width_of(&map.axes[1]) + 8.0), 38.0);
    let width =
        (left + cell_width * map.columns.len() as f64 + 6.0).max(width_of(&map.title) + 10.0);
    let bottom = top + cell_height * map.rows.len() as f64;
    let mut svg = Svg::new(width, bottom + 2.0 * LINE + 6.0);
    svg.text("name", Anchor::Start, 2.0, LINE, &map.title);
    for (at, row) in map.values.iter().enumerate() {
        // The lowest value is at the bottom, as on any axis.
        let y = bottom - cell_height * (at as f64 + 1.0);
        svg.text("tick", Anchor::End, left - 4.0, y + 15.0, &map.rows[at]);
        for (column, value) in row.iter().enumerate() {
            let x = left + cell_width * column as f64;
            let Some((value, title)) = value else {
                continue;
            };
            let (fill, deep) = match map.colours {
                Colours::Gain => gain_colour(*value),
                Colours::Between(low, high) => value_colour(*value, low, high),
            };
            svg.tile(&fill, x, y, cell_width - 1.0, cell_height - 1.0, title);
            let class = if deep { "on-dark" } else { "on-light" };
            let text = match map.colours {
                // More digits would be noise.
                Colours::Gain => significant((value * 10.0).round() / 10.0, 2),
                Colours::Between(..) => significant(*value, 3),
            };
            svg.text(class, Anchor::Middle, x + cell_width / 2.0, y + 15.0, &text);
        }
    }
    for (at, column) in map.columns.iter().enumerate() {
        let x = left + cell_width * (at as f64 + 0.5);
        svg.text("tick", Anchor::Middle, x, bottom + LINE, column);
    }
    let middle = left + cell_width * map.columns.len() as f64 / 2.0;
    svg.text(
        "label",
        Anchor::Middle,
        middle,
        bottom + 2.0 * LINE,
        &map.axes[0],
    );
    svg.text("label", Anchor::Start, 2.0, top + (bottom - top) / 2.0, "");
    svg.text("tick", Anchor::End, left - 4.0, top - 1.0, &map.axes[1]);
    // Maps that stand side by side have the same size.
    svg.finish_at_most(&map.title, 1.0)
}

/// One panel of time lines.
#[derive(Debug, Clone)]
pub(super) struct Panel {
    pub(super) title: String,
    pub(super) lines: Vec<TimeLine>,
}

/// A value over time.
#[derive(Debug, Clone)]
pub(super) struct TimeLine {
    pub(super) name: String,
    pub(super) colour: usize,
    /// Seconds and values.
    pub(super) points: Vec<(f64, f64)>,
}

/// A moment that is marked in all panels.
#[derive(Debug, Clone)]
pub(super) struct Mark {
    /// Seconds.
    pub(super) at: f64,
    pub(super) colour: usize,
    pub(super) title: String,
}

/// Panels over the same time.
pub(super) fn time_lines(panels: &[Panel], end: f64) -> String {
    time_lines_with(panels, end, &[])
}

/// The same with moments marked.
pub(super) fn time_lines_with(panels: &[Panel], end: f64, marks: &[Mark]) -> String {
    let (width, left, height, gap) = (520.0, 44.0, 74.0, 24.0);
    let total = panels.len() as f64 * (height + gap) + 2.0 * LINE + 4.0;
    let mut svg = Svg::new(width, total);
    let x = Scale::linear(0.0, end.max(1e-6), left, width - 8.0);
    for (number, panel) in panels.iter().enumerate() {
        let top = number as f64 * (height + gap) + gap - 4.0;
        let bottom = top + height;
        let values = panel.lines.iter().flat_map(|line| line.points.iter());
        let most = values.map(|point| point.1).fold(0.0, f64::max);
        let y = Scale::linear(0.0, if most > 0.0 { most * 1.05 } else { 1.0 }, bottom, top);
        svg.text("label", Anchor::Start, left, top - 5.0, &panel.title);
        svg.y_axis(&y, left, width - 8.0, 3);
        for tick in x.ticks(8) {
            svg.line("grid", x.at(tick), top, x.at(tick), bottom);
            if number + 1 == panels.len() {
                svg.text(
                    "tick",
                    Anchor::Middle,
                    x.at(tick),
                    bottom + LINE,
                    &tick_label(tick),
                );
            }
        }
        svg.line("axis", left, bottom, width - 8.0, bottom);
        for mark in marks {
            let class = format!("mark {}", class(mark.colour));
            let at = x.at(mark.at);
            svg.polyline(&class, &[(at, top), (at, bottom)], false, &mark.title);
        }
        for line in &panel.lines {
            let points = line.points.iter().map(|(t, v)| (x.at(*t), y.at(*v)));
            let points: Vec<_> = points.collect();
            let class = format!("thin {}", class(line.colour));
            svg.polyline(&class, &points, true, &line.name);
        }
    }
    svg.text(
        "label",
        Anchor::Middle,
        (left + width) / 2.0,
        total - 4.0,
        "time [s]",
    );
    svg.finish("time lines")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gains_are_blue_and_losses_orange() {
        assert_eq!(gain_colour(0.0), ("#fafafa".into(), false));
        assert_eq!(gain_colour(80.0), ("#00549e".into(), true));
        assert_eq!(gain_colour(-50.0), ("#c44e00".into(), true));
    }

    #[test]
    fn plots_take_nothing_and_odd_values() {
        let series = |values: &[f64]| Series {
            name: "a".into(),
            colour: 13,
            values: values.to_vec(),
            paper: Some(3.0),
        };
        for values in [&[][..], &[1.0], &[1.0, 1.0], &[0.0, 1e9]] {
            for svg in [
                ecdf(&[series(values)], "s", true),
                boxes(&[series(values)], "s"),
            ] {
                assert!(svg.starts_with("<svg") && !svg.contains("NaN") && !svg.contains("inf"));
            }
        }
        let flat = Trend {
            name: "a".into(),
            colour: 0,
            points: vec![[1.0; 4]],
        };
        assert!(!trends(&[flat], "x", "y").contains("NaN"));
        assert!(!time_lines(&[], 0.0).contains("NaN"));
        let stack = |parts: &[f64]| Stack {
            name: "a".into(),
            parts: parts.iter().map(|part| (*part, "part".into())).collect(),
        };
        for parts in [&[][..], &[0.0], &[1.0, 0.0, 1e9], &[-1.0]] {
            let svg = stacks(&[stack(parts)], &[(2.0, "a bound".into())], "s");
            assert!(svg.starts_with("<svg") && !svg.contains("NaN") && !svg.contains("inf"));
        }
    }
}
