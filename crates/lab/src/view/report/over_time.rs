//! The time lines of the report, per run: windows, RTTs and queues of the paths, and the receiver's out-of-order queue.

use std::fmt::Write as _;

use mpquic_sim::Series;

use super::plots::{self, Panel, TimeLine};
use super::svg::escape;
use crate::run::timelines::RunTimeline;

/// The section; empty if there are no time lines.
pub(super) fn section(runs: &[RunTimeline]) -> String {
    let mut text = String::new();
    let mut last = String::new();
    for run in runs {
        let group = format!("{}, {}, {}", run.network, run.workload, run.congestion);
        if group != last {
            if !last.is_empty() {
                text += "</div>\n</div>\n";
            }
            let _ = writeln!(
                text,
                "<div class=\"card\">\n<h3>{}</h3>\n<p class=\"facts\">Seed {}. {}</p>\n<div class=\"plots\">",
                escape(&group),
                run.seed,
                path_key(run.timeline.server.paths.len())
            );
            last = group;
        }
        // Plots that stand side by side share an axis.
        let same = |other: &&RunTimeline| {
            (&other.network, &other.workload, &other.congestion)
                == (&run.network, &run.workload, &run.congestion)
        };
        let ends = runs.iter().filter(same).map(|other| other.timeline.end_s);
        let end = ends.fold(0.0, f64::max);
        let _ = writeln!(
            text,
            "<div class=\"time\"><h3>{}</h3>\n{}</div>",
            escape(&run.scheduler),
            plots::time_lines(&panels(run), end)
        );
    }
    if !last.is_empty() {
        text += "</div>\n</div>\n";
    }
    text
}

fn path_key(paths: usize) -> String {
    let paths = (0..paths).map(|number| {
        format!(
            "<span class=\"key\" style=\"display:inline\"><i class=\"c{}\"></i>path {}</span>",
            number % 12,
            number + 1
        )
    });
    paths.collect::<Vec<_>>().join(" ")
}

/// The server sends, the client receives.
fn panels(run: &RunTimeline) -> Vec<Panel> {
    let timeline = &run.timeline;
    let interval = timeline.interval_s;
    let end = timeline.end_s;
    let of_paths = |title: &str, scale: f64, peaks: bool, of: &dyn Fn(usize) -> Series| Panel {
        title: title.to_owned(),
        lines: (0..timeline.server.paths.len())
            .map(|number| TimeLine {
                name: format!("path {}", number + 1),
                colour: number,
                points: points(&of(number), interval, end, scale, peaks),
            })
            .collect(),
    };
    let paths = &timeline.server.paths;
    vec![
        of_paths("congestion window [kB]", 1e3, false, &|path| {
            paths[path].cwnd.clone()
        }),
        of_paths("bytes in flight [kB]", 1e3, true, &|path| {
            paths[path].in_flight.clone()
        }),
        of_paths("smoothed RTT [ms]", 1e3, false, &|path| {
            paths[path].smoothed_rtt_us.clone()
        }),
        of_paths("queue on the links [kB]", 1e3, true, &|path| {
            paths[path].queue.clone()
        }),
        Panel {
            title: "out-of-order bytes at the receiver [kB]".into(),
            lines: vec![TimeLine {
                name: "out of order".into(),
                colour: 7,
                points: points(&timeline.client.out_of_order, interval, end, 1e3, true),
            }],
        },
    ]
}

/// A series as points until the end of the run, with or without the peaks within intervals.
fn points(series: &Series, interval: f64, end: f64, scale: f64, peaks: bool) -> Vec<(f64, f64)> {
    let mut points = Vec::with_capacity(series.slot.len() + 1);
    for (at, slot) in series.slot.iter().enumerate() {
        let time = f64::from(*slot) * interval;
        let last = series.last[at] as f64 / scale;
        if peaks && series.max[at] != series.last[at] {
            points.push((time, series.max[at] as f64 / scale));
            points.push((time + 0.9 * interval, last));
        } else {
            points.push((time, last));
        }
    }
    if let Some(&(_, last)) = points.last() {
        points.push((end, last));
    }
    points
}
