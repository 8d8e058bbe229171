//! Where the time of downloads went, as stacked bars and as a table, and how much the order of the
//! paths matters.

use std::fmt::Write as _;

use mpquic_sim::LostTime;

use super::plots::{self, Stack};
use super::svg::escape;
use crate::result::summary::Board;
use crate::run::time_lost;
use crate::view::handshake_path;

/// The colours of the parts.
fn key() -> String {
    let parts = LostTime::NAMES.iter().enumerate();
    let names: String = parts
        .map(|(number, part)| format!("<span><i class=\"c{number}\"></i>{part}</span>"))
        .collect();
    format!("<div class=\"key\">{names}</div>\n")
}

fn table(heads: &[String], rows: &[Vec<String>], names: usize) -> String {
    let class = |at: usize| if at < names { " class=\"l\"" } else { "" };
    let mut text = "<div class=\"wide\"><table>\n<tr>".to_owned();
    for (at, head) in heads.iter().enumerate() {
        let _ = write!(text, "<th{}>{}</th>", class(at), escape(head));
    }
    text += "</tr>\n";
    for row in rows {
        text += "<tr>";
        for (at, cell) in row.iter().enumerate() {
            let _ = write!(text, "<td{}>{}</td>", class(at), escape(cell));
        }
        text += "</tr>\n";
    }
    text + "</table></div>\n"
}

/// The stacked bars of each network or large set, and all of them in a table.
pub(super) fn section(board: &Board<'_>) -> String {
    let rows = time_lost::rows(board);
    if rows.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "<p class=\"facts\">{}</p>\n{}",
        escape(time_lost::LEGEND),
        key()
    );
    let mut left = &*rows;
    while let Some(first) = left.first() {
        let same = |row: &&time_lost::TimeRow| {
            (&row.scenario, &row.workload, &row.congestion)
                == (&first.scenario, &first.workload, &first.congestion)
        };
        let count = left.iter().take_while(same).count();
        let (group, rest) = left.split_at(count);
        let mut title = first.scenario.clone();
        if board.heading.workloads.len() > 1 {
            let _ = write!(title, ", {}", first.workload);
        }
        if board.heading.congestion.len() > 1 {
            let _ = write!(title, ", {}", first.congestion);
        }
        let stacks = group.iter().map(|row| Stack {
            name: row.scheduler.clone(),
            parts: LostTime::NAMES
                .iter()
                .map(|part| {
                    let value = row.parts.get(part).copied().unwrap_or_default();
                    (
                        value,
                        format!("{}: {}", row.scheduler, time_lost::share(row, part)),
                    )
                })
                .collect(),
        });
        let stacks: Vec<_> = stacks.collect();
        let mut marks = Vec::new();
        for (name, value) in [
            (
                "the fluid bound after the shortest handshake",
                first.bounds.get("round_trips").copied(),
            ),
            (
                "the bound with this start",
                first
                    .bounds
                    .get("handshake")
                    .zip(first.bounds.get("startup"))
                    .map(|(a, b)| a + b),
            ),
        ] {
            marks.extend(value.map(|value| (value, name.to_owned())));
        }
        let _ = writeln!(
            text,
            "<div class=\"card\">\n<h3>{}</h3>\n<div class=\"plots\">\n{}</div>\n</div>",
            escape(&title),
            plots::stacks(&stacks, &marks, "time of a download [s], mean"),
        );
        left = rest;
    }
    let (heads, lines) = time_lost::cells(board, &rows);
    let names = heads.iter().position(|head| head == "total").unwrap_or(0);
    let _ = writeln!(
        text,
        "<details><summary>all in a table</summary>\n{}</details>",
        table(&heads, &lines, names)
    );
    text
}

/// How much the order of the paths matters.
pub(super) fn orders(board: &Board<'_>) -> String {
    let spreads = handshake_path::spreads(board);
    if spreads.is_empty() {
        return String::new();
    }
    let (heads, lines) = handshake_path::cells(board, &spreads);
    let names = heads
        .iter()
        .position(|head| head == "last / first")
        .unwrap_or(0);
    format!(
        "<p class=\"facts\">{}</p>\n{}",
        escape(handshake_path::LEGEND),
        table(&heads, &lines, names)
    )
}
