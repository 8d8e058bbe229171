//! The HTML report of results: one self-contained file that works offline and follows the light or
//! dark scheme of the reader's system.

mod cells;
mod curves;
mod look;
mod over_time;
mod plots;
mod rates;
mod regrets;
mod sets;
mod settings;
mod spent;
mod svg;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use crate::result::compare::{Checked, Outcome, check_claims};
use crate::result::summary::Board;
use crate::run::timelines;
pub(crate) use curves::{Curves, curves};
pub(crate) use look::look;
pub(crate) use rates::rates_over_time;
pub(crate) use regrets::regrets;
pub(crate) use svg::escape;

/// Sets with more networks than this are shown as a whole, not per network.
pub(crate) const MAX_SINGLE: usize = 12;

/// The report. Time lines are read from the results' folder.
pub(crate) fn html(board: &Board<'_>, folder: &Path) -> io::Result<String> {
    let heading = board.heading;
    let time_lines = over_time::section(&timelines::read(folder)?);
    let mut sections = vec![
        (
            "claims",
            "What the source says, and what came out",
            claims(board),
        ),
        ("results", "Results", cells::tables(board)),
        (
            "networks",
            "Over all networks of a set",
            sets::section(board),
        ),
        (
            "settings",
            "Over a scheduler's setting",
            settings::section(board),
        ),
        (
            "plots",
            "Distributions over seeds",
            cells::distributions(board),
        ),
        ("spent", "Where the time went", spent::section(board)),
        (
            "orders",
            "Which path carries the handshake",
            spent::orders(board),
        ),
        ("time", "One run over time", time_lines),
        ("failures", "Runs that failed", failures(board)),
    ];
    sections.retain(|section| !section.2.is_empty());

    let mut page = String::new();
    let title = escape(&heading.title);
    page += "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n";
    let _ = writeln!(page, "<title>{title}</title>");
    let _ = writeln!(
        page,
        "<style>\n{}</style>\n</head>\n<body>",
        include_str!("style.css")
    );
    let _ = writeln!(page, "<header>\n<h1>{title}</h1>");
    let paragraph = |class: &str, lead: &str, text: &str| {
        if text.is_empty() {
            return String::new();
        }
        format!("<p class=\"{class}\">{lead}{}</p>\n", escape(text))
    };
    page += &paragraph("", "", &heading.about);
    page += &paragraph("soft", "Source: ", &heading.source);
    page += &paragraph("soft", "Expected: ", &heading.expect);
    page += &facts(board);
    page += "<nav>";
    for (id, name, _) in &sections {
        let _ = write!(page, "<a href=\"#{id}\">{name}</a>");
    }
    page += "</nav>\n";
    page += &key(board);
    page += "</header>\n";
    for (id, name, body) in &sections {
        // For lines without names beside them.
        let key = match *id {
            "networks" | "settings" | "plots" => key(board),
            _ => String::new(),
        };
        let _ = writeln!(page, "<h2 id=\"{id}\">{name}</h2>\n{key}{body}");
    }
    page += &footer(board);
    page += "</body>\n</html>\n";
    Ok(page)
}

fn facts(board: &Board<'_>) -> String {
    let heading = board.heading;
    let count =
        |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let parts = [
        count(heading.networks.len(), "network"),
        count(heading.workloads.len(), "workload"),
        count(heading.schedulers.len(), "scheduler"),
        count(heading.congestion.len(), "congestion control"),
        count(board.seeds(), "seed"),
    ];
    format!(
        "<p class=\"facts\">{} (the same seeds for all). Build {}. Experiment <code>{}</code>.</p>\n",
        parts.join(", "),
        escape(&heading.build),
        escape(&heading.name),
    )
}

