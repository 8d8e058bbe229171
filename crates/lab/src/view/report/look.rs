//! The picture of connections from their qlog files: their paths over time, their lives, what the scheduler said.

use std::fmt::Write as _;

use super::plots::{self, Mark, Panel, TimeLine};
use super::svg::escape;
use crate::view::qlog_view::{Seen, SeenPath};
use crate::view::text::significant;

/// Reasons of the scheduler that are listed at most.
const MAX_REASONS: usize = 40;

/// The page.
pub(crate) fn look(all: &[Seen]) -> String {
    let title = all.first().map_or("", |seen| &*seen.title);
    let title = escape(&format!("Connection {title}"));
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <title>{title}</title>\n<style>\n{}</style>\n</head>\n<body>\n<header>\n<h1>{title}</h1>\n</header>\n",
        include_str!("style.css")
    );
    for seen in all {
        page += &section(seen);
    }
    page + "</body>\n</html>\n"
}

fn section(seen: &Seen) -> String {
    let mut text = format!("<h2>As the {} saw it</h2>\n", escape(&seen.side));
    let _ = write!(
        text,
        "<p class=\"facts\">{} s, {} events",
        significant(seen.end_s, 3),
        seen.events
    );
    if let Some(began) = &seen.began {
        let _ = write!(text, ", began {}", escape(began));
    }
    if let Some(reason) = &seen.closed {
        let _ = write!(text, "; end: {}", escape(reason));
    }
    text += ".";
    if seen.left_out > 0 {
        let _ = write!(
            text,
            " <b>{} records are missing</b>: the writer could not keep up.",
            seen.left_out
        );
    }
    text += "</p>\n<div class=\"key\">";
    for (number, path) in seen.paths.iter().enumerate() {
        let _ = write!(
            text,
            "<span><i class=\"c{}\"></i>path {}: {}</span>",
            number % 12,
            path.id,
            escape(&path.addresses)
        );
    }
    text += "</div>\n<div class=\"card\"><div class=\"plots\">\n";
    let marks = marks(seen);
    for mut panels in [left(seen), right(seen)] {
        // Only the sender knows of losses, only the receiver of gaps.
        panels.retain(|panel| panel.lines.iter().any(|line| !line.points.is_empty()));
        let _ = writeln!(
            text,
            "<div class=\"time\">{}</div>",
            plots::time_lines_with(&panels, seen.end_s, &marks)
        );
    }
    text += "</div></div>\n";
    text += &lives(seen);
    text += &reasons(seen);
    text
}

/// Where paths fall into trouble, come back, or end.
fn marks(seen: &Seen) -> Vec<Mark> {
    let told = |what: &str| matches!(what, "suspect" | "recovered" | "abandoned" | "moved");
    let marks = seen.life.iter().filter(|life| told(&life.what));
    marks
        .map(|life| Mark {
            at: life.at,
            colour: place(seen, life.path),
            title: format!(
                "path {} {} at {} s",
                life.path,
                life.what,
                significant(life.at, 4)
            ),
        })
        .collect()
}

fn place(seen: &Seen, id: u32) -> usize {
    let mut paths = seen.paths.iter();
    paths.position(|path| path.id == id).unwrap_or(0)
}

fn panel(seen: &Seen, title: &str, scale: f64, of: impl Fn(&SeenPath) -> &[(f64, f64)]) -> Panel {
    let paths = seen.paths.iter().enumerate();
    Panel {
        title: title.into(),
        lines: paths
            .map(|(colour, path)| TimeLine {
                name: format!("path {}", path.id),
                colour,
                points: scaled(of(path), scale, end_of(seen, path)),
            })
            .collect(),
    }
}

/// When a path's lines end: where it was abandoned, or with the connection.
fn end_of(seen: &Seen, path: &SeenPath) -> f64 {
    let mut lives = seen.life.iter();
    let end = lives.find(|life| life.path == path.id && life.what == "abandoned");
    end.map_or(seen.end_s, |life| life.at)
}

