//! Reads pages of tables: which command made a section, and which figures stand in its tables.

use std::collections::BTreeMap;

/// Where a figure stands in a section.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// The sentence above the table up to its first comma: the metric with its unit.
    pub(super) metric: String,
    /// The row's names: network, and workload and controller where the table has them.
    pub(super) row: Vec<String>,
    /// The column's head.
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

/// The figures of all tables of medians: the first number of each cell that has one.
pub(super) fn figures(text: &str) -> BTreeMap<Place, String> {
    let mut figures = BTreeMap::new();
    let mut metric = None;
    let mut heads: Vec<String> = Vec::new();
    let mut paragraph = String::new();
    for line in text.lines() {
        if !line.starts_with('|') {
            heads.clear();
            if line.is_empty() {
                if !paragraph.is_empty() {
                    metric = of_medians(&paragraph);
                    paragraph.clear();
                }
            } else {
                paragraph.push_str(line);
                paragraph.push(' ');
            }
            continue;
        }
        let Some((metric, family)) = &metric else {
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
        let is_column = |head: &String| match family {
            None => head.starts_with('`'),
            Some(_) => !NAMES.contains(&head.as_str()),
        };
        let named = heads.iter().position(is_column).unwrap_or(heads.len());
        if named == 0 || cells.len() != heads.len() {
            continue;
        }
        for (column, cell) in heads.iter().zip(&cells).skip(named) {
            if let Some(figure) = first_number(cell) {
                let place = Place {
                    metric: metric.clone(),
                    row: cells[..named].to_vec(),
                    column: match family {
                        None => column.trim_matches('`').to_owned(),
                        Some((scheduler, parameter)) => format!("{scheduler},{parameter}={column}"),
                    },
                };
                figures.insert(place, figure);
            }
        }
    }
    figures
}

/// The heads of the columns before a table's figures.
const NAMES: [&str; 3] = ["network", "workload", "controller"];

/// The metric, if the sentence above a table says that it has medians for each network; and, if its columns are the values of
/// a parameter of one scheduler, these two.
fn of_medians(paragraph: &str) -> Option<(String, Option<(String, String)>)> {
    let (metric, rest) = paragraph.split_once(", median")?;
    let mut family = None;
    let metric = match metric.split_once(" of `") {
        None => metric,
        Some((metric, of)) => {
            let (scheduler, parameter) = of.strip_suffix('`')?.split_once("` over `")?;
            family = Some((scheduler.to_owned(), parameter.to_owned()));
            metric
        }
    };
    let single =
        !paragraph.contains("over all networks of a set") && paragraph.trim_end().ends_with(':');
    // What stands between brackets is the unit; a sentence of words is no metric.
    let one = metric.split_whitespace().count() <= 6 && !metric.contains(['`', '.']);
    (single && one && !rest.is_empty()).then(|| (metric.trim().to_owned(), family))
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
