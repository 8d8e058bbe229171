//! The leaderboard of an arena: a self-contained page, and the same as one JSON document.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::Arena;
use super::table::{Section, json as lines, sections, summary};
use crate::result::record::Heading;
use crate::view::report::escape;

/// The version of the document.
const FORMAT: u32 = 1;

/// Everything that the tables say, and where it comes from: `format`, `title`, `experiment`, `build`, `arena`, and `schedulers`
/// in the order of the leaderboard.
pub(crate) fn document(arena: &Arena, heading: &Heading) -> Value {
    let mut rows = lines(arena).into_iter();
    let whole = rows.next();
    json!({
        "format": FORMAT,
        "title": heading.title,
        "name": heading.name,
        "experiment": heading.experiment,
        "build": heading.build,
        "arena": whole,
        "schedulers": rows.collect::<Vec<_>>(),
    })
}

/// The page, with the plot in it.
pub(crate) fn page(arena: &Arena, heading: &Heading, svg: &str) -> String {
    let title = escape(&heading.title);
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <title>{title}</title>\n<style>\n{}</style>\n</head>\n<body>\n<header>\n<h1>{title}</h1>\n",
        include_str!("../../view/report/style.css")
    );
    let _ = write!(
        page,
        "<p class=\"facts\">{} Build {}. Experiment <code>{}</code> {}.</p>\n</header>\n",
        escape(&summary(arena)),
        escape(&heading.build),
        escape(&heading.name),
        escape(&heading.experiment)
    );
    for (number, section) in sections(arena).iter().enumerate() {
        page += &table(section);
        if number == 0 {
            let _ = writeln!(page, "<div class=\"plots\">{svg}</div>");
        }
    }
    page + "</body>\n</html>\n"
}

/// A text with what stands between back-ticks set as code.
fn with_code(text: &str) -> String {
    let parts = text.split('`').enumerate();
    let parts = parts.map(|(number, part)| match number % 2 {
        1 => format!("<code>{}</code>", escape(part)),
        _ => escape(part),
    });
    parts.collect()
}

fn table(section: &Section) -> String {
    let last = section.heads.len() - section.words;
    let class = |at: usize| match at == 0 || at >= last {
        true => " class=\"l\"",
        false => "",
    };
    let row = |cells: &[String], tag: &str| {
        let cells = cells.iter().enumerate();
        let cells = cells.map(|(at, cell)| format!("<{tag}{}>{}</{tag}>", class(at), escape(cell)));
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    let rows: String = section.rows.iter().map(|cells| row(cells, "td")).collect();
    format!(
        "<h2>{}</h2>\n<p class=\"soft\">{}</p>\n<div class=\"wide\"><table>\n{}{rows}</table></div>\n",
        escape(section.title),
        with_code(&section.note),
        row(&section.heads, "th"),
    )
}