/// The colours of the schedulers.
fn key(board: &Board<'_>) -> String {
    let mut text = "<div class=\"key\">".to_owned();
    for (number, spec) in board.heading.schedulers.iter().enumerate() {
        let config = match &spec.config {
            serde_json::Value::Null => spec.name.clone(),
            config => format!("{} {config}", spec.name),
        };
        let _ = write!(
            text,
            "<span title=\"{}\"><i class=\"c{}\"></i>{}</span>",
            escape(&config),
            number % 12,
            escape(&spec.label)
        );
    }
    text + "</div>\n"
}

/// The number of a scheduler's colour.
fn colour(board: &Board<'_>, label: &str) -> usize {
    let specs = &board.heading.schedulers;
    specs
        .iter()
        .position(|spec| spec.label == label)
        .unwrap_or(0)
}

fn badge(outcome: Outcome) -> String {
    let class = match outcome {
        Outcome::Holds => "holds",
        Outcome::NoDifference => "no_difference",
        Outcome::Reversed => "reversed",
        Outcome::TooFew => "too_few",
    };
    format!("<span class=\"badge {class}\">{}</span>", outcome.words())
}

fn claims(board: &Board<'_>) -> String {
    let mut text = String::new();
    for checked in check_claims(board) {
        text += &claim(&checked);
    }
    text
}

fn claim(checked: &Checked<'_>) -> String {
    let mut text = "<div class=\"card\">\n".to_owned();
    // A statement about many cases gets the badge of the most frequent outcome.
    let outcomes = [
        Outcome::Holds,
        Outcome::NoDifference,
        Outcome::Reversed,
        Outcome::TooFew,
    ];
    let most = outcomes.into_iter().max_by_key(|outcome| {
        // On a tie, the outcome that supports the paper less.
        (checked.count(*outcome), *outcome)
    });
    let all_agree = most.is_some_and(|most| checked.count(most) == checked.cases.len());
    let badge = match most {
        Some(most) if all_agree && !checked.cases.is_empty() => badge(most),
        _ if checked.cases.is_empty() => String::new(),
        _ => "<span class=\"badge no_difference\">in part</span>".into(),
    };
    let source = match &*checked.claim.source {
        "" => String::new(),
        source => format!(" <span class=\"soft\">({})</span>", escape(source)),
    };
    let _ = writeln!(
        text,
        "<p>{badge}<b>{}</b>{source}</p>\n<p>{}.</p>",
        escape(&checked.claim.text),
        escape(&checked.sentence())
    );
    if checked.cases.len() > 1 {
        let open = if checked.cases.len() <= 6 {
            " open=\"open\""
        } else {
            ""
        };
        let _ = writeln!(
            text,
            "<details{open}><summary>each comparison</summary>\n<ul>"
        );
        for case in checked.cases.iter().take(400) {
            let _ = writeln!(
                text,
                "<li>{} {}: {}</li>",
                self::badge(case.outcome),
                escape(&case.group),
                escape(&case.comparison.sentence())
            );
        }
        text += "</ul>\n</details>\n";
    }
    text + "</div>\n"
}

fn failures(board: &Board<'_>) -> String {
    let mut text = String::new();
    for (cell, seed, error) in board.failures().take(100) {
        let _ = writeln!(
            text,
            "<li><code>{}</code>, seed {seed}: {}</li>",
            escape(&cell.to_string()),
            escape(error)
        );
    }
    if text.is_empty() {
        return text;
    }
    format!("<ul>\n{text}</ul>\n")
}

fn footer(board: &Board<'_>) -> String {
    let paper = if board.heading.paper.is_empty() {
        ""
    } else {
        " Diamonds are the paper's numbers."
    };
    format!(
        "<footer>Medians with 95 % percentile bootstrap intervals (2000 resamples, seeded). Schedulers are compared seed \
         by seed: the difference is the median of the paired differences, in percent of the reference's median, and it is \
         called one only if its 95 % interval excludes zero. \u{201c}Of bound\u{201d} is the value over the fluid bound of the \
         same network: all links at full rate, no losses.{paper}</footer>\n"
    )
}
