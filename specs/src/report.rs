//! The report as text.

use std::fmt::Write as _;

use crate::citation::Kind;
use crate::coverage::{Coverage, Judged};
use crate::specification::Level;

/// What to say beside the table.
#[derive(Debug, Default)]
pub struct Options {
    /// Specifications whose requirements are listed: "9000", "rfc9000" or "RFC 9000".
    pub listed: Vec<String>,
    /// List only what is missing or not tested.
    pub open_only: bool,
}

/// The table, and the requirements that `options` asks for.
pub fn report(coverage: &Coverage, options: &Options) -> String {
    let mut out = String::new();
    table(coverage, &mut out);
    for (index, specification) in coverage.specifications.iter().enumerate() {
        if options
            .listed
            .iter()
            .any(|wanted| digits(wanted) == digits(&specification.name))
        {
            for judged in coverage.judge(index) {
                let open = judged.is_missing() || (judged.met && !judged.tested);
                if open || !options.open_only {
                    requirement(&specification.name, &judged, &mut out);
                }
            }
        }
    }
    let _ = writeln!(
        out,
        "\n{} citations, {} of them wrong",
        total(coverage),
        coverage.wrong.len()
    );
    for (citation, why) in &coverage.wrong {
        let _ = writeln!(out, "{}:{}: {why}", citation.file.display(), citation.line);
    }
    for deviation in coverage.unexplained() {
        let _ = writeln!(
            out,
            "{}:{}: RFC {} {}: no exception says what is different",
            crate::deviations::PAGE,
            deviation.line,
            deviation.rfc,
            deviation.section
        );
    }
    out
}

fn table(coverage: &Coverage, out: &mut String) {
    let _ = writeln!(
        out,
        "{:18}{:>7}{:>7}{:>8}{:>11}{:>9}",
        "", "total", "met", "tested", "exception", "missing"
    );
    for (index, specification) in coverage.specifications.iter().enumerate() {
        for level in Level::ALL {
            let counts = coverage.counts(index, level);
            let _ = writeln!(
                out,
                "{:10}{level:8}{:>7}{:>7}{:>8}{:>11}{:>9}",
                specification.name,
                counts.total,
                counts.met,
                counts.tested,
                counts.excepted,
                counts.missing,
            );
        }
    }
}

fn requirement(name: &str, judged: &Judged<'_>, out: &mut String) {
    let word = match (judged.met, judged.tested, judged.excepted) {
        (true, _, true) => "deviates",
        (true, true, _) => "tested",
        (true, false, _) => "met, not tested",
        (false, _, true) => "exception",
        (false, _, false) if judged.citations.is_empty() => "missing",
        (false, _, false) => "missing in part",
    };
    let _ = writeln!(
        out,
        "\n{name} {} ({}): {word}",
        judged.section.id, judged.section.title
    );
    let _ = writeln!(out, "  {}", judged.requirement.text);
    for citation in &judged.citations {
        let kind = match citation.kind {
            Kind::Implementation => "code",
            Kind::Test => "test",
            Kind::Implication => "by construction",
            Kind::Exception => "exception",
        };
        let _ = write!(
            out,
            "  - {kind}: {}:{}",
            citation.file.display(),
            citation.line
        );
        let _ = if citation.reason.is_empty() {
            writeln!(out)
        } else {
            writeln!(out, ": {}", citation.reason)
        };
    }
}

fn total(coverage: &Coverage) -> usize {
    coverage.citations.len() + coverage.wrong.len()
}

fn digits(name: &str) -> String {
    name.chars().filter(char::is_ascii_digit).collect()
}
