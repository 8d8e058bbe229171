//! The counts of verdicts in `docs/results/README.md` are those of its rows, one for each claim.

use std::collections::BTreeMap;
use std::path::Path;

/// What the claims of a paper came to: reproduced, in part, not, cannot tell.
type Counts = [usize; 4];

/// Where a verdict counts: by its first words. A condition makes it one in part.
fn place(verdict: &str) -> Option<usize> {
    let rest = |start| verdict.strip_prefix(start);
    if let Some(rest) = rest("reproduced") {
        let whole = rest.is_empty() || rest.starts_with([':', ',']);
        return Some(usize::from(!whole));
    }
    [("in part", 1), ("not reproduced", 2), ("cannot tell", 3)]
        .into_iter()
        .find_map(|(start, place)| rest(start).map(|_| place))
}

/// The cells of a table's row; none of other lines, of heads and of the sums.
fn cells(line: &str) -> Option<Vec<&str>> {
    let row = line.strip_prefix("| ")?.strip_suffix(" |")?;
    let cells: Vec<_> = row.split(" | ").collect();
    (cells.len() >= 3 && !["claim", "paper", "all five"].contains(&cells[0])).then_some(cells)
}

/// The claims of each paper by their verdicts. Statements of ours count nowhere.
fn counted(rows: &str) -> BTreeMap<&str, Counts> {
    let mut counts = BTreeMap::new();
    for section in rows.split("\n### ").skip(1) {
        let (title, _) = section.split_once(']').unwrap();
        let of_paper: &mut Counts = counts.entry(title.trim_start_matches('[')).or_default();
        for cells in section.lines().filter_map(cells) {
            if cells[1] != "ours" {
                let place = place(cells[2]);
                of_paper[place.unwrap_or_else(|| panic!("{cells:?} begins with no verdict"))] += 1;
            }
        }
    }
    counts
}

#[test]
fn counts_are_those_of_the_rows() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results/README.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (screen, rows) = page.split_once("\n## One line per claim\n").unwrap();
    let (_, screen) = screen
        .split_once("\n## Five papers on one screen\n")
        .unwrap();
    let (screen, _) = screen.split_once("\n## ").unwrap();
    let counts = counted(rows);
    let mut papers = 0;
    let mut sums = [[0; 4]; 2];
    for cells in screen.lines().filter_map(cells) {
        let numbers = |cell: &str| -> Vec<usize> {
            let numbers = cell.split(", ").map(|number| number.parse());
            numbers.collect::<Result<_, _>>().unwrap()
        };
        // Before, and now.
        let said = [numbers(cells[3]), numbers(cells[4])];
        for (sum, said) in sums.iter_mut().zip(&said) {
            for (sum, said) in sum.iter_mut().zip(said) {
                *sum += said;
            }
        }
        let (title, _) = cells[0].trim_start_matches('[').split_once(']').unwrap();
        papers += 1;
        assert_eq!(said[1][..], counts[title][..], "{title}");
    }
    assert_eq!(papers, 5);
    // The last row adds the others up.
    let text = |sum: [usize; 4]| sum.map(|one| one.to_string()).join(", ");
    let all = format!("| all five | | | {} | {} | |", text(sums[0]), text(sums[1]));
    assert!(screen.contains(&all), "{all}");
}

#[test]
fn verdicts_count_by_their_first_words() {
    for (verdict, expected) in [
        ("reproduced", Some(0)),
        ("reproduced, by construction", Some(0)),
        ("reproduced: -15.6 %", Some(0)),
        ("reproduced with OLIA, not with BBRv3", Some(1)),
        ("in part: rarely behind", Some(1)),
        ("not reproduced; reproduced with jitter", Some(2)),
        ("cannot tell: -2.5 %", Some(3)),
        ("level", None),
    ] {
        assert_eq!(place(verdict), expected, "{verdict}");
    }
}
