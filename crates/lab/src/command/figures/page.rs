//! Reads pages of tables: which command made a section, and which figures stand in its tables.

use std::collections::BTreeMap;

/// What a figure is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// One network with one scheduler.
    Network,
    /// All networks of a set, with a scheduler and the one that it is compared with.
    Set,
    /// What a statement is about.
    Verdict,
}

/// Where a figure stands in a section.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) kind: Kind,
    /// The sentence above the table up to its first comma: the metric with its unit. Of a verdict, that it is one.
    pub(super) metric: String,
    /// The row's names: network or set, workload and controller where the table has them, a set's scheduler. Of a verdict, the
    /// statement.
    pub(super) row: Vec<String>,
    /// The column's head. Of a verdict, where the statement is made.
    pub(super) column: String,
}

/// A section that a command made.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Section {
    pub(super) title: String,
    /// The arguments of `mpquic-lab run`.
    pub(super) command: Vec<String>,
    pub(super) figures: BTreeMap<Place, String>,
    /// It says that it was not made again since something changed: its figures are known to have moved.
    pub(super) old: bool,
}

/// What an old section says.
const OLD: &str = "Not made again since ";

/// The sections of a page that name their command.
pub(super) fn sections(page: &str) -> Vec<Section> {
    let mut sections = Vec::new();
    for part in page.split("\n## ").skip(1) {
        let (title, text) = part.split_once('\n').unwrap_or((part, ""));
        let Some(command) = command(text) else {
            continue;
        };
        sections.push(Section {
            title: title.trim().to_owned(),
            command,
            figures: figures(text),
            old: text.contains(OLD),
        });
    }
    sections
}

/// The arguments of the first `mpquic-lab run` between backticks.
fn command(text: &str) -> Option<Vec<String>> {
    let (_, rest) = text.split_once("`mpquic-lab run ")?;
    let (line, _) = rest.split_once('`')?;
    words(line)
}

/// The words of a command line, as a shell would read them: quotes keep spaces; `None` if one is not closed.
fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let (mut word, mut quote) = (None::<String>, None);
    for letter in line.chars() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, _) if letter.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

/// What the lines above a table say that its columns are.
enum Columns {
    /// Schedulers.
    Schedulers,
    /// The values of a parameter of one scheduler.
    Family {
        scheduler: String,
        parameter: String,
    },
    /// What came of a set's networks.
    OfSets,
}

/// The verdicts, the first number of each cell of the tables of medians, and all numbers of the tables of sets.
pub(super) fn figures(text: &str) -> BTreeMap<Place, String> {
    let mut figures = verdicts(text);
    let mut above = None;
    let mut heads: Vec<String> = Vec::new();
    let mut paragraph = String::new();
    for line in text.lines() {
        if !line.starts_with('|') {
            heads.clear();
            if line.is_empty() {
                if !paragraph.is_empty() {
                    above = of_sets(&paragraph).or_else(|| of_medians(&paragraph));
                    paragraph.clear();
                }
            } else {
                paragraph.push_str(line);
                paragraph.push(' ');
            }
            continue;
        }
        let Some((metric, columns)) = &above else {
            continue;
        };
        let cells = cells(line);
        if heads.is_empty() {
            heads = cells;
            continue;
        }
        if cells
            .iter()
            .all(|cell| cell.chars().all(|c| "-:".contains(c)))
        {
            continue;
        }
        let is_figure = |head: &String| match columns {
            Columns::Schedulers => head.starts_with('`'),
            Columns::Family { .. } | Columns::OfSets => !NAMES.contains(&head.as_str()),
        };
        let named = heads.iter().position(is_figure).unwrap_or(heads.len());
        if named == 0 || cells.len() != heads.len() {
            continue;
        }
        for (column, cell) in heads.iter().zip(&cells).skip(named) {
            if let Some(figure) = first_number(cell) {
                let (kind, column) = match columns {
                    Columns::Schedulers => (Kind::Network, column.trim_matches('`').to_owned()),
                    Columns::Family {
                        scheduler,
                        parameter,
                    } => (Kind::Network, format!("{scheduler},{parameter}={column}")),
                    Columns::OfSets => (Kind::Set, column.clone()),
                };
                let row = cells[..named].iter();
                let place = Place {
                    kind,
                    metric: metric.clone(),
                    row: row.map(|name| name.trim_matches('`').to_owned()).collect(),
                    column,
                };
                figures.insert(place, figure);
            }
        }
    }
    figures
}

