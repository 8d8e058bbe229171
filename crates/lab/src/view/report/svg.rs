//! Draws axes, lines and labels as inline SVG. The page's style sheet sets the colours.
//!
//! This is a small module of our own instead of a plotting library. Colours must follow the page's
//! light or dark scheme, which needs classes instead of fixed colours, and marks need tooltips.

use std::fmt::Write as _;

use crate::view::text::significant;

/// The height of a text line, and the width of a letter in tick labels, in SVG units.
pub(super) const LINE: f64 = 14.0;
const LETTER: f64 = 6.2;

/// Escapes text for use between tags and in attributes.
pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            c => safe.push(c),
        }
    }
    safe
}

/// The approximate width of a label.
pub(super) fn width_of(label: &str) -> f64 {
    label.chars().count() as f64 * LETTER
}

/// The position of values on an axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    /// In SVG units.
    from: f64,
    to: f64,
    log: bool,
}

impl Scale {
    /// An axis for these values from `from` to `to` (SVG units), with some margin. It is
    /// logarithmic if the values are positive and span more than a factor of 30.
    pub(super) fn around(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| value.is_finite()) {
            low = low.min(value);
            high = high.max(value);
        }
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        if low > 0.0 && high / low > 30.0 {
            let (low, high) = (low / 1.1, high * 1.1);
            return Self {
                low,
                high,
                from,
                to,
                log: true,
            };
        }
        // If the values vary little, the axis shows their range; otherwise it starts at 0.
        if low > 0.0 && low < 0.5 * high {
            low = 0.0;
        }
        let room = match high - low {
            0.0 => high.abs().max(1e-9) * 0.1,
            span => span * 0.04,
        };
        if low != 0.0 {
            low -= room;
        }
        Self::linear(low, high + room, from, to)
    }

    pub(super) const fn linear(low: f64, high: f64, from: f64, to: f64) -> Self {
        Self {
            low,
            high,
            from,
            to,
            log: false,
        }
    }

    pub(super) fn at(&self, value: f64) -> f64 {
        let share = if self.log {
            (value.max(self.low * 1e-3) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + share.clamp(-0.05, 1.05) * (self.to - self.from)
    }

    pub(super) fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// Round values for tick labels, about this many.
    pub(super) fn ticks(&self, about: usize) -> Vec<f64> {
        if self.log {
            return self.log_ticks(about);
        }
        let step = nice((self.high - self.low) / about.max(1) as f64);
        let first = (self.low / step).ceil();
        let count = ((self.high / step).floor() - first).max(0.0) as usize;
        (0..=count.min(50))
            .map(|n| (first + n as f64) * step)
            .collect()
    }

    fn log_ticks(&self, about: usize) -> Vec<f64> {
        let decades = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
        let all = |steps: &[f64]| -> Vec<f64> {
            let values = decades
                .clone()
                .flat_map(|decade| steps.iter().map(move |step| step * 10_f64.powi(decade)));
            values.filter(|value| self.contains(*value)).collect()
        };
        let dense = all(&[1.0, 2.0, 5.0]);
        if dense.len() <= about + 3 {
            dense
        } else {
            all(&[1.0])
        }
    }
}

/// The smallest of 1, 2 and 5 times a power of ten that is at least `value`.
fn nice(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    // Rounding must not move a value that is already a step to the next one.
    steps
        .into_iter()
        .find(|step| *step >= value * 0.999_999)
        .unwrap_or(10.0 * power)
}

/// Where text is anchored.
#[derive(Debug, Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A drawing in progress.
#[derive(Debug)]
pub(super) struct Svg {
    width: f64,
    height: f64,
    body: String,
}

impl Svg {
    pub(super) fn new(width: f64, height: f64) -> Self {
        Self {
            width,
            height,
            body: String::new(),
        }
    }

    /// The SVG element, with a text for screen readers. It grows by up to a quarter if there is
    /// room.
    pub(super) fn finish(self, label: &str) -> String {
        self.finish_at_most(label, 1.25)
    }

    /// The SVG element. It grows up to this factor if there is room.
    pub(super) fn finish_at_most(self, label: &str, growth: f64) -> String {
        format!(
            "<svg viewBox=\"0 0 {:.0} {:.0}\" role=\"img\" aria-label=\"{}\" style=\"max-width:{:.0}px\">{}</svg>\n",
            self.width,
            self.height,
            escape(label),
            self.width * growth,
            self.body
        )
    }

    pub(super) fn line(&mut self, class: &str, x1: f64, y1: f64, x2: f64, y2: f64) {
        let _ = write!(
            self.body,
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        );
    }

    pub(super) fn rect(
        &mut self,
        class: &str,
        x: f64,
        y: f64,
        width: f64,
        height: f64,
        title: &str,
    ) {
        let _ = write!(
            self.body,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\">{}</rect>",
            width.max(0.0),
            height.max(0.0),
            Self::title(title)
        );
    }

    /// A rectangle with a fixed colour that does not depend on the scheme.
    pub(super) fn tile(
        &mut self,
        fill: &str,
        x: f64,
        y: f64,
        width: f64,
        height: f64,
        title: &str,
    ) {
        let _ = write!(
            self.body,
            "<rect fill=\"{fill}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\">{}</rect>",
            Self::title(title)
        );
    }

    pub(super) fn circle(&mut self, class: &str, x: f64, y: f64, radius: f64, title: &str) {
        let _ = write!(
            self.body,
            "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\">{}</circle>",
            Self::title(title)
        );
    }

    /// A diamond, which marks a paper's number.
    pub(super) fn diamond(&mut self, class: &str, x: f64, y: f64, title: &str) {
        let _ = write!(
            self.body,
            "<path class=\"{class}\" d=\"M{:.1} {y:.1}L{x:.1} {:.1}L{:.1} {y:.1}L{x:.1} {:.1}Z\">{}</path>",
            x - 5.0,
            y - 5.0,
            x + 5.0,
            y + 5.0,
            Self::title(title)
        );
    }

    pub(super) fn text(&mut self, class: &str, anchor: Anchor, x: f64, y: f64, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let _ = write!(
            self.body,
            "<text class=\"{class}\" text-anchor=\"{anchor}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>",
            escape(text)
        );
    }

    /// A line through points. With `steps`, it keeps each height until the next point.
    pub(super) fn polyline(
        &mut self,
        class: &str,
        points: &[(f64, f64)],
        steps: bool,
        title: &str,
    ) {
        let mut path = String::new();
        for (number, (x, y)) in points.iter().enumerate() {
            let _ = match (number, steps) {
                (0, _) => write!(path, "M{x:.1} {y:.1}"),
                (_, true) => write!(path, "H{x:.1}V{y:.1}"),
                (_, false) => write!(path, "L{x:.1} {y:.1}"),
            };
        }
        let _ = write!(
            self.body,
            "<path class=\"{class}\" d=\"{path}\">{}</path>",
            Self::title(title)
        );
    }

    /// A filled outline.
    pub(super) fn area(&mut self, class: &str, points: &[(f64, f64)]) {
        let mut path = String::new();
        for (number, (x, y)) in points.iter().enumerate() {
            let _ = write!(path, "{}{x:.1} {y:.1}", if number == 0 { 'M' } else { 'L' });
        }
        let _ = write!(self.body, "<path class=\"{class}\" d=\"{path}Z\"/>");
    }

    fn title(title: &str) -> String {
        if title.is_empty() {
            return String::new();
        }
        format!("<title>{}</title>", escape(title))
    }

    /// A vertical axis on the left of a frame from `left` to `right`, with lines across it.
    pub(super) fn y_axis(&mut self, scale: &Scale, left: f64, right: f64, about: usize) {
        for tick in scale.ticks(about) {
            let y = scale.at(tick);
            self.line("grid", left, y, right, y);
            self.text("tick", Anchor::End, left - 4.0, y + 4.0, &tick_label(tick));
        }
    }

    /// A horizontal axis below a frame from `top` to `bottom`, with lines across it.
    pub(super) fn x_axis(&mut self, scale: &Scale, top: f64, bottom: f64, about: usize) {
        for tick in scale.ticks(about) {
            let x = scale.at(tick);
            self.line("grid", x, top, x, bottom);
            self.text("tick", Anchor::Middle, x, bottom + LINE, &tick_label(tick));
        }
        self.line("axis", scale.from, bottom, scale.to, bottom);
    }
}

/// The label of a tick.
pub(super) fn tick_label(value: f64) -> String {
    let size = value.abs();
    if size >= 1e6 {
        format!("{}M", significant(value / 1e6, 3))
    } else if size >= 1e4 {
        format!("{}k", significant(value / 1e3, 3))
    } else if size < 1e-9 {
        "0".into()
    } else {
        significant(value, 3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within() {
        let scale = Scale::linear(0.0, 1.3, 0.0, 100.0);
        let labels: Vec<_> = scale.ticks(5).into_iter().map(tick_label).collect();
        assert_eq!(labels, ["0", "0.5", "1"]);
        let scale = Scale::around([0.02, 40.0].into_iter(), 0.0, 100.0);
        let labels: Vec<_> = scale.ticks(8).into_iter().map(tick_label).collect();
        assert_eq!(
            labels,
            [
                "0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "5", "10", "20"
            ]
        );
        assert!(
            (scale.at(0.894) - 50.0).abs() < 0.1,
            "the geometric mean is in the middle"
        );
    }

    #[test]
    fn axes_have_room_and_begin_at_zero_where_that_costs_little() {
        let scale = Scale::around([1.0, 5.0].into_iter(), 0.0, 100.0);
        assert!(scale.contains(0.0) && scale.contains(5.0));
        let narrow = Scale::around([100.0, 110.0].into_iter(), 0.0, 100.0);
        assert!(!narrow.contains(0.0) && narrow.contains(100.0) && narrow.contains(110.0));
        for odd in [vec![], vec![3.0], vec![0.0, 0.0], vec![f64::NAN]] {
            let scale = Scale::around(odd.iter().copied(), 0.0, 100.0);
            assert!(
                scale.at(1.0).is_finite() && !scale.ticks(5).is_empty(),
                "{odd:?}"
            );
        }
    }

    #[test]
    fn what_users_write_cannot_break_out() {
        assert_eq!(
            escape("<a href=\"x\">&"),
            "&lt;a href=&quot;x&quot;&gt;&amp;"
        );
        let mut svg = Svg::new(10.0, 10.0);
        svg.text("tick", Anchor::Start, 0.0, 0.0, "<script>");
        assert!(!svg.finish("</svg>").contains("<script>"));
    }
}