/// The points in another unit, with the last value kept until the end.
fn scaled(points: &[(f64, f64)], scale: f64, end: f64) -> Vec<(f64, f64)> {
    let mut scaled: Vec<_> = points.iter().map(|(at, v)| (*at, v / scale)).collect();
    if let Some(&(at, last)) = scaled.last()
        && at < end
    {
        scaled.push((end, last));
    }
    scaled
}

fn left(seen: &Seen) -> Vec<Panel> {
    let rtt = panel(seen, "smoothed RTT [ms]", 1.0, |path| &path.smoothed_rtt);
    vec![
        panel(seen, "congestion window [kB]", 1e3, |path| &path.cwnd),
        panel(seen, "bytes in flight [kB]", 1e3, |path| &path.in_flight),
        panel(seen, "packets in flight", 1.0, |path| {
            &path.packets_in_flight
        }),
        rtt,
        panel(seen, "packets lost so far", 1.0, |path| &path.losses),
    ]
}

fn right(seen: &Seen) -> Vec<Panel> {
    let one = |title: &str, scale: f64, points: &[(f64, f64)]| Panel {
        title: title.into(),
        lines: vec![TimeLine {
            name: title.into(),
            colour: 7,
            points: scaled(points, scale, seen.end_s),
        }],
    };
    vec![
        panel(seen, "sent [Mbit/s]", 1e6, |path| &path.sent_rate),
        panel(seen, "received [Mbit/s]", 1e6, |path| &path.received_rate),
        panel(seen, "share of the scheduler's packets [%]", 1.0, |path| {
            &path.share
        }),
        one("time in which the scheduler waits [%]", 1.0, &seen.waiting),
        one("received out of order [kB]", 1e3, &seen.out_of_order),
    ]
}

fn lives(seen: &Seen) -> String {
    if seen.life.is_empty() {
        return String::new();
    }
    let mut text = "<h3>Lives of the paths</h3>\n<div class=\"wide\"><table>\n\
                    <tr><th>time [s]</th><th class=\"l\">path</th><th class=\"l\"></th></tr>\n"
        .to_owned();
    for life in &seen.life {
        let _ = writeln!(
            text,
            "<tr><td>{}</td><td class=\"l key\" style=\"display:table-cell\"><i class=\"c{}\"></i>{}</td><td class=\"l\">{}</td></tr>",
            significant(life.at, 4),
            place(seen, life.path) % 12,
            life.path,
            escape(&life.what)
        );
    }
    text + "</table></div>\n"
}

fn reasons(seen: &Seen) -> String {
    if seen.decisions.is_empty() {
        return String::new();
    }
    let mut text = "<h3>What the scheduler said</h3>\n<p class=\"facts\">How often its answer changed to this.</p>\n\
                    <div class=\"wide\"><table>\n<tr><th>times</th><th class=\"l\">answer</th><th class=\"l\">why</th></tr>\n"
        .to_owned();
    let mut rows: Vec<_> = seen.decisions.iter().collect();
    rows.sort_by_key(|(_, times)| std::cmp::Reverse(**times));
    for ((what, why), times) in rows.into_iter().take(MAX_REASONS) {
        let _ = writeln!(
            text,
            "<tr><td>{times}</td><td class=\"l\">{}</td><td class=\"l\">{}</td></tr>",
            escape(what),
            escape(why)
        );
    }
    text + "</table></div>\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::qlog_view::Life;

    #[test]
    fn the_lines_of_an_abandoned_path_end_with_it() {
        let path = |id| SeenPath {
            id,
            cwnd: vec![(0.0, 1e4), (1.0, 2e4)],
            ..SeenPath::default()
        };
        let seen = Seen {
            end_s: 9.0,
            paths: vec![path(0), path(1)],
            life: vec![Life {
                at: 3.0,
                path: 1,
                what: "abandoned".into(),
            }],
            ..Seen::default()
        };
        let drawn = panel(&seen, "window", 1e3, |path| &path.cwnd);
        let ends: Vec<_> = drawn.lines.iter().map(|line| line.points.last()).collect();
        assert_eq!(ends, [Some(&(9.0, 20.0)), Some(&(3.0, 20.0))]);
    }
}