/// The heads of the columns before a table's figures.
const NAMES: [&str; 5] = ["network", "networks", "workload", "controller", "scheduler"];

/// What stands above the verdicts.
const VERDICTS: &str = "Verdicts over paired seeds:";

/// The verdicts, which are the items of a list.
fn verdicts(text: &str) -> BTreeMap<Place, String> {
    let (_, list) = text.split_once(VERDICTS).unwrap_or_default();
    let list = list.trim_start();
    let (list, _) = list.split_once("\n\n").unwrap_or((list, ""));
    let items = list.strip_prefix("- ").unwrap_or_default().split("\n- ");
    items.filter_map(verdict).collect()
}

/// The verdict of an item: `"statement" (source): **sentence**`, where the source may be missing.
fn verdict(item: &str) -> Option<(Place, String)> {
    let item = item.split_whitespace().collect::<Vec<_>>().join(" ");
    let (statement, sentence) = item.split_once(": **")?;
    let (statement, source) = statement.strip_prefix('"')?.rsplit_once('"')?;
    let source = source.trim().strip_prefix('(').unwrap_or_default();
    let place = Place {
        kind: Kind::Verdict,
        metric: "verdict".into(),
        row: vec![statement.to_owned()],
        column: source.strip_suffix(')').unwrap_or_default().to_owned(),
    };
    Some((place, sentence.strip_suffix("**")?.to_owned()))
}

/// The metric, if the sentence above a table says that it has a row for each scheduler over all networks of a set.
fn of_sets(paragraph: &str) -> Option<(String, Columns)> {
    let (metric, rest) = paragraph.split_once(", each network against ")?;
    let is = metric.ends_with(" over all networks of a set") && rest.trim_end().ends_with(':');
    is.then(|| (metric.to_owned(), Columns::OfSets))
}

/// The metric, if the sentence above a table says that it has medians for each network; and whether its columns are the values
/// of a parameter.
fn of_medians(paragraph: &str) -> Option<(String, Columns)> {
    let (metric, rest) = paragraph.split_once(", median")?;
    let mut columns = Columns::Schedulers;
    let metric = match metric.split_once(" of `") {
        None => metric,
        Some((metric, of)) => {
            let (scheduler, parameter) = of.strip_suffix('`')?.split_once("` over `")?;
            columns = Columns::Family {
                scheduler: scheduler.to_owned(),
                parameter: parameter.to_owned(),
            };
            metric
        }
    };
    let single =
        !paragraph.contains("over all networks of a set") && paragraph.trim_end().ends_with(':');
    // What stands between brackets is the unit; a sentence of words is no metric.
    let one = metric.split_whitespace().count() <= 6 && !metric.contains(['`', '.']);
    (single && one && !rest.is_empty()).then(|| (metric.trim().to_owned(), columns))
}

/// The cells of a row; `\|` does not end one.
fn cells(line: &str) -> Vec<String> {
    let line = line.trim().trim_start_matches('|').replace("\\|", "\u{1}");
    let line = line.strip_suffix('|').unwrap_or(&line);
    let cells = line.split('|');
    cells
        .map(|cell| cell.trim().replace('\u{1}', "|"))
        .collect()
}

/// The number that a cell begins with.
fn first_number(cell: &str) -> Option<String> {
    let first = cell.split([' ', ',']).next()?.trim_matches('*');
    first.parse::<f64>().ok()?;
    Some(first.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Page\n\nWords.\n\n## Figure 4\n\n`mpquic-lab run experiments/a.toml --seeds 6 --only\n'^x|y z$'`, then more.\n\n\
        Text, median of something. No table.\n\n\
        goodput [Mbit/s], median (95 % interval), ratio to the\nbound [paper]; + better:\n\n\
        | network | controller | `rr` | `min\\|rtt` |\n|---|---|---|---|\n\
        | V1 | olia | 7.848 (7.23 .. 8.16), 0.41 - | **4.5** [5] |\n| V2 | olia | - | 0 |\n\n\
        goodput [Mbit/s] of `ucb` over\n`c`, median, the best in bold:\n\n\
        | network | controller | 0 | 0.5 |\n|---|---|---|---|\n| V1 | olia | **7.1** | 6 |\n\n\
        goodput over all networks of a set, each against `rr`, median:\n\n| networks | `rr` |\n|---|---|\n| all | 3 |\n\n\
        ## Words\n\nNothing was run.\n";

    #[test]
    fn sections_have_their_command_and_their_figures() {
        let sections = sections(PAGE);
        assert_eq!(sections.len(), 1);
        let Section {
            title,
            command,
            figures,
            old,
        } = &sections[0];
        assert!(!old);
        assert_eq!(title, "Figure 4");
        let expected = ["experiments/a.toml", "--seeds", "6", "--only", "^x|y z$"];
        assert_eq!(command[..], expected);
        let place = |network: &str, column: &str| Place {
            kind: Kind::Network,
            metric: "goodput [Mbit/s]".into(),
            row: vec![network.into(), "olia".into()],
            column: column.into(),
        };
        let expected = [
            (place("V1", "rr"), "7.848"),
            (place("V1", "min|rtt"), "4.5"),
            (place("V2", "min|rtt"), "0"),
            (place("V1", "ucb,c=0"), "7.1"),
            (place("V1", "ucb,c=0.5"), "6"),
        ];
        let expected = expected.map(|(place, figure)| (place, figure.to_owned()));
        assert_eq!(*figures, BTreeMap::from(expected));
    }

    #[test]
    fn sets_and_verdicts_are_figures_too() {
        let text = "Verdicts over paired seeds:\n\n- \"a is better: (really)\" (figure 6: 68 %): **holds in 3, no\n  difference \
            in 1 of 4 comparisons**\n- \"b\": **holds**\n\n- \"c\": **is no verdict**\n\n\
            time [s] over all networks of a set, each network against `rr` (numbers of\nnetworks):\n\n\
            | networks | controller | scheduler | median | better | median gain |\n|---|---|---|---|---|---|\n\
            | far (20) | olia | `rr` | 1.50 |  |  |\n| far (20) | olia | `a\\|b` | 1.25 | 7 | -3.5 % |\n";
        let figures = figures(text);
        let found: Vec<_> = figures
            .iter()
            .map(|(place, says)| (place.kind, place.row.join("/"), &*place.column, &**says))
            .collect();
        let set = |scheduler: &str, column: &'static str, says: &'static str| {
            (
                Kind::Set,
                format!("far (20)/olia/{scheduler}"),
                column,
                says,
            )
        };
        let verdict = |text: &str, source: &'static str, says: &'static str| {
            (Kind::Verdict, text.to_owned(), source, says)
        };
        let three = "holds in 3, no difference in 1 of 4 comparisons";
        assert_eq!(
            found,
            [
                set("a|b", "better", "7"),
                set("a|b", "median", "1.25"),
                set("a|b", "median gain", "-3.5"),
                set("rr", "median", "1.50"),
                verdict("a is better: (really)", "figure 6: 68 %", three),
                verdict("b", "", "holds"),
            ]
        );
        let metric = "time [s] over all networks of a set";
        let sets = figures.keys().filter(|place| place.kind == Kind::Set);
        assert!(sets.map(|place| &*place.metric).all(|one| one == metric));
    }

    #[test]
    fn an_old_section_says_so() {
        let page = PAGE.replace(
            "Text, median",
            "Not made again since 2026-11-26. Text, median",
        );
        assert!(sections(&page)[0].old);
    }

    #[test]
    fn a_quote_that_is_not_closed_is_no_command() {
        assert_eq!(words("a 'b c"), None);
        assert_eq!(words("a 'b  c'd").unwrap(), ["a", "b  cd"]);
        assert_eq!(command("nothing"), None);
    }
}
